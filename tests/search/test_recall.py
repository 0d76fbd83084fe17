"""From a question to hits and a receipt: what is found, in which order, and what the answer admits it did not cover."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vademecum.access import ANONYMOUS, OWNER
from workbench import PROJECT, Workbench, files_on_disk

WriteTree = Callable[..., Path]
Later = Callable[[float], None]


# ── C11: identifiers


C11 = {
    "adr.md": "ADR-0042 chosen",
    "call.md": "call flush_cache() first",
    "fix.md": "fixed in 4.7.13",
}
DECOYS = {
    "decoy 1.md": "ADR-0043 chosen, after ADR-042 and ADR 420 and the 42nd of all ADRs",
    "decoy 2.md": "flush the cache, flushcache(), cache_flush, a cache to flush",
    "decoy 3.md": "fixed in 4.7.14, 4.17.13, 14.7.13 and 4.7.130; 4 and 7 and 13 stand alone",
    "decoy 4.md": "snake_case_name of another, snake case name",
}


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("ADR-0042", "adr.md"),
        ('"ADR-0042"', "adr.md"),
        ("adr-0042", "adr.md"),
        ("adr 0042", "adr.md"),
        ("flush_cache", "call.md"),
        ('"flush_cache"', "call.md"),
        ("flush_cache()", "call.md"),
        ("4.7.13", "fix.md"),
        ('"4.7.13"', "fix.md"),
        ("-0042", "adr.md"),
    ],
)
@pytest.mark.parametrize("crowd", [False, True])
def test_c11_an_identifier_finds_its_note(
    bench: Workbench, write_tree: WriteTree, query: str, path: str, crowd: bool
) -> None:
    bench.add(write_tree({**C11, **(DECOYS if crowd else {})}))
    found = bench.found(query)
    assert found[0] == path
    if query not in ("adr 0042",):
        assert found == [path]


def test_c11_an_identifier_in_a_title_or_a_heading_is_found(bench: Workbench, write_tree: WriteTree) -> None:
    bench.add(write_tree({"ADR-0042 Drop it.md": "words", "b.md": "# On snake_case_name\n\nwords", **DECOYS}))
    assert bench.found("ADR-0042") == ["ADR-0042 Drop it.md"]
    assert bench.found("snake_case_name")[0] in {"b.md", "decoy 4.md"}
    assert set(bench.found("snake_case_name")) == {"b.md", "decoy 4.md"}


# ── C12: no query can raise

ODD = [
    "where did we leave it, exactly?", 'he said "stop', "NEAR(", "NEAR(a b)", "col:x", "title:x", "a AND", "AND",
    "OR", "NOT", "a NOT", "*", "a*", "*a", "", "   ", "🙂", "-", "--", "x" * 20_000, "\x00a", "\x00", "(", ")", "()",
    "^a", "a^2", '"', '""', '"""', "\\", "a\\", "a'b", "';drop table document;--", "{a}", "a : b", "+", "a + b", ".",
    "a.", "日本", "\udcff", "\u202e", "a\nb", "%", "_", "?", ":x", "@x", "$x", "\ue000", "\ue001a\ue000", "a-\ue000",
    "1e999", "0x", "é", "e\u0301", "ﬁ", "²", "½",
]  # fmt: skip


@pytest.mark.parametrize("query", ODD, ids=range(len(ODD)))
def test_c12_no_query_raises(bench: Workbench, write_tree: WriteTree, query: str) -> None:
    bench.add(write_tree({"a.md": "a b 日本 stop where\n\n# leave\n\nx"}))
    for caller in (OWNER, ANONYMOUS):
        answer = bench.recall(query, caller=caller, explain=True, without=(query,))
        answer = bench.recall(query, caller=caller, explain=True, path_prefix=query[:50], tags=(query[:50],))
        answer = bench.recall(query, caller=caller, explain=True)
        assert json.dumps(answer.as_json())
        if not answer.hits and not any(c.isalnum() for c in query):
            assert answer.receipt.empty_query
            assert "no word" in answer.receipt.line()


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workbench]:
    """One index for many questions."""
    folder = tmp_path_factory.mktemp("standing")
    (folder / "v").mkdir()
    for name, text in {
        **C11,
        **DECOYS,
        "cjk.md": "日本語の検索メモ",
        "head.md": "# Über Café\n\nnaïve 🙂 text",
    }.items():
        (folder / "v" / name).write_text(text)
    bench = Workbench(folder / "state")
    bench.add(folder / "v")
    yield bench
    bench.close()


