"""Vectors on the command line: made after the text, as far as time allows, and every command says how far that is."""

import os
import pty
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from process import Finished, clean_environment
from vademecum.cli.main import run

WriteTree = Callable[..., Path]
Vade = Callable[..., Finished]
Configure = Callable[..., None]

NOTES = {
    "wombat.md": "# Wombat\n\nThe wombat digs burrows at night.",
    "badger.md": "# Badger\n\nA badger digs setts.",
    "train.md": "# Train\n\nTrains are late in winter.",
}


@pytest.fixture
def vade(vade_home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Vade:
    """The command in this process, without a terminal, which is quicker than a child."""
    monkeypatch.chdir(vade_home.parent)

    def call(*arguments: str | Path, as_owner: bool = True) -> Finished:
        command = (*(["--as-owner"] if as_owner else []), *map(str, arguments))
        capsys.readouterr()
        rc = run(command)
        return Finished(command, rc, *capsys.readouterr())

    return call


@pytest.fixture
def configure(vade_home: Path) -> Configure:
    """Write settings into the state: `configure(embedding_model="hashing")`."""

    def write(**values: object) -> None:
        vade_home.mkdir(mode=0o700, exist_ok=True)
        lines = []
        for name, value in values.items():
            table, _, key = name.partition("_")
            text = str(value).lower() if isinstance(value, bool) else f'"{value}"' if isinstance(value, str) else value
            lines.append(f"{table}.{key} = {text}")
        (vade_home / "config.toml").write_text("\n".join(lines) + "\n")

    return write


@pytest.fixture
def hashing(vade: Vade, configure: Configure) -> Vade:
    configure(embedding_model="hashing")
    return vade


def vectors(done: Finished) -> tuple[str, int, int, int]:
    said = done.json["vectors"]
    return said["state"], said["embedded"], said["have"], said["pending"]


# ── add and sync


def test_add_embeds_after_the_text_and_says_so(hashing: Vade, write_tree: WriteTree) -> None:
    done = hashing("sources", "add", "folder", write_tree(NOTES))
    assert done.rc == 0
    lines = done.out.splitlines()
    assert lines[0].startswith("Added vault")
    assert lines[1].startswith("Embedded 3 texts by hashing in ")
    assert "without a vector" not in done.err


def test_sync_embeds_what_is_new_and_says_nothing_when_there_is_nothing(hashing: Vade, write_tree: WriteTree) -> None:
    root = write_tree(NOTES)
    assert vectors(hashing("sources", "add", "folder", root, "--json")) == ("done", 3, 3, 0)
    (root / "new.md").write_text("A quokka smiles.")
    assert vectors(hashing("sources", "sync", "--json")) == ("done", 1, 4, 0)
    assert vectors(hashing("sources", "sync", "--json")) == ("done", 0, 4, 0)
    quiet = hashing("sources", "sync")
    assert "Embedded" not in quiet.out
    assert quiet.err == ""


@pytest.mark.parametrize("command", ["add", "sync"])
def test_no_vectors_indexes_the_text_alone(hashing: Vade, write_tree: WriteTree, command: str) -> None:
    done = hashing("sources", "add", "folder", write_tree(NOTES), "--no-vectors", "--json")
    if command == "sync":
        done = hashing("sources", "sync", "--no-vectors", "--json")
    assert done.json["vectors"] == {"state": "skipped"}
    asked = hashing("recall", "wombat", "--json").json
    assert [hit["path"] for hit in asked["hits"]] == ["wombat.md"]
    assert asked["receipt"]["lanes"]["meaning"] == {"state": "off", "reason": "nothing is embedded yet"}


def test_a_budget_of_nothing_leaves_the_rest_to_wait(vade: Vade, configure: Configure, write_tree: WriteTree) -> None:
    configure(embedding_model="hashing", embedding_budget_s=0)
    done = vade("sources", "add", "folder", write_tree(NOTES))
    assert done.rc == 0
    assert "3 texts without a vector yet" in done.err
    assert "--wait" in done.err
    assert vectors(vade("sources", "sync", "--json")) == ("partial", 0, 0, 3)
    assert vectors(vade("sources", "sync", "--wait", "--json")) == ("done", 3, 3, 0)


def test_what_is_left_comes_with_an_estimate(vade: Vade, configure: Configure, write_tree: WriteTree) -> None:
    configure(embedding_model="hashing", embedding_budget_s=0.05)
    done = vade("sources", "add", "folder", write_tree({f"{i}.md": f"wombat {i} " * 500 for i in range(120)}))
    assert done.rc == 0
    assert "Embedded" in done.out
    assert "of work" in done.err


def test_without_a_model_add_indexes_the_text_and_says_how_to_get_one(vade: Vade, write_tree: WriteTree) -> None:
    done = vade("sources", "add", "folder", write_tree(NOTES))
    assert done.rc == 0
    assert "no embedding model is installed" in done.err
    assert "vade models pull" in done.err
    said = vade("sources", "sync", "--json").json["vectors"]
    assert (said["state"], said["reason"]) == ("unavailable", "no embedding model is installed")


def test_with_none_no_word_of_vectors_is_said(vade: Vade, configure: Configure, write_tree: WriteTree) -> None:
    configure(embedding_model="none")
    done = vade("sources", "add", "folder", write_tree(NOTES))
    assert (done.rc, done.err) == (0, "")
    assert len(done.out.splitlines()) == 1


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"embedding_model": "no-such-model"}, "no-such-model"),
        ({"embedding_model": "ollama:x", "embedding_url": "http://127.0.0.1:9"}, "127.0.0.1"),
        ({"embedding_model": "openai:x", "embedding_url": "https://embed.example.org/v1"}, "embed.example.org"),
        ({"embedding_model": "ollama:x", "embedding_url": "no address"}, "embedding.url"),
        ({"embedding_model": "ollama:"}, "ollama"),
    ],
    ids=["unknown", "no server", "no consent", "bad address", "no name"],
)
def test_a_model_that_cannot_be_used_costs_no_text(
    vade: Vade, configure: Configure, write_tree: WriteTree, values: dict[str, str], said: str
) -> None:
    configure(**values)
    done = vade("sources", "add", "folder", write_tree(NOTES))
    assert done.rc == 0, done
    assert said in done.err
    assert "Traceback" not in done.err
    again = vade("sources", "sync", "--json")
    assert again.rc == 0
    assert again.json["vectors"]["state"] == "unavailable"
    asked = vade("recall", "wombat", "--json")
    assert (asked.rc, [hit["path"] for hit in asked.json["hits"]]) == (0, ["wombat.md"])


