"""Notes and memories in one answer: by score, a third for each, pinned ones never pushed out."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vademecum.search.hit import Hit, Place
from vademecum.search.mixing import mix

PLACE = Place("folder:1", "V", "folder", Path("/v"), None, "source_folder", "c", "m", "Folder note", "folder")


def hit(name: str, score: float, memory: Mapping[str, Any] | None = None, *, words: bool = True) -> Hit:
    return Hit(
        id=name,
        place=PLACE,
        path=name,
        source_path=f"/v/{name}",
        title=name,
        whole_note=False,
        heading_path=(),
        line_start=1,
        line_end=1,
        content="",
        score=score,
        lanes=("words",) if words else ("meaning",),
        stale=False,
        private=False,
        explain=None,
        memory=memory,
    )


def notes(*scores: float, words: bool = True) -> list[Hit]:
    return [hit(f"n{i}", score, words=words) for i, score in enumerate(scores)]


def memories(*scores: float, words: bool = True, **facets: Any) -> list[Hit]:
    return [
        hit(f"m{i}", score, {"superseded": False, "pinned": False, **facets}, words=words)
        for i, score in enumerate(scores)
    ]


def names(hits: list[Hit]) -> list[str]:
    return [found.id for found in hits]


def test_the_better_one_comes_first_whatever_it_is() -> None:
    assert names(mix(notes(0.9, 0.5), memories(0.7, 0.3), 10)) == ["n0", "m0", "n1", "m1"]


@pytest.mark.parametrize(("limit", "least"), [(1, 0), (2, 1), (3, 1), (4, 2), (6, 2), (9, 3), (10, 4)])
def test_each_kind_keeps_a_third_of_the_places(limit: int, least: int) -> None:
    many, few = [0.9 - i / 100 for i in range(20)], [0.3 - i / 100 for i in range(20)]
    for kept in (mix(notes(*many), memories(*few), limit), mix(notes(*few), memories(*many), limit)):
        assert len(kept) == limit
        worse = sum(found.score < 0.35 for found in kept)
        assert worse == least
        assert names(kept) == [found.id for found in sorted(kept, key=lambda found: -found.score)]


def test_what_has_nothing_to_say_claims_no_place() -> None:
    many = [0.9 - i / 100 for i in range(20)]
    assert all(found.memory is None for found in mix(notes(*many), memories(0.1, 0.05, words=False), 6))
    assert "m0" in names(mix(notes(*many), memories(0.4, words=False), 6))


def test_a_pinned_memory_that_matches_is_never_pushed_out() -> None:
    many = [0.9 - i / 100 for i in range(20)]
    pinned = memories(0.05, 0.04, 0.03, pinned=True)
    assert {"m0", "m1", "m2"} <= set(names(mix(notes(*many), pinned, 3)))
    assert names(mix(notes(*many), pinned, 4))[0] == "n0"
    unrelated = memories(0.05, pinned=True, words=False)
    assert "m0" not in names(mix(notes(*many), unrelated, 3))


def test_what_is_superseded_comes_last_and_claims_nothing() -> None:
    old = memories(0.95, superseded=True)
    assert names(mix(notes(0.5, 0.4), old, 10)) == ["n0", "n1", "m0"]
    assert names(mix(notes(0.5, 0.4), old, 2)) == ["n0", "n1"]


SCORES = st.lists(st.floats(0, 1).map(lambda score: round(score, 4)), max_size=12)


@given(SCORES, SCORES, st.integers(1, 12), st.booleans())
def test_nothing_is_lost_or_doubled_while_there_is_room(
    of_notes: list[float], of_memories: list[float], limit: int, pinned: bool
) -> None:
    some = notes(*sorted(of_notes, reverse=True))
    others = memories(*sorted(of_memories, reverse=True), pinned=pinned)
    kept = mix(some, others, limit)
    assert len(kept) == min(limit, len(some) + len(others))
    assert len({found.id for found in kept}) == len(kept)
    for kind in (some, others):  # of each kind the best
        chosen = [found for found in kind if found in kept]
        assert chosen == kind[: len(chosen)]