@settings(
    derandomize=True, deadline=None, max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.text(max_size=60))
def test_c12_no_text_at_all_raises(standing: Workbench, text: str) -> None:
    answer = standing.recall(text, explain=True)
    assert answer.receipt.empty_query or answer.receipt.searched
    assert all(0 <= hit.score <= 1 for hit in answer.hits)


WORDS = [
    "redis",
    "AND",
    "OR",
    "NOT",
    "NEAR(",
    '"',
    "-",
    "(",
    ")",
    "*",
    ":",
    "^",
    "+",
    "{",
    "}",
    "a_b",
    "ADR-1",
    " ",
    "日本",
    "\x00",
]


@settings(derandomize=True, deadline=None, max_examples=300)
@given(st.lists(st.sampled_from(WORDS), max_size=12).map("".join))
def test_c12_no_mixture_of_operators_raises(standing: Workbench, text: str) -> None:
    standing.recall(text, explain=True, without=(text,))


# ── words


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("dropping", ["drop.md"]),
        ("drop", ["drop.md"]),
        ("cafe", ["café.md"]),
        ("CAFÉ", ["café.md"]),
        ("検索", ["cjk.md"]),
        ("日本語", ["cjk.md"]),
        ("本日", []),
        ("dro", []),
        ("redis cluster", ["drop.md", "cluster.md"]),
        ('"we dropped redis"', ["drop.md"]),
        ('"redis dropped"', []),
        ('"drop" cluster', ["drop.md"]),
        ("nickname", ["alias.md"]),
        ("tagged", ["alias.md"]),
        ("propvalue", ["alias.md"]),
        ("nothing_of_this", []),
    ],
)
def test_words_are_found_by_stem_without_accents_and_never_by_prefix(
    bench: Workbench, write_tree: WriteTree, query: str, found: list[str]
) -> None:
    bench.add(
        write_tree(
            {
                "drop.md": "We dropped Redis in spring.",
                "cluster.md": "A cluster of stars.",
                "café.md": "Un café noir",
                "cjk.md": "日本語の検索メモ",
                "alias.md": "---\naliases: [nickname]\ntags: [tagged]\nextra: propvalue\n---\nbody",
            }
        )
    )
    assert sorted(bench.found(query)) == sorted(found)


@pytest.mark.parametrize("query", ["redis -cluster", "-cluster redis"])
def test_a_word_with_a_minus_leaves_out_whole_notes(bench: Workbench, write_tree: WriteTree, query: str) -> None:
    far = "# One\n\nredis " + "filler " * 600 + "\n\n# Two\n\n" + "filler " * 600 + "\n\n# Three\n\nA cluster."
    bench.add(write_tree({"far.md": far, "near.md": "redis cluster", "only.md": "redis alone"}))
    assert bench.found(query) == ["only.md"]
    assert set(bench.found("redis")) == {"far.md", "near.md", "only.md"}
    assert bench.found("redis", without=("cluster", "alone")) == []


# ── filters work inside the lane


@pytest.fixture
def crowded(bench: Workbench, write_tree: WriteTree, tmp_path: Path) -> Workbench:
    """One note that matches a little among 500 that match better."""
    crowd = {
        f"crowd/{i}.md": f"---\ntitle: wombat {i}\ndate: 2020-01-01\n---\n# wombat\n\nwombat wombat" for i in range(500)
    }
    weak = "---\ntags: [rare/kind]\ndate: 2024-06-15\n---\n" + "many other words " * 300 + "wombat"
    bench.add(write_tree({**crowd, "special/one.md": weak}), name="crowd")
    bench.add(
        write_tree({"alone.md": weak.replace("rare/kind", "x").replace("2024", "2023")}, tmp_path / "b"), name="alone"
    )
    return bench


