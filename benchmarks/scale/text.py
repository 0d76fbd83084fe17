"""Indexing, syncing, asking, expanding and removing 100,000 notes, against 10,000 notes or the bare operations.

Answers are timed in milliseconds, since nobody waits for a ratio; of CPU, with wall time beside it, for what other work
on the machine takes is none of ours.
"""

from __future__ import annotations

import compileall
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import vademecum
from benchmarks.measure import PEAK, Figure, child_cpu_ms, cpu, floor_walk, interleaved, median_ratio
from benchmarks.scale import links
from benchmarks.scale.vaults import LARGE, SMALL, common_questions, queries_of, topic_questions, vault_of
from vademecum import config
from vademecum.app import Vademecum

_START: Final = f"""{PEAK}
import json, statistics, sys, time
from vademecum import config
from vademecum.access import OWNER
from vademecum.app import Vademecum
from vademecum.search import Question
app = Vademecum(config.load({{"VADE_HOME": sys.argv[1]}}))
spent, taken = time.process_time(), time.perf_counter()
def tell(**more):
    seconds = {{"cpu_s": time.process_time() - spent, "wall_s": time.perf_counter() - taken}}
    print(json.dumps({{**seconds, "peak_mb": peak_mb(), **more}}))
"""
_INDEX: Final = f"""{_START}
app.add("obsidian", sys.argv[2], name="bench")
tell(file_mb=app.settings.index_file.stat().st_size / 1e6)
"""
_REMOVE: Final = f"""{_START}
removal = app.remove("bench")
tell(clean=removal.proof.clean, documents=removal.purged.documents)
"""
_RECALL: Final = f"""{_START}
def ask(text):
    before = time.process_time(), time.perf_counter()
    app.recall(Question(text, limit=10, lane="words"), OWNER)
    return 1000 * (time.process_time() - before[0]), 1000 * (time.perf_counter() - before[1])
kinds = json.load(sys.stdin)
for texts in kinds.values():
    ask(texts[0])
times = {{kind: [min(ask(text) for _ in range(2)) for text in texts] for kind, texts in kinds.items()}}
times["all"] = sum(times.values(), [])
def parts(own, name):
    own = sorted(own)
    return {{f"{{name}}p50_ms": statistics.median(own), f"{{name}}p95_ms": own[int(len(own) * 0.95)]}}
told = {{}}
for kind, own in times.items():
    told |= parts([spent for spent, _ in own], f"{{kind}}_") | parts([taken for _, taken in own], f"{{kind}}_wall_")
tell(**told)
"""
_SYNCS: Final = 5


def run() -> list[Figure]:
    """Measure everything about the text of 100,000 notes."""
    small, large = vault_of(SMALL), vault_of(LARGE)
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "large"
        # One before and one after, since these machines have better minutes and worse.
        first = _child(_INDEX, Path(folder) / "first", small)
        grown = _child(_INDEX, home, large)
        second = _child(_INDEX, Path(folder) / "second", small)
        figures = _indexing(grown, [first, second])
        figures += _syncing(home, large)
        figures += _recall(home, large)
        figures += links.expanding((Path(folder) / "second", small), (home, large))
        return [*figures, _removal(home)]


def _child(script: str, home: Path, *words: str | Path, stdin: str = "") -> dict[str, Any]:
    """What a process of its own says of itself."""
    command = [sys.executable, "-c", script, str(home), *map(str, words)]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def _indexing(grown: Mapping[str, float], small: list[dict[str, float]]) -> list[Figure]:
    per_note = {
        name: (grown[f"{name}_s"] / LARGE, statistics.mean(run[f"{name}_s"] for run in small) / SMALL)
        for name in ("cpu", "wall")
    }
    detail = {
        "ms_at_100k": per_note["cpu"][0] * 1000,
        "ms_at_10k": per_note["cpu"][1] * 1000,
        "wall_ratio": round(per_note["wall"][0] / per_note["wall"][1], 2),
        "wall_s": round(grown["wall_s"], 1),
        "file_mb": round(grown["file_mb"]),
    }
    ratio = round(per_note["cpu"][0] / per_note["cpu"][1], 2)
    peak_at_10k = round(max(run["peak_mb"] for run in small))
    return [
        Figure("indexing 100,000 notes, CPU a note / at 10,000", ratio, 1.3, " ×", detail),
        Figure(
            "peak memory while indexing 100,000 notes",
            round(grown["peak_mb"]),
            1000,
            " MB",
            {"at_10k_mb": peak_at_10k},
        ),
    ]


