"""The rows of one note of the example vault in every table of the index, for the page on the architecture."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import apsw

from vademecum import config
from vademecum.app import Vademecum
from vademecum.config import Settings

_BEGIN: Final = "<!-- rows: written by docs/generate.py -->\n"
_END: Final = "<!-- /rows -->\n"
_VAULT: Final = Path(__file__).parents[1] / "examples" / "vault"
_NOTE: Final = "Reading/Boring machinery.md"
_WIDTH: Final = 44
_MOST: Final = 4
# What is different on each machine and at each time.
_VARYING: Final = ("mtime_ns", "ctime_ns", "inode", "settled", "last_indexed_at", "value")
# Word indexes, and the copy of the vectors that is there only with sqlite-vec.
_NOT_OURS: Final = ("_fts", "_vocabulary", "_mirror", "sqlite_")
_OF_THE_NOTE: Final = {
    "source": "id = (select source from document where id = :d)",
    "folder": "id = (select folder from document where id = :d)",
    "document": "id = :d",
    "name": "document = :d",
    "link": "document = :d",
    "outline": "document = :d",
    "heading": "document = :d",
    "block": "document = :d",
    "tag": "document = :d",
    "chunk": "document = :d",
    "content": "id in (select content from chunk where document = :d)",
    "model": "true",
    "vector": "content in (select content from chunk where document = :d)",
    "refusal": "content in (select content from chunk where document = :d)",
    "warning": "document = :d",
    "skipped": "source = (select source from document where id = :d)",
    "meta": "name = 'unicode'",
}
"""Every ordinary table and the two views read as such, with the rows of one note, or those standing for its source."""


def with_rows(page: str) -> str:
    """A page with the rows between its two marks."""
    before, begin, rest = page.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not begin or not end:
        raise ValueError("the page has no place for the rows")
    return f"{before}{begin}{''.join(_rows())}\n{end}{after}"


def _rows() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        loaded = config.load({"VADE_HOME": folder})
        app = Vademecum(Settings(home=loaded.home, values={**loaded.values, "embedding.model": "hashing"}))
        source, _, _ = app.add("obsidian", str(_VAULT))
        app.embed(budget_s=None)
        app.close()
        connection = apsw.Connection(str(app.settings.index_file), flags=apsw.SQLITE_OPEN_READONLY)
        told = {str(_VAULT): "/home/you/vault", source.id: "obsidian:0123456789abcdef"}
        yield from _tables(connection, told)
        connection.close()


def _tables(connection: apsw.Connection, told: dict[str, str]) -> Iterator[str]:
    found: Any = connection.execute(
        "select name from sqlite_schema where type = 'table' or name in ('heading', 'block')"
    )
    known = {name for (name,) in found if not any(part in name for part in _NOT_OURS)}
    if known != _OF_THE_NOTE.keys():
        raise ValueError(f"the page tells of other tables than there are: {known ^ _OF_THE_NOTE.keys()}")
    ((document,),) = connection.execute("select id from document where path = ?", (_NOTE,))
    for table, condition in _OF_THE_NOTE.items():
        columns = [name for _, name, *_ in connection.execute(f"pragma table_info({table})")]
        rows: Any = list(connection.execute(f"select * from {table} where {condition}", {"d": document}))  # noqa: S608  # constants
        yield f"\n`{table}`: {len(rows)} row{'' if len(rows) == 1 else 's'}"
        yield "\n" if not rows else ", the first of them:\n" if len(rows) > _MOST else ":\n"
        if rows:
            hidden = {"id"} if table == "vector" else set()  # given in the order of the files' days
            shown = [
                ["…" if n in hidden else _cell(n, v, told) for n, v in zip(columns, row, strict=True)]
                for row in rows[:_MOST]
            ]
            yield from _table(columns, shown)


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """A wide table is turned: one column for each row."""
    if len(columns) > 8:
        columns, rows = ("column", *("value" for _ in rows)), [list(x) for x in zip(columns, *rows, strict=True)]
    yield f"\n| {' | '.join(columns)} |\n| {' | '.join('---' for _ in columns)} |\n"
    yield from (f"| {' | '.join(row)} |\n" for row in rows)


def _cell(column: str, value: object, told: dict[str, str]) -> str:
    if column in _VARYING:
        return "…"
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    text = "" if value is None else str(value)
    for known, shown in told.items():
        text = text.replace(known, shown)
    text = text.replace("\n", " ⏎ ").replace("|", "\\|")
    return f"`{text[:_WIDTH]}{'…' if len(text) > _WIDTH else ''}`" if text else ""
