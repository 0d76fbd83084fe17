"""Metrics, intervals and comparisons against values worked out by hand, and what malformed files of questions give."""

import itertools
import json
import math
import random
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vademecum.search import quality
from vademecum.search.quality import (
    METRICS,
    Comparison,
    JudgedQuestion,
    Mean,
    Outline,
    Run,
    Score,
    bootstrap,
    chance,
    compare,
    derive,
    ndcg_at,
    ranks_of,
    read_judged,
    recall_at,
    reciprocal_rank,
    score,
)


def asked(grades: Mapping[str, int], *, key: str = "q", kind: str = "human", origin: str = "set") -> JudgedQuestion:
    return JudgedQuestion(key, f"what is {key}", kind, origin, grades)


def run_of(name: str, places: Sequence[int], *, origin: str = "set") -> Run:
    """A run whose question number i finds its one right note at rank places[i]; 0 finds nothing at all."""
    scores = []
    for number, place in enumerate(places):
        ranked = [f"other {i}" for i in range(place - 1)] + ["right"] if place else []
        scores.append(score(asked({"right": 1}, key=f"q{number}", origin=origin), ranked))
    return Run(name, "words", False, {"recall.limit": 10}, tuple(scores), {})


# ── metrics


@pytest.mark.parametrize(
    ("ranked", "grades", "values"),
    [
        # mrr, recall at 1, 5, 10, ndcg at 10, empty
        (["a"], {"a": 1}, (1, 1, 1, 1, 1, 0)),
        (["x", "a"], {"a": 1}, (1 / 2, 0, 1, 1, 1 / math.log2(3), 0)),
        (["a", "b"], {"a": 2, "b": 1}, (1, 1 / 2, 1, 1, 1, 0)),
        (["b", "a"], {"a": 2, "b": 1}, (1, 1 / 2, 1, 1, (1 + 3 / math.log2(3)) / (3 + 1 / math.log2(3)), 0)),
        (["b", "a"], {"a": 1, "b": 0}, (1 / 2, 0, 1, 1, 1 / math.log2(3), 0)),
        (["x"] * 3 + ["a"], {"a": 1}, (1 / 2, 0, 1, 1, 1 / math.log2(3), 0)),
        ([f"x{i}" for i in range(10)] + ["a"], {"a": 1}, (1 / 11, 0, 0, 0, 0, 0)),
        (["x"], {"a": 1, "b": 3}, (0, 0, 0, 0, 0, 0)),
        ([], {"a": 1}, (0, 0, 0, 0, 0, 1)),
        (["a"], {"a": 1, "b": 1}, (1, 1 / 2, 1 / 2, 1 / 2, 1 / (1 + 1 / math.log2(3)), 0)),
    ],
)
def test_the_metrics_are_those_worked_out_by_hand(
    ranked: list[str], grades: dict[str, int], values: tuple[float, ...]
) -> None:
    assert score(asked(grades), ranked).values == pytest.approx(values)


NOTES = [f"n{i}" for i in range(25)]
grades_and_ranking = st.tuples(
    st.dictionaries(st.sampled_from(NOTES), st.integers(0, 5), min_size=1), st.lists(st.sampled_from(NOTES))
)


@given(grades_and_ranking)
def test_every_metric_lies_between_nought_and_one(drawn: tuple[dict[str, int], list[str]]) -> None:
    grades, ranked = drawn
    assert all(0 <= value <= 1 + 1e-12 for value in score(asked(grades), ranked).values)


@given(grades_and_ranking)
def test_recall_grows_with_the_cut(drawn: tuple[dict[str, int], list[str]]) -> None:
    grades, ranked = drawn
    ranks = ranks_of(ranked, grades)
    recalls = [recall_at(cut, ranks, grades) for cut in range(1, 30)]
    assert recalls == sorted(recalls)


@given(st.dictionaries(st.sampled_from(NOTES), st.integers(0, 5), min_size=1).filter(lambda g: max(g.values()) > 0))
def test_the_best_order_is_perfect(grades: dict[str, int]) -> None:
    ranks = ranks_of(sorted(grades, key=lambda note: -grades[note]), grades)
    assert reciprocal_rank(ranks, grades) == 1
    assert ndcg_at(10, ranks, grades) == pytest.approx(1)


