"""`vade eval` scores a folder and leaves nothing behind: not in the state, not in the folder, however it ends."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from process import Finished, clean_environment, offline_prefix
from vademecum.app import Vademecum
from workbench import Workbench

WriteTree = Callable[..., Path]
Vade = Callable[..., Finished]

NOTES = {
    "Decisions/Drop Redis.md": "---\naliases: [Cache decision]\n---\n# Drop Redis\n\nGone.\n\n## Why we did it\n\nslow",
    "People/Ada.md": "Ada knows postgres.",
    "Secret.md": "---\nprivate: true\n---\n# The wombat plan\n\nmarsupial",
}
QUESTIONS = "1\twhy is redis gone\thuman\n2\twho knows postgres\thuman\n3\tkangaroo\thuman\n"
JUDGEMENTS = "1\tDecisions/Drop Redis\t2\n2\tPeople/Ada.md\t1\n3\tPeople/Ada.md\t1\n"


@pytest.fixture
def vault(write_tree: WriteTree) -> Path:
    return write_tree(NOTES)


@pytest.fixture
def judged(write_tree: WriteTree, tmp_path: Path) -> Path:
    """A folder with questions, judgements, and its notes in vault/."""
    notes = {f"vault/{path}": text for path, text in NOTES.items()}
    return write_tree({**notes, "queries.tsv": QUESTIONS, "qrels.tsv": JUDGEMENTS}, tmp_path / "judged")


def left_behind(home: Path) -> list[Path]:
    return sorted((home / "run").glob("eval-*"))


def words_run(done: Finished) -> Any:
    assert done.rc == 0, done
    return next(run for run in done.json["runs"] if run["name"] == "words")


# ── what is asked


def test_a_vault_is_asked_for_its_titles_aliases_and_headings_but_not_those_of_private_notes(
    vade: Vade, vade_home: Path, vault: Path
) -> None:
    done = vade("eval", vault, "--lane", "words", "--json")
    groups = words_run(done)["groups"]
    assert {name: group["questions"] for name, group in groups.items()} == {
        "derived: title": 2, "derived: alias": 1, "derived: heading": 1,
    }  # fmt: skip
    assert groups["derived: alias"]["mrr"] == {"mean": 1.0, "low": 1.0, "high": 1.0}
    assert done.json["notes"] == 3
    assert left_behind(vade_home) == []


def test_questions_in_the_folder_are_asked_and_scored(vade: Vade, judged: Path) -> None:
    done = vade("eval", judged, "--lane", "words", "--no-derived", "--json")
    group = words_run(done)["groups"]["queries.tsv"]
    assert group["questions"] == 3
    assert group["mrr"]["mean"] == pytest.approx(2 / 3, abs=1e-4)
    assert group["empty"]["mean"] == pytest.approx(1 / 3, abs=1e-4)
    [third] = [q for q in words_run(done)["questions"] if q["id"] == "3"]
    assert third["ranks"] == {}
    assert third["answered"] == 0


def test_people_get_a_table(vade: Vade, judged: Path) -> None:
    done = vade("eval", judged, "--lane", "words")
    assert done.rc == 0
    assert "Traceback" not in done.err
    [row] = [line for line in done.out.splitlines() if line.startswith("queries.tsv")]
    assert row.split()[1:4] == ["3", "words", ".667"]
    assert "favours search by words" in done.err


def test_questions_of_ones_own_come_from_any_file(
    vade: Vade, vault: Path, write_tree: WriteTree, tmp_path: Path
) -> None:
    own = write_tree({"mine.tsv": QUESTIONS, "qrels.tsv": JUDGEMENTS, "more.tsv": "2\tpostgres\n"}, tmp_path / "own")
    done = vade(
        "eval", vault, "--questions", own / "mine.tsv", "--questions", own / "more.tsv", "--lane", "words", "--json"
    )
    assert {"mine.tsv", "more.tsv"} <= set(words_run(done)["groups"])
    other = own / "elsewhere.tsv"
    other.write_text("2\tPeople/Ada\t1\n")
    done = vade("eval", vault, "--questions", own / "more.tsv", "--judgements", other, "--lane", "words", "--json")
    assert words_run(done)["groups"]["more.tsv"]["questions"] == 1
    assert done.json["warnings"] == []


def test_what_is_wrong_with_the_files_is_told(vade: Vade, judged: Path) -> None:
    (judged / "queries.tsv").write_bytes(b"\xef\xbb\xbf" + QUESTIONS.encode() + b"9\tunjudged\r\nbroken\r\n")
    (judged / "qrels.tsv").write_text(JUDGEMENTS + "1\t../../etc/passwd\t1\n1\tGone.md\t1\n")
    done = vade("eval", judged, "--lane", "words", "--no-derived", "--json")
    assert words_run(done)["groups"]["queries.tsv"]["questions"] == 3
    assert done.json["warnings"] == [
        "queries.tsv: line 5: no tab between id and question",
        "queries.tsv: question 9: without a right note among the judgements, left out of the means",
        "qrels.tsv: line 4, line 5: there is no such note",
    ]
    assert "warning: queries.tsv: line 5" in vade("eval", judged, "--lane", "words", "--no-derived").err


def test_questions_without_judgements_beside_them_are_not_used(vade: Vade, judged: Path) -> None:
    (judged / "qrels.tsv").unlink()
    done = vade("eval", judged, "--lane", "words", "--json")
    assert set(words_run(done)["groups"]) == {"derived: title", "derived: alias", "derived: heading"}
    assert done.json["warnings"] == ["queries.tsv is not used: it needs both queries.tsv and qrels.tsv"]


def test_a_folder_called_vault_within_a_vault_is_a_folder_like_any_other(vade: Vade, judged: Path) -> None:
    (judged / ".obsidian").mkdir()
    (judged / "Outside.md").write_text("# Outside of vault\n")
    done = vade("eval", judged, "--lane", "words", "--json")
    assert done.json["folder"] == str(judged)
    assert done.json["notes"] == 4


def test_globs_of_a_connected_source_count(vade: Vade, vade_home: Path, vault: Path) -> None:
    bench = Workbench(vade_home)
    bench.add(vault, exclude=["People/"])
    bench.close()
    assert vade("eval", vault, "--lane", "words", "--json").json["notes"] == 2


def test_somebody_else_is_not_asked_about_private_notes(vade: Vade, vault: Path) -> None:
    done = vade("eval", vault, "--lane", "words", "--json", as_owner=False)
    assert words_run(done)["groups"]["derived: title"]["questions"] == 2
    assert "wombat" not in done.out
    assert "Private notes are left out" in done.err


# ── two settings


def test_two_settings_are_compared(vade: Vade, vade_home: Path, judged: Path) -> None:
    done = vade("eval", judged, "--lane", "words", "--with", "recall.meaning_weight=0.4", "--json")
    assert [run["name"] for run in done.json["runs"]] == ["words", "words with recall.meaning_weight=0.4"]
    assert [run["settings"]["recall.meaning_weight"] for run in done.json["runs"]] == [0.65, 0.4]
    first = done.json["comparisons"][0]
    assert (first["group"], first["questions"], first["metrics"]["mrr"]["same"]) == ("queries.tsv", 3, 3)
    assert left_behind(vade_home) == []
    assert not (vade_home / "config.toml").exists()


def test_a_setting_that_changes_what_is_indexed_gets_an_index_of_its_own(vade: Vade, judged: Path) -> None:
    done = vade("eval", judged, "--lane", "words", "--with", "sources.max_file_bytes=30", "--no-derived")
    assert done.rc == 0
    assert "words with sources.max_file_bytes=30 finds worse than words (queries.tsv): MRR −.333" in done.out
    assert "0 better, 1 worse, 2 the same; not distinguishable from chance" in done.out


def test_without_a_model_words_alone_are_tried_and_it_says_why(vade: Vade, vault: Path) -> None:
    done = vade("eval", vault, "--json")
    assert [run["name"] for run in done.json["runs"]] == ["words"]
    assert set(done.json["left_out"]) == {"meaning", "hybrid"}
    assert all(done.json["left_out"].values())


# ── lanes that need a model


@pytest.fixture
def modelled(vade: Vade, vade_home: Path) -> Vade:
    """The command with the embedder of the tests as its model."""
    if not hasattr(Vademecum, "embed"):
        pytest.skip("nothing embeds yet")
    vade_home.mkdir(exist_ok=True)
    (vade_home / "config.toml").write_text('[embedding]\nmodel = "hashing"\n')
    return vade


def test_every_lane_that_is_possible_is_tried_and_hybrid_is_compared(modelled: Vade, judged: Path) -> None:
    done = modelled("eval", judged, "--json")
    assert [run["name"] for run in done.json["runs"]] == ["words", "meaning", "hybrid"]
    assert done.json["left_out"] == {}
    assert [run["shortfalls"] for run in done.json["runs"]] == [{}, {}, {}]
    pairs = {(c["before"], c["after"]) for c in done.json["comparisons"]}
    assert pairs == {("words", "hybrid"), ("meaning", "hybrid")}


def test_a_weight_is_compared_on_the_same_index(modelled: Vade, judged: Path) -> None:
    done = modelled("eval", judged, "--lane", "hybrid", "--with", "recall.meaning_weight=0", "--json")
    assert [run["name"] for run in done.json["runs"]] == ["hybrid", "hybrid with recall.meaning_weight=0.0"]
    assert {(c["before"], c["after"]) for c in done.json["comparisons"]} == {
        ("hybrid", "hybrid with recall.meaning_weight=0.0")
    }


def test_a_model_is_compared_with_none(modelled: Vade, vade_home: Path, judged: Path) -> None:
    done = modelled("eval", judged, "--with", "embedding.model=none", "--json")
    assert [run["name"] for run in done.json["runs"]][3:] == ["words with embedding.model=none"]
    (vade_home / "config.toml").write_text('[embedding]\nmodel = "none"\n')
    done = modelled("eval", judged, "--with", "embedding.model=hashing", "--json")
    assert set(done.json["left_out"]) == {"meaning", "hybrid"}
    assert ("words", "hybrid with embedding.model=hashing") in {
        (c["before"], c["after"]) for c in done.json["comparisons"]
    }


def test_a_reranker_that_is_not_there_is_left_out(modelled: Vade, judged: Path) -> None:
    done = modelled("eval", judged, "--rerank", "--json")
    assert [run["name"] for run in done.json["runs"]] == ["words", "meaning", "hybrid"]
    assert done.json["left_out"]["hybrid+rerank"]


# ── exit statuses


@pytest.mark.parametrize(
    ("words", "status", "code"),
    [
        (["eval", "{vault}/nowhere"], 3, "source_not_found"),
        (["eval", "{vault}/Secret.md"], 3, "source_not_found"),
        (["eval", "{vault}", "--with", "recall.speed=9"], 1, "bad_config"),
        (["eval", "{vault}", "--with", "recall.limit=many"], 1, "bad_config"),
        (["eval", "{vault}", "--with", "recall.limit"], 2, "usage"),
        (["eval", "{vault}", "--lane", "smell"], 2, "usage"),
        (["eval", "{vault}", "--questions", "{vault}/nowhere.tsv"], 2, "usage"),
        (["eval", "{vault}", "--questions", "{vault}/Secret.md", "--lane", "words"], 2, "usage"),
        (["eval", "{vault}", "--no-derived", "--lane", "words"], 2, "usage"),
        (["eval", "{vault}", "--lane", "meaning"], 4, "model_missing"),
        (["eval", "{vault}", "--out", "{vault}/out.json"], 2, "usage"),
        (["eval", "{vault}", "--out", "/nowhere/out.json"], 2, "usage"),
        (["eval", "/"], 1, "source_root_invalid"),
    ],
)
def test_what_cannot_be_done_is_refused(
    vade: Vade, vade_home: Path, vault: Path, words: list[str], status: int, code: str
) -> None:
    done = vade(*(word.replace("{vault}", str(vault)) for word in words), "--json")
    assert (done.rc, done.json["error"]["code"]) == (status, code), done
    assert "Traceback" not in done.err
    assert left_behind(vade_home) == []


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"", b"\x00" * 9])
def test_files_of_questions_that_are_no_text_are_refused(vade: Vade, judged: Path, content: bytes) -> None:
    (judged / "queries.tsv").write_bytes(content)
    done = vade("eval", judged, "--no-derived", "--lane", "words", "--json")
    assert (done.rc, done.json["error"]["code"]) == (2, "usage")


# ── the result in a file


def test_the_result_is_written_where_it_is_asked_for(vade: Vade, judged: Path, tmp_path: Path) -> None:
    out = tmp_path / "result.json"
    done = vade("eval", judged, "--lane", "words", "--json", "--out", out)
    assert done.rc == 0
    assert json.loads(out.read_text(encoding="utf-8")) == done.json
    again = vade("eval", judged, "--lane", "words", "--no-derived", "--out", out)
    assert again.rc == 0
    assert json.loads(out.read_text(encoding="utf-8"))["questions"] == 3


@pytest.mark.parametrize("content", [b"my thesis", b"{}", b'{"format": "vademecum-eval"}', b"[]", b""])
def test_a_file_that_is_something_else_is_not_written_over(
    vade: Vade, judged: Path, tmp_path: Path, content: bytes
) -> None:
    out = tmp_path / "thesis"
    out.write_bytes(content)
    done = vade("eval", judged, "--lane", "words", "--out", out)
    assert done.rc == 2
    assert "is no result of an evaluation" in done.err
    assert out.read_bytes() == content


# ── nothing is left, nothing is changed


def test_neither_the_folder_nor_the_state_changes(
    vade: Vade, vade_home: Path, judged: Path, vault_bytes: Callable[[Path], Any]
) -> None:
    bench = Workbench(vade_home)
    bench.add(judged / "vault")
    bench.close()
    folder, sources = vault_bytes(judged), (vade_home / "sources.json").read_bytes()
    index = (vade_home / "index-1.db").read_bytes()
    assert vade("eval", judged, "--lane", "words", "--with", "sources.max_files=99").rc == 0
    assert vault_bytes(judged) == folder
    assert (vade_home / "sources.json").read_bytes() == sources
    assert (vade_home / "index-1.db").read_bytes() == index
    assert left_behind(vade_home) == []


@pytest.fixture
def start(vade_home: Path) -> Iterator[Callable[[Path], subprocess.Popen[str]]]:
    """Start an evaluation, and meet it while it holds an index of its own."""
    # A runner in the background hands down an ignored SIGINT; a terminal does not.
    code = (
        "import signal, sys\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "signal.signal(signal.SIGHUP, signal.SIG_DFL)\n"
        "from vademecum.cli.main import run\n"
        "sys.exit(run(['--as-owner', 'eval', sys.argv[1], '--lane', 'words']))\n"
    )
    children: list[subprocess.Popen[str]] = []

    def call(root: Path) -> subprocess.Popen[str]:
        before = set(left_behind(vade_home))
        child = subprocess.Popen(
            [*offline_prefix(), sys.executable, "-c", code, str(root)],
            env={**clean_environment(), "VADE_HOME": str(vade_home), "HOME": str(vade_home.parent)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        children.append(child)
        deadline = time.monotonic() + 30
        while not any((home / "as-set" / "index-1.db").exists() for home in set(left_behind(vade_home)) - before):
            assert child.poll() is None, child.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.02)
        return child

    yield call
    for child in children:
        child.kill()
        child.communicate()


@pytest.fixture
def large(write_tree: WriteTree, tmp_path: Path) -> Path:
    notes = {f"{i}.md": f"# Note {i}\n\n## Part {i} of many\n\nwombat {i}" for i in range(600)}
    return write_tree(notes, tmp_path / "large")


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_an_evaluation_that_is_told_to_end_leaves_nothing(
    start: Callable[[Path], subprocess.Popen[str]], vade_home: Path, large: Path, number: signal.Signals, status: int
) -> None:
    child = start(large)
    child.send_signal(number)
    _, err = child.communicate(timeout=60)
    assert child.returncode == status, err
    assert "Traceback" not in err
    assert left_behind(vade_home) == []


def test_what_a_killed_evaluation_left_goes_with_the_next_and_a_running_one_is_left_alone(
    vade: Vade, start: Callable[[Path], subprocess.Popen[str]], vade_home: Path, large: Path, vault: Path
) -> None:
    killed = start(large)
    killed.kill()
    killed.communicate()
    [left] = left_behind(vade_home)
    running = start(large)
    assert not left.exists()
    [alive] = left_behind(vade_home)
    assert alive.stat().st_mode & 0o777 == 0o700
    assert vade("eval", vault, "--lane", "words").rc == 0
    assert left_behind(vade_home) == [alive]
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=60)
    assert left_behind(vade_home) == []


@pytest.mark.parametrize("command", [("sources", "remove", "large"), ("sources", "sync")])
def test_what_a_killed_evaluation_left_goes_with_a_removal_and_with_a_sync(
    vade: Vade,
    start: Callable[[Path], subprocess.Popen[str]],
    vade_home: Path,
    large: Path,
    command: tuple[str, ...],
) -> None:
    vade("sources", "add", "folder", large)
    killed = start(large)
    killed.kill()
    killed.communicate()
    assert left_behind(vade_home)
    assert vade(*command).rc == 0
    assert left_behind(vade_home) == []


def test_a_state_that_cannot_be_written_is_told(vade: Vade, vade_home: Path, vault: Path) -> None:
    vade_home.write_text("a file")
    done = vade("eval", vault, "--lane", "words", "--json")
    assert done.rc == 4
    assert os.path.isfile(vade_home)
