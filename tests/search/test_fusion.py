"""Two lanes into one ranking: every score is the sum of its parts, and equal evidence stands in one order."""

import itertools
import random
from collections.abc import Mapping

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from vademecum.search.fusion import NAME_WEIGHT, NOTE_WEIGHT, Evidence, Ranked, fuse, rerank


def evidence(number: int, **values: object) -> Evidence:
    return Evidence(document=number, chunk=number, place=("s", f"{number}.md", 0), **values)  # type: ignore[arg-type]


def order(ranked: list[Ranked]) -> list[int]:
    return [r.evidence.document for r in ranked]


def scores(ranked: list[Ranked]) -> dict[int, float]:
    return {r.evidence.document: r.score for r in ranked}


BM25 = st.floats(0, 60, allow_subnormal=False)
COSINE = st.none() | st.floats(-1, 1, width=32, allow_subnormal=False)


@st.composite
def found(draw: st.DrawFn) -> list[Evidence]:
    """Candidates as the lanes give them: with words, with a vector, with both, or called what was asked for."""
    made = []
    for number in range(draw(st.integers(0, 12))):
        cosine = draw(COSINE)
        mean = None if cosine is None else draw(COSINE)
        made.append(
            evidence(
                number,
                chunk_bm25=draw(BM25 | st.just(0.0)),
                note_bm25=draw(BM25 | st.just(0.0)),
                cosine=cosine,
                note_mean=mean,
                named=draw(st.booleans()),
            )
        )
    return made


WEIGHT = st.sampled_from([0.0, 0.2, 0.5, 0.65, 1.0]) | st.floats(0, 1)


@given(found(), WEIGHT, st.randoms(use_true_random=False))
@settings(max_examples=150)
def test_a_score_is_the_sum_of_its_parts_from_0_to_1_and_best_comes_first(
    candidates: list[Evidence], weight: float, shuffler: random.Random
) -> None:
    ranked = fuse(candidates, weight)
    assert sorted(order(ranked)) == list(range(len(candidates)))
    for r in ranked:
        assert r.score == pytest.approx(sum(part.value for part in r.parts), abs=1e-12)
        assert -1e-9 <= r.score <= 1 + 1e-9
        assert all(part.value >= -1e-12 for part in r.parts)
    assert [r.score for r in ranked] == sorted((r.score for r in ranked), reverse=True)
    shuffled = list(candidates)
    shuffler.shuffle(shuffled)
    assert fuse(shuffled, weight) == ranked


@given(found(), WEIGHT, st.dictionaries(st.integers(0, 9), st.floats(0, 1)), st.floats(0, 1))
@settings(max_examples=150)
def test_a_second_reading_is_one_part_more(
    candidates: list[Evidence], weight: float, readings: Mapping[int, float], second: float
) -> None:
    first = fuse(candidates, weight)
    read = {place: reading for place, reading in readings.items() if place < len(first)}
    again = rerank(first, read, second)
    assert sorted(order(again)) == sorted(order(first))
    wanted = {
        r.evidence.document: (1 - second) * r.score + second * read.get(place, 0.0) for place, r in enumerate(first)
    }
    for r in again:
        assert r.score == pytest.approx(sum(part.value for part in r.parts), abs=1e-12)
        assert r.score == pytest.approx(wanted[r.evidence.document], abs=1e-9)
        assert -1e-9 <= r.score <= 1 + 1e-9
    assert [r.score for r in again] == sorted((r.score for r in again), reverse=True)


def test_the_formula() -> None:
    """weight · min–max of meaning + (1 - weight) · words / most, a note counting NOTE_WEIGHT beside its chunk."""
    ranked = fuse(
        [
            evidence(1, chunk_bm25=10.0, note_bm25=0.0, cosine=0.2, note_mean=0.2),
            evidence(2, chunk_bm25=4.0, note_bm25=2.0, cosine=0.6, note_mean=0.4),
            evidence(3, cosine=0.4, note_mean=0.4),
        ],
        0.5,
    )
    low, high = 0.2 * (1 + NOTE_WEIGHT), 0.6 + NOTE_WEIGHT * 0.4
    expected = {
        1: 0.5,
        2: 0.5 * (4 + NOTE_WEIGHT * 2) / 10 + 0.5,
        3: 0.5 * (0.4 * (1 + NOTE_WEIGHT) - low) / (high - low),
    }
    assert scores(ranked) == pytest.approx(expected)
    assert order(ranked) == [2, 1, 3]