@pytest.mark.parametrize("damage", ["half", "one file gone", "no file"])
def test_a_model_that_is_only_half_there_costs_no_text(
    vade: Vade, vade_home: Path, write_tree: WriteTree, damage: str
) -> None:
    """As a pull that was copied by hand, or a disk that lost a file, would leave it."""
    folder = vade_home / "models" / "bge-small-en-v1.5"
    folder.mkdir(parents=True)
    if damage != "no file":
        (folder / "tokenizer.json").write_bytes(b"{}" if damage == "half" else b" " * 711_396)
    if damage == "half":
        (folder / "model.onnx").write_bytes(b"half of it")
    done = vade("sources", "add", "folder", write_tree(NOTES))
    assert done.rc == 0, done
    assert "no vectors were made" in done.err
    assert "vade models pull" in done.err
    assert "Traceback" not in done.err
    assert vade("sources", "sync", "--json").json["vectors"]["state"] == "unavailable"
    assert vade("recall", "wombat", "--json").json["receipt"]["lanes"]["meaning"]["state"] in {"off", "degraded"}
    checked = vade("doctor")
    assert checked.rc == 1
    assert "bge-small-en-v1.5" in checked.out


def test_a_progress_bar_shows_on_a_terminal_alone(hashing: Vade, vade_home: Path, write_tree: WriteTree) -> None:
    root = write_tree({f"{i}.md": f"wombat {i} " * 400 for i in range(60)})
    assert "Embedding" not in hashing("sources", "add", "folder", root, "--no-vectors").err
    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-P", "-m", "vademecum", "--as-owner", "sources", "sync", "--wait"],
        env={**clean_environment(), "VADE_HOME": str(vade_home), "HOME": str(root.parent), "TERM": "xterm"},
        stdin=theirs, stdout=subprocess.DEVNULL, stderr=theirs,
    )  # fmt: skip
    os.close(theirs)
    seen, end = b"", time.monotonic() + 40
    with suppress(OSError):  # how a terminal says that nobody writes to it any more
        while time.monotonic() < end and (block := os.read(ours, 4096)):
            seen += block
    os.close(ours)
    assert child.wait(timeout=20) == 0
    assert b"Embedding" in seen
    assert b"60/60" in seen or b"/60" in seen


# ── models use, status; status and doctor


def test_use_embeds_by_the_chosen_model_and_none_keeps_the_vectors(vade: Vade, write_tree: WriteTree) -> None:
    vade("sources", "add", "folder", write_tree(NOTES))
    used = vade("models", "use", "hashing", "--json")
    assert (used.rc, used.json["model"]) == (0, "hashing")
    assert vectors(used) == ("done", 3, 3, 0)
    assert vade("config", "get", "embedding.model").out.strip() == "hashing"
    off = vade("models", "use", "none")
    assert (off.rc, off.err) == (0, "")
    assert "switched off" in off.out
    asked = vade("recall", "wombat", "--json").json["receipt"]
    assert asked["lanes"]["meaning"]["state"] == "off"
    assert asked["vectors"]["have"] == 3
    assert vectors(vade("models", "use", "hashing", "--json")) == ("done", 0, 3, 0)


