"""Numpy as the searcher of vectors: exact, in step with the table, whatever came and went."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from embedder import direction, fill, open_set
from vademecum.access import OWNER, WHOLE, visible_notes
from vademecum.errors import IndexCorrupt
from vademecum.index import Filters, Index, WordsLane, WordsQuery
from vademecum.index.matrix import Matrix, Near, exact_cosines
from workbench import indexed

SOURCE = "folder:0000000000000001"
DIMENSIONS = 24


class Table:
    """A table of vectors in memory with the columns that a matrix reads, and its counters."""

    def __init__(self) -> None:
        self.connection = apsw.Connection(":memory:")
        self.connection.execute(
            "create table vector (id integer primary key autoincrement, model integer, embedding blob)"
        )
        self.added = self.removed = 0
        self.held: dict[int, Any] = {}

    def add(self, vectors: Any, model: int = 1) -> None:
        for vector in vectors:
            self.connection.execute("insert into vector(model, embedding) values (?, ?)", (model, vector.tobytes()))
            if model == 1:
                self.held[self.connection.last_insert_rowid()] = vector
                self.added += 1

    def remove(self, *ids: int) -> None:
        for vector in ids:
            self.connection.execute("delete from vector where id = ?", (vector,))
            del self.held[vector]
            self.removed += 1

    def follow(self, matrix: Matrix) -> None:
        matrix.follow(added=self.added, removed=self.removed)

    def nearest(self, query: Any, count: int) -> list[int]:
        """Brute force, in double precision."""
        cosines = {vector: float(np.dot(held.astype("f8"), query.astype("f8"))) for vector, held in self.held.items()}
        return sorted(cosines, key=lambda vector: (-round(cosines[vector], 6), vector))[:count]


def directions(*names: object, dimensions: int = DIMENSIONS) -> list[Any]:
    return [direction(str(name), dimensions) for name in names]


def ids(found: list[Near]) -> list[int]:
    return [near.vector for near in found]


@pytest.mark.parametrize("most", [0, 10, 10_000])
def test_the_nearest_come_best_first_with_their_cosines(most: int) -> None:
    table = Table()
    table.add(directions(*range(300)))
    matrix = Matrix(table.connection, 1, DIMENSIONS, most=most)
    table.follow(matrix)
    for query in directions("a", "b", "c"):
        found = matrix.nearest(query, 20)
        assert ids(found) == table.nearest(query, 20)
        for near in found:
            assert near.cosine == pytest.approx(float(table.held[near.vector] @ query), abs=1e-6)


@pytest.mark.parametrize("most", [0, 10_000])
def test_equal_vectors_come_by_id_and_more_asked_for_than_there_are_gives_all(most: int) -> None:
    table = Table()
    table.add([direction("same", DIMENSIONS)] * 31)
    matrix = Matrix(table.connection, 1, DIMENSIONS, most=most)
    table.follow(matrix)
    query = direction("q", DIMENSIONS)
    assert ids(matrix.nearest(query, 500)) == list(range(1, 32))
    assert len({near.cosine for near in matrix.nearest(query, 500)}) == 1
    assert ids(matrix.nearest(query, 7)) == list(range(1, 8))


@pytest.mark.parametrize("most", [0, 10_000])
def test_an_empty_set_has_no_neighbours(most: int) -> None:
    table = Table()
    matrix = Matrix(table.connection, 1, DIMENSIONS, most=most)
    table.follow(matrix)
    assert matrix.nearest(direction("q", DIMENSIONS), 5) == []
    assert matrix.cosines(direction("q", DIMENSIONS), []) == []
    table.add(directions(1, 2))
    table.remove(1, 2)
    table.follow(matrix)
    assert matrix.nearest(direction("q", DIMENSIONS), 5) == []


@pytest.mark.parametrize("dimensions", [1, 7, 8, 63, 64, 65, 384])
def test_any_length_of_vectors_can_be_searched_by_bits(dimensions: int) -> None:
    table = Table()
    table.add(directions(*range(50), dimensions=dimensions))
    matrix = Matrix(table.connection, 1, dimensions, most=0)
    table.follow(matrix)
    query = direction("q", dimensions)
    assert ids(matrix.nearest(query, 50)) == table.nearest(query, 50)


def test_by_bits_the_top_hits_are_those_of_the_whole_comparison() -> None:
    """So many vectors that the bits have to choose, around a few themes as those of notes are."""
    rng = np.random.default_rng(7)
    themes = rng.standard_normal((40, 384))
    rows = themes[rng.integers(0, 40, 9_000)] + 0.9 * rng.standard_normal((9_000, 384))
    rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype("<f4")
    table = Table()
    table.add(rows)
    whole = Matrix(table.connection, 1, 384, most=100_000)
    packed = Matrix(table.connection, 1, 384, most=1_000)
    for matrix in (whole, packed):
        table.follow(matrix)
    for theme in themes[:10]:
        query = (theme / np.linalg.norm(theme)).astype("<f4")
        assert ids(packed.nearest(query, 10)) == ids(whole.nearest(query, 10))


def test_every_vector_is_found_by_bits_when_all_are_asked_for() -> None:
    table = Table()
    table.add(directions(*range(2_500)))
    matrix = Matrix(table.connection, 1, DIMENSIONS, most=100)
    table.follow(matrix)
    assert len(matrix.nearest(direction("q", DIMENSIONS), 3_000)) == 2_500


def test_vectors_of_another_set_are_not_looked_at() -> None:
    table = Table()
    for name in range(20):
        table.add(directions(name), model=1 + name % 2)
    matrix = Matrix(table.connection, 1, DIMENSIONS)
    table.follow(matrix)
    assert set(ids(matrix.nearest(direction("q", DIMENSIONS), 50))) == set(table.held)


@pytest.mark.parametrize("most", [0, 10_000])
def test_equal_vectors_are_equally_near_wherever_they_stand(most: int) -> None:
    """A product of matrices rounds a row by its place: then one of two equal notes would be the nearest alone."""
    table = Table()
    table.add([direction("same", 384)] * 23)
    matrix = Matrix(table.connection, 1, 384, most=most)
    table.follow(matrix)
    for count, name in itertools.product((1, 2, 3, 5, 7, 11, 23), ("q", "r", "s")):
        query = direction(name, 384)
        for cosines in (
            matrix.cosines(query, list(range(1, count + 1))),
            matrix.cosines(query, [1] * count),
            exact_cosines(table.connection, query, list(range(1, count + 1))),
        ):
            assert len(set(cosines)) == 1


def test_cosines_come_in_the_order_asked_for() -> None:
    table = Table()
    table.add(directions(*range(10)))
    query = direction("q", DIMENSIONS)
    for most in (0, 100):
        matrix = Matrix(table.connection, 1, DIMENSIONS, most=most)
        table.follow(matrix)
        for wanted in ([3, 1, 2], [10], [5, 5, 1]):
            expected = [float(table.held[vector] @ query) for vector in wanted]
            assert matrix.cosines(query, wanted) == pytest.approx(expected, abs=1e-6)


class MatrixMachine(RuleBasedStateMachine):
    """Vectors come and go by one and by many: every matrix finds what a dictionary would."""

    def __init__(self) -> None:
        super().__init__()
        self.table = Table()
        self.names = itertools.count()

    @initialize()
    def start(self) -> None:
        self.matrices = [Matrix(self.table.connection, 1, 8, most=most) for most in (3, 10, 1_000)]

    @rule(count=st.integers(1, 12), equal=st.booleans())
    def add(self, count: int, equal: bool) -> None:
        names = [next(self.names) for _ in range(count)]
        self.table.add(directions(*([names[0]] * count if equal else names), dimensions=8))

    @rule()
    def add_to_another_set(self) -> None:
        self.table.add(directions(next(self.names), dimensions=8), model=2)

    @rule(data=st.data())
    def remove(self, data: Any) -> None:
        if self.table.held:
            self.table.remove(*data.draw(st.sets(st.sampled_from(sorted(self.table.held)), max_size=20)))

    @rule()
    def remove_the_newest(self) -> None:
        if self.table.held:
            self.table.remove(max(self.table.held))

    @rule()
    def remove_all(self) -> None:
        self.table.remove(*list(self.table.held))

    @rule(name=st.integers(0, 30), count=st.integers(1, 40), which=st.sets(st.integers(0, 2), min_size=1))
    def ask(self, name: int, count: int, which: set[int]) -> None:
        query = direction(f"q{name}", 8)
        for place in which:
            matrix = self.matrices[place]
            self.table.follow(matrix)
            assert ids(matrix.nearest(query, count)) == self.table.nearest(query, count)

    @invariant()
    def the_whole_is_there(self) -> None:
        matrix = self.matrices[-1]
        self.table.follow(matrix)
        query = direction("all", 8)
        held = sorted(self.table.held)
        assert sorted(ids(matrix.nearest(query, len(held) + 1))) == held
        assert matrix.cosines(query, held) == pytest.approx(
            [float(self.table.held[vector] @ query) for vector in held], abs=1e-6
        )


def test_a_matrix_follows_its_table_as_a_dictionary_would() -> None:
    few = settings(
        derandomize=True,
        deadline=None,
        max_examples=60,
        stateful_step_count=25,
        phases=(Phase.explicit, Phase.generate),
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(MatrixMachine, settings=few)


# ── beside the index


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    with Index.open(tmp_path / "index-1.db", busy_timeout_s=5) as opened:
        yield opened


def put(index: Index, *names: str) -> int:
    index.add_source(SOURCE, kind="folder", root="/r")
    row = index.source(SOURCE)
    assert row is not None
    index.put(row.row, [indexed(f"{name}.md", name) for name in names])
    return row.row


def test_what_another_process_embeds_and_removes_is_seen_by_the_next_question(tmp_path: Path, index: Index) -> None:
    source = put(index, "a", "b", "c")
    chosen = open_set(index)
    with Index.open(tmp_path / "index-1.db", busy_timeout_s=5) as reader:
        query = direction("q")
        assert reader.vectors.table(chosen, "numpy").nearest(query, 9) == []
        fill(index, chosen, 2)
        assert len(reader.vectors.table(chosen, "numpy").nearest(query, 9)) == 2
        index.drop([note.document for note in index.stored_notes(source, ["a.md", "b.md", "c.md"]).values()], at="x")
        assert reader.vectors.table(chosen, "numpy").nearest(query, 9) == []
        put(index, "d")
        fill(index, chosen)
        assert len(reader.vectors.table(chosen, "numpy").nearest(query, 9)) == 1


@pytest.mark.parametrize("damage", ["cast(substr(embedding, 1, 7) as blob)", "x''", "zeroblob(1000)", "'text'"])
def test_a_vector_of_another_length_is_a_damaged_index(tmp_path: Path, index: Index, damage: str) -> None:
    put(index, "a", "b", "c")
    chosen = open_set(index)
    fill(index, chosen)
    stranger = apsw.Connection(str(tmp_path / "index-1.db"))
    stranger.execute(f"update vector set embedding = {damage} where id = 2")
    visible = visible_notes(OWNER, {SOURCE: WHOLE})
    with pytest.raises(IndexCorrupt):
        index.meaning(WordsQuery(), direction("q"), chosen, visible, Filters(), beside=WordsLane(), backend="numpy")
    stranger.close()
