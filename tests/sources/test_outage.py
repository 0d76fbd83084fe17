"""An outage is not a deletion: files in a cloud, drives that are away, roots that are suddenly empty."""

import errno
import json
import os
import shutil
import subprocess
import sys
import time
import unicodedata
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from process import NOBODY, Finished, clean_environment, offline_prefix
from vademecum.access import OWNER
from vademecum.config import file_lock
from vademecum.errors import NoteEvicted
from vademecum.sources import Source
from vademecum.vault import is_dataless, read_note_bytes
from workbench import PROJECT, Workbench, files_on_disk, live_documents

WriteTree = Callable[..., Path]
Later = Callable[[float], None]
Vade = Callable[..., Finished]


class Cloud:
    """Makes reads fail, as a cloud that holds the content does, through the one argument that there is for it.

    `fails` maps the name of a file, or of its folder, to the number of the error; each failure takes `seconds`.
    """

    def __init__(self) -> None:
        self.fails: dict[str, int] = {}
        self.seconds = 0.0
        self.clock = 0.0
        self.tried: list[str] = []

    def read_note_bytes(self, path: str, *, max_bytes: int) -> Any:
        def read(descriptor: int, count: int) -> bytes:
            number = self.fails.get(Path(path).name) or self.fails.get(Path(path).parent.name)
            if number is None:
                return os.read(descriptor, count)
            self.tried.append(Path(path).name)
            self.clock += self.seconds
            raise OSError(number, os.strerror(number))

        return read_note_bytes(path, max_bytes=max_bytes, read=read)


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch) -> Cloud:
    made = Cloud()
    real = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: real() + made.clock)
    for reader in ("vademecum.sources.folder.read_note_bytes", "vademecum.vault.read_note_bytes"):
        monkeypatch.setattr(reader, made.read_note_bytes)
    return made


def nobody_at(folder: Path) -> Any:
    """What makes the command run as an unprivileged user, with its state in this folder."""
    for name in ("home", "state"):
        (folder / name).mkdir()
        (folder / name).chmod(0o777)
    return {"vade_home": folder / "state", "home": folder / "home", "as_user": NOBODY}


def skipped(bench: Workbench, source: Source) -> dict[str, str]:
    listed = bench.app.index.skipped(bench.app.index.sources()[source.id].row, limit=1000)
    return dict(listed)


# ── files that list and cannot be read


def test_c01_many_files_in_a_cloud_are_one_sentence_and_all_of_them_in_the_list(
    bench: Workbench, write_tree: WriteTree, cloud: Cloud
) -> None:
    root = write_tree({f"{i:02}.md": f"heron {i}" for i in range(12)} | {"ok1.md": "pelican", "ok2.md": "stork"})
    source = bench.add(root)
    (root / "new.md").write_text("crane")
    cloud.fails = {f"{i:02}.md": errno.EDEADLK for i in range(12)} | {"new.md": errno.EDEADLK}
    report = bench.sync(source, force=True)
    assert (report.documents, report.removed, report.state) == (14, 0, "degraded")
    assert dict(report.skipped) == {"evicted": 1}
    assert report.documents + report.skipped.total() == files_on_disk(root)
    [line] = report.diagnostics
    assert line == (
        "13 notes are not on this machine (Resource deadlock avoided); what was indexed of them stays: 00.md, 01.md,"
        " 02.md and 10 more. Have the app of their cloud keep the folder on this device, then sync"
    )
    assert skipped(bench, source) == dict.fromkeys([f"{i:02}.md" for i in range(12)] + ["new.md"], "evicted")
    assert bench.found("pelican") == ["ok1.md"]
    assert len(bench.found("heron", limit=20)) == 12
    cloud.fails = {}
    report = bench.sync(source)
    assert (report.documents, report.state, report.diagnostics) == (15, "healthy", [])
    assert skipped(bench, source) == {}


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (errno.EDEADLK, "evicted"),
        (errno.EAGAIN, "evicted"),
        (errno.EIO, "evicted"),
        (errno.ETIMEDOUT, "evicted"),
        (errno.ESTALE, "evicted"),
        (errno.ENOTCONN, "evicted"),
        (errno.EACCES, "unreadable"),
        (errno.EPERM, "unreadable"),
        (errno.EINVAL, "unreadable"),
    ],
)
def test_c01_what_a_cloud_holds_is_told_from_what_may_not_be_read(
    bench: Workbench, write_tree: WriteTree, cloud: Cloud, number: int, reason: str
) -> None:
    root = write_tree({"ok.md": "pelican", "other.md": "heron"})
    source = bench.add(root)
    cloud.fails = {"other.md": number}
    report = bench.sync(source, force=True)
    assert skipped(bench, source) == {"other.md": reason}
    assert (report.documents, report.removed, report.state) == (2, 0, "degraded")
    assert os.strerror(number) in report.diagnostics[0]


