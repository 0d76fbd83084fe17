"""Scores of the question sets at hand, held against targets: the mean reciprocal rank of each way of searching.

A folder holds `vault/`, `queries.tsv` (id, question, kind) and `qrels.tsv` (id, note, grade). Models are looked for in
the folder that VADE_TEST_MODELS names, else in the models folder of the default state; what needs one that is not
there is left out.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from benchmarks.measure import Figure
from vademecum import config
from vademecum.access import OWNER
from vademecum.cli.evaluation import JUDGEMENTS, QUESTIONS, Evaluation, Request, laid_out, score_folder
from vademecum.config import Settings
from vademecum.search import Lane
from vademecum.search.quality import Mean

EXAMPLE = Path(__file__).parent / "example"
EXAMPLE_VAULT = Path(__file__).parents[2] / "examples" / "vault"

# Least mean reciprocal ranks. Those of help-en are what decision 0005 and the measurements behind it promise.
TARGETS = {
    ("example", "words"): 0.6,
    ("help-en", "words"): 0.66,
    ("help-en", "hybrid"): 0.745,
    ("help-en", "hybrid+rerank"): 0.79,
}


def run() -> list[Figure]:
    """Score the bundled example, and help-en when it is at hand."""
    figures = []
    for name, wanted in _sets():
        with settings() as user:
            evaluation = score_folder(wanted, user, OWNER)
        for trial, why in evaluation.left_out.items():
            print(f"{name}, {trial}: not tried, {why}", file=sys.stderr)
        figures += figures_of(name, evaluation)
    return figures


def figures_of(name: str, evaluation: Evaluation) -> list[Figure]:
    """What an evaluation of this set has to reach: each target, and that hybrid does not fall behind its lanes."""
    group = next(q.origin for q in evaluation.questions)
    found = {run.name: run.groups()[group].means()["mrr"] for run in evaluation.runs}
    count = len(evaluation.questions)
    figures = [
        Figure(
            f"{name}, {count} questions, {trial}: MRR",
            round(mean.value, 3),
            TARGETS[name, trial],
            "",
            {"low": round(mean.low, 3), "high": round(mean.high, 3)},
            at_most=False,
        )
        for trial, mean in found.items()
        if (name, trial) in TARGETS
    ]
    return figures + ([_kept_up(name, found)] if {"words", "meaning", "hybrid"} <= found.keys() else [])


def _kept_up(name: str, found: dict[str, Mean]) -> Figure:
    hybrid = found["hybrid"]
    better = max(found["words"].value, found["meaning"].value)
    return Figure(
        f"{name}, hybrid less the better of its lanes, against half its interval: MRR",
        round(hybrid.value - better, 3),
        round(-(hybrid.high - hybrid.low) / 2, 3),
        "",
        {trial: round(mean.value, 3) for trial, mean in found.items()},
        at_most=False,
    )


def request(folder: Path, *, lanes: tuple[Lane, ...] = (), rerank: bool = True) -> Request:
    """A request for the questions that a folder holds, and no others."""
    root, files, warnings = laid_out(folder)
    for warning in warnings:
        print(f"warning: {warning}", file=sys.stderr)
    return Request(
        root=root, kind="obsidian", exclude=None, files=files, derived=0, lanes=lanes, rerank=rerank, changes={}
    )


@contextmanager
def settings() -> Iterator[Settings]:
    """The settings as they are shipped, on a state folder that is thrown away."""
    with tempfile.TemporaryDirectory() as home:
        yield replace(config.load({"VADE_HOME": home}), models=models_folder())


def models_folder() -> Path:
    """Where models for benchmarks lie."""
    named = os.environ.get("VADE_TEST_MODELS", "")
    return Path(named) if named else config.state_home({}) / "models"


def _sets() -> Iterator[tuple[str, Request]]:
    pair = (EXAMPLE / QUESTIONS, EXAMPLE / JUDGEMENTS)
    yield "example", Request(EXAMPLE_VAULT, "obsidian", None, (pair,), 0, (), True, {})
    real = Path(os.environ.get("VADE_TEST_VAULTS", "")) / "help-en"
    if os.environ.get("VADE_TEST_VAULTS") and real.is_dir():
        yield "help-en", request(real)
