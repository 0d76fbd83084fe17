"""The mirror for sqlite-vec: equal to the table after every write, and never a hiding place for what was removed."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from embedder import direction, fill, open_set
from process import clean_environment
from vademecum.index import Index, VectorSet
from workbench import indexed

SOURCE = "folder:0000000000000001"

WITHOUT = """
import sys
sys.modules["sqlite_vec"] = None
sys.path.insert(0, sys.argv[2])
from pathlib import Path
from embedder import direction, fill, open_set
from vademecum.index import Index
from workbench import indexed
with Index.open(Path(sys.argv[1]), busy_timeout_s=5) as index:
    assert not index.vectors.has_extension()
"""


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    pytest.importorskip("sqlite_vec", reason="sqlite-vec is not installed")
    with Index.open(tmp_path / "index-1.db", busy_timeout_s=5) as opened:
        yield opened


def put(index: Index, *names: str) -> None:
    index.add_source(SOURCE, kind="folder", root="/r")
    row = index.source(SOURCE)
    assert row is not None
    for start in range(0, len(names), 256):
        index.put(row.row, [indexed(f"{name}.md", f"# {name}\n\n{name}") for name in names[start : start + 256]])


def drop(index: Index, *names: str) -> None:
    row = index.source(SOURCE)
    assert row is not None
    gone = index.stored_notes(row.row, [f"{name}.md" for name in names])
    index.drop([note.document for note in gone.values()], at="2025-01-01T00:00:00Z")


def agrees(index: Index, chosen: VectorSet, *, count: int = 50) -> int:
    """How many vectors both ways of searching find, which have to be the same ones."""
    total = 0
    for name in ("p", "q", "r"):
        query = direction(name, chosen.dimensions)
        mirror, table = (index.vectors.table(chosen, backend) for backend in ("sqlite-vec", "numpy"))
        assert (mirror.backend, table.backend) == ("sqlite-vec", "numpy")
        found, expected = mirror.nearest(query, count), table.nearest(query, count)
        assert [near.vector for near in found[:20]] == [near.vector for near in expected[:20]]
        assert {near.vector for near in found} == {near.vector for near in expected}
        assert [near.cosine for near in found] == pytest.approx([near.cosine for near in expected], abs=1e-5)
        total = len(found)
    return total


def outside(index: Index, code: str) -> None:
    """Run code on the index in a process that has no sqlite-vec."""
    tests = str(Path(__file__).parents[1])
    body = WITHOUT + "".join(f"    {line}\n" for line in code.splitlines())
    done = subprocess.run(
        [sys.executable, "-c", body, str(index.path), tests], env=clean_environment(), capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


def stored_bytes(index: Index) -> bytes:
    """All that the mirror stores, read as the ordinary tables that it consists of."""
    connection = apsw.Connection(str(index.path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        tables = ["vector_mirror_chunks", "vector_mirror_rowids", "vector_mirror_vector_chunks00"]
        rows = [row for table in tables for row in connection.execute(f"select * from {table}")]
        return b"".join(value for row in rows for value in row if isinstance(value, bytes))
    finally:
        connection.close()


def test_the_mirror_holds_what_the_table_holds_after_every_write(index: Index) -> None:
    put(index, *"abcdefgh")
    chosen = open_set(index)
    fill(index, chosen, 3)
    assert agrees(index, chosen) == 3
    fill(index, chosen)
    assert agrees(index, chosen) == 8
    drop(index, "a", "h", "d")
    assert agrees(index, chosen) == 5
    put(index, "i", "b")
    fill(index, chosen)
    assert agrees(index, chosen) == 6
    drop(index, *"bcefgi")
    assert agrees(index, chosen) == 0


def test_the_mirror_survives_cleaning_across_its_blocks_of_1024(index: Index) -> None:
    names = [f"n{i}" for i in range(2_300)]
    put(index, *names)
    chosen = open_set(index)
    fill(index, chosen)
    assert agrees(index, chosen, count=2_400) == 2_300
    index.begin_bulk()
    drop(index, *names[:1_200])
    assert index.scrub()
    assert agrees(index, chosen, count=2_400) == 1_100
    put(index, *(f"m{i}" for i in range(30)))
    fill(index, chosen)
    assert index.scrub()
    with Index.open(index.path, busy_timeout_s=5) as reopened:
        assert agrees(reopened, chosen, count=2_400) == 1_130
    assert index.integrity(thorough=True) == []


def test_more_neighbours_than_the_extension_gives_are_found_all_the_same(index: Index) -> None:
    put(index, *"abcdefgh")
    chosen = open_set(index)
    fill(index, chosen)
    assert agrees(index, chosen, count=4_096) == 8
    assert agrees(index, chosen, count=4_097) == 8


def test_a_removed_vector_s_numbers_are_in_the_mirror_s_storage_no_more(index: Index) -> None:
    put(index, "a", "b")
    chosen = open_set(index)
    fill(index, chosen)
    connection = apsw.Connection(str(index.path), flags=apsw.SQLITE_OPEN_READONLY)
    held = [row[0] for row in connection.execute("select embedding from vector order by id")]
    connection.close()
    assert all(vector in stored_bytes(index) for vector in held)
    drop(index, "a")
    gone = [vector for vector in held if vector not in stored_bytes(index)]
    assert len(gone) == 1
    index.purge(SOURCE)
    assert not any(vector[64:] in stored_bytes(index) for vector in held)


def test_another_model_s_vectors_take_the_place_of_the_old_ones_at_the_switch_and_not_before(index: Index) -> None:
    put(index, *"abcd")
    old = open_set(index, "old")
    fill(index, old)
    new = open_set(index, "new", dimensions=48)
    fill(index, new, 3)
    assert agrees(index, old) == 4
    assert index.vectors.table(new, "sqlite-vec").backend == "numpy"
    fill(index, new)
    assert index.vectors.switch(new.row)
    (chosen,) = index.vectors.sets()
    assert agrees(index, chosen) == 4


def test_a_process_without_the_extension_writes_and_the_next_one_with_it_fills_the_mirror_again(index: Index) -> None:
    put(index, *"abcd")
    chosen = open_set(index)
    fill(index, chosen)
    outside(index, "index.purge('folder:none')")
    assert agrees(index, chosen) == 4
    outside(
        index,
        "row = index.source('folder:0000000000000001').row\n"
        "index.put(row, [indexed('e.md', '# e\\n\\ne')])\n"
        "index.drop([index.stored_notes(row, ['a.md'])['a.md'].document], at='2025-01-01T00:00:00Z')\n"
        "fill(index, open_set(index))",
    )
    assert index.vectors.table(chosen, "sqlite-vec").backend == "numpy"
    assert len(index.vectors.table(chosen, "numpy").nearest(direction("q"), 9)) == 4
    put(index, "f")
    assert agrees(index, chosen) == 4
    fill(index, chosen)
    assert agrees(index, chosen) == 5


def test_a_process_without_the_extension_leaves_no_vector_in_a_mirror_it_cannot_write(index: Index) -> None:
    put(index, *"abcd")
    fill(index, open_set(index))
    connection = apsw.Connection(str(index.path), flags=apsw.SQLITE_OPEN_READONLY)
    held = [row[0] for row in connection.execute("select embedding from vector")]
    connection.close()
    outside(index, "index.purge('folder:0000000000000001')\nassert index.scrub()")
    assert not any(vector[16:64] in stored_bytes(index) for vector in held)
    files = [path for path in index.path.parent.iterdir() if path.is_file()]
    assert not any(vector[16:64] in path.read_bytes() for vector in held for path in files)


def test_an_index_made_without_the_extension_gets_its_mirror_at_the_first_write_with_it(index: Index) -> None:
    outside(
        index,
        "index.add_source('folder:0000000000000001', kind='folder', root='/r')\n"
        "index.put(1, [indexed(f'{n}.md', f'# {n}\\n\\n{n}') for n in 'abc'])\n"
        "fill(index, open_set(index))",
    )
    (chosen,) = index.vectors.sets()
    assert index.vectors.table(chosen, "sqlite-vec").backend == "numpy"
    put(index, "d")
    assert agrees(index, chosen) == 3


def test_a_write_that_fails_leaves_the_mirror_as_it_was(index: Index) -> None:
    put(index, *"abcd")
    chosen = open_set(index)
    contents = index.vectors.missing(chosen.row)
    fill(index, chosen, 2)
    broken: list[tuple[bytes, bytes, int]] = [(contents[2], direction("x").tobytes(), 0), (contents[3], b"", None)]  # type: ignore[list-item]
    with pytest.raises(Exception, match="NOT NULL"):
        index.vectors.put(chosen.row, broken)
    assert agrees(index, chosen) == 2
    fill(index, chosen)
    assert agrees(index, chosen) == 4


def test_vectors_longer_than_the_extension_takes_are_searched_by_numpy(index: Index) -> None:
    put(index, *"abcd")
    chosen = open_set(index, dimensions=9_000)
    fill(index, chosen, 2)
    fill(index, chosen)
    drop(index, "a")
    table = index.vectors.table(chosen, "sqlite-vec")
    assert table.backend == "numpy"
    assert len(table.nearest(direction("q", 9_000), 9)) == 3
