"""Whatever ends the daemon or its disk at whatever moment, the next one stands on something whole and goes on."""

import fcntl
import json
import os
import resource
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest

from daemon_process import Configure, Launch, Served, launching, wait_until
from process import NOBODY, Finished
from vademecum import config
from vademecum.daemon import control
from workbench import Workbench, counts, files_with, live_documents, selected

Vade = Callable[..., Finished]
WriteTree = Callable[..., Path]

MANY = 2500


@pytest.fixture
def many(write_tree: WriteTree) -> Path:
    """A vault that takes a second or two to index."""
    return write_tree(
        {f"f{i % 20}/n{i}.md": f"# Note {i}\n\npelican number{i} [[n{i + 1}]] #bird\n" for i in range(MANY)}
    )


def rows(served: Served) -> Mapping[str, int]:
    return counts(served.settings)


def begin(served: Served, root: Path) -> str:
    """Connect a folder and do not wait: the source's id."""
    status, answer = served.ask("POST", "/api/sources/folder", {"path": str(root)})
    assert status == 202, answer
    return str(answer["source"]["id"])


def wait_begun(served: Served) -> None:
    """Wait until a first index is under way."""
    wait_until(lambda: any(source["documents"] for source in served.ask("GET", "/api/sources")[1]["sources"]))
    assert rows(served)["document"] < MANY


def sync(served: Served, source_id: str, **how: bool) -> dict[str, Any]:
    status, answer = served.ask("POST", f"/api/sources/{source_id}/sync", how)
    assert status == 202, answer
    return served.job_ended(answer["job"])


def check_whole(served: Served, documents: int) -> None:
    """Every note is there once, with its chunk, words and shape, and the index finds nothing wrong with itself."""
    wait_until(lambda: rows(served)["document"] == documents)
    found = rows(served)
    assert (found["chunk"], found["heading"], found["link"]) == (documents,) * 3
    checks = {c["name"]: c for c in served.ask("GET", "/api/diagnostics")[1]["checks"]}
    assert checks["index"]["ok"], checks["index"]
    assert served.found("number7")[0] == "f7/n7.md"


# ── killed


def test_killed_while_it_indexes_for_the_first_time_the_next_one_ends_it(launch: Launch, many: Path) -> None:
    first = launch()
    begin(first, many)
    wait_begun(first)
    first.end(signal.SIGKILL)
    before = {(row["id"], row["path"]) for row in live_documents(first.settings)}
    second = launch()
    check_whole(second, MANY)
    assert before <= {(row["id"], row["path"]) for row in live_documents(second.settings)}


def test_killed_while_it_embeds_the_next_one_makes_what_is_missing(
    configure: Configure, launch: Launch, many: Path
) -> None:
    configure({"embedding.model": "hashing"})
    first = launch()
    first.connect(many)
    wait_until(lambda: rows(first)["vector"] > 50)
    first.end(signal.SIGKILL)
    before = {row["id"] for row in selected(first.settings, "select id from vector")}
    assert len(before) < MANY
    second = launch()
    wait_until(lambda: rows(second)["vector"] == MANY, timeout_s=60)
    assert before <= {row["id"] for row in selected(second.settings, "select id from vector")}
    check_whole(second, MANY)
    wait_until(lambda: second.ask("GET", "/api/status")[1]["embedding"]["state"] == "idle")


@pytest.mark.parametrize("delay_ms", [0, 30, 100, 300])
def test_killed_while_it_removes_a_source_the_next_one_ends_that(
    launch: Launch, many: Path, write_tree: WriteTree, tmp_path: Path, delay_ms: int
) -> None:
    first = launch()
    source_id = first.connect(many)
    first.connect(write_tree({"b.md": "heron"}, tmp_path / "other"))
    asked = threading.Thread(target=lambda: unanswered(first, "DELETE", f"/api/sources/{source_id}"))
    asked.start()
    wait_until(lambda: source_id not in first.settings.sources_file.read_text())
    asked.join(delay_ms / 1000)
    first.end(signal.SIGKILL)
    asked.join()
    second = launch()
    wait_until(lambda: (rows(second)["source"], rows(second)["document"]) == (1, 1))
    wait_until(lambda: files_with(second.settings.home, "pelican", "number77") == [])
    assert second.found("pelican") == []
    wait_until(lambda: second.found("heron") == ["b.md"])


