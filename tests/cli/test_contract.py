"""The command line that later parts and outside scripts rely on: verbs, streams, exit codes, and never a traceback."""

import json
import os
import pty
import re
import subprocess
import sys
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from process import NOBODY, Finished, clean_environment, run_vade
from vademecum.cli.main import run
from workbench import Workbench

WriteTree = Callable[..., Path]
Vade = Callable[..., Finished]

NOTES = {
    "Decisions/Drop Redis.md": "---\ntags: [decision]\ndate: 2025-03-11\n---\n# Drop Redis\n\n"
    "We drop redis. ^why\n\n## After\n\nmore",
    "People/Ada.md": "Ada knows redis and postgres. #people",
    "Secret.md": "---\nprivate: true\n---\nredis password",
    "empty.md": "",
    "pic.png": b"\x89PNG",
}


@pytest.fixture
def mounted(vade: Vade, vade_home: Path, write_tree: WriteTree) -> Vade:
    """The command on a state in which a small vault is mounted as "Notes"."""
    mount(vade_home, write_tree(NOTES))
    return vade


def mount(home: Path, root: Path) -> None:
    """Connect a vault in this process, which is quicker than a child."""
    bench = Workbench(home)
    bench.add(root, name="Notes")
    bench.close()


def source_id(vade: Vade) -> str:
    return str(vade("sources", "list", "--json").json["sources"][0]["id"])


# ── every verb, as text and as JSON


VERBS: dict[str, tuple[list[str], set[str]]] = {
    "sources list": (["sources", "list"], {"sources"}),
    "sources status": (["sources", "status"], {"sources"}),
    "sources show": (["sources", "show", "Notes"], {"source"}),
    "sources sync": (["sources", "sync"], {"sources"}),
    "sources sync one": (["sources", "sync", "Notes", "--force"], {"source", "sync"}),
    "sources enable": (["sources", "enable", "Notes"], {"source"}),
    "sources disable": (["sources", "disable", "Notes"], {"source"}),
    "sources edit": (["sources", "edit", "Notes", "--exclude", "People/"], {"source"}),
    "sources rename": (["sources", "rename", "Notes", "Other"], {"source"}),
    "sources remove": (["sources", "remove", "Notes"], {"source", "purged", "purged_rows", "files_modified", "proof"}),
    "sources disconnect": (["sources", "disconnect", "Notes"], {"source", "purged"}),
    "recall": (["recall", "why", "drop", "redis"], {"query", "hits", "receipt"}),
    "recall nothing": (["recall", "zzzzqqq"], {"query", "hits", "receipt"}),
    "search": (["search", "redis", "--limit", "1"], {"query", "hits", "receipt"}),
    "read": (["read", "Ada"], {"source_id", "source_path", "path", "title", "line_start", "line_end", "text"}),
    "status": (["status"], {"version", "home", "index", "lanes", "sources"}),
    "doctor": (["doctor"], {"status", "checks"}),
    "config get": (["config", "get", "recall.limit"], {"name", "value", "default"}),
    "config set": (["config", "set", "recall.limit", "5"], {"name", "value"}),
    "config list": (["config", "list"], {"settings"}),
    "config path": (["config", "path"], {"path", "exists"}),
}


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_prints_exactly_one_object(mounted: Vade, verb: str) -> None:
    words, names = VERBS[verb]
    done = mounted(*words, "--json")
    assert done.rc == 0, done
    assert isinstance(done.json, dict)
    assert done.out.endswith("}\n")
    assert names <= set(done.json)
    assert "{" not in done.err


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_prints_text_for_people(mounted: Vade, verb: str) -> None:
    done = mounted(*VERBS[verb][0])
    assert done.rc == 0, done
    assert done.out.strip()
    assert not done.out.lstrip().startswith("{")
    assert "Traceback" not in done.err


def test_add_prints_text_or_exactly_one_object_and_says_whether_it_is_new(vade: Vade, write_tree: WriteTree) -> None:
    root = write_tree(NOTES)
    first = vade("sources", "add", "obsidian", root, "--json")
    assert (first.rc, first.json["created"]) == (0, True)
    assert first.json["sync"]["documents"] == 3
    assert first.json["sync"]["skipped"] == {"count": 2, "by_reason": {"empty": 1, "not_read": 1}}
    assert vade("sources", "add", "obsidian", root, "--json").json["created"] is False
    text = vade("sources", "add", "obsidian", root)
    assert text.rc == 0
    assert "Updated" in text.out
    assert "3 notes" in text.out


def test_a_source_is_described_with_the_names_of_the_wire(mounted: Vade) -> None:
    [listed] = mounted("sources", "list", "--json").json["sources"]
    assert set(listed) >= {
        "id", "kind", "name", "root", "enabled", "mode", "exclude", "created_at", "updated_at", "generation", "state",
        "documents", "last_indexed_at", "stale_since", "skipped", "diagnostics",
    }  # fmt: skip
    shown = mounted("sources", "show", "Notes", "--json").json["source"]
    assert shown["skipped_files"] == [{"path": "empty.md", "reason": "empty"}]
    assert "empty.md" in mounted("sources", "show", "Notes").out


