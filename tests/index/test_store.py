"""The index file: what is put is found, what is taken out is gone, and a damaged file is never an empty one."""

import dataclasses
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from embedder import direction, fill, open_set
from process import NOBODY, clean_environment, run_python
from vademecum.access import ANONYMOUS, OWNER, WHOLE, Caller, visible_notes
from vademecum.errors import IndexCorrupt, SourceRemoved, VadeError
from vademecum.index import (
    Filters,
    Index,
    IndexedNote,
    Restamp,
    StoredNote,
    VectorSet,
    WordsQuery,
    inode_of,
    quarantine,
)
from vademecum.index.vectors import content_hash
from vademecum.vault import FileStamp
from workbench import content, counts, files_with, indexed, settings_at

ROOT = "/notes"
SOURCE = "folder:0000000000000001"
OTHER = "folder:0000000000000002"


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    with Index.open(tmp_path / "index-1.db", busy_timeout_s=5) as opened:
        yield opened


def open_source(index: Index, source_id: str = SOURCE) -> int:
    index.add_source(source_id, kind="folder", root=ROOT + source_id)
    row = index.source(source_id)
    assert row is not None
    return row.row


def found(index: Index, word: str, *, caller: Caller = OWNER, source_id: str = SOURCE) -> set[str]:
    """Paths of the notes of one source that the words lane finds, by both tables, which must agree."""
    visible = visible_notes(caller, {source_id: WHOLE})
    lane = index.words(WordsQuery(terms=(word,)), visible, Filters())
    by_note = {candidate.place[1] for candidate in lane.notes}
    assert by_note == {candidate.place[1] for candidate in lane.chunks}
    return by_note


def stored(index: Index, source: int) -> dict[str, StoredNote]:
    return index.stored_notes(source, index.stamps(source))


def drop(index: Index, source: int, *paths: str) -> None:
    known = stored(index, source)
    index.drop([known[path].document for path in paths], at="2025-01-01T00:00:00Z")


# ── put, replace, drop, purge


def test_a_note_is_findable_when_put_returns(index: Index) -> None:
    source = open_source(index)
    index.put(source, [indexed("a.md", "# Birds\n\nA wombat is no bird.")])
    assert found(index, "wombat") == {"a.md"}
    assert index.document_count(source) == 1


def test_putting_a_note_again_replaces_what_it_said(index: Index) -> None:
    source = open_source(index)
    index.put(source, [indexed("a.md", "# One\n\nwombat\n\n# Two\n\nnumbat")])
    index.put(source, [indexed("a.md", "quokka")])
    assert [found(index, word) for word in ("wombat", "numbat", "quokka")] == [set(), set(), {"a.md"}]
    assert index.document_count(source) == 1
    assert index.integrity(thorough=True) == []


def test_a_dropped_note_leaves_path_and_hash_but_no_text(tmp_path: Path, index: Index) -> None:
    source = open_source(index)
    text = "---\ntitle: zqtitle\naliases: [zqalias]\ntags: [zqtag]\nextra: zqproperty\n---\n# zqheading\n\nzqbody words"
    index.put(source, [indexed("a.md", text), indexed("b.md", "kept")])
    drop(index, source, "a.md")
    assert index.document_count(source) == 1
    assert set(stored(index, source)) == {"b.md"}
    row = rows(tmp_path, "select * from document where path = 'a.md'")[0]
    assert not any("zq" in str(value) for value in row)
    assert rows(
        tmp_path, "select count(*) from chunk where document = (select id from document where path = 'a.md')"
    ) == [(0,)]
    assert found(index, "zqbody") == set()
    assert index.integrity(thorough=True) == []


def test_a_note_that_returns_is_restored_in_place(tmp_path: Path, index: Index) -> None:
    source = open_source(index)
    index.put(source, [indexed("a.md", "wombat")])
    before = stored(index, source)["a.md"].document
    drop(index, source, "a.md")
    index.put(source, [indexed("a.md", "wombat")])
    assert stored(index, source)["a.md"].document == before
    assert found(index, "wombat") == {"a.md"}
    assert rows(tmp_path, "select count(*) from document") == [(1,)]