def unanswered(served: Served, method: str, target: str) -> None:
    try:
        served.ask(method, target)
    except Exception:  # noqa: BLE001 - whoever asked a daemon that dies gets no answer
        return


def test_killed_between_the_entry_and_the_rows_of_a_removal_it_answers_before_it_purges(
    launch: Launch, many: Path
) -> None:
    """The state that such a kill leaves is made by hand, so that the purge can be held up until health was asked."""
    first = launch()
    first.connect(many)
    first.end(signal.SIGKILL)
    first.settings.sources_file.write_text('{"version": 1, "sources": []}\n')
    with written_by_another(first.settings.index_file):
        second = launch()
        assert second.ask("GET", "/health")[0] == 200
        assert second.ask("GET", "/health/ready")[0] == 200
        assert second.found("pelican") == []
        assert rows(second)["document"] == MANY
    wait_until(lambda: rows(second)["source"] == 0)
    wait_until(lambda: files_with(second.settings.home, "pelican", "number77") == [])
    # Told when the proof is done, which comes after the cleaning.
    wait_until(lambda: any("removal" in said for said in second.ask("GET", "/api/status")[1]["remarks"]))


@contextmanager
def written_by_another(index: Path) -> Iterator[None]:
    """Hold the index as a process does that writes."""
    connection = apsw.Connection(str(index))
    connection.set_busy_timeout(10_000)
    connection.execute("begin immediate")
    try:
        yield
    finally:
        connection.execute("rollback")
        connection.close()


# ── asked to end


def test_asked_to_end_while_it_indexes_it_ends_whole_and_the_next_one_goes_on(launch: Launch, many: Path) -> None:
    first = launch()
    begin(first, many)
    wait_begun(first)
    assert first.end(signal.SIGTERM, timeout_s=15) == 0
    assert not control.record_file(first.settings).exists()
    assert list(config.socket_folder(first.settings).glob("*.sock")) == []
    with open(control.lock_file(first.settings)) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    before = {(row["id"], row["path"]) for row in live_documents(first.settings)}
    assert len(before) < MANY
    second = launch()
    check_whole(second, MANY)
    assert before <= {(row["id"], row["path"]) for row in live_documents(second.settings)}


def test_asked_to_end_it_lets_listeners_go(served: Served, many: Path) -> None:
    heard: list[Any] = []
    listener = threading.Thread(target=lambda: heard.append(unanswered(served, "GET", "/api/events")))
    listener.start()
    wait_until(lambda: "vade_listeners 1" in served.ask("GET", "/metrics")[1])
    begin(served, many)
    assert served.end(signal.SIGTERM, timeout_s=15) == 0
    listener.join(10)
    assert heard == [None]


# ── a disk that takes nothing any more


@pytest.fixture
def small_disk(vade_home: Path) -> Iterator[Path]:
    """The state folder on a disk of its own, of 12 MiB."""
    vade_home.mkdir(mode=0o700)
    options = ("-t", "tmpfs", "-o", "size=12m,mode=0700", "tmpfs", str(vade_home))
    if os.geteuid() != 0 or subprocess.run(["mount", *options], capture_output=True, check=False).returncode:
        pytest.skip("only root can mount a small disk; the test with a limit shows the same without")
    yield vade_home
    subprocess.run(["umount", "-l", str(vade_home)], check=True)


