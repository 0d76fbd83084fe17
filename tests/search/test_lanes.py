"""Which lanes answer, which do not and why: whatever fails beside the words is told, and words still answer."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from embedder import Ollama, replied
from loopback import Reply, Serve
from vademecum.doctor import examine
from vademecum.search import Recall
from workbench import Workbench

WriteTree = Callable[..., Path]
Open = Callable[..., Workbench]

NOTES = {
    "wombat.md": "# Wombat\n\nThe wombat digs burrows at night.",
    "badger.md": "# Badger\n\nA badger digs setts.",
    "train.md": "# Train\n\nTrains are late in winter.",
}


@pytest.fixture
def opened(vade_home: Path) -> Iterator[Open]:
    """The application on this test's state with other settings, any number of times."""
    made: list[Workbench] = []

    def open_bench(**values: object) -> Workbench:
        made.append(Workbench(vade_home, **{"embedding_model": "hashing", **values}))
        return made[-1]

    yield open_bench
    for bench in made:
        bench.close()


@pytest.fixture
def ready(opened: Open, write_tree: WriteTree) -> Workbench:
    bench = opened()
    bench.add(write_tree(NOTES))
    bench.embed()
    return bench


def lane(answer: Recall, name: str = "meaning") -> tuple[str, str]:
    report = answer.receipt.lanes[name]
    return report.state, report.reason or ""


def by(answer: Recall) -> dict[str, tuple[str, ...]]:
    return {hit.path: hit.lanes for hit in answer.hits}


# ── who answers


def test_hits_of_both_lanes_come_together_and_say_by_which_they_were_found(ready: Workbench) -> None:
    answer = ready.recall("wombats digging")
    assert by(answer)["wombat.md"] == ("words", "meaning")
    assert by(answer)["train.md"] == ("meaning",)
    assert set(by(answer)) == set(NOTES)
    assert lane(answer) == ("ok", "")
    assert (answer.receipt.vectors.have, answer.receipt.vectors.pending) == (3, 0)
    assert (answer.receipt.vectors.model, answer.receipt.vectors.backend) == ("hashing", "numpy")


@pytest.mark.parametrize(
    ("asked", "words", "meaning"),
    [("words", "ok", "off"), ("meaning", "off", "ok"), ("hybrid", "ok", "ok")],
)
def test_a_lane_that_was_not_asked_for_is_off(ready: Workbench, asked: str, words: str, meaning: str) -> None:
    answer = ready.recall("wombat", lane=asked)
    assert (lane(answer, "words")[0], lane(answer)[0]) == (words, meaning)
    if asked != "hybrid":
        assert {found for hit in answer.hits for found in hit.lanes} == {asked}


def test_words_that_stand_nowhere_are_answered_by_meaning_and_the_receipt_says_so(ready: Workbench) -> None:
    answer = ready.recall("wombatish nightfall")
    assert lane(answer, "words") == ("ok", "no note holds a word of the question")
    assert answer.hits[0].path == "wombat.md"
    assert answer.hits[0].score == 1.0
    assert "no note holds a word" in answer.receipt.line()


@pytest.mark.parametrize("query", ['"digs burrows"', 'badger "digs burrows"', '-late "digs burrows"'])
def test_words_in_quotes_are_answered_by_words_alone(ready: Workbench, query: str) -> None:
    answer = ready.recall(query)
    assert lane(answer)[0] == "off"
    assert "quotes" in lane(answer)[1]
    assert set(by(answer)) == {"wombat.md"}


def test_an_unfinished_quote_asks_both_lanes(ready: Workbench) -> None:
    assert lane(ready.recall('he said "wombat')) == ("ok", "")


def test_a_question_in_quotes_can_be_asked_of_meaning_alone(ready: Workbench) -> None:
    answer = ready.recall('"digs burrows"', lane="meaning")
    assert lane(answer)[0] == "ok"
    assert answer.hits[0].path == "wombat.md"
    assert len(answer.hits) == 3


@pytest.mark.parametrize("asked", ["hybrid", "meaning"])
@pytest.mark.parametrize("query", ["", "  ", "?!", "-"])
def test_a_question_without_a_word_asks_no_lane(ready: Workbench, query: str, asked: str) -> None:
    answer = ready.recall(query, lane=asked)
    assert answer.hits == ()
    assert lane(answer)[0] == "off"
    assert answer.receipt.empty_query


