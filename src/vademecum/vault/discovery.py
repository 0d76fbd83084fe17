"""Where a vault's memories are, by the memories themselves, and which platforms a project declares there.

Shaped against a store that forks: a folder renamed in Obsidian leaves the manifest pointing to a place that is not
there, and the next memory would begin a second store beside the first. Only what programs wrote has a vote.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from vademecum.errors import NoteError
from vademecum.vault.manifest import Manifest
from vademecum.vault.tree import note_key, read_note_bytes

CAPTURED: Final = "mcp-capture"
"""What `source` says in the properties of a memory that a program wrote."""

_PROBED_CHARACTERS: Final = 800
_MOST_BYTES_A_CHARACTER: Final = 4
# Properties are read as far as this; longer ones are nobody's.
_MOST_BYTES: Final = 1 << 20
_DEPTH: Final = 4
_PLAIN_SEGMENT: Final = re.compile(r"[\w.-]+")
_YEAR: Final = re.compile(r"\d{4}")
_MONTH: Final = re.compile(r"\d{2}")
_MARKER: Final = CAPTURED.encode()


@dataclass(frozen=True, slots=True)
class Found:
    """The folder in which a vault's memories are.

    It is the `configured` one, or was `discovered` by what lies in it. `split`: memories lie in other folders too, and
    this one has the most. `empty`: there are none yet. `counts` has them by the first folder of their path.
    """

    folder: str
    state: Literal["configured", "discovered", "split", "empty"]
    counts: Mapping[str, int]


def memory_folder(root: Path, manifest: Manifest) -> str:
    """The folder of a vault's memories: the one that its manifest means, or where they are now that it is gone.

    Cheap where there are none: a folder can only be theirs if it has years and months in it.
    """
    declared = manifest.memory_root
    if _holds_months(os.path.join(root, declared)):
        return declared
    tops = [entry.path for entry in _entries(str(root)) if entry.is_dir(follow_symlinks=False)]
    return find_memories(root, declared).folder if any(map(_holds_months, tops)) else declared


def _holds_months(top: str) -> bool:
    years = [entry for entry in _entries(top) if _YEAR.fullmatch(entry.name)]
    return any(_MONTH.fullmatch(entry.name) for year in years for entry in _entries(year.path))


def find_memories(root: Path, declared: str) -> Found:
    """Find the folder of a vault's memories, which its manifest declares to be this one. Never raises.

    Every note up to four folders deep is looked at, and no more than the beginning of each. Links are not followed.
    """
    counts = Counter(top for top, path in _notes(root) if _is_captured(path))
    if not counts:
        return Found(declared, "empty", {})
    usable = [top for top in counts if _may_be_root(root, top)]
    # Of two with as many the declared one stays.
    folder = min(usable, key=lambda top: (-counts[top], top != declared, top), default=declared)
    found = {top.encode("utf-8", "replace").decode(): number for top, number in sorted(counts.items())}
    if set(counts) != {folder}:
        return Found(folder, "split", found)
    return Found(folder, "configured" if folder == declared else "discovered", found)


def platforms_of(root: Path, project: str, *, memory_root: str) -> tuple[str, ...]:
    """The platforms that a project's own note declares, wherever in the vault it lies. Never raises.

    Of several notes with its name the first counts: those of a folder come before those below it, both by name. Whether
    the note is served does not matter: what a caller belongs to is its own, and no more than that is read.
    """
    wanted = note_key(f"{project}.md").casefold()
    for path in _files(str(root), leave_out=memory_root):
        if note_key(os.path.basename(path)).casefold() == wanted:
            return _declared_platforms(path)
    return ()


def _may_be_root(root: Path, top: str) -> bool:
    """Whether a manifest could name this folder, and whether the disk knows it by that spelling."""
    return _PLAIN_SEGMENT.fullmatch(top) is not None and os.path.isdir(root / top)


def _notes(root: Path) -> Iterator[tuple[str, str]]:
    """The notes that may be memories, each with the first folder of its path."""
    below = len(str(root).rstrip("/")) + 1
    for path in _files(str(root), depth=_DEPTH):
        top, slash, _ = path[below:].partition("/")
        if slash:
            yield note_key(top), path


def _files(root: str, *, depth: int | None = None, leave_out: str = "") -> Iterator[str]:
    """Paths of the Markdown files below a root, a folder's own first, by name, without following links."""
    left_out = note_key(leave_out).casefold()
    folders = [(root.rstrip("/"), 0)]
    while folders:
        folder, level = folders.pop()
        below = []
        for entry in _entries(folder):
            name = entry.name
            if name.startswith(".") or name == "node_modules":
                continue
            with suppress(OSError):
                if entry.is_dir(follow_symlinks=False):
                    if level != depth and (level or note_key(name).casefold() != left_out):
                        below.append((entry.path, level + 1))
                elif name.lower().endswith(".md") and entry.is_file(follow_symlinks=False):
                    yield entry.path
        folders += reversed(below)


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder or "/") as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except (OSError, ValueError):
        return []


def _is_captured(path: str) -> bool:
    """Whether a program of ours, or the one before, wrote this file: its closed properties say so."""
    content = _head(path, _PROBED_CHARACTERS * _MOST_BYTES_A_CHARACTER)
    if _MARKER not in content:
        return False
    from vademecum.markdown import read_frontmatter

    lines, closed = _properties(content.decode("utf-8", "replace")[:_PROBED_CHARACTERS])
    sources = [line for line in lines if line.startswith("source:")]
    if not sources or read_frontmatter(f"---\n{sources[-1]}\n---\n").properties.get("source") != CAPTURED:
        return False
    # A memory with a long title, corrected by others with long titles: its properties go on beyond the probe.
    return closed or _properties(_head(path, _MOST_BYTES).decode("utf-8", "replace"))[1]


def _properties(text: str) -> tuple[list[str], bool]:
    """The lines of a text's properties, as far as they are there, and whether they end."""
    from vademecum.markdown import normalise

    lines = [line.rstrip() for line in normalise(text).split("\n")]
    if lines[0] != "---":
        return [], False
    return (lines[1 : lines.index("---", 1)], True) if "---" in lines[1:] else (lines[1:], False)


def _declared_platforms(path: str) -> tuple[str, ...]:
    from vademecum.markdown import normalise, read_frontmatter

    text = normalise(_head(path, _MOST_BYTES).decode("utf-8", "replace"))
    value = read_frontmatter(text).properties.get("platforms")
    values = value if isinstance(value, list) else [value]
    names = [" ".join(item.split()) for item in values if isinstance(item, str)]
    return tuple(dict.fromkeys(filter(None, names)))


def _head(path: str, most_bytes: int) -> bytes:
    """The beginning of a file; nothing of one that cannot be read now."""
    try:
        return read_note_bytes(path, max_bytes=most_bytes - 1)[0]
    except (NoteError, ValueError):
        return b""
