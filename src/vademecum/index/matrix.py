"""Searching vectors by numpy: exact, over one matrix in memory that follows the table.

Up to 200,000 vectors the matrix itself is held, and every cosine computed. Beyond that only one bit of each number is
held, an eighth of a byte: the bits choose candidates generously, and those are read from the table and compared
exactly.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import apsw

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

MOST_IN_MEMORY: Final = 200_000
"""Vectors above which only their bits are kept in memory."""
_READ_AT_ONCE: Final = 4_096
# Of the bits' choice so many times more than asked for are compared exactly; measured, nothing is lost at 10.
_GENEROUS: Final = 10
_LEAST_RESCORED: Final = 2_000


class Near(NamedTuple):
    """A vector by its id, and its cosine with the question's."""

    vector: int
    cosine: float


class VectorTable(Protocol):
    """Whatever finds the vectors nearest to a question's, within one set."""

    backend: str

    def nearest(self, query: Floats, count: int) -> list[Near]:
        """The nearest, best first, equals by id."""
        ...


class Matrix:
    """The vectors of one set, as numpy searches them.

    `follow` brings it up to date with the table; it costs next to nothing while the table did not change.
    """

    backend = "numpy"

    def __init__(self, connection: apsw.Connection, model: int, dimensions: int, *, most: int = MOST_IN_MEMORY) -> None:
        import numpy as np

        self._connection = connection
        self._model = model
        self._dimensions = dimensions
        self._most = most
        self._ids: NDArray[np.int64] = np.empty(0, np.int64)
        self._rows: NDArray[Any] = np.empty((0, dimensions), np.float32)
        self._count = 0
        self._packed = False
        self._seen = (0, 0)
        self._asked: tuple[Floats, Floats] | None = None  # the last question, and how near every row lies to it

    def follow(self, *, added: int, removed: int) -> None:
        """Take in what was added to the set and let go of what was removed, by its counters."""
        if (added, removed) == self._seen:
            return
        self._asked = None
        if added - removed > self._most and not self._packed:
            self._pack()
        if removed != self._seen[1] and self._count:
            self._forget()
        self._take_in(room=added - removed)
        self._seen = (added, removed)

    def nearest(self, query: Floats, count: int) -> list[Near]:
        """The nearest, best first, equals by id."""
        import numpy as np

        if not self._count:
            return []
        if self._packed:
            return self._nearest_by_bits(query, count)
        if self._asked is None or self._asked[0] is not query:
            self._asked = query, _cosines(self._rows[: self._count], query)
        cosines = self._asked[1]
        chosen = _largest(cosines, count)
        chosen = chosen[np.lexsort((self._ids[chosen], -cosines[chosen]))[:count]]
        return list(map(Near, self._ids[chosen].tolist(), cosines[chosen].tolist()))

    def cosines(self, query: Floats, vectors: Sequence[int]) -> list[float]:
        """The cosines of these vectors, all of which have to be in the set."""
        import numpy as np

        if self._packed:
            return exact_cosines(self._connection, query, vectors)
        places = np.searchsorted(self._ids[: self._count], np.asarray(vectors, np.int64))
        if self._asked is not None and self._asked[0] is query:
            cosines = self._asked[1][places]
        else:
            cosines = _cosines(self._rows[places], query)
        return [float(cosine) for cosine in cosines]

    def _nearest_by_bits(self, query: Floats, count: int) -> list[Near]:
        import numpy as np

        differing = np.bitwise_count(self._rows[: self._count] ^ _bits(query[None, :])).sum(axis=1, dtype=np.int32)
        chosen = self._ids[_largest(-differing, max(_LEAST_RESCORED, _GENEROUS * count))]
        vectors = sorted(int(vector) for vector in chosen)
        cosines = exact_cosines(self._connection, query, vectors)
        ranked = sorted(map(Near, vectors, cosines), key=lambda near: (-near.cosine, near.vector))
        return ranked[:count]

    def _pack(self) -> None:
        self._ids, self._rows = self._ids[: self._count], _bits(self._rows[: self._count])
        self._packed = True

    def _forget(self) -> None:
        import numpy as np

        # As one text, which is read in a third of the time that so many rows take.
        row: Any = self._connection.execute(
            "select coalesce(group_concat(id), '') from vector where model = ?", (self._model,)
        ).fetchone()
        left = np.fromstring(row[0], np.int64, sep=",")
        kept = np.flatnonzero(np.isin(self._ids[: self._count], left))
        if len(kept) < len(self._ids) // 2:
            self._ids, self._rows = self._ids[kept], self._rows[kept]
        else:  # in place and a part at a time: a copy of all would take a question's time, and the memory twice
            staying = int((kept == np.arange(len(kept))).sum())
            for start in range(staying, len(kept), _READ_AT_ONCE):
                origin = kept[start : start + _READ_AT_ONCE]
                self._ids[start : start + len(origin)] = self._ids[origin]
                self._rows[start : start + len(origin)] = self._rows[origin]
        self._count = len(kept)

    def _take_in(self, *, room: int) -> None:
        import numpy as np

        newest = int(self._ids[self._count - 1]) if self._count else 0
        cursor = self._connection.execute(
            "select id, embedding from vector where id > ? and model = ? order by id", (newest, self._model)
        )
        while rows := list(islice(cursor, _READ_AT_ONCE)):
            ids = np.fromiter((row[0] for row in rows), np.int64, len(rows))
            floats = _floats([row[1] for row in rows], self._dimensions)
            end = self._count + len(rows)
            self._make_room(max(end, room))
            self._ids[self._count : end] = ids
            self._rows[self._count : end] = _bits(floats) if self._packed else floats
            self._count = end

    def _make_room(self, needed: int) -> None:
        import numpy as np

        if needed <= len(self._ids):
            return
        capacity = needed + needed // 8  # a vector at a time may follow: no copy of all of them for each
        for name in ("_ids", "_rows"):
            old = getattr(self, name)
            new = np.empty((capacity, *old.shape[1:]), old.dtype)
            new[: self._count] = old[: self._count]
            setattr(self, name, new)


