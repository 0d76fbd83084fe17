"""What lies around the notes may be anything: pipes, links, damaged files. Every command ends, and says why."""

import json
import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from process import Finished, clean_environment

Vade = Callable[..., Finished]
WriteTree = Callable[..., Path]

PRIVATE = {"Secret/s.md": "# S\n\nwombat", "Open/o.md": "# O\n\nwombat"}


def paths(answer: Finished) -> set[str]:
    return {hit["path"] for hit in answer.json["hits"]}


@pytest.mark.parametrize("name", ["vault-manifest.json", ".obsidian/app.json"])
def test_a_pipe_in_the_place_of_a_declaration_hangs_nothing(vade: Vade, write_tree: WriteTree, name: str) -> None:
    root = write_tree({"a.md": "wombat", ".obsidian/core.json": "{}"})
    os.mkfifo(root / name)
    added = vade("sources", "add", "obsidian", str(root), "--json")
    assert added.rc == 0, added
    assert any("regular file" in line for line in added.json["sync"]["diagnostics"])
    assert vade("recall", "wombat", "--json").rc == 0


def test_a_linked_settings_folder_still_says_what_to_ignore(vade: Vade, write_tree: WriteTree, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "app.json").write_text('{"userIgnoreFilters": ["Secret/"]}')
    root = write_tree(PRIVATE)
    (root / ".obsidian").symlink_to(shared)
    vade("sources", "add", "obsidian", str(root))
    assert paths(vade("recall", "wombat", "--json")) == {"Open/o.md"}


def test_a_root_that_became_a_link_is_offline_and_its_target_is_not_read(
    vade: Vade, write_tree: WriteTree, tmp_path: Path
) -> None:
    root = write_tree({"a.md": "wombat"})
    vade("sources", "add", "folder", str(root), "--name", "n")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "b.md").write_text("quokka")
    root.rename(tmp_path / "moved")
    root.symlink_to(elsewhere)
    assert vade("sources", "sync").rc == 4
    assert vade("recall", "quokka", "--json").json["hits"] == []
    kept = vade("recall", "wombat", "--json").json
    assert [hit["stale"] for hit in kept["hits"]] == [True]
    assert [source["name"] for source in kept["receipt"]["offline"]] == ["n"]


@pytest.mark.parametrize("become", ["fifo", "folder"])
def test_a_note_that_is_no_file_any_more_is_neither_read_nor_shown(
    vade: Vade, write_tree: WriteTree, become: str
) -> None:
    root = write_tree({"a.md": "wombat"})
    vade("sources", "add", "folder", str(root))
    (root / "a.md").unlink()
    os.mkfifo(root / "a.md") if become == "fifo" else (root / "a.md").mkdir()
    assert vade("read", "a.md").rc == 3
    answer = vade("recall", "wombat", "--json").json
    assert answer["hits"] == []
    assert answer["receipt"]["withheld"]["by_reason"] == {"vanished": 1}


@pytest.mark.parametrize("declared", ["o.md", [5], {"a": 1}, None])
def test_a_never_expose_list_that_is_none_never_widens(vade: Vade, write_tree: WriteTree, declared: object) -> None:
    root = write_tree({"o.md": "wombat", "brain/b.md": "wombat"})
    (root / "vault-manifest.json").write_text(
        json.dumps({"mcp_exposed_roots": ["brain", "."], "mcp_never_expose": declared})
    )
    vade("sources", "add", "obsidian", str(root))
    assert paths(vade("recall", "wombat", "--json")) <= {"brain/b.md"}


def test_a_withheld_note_is_not_named_in_full(vade: Vade, write_tree: WriteTree) -> None:
    vade("sources", "add", "folder", str(write_tree({"zq plan/deep/t.md": "---\nprivate: true\n---\nx"})))
    refused = vade("read", "t", as_owner=False)
    assert refused.rc == 1
    assert "zq plan" not in refused.err