def test_a_filter_finds_the_one_note_among_many_that_match_better(crowded: Workbench) -> None:
    alone = crowded.app.registry.find("alone").id
    assert "special/one.md" not in crowded.found("wombat", limit=100)
    assert crowded.found("wombat", path_prefix="special/") == ["special/one.md"]
    assert crowded.found("wombat", path_prefix="special/one") == ["special/one.md"]
    assert crowded.found("wombat", tags=("rare",)) == ["special/one.md"]
    assert crowded.found("wombat", tags=("rare/kind",)) == ["special/one.md"]
    assert crowded.found("wombat", sources=frozenset({alone})) == ["alone.md"]
    assert crowded.found("wombat", since="2024-06-15") == ["special/one.md"]
    assert crowded.found("wombat", since="2023-06-15", until="2023-06-15") == ["alone.md"]
    assert crowded.found("wombat", since="2024-06-16") == []
    assert crowded.found("wombat", tags=("rare", "x")) == []
    assert crowded.found("wombat -title", path_prefix="special/") == ["special/one.md"]


def test_a_minus_finds_what_is_left_behind_five_hundred(bench: Workbench, write_tree: WriteTree) -> None:
    crowd = {f"{i}.md": "wombat wombat numbat" for i in range(500)}
    bench.add(write_tree({**crowd, "one.md": "many other words " * 300 + "wombat"}))
    assert bench.found("wombat -numbat") == ["one.md"]


def test_private_notes_take_no_places_from_others(bench: Workbench, write_tree: WriteTree) -> None:
    crowd = {f"{i}.md": "---\nprivate: true\n---\nwombat wombat" for i in range(500)}
    bench.add(write_tree({**crowd, "public.md": "many other words " * 300 + "wombat"}))
    answer = bench.recall("wombat", caller=PROJECT)
    assert [hit.path for hit in answer.hits] == ["public.md"]
    assert answer.receipt.withheld["private"] >= 100
    assert "public.md" not in bench.found("wombat")


def test_vanished_files_take_no_places_from_others(bench: Workbench, write_tree: WriteTree) -> None:
    root = write_tree({**{f"{i}.md": "wombat wombat" for i in range(60)}, "one.md": "other words " * 20 + "wombat"})
    bench.add(root)
    for i in range(60):
        (root / f"{i}.md").unlink()
    answer = bench.recall("wombat", limit=5)
    assert [hit.path for hit in answer.hits] == ["one.md"]
    assert answer.receipt.withheld == {"vanished": 60}


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (("project",), {"a.md", "b.md"}),
        (("Project/Alpha",), {"a.md"}),
        (("project/al",), set()),
        (("proj",), set()),
        (("project", "todo"), {"a.md"}),
        (("todo",), {"a.md", "c.md"}),
        (("日本",), {"c.md"}),
    ],
)
def test_a_tag_stands_for_the_tags_below_it(
    bench: Workbench, write_tree: WriteTree, wanted: tuple[str, ...], found: set[str]
) -> None:
    bench.add(
        write_tree(
            {
                "a.md": "---\ntags: [Project/Alpha, todo]\n---\nwombat",
                "b.md": "wombat #project/beta",
                "c.md": "wombat #TODO #日本",
                "d.md": "wombat #projector",
            }
        )
    )
    assert set(bench.found("wombat", tags=tuple(tag.casefold() for tag in wanted))) == found


def test_a_date_is_the_note_s_own_else_that_of_its_file(bench: Workbench, write_tree: WriteTree) -> None:
    root = write_tree({"own.md": "---\ndate: 2021-05-05\n---\nwombat", "file.md": "wombat"})
    os.utime(root / "file.md", (1_650_000_000, 1_650_000_000))  # 2022-04-15
    bench.add(root)
    assert bench.found("wombat", since="2021-05-05", until="2021-05-05") == ["own.md"]
    assert bench.found("wombat", since="2022-04-15", until="2022-04-15") == ["file.md"]
    assert bench.found("wombat", until="2021-05-04") == []


# ── order and scores


