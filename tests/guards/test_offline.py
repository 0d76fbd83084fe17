"""No test leaves this machine, nor does a child that a test starts."""

import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

import process
from process import NOBODY, CannotDrop, Finished, offline_prefix, run_python

# 203.0.113.0/24 is set aside for documentation: nobody answers there, so only the guard or the kernel can refuse.
OUTSIDE = "203.0.113.1"
CONNECT = f"""
import socket
with socket.socket() as outside:
    outside.settimeout(3)
    try:
        outside.connect(("{OUTSIDE}", 9))
    except OSError as exc:
        print(type(exc).__name__, exc.errno)
    else:
        print("connected")
"""


def root_only() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root may make a network namespace and become another user")


@pytest.mark.parametrize(
    ("family", "address"),
    [
        (socket.AF_INET, (OUTSIDE, 9)),
        (socket.AF_INET6, ("2001:db8::1", 9, 0, 0)),
        (socket.AF_INET, ("vade.example", 9)),
    ],
)
@pytest.mark.parametrize("method", ["connect", "connect_ex"])
def test_a_connection_from_this_process_to_the_outside_raises(family: int, address: tuple[object], method: str) -> None:
    try:
        outside = socket.socket(family)
    except OSError:
        pytest.skip("no such address family here")
    with outside, pytest.raises(AssertionError, match=method):
        getattr(outside, method)(address)


def test_a_datagram_from_this_process_to_the_outside_raises() -> None:
    with socket.socket(type=socket.SOCK_DGRAM) as outside, pytest.raises(AssertionError, match="sendto"):
        outside.sendto(b"x", (OUTSIDE, 9))


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        ("getaddrinfo", ("vade.example", 9)),
        ("gethostbyname", ("vade.example",)),
        ("create_connection", (("vade.example", 9),)),
    ],
)
def test_looking_up_an_outside_name_raises(function: str, arguments: tuple[object, ...]) -> None:
    with pytest.raises(AssertionError, match=function):
        getattr(socket, function)(*arguments)


def test_loopback_and_local_sockets_stay_open(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        assert client.getpeername() == server.getsockname()
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
        server.bind(str(tmp_path / "s"))
        server.listen()
        client.connect(str(tmp_path / "s"))


def test_a_child_cannot_reach_out() -> None:
    root_only()
    if not offline_prefix():
        pytest.skip("this system gives its root no network namespaces")
    assert run_python(["-c", CONNECT]).out.split() == ["OSError", "101"]  # ENETUNREACH: there is no network at all


def test_a_grandchild_cannot_reach_out() -> None:
    root_only()
    if not offline_prefix():
        pytest.skip("this system gives its root no network namespaces")
    relay = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]], check=True)"
    assert run_python(["-c", relay, CONNECT]).out.split() == ["OSError", "101"]


def test_a_child_gets_nothing_of_the_testers_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDECODE", "1")
    monkeypatch.setenv("VADE_VAULT", "/somewhere")
    child = run_python(["-c", "import os; print(*sorted(os.environ))"])
    assert not {"CLAUDECODE", "VADE_VAULT", "HOME"} & set(child.out.split())


def test_a_child_that_dropped_to_another_user_has_lost_every_right_of_root(public_tmp: Path) -> None:
    root_only()
    (public_tmp / "closed").mkdir(mode=0o700)
    code = "import os, sys; print(os.getuid(), os.getgroups()); os.listdir(sys.argv[1])"
    child = run_python(["-c", code, str(public_tmp / "closed")], as_user=NOBODY, cwd=public_tmp)
    assert child.out.split()[0] == str(NOBODY)
    assert "PermissionError" in child.err


def test_a_child_that_dropped_cannot_reach_out_either() -> None:
    root_only()
    if not offline_prefix():
        pytest.skip("this system gives its root no network namespaces")
    assert run_python(["-c", CONNECT], as_user=NOBODY, cwd=Path("/")).out.split() == ["OSError", "101"]


def test_dropping_fails_loudly_where_the_user_cannot_enter_the_folder(tmp_path: Path) -> None:
    root_only()
    tmp_path.chmod(0o700)
    with pytest.raises(CannotDrop, match="public_tmp"):
        run_python(["-c", "pass"], as_user=NOBODY, cwd=tmp_path)


def test_dropping_fails_loudly_without_its_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(CannotDrop, match="setpriv"):
        process.drop_prefix(NOBODY)


def test_the_command_runs_with_the_state_folder_of_the_test(vade: Callable[..., Finished]) -> None:
    assert vade("--version").rc == 0
    assert vade("--version", as_owner=False).rc == 0


def test_the_command_runs_as_another_user(vade: Callable[..., Finished], public_tmp: Path) -> None:
    root_only()
    done = vade("--version", as_user=NOBODY, vade_home=public_tmp / "vade-home", home=public_tmp)
    assert done.rc == 0, done.err
