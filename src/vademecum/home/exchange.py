"""Memories out of a vault and into another: Markdown in, Markdown out, byte for byte."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vademecum.errors import NoteError, UsageError, VaultUnwritable
from vademecum.home.capture import _change, _secret_reasons
from vademecum.memory.history import Change, note_changes
from vademecum.memory.memory import Memory, parse_memory, slug
from vademecum.memory.secrets import recognised
from vademecum.vault import note_key, read_note_bytes, write

if TYPE_CHECKING:
    from vademecum.home.vault import HomeVault, Standing

_MOST_BYTES = 1 << 22


@dataclass(slots=True)
class Exchanged:
    """What was copied: the paths that are new, those that were there already with the same content, and what was
    left out, with the reason."""

    written: list[str] = field(default_factory=list)
    there: list[str] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)
    indexed: bool = True

    def as_json(self) -> dict[str, Any]:
        """The outcome with the names of the wire."""
        return {
            "written": self.written,
            "already_there": self.there,
            "refused": [{"path": path, "reason": reason} for path, reason in self.refused],
            "indexed": self.indexed,
        }


def export(home: HomeVault, folder: Path, who: Standing) -> Exchanged:
    """Copy every memory that reaches the caller into a folder, year by year and month by month as in the vault.

    Raises VaultUnwritable, UsageError for a folder inside the vault.
    """
    target = Path(os.path.realpath(folder))
    if target == home.root or home.root in target.parents:
        raise UsageError(f"{folder} lies in the home vault", hint="Name a folder outside of it.")
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise VaultUnwritable(f"{folder} cannot be made: {exc.strerror}") from exc
    done = Exchanged()
    for memory in home.memories(who.caller):
        path = memory.path.removeprefix(f"{home.store.folder}/")
        content, _ = read_note_bytes(str(home.root / memory.path), max_bytes=_MOST_BYTES)
        _put(target, path, content, done)
    return done


def bring_in(home: HomeVault, folder: Path, who: Standing, *, allow_secret: bool = False) -> Exchanged:
    """Copy the memories below a folder into the home vault, each to where it was, or to the month that it names.

    What is no memory is left out, and so is what holds a secret. Raises UsageError, VaultUnwritable.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder", hint="Name a folder that `vade memories export` wrote.")
    source = home.ensure()
    at = datetime.now(UTC)
    done, changes = Exchanged(), list[Change]()
    with home.writing():
        for path in _files(folder):
            try:
                content, _ = read_note_bytes(str(folder / path), max_bytes=_MOST_BYTES)
                text = content.decode()
            except (NoteError, UnicodeDecodeError):
                done.refused.append((path, "it cannot be read as text"))
                continue
            memory = parse_memory(text, path=path)
            problem = _problem(memory, text, allow_secret=allow_secret)
            if problem:
                done.refused.append((path, problem))
                continue
            written = _put(home.root, f"{home.store.folder}/{_place(memory, path)}", content, done)
            if written:
                changes.append(_change(at, "imported", parse_memory(text, path=written), who, text))
        note_changes(home.root, changes)
    done.indexed = home.follow(source, done.written) if done.written else True
    return done


def _problem(memory: Memory, text: str, *, allow_secret: bool) -> str:
    if not memory.is_served:
        return "it is no memory: its properties name no source that memories have"
    found = [] if allow_secret else recognised(text)
    return "; ".join(_secret_reasons(found))


def _place(memory: Memory, path: str) -> str:
    """Year, month and name of a memory: those it had, or those of its date."""
    parts = path.split("/")
    year_and_month = parts[-3:-1]
    if len(year_and_month) == 2 and all(part.isdecimal() for part in year_and_month):
        return "/".join(parts[-3:])
    date = memory.date if len(memory.date) == 10 else "0001-01-01"
    name = parts[-1] if slug(parts[-1].removesuffix(".md")) else f"{date} memory.md"
    return f"{date[:4]}/{date[5:7]}/{name}"


def _put(root: Path, path: str, content: bytes, done: Exchanged) -> str:
    """Copy one file, unless it is there; under another name where that is taken by something else."""
    folder, _, name = path.rpartition("/")
    stem = name.removesuffix(".md")
    for attempt in range(1, 51):
        there = root / folder / (name if attempt == 1 else f"{stem} ({attempt}).md")
        if there.is_file() and not there.is_symlink() and there.read_bytes() == content:
            done.there.append(note_key(f"{folder}/{there.name}"))
            return ""
        if not os.path.lexists(there):
            break

    def name_for(attempt: int) -> str:
        return name if attempt == 1 else f"{stem} ({attempt}).md"

    written = note_key(write.claim(root, folder, content.decode(), name_for, most=50))
    done.written.append(written)
    return written


def _files(folder: Path) -> Iterator[str]:
    """The Markdown files below a folder, by path; hidden ones and links are left out."""
    for below, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            path = Path(below, name)
            if name.lower().endswith(".md") and not name.startswith(".") and not path.is_symlink():
                yield path.relative_to(folder).as_posix()