def test_a_note_gives_at_most_two_hits_and_others_keep_their_places(bench: Workbench, write_tree: WriteTree) -> None:
    long = "\n\n".join(f"# Part {i}\n\n" + "wombat wombat filler words here. " * 40 for i in range(8))
    bench.add(write_tree({"long.md": long, **{f"{i}.md": "wombat " + "other " * 30 for i in range(5)}}))
    hits = bench.recall("wombat", limit=10).hits
    paths = [hit.path for hit in hits]
    assert paths.count("long.md") == 2
    assert len(set(paths)) == 6
    assert len({hit.id for hit in hits}) == len(hits)


def test_a_whole_note_is_shown_only_when_no_chunk_of_it_is(bench: Workbench, write_tree: WriteTree) -> None:
    bench.add(
        write_tree(
            {f"{i}.md": f"---\ntags: [wombat]\n---\n# A\n\n{'wombat' if i % 2 else 'other'} text" for i in range(8)}
        )
    )
    hits = bench.recall("wombat", limit=20).hits
    whole = {hit.path for hit in hits if hit.whole_note}
    chunks = {hit.path for hit in hits if not hit.whole_note}
    assert whole == {"0.md", "2.md", "4.md", "6.md"}
    assert chunks == {"1.md", "3.md", "5.md", "7.md"}


def test_scores_run_from_one_down_and_the_parts_add_up(bench: Workbench, write_tree: WriteTree) -> None:
    tree = {
        f"{i}.md": f"# {'wombat' if i % 3 == 0 else 'other'}\n\n"
        + "wombat " * (i % 5)
        + "numbat " * (i % 4)
        + "word " * i
        for i in range(40)
    }
    bench.add(write_tree(tree))
    hits = bench.recall("wombat numbat", limit=50, explain=True).hits
    assert len(hits) > 20
    scores = [hit.score for hit in hits]
    assert scores[0] == 1.0
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)
    assert all(score == round(score, 4) for score in scores)
    for hit in hits:
        assert hit.explain is not None
        assert sum(part["value"] for part in hit.explain["parts"]) == pytest.approx(hit.score, abs=1e-6)
        assert all(part["value"] >= -1e-9 for part in hit.explain["parts"])
        assert set(hit.explain["matched_terms"]) <= {"wombat", "numbat"}
        assert hit.explain["matched_terms"]
        assert hit.lanes == ("words",)


def test_the_order_does_not_depend_on_the_order_of_indexing(write_tree: WriteTree, tmp_path: Path) -> None:
    tree = {f"{i % 3}/{i}.md": f"# Same title\n\nwombat {'numbat ' * (i % 4)}" for i in range(30)}
    answers = []
    for name, order in (("one", 1), ("two", -1)):
        root = tmp_path / name / "v"
        bench = Workbench(tmp_path / name / "state")
        names = list(tree)[::order]
        source = bench.add(write_tree({n: tree[n] for n in names[:10]}, root))
        for first in (10, 20):
            write_tree({n: tree[n] for n in names[first : first + 10]}, root)
            bench.sync(source)
        answers.append(
            [
                [(h.path, h.heading_path, h.score) for h in bench.recall(query, limit=limit).hits]
                for query in ("wombat", "numbat wombat", "same title")
                for limit in (3, 10, 50)
            ]
        )
        bench.close()
    assert answers[0] == answers[1]


def test_more_equals_than_candidates_are_ordered_by_their_place_not_by_when_they_came(
    write_tree: WriteTree, tmp_path: Path
) -> None:
    tree = {f"{i:03}.md": "wombat alike" for i in range(300)}
    answers = []
    for name, order in (("one", 1), ("two", -1)):
        bench = Workbench(tmp_path / name / "state")
        root = tmp_path / name / "v"
        names = list(tree)[::order]
        source = bench.add(write_tree({n: tree[n] for n in names[:150]}, root))
        write_tree(tree, root)
        bench.sync(source)
        answers.append(bench.found("wombat", limit=10))
        bench.close()
    assert answers[0] == answers[1] == list(tree)[:10]


def test_the_same_question_gets_the_same_answer(standing: Workbench) -> None:
    first = standing.recall("flush the cache in 4.7.13", explain=True).as_json()["hits"]
    for _ in range(3):
        assert standing.recall("flush the cache in 4.7.13", explain=True).as_json()["hits"] == first