@pytest.mark.parametrize(
    "change",
    [
        {"id": "folder:../../x"},
        {"id": "folder:\x00"},
        {"id": "folder:" + "a" * 5000},
        {"root": "/"},
        {"root": "/a/../b"},
        {"exclude": ["../x"]},
        {"exclude": "x"},
        {"enabled": "yes"},
    ],
    ids=str,
)
def test_a_hostile_entry_makes_the_list_invalid_and_nothing_else(
    vade: Vade, vade_home: Path, write_tree: WriteTree, change: dict[str, object]
) -> None:
    vade("sources", "add", "folder", str(write_tree({"a.md": "wombat"})))
    file = vade_home / "sources.json"
    content = json.loads(file.read_text())
    content["sources"][0] |= change
    file.write_text(json.dumps(content))
    before = file.read_bytes()
    for words in (["recall", "wombat"], ["sources", "sync"], ["sources", "list"]):
        done = vade(*words, "--json")
        assert done.json["error"]["code"] == "sources_file_corrupt", done
        assert done.rc == 1
    assert file.read_bytes() == before


def test_output_that_cannot_be_written_is_told_once(vade_home: Path) -> None:
    for words in (["--help"], ["status", "--json"]):
        done = subprocess.run(
            ["bash", "-c", f'"{sys.executable}" -P -m vademecum {" ".join(words)} > /dev/full'],
            env={**clean_environment(), "VADE_HOME": str(vade_home), "HOME": str(vade_home)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 1
        assert "Traceback" not in done.stderr
        assert done.stderr.count("cannot be written") == 1


@pytest.mark.parametrize("value", ["inf", "nan", "1e308", "-1"])
def test_a_setting_without_bounds_is_refused(vade: Vade, value: str) -> None:
    assert vade("config", "set", "index.busy_timeout_s", "--", value).rc == 1
    assert vade("sources", "list").rc == 0


def test_strange_files_in_the_state_folder_do_not_hinder_a_removal(
    vade: Vade, vade_home: Path, write_tree: WriteTree
) -> None:
    vade("sources", "add", "folder", str(write_tree({"a.md": "wombat"})), "--name", "n")
    os.mkfifo(vade_home / "run" / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        here = Path.cwd()
        os.chdir(vade_home)  # a socket's path has to be short
        try:
            listener.bind("s")
        finally:
            os.chdir(here)
        assert vade("sources", "remove", "n", "--json").json["proof"]["clean"]


def test_a_state_folder_that_is_a_file_is_named_as_that(vade: Vade, vade_home: Path) -> None:
    if vade_home.exists():
        vade_home.rmdir()
    vade_home.write_text("")
    for words in (["recall", "x"], ["sources", "list"], ["config", "list"]):
        done = vade(*words, "--json")
        assert done.json["error"]["code"] == "state_unusable", done
        assert done.rc == 4


@pytest.mark.parametrize("seed", range(6))
def test_bytes_changed_at_random_end_in_an_error_of_ours_and_force_heals(
    vade: Vade, vade_home: Path, write_tree: WriteTree, seed: int
) -> None:
    root = write_tree({f"{i}.md": f"# Note {i}\n\nwombat {i} " + "quokka numbat " * 40 for i in range(60)})
    vade("sources", "add", "folder", str(root))
    file = vade_home / "index-1.db"
    dice = random.Random(seed)
    content = bytearray(file.read_bytes())
    for _ in range(12):
        at = dice.randrange(100, len(content) - 64)
        content[at : at + 64] = dice.randbytes(64)
    file.write_bytes(content)
    for words in (["recall", "wombat"], ["doctor"], ["sources", "sync"], ["read", "1.md"]):
        done = vade(*words, "--json")
        assert done.rc in {0, 1, 4}, done
        assert "should not happen" not in done.err, done
    assert vade("sources", "sync", "--force").rc == 0
    time.sleep(0.1)
    healed = vade("doctor", "--json")
    assert healed.rc == 0, healed
    assert len(vade("recall", "wombat", "--limit", "100", "--json").json["hits"]) == 60
