"""Faults that a review of the whole code found, each with the promise it broke."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from process import NOBODY, Finished, clean_environment

Vade = Callable[..., Finished]
WriteTree = Callable[..., Path]

LONG = "The whole passage about the swordfish marmalade recipe of the summer"


def paths(answer: Finished) -> set[str]:
    return {hit["path"] for hit in answer.json["hits"]}


def test_a_copy_of_the_index_anywhere_in_the_state_turns_the_proof_red(
    vade: Vade, vade_home: Path, write_tree: WriteTree
) -> None:
    vade("sources", "add", "folder", str(write_tree({"a.md": LONG})), "--name", "n")
    (vade_home / "backup").mkdir()
    shutil.copy(vade_home / "index-1.db", vade_home / "backup" / "index-1.db")
    removed = vade("sources", "remove", "n", "--json")
    assert removed.rc == 1
    assert {Path(found["file"]).parent.name for found in removed.json["proof"]["residue"]} == {"backup"}


def test_what_another_source_rightly_holds_is_no_residue(vade: Vade, write_tree: WriteTree) -> None:
    name = "Quarterly planning meeting.md"
    mine = write_tree({f"a/{name}": LONG, f"b/{name}": "", "b/other.md": "Elasticsearch in a sentence"})
    (mine / "a" / "tagged.md").write_text("---\ntags: [elasticsearch, knowledge-base]\n---\nx")
    for folder in "ab":
        vade("sources", "add", "folder", str(mine / folder), "--name", folder)
    assert vade("sources", "remove", "a", "--json").json["proof"]["clean"]


def test_a_folder_that_can_be_listed_and_not_entered_keeps_its_notes(public_tmp: Path, vade: Vade) -> None:
    for name in ("home", "state", "vault"):
        (public_tmp / name).mkdir(mode=0o777)
        (public_tmp / name).chmod(0o777)
    closed = public_tmp / "vault" / "f"
    closed.mkdir()
    for i in range(3):
        (closed / f"{i}.md").write_text("zebra")
    (public_tmp / "vault" / "open.md").write_text("zebra")
    as_nobody = {"vade_home": public_tmp / "state", "home": public_tmp / "home", "as_user": NOBODY}
    vade("sources", "add", "folder", str(public_tmp / "vault"), **as_nobody)
    closed.chmod(0o444)
    synced = vade("sources", "sync", "--json", **as_nobody).json["sources"][0]["sync"]
    closed.chmod(0o755)
    assert (synced["documents"], synced["removed"], synced["state"]) == (4, 0, "degraded")
    assert synced["skipped"]["count"] == 0


@pytest.mark.parametrize("offline", [False, True])
def test_what_is_excluded_leaves_also_when_the_rest_is_held_or_offline(
    vade: Vade, write_tree: WriteTree, tmp_path: Path, offline: bool
) -> None:
    root = write_tree({f"s/{i}.md": "zebra" for i in range(25)})
    vade("sources", "add", "folder", str(root), "--name", "n")
    if offline:
        root.rename(tmp_path / "away")
    vade("sources", "edit", "n", "--exclude", "s/**")
    assert vade("recall", "zebra", "--json").json["hits"] == []


def test_one_strange_manifest_does_not_silence_the_other_sources(vade: Vade, write_tree: WriteTree) -> None:
    root = write_tree({"bad/a.md": "zebra", "good/b.md": "zebra"})
    (root / "bad" / "vault-manifest.json").write_text(json.dumps({"user_content_roots": ["a" * 300]}))
    for name in ("bad", "good"):
        assert vade("sources", "add", "folder", str(root / name)).rc == 0
    assert paths(vade("recall", "zebra", "--json")) == {"b.md"}


def test_a_folder_or_a_link_of_the_same_name_hides_no_note(vade: Vade, write_tree: WriteTree) -> None:
    root = write_tree({"a/Projects.md": "mine", "a/Projects/x.md": "other", "b/y.md": "z"})
    (root / "b" / "x.md").symlink_to("/etc/hostname")
    for name in ("a", "b"):
        vade("sources", "add", "folder", str(root / name))
    assert vade("read", "Projects").out == "mine\n"
    assert vade("read", root / "a" / "Projects").out == "mine\n"
    assert vade("read", "x.md").out == "other\n"


def test_a_heading_may_hold_what_a_path_may_not(vade: Vade, write_tree: WriteTree) -> None:
    vade("sources", "add", "folder", str(write_tree({"n.md": "# Install to C:\\Tools\n\nzebra"})))
    assert "zebra" in vade("read", "n.md#Install to C:\\Tools").out
    assert vade("read", "..\\x.md", "--json").json["error"]["code"] == "outside_root"


def test_the_day_of_a_note_follows_its_file(vade: Vade, write_tree: WriteTree) -> None:
    root = write_tree({"n.md": "zebra", "d.md": "---\ndate: 2020-02-02\n---\nzebra"})
    for day in (1577836800, 1714867200):  # 2020-01-01, 2024-05-05
        for note in root.iterdir():
            os.utime(note, (day, day))
        vade("sources", "add", "folder", str(root))
    assert paths(vade("recall", "zebra", "--since", "2024-01-01", "--json")) == {"n.md"}
    assert paths(vade("recall", "zebra", "--until", "2021-01-01", "--json")) == {"d.md"}


def test_content_is_bounded_however_long_the_path_is(vade: Vade, tmp_path: Path) -> None:
    folder = tmp_path / "v"
    for i in range(6):
        folder = folder / (str(i) * 150)
    folder.mkdir(parents=True)
    (folder / "n.md").write_text("---\naliases: [quokka]\n---\n" + "word " * 20_000)
    vade("sources", "add", "folder", str(tmp_path / "v"))
    hit = vade("recall", "quokka", "--json").json["hits"][0]
    assert len(hit["content"]) <= 900
    assert hit["content"].startswith("[Folder note: ")


@pytest.mark.parametrize("tag", ["project/", "#Project/X/", "caf\u00e9"])
def test_a_tag_is_found_however_it_is_typed(vade: Vade, write_tree: WriteTree, tag: str) -> None:
    vade("sources", "add", "folder", str(write_tree({"n.md": "---\ntags: [project/x, cafe\u0301]\n---\nzebra"})))
    assert paths(vade("recall", "zebra", "--tag", tag, "--json")) == {"n.md"}


@pytest.mark.parametrize(
    ("how", "rc"),
    [
        ("recall x </dev/null", 0),
        ("read nope.md 2>&-", 3),
        ("status >&-", 0),
    ],
)
def test_a_lost_folder_or_stream_is_no_crash(vade_home: Path, tmp_path: Path, how: str, rc: int) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    done = subprocess.run(
        ["bash", "-c", f'rmdir "{gone}"; "{sys.executable}" -P -m vademecum {how}'],
        cwd=gone,
        env={**clean_environment(), "VADE_HOME": str(vade_home), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == rc
    assert "should not happen" not in done.stderr