@given(grades_and_ranking, st.data())
def test_moving_a_better_note_up_costs_nothing(drawn: tuple[dict[str, int], list[str]], data: st.DataObject) -> None:
    grades, listed = drawn
    ranked = list(dict.fromkeys(listed))
    if len(ranked) < 2:
        return
    at = data.draw(st.integers(0, len(ranked) - 2))
    first, second = ranked[at : at + 2]
    if grades.get(second, 0) < grades.get(first, 0):
        return
    swapped = [*ranked[:at], second, first, *ranked[at + 2 :]]
    before, after = score(asked(grades), ranked).values, score(asked(grades), swapped).values
    assert all(b >= a - 1e-12 for a, b in zip(before, after, strict=True))


# ── intervals and comparisons


def test_an_interval_is_the_same_every_time_and_holds_the_mean() -> None:
    rows = [(1.0,), (0.5,), (0.0,), (0.25,)] * 10
    [first], [second] = bootstrap(rows), bootstrap(rows)
    assert first == second
    assert first.low < first.value < first.high
    assert first.value == pytest.approx(0.4375)


def test_an_interval_does_not_depend_on_the_state_of_chance() -> None:
    random.seed(5)
    before = bootstrap([(0.0,), (1.0,)] * 9)
    random.seed(6)
    assert bootstrap([(0.0,), (1.0,)] * 9) == before


def test_a_95_per_cent_interval_covers_the_truth_about_that_often() -> None:
    draw = random.Random(7)
    covered = 0
    for _ in range(200):
        [mean] = bootstrap([(float(draw.random() < 0.6),) for _ in range(60)], resamples=400)
        covered += mean.low <= 0.6 <= mean.high
    assert 180 <= covered <= 199


def test_an_interval_of_equal_values_is_a_point() -> None:
    assert bootstrap([(0.5,)] * 7) == [Mean(0.5, 0.5, 0.5)]


def test_a_comparison_counts_and_measures() -> None:
    found = compare(run_of("a", [1, 2, 0, 1]), run_of("b", [1, 1, 4, 2])).metrics["mrr"]
    assert (found.better, found.worse, found.same) == (2, 1, 1)
    assert found.mean.value == pytest.approx((0 + 0.5 + 0.25 - 0.5) / 4)


def test_fewer_empty_answers_are_better() -> None:
    found = compare(run_of("a", [0, 0, 1]), run_of("b", [1, 9, 1])).metrics["empty"]
    assert (found.better, found.worse, found.mean.value) == (2, 0, pytest.approx(-2 / 3))


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), min_size=1, max_size=30))
def test_a_comparison_the_other_way_round_is_the_mirror_image(places: list[tuple[int, int]]) -> None:
    a, b = run_of("a", [p for p, _ in places]), run_of("b", [p for _, p in places])
    there, back = compare(a, b), compare(b, a)
    for metric in METRICS:
        one, other = there.metrics[metric], back.metrics[metric]
        assert (one.better, one.worse, one.same, one.p) == (other.worse, other.better, other.same, other.p)
        assert tuple(one.mean) == pytest.approx((-other.mean.value, -other.mean.high, -other.mean.low))


def test_only_questions_with_the_same_judgements_in_both_runs_are_compared() -> None:
    a, b = run_of("a", [1, 2, 3]), run_of("b", [1, 2])
    changed = Score(asked({"right": 2}, key="q1"), {"right": 1}, 1)
    b = Run("b", "words", False, {}, (b.scores[0], changed), {})
    found = compare(a, b)
    assert (found.questions, found.unpaired) == (1, 2)
    assert compare(a, run_of("c", [1], origin="another")) == Comparison("a", "c", 0, 4, {})


@pytest.mark.parametrize(
    ("differences", "p"),
    [
        ([], 1.0),
        ([0.0, 0.0], 1.0),
        ([1.0], 1.0),  # either sign is as large
        ([0.5] * 5, 2 / 32),
        ([0.5, -0.5], 1.0),
        ([1.0, 0.0, 1.0, 1.0], 2 / 8),
        ([3.0, 1.0, -1.0], 6 / 8),  # of the sums ±3 ±1 ±1 all but the two ±1 are as large as 3
    ],
)
def test_the_chance_of_few_differences_is_exact(differences: list[float], p: float) -> None:
    assert chance(differences) == pytest.approx(p)


