"""The index follows the folder: what changed is noticed, what is gone goes, and an outage is never a deletion."""

import errno
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import unicodedata
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import apsw
import pytest

from process import NOBODY, clean_environment, run_vade
from vademecum.access import OWNER
from vademecum.doctor import examine
from vademecum.errors import NoteUnreadable, OutsideRoot, SourceDisabled
from vademecum.sources import Source
from vademecum.vault import read_note_bytes
from workbench import (
    Workbench,
    content,
    counts,
    files_on_disk,
    files_with,
    live_documents,
    selected,
    settle,
)

WriteTree = Callable[..., Path]
Later = Callable[[float], None]


def changes(report: Any) -> tuple[int, int, int, int]:
    return report.added, report.updated, report.removed, report.unchanged


# ── what a sync notices


def test_what_is_added_changed_gone_and_untouched_is_counted(bench: Workbench, write_tree: WriteTree) -> None:
    root = write_tree({"a.md": "wombat", "b.md": "numbat", "c.md": "quokka"})
    source, created, report = bench.app.add("folder", str(root))
    assert created
    assert changes(report) == (3, 0, 0, 0)
    (root / "a.md").write_text("wombat changed")
    (root / "b.md").unlink()
    (root / "deep").mkdir()
    (root / "deep/d.md").write_text("bilby")
    report = bench.sync(source)
    assert changes(report) == (1, 1, 1, 1)
    assert (report.documents, report.state) == (3, "healthy")
    assert bench.paths(source) == {"a.md", "c.md", "deep/d.md"}
    assert [bench.found(word) for word in ("changed", "numbat", "bilby")] == [["a.md"], [], ["deep/d.md"]]
    assert changes(bench.sync(source)) == (0, 0, 0, 3)


def test_an_edited_note_answers_with_its_new_text_alone(bench: Workbench, write_tree: WriteTree) -> None:
    root = write_tree({"a.md": "# A\n\n" + "wombat " * 400 + "\n\n# B\n\nnumbat", "b.md": "other"})
    source = bench.add(root)
    (root / "a.md").write_text("# C\n\nquokka")
    bench.sync(source)
    assert [bench.found(word) for word in ("wombat", "numbat")] == [[], []]
    [hit] = bench.recall("quokka").hits
    assert hit.heading_path == ("C",)
    assert bench.app.index.integrity(thorough=True) == []


def test_the_note_indexed_last_keeps_its_chunks_findable_when_it_is_edited(
    bench: Workbench, write_tree: WriteTree
) -> None:
    root = write_tree({"a.md": "# A\n\nwombat"})
    source = bench.add(root)
    (root / "a.md").write_text("# C\n\nquokka")
    bench.sync(source)
    [hit] = bench.recall("quokka").hits
    assert not hit.whole_note
    assert bench.app.index.integrity(thorough=True) == []


