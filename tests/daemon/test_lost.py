"""Whatever is lost or damaged of what a daemon writes about itself, nobody is told that none runs."""

import fcntl
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from daemon_process import Configure, Launch, Served, wait_until
from process import Finished
from vademecum import config
from vademecum.config import Settings
from vademecum.daemon import control
from vademecum.errors import DaemonFailed, DaemonRunning

Vade = Callable[..., Finished]


def damaged(path: Path) -> None:
    path.write_text("{")


def emptied(path: Path) -> None:
    path.write_text("")


def deleted(path: Path) -> None:
    path.unlink(missing_ok=True)


@pytest.fixture
def reaped(served: Served) -> Served:
    """A daemon that is reaped when it ends, as its real parent would do."""
    import threading

    threading.Thread(target=served.child.wait, daemon=True).start()
    return served


@pytest.mark.parametrize("harm", [damaged, emptied, deleted])
def test_status_and_stop_find_a_daemon_whose_record_is_lost(
    reaped: Served, vade: Vade, harm: Callable[[Path], None]
) -> None:
    harm(control.record_file(reaped.settings))
    assert vade("status", "--json").json["daemon"]["instance"] == reaped.running.instance
    harm(control.record_file(reaped.settings))
    assert vade("start", "--json").json["started"] is False
    stopped = vade("stop", "--json")
    assert (stopped.rc, stopped.json["daemon"]["pid"]) == (0, reaped.child.pid)
    assert reaped.child.wait(10) == 0


def test_where_the_lock_file_says_nothing_either_the_daemon_is_asked(reaped: Served) -> None:
    damaged(control.record_file(reaped.settings))
    control.lock_file(reaped.settings).write_bytes(b"")
    assert control.running(reaped.settings) is None
    assert control.known(reaped.settings) == reaped.running
    assert control.running(reaped.settings) == reaped.running


def test_the_daemon_writes_its_record_anew(served: Served) -> None:
    deleted(control.record_file(served.settings))
    wait_until(lambda: control.record_file(served.settings).exists(), timeout_s=30)


def test_the_daemon_takes_its_lock_again_when_the_folder_of_locks_was_deleted(
    served: Served,
) -> None:
    shutil.rmtree(served.settings.run_dir)
    wait_until(lambda: control.running(served.settings) == served.running, timeout_s=30)
    with pytest.raises(DaemonRunning), control.held_for_life(served.settings):
        pass
    assert served.over_tcp("GET", "/health")[0] == 200


def test_without_its_lock_file_the_record_still_shows_a_daemon(served: Served) -> None:
    control.lock_file(served.settings).unlink()
    assert control.known(served.settings) == served.running
    with pytest.raises(DaemonRunning), control.held_for_life(served.settings):
        pass


def test_a_daemon_whose_state_folder_is_deleted_ends(served: Served) -> None:
    shutil.rmtree(served.settings.home)
    assert served.child.wait(30) == 0


@pytest.fixture
def held(vade_home: Path) -> Iterator[Settings]:
    """A state whose lock somebody holds who does not say who they are."""
    settings = config.load({"VADE_HOME": str(vade_home)})
    config.prepare(settings)
    settings.sources_file.write_text('{"version": 1, "sources": []}\n')
    with open(control.lock_file(settings), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield settings


@pytest.mark.parametrize("command", [["status"], ["start"], ["uninstall", "--yes"]])
def test_a_lock_held_by_nobody_who_can_be_told_is_an_error(held: Settings, vade: Vade, command: list[str]) -> None:
    before = sorted(path.relative_to(held.home) for path in held.home.rglob("*"))
    done = vade(*command, "--json")
    assert (done.rc, done.json["error"]["code"]) == (4, "daemon_failed")
    assert "daemon.lock" in done.json["error"]["message"]
    assert sorted(path.relative_to(held.home) for path in held.home.rglob("*")) == before


def test_a_daemon_that_hangs_with_its_record_lost_is_found_and_ended(reaped: Served) -> None:
    deleted(control.record_file(reaped.settings))
    os.kill(reaped.child.pid, signal.SIGSTOP)
    try:
        found = control.known(reaped.settings)
        assert found == reaped.running
    finally:
        os.kill(reaped.child.pid, signal.SIGCONT)


def test_a_zombie_is_no_daemon(vade_home: Path) -> None:
    settings = config.load({"VADE_HOME": str(vade_home)})
    config.prepare(settings)
    child = subprocess.Popen(["sleep", "60"])
    try:
        started = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[19]
        record = {"pid": child.pid, "started": started, "instance": "x", "host": "127.0.0.1", "port": 1}
        import json

        control.record_file(settings).write_text(json.dumps({**record, "version": "0", "protocol": 1, "since": 0.0}))
        assert control.running(settings) is not None
        child.kill()
        wait_until(lambda: "Z" in Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[:1])
        assert control.running(settings) is None
        with control.held_for_life(settings):
            pass
    finally:
        child.kill()
        child.wait()


def test_hidden_waiting_is_bounded(held: Settings) -> None:
    started = time.monotonic()
    with pytest.raises(DaemonFailed):
        control.known(held, wait_s=0.2)
    assert time.monotonic() - started < 5


def test_a_hangup_ends_it_whole(launch: Launch) -> None:
    served = launch()
    assert served.end(signal.SIGHUP) == 0
    assert not control.record_file(served.settings).exists()


def test_serve_says_where_it_serves(launch: Launch) -> None:
    served = launch()
    served.end()
    assert served.child.stdout is not None
    said = served.child.stdout.readline().decode()
    assert said == f"Serving: process {served.running.pid}, {served.running.url}. Ctrl-C ends it.\n"


@pytest.fixture
def ipv6(configure: Configure) -> None:
    import socket

    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        pytest.skip("this machine has no IPv6 loopback")
    configure({"daemon.host": "::1"})


def test_on_an_ipv6_address_the_link_and_the_attack_go_where_it_listens(ipv6: None, launch: Launch) -> None:
    from vademecum.daemon.attack import attacks

    served = launch()
    url = served.ask("POST", "/api/login-link", {})[1]["url"]
    assert url.startswith(f"http://[::1]:{served.running.port}/login?code=")
    outcomes = attacks(served.running.port, served.token, host=served.running.host)
    assert [outcome for outcome in outcomes if not outcome.refused] == []


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:80"),
        ("localhost", "http://localhost:80"),
        ("::1", "http://[::1]:80"),
        ("0.0.0.0", "http://127.0.0.1:80"),
        ("::", "http://[::1]:80"),
        ("192.168.1.5", "http://192.168.1.5:80"),
    ],
)
def test_an_address_is_written_so_that_a_browser_here_can_open_it(host: str, url: str) -> None:
    assert control.url_of(host, 80) == url
