"""The rows that keep a vault's own shape: folders, names, links, headings, blocks, tags.

They are written and taken out with their note, in its transaction. A link row says what the note says, never where it
leads: that is answered when it is asked, from the names as they are then, so no row can be out of date because some
other note came, moved or went (decision 0012).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import apsw

from vademecum.index.file import one
from vademecum.vault import link_name

if TYPE_CHECKING:
    from vademecum.markdown import Link, Note

# No file has a longer path, so what is longer cannot be meant for one.
_LONGEST_TARGET: Final = 4096
# Each tag stands for all that it is nested in.
_LONGEST_TAG: Final = 200
_PER_NOTE: Final = ("name", "link", "outline", "tag")
_VALUES_AT_ONCE: Final = 96
_json = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":")).encode
Place = tuple[int, str]
"""A note's document and its path."""


def folder_of(path: str) -> str:
    """The folder of a root-relative path; "" is the root."""
    return path.rpartition("/")[0]


def add_folders(db: apsw.Connection, source: int, paths: Iterable[str]) -> None:
    """Make the folders of these notes, and those above them, unless they are there."""
    wanted = {folder_of(path) for path in paths}
    rows = db.execute(
        "select value from json_each(?) where value not in (select path from folder where source = ?)",
        (json.dumps(sorted(wanted)), source),
    )
    missing = {above for (path,) in rows for above in _up_to_the_root(path)}
    # A parent comes before what lies in it: its path is shorter.
    db.executemany(
        "insert into folder(source, path, parent)"
        " values (?1, ?2, (select id from folder where source = ?1 and path = ?3)) on conflict do nothing",
        ((source, path, folder_of(path) if path else None) for path in sorted(missing, key=len)),
    )


def _up_to_the_root(path: str) -> Iterator[str]:
    while path:
        yield path
        path = folder_of(path)
    yield ""


def prune_folders(db: apsw.Connection, folders: Iterable[int | None]) -> None:
    """Take out those of these folders that hold nothing any more, and those above them that held only them."""
    emptied = {folder for folder in folders if folder is not None}
    while emptied:
        rows: Any = db.execute(
            "delete from folder where id in (select value from json_each(?))"
            " and not exists (select 1 from document d where d.folder = folder.id)"
            " and not exists (select 1 from folder below where below.parent = folder.id) returning parent",
            (json.dumps(sorted(emptied)),),
        )
        emptied = {parent for (parent,) in rows if parent is not None}


def take_out(db: apsw.Connection, document: int) -> None:
    """Delete what a note says of its shape."""
    for table in _PER_NOTE:
        db.execute(f"delete from {table} where document = ?", (document,))


def put_in(db: apsw.Connection, notes: Sequence[tuple[Place, Note]]) -> None:
    """Write what notes say of their shape; nothing of them may be there yet."""
    _insert(
        db,
        "or ignore into name(name, document, alias)",
        ((link_name(name), document, alias) for (document, path), note in notes for name, alias in _names(path, note)),
    )
    _insert(
        db,
        "into link(document, ordinal, line, embed, name, target, heading, block, label, property)",
        (row for (document, _), note in notes for row in _links(document, note.links)),
    )
    db.executemany(
        "insert into outline(document, headings, blocks) values (?, ?, ?)",
        ((document, _json(_headings(note)), _json(note.blocks)) for (document, _), note in notes),
    )
    _insert(
        db,
        "or ignore into tag(document, name, spelling)",
        (
            (document, tag.casefold(), tag)
            for (document, _), note in notes
            for tag in note.tags
            if len(tag) <= _LONGEST_TAG
        ),
    )


def _insert(db: apsw.Connection, into: str, rows: Iterable[tuple[Any, ...]]) -> None:
    """Insert rows, many in a statement: a large vault has a hundred thousand small ones, and each takes half so."""
    width = into.count(",") + 1
    several = _VALUES_AT_ONCE // width
    values = f"({', '.join('?' * width)})"
    flat = list(chain.from_iterable(rows))
    rest = len(flat) // width % several * width
    _run(db, f"insert {into} values {', '.join([values] * several)}", flat[: len(flat) - rest], width * several)
    _run(db, f"insert {into} values {values}", flat[len(flat) - rest :], width)


def _run(db: apsw.Connection, sql: str, values: list[Any], width: int) -> None:
    db.executemany(sql, (values[at : at + width] for at in range(0, len(values), width)))


def _names(path: str, note: Note) -> Iterator[tuple[str, str]]:
    yield path, ""
    for alias in note.aliases:
        yield alias, alias


def _headings(note: Note) -> list[tuple[int, int, str]]:
    return [(heading.line, heading.level, heading.text) for heading in note.headings]


def _links(document: int, links: Sequence[Link]) -> Iterator[tuple[Any, ...]]:
    """Rows for the links of a note: one for each different one, where it stands first."""
    said: set[tuple[Any, ...]] = set()
    for link in links:
        what = (link.target, link.heading, link.block, link.embed, link.property)
        if not link.target or len(link.target) > _LONGEST_TARGET or what in said:
            continue
        ordinal = len(said)
        said.add(what)
        yield (
            document,
            ordinal,
            link.line,
            link.embed,
            link_name(link.target),
            link.target,
            link.heading,
            link.block,
            link.alias,
            link.property,
        )


def list_files(db: apsw.Connection, source: int, files: Mapping[str, str]) -> None:
    """Note the files of a source that are no documents, with the reason: path → reason. Writes what differs alone."""
    rows: Any = db.execute("select path, reason from skipped where source = ?", (source,))
    known = dict(rows)
    gone = [path for path in known if path not in files]
    db.executemany("delete from skipped where source = ? and path = ?", ((source, path) for path in gone))
    db.executemany(
        "insert or replace into skipped(source, path, reason, name) values (?, ?, ?, ?)",
        ((source, path, reason, link_name(path)) for path, reason in files.items() if known.get(path) != reason),
    )


def counts(db: apsw.Connection, source: int) -> dict[str, int]:
    """How many rows of each kind a source owns."""
    sql = {
        "folders": "select count(*) from folder where source = ?1",
        **{
            f"{table}s": f"select count(*) from {table} t join document d on d.id = t.document where d.source = ?1"
            for table in ("link", "heading", "block")
        },
        "tags": "select count(distinct t.name) from tag t join document d on d.id = t.document where d.source = ?1",
        "aliases": "select count(*) from name t join document d on d.id = t.document"
        " where d.source = ?1 and t.alias <> ''",
    }
    return {name: one(db, query, (source,)) for name, query in sql.items()}