def test_at_weight_0_words_decide_alone_and_at_1_meaning_does() -> None:
    candidates = [evidence(1, chunk_bm25=9.0, cosine=0.1), evidence(2, chunk_bm25=1.0, cosine=0.9)]
    assert order(fuse(candidates, 0)) == [1, 2]
    assert order(fuse(candidates, 1)) == [2, 1]
    assert {part.name for r in fuse(candidates, 0) for part in r.parts} == {"words.chunk", "words.note"}
    assert {part.name for r in fuse(candidates, 1) for part in r.parts} == {"meaning"}


def test_without_a_vector_a_candidate_is_judged_by_its_words_which_then_count_whole() -> None:
    ranked = fuse([evidence(1, chunk_bm25=4.0), evidence(2, chunk_bm25=5.0, cosine=0.5), evidence(3, cosine=0.9)], 0.6)
    assert scores(ranked) == pytest.approx({1: 0.8, 2: 0.4, 3: 0.6})


def test_where_nothing_has_words_meaning_counts_whole_and_the_other_way_round() -> None:
    assert scores(fuse([evidence(1, cosine=0.9), evidence(2, cosine=0.1)], 0.3)) == {1: 1.0, 2: 0.0}
    assert scores(fuse([evidence(1, chunk_bm25=4.0), evidence(2, chunk_bm25=2.0)], 0.9)) == {1: 1.0, 2: 0.5}


@pytest.mark.parametrize("cosine", [-0.5, 0.0, 0.3, 1.0])
def test_candidates_that_lie_equally_near_count_1(cosine: float) -> None:
    assert scores(fuse([evidence(1, cosine=cosine), evidence(2, cosine=cosine)], 0.6)) == {1: 1.0, 2: 1.0}
    assert scores(fuse([evidence(1, cosine=cosine)], 0.6)) == {1: 1.0}


def test_equal_scores_stand_by_source_path_and_place_in_the_note() -> None:
    places = list(itertools.product(("a", "b"), ("x.md", "y.md"), (0, 1, 10, 2)))
    candidates = [Evidence(i, i, place, chunk_bm25=1.0, cosine=0.5) for i, place in enumerate(places)]
    random.Random(5).shuffle(candidates)
    assert [r.evidence.place for r in fuse(candidates, 0.5)] == sorted(places)


def test_a_note_that_is_called_what_was_asked_for_comes_before_one_that_only_says_so() -> None:
    ranked = fuse([evidence(1, chunk_bm25=9.0), evidence(2, chunk_bm25=3.0, named=True)], 0.65)
    assert order(ranked) == [2, 1]
    assert scores(ranked)[2] == pytest.approx((1 - NAME_WEIGHT) / 3 + NAME_WEIGHT)


@pytest.mark.parametrize("weight", [-0.01, 1.01, 7.0])
def test_a_weight_outside_0_to_1_is_an_error(weight: float) -> None:
    with pytest.raises(ValueError, match="outside"):
        fuse([], weight)


def test_nothing_found_is_nothing_ranked() -> None:
    assert fuse([], 0.5) == []
    assert rerank([], {}, 0.4) == []


@given(found(), st.lists(st.floats(0, 1), max_size=10))
@example([], [])
def test_what_was_not_read_again_stays_behind_what_was_better_and_read(
    candidates: list[Evidence], readings: list[float]
) -> None:
    first = fuse(candidates, 0.65)
    again = rerank(first, dict(enumerate(readings[: len(first)])), 0.4)
    unread = order(first)[len(readings) :]
    assert [document for document in order(again) if document in unread] == unread
    if unread and readings:
        assert order(again).index(unread[0]) >= len(readings[: len(first)]) or not readings
