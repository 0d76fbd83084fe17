"""Who may see which notes.

One rule, asked in two ways: `visible_notes` says which notes a caller may see, `readable_note` whether this one may
be opened now. Both come down to one verdict, and no third way to a note's text exists: what reads text from the
index demands a `VisibleSet`, and only `visible_notes` can make one. The failure it is shaped against is a second
copy of the rule that forgets a case.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, Protocol

from vademecum.config import nameless_folders
from vademecum.errors import NoteNotFound, NoteWithheld
from vademecum.vault import FileStamp, contained, load_manifest, memory_folder, read_declaration, stamp_of

Withheld = Literal["private", "never_exposed", "outside_roots", "memory_root", "out_of_reach", "superseded"]
"""Why a note or a memory is not served. A `superseded` one is corrected by a memory that the caller may not see."""

_MAX_DEPTH_BELOW_ROOT: Final = 4
_FALLBACK_ROOTS: Final = ("brain", "reference")
_MOST_BYTES: Final = 1 << 24
_PROJECT_FILES: Final = (".vade-project", ".om-project")


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks. Never taken from an argument of the question.

    `project` is None for the owner and for a caller that could not be told; the latter sees what everybody may see.
    """

    project: str | None
    platforms: tuple[str, ...]
    origin: Literal["owner", "flag", "roots", "folder", "anonymous"]

    @property
    def is_owner(self) -> bool:
        """Whether the person whose notes these are asks."""
        return self.origin == "owner"


OWNER: Final = Caller(project=None, platforms=(), origin="owner")
ANONYMOUS: Final = Caller(project=None, platforms=(), origin="anonymous")


Scope = Literal["general", "platform", "project"]
"""How far a memory reaches, from everywhere to the projects it names."""