def test_c01_two_kinds_of_failure_are_two_sentences(bench: Workbench, write_tree: WriteTree, cloud: Cloud) -> None:
    root = write_tree({f"{i}.md": "heron" for i in range(6)})
    source = bench.add(root)
    cloud.fails = {"0.md": errno.EIO, "1.md": errno.ETIMEDOUT, "2.md": errno.EACCES}
    report = bench.sync(source, force=True)
    assert [line.partition(";")[0] for line in report.diagnostics] == [
        "1 note cannot be read (Permission denied)",
        "2 notes are not on this machine (Connection timed out, Input/output error)",
    ]


def test_c01_the_command_prints_one_line_and_show_every_file(
    vade: Vade, public_tmp: Path, write_tree: WriteTree
) -> None:
    as_nobody = nobody_at(public_tmp)
    root = write_tree({f"{i}.md": "heron" for i in range(9)}, public_tmp / "v")
    vade("sources", "add", "folder", root, "--name", "n", **as_nobody)
    for path in root.iterdir():
        path.chmod(0o000)
    done = vade("sources", "sync", "--force", **as_nobody)
    assert done.rc == 0
    assert [line for line in done.err.splitlines() if ".md" in line] == [
        "note: 9 notes cannot be read (Permission denied); what was indexed of them stays: 0.md, 1.md, 2.md and 6 more"
    ]
    shown = vade("sources", "show", "n", **as_nobody)
    assert sum("(unreadable)" in line for line in shown.out.splitlines()) == 9


def test_many_closed_folders_are_one_sentence(public_tmp: Path, vade: Vade, write_tree: WriteTree) -> None:
    as_nobody = nobody_at(public_tmp)
    root = write_tree({f"d{i}/{n}.md": "heron" for i in range(6) for n in range(5)} | {"top.md": "x"}, public_tmp / "v")
    vade("sources", "add", "folder", root, **as_nobody)
    for i in range(5):
        (root / f"d{i}").chmod(0o000)
    report = vade("sources", "sync", "--json", **as_nobody).json["sources"][0]["sync"]
    assert (report["documents"], report["removed"], report["state"]) == (31, 0, "degraded")
    assert report["diagnostics"] == [
        "5 folders cannot be listed (Permission denied); what was indexed below them stays: d0, d1, d2 and 2 more"
    ]
    for i in range(5):
        (root / f"d{i}").chmod(0o755)
    shutil.rmtree(root / "d4")
    report = vade("sources", "sync", "--json", **as_nobody).json["sources"][0]["sync"]
    assert (report["documents"], report["removed"], report["state"]) == (26, 5, "healthy")


# ── a cloud that hangs


