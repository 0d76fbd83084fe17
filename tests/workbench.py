"""The application on a state folder of its own, for tests that call it in this process, and its index as plain rows."""

import hashlib
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw

from vademecum import config
from vademecum.access import OWNER, Caller
from vademecum.app import Vademecum
from vademecum.config import Settings
from vademecum.index import Filters, IndexedNote
from vademecum.markdown import cut, parse
from vademecum.search import Question, Recall
from vademecum.sources import Source
from vademecum.sources.sync import SyncReport
from vademecum.sources.vectors import EmbedReport
from vademecum.vault import FileStamp

PROJECT = Caller(project="kestrel", platforms=(), origin="folder")


def settings_at(home: Path, **values: Any) -> Settings:
    """The settings of a state folder, with some replaced: `sources_max_files=5`."""
    loaded = config.load({"VADE_HOME": str(home)})
    changed = {name.replace("_", ".", 1): value for name, value in values.items()}
    return Settings(home=loaded.home, values={**loaded.values, **changed})


class Workbench:
    """Short words for what most tests do with the application."""

    def __init__(self, home: Path, **values: Any) -> None:
        self.told: list[str] = []
        self.settings = settings_at(home, **values)
        self.app = Vademecum(self.settings, notify=self.told.append)

    def add(self, root: Path, kind: str = "obsidian", **options: Any) -> Source:
        source, _, _ = self.app.add(kind, str(root), **options)
        return source

    def sync(self, source: Source, *, force: bool = False) -> SyncReport:
        return self.app.sync(self.app.registry.find(source.id), force=force)

    def embed(self, *, budget_s: float | None = None) -> EmbedReport:
        """Make the vectors that are missing by the model of the settings."""
        return self.app.embed(budget_s=budget_s)

    def recall(self, text: str, *, caller: Caller = OWNER, limit: int = 10, **options: Any) -> Recall:
        names = ("sources", "path_prefix", "tags", "since", "until", "include", "memories")
        filters = {name: options.pop(name) for name in names if name in options}
        question = Question(text=text, limit=limit, filters=Filters(**filters), **options)
        return self.app.recall(question, caller)

    def found(self, text: str, **options: Any) -> list[str]:
        """Paths of the notes that answer, best first, each once."""
        return list(dict.fromkeys(hit.path for hit in self.recall(text, **options).hits))

    def paths(self, source: Source) -> set[str]:
        """Paths of the notes that are indexed."""
        return {row["path"] for row in live_documents(self.settings) if row["source_id"] == source.id}

    def close(self) -> None:
        self.app.close()


@contextmanager
def index_rows(settings: Settings) -> Iterator[apsw.Connection]:
    """The index file as a stranger opens it: nothing of ours in between."""
    connection = apsw.Connection(str(settings.index_file), flags=apsw.SQLITE_OPEN_READONLY)
    connection.set_busy_timeout(10_000)
    try:
        yield connection
    finally:
        connection.close()


def selected(settings: Settings, sql: str, *bindings: Any) -> list[dict[str, Any]]:
    with index_rows(settings) as connection:
        cursor = connection.execute(sql, bindings)
        rows = cursor.fetchall()
        if not rows:
            return []
        names = [column[0] for column in connection.execute(sql, bindings).get_description()]
    return [dict(zip(names, row, strict=True)) for row in rows]


def live_documents(settings: Settings) -> list[dict[str, Any]]:
    return selected(
        settings,
        "select s.source_id as source_id, d.* from document d join source s on s.id = d.source"
        " where d.removed_at is null order by s.source_id, d.path",
    )


def content(settings: Settings) -> list[tuple[Any, ...]]:
    """Everything that an index says of its notes, but row numbers and stamps: equal for two indexes of one vault."""
    with index_rows(settings) as connection:
        return [row for sql in (_TEXT, *_SHAPE) for row in connection.execute(sql)]


_TEXT = (
    "select s.source_id, d.path, d.disk_path, d.fingerprint, d.private, d.title, d.aliases, d.tags, d.headings,"
    " d.properties, c.ordinal, c.first_line, c.last_line, c.key, c.headings, c.body"
    " from document d join source s on s.id = d.source left join chunk c on c.document = d.id"
    " where d.removed_at is null order by s.source_id, d.path, c.ordinal"
)
_SHAPE = (
    "select s.source_id, f.path, above.path, group_concat(d.path, '|' order by d.path) from folder f"
    " join source s on s.id = f.source left join folder above on above.id = f.parent"
    " left join document d on d.folder = f.id group by f.id order by 1, 2",
    *(
        f"select s.source_id, d.path, {columns} from {table} t join document d on d.id = t.document"
        " join source s on s.id = d.source order by 1, 2, 3, 4"
        for table, columns in {
            "name": "t.name, t.alias",
            "link": "t.ordinal, t.line, t.embed, t.name, t.target, t.heading, t.block, t.label, t.property",
            "heading": "t.line, t.level, t.text",
            "block": "t.ordinal, t.first_line, t.last_line, t.name",
            "tag": "t.name, t.spelling",
        }.items()
    ),
    "select s.source_id, k.path, k.reason, k.name from skipped k join source s on s.id = k.source order by 1, 2",
)


def counts(settings: Settings) -> Mapping[str, int]:
    """Rows of every ordinary table."""
    tables = (
        *("source", "document", "content", "chunk", "vector", "refusal", "skipped", "warning"),
        *("folder", "name", "link", "heading", "block", "tag"),
    )
    with index_rows(settings) as connection:
        return {table: connection.execute(f"select count(*) from {table}").fetchone()[0] for table in tables}


def indexed(path: str, text: str, *, size: int = 1) -> IndexedNote:
    """A note as a sync would put it, from its path and text."""
    note = parse(text, stem=Path(path).stem)
    return IndexedNote(
        path=path,
        disk_path=path,
        stamp=FileStamp(size, 1, 1, 1),
        settled=True,
        fingerprint=hashlib.sha256(text.encode()).digest(),
        date=note.date or "2025-01-01",
        note=note,
        chunks=cut(note),
    )


def files_with(folder: Path, *passages: str | bytes) -> list[Path]:
    """The files below a folder whose bytes hold one of the passages."""
    needles = [p.encode() if isinstance(p, str) else p for p in passages]
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink()]
    return [path for path in files if any(needle in path.read_bytes() for needle in needles)]


def files_on_disk(folder: Path) -> int:
    """Everything below a folder that is no folder, as `find ! -type d` counts."""
    return sum(1 for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())


def settle(seconds: float = 2.1) -> None:
    """Wait until the stamps of what was just written are old enough to be trusted."""
    time.sleep(seconds)