def test_a_dry_run_counts_and_writes_nothing(
    vade: Vade, vade_home: Path, write_tree: WriteTree, vault_bytes: Callable[[Path], object]
) -> None:
    root = write_tree(NOTES)
    before = vault_bytes(root)
    done = vade("sources", "add", "obsidian", root, "--exclude", "People/", "--dry-run", "--json")
    assert done.rc == 0
    assert done.json["files"] == 3
    assert done.json["skipped"]["by_reason"] == {"excluded": 1, "not_read": 1}
    assert not vade_home.exists()
    assert vault_bytes(root) == before
    assert "3 notes" in vade("sources", "add", "obsidian", root, "--exclude", "People/", "--dry-run").out
    assert vade("sources", "add", "obsidian", root / "nowhere", "--dry-run").rc == 1
    assert not vade_home.exists()


def test_a_folder_that_is_a_vault_is_offered_as_one(vade: Vade, write_tree: WriteTree) -> None:
    done = vade("sources", "add", "folder", write_tree({".obsidian/app.json": "{}", "a.md": "x"}))
    assert done.rc == 0
    assert "obsidian" in done.err.lower()


def test_ids_may_be_given_whole_as_a_prefix_and_by_name(mounted: Vade) -> None:
    whole = source_id(mounted)
    for wanted in (whole, whole[:14], whole.partition(":")[2][:6], "Notes", "notes"):
        assert mounted("sources", "show", wanted, "--json").json["source"]["id"] == whole
        assert (
            mounted("recall", "redis", "--source", wanted, "--json").json["receipt"]["searched"][0]["source_id"]
            == whole
        )


def test_disabling_hides_and_enabling_brings_back(bench_cli: "InProcess") -> None:
    assert bench_cli("sources", "disable", "Notes").rc == 0
    assert bench_cli("recall", "redis", "--json").json["hits"] == []
    assert bench_cli("sources", "sync", "Notes").rc == 1
    assert bench_cli("sources", "list", "--json").json["sources"][0]["enabled"] is False
    assert bench_cli("sources", "enable", "Notes").rc == 0
    assert bench_cli("recall", "redis", "--json").json["hits"]


def test_editing_the_globs_takes_notes_out_at_once_and_puts_them_back(bench_cli: "InProcess") -> None:
    done = bench_cli("sources", "edit", "Notes", "--exclude", "People/", "--exclude", "Decisions/**", "--json")
    assert done.json["source"]["documents"] == 1
    assert [hit["path"] for hit in bench_cli("recall", "redis", "--json").json["hits"]] == ["Secret.md"]
    assert bench_cli("sources", "edit", "Notes", "--no-exclude", "--json").json["source"]["documents"] == 3


# ── recall


def test_recall_shows_where_each_hit_stands_and_the_receipt(mounted: Vade, tmp_path: Path) -> None:
    done = mounted("recall", "why did we drop redis")
    assert done.rc == 0
    assert f"{tmp_path}/vault/Decisions/Drop Redis.md:" in done.out.split("\n")[1]
    assert "Receipt: searched 3 notes in Notes" in done.out
    assert "2 files not indexed" in done.out
    assert done.err == ""


def test_nothing_found_is_done_not_failed(mounted: Vade) -> None:
    done = mounted("recall", "zzzzqqq")
    assert done.rc == 0
    assert done.out.startswith("Nothing found.")
    assert "Receipt: searched 3 notes" in done.out


@pytest.mark.parametrize(
    ("options", "paths"),
    [
        (["--limit", "1"], ["Decisions/Drop Redis.md"]),
        (["--path", "People"], ["People/Ada.md"]),
        (["--path", "./People/"], ["People/Ada.md"]),
        (["--tag", "decision"], ["Decisions/Drop Redis.md"]),
        (["--tag", "#Decision"], ["Decisions/Drop Redis.md"]),
        (["--tag", "decision", "--tag", "people"], []),
        (["--since", "2025-03-11", "--until", "2025-03-11"], ["Decisions/Drop Redis.md"]),
        (["--until", "2025-03-10"], []),
        (["--since", "1d", "--without", "password"], ["People/Ada.md"]),
        (["--without", "drop", "--without", "password"], ["People/Ada.md"]),
        (["--include", "memories"], []),
        (["--lane", "meaning"], []),
        (["--lane", "words", "--limit", "1"], ["Decisions/Drop Redis.md"]),
    ],
)
def test_recall_takes_its_filters(bench_cli: "InProcess", options: list[str], paths: list[str]) -> None:
    done = bench_cli("recall", "redis drop", *options, "--json")
    assert done.rc == 0
    assert list(dict.fromkeys(hit["path"] for hit in done.json["hits"])) == paths