def test_c01_a_cloud_that_takes_a_minute_for_each_file_costs_a_run_one_of_them(
    bench: Workbench, write_tree: WriteTree, cloud: Cloud
) -> None:
    root = write_tree({f"cloud/{i:02}.md": f"heron {i}" for i in range(20)} | {"z/ok.md": "pelican"})
    cloud.fails, cloud.seconds = {"cloud": errno.ETIMEDOUT}, 8
    source, _, report = bench.app.add("folder", str(root))
    assert len(cloud.tried) == 1
    assert bench.found("pelican") == ["z/ok.md"]  # another folder is not given up
    assert dict(report.skipped) == {"evicted": 1, "postponed": 19}
    assert report.documents + report.skipped.total() == files_on_disk(root)
    assert len(report.diagnostics) == 2
    for _ in range(19):
        bench.sync(source)
    assert sorted(cloud.tried) == [f"{i:02}.md" for i in range(20)]  # each has had its turn
    cloud.fails = {}
    report = bench.sync(source)
    assert (report.documents, report.state, dict(report.skipped)) == (21, "healthy", {})


def test_c01_many_hanging_folders_do_not_add_up_without_end(
    bench: Workbench, write_tree: WriteTree, cloud: Cloud
) -> None:
    root = write_tree({f"{i:02}/cloud/{n}.md": f"heron {i}" for i in range(20) for n in range(3)})
    source = bench.add(root)
    cloud.fails, cloud.seconds = {"cloud": errno.EIO}, 12
    before = cloud.clock
    report = bench.sync(source, force=True)
    assert cloud.clock - before <= 36  # half a minute, and the one that was under way
    assert (report.documents, report.removed, report.unchanged, report.state) == (60, 0, 60, "degraded")
    assert report.skipped == {}


def test_c01_a_note_that_was_indexed_and_is_not_tried_keeps_answering(
    bench: Workbench, write_tree: WriteTree, cloud: Cloud
) -> None:
    root = write_tree({f"cloud/{i}.md": f"heron {i}" for i in range(5)})
    source = bench.add(root)
    cloud.fails, cloud.seconds = {"cloud": errno.EIO}, 60
    bench.sync(source, force=True)
    assert set(skipped(bench, source).values()) == {"evicted", "postponed"}
    assert len(bench.found("heron")) == 5


def test_c01_failures_that_cost_nothing_are_all_tried(bench: Workbench, write_tree: WriteTree, cloud: Cloud) -> None:
    root = write_tree({f"cloud/{i:03}.md": "heron" for i in range(300)})
    cloud.fails = {"cloud": errno.EDEADLK}
    _, _, report = bench.app.add("folder", str(root))
    assert len(cloud.tried) == 300
    assert dict(report.skipped) == {"evicted": 300}


# ── what macOS says of a file in a cloud


def test_a_file_whose_flags_say_that_a_cloud_holds_it_is_told() -> None:
    assert is_dataless(SimpleNamespace(st_flags=0x40000000 | 0x20))  # type: ignore[arg-type]
    assert not is_dataless(SimpleNamespace(st_flags=0x20))  # type: ignore[arg-type]
    assert not is_dataless(os.stat("/"))


def test_a_note_that_only_moved_to_a_cloud_is_still_the_one_that_was_indexed(
    bench: Workbench, write_tree: WriteTree, cloud: Cloud, later: Later
) -> None:
    """Size, modification time and inode stay then; the time of the status change does not."""
    root = write_tree({"a.md": "heron", "b.md": "pelican"})
    later(100)
    source = bench.add(root)
    (root / "a.md").chmod(0o600)
    cloud.fails = {"a.md": errno.EDEADLK}
    report = bench.sync(source)
    assert cloud.tried == ["a.md"]
    assert (report.state, report.unchanged, report.diagnostics) == ("healthy", 2, [])
    cloud.tried.clear()
    assert bench.sync(source).state == "healthy"
    [hit] = bench.recall("heron", caller=PROJECT).hits
    assert not hit.stale
    assert cloud.tried == []


