"""The daemon as a process: what asking over its socket costs, what it answers while it indexes, and what it grows to.

Wall time, since waiting is what is measured, so every figure but those of memory and idle CPU is held against the same
thing in the same run: recall over the socket against recall in this process, answers during an index against answers
before it. On a machine that other work keeps busy, `beside_busy` says what that work alone makes of an idle daemon.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Final

from benchmarks.latency.recall import QUERIES
from benchmarks.measure import Figure, big_vault, child_cpu_ms, interleaved, wall
from benchmarks.quality.scores import EXAMPLE_VAULT, models_folder
from vademecum import config
from vademecum.access import OWNER
from vademecum.app import Vademecum
from vademecum.config import Settings
from vademecum.daemon import control
from vademecum.embedding.models import DEFAULT, find
from vademecum.pump import Unanswered, ask
from vademecum.search import Question

_AT_ONCE: Final = 50
_CHANGED: Final = 1_000
_BURSTS: Final = 200
_SAVES: Final = 50  # in a burst
_IDLE_S: Final = 120.0  # holds two rounds of the scan that comes every minute
_WORDS_ONLY: Final = 'embedding.model = "none"\ndaemon.reconcile_s = 3600\n'
_HASHED: Final = 'embedding.model = "hashing"\ndaemon.reconcile_s = 3600\n'
_BUSY: Final = "while True: pass"


def run() -> list[Figure]:
    """Measure everything about the daemon."""
    with tempfile.TemporaryDirectory(prefix="vade-bench-") as folder, big_vault() as (vault, _):
        work = Path(folder)
        return [*_by_meaning(work, vault), *_while_indexing(work, vault), *_growth(work)]


# ── a daemon, and asking it


@dataclass(frozen=True, slots=True)
class _Served:
    """A daemon that runs."""

    settings: Settings

    def ask(self, method: str, target: str, body: Any = None) -> Any:
        return control.call(self.settings, method, target, body, timeout_s=60)

    def send(self, method: str, target: str, body: Any = None) -> int:
        """The status of an answer whose JSON is not read: what is measured is the daemon."""
        sent = None if body is None else json.dumps(body).encode()
        return ask(str(control.http_socket(self.settings)), method, target, sent, timeout_s=60, connect_s=10)[0]

    def recall(self, query: str, lane: str) -> None:
        if self.send("POST", "/api/recall", {"query": query, "lane": lane, "limit": 10}) != 200:
            raise Unanswered(query)

    def check_meaning(self, query: str) -> None:
        """A question that only words answered would make every figure about hybrid recall too good."""
        lane = self.ask("POST", "/api/recall", {"query": query, "limit": 10})["receipt"]["lanes"]["meaning"]
        if lane["state"] != "ok":
            raise RuntimeError(f"the daemon does not answer by meaning: {lane}")

    def finds(self, query: str, name: str) -> bool:
        answer = self.ask("POST", "/api/recall", {"query": query, "lane": "words"})
        return any(hit["path"].endswith(name) for hit in answer["hits"])

    def connect(self, vault: Path) -> str:
        """Begin to index a vault: the id of the source."""
        return str(self.ask("POST", "/api/sources/obsidian", {"path": str(vault)})["source"]["id"])

    def syncs(self) -> int:
        """How many there were since the daemon began."""
        jobs = [source["job"]["id"] for source in self.ask("GET", "/api/status")["sources"] if source["job"]]
        return max((int(name.rpartition("-")[2]) for name in jobs), default=0)

    def measured(self) -> dict[str, float]:
        """What the daemon says of its process."""
        _, content = ask(str(control.http_socket(self.settings)), "GET", "/metrics", timeout_s=60, connect_s=10)
        pairs = (line.split() for line in content.decode().splitlines() if line.startswith("process_"))
        return {name: float(value) for name, value in pairs}

    def settle(self, quiet_s: float = 1.0) -> None:
        """Wait until nothing runs, for so long."""
        since = time.monotonic()
        while time.monotonic() - since < quiet_s:
            status = self.ask("GET", "/api/status")
            if status["jobs"] or status["embedding"]["state"] == "working":
                since = time.monotonic()
            time.sleep(0.1)


@contextmanager
def _served(home: Path) -> Iterator[_Served]:
    settings = config.load({"VADE_HOME": str(home)})
    child = subprocess.Popen(
        [sys.executable, "-P", "-m", "vademecum", "serve"],
        env=os.environ | {"VADE_HOME": str(home), "VADE_PORT": "0"},
        stdin=subprocess.DEVNULL,
        cwd=home,
    )
    try:
        _until(lambda: child.poll() is not None or control.running(settings) is not None)
        yield _Served(settings)
    finally:
        child.terminate()
        child.wait(60)


def _until(true: Callable[[], bool], pause_s: float = 0.02) -> None:
    deadline = time.monotonic() + 300
    while not true():
        if time.monotonic() > deadline:
            raise TimeoutError("it did not come about")
        time.sleep(pause_s)


def _state(home: Path, settings: str = "") -> Path:
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    if settings:
        (home / "config.toml").write_text(settings, encoding="utf-8")
    return home


def _p99(times: Sequence[float]) -> float:
    return sorted(times)[int(0.99 * len(times))]


# ── with a model: recall over the socket, memory, idle CPU


def _by_meaning(work: Path, vault: Path) -> Iterator[Figure]:
    if set(find(replace(config.load({"VADE_HOME": str(work)}), models=models_folder()), DEFAULT).values()) != {"ok"}:
        print(f"daemon: recall by meaning is left out, {DEFAULT.name} is not in {models_folder()}", file=sys.stderr)
        return
    state = _embedded_state()
    served_home, alone = work / "served", work / "alone"
    for copy in (served_home, alone):
        shutil.copytree(state, copy, symlinks=True)
    with _served(served_home) as daemon:
        daemon.settle()
        yield _socket(daemon, alone)
        yield _together(daemon)
    _add_vectors(served_home, vault)
    yield from _at_rest(served_home)


def _embedded_state() -> Path:
    """A state folder with a vault of notes and its vectors: kept in the folder that VADE_BENCH_CACHE names.

    What the kept one lacks is made, so that another version of the index or of the vault does no harm.
    """
    kept = os.environ.get("VADE_BENCH_CACHE")
    cache = Path(kept) if kept else Path(tempfile.gettempdir()) / "vademecum-benchmarks"
    home = _state(cache / "embedded")
    if not (home / "models").is_symlink():
        (home / "models").symlink_to(models_folder().resolve())
    real = Path(os.environ.get("VADE_TEST_VAULTS", "")) / "help-en" / "vault"
    app = Vademecum(config.load({"VADE_HOME": str(home)}))
    app.add("obsidian", str(real if real.is_dir() else EXAMPLE_VAULT), name="embedded")
    app.embed(budget_s=None)
    app.close()
    return home


def _socket(daemon: _Served, alone: Path) -> Figure:
    """Each question in turn in this process and over the socket; and `vade` with that daemon and without one."""
    app = Vademecum(config.load({"VADE_HOME": str(alone)}))
    here: list[float] = []
    there: list[float] = []
    bare: list[float] = []
    for query in QUERIES:
        question = Question(query, limit=10)
        assert app.recall(question, OWNER).receipt.lanes["meaning"].state == "ok"
        daemon.check_meaning(query)
        times = interleaved(
            20,
            lambda q=question: app.recall(q, OWNER),  # type: ignore[misc]
            lambda q=query: daemon.recall(q, "hybrid"),  # type: ignore[misc]
            lambda: daemon.send("GET", "/health"),
            clock=wall,
        )
        for kept, new in zip((here, there, bare), times, strict=True):
            kept += new
    app.close()
    p50 = [round(1000 * statistics.median(times), 2) for times in (here, there, bare)]
    return Figure(
        "hybrid recall over the socket, p50 above the same in one process",
        round(p50[1] - p50[0], 2),
        15,
        " ms",
        {"socket_ms": p50[1], "process_ms": p50[0], "health_ms": p50[2]} | _cold(daemon.settings.home, alone),
    )


def _cold(served_home: Path, alone: Path) -> dict[str, float]:
    vade = [str(Path(sys.executable).with_name("vade")), "recall", QUERIES[0]]
    homes = {"cli_daemon": served_home, "cli_alone": alone}
    spent: dict[str, list[float]] = {f"{name}_{kind}_ms": [] for name in homes for kind in ("cpu", "wall")}
    for _ in range(8):
        for name, home in homes.items():
            environment = {**os.environ, "VADE_HOME": str(home)}
            started = time.perf_counter()
            spent[f"{name}_cpu_ms"].append(child_cpu_ms(vade, environment))
            spent[f"{name}_wall_ms"].append(1000 * (time.perf_counter() - started))
    return {name: round(min(times)) for name, times in spent.items()}


def _together(daemon: _Served, rounds: int = 5) -> Figure:
    """Many questions at the same moment."""
    taken: list[float] = []

    def one(query: str, barrier: threading.Barrier) -> None:
        barrier.wait()
        started = time.perf_counter()
        with suppress(Unanswered):
            daemon.recall(query, "hybrid")
            taken.append(1000 * (time.perf_counter() - started))

    for _ in range(rounds):
        barrier = threading.Barrier(_AT_ONCE)
        threads = [
            threading.Thread(target=one, args=(QUERIES[number % len(QUERIES)], barrier)) for number in range(_AT_ONCE)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return Figure(
        f"{_AT_ONCE} hybrid questions at once, errors",
        rounds * _AT_ONCE - len(taken),  # whatever kept a thread from an answer
        0,
        "",
        {"rounds": rounds, "worst_ms": round(max(taken)), "p50_ms": round(statistics.median(taken))},
    )


def _add_vectors(home: Path, vault: Path) -> None:
    """Add the large vault. To embed it takes hours, so its vectors are made up: noise weighs as much as meaning."""
    import numpy as np

    app = Vademecum(config.load({"VADE_HOME": str(home)}))
    app.add("obsidian", str(vault), name="large")
    vectors = app.index.vectors
    chosen = vectors.answering()
    assert chosen is not None, "the embedded state has a set"
    missing = iter(vectors.missing(chosen.row))
    random = np.random.default_rng(1)
    while contents := list(islice(missing, 1_000)):
        made = random.standard_normal((len(contents), chosen.dimensions), dtype=np.float32)
        made /= np.linalg.norm(made, axis=1, keepdims=True)
        rows = made.astype("<f4")
        vectors.put(chosen.row, [(content, row.tobytes(), 0) for content, row in zip(contents, rows, strict=True)])
    app.close()


def _at_rest(home: Path) -> Iterator[Figure]:
    """Memory with everything loaded, and the CPU of a daemon that nobody asks anything."""
    with _served(home) as daemon:
        daemon.settle(5)
        for query in QUERIES * 3:
            daemon.check_meaning(query)
        loaded = daemon.measured()["process_resident_memory_bytes"]
        status = daemon.ask("GET", "/api/status")
        notes = sum(source["documents"] for source in status["sources"])
        yield _idle(daemon, notes)
        # Each lane has an index and a page cache of its own, and those that write fill theirs only now.
        large = max(status["sources"], key=lambda source: int(source["documents"]))["id"]
        daemon.ask("POST", f"/api/sources/{large}/sync", {"force": True})
        daemon.settle(5)
        for query in QUERIES:
            daemon.check_meaning(query)
        indexed = daemon.measured()["process_resident_memory_bytes"]
        detail = {"before_mb": round(loaded / 1024**2), "vectors": status["vectors"]["have"]}
        yield Figure(
            "resident memory, model and matrix loaded, after reading every note again",
            round(max(loaded, indexed) / 1024**2),
            300,
            " MB",
            {**detail, "notes": notes, "pending": status["vectors"]["pending"]},
        )


def _idle(daemon: _Served, notes: int) -> Figure:
    daemon.settle(10)
    syncs, before = daemon.syncs(), daemon.measured()["process_cpu_seconds_total"]
    started = time.monotonic()
    time.sleep(_IDLE_S)
    spent = daemon.measured()["process_cpu_seconds_total"] - before
    passed = time.monotonic() - started
    return Figure(
        f"idle CPU, {notes:,} notes watched",
        round(100 * spent / passed, 3),
        0.5,
        " %",
        {"cpu_s": round(spent, 3), "over_s": round(passed), "scans": daemon.syncs() - syncs},
    )


# ── by words: answers during an index, saved notes, and many changes


def _while_indexing(work: Path, vault: Path) -> Iterator[Figure]:
    copy = work / "vault"
    shutil.copytree(vault, copy)
    with _served(_state(work / "words", _WORDS_ONLY)) as daemon:
        daemon.connect(EXAMPLE_VAULT)
        daemon.settle()
        idle = _Load(daemon).until_passed(10)
        beside = _beside_busy(daemon)
        source = daemon.connect(copy)
        during = _Load(daemon).until(lambda: _is_synced(daemon, source))
        yield _answering(idle, beside, during, _Load(daemon).until_passed(10))
        yield _findable(daemon, copy)
        yield _burst(daemon, source, copy)


class _Load:
    """Two clients: one asks for /health every few milliseconds, the other asks questions."""

    def __init__(self, daemon: _Served) -> None:
        self._daemon = daemon
        self._ended = threading.Event()
        self.health: list[float] = []
        self.recall: list[float] = []

    def until_passed(self, seconds: float) -> _Load:
        ends = time.monotonic() + seconds
        return self.until(lambda: time.monotonic() > ends)

    def until(self, true: Callable[[], bool]) -> _Load:
        clients = [threading.Thread(target=act) for act in (self._health, self._recall)]
        for client in clients:
            client.start()
        try:
            _until(true, 0.5)
        finally:
            self._ended.set()
            for client in clients:
                client.join()
        return self

    def detail(self, name: str) -> dict[str, float]:
        """Medians and 99th percentiles in ms."""
        return {
            f"{kind}_{share}_{name}": round(of(times), 1)
            for kind, times in (("health", self.health), ("recall", self.recall))
            for share, of in (("p50", statistics.median), ("p99", _p99))
        }

    def _health(self) -> None:
        while not self._ended.wait(0.005):
            self.health.append(1000 * wall(lambda: self._daemon.send("GET", "/health")))

    def _recall(self) -> None:
        number = 0
        while not self._ended.wait(0.05):
            query = QUERIES[number % len(QUERIES)]
            self.recall.append(1000 * wall(lambda q=query: self._daemon.recall(q, "words")))  # type: ignore[misc]
            number += 1


def _beside_busy(daemon: _Served) -> _Load:
    """The same load while another process takes a core: what an index costs by the machine, not by the daemon."""
    child = subprocess.Popen([sys.executable, "-c", _BUSY])
    try:
        return _Load(daemon).until_passed(10)
    finally:
        child.kill()
        child.wait()


def _is_synced(daemon: _Served, source: str) -> bool:
    job = daemon.ask("GET", f"/api/sources/{source}/health")["job"]
    return job is not None and job["status"] not in ("queued", "running")


def _answering(idle: _Load, beside: _Load, during: _Load, after: _Load) -> Figure:
    detail = {"samples": float(len(during.health)), "recalls": float(len(during.recall))}
    detail["health_worst_indexing"] = round(max(during.health), 1)
    for name, load in (("idle", idle), ("beside_busy", beside), ("indexing", during), ("after", after)):
        detail |= load.detail(name)
    return Figure(
        "/health p99 during a full index, above idle p99",
        round(_p99(during.health) - _p99(idle.health), 1),
        50,
        " ms",
        detail,
    )


def _findable(daemon: _Served, vault: Path, rounds: int = 10) -> Figure:
    """From the end of a write to the first answer that holds the note."""
    folder = next(path for path in sorted(vault.iterdir()) if path.is_dir() and not path.name.startswith("."))
    taken = []
    for number in range(rounds):
        daemon.settle()
        time.sleep(1 + 0.13 * number)
        word, name = f"zyxw{number}vuts", f"saved {number}.md"
        (folder / name).write_text(f"# Saved {number}\n\nThis note says {word}, once.\n", encoding="utf-8")
        taken.append(wall(lambda w=word, n=name: _until(lambda: daemon.finds(w, n), 0.01)))  # type: ignore[misc]
    return Figure(
        f"a saved note is found, worst of {rounds}",
        round(max(taken), 2),
        1,
        " s",
        {"median_s": round(statistics.median(taken), 2), "least_s": round(min(taken), 2)},
    )


def _burst(daemon: _Served, source: str, vault: Path) -> Figure:
    """Many notes changed as fast as they can be written, as a checkout does."""
    daemon.settle(2)
    before = daemon.syncs()
    notes = sorted(vault.rglob("*.md"))[:: len(list(vault.rglob("*.md"))) // _CHANGED][:_CHANGED]
    started = time.perf_counter()
    for note in notes:
        with note.open("a", encoding="utf-8") as file:
            file.write(f"\nchanged plughqxz{'last' * (note == notes[-1])}\n")
    written = time.perf_counter() - started
    _until(lambda: daemon.finds("plughqxzlast", notes[-1].name), 0.1)
    found = time.perf_counter() - started
    daemon.settle(4)
    updated = daemon.ask("GET", f"/api/sources/{source}/health")["job"]["report"]["updated"]
    detail = {"notes": float(len(notes)), "in_last_sync": float(updated), "written_s": round(written, 2)}
    detail["last_found_s"] = round(found, 2)
    return Figure(f"{_CHANGED:,} notes changed at once, syncs", daemon.syncs() - before, 2, "", detail)


# ── growth


def _growth(work: Path) -> Iterator[Figure]:
    """Save 10,000 times in bursts, ask after each, and fit a line through what the process holds."""
    vault = work / "small"
    shutil.copytree(EXAMPLE_VAULT, vault)
    samples: list[dict[str, float]] = []
    with _served(_state(work / "growth", _HASHED)) as daemon:
        source = daemon.connect(vault)
        daemon.settle()
        for burst in range(_BURSTS):
            before = daemon.syncs()
            _save(vault, burst)
            _until(lambda n=before: daemon.syncs() > n and _is_synced(daemon, source))  # type: ignore[misc]
            daemon.recall(f"burst{burst} of many saves", "hybrid")
            samples.append(daemon.measured())
        last = f"save{_BURSTS - 1}of{_SAVES - 1}"
        _until(lambda: daemon.finds(last, f"Note {_SAVES - 1}.md"))  # a sync may end amid a burst
    for name, key, unit, size, target in (
        ("resident memory", "process_resident_memory_bytes", " MB", 1024**2, 5),
        ("descriptors", "process_open_fds", "", 1, 0),
        ("threads", "process_threads", "", 1, 0),
    ):
        values = [sample[key] / size for sample in samples if key in sample]
        if values:
            yield _slope(name, values, unit, target)


def _save(vault: Path, burst: int) -> None:
    for number in range(_SAVES):
        lines = [f"# Note {number}", "", f"save{burst}of{number}", ""]
        for part in range(5):
            lines += [
                f"## Part {part}",
                "",
                f"In burst{burst} part {part} of [[Note {number - 1}]] was saved. " * 4,
                "",
            ]
        (vault / f"Note {number}.md").write_text("\n".join(lines), encoding="utf-8")


def _slope(name: str, values: list[float], unit: str, target: float) -> Figure:
    kept = values[len(values) // 4 :]  # by then caches are full and threads begun
    line = statistics.linear_regression(range(len(kept)), kept)
    growth = line.slope * len(values)
    late = statistics.linear_regression(range(len(values) // 4), values[-(len(values) // 4) :]).slope * len(values)
    return Figure(
        f"{_BURSTS * _SAVES:,} saves in {_BURSTS} bursts: {name}, growth",
        round(growth, 1) if unit else round(growth) + 0,
        target,
        unit,
        {
            "first": round(values[0], 1),
            "quarter": round(kept[0], 1),
            "last": round(kept[-1], 1),
            "by_last_quarter": round(late, 2),
        },
    )
