"""What every test may use: a state of its own, folders made from a table, the command, and no network."""

import ipaddress
import os
import shutil
import socket
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # importlib mode puts no folder on the path

from daemon_process import Configure, Launch, Served, launching
from loopback import Answers, LoopbackServer
from process import Finished, run_vade
from vademecum import config
from vademecum.config import Settings
from workbench import Workbench

EXAMPLE_VAULT = Path(__file__).parents[1] / "examples" / "vault"
Snapshot = Mapping[str, tuple[bytes | None, int, int]]


class ReachedOut(AssertionError):
    """A test tried to leave this machine. No OSError: code that falls back when offline must not swallow it."""


def is_local(host: object) -> bool:
    """Whether an address or a name stays on this machine."""
    if not isinstance(host, str):
        return host is None
    if host in {"", "localhost"}:
        return True
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return address.is_loopback or address.is_unspecified or (mapped is not None and mapped.is_loopback)


@pytest.fixture(scope="session", autouse=True)
def _no_network() -> Iterator[None]:
    """Sockets of this process reach loopback and local sockets only, and no name is looked up elsewhere."""
    with pytest.MonkeyPatch.context() as patch:
        for method in ("connect", "connect_ex", "sendto", "sendmsg"):
            patch.setattr(socket.socket, method, _guarded(getattr(socket.socket, method)))
        for function in ("getaddrinfo", "gethostbyname", "gethostbyname_ex", "create_connection"):
            patch.setattr(socket, function, _guarded_lookup(getattr(socket, function)))
        yield


def _guarded(method: Callable[..., Any]) -> Callable[..., Any]:
    def guarded(self: socket.socket, *arguments: Any) -> Any:
        if self.family in {socket.AF_INET, socket.AF_INET6}:
            for address in arguments:
                if isinstance(address, tuple) and address and not is_local(address[0]):
                    raise ReachedOut(f"{method.__name__} to {address!r}")
        return method(self, *arguments)

    return guarded


def _guarded_lookup(function: Callable[..., Any]) -> Callable[..., Any]:
    def guarded(host: Any, *arguments: Any, **keywords: Any) -> Any:
        name = host[0] if isinstance(host, tuple) else host
        if not is_local(name.decode() if isinstance(name, bytes) else name):
            raise ReachedOut(f"{function.__name__} of {host!r}")
        return function(host, *arguments, **keywords)

    return guarded


@pytest.fixture(scope="session", autouse=True)
def _no_state_of_the_tester(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Code that a test calls in this process finds an empty home, not the tester's, and no agent's variables."""
    with pytest.MonkeyPatch.context() as patch:
        empty = tmp_path_factory.mktemp("tester")
        patch.setenv("HOME", str(empty))
        patch.setenv("VADE_HOME", str(empty / "vade-home"))
        for name in list(os.environ):
            if name.startswith(("CLAUDE", "CODEX", "GEMINI", "CURSOR", "XDG_")) or name == "AI_AGENT":
                patch.delenv(name)
        yield


@pytest.fixture
def vade_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The state folder of this test; it does not exist yet, since making it is the product's part."""
    folder = tmp_path / "vade-home"
    monkeypatch.setenv("VADE_HOME", str(folder))
    return folder


@pytest.fixture
def write_tree(tmp_path: Path) -> Callable[..., Path]:
    """Make files from `{relative path: text or bytes}`, in `into` or in tmp_path/vault, and give back the folder."""

    def write(tree: Mapping[str, str | bytes], into: Path | None = None) -> Path:
        folder = into or tmp_path / "vault"
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in tree.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
        return folder

    return write


@pytest.fixture
def example_vault(tmp_path: Path) -> Path:
    """A copy of examples/vault that the test may change."""
    return Path(shutil.copytree(EXAMPLE_VAULT, tmp_path / "example-vault"))


@pytest.fixture(scope="session")
def vault_bytes() -> Callable[[Path], Snapshot]:
    """Everything a writer could leave in a folder: `{relative path: (bytes, mtime_ns, mode)}`.

    Folders are listed too, with no bytes, since a file made and removed again changes their mtime. A symbolic link
    counts with the bytes of its target's name.
    """

    def snapshot(folder: Path) -> Snapshot:
        found = {}
        for path in [folder, *sorted(folder.rglob("*"))]:
            status = path.lstat()
            content: bytes | None = None
            if stat.S_ISLNK(status.st_mode):
                content = os.fsencode(path.readlink())
            elif stat.S_ISREG(status.st_mode):
                content = path.read_bytes()
            found[path.relative_to(folder).as_posix()] = (content, status.st_mtime_ns, status.st_mode)
        return found

    return snapshot


@pytest.fixture
def public_tmp() -> Iterator[Path]:
    """A folder that every user may enter and write in; pytest's own are closed to all but their owner."""
    folder = Path(tempfile.mkdtemp(prefix="vade-test-", dir="/tmp")).resolve()
    folder.chmod(0o777)
    yield folder
    for path in folder.rglob("*"):
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o700)  # a test about closed folders may have left one
    shutil.rmtree(folder)


