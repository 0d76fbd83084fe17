"""Vectors hang off what is said: held once, kept while one chunk says it, never mixed with another model's."""

from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from embedder import direction, fill, open_set
from vademecum.errors import SourceRemoved
from vademecum.index import Index, IndexedNote
from vademecum.vault import FileStamp
from workbench import indexed

SOURCE = "folder:0000000000000001"
OTHER = "folder:0000000000000002"
AT = "2025-01-01T00:00:00Z"


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    with Index.open(tmp_path / "index-1.db", busy_timeout_s=5) as opened:
        yield opened


def open_source(index: Index, source_id: str = SOURCE) -> int:
    index.add_source(source_id, kind="folder", root="/r" + source_id)
    row = index.source(source_id)
    assert row is not None
    return row.row


def document(index: Index, source: int, path: str) -> int:
    return index.stored_notes(source, [path])[path].document


def drop(index: Index, source: int, *paths: str) -> None:
    index.drop([document(index, source, path) for path in paths], at=AT)


def moved(index: Index, source: int, old: str, note: IndexedNote) -> IndexedNote:
    return note._replace(moved_from=document(index, source, old))


def vectors(index: Index) -> dict[bytes, bytes]:
    """Every vector by the address of its text, as a stranger reads the file."""
    connection = apsw.Connection(str(index.path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return dict(connection.execute("select t.hash, v.embedding from vector v join content t on t.id = v.content"))
    finally:
        connection.close()


def said(index: Index, model: int) -> list[str]:
    """What the texts without a vector say, in the order in which they are wanted."""
    texts = [index.vectors.said(content) for content in index.vectors.missing(model)]
    return [text.text for text in texts if text is not None]


# ── what is missing


def test_texts_without_a_vector_come_newest_note_first(index: Index) -> None:
    source, chosen = open_source(index), open_set(index)
    for path, mtime in (("old.md", 1), ("new.md", 3), ("middle.md", 2)):
        index.put(source, [indexed(path, f"text of {path}")._replace(stamp=FileStamp(1, mtime, 1, 1))])
    assert said(index, chosen.row) == ["text of new.md", "text of middle.md", "text of old.md"]


def test_a_text_that_a_new_note_says_too_is_as_new_as_that_one(index: Index) -> None:
    source, chosen = open_source(index), open_set(index)
    for path, mtime, text in (("1/x.md", 1, "twice"), ("b.md", 2, "once"), ("2/x.md", 3, "twice")):
        index.put(source, [indexed(path, text)._replace(stamp=FileStamp(1, mtime, 1, 1))])
    assert said(index, chosen.row) == ["twice", "once"]


def test_sections_of_one_note_come_in_the_order_of_reading(index: Index) -> None:
    source, chosen = open_source(index), open_set(index)
    note = indexed("a.md", "\n\n".join(f"# S{i}\n\n" + f"section {i} " * 200 for i in range(5)))
    index.put(source, [note])
    assert said(index, chosen.row) == [chunk.text for chunk in note.chunks]


def test_what_is_told_for_embedding_is_title_headings_and_text(index: Index) -> None:
    source, chosen = open_source(index), open_set(index)
    index.put(source, [indexed("a.md", "---\ntitle: T\n---\n# One\n\n## Two\n\nwombat")])
    (content,) = index.vectors.missing(chosen.row)
    told = index.vectors.said(content)
    assert told is not None
    assert (told.title, told.heading_path[-1]) == ("T", "Two")
    assert "wombat" in told.text


def test_a_text_names_every_note_that_says_it(index: Index) -> None:
    source = open_source(index)
    index.put(source, [indexed("a.md", "# T\n\nwombat"), indexed("b.md", "---\nprivate: true\n---\n# T\n\nwombat")])
    (content,) = index.vectors.missing(open_set(index).row)
    assert [(note.path, note.private) for note, _ in index.vectors.places(content)] == [("a.md", False), ("b.md", True)]


def test_what_nobody_says_any_more_is_nothing(index: Index) -> None:
    source, chosen = open_source(index), open_set(index)
    index.put(source, [indexed("a.md", "wombat")])
    (content,) = index.vectors.missing(chosen.row)
    drop(index, source, "a.md")
    assert index.vectors.said(content) is None
    assert index.vectors.missing(chosen.row) == []


# ── counted by use


def test_two_notes_that_say_the_same_share_a_vector_until_the_last_goes(index: Index) -> None:
    source, other, chosen = open_source(index), open_source(index, OTHER), open_set(index)
    index.put(source, [indexed("1/x.md", "wombat"), indexed("2/x.md", "wombat")])
    index.put(other, [indexed("3/x.md", "wombat")])
    assert len(fill(index, chosen)) == 1
    drop(index, source, "1/x.md")
    index.put(source, [indexed("2/x.md", "numbat")])
    assert len(vectors(index)) == 1
    assert index.purge(OTHER).vectors == 1
    assert vectors(index) == {}
    assert said(index, chosen.row) == ["numbat"]


def test_purging_a_source_keeps_the_vectors_that_another_needs(index: Index) -> None:
    source, other, chosen = open_source(index), open_source(index, OTHER), open_set(index)
    index.put(source, [indexed("x.md", "shared"), indexed("own.md", "own")])
    index.put(other, [indexed("x.md", "shared")])
    fill(index, chosen)
    purged = index.purge(SOURCE)
    assert purged.vectors == 1
    assert len(purged.numbers) == 1
    assert len(vectors(index)) == 1
    assert index.vectors.missing(chosen.row) == []


@pytest.mark.parametrize("order", [("from.md", "to.md"), ("to.md", "from.md")])
def test_a_section_that_moves_between_two_notes_of_one_write_keeps_its_vector(
    index: Index, order: tuple[str, str]
) -> None:
    source, chosen = open_source(index), open_set(index)
    head, section = "---\ntitle: Same\n---\n# First\n\n", "# Section\n\n" + "wombat words " * 90
    other = "other words " * 90
    index.put(source, [indexed("from.md", f"{head}{other}\n\n{section}"), indexed("to.md", f"{head}{other}")])
    fill(index, chosen)
    after = {"from.md": f"{head}nothing of it", "to.md": f"{head}{other}\n\n{section}"}
    index.put(source, [indexed(path, after[path]) for path in order])
    left = said(index, chosen.row)
    assert left
    assert not any("wombat" in text for text in left)


def test_an_edit_of_one_section_costs_that_section_alone(index: Index) -> None:
    source, chosen = open_source(index), open_set(index)
    sections = [f"# S{i}\n\n" + f"words of section {i} " * 100 for i in range(6)]
    index.put(source, [indexed("a.md", "\n\n".join(sections))])
    fill(index, chosen)
    before = vectors(index)
    sections[2] = "# S2\n\n" + "quite other words " * 100
    index.put(source, [indexed("a.md", "\n\n".join(sections))])
    left = said(index, chosen.row)
    assert left
    assert all("other" in text for text in left)
    assert set(vectors(index)) < set(before)


@pytest.mark.parametrize(
    "change",
    ["---\ntags: [new]\n---\n# T\n\nwombat", "---\nprivate: true\n---\n# T\n\nwombat", "\n\n# T\n\nwombat"],
    ids=["tags", "private", "lines"],
)
def test_a_change_beside_the_text_costs_nothing(index: Index, change: str) -> None:
    source, chosen = open_source(index), open_set(index)
    index.put(source, [indexed("a.md", "# T\n\nwombat")])
    fill(index, chosen)
    before = vectors(index)
    index.put(source, [indexed("a.md", change)])
    assert vectors(index) == before
    assert index.vectors.missing(chosen.row) == []


def test_a_moved_note_keeps_its_vectors_though_its_title_was_its_file_s_name(index: Index) -> None:
    source, chosen = open_source(index), open_set(index)
    index.put(source, [indexed("old.md", "wombat")])
    fill(index, chosen)
    before = vectors(index)
    index.put(source, [moved(index, source, "old.md", indexed("deep/new.md", "wombat"))])
    assert vectors(index) == before
    assert index.vectors.missing(chosen.row) == []
    told = index.vectors.said(next(iter(before)))
    assert told is not None
    assert told.title == "new"
    index.put(source, [moved(index, source, "deep/new.md", indexed("third.md", "wombat"))])
    assert vectors(index) == before


def test_a_moved_note_may_land_where_a_deleted_one_lay(index: Index) -> None:
    source, chosen = open_source(index), open_set(index)
    index.put(source, [indexed("a.md", "wombat"), indexed("b.md", "numbat")])
    fill(index, chosen)
    drop(index, source, "b.md")
    index.put(source, [moved(index, source, "a.md", indexed("b.md", "wombat"))])
    assert index.vectors.missing(chosen.row) == []
    assert index.document_count(source) == 1
    assert index.integrity(thorough=True) == []


def test_dropping_a_note_takes_its_vectors_and_refusals_with_it(index: Index) -> None:
    source, chosen = open_source(index), open_set(index)
    index.put(source, [indexed("a.md", "wombat"), indexed("b.md", "numbat")])
    for content in index.vectors.missing(chosen.row):
        index.vectors.refuse(chosen.row, content, "no")
    fill(index, chosen, 1)
    drop(index, source, "a.md", "b.md")
    assert vectors(index) == {}
    assert index.vectors.refusals(chosen.row, limit=9) == []
    (left,) = index.vectors.sets()
    assert (left.have, left.missing, left.refused) == (0, 0, 0)


# ── putting


def test_a_vector_for_what_nobody_says_any_more_is_passed_over(index: Index) -> None:
    source, chosen = open_source(index), open_set(index)
    index.put(source, [indexed("a.md", "wombat")])
    (content,) = index.vectors.missing(chosen.row)
    drop(index, source, "a.md")
    index.vectors.put(chosen.row, [(content, direction("x").tobytes(), 0)])
    assert vectors(index) == {}


def test_the_first_vector_of_a_text_stays(index: Index) -> None:
    source, chosen = open_source(index), open_set(index)
    index.put(source, [indexed("a.md", "wombat")])
    (content,) = fill(index, chosen)
    index.vectors.put(chosen.row, [(content, direction("another").tobytes(), 0)])
    assert vectors(index)[content] != direction("another").tobytes()
    assert index.vectors.sets()[0].have == 1


def test_vectors_of_a_set_that_is_gone_are_refused(index: Index) -> None:
    source = open_source(index)
    index.put(source, [indexed("a.md", "wombat")])
    fill(index, open_set(index, "answers"))
    late = open_set(index, "late")
    (content,) = index.vectors.missing(late.row)
    open_set(index, "third")
    with pytest.raises(SourceRemoved):
        index.vectors.put(late.row, [(content, direction("x").tobytes(), 0)])


def test_texts_that_the_model_could_not_read_whole_are_counted(index: Index) -> None:
    source, chosen = open_source(index), open_set(index)
    index.put(source, [indexed("a.md", "unread words"), indexed("b.md", "wombat")])
    fill(index, chosen)
    assert index.vectors.not_whole(chosen.row) == 1


# ── refusals


def test_a_text_is_tried_three_times_and_then_counted(index: Index) -> None:
    source, chosen = open_source(index), open_set(index)
    index.put(source, [indexed("a.md", "wombat"), indexed("b.md", "numbat")])
    content = index.vectors.missing(chosen.row)[0]
    for attempt in (1, 2, 3):
        assert content in index.vectors.missing(chosen.row)
        index.vectors.refuse(chosen.row, content, f"no {attempt}")
    assert content not in index.vectors.missing(chosen.row)
    (found,) = index.vectors.sets()
    assert (found.have, found.missing, found.refused) == (0, 1, 1)
    ((source_id, path, attempts, reason),) = index.vectors.refusals(chosen.row, limit=9)
    assert (source_id, attempts, reason) == (SOURCE, 3, "no 3")
    assert path in {"a.md", "b.md"}


def test_a_text_that_is_taken_at_last_was_never_refused(index: Index) -> None:
    source, chosen = open_source(index), open_set(index)
    index.put(source, [indexed("a.md", "wombat")])
    index.vectors.refuse(chosen.row, index.vectors.missing(chosen.row)[0], "no")
    fill(index, chosen)
    assert index.vectors.refusals(chosen.row, limit=9) == []
    assert (index.vectors.sets()[0].have, index.vectors.sets()[0].refused) == (1, 0)


def test_what_was_given_up_is_tried_again_when_refusals_are_forgotten(index: Index) -> None:
    source, chosen = open_source(index), open_set(index)
    index.put(source, [indexed("a.md", "wombat")])
    (content,) = index.vectors.missing(chosen.row)
    index.vectors.keep_back(chosen.row, [content])
    assert index.vectors.missing(chosen.row) == []
    index.vectors.forget_refusals()
    assert index.vectors.missing(chosen.row) == [content]


def test_another_model_may_take_what_one_refused(index: Index) -> None:
    source, chosen = open_source(index), open_set(index)
    index.put(source, [indexed("a.md", "wombat")])
    index.vectors.keep_back(chosen.row, index.vectors.missing(chosen.row))
    assert len(index.vectors.missing(open_set(index, "next").row)) == 1


# ── sets


def test_the_first_set_answers_from_its_first_vector(index: Index) -> None:
    source, chosen = open_source(index), open_set(index)
    index.put(source, [indexed("a.md", "wombat"), indexed("b.md", "numbat")])
    fill(index, chosen, 1)
    answering = index.vectors.answering()
    assert answering is not None
    assert (answering.row, answering.have, answering.missing) == (chosen.row, 1, 1)


def test_another_set_is_built_beside_the_one_that_answers_and_takes_over_when_complete(index: Index) -> None:
    source, old = open_source(index), open_set(index, "old")
    index.put(source, [indexed("a.md", "wombat"), indexed("b.md", "numbat")])
    fill(index, old)
    new = open_set(index, "new", dimensions=48)
    fill(index, new, 1)
    assert not index.vectors.switch(new.row)
    assert [(s.name, bool(s.answers), s.have) for s in index.vectors.sets()] == [("old", True, 2), ("new", False, 1)]
    fill(index, new)
    assert index.vectors.switch(new.row)
    assert [(s.name, bool(s.answers), s.have) for s in index.vectors.sets()] == [("new", True, 2)]
    assert {len(vector) for vector in vectors(index).values()} == {48 * 4}


def test_a_text_that_was_refused_once_does_not_keep_a_set_from_taking_over(index: Index) -> None:
    source = open_source(index)
    index.put(source, [indexed("a.md", "wombat"), indexed("b.md", "numbat")])
    fill(index, open_set(index, "old"))
    new = open_set(index, "new")
    index.vectors.refuse(new.row, index.vectors.missing(new.row)[0], "no")
    assert not index.vectors.switch(new.row)
    fill(index, new, 2)
    assert index.vectors.switch(new.row)


def test_a_third_model_drops_the_half_built_set_and_never_the_one_that_answers(index: Index) -> None:
    source = open_source(index)
    index.put(source, [indexed("a.md", "wombat"), indexed("b.md", "numbat")])
    fill(index, open_set(index, "first"))
    fill(index, open_set(index, "second"), 1)
    open_set(index, "third")
    assert [s.name for s in index.vectors.sets()] == ["first", "third"]
    open_set(index, "first")
    assert [s.name for s in index.vectors.sets()] == ["first"]
    assert index.vectors.sets()[0].have == 2


def test_one_name_with_another_identity_is_another_set(index: Index) -> None:
    open_source(index)
    one = index.vectors.open_set(identity="m@1", name="m", dimensions=4)
    two = index.vectors.open_set(identity="m@2", name="m", dimensions=4)
    assert one.row != two.row
    assert bool(one.answers)
    assert not two.answers


# ── borrowing


def test_vectors_of_the_same_texts_by_the_same_model_can_be_copied_from_another_index(
    tmp_path: Path, index: Index
) -> None:
    with Index.open(tmp_path / "index-2.db", busy_timeout_s=5) as lender:
        source = open_source(lender)
        lender.put(source, [indexed("a.md", "wombat"), indexed("b.md", "numbat")])
        fill(lender, open_set(lender))
        lent = vectors(lender)
    mine, chosen = open_source(index), open_set(index)
    index.put(mine, [indexed("a.md", "wombat"), indexed("c.md", "quokka")])
    assert index.vectors.borrow(tmp_path / "index-2.db", "other-1") == 0
    assert index.vectors.borrow(tmp_path / "index-2.db", chosen.identity) == 1
    assert said(index, chosen.row) == ["quokka"]
    assert vectors(index).items() <= lent.items()
    assert index.vectors.sets()[0].have == 1


def test_borrowing_leaves_the_lender_as_it_was_and_needs_no_leave_to_write_it(tmp_path: Path, index: Index) -> None:
    path = tmp_path / "index-2.db"
    with Index.open(path, busy_timeout_s=5) as lender:
        lender.put(open_source(lender), [indexed("a.md", "wombat")])
        fill(lender, open_set(lender))
        writer = apsw.Connection(str(path))
        writer.execute("begin immediate")  # somebody syncs there
        index.put(open_source(index), [indexed("a.md", "wombat")])
        assert index.vectors.borrow(path, open_set(index).identity) == 1
        writer.execute("rollback")
        writer.close()
