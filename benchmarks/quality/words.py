"""How well the words lane finds the note that answers, at note level, on folders with questions and judgements.

A folder holds `vault/`, `queries.tsv` (id, question, kind) and `qrels.tsv` (id, note, grade).
"""

from __future__ import annotations

import os
import statistics
import tempfile
from pathlib import Path

from benchmarks.measure import Figure
from vademecum import config
from vademecum.access import OWNER
from vademecum.app import Vademecum
from vademecum.search import Question

_HERE = Path(__file__).parent


def run() -> list[Figure]:
    """Score the bundled example, and help-en when it is at hand."""
    example = _HERE / "example"
    figures = [_score("example", _HERE.parents[1] / "examples" / "vault", example, 0.6)]
    real = Path(os.environ.get("VADE_TEST_VAULTS", "")) / "help-en"
    if os.environ.get("VADE_TEST_VAULTS") and real.is_dir():
        figures.append(_score("help-en", real / "vault", real, 0.66))
    return figures


def reciprocal_ranks(vault: Path, questions: Path) -> list[float]:
    """One over the rank of the first right note, for each question; 0 where none is found."""
    queries = [
        line.split("\t") for line in (questions / "queries.tsv").read_text(encoding="utf-8").splitlines() if line
    ]
    right: dict[str, set[str]] = {}
    for line in (questions / "qrels.tsv").read_text(encoding="utf-8").splitlines():
        key, note, grade = line.split("\t")
        if int(grade) > 0:
            right.setdefault(key, set()).add(note)
    with tempfile.TemporaryDirectory() as home:
        app = Vademecum(config.load({"VADE_HOME": home}))
        app.add("obsidian", str(vault))
        ranks = []
        for key, text, *_ in queries:
            hits = app.recall(Question(text, limit=100), OWNER).hits
            notes = list(dict.fromkeys(hit.path for hit in hits))
            ranks.append(next((1 / place for place, note in enumerate(notes, 1) if note in right[key]), 0.0))
        app.close()
    return ranks


def _score(name: str, vault: Path, questions: Path, target: float) -> Figure:
    ranks = reciprocal_ranks(vault, questions)
    halves = {"even": statistics.mean(ranks[::2]), "odd": statistics.mean(ranks[1::2])}
    return Figure(
        f"{name}, {len(ranks)} questions, words alone: MRR",
        round(statistics.mean(ranks), 3),
        target,
        "",
        {"found_none": ranks.count(0.0), **halves},
        at_most=False,
    )
