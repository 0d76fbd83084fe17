"""The index file: opening it, its transactions, the engine's errors as ours, and moving a damaged one aside."""

from __future__ import annotations

import functools
import json
import os
import time
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Concatenate, Final, ParamSpec, Protocol, TypeVar

import apsw

from vademecum.config import SCHEMA_NUMBER
from vademecum.errors import IndexBusy, IndexCorrupt, IndexUnavailable, SourceRemoved, StateReadOnly
from vademecum.index.schema import SCHEMA, lexical_form, lexical_form_with_identifiers

P = ParamSpec("P")
R = TypeVar("R")

_LEAST_WAIT_S: Final = 4.0
PERMISSIONS: Final = "Check the state folder's permissions."


def connect(path: str, *, busy_timeout_s: float, flags: int) -> apsw.Connection:
    """A connection with everything set that each one needs, before it reads or writes anything."""
    connection = apsw.Connection(path, flags=flags)
    connection.set_busy_timeout(int(busy_timeout_s * 1000))
    connection.pragma("foreign_keys", 1)
    connection.pragma("secure_delete", 1)
    connection.pragma("synchronous", "normal")
    connection.pragma("cache_size", -64_000)  # KiB; the usual 2 MB are thrown out between two questions
    functions: tuple[Callable[..., str], ...] = (lexical_form, lexical_form_with_identifiers)
    for function in functions:
        connection.create_scalar_function(function.__name__, function, 1, deterministic=True)
    return connection


def create_tables(connection: apsw.Connection, *, busy_timeout_s: float) -> None:
    """Make the tables unless they are there; safe when several processes open a new file at once."""
    if connection.pragma("user_version") != SCHEMA_NUMBER:
        _keep_a_log(connection, busy_timeout_s)
        with immediate(connection):
            if connection.pragma("user_version") != SCHEMA_NUMBER:
                connection.execute(SCHEMA)
    known = one(connection, "select value from meta where name = 'unicode'")
    if known != unicodedata.unidata_version:
        _rebuild_words(connection)


def _keep_a_log(connection: apsw.Connection, busy_timeout_s: float) -> None:
    """Switch to the write-ahead log. Of several that do so at once all but one are refused without any waiting.

    Where somebody holds the file the engine does wait, each time anew, so here the clock is ours.
    """
    deadline = time.monotonic() + max(busy_timeout_s, _LEAST_WAIT_S)
    connection.set_busy_timeout(0)
    try:
        while True:
            try:
                connection.pragma("journal_mode", "wal")
                return
            except apsw.BusyError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)
    finally:
        connection.set_busy_timeout(int(busy_timeout_s * 1000))


def check_not_emptied(path: Path) -> None:
    """Raises IndexCorrupt for a file without a byte that processes have open: they hold what it was.

    A new one has no -shm file beside it before its first bytes are written.
    """
    try:
        if path.stat().st_size == 0 and path.with_name(path.name + "-shm").exists():
            raise IndexCorrupt(f"the index {path} was emptied while it was in use")
    except OSError:
        return


def _rebuild_words(connection: apsw.Connection) -> None:
    """Index all words again: another Python may fold a character otherwise, and an entry is only taken back exactly
    by the form under which it was put in.
    """
    with immediate(connection):
        for table in ("chunk_fts", "note_fts"):
            connection.execute(f"insert into {table}({table}) values ('rebuild')")
        connection.execute("update meta set value = ? where name = 'unicode'", (unicodedata.unidata_version,))


@contextmanager
def immediate(connection: apsw.Connection) -> Iterator[apsw.Connection]:
    """A write transaction that has its lock from the start, so that it cannot fail half-way for want of one."""
    connection.execute("begin immediate")
    try:
        yield connection
        connection.execute("commit")
    except BaseException:
        if connection.in_transaction:
            connection.execute("rollback")
        raise


def one(connection: apsw.Connection, sql: str, bindings: Sequence[Any] = ()) -> Any:
    """The first column of the first row, or None when there is no row."""
    row: Any = connection.execute(sql, bindings).fetchone()
    return None if row is None else row[0]


# What SQLite says when a file calls itself an index of this schema and is none.
_SIGNS_OF_DAMAGE: Final = ("no such table", "no such column", "already exists", "malformed")


def translated(exc: Exception, path: Path) -> Exception:
    """Our error for one of the engine's."""
    match exc:
        case apsw.BusyError() | apsw.LockedError():
            return IndexBusy(f"the index {path.name} is being written by another process")
        case apsw.CorruptError() | apsw.NotADBError() | apsw.FormatError() | UnicodeDecodeError() | ValueError():
            return IndexCorrupt(f"the index {path} is damaged: {exc}")
        case apsw.ReadOnlyError() | apsw.PermissionsError():
            return StateReadOnly(f"the index {path} cannot be written")
        case apsw.CantOpenError():
            return IndexUnavailable(f"the index {path} cannot be opened", hint=PERMISSIONS)
        case apsw.FullError():
            return IndexUnavailable(f"no space left for the index {path}", hint="Free some space, then run it again.")
        case apsw.ConstraintError() if "FOREIGN KEY" in str(exc):
            return SourceRemoved("the source was removed while it was being indexed")
        case apsw.IOError():
            hint = "Check the disk, and whether there is space left on it."
            return IndexUnavailable(f"the index {path} cannot be read or written: {exc}", hint=hint)
        case apsw.SQLError() if any(sign in str(exc) for sign in _SIGNS_OF_DAMAGE):
            return IndexCorrupt(f"the index {path} is damaged: {exc}")
    return exc


class _OnFile(Protocol):
    path: Path


S = TypeVar("S", bound=_OnFile)


def translating(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Turn the engine's exceptions into ours, at the methods of the index's own objects and nowhere else."""

    @functools.wraps(method)
    def call(self: S, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(self, *args, **kwargs)
        except (apsw.Error, UnicodeDecodeError, json.JSONDecodeError) as exc:
            raise translated(exc, self.path) from exc

    return call  # type: ignore[return-value]  # wraps() forgets that the first argument may be given by name


def inode_of(path: Path) -> int | None:
    """Which file lies at this path now, so that a newer one is not mistaken for it."""
    try:
        return path.stat().st_ino
    except OSError:
        return None


def quarantine(path: Path, folder: Path, *, inode: int | None) -> Path | None:
    """Move a damaged index aside, unless another process has already put a new file in its place."""
    if inode_of(path) != inode:
        return None
    target = folder / f"{path.stem}-{os.urandom(4).hex()}.db"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        path.rename(target)
    except OSError as exc:
        message = f"the damaged index cannot be moved to {folder}: {exc.strerror}"
        raise IndexUnavailable(message, hint=PERMISSIONS) from exc
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    return target


def connect_read_only(path: Path, busy_timeout_s: float) -> apsw.Connection:
    """Open an index whose folder cannot be written. Without its -wal file it can be read as it stands."""
    if not path.exists():
        raise StateReadOnly(f"there is no index in {path.parent}, and none can be made there")
    wal = path.with_name(path.name + "-wal")
    quiet = not wal.exists() or wal.stat().st_size == 0
    uri = f"{path.as_uri()}?mode=ro" + ("&immutable=1" if quiet else "")
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    return connect(uri, busy_timeout_s=busy_timeout_s, flags=flags)
