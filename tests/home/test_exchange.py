"""Memories out of one vault and into another, byte for byte."""

from pathlib import Path

import pytest

from vademecum.access import OWNER, Caller
from vademecum.errors import UsageError
from vademecum.home import Standing
from workbench import Workbench

PERSON = Standing(OWNER, "kestrel", inside=False)
HERON = Standing(Caller("heron", (), "folder"), "heron", inside=False)


def files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*.md")}


def fill(bench: Workbench) -> None:
    for number in range(5):
        said = {"body": f"lesson {number} about {['quartz', 'feldspar', 'mica', 'talc', 'gneiss'][number]}"}
        bench.app.memories.remember(said, PERSON)
    bench.app.memories.remember({"body": "a correction: basalt", "supersedes": ["lesson 1 about feldspar"]}, PERSON)


def test_what_is_exported_and_imported_into_an_empty_vault_is_the_same_byte_for_byte(
    bench: Workbench, tmp_path: Path
) -> None:
    fill(bench)
    out = tmp_path / "out"
    assert len(bench.app.memories.export(out, PERSON).written) == 6
    other = Workbench(tmp_path / "other-home")
    try:
        done = other.app.memories.bring_in(out, PERSON)
        assert (len(done.written), done.refused, done.indexed) == (6, [], True)
        assert files(other.app.home.root / "memories") == files(bench.app.home.root / "memories") == files(out)
        assert other.recall("basalt").hits[0].title == "a correction: basalt"
        again = other.app.memories.bring_in(out, PERSON)
        assert (again.written, len(again.there)) == ([], 6)
        assert other.app.memories.history("lesson 0 about quartz", PERSON)[0].event == "imported"
    finally:
        other.close()


def test_only_what_reaches_who_exports_is_exported(bench: Workbench, tmp_path: Path) -> None:
    fill(bench)
    assert bench.app.memories.export(tmp_path / "out", HERON).written == []


def test_another_memory_of_the_same_name_is_not_overwritten(bench: Workbench, tmp_path: Path) -> None:
    path = bench.app.memories.remember({"body": "lesson about quartz"}, PERSON).memory.path
    place = tmp_path / "in" / path.removeprefix("memories/")
    place.parent.mkdir(parents=True)
    place.write_text("---\nsource: mcp-capture\nscope: general\ndate: 2026-01-01\n---\n\n# Other\n\nOther words.\n")
    held = (bench.app.home.root / path).read_bytes()
    done = bench.app.memories.bring_in(tmp_path / "in", PERSON)
    assert done.written == [path.replace(".md", " (2).md")]
    assert (bench.app.home.root / path).read_bytes() == held


def test_what_is_no_memory_or_holds_a_secret_is_left_out_and_told(bench: Workbench, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "note.md").write_text("# A note\n")
    (folder / "loose.md").write_text(
        "---\nsource: mcp-capture\nscope: general\ndate: 2026-03-04\n---\n\n# Loose\n\nIn no month.\n"
    )
    (folder / "bad.md").write_bytes(b"---\nsource: mcp-capture\n---\n\xff\xfe")
    key = "AKIA" + "Q7ZK3M9PLX2V5B8N"
    (folder / "key.md").write_text(f"---\nsource: mcp-capture\nscope: general\n---\n\n# Key\n\n{key}\n")
    done = bench.app.memories.bring_in(folder, PERSON)
    assert done.written == ["memories/2026/03/loose.md"]
    assert [path for path, _ in done.refused] == ["bad.md", "key.md", "note.md"]
    assert key not in str(done.refused)


def test_a_folder_in_the_vault_takes_no_export(bench: Workbench) -> None:
    fill(bench)
    with pytest.raises(UsageError):
        bench.app.memories.export(bench.app.home.root / "copy", PERSON)
    with pytest.raises(UsageError):
        bench.app.memories.bring_in(bench.app.home.root / "nothing", PERSON)
