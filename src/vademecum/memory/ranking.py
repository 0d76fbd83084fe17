"""Which memories reach a caller, and in what order: pure, and the only place where that is decided.

The failure it is shaped against is a claim that was corrected, shown to somebody who cannot see the correction.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from vademecum.access import Caller, Withheld
from vademecum.memory.memory import Memory

OUT_OF_SIGHT: Final = "superseded by a memory this caller cannot see"

_SPECIFIC: Final = {"platform": 50, "general": 10, "project": 0}


@dataclass(frozen=True, slots=True)
class Reached:
    """The memories that reach a caller, as they rank without a question, and why others do not, by path."""

    memories: tuple[Memory, ...]
    withheld: Mapping[str, Withheld]
    caller: Caller
    hidden: Mapping[str, Memory]

    def why(self, memory: Memory) -> str:
        """Why a memory is shown or withheld, in one sentence that names no withheld title but that of a correction."""
        if self.withheld.get(memory.path) == "superseded":
            return f"{OUT_OF_SIGHT} ({'; '.join(memory.superseded_by)})"
        if self.withheld.get(memory.path) == "private":
            return "private: for its owner alone"
        return memory.reach.why(self.caller)


def reached(memories: Iterable[Memory], caller: Caller) -> Reached:
    """Judge every memory for one caller.

    A superseded one stays as long as one of the memories that correct it is served to the same caller. Where the
    correction is not to be found at all, it stays too: a broken link says nothing of reach.
    """
    corpus = [memory for memory in memories if memory.is_served]
    withheld: dict[str, Withheld] = {}
    for memory in corpus:
        if memory.private and not caller.is_owner:
            withheld[memory.path] = "private"
        elif not memory.reach.reaches(caller):
            withheld[memory.path] = "out_of_reach"
    for path in _retired(corpus, withheld):
        withheld[path] = "superseded"
    shown = [memory for memory in corpus if memory.path not in withheld]
    hidden = {memory.path: memory for memory in corpus if memory.path in withheld}
    return Reached(tuple(ranked(shown, caller)), withheld, caller, hidden)


def ranked(memories: Iterable[Memory], caller: Caller) -> list[Memory]:
    """Live before superseded, then the more specific, then the newer."""
    newest = sorted(memories, key=lambda memory: memory.path)
    newest.sort(key=lambda memory: (memory.date, memory.session), reverse=True)
    newest.sort(key=lambda memory: (memory.is_superseded, -_specificity(memory, caller)))
    return newest


def corrections(memories: Sequence[Memory]) -> dict[str, frozenset[str]]:
    """For each superseded memory the memories that correct it, as far as their titles are to be found; by path."""
    wanted = {memory.path: [as_title(title) for title in memory.superseded_by] for memory in memories}
    named: dict[str, set[str]] = {title: set() for titles in wanted.values() for title in titles}
    for memory in memories if named else ():
        for title in (memory.title, *memory.aliases):
            if (folded := as_title(title)) in named:
                named[folded].add(memory.path)
    return {
        path: frozenset().union(*(named[title] for title in titles)) - {path}
        for path, titles in wanted.items()
        if titles
    }


def as_title(text: str) -> str:
    """A title as titles are compared: without the case of its letters and the blanks around it."""
    return " ".join(text.split()).casefold()


def _retired(corpus: Sequence[Memory], withheld: Mapping[str, Withheld]) -> set[str]:
    """The memories that would be served if none of them were corrected out of the caller's sight.

    The largest set that can stay is what remains: each loss is passed on to what it had corrected.
    """
    by = corrections(corpus)
    corrects: dict[str, list[str]] = defaultdict(list)
    for old, new in by.items():
        for path in new:
            corrects[path].append(old)
    standing = {path: len(new - withheld.keys()) for path, new in by.items() if new and path not in withheld}
    retired: set[str] = set()
    left = [path for path, number in standing.items() if not number]
    while left:
        gone = left.pop()
        retired.add(gone)
        for old in corrects.get(gone, ()):
            if old in standing and old not in retired:
                standing[old] -= 1
                if not standing[old]:
                    left.append(old)
    return retired


def _specificity(memory: Memory, caller: Caller) -> int:
    if caller.is_owner:
        return 0
    if memory.reach.names(caller):
        return 100 - min(20, len(memory.reach.projects))
    return _SPECIFIC[memory.reach.scope]