def test_the_chance_of_many_differences_is_near_the_exact_one() -> None:
    assert chance([1.0] * 14) < 0.002
    assert chance([1.0, -1.0] * 10) == 1.0
    assert chance([1.0] * 9 + [-1.0] * 5) == pytest.approx(0.424, abs=0.03)  # binomial: 2 · P(X ≥ 9 of 14)


# ── a run as JSON


def test_a_run_comes_back_from_json_as_it_was() -> None:
    run = run_of("words", [1, 0, 7])
    assert Run.from_json(json.loads(json.dumps(run.as_json()))) == run


@pytest.mark.parametrize(
    "spoil",
    [
        lambda run: run.pop("name"),
        lambda run: run.update(questions=5),
        lambda run: run.update(questions=[[]]),
        lambda run: run["questions"][0].update(ranks={"stranger": 1}),
        lambda run: run["questions"][0].update(ranks={"right": 0}),
        lambda run: run["questions"][0].update(grades={"right": -1}),
        lambda run: run["questions"][0].update(grades={"right": "x"}),
        lambda run: run.update(shortfalls=None),
    ],
)
def test_what_is_no_run_is_refused(spoil: Any) -> None:
    stored = run_of("words", [1, 2]).as_json()
    spoil(stored)
    with pytest.raises(ValueError):
        Run.from_json(stored)


def test_groups_are_the_origins_and_their_kinds_and_derived_kinds_stay_apart() -> None:
    scores = [
        score(asked({"a": 1}, key=f"{origin}{kind}", kind=kind, origin=origin), ["a"])
        for origin, kind in [
            ("one.tsv", "human"), ("two.tsv", "words"), ("two.tsv", "exact"),
            ("derived", "title"), ("derived", "alias"),
        ]
    ]  # fmt: skip
    groups = Run("words", "words", False, {}, tuple(scores), {}).groups()
    assert {label: len(part.scores) for label, part in groups.items()} == {
        "one.tsv": 1, "two.tsv": 2, "two.tsv: words": 1, "two.tsv: exact": 1, "derived: title": 1, "derived: alias": 1,
    }  # fmt: skip


# ── files


def reading(questions: str, judgements: str) -> quality.Reading:
    notes = {"a.md", "b.md", "c.markdown"}
    return read_judged(
        ("q.tsv", questions),
        ("j.tsv", judgements),
        origin="q.tsv",
        find=lambda note: next((n for n in (note, f"{note}.md") if n in notes), None),
    )


def test_questions_and_judgements_come_together() -> None:
    found = reading("1\twhat is a\thuman\n2\twhat is b\n", "1\ta.md\t2\n1\tb\t0\n2\tb.md\t1\n")
    assert found.warnings == []
    assert list(found.questions) == [
        JudgedQuestion("1", "what is a", "human", "q.tsv", {"a.md": 2, "b.md": 0}),
        JudgedQuestion("2", "what is b", "question", "q.tsv", {"b.md": 1}),
    ]


@pytest.mark.parametrize(
    ("questions", "judgements"),
    [
        ("\ufeff1\twhat is a\r\n\r\n", "\ufeff1\ta.md\t1\r\n"),
        ("# comment\n\n   \nid\tquestion\tkind\n1\twhat is a\n", "query-id\tcorpus-id\tscore\n# c\n1\ta.md\t1"),
        ("1\twhat is a\t\n", " 1 \t a.md \t 1 \n"),
        ("1\twhat is a\thuman\tmore\tcells\n", "1\ta.md\t1\tmore\n"),
    ],
)
def test_marks_line_ends_comments_and_headings_are_no_matter(questions: str, judgements: str) -> None:
    found = reading(questions, judgements)
    assert [(q.id, q.text, q.grades) for q in found.questions] == [("1", "what is a", {"a.md": 1})]
    assert found.warnings == []


