"""The meaning lane: nearest first, nothing that may not be seen, and never a false "nothing found"."""

import itertools
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from embedder import Ollama
from loopback import Serve
from vademecum.access import ANONYMOUS, OWNER
from vademecum.index import Index
from vademecum.index.vectors import Vectors
from workbench import PROJECT, Workbench

WriteTree = Callable[..., Path]
Open = Callable[..., Workbench]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    """The application on a state, "home" unless named, with the hashing model unless said otherwise."""
    made: list[Workbench] = []

    def open_bench(home: str = "home", **values: object) -> Workbench:
        made.append(Workbench(tmp_path / home, **{"embedding_model": "hashing", **values}))
        return made[-1]

    yield open_bench
    for bench in made:
        bench.close()


def nearest(bench: Workbench, text: str, **options: object) -> list[str]:
    return bench.found(text, lane="meaning", **options)


def answer(bench: Workbench, text: str, **options: object) -> list[tuple[str, int, float]]:
    return [(hit.path, hit.line_start, hit.score) for hit in bench.recall(text, **{"limit": 100, **options}).hits]


# ── equal notes, and the order of indexing


@pytest.mark.parametrize("count", [2, 3, 5, 7, 11])
def test_notes_that_say_the_same_are_equally_near_and_stand_by_their_paths(
    opened: Open, write_tree: WriteTree, serve: Serve, count: int
) -> None:
    """Rounding of a matrix product once made one of three equal notes the best and the others the worst."""
    bench = opened(embedding_model="ollama:made-up", embedding_url=serve(Ollama(dimensions=384)).url)
    bench.add(write_tree({f"d{i:02}/x.md": "# Same\n\nThe wombat digs." for i in range(count)}))
    assert bench.embed().have == 1
    for lane in ("meaning", "hybrid"):
        hits = bench.recall("burrows", lane=lane, limit=50).hits
        assert [(hit.path, hit.score) for hit in hits] == [(f"d{i:02}/x.md", 1.0) for i in range(count)]


def test_texts_that_differ_in_markup_alone_are_equally_near(opened: Open, write_tree: WriteTree, serve: Serve) -> None:
    bench = opened(embedding_model="ollama:made-up", embedding_url=serve(Ollama(dimensions=384)).url)
    shapes = ["wombat", "**wombat**", "_wombat_", "[[wombat]]", "`wombat`", "~~wombat~~", "==wombat=="]
    bench.add(write_tree({f"{i}/x.md": f"# Same\n\n{shape}" for i, shape in enumerate(shapes)}))
    assert bench.embed().have == len(shapes)
    hits = bench.recall("burrows", lane="meaning", limit=50).hits
    assert [(hit.path, hit.score) for hit in hits] == [(f"{i}/x.md", 1.0) for i in range(len(shapes))]


THEMES = ("wombat digs", "numbat eats termites", "quokka smiles", "bilby hops", "train is late", "bread rises")


def many(count: int, seed: int = 1) -> dict[str, str]:
    chooser = random.Random(seed)
    return {
        f"{chooser.choice('abc')}/{i}.md": f"# {chooser.choice(THEMES)}\n\n"
        + "\n\n".join(f"## H{j}\n\n" + f"{chooser.choice(THEMES)} {chooser.choice(THEMES)} " * 30 for j in range(3))
        for i in range(count)
    }


def test_the_order_of_indexing_changes_no_answer(opened: Open, write_tree: WriteTree, tmp_path: Path) -> None:
    notes = many(60)
    root = write_tree(notes)
    once = opened("once")
    once.add(root)
    once.embed()
    grown = opened("grown")
    other = write_tree({}, into=tmp_path / "grown root")
    paths = list(notes)
    random.Random(3).shuffle(paths)
    write_tree({"gone.md": "wombat digs " * 50}, into=other)
    source = grown.add(other)
    for number, path in enumerate(paths):
        write_tree({path: notes[path]}, into=other)
        if number % 7 == 0:
            grown.sync(source)
            grown.embed()
            grown.recall("wombat", lane="meaning")
    (other / "gone.md").unlink()
    grown.sync(source)
    grown.embed()
    for query, lane in itertools.product((*THEMES, "burrow", "late winter quokkas"), ("meaning", "hybrid")):
        assert answer(grown, query, lane=lane) == answer(once, query, lane=lane), (query, lane)