def test_a_smaller_limit_gives_the_beginning_of_the_longer_answer(standing: Workbench) -> None:
    longer = [hit.id for hit in standing.recall("flush cache chosen fixed", limit=50).hits]
    for limit in range(1, len(longer)):
        assert [hit.id for hit in standing.recall("flush cache chosen fixed", limit=limit).hits] == longer[:limit]


# ── what a hit carries


def test_a_hit_carries_its_provenance_with_the_names_of_the_wire(bench: Workbench, write_tree: WriteTree) -> None:
    root = write_tree({"deep/Note.md": "---\ntitle: The Title\n---\n# One\n\n## Two\n\nwombat here\n"})
    source = bench.add(root, name="My vault")
    [hit] = bench.recall("wombat").as_json()["hits"]
    assert hit["id"].startswith(f"{source.id}:deep/Note.md#")
    assert {name: hit[name] for name in hit if name not in {"id", "content", "score", "line_start", "line_end"}} == {
        "source": "source_obsidian",
        "type": "source_obsidian_chunk",
        "source_id": source.id,
        "source_kind": "obsidian",
        "source_root": str(root),
        "source_name": "My vault",
        "harness": "obsidian",
        "source_path": str(root / "deep/Note.md"),
        "path": "deep/Note.md",
        "title": "The Title",
        "heading_path": ["One", "Two"],
        "lanes": ["words"],
        "stale": False,
        "superseded": False,
    }
    lines = (root / "deep/Note.md").read_text().split("\n")
    assert "wombat here" in lines[hit["line_start"] - 1 : hit["line_end"]]
    assert "wombat here" in hit["content"]


@pytest.mark.parametrize(
    ("kind", "header", "label"),
    [("obsidian", "Obsidian vault note", "source_obsidian"), ("folder", "Folder note", "source_folder")],
)
def test_a_whole_note_hit_begins_with_its_header_line(
    bench: Workbench, write_tree: WriteTree, kind: str, header: str, label: str
) -> None:
    root = write_tree({"n.md": "---\naliases: [nickname]\n---\n" + "body words " * 500})
    bench.add(root, kind)
    [hit] = bench.recall("nickname").as_json()["hits"]
    assert hit["content"].split("\n")[0] == f"[{header}: {root / 'n.md'}]"
    assert hit["content"].split("\n")[1].startswith("body words")
    assert len(hit["content"]) <= 900
    assert (hit["source"], hit["type"]) == (label, f"{label}_markdown")
    assert hit["id"] == f"{hit['source_id']}:n.md"
    assert hit["harness"] == kind


@pytest.mark.parametrize("filler", ["word ", "語", "x", "long-compound-word-", "\n\n", "e\u0301"])
def test_content_is_at_most_900_characters_and_shows_what_was_asked_for(
    bench: Workbench, write_tree: WriteTree, filler: str
) -> None:
    bench.add(write_tree({"n.md": "# H\n\n" + filler * 300 + " wombat " + filler * 300}))
    hits = bench.recall("wombat").hits
    assert all(0 < len(hit.content) <= 900 for hit in hits)
    assert any("wombat" in hit.content for hit in hits)


def test_a_path_longer_than_the_content_breaks_nothing(bench: Workbench, write_tree: WriteTree) -> None:
    deep = "/".join(["d" * 200] * 5)
    bench.add(write_tree({f"{deep}/n.md": "---\naliases: [nickname]\n---\nbody wombat"}))
    [hit] = bench.recall("nickname").hits
    assert hit.content.startswith("[Obsidian vault note: /")
    assert bench.found("wombat")


def test_a_line_break_in_a_heading_cannot_forge_a_header(bench: Workbench, write_tree: WriteTree) -> None:
    text = '---\ntitle: "a\\nb"\n---\n# H\n\n[Obsidian vault note: /etc/passwd]\n\nwombat'
    bench.add(write_tree({"n.md": text}))
    [hit] = bench.recall("wombat").hits
    assert "\n" not in hit.title
    assert hit.source_path.endswith("/n.md")
    assert not hit.whole_note


# ── the receipt


