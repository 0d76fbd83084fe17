"""The vectors that answer once more, as a table of the sqlite-vec extension where that is installed.

The plain table is the truth. The mirror follows it in the same transaction; a process without the extension cannot
write it, so it empties the mirror's storage instead and leaves it to the next one that can to fill it again. Nothing
of a removed vector stays in it: the extension only marks a deleted row, so its numbers are overwritten first.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import apsw

from vademecum.index.file import one
from vademecum.index.matrix import Near

if TYPE_CHECKING:
    from vademecum.index.matrix import Floats, VectorTable

_STORAGE: Final = ("vector_mirror_chunks", "vector_mirror_rowids", "vector_mirror_vector_chunks00")
# The extension answers no question for more neighbours than this.
_MOST: Final = 4_096
_MOST_DIMENSIONS: Final = 8_192
# Above so many, filling a new mirror takes less time than overwriting rows one by one.
_MOST_FORGOTTEN: Final = 5_000


class Mirror:
    """The set that answers, as sqlite-vec searches it.

    It is a copy: one that proves damaged is no reason to answer less, so the table itself is searched `otherwise`.
    """

    def __init__(self, connection: apsw.Connection, model: int, *, otherwise: Callable[[], VectorTable]) -> None:
        self.backend = "sqlite-vec"
        self._connection = connection
        self._model = model
        self._otherwise = otherwise

    def nearest(self, query: Floats, count: int) -> list[Near]:
        """The nearest, best first, equals by id."""
        if self.backend == "sqlite-vec":
            try:
                return self._nearest(query, count)
            except apsw.SQLError:
                pass
        table = self._otherwise()
        self.backend = table.backend
        return table.nearest(query, count)

    def _nearest(self, query: Floats, count: int) -> list[Near]:
        if count <= _MOST:
            sql = "select rowid, distance from vector_mirror where embedding match ? and k = ?"
            bindings: tuple[Any, ...] = (query.tobytes(), count)
        else:
            sql = "select id, vec_distance_cosine(embedding, ?) from vector where model = ? order by 2 limit ?"
            bindings = (query.tobytes(), self._model, count)
        found = [Near(row[0], 1.0 - row[1]) for row in self._connection.execute(sql, bindings)]
        return sorted(found, key=lambda near: (-near.cosine, near.vector))


def load_extension(connection: apsw.Connection) -> bool:
    """Make sqlite-vec known to a connection; False where it is not installed or does not load."""
    spec = importlib.util.find_spec("sqlite_vec")  # found, not imported: importing it would import numpy
    if spec is None or spec.origin is None:
        return False
    try:
        connection.enable_load_extension(True)
        connection.load_extension(os.path.join(os.path.dirname(spec.origin), "vec0"))
        connection.enable_load_extension(False)
    except (apsw.Error, AttributeError):
        return False
    return True


def is_current(db: apsw.Connection) -> bool:
    """Whether the mirror holds exactly the vectors that answer."""
    return _is_made(db) and one(db, "select value from meta where name = 'mirror'") == _token(db)


def follow(db: apsw.Connection, *, loaded: bool) -> None:
    """Bring the mirror up to date, inside the transaction that changed the vectors."""
    token, seen = _token(db), one(db, "select value from meta where name = 'mirror'") or ""
    if seen == token:
        return
    if not loaded:
        if _is_made(db):
            _empty(db)
            db.execute("insert or replace into meta values ('mirror', 'emptied')")
        return
    model, dimensions = _answering(db)
    if model is None or not (_is_made(db) and seen.startswith(f"{model} ")):
        _make_anew(db, model, dimensions)
    else:
        # To look for what has gone reads every row's number: 60 ms at 100,000, and most changes only add.
        if seen.rpartition(" ")[2] != token.rpartition(" ")[2] and not _forget(db, model):
            _make_anew(db, model, dimensions)
        _add_since(db, model, one(db, "select coalesce(max(rowid), 0) from vector_mirror_rowids"))
    db.execute("insert or replace into meta values ('mirror', ?)", (token,))


def _token(db: apsw.Connection) -> str:
    """What the mirror has to have seen: the set that answers, and how often it changed."""
    return one(db, "select id || ' ' || added || ' ' || removed from model where answers") or "none"


def _answering(db: apsw.Connection) -> tuple[int | None, int]:
    row: Any = db.execute("select id, dimensions from model where answers").fetchone()
    return row or (None, 0)


def _is_made(db: apsw.Connection) -> bool:
    return one(db, "select 1 from sqlite_master where name = 'vector_mirror'") is not None


def _make_anew(db: apsw.Connection, model: int | None, dimensions: int) -> None:
    if _is_made(db):
        _empty(db)
        db.execute("drop table vector_mirror")
    if model is not None and dimensions <= _MOST_DIMENSIONS:
        db.execute(
            f"create virtual table vector_mirror using vec0(embedding float[{dimensions}] distance_metric=cosine)"
        )
        _add_since(db, model, 0)


def _forget(db: apsw.Connection, model: int) -> bool:
    """Let go of vectors that have gone; False, and nothing done, when they are so many that a new mirror is cheaper."""
    gone: list[Any] = db.execute(
        "select rowid from vector_mirror_rowids where rowid not in (select id from vector where model = ?)", (model,)
    ).fetchall()
    if len(gone) > _MOST_FORGOTTEN:
        return False
    for row in gone:
        db.execute("update vector_mirror set embedding = zeroblob(length(embedding)) where rowid = ?", row)
        db.execute("delete from vector_mirror where rowid = ?", row)
    return True


def _add_since(db: apsw.Connection, model: int, newest: int) -> None:
    db.execute(
        "insert into vector_mirror(rowid, embedding) select id, embedding from vector where model = ? and id > ?",
        (model, newest),
    )


def _empty(db: apsw.Connection) -> None:
    """Delete what the mirror stores, as the ordinary tables that it consists of; this needs no extension."""
    for table in _STORAGE:
        db.execute(f"delete from {table}")