@pytest.fixture
def vade(tmp_path: Path, vade_home: Path) -> Callable[..., Finished]:
    """Run the command in a child: `vade("recall", "redis", "--json").json`.

    The owner asks unless `as_owner=False`. Keywords go to `process.run_vade`: `env`, `stdin`, `cwd`, `as_user`, and
    another `vade_home` or `home`.
    """
    home = tmp_path / "home"
    home.mkdir()
    run = partial(run_vade, vade_home=vade_home, home=home)

    def call(*arguments: str | Path, as_owner: bool = True, **keywords: Any) -> Finished:
        return run(*(["--as-owner"] if as_owner else []), *arguments, **keywords)

    return call


@pytest.fixture
def bench(vade_home: Path) -> Iterator[Workbench]:
    """The application in this process, on the state folder of this test."""
    made = Workbench(vade_home)
    yield made
    made.close()


@pytest.fixture
def configure(vade_home: Path) -> Configure:
    """Write settings, as `vade config set` does."""

    def write(values: Mapping[str, Any]) -> None:
        settings = config.load({"VADE_HOME": str(vade_home)})
        for name, value in values.items():
            config.write_value(settings, config.setting(name), value)

    return write


@pytest.fixture
def launch(vade_home: Path, tmp_path: Path) -> Iterator[Launch]:
    """Start a daemon on the state folder of this test: `launch(VADE_PORT="0")`; it is ended after the test."""
    yield from launching(vade_home, tmp_path)


@pytest.fixture
def served(launch: Launch) -> Served:
    """A daemon with nothing connected."""
    return launch()


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Move the clock: what was written a moment ago then counts as long settled."""
    real = time.time_ns

    def move(seconds: float) -> None:
        monkeypatch.setattr(time, "time_ns", lambda: real() + int(seconds * 1e9))

    return move


@pytest.fixture
def serve() -> Iterator[Callable[[Answers], LoopbackServer]]:
    """Start a server with the function that answers."""
    started: list[LoopbackServer] = []

    def start(answer: Answers) -> LoopbackServer:
        started.append(LoopbackServer(answer))
        return started[-1]

    yield start
    for server in started:
        server.stop()


@pytest.fixture
def make_settings(vade_home: Path) -> Callable[..., Settings]:
    """Settings of this test's state: `make_settings({"embedding.url": …})`."""

    def make(values: Mapping[str, Any] | None = None) -> Settings:
        plain = config.load({"VADE_HOME": str(vade_home)})
        return Settings(home=plain.home, values={**plain.values, **(values or {})})

    return make


@pytest.fixture
def model_files() -> Path:
    """The folder of the real models, which must be there when VADE_TEST_MODELS is set; else the test skips."""
    named = os.environ.get("VADE_TEST_MODELS")
    if not named:
        pytest.skip("VADE_TEST_MODELS names no models folder (the models/ of a state folder that pulled them)")
    assert Path(named).is_dir(), f"VADE_TEST_MODELS={named} is no folder"
    return Path(named)


@pytest.fixture
def real_models(make_settings: Callable[..., Settings], model_files: Path) -> Callable[..., Settings]:
    """Settings with the real models in place."""

    def make(values: Mapping[str, Any] | None = None) -> Settings:
        settings = make_settings(values)
        settings.home.mkdir(exist_ok=True)
        if not settings.models_dir.exists():
            settings.models_dir.symlink_to(model_files)
        return settings

    return make