def test_what_was_skipped_adds_up_to_the_files_on_disk(vade_home: Path, write_tree: WriteTree) -> None:
    bench = Workbench(vade_home, sources_max_file_bytes=500)
    root = write_tree(
        {
            "a.md": "wombat", "b/c.md": "wombat", "empty.md": "", "bin.md": b"\x00",
            "big.md": "x" * 501, "p.png": b"\x89",
            ".hidden/x.md": "y", ".obsidian/app.json": '{"userIgnoreFilters": ["T/"]}', "T/t.md": "z", "ex/1.md": "q",
            "B.canvas": "{}", "noext": "",
        }
    )  # fmt: skip
    (root / "link.md").symlink_to("a.md")
    bench.add(root, exclude=["ex/**"])
    receipt = bench.recall("wombat").receipt.as_json()
    documents = sum(source["documents"] for source in receipt["searched"])
    assert documents == 2
    assert receipt["skipped"]["count"] == sum(receipt["skipped"]["by_reason"].values())
    assert receipt["skipped"]["count"] == files_on_disk(root) - documents
    assert receipt["skipped"]["by_reason"] == {
        "binary": 1, "empty": 1, "excluded": 2, "hidden": 2, "not_read": 3, "symlink": 1, "too_large": 1,
    }  # fmt: skip
    assert len(receipt["skipped"]["sample"]) <= 10
    assert {"source_id", "path", "reason"} == set(receipt["skipped"]["sample"][0])
    bench.close()


def test_the_receipt_has_the_names_of_the_wire(bench: Workbench, write_tree: WriteTree) -> None:
    source = bench.add(write_tree({"a.md": "wombat"}), name="V")
    receipt = bench.recall("wombat").as_json()["receipt"]
    took = receipt.pop("took_ms")
    assert 0 < took < 10_000
    assert receipt == {
        "searched": [{"source_id": source.id, "name": "V", "documents": 1, "state": "healthy", "stale_since": None}],
        "offline": [],
        "skipped": {"count": 0, "by_reason": {}, "sample": []},
        "vectors": {"have": 0, "pending": 0, "refused": 0, "model": None, "backend": None, "next": None},
        "lanes": {
            "words": {"state": "ok", "reason": None},
            "meaning": {"state": "off", "reason": receipt["lanes"]["meaning"]["reason"]},
        },
        "withheld": {"count": 0, "by_reason": {}},
        "empty_query": False,
    }
    assert "model" in receipt["lanes"]["meaning"]["reason"]


def test_nothing_found_is_told_from_did_not_look(bench: Workbench, write_tree: WriteTree) -> None:
    nothing = bench.recall("wombat").receipt
    assert nothing.as_json()["searched"] == []
    assert "no source was searched" in nothing.line()
    bench.add(write_tree({"a.md": "numbat"}))
    looked = bench.recall("wombat")
    assert looked.hits == ()
    assert looked.receipt.as_json()["searched"][0]["documents"] == 1
    assert not looked.receipt.empty_query
    assert "searched 1 note" in looked.receipt.line()
    asked_nothing = bench.recall("?!")
    assert asked_nothing.receipt.empty_query
    assert "no word" in asked_nothing.receipt.line()


def test_a_lane_that_was_not_asked_says_so(bench: Workbench, write_tree: WriteTree) -> None:
    bench.add(write_tree({"a.md": "wombat"}))
    words = bench.recall("wombat", lane="words").receipt.as_json()["lanes"]
    assert (words["words"]["state"], words["meaning"]["state"]) == ("ok", "off")
    meaning = bench.recall("wombat", lane="meaning")
    assert meaning.hits == ()
    assert meaning.receipt.as_json()["lanes"]["words"]["state"] == "off"


def test_memories_alone_are_nobody_s_notes(bench: Workbench, write_tree: WriteTree) -> None:
    bench.add(write_tree({"a.md": "wombat"}))
    assert bench.recall("wombat", include="memories").hits == ()
    assert bench.found("wombat", include="sources") == ["a.md"]