@pytest.mark.parametrize(("weight", "first"), [(0.0, "words"), (1.0, "meaning")])
def test_the_weight_decides_between_the_lanes(
    opened: Open, write_tree: WriteTree, serve: Serve, weight: float, first: str
) -> None:
    """The note that says the word is the farthest by meaning, of all that lie anywhere."""
    server = serve(Ollama())
    values = {"embedding_model": "ollama:made-up", "embedding_url": server.url}
    bench = opened(**values)
    bench.add(write_tree({f"{i}.md": f"Note {i}." for i in range(30)}))
    bench.embed()
    farthest = bench.recall("quokka", lane="meaning", limit=100).hits[-1].path
    number = farthest.removesuffix(".md")
    answers = {lane: bench.recall(f"note {number}", lane=lane, limit=100) for lane in ("words", "meaning")}
    hybrid = opened(recall_meaning_weight=weight, **values).recall(f"note {number}", limit=100)
    assert [hit.path for hit in hybrid.hits] == [hit.path for hit in answers[first].hits]
    assert [hit.score for hit in hybrid.hits] == [hit.score for hit in answers[first].hits]


def test_at_weight_0_nobody_is_asked_for_a_vector(opened: Open, ready: Workbench) -> None:
    answer = opened(recall_meaning_weight=0.0).recall("wombat")
    assert lane(answer) == ("off", "recall.meaning_weight is 0")
    assert lane(opened(recall_meaning_weight=0.0).recall("wombat", lane="meaning"))[0] == "ok"


def test_a_whole_note_is_shown_only_when_none_of_its_chunks_is(opened: Open, write_tree: WriteTree) -> None:
    bench = opened()
    bench.add(write_tree({"a.md": "---\ntags: [marsupial]\n---\n# A\n\nwombat words", "b.md": "# B\n\nother"}))
    words = bench.recall("marsupial", lane="words")
    assert [(hit.path, hit.whole_note) for hit in words.hits] == [("a.md", True)]
    bench.embed()
    both = bench.recall("marsupial")
    assert {(hit.path, hit.whole_note, hit.lanes) for hit in both.hits} == {
        ("a.md", False, ("words", "meaning")),
        ("b.md", False, ("meaning",)),
    }


def test_at_most_two_hits_of_a_note_are_shown(opened: Open, write_tree: WriteTree) -> None:
    bench = opened()
    sections = "\n\n".join(f"# S{i}\n\n" + f"wombat words of section {i} " * 60 for i in range(6))
    bench.add(write_tree({"long.md": sections, "short.md": "wombat"}))
    bench.embed()
    for asked in ("hybrid", "meaning"):
        paths = [hit.path for hit in bench.recall("wombat", lane=asked).hits]
        assert sorted(paths) == ["long.md", "long.md", "short.md"]


# ── what is missing, and why


def test_without_a_model_words_answer_and_the_receipt_says_what_is_missing(opened: Open, write_tree: WriteTree) -> None:
    bench = opened(embedding_model="bge-small-en-v1.5")
    bench.add(write_tree(NOTES))
    answer = bench.recall("wombat")
    assert [hit.path for hit in answer.hits] == ["wombat.md"]
    assert lane(answer) == ("off", "no embedding model is installed")
    assert answer.receipt.as_json()["vectors"] == {
        "have": 0, "pending": 0, "refused": 0, "model": None, "backend": None, "next": None,
    }  # fmt: skip
    assert "no embedding model is installed" in answer.receipt.line()


def test_before_anything_is_embedded_it_is_said(opened: Open, write_tree: WriteTree) -> None:
    bench = opened()
    bench.add(write_tree(NOTES))
    assert lane(bench.recall("wombat")) == ("off", "nothing is embedded yet")
    bench.embed(budget_s=0)
    assert lane(bench.recall("wombat")) == ("off", "nothing is embedded yet")


def test_switched_off_is_off_and_back_again_without_a_call(opened: Open, ready: Workbench) -> None:
    off = opened(embedding_model="none").recall("wombat")
    assert lane(off)[0] == "off"
    assert [hit.path for hit in off.hits] == ["wombat.md"]
    assert (off.receipt.vectors.have, off.receipt.vectors.model) == (3, "hashing")
    assert lane(opened().recall("wombat")) == ("ok", "")


def test_half_of_the_texts_embedded_is_degraded_and_says_how_many(
    opened: Open, ready: Workbench, write_tree: WriteTree, tmp_path: Path
) -> None:
    ready.add(write_tree({f"{i}.md": f"wombat number {i}" for i in range(4)}, into=tmp_path / "more"))
    answer = ready.recall("wombat", limit=20)
    assert lane(answer) == ("degraded", "4 of 7 texts are not embedded yet")
    assert len(answer.hits) == 7
    assert (answer.receipt.vectors.have, answer.receipt.vectors.pending) == (3, 4)
    assert "4 of 7 texts" in answer.receipt.line()