def test_more_notes_than_the_bulk_limit_are_dropped_as_cleanly_as_one(index: Index) -> None:
    source = open_source(index)
    for first in range(0, 320, 64):
        index.put(source, [indexed(f"{i}.md", f"# N{i}\n\nwombat word{i}") for i in range(first, first + 64)])
    drop(index, source, *(f"{i}.md" for i in range(319)))
    assert found(index, "wombat") == {"319.md"}
    assert index.integrity(thorough=True) == []


def test_purging_takes_every_row_of_the_source_and_none_of_another(tmp_path: Path, index: Index) -> None:
    source, other = open_source(index), open_source(index, OTHER)
    index.put(source, [indexed("a.md", "---\nx: [\n---\nwombat"), indexed("gone.md", "wombat")])
    drop(index, source, "gone.md")
    index.put(other, [indexed("a.md", "---\nx: [\n---\nwombat numbat")])
    for row in (source, other):
        finish(index, row, skipped=[("bad.md", "binary")])
    kept = rows(tmp_path, f"select * from document where source = {other}")
    purged = index.purge(SOURCE)
    assert (purged.documents, purged.chunks, purged.warnings, purged.skipped) == (1, 1, 1, 1)
    for table in ("document", "skipped"):
        assert rows(tmp_path, f"select count(*) from {table} where source = {source}") == [(0,)]
    assert rows(tmp_path, f"select * from document where source = {other}") == kept
    assert rows(tmp_path, "select count(*) from chunk union all select count(*) from warning") == [(1,), (1,)]
    assert set(index.sources()) == {OTHER}
    assert found(index, "wombat") == set()
    assert found(index, "wombat", source_id=OTHER) == {"a.md"}
    assert index.integrity(thorough=True) == []


def test_purging_what_is_not_there_does_no_harm(index: Index) -> None:
    open_source(index)
    assert index.purge("folder:none").total == 0
    assert index.purge(SOURCE).total == 0
    assert index.purge(SOURCE).total == 0
    assert index.sources() == {}


@pytest.mark.parametrize("again", [False, True])
def test_a_late_writer_is_refused_after_a_purge_even_when_the_source_is_back(index: Index, again: bool) -> None:
    source = open_source(index)
    index.purge(SOURCE)
    if again:
        assert open_source(index) != source
    with pytest.raises(SourceRemoved):
        index.put(source, [indexed("a.md", "wombat")])
    with pytest.raises(SourceRemoved):
        finish(index, source)
    assert found(index, "wombat") == set()


def test_a_batch_that_fails_leaves_nothing_behind(tmp_path: Path, index: Index) -> None:
    source = open_source(index)
    broken: Any = replaced(indexed("b.md", "wombat"), fingerprint=None)
    with pytest.raises((VadeError, apsw.Error)):
        index.put(source, [indexed("a.md", "wombat"), broken])
    assert found(index, "wombat") == set()
    assert rows(tmp_path, "select count(*) from document") == [(0,)]
    index.put(source, [indexed("c.md", "wombat")])
    assert found(index, "wombat") == {"c.md"}
    assert index.integrity(thorough=True) == []


def test_a_restamped_note_keeps_everything_but_its_stamp(index: Index) -> None:
    source = open_source(index)
    index.put(source, [indexed("a.md", "wombat")])
    old = stored(index, source)["a.md"]
    index.restamp([Restamp(old.document, "a.md", "2026-01-01", FileStamp(9, 8, 7, 6), False)])
    new = stored(index, source)["a.md"]
    assert (new.document, new.fingerprint) == (old.document, old.fingerprint)


