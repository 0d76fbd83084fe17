"""Where a link leads: the rule, on names and paths alone.

exact path → relative to the note → the end of a path, which for a plain name is the file's name. These steps are gone
through for files that are called just what the target says, then for notes, then for boards and other files; aliases
come last. Within a step, what is spelled exactly so comes first, then the note's own folder, then the shortest path,
then code points. So the answer depends on the files that are there and on nothing else: not on the order in which they
were indexed, and not on who asks. The failure it is shaped against is a second copy of the rule that sends one link two
ways.
"""

from __future__ import annotations

import posixpath
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, Literal, NamedTuple

from vademecum.vault import LINKED_SUFFIXES, NOTE_SUFFIXES, note_key

Via = Literal["path", "relative", "name", "alias"]
"""By which step of the rule a link was resolved."""

_MOST_OTHERS: Final = 10
_MOST_PARTS: Final = 32


class Candidate(NamedTuple):
    """A file that a link may mean, by its root-relative path or by one of its aliases.

    `document` is None for a file that is not indexed, and `reason` then says why.
    """

    path: str
    document: int | None = None
    alias: str = ""
    reason: str | None = None


class Resolution(NamedTuple):
    """What a link means: the file, the step that told, and up to ten others that it could mean as well, best first.

    `file` and `via` are None when nothing has that name; `rivals` counts all others.
    """

    file: Candidate | None
    via: Via | None
    others: tuple[Candidate, ...] = ()
    rivals: int = 0


UNRESOLVED: Final = Resolution(None, None)


class Namesakes:
    """All files that one name can mean, ready to tell which of them a link means."""

    def __init__(self, candidates: Iterable[Candidate]) -> None:
        self._by_path: dict[str, list[Candidate]] = defaultdict(list)
        self._by_alias: dict[str, list[Candidate]] = defaultdict(list)
        self._by_end: dict[str, list[Candidate]] | None = None
        self._ranked: list[Candidate] = []
        self._known: dict[tuple[str, str], Resolution] = {}
        for candidate in sorted(candidates, key=lambda c: (_suffix_rank(c.path), len(c.path), c.path, c.alias)):
            if candidate.alias:
                self._by_alias[_folded(candidate.alias)].append(candidate)
                continue
            self._ranked.append(candidate)
            for form in _forms(candidate.path):
                self._by_path[form].append(candidate)

    def resolve(self, target: str, folder: str) -> Resolution:
        """What a link with this target means in a note of this folder."""
        known = self._known.get((target, folder))
        if known is None:
            known = self._known[target, folder] = self._resolve(note_key(target.strip()), folder)
        return known

    def _resolve(self, target: str, folder: str) -> Resolution:
        path = posixpath.normpath(target.strip("/")) if target.strip("/") else ""
        if not path or path == ".":
            return UNRESOLVED
        rooted, dotted = target.startswith("/"), target.startswith(("./", "../"))
        below = posixpath.normpath(posixpath.join(folder, path))
        # Each step is taken only where those before it found nothing.
        steps: list[tuple[Via, str, Callable[[], Sequence[Candidate]]]] = []
        if not dotted:
            steps.append(("path", path, lambda: self._by_path.get(_folded(path), ())))
        if not rooted:
            steps.append(("relative", below, lambda: self._by_path.get(_folded(below), ())))
            if not dotted:
                steps.append(("name", path, lambda: self._ending_with(path)))
        for admits in (*_called_just_so(path), _is_note, _is_no_note):
            for via, spelled, find in steps:
                if chosen := _best(list(filter(admits, find())), spelled, folder):
                    return _resolution(chosen, via)
        called = () if rooted or dotted else self._by_alias.get(_folded(target), ())
        # A note may spell one alias in two ways; it is no rival of itself.
        return _resolution(list({c.path: c for c in _best(called, target, folder)}.values()), "alias")

    def _ending_with(self, path: str) -> Sequence[Candidate]:
        if self._by_end is None:
            self._by_end = defaultdict(list)
            for candidate in self._ranked:
                for end in {end for form in _forms(candidate.path) for end in _ends(form)}:
                    self._by_end[end].append(candidate)
        return self._by_end.get(_folded(path), ())


def _ends(path: str) -> Iterator[str]:
    """The last part of a path, the last two, and so on; not without end, since those of a deep path are long."""
    parts = path.split("/")
    return ("/".join(parts[-count:]) for count in range(1, min(len(parts), _MOST_PARTS) + 1))


def _best(found: Sequence[Candidate], spelled: str, folder: str) -> Sequence[Candidate]:
    """Those that stay in the running, the best first. They come sorted by suffix, length and code points."""
    if len(found) < 2:
        return found
    rank = _suffix_rank(found[0].path)
    found = [c for c in found if _suffix_rank(c.path) == rank]
    exact = [c for c in found if _is_spelled(c, spelled)]
    found = exact or found
    here = [c for c in found if _folder(c.path) == folder]
    return [*here, *(c for c in found if _folder(c.path) != folder)] if here else found


def _is_spelled(candidate: Candidate, target: str) -> bool:
    """Whether a target that means this candidate is written exactly as its alias, or the end of its path, is."""
    if candidate.alias:
        return note_key(candidate.alias) == target
    return any(f"/{form}".endswith("/" + target) for form in _spellings(candidate.path))


def _resolution(found: Sequence[Candidate], via: Via) -> Resolution:
    if not found:
        return UNRESOLVED
    return Resolution(found[0], via, tuple(found[1 : 1 + _MOST_OTHERS]), len(found) - 1)


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _called_just_so(target: str) -> Iterator[Callable[[Candidate], bool]]:
    """What is called exactly what the last part of a target says, suffix included: `pic.png`, and not `pic.png.md`."""
    name = _folded(target.rpartition("/")[2])
    if "." in name:
        yield lambda candidate: _folded(candidate.path.rpartition("/")[2]) == name


def _is_note(candidate: Candidate) -> bool:
    return candidate.path.casefold().endswith(NOTE_SUFFIXES)


def _is_no_note(candidate: Candidate) -> bool:
    return not _is_note(candidate)


def _suffix_rank(path: str) -> int:
    folded = path.casefold()
    for rank, suffix in enumerate(LINKED_SUFFIXES):
        if folded.endswith(suffix):
            return rank
    return len(LINKED_SUFFIXES)


def _spellings(path: str) -> tuple[str, ...]:
    """How a link may write a path: whole, or without a suffix that may be left out."""
    rank = _suffix_rank(path)
    return (path, path[: -len(LINKED_SUFFIXES[rank])]) if rank < len(LINKED_SUFFIXES) else (path,)


def _forms(path: str) -> tuple[str, ...]:
    return tuple(map(_folded, _spellings(path)))


def _folded(text: str) -> str:
    return note_key(text).casefold()
