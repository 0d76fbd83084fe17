"""Children that the tests start: with a state of their own, without a network, and as another user where asked.

A test must neither touch the tester's state nor depend on the network, and a test about permissions proves nothing
while it runs as root. Where one of these cannot be had, it says so loudly instead of passing.
"""

import functools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NOBODY = 65534
TIMEOUT_S = 60.0


class CannotDrop(AssertionError):
    """The child could not be started as the unprivileged user, so the test would have proved nothing."""


@dataclass(frozen=True, slots=True)
class Finished:
    """What a child left behind."""

    command: tuple[str, ...]
    rc: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The output read as JSON; a child that printed something else fails the test with all it said."""
        try:
            return json.loads(self.out)
        except ValueError as exc:
            raise AssertionError(f"no JSON on stdout: {self!r}") from exc


def run_vade(
    *arguments: str | Path,
    vade_home: Path,
    home: Path,
    env: Mapping[str, str] | None = None,
    stdin: str = "",
    cwd: Path | None = None,
    as_user: int | None = None,
    timeout_s: float = TIMEOUT_S,
) -> Finished:
    """Run `python -m vademecum` with the arguments, in an environment that holds nothing of the tester's."""
    own = {"VADE_HOME": str(vade_home), "HOME": str(home), **(env or {})}
    reached = [vade_home.parent, home]
    return run_python(
        ["-P", "-m", "vademecum", *map(str, arguments)],  # -P: a vault that holds a click.py is not a library
        env=own,
        stdin=stdin,
        cwd=cwd or home,
        as_user=as_user,
        timeout_s=timeout_s,
        reached=reached,
    )


def run_python(
    arguments: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    stdin: str = "",
    cwd: Path | None = None,
    as_user: int | None = None,
    timeout_s: float = TIMEOUT_S,
    reached: Sequence[Path] = (),
) -> Finished:
    """Run this interpreter with the arguments, offline, as the user; `reached` are folders that the user needs."""
    command, extra = [sys.executable], dict[str, str]()
    if as_user is not None and os.geteuid() == 0:
        command, extra = _command_as(as_user)
        for folder in (*reached, *([cwd] if cwd else [])):
            _check_reached(folder, as_user)
    full = (*offline_prefix(), *command, *arguments)
    done = subprocess.run(
        full,
        input=stdin,
        cwd=cwd,
        env={**clean_environment(), **extra, **(env or {})},
        capture_output=True,
        encoding="utf-8",
        errors="surrogateescape",
        timeout=timeout_s,
        check=False,
    )
    return Finished(tuple(full), done.returncode, done.stdout, done.stderr)


def clean_environment() -> dict[str, str]:
    """What a child inherits: no settings of ours, no agent's variable, no proxy, one locale."""
    kept = {name: os.environ[name] for name in ("PATH", "TMPDIR") if name in os.environ}
    return {**kept, "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "TZ": "UTC"}


@functools.cache
def offline_prefix() -> tuple[str, ...]:
    """The words that put a child into an empty network namespace, or none where only the in-process guard holds.

    Loopback is down in there as well; a child that must talk to another over TCP shares a namespace with it.
    """
    prefix = ("unshare", "-n", "--")
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        return ()
    tried = subprocess.run((*prefix, "true"), capture_output=True, timeout=TIMEOUT_S, check=False)
    return prefix if tried.returncode == 0 else ()


def drop_prefix(uid: int) -> tuple[str, ...]:
    """The words that start a child as another user; for root only."""
    if shutil.which("setpriv") is None:
        raise CannotDrop("setpriv (util-linux) is not installed, so no child can drop to another user")
    return ("setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups")


@functools.cache
def _command_as(uid: int) -> tuple[list[str], dict[str, str]]:
    """An interpreter that the user can start, with our packages on its path.

    The one running here may live in a folder closed to others (pyenv below /root): the child then starts by root's
    leave and quietly takes another installation's library. So the libraries must be those of the interpreter itself.
    """
    tried = []
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    others = [Path(folder, version) for folder in ("/usr/bin", "/usr/local/bin", "/opt/homebrew/bin")]
    for python in [Path(sys.executable), *others]:
        own = python == Path(sys.executable)
        extra = {} if own else {"PYTHONPATH": os.pathsep.join(_package_path()), "PYTHONNOUSERSITE": "1"}
        report = _probe(python, uid, extra)
        if report == f"{uid} {sys.base_prefix}" or (not own and report.startswith(f"{uid} ")):
            return [*drop_prefix(uid), str(python)], extra
        tried.append(f"{python}: {report}")
    raise CannotDrop(f"no {version} that user {uid} can run with our packages; tried " + "; ".join(tried))


def _package_path() -> list[str]:
    """The folders on our path that hold packages rather than the standard library."""
    return [
        entry for entry in filter(None, sys.path) if any(Path(entry, name).is_dir() for name in ("click", "vademecum"))
    ]


def _probe(python: Path, uid: int, extra: Mapping[str, str]) -> str:
    """`uid base_prefix` as the child sees them, or why it could not say so."""
    # The dependencies with compiled parts are the ones that another build of the same version could refuse.
    code = "import os, sys, apsw, click, pyromark, yaml, vademecum; print(os.getuid(), sys.base_prefix)"
    command = (*drop_prefix(uid), str(python), "-c", code)
    environment = {**clean_environment(), **extra}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, env=environment, cwd="/", timeout=TIMEOUT_S, check=False
        )
    except OSError as exc:
        return str(exc)
    return done.stdout.strip() or (done.stderr.strip().splitlines() or ["no output"])[-1]


def _check_reached(folder: Path, uid: int) -> None:
    """A folder closed to the user would turn a test about permissions into one about the test's own folder."""
    tried = subprocess.run((*drop_prefix(uid), "test", "-x", str(folder)), timeout=TIMEOUT_S, check=False)
    # setpriv hands its own rights to the exec alone, so `test` runs with the user's.
    if tried.returncode != 0:
        raise CannotDrop(f"user {uid} cannot enter {folder}; use the public_tmp fixture for what it must reach")
