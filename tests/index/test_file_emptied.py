"""An index file that is emptied while processes have it open is put aside and built anew, and nobody waits for long."""

import time
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from daemon_process import Launch, wait_until
from process import Finished
from vademecum.errors import IndexBusy, IndexCorrupt
from vademecum.index import Index
from workbench import Workbench

Vade = Callable[..., Finished]
WriteTree = Callable[..., Path]


def empty(path: Path) -> None:
    with open(path, "w"):
        pass


def test_an_open_index_that_was_emptied_is_not_in_place(tmp_path: Path) -> None:
    with Index.open(tmp_path / "index-1.db", busy_timeout_s=1) as index:
        assert index.is_in_place
        empty(index.path)
        assert not index.is_in_place


def test_an_index_emptied_under_a_reader_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "index-1.db"
    with Index.open(path, busy_timeout_s=1):
        empty(path)
        with pytest.raises(IndexCorrupt, match="emptied"):
            Index.open(path, busy_timeout_s=1)


def test_the_switch_to_a_log_does_not_wait_longer_than_it_is_told(tmp_path: Path) -> None:
    path = tmp_path / "index-1.db"
    path.touch(mode=0o600)
    other = apsw.Connection(str(path))
    try:
        other.execute("begin exclusive")
        started = time.monotonic()
        with pytest.raises(IndexBusy):
            Index.open(path, busy_timeout_s=0.5)
        assert time.monotonic() - started < 15
    finally:
        other.close()


def test_whoever_looks_at_an_emptied_index_heals_it(bench: Workbench, vade: Vade, write_tree: WriteTree) -> None:
    bench.add(write_tree({"a.md": "pelican"}))
    assert bench.found("pelican") == ["a.md"]
    empty(bench.settings.index_file)
    started = time.monotonic()
    done = vade("status", "--json")
    assert (done.rc, done.json["index"]["documents"]) == (0, 1)
    assert "quarantine" in done.err
    assert time.monotonic() - started < 30


def test_a_daemon_whose_index_was_emptied_builds_it_anew(launch: Launch, vade: Vade, write_tree: WriteTree) -> None:
    served = launch()
    served.connect(write_tree({"a.md": "pelican"}))
    empty(served.settings.index_file)
    wait_until(lambda: served.found("pelican") == ["a.md"])
    done = vade("doctor", "--json")
    checks = {check["name"]: check["ok"] for check in done.json["checks"]}
    assert checks["index"] and checks["removals"]