def test_explain_shows_the_parts_of_each_score(bench_cli: "InProcess") -> None:
    assert "score 1.0000 = " in bench_cli("recall", "redis", "--explain").out
    assert "explain" in bench_cli("recall", "redis", "--explain", "--json").json["hits"][0]
    assert "explain" not in bench_cli("recall", "redis", "--json").json["hits"][0]


@pytest.mark.parametrize(("given", "most"), [("0", 1), ("-5", 1), ("1", 1), ("100", 100), ("999999", 100)])
def test_a_limit_out_of_range_is_clamped(bench_cli: "InProcess", write_tree: WriteTree, given: str, most: int) -> None:
    bench_cli("sources", "add", "folder", str(write_tree({f"{i}.md": "wombat" for i in range(120)}, Path("many"))))
    assert len(bench_cli("recall", "wombat", f"--limit={given}", "--json").json["hits"]) == most


def test_a_question_that_begins_with_a_minus_is_asked_after_two_dashes(mounted: Vade) -> None:
    assert mounted("recall", "--json", "--", "-password").rc == 0


@pytest.mark.parametrize("query", ["", "   ", "?", "-", "*", "\x01"])
def test_c12_a_question_without_a_word_is_answered_with_its_reason(bench_cli: "InProcess", query: str) -> None:
    done = bench_cli("recall", "--", query)
    assert done.rc == 0
    assert "no word" in done.out


def test_a_private_note_is_marked_for_its_owner_and_withheld_from_others(mounted: Vade) -> None:
    mine = {hit["path"]: hit.get("private") for hit in mounted("recall", "redis", "--json").json["hits"]}
    assert mine["Secret.md"] is True
    assert "[private]" in mounted("recall", "password").out
    other = mounted("recall", "password", "--json", as_owner=False)
    assert other.json["hits"] == []
    assert other.json["receipt"]["withheld"] == {"count": 1, "by_reason": {"private": 1}}
    assert "password" not in other.out.replace('"query": "password"', "")
    refused = mounted("read", "Secret.md", "--json", as_owner=False)
    assert (refused.rc, refused.json["error"]["code"]) == (1, "note_withheld")
    assert mounted("read", "Secret.md").rc == 0


# ── read


@pytest.mark.parametrize(
    ("address", "rc", "out"),
    [
        ("People/Ada.md", 0, "Ada knows"),
        ("Ada", 0, "Ada knows"),
        ("Drop Redis#After", 0, "## After"),
        ("Drop Redis#^why", 0, "We drop redis."),
        ("Drop Redis:6", 0, ""),
        ("Drop Redis:5-7", 0, "# Drop Redis"),
        ("Drop Redis#Nowhere", 3, ""),
        ("Drop Redis:99", 3, ""),
        ("Nobody", 3, ""),
        ("../vault/People/Ada.md", 1, ""),
        ("/etc/hosts", 1, ""),
        ("empty.md", 3, ""),
        ("pic.png", 3, ""),
        ("", 1, ""),
    ],
)
def test_read_prints_what_the_address_means(bench_cli: "InProcess", address: str, rc: int, out: str) -> None:
    done = bench_cli("read", address)
    assert done.rc == rc, done
    assert done.out.startswith(out)
    assert bool(done.out) is (rc == 0)
    assert done.err.startswith("error: ") is (rc != 0)


def test_read_takes_an_absolute_path_and_refuses_an_ambiguous_one(vade: Vade, write_tree: WriteTree) -> None:
    root = write_tree({"a/Same.md": "in a", "b/Same.md": "in b"})
    vade("sources", "add", "folder", root)
    assert vade("read", root / "b/Same.md").out == "in b\n"
    done = vade("read", "Same", "--json")
    assert (done.rc, done.json["error"]["code"]) == (1, "note_ambiguous")
    assert str(root / "a/Same.md") in done.json["error"]["hint"]


# ── exit codes and errors