def test_only_chosen_sources_are_searched_and_said_to_be(
    bench: Workbench, write_tree: WriteTree, tmp_path: Path
) -> None:
    a = bench.add(write_tree({"a.md": "wombat"}, tmp_path / "a"))
    bench.add(write_tree({"b.md": "wombat"}, tmp_path / "b"))
    answer = bench.recall("wombat", sources=frozenset({a.id}))
    assert [source["source_id"] for source in answer.receipt.as_json()["searched"]] == [a.id]
    assert [hit.path for hit in answer.hits] == ["a.md"]


# ── the disk has moved on


def test_a_note_that_changed_since_is_marked_stale(bench: Workbench, write_tree: WriteTree, later: Later) -> None:
    root = write_tree({"a.md": "wombat", "b.md": "wombat"})
    later(10)
    bench.add(root)
    assert [hit.stale for hit in bench.recall("wombat").hits] == [False, False]
    (root / "a.md").write_text("numbat now, longer")
    assert {hit.path: hit.stale for hit in bench.recall("wombat").hits} == {"a.md": True, "b.md": False}


def test_a_vanished_file_is_no_hit_and_is_counted(bench: Workbench, write_tree: WriteTree) -> None:
    root = write_tree({"a.md": "wombat", "b.md": "wombat"})
    bench.add(root)
    (root / "a.md").unlink()
    answer = bench.recall("wombat")
    assert [hit.path for hit in answer.hits] == ["b.md"]
    assert answer.receipt.as_json()["withheld"] == {"count": 1, "by_reason": {"vanished": 1}}


def test_a_source_that_is_away_still_answers_and_says_so(
    bench: Workbench, write_tree: WriteTree, tmp_path: Path
) -> None:
    root = write_tree({"a.md": "wombat here"}, tmp_path / "away")
    away = bench.add(root, name="Away")
    bench.add(write_tree({"b.md": "wombat"}, tmp_path / "there"), name="There")
    root.rename(tmp_path / "off")
    answer = bench.recall("wombat")
    assert {hit.path: hit.stale for hit in answer.hits} == {"a.md": True, "b.md": False}
    assert "wombat here" in answer.hits[0].content + answer.hits[1].content
    receipt = answer.receipt.as_json()
    assert [source["source_id"] for source in receipt["offline"]] == [away.id]
    assert {source["name"]: source["state"] for source in receipt["searched"]} == {
        "Away": "unreachable",
        "There": "healthy",
    }
    assert "Away is offline" in answer.receipt.line()


def test_a_root_that_is_suddenly_empty_is_away_too(bench: Workbench, write_tree: WriteTree) -> None:
    """An unmounted drive leaves its mount point behind: an empty folder."""
    root = write_tree({"a.md": "wombat"})
    bench.add(root)
    root.rename(root.with_name("off"))
    root.mkdir()
    answer = bench.recall("wombat")
    assert [(hit.path, hit.stale) for hit in answer.hits] == [("a.md", True)]
    assert len(answer.receipt.as_json()["offline"]) == 1


def test_a_source_that_is_away_keeps_its_last_policy(bench: Workbench, write_tree: WriteTree) -> None:
    manifest = json.dumps({"mcp_exposed_roots": ["brain"]})
    root = write_tree({"vault-manifest.json": manifest, "brain/a.md": "wombat", "secret/b.md": "wombat"})
    bench.add(root)
    root.rename(root.with_name("off"))
    assert bench.found("wombat", caller=PROJECT) == ["brain/a.md"]


def test_private_notes_of_a_source_that_is_away_stay_private(bench: Workbench, write_tree: WriteTree) -> None:
    root = write_tree({"a.md": "---\nprivate: true\n---\nwombat", "b.md": "wombat"})
    bench.add(root)
    root.rename(root.with_name("off"))
    assert bench.found("wombat", caller=PROJECT) == ["b.md"]
    assert set(bench.found("wombat")) == {"a.md", "b.md"}


def test_a_source_added_but_never_indexed_is_said_to_be_empty(bench: Workbench, write_tree: WriteTree) -> None:
    bench.app.registry.add("folder", str(write_tree({"a.md": "wombat"})))
    [searched] = bench.recall("wombat").receipt.as_json()["searched"]
    assert (searched["documents"], searched["state"]) == (0, "empty")