def served(opened: Open, write_tree: WriteTree, serve: Serve, server: Ollama) -> tuple[Workbench, str]:
    url = serve(server).url
    bench = opened(embedding_model="ollama:made-up", embedding_url=url)
    bench.add(write_tree(NOTES))
    bench.embed()
    assert bench.recall("wombat").receipt.lanes["meaning"].state == "ok"
    return bench, url


def again(opened: Open, url: str, **values: object) -> Workbench:
    """A process that asks the server for the first time."""
    return opened(embedding_model="ollama:made-up", embedding_url=url, **values)


def test_a_server_that_is_gone_leaves_the_words(opened: Open, write_tree: WriteTree, serve: Serve) -> None:
    _, url = served(opened, write_tree, serve, Ollama())
    answer = again(opened, url.rsplit(":", 1)[0] + ":9").recall("wombat")
    assert lane(answer)[0] == "degraded"
    assert "127.0.0.1" in lane(answer)[1]
    assert [hit.path for hit in answer.hits] == ["wombat.md"]
    assert answer.receipt.vectors.have == 3
    only = again(opened, url.rsplit(":", 1)[0] + ":9").recall("wombat", lane="meaning")
    assert only.hits == ()
    assert lane(only)[0] == "degraded"


@pytest.mark.parametrize(
    "say",
    [
        lambda _: Reply(500),
        lambda _: Reply(400),
        lambda _: Reply(body=b"<html>"),
        lambda _: Reply(body=b'{"embeddings": [[NaN, 1]]}'),
        lambda texts: replied({"embeddings": [[0.5] * 16] * len(texts)}),
        lambda texts: replied({"embeddings": [[0.0] * 32] * len(texts)}),
        lambda _: replied({"embeddings": []}),
    ],
    ids=["500", "400", "html", "nan", "dimension", "zeros", "none"],
)
@pytest.mark.parametrize("first", [False, True])
def test_a_server_that_answers_anything_but_vectors_leaves_the_words(
    opened: Open, write_tree: WriteTree, serve: Serve, say: Callable[..., Reply], first: bool
) -> None:
    """Whether this process asked it before or not."""
    server = Ollama()
    bench, url = served(opened, write_tree, serve, server)
    server.say = say
    answer = (again(opened, url) if first else bench).recall("wombat")
    assert lane(answer)[0] == "degraded"
    assert lane(answer)[1]
    assert [hit.path for hit in answer.hits] == ["wombat.md"]


def test_a_server_that_hangs_is_waited_for_briefly(opened: Open, write_tree: WriteTree, serve: Serve) -> None:
    import time

    server = Ollama()
    _, url = served(opened, write_tree, serve, server)

    def hang(_: object) -> None:
        time.sleep(1.5)

    server.say = hang
    started = time.perf_counter()
    answer = again(opened, url, embedding_query_timeout_s=0.2).recall("wombat")
    assert time.perf_counter() - started < 1.4
    assert lane(answer)[0] == "degraded"
    assert [hit.path for hit in answer.hits] == ["wombat.md"]


def test_vectors_of_another_revision_of_the_model_are_not_compared(
    opened: Open, write_tree: WriteTree, serve: Serve
) -> None:
    server = Ollama()
    _, url = served(opened, write_tree, serve, server)
    server.digest = "fedcba9876543210"
    late = again(opened, url)
    answer = late.recall("wombat")
    assert lane(answer)[0] == "degraded"
    assert "another version" in lane(answer)[1]
    assert [hit.path for hit in answer.hits] == ["wombat.md"]


@pytest.mark.parametrize(
    "values",
    [
        {"embedding_url": "no address"},
        {"embedding_url": "http://user:secret@127.0.0.1/"},
        {"embedding_url": "http://embed.example.org"},
    ],
    ids=["no address", "password", "no consent"],
)
def test_a_setting_that_is_wrong_for_the_model_leaves_the_words(
    opened: Open, write_tree: WriteTree, serve: Serve, values: dict[str, str]
) -> None:
    served(opened, write_tree, serve, Ollama())
    answer = opened(embedding_model="ollama:made-up", **values).recall("wombat")
    assert lane(answer)[0] == "degraded"
    assert "secret" not in lane(answer)[1]
    assert [hit.path for hit in answer.hits] == ["wombat.md"]


def test_while_another_model_is_built_the_receipt_says_which_answers_and_which_comes(
    opened: Open, ready: Workbench, serve: Serve
) -> None:
    server = Ollama()
    new = again(opened, serve(server).url)
    new.embed(budget_s=0)
    answer = new.recall("wombat")
    vectors = answer.receipt.vectors
    assert lane(answer) == ("ok", "")
    assert (vectors.model, vectors.have) == ("hashing", 3)
    assert vectors.next is not None
    assert (vectors.next.model, vectors.next.have, vectors.next.pending) == ("ollama:made-up", 0, 3)
    assert "vectors of ollama:made-up are being made, 3 texts to go" in answer.receipt.line()
    new.embed()
    vectors = new.recall("wombat").receipt.vectors
    assert (vectors.model, vectors.have, vectors.next) == ("ollama:made-up", 3, None)