def test_a_note_that_changed_in_the_cloud_keeps_its_old_text_and_shows_it_as_stale_to_its_owner_alone(
    bench: Workbench, write_tree: WriteTree, cloud: Cloud, later: Later
) -> None:
    root = write_tree({"a.md": "heron", "b.md": "pelican"})
    later(100)
    source = bench.add(root)
    (root / "a.md").write_text("---\nprivate: true\n---\nheron of mine")
    cloud.fails = {"a.md": errno.EDEADLK}
    report = bench.sync(source)
    assert (report.state, report.documents, skipped(bench, source)) == ("degraded", 2, {"a.md": "evicted"})
    [hit] = bench.recall("heron").hits
    assert hit.stale
    answer = bench.recall("heron", caller=PROJECT)
    assert answer.hits == ()
    assert answer.receipt.withheld == {"evicted": 1}


# ── placeholders of iCloud


@pytest.fixture
def placeholder() -> Callable[[Path], Path]:
    """Take a note away as older versions of iCloud do."""

    def evict(note: Path) -> Path:
        left = note.with_name(f".{note.name}.icloud")
        left.write_bytes(b"bplist00")
        note.unlink(missing_ok=True)
        return left

    return evict


def test_a_note_whose_placeholder_is_left_is_evicted_not_deleted(
    bench: Workbench, write_tree: WriteTree, placeholder: Callable[[Path], Path]
) -> None:
    root = write_tree({"d/a.md": "heron", "b.md": "pelican"})
    source = bench.add(root)
    left = placeholder(root / "d/a.md")
    report = bench.sync(source)
    assert (report.documents, report.removed, report.state, dict(report.skipped)) == (2, 0, "degraded", {})
    assert report.documents + report.skipped.total() == files_on_disk(root)
    assert skipped(bench, source) == {"d/a.md": "evicted"}
    [hit] = bench.recall("heron").hits
    assert (hit.path, hit.stale) == ("d/a.md", True)
    assert bench.recall("heron", caller=PROJECT).receipt.withheld == {"evicted": 1}
    with pytest.raises(NoteEvicted):
        bench.app.read("d/a.md", OWNER)
    (root / "d/a.md").write_text("heron")
    left.unlink()
    report = bench.sync(source)
    assert (report.documents, report.state, report.diagnostics) == (2, "healthy", [])
    assert not bench.recall("heron").hits[0].stale
    (root / "d/a.md").unlink()
    assert bench.sync(source).documents == 1


def test_a_placeholder_of_a_note_that_never_was_here_is_counted(
    bench: Workbench, write_tree: WriteTree, placeholder: Callable[[Path], Path]
) -> None:
    decomposed = unicodedata.normalize("NFD", "Café.md")
    root = write_tree({"b.md": "pelican", "out/x.md": "x", "both.md": "stork"})
    for name in ("new.md", "pic.png", "out/y.md", decomposed, ".secret.md", "both.md"):
        placeholder(root / name)
    (root / "both.md").write_text("stork")
    source, _, report = bench.app.add("obsidian", str(root), exclude=["out/**"])
    assert bench.paths(source) == {"b.md", "both.md"}
    assert report.skipped["evicted"] == 2  # new.md and Café.md
    assert report.documents + report.skipped.total() == files_on_disk(root)
    evicted = {path for path, reason in skipped(bench, source).items() if reason == "evicted"}
    assert evicted == {"new.md", unicodedata.normalize("NFC", "Café.md")}


# ── a root that is suddenly empty, or nearly so


