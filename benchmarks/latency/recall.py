"""Recall from a vault of 6,571 notes: warm against the bare full-text queries, cold against bare Python."""

from __future__ import annotations

import compileall
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import apsw

import vademecum
from benchmarks.measure import Figure, big_vault, child_cpu_ms, wall
from vademecum import config
from vademecum.access import OWNER
from vademecum.app import Vademecum
from vademecum.search import Question, parse_query

QUERIES = (
    "daily notes template",
    "how do I sync a vault with git",
    "best theme for long writing sessions",
    "dataview query list tasks",
    "kanban board plugin",
    "what changed in version 0.12.3",
    "css snippet for headings",
    "zettelkasten workflow",
    "export notes to pdf",
    "calendar",
)
_BARE = (
    "select rowid, bm25(chunk_fts, 2, 1.5, 1) s from chunk_fts where chunk_fts match ? order by s limit 100",
    "select rowid, bm25(note_fts, 2, 2, 1.5, 1.5, 1) s from note_fts where note_fts match ? order by s limit 100",
)


def run(rounds: int = 15) -> list[Figure]:
    """Measure warm and cold recall."""
    with big_vault() as (vault, _), tempfile.TemporaryDirectory() as folder:
        app = Vademecum(config.load({"VADE_HOME": folder}))
        app.add("obsidian", str(vault), name="bench")
        time.sleep(2.5)
        app.sync(app.registry.find("bench"))
        figures = [_warm(app, rounds)]
        app.close()
        figures.append(_cold(folder, 20))
        return figures


def _warm(app: Vademecum, rounds: int) -> Figure:
    connection = apsw.Connection(str(app.settings.index_file), flags=apsw.SQLITE_OPEN_READONLY)
    bare: list[float] = []
    full: list[float] = []
    for query in QUERIES:
        words = parse_query(query).terms
        expression = " OR ".join(f'"{word}"' for word in words)
        question = Question(query, limit=10)
        app.recall(question, OWNER)
        for sql in _BARE:
            connection.execute(sql, (expression,)).fetchall()
        for _ in range(rounds):
            bare.append(wall(lambda e=expression: [connection.execute(s, (e,)).fetchall() for s in _BARE]))  # type: ignore[misc]
            full.append(wall(lambda q=question: app.recall(q, OWNER)))  # type: ignore[misc]
    connection.close()
    bare_ms, full_ms = statistics.median(bare) * 1000, statistics.median(full) * 1000
    return Figure(
        "warm words recall p50 / the two bare queries",
        round(full_ms / bare_ms, 2),
        2,
        " ×",
        {"p50_ms": round(full_ms, 2), "bare_p50_ms": round(bare_ms, 2)},
    )


def _cold(home: str, rounds: int) -> Figure:
    package = Path(vademecum.__file__).parent
    compileall.compile_dir(package, quiet=1)
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"} | {"VADE_HOME": home}
    vade = str(Path(sys.executable).with_name("vade"))
    floor, recall = [], []
    for _ in range(rounds):
        floor.append(child_cpu_ms([sys.executable, "-c", "pass"], environment))
        recall.append(child_cpu_ms([vade, "recall", "kanban board plugin"], environment))
    return Figure(
        "cold `vade recall`, CPU above `python -c pass`",
        round(min(recall) - min(floor)),
        200,
        " ms",
        {"cpu_ms": round(min(recall)), "floor_ms": round(min(floor))},
    )