def test_the_same_size_and_time_with_other_content_is_noticed(
    bench: Workbench, write_tree: WriteTree, later: Later
) -> None:
    root = write_tree({"a.md": "wombat one"})
    later(10)
    source = bench.add(root)
    assert changes(bench.sync(source)) == (0, 0, 0, 1)
    before = (root / "a.md").stat()
    (root / "a.md").write_text("numbat two")
    os.utime(root / "a.md", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (root / "a.md").stat().st_size == before.st_size
    assert changes(bench.sync(source)) == (0, 1, 0, 0)
    assert bench.found("numbat") == ["a.md"]


def test_a_note_saved_twice_within_the_grain_of_the_clock_is_noticed(bench: Workbench, write_tree: WriteTree) -> None:
    """A stamp younger than two seconds is not believed, so the file is read again and its content decides."""
    root = write_tree({"a.md": "wombat one"})
    source = bench.add(root)
    assert not any(row["settled"] for row in live_documents(bench.settings))
    with (root / "a.md").open("r+b") as file:
        file.write(b"numbat two")
    bench.sync(source)
    assert bench.found("numbat") == ["a.md"]


def test_a_touched_note_only_moves_its_stamp(bench: Workbench, write_tree: WriteTree, later: Later) -> None:
    root = write_tree({"a.md": "wombat"})
    later(10)
    source = bench.add(root)
    before = content(bench.settings), counts(bench.settings)
    [old] = live_documents(bench.settings)
    os.utime(root / "a.md", ns=(1, 1_600_000_000_000_000_000))
    report = bench.sync(source)
    assert changes(report) == (0, 0, 0, 1)
    [new] = live_documents(bench.settings)
    assert (content(bench.settings), counts(bench.settings)) == before
    assert new["mtime_ns"] == 1_600_000_000_000_000_000 != old["mtime_ns"]
    assert new["id"] == old["id"]


def test_a_settled_stamp_is_trusted_and_force_reads_all_the_same(
    bench: Workbench, write_tree: WriteTree, later: Later
) -> None:
    root = write_tree({"a.md": "wombat", "b.md": "numbat"})
    later(10)
    source = bench.add(root)
    read: list[str] = []
    source = bench.app.registry.find(source.id)
    bench.app.sync(source, progress=lambda done, total, path: read.append(path))
    assert read == []
    report = bench.app.sync(source, force=True, progress=lambda done, total, path: read.append(path))
    assert sorted(read) == ["a.md", "b.md"]
    assert changes(report) == (0, 0, 0, 2)


def test_a_copied_note_with_equal_text_is_a_note_of_its_own(bench: Workbench, write_tree: WriteTree) -> None:
    source = bench.add(write_tree({"a.md": "wombat", "b.md": "wombat"}))
    assert bench.paths(source) == {"a.md", "b.md"}
    assert set(bench.found("wombat")) == {"a.md", "b.md"}


def test_a_renamed_note_leaves_its_old_name(bench: Workbench, write_tree: WriteTree, later: Later) -> None:
    root = write_tree({"a.md": "wombat"})
    later(10)
    source = bench.add(root)
    (root / "a.md").rename(root / "b.md")
    assert changes(bench.sync(source)) == (1, 0, 1, 0)
    assert bench.found("wombat") == ["b.md"]


def test_c03_a_name_that_comes_back_in_the_other_unicode_form_is_the_same_note(
    bench: Workbench, write_tree: WriteTree
) -> None:
    decomposed, composed = (unicodedata.normalize(form, "Notes/Café.md") for form in ("NFD", "NFC"))
    root = write_tree({decomposed: "# x\nquetzal"})
    source = bench.add(root)
    (root / decomposed).rename(root / composed)
    report = bench.sync(source)
    assert report.documents == 1
    assert bench.found("quetzal") == [composed]
    assert bench.app.read(decomposed, OWNER).path == composed
    assert bench.app.read(composed, OWNER).source_path == str(root / composed)
    [row] = live_documents(bench.settings)
    assert row["disk_path"] == composed


def test_c03_a_decomposed_name_is_read_under_either_spelling(bench: Workbench, write_tree: WriteTree) -> None:
    decomposed, composed = (unicodedata.normalize(form, "Café.md") for form in ("NFD", "NFC"))
    root = write_tree({decomposed: "quetzal"})
    bench.add(root)
    for spelling in (decomposed, composed, str(root / composed), str(root / decomposed)):
        assert "quetzal" in bench.app.read(spelling, OWNER).text
    [hit] = bench.recall("quetzal").hits
    assert (hit.path, hit.source_path) == (composed, str(root / decomposed))
    assert Path(hit.source_path).exists()


# ── bad files


def test_bad_files_are_skipped_with_their_reason_and_cost_nobody_else_anything(
    vade_home: Path, write_tree: WriteTree
) -> None:
    bench = Workbench(vade_home, sources_max_file_bytes=1000)
    root = write_tree(
        {
            "good.md": "wombat",
            "empty.md": "",
            "blank.md": " \n\t\r\n\u00a0\n",
            "only mark.md": "\ufeff",
            "binary.md": b"text\x00wombat",
            "binary late.md": b"x" * 900 + b"\x00",
            "large.md": "wombat " * 200,
            "exact.md": "y" * 1000,
            "pic.png": b"\x89PNG",
        }
    )
    source, _, report = bench.app.add("folder", str(root))
    assert bench.paths(source) == {"good.md", "exact.md"}
    assert dict(report.skipped) == {"empty": 3, "binary": 2, "too_large": 1, "not_read": 1}
    assert report.documents + report.skipped.total() == files_on_disk(root)
    assert bench.found("wombat") == ["good.md"]
    shown = {entry["path"]: entry["reason"] for entry in bench.app.details(source)["skipped_files"]}
    assert shown["large.md"] == "too_large"
    assert shown["binary.md"] == "binary"
    bench.close()


@pytest.mark.parametrize(
    ("name", "bytes_", "word"),
    [
        ("invalid utf-8", b"caf\xe9 wombat \xff\xfe", "wombat"),
        ("byte order mark", b"\xef\xbb\xbf# wombat", "wombat"),
        ("crlf", b"# Head\r\n\r\nwombat\r\n", "wombat"),
        ("old mac", b"# Head\r\rwombat\r", "wombat"),
        ("nul far down", b"wombat " + b"x" * 9000 + b"\x00", "wombat"),
        ("one long line", b"wombat " * 50_000, "wombat"),
        ("no newline at the end", b"wombat", "wombat"),
        ("control characters", b"\x01\x02 wombat \x1b[31m", "wombat"),
    ],
)
def test_odd_bytes_cost_no_words(bench: Workbench, write_tree: WriteTree, name: str, bytes_: bytes, word: str) -> None:
    source = bench.add(write_tree({"n.md": bytes_}))
    assert bench.paths(source) == {"n.md"}
    assert bench.found(word) == ["n.md"]
    assert bench.app.index.integrity(thorough=True) == []


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32"])
def test_another_encoding_is_binary_and_said(bench: Workbench, write_tree: WriteTree, encoding: str) -> None:
    _, _, report = bench.app.add("folder", str(write_tree({"n.md": "# wombat".encode(encoding)})))
    assert dict(report.skipped) == {"binary": 1}


def test_lines_count_as_an_editor_shows_them_whatever_ends_them(bench: Workbench, write_tree: WriteTree) -> None:
    text = "---\ntitle: T\n---\n# One\n\nalpha\n\n# Two\n\nwombat\n"
    bench.add(write_tree({"lf.md": text, "crlf.md": text.replace("\n", "\r\n"), "bom.md": "\ufeff" + text}))
    lines = {hit.path: (hit.line_start, hit.line_end) for hit in bench.recall("wombat").hits}
    assert len(lines) == 3
    assert len(set(lines.values())) == 1
    [(first, last)] = set(lines.values())
    assert first <= 10 <= last


def test_c05_broken_or_fake_frontmatter_never_costs_the_body_or_the_run(
    bench: Workbench, write_tree: WriteTree
) -> None:
    root = write_tree(
        {
            "a.md": "---\ntitle: Ops: night shift\nowner: rota: b\n---\n# A\nnumbat text",
            "b.md": "--- columns: 2\n# Two columns\nwombat text",
            "c.md": "---\nkey: [unclosed\n---\n# C\nbandicoot text",
        }
    )
    source, _, report = bench.app.add("obsidian", str(root))
    assert (report.documents, report.warnings, report.state) == (3, 2, "healthy")
    for word, path in (("numbat", "a.md"), ("wombat", "b.md"), ("bandicoot", "c.md")):
        assert bench.found(word) == [path]
    warnings = {entry["path"]: entry["line"] for entry in bench.app.details(source)["warnings"]}
    assert set(warnings) == {"a.md", "c.md"}
    assert all(line in (1, 2, 3) for line in warnings.values())
    (root / "c.md").write_text("---\nkey: closed\n---\n# C\nbandicoot text")
    assert bench.sync(source).warnings == 1


def test_c05_from_the_command_line_a_bad_note_is_a_warning_and_exit_0(
    vade: Callable[..., Any], write_tree: WriteTree
) -> None:
    root = write_tree({"c.md": "---\nkey: [unclosed\n---\nbandicoot"})
    added = vade("sources", "add", "obsidian", root, "--json")
    assert added.rc == 0
    assert added.json["sync"]["warnings"] == 1
    shown = vade("sources", "show", added.json["source"]["id"])
    assert "c.md:" in shown.out
    assert vade("sources", "sync").rc == 0


def test_c08_code_is_no_tag_and_no_heading_and_a_dotted_title_is_whole(bench: Workbench, write_tree: WriteTree) -> None:
    text = (
        "```bash\n# not a heading\nwhile [[ $n -gt 3 ]]; do :; done\n```\n\n"
        "~~~toml\n[[sinks.file]]\n#nottag\n~~~\n\n`#alsonot` words\n"
    )
    bench.add(write_tree({"Releases/plan v3.1 draft.md": text, "other.md": "words"}))
    assert bench.found("words", tags=("nottag",)) == []
    assert bench.found("words", tags=("alsonot",)) == []
    hit = next(hit for hit in bench.recall("sinks").hits)
    assert hit.title == "plan v3.1 draft"
    assert "not a heading" not in " ".join(hit.heading_path)
    assert bench.app.read("plan v3.1 draft", OWNER).path == "Releases/plan v3.1 draft.md"


@pytest.mark.parametrize("seconds", [-5_000_000_000, -1, 0, 315_532_799, 253_402_300_800, 9_000_000_000])
def test_a_time_of_modification_that_no_calendar_expects_does_no_harm(
    bench: Workbench, write_tree: WriteTree, seconds: int
) -> None:
    root = write_tree({"n.md": "wombat"})
    os.utime(root / "n.md", (seconds, seconds))
    source = bench.add(root)
    [row] = live_documents(bench.settings)
    assert len(row["date"]) == 10
    assert "0001-01-01" <= row["date"] <= "9999-12-31"
    assert bench.found("wombat", since="0001-01-01", until="9999-12-31") == ["n.md"]
    assert bench.sync(source).state == "healthy"


@pytest.mark.parametrize("year", [1601, 1677, 1700, 1899, 1969, 1980, 2038, 2262, 2263, 9999])
def test_a_file_from_another_century_is_a_note(bench: Workbench, shm: Path, write_tree: WriteTree, year: int) -> None:
    root = write_tree({"n.md": "wombat", "m.md": "numbat"}, shm / "v")
    day = datetime(year, 1, 1, tzinfo=UTC)
    since_epoch = (day - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(seconds=1)
    os.utime(root / "n.md", (since_epoch, since_epoch))
    if (root / "n.md").stat().st_mtime != since_epoch:
        pytest.skip("this file system holds no such time")
    source = bench.add(root)
    for force in (False, True):
        report = bench.sync(source, force=force)
        assert (report.state, report.documents, report.unchanged) == ("healthy", 2, 2)
    assert bench.found("wombat", since="0001-01-01", until="9999-12-31") == ["n.md"]
    (root / "n.md").write_text("quokka")
    assert bench.sync(source).updated == 1
    assert bench.found("quokka") == ["n.md"]


@pytest.fixture
def shm() -> Iterator[Path]:
    """A folder on a file system that takes times from every century, where there is one."""
    base = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=base if base.is_dir() else None) as folder:
        yield Path(folder).resolve()


def test_bytes_that_are_no_unicode_are_a_warning_with_their_line(bench: Workbench, write_tree: WriteTree) -> None:
    root = write_tree({"n.md": b"# Caf\xc3\xa9\n\nwombat\ncaf\xe9\n", "m.md": "caf\u00e9 \ufffd"})
    source, _, report = bench.app.add("folder", str(root))
    assert (report.documents, report.warnings, report.state) == (2, 1, "healthy")
    [warning] = bench.app.details(source)["warnings"]
    assert (warning["path"], warning["line"]) == ("n.md", 4)
    assert "UTF-8" in warning["message"]
    (root / "n.md").write_text("wombat café")
    assert bench.sync(source).warnings == 0


def test_one_line_of_eight_megabytes_is_indexed_where_the_limit_allows_it(
    vade_home: Path, write_tree: WriteTree
) -> None:
    line = "".join(f"wombat{i % 997} " for i in range(800_000)).encode()
    line = line[: 8 << 20] + b" quokka"
    root = write_tree({"long.md": line, "short.md": "numbat"})
    bench = Workbench(vade_home)
    source, _, report = bench.app.add("folder", str(root))
    assert (report.documents, dict(report.skipped)) == (1, {"too_large": 1})
    bench.close()
    bench = Workbench(vade_home, sources_max_file_bytes=16 << 20)
    started = time.perf_counter()
    report = bench.sync(source)
    assert time.perf_counter() - started < 60
    assert (report.documents, report.state, dict(report.skipped)) == (2, "healthy", {})
    assert bench.found("quokka") == ["long.md"]
    [hit] = bench.recall("quokka", limit=1).hits
    assert len(hit.content) <= 900
    assert (hit.line_start, hit.line_end) == (1, 1)
    bench.close()


# ── names that are nearly one another's


def test_names_that_differ_in_case_alone_are_two_notes(bench: Workbench, write_tree: WriteTree) -> None:
    root = write_tree({"Note.md": "wombat", "note.md": "numbat", "D/x.md": "quokka", "d/x.md": "bilby"})
    if len(os.listdir(root)) < 4:
        pytest.skip("this file system does not tell case")
    source = bench.add(root)
    assert bench.paths(source) == {"Note.md", "note.md", "D/x.md", "d/x.md"}
    for word, path in (("wombat", "Note.md"), ("numbat", "note.md"), ("quokka", "D/x.md"), ("bilby", "d/x.md")):
        assert bench.found(word) == [path]
        assert word in bench.app.read(str(root / path), OWNER).text
    (root / "note.md").unlink()
    assert bench.sync(source).documents == 3
    assert (bench.found("wombat"), bench.found("numbat")) == (["Note.md"], [])


def test_a_rename_that_changes_case_alone_leaves_one_note_and_keeps_its_vectors(
    vade_home: Path, write_tree: WriteTree, later: Later
) -> None:
    bench = Workbench(vade_home, embedding_model="hashing")
    root = write_tree({"Folder/Note.md": "wombat", "other.md": "numbat"})
    later(10)
    source = bench.add(root)
    assert bench.embed().embedded == 2
    (root / "Folder/Note.md").rename(root / "Folder/note.md")
    assert changes(bench.sync(source)) == (1, 0, 1, 1)
    (root / "Folder").rename(root / "folder")
    assert changes(bench.sync(source)) == (1, 0, 1, 1)
    assert bench.found("wombat", lane="words") == ["folder/note.md"]
    assert bench.embed().embedded == 0
    bench.close()


def test_c03_folders_that_spell_one_name_in_two_ways_are_one_folder(bench: Workbench, write_tree: WriteTree) -> None:
    composed, decomposed = (unicodedata.normalize(form, "Café") for form in ("NFC", "NFD"))
    root = write_tree(
        {
            f"{composed}/a.md": "wombat",
            f"{decomposed}/b.md": "numbat",
            f"{composed}/both.md": "quokka one",
            f"{decomposed}/both.md": "quokka two",
        }
    )
    if len(os.listdir(root)) == 1:
        pytest.skip("this file system keeps one name for both spellings")
    source, _, report = bench.app.add("folder", str(root))
    assert bench.paths(source) == {f"{composed}/{name}.md" for name in ("a", "b", "both")}
    assert dict(report.skipped) == {"duplicate_name": 1}
    for word, name in (("wombat", "a"), ("numbat", "b")):
        [hit] = bench.recall(word).hits
        assert hit.path == f"{composed}/{name}.md"
        assert Path(hit.source_path).read_text() == word
        assert bench.app.read(f"{decomposed}/{name}.md", OWNER).text.strip() == word
    [kept] = bench.found("quokka")
    assert kept == f"{composed}/both.md"
    assert changes(bench.sync(source)) == (0, 0, 0, 3)
    first = Path(bench.recall("quokka").hits[0].source_path)
    first.unlink()  # then the other one is the note
    assert changes(bench.sync(source)) == (0, 1, 0, 2)
    assert Path(bench.recall("quokka").hits[0].source_path).exists()


# ── links, and files that become folders


def test_c24_links_to_files_and_folders_inside_and_outside_are_not_followed(
    bench: Workbench, write_tree: WriteTree, tmp_path: Path
) -> None:
    outside = write_tree({"o.md": "zqoutside", "deep/p.md": "zqoutside"}, tmp_path / "outside")
    root = write_tree({"in/a.md": "wombat"})
    (root / "out.md").symlink_to(outside / "o.md")
    (root / "out").symlink_to(outside)
    (root / "again.md").symlink_to(root / "in/a.md")
    (root / "again").symlink_to(root / "in")
    (root / "loop").symlink_to(root)
    source, _, report = bench.app.add("folder", str(root))
    assert bench.paths(source) == {"in/a.md"}
    assert dict(report.skipped) == {"symlink": 5}
    assert report.documents + report.skipped.total() == files_on_disk(root)
    assert files_with(bench.settings.home, "zqoutside") == []
    for path in ("out.md", "out/o.md", "again.md", "again/a.md", "loop/in/a.md"):
        with pytest.raises(OutsideRoot):
            bench.app.read(path, OWNER)


def test_a_folder_replaced_by_a_link_to_itself_elsewhere_leaves_the_index(
    bench: Workbench, write_tree: WriteTree, tmp_path: Path
) -> None:
    root = write_tree({"d/a.md": "wombat", "b.md": "numbat"})
    source = bench.add(root)
    (root / "d").rename(tmp_path / "d")
    (root / "d").symlink_to(tmp_path / "d")
    assert changes(bench.sync(source)) == (0, 0, 1, 1)
    assert bench.found("wombat") == []
    (root / "d").unlink()
    (tmp_path / "d").rename(root / "d")
    assert bench.sync(source).documents == 2
    assert bench.found("wombat") == ["d/a.md"]


def test_a_note_swapped_for_a_folder_and_back_is_followed(bench: Workbench, write_tree: WriteTree) -> None:
    root = write_tree({"n.md": "wombat", "d/a.md": "numbat"})
    source = bench.add(root)
    for _ in range(2):
        (root / "n.md").unlink()
        (root / "d/a.md").unlink()
        (root / "d").rmdir()
        write_tree({"n.md/inner.md": "quokka"}, root)
        (root / "d").write_text("no note")
        report = bench.sync(source)
        assert (bench.paths(source), report.state) == ({"n.md/inner.md"}, "healthy")
        assert report.documents + report.skipped.total() == files_on_disk(root)
        assert [bench.found(word) for word in ("wombat", "numbat", "quokka")] == [[], [], ["n.md/inner.md"]]
        (root / "n.md/inner.md").unlink()
        (root / "n.md").rmdir()
        (root / "d").unlink()
        write_tree({"n.md": "wombat", "d/a.md": "numbat"}, root)
        report = bench.sync(source)
        assert bench.paths(source) == {"n.md", "d/a.md"}
        assert [bench.found(word) for word in ("wombat", "numbat", "quokka")] == [["n.md"], ["d/a.md"], []]
    assert bench.app.index.integrity(thorough=True) == []


# ── what sync tools leave


def test_conflict_copies_are_notes_of_their_own_and_are_told_of(bench: Workbench, write_tree: WriteTree) -> None:
    copy = "d/Plan.sync-conflict-20240131-235959-K3XQ7AB.md"
    lone = "Gone (Ana's conflicted copy 2024-01-31).md"
    root = write_tree({"d/Plan.md": "wombat here", copy: "wombat there", lone: "numbat", "Peace (conflict).md": "x"})
    source, _, report = bench.app.add("folder", str(root))
    assert (report.documents, report.state, report.conflict_copies) == (4, "healthy", 2)
    [line] = report.diagnostics
    assert line.startswith("2 notes look like conflict copies of a sync tool")
    assert f"{copy} (of d/Plan.md)" in line
    assert set(bench.found("wombat")) == {"d/Plan.md", copy}
    listed = bench.app.details(source)["conflict_copies"]
    assert listed == [{"path": lone, "original": None}, {"path": copy, "original": "d/Plan.md"}]
    assert [check.ok for check in examine(bench.app) if check.name.startswith("source ")] == [True]
    (root / "d/Plan.md").unlink()
    (root / lone).unlink()
    report = bench.sync(source)
    assert report.diagnostics == [
        f"1 note looks like a conflict copy of a sync tool and is indexed as a note of its own: {copy}"
    ]
    assert bench.app.details(source)["conflict_copies"] == [{"path": copy, "original": None}]


def test_many_conflict_copies_are_one_sentence_and_each_is_shown(
    vade: Callable[..., Any], write_tree: WriteTree
) -> None:
    names = [f"n{i:02}" for i in range(30)]
    root = write_tree(dict.fromkeys((f"{name}.md" for name in names), "x"))
    write_tree({f"{name}.sync-conflict-20240131-235959-K3XQ7AB.md": f"y {name}" for name in names}, root)
    added = vade("sources", "add", "folder", root, "--name", "n")
    assert sum("conflict" in line for line in added.err.splitlines()) == 1
    assert "and 27 more" in added.err
    shown = vade("sources", "show", "n")
    assert sum("sync tool's conflict copy of n" in line for line in shown.out.splitlines()) == 30
    assert vade("sources", "show", "n", "--json").json["source"]["state"] == "healthy"


# ── a file that turns bad, or good


@pytest.mark.parametrize(
    ("turned", "reason"), [(b"", "empty"), (b"  \n", "empty"), (b"a\x00b", "binary"), (b"x" * 2001, "too_large")]
)
def test_a_note_that_turns_bad_leaves_the_index_and_returns_when_it_is_well(
    vade_home: Path, write_tree: WriteTree, turned: bytes, reason: str
) -> None:
    bench = Workbench(vade_home, sources_max_file_bytes=2000)
    root = write_tree({"n.md": "wombat", "m.md": "numbat"})
    source = bench.add(root)
    (root / "n.md").write_bytes(turned)
    report = bench.sync(source)
    assert (report.removed, dict(report.skipped), report.documents) == (1, {reason: 1}, 1)
    assert bench.found("wombat") == []
    again = bench.sync(source)
    assert (again.removed, dict(again.skipped)) == (0, {reason: 1})
    (root / "n.md").write_text("wombat is back")
    assert bench.sync(source).documents == 2
    assert bench.found("wombat") == ["n.md"]
    bench.close()


def test_a_note_replaced_by_a_link_leaves_the_index(bench: Workbench, write_tree: WriteTree) -> None:
    root = write_tree({"n.md": "wombat", "m.md": "numbat"})
    source = bench.add(root)
    (root / "n.md").unlink()
    (root / "n.md").symlink_to("/etc/hosts")
    report = bench.sync(source)
    assert (report.removed, dict(report.skipped)) == (1, {"symlink": 1})
    assert bench.found("localhost") == []
    assert files_with(bench.settings.home, "localhost") == []


# ── exclusions


def test_what_becomes_excluded_leaves_the_index_with_the_next_sync(bench: Workbench, write_tree: WriteTree) -> None:
    root = write_tree({"keep.md": "wombat", "private/a.md": "wombat zqxsecret", "Templates/t.md": "wombat"})
    source = bench.add(root)
    assert bench.sync(source).documents == 3
    bench.app.registry.edit(source.id, exclude=["private/"])
    (root / ".obsidian").mkdir()
    (root / ".obsidian/app.json").write_text(json.dumps({"userIgnoreFilters": ["Templates/"]}))
    report = bench.sync(source)
    assert (report.removed, report.documents, report.skipped["excluded"]) == (2, 1, 2)
    assert bench.paths(source) == {"keep.md"}
    assert bench.found("wombat") == ["keep.md"]
    assert selected(bench.settings, "select 1 from chunk where body like '%zqxsecret%'") == []


def test_the_last_known_ignore_list_stands_while_the_vault_s_own_cannot_be_read(
    bench: Workbench, write_tree: WriteTree
) -> None:
    root = write_tree({"keep.md": "x", "T/t.md": "x", ".obsidian/app.json": '{"userIgnoreFilters": ["T/"]}'})
    source = bench.add(root)
    (root / ".obsidian/app.json").write_text("{ torn")
    report = bench.sync(source)
    assert report.documents == 1
    assert any("app.json" in line for line in report.diagnostics)
    (root / ".obsidian/app.json").write_text("{}")
    assert bench.sync(source).documents == 2


def test_a_plain_folder_has_no_ignore_list_of_its_own(bench: Workbench, write_tree: WriteTree) -> None:
    root = write_tree({"T/t.md": "x", ".obsidian/app.json": '{"userIgnoreFilters": ["T/"]}'})
    assert bench.paths(bench.add(root, "folder")) == {"T/t.md"}


# ── outages


def test_a_root_that_is_away_keeps_every_row_and_says_since_when(bench: Workbench, write_tree: WriteTree) -> None:
    root = write_tree({f"{i}.md": f"wombat {i}" for i in range(40)})
    source = bench.add(root)
    indexed_at = bench.app.describe(source)["last_indexed_at"]
    root.rename(root.with_name("vault.off"))
    report = bench.sync(source)
    assert (report.state, report.documents, report.removed) == ("unreachable", 40, 0)
    assert report.diagnostics
    assert len(live_documents(bench.settings)) == 40
    described = bench.app.describe(source)
    assert described["state"] == "unreachable"
    assert described["last_indexed_at"] == indexed_at
    since = described["stale_since"]
    assert since
    bench.sync(source)
    assert bench.app.describe(source)["stale_since"] == since
    root.with_name("vault.off").rename(root)
    report = bench.sync(source)
    assert (report.state, report.documents, report.removed, report.updated) == ("healthy", 40, 0, 0)
    assert bench.app.describe(source)["stale_since"] is None


def test_a_root_suddenly_empty_is_held_once_and_believed_the_second_time(
    bench: Workbench, write_tree: WriteTree
) -> None:
    root = write_tree({f"{i}.md": f"wombat {i}" for i in range(20)})
    source = bench.add(root)
    away = root.with_name("away")
    root.rename(away)
    root.mkdir()
    report = bench.sync(source)
    assert (report.held, report.removed, report.documents) == (True, 0, 20)
    assert any("20" in line for line in report.diagnostics)
    assert len(bench.recall("wombat", limit=30).receipt.searched) == 1
    report = bench.sync(source)
    assert (report.held, report.removed, report.documents) == (False, 20, 0)


def test_a_root_that_fills_again_forgets_that_it_was_held(bench: Workbench, write_tree: WriteTree) -> None:
    root = write_tree({f"{i}.md": f"wombat {i}" for i in range(25)})
    source = bench.add(root)
    away = root.with_name("away")
    for _ in range(2):
        root.rename(away)
        root.mkdir()
        assert bench.sync(source).held
        root.rmdir()
        away.rename(root)
        report = bench.sync(source)
        assert (report.held, report.documents, report.state) == (False, 25, "healthy")


def test_an_outage_between_two_empty_scans_does_not_count_as_agreement(bench: Workbench, write_tree: WriteTree) -> None:
    root = write_tree({f"{i}.md": f"wombat {i}" for i in range(25)})
    source = bench.add(root)
    root.rename(root.with_name("away"))
    assert bench.sync(source).state == "unreachable"
    root.mkdir()
    report = bench.sync(source)
    assert (report.held, report.documents) == (True, 25)


def test_nineteen_notes_that_go_are_just_gone(bench: Workbench, write_tree: WriteTree) -> None:
    root = write_tree({f"{i}.md": "wombat" for i in range(19)})
    source = bench.add(root)
    for path in root.iterdir():
        path.unlink()
    report = bench.sync(source)
    assert (report.held, report.removed, report.documents, report.state) == (False, 19, 0, "empty")


def test_a_walk_cut_short_removes_nothing(vade_home: Path, write_tree: WriteTree) -> None:
    root = write_tree({f"{i}/n.md": "wombat" for i in range(10)})
    bench = Workbench(vade_home)
    source = bench.add(root)
    bench.close()
    bench = Workbench(vade_home, sources_max_files=4)
    report = bench.sync(source)
    assert (report.removed, report.documents, report.state) == (0, 10, "degraded")
    assert any("4" in line for line in report.diagnostics)
    bench.close()


def as_nobody(public_tmp: Path, *arguments: str | Path) -> Any:
    home = public_tmp / "home"
    home.mkdir(exist_ok=True)
    home.chmod(0o777)
    done = run_vade("--as-owner", *arguments, "--json", vade_home=public_tmp / "state", home=home, as_user=NOBODY)
    assert "Traceback" not in done.err
    return done


def test_a_folder_that_cannot_be_listed_keeps_what_was_indexed_below_it(
    public_tmp: Path, write_tree: WriteTree
) -> None:
    root = write_tree({"open.md": "wombat", "closed/in.md": "numbat", "closed/deep/er.md": "quokka"}, public_tmp / "v")
    assert as_nobody(public_tmp, "sources", "add", "folder", root).json["sync"]["documents"] == 3
    (root / "closed").chmod(0o000)
    done = as_nobody(public_tmp, "sources", "sync")
    assert done.rc == 0
    report = done.json["sources"][0]["sync"]
    assert (report["documents"], report["removed"], report["state"]) == (3, 0, "degraded")
    assert any("closed" in line for line in report["diagnostics"])
    (root / "closed").chmod(0o755)
    (root / "closed/deep/er.md").unlink()
    report = as_nobody(public_tmp, "sources", "sync").json["sources"][0]["sync"]
    assert (report["documents"], report["removed"], report["state"]) == (2, 1, "healthy")


def test_a_file_that_cannot_be_read_keeps_its_rows_or_is_counted(public_tmp: Path, write_tree: WriteTree) -> None:
    root = write_tree({"open.md": "wombat", "shut.md": "numbat"}, public_tmp / "v")
    as_nobody(public_tmp, "sources", "add", "folder", root)
    (root / "shut.md").chmod(0o000)
    (root / "new.md").write_text("quokka")
    (root / "new.md").chmod(0o000)
    report = as_nobody(public_tmp, "sources", "sync", "--force").json["sources"][0]["sync"]
    assert (report["documents"], report["removed"], report["state"]) == (2, 0, "degraded")
    assert report["skipped"] == {"count": 1, "by_reason": {"unreadable": 1}}
    assert sum("shut.md" in line for line in report["diagnostics"]) <= 1
    answer = as_nobody(public_tmp, "recall", "numbat").json
    assert [hit["stale"] for hit in answer["hits"]] in ([], [True])
    assert answer["hits"] or answer["receipt"]["withheld"]["count"] == 1


def test_a_root_that_may_no_longer_be_listed_is_an_outage(public_tmp: Path, write_tree: WriteTree) -> None:
    root = write_tree({"a.md": "wombat"}, public_tmp / "v")
    as_nobody(public_tmp, "sources", "add", "folder", root)
    root.chmod(0o000)
    done = as_nobody(public_tmp, "sources", "sync")
    assert done.rc == 4
    assert done.json["sources"][0]["sync"]["state"] == "unreachable"
    answer = as_nobody(public_tmp, "recall", "wombat").json
    assert [(hit["path"], hit["stale"]) for hit in answer["hits"]] == [("a.md", True)]
    assert len(answer["receipt"]["offline"]) == 1


def test_c01_files_that_list_but_do_not_read_keep_their_rows_and_stop_nobody(
    bench: Workbench, write_tree: WriteTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Evicted placeholders, through the one fake there is: a read that fails."""
    root = write_tree({"ok1.md": "pelican", "gone.md": "heron", "ok2.md": "stork"})
    source = bench.add(root)
    (root / "new.md").write_text("crane")

    def evicted(path: str, *, max_bytes: int) -> Any:
        def read(descriptor: int, count: int) -> bytes:
            if Path(path).name in {"gone.md", "new.md"}:
                raise OSError(errno.EDEADLK, "Resource deadlock avoided")
            return os.read(descriptor, count)

        return read_note_bytes(path, max_bytes=max_bytes, read=read)

    with monkeypatch.context() as patch:
        patch.setattr("vademecum.sources.folder.read_note_bytes", evicted)
        report = bench.sync(source, force=True)
    assert (report.documents, report.removed, dict(report.skipped)) == (3, 0, {"evicted": 1})
    assert sum("gone.md" in line for line in report.diagnostics) == 1
    assert bench.found("heron") == ["gone.md"]
    assert bench.found("pelican") == ["ok1.md"]
    assert bench.sync(source).documents == 4
    with pytest.raises(NoteUnreadable):
        evicted(str(root / "gone.md"), max_bytes=10)


# ── what a removed file leaves


def test_a_removed_file_leaves_a_row_without_text(bench: Workbench, write_tree: WriteTree) -> None:
    text = "---\ntitle: zqtitle\naliases: [zqalias]\ntags: [zqtag]\nextra: zqproperty\n---\n# zqheading\n\nzqbody"
    root = write_tree({"a.md": text, "b.md": "kept"})
    source = bench.add(root)
    (root / "a.md").unlink()
    bench.sync(source)
    [row] = selected(bench.settings, "select * from document where removed_at is not null")
    assert row["path"] == "a.md"
    assert row["fingerprint"]
    assert not any("zq" in str(value) for value in row.values())
    assert counts(bench.settings)["document"] == 2
    assert counts(bench.settings)["chunk"] == 1
    assert bench.found("zqbody") == []
    (root / "a.md").write_text(text)
    report = bench.sync(source)
    assert report.documents == 2
    assert bench.found("zqbody") == ["a.md"]


def test_thirty_days_later_that_row_is_gone_too(
    bench: Workbench, write_tree: WriteTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = write_tree({"a.md": "wombat", "b.md": "kept"})
    source = bench.add(root)
    (root / "a.md").unlink()
    monkeypatch.setattr("vademecum.sources.sync.now", lambda: "2025-01-01T00:00:00Z")
    bench.sync(source)
    monkeypatch.setattr("vademecum.sources.sync.now", lambda: "2025-01-30T00:00:00Z")
    bench.sync(source)
    assert counts(bench.settings)["document"] == 2
    monkeypatch.setattr("vademecum.sources.sync.now", lambda: "2025-02-01T00:00:00Z")
    bench.sync(source)
    assert counts(bench.settings)["document"] == 1


# ── the source is only read


def test_no_byte_time_or_mode_of_a_vault_changes(
    bench: Workbench, example_vault: Path, vault_bytes: Callable[[Path], object]
) -> None:
    before = vault_bytes(example_vault)
    source = bench.add(example_vault)
    bench.sync(source, force=True)
    bench.recall("redis")
    bench.app.read("Home", OWNER)
    examine(bench.app)
    bench.app.remove(source.id)
    assert vault_bytes(example_vault) == before


def test_a_vault_on_a_read_only_folder_is_indexed(public_tmp: Path, write_tree: WriteTree) -> None:
    root = write_tree({"a.md": "wombat", "d/b.md": "numbat"}, public_tmp / "v")
    for path in (root / "d", root):
        path.chmod(0o555)
    assert as_nobody(public_tmp, "sources", "add", "obsidian", root).json["sync"]["documents"] == 2


def test_a_disabled_source_is_not_scanned_and_not_searched(bench: Workbench, write_tree: WriteTree) -> None:
    root = write_tree({"a.md": "wombat"})
    source = bench.add(root)
    disabled = bench.app.registry.edit(source.id, enabled=False)
    with pytest.raises(SourceDisabled):
        bench.app.sync(disabled)
    assert bench.found("wombat") == []
    assert counts(bench.settings)["document"] == 1
    bench.app.registry.edit(source.id, enabled=True)
    assert bench.found("wombat") == ["a.md"]


# ── several processes, and processes that die


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-P", "-m", "vademecum", "--as-owner", *map(str, arguments)]


def start(bench: Workbench, *arguments: str | Path) -> subprocess.Popen[str]:
    home = bench.settings.home.parent
    return subprocess.Popen(
        command(*arguments),
        env={**clean_environment(), "VADE_HOME": str(bench.settings.home), "HOME": str(home)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
    )


def many_notes(count: int, seed: int = 1) -> dict[str, str]:
    random_ = random.Random(seed)
    words = [f"word{i}" for i in range(500)]
    return {
        f"{i % 7}/note {i}.md": f"---\ntags: [t{i % 5}]\n---\n# Note {i}\n\n"
        + "\n\n".join(" ".join(random_.choices(words, k=60)) for _ in range(6))
        for i in range(count)
    }


def fresh_content(root: Path, source: Source, home: Path) -> list[tuple[Any, ...]]:
    fresh = Workbench(home)
    fresh.add(root, source.kind)
    said = content(fresh.settings)
    fresh.close()
    return said


def test_two_processes_that_sync_at_once_index_every_note_once(
    bench: Workbench, write_tree: WriteTree, tmp_path: Path
) -> None:
    root = write_tree(many_notes(150))
    source, _ = bench.app.registry.add("folder", str(root))
    children = [start(bench, "sources", "sync", "--json") for _ in range(3)]
    ended = [(*child.communicate(timeout=100), child.returncode) for child in children]
    assert [rc for _, _, rc in ended] == [0, 0, 0], ended
    reports = [json.loads(out)["sources"][0]["sync"] for out, _, _ in ended]
    assert sum(report["added"] for report in reports) == 150
    assert all(report["documents"] == 150 for report in reports)
    assert content(bench.settings) == fresh_content(root, source, tmp_path / "fresh")
    assert bench.app.index.integrity(thorough=True) == []


def killed_and_healed(
    bench: Workbench, root: Path, source: Source, fresh: list[tuple[Any, ...]], after_s: float
) -> str:
    """Kill a sync so long after its start, then sync and compare; what the kill met."""
    child = start(bench, "sources", "sync", "--force")
    time.sleep(after_s)
    child.send_signal(signal.SIGKILL)
    child.communicate()
    met = f"killed with {committed(bench) if bench.settings.index_file.exists() else 'no'} notes"
    healed = start(bench, "sources", "sync", "--json")
    out, err = healed.communicate(timeout=100)
    assert healed.returncode == 0, (met, err)
    assert json.loads(out)["sources"][0]["sync"]["documents"] == len(list(root.rglob("*.md")))
    assert content(bench.settings) == fresh, met
    assert bench.app.index.integrity(thorough=True) == [], met
    bench.close()
    assert [path for path in bench.settings.home.iterdir() if "tmp" in path.name] == []
    return met


@pytest.mark.parametrize("after_s", [0.25, 0.5, 0.9])
def test_a_sync_killed_anywhere_is_healed_by_the_next(
    bench: Workbench, write_tree: WriteTree, tmp_path: Path, after_s: float
) -> None:
    root = write_tree(many_notes(300))
    source, _ = bench.app.registry.add("folder", str(root))
    killed_and_healed(bench, root, source, fresh_content(root, source, tmp_path / "fresh"), after_s)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_sync_killed_at_many_moments_over_a_changing_vault_is_healed(
    bench: Workbench, write_tree: WriteTree, tmp_path: Path
) -> None:
    root = write_tree(many_notes(300))
    source, _ = bench.app.registry.add("folder", str(root))
    random_ = random.Random(7)
    for round_ in range(25):
        for path in random_.sample(sorted(root.rglob("*.md")), 20):
            path.unlink()
        write_tree(dict(random_.sample(sorted(many_notes(300, seed=round_).items()), 60)), root)
        fresh = fresh_content(root, source, tmp_path / f"fresh{round_}")
        killed_and_healed(bench, root, source, fresh, random_.uniform(0.1, 1.2))


def test_a_sync_interrupted_keeps_what_was_finished_and_goes_on(bench: Workbench, write_tree: WriteTree) -> None:
    root = write_tree(many_notes(600))
    bench.app.registry.add("folder", str(root))
    child = start(bench, "sources", "sync")
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and not (bench.settings.index_file.exists() and committed(bench)):
        time.sleep(0.02)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=60)
    assert child.returncode == 130, (out, err)
    assert "Traceback" not in err
    assert "Interrupted" in err
    assert out == ""
    kept = counts(bench.settings)["document"]
    assert 0 < kept < 600
    ended = start(bench, "sources", "sync", "--json")
    report = json.loads(ended.communicate(timeout=60)[0])["sources"][0]["sync"]
    assert report["documents"] == 600
    assert report["added"] == 600 - kept


def committed(bench: Workbench) -> int:
    try:
        return counts(bench.settings)["document"]
    except apsw.Error:  # not there yet, or just being made
        return 0


def test_the_whole_result_depends_on_the_files_alone_not_on_the_way_there(
    bench: Workbench, write_tree: WriteTree, tmp_path: Path
) -> None:
    root = write_tree(many_notes(60))
    source = bench.add(root, "folder")
    random_ = random.Random(3)
    for round_ in range(6):
        paths = sorted(root.rglob("*.md"))
        for path in random_.sample(paths, 8):
            path.unlink()
        for path in random_.sample([p for p in paths if p.exists()], 8):
            path.write_text(f"# Rewritten {round_}\n\nwombat {round_}")
        write_tree({f"new/{round_}-{i}.md": f"# New\n\nnumbat {i}" for i in range(5)}, root)
        bench.sync(source)
    assert content(bench.settings) == fresh_content(root, source, tmp_path / "fresh")


def test_stamps_settle_by_waiting_alone(bench: Workbench, write_tree: WriteTree) -> None:
    root = write_tree({"a.md": "wombat"})
    source = bench.add(root)
    settle()
    bench.sync(source)
    assert [row["settled"] for row in live_documents(bench.settings)] == [1]
    read: list[str] = []
    bench.app.sync(source, progress=lambda done, total, path: read.append(path))
    assert read == []