@pytest.mark.parametrize(
    ("indexed", "gone", "held"),
    [
        (19, 19, False),
        (20, 20, True),
        (20, 19, False),
        (22, 20, True),
        (23, 20, False),
        (40, 38, True),
        (100, 89, False),
        (100, 90, True),
        (300, 299, True),
        (300, 200, False),
    ],
)
def test_c02_twenty_notes_and_nine_tenths_of_all_are_not_believed_gone_at_once(
    bench: Workbench, write_tree: WriteTree, indexed: int, gone: int, held: bool
) -> None:
    root = write_tree({f"{i}.md": f"wombat {i}" for i in range(indexed)})
    source = bench.add(root)
    for i in range(gone):
        (root / f"{i}.md").unlink()
    report = bench.sync(source)
    assert report.held is held
    assert (report.documents, report.removed) == ((indexed, 0) if held else (indexed - gone, gone))
    if held:
        assert report.state == ("empty" if gone == indexed else "degraded")
        assert f"{gone} of {indexed} notes are gone at once" in report.diagnostics[0]
        report = bench.sync(source)
        assert (report.held, report.documents, report.removed) == (False, indexed - gone, gone)
        assert report.state == ("empty" if gone == indexed else "healthy")


def test_c02_a_vault_that_is_unmounted_and_mounted_again_costs_no_embedding(
    vade_home: Path, write_tree: WriteTree, later: Later
) -> None:
    bench = Workbench(vade_home, embedding_model="hashing")
    root = write_tree({f"{i}.md": f"wombat number {i}" for i in range(40)})
    later(100)
    source = bench.add(root)
    assert bench.embed().embedded == 40
    away = root.with_name("vault.off")
    root.rename(away)
    report = bench.sync(source)
    assert (report.state, report.documents) == ("unreachable", 40)
    root.mkdir()
    report = bench.sync(source)
    assert (report.state, report.documents, report.held) == ("empty", 40, True)
    answer = bench.recall("wombat", limit=50)
    assert len(answer.hits) == 40
    assert all(hit.stale for hit in answer.hits)
    assert [place["name"] for place in answer.receipt.as_json()["offline"]] == [source.name]
    root.rmdir()
    away.rename(root)
    report = bench.sync(source)
    assert (report.state, report.documents, report.unchanged, report.diagnostics) == ("healthy", 40, 40, [])
    assert bench.embed().embedded == 0
    answer = bench.recall("wombat", limit=50)
    assert len(answer.hits) == 40
    assert not any(hit.stale for hit in answer.hits)
    assert answer.receipt.as_json()["offline"] == []
    bench.close()


def test_c02_while_a_loss_is_held_what_is_gone_answers_and_is_stale(bench: Workbench, write_tree: WriteTree) -> None:
    root = write_tree({f"{i}.md": f"wombat {i}" for i in range(40)})
    source = bench.add(root)
    for i in range(38):
        (root / f"{i}.md").unlink()
    assert bench.sync(source).held
    answer = bench.recall("wombat", limit=50)
    assert (len(answer.hits), answer.receipt.withheld) == (40, {})
    assert all(hit.stale for hit in answer.hits)
    bench.sync(source)
    answer = bench.recall("wombat", limit=50)
    assert [hit.stale for hit in answer.hits] == [False, False]


def test_c02_scans_that_nobody_asked_for_neither_believe_a_loss_nor_count_as_meeting_it(
    bench: Workbench, write_tree: WriteTree
) -> None:
    root = write_tree({f"{i}.md": f"wombat {i}" for i in range(40)})
    source = bench.add(root)
    for i in range(38):
        (root / f"{i}.md").unlink()
    for _ in range(3):
        report = bench.app.sync(source, automatic=True)
        assert (report.held, report.documents, report.state) == (True, 40, "degraded")
    assert sum(hit.stale for hit in bench.recall("wombat", limit=50).hits) >= 38
    assert bench.sync(source).held  # the first that somebody asked for
    assert bench.app.sync(source, automatic=True).held
    report = bench.sync(source)
    assert (report.held, report.documents) == (False, 2)


def test_c02_notes_that_moved_are_not_lost(bench: Workbench, write_tree: WriteTree) -> None:
    root = write_tree({f"{i}.md": f"wombat {i}" for i in range(40)})
    source = bench.add(root)
    (root / "deep").mkdir()
    for i in range(38):
        (root / f"{i}.md").rename(root / f"deep/{i}.md")
    report = bench.sync(source)
    assert (report.held, report.added, report.removed, report.documents) == (False, 38, 38, 40)


