"""Vectors of what chunks say: which are there, which are missing, and which lie nearest to a question's.

A vector belongs to a set, all of one model's making, and two sets are never compared. One set answers. When another
model is wanted its set is built beside that one, and answers when nothing is missing from it; the old set goes in the
same transaction. A text that a model refuses is tried three times and then counted, not tried for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import apsw

from vademecum.errors import SourceRemoved
from vademecum.index import mirror
from vademecum.index.candidates import LOCATED, Located, located
from vademecum.index.file import connect, one, translating
from vademecum.index.matrix import MOST_IN_MEMORY, Matrix, VectorTable, exact_cosines
from vademecum.index.mirror import Mirror

if TYPE_CHECKING:
    from vademecum.index.matrix import Floats

MOST_ATTEMPTS: Final = 3
NOT_SENT: Final = "what not everybody may read now is not sent to another machine"
"""Why a text was passed over that may be embedded later; every run looks at it again."""
_HASH_BYTES: Final = 16
_LENDER_WAIT_S: Final = 5.0


class VectorSet(NamedTuple):
    """The vectors of one model.

    identity  of the embedder that made them
    name      what the setting called it
    have      how many texts have a vector
    refused   how many were given up
    missing   how many have neither yet
    """

    row: int
    identity: str
    name: str
    dimensions: int
    answers: int
    have: int
    refused: int
    missing: int


class ChunkSaid(NamedTuple):
    """What a chunk says, for whoever turns it into a vector."""

    title: str
    heading_path: tuple[str, ...]
    text: str


def content_hash(title: str, headings: str, body: str) -> bytes:
    """What is embedded of a chunk, as an address: equal for two chunks exactly when their vectors are."""
    import hashlib  # 7 ms that a question need not pay

    told = b"\x00".join(part.encode("utf-8", "surrogatepass") for part in (title, headings, body))
    return hashlib.sha256(told).digest()[:_HASH_BYTES]


def drop_unused(db: apsw.Connection, contents: Sequence[int] | None = None) -> None:
    """Delete those of these contents (or of all) that no chunk says any more, and their vectors."""
    unused = "not exists (select 1 from chunk where chunk.content = content.id)"
    if contents is None:
        db.execute(f"delete from content where {unused}")
    else:
        db.executemany(f"delete from content where id = ? and {unused}", ((content,) for content in contents))


class Vectors:
    """The vectors of an open index. Its index owns the connection and the writer lane."""

    def __init__(
        self,
        path: Path,
        connection: apsw.Connection,
        write: Callable[[], AbstractContextManager[apsw.Connection]],
        *,
        most_in_memory: int = MOST_IN_MEMORY,
    ) -> None:
        self.path = path
        self._connection = connection
        self._write = write
        self._most_in_memory = most_in_memory
        self._matrices: dict[int, Matrix] = {}
        self._extension: bool | None = None

    # ── sets

    @translating
    def sets(self) -> list[VectorSet]:
        """Every set, the one that answers first."""
        rows: Any = self._connection.execute(_SETS)
        return [VectorSet._make(row) for row in rows]

    def answering(self) -> VectorSet | None:
        """The set that answers, if there is one."""
        return next((s for s in self.sets() if s.answers), None)

    @translating
    def open_set(self, *, identity: str, name: str, dimensions: int) -> VectorSet:
        """The set of this embedder, made when it is not there. Sets that are neither it nor answer are dropped."""
        with self._write() as db:
            db.execute(
                "insert into model(identity, name, dimensions, answers)"
                " values (?, ?, ?, not exists (select 1 from model where answers)) on conflict do nothing",
                (identity, name, dimensions),
            )
            db.execute("delete from model where not answers and identity <> ?", (identity,))
        return next(s for s in self.sets() if s.identity == identity)

    @translating
    def switch(self, model: int) -> bool:
        """Let a set answer in the place of the old one, which goes; False while it lacks something.

        A text that was refused once or twice is not waited for: it may never be taken.
        """
        with self._write() as db:
            if one(db, _MISSING, (model,)):
                return False
            db.execute("delete from model where id <> ?", (model,))
            db.execute("update model set answers = 1 where id = ?", (model,))
        self._matrices = {row: matrix for row, matrix in self._matrices.items() if row == model}
        return True

    # ── filling a set

    @translating
    def missing(self, model: int) -> list[bytes]:
        """Addresses of the texts without a vector that were not given up, those of the newest notes first."""
        rows: Any = self._connection.execute(
            "select t.hash, max(d.mtime_ns) newest from content t"
            " join chunk c on c.content = t.id join document d on d.id = c.document"
            " where not exists (select 1 from vector v where v.content = t.id and v.model = ?1)"
            " and not exists (select 1 from refusal r where r.content = t.id and r.model = ?1 and r.attempts >= ?2)"
            " group by t.id order by newest desc, min(c.id)",
            (model, MOST_ATTEMPTS),
        )
        return [row[0] for row in rows]

    @translating
    def said(self, content: bytes) -> ChunkSaid | None:
        """What stands at an address, to be embedded and for nothing else; None when no chunk says it any more."""
        row: Any = self._connection.execute(
            "select d.title, c.headings, c.body from content t join chunk c on c.content = t.id"
            " join document d on d.id = c.document where t.hash = ? limit 1",
            (content,),
        ).fetchone()
        if row is None:
            return None
        title, headings, body = row
        return ChunkSaid(title, tuple(headings.split("\n")) if headings else (), body)

    @translating
    def put(self, model: int, vectors: Sequence[tuple[bytes, bytes, int]]) -> None:
        """Store vectors, each as its text's address, its little-endian float32 and how many tokens it left out.

        What no chunk says any more is passed over. Raises SourceRemoved when the set itself is gone.
        """
        with self._write() as db:
            if one(db, "select 1 from model where id = ?", (model,)) is None:
                raise SourceRemoved("another model was chosen while this one was embedding")
            for content, embedding, unread in vectors:
                db.execute(
                    "insert into vector(model, content, unread, embedding)"
                    " select ?, id, ?, ? from content where hash = ? on conflict do nothing",
                    (model, unread, embedding, content),
                )
                db.execute(
                    "delete from refusal where model = ? and content = (select id from content where hash = ?)",
                    (model, content),
                )

    @translating
    def refuse(self, model: int, content: bytes, reason: str) -> None:
        """Note that the model refused a text once more."""
        with self._write() as db:
            db.execute(
                "insert into refusal(content, model, attempts, reason) select id, ?, 1, ? from content where hash = ?"
                " on conflict do update set attempts = attempts + 1, reason = excluded.reason",
                (model, reason, content),
            )

    @translating
    def places(self, content: bytes) -> list[tuple[Located, bytes]]:
        """The notes that say this, each with the fingerprint of the file as it was indexed."""
        rows: Any = self._connection.execute(
            f"select d.fingerprint, {LOCATED} from content t join chunk c on c.content = t.id"
            " join document d on d.id = c.document join source s on s.id = d.source"
            " where t.hash = ? order by s.source_id, d.path",
            (content,),
        )
        return [(located(row[1:]), row[0]) for row in rows]

    @translating
    def keep_back(self, model: int, contents: Sequence[bytes]) -> None:
        """Note that texts are not to be embedded by this model for now."""
        with self._write() as db:
            db.executemany(
                "insert or replace into refusal(content, model, attempts, reason) select id, ?, ?, ? from content"
                " where hash = ?",
                ((model, MOST_ATTEMPTS, NOT_SENT, content) for content in contents),
            )

    @translating
    def look_again(self, model: int) -> None:
        """Let every text be judged anew that was kept back."""
        with self._write() as db:
            db.execute("delete from refusal where model = ? and reason = ?", (model, NOT_SENT))

    @translating
    def kept_back(self, model: int) -> bool:
        """Whether a text was kept back, which may be embedded by now."""
        sql = "select 1 from refusal where model = ? and reason = ? limit 1"
        return one(self._connection, sql, (model, NOT_SENT)) is not None

    @translating
    def forget_refusals(self) -> None:
        """Try every text again that was given up."""
        with self._write() as db:
            db.execute("delete from refusal")

    @translating
    def renew_mirror(self) -> None:
        """Make the mirror anew, whatever it holds."""
        with self._write() as db:
            db.execute("delete from meta where name = 'mirror'")

    @translating
    def refusals(self, model: int, *, limit: int) -> list[tuple[str, str, int, str]]:
        """Texts that were refused: (source id, path of a note, attempts, reason)."""
        rows: Any = self._connection.execute(
            "select s.source_id, d.path, r.attempts, r.reason from refusal r join chunk c on c.content = r.content"
            " join document d on d.id = c.document join source s on s.id = d.source"
            " where r.model = ? order by d.path, c.ordinal limit ?",
            (model, limit),
        )
        return list(rows)

    @translating
    def not_whole(self, model: int) -> int:
        """How many texts are longer than the model reads."""
        count: int = one(self._connection, "select count(*) from vector where model = ? and unread > 0", (model,))
        return count

    @translating
    def borrow(self, path: Path, identity: str) -> int:
        """Copy vectors of this identity from another index, for texts that stand in both; how many."""
        answering = next((s for s in self.sets() if s.identity == identity), None)
        if answering is None:
            return 0
        before: int = one(self._connection, "select added from model where id = ?", (answering.row,))
        # A connection of its own: to write beside an attached file takes the lock of that one too.
        lender = connect(str(path), busy_timeout_s=_LENDER_WAIT_S, flags=apsw.SQLITE_OPEN_READONLY)
        try:
            lent: Any = lender.execute(
                "select v.unread, v.embedding, t.hash from model m join vector v on v.model = m.id"
                " join content t on t.id = v.content where m.identity = ?",
                (identity,),
            )
            with self._write() as db:
                db.executemany(
                    "insert into vector(model, content, unread, embedding) select ?, id, ?, ? from content"
                    " where hash = ? on conflict do nothing",
                    ((answering.row, *vector) for vector in lent),
                )
                after: int = one(db, "select added from model where id = ?", (answering.row,))
        finally:
            lender.close()
        return after - before

    def follow(self, db: apsw.Connection) -> None:
        """Keep the mirror equal to the table. Called by the writer lane before each commit."""
        if one(db, "select 1 from model limit 1") is not None or one(db, "select 1 from meta where name = 'mirror'"):
            mirror.follow(db, loaded=self.has_extension())

    def has_extension(self) -> bool:
        """Whether sqlite-vec is at hand in this process."""
        if self._extension is None:
            self._extension = mirror.load_extension(self._connection)
        return self._extension

    # ── asking

    def table(self, chosen: VectorSet, backend: str) -> VectorTable:
        """Who looks for neighbours in a set: what was asked for where that is possible, else numpy."""
        if backend == "sqlite-vec" and chosen.answers and self.has_extension() and mirror.is_current(self._connection):
            return Mirror(self._connection, chosen.row, otherwise=lambda: self._matrix(chosen))
        return self._matrix(chosen)

    def cosines(self, chosen: VectorSet, query: Floats, vectors: Sequence[int]) -> list[float]:
        """The cosines of these vectors of a set, whoever looks for neighbours."""
        if chosen.row in self._matrices:
            return self._matrix(chosen).cosines(query, vectors)
        return exact_cosines(self._connection, query, vectors)

    def _matrix(self, chosen: VectorSet) -> Matrix:
        matrix = self._matrices.get(chosen.row)
        if matrix is None:
            matrix = Matrix(self._connection, chosen.row, chosen.dimensions, most=self._most_in_memory)
            self._matrices[chosen.row] = matrix
        added, removed = self._connection.execute(
            "select added, removed from model where id = ?", (chosen.row,)
        ).fetchone() or (0, 0)
        matrix.follow(added=added, removed=removed)
        return matrix


_MISSING: Final = (
    "select 1 from content t where not exists (select 1 from vector v where v.content = t.id and v.model = ?1)"
    " and not exists (select 1 from refusal r where r.content = t.id and r.model = ?1) limit 1"
)
# What was given up counts only while it has no vector; the two are never both there.
_SETS: Final = f"""
select m.id, m.identity, m.name, m.dimensions, m.answers, m.added - m.removed, given_up,
       max(0, (select count(*) from content) - (m.added - m.removed) - given_up)
from (select *, (select count(*) from refusal r where r.model = model.id and r.attempts >= {MOST_ATTEMPTS}) as given_up
      from model) m
order by m.answers desc, m.id"""