@pytest.mark.parametrize(
    ("words", "rc", "code"),
    [
        (["sources", "show", "nobody"], 3, "source_not_found"),
        (["sources", "sync", "nobody"], 3, "source_not_found"),
        (["sources", "remove", "nobody"], 3, "source_not_found"),
        (["sources", "rename", "nobody", "x"], 3, "source_not_found"),
        (["sources", "enable", "nobody"], 3, "source_not_found"),
        (["sources", "show", ""], 3, "source_not_found"),
        (["recall", "x", "--source", "nobody"], 3, "source_not_found"),
        (["read", "nothing"], 3, "note_not_found"),
        (["read", "../x"], 1, "outside_root"),
        (["sources", "add", "folder", "/nowhere/at/all"], 1, "source_root_invalid"),
        (["sources", "add", "folder", "/"], 1, "source_root_invalid"),
        (["sources", "add", "folder", ""], 1, "source_root_invalid"),
        (["sources", "add", "folder", "VAULT/People"], 1, "source_root_nested"),
        (["sources", "add", "folder", "VAULT"], 1, "source_root_nested"),
        (["sources", "add", "folder", "HOME"], 1, "source_root_invalid"),
        (["sources", "edit", "Notes", "--exclude", "../x"], 1, "glob_invalid"),
        (["sources", "edit", "Notes"], 2, "usage"),
        (["sources", "add", "notion", "x"], 2, "usage"),
        (["sources", "add", "folder"], 2, "usage"),
        (["sources", "show"], 2, "usage"),
        (["sources", "nothing"], 2, "usage"),
        (["nothing"], 2, "usage"),
        (["recall"], 2, "usage"),
        (["recall", "x", "--limit", "many"], 2, "usage"),
        (["recall", "x", "--lane", "sideways"], 2, "usage"),
        (["recall", "x", "--include", "everything"], 2, "usage"),
        (["recall", "x", "--since", "yesterday"], 2, "usage"),
        (["recall", "x", "--until", "2025-13-01"], 2, "usage"),
        (["config", "get", "nothing"], 1, "bad_config"),
        (["config", "set", "recall.limit", "many"], 1, "bad_config"),
        (["config", "set", "recall.limit", "0"], 1, "bad_config"),
        (["completion", "tcsh"], 2, "usage"),
    ],
)
def test_what_cannot_be_done_has_a_code_a_hint_and_an_exit_status(
    bench_cli: "InProcess", words: list[str], rc: int, code: str
) -> None:
    done = bench_cli(*words, "--json") if words[0] != "completion" else bench_cli(*words)
    assert done.rc == rc, done
    assert "Traceback" not in done.err
    assert done.err.startswith("error: ")
    assert "\n       " in done.err
    if words[0] == "completion":
        return
    error = done.json["error"]
    assert set(error) == {"code", "message", "hint"}
    assert error["code"] == code
    assert error["message"]
    assert error["hint"]
    plain = bench_cli(*words)
    assert (plain.rc, plain.out) == (rc, "")
    assert error["message"].split("\n")[0] in plain.err


def test_a_wrong_name_is_answered_with_the_nearest(mounted: Vade) -> None:
    done = mounted("sources", "show", "Note")
    assert done.rc == 3
    assert "Did you mean Notes?" in done.err


OPTIONLESS = [words for words, _ in VERBS.values()] + [
    ["sources", "add", "folder", "x"],
    ["completion", "bash"],
    ["sources"],
    ["config"],
    [],
]


@pytest.mark.parametrize("words", OPTIONLESS, ids=lambda words: " ".join(words) or "vade")
def test_an_unknown_option_is_refused(bench_cli: "InProcess", words: list[str]) -> None:
    done = bench_cli(*words, "--bogus")
    assert done.rc == 2
    assert done.out == ""
    assert "--bogus" in done.err


def test_without_a_command_the_help_is_shown_as_a_usage_error(vade: Vade) -> None:
    for words in ([], ["sources"], ["config"]):
        done = vade(*words, as_owner=False)
        assert done.rc == 2
        assert done.out == ""
        assert "Usage:" in done.err


@pytest.mark.parametrize("words", OPTIONLESS, ids=lambda words: " ".join(words) or "vade")
def test_every_verb_explains_itself(bench_cli: "InProcess", words: list[str]) -> None:
    verb = words[:2] if words[:1] in (["sources"], ["config"]) else words[:1]
    done = bench_cli(*verb, "--help")
    assert done.rc == 0
    assert done.out.startswith("Usage: vade")
    assert done.err == ""


def test_the_version_is_printed(vade: Vade) -> None:
    done = vade("--version", as_owner=False)
    assert done.rc == 0
    assert re.fullmatch(r"vade \d+\.\d+\.\d+\S*\n", done.out)


def test_an_unreachable_source_is_unavailable_and_the_doctor_is_not_well(mounted: Vade, tmp_path: Path) -> None:
    (tmp_path / "vault").rename(tmp_path / "off")
    synced = mounted("sources", "sync", "--json")
    assert synced.rc == 4
    assert synced.json["sources"][0]["sync"]["state"] == "unreachable"
    assert mounted("sources", "sync").out.count("unreachable") == 1
    answer = mounted("recall", "redis")
    assert answer.rc == 0
    assert "[stale]" in answer.out
    assert "Notes is offline" in answer.out
    assert mounted("read", "Ada").rc == 4
    doctor = mounted("doctor", "--json")
    assert (doctor.rc, doctor.json["status"]) == (1, "degraded")
    assert any(not check["ok"] and check["remedy"] for check in doctor.json["checks"])


# ── in this process, for tables


class InProcess:
    """The command run in this process: for tables of input that would take minutes in children."""

    def __init__(self, capsys: pytest.CaptureFixture[str], replaced: dict[str, str]) -> None:
        self.capsys = capsys
        self.replaced = replaced

    def __call__(self, *words: str) -> Finished:
        for name, value in self.replaced.items():
            words = tuple(word.replace(name, value) for word in words)
        self.capsys.readouterr()
        rc = run(["--as-owner", *words])
        out, err = self.capsys.readouterr()
        return Finished(("vade", *words), rc, out, err)