def test_c02_notes_that_are_ignored_now_are_not_lost_and_leave_also_while_others_are_held(
    bench: Workbench, write_tree: WriteTree
) -> None:
    root = write_tree({f"out/{i}.md": "wombat" for i in range(60)} | {f"{i}.md": "numbat" for i in range(25)})
    source = bench.add(root)
    bench.app.registry.edit(source.id, exclude=["out/**"])
    report = bench.sync(source)
    assert (report.held, report.removed, report.documents) == (False, 60, 25)
    bench.app.registry.edit(source.id, exclude=["[none]"])
    assert bench.sync(source).documents == 85
    bench.app.registry.edit(source.id, exclude=["out/**"])
    for i in range(24):
        (root / f"{i}.md").unlink()
    report = bench.sync(source)
    assert (report.held, report.removed, report.documents) == (True, 60, 25)
    assert "24 of 25 notes" in report.diagnostics[0]


@pytest.mark.parametrize("turned", [b"", b" \n", b"\x00GITCRYPT\x00"], ids=["empty", "blank", "encrypted"])
def test_c02_notes_that_all_turn_into_nothing_are_held_too(
    bench: Workbench, write_tree: WriteTree, turned: bytes
) -> None:
    """What a sync tool leaves that lost its disk, and a vault that was locked."""
    root = write_tree({f"{i}.md": f"wombat {i}" for i in range(30)})
    source = bench.add(root)
    for path in root.iterdir():
        path.write_bytes(turned)
    report = bench.sync(source)
    assert (report.held, report.removed, report.documents, dict(report.skipped)) == (True, 0, 30, {})
    assert report.documents + report.skipped.total() == files_on_disk(root)
    assert len(bench.found("wombat", limit=50)) == 30
    report = bench.sync(source)
    assert (report.held, report.removed, report.documents) == (False, 30, 0)
    assert report.documents + report.skipped.total() == files_on_disk(root)


def test_c02_an_outage_after_a_hold_begins_the_count_anew(bench: Workbench, write_tree: WriteTree) -> None:
    root = write_tree({f"{i}.md": "wombat" for i in range(25)})
    source = bench.add(root)
    root.rename(root.with_name("away"))
    root.mkdir()
    assert bench.sync(source).held
    root.rmdir()
    assert bench.sync(source).state == "unreachable"
    root.mkdir()
    report = bench.sync(source)
    assert (report.held, report.documents) == (True, 25)


def lock_of(bench: Workbench, source: Source) -> Path:
    return bench.settings.run_dir / f"sync-{source.id.replace(':', '-')}.lock"


def test_c02_syncs_that_were_asked_for_at_once_are_no_second_opinion(bench: Workbench, write_tree: WriteTree) -> None:
    root = write_tree({f"{i}.md": "wombat" for i in range(25)})
    source = bench.add(root)
    root.rename(root.with_name("away"))
    root.mkdir()
    with file_lock(lock_of(bench, source), wait_s=10, what="the test"):
        children = [start(bench, "sources", "sync", "--json") for _ in range(3)]
        deadline = time.monotonic() + 30
        waiting = 0
        while waiting < 3 and time.monotonic() < deadline:
            waiting = sum(holds_open(child.pid, lock_of(bench, source)) for child in children)
            time.sleep(0.05)
        assert waiting == 3
        time.sleep(0.2)
    ended = [child.communicate(timeout=60) for child in children]
    reports = [json.loads(out)["sources"][0]["sync"] for out, _ in ended]
    assert [report["held"] for report in reports] == [True, True, True]
    assert len(live_documents(bench.settings)) == 25
    assert bench.sync(source).documents == 0


