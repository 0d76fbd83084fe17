"""Memories: 2,000 of them in the home vault; remembering one, and what reaches a project, warm and in a new process.

The floor is what no implementation that believes files alone can do without: listing 2,000 files and looking at each.
"""

from __future__ import annotations

import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks.measure import Figure
from vademecum import config
from vademecum.access import Caller, Reach
from vademecum.app import Vademecum
from vademecum.home import Standing
from vademecum.memory.memory import Draft, render, slug

MEMORIES = 2_000
_WORDS: Final = (
    "queue", "broker", "retry", "timer", "shard", "cache", "index", "token", "build", "deploy", "schema", "migrate",
    "vector", "graph", "lock", "batch", "stream", "socket", "flush", "replay", "audit", "ledger", "quota", "tenant",
)  # fmt: skip
_CALLER = Caller("p1", (), "folder")
_WHO = Standing(_CALLER, "p1", inside=False)


def run(rounds: int = 30) -> list[Figure]:
    """Measure a home vault of so many memories."""
    chance = random.Random(1)
    with tempfile.TemporaryDirectory() as folder:
        os.environ.pop("VADE_VAULT", None)
        app = Vademecum(config.load({"VADE_HOME": folder}))
        fill(app.home.root / "memories", MEMORIES, chance)
        app.sync(app.home.ensure())
        time.sleep(2.5)  # stamps this young would not be believed
        cold_ms = _ms(lambda: app.memories.list(_CALLER, limit=20))
        floor_ms = _median(rounds, lambda: _look_at_each(app.home.root / "memories"))
        listed = _median(rounds, lambda: app.memories.list(_CALLER, limit=20))
        asked = _median(rounds, lambda: app.recall(app.question("queue17 retry33 lock5"), _CALLER))
        said = [_said(chance, n) for n in range(rounds)]
        times = [_ms(partial(app.memories.remember, one, _WHO)) for one in said]
        app.close()
    floor = {"floor_ms": floor_ms}
    return [
        Figure(
            f"remembering one beside {MEMORIES:,}, p50",
            round(statistics.median(times), 1),
            40,
            " ms",
            {**floor, "worst_ms": max(times)},
        ),
        Figure(
            f"what reaches a project of {MEMORIES:,}, p50", round(listed, 1), 25, " ms", {**floor, "cold_ms": cold_ms}
        ),
        Figure("the same, to looking at each file", round(listed / floor_ms, 2), 2, " ×", floor),
        Figure("a question to them by words, p50", round(asked, 1), 60, " ms", floor),
    ]


def fill(root: Path, count: int, chance: random.Random) -> None:
    """Write so many memories, some general, most of a few projects."""
    for n in range(count):
        reach = Reach("project", (f"p{n % 5}",)) if n % 3 else Reach("general")
        draft = Draft(f"Lesson {n} {_text(chance, 5)}", f"{_text(chance, 60)}.", reach, "inferred", "p1")
        month = n % 12 + 1
        place = root / "2026" / f"{month:02d}"
        place.mkdir(parents=True, exist_ok=True)
        text = render(draft, date=f"2026-{month:02d}-01", session="2026-01-01T00:00:00.000Z")
        (place / f"2026-{month:02d}-01 {slug(draft.title)}.md").write_text(text)


def _said(chance: random.Random, n: int) -> dict[str, object]:
    return {"title": f"New {n} {_text(chance, 4)}", "body": f"{_text(chance, 50)}.", "confidence": "inferred"}


def _text(chance: random.Random, words: int) -> str:
    return " ".join(f"{chance.choice(_WORDS)}{chance.randrange(400)}" for _ in range(words))


def _look_at_each(root: Path) -> int:
    found = 0
    for folder, _, files in os.walk(root):
        for name in files:
            found += os.stat(os.path.join(folder, name)).st_size
    return found


def _ms(act: Callable[[], object]) -> float:
    started = time.perf_counter()
    act()
    return (time.perf_counter() - started) * 1000


def _median(rounds: int, act: Callable[[], object]) -> float:
    return statistics.median(_ms(act) for _ in range(rounds))