@pytest.mark.parametrize(
    ("name", "rc"),
    [("no-such-model", 3), ("ms-marco-minilm-l12", 3), ("bge-small-en-v1.5", 4), ("openai:x", 1), ("", 3)],
)
def test_a_model_that_does_not_work_is_refused_before_anything_changes(
    hashing: Vade, write_tree: WriteTree, name: str, rc: int
) -> None:
    hashing("sources", "add", "folder", write_tree(NOTES))
    refused = hashing("models", "use", name)
    assert refused.rc == rc, refused
    assert hashing("config", "get", "embedding.model").out.strip() == "hashing"
    assert hashing("models", "status", "--json").json["sets"][0]["have"] == 3


def test_status_of_the_models_tells_of_every_set(hashing: Vade, write_tree: WriteTree) -> None:
    assert "No vectors have been made yet." in hashing("models", "status").out
    hashing("sources", "add", "folder", write_tree(NOTES))
    told = hashing("models", "status", "--json").json
    assert (told["wanted"], told["problem"]) == ("hashing", None)
    (one,) = told["sets"]
    assert (one["model"], one["answers"], one["have"], one["pending"], one["refused"]) == ("hashing", True, 3, 0, 0)
    assert one["refusals"] == []
    text = hashing("models", "status").out
    assert "hashing answers: 3 vectors, 0 missing, 0 given up; 256 dimensions" in text


def test_status_and_doctor_tell_of_the_meaning_lane(vade: Vade, configure: Configure, write_tree: WriteTree) -> None:
    configure(embedding_model="hashing", embedding_budget_s=0)
    vade("sources", "add", "folder", write_tree(NOTES))
    assert vade("status", "--json").json["lanes"]["meaning"] == "off"
    degraded = vade("doctor", "--json")
    assert degraded.rc == 1
    (check,) = (c for c in degraded.json["checks"] if c["name"] == "vectors")
    assert not check["ok"]
    assert "3 missing" in check["detail"]
    assert "--wait" in check["remedy"]
    vade("sources", "sync", "--wait")
    told = vade("status", "--json").json
    assert told["lanes"] == {"words": "ok", "meaning": "ok"}
    assert told["vectors"] == {"model": "hashing", "have": 3, "pending": 0}
    assert "ok (hashing, 3 vectors)" in vade("status").out
    assert vade("doctor").rc == 0


# ── recall


def test_recall_explains_every_part_and_says_when_nobody_can_read_again(hashing: Vade, write_tree: WriteTree) -> None:
    hashing("sources", "add", "folder", write_tree(NOTES))
    asked = hashing("recall", "wombat", "digs", "--explain", "--rerank", "--json")
    assert asked.rc == 0
    for hit in asked.json["hits"]:
        parts = hit["explain"]["parts"]
        assert round(sum(part["value"] for part in parts), 4) == hit["score"]
    assert {part["name"] for hit in asked.json["hits"] for part in hit["explain"]["parts"]} >= {
        "words.chunk",
        "meaning",
    }
    assert asked.json["receipt"]["lanes"]["reranker"]["state"] == "degraded"
    text = hashing("recall", "wombat", "digs", "--explain", "--rerank").out
    assert "meaning 0." in text
    assert "cosine" in text
    assert "reranker degraded" in text


@pytest.mark.parametrize("lane", ["words", "meaning", "hybrid"])
def test_a_lane_can_be_chosen(hashing: Vade, write_tree: WriteTree, lane: str) -> None:
    hashing("sources", "add", "folder", write_tree(NOTES))
    asked = hashing("recall", "wombat", "--lane", lane, "--json").json
    assert asked["hits"][0]["path"] == "wombat.md"
    assert len(asked["hits"]) == (1 if lane == "words" else 3)
    off = {"words": "meaning", "meaning": "words"}.get(lane)
    assert off is None or asked["receipt"]["lanes"][off]["state"] == "off"


def test_an_agent_in_a_project_gets_no_private_note_by_meaning(hashing: Vade, write_tree: WriteTree) -> None:
    secret = {"secret.md": "---\nprivate: true\n---\nThe wombat hides gold."}
    hashing("sources", "add", "folder", write_tree({**NOTES, **secret}))
    asked = hashing("recall", "wombats", "hidden", "--lane", "meaning", "--json", as_owner=False).json
    assert "secret.md" not in {hit["path"] for hit in asked["hits"]}
    assert asked["receipt"]["withheld"] == {"count": 1, "by_reason": {"private": 1}}
    assert "gold" not in str(asked)
    owner = hashing("recall", "wombats", "hidden", "--lane", "meaning", "--json").json
    assert "secret.md" in {hit["path"] for hit in owner["hits"]}


def test_enabling_and_editing_a_source_embeds_what_is_new(hashing: Vade, write_tree: WriteTree) -> None:
    root = write_tree(NOTES)
    hashing("sources", "add", "folder", root, "--name", "n", "--exclude", "train.md")
    for arguments, embedded in (
        (["disable", "n"], ""),
        (["enable", "n"], ""),
        (["edit", "n", "--no-exclude"], "Embedded 1 text"),
        (["rename", "n", "m"], ""),
    ):
        done = hashing("sources", *arguments)
        assert done.rc == 0
        assert ("Embedded" in done.out) == bool(embedded)
        assert embedded in done.out