# ── backends


@pytest.fixture
def bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every index of this test keeps only the bits of its vectors in memory."""
    original = Index.__init__

    def init(self: Index, path: Path, connection: object, **keywords: object) -> None:
        original(self, path, connection, **keywords)  # type: ignore[arg-type]
        self.vectors = Vectors(path, connection, self._write, most_in_memory=20)  # type: ignore[arg-type]

    monkeypatch.setattr(Index, "__init__", init)


def questions() -> list[dict[str, object]]:
    asked: list[dict[str, object]] = []
    for text, lane in itertools.product((*THEMES, "burrow", "-quokka wombat"), ("meaning", "hybrid")):
        asked += [{"text": text, "lane": lane, "limit": 12, "path_prefix": prefix} for prefix in ("", "b/")]
    return asked


def test_sqlite_vec_gives_the_hits_of_numpy(opened: Open, write_tree: WriteTree) -> None:
    pytest.importorskip("sqlite_vec", reason="sqlite-vec is not installed")
    numpy = opened()
    numpy.add(write_tree(many(60)))
    numpy.embed()
    extension = opened(index_vectors="sqlite-vec")
    backend = extension.recall("wombat").receipt.vectors.backend
    assert backend == "sqlite-vec"
    assert numpy.recall("wombat").receipt.vectors.backend == "numpy"
    for asked in questions():
        top = [answer(bench, **asked) for bench in (numpy, extension)]  # type: ignore[arg-type]
        assert top[0] == top[1], asked


def test_the_choice_by_bits_gives_the_hits_of_the_whole(
    opened: Open, write_tree: WriteTree, request: pytest.FixtureRequest
) -> None:
    whole = opened()
    whole.add(write_tree(many(60)))
    whole.embed()
    wanted = [answer(whole, **asked) for asked in questions()]  # type: ignore[arg-type]
    request.getfixturevalue("bits")
    packed = opened()
    assert [answer(packed, **asked) for asked in questions()] == wanted  # type: ignore[arg-type]


# ── filters and visibility inside the lane

CROWD = 1_200


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Workbench]]:
    """Thousands of notes nearer to the question than the few that a filter admits."""
    folder = tmp_path_factory.mktemp("crowd")
    crowd, few = folder / "crowd", folder / "few"
    for root in (crowd, few):
        root.mkdir()
    for i in range(CROWD):
        (crowd / f"{i}.md").write_text(f"---\nprivate: true\ndate: 2020-01-01\n---\nwombat burrow banned {i}")
    admitted = "---\ntags: [rare/one]\ndate: 2024-05-05\n---\nnothing of the kind, but an engine"
    (crowd / "narrow").mkdir()
    (crowd / "narrow" / "a.md").write_text(admitted)
    (few / "b.md").write_text("---\ndate: 2024-05-05\n---\nan engine as well")
    made = Workbench(folder / "home", embedding_model="hashing")
    made.add(crowd, name="crowd")
    made.add(few, name="few")
    made.embed()
    benches = [made]

    def choose(backend: str) -> Workbench:
        benches.append(Workbench(folder / "home", embedding_model="hashing", index_vectors=backend))
        return benches[-1]

    yield choose
    for bench in benches:
        bench.close()


@pytest.mark.parametrize("backend", ["numpy", "sqlite-vec"])
def test_a_narrow_filter_is_never_answered_by_nothing(crowded: Callable[[str], Workbench], backend: str) -> None:
    bench = crowded(backend)
    few = next(source for source in bench.app.registry.all() if source.name == "few")
    query = "wombat burrow"
    assert nearest(bench, query, limit=1)[0] not in {"narrow/a.md", "b.md"}
    assert nearest(bench, query, tags=("rare",)) == ["narrow/a.md"]
    assert nearest(bench, query, path_prefix="narrow/") == ["narrow/a.md"]
    assert set(nearest(bench, query, since="2024-01-01")) == {"narrow/a.md", "b.md"}
    assert nearest(bench, query, since="2024-01-01", until="2024-05-04") == []
    assert nearest(bench, query, sources=frozenset({few.id})) == ["b.md"]
    assert set(nearest(bench, query, without=("banned",))) == {"narrow/a.md", "b.md"}
    assert set(nearest(bench, f"{query} -banned")) == {"narrow/a.md", "b.md"}
    assert bench.recall(query, tags=("rare",)).hits[0].path == "narrow/a.md"


@pytest.mark.parametrize("backend", ["numpy", "sqlite-vec"])
def test_thousands_of_withheld_notes_hide_no_other(crowded: Callable[[str], Workbench], backend: str) -> None:
    bench = crowded(backend)
    for caller in (PROJECT, ANONYMOUS):
        for lane in ("meaning", "hybrid"):
            found = bench.recall("wombat burrow", lane=lane, caller=caller, limit=50)
            assert {hit.path for hit in found.hits} == {"narrow/a.md", "b.md"}
            assert found.receipt.withheld["private"] > 100
    assert len(nearest(bench, "wombat burrow", caller=OWNER, limit=100)) == 100


def test_what_is_private_never_and_never_served_is_not_found_by_meaning(opened: Open, write_tree: WriteTree) -> None:
    manifest = '{"mcp_exposed_roots": ["open"], "mcp_never_expose": ["hidden.md"]}'
    bench = opened()
    bench.add(
        write_tree(
            {
                "vault-manifest.json": manifest,
                "open/a.md": "wombat one",
                "open/p.md": "---\nprivate: true\n---\nwombat two",
                "open/hidden.md": "wombat three",
                "closed/c.md": "wombat four",
            }
        )
    )
    bench.embed()
    assert nearest(bench, "wombats", caller=ANONYMOUS) == ["open/a.md"]
    assert "open/p.md" in nearest(bench, "wombats", caller=OWNER)


def test_a_note_made_private_on_disk_is_withheld_before_it_is_synced(opened: Open, write_tree: WriteTree) -> None:
    root = write_tree({"a.md": "wombat one", "b.md": "wombat two"})
    bench = opened()
    bench.add(root)
    bench.embed()
    (root / "a.md").write_text("---\nprivate: true\n---\nwombat one")
    assert nearest(bench, "wombats", caller=PROJECT) == ["b.md"]
    assert set(nearest(bench, "wombats")) == {"a.md", "b.md"}


def test_of_two_notes_that_share_a_vector_only_the_one_that_may_be_seen_is_shown(
    opened: Open, write_tree: WriteTree
) -> None:
    bench = opened()
    bench.add(write_tree({"1/x.md": "---\nprivate: true\n---\nwombat", "2/x.md": "wombat"}))
    assert bench.embed().have == 1
    assert nearest(bench, "wombats", caller=PROJECT) == ["2/x.md"]
    assert nearest(bench, "wombats") == ["1/x.md", "2/x.md"]


def test_a_source_that_is_switched_off_is_not_found_by_meaning(
    opened: Open, write_tree: WriteTree, tmp_path: Path
) -> None:
    bench = opened()
    off = bench.add(write_tree({"a.md": "wombat one"}))
    bench.add(write_tree({"b.md": "wombat two"}, into=tmp_path / "on"))
    bench.embed()
    bench.app.registry.edit(off.id, enabled=False)
    assert nearest(bench, "wombats") == ["b.md"]
    bench.app.registry.edit(off.id, enabled=True)
    assert set(nearest(bench, "wombats")) == {"a.md", "b.md"}


def test_what_is_gone_from_the_disk_is_not_shown_and_what_is_offline_is_stale(
    opened: Open, write_tree: WriteTree, tmp_path: Path
) -> None:
    root = write_tree({"a.md": "wombat one", "b.md": "wombat two"})
    bench = opened()
    bench.add(root)
    bench.embed()
    (root / "a.md").unlink()
    assert nearest(bench, "wombats") == ["b.md"]
    root.rename(tmp_path / "away")
    hits = bench.recall("wombats", lane="meaning").hits
    assert [(hit.path, hit.stale) for hit in hits] == [("a.md", True), ("b.md", True)]


def test_a_question_s_exclusion_is_not_part_of_its_meaning(opened: Open, write_tree: WriteTree) -> None:
    bench = opened()
    bench.add(write_tree({"a.md": "wombat digs burrows", "b.md": "train late winter", "c.md": "quokka smile"}))
    bench.embed()
    assert nearest(bench, "wombat -quokka")[0] == "a.md"
    assert nearest(bench, "wombat -quokka") == nearest(bench, "wombat", without=("quokka",))
    assert "c.md" not in nearest(bench, "wombat -quokka")


# ── explained

WORD = st.sampled_from(["wombat", "numbat", "digs", "late", "train", "burrow", "a", "x-y", "7.1", "nothing here"])


@pytest.fixture(scope="module")
def explained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workbench]:
    folder = tmp_path_factory.mktemp("explained")
    chooser = random.Random(2)
    words = ["wombat", "numbat", "digs", "late", "train", "burrow", "x-y", "7.1", "and", "others"]
    for i in range(25):
        path = folder / "vault" / f"{chooser.choice(words)}" / f"{i}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# {chooser.choice(words)}\n\n" + " ".join(chooser.choices(words, k=chooser.randint(1, 40))))
    named = os.environ.get("VADE_TEST_MODELS")
    if named:
        (folder / "home").mkdir()
        (folder / "home" / "models").symlink_to(named)
    bench = Workbench(folder / "home", embedding_model="hashing")
    bench.add(folder / "vault")
    bench.embed(budget_s=None)
    yield bench
    bench.close()


@given(st.lists(WORD, min_size=1, max_size=5), st.sampled_from(["words", "meaning", "hybrid"]), st.booleans())
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_parts_of_a_score_add_up_to_it_in_every_lane(
    explained: Workbench, words: list[str], lane: str, rerank: bool
) -> None:
    """With the reranker where the real one is there; without it the question is answered all the same."""
    found = explained.recall(" ".join(words), lane=lane, rerank=rerank, explain=True)
    assert found.hits or lane == "words" or found.receipt.empty_query
    for hit in found.hits:
        assert hit.explain is not None
        parts = hit.explain["parts"]
        assert round(sum(part["value"] for part in parts), 4) == hit.score
        assert 0 <= hit.score <= 1
        assert all(part["value"] >= -0.0002 for part in parts)
        names = [part["name"] for part in parts]
        assert len(set(names)) == len(names)
    assert [hit.score for hit in found.hits] == sorted((hit.score for hit in found.hits), reverse=True)


def test_one_long_note_leaves_room_for_others(opened: Open, write_tree: WriteTree) -> None:
    diary = "".join(f"# Visit {n}\n\n{'marmot burrow alpine meadow ' * 12}{n}\n\n" for n in range(130))
    others = {f"other {n}.md": f"A marmot of the {n}th meadow." for n in range(6)}
    bench = opened()
    bench.add(write_tree({"diary.md": diary, **others}))
    bench.embed()
    hits = [hit.path for hit in bench.recall("alpine marmots in burrows", lane="meaning").hits]
    assert set(others) < set(hits)
    assert hits.count("diary.md") == 2