@contextmanager
def filled(disk: Path) -> Iterator[None]:
    """Fill a disk to its last byte."""
    ballast = disk / "ballast"
    try:
        with open(ballast, "wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
    except OSError:
        yield
    ballast.unlink()


@contextmanager
def limited(pid: int) -> Iterator[None]:
    """Let a process make no file larger than 64 KiB."""
    old = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (1 << 16, old[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, old)


def check_it_lives_on(served: Served, root: Path, write_tree: WriteTree, full: AbstractContextManager[None]) -> None:
    source_id = served.connect(root)
    with full:
        write_tree({f"more{i}.md": f"heron {i} " * 200 for i in range(300)}, root)
        job = sync(served, source_id)
        assert job["status"] == "error"
        assert job["error"]["code"] == "index_unavailable"
        assert job["error"]["hint"]
        assert served.ask("GET", "/health")[0] == 200
        assert served.found("pelican") == ["a.md"]
    assert sync(served, source_id)["status"] == "complete"
    assert rows(served)["document"] == 301
    assert len(served.found("heron")) == 10
    assert served.child.poll() is None


def test_on_a_full_disk_a_sync_fails_with_its_reason_and_the_daemon_lives_on(
    small_disk: Path, launch: Launch, write_tree: WriteTree
) -> None:
    check_it_lives_on(launch(), write_tree({"a.md": "pelican"}), write_tree, filled(small_disk))


def test_where_files_may_not_grow_a_sync_fails_with_its_reason_and_the_daemon_lives_on(
    served: Served, write_tree: WriteTree
) -> None:
    check_it_lives_on(served, write_tree({"a.md": "pelican"}), write_tree, limited(served.child.pid))


def test_a_daemon_of_a_state_that_takes_no_write_says_so(public_tmp: Path, vade: Vade, write_tree: WriteTree) -> None:
    home = public_tmp / "state"
    root = write_tree({"a.md": "pelican"}, public_tmp / "vault")
    home.mkdir(mode=0o777)
    home.chmod(0o777)
    as_nobody = {"vade_home": home, "home": public_tmp, "as_user": NOBODY, "env": {"VADE_PORT": "0"}}
    assert vade("sources", "add", "folder", root, **as_nobody).rc == 0
    for folder in (home, home / "run"):
        folder.chmod(0o555)
    for command in ("serve", "start"):
        done = vade(command, **as_nobody)
        assert done.rc in (1, 4)
        assert "cannot be" in done.err
        assert "should not happen" not in done.err
    assert json.loads(vade("recall", "pelican", "--json", **as_nobody).out)["hits"][0]["path"] == "a.md"


# ── damage


def damage(index: Path) -> None:
    """Overwrite all of an index but its first page, in place, as a failing disk would."""
    connection = apsw.Connection(str(index))
    connection.set_busy_timeout(10_000)
    connection.execute("pragma wal_checkpoint(truncate)").fetchall()
    connection.close()
    with open(index, "r+b") as file:
        file.seek(4096)
        file.write(os.urandom(index.stat().st_size - 4096))


def test_an_index_damaged_under_the_daemon_is_put_aside_and_built_anew_for_every_lane(
    configure: Configure, launch: Launch, write_tree: WriteTree
) -> None:
    configure({"embedding.model": "hashing"})
    served = launch()
    root = write_tree({f"n{i}.md": f"pelican number{i}" for i in range(300)})
    source_id = served.connect(root)
    wait_until(lambda: rows(served)["vector"] == 300)
    assert served.found("number7") == ["n7.md"]
    damage(served.settings.index_file)
    assert sync(served, source_id, force=True)["status"] == "complete"
    assert len(list(served.settings.quarantine_dir.glob("*.db"))) == 1
    assert any("quarantine" in remark for remark in served.ask("GET", "/api/status")[1]["remarks"])
    (root / "new.md").write_text("heron")
    wait_until(lambda: served.found("heron") == ["new.md"])
    wait_until(lambda: (rows(served)["document"], rows(served)["vector"]) == (301, 301))
    assert served.ask("GET", "/api/diagnostics")[1]["status"] == "healthy"
    assert len(list(served.settings.quarantine_dir.glob("*.db"))) == 1


def test_whoever_only_looks_at_a_source_heals_a_damaged_index_too(bench: Workbench, write_tree: WriteTree) -> None:
    source = bench.add(write_tree({f"n{i}.md": f"pelican number{i}" for i in range(300)}))
    bench.close()
    damage(bench.settings.index_file)
    with closing(Workbench(bench.settings.home)) as other:
        assert other.app.describe(source)["documents"] == 300
    damage(bench.settings.index_file)
    with closing(Workbench(bench.settings.home)) as other:
        assert other.app.details(source)["documents"] == 300


def test_a_crash_that_cannot_be_noted_is_no_second_crash(tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("a file is in the way")
    assert config.log_crash(ValueError(), {"VADE_HOME": str(tmp_path)}) is None
    (tmp_path / "logs").unlink()
    noted = config.log_crash(ValueError("a secret"), {"VADE_HOME": str(tmp_path)})
    assert noted is not None
    assert "secret" not in noted.read_text()


def test_an_index_deleted_under_the_daemon_comes_back(
    configure: Configure, launch: Launch, write_tree: WriteTree
) -> None:
    configure({"daemon.reconcile_s": 1.0})
    served = launch()
    served.connect(write_tree({"a.md": "pelican"}))
    for path in served.settings.home.glob("index-*"):
        path.unlink()
    wait_until(lambda: served.found("pelican") == ["a.md"])
    assert served.settings.index_file.exists()


def test_a_list_of_sources_torn_under_the_daemon_purges_nothing_and_is_told_of(
    configure: Configure, launch: Launch, write_tree: WriteTree
) -> None:
    configure({"daemon.reconcile_s": 1.0})
    first = launch()
    root = write_tree({"a.md": "pelican"})
    source_id = first.connect(root)
    whole = first.settings.sources_file.read_bytes()
    first.settings.sources_file.write_bytes(whole[:40])
    status, answer = first.ask("GET", "/api/sources")
    assert (status, answer["error"]["code"]) == (500, "sources_file_corrupt")
    last = first.ask("GET", "/metrics")[1]
    assert "vade_documents" in last
    check_told(first)
    first.end()
    second = launch()
    check_told(second)
    assert rows(second)["document"] == 1
    assert second.settings.sources_file.read_bytes() == whole[:40]
    second.settings.sources_file.write_bytes(whole)
    assert second.found("pelican") == ["a.md"]
    (root / "b.md").write_text("heron")
    wait_until(lambda: second.found("heron") == ["b.md"])
    assert sync(second, source_id)["status"] == "complete"


def check_told(served: Served) -> None:
    assert served.ask("GET", "/health")[0] == 200
    found = served.ask("GET", "/api/diagnostics")[1]
    assert found["status"] == "degraded"
    told = next(check for check in found["checks"] if check["name"] == "sources")
    assert not told["ok"]
    assert "sources.json" in told["detail"]


# ── several


@pytest.fixture
def launch_beside(tmp_path: Path) -> Iterator[Launch]:
    """Start a daemon on another state folder."""
    yield from launching(tmp_path / "beside", tmp_path)


def test_two_daemons_of_two_states_share_a_vault_and_nothing_else(
    served: Served, launch_beside: Launch, write_tree: WriteTree
) -> None:
    beside = launch_beside()
    assert (beside.running.port, beside.token) != (served.running.port, served.token)
    root = write_tree({"a.md": "pelican"})
    first, second = served.connect(root), beside.connect(root)
    assert first == second
    (root / "b.md").write_text("heron")
    for daemon in (served, beside):
        wait_until(lambda daemon=daemon: daemon.found("heron") == ["b.md"])  # type: ignore[misc]
    assert served.ask("DELETE", f"/api/sources/{first}")[0] == 200
    assert served.end() == 0
    (root / "c.md").write_text("stork")
    wait_until(lambda: beside.found("stork") == ["c.md"])
    assert rows(beside)["document"] == 3


def test_a_second_daemon_of_a_state_is_refused_while_the_first_indexes(served: Served, many: Path, vade: Vade) -> None:
    begin(served, many)
    wait_begun(served)
    refused = vade("serve", env={"VADE_PORT": "0"})
    assert (refused.rc, "already" in refused.err) == (1, True)
    check_whole(served, MANY)
