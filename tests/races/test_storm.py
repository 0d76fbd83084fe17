"""C15: eight processes index, read and remove on one state folder while somebody reads for long. Nothing is lost.

Every worker is a thread that starts the real command again and again. It owns one source, which it fills, asks,
removes and connects again, and it writes notes into one folder that all of them share and sync.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import apsw
import pytest

from process import Finished
from workbench import Workbench, files_with, live_documents, selected

Vade = Callable[..., Finished]
WriteTree = Callable[..., Path]

WORKERS = 8


@dataclass
class Worker:
    """One agent: what it has written and not taken away again, and what it took away."""

    number: int
    vade: Vade
    base: Path
    shared: Path
    kept: dict[Path, str] = field(default_factory=dict)
    mine: dict[Path, str] = field(default_factory=dict)
    removed: list[str] = field(default_factory=list)
    latencies: list[float] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"worker {self.number}"

    @property
    def root(self) -> Path:
        return self.base / f"w{self.number}"

    def work(self, cycles: int) -> None:
        for cycle in range(cycles):
            self._fill(cycle)
            self._share(cycle)
            if (self.number + cycle) % 2 == 0:
                self._remove()

    def _fill(self, cycle: int) -> None:
        self.root.mkdir(exist_ok=True)
        for i in range(5):
            self._write(self.root / f"{cycle}-{i}.md", self.mine, f"mine{self.number}x{cycle}x{i}")
        added = self._timed("sources", "add", "folder", self.root, "--name", self.name, "--json")
        if added is not None and added["sync"]["documents"] != len(self.mine):
            self.broken.append(f"{added['sync']} instead of {len(self.mine)} notes of {self.name}")

    def _share(self, cycle: int) -> None:
        word = f"shared{self.number}x{cycle}"
        path = self.shared / f"{self.number}-{cycle}.md"
        self._write(path, self.kept, word)
        self._timed("sources", "sync", "shared", "--json")
        self._finds(word, path.name)  # a write that was reported is findable
        done = self.vade("read", path)
        if done.rc != 0 or word not in done.out:
            self.broken.append(f"{path} was not read: {done}")

    def _remove(self) -> None:
        done = self.vade("sources", "remove", self.name, "--json")
        # The long reader keeps old pages alive: that is told, not hidden. Another writer may be in the way as well.
        if done.rc != 0 and not (done.rc == 1 and done.json["proof"]["blocked_by"]):
            self.broken.append(f"removal: {done}")
        self.removed += self.mine.values()
        self.mine.clear()
        for path in self.root.iterdir():
            path.unlink()

    def _write(self, path: Path, into: dict[Path, str], word: str) -> None:
        path.write_text(f"# {path.stem}\n\nThe {word} word is said here once, and nowhere else at all.\n")
        into[path] = word

    def _timed(self, *words: str | Path) -> dict[str, dict[str, int]] | None:
        started = time.perf_counter()
        done = self.vade(*words)
        self.latencies.append(time.perf_counter() - started)
        if done.rc != 0 or "Traceback" in done.err:
            self.broken.append(repr(done))
            return None
        report: dict[str, dict[str, int]] = done.json
        return report

    def _finds(self, word: str, name: str) -> None:
        done = self.vade("recall", word, "--lane", "words", "--json")
        if done.rc != 0 or name not in {hit["path"] for hit in done.json["hits"]}:
            self.broken.append(f"{word} was written and is not found: {done}")


@contextmanager
def long_reader(index: Path) -> Iterator[None]:
    """A read transaction that is open all the while, in a connection that is none of ours."""
    connection = apsw.Connection(str(index), flags=apsw.SQLITE_OPEN_READONLY)
    connection.execute("begin")
    connection.execute("select count(*) from document").fetchall()
    try:
        yield
    finally:
        connection.execute("rollback")
        connection.close()


def storm(vade: Vade, base: Path, *, cycles: int, workers: int = WORKERS) -> list[Worker]:
    shared = base / "shared"
    crowd = [Worker(number, vade, base, shared) for number in range(workers)]
    with ThreadPoolExecutor(workers) as threads:
        for ended in [threads.submit(worker.work, cycles) for worker in crowd]:
            ended.result()
    return crowd


def alone(vade: Vade) -> float:
    """Seconds that a sync takes while nothing else is going on."""
    took = []
    for _ in range(3):
        started = time.perf_counter()
        assert vade("sources", "sync", "shared").rc == 0
        took.append(time.perf_counter() - started)
    return sorted(took)[1]


def p95(values: Sequence[float]) -> float:
    return sorted(values)[int(len(values) * 0.95)]


def check_nothing_is_lost(vade: Vade, bench: Workbench, crowd: Sequence[Worker]) -> None:
    """After the storm: what was written and not taken away answers, what was taken away has left no byte."""
    vade("sources", "sync")
    doctor = vade("doctor", "--json")
    assert doctor.rc == 0, doctor
    expected = {path: word for worker in crowd for path, word in (worker.kept | worker.mine).items()}
    rows = live_documents(bench.settings)
    roots = {source.id: source.root for source in bench.app.registry.all()}
    found = {roots[row["source_id"]] / row["path"] for row in rows}
    assert found == {*expected, crowd[0].shared / "first.md"}
    for path, word in expected.items():
        assert [hit.source_path for hit in bench.recall(word, lane="words").hits] == [str(path)], word
    gone = [word for worker in crowd for word in worker.removed]
    for word in gone:
        assert bench.recall(word, lane="words").hits == (), word
    assert files_with(bench.settings.home, *gone) == []
    assert {row["source_id"] for row in selected(bench.settings, "select source_id from source")} == set(roots)
    assert bench.app.index.integrity(thorough=True) == []


@pytest.mark.parametrize(
    "cycles",
    [
        pytest.param(1, id="once"),
        pytest.param(7, id="often", marks=[pytest.mark.slow, pytest.mark.timeout(600)]),
    ],
)
def test_c15_eight_processes_that_index_read_and_remove_beside_a_long_reader_lose_nothing(
    vade: Vade, bench: Workbench, write_tree: WriteTree, cycles: int
) -> None:
    shared = write_tree({"shared/first.md": "# First\n\nquokka"}) / "shared"
    assert vade("sources", "add", "folder", shared, "--name", "shared").rc == 0
    alone_s = alone(vade)
    with long_reader(bench.settings.index_file):
        crowd = storm(vade, shared.parent, cycles=cycles)
    assert [problem for worker in crowd for problem in worker.broken] == []
    latencies = [seconds for worker in crowd for seconds in worker.latencies]
    assert len(latencies) == WORKERS * cycles * 2
    # Against the same command alone, since other things may run here: eight share the processors, and a removal that
    # cleans the file lets nobody else write.
    assert p95(latencies) < 5 + 16 * alone_s, (alone_s, sorted(latencies))
    check_nothing_is_lost(vade, bench, crowd)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_c15_without_a_long_reader_every_removal_is_proven_or_names_who_was_in_the_way(
    vade: Vade, bench: Workbench, write_tree: WriteTree
) -> None:
    shared = write_tree({"shared/first.md": "# First\n\nquokka"}) / "shared"
    assert vade("sources", "add", "folder", shared, "--name", "shared").rc == 0
    crowd = storm(vade, shared.parent, cycles=5)
    assert [problem for worker in crowd for problem in worker.broken] == []
    check_nothing_is_lost(vade, bench, crowd)
