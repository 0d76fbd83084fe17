"""Indexing, syncing and removing a vault of 6,571 notes, against the bare operations."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.measure import PEAK, Figure, big_vault, cpu, floor_index, floor_walk, interleaved, median_ratio
from vademecum import config
from vademecum.access import OWNER, WHOLE, visible_notes
from vademecum.app import Vademecum
from vademecum.graph import Links
from vademecum.index import shape
from vademecum.markdown import note

_PEAK = f"""{PEAK}
import sys
from vademecum import config
from vademecum.__main__ import tune
from vademecum.app import Vademecum
tune()
app = Vademecum(config.load({{"VADE_HOME": sys.argv[1]}}))
app.add("obsidian", sys.argv[2])
print(peak_mb())
"""


def run(rounds: int = 7) -> list[Figure]:
    """Measure everything about a vault's text."""
    with big_vault() as (vault, _), tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        figures = _indexing(vault, work, rounds)
        copy = work / "vault"
        shutil.copytree(vault, copy)
        time.sleep(2.5)  # stamps younger than two seconds are not believed
        app = Vademecum(config.load({"VADE_HOME": str(work / "sync")}))
        app.add("obsidian", str(copy), name="bench")
        figures += _syncing(app, copy, rounds)
        app.close()
        return figures


def _indexing(vault: Path, work: Path, rounds: int) -> list[Figure]:
    home = work / "state"
    apps: list[Vademecum] = []

    def index() -> None:
        shutil.rmtree(home, ignore_errors=True)
        app = Vademecum(config.load({"VADE_HOME": str(home)}))
        app.add("obsidian", str(vault), name="bench")
        apps.append(app)

    floor, indexed, removed, shapeless, resolved = [], [], [], [], []
    for _ in range(rounds):
        floor.append(cpu(lambda: floor_index(vault, work / "floor.db")))
        indexed.append(cpu(index))
        app = apps.pop()
        resolved.append(cpu(lambda app=app: _resolve_all(app)))  # type: ignore[misc]
        removed.append(cpu(lambda app=app: app.remove("bench")))  # type: ignore[misc]
        app.close()
        with _without_shape():
            shapeless.append(cpu(index))
        apps.pop().close()
    # The difference of two runs ten times as long: noise only ever adds, so the least of each says most.
    graph = min(indexed) - min(shapeless)
    peak = subprocess.run(
        [sys.executable, "-c", _PEAK, str(work / "peak"), str(vault)], capture_output=True, text=True, check=True
    )
    megabytes = float(peak.stdout)
    return [
        Figure(
            "index text / floor",
            median_ratio(shapeless, floor),
            8,
            " ×",
            {"cpu_s": min(shapeless), "floor_s": min(floor)},
        ),
        Figure(
            "graph, added to indexing / floor",
            round(graph / min(floor), 2),
            1,
            " ×",
            {"cpu_s": graph, "floor_s": min(floor)},
        ),
        Figure(
            "every link resolved once, when asked / floor",
            median_ratio(resolved, floor),
            1,
            " ×",
            {"cpu_s": min(resolved), "floor_s": min(floor)},
        ),
        Figure("index text and graph / floor", median_ratio(indexed, floor), 9, " ×", {"cpu_s": min(indexed)}),
        Figure("peak memory while indexing", round(megabytes), 200, " MB", {}),
        Figure(
            "remove, vacuum and proof / floor",
            median_ratio(removed, floor),
            5,
            " ×",
            {"cpu_s": min(removed), "floor_s": min(floor)},
        ),
    ]


@contextmanager
def _without_shape() -> Iterator[None]:
    """Index as if there were no graph: no blocks are looked for, and no row of a note's shape is written."""
    kept = (shape.put_in, shape.add_folders, shape.take_out, note.blocks)  # type: ignore[attr-defined]
    shape.put_in = shape.add_folders = shape.take_out = lambda *_: None  # type: ignore[assignment]
    note.blocks = lambda *_, **__: ()  # type: ignore[attr-defined]
    try:
        yield
    finally:
        shape.put_in, shape.add_folders, shape.take_out, note.blocks = kept  # type: ignore[attr-defined]


def _resolve_all(app: Vademecum) -> None:
    source = app.registry.find("bench")
    graph = app.index.graph(source.id, visible_notes(OWNER, {source.id: WHOLE}))
    links = Links(graph)
    for page in graph.all_notes():
        links.out_of([found.document for found in page])


def _syncing(app: Vademecum, vault: Path, rounds: int) -> list[Figure]:
    source = app.registry.find("bench")
    app.sync(source)
    floor, unchanged = interleaved(rounds * 4, lambda: floor_walk(vault), lambda: app.sync(source))
    note = next(path for path in sorted(vault.rglob("*.md")) if 15_000 < path.stat().st_size < 20_480)
    changed = []
    for number in range(rounds * 2):
        note.write_text(note.read_text(encoding="utf-8") + f"\nround {number}\n", encoding="utf-8")
        changed.append(cpu(lambda: app.sync(source)))
    return [
        Figure(
            "unchanged sync / walk and stat",
            median_ratio(unchanged, floor),
            3,
            " ×",
            {"cpu_ms": min(unchanged) * 1000, "floor_ms": min(floor) * 1000},
        ),
        Figure(
            "one changed note of 15 to 20 KB, more than an unchanged sync",
            round((sorted(changed)[len(changed) // 2] - sorted(unchanged)[len(unchanged) // 2]) * 1000, 1),
            100,
            " ms",
            {"cpu_ms": min(changed) * 1000},
        ),
    ]
