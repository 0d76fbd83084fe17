"""Measuring: floors and candidates in the same run, interleaved, and their ratios; results as JSON.

These machines are shared and noisy, so a figure alone says little: every target is a ratio against the bare operation
taken in the same run, and CPU time rather than wall time wherever one process does the work.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import apsw

# For a child that measures itself. What the system counts as its greatest memory may include its parent's.
PEAK = """
def peak_mb():
    import resource, sys
    if sys.platform == "darwin":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith("VmHWM"))
"""
RESULTS = Path(__file__).parent / "results"
HUB_NOTES = 6_571


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured ratio against its target. `at_most` False turns the comparison round."""

    name: str
    value: float
    target: float
    unit: str
    detail: dict[str, float]
    at_most: bool = True

    @property
    def met(self) -> bool:
        """Whether the target is reached."""
        return self.value <= self.target if self.at_most else self.value >= self.target

    def line(self) -> str:
        """The figure for a person."""
        sign = "≤" if self.at_most else "≥"
        detail = ", ".join(f"{key} {value:g}" for key, value in self.detail.items())
        verdict = "ok  " if self.met else "MISS"
        return f"{verdict} {self.name}: {self.value:g}{self.unit} ({sign} {self.target:g}; {detail})"


def write_results(name: str, figures: Sequence[Figure]) -> None:
    """Keep the figures of one benchmark, with what they were measured on."""
    RESULTS.mkdir(exist_ok=True)
    content = {
        "benchmark": name,
        "date": time.strftime("%Y-%m-%d"),
        "python": platform.python_version(),
        "sqlite": apsw.sqlite_lib_version(),
        "cpus": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
        "figures": [
            {
                "name": f.name,
                "value": f.value,
                "unit": f.unit,
                "target": f.target,
                "met": f.met,
                **{key: round(value, 4) for key, value in f.detail.items()},
            }
            for f in figures
        ],
    }
    (RESULTS / f"{name}.json").write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def cpu(act: Callable[[], object]) -> float:
    """Seconds of CPU that this process spends on something."""
    before = time.process_time()
    act()
    return time.process_time() - before


def wall(act: Callable[[], object]) -> float:
    """Seconds that something takes."""
    before = time.perf_counter()
    act()
    return time.perf_counter() - before


def interleaved(
    runs: int, *acts: Callable[[], object], clock: Callable[[Callable[[], object]], float] = cpu
) -> list[list[float]]:
    """Each act's times over several rounds in turn, so that noise falls on all of them alike."""
    times: list[list[float]] = [[] for _ in acts]
    for _ in range(runs):
        for act, kept in zip(acts, times, strict=True):
            kept.append(clock(act))
    return times


def median_ratio(candidate: Sequence[float], floor: Sequence[float]) -> float:
    """The median of the ratios of neighbouring runs."""
    return round(statistics.median(c / f for c, f in zip(candidate, floor, strict=True)), 2)


def child_cpu_ms(command: Sequence[str], environment: dict[str, str]) -> float:
    """Milliseconds of CPU that a child process spends from start to end."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000


@contextmanager
def big_vault() -> Iterator[tuple[Path, str]]:
    """A vault of 6,571 notes and what it is: the real one below VADE_TEST_VAULTS, else a synthetic one."""
    real = Path(os.environ.get("VADE_TEST_VAULTS", "")) / "hub" / "vault"
    if os.environ.get("VADE_TEST_VAULTS") and real.is_dir():
        yield real, "a public community vault"
        return
    with tempfile.TemporaryDirectory() as folder:
        vault = Path(folder) / "vault"
        generator = Path(__file__).with_name("make_vault.py")
        command = [sys.executable, str(generator), "--notes", str(HUB_NOTES), "--seed", "1", "--out", str(vault)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        yield vault, "a synthetic vault"


def floor_index(vault: Path, database: Path) -> None:
    """The bare operation: read every note and insert its text into one FTS5 porter table."""
    for old in database.parent.glob(database.name + "*"):
        old.unlink()
    connection = apsw.Connection(str(database))
    connection.pragma("journal_mode", "wal")
    connection.pragma("synchronous", "normal")
    connection.execute("create virtual table t using fts5(body, tokenize='porter unicode61 remove_diacritics 2')")
    connection.execute("begin")
    for folder, _, files in os.walk(vault):
        for name in files:
            if name.endswith(".md"):
                with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
                    connection.execute("insert into t(body) values (?)", (file.read().replace("\x00", ""),))
    connection.execute("commit")
    connection.close()


def floor_walk(vault: Path) -> None:
    """The bare operation: walk and stat every file."""
    for folder, _, files in os.walk(vault):
        for name in files:
            os.stat(os.path.join(folder, name))
