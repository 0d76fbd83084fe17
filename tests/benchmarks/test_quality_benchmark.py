"""The quality benchmark: its targets, and its command line."""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from process import Finished, run_python
from source_tree import ROOT
from vademecum.cli.evaluation import Evaluation
from vademecum.search.quality import JudgedQuestion, Run, score

WriteTree = Callable[..., Path]


@pytest.fixture
def judged(write_tree: WriteTree) -> Path:
    return write_tree(
        {
            "vault/redis.md": "# Redis\n\nIt is gone.",
            "vault/ada.md": "# Ada\n\nShe knows postgres.",
            "queries.tsv": "1\twhat is gone\n2\twho knows postgres\n",
            "qrels.tsv": "1\tredis\t1\n2\tada\t1\n",
        }
    )


def quality(*words: str | Path) -> Finished:
    return run_python(["-m", "benchmarks.quality", *map(str, words)], cwd=ROOT)


def test_a_folder_is_scored_and_two_results_are_compared(judged: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "a.json", tmp_path / "b.json"
    done = quality(judged, "--lane", "words", "--out", first)
    assert done.rc == 0, done
    assert "1.000" in done.out
    (judged / "vault" / "redis.md").write_text("# Redis\n\nstill here, and nothing that was asked for")
    assert quality(judged, "--lane", "words", "--out", second).rc == 0
    compared = quality("compare", first, second)
    assert compared.rc == 0, compared
    assert "words finds worse than words (queries.tsv): MRR −" in compared.out
    assert "0 better, 1 worse, 1 the same" in compared.out


@pytest.mark.parametrize(("content", "status"), [("{}", 2), ('{"format": "vademecum-eval", "runs": []}', 2)])
def test_files_that_cannot_be_compared_are_refused(tmp_path: Path, content: str, status: int) -> None:
    (tmp_path / "a.json").write_text(content)
    done = quality("compare", tmp_path / "a.json", tmp_path / "a.json")
    assert done.rc == status
    assert "Traceback" not in done.err


def test_a_folder_that_is_not_there_is_not_found(tmp_path: Path) -> None:
    assert quality(tmp_path / "nowhere").rc == 3


@pytest.fixture
def scores(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT))
    for name in [name for name in sys.modules if name.partition(".")[0] == "benchmarks"]:
        monkeypatch.delitem(sys.modules, name)
    from benchmarks.quality import scores

    return scores


def test_the_bundled_example_reaches_its_target(scores: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VADE_TEST_VAULTS", raising=False)
    figures = scores.run()
    assert figures[0].name == "example, 40 questions, words: MRR"
    assert figures[0].met
    assert figures[0].detail["low"] < figures[0].value < figures[0].detail["high"]
    assert figures[0].detail["high"] <= 1
    assert json.dumps([figure.detail for figure in figures])


def evaluation_of(places: Mapping[str, Sequence[int]]) -> Evaluation:
    """Runs by name, each finding the one right note of every question at the rank given."""
    count = len(next(iter(places.values())))
    questions = [JudgedQuestion(str(i), f"question {i}", "human", "queries.tsv", {"a": 1}) for i in range(count)]
    runs = [
        Run(
            name,
            "words",
            False,
            {},
            tuple(score(q, ["x"] * (p > 1) + ["a"]) for q, p in zip(questions, at, strict=True)),
            {},
        )
        for name, at in places.items()
    ]
    return Evaluation(Path("vault"), 2, tuple(questions), tuple(runs), (), {}, ())


@pytest.mark.parametrize(
    ("hybrid", "met"),
    [
        ([1] * 10 + [2] * 10, True),  # as good as the better lane
        ([1] * 9 + [2] * 11, True),  # .025 below it, which its interval does not tell from nothing
        ([2] * 20, False),  # .25 below it, without any doubt
    ],
)
def test_hybrid_may_not_fall_behind_its_better_lane_by_more_than_half_its_interval(
    scores: Any, hybrid: list[int], met: bool
) -> None:
    runs = {"words": [2] * 20, "meaning": [1] * 10 + [2] * 10, "hybrid": hybrid, "hybrid+rerank": [1] * 20}
    found = {figure.name: figure for figure in scores.figures_of("help-en", evaluation_of(runs))}
    assert [name.removeprefix("help-en, ") for name in found] == [
        "20 questions, words: MRR",
        "20 questions, hybrid: MRR",
        "20 questions, hybrid+rerank: MRR",
        "hybrid less the better of its lanes, against half its interval: MRR",
    ]
    assert found["help-en, hybrid less the better of its lanes, against half its interval: MRR"].met is met
    assert not found["help-en, 20 questions, words: MRR"].met
    assert found["help-en, 20 questions, hybrid+rerank: MRR"].met