@dataclass(frozen=True, slots=True)
class Reach:
    """Whom a memory is for, as it declares itself. A rule of relevance, not of secrecy; never widened at reading.

    What its names are compared by is their lower case.
    """

    scope: Scope
    projects: tuple[str, ...] = ()
    platforms: tuple[str, ...] = ()
    _projects: frozenset[str] = field(init=False, repr=False, compare=False)
    _platforms: frozenset[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Every question compares the names of every memory.
        object.__setattr__(self, "_projects", _lowered(self.projects))
        object.__setattr__(self, "_platforms", _lowered(self.platforms))

    def reaches(self, caller: Caller) -> bool:
        """Whether the caller is one of them. Whose notes these are sees all."""
        if self.scope == "general" or caller.is_owner or self.names(caller):
            return True
        return self.scope == "platform" and not self._platforms.isdisjoint(_lowered(caller.platforms))

    def names(self, caller: Caller) -> bool:
        """Whether it names the caller's project."""
        return caller.project is not None and caller.project.lower() in self._projects

    def why(self, caller: Caller) -> str:
        """Why it reaches the caller, or why not, in one sentence."""
        if self.scope == "general":
            return "general reaches every caller"
        if self.names(caller):
            return f'explicitly lists project "{caller.project}"'
        shared = [name for name in caller.platforms if name.lower() in self._platforms]
        if self.scope == "platform" and shared:
            return f"platform scope overlaps caller platforms [{', '.join(shared)}]"
        if caller.is_owner:
            return "the owner sees every memory"
        if caller.project is None:
            return "caller has no identity, only general memories are visible"
        listed = ", ".join(caller.platforms)
        return f'no facet matches caller (project="{caller.project}", platforms=[{listed}])'

    def equals(self, other: Reach) -> bool:
        """Whether both are for the same callers, as they say it."""
        same = self.scope == other.scope and self._projects == other._projects
        return same and self._platforms == other._platforms

    def shares_a_reader(self, other: Reach) -> bool:
        """Whether some caller could see both."""
        if "general" in (self.scope, other.scope) or not self._projects.isdisjoint(other._projects):
            return True
        return self.scope == other.scope == "platform" and not self._platforms.isdisjoint(other._platforms)


def _lowered(names: Sequence[str]) -> frozenset[str]:
    return frozenset(name.lower() for name in names)


@dataclass(frozen=True, slots=True)
class Policy:
    """What one source serves.

    `whole`: every note at any depth. Otherwise only what lies in one of `roots` (path prefixes on whole segments, no
    more than four folders deep). Names in `withheld_names` and everything below `memory_root` are never served.
    """

    roots: tuple[str, ...]
    withheld_names: tuple[str, ...]
    memory_root: str | None
    origin: Literal["manifest", "derived", "fallback", "whole"]

    def as_json(self) -> dict[str, Any]:
        """The policy as plain values, to be kept with the index."""
        return {
            "roots": list(self.roots),
            "withheld_names": list(self.withheld_names),
            "memory_root": self.memory_root,
            "origin": self.origin,
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Policy:
        """The policy that `as_json` gave."""
        return cls(
            roots=tuple(stored["roots"]),
            withheld_names=tuple(stored["withheld_names"]),
            memory_root=stored["memory_root"],
            origin=stored["origin"],
        )


class ShownMemory(Protocol):
    """A memory that a caller may see, by what ranks it. `words` is its title and body."""

    @property
    def path(self) -> str: ...  # noqa: D102

    @property
    def title(self) -> str: ...  # noqa: D102

    @property
    def words(self) -> str: ...  # noqa: D102

    @property
    def date(self) -> str: ...  # noqa: D102

    @property
    def tags(self) -> tuple[str, ...]: ...  # noqa: D102

    @property
    def is_superseded(self) -> bool: ...  # noqa: D102

    @property
    def private(self) -> bool: ...  # noqa: D102

    def facets(self) -> dict[str, Any]: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class Remembered:
    """The memories of a home vault for one caller: those that reach it, in order, and why the others do not, by path.

    `served` gives what is shown for one of them, and whence that is where it is not the memory's own text.
    """

    shown: Mapping[str, ShownMemory]
    withheld: Mapping[str, Withheld]
    served: Callable[[str], tuple[str, Mapping[str, Any]]]


WHOLE: Final = Policy(roots=(), withheld_names=(), memory_root=None, origin="whole")
# What a source serves while nothing at all is known of its manifest: not the whole tree (decision 32).
UNKNOWN: Final = Policy(roots=_FALLBACK_ROOTS, withheld_names=(), memory_root="memories", origin="fallback")


def policy_of(root: Path, *, home: bool = False) -> tuple[Policy, str | None]:
    """The policy of the source at this root, and a diagnostic when its manifest is broken.

    A `home` vault holds memories, whether a manifest says so or not.
    """
    manifest = load_manifest(root)
    if manifest.state == "absent":
        return (replace(WHOLE, memory_root=memory_folder(root, manifest)) if home else WHOLE), None
    memory_root = memory_folder(root, manifest) if home else manifest.memory_root
    origin: Literal["manifest", "derived", "fallback"] = "manifest"
    roots = manifest.roots("mcp_exposed_roots")
    if not roots:
        origin = "derived"
        roots = tuple(r for r in manifest.roots("user_content_roots") if os.path.isdir(root / r))
    if not roots:
        origin = "fallback"
        roots = tuple(r for r in _FALLBACK_ROOTS if os.path.isdir(root / r)) or _FALLBACK_ROOTS
    served = tuple(r for r in roots if not _inside(r, memory_root))
    return Policy(served, manifest.withheld_names, memory_root, origin), manifest.diagnostic


_SEAL: Final = object()


@dataclass(frozen=True, slots=True)
class VisibleSet:
    """The notes that one caller may see, as a rule over what the index knows of each note.

    Made by `visible_notes` alone. `sources` are the ids of the sources it covers, `remembered` the memories of home
    vaults among them.
    """

    caller: Caller
    policies: Mapping[str, Policy]
    remembered: Mapping[str, Remembered]
    seal: InitVar[object] = None

    def __post_init__(self, seal: object) -> None:
        if seal is not _SEAL:
            raise TypeError("a VisibleSet is made by access.visible_notes")

    @property
    def sources(self) -> frozenset[str]:
        """Ids of the sources that may be searched."""
        return frozenset(self.policies)

    def withheld(self, source_id: str, path: str, *, private: bool) -> Withheld | None:
        """Why this note is not served to the caller; None when it is."""
        policy, memories = self.policies[source_id], self.remembered.get(source_id)
        return _verdict(policy, self.caller, path, private=private, memories=memories)

    def is_memory(self, source_id: str, path: str) -> bool:
        """Whether this path is a memory's, shown or withheld."""
        memories = self.remembered.get(source_id)
        return memories is not None and (path in memories.shown or path in memories.withheld)

    def memory(self, source_id: str, path: str) -> ShownMemory | None:
        """The memory of this path, where it is one that the caller may see."""
        memories = self.remembered.get(source_id)
        return None if memories is None else memories.shown.get(path)


def visible_notes(
    caller: Caller, policies: Mapping[str, Policy], remembered: Mapping[str, Remembered] | None = None
) -> VisibleSet:
    """Which notes of these sources, and which memories, the caller may see."""
    return VisibleSet(caller, dict(policies), dict(remembered or {}), _SEAL)


class Readable(NamedTuple):
    """A note that may be opened: its real path, its present stamp, and whether it is private."""

    path: Path
    stamp: FileStamp
    private: bool


class Indexed(Protocol):
    """A note as the index last saw it. `known` is its stamp then, None for one that is not to be believed."""

    @property
    def source_id(self) -> str: ...  # noqa: D102

    @property
    def path(self) -> str: ...  # noqa: D102

    @property
    def disk_path(self) -> str: ...  # noqa: D102

    @property
    def known(self) -> FileStamp | None: ...  # noqa: D102

    @property
    def private(self) -> bool: ...  # noqa: D102


def readable_note(visible: VisibleSet, note: Indexed, *, root: Path) -> Readable:
    """Prove on disk that the caller may open this note now.

    A file that changed since the index saw it is read and judged afresh, so that a note made private is withheld
    before a scan notices.

    Raises NoteWithheld, OutsideRoot, NoteNotFound or NoteUnreadable.
    """
    path, private = note.path, note.private
    file = contained(root, note.disk_path)
    try:
        stamp = stamp_of(os.stat(file, follow_symlinks=False))
    except OSError as exc:
        raise NoteNotFound(f"{path} has just gone") from exc
    if stamp != note.known:
        private = _is_private_now(file)
    reason = visible.withheld(note.source_id, path, private=private)
    if reason is not None:
        raise NoteWithheld(f"{path} is not served to this caller ({reason})", hint=_HINTS[reason])
    return Readable(file, stamp, private)


_HINTS: Final[Mapping[str, str]] = {
    "private": "Its owner can read it: run the command at a terminal, or with --as-owner.",
    "never_exposed": "The vault's manifest names this file as never exposed.",
    "outside_roots": "The vault's manifest does not expose this folder.",
    "memory_root": "Files of the memory root are memories, not notes.",
    "out_of_reach": "It declares that it is for other projects or platforms.",
    "superseded": "It was corrected by a memory that is for other projects or platforms.",
}


def _verdict(
    policy: Policy, caller: Caller, path: str, *, private: bool, memories: Remembered | None
) -> Withheld | None:
    """The one rule. What cannot be told is withheld."""
    if private and not caller.is_owner:
        return "private"
    if memories is not None and policy.memory_root is not None and _inside(path, policy.memory_root):
        return None if path in memories.shown else memories.withheld.get(path, "memory_root")
    if policy.origin == "whole" and not policy.withheld_names and policy.memory_root is None:
        return None
    name = path.replace("\\", "/").rpartition("/")[2].casefold()
    if any(name == withheld.replace("\\", "/").rpartition("/")[2].casefold() for withheld in policy.withheld_names):
        return "never_exposed"
    if policy.memory_root is not None and _inside(path, policy.memory_root):
        return "memory_root"
    if policy.origin != "whole" and not any(_served_by(path, root) for root in policy.roots):
        return "outside_roots"
    return None


def _inside(path: str, root: str) -> bool:
    folded, folder = path.casefold(), root.casefold()
    return folded == folder or folded.startswith(folder + "/")


def _served_by(path: str, root: str) -> bool:
    return _inside(path, root) and path.count("/") - root.count("/") - 1 <= _MAX_DEPTH_BELOW_ROOT


def _is_private_now(file: Path) -> bool:
    """Whether a file that the index has not seen in this form is private. Raises NoteUnreadable."""
    from vademecum.markdown import parse
    from vademecum.vault import read_note_bytes

    content, _ = read_note_bytes(str(file), max_bytes=_MOST_BYTES)
    return len(content) > _MOST_BYTES or parse(content.decode("utf-8", "replace"), stem=file.stem).private


def caller_in(folder: Path) -> Caller:
    """The project whose folder a command runs in.

    A `.vade-project` or `.om-project` file there, or at the root of its git checkout, names it; else the folder's own
    name. The home folder, a file system's root and temporary folders name nothing.
    """
    place = checkout(folder)
    for name in _PROJECT_FILES:
        declared = _declared_project(place / name)
        if declared is not None:
            return Caller(declared, (), "folder")
    if place in nameless_folders():
        return ANONYMOUS
    return Caller(_as_project(place.name), (), "folder")


def _as_project(name: str) -> str:
    """A folder's name as memories write it, who could not find it again otherwise."""
    import unicodedata

    text = os.fsencode(name).decode("utf-8", "replace")
    return " ".join(unicodedata.normalize("NFC", text).split()).lower()


def checkout(folder: Path) -> Path:
    """The root of the git checkout that a folder lies in, else the folder itself; links resolved."""
    real = Path(os.path.realpath(folder))
    for place in (real, *real.parents):
        if (place / ".git").exists():
            return place
    return real


def _declared_project(file: Path) -> str | None:
    import re

    try:
        text = read_declaration(file) or ""
    except (OSError, ValueError):
        return None
    lines = text.splitlines()[:50]
    first = next((line.strip() for line in lines if line.strip() and not line.strip().startswith("#")), "")
    return first.lower() if re.fullmatch(r"[\w.-]+", first) else None