def test_text_is_handed_out_only_to_who_may_see_it(index: Index) -> None:
    source = open_source(index)
    index.put(source, [indexed("a.md", "---\nprivate: true\n---\nwombat")])
    document = stored(index, source)["a.md"].document
    for chunk in (None, 1):
        assert index.text(visible_notes(OWNER, {SOURCE: WHOLE}), document=document, chunk=chunk) is not None
        assert index.text(visible_notes(ANONYMOUS, {SOURCE: WHOLE}), document=document, chunk=chunk) is None
        assert index.text(visible_notes(OWNER, {OTHER: WHOLE}), document=document, chunk=chunk) is None
    assert found(index, "wombat", caller=ANONYMOUS) == set()


def test_after_purge_and_scrub_no_byte_of_the_text_is_left(tmp_path: Path, index: Index) -> None:
    source = open_source(index)
    index.put(source, [indexed(f"{i}.md", f"# zqhead{i}\n\nzqbody-{i} " + "filler words " * 200) for i in range(60)])
    assert files_with(tmp_path, "zqbody-7", "zqhead7")
    index.purge(SOURCE)
    assert index.scrub_pending()
    assert index.scrub()
    assert not index.scrub_pending()
    assert files_with(tmp_path, "zqbody", "zqhead", "zqbodi") == []


def replaced(note: IndexedNote, **values: Any) -> Any:
    changed = getattr(note, "_replace", None)
    return changed(**values) if changed else dataclasses.replace(note, **values)


def finish(index: Index, source: int, *, skipped: list[tuple[str, str]] | None = None) -> None:
    index.finish_scan(
        source,
        state="healthy",
        at="2025-01-01T00:00:00Z",
        policy=WHOLE,
        ignore_filters=(),
        diagnostics=(),
        reasons={},
        skipped=skipped or [],
        held=False,
    )


