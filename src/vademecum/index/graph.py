"""The shape of one source as a caller may see it.

What carries text is handed out only of notes that the caller may see. Names and paths of files are handed out whole,
since where a link leads must not depend on who asks; who shows them judges them first.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import apsw

from vademecum.access import VisibleSet
from vademecum.index import file
from vademecum.index.candidates import LOCATED, Located, located

_AT_ONCE: Final = 500
"""Notes whose rows are fetched together where a whole source is gone through."""


# The rows of some notes, in the order in which these are given; SQLite would go by the order of the table.
_EACH: Final = "json_each(?) j cross join {0} t on t.document = j.value order by j.key, t.{1}"


class LinkRow(NamedTuple):
    """A link as a note says it. `name` is what it looks for, folded; `property` is None for a link of the body."""

    document: int
    line: int
    embed: bool
    name: str
    target: str
    heading: str | None
    block: str | None
    label: str | None
    property: str | None


class NamedFile(NamedTuple):
    """A file that a link can mean: a note by its file's name (`alias` "") or an alias, or a file that is no document,
    for which `reason` says why.
    """

    name: str
    path: str
    document: int | None
    alias: str
    reason: str | None


class HeadingRow(NamedTuple):
    """A heading and where it stands."""

    document: int
    line: int
    level: int
    text: str


class BlockRow(NamedTuple):
    """A block by its lines; `name` is its ^id."""

    document: int
    first_line: int
    last_line: int
    name: str | None


class ArtifactRow(NamedTuple):
    """A note as lists show it; `size` in bytes."""

    path: str
    title: str
    size: int
    mtime_ns: int
    private: bool
    chunks: int


class Graph:
    """The rows of one source. `withheld` collects, by document, why notes that were met are not shown."""

    def __init__(self, path: Path, connection: apsw.Connection, source_id: str, visible: VisibleSet) -> None:
        self.path = path
        self.source_id = source_id
        self.withheld: dict[int, str] = {}
        self._connection = connection
        self._visible = visible
        self._notes: dict[int, Located | None] = {}
        self._folders: dict[str, bool] = {}
        self._source: int | None = file.one(connection, "select id from source where source_id = ?", (source_id,))

    # ── which notes

    @file.translating
    def notes(self, documents: Iterable[int]) -> dict[int, Located]:
        """Those of these notes that are indexed and that the caller may see, by document."""
        asked = dict.fromkeys(documents)
        unknown = asked.keys() - self._notes.keys()
        if unknown:
            rows: Any = self._connection.execute(
                f"select {LOCATED} from document d join source s on s.id = d.source"
                " where d.id in (select value from json_each(?)) and d.removed_at is null and d.source = ?",
                (json.dumps(sorted(unknown)), self._source),
            )
            self._notes |= dict.fromkeys(unknown)
            self._judge(map(located, rows))
        return {document: note for document in asked if (note := self._notes[document]) is not None}

    def shows(self, document: int) -> bool:
        """Whether this note is indexed and the caller may see it."""
        if document in self._notes:
            return self._notes[document] is not None
        return bool(self.notes([document]))

    def _judge(self, notes: Iterable[Located]) -> None:
        for note in notes:
            reason = self._visible.withheld(note.source_id, note.path, private=note.private)
            if reason is None:
                self._notes[note.document] = note
            else:
                self._notes[note.document] = None
                self.withheld[note.document] = reason

    def all_notes(self) -> Iterator[list[Located]]:
        """Every note that the caller may see, by path, some hundreds at a time."""
        last = ""
        while found := self._page(last):
            last = found[-1].path
            yield [note for note in found if self._notes[note.document] is not None]
            self._notes.clear()

    @file.translating
    def _page(self, after: str) -> list[Located]:
        rows: Any = self._connection.execute(
            f"select {LOCATED} from document d join source s on s.id = d.source"
            " where d.source = ? and d.path > ? and d.removed_at is null order by d.path limit ?",
            (self._source, after, _AT_ONCE),
        )
        found = list(map(located, rows))
        self._judge(found)
        return found

    @file.translating
    def artifacts(self, contains: str, *, limit: int, offset: int) -> tuple[int, list[ArtifactRow]]:
        """Notes by path whose path or title holds this text, in any case: how many there are, and some of them."""
        where = (
            "d.source = ?1 and d.removed_at is null"
            " and (?2 = '' or instr(lower(d.path), ?2) or instr(lower(d.title), ?2))"
        )
        bound = (self._source, contains.lower())
        rows: Any = self._connection.execute(
            f"select d.path, d.title, d.size, d.mtime_ns, d.private,"
            " (select count(*) from chunk c where c.document = d.id)"
            f" from document d where {where} order by d.path limit ?3 offset ?4",
            (*bound, limit, offset),
        )
        found = [ArtifactRow(*row) for row in rows]
        shown = [r for r in found if not self._visible.withheld(self.source_id, r.path, private=bool(r.private))]
        return file.one(self._connection, f"select count(*) from document d where {where}", bound), shown

    # ── what links can mean

    @file.translating
    def link_names(self) -> list[str]:
        """What links call the notes that the caller may see: the names of their files, and their aliases."""
        rows: Any = self._connection.execute(
            "select path, private, aliases from document where source = ? and removed_at is null", (self._source,)
        )
        names: list[str] = []
        for path, private, aliases in rows:
            if self._visible.withheld(self.source_id, path, private=bool(private)) is None:
                names.append(path.rpartition("/")[2].rpartition(".")[0])
                names += filter(None, aliases.split("\n"))
        return names

    @file.translating
    def files(self, names: Iterable[str]) -> list[NamedFile]:
        """Every file of these folded names; whether the caller may see it or not."""
        asked = json.dumps(sorted(set(names)))
        # The joins stand in the order in which they have to run: SQLite would go through all notes of the source.
        notes: Any = self._connection.execute(
            "select n.name, d.path, d.id, n.alias, null from json_each(?) j cross join name n on n.name = j.value"
            " cross join document d on d.id = n.document where d.source = ?",
            (asked, self._source),
        )
        found = [NamedFile(*row) for row in notes]
        others: Any = self._connection.execute(
            "select k.name, k.path, null, '', k.reason from json_each(?) j cross join skipped k on k.name = j.value"
            " where k.source = ?",
            (asked, self._source),
        )
        # What cannot be read for now is a document all the same.
        indexed = {file.path for file in found}
        return [*found, *(NamedFile(*row) for row in others if row[1] not in indexed)]

    @file.translating
    def may_name(self, path: str, reason: str | None, shown: Callable[[Located], bool]) -> bool:
        """Whether the caller may know the path of a file that is not indexed. Of a note, nobody but its owner can:
        whether it is private is not known. An attachment may be known where some note of its folder is, as far as
        `shown` admits that.
        """
        if self._visible.withheld(self.source_id, path, private=reason != "not_read") is not None:
            return False
        folder = path.rpartition("/")[0]
        if self._visible.caller.is_owner or not folder:
            return True
        if folder not in self._folders:
            self._folders[folder] = self._shows_something(folder, shown)
        return self._folders[folder]

    @file.translating
    def names_of(self, document: int) -> list[str]:
        """The folded names under which links find a note."""
        return [name for (name,) in self._connection.execute("select name from name where document = ?", (document,))]

    # ── what visible notes say

    @file.translating
    def links_of(self, documents: Iterable[int]) -> list[LinkRow]:
        """The links that these notes hold, note by note in the order given."""
        return self._links(_EACH.format("link", "ordinal"), json.dumps(list(self.notes(documents))))

    @file.translating
    def links_by_name(self, names: Iterable[str]) -> list[LinkRow]:
        """The links that look for one of these folded names."""
        names_first = "json_each(?) j cross join link t on t.name = j.value order by t.document, t.ordinal"
        found = self._links(names_first, json.dumps(sorted(set(names))))
        shown = self.notes({link.document for link in found})
        return [link for link in found if link.document in shown]

    def _links(self, tables: str, value: str) -> list[LinkRow]:
        rows: Any = self._connection.execute(
            "select t.document, t.line, t.embed, t.name, t.target, t.heading, t.block, t.label, t.property"
            f" from {tables}",
            (value,),
        )
        return [LinkRow(document, line, bool(embed), *rest) for document, line, embed, *rest in rows]

    @file.translating
    def headings(self, documents: Iterable[int]) -> list[HeadingRow]:
        """The headings of these notes, note by note in the order given."""
        rows: Any = self._connection.execute(
            f"select t.document, t.line, t.level, t.text from {_EACH.format('heading', 'line')}",
            (json.dumps(list(self.notes(documents))),),
        )
        return [HeadingRow(*row) for row in rows]

    @file.translating
    def blocks(self, documents: Iterable[int], *, named: bool) -> list[BlockRow]:
        """The blocks of these notes, note by note in the order given; only those with an id where `named` is set."""
        rows: Any = self._connection.execute(
            f"select t.document, t.first_line, t.last_line, t.name from {_EACH.format('block', 'ordinal')}",
            (json.dumps(list(self.notes(documents))),),
        )
        return [BlockRow(*row) for row in rows if row[3] is not None or not named]

    @file.translating
    def tags(self, documents: Iterable[int]) -> dict[int, list[str]]:
        """The tags of these notes, as they spell them, by document."""
        shown = self.notes(documents)
        rows: Any = self._connection.execute(
            f"select t.document, t.spelling from {_EACH.format('tag', 'name')}", (json.dumps(list(shown)),)
        )
        tags: dict[int, list[str]] = {document: [] for document in shown}
        for document, spelling in rows:
            tags[document].append(spelling)
        return tags

    @file.translating
    def aliases(self, document: int) -> list[str]:
        """The aliases of a note."""
        shown = self.notes([document])
        rows: Any = self._connection.execute(
            "select alias from name where document = ? and alias <> '' order by alias", (document,)
        )
        return [alias for (alias,) in rows] if shown else []

    # ── folders

    @file.translating
    def notes_in(self, folder: str) -> list[Located]:
        """The notes that lie directly in a folder, by path."""
        rows: Any = self._connection.execute(
            f"select {LOCATED} from folder f join document d on d.folder = f.id join source s on s.id = d.source"
            " where f.source = ? and f.path = ? order by d.path",
            (self._source, folder),
        )
        found = list(map(located, rows))
        self._judge(found)
        return [note for note in found if self._notes[note.document] is not None]

    @file.translating
    def folders_in(self, folder: str, shown: Callable[[Located], bool]) -> list[str]:
        """The folders directly below a folder in which, at any depth, lies a note that may be seen and is `shown`."""
        rows: Any = self._connection.execute(
            "select below.path from folder f join folder below on below.parent = f.id"
            " where f.source = ? and f.path = ? order by 1",
            (self._source, folder),
        )
        return [path for (path,) in list(rows) if self._shows_something(path, shown)]

    def _shows_something(self, folder: str, shown: Callable[[Located], bool]) -> bool:
        rows: Any = self._connection.execute(
            f"select {LOCATED} from document d join source s on s.id = d.source"
            " where d.source = ? and d.path > ? and d.path < ? and d.removed_at is null",
            (self._source, folder + "/", folder + "0"),  # "0" comes right after "/"
        )
        return any(
            self._visible.withheld(note.source_id, note.path, private=note.private) is None and shown(note)
            for note in map(located, rows)
        )