@pytest.fixture
def bench_cli(
    vade_home: Path,
    write_tree: WriteTree,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> InProcess:
    monkeypatch.chdir(tmp_path)
    call = InProcess(capsys, {"VAULT": str(write_tree(NOTES)), "HOME": str(vade_home)})
    done = call("sources", "add", "obsidian", "VAULT", "--name", "Notes")
    assert done.rc == 0, done
    return call


HOSTILE = [
    "", " ", "-", "--", "---", "/", ".", "..", "~", "~nobody", "\n", "\x1b[31m", "\udcff", "🙂", "x" * 5000, "%s",
    "%(x)s", "{}", "{0}", "$HOME", "`x`", "';drop table source;--", "[a", "*", "**", "?", "null", "0", "-1", "1e9",
    "99999999999999999999", "C:\\x", "#", "#^", ":", ":0", "a:1-", "a#", "#a", "a:b", "é", "e\u0301", "\u202e",
    "NaN", "inf", "1d", "0d", "-1d", "9999-12-31", "0000-00-00",
]  # fmt: skip


@pytest.mark.parametrize(
    "words",
    [
        ["sources", "add", "folder", "?"],
        ["sources", "add", "obsidian", "?", "--dry-run"],
        ["sources", "add", "folder", "VAULT/People", "--name", "?"],
        ["sources", "add", "obsidian", "VAULT", "--exclude", "?"],
        ["sources", "show", "?"],
        ["sources", "sync", "?"],
        ["sources", "remove", "?"],
        ["sources", "rename", "Notes", "?"],
        ["sources", "edit", "Notes", "--exclude", "?"],
        ["recall", "?"],
        ["recall", "redis", "--path", "?"],
        ["recall", "redis", "--tag", "?"],
        ["recall", "redis", "--since", "?"],
        ["recall", "redis", "--limit", "?"],
        ["recall", "redis", "--without", "?"],
        ["recall", "redis", "--source", "?"],
        ["read", "?"],
        ["read", "Ada#?"],
        ["read", "Ada:?"],
        ["config", "get", "?"],
        ["config", "set", "recall.limit", "?"],
        ["config", "set", "?", "1"],
        ["completion", "?"],
        ["?"],
    ],
    ids=" ".join,
)
def test_no_input_ends_in_a_traceback_or_an_error_that_is_not_ours(bench_cli: InProcess, words: list[str]) -> None:
    for number, hostile in enumerate(HOSTILE):
        given = [word.replace("?", hostile) for word in words]
        for extra in [["--json"]] if number % 3 else [[], ["--json"]]:
            done = bench_cli(*given, *extra)
            assert "Traceback" not in done.out + done.err, given
            assert "should not happen" not in done.err, (given, done.err)
            assert done.rc in (0, 1, 2, 3, 4), given
            if extra and done.rc and "--json" in given + extra and done.out:
                assert "error" in json.loads(done.out) or "checks" in json.loads(done.out)
            assert not control_characters(done.out)
            assert not control_characters(done.err)
        if words[:2] == ["sources", "rename"]:
            bench_cli("sources", "rename", bench_cli("sources", "list", "--json").json["sources"][0]["id"], "Notes")


def control_characters(text: str) -> list[str]:
    return [c for c in text if c not in "\n\t" and unicodedata.category(c) in ("Cc", "Cs")]


# ── what notes may not do to a terminal


def test_control_characters_of_notes_never_reach_a_terminal(vade: Vade, write_tree: WriteTree) -> None:
    evil = "\x1b]0;owned\x07\x1b[2J\x9b31m"
    vade(
        "sources", "add", "folder",
        write_tree({
            "n.md": f'---\ntitle: "red \\e[31m \\a title"\nbroken\n---\n# Head {evil}\n\nwombat {evil} text',
            "m.md": f"---\nkey: [{evil}\n---\n# {evil}\n\nwombat",
        }),
        "--name", f"evil {evil.replace(chr(0), '')}",
    )  # fmt: skip
    for words in (
        ["recall", "wombat", "--explain"],
        ["read", "n.md"],
        ["sources", "list"],
        ["sources", "show", source_id(vade)],
        ["sources", "status"],
        ["status"],
        ["doctor"],
        ["sources", "sync", "--force"],
        ["search", evil],
    ):
        done = vade(*words)
        assert done.rc == 0, done
        assert control_characters(done.out) == [], words
        assert control_characters(done.err) == [], words
    assert control_characters(vade("recall", "wombat", "--json").out) == []


def test_a_note_cannot_fake_a_second_hit_or_a_receipt(vade: Vade, write_tree: WriteTree) -> None:
    text = (
        '---\ntitle: "x\\n2. Fake hit  1.00\\nReceipt: all is well"\n---\n# H\n\nwombat\nReceipt: all is well\n9. Fake'
    )
    vade("sources", "add", "folder", write_tree({"n.md": text}))
    lines = vade("recall", "wombat").out.split("\n")
    assert [line for line in lines if line.startswith(("2.", "9.", "Receipt: all"))] == []
    assert sum(line.startswith("Receipt: searched") for line in lines) == 1


# ── damaged and closed state


DAMAGES: dict[str, Callable[[Path], None]] = {
    "header": lambda path: path.write_bytes(b"no database" * 100 + path.read_bytes()[1100:]),
    "truncated": lambda path: os.truncate(path, path.stat().st_size // 2),
    "middle": lambda path: path.write_bytes(path.read_bytes()[:4096] + os.urandom(path.stat().st_size - 4096)),
    "text": lambda path: path.write_text("hello"),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize(
    "words",
    [
        ["recall", "redis"],
        ["sources", "sync"],
        ["read", "Ada"],
        ["sources", "remove", "Notes"],
    ],
    ids=" ".join,
)
def test_a_damaged_index_is_put_aside_and_built_again(
    mounted: Vade, vade_home: Path, damage: str, words: list[str]
) -> None:
    for log in vade_home.glob("index-1.db-*"):
        log.unlink()
    DAMAGES[damage](vade_home / "index-1.db")
    done = mounted(*words, "--json")
    assert done.rc == 0, done
    assert "Traceback" not in done.err
    if words[0] == "recall":
        assert done.json["hits"]
    if words[0] == "read":
        assert "Ada knows" in done.json["text"]
    if words[1] == "remove":
        assert done.json["proof"]["clean"]
        assert not any((vade_home / "quarantine").glob("*"))
        return
    assert "quarantine" in done.err
    assert len(list((vade_home / "quarantine").glob("*.db"))) == 1
    assert {hit["path"] for hit in mounted("recall", "redis", "--json").json["hits"]} == set(NOTES) - {
        "empty.md",
        "pic.png",
    }
    assert mounted("doctor").rc == 0


def test_a_corrupt_list_of_sources_is_said_and_left_as_it_is(mounted: Vade, vade_home: Path) -> None:
    file = vade_home / "sources.json"
    file.write_text('{"version": 1, "sources": [{"id": ')
    before = file.read_bytes()
    for words in (["sources", "list"], ["sources", "add", "folder", "."], ["sources", "sync"], ["recall", "redis"],
                  ["sources", "remove", "Notes"], ["status"], ["read", "Ada"]):  # fmt: skip
        done = mounted(*words, "--json")
        assert (done.rc, done.json["error"]["code"]) == (1, "sources_file_corrupt"), words
        assert str(file) in done.json["error"]["message"]
        assert done.json["error"]["hint"]
    assert file.read_bytes() == before
    doctor = mounted("doctor", "--json")
    assert doctor.rc == 1
    assert any("sources.json" in check["detail"] for check in doctor.json["checks"] if not check["ok"])


def test_a_broken_configuration_is_said_and_left_as_it_is(bench_cli: "InProcess", vade_home: Path) -> None:
    for text in (
        "not toml [",
        "[recall]\nlimit = 'x'\n",
        "[recall]\nunknown = 1\n",
        "x = 1\n",
        "[recall]\nlimit = 0\n",
    ):
        (vade_home / "config.toml").write_text(text)
        for words in (
            ["recall", "redis"],
            ["config", "list"],
            ["config", "set", "recall.limit", "5"],
            ["sources", "list"],
        ):
            done = bench_cli(*words, "--json")
            assert (done.rc, done.json["error"]["code"]) == (1, "bad_config"), (text, words)
        assert (vade_home / "config.toml").read_text() == text
        assert bench_cli("config", "path").rc == 0


def test_a_state_folder_that_is_a_file_is_said(vade: Vade, vade_home: Path, write_tree: WriteTree) -> None:
    vade_home.write_text("x")
    for words in (
        ["sources", "add", "folder", write_tree({"a.md": "x"})],
        ["recall", "x"],
        ["sources", "list"],
        ["status"],
    ):
        done = vade(*words, "--json")
        assert done.rc in (1, 4), done
        assert done.json["error"]["hint"]
        assert "should not happen" not in done.err
    assert vade_home.read_text() == "x"


@pytest.fixture
def closed(public_tmp: Path, write_tree: WriteTree) -> Vade:
    """The command as another user, on a state that root made and that this user can only read."""
    home, state = public_tmp / "home", public_tmp / "state"
    home.mkdir()
    root = write_tree(NOTES, public_tmp / "v")
    done = run_vade("--as-owner", "sources", "add", "obsidian", root, "--name", "Notes", vade_home=state, home=home)
    assert done.rc == 0, done
    home.chmod(0o777)
    for path in (state, *state.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)

    def call(*words: str | Path, **keywords: Any) -> Finished:
        return run_vade("--as-owner", *words, vade_home=state, home=home, as_user=NOBODY, **keywords)

    return call


def test_a_state_that_cannot_be_written_still_answers(closed: Vade, public_tmp: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in (public_tmp / "state").rglob("*")}
    for words in (
        ["recall", "redis"],
        ["read", "Ada"],
        ["sources", "list"],
        ["sources", "show", "Notes"],
        ["status"],
        ["config", "list"],
    ):
        done = closed(*words, "--json")
        assert done.rc == 0, done
    assert closed("recall", "redis", "--json").json["hits"]
    assert {path: path.stat().st_mtime_ns for path in (public_tmp / "state").rglob("*")} == before


def test_a_state_that_cannot_be_written_refuses_writes_with_a_hint(closed: Vade, public_tmp: Path) -> None:
    for words in (
        ["sources", "add", "folder", str(public_tmp / "home")],
        ["sources", "sync"],
        ["sources", "remove", "Notes"],
        ["sources", "rename", "Notes", "x"],
        ["sources", "disable", "Notes"],
        ["config", "set", "recall.limit", "3"],
    ):
        done = closed(*words, "--json")
        assert done.rc == 4, done
        assert done.json["error"]["code"] == "state_read_only"
        assert "VADE_HOME" in done.json["error"]["hint"]
    assert closed("sources", "list", "--json").json["sources"][0]["name"] == "Notes"


def test_a_place_where_no_state_can_be_made_is_said(public_tmp: Path) -> None:
    (public_tmp / "home").mkdir()
    (public_tmp / "home").chmod(0o777)
    (public_tmp / "v").mkdir()
    (public_tmp / "locked").mkdir()
    (public_tmp / "locked").chmod(0o755)
    done = run_vade(
        "--as-owner", "sources", "add", "folder", public_tmp / "v", "--json",
        vade_home=public_tmp / "locked/state", home=public_tmp / "home", as_user=NOBODY,
    )  # fmt: skip
    assert (done.rc, done.json["error"]["code"]) == (4, "state_read_only")
    asked = run_vade(
        "--as-owner", "recall", "x", "--json",
        vade_home=public_tmp / "locked/state", home=public_tmp / "home", as_user=NOBODY,
    )  # fmt: skip
    assert asked.rc in (0, 4)
    assert "should not happen" not in asked.err


# ── settings


def test_setting_one_value_keeps_comments_and_everything_else(vade: Vade, vade_home: Path) -> None:
    vade_home.mkdir()
    text = "# mine\n[recall]   # about asking\nlimit = 7 # seven\n\n[index]\n# patience\nbusy_timeout_s = 3.5\n"
    (vade_home / "config.toml").write_text(text)
    assert vade("config", "get", "recall.limit").out == "7\n"
    done = vade("config", "set", "recall.limit", "9", "--json")
    assert (done.rc, done.json["value"]) == (0, 9)
    assert (vade_home / "config.toml").read_text() == text.replace("limit = 7", "limit = 9")
    assert vade("config", "set", "sources.max_file_bytes", "1_000").rc == 0
    assert vade("config", "get", "sources.max_file_bytes").out == "1000\n"
    kept = (vade_home / "config.toml").read_text()
    assert "# seven" in kept
    assert "# patience" in kept


def test_every_setting_has_a_default_and_a_line_of_help(vade: Vade, vade_home: Path) -> None:
    settings = vade("config", "list", "--json").json["settings"]
    assert {s["name"] for s in settings} >= {
        "recall.limit",
        "sources.max_file_bytes",
        "sources.max_files",
        "index.busy_timeout_s",
    }
    for setting in settings:
        assert setting["value"] == setting["default"]
        assert setting["help"].endswith(".")
        assert setting["name"] in vade("config", "list").out
    assert vade("config", "path").out == f"{vade_home}/config.toml\n"
    assert not vade_home.exists()


def test_the_settings_file_is_for_its_owner_only(vade: Vade, vade_home: Path) -> None:
    vade("config", "set", "recall.limit", "3")
    assert (vade_home / "config.toml").stat().st_mode & 0o077 == 0
    assert vade_home.stat().st_mode & 0o777 == 0o700


def test_a_setting_counts(bench_cli: "InProcess") -> None:
    bench_cli("config", "set", "recall.limit", "1")
    assert len(bench_cli("recall", "redis", "--json").json["hits"]) == 1


# ── completion, pipes, terminals


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script_that_the_shell_accepts(vade: Vade, shell: str) -> None:
    done = vade("completion", shell, as_owner=False)
    assert done.rc == 0
    assert "vade" in done.out
    assert "_VADE_COMPLETE" in done.out
    if shell == "bash":
        checked = subprocess.run(["bash", "-n"], input=done.out, text=True, capture_output=True, check=False)
        assert (checked.returncode, checked.stderr) == (0, "")


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("vade sou", "sources"),
        ("vade sources sy", "sync"),
        ("vade sources show No", "Notes"),
        ("vade recall --sou", "--source"),
    ],
)
def test_completion_offers_commands_options_and_names_of_sources(mounted: Vade, words: str, offered: str) -> None:
    environment = {"_VADE_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    script = Path(sys.executable).with_name("vade")
    done = subprocess.run(
        [script],
        env={
            **clean_environment(),
            "VADE_HOME": str(mounted("config", "path").out.strip().rpartition("/")[0]),
            **environment,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert offered in done.stdout, done


@pytest.mark.parametrize(
    "words",
    ["recall wombat --limit 100 --json", "read big.md", "--help"],
)
def test_a_reader_that_has_seen_enough_is_no_error(vade_home: Path, write_tree: WriteTree, words: str) -> None:
    big = "\n".join(f"wombat line {i}" for i in range(40_000))
    mount(vade_home, write_tree({"big.md": big, **{f"{i}.md": "wombat other " * 100 for i in range(100)}}))
    pipe = f'"{sys.executable}" -P -m vademecum --as-owner {words} | head -1; echo "rc ${{PIPESTATUS[0]}}"'
    done = subprocess.run(
        ["bash", "-c", pipe],
        env={**clean_environment(), "VADE_HOME": str(vade_home), "HOME": str(vade_home)},
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.stderr == ""
    assert done.stdout.split("\n")[-2] in {"rc 0", "rc 141"}


@pytest.fixture
def terminal(vade_home: Path, tmp_path: Path) -> Iterator[Callable[..., tuple[int, str, str]]]:
    """Run the command with a terminal on stdin and stderr: exit status, stdout, and what the terminal showed."""

    def call(*words: str | Path, **variables: str) -> tuple[int, str, str]:
        master, slave = pty.openpty()
        child = subprocess.Popen(
            [sys.executable, "-P", "-m", "vademecum", *map(str, words)],
            stdin=slave,
            stdout=subprocess.PIPE,
            stderr=slave,
            env={
                **clean_environment(),
                "VADE_HOME": str(vade_home),
                "HOME": str(tmp_path),
                "TERM": "xterm",
                **variables,
            },
            cwd=tmp_path,
        )
        os.close(slave)
        shown = b""
        while True:
            try:
                piece = os.read(master, 65536)
            except OSError:
                break
            if not piece:
                break
            shown += piece
        assert child.stdout is not None
        out = child.stdout.read().decode()
        child.stdout.close()
        rc = child.wait()
        os.close(master)
        return rc, out, shown.decode(errors="replace")

    return call


def test_at_a_terminal_the_owner_asks_unless_an_agent_does(
    terminal: Callable[..., tuple[int, str, str]], write_tree: WriteTree
) -> None:
    assert terminal("sources", "add", "folder", write_tree({"n.md": "---\nprivate: true\n---\nwombat"}))[0] == 0
    assert len(json.loads(terminal("recall", "wombat", "--json")[1])["hits"]) == 1
    for variable in ("CLAUDECODE", "CODEX_SANDBOX", "GEMINI_CLI", "CURSOR_AGENT", "AI_AGENT"):
        rc, out, _ = terminal("recall", "wombat", "--json", **{variable: "1"})
        assert (rc, json.loads(out)["hits"]) == (0, [])
    assert len(json.loads(terminal("--as-owner", "recall", "wombat", "--json", CLAUDECODE="1")[1])["hits"]) == 1


def test_progress_is_drawn_on_the_terminal_and_never_into_the_result(
    terminal: Callable[..., tuple[int, str, str]], write_tree: WriteTree
) -> None:
    root = write_tree({f"{i}.md": "wombat " * 50 for i in range(200)})
    rc, out, shown = terminal("sources", "add", "folder", root, "--json")
    assert rc == 0
    assert json.loads(out)["sync"]["documents"] == 200
    assert "200" in shown


def test_output_that_the_locale_cannot_show_is_replaced(vade: Vade, write_tree: WriteTree) -> None:
    vade("sources", "add", "folder", write_tree({"n.md": "# Über 日本 🙂\n\nwombat"}))
    done = vade("recall", "wombat", env={"LC_ALL": "C", "LANG": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"})
    assert done.rc == 0
    assert "wombat" in done.out
    as_json = vade("recall", "wombat", "--json", env={"PYTHONIOENCODING": "ascii"})
    assert as_json.rc == 0
    assert isinstance(as_json.json, dict)


def test_a_broken_home_variable_is_an_error_of_ours(vade: Vade) -> None:
    for value in ("~nobody-of-this-name", "relative/folder", "/proc/none/state"):
        done = vade("sources", "list", "--json", env={"VADE_HOME": value})
        assert "Traceback" not in done.err
        assert "should not happen" not in done.err


def test_a_crash_leaves_no_text_of_a_note_in_a_log(mounted: Vade, vade_home: Path) -> None:
    mounted("recall", "redis password")
    assert not (vade_home / "logs").exists() or not any(
        b"redis password" in path.read_bytes() for path in (vade_home / "logs").iterdir()
    )