def rows(folder: Path, sql: str) -> list[tuple[object, ...]]:
    connection = apsw.Connection(str(folder / "index-1.db"), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return list(connection.execute(sql))
    finally:
        connection.close()


# ── the index against a dictionary

WORDS = ("wombat", "numbat", "quokka", "snake_case", "ADR-0042", "日本語")
PATHS = ("a.md", "b.md", "deep/c.md", "d.md")


class IndexMachine(RuleBasedStateMachine):
    """Whatever is put, dropped and purged in whatever order: the index answers as a dictionary would."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(os.path.realpath(os.environ["VADE_TEST_SCRATCH"])) / f"m{time.monotonic_ns()}"
        self.folder.mkdir()
        self.index = Index.open(self.folder / "index-1.db", busy_timeout_s=5)
        self.model: dict[str, dict[str, set[str]]] = {}
        self.rows: dict[str, int] = {}
        self.old: list[int] = []
        self.sections: dict[str, dict[str, set[tuple[str, str, str]]]] = {}

    @initialize()
    def one_source(self) -> None:
        self.open(SOURCE)

    @rule(source=st.sampled_from([SOURCE, OTHER]))
    def open(self, source: str) -> None:
        self.rows[source] = open_source(self.index, source)
        self.model.setdefault(source, {})
        self.sections.setdefault(source, {})

    @rule(
        source=st.sampled_from([SOURCE, OTHER]),
        notes=st.dictionaries(st.sampled_from(PATHS), st.sets(st.sampled_from(WORDS)), min_size=1),
        shape=st.sampled_from(["plain {}", "# {}\n\nx", "---\ntags: [{}]\n---\n# H\n\n{}\n\n## I\n\n{}", "{}\n" * 3]),
    )
    def put(self, source: str, notes: dict[str, set[str]], shape: str) -> None:
        if source not in self.model:
            return
        made = [
            indexed(path, "nothing " + shape.replace("{}", " ".join(sorted(words)) or "empty"))
            for path, words in notes.items()
        ]
        self.index.put(self.rows[source], made)
        self.model[source].update(notes)
        for note in made:
            self.sections[source][note.path] = {
                (note.note.title, "\n".join(chunk.heading_path), chunk.text) for chunk in note.chunks
            }

    @rule(source=st.sampled_from([SOURCE, OTHER]), path=st.sampled_from(PATHS))
    def drop(self, source: str, path: str) -> None:
        if path in self.model.get(source, {}):
            drop(self.index, self.rows[source], path)
            del self.model[source][path]
            del self.sections[source][path]

    @rule(model=st.sampled_from(["one", "two"]), count=st.integers(0, 3) | st.none())
    def embed(self, model: str, count: int | None) -> None:
        chosen = open_set(self.index, model, dimensions=8)
        fill(self.index, chosen, count)
        if not self.index.vectors.missing(chosen.row):
            assert self.index.vectors.switch(chosen.row)

    @rule()
    def refuse(self) -> None:
        for chosen in self.index.vectors.sets():
            for text in self.index.vectors.missing(chosen.row)[:1]:
                self.index.vectors.refuse(chosen.row, text, "no")

    @rule(source=st.sampled_from([SOURCE, OTHER]))
    def purge(self, source: str) -> None:
        if source in self.model:
            purged = self.index.purge(source)
            assert purged.documents >= len(self.model.pop(source))
            del self.sections[source]
            self.old.append(self.rows.pop(source))

    @precondition(lambda self: self.old)
    @rule()
    def put_late(self) -> None:
        with pytest.raises(SourceRemoved):
            self.index.put(self.old[-1], [indexed("late.md", "wombat")])

    @rule()
    def scrub(self) -> None:
        assert self.index.scrub()

    @rule()
    def reopen(self) -> None:
        self.index.close()
        self.index = Index.open(self.folder / "index-1.db", busy_timeout_s=5)

    @invariant()
    def agrees(self) -> None:
        assert set(self.index.sources()) == set(self.model)
        for source, notes in self.model.items():
            assert set(stored(self.index, self.rows[source])) == set(notes)
            for word in WORDS:
                said = {path for path, words in notes.items() if word in words}
                assert found(self.index, word, source_id=source) == said, word
        assert self.index.integrity(thorough=True) == []

    @invariant()
    def every_text_has_one_content_and_at_most_one_vector_a_set(self) -> None:
        said = {text for notes in self.sections.values() for texts in notes.values() for text in texts}
        wanted = {content_hash(*text) for text in said}
        held = rows(self.folder, "select t.hash, v.model from vector v join content t on t.id = v.content")
        assert {row[0] for row in rows(self.folder, "select hash from content")} == wanted
        assert len(set(held)) == len(held)
        sets = self.index.vectors.sets()
        assert sum(bool(chosen.answers) for chosen in sets) == bool(sets)
        for chosen in sets:
            has = {content for content, model in held if model == chosen.row}
            assert chosen.have == len(has)
            assert set(self.index.vectors.missing(chosen.row)) <= wanted - has
            assert chosen.have + chosen.missing + chosen.refused == len(wanted)
            if chosen.answers:
                self.both_tables_find_the_same(chosen)

    def both_tables_find_the_same(self, chosen: VectorSet) -> None:
        query = direction("question", 8)
        backends = ["numpy", "sqlite-vec"] if self.index.vectors.has_extension() else ["numpy"]
        found = [self.index.vectors.table(chosen, backend).nearest(query, 500) for backend in backends]
        for near in found:
            assert len({each.vector for each in near}) == len(near) == chosen.have
            assert {each.vector for each in near} == {each.vector for each in found[0]}

    def teardown(self) -> None:
        self.index.close()
        shutil.rmtree(self.folder)


def test_the_index_answers_as_a_dictionary_would(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from hypothesis.stateful import run_state_machine_as_test

    monkeypatch.setenv("VADE_TEST_SCRATCH", str(tmp_path))
    few = settings(
        derandomize=True,
        deadline=None,
        max_examples=25,
        stateful_step_count=20,
        phases=(Phase.explicit, Phase.generate),  # a failure is told unshrunk: shrinking takes minutes here
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(IndexMachine, settings=few)


# ── several processes

OPEN_TOGETHER = """
import sys, time
from pathlib import Path
from vademecum.index import Index
start = float(sys.argv[2])
time.sleep(max(0, start - time.time()))
with Index.open(Path(sys.argv[1]), busy_timeout_s=20) as index:
    index.add_source("folder:" + sys.argv[3], kind="folder", root="/r" + sys.argv[3])
"""


def test_eight_processes_may_open_a_new_index_at_once(tmp_path: Path) -> None:
    path = tmp_path / "index-1.db"
    start = str(time.time() + 1.5)
    children = [
        subprocess.Popen(
            [sys.executable, "-c", OPEN_TOGETHER, str(path), start, f"{i % 4}"],
            env=clean_environment(),
            stderr=subprocess.PIPE,
            text=True,
        )
        for i in range(8)
    ]
    ended = [(child.communicate(timeout=60)[1], child.returncode) for child in children]
    assert ended == [("", 0)] * 8
    with Index.open(path, busy_timeout_s=5) as index:
        assert set(index.sources()) == {f"folder:{i}" for i in range(4)}
        assert index.integrity(thorough=True) == []


def test_the_file_is_for_its_owner_only(tmp_path: Path, index: Index) -> None:
    open_source(index)
    for name in ("index-1.db", "index-1.db-wal", "index-1.db-shm"):
        assert (tmp_path / name).stat().st_mode & 0o077 == 0


# ── a folder that cannot be written

READ_ONLY = """
import json, sys
from pathlib import Path
from vademecum.errors import VadeError
from vademecum.index import Index
try:
    with Index.open(Path(sys.argv[1]), busy_timeout_s=1) as index:
        said = [index.read_only, sorted(index.sources())]
        try:
            index.purge(sys.argv[2])
        except VadeError as exc:
            said.append(exc.code)
except VadeError as exc:
    said = [exc.code, bool(exc.hint)]
print(json.dumps(said))
"""


def readable_index(folder: Path) -> Path:
    path = folder / "state" / "index-1.db"
    path.parent.mkdir()
    with Index.open(path, busy_timeout_s=5) as index:
        open_source(index)
    path.parent.chmod(0o755)
    for file in path.parent.iterdir():
        file.chmod(0o644)
    return path


def test_an_index_in_a_folder_that_cannot_be_written_can_still_be_asked(public_tmp: Path) -> None:
    path = readable_index(public_tmp)
    done = run_python(["-c", READ_ONLY, str(path), SOURCE], as_user=NOBODY, cwd=public_tmp)
    assert done.json == [True, [SOURCE], "state_read_only"]


def test_an_index_whose_log_is_in_use_can_still_be_asked_by_one_who_cannot_write(public_tmp: Path) -> None:
    path = readable_index(public_tmp)
    with Index.open(path, busy_timeout_s=5) as writer:
        open_source(writer, OTHER)
        for file in path.parent.iterdir():
            file.chmod(0o644)
        done = run_python(["-c", READ_ONLY, str(path), SOURCE], as_user=NOBODY, cwd=public_tmp)
    assert done.json == [True, [SOURCE, OTHER], "state_read_only"]


def test_no_index_in_a_folder_that_cannot_be_written_is_said(public_tmp: Path) -> None:
    (public_tmp / "state").mkdir(mode=0o755)
    (public_tmp / "state").chmod(0o755)
    done = run_python(["-c", READ_ONLY, str(public_tmp / "state" / "index-1.db"), "x"], as_user=NOBODY, cwd=public_tmp)
    assert done.json == ["state_read_only", True]


def test_an_index_closed_to_us_is_an_error_of_ours(public_tmp: Path) -> None:
    path = readable_index(public_tmp)
    path.chmod(0o000)
    done = run_python(["-c", READ_ONLY, str(path), "x"], as_user=NOBODY, cwd=public_tmp)
    assert done.json[0] in {"index_unavailable", "state_read_only"}


# ── a damaged file


def built(folder: Path) -> Path:
    path = folder / "index-1.db"
    with Index.open(path, busy_timeout_s=5) as index:
        source = open_source(index)
        index.put(source, [indexed(f"{i}.md", f"# N{i}\n\nwombat " + f"filler{i} " * 300) for i in range(64)])
    return path


def use(path: Path) -> None:
    """Open the file and look at all of it, as a question and a doctor would."""
    with Index.open(path, busy_timeout_s=5) as index:
        assert len(found(index, "wombat")) == 64
        problems = index.integrity(thorough=True)
        if problems:
            raise IndexCorrupt(problems[0])


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2 + 100)


def overwrite_header(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(b"this is no database at all" * 10)


def overwrite_middle(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 3)
        file.write(os.urandom(path.stat().st_size // 3))


def replace_by_text(path: Path) -> None:
    path.write_text("hello\n" * 2000)


def cut_to_few_bytes(path: Path) -> None:
    os.truncate(path, 50)


@pytest.mark.parametrize("damage", [truncate, overwrite_header, overwrite_middle, replace_by_text, cut_to_few_bytes])
def test_a_damaged_file_is_called_damaged(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    path = built(tmp_path)
    use(path)
    damage(path)
    with pytest.raises(IndexCorrupt) as caught:
        use(path)
    assert caught.value.hint


def test_an_emptied_file_is_a_new_index(tmp_path: Path) -> None:
    path = built(tmp_path)
    os.truncate(path, 0)
    with Index.open(path, busy_timeout_s=5) as index:
        assert index.sources() == {}


def test_a_folder_in_the_place_of_the_index_is_an_error_of_ours(tmp_path: Path) -> None:
    (tmp_path / "index-1.db").mkdir()
    with pytest.raises(VadeError):
        Index.open(tmp_path / "index-1.db", busy_timeout_s=1)


def test_a_damaged_file_is_moved_aside_once_even_when_two_notice(tmp_path: Path) -> None:
    path = built(tmp_path)
    inode = inode_of(path)
    content_before = path.read_bytes()
    moved = quarantine(path, tmp_path / "quarantine", inode=inode)
    assert moved is not None
    assert moved.read_bytes() == content_before
    Index.open(path, busy_timeout_s=5).close()
    assert quarantine(path, tmp_path / "quarantine", inode=inode) is None
    assert path.exists()


# ── other schema numbers


def test_an_index_of_a_newer_schema_is_not_touched(tmp_path: Path) -> None:
    newer = tmp_path / "index-2.db"
    newer.write_bytes(os.urandom(5000))
    before = (newer.read_bytes(), newer.stat().st_mtime_ns)
    use(built(tmp_path))
    assert (newer.read_bytes(), newer.stat().st_mtime_ns) == before


@pytest.mark.parametrize("number", [2, 99])
def test_a_file_of_our_name_with_a_newer_number_inside_is_refused_and_not_touched(tmp_path: Path, number: int) -> None:
    path = built(tmp_path)
    connection = apsw.Connection(str(path))
    connection.execute(f"pragma user_version = {number}; pragma wal_checkpoint(truncate)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(VadeError):
        Index.open(path, busy_timeout_s=5)
    assert path.read_bytes() == before


def test_a_stranger_s_database_under_our_name_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "index-1.db"
    connection = apsw.Connection(str(path))
    connection.execute("create table document(mine text); insert into document values ('precious')")
    connection.close()
    with pytest.raises(VadeError):
        Index.open(path, busy_timeout_s=5)
    connection = apsw.Connection(str(path))
    assert list(connection.execute("select * from document")) == [("precious",)]
    connection.close()


def test_two_indexes_of_one_content_are_equal(tmp_path: Path) -> None:
    """The comparison that other tests rely on: row numbers and order of indexing do not show."""
    made = []
    for name, order in (("one", range(5)), ("two", reversed(range(5)))):
        settings_here = settings_at(tmp_path / name)
        settings_here.home.mkdir()
        with Index.open(settings_here.index_file, busy_timeout_s=5) as index:
            source = open_source(index)
            for i in order:
                index.put(source, [indexed(f"{i}.md", f"# N{i}\n\nwombat")])
        made.append(content(settings_here))
        assert counts(settings_here)["document"] == 5
    assert made[0] == made[1]
