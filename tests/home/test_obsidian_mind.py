"""A vault of obsidian-mind's shape as the home vault: read, recalled and written, and no other file changed."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from obsidian_mind import HUMAN_NOTE, SERVED_MEMORIES, build_obsidian_mind
from process import Finished
from vademecum.access import ANONYMOUS, OWNER, Caller
from vademecum.doctor import examine
from vademecum.home import Standing
from workbench import Workbench

Vade = Callable[..., Finished]
Snapshots = Callable[[Path], Mapping[str, Any]]
KESTREL = Caller("kestrel", (), "folder")


@pytest.fixture
def brain(tmp_path: Path) -> Path:
    return build_obsidian_mind(tmp_path / "Brain")


def test_everything_that_is_there_is_served_and_nothing_that_is_none(vade_home: Path, brain: Path) -> None:
    bench = Workbench(vade_home, vault_path=str(brain))
    try:
        bench.sync(bench.app.home.ensure())
        listed = bench.app.memories.list(OWNER, limit=1000)
        assert listed["total"] == len(SERVED_MEMORIES)
        assert HUMAN_NOTE not in str(listed)
        assert bench.app.memories.list(ANONYMOUS)["total"] < listed["total"]
        for caller in (KESTREL, ANONYMOUS):
            for hit in bench.recall("the", caller=caller, limit=100).hits:
                assert hit.memory is not None or not hit.path.startswith(("memories/", ".claude", "templates/"))
    finally:
        bench.close()


def test_work_on_it_changes_no_file_but_its_own(
    vade: Vade, tmp_path: Path, brain: Path, vault_bytes: Snapshots
) -> None:
    before = vault_bytes(brain)
    assert vade("vault", "use", brain).rc == 0
    assert vade("recall", "storage", "--json").rc == 0
    assert vade("memories", "list").rc == 0
    assert vault_bytes(brain) == before
    made = vade("remember", "quartz: a new thing entirely", "--json").json["path"]
    assert vade("record-work", "--title", "Moved", "--summary", "From here to there.").rc == 0
    assert vade("memories", "modify", made, "--reason", "so", "--type", "rule").rc == 0
    assert vade("memories", "forget", made).rc == 0
    assert vade("memories", "restore", made).rc == 0
    after = vault_bytes(brain)
    changed = {path for path, (content, *_) in before.items() if content is not None and after[path] != before[path]}
    assert changed == set()
    new = {path for path, (content, *_) in after.items() if content is not None} - set(before)
    assert {path.partition("/")[0] for path in new} <= {"memories", ".vade", "inbox", "projects"}
    assert made in new


def test_its_manifest_decides_what_else_is_served(vade_home: Path, brain: Path) -> None:
    bench = Workbench(vade_home, vault_path=str(brain))
    try:
        source = bench.app.home.ensure()
        bench.sync(source)
        told = bench.app.home.as_json()
        assert told["policy"]["origin"] in ("manifest", "derived")
        assert told["memory_root"] == "memories"
        shown = bench.app.artifacts(source, KESTREL, limit=1000)["artifacts"]
        assert not [row for row in shown if row["path"].startswith(("templates/", "AGENTS"))]
    finally:
        bench.close()


@pytest.mark.parametrize("manifest", ["{ broken", "[]", ""])
def test_a_broken_manifest_widens_nothing_and_loses_no_memory(vade_home: Path, brain: Path, manifest: str) -> None:
    (brain / "vault-manifest.json").write_text(manifest)
    bench = Workbench(vade_home, vault_path=str(brain))
    try:
        source = bench.app.home.ensure()
        bench.sync(source)
        told = bench.app.home.as_json()
        assert told["policy"]["origin"] == "fallback"
        assert told["diagnostics"]
        assert bench.app.memories.list(OWNER, limit=1000)["total"] == len(SERVED_MEMORIES)
        served = {
            row["path"].partition("/")[0] for row in bench.app.artifacts(source, ANONYMOUS, limit=1000)["artifacts"]
        }
        assert served <= {"brain", "reference", "memories"}
    finally:
        bench.close()


def test_a_memory_folder_that_was_renamed_is_followed_and_told_of(vade_home: Path, brain: Path) -> None:
    (brain / "memories").rename(brain / "lessons")
    bench = Workbench(vade_home, vault_path=str(brain))
    try:
        who = Standing(OWNER, "kestrel", inside=False)
        assert bench.app.memories.list(OWNER, limit=1000)["total"] == len(SERVED_MEMORIES)
        path = bench.app.memories.remember({"body": "quartz is hard"}, who).memory.path
        assert path.startswith("lessons/")
        assert not (brain / "memories").exists()
        assert any("lessons/" in line for line in bench.app.home.as_json()["diagnostics"])
        (check,) = [check for check in examine(bench.app) if check.name == "home vault"]
        assert not check.ok
        assert "lessons/" in check.detail
        assert bench.recall("quartz").hits[0].path == path
    finally:
        bench.close()


def test_a_vault_names_its_source_and_a_name_that_is_taken_is_refused(vade: Vade, tmp_path: Path, brain: Path) -> None:
    manifest = brain / "vault-manifest.json"
    manifest.write_text(manifest.read_text().replace('"qmd_index": ""', '"qmd_index": "second-brain"'))
    other = tmp_path / "other"
    other.mkdir()
    vade("sources", "add", "folder", other, "--name", "Second-Brain")
    refused = vade("vault", "use", brain)
    assert (refused.rc, "Second-Brain" in refused.err or "second-brain" in refused.err) == (1, True)
    assert "rename" in refused.err
    assert str(brain) not in vade("vault", "show").out
    vade("sources", "rename", "Second-Brain", "Other")
    used = vade("vault", "use", brain)
    assert (used.rc, "Source: second-brain" in used.out) == (0, True), used
