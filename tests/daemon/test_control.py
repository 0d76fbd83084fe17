"""One daemon for a state folder: started, found, stopped, and never mistaken for another process."""

import fcntl
import json
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from daemon_process import Launch, Served
from process import clean_environment
from vademecum import config
from vademecum.config import Settings
from vademecum.daemon import control
from vademecum.errors import DaemonFailed, PortTaken


@pytest.fixture
def command(vade_home: Path, tmp_path: Path) -> Iterator[Callable[..., tuple[int, str, str]]]:
    """`vade …` with a free port, on this machine's loopback; whatever daemon it leaves is stopped."""

    def run(*arguments: str, **env: str) -> tuple[int, str, str]:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "vademecum", *arguments],
            env={
                **clean_environment(),
                "VADE_HOME": str(vade_home),
                "HOME": str(tmp_path),
                "VADE_PORT": "0",
                **env,
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return done.returncode, done.stdout, done.stderr

    yield run
    run("stop")


def settings_of(vade_home: Path) -> Settings:
    return config.load({"VADE_HOME": str(vade_home)})


def test_start_status_stop(command: Callable[..., tuple[int, str, str]], vade_home: Path) -> None:
    rc, out, err = command("start", "--json")
    assert (rc, err) == (0, "")
    begun = json.loads(out)
    assert begun["started"] is True
    rc, out, _ = command("start", "--json")
    assert json.loads(out)["started"] is False
    assert json.loads(out)["daemon"]["pid"] == begun["daemon"]["pid"]
    rc, out, _ = command("status", "--json")
    assert json.loads(out)["daemon"]["instance"] == begun["daemon"]["instance"]
    rc, out, _ = command("restart", "--json")
    again = json.loads(out)
    assert again["started"] is True
    assert again["daemon"]["pid"] != begun["daemon"]["pid"]
    rc, out, _ = command("stop", "--json")
    assert json.loads(out)["daemon"]["pid"] == again["daemon"]["pid"]
    assert control.running(settings_of(vade_home)) is None
    rc, out, _ = command("stop")
    assert (rc, out) == (0, "No daemon was running.\n")
    rc, out, _ = command("logs")
    assert "serving on port" in out


def test_its_files_are_the_owners_alone(served: Served) -> None:
    folder = config.socket_folder(served.settings)
    files = [served.settings.run_dir / "token", control.log_file(served.settings), control.record_file(served.settings)]
    assert {oct(path.stat().st_mode & 0o777) for path in (*files, *folder.glob("*.sock"))} == {"0o600"}
    assert oct(folder.stat().st_mode & 0o777) == "0o700"


def test_a_stop_leaves_neither_record_nor_socket(served: Served) -> None:
    assert served.end() == 0
    folder = config.socket_folder(served.settings)
    assert not control.record_file(served.settings).exists()
    assert list(folder.glob("*.sock")) == []


def test_a_second_daemon_is_refused_and_the_first_goes_on(served: Served) -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-m", "vademecum", "serve"],
        env={**clean_environment(), **served.env},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    assert "already" in done.stderr
    assert served.ask("GET", "/health")[1]["instance"] == served.running.instance


def test_after_a_kill_the_next_one_starts_over_what_is_left(launch: Launch) -> None:
    first = launch()
    first.end(signal.SIGKILL)
    assert control.record_file(first.settings).exists()
    assert control.running(first.settings) is None
    assert not control.record_file(first.settings).exists()
    second = launch()
    assert second.running.instance != first.running.instance
    assert second.ask("GET", "/health")[0] == 200


def test_a_process_that_got_the_number_of_a_dead_daemon_is_left_alone(vade_home: Path) -> None:
    settings = settings_of(vade_home)
    config.prepare(settings)
    stranger = subprocess.Popen(["sleep", "60"])
    try:
        record = {
            "pid": stranger.pid, "started": "1", "instance": "x", "host": "127.0.0.1", "port": 1, "version": "0",
            "protocol": control.PROTOCOL, "since": 0.0,
        }  # fmt: skip
        control.record_file(settings).write_text(json.dumps(record))
        with open(control.lock_file(settings), "w") as lock:  # as if a daemon lived, which the record does not mean
            fcntl.flock(lock, fcntl.LOCK_EX)
            assert control.running(settings) is None
            with pytest.raises(DaemonFailed, match=r"daemon\.lock"):
                control.stop(settings)
        assert control.running(settings) is None
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


# What a signal would do to the number -1, which "no such process" seems to prove: end all that the user has.
MISLEADING = {
    "pid": -1, "started": "", "instance": "x", "host": "h", "port": 1, "version": "0", "protocol": 1, "since": 0.0,
}  # fmt: skip


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", '{"pid": 1}', "null", json.dumps(MISLEADING), json.dumps({**MISLEADING, "pid": "self"})],
)
def test_a_torn_record_is_no_daemon(vade_home: Path, content: str) -> None:
    settings = settings_of(vade_home)
    config.prepare(settings)
    control.record_file(settings).write_text(content)
    with open(control.lock_file(settings), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert control.running(settings) is None


def test_a_stranger_on_the_port_is_named_with_a_free_port(command: Callable[..., tuple[int, str, str]]) -> None:
    with socket.socket() as stranger:
        stranger.bind(("127.0.0.1", 0))
        stranger.listen()
        port = stranger.getsockname()[1]
        rc, out, _ = command("start", "--json", VADE_PORT=str(port))
    error = json.loads(out)["error"]
    assert (rc, error["code"]) == (4, "port_taken")
    assert str(port) in error["message"]
    free = int("".join(c for c in error["hint"].split("daemon.port")[1].split("`")[0] if c.isdigit()))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", free))


def test_another_address_needs_consent(command: Callable[..., tuple[int, str, str]]) -> None:
    rc, out, _ = command("start", "--json", VADE_HOST="0.0.0.0")
    error = json.loads(out)["error"]
    assert (rc, error["code"]) == (1, "bad_config")
    assert "allow_remote" in error["hint"]


def test_a_free_port_is_no_error(vade_home: Path) -> None:
    control.listen("127.0.0.1", 0).close()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(PortTaken):
            control.listen("127.0.0.1", taken.getsockname()[1])


def test_eight_starts_at_once_make_one_daemon(command: Callable[..., tuple[int, str, str]]) -> None:
    with ThreadPoolExecutor(8) as pool:
        done = list(pool.map(lambda _: command("start", "--json"), range(8)))
    assert {rc for rc, _, _ in done} == {0}, done
    assert len({json.loads(out)["daemon"]["pid"] for _, out, _ in done}) == 1
    # None of those that came second waits for the place of the first.
    assert command("stop")[0] == 0
    time.sleep(3)
    assert json.loads(command("status", "--json")[1])["daemon"] is None


def test_an_older_daemon_is_replaced_once(served: Served, command: Callable[..., tuple[int, str, str]]) -> None:
    record = json.loads(control.record_file(served.settings).read_text())
    config.replace_file(control.record_file(served.settings), json.dumps({**record, "protocol": 0}).encode())
    reap(served)
    rc, out, err = command("start", "--json")
    assert rc == 0, err
    assert json.loads(out)["started"] is True
    assert json.loads(out)["daemon"]["protocol"] == control.PROTOCOL
    assert served.child.wait(10) == 0


def reap(served: Served) -> None:
    """Reap the child when it ends, as its real parent would, so that its lock goes."""
    threading.Thread(target=served.child.wait, daemon=True).start()


def test_start_returns_though_the_output_is_a_pipe_and_the_daemon_holds_none(
    command: Callable[..., tuple[int, str, str]],
) -> None:
    started = time.monotonic()
    rc, _, _ = command("start")  # subprocess.run waits for the end of both pipes
    assert rc == 0
    assert time.monotonic() - started < 40


def test_mcp_sock_echoes(served: Served) -> None:
    with socket.socket(socket.AF_UNIX) as channel:
        channel.settimeout(10)
        channel.connect(str(config.socket_folder(served.settings) / "mcp.sock"))
        channel.sendall(b'{"a": 1}\n')
        assert channel.recv(100) == b'{"a": 1}\n'


def test_uninstall_leaves_vaults_and_the_home_vault(
    command: Callable[..., tuple[int, str, str]], vade_home: Path, write_tree: Callable[..., Path]
) -> None:
    root = write_tree({"a.md": "words"})
    assert command("--as-owner", "sources", "add", "folder", str(root))[0] == 0
    assert command("start")[0] == 0
    (vade_home / "vault").mkdir()
    (vade_home / "vault" / "m.md").write_text("memory")
    assert command("uninstall")[0] == 2
    rc, out, err = command("uninstall", "--yes", "--json")
    assert rc == 0, err
    assert any(str(vade_home / "vault") in sentence for sentence in json.loads(out)["done"])
    assert sorted(path.name for path in vade_home.iterdir()) == ["vault"]
    assert (vade_home / "vault" / "m.md").read_text() == "memory"
    assert (root / "a.md").read_text() == "words"