def holds_open(pid: int, path: Path) -> bool:
    try:
        return any(os.path.realpath(entry) == str(path) for entry in Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return False


def environment(bench: Workbench) -> dict[str, str]:
    home = bench.settings.home
    return {**clean_environment(), "VADE_HOME": str(home), "HOME": str(home.parent)}


def start(bench: Workbench, *arguments: str | Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "vademecum", "--as-owner", *map(str, arguments)],
        env=environment(bench),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
    )


def test_c02_whoever_meant_it_says_so(vade: Vade, write_tree: WriteTree) -> None:
    root = write_tree({f"{i}.md": f"wombat {i}" for i in range(30)})
    vade("sources", "add", "folder", root, "--name", "n")
    for i in range(29):
        (root / f"{i}.md").unlink()
    held = vade("sources", "sync")
    assert held.rc == 0
    [line] = [line for line in held.err.splitlines() if "gone at once" in line]
    said = line.partition("`vade ")[2].partition("`")[0].split()
    assert said[-1] == "--accept-loss"
    done = vade(*said, "--json")
    assert (done.json["sync"]["removed"], done.json["sync"]["documents"]) == (29, 1)
    refused = vade("sources", "sync", "--accept-loss")
    assert refused.rc == 2


def test_c02_a_loss_is_accepted_at_once_without_a_first_sync(bench: Workbench, write_tree: WriteTree) -> None:
    root = write_tree({f"{i}.md": "wombat" for i in range(30)})
    source = bench.add(root)
    for path in root.iterdir():
        path.unlink()
    report = bench.app.sync(bench.app.registry.find(source.id), accept_loss=True)
    assert (report.held, report.removed, report.documents) == (False, 30, 0)


def test_c02_a_root_that_holds_nothing_still_serves_by_the_manifest_it_had(
    bench: Workbench, write_tree: WriteTree
) -> None:
    """The manifest and the ignore list are gone with the notes; that they are is no permission."""
    root = write_tree(
        {f"brain/{i}.md": f"wombat {i}" for i in range(15)}
        | {f"mine/{i}.md": f"numbat {i}" for i in range(15)}
        | {"drafts/d.md": "quokka"}
        | {"vault-manifest.json": json.dumps({"mcp_exposed_roots": ["brain"]})}
        | {".obsidian/app.json": json.dumps({"userIgnoreFilters": ["drafts/"]})}
    )
    source = bench.add(root)
    assert bench.recall("numbat", caller=PROJECT).hits == ()
    away = root.with_name("away")
    root.rename(away)
    root.mkdir()
    assert bench.sync(source).held
    answer = bench.recall("numbat", caller=PROJECT)
    assert (answer.hits, answer.receipt.withheld) == ((), {"outside_roots": 15})
    assert len(bench.recall("wombat", caller=PROJECT, limit=50).hits) == 15
    assert bench.app.index.sources()[source.id].ignore_filters == ("drafts",)


# ── a root that goes away under the reading


@pytest.fixture
def while_reading(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], None]], None]:
    """Let something happen at the first read of a note, before it is opened."""

    def arrange(happens: Callable[[], None]) -> None:
        pending = [happens]

        def reading(path: str, *, max_bytes: int) -> Any:
            if pending:
                pending.pop()()
            return read_note_bytes(path, max_bytes=max_bytes)

        monkeypatch.setattr("vademecum.sources.folder.read_note_bytes", reading)

    return arrange


def test_a_root_that_goes_away_while_it_is_read_is_an_outage(
    bench: Workbench, write_tree: WriteTree, while_reading: Callable[[Callable[[], None]], None]
) -> None:
    root = write_tree(
        {f"{i}.md": f"wombat {i}" for i in range(15)}
        | {"vault-manifest.json": json.dumps({"mcp_exposed_roots": ["none"]})}
    )
    source = bench.add(root)
    while_reading(lambda: (root.rename(root.with_name("away")), None)[1])
    report = bench.sync(source, force=True)
    assert (report.state, report.documents, report.removed) == ("unreachable", 15, 0)
    answer = bench.recall("wombat", caller=PROJECT)
    assert (answer.hits, answer.receipt.withheld) == ((), {"outside_roots": 15})
    root.with_name("away").rename(root)
    report = bench.sync(source)
    assert (report.state, report.documents) == ("healthy", 15)