def exact_cosines(connection: apsw.Connection, query: Floats, vectors: Sequence[int]) -> list[float]:
    """The cosines of these vectors, read from the table, in the order given."""
    rows: Any = connection.execute(
        "select v.embedding from json_each(?) j cross join vector v on v.id = j.value order by j.key",
        (json.dumps(list(vectors)),),
    )
    return [float(cosine) for cosine in _cosines(_floats([row[0] for row in rows], len(query)), query)]


def _cosines(rows: NDArray[Any], query: Floats) -> NDArray[np.float32]:
    """The product of each row with the query, one by one: a product of matrices rounds a row by where it stands, and
    then one of two equal notes would be nearer than the other. BLAS would also start threads for it, which spin for
    30 ms on cores that others need.
    """
    import numpy as np

    cosines: NDArray[np.float32] = np.vecdot(rows, query)
    return cosines


def _floats(embeddings: Sequence[bytes], dimensions: int) -> NDArray[Any]:
    """Vectors as rows. Raises apsw.CorruptError unless each is as long as the set says."""
    import numpy as np

    if {len(embedding) for embedding in embeddings} - {4 * dimensions}:
        raise apsw.CorruptError("a vector is not as long as the others")
    return np.frombuffer(b"".join(embeddings), "<f4").reshape(len(embeddings), dimensions)


def _largest(values: NDArray[Any], count: int) -> NDArray[Any]:
    """Where the largest values stand, in no order; more than `count` of them when the last has equals."""
    import numpy as np

    if len(values) <= count:
        return np.arange(len(values))
    least = np.partition(values, len(values) - count)[len(values) - count]
    return np.flatnonzero(values >= least)


def _bits(floats: NDArray[Any]) -> NDArray[Any]:
    """One bit for each number, whether it is positive, as rows of 64-bit words."""
    import numpy as np

    packed = np.packbits(floats > 0, axis=1)
    missing = -packed.shape[1] % 8
    return np.ascontiguousarray(np.pad(packed, ((0, 0), (0, missing)))).view(np.uint64)