# ── the local models


def copied(model_files: Path, into: Path, name: str) -> Path:
    return Path(shutil.copytree(model_files / name, into / "models" / name))


@pytest.mark.parametrize("damage", ["one bit", "half", "tokenizer gone"])
def test_a_damaged_model_leaves_the_words_and_is_named(
    opened: Open, write_tree: WriteTree, model_files: Path, vade_home: Path, damage: str
) -> None:
    vade_home.mkdir()
    folder = copied(model_files, vade_home, "bge-small-en-v1.5")
    bench = opened(embedding_model="bge-small-en-v1.5")
    bench.add(write_tree(NOTES))
    assert bench.embed().have == 3
    assert bench.recall("a marsupial under the ground", lane="meaning").hits[0].path == "wombat.md"
    if damage == "tokenizer gone":
        (folder / "tokenizer.json").unlink()
    else:
        with open(folder / "model.onnx", "r+b") as file:
            file.truncate(17_000_000) if damage == "half" else (file.seek(9_999_999), file.write(b"\x5a"))
    late = opened(embedding_model="bge-small-en-v1.5")
    answer = late.recall("wombat")
    assert lane(answer)[0] == "degraded"
    assert "bge-small-en-v1.5" in lane(answer)[1]
    assert [hit.path for hit in answer.hits] == ["wombat.md"]
    assert answer.receipt.vectors.have == 3
    assert not all(check.ok for check in examine(late.app))


# ── reading again


def test_without_a_reranker_the_first_order_stands_and_it_is_said(opened: Open, ready: Workbench) -> None:
    plain, asked = ready.recall("wombat digs"), ready.recall("wombat digs", rerank=True)
    assert [(hit.path, hit.score) for hit in asked.hits] == [(hit.path, hit.score) for hit in plain.hits]
    assert lane(asked, "reranker")[0] == "degraded"
    assert "reranker" in asked.receipt.line()
    assert "reranker" not in plain.receipt.lanes
    assert "reranker" in opened(recall_rerank=True).recall("wombat").receipt.lanes
    assert "reranker" not in opened(recall_rerank=True).recall("wombat", rerank=False).receipt.lanes
    assert lane(ready.recall("", rerank=True), "reranker")[0] == "ok"


def test_the_reranker_tells_what_answers_from_what_repeats_the_question_and_its_part_is_explained(
    opened: Open, write_tree: WriteTree, model_files: Path, vade_home: Path
) -> None:
    vade_home.mkdir()
    (vade_home / "models").symlink_to(model_files)
    bench = opened(embedding_model="bge-small-en-v1.5")
    bench.add(
        write_tree(
            {
                **NOTES,
                "capital.md": "# Cities\n\nBerlin is the capital of Germany and its largest city.",
                "list.md": "# Capital capital\n\ncapital Germany capital Germany capital Germany",
            }
        )
    )
    bench.embed()
    for asked in ("words", "meaning", "hybrid"):
        answer = bench.recall("what is the capital of Germany?", lane=asked, rerank=True, explain=True)
        assert lane(answer, "reranker") == ("ok", "")
        readings = {}
        for hit in answer.hits:
            assert hit.explain is not None
            parts = {part["name"]: part["value"] for part in hit.explain["parts"]}
            assert round(sum(parts.values()), 4) == hit.score
            readings[hit.path] = parts["reranker"]
        assert max(readings, key=lambda path: readings[path]) == "capital.md"


def test_a_note_that_is_not_embedded_yet_does_not_fall_behind_for_that(opened: Open, write_tree: WriteTree) -> None:
    others = {f"{n}.md": f"# Other {n}\n\nThe numbat of the {n}th day eats termites." for n in range(12)}
    bench = opened()
    root = write_tree(others)
    source = bench.add(root)
    bench.embed()
    (root / "new.md").write_text("# New\n\nA quokka eats leaves, roots and termites.")
    bench.sync(source)
    answer = bench.recall("quokka roots and leaves")
    assert (answer.hits[0].path, answer.hits[0].lanes) == ("new.md", ("words",))
    assert answer.receipt.lanes["meaning"].state == "degraded"


@pytest.mark.parametrize("model", ["x" * 300, "a\0b"])
def test_a_name_that_no_folder_can_have_leaves_the_words(opened: Open, write_tree: WriteTree, model: str) -> None:
    bench = opened(embedding_model=model)
    bench.add(write_tree({"a.md": "wombat"}))
    assert bench.found("wombat") == ["a.md"]