def test_a_root_that_is_emptied_while_it_is_read_proves_nothing_yet(
    bench: Workbench, write_tree: WriteTree, while_reading: Callable[[Callable[[], None]], None]
) -> None:
    root = write_tree({f"{i}.md": f"wombat {i}" for i in range(15)})
    source = bench.add(root)

    def unmount() -> None:
        root.rename(root.with_name("away"))
        root.mkdir()

    while_reading(unmount)
    report = bench.sync(source, force=True)
    assert (report.documents, report.removed) == (15, 0)
    assert bench.sync(source).documents == 0


def test_a_note_that_vanishes_between_listing_and_reading_is_gone(
    bench: Workbench, write_tree: WriteTree, while_reading: Callable[[Callable[[], None]], None]
) -> None:
    root = write_tree({"a.md": "wombat", "b.md": "numbat"})
    source = bench.add(root)
    while_reading((root / "b.md").unlink)
    report = bench.sync(source, force=True)
    assert (report.documents, report.removed, report.state, dict(report.skipped)) == (1, 1, "healthy", {})
    assert bench.found("numbat") == []


# ── what may stand in a root's place


@pytest.mark.parametrize("become", ["file", "link", "dangling link", "nothing"])
def test_whatever_stands_in_the_place_of_a_root_drops_nothing(
    bench: Workbench, write_tree: WriteTree, tmp_path: Path, become: str
) -> None:
    root = write_tree({"a.md": "wombat"})
    source = bench.add(root)
    away = root.with_name("away")
    root.rename(away)
    if become == "file":
        root.write_text("x")
    elif become == "link":
        root.symlink_to(write_tree({"b.md": "numbat"}, tmp_path / "elsewhere"))
    elif become == "dangling link":
        root.symlink_to("nowhere")
    for _ in range(2):
        report = bench.sync(source)
        assert (report.state, report.documents, report.removed) == ("unreachable", 1, 0)
    assert bench.found("numbat") == []
    [hit] = bench.recall("wombat").hits
    assert hit.stale
    if become != "nothing":
        root.unlink()
    away.rename(root)
    assert bench.sync(source).state == "healthy"


def test_another_file_system_mounted_over_a_root_is_held(bench: Workbench, write_tree: WriteTree) -> None:
    root = write_tree({f"{i}.md": "wombat" for i in range(25)})
    source = bench.add(root)
    if not offline_prefix():
        pytest.skip("only root may mount in a namespace of its own")
    vade = f"'{sys.executable}' -P -m vademecum --as-owner sources sync {source.id} --json"
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", f"mount -t tmpfs none '{root}' && {vade}"],
        env=environment(bench),
        capture_output=True,
        text=True,
        check=False,
    )
    if "mount" in done.stderr and done.returncode == 32:
        pytest.skip(f"mounting is not allowed here: {done.stderr.strip()}")
    report = json.loads(done.stdout)["sync"]
    assert (report["held"], report["documents"], report["state"]) == (True, 25, "empty")
    assert bench.sync(source).state == "healthy"


def test_the_reading_of_a_file_in_a_cloud_is_its_own_error(tmp_path: Path) -> None:
    def read(descriptor: int, count: int) -> bytes:
        raise OSError(errno.EDEADLK, os.strerror(errno.EDEADLK))

    (tmp_path / "n.md").write_text("x")
    with pytest.raises(NoteEvicted) as caught:
        read_note_bytes(str(tmp_path / "n.md"), max_bytes=10, read=read)
    assert caught.value.why == os.strerror(errno.EDEADLK)
    assert "cloud" in caught.value.hint
