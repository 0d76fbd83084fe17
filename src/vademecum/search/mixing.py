"""Notes and memories in one answer: by score, and neither crowds the other out.

Pure. Each kind keeps a third of the places as long as it has something to say, and a pinned memory that matches is
never pushed out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from vademecum.search.hit import Hit

# A hit that holds no word of the question claims a place for its kind only when its score is at least so much of the
# best one: every note and every memory is near to every question to some degree.
_FLOOR: Final = 0.25


def mix(notes: Sequence[Hit], memories: Sequence[Hit], limit: int) -> list[Hit]:
    """The best of both, best first, live ones before superseded ones. Both are given best first."""
    order = sorted([*memories, *notes], key=lambda hit: (hit.superseded, -hit.score, hit.memory is None))
    best = max((hit.score for hit in order), default=0.0)

    def counts(hit: Hit) -> bool:
        return not hit.superseded and ("words" in hit.lanes or hit.score >= _FLOOR * best > 0)

    third = min(-(-limit // 3), limit // 2)
    pinned = [hit for hit in memories if hit.pinned and counts(hit)][:limit]
    least_memories = max(len(pinned), min(third, sum(map(counts, memories))))
    least_notes = min(third, sum(map(counts, notes)), limit - least_memories)
    kept = [*pinned, *(hit for hit in order if hit not in pinned)][:limit]
    kept = _swap(kept, memories, lambda hit: hit.memory is not None, least_memories, order)
    kept = _swap(kept, notes, lambda hit: hit.memory is None, least_notes, order)
    return [hit for hit in order if hit in kept]


def _swap(
    kept: list[Hit], kind: Sequence[Hit], is_kind: Callable[[Hit], bool], least: int, order: Sequence[Hit]
) -> list[Hit]:
    """Let so many of one kind in, in the place of the worst of the other."""
    waiting = [hit for hit in kind if hit not in kept]
    while waiting and sum(map(is_kind, kept)) < least:
        worst = next((hit for hit in reversed(order) if hit in kept and not is_kind(hit) and not hit.pinned), None)
        if worst is None:
            break
        kept = [*(hit for hit in kept if hit is not worst), waiting.pop(0)]
    return kept
