"""The words lane: a question's words against the two full-text tables, best first, filters applied inside.

People's words can never raise: every word is quoted, so nothing that is typed is an operator. A filter never runs
after a limit that it could empty: when too few of the first rows are admitted, all of them are looked at.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import apsw

from vademecum.index.candidates import CANDIDATES, Admission, Candidate
from vademecum.index.schema import is_identifier, lexical_form, unsplit

# Fetched beyond them, to see whether the last one that counts has equals, and for a few that are not admitted.
_SPARE: Final = 20

# Columns: title, headings, body; and title, aliases, tags, headings, body.
_CHUNK_WEIGHTS: Final = "2, 1.5, 1"
_NOTE_WEIGHTS: Final = "2, 2, 1.5, 1.5, 1"

_CHUNKS: Final = f"""
select f.id, f.s, c.document, d.source, d.path, d.private, d.date, d.tags, c.ordinal
from (select rowid as id, bm25(chunk_fts, {_CHUNK_WEIGHTS}) as s
      from chunk_fts where chunk_fts match ? order by s limit ?) f
cross join chunk c on c.id = f.id
cross join document d on d.id = c.document
order by f.s, f.id"""
_NOTES: Final = f"""
select null, f.s, d.id, d.source, d.path, d.private, d.date, d.tags, -1
from (select rowid as id, bm25(note_fts, {_NOTE_WEIGHTS}) as s
      from note_fts where note_fts match ? order by s limit ?) f
cross join document d on d.id = f.id
order by f.s, f.id"""
# A common word may stand in any number of titles; whoever asks by name gives more than that.
_CALLED: Final = """
select null, 0.0, d.id, d.source, d.path, d.private, d.date, d.tags, -1, d.title, d.aliases
from (select rowid as id from note_fts where note_fts match ? limit 1000) f
cross join document d on d.id = f.id
order by d.source, d.path"""
_WORDS: Final = re.compile(r"[^\W_]+")


@dataclass(frozen=True, slots=True)
class WordsQuery:
    """A question as words: any of `terms`, every one of `phrases`, in no note that holds one of `excluded`.

    `name` is the whole of it, stop words included: a note may be called so.
    """

    terms: tuple[str, ...] = ()
    phrases: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    name: tuple[str, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether there is nothing to look for."""
        return not (self.terms or self.phrases)


@dataclass(slots=True)
class WordsLane:
    """What the words lane found, each list best first, and the notes it had to withhold, by reason.

    `named` are the notes whose title, or an alias, the question is word for word.
    """

    chunks: list[Candidate] = field(default_factory=list)
    notes: list[Candidate] = field(default_factory=list)
    named: list[Candidate] = field(default_factory=list)
    withheld: dict[int, str] = field(default_factory=dict)


def words_lane(connection: apsw.Connection, query: WordsQuery, admission: Admission) -> WordsLane:
    """Rank chunks and notes for a question."""
    lane = WordsLane(withheld=admission.withheld)
    if query.empty:
        return lane
    expression = _expression(query)
    for found, sql in ((lane.chunks, _CHUNKS), (lane.notes, _NOTES)):
        for row in _ranked(connection, sql, expression, admit=admission.admits):
            found.append(Candidate(row[0], row[2], -row[1], admission.place(row)))
    lane.named = _named(connection, query.name, admission)
    return lane


def _named(connection: apsw.Connection, name: tuple[str, ...], admission: Admission) -> list[Candidate]:
    """The notes that are called just so, whatever the case of letters and the marks between words."""
    wanted = _as_name(" ".join(name))
    rows = connection.execute(_CALLED, (f"{{title aliases}} : {_quoted(' '.join(name))}",)) if wanted else ()
    return [
        Candidate(None, row[2], 0.0, admission.place(row))
        for *row, title, aliases in rows
        if wanted in map(_as_name, (title, *aliases.split("\n"))) and admission.admits(tuple(row))
    ]


def _as_name(text: str) -> list[str]:
    return _WORDS.findall(lexical_form(text).casefold())


def _ranked(
    connection: apsw.Connection, sql: str, expression: str, *, admit: Callable[[tuple[Any, ...]], bool]
) -> list[tuple[Any, ...]]:
    """The best admitted rows, whatever order equal ones were indexed in."""
    rows = connection.execute(sql, (expression, CANDIDATES + _SPARE)).fetchall()
    admitted = [row for row in rows if admit(row)]
    if len(rows) == CANDIDATES + _SPARE and not _is_cut_clean(admitted):
        # Some were turned away, or are as good as the last, and more may wait behind the limit. -1 is no limit.
        admitted = []
        for row in connection.execute(sql, (expression, -1)):
            if len(admitted) > CANDIDATES and _is_cut_clean(admitted):
                break
            if admit(row):
                admitted.append(row)
    admitted.sort(key=lambda row: (row[1], row[3], row[4], row[8]))
    return admitted[:CANDIDATES]


def _is_cut_clean(rows: list[tuple[Any, ...]]) -> bool:
    """Whether the rows, best first, reach beyond the last that counts, and beyond all that are as good as that one."""
    return len(rows) > CANDIDATES and rows[-1][1] > rows[CANDIDATES - 1][1]


def matched_terms(connection: apsw.Connection, query: WordsQuery, *, chunk: int | None, document: int) -> list[str]:
    """Which words and phrases of the question this chunk, or this whole note, really holds."""
    sql = (
        "select 1 from note_fts where note_fts match ? and rowid = ?"
        if chunk is None
        else "select 1 from chunk_fts where chunk_fts match ? and rowid = ?"
    )
    row = document if chunk is None else chunk
    words = dict.fromkeys(query.phrases + query.terms)
    return [word for word in words if connection.execute(sql, (_quoted(word), row)).fetchone()]


def notes_with_any(connection: apsw.Connection, words: tuple[str, ...]) -> frozenset[int]:
    """The notes that hold one of these words or phrases."""
    if not words:
        return frozenset()
    expression = " OR ".join(map(_quoted, words))
    rows = connection.execute("select rowid from note_fts where note_fts match ?", (expression,))
    return frozenset(row[0] for row in rows)


def _expression(query: WordsQuery) -> str:
    any_of = " OR ".join(map(_quoted, dict.fromkeys(query.phrases + query.terms)))
    return " AND ".join([*map(_quoted, query.phrases), f"({any_of})"])


def _quoted(word: str) -> str:
    """A word or phrase as a full-text string: adjacent tokens, no operator; identifiers also as the one word."""
    phrase = '"' + lexical_form(word).replace('"', " ").replace("\x00", " ") + '"'
    return f'({phrase} OR "{unsplit(word)}")' if is_identifier(word) else phrase