def _syncing(home: Path, vault: Path) -> list[Figure]:
    app = Vademecum(config.load({"VADE_HOME": str(home)}))
    source = app.registry.find("bench")
    app.sync(source)
    floor, unchanged = interleaved(_SYNCS, lambda: floor_walk(vault), lambda: app.sync(source))
    note = next(path for path in sorted(vault.rglob("*.md")) if 15_000 < path.stat().st_size < 20_480)
    before = note.read_text(encoding="utf-8")
    changed, beside = [], []
    try:
        for number in range(_SYNCS):
            note.write_text(f"{before}\nround {number}\n", encoding="utf-8")
            changed.append(cpu(lambda: app.sync(source)))
            beside.append(cpu(lambda: app.sync(source)))
    finally:
        note.write_text(before, encoding="utf-8")  # the vault is kept
    app.sync(source)
    app.close()
    return [
        Figure(
            "unchanged sync of 100,000 notes / walk and stat",
            median_ratio(unchanged, floor),
            3,
            " ×",
            {"cpu_ms": min(unchanged) * 1000, "floor_ms": min(floor) * 1000},
        ),
        Figure(
            "one changed note of 15 to 20 KB in 100,000, more than an unchanged sync",
            round((statistics.median(changed) - statistics.median(beside)) * 1000, 1),
            250,
            " ms",
            {"cpu_ms": min(changed) * 1000},
        ),
    ]


def _recall(home: Path, vault: Path) -> list[Figure]:
    kinds = {"needle": queries_of(vault), "topic": topic_questions(), "common": common_questions()}
    told = _child(_RECALL, home, stdin=json.dumps(kinds))
    told = {name: round(value, 1) for name, value in told.items()}
    of_all = {name: value for name, value in told.items() if name.endswith("_ms") and "topic" not in name}
    of_topics = {name: told[f"topic_{name}"] for name in ("p95_ms", "wall_p50_ms", "wall_p95_ms")}
    return [
        Figure("words recall of 100,000 notes, warm p50", of_all.pop("all_p50_ms"), 120, " ms", of_all),
        Figure("the same, of one to six words of a topic", told["topic_p50_ms"], 120, " ms", of_topics),
        Figure("peak memory while answering from 100,000 notes", round(told["peak_mb"]), 1000, " MB", {}),
        _cold_recall(home),
    ]


def _cold_recall(home: Path, rounds: int = 10) -> Figure:
    compileall.compile_dir(Path(vademecum.__file__).parent, quiet=1)
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"} | {"VADE_HOME": str(home)}
    vade = [str(Path(sys.executable).with_name("vade")), "--as-owner", "recall"]
    floor, recall = [], []
    for _ in range(rounds):
        floor.append(child_cpu_ms([sys.executable, "-c", "pass"], environment))
        recall.append(child_cpu_ms([*vade, topic_questions()[1]], environment))
    return Figure(
        "cold `vade recall` of 100,000 notes, CPU above `python -c pass`",
        round(min(recall) - min(floor)),
        300,
        " ms",
        {"cpu_ms": round(min(recall)), "floor_ms": round(min(floor))},
    )


def _removal(home: Path) -> Figure:
    told = _child(_REMOVE, home)
    assert told["clean"] and told["documents"] == LARGE, told
    return Figure(
        "removing 100,000 notes, vacuum and proof included",
        round(told["wall_s"], 1),
        30,
        " s",
        {"cpu_s": told["cpu_s"], "peak_mb": round(told["peak_mb"])},
    )
