"""Taking the state away again: what of a folder is ours to delete, and nothing else.

Shaped against a VADE_HOME that names a folder of somebody else, or one where people put files of their own beside
ours: nothing goes unless the folder is proven to be a state, and then only names that this program writes, each in
the folder where it writes them. A link is never followed.
"""

from __future__ import annotations

import os
import re
import shutil
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

from vademecum import config
from vademecum.config import Settings
from vademecum.embedding.models import MODELS
from vademecum.errors import ConfigError, SourceError, StateError, StateReadOnly, UsageError
from vademecum.sources import Registry

_Named: TypeAlias = Callable[[str], Any]

_TEMPORARY: Final = r"(\.tmp-\d+-[0-9a-f]{8})?"
_TOP: Final = re.compile(rf"(config\.toml|sources\.json){_TEMPORARY}|index-\d+\.db(-wal|-shm|-journal)?").fullmatch
_OURS: Final[Mapping[str, _Named]] = {
    "run": re.compile(
        rf"(daemon\.json|token){_TEMPORARY}|(http|mcp)\.sock|sync-[a-z]+-[0-9a-f]{{16}}\.lock|"
        r"(daemon|token|sources|index|models|embed|eval|memories)\.lock"
    ).fullmatch,
    "logs": re.compile(r"daemon\.(log(\.\d)?|out)|crash\.log").fullmatch,
    "quarantine": re.compile(r"index-\d+-[0-9a-f]{8}\.db").fullmatch,
}
_EVALUATION: Final = re.compile(r"eval-\d+-[0-9a-f]{8}").fullmatch
_PULL: Final = re.compile(r"\.pull-[0-9a-f]{8}").fullmatch
_PROVING_LOCK: Final = re.compile(r"daemon\.lock|sources\.lock|sync-[a-z]+-[0-9a-f]{16}\.lock").fullmatch
_INDEX: Final = re.compile(r"index-\d+\.db").fullmatch
_SQLITE: Final = b"SQLite format 3\0"


@dataclass(slots=True)
class Deletion:
    """What was deleted, by number, and what was left, by path."""

    files: int = 0
    left: list[Path] = field(default_factory=list)


def check_is_state(settings: Settings) -> None:
    """Raises UsageError where nothing in the folder proves that it is a state of this program."""
    home = settings.home
    proofs = (_has_index(home), _has_lock(settings.run_dir), _has_sources(settings), _has_settings(home))
    if not any(proofs):
        raise UsageError(
            f"nothing in {home} shows that it is a state folder of vademecum, so nothing was deleted",
            hint="Check VADE_HOME. What you want gone of this folder, delete by hand.",
        )
    if home == settings.home_vault:
        raise StateError(
            f"{home} is the home vault as well, so nothing was deleted", hint="`vade vault unset` lets go of it."
        )


def delete(settings: Settings) -> Deletion:
    """Delete what is ours in a state folder. Raises StateReadOnly where that fails."""
    done, vault = Deletion(), settings.home_vault
    try:
        for path in _ours(settings):
            if settings.home not in vault.parents or not path.is_relative_to(vault):
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)
                done.files += 1
        _drop_empty(config.socket_folder(settings))
        for folder in (*_folders(settings), settings.home):
            _drop_empty(folder)
    except OSError as exc:
        raise StateReadOnly(f"{exc.filename} cannot be deleted: {exc.strerror}") from exc
    done.left = sorted(_left(settings))
    return done


def _ours(settings: Settings) -> Iterator[Path]:
    home = settings.home
    yield from _named(home, _TOP, files=True)
    for name, named in _OURS.items():
        yield from _named(home / name, named, files=True)
    yield from _named(home / "run", _EVALUATION, files=False)
    for model in MODELS:
        folder = home / "models" / model.name
        yield from _named(folder, {file.name for file in model.files}.__contains__, files=True)
        yield from _named(folder, _PULL, files=False)
    sockets = config.socket_folder(settings)
    if sockets != settings.run_dir:
        yield from _named(sockets, {"http.sock", "mcp.sock"}.__contains__, files=True)


def _folders(settings: Settings) -> list[Path]:
    """The folders that are ours, the inner ones first."""
    models = settings.home / "models"
    return [*(settings.home / name for name in _OURS), *(models / model.name for model in MODELS), models]


def _named(folder: Path, named: _Named, *, files: bool) -> list[Path]:
    """What lies in a folder under such names; nothing where the folder is a link."""
    if folder.is_symlink() or not folder.is_dir():
        return []
    found = (path for path in folder.iterdir() if named(path.name))
    return [path for path in found if (path.is_dir() and not path.is_symlink()) != files]


def _drop_empty(folder: Path) -> None:
    if not folder.is_symlink():
        with suppress(OSError):  # it is not empty, or not there
            folder.rmdir()


def _left(settings: Settings) -> Iterator[Path]:
    """What still lies there: whole folders that are not ours, and single files of those that are."""
    pending, own = [settings.home], set(_folders(settings)) - {settings.home_vault}
    while pending:
        folder = pending.pop()
        for path in folder.iterdir() if folder.is_dir() else ():
            if path in own and path.is_dir() and not path.is_symlink():
                pending.append(path)
            else:
                yield path


def _has_index(home: Path) -> bool:
    return any(path.read_bytes()[:16] == _SQLITE for path in _named(home, _INDEX, files=True) if _is_readable(path))


def _has_lock(run: Path) -> bool:
    return bool(_named(run, _PROVING_LOCK, files=True))


def _has_sources(settings: Settings) -> bool:
    registry = Registry(settings)
    try:
        registry.all()
    except SourceError:
        return False
    return registry.exists()


def _has_settings(home: Path) -> bool:
    """Whether config.toml holds settings of ours, and nothing else."""
    try:
        written = tomllib.loads((home / "config.toml").read_text(encoding="utf-8"))
        config.load({"VADE_HOME": str(home)})
    except (OSError, ValueError, ConfigError, StateError):
        return False
    return any(written.values())


def _is_readable(path: Path) -> bool:
    return path.is_file() and os.access(path, os.R_OK)