@pytest.mark.parametrize(
    ("questions", "judgements", "warning"),
    [
        ("no tab here", "", "q.tsv: line 2: no tab between id and question"),
        ("\tno id", "", "q.tsv: line 2: the id or the question is empty"),
        ("2\t", "", "q.tsv: line 2: the id or the question is empty"),
        ("2\t?!…", "", "q.tsv: line 2: the question holds no word"),
        ("1\tagain", "", "q.tsv: line 2: the id was used before"),
        ("2\tunjudged", "", "q.tsv: question 2: without a right note among the judgements, left out of the means"),
        ("2\tb", "2\tb.md\t0", "q.tsv: question 2: without a right note among the judgements, left out of the means"),
        ("", "1\ta.md", "j.tsv: line 2: not three cells, id, note and grade, with tabs between them"),
        ("", "1 b.md 1", "j.tsv: line 2: not three cells, id, note and grade, with tabs between them"),
        ("", "1\tb.md\t-1", "j.tsv: line 2: the grade is no whole number from 0 to 20"),
        ("", "1\tb.md\t1.5", "j.tsv: line 2: the grade is no whole number from 0 to 20"),
        ("", "1\tb.md\t99999", "j.tsv: line 2: the grade is no whole number from 0 to 20"),
        ("", "1\tb.md\t²", "j.tsv: line 2: the grade is no whole number from 0 to 20"),
        ("", "9\tb.md\t1", "j.tsv: line 2: no question has this id"),
        ("", "1\tgone.md\t1", "j.tsv: line 2: there is no such note"),
        ("", "1\ta\t1", "j.tsv: line 2: this note was judged before for this question"),
    ],
)
def test_what_cannot_be_used_is_left_out_and_told_of(questions: str, judgements: str, warning: str) -> None:
    found = reading(f"1\twhat is a\n{questions}\n", f"1\ta.md\t1\n{judgements}\n")
    assert list(found.warnings) == [warning]
    assert [(q.id, q.grades) for q in found.questions] == [("1", {"a.md": 1})]


def test_many_lines_with_one_fault_make_one_sentence() -> None:
    [warning] = reading("1\ta\n" + "x\n" * 2_000, "1\ta.md\t1").warnings
    assert warning == "q.tsv: line 2, line 3, line 4, line 5, line 6 and 1,995 more: no tab between id and question"


@given(st.text(), st.text())
def test_no_text_raises(questions: str, judgements: str) -> None:
    reading(questions, judgements)


# ── derived questions


TREE = [
    Outline(
        "b/redis.md", "Drop Redis", ("Cache decision", "Ada"), ("Drop Redis", "Why we did it", "Context", "Open ends")
    ),
    Outline("a/redis.md", "drop  redis", (), ("Open ends", "What Ada said", "Why", "cache decision")),
    Outline("People/Ada.md", "Ada", ("Countess",), ("Why we did it too", "Ada")),
    Outline("odd.md", '-"Quoted" -minus', ("?!",), ()),
]


def derived(kind: str, *, limit: int = 100) -> dict[str, set[str]]:
    return {q.text: set(q.grades) for q in derive(TREE, limit=limit) if q.kind == kind}


def test_a_title_is_answered_by_every_note_that_is_called_so() -> None:
    assert derived("title") == {
        "Ada": {"People/Ada.md", "b/redis.md"},
        "drop redis": {"a/redis.md", "b/redis.md"},
        "Quoted minus": {"odd.md"},
    }


def test_an_alias_that_is_a_title_too_is_not_asked_again() -> None:
    assert derived("alias") == {"Cache decision": {"b/redis.md"}, "Countess": {"People/Ada.md"}}


def test_a_heading_counts_when_it_is_unique_and_more_than_one_word_and_no_name() -> None:
    assert derived("heading") == {
        "Why we did it": {"b/redis.md"},
        "What Ada said": {"a/redis.md"},
        "Why we did it too": {"People/Ada.md"},
    }


@pytest.mark.parametrize(("heading", "tells"), [("会議の記録", True), ("会議", False), ("Überlegungen", False)])
def test_a_script_without_spaces_tells_with_four_characters(heading: str, tells: bool) -> None:
    found = derive([Outline("a.md", "Some title", (), (heading,))], limit=9)
    assert [q.text for q in found if q.kind == "heading"] == ([heading] if tells else [])


def test_a_sample_is_even_and_the_same_every_time() -> None:
    notes = [Outline(f"{i:03}.md", f"note {i:03}", (), ()) for i in range(300)]
    first = derive(notes, limit=30)
    assert first == derive(reversed(notes), limit=30)
    numbers = [int(q.text.split()[1]) for q in first]
    assert len(numbers) == 30
    assert {b - a for a, b in itertools.pairwise(numbers)} == {10}


def test_ids_of_derived_questions_are_unique() -> None:
    ids = [q.id for q in derive(TREE, limit=100)]
    assert len(ids) == len(set(ids))
