"""Removed means gone: no row, no word, no byte, whoever reads or dies meanwhile, and nobody else loses anything."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from process import clean_environment
from vademecum.access import OWNER
from vademecum.errors import NoteNotFound, SourceNotFound, SourceRemoved, SourcesFileCorrupt
from vademecum.index import Index
from vademecum.sources import Source
from workbench import PROJECT, Workbench, content, counts, files_with, indexed, selected

WriteTree = Callable[..., Path]
Vade = Callable[..., Any]

PLANTED = "zzqxv-7731"
WORDS = (
    "zzqxtitle",
    "zzqxbody",
    "zzqxtag",
    "zzqxalias",
    "zzqxheading",
    "zzqxpath",
    "zzqxproperty",
    "zzqxwarning",
    PLANTED,
)


def planted(text: str = "") -> dict[str, str]:
    """Notes with a word that stands nowhere else in every place a note has for one."""
    return {
        "zzqxpath folder/zzqxpath note.md": "---\ntitle: zzqxtitle of it\naliases: [zzqxalias name]\ntags: [zzqxtag]\n"
        f"extra: zzqxproperty value\n---\n# zzqxheading here\n\nIt says zzqxbody and {PLANTED} in a sentence. {text}\n",
        "plain.md": f"Another note that holds {PLANTED} and more ordinary words.",
        "broken.md": "---\nzzqxwarning: [never closed\n---\nwords",
        "zzqxpath empty.md": "",
    }


def left(bench: Workbench) -> list[str]:
    """What of the planted words the bytes of the state folder still hold, in any case and stemmed."""
    found = []
    for path in sorted(bench.settings.home.rglob("*")):
        if path.is_file():
            bytes_ = path.read_bytes().lower()
            found += [f"{word} in {path.name}" for word in (*WORDS, "zzqx") if word.encode() in bytes_]
    return found


# ── the whole of it


def test_c25_removed_means_gone_in_rows_answers_and_bytes(
    bench: Workbench, write_tree: WriteTree, vault_bytes: Callable[[Path], object]
) -> None:
    root = write_tree(planted())
    before = vault_bytes(root)
    source = bench.add(root)
    for word in (
        "zzqxtitle",
        "zzqxbody",
        "zzqxtag",
        "zzqxalias",
        "zzqxheading",
        "zzqxproperty",
        PLANTED,
        f'"{PLANTED}"',
    ):
        assert bench.found(word), word
    assert left(bench)
    removal = bench.app.remove(source.id)
    assert removal.proof.clean, removal.proof
    assert removal.purged.documents == 3
    assert left(bench) == []
    assert set(counts(bench.settings).values()) == {0}
    assert bench.recall(PLANTED).hits == ()
    for address in ("plain.md", str(root / "plain.md")):
        with pytest.raises(Exception) as caught:
            bench.app.read(address, OWNER)
        assert getattr(caught.value, "code", "") in {"note_not_found", "outside_root"}
    assert vault_bytes(root) == before
    assert bench.app.index.integrity(thorough=True) == []


def test_c25_from_the_command_line_with_counts_and_proof(vade: Vade, vade_home: Path, write_tree: WriteTree) -> None:
    root = write_tree(planted())
    source_id = vade("sources", "add", "obsidian", root, "--json").json["source"]["id"]
    assert vade("recall", PLANTED, "--json").json["hits"]
    removed = vade("sources", "remove", source_id, "--json")
    assert removed.rc == 0
    said = removed.json
    assert said["source"]["id"] == source_id
    assert said["purged"] > 0
    assert said["purged_rows"]["documents"] == 3
    assert said["files_modified"] == 0
    assert said["proof"]["clean"] is True
    assert said["proof"]["residue"] == []
    assert vade("recall", PLANTED, "--json").json["hits"] == []
    assert files_with(vade_home, *WORDS) == []


def test_c25_words_of_notes_changed_and_deleted_earlier_are_gone_too(bench: Workbench, write_tree: WriteTree) -> None:
    root = write_tree({**planted(), "keep.md": "ordinary"})
    source = bench.add(root)
    (root / "plain.md").write_text("nothing of it any more")
    (root / "zzqxpath folder/zzqxpath note.md").unlink()
    bench.sync(source)
    assert bench.app.remove(source.id).proof.clean
    assert left(bench) == []


def test_c25_after_many_syncs_in_other_processes_and_an_open_log(
    vade: Vade, bench: Workbench, write_tree: WriteTree
) -> None:
    root = write_tree({**planted(), **{f"{i}.md": f"filler {i} " * 300 for i in range(80)}})
    source_id = vade("sources", "add", "obsidian", root, "--json").json["source"]["id"]
    assert bench.found(PLANTED)
    write_tree(planted("changed"), root)
    vade("sources", "sync")
    assert (bench.settings.home / "index-1.db-wal").exists()
    assert bench.app.remove(source_id).proof.clean
    assert left(bench) == []


def test_a_removal_says_how_much_it_took(bench: Workbench, write_tree: WriteTree) -> None:
    source = bench.add(write_tree(planted()))
    was = counts(bench.settings)
    said = bench.app.remove(source.id).as_json()
    assert said["purged_rows"]["documents"] == was["document"]
    assert said["purged_rows"]["chunks"] == was["chunk"]
    assert said["purged_rows"]["warnings"] == was["warning"]
    assert said["purged_rows"]["skipped"] == was["skipped"]
    assert said["purged"] == was["document"] + was["chunk"]
    assert said["proof"]["files"] >= 1
    assert said["proof"]["passages"] >= 1


# ── nobody else


def test_another_source_keeps_every_row_even_of_the_same_text(
    bench: Workbench, write_tree: WriteTree, tmp_path: Path
) -> None:
    source = bench.add(write_tree(planted()))
    other = bench.add(write_tree(planted(), tmp_path / "other"))
    was = [row for row in content(bench.settings) if row[0] == other.id]
    removal = bench.app.remove(source.id)
    assert removal.proof.clean, removal.proof.residue
    assert content(bench.settings) == was
    assert bench.found(PLANTED)
    assert all(hit.place.source_id == other.id for hit in bench.recall(PLANTED).hits)
    assert bench.app.index.integrity(thorough=True) == []


@pytest.mark.parametrize(
    "names", [("Notes", "Notes2"), ("100%", "100%_x"), ("a b", "a b c"), ("it's", 'it\'s "q"'), ("日本", "日本語")]
)
def test_a_root_that_only_begins_alike_is_not_touched(
    bench: Workbench, write_tree: WriteTree, tmp_path: Path, names: tuple[str, str]
) -> None:
    short, long = (
        bench.add(write_tree({"%_a.md": f"wombat {name}", "sub/b.md": "numbat"}, tmp_path / name)) for name in names
    )
    assert bench.app.remove(short.id).purged.documents == 2
    assert {row[0] for row in content(bench.settings)} == {long.id}
    assert bench.sync(long).documents == 2
    assert bench.app.remove(long.id).purged.documents == 2
    assert set(counts(bench.settings).values()) == {0}


def test_removing_again_finds_nothing_to_remove(bench: Workbench, write_tree: WriteTree) -> None:
    source = bench.add(write_tree(planted()))
    bench.app.remove(source.id)
    with pytest.raises(SourceNotFound):
        bench.app.remove(source.id)


def test_a_removed_source_may_be_added_again(bench: Workbench, write_tree: WriteTree) -> None:
    root = write_tree(planted())
    first = bench.add(root)
    bench.app.remove(first.id)
    again, created, report = bench.app.add("obsidian", str(root))
    assert created
    assert again.id == first.id
    assert again.generation != first.generation
    assert report.documents == 3
    assert bench.found(PLANTED)


def test_a_source_can_be_removed_by_name_while_its_root_is_away(bench: Workbench, write_tree: WriteTree) -> None:
    root = write_tree(planted())
    bench.add(root, name="Away")
    root.rename(root.with_name("off"))
    removal = bench.app.remove("away")
    assert removal.proof.clean
    assert removal.purged.documents == 3
    assert left(bench) == []


def test_a_disabled_source_is_removed_whole(bench: Workbench, write_tree: WriteTree) -> None:
    source = bench.add(write_tree(planted()))
    bench.app.registry.edit(source.id, enabled=False)
    assert bench.app.remove(source.id).purged.documents == 3
    assert left(bench) == []


def test_a_corrupt_list_of_sources_purges_nothing(bench: Workbench, write_tree: WriteTree) -> None:
    root = write_tree(planted())
    source = bench.add(root)
    was = content(bench.settings)
    bench.settings.sources_file.write_text('{"version": 1, "sources": [')
    before = bench.settings.sources_file.read_bytes()
    with pytest.raises(SourcesFileCorrupt):
        bench.app.remove(source.id)
    with pytest.raises(SourcesFileCorrupt):
        bench.app.sync(source)
    assert content(bench.settings) == was
    assert bench.settings.sources_file.read_bytes() == before


def test_a_missing_list_of_sources_is_an_empty_one(bench: Workbench, write_tree: WriteTree) -> None:
    """Nobody deletes the file by accident while a torn one is an error: without it nothing is mounted or answered."""
    bench.add(write_tree(planted()))
    bench.settings.sources_file.unlink()
    assert bench.recall(PLANTED).hits == ()
    assert bench.app.registry.all() == ()


# ── a reader in the way

READER = """
import sys, apsw
connection = apsw.Connection(sys.argv[1], flags=apsw.SQLITE_OPEN_READONLY)
connection.execute("begin")
print(connection.execute("select count(*) from document").fetchone()[0], flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("other", [True, False])
def test_a_reader_that_keeps_old_pages_alive_is_named_and_a_later_sync_finishes(
    vade: Vade, vade_home: Path, bench: Workbench, write_tree: WriteTree, tmp_path: Path, other: bool
) -> None:
    if other:
        vade("sources", "add", "folder", write_tree({"kept.md": "wombat"}, tmp_path / "kept"))
    source_id = vade("sources", "add", "obsidian", write_tree(planted()), "--json").json["source"]["id"]
    vade("config", "set", "index.busy_timeout_s", "0.5")
    reader = subprocess.Popen(
        [sys.executable, "-c", READER, str(vade_home / "index-1.db")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert reader.stdout is not None
    assert reader.stdout.readline() == f"{3 + other}\n"
    try:
        removed = vade("sources", "remove", source_id, "--json")
        assert removed.rc == 1
        assert removed.json["proof"]["clean"] is False
        assert str(reader.pid) in " ".join(removed.json["proof"]["blocked_by"])
        assert str(reader.pid) in removed.err
        assert removed.json["purged_rows"]["documents"] == 3
        assert vade("recall", PLANTED, "--json").json["hits"] == []
        assert vade("doctor").rc == 1
        meanwhile = vade("sources", "sync")  # sees that a cleaning would be in vain, and tries none
        assert meanwhile.rc == 0
        assert "cleaning" not in meanwhile.err
    finally:
        reader.communicate("")
    synced = vade("sources", "sync")
    assert synced.rc == 0
    assert "removal" in synced.err
    assert left(bench) == []
    assert vade("doctor").rc == 0


# ── kills


def run_then_die(bench: Workbench, code: str, source: Source) -> None:
    """Do the first steps of a removal in another process, which is then killed."""
    script = (
        "import os, signal, sys\n"
        "from vademecum import config\n"
        "from vademecum.app import Vademecum\n"
        "app = Vademecum(config.load())\n"
        f"{code}\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, source.id],
        env={**clean_environment(), "VADE_HOME": str(bench.settings.home)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr


STEPS = {
    "after the entry": "app.registry.discarding(sys.argv[1]).__enter__()",
    "after the rows": "app.registry.discarding(sys.argv[1]).__enter__(); app.index.purge(sys.argv[1])",
    "before anything": "app.index.sources()",
}


@pytest.mark.parametrize(
    ("where", "other"),
    [
        ("after the entry", True),
        ("after the rows", True),
        ("after the entry", False),
        ("after the rows", False),
    ],
)
def test_a_removal_killed_half_way_is_finished_by_the_next_sync(
    bench: Workbench, write_tree: WriteTree, tmp_path: Path, where: str, other: bool
) -> None:
    source = bench.add(write_tree(planted()))
    kept = bench.add(write_tree({"kept.md": "wombat"}, tmp_path / "kept"))
    if not other:
        bench.app.remove(kept.id)
    bench.close()
    run_then_die(bench, STEPS[where], source)
    assert bench.recall(PLANTED).hits == ()
    bench.close()
    child = subprocess.run(
        [sys.executable, "-P", "-m", "vademecum", "--as-owner", "sources", "sync"],
        env={**clean_environment(), "VADE_HOME": str(bench.settings.home), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert child.returncode == 0, child.stderr
    assert left(bench) == []
    assert {row[0] for row in content(bench.settings)} == ({kept.id} if other else set())


def test_an_orphan_is_never_recalled_and_can_be_removed_by_its_id(bench: Workbench, write_tree: WriteTree) -> None:
    source = bench.add(write_tree(planted()))
    bench.close()
    run_then_die(bench, STEPS["after the entry"], source)
    assert bench.found(PLANTED) == []
    with pytest.raises(NoteNotFound):
        bench.app.read("plain.md", OWNER)
    removal = bench.app.remove(source.id)
    assert removal.source is None
    assert removal.purged.documents == 3
    assert removal.proof.clean
    assert left(bench) == []


def test_a_removal_killed_at_any_moment_leaves_nothing_after_remove_or_sync(
    bench: Workbench, write_tree: WriteTree, tmp_path: Path
) -> None:
    kept = bench.add(write_tree({"kept.md": "wombat"}, tmp_path / "kept"))
    root = write_tree({**planted(), **{f"{i}.md": f"filler {i} " * 400 for i in range(150)}})
    environment = {**clean_environment(), "VADE_HOME": str(bench.settings.home), "HOME": str(tmp_path)}
    for after_s in (0.2, 0.3, 0.4, 0.5):
        source = bench.add(root)
        bench.close()
        child = subprocess.Popen(
            [sys.executable, "-P", "-m", "vademecum", "--as-owner", "sources", "remove", source.id],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(after_s)
        child.kill()
        child.wait()
        bench.sync(kept)
        if source.id in bench.app.registry.ids():
            bench.app.remove(source.id)
        assert left(bench) == [], after_s
        assert {row[0] for row in content(bench.settings)} == {kept.id}
        assert bench.app.index.integrity(thorough=True) == []


# ── a sync in the way


def test_a_sync_that_races_a_removal_leaves_no_row(bench: Workbench, write_tree: WriteTree, tmp_path: Path) -> None:
    root = write_tree({**planted(), **{f"{i}.md": f"filler {i} " * 300 for i in range(300)}})
    source, _ = bench.app.registry.add("obsidian", str(root))
    environment = {**clean_environment(), "VADE_HOME": str(bench.settings.home), "HOME": str(tmp_path)}
    child = subprocess.Popen(
        [sys.executable, "-P", "-m", "vademecum", "--as-owner", "sources", "sync", source.id],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if bench.settings.index_file.exists() and bench.app.index.sources().get(source.id):
            break
        time.sleep(0.01)
    bench.app.remove(source.id)
    out, err = child.communicate(timeout=60)
    assert "Traceback" not in err
    assert child.returncode in (0, 1, 3), (out, err)
    assert set(counts(bench.settings).values()) == {0}
    assert bench.recall(PLANTED).hits == ()


def test_a_late_batch_of_a_removed_source_is_refused(bench: Workbench, write_tree: WriteTree) -> None:
    source = bench.add(write_tree(planted()))
    row = bench.app.index.sources()[source.id].row
    bench.app.remove(source.id)
    with Index.open(bench.settings.index_file, busy_timeout_s=5) as late, pytest.raises(SourceRemoved):
        late.put(row, [indexed("late.md", PLANTED)])
    assert left(bench) == []


# ── copies


def test_quarantined_and_foreign_indexes_are_swept(bench: Workbench, write_tree: WriteTree) -> None:
    source = bench.add(write_tree(planted()))
    home = bench.settings.home
    bench.close()
    copy = bench.settings.index_file.read_bytes()
    (home / "quarantine").mkdir(exist_ok=True)
    for name in ("quarantine/index-1-abcd.db", "index-0.db", "index-7.db", "index-7.db-wal"):
        (home / name).write_bytes(copy)
    removal = bench.app.remove(source.id)
    assert removal.quarantine_files == 4
    assert removal.proof.clean, removal.proof.residue
    assert left(bench) == []
    assert sorted(path.name for path in home.rglob("*index-*.db")) == ["index-1.db"]


def test_the_home_vault_is_no_part_of_the_proof_and_is_not_touched(
    bench: Workbench, write_tree: WriteTree, vault_bytes: Callable[[Path], object]
) -> None:
    source = bench.add(write_tree(planted()))
    write_tree(
        {"mine.md": f"I wrote {PLANTED} myself. Another note that holds {PLANTED} and more ordinary words."},
        bench.settings.home / "vault",
    )
    before = vault_bytes(bench.settings.home / "vault")
    assert bench.app.remove(source.id).proof.clean
    assert vault_bytes(bench.settings.home / "vault") == before


# ── the verifier

LONG = "The heron stood very still beside the weir at dawn, waiting."


@pytest.mark.parametrize("where", ["logs/vade.log", "stray.txt", "models/cache/deep.bin", "run/x", ".hidden"])
def test_a_copy_of_the_text_anywhere_in_the_state_turns_the_proof_red(
    vade: Vade, vade_home: Path, write_tree: WriteTree, where: str
) -> None:
    source_id = vade("sources", "add", "obsidian", write_tree({"n.md": LONG}), "--json").json["source"]["id"]
    (vade_home / where).parent.mkdir(parents=True, exist_ok=True)
    (vade_home / where).write_bytes(b"\x00\x01" + LONG.encode() + b"\xff")
    removed = vade("sources", "remove", source_id, "--json")
    assert removed.rc == 1
    assert removed.json["proof"]["clean"] is False
    assert [entry["file"] for entry in removed.json["proof"]["residue"]] == [str(vade_home / where)]
    assert where.rpartition("/")[2] in removed.err


def test_a_copy_of_a_path_turns_the_proof_red(bench: Workbench, write_tree: WriteTree) -> None:
    source = bench.add(write_tree({"A rather telling name of a note.md": "short"}))
    (bench.settings.home / "log").write_text("opened A rather telling name of a note.md")
    assert not bench.app.remove(source.id).proof.clean


@pytest.mark.parametrize(
    ("part", "passage"),
    [
        ("title", "Severance terms of the whole department"),
        ("alias", "Operation Nightingale in the spring"),
        ("property", "remark: salary of the director is confidential"),
        ("heading", "Reasons for the quiet dismissal"),
    ],
)
def test_a_copy_of_any_text_column_turns_the_proof_red(
    bench: Workbench, write_tree: WriteTree, part: str, passage: str
) -> None:
    note = {
        "title": f"---\ntitle: {passage}\n---\nbody",
        "alias": f"---\naliases: ['{passage}']\n---\nbody",
        "property": f"---\n{passage}\n---\nbody",
        "heading": f"# {passage}\n\nbody",
    }[part]
    source = bench.add(write_tree({"n.md": note}))
    (bench.settings.home / "stray.log").write_text(passage)
    proof = bench.app.remove(source.id).proof
    assert not proof.clean


def plant_words_without_a_note(bench: Workbench) -> None:
    bench.close()
    connection = apsw.Connection(str(bench.settings.index_file))
    connection.execute("insert into chunk_fts(rowid, title, headings, body) values (999, 'zzz', '', 'zzqxorphan')")
    connection.close()


def test_words_left_in_the_index_without_a_note_turn_the_proof_red(
    bench: Workbench, write_tree: WriteTree, tmp_path: Path
) -> None:
    """The verifier is lied to: somebody puts words into the full-text table behind our back."""
    source = bench.add(write_tree({"n.md": LONG}))
    bench.add(write_tree({"a.md": "others", "b.md": "that stay"}, tmp_path / "larger"))
    plant_words_without_a_note(bench)
    proof = bench.app.remove(source.id).proof
    assert not proof.clean
    assert proof.problems or proof.residue


def test_words_left_in_the_index_without_a_note_go_with_the_larger_part_of_it(
    bench: Workbench, write_tree: WriteTree, tmp_path: Path
) -> None:
    """What stays is indexed anew then, and nothing else is."""
    source = bench.add(write_tree({"a.md": LONG, "b.md": LONG}))
    bench.add(write_tree({"s.md": "wombat"}, tmp_path / "small"))
    plant_words_without_a_note(bench)
    assert bench.app.remove(source.id).proof.clean
    assert bench.found("wombat") == ["s.md"]
    assert [row["term"] for row in selected(bench.settings, "select term from chunk_vocabulary")] == ["s", "wombat"]


def test_deleting_one_note_wipes_its_words_from_the_word_indexes_at_once(
    bench: Workbench, write_tree: WriteTree
) -> None:
    root = write_tree({**planted(), "keep.md": "ordinary words"})
    source = bench.add(root)
    (root / "zzqxpath folder/zzqxpath note.md").unlink()
    bench.sync(source)
    for vocabulary in ("chunk_vocabulary", "note_vocabulary"):
        assert selected(bench.settings, f"select term from {vocabulary} where term like 'zzqxb%'") == []


def test_a_private_note_leaves_with_the_rest(bench: Workbench, write_tree: WriteTree) -> None:
    source = bench.add(write_tree({"n.md": f"---\nprivate: true\n---\n{PLANTED} secret"}))
    assert bench.recall(PLANTED, caller=PROJECT).receipt.withheld == {"private": 1}
    assert bench.app.remove(source.id).proof.clean
    assert left(bench) == []


def test_a_big_source_is_removed_and_a_small_one_stays_searchable(
    bench: Workbench, write_tree: WriteTree, tmp_path: Path
) -> None:
    big = bench.add(write_tree({f"{i}.md": f"# N{i}\n\nzzqxbody {i} " + f"common{i % 9} " * 80 for i in range(500)}))
    bench.add(write_tree({"s.md": "wombat common1"}, tmp_path / "small"))
    size = sum(path.stat().st_size for path in bench.settings.home.glob("index-1.db*"))
    removal = bench.app.remove(big.id)
    assert removal.proof.clean
    assert removal.purged.documents == 500
    assert sum(path.stat().st_size for path in bench.settings.home.glob("index-1.db*")) < size / 3
    assert left(bench) == []
    assert bench.found("common1") == ["s.md"]
    assert bench.app.index.integrity(thorough=True) == []


def test_the_json_of_a_removal_holds_what_the_contract_names(bench: Workbench, write_tree: WriteTree) -> None:
    source = bench.add(write_tree(planted()))
    said = json.loads(json.dumps(bench.app.remove(source.id).as_json()))
    assert set(said) >= {"source", "purged", "purged_rows", "files_modified", "proof"}
    assert os.path.isdir(said["source"]["root"])
