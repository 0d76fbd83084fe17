"""sources.json: the list that everything follows, which no crash, race or newer version may cost an entry."""

import hashlib
import json
import os
import re
import subprocess
import sys
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from process import NOBODY, clean_environment, run_vade
from vademecum.config import Settings, replace_file
from vademecum.errors import (
    GlobInvalid,
    SourceAmbiguous,
    SourceNotFound,
    SourceRootInvalid,
    SourceRootNested,
    SourcesFileCorrupt,
    StateBusy,
    UsageError,
    VadeError,
)
from vademecum.sources import Registry, Source
from vademecum.vault import DEFAULT_GLOBS
from workbench import settings_at

WriteTree = Callable[..., Path]


@pytest.fixture
def state(vade_home: Path) -> Settings:
    return settings_at(vade_home)


@pytest.fixture
def registry(state: Settings) -> Registry:
    return Registry(state)


@pytest.fixture
def folder(tmp_path: Path) -> Callable[[str], Path]:
    def make(name: str) -> Path:
        (tmp_path / name).mkdir(parents=True, exist_ok=True)
        return tmp_path / name

    return make


Folder = Callable[[str], Path]


def entry_of(source: Source, **changed: Any) -> dict[str, Any]:
    return {**source.as_json(), **changed}


def written(state: Settings) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(state.sources_file.read_text(encoding="utf-8"))
    return content


def write(state: Settings, content: object) -> bytes:
    state.home.mkdir(parents=True, exist_ok=True)
    state.sources_file.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return state.sources_file.read_bytes()


# ── adding


def test_a_new_source_is_written_as_the_file_format_says(registry: Registry, state: Settings, folder: Folder) -> None:
    source, created = registry.add("obsidian", str(folder("Notes")))
    assert created
    assert source.id == "obsidian:" + hashlib.sha256(str(folder("Notes")).encode()).hexdigest()[:16]
    text = state.sources_file.read_text()
    assert text.endswith("}\n")
    assert '\n  "sources"' in text
    [entry] = written(state)["sources"]
    assert written(state)["version"] == 1
    assert entry["kind"] == "obsidian"
    assert entry["root"] == str(folder("Notes"))
    assert entry["mode"] == "read-only"
    assert entry["enabled"] is True
    assert entry["exclude"] == list(DEFAULT_GLOBS)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", entry["created_at"])
    assert entry["updated_at"] == entry["created_at"]
    assert len(entry["generation"]) >= 32
    assert state.sources_file.stat().st_mode & 0o077 == 0
    assert state.home.stat().st_mode & 0o777 == 0o700


def test_adding_a_root_again_updates_what_was_given_and_keeps_the_rest(registry: Registry, folder: Folder) -> None:
    first, _ = registry.add("obsidian", str(folder("n")), name="Mine", exclude=["a/**"])
    registry.edit(first.id, enabled=False)
    again, created = registry.add("obsidian", str(folder("n")))
    assert not created
    assert (again.id, again.created_at, again.generation) == (first.id, first.created_at, first.generation)
    assert (again.name, again.exclude[len(DEFAULT_GLOBS) :], again.enabled) == ("Mine", ("a/**",), True)
    renamed, _ = registry.add("obsidian", str(folder("n")), name="Other", exclude=["b/"])
    assert (renamed.name, renamed.exclude[len(DEFAULT_GLOBS) :]) == ("Other", ("b/**",))
    assert len(registry.all()) == 1


def test_defaults_stand_before_the_user_s_globs_and_each_stands_once(registry: Registry, folder: Folder) -> None:
    source, _ = registry.add("folder", str(folder("n")), exclude=["x/**", "**/.trash/**", "x/**"])
    assert source.exclude == (*DEFAULT_GLOBS, "x/**")
    assert source.exclude[len(DEFAULT_GLOBS) :] == ("x/**",)


def test_a_bad_glob_adds_nothing(registry: Registry, state: Settings, folder: Folder) -> None:
    with pytest.raises(GlobInvalid):
        registry.add("folder", str(folder("n")), exclude=["../x"])
    assert not state.sources_file.exists()


def test_an_unknown_kind_is_refused_and_the_known_ones_are_said(registry: Registry, folder: Folder) -> None:
    with pytest.raises(UsageError) as caught:
        registry.add("notion", str(folder("n")))
    assert "obsidian" in caught.value.hint
    assert "folder" in caught.value.hint


def test_a_draft_writes_nothing_and_is_checked_all_the_same(
    registry: Registry, state: Settings, folder: Folder
) -> None:
    assert registry.draft("folder", str(folder("n"))).root == folder("n")
    assert not state.home.exists()
    with pytest.raises(SourceRootInvalid):
        registry.draft("folder", "/nowhere/at/all")


# ── names


@pytest.mark.parametrize(
    ("given", "name"),
    [
        (None, "My Notes"),
        ("", "My Notes"),
        ("   ", "My Notes"),
        ("  Work  ", "Work"),
        ("Two\nlines\tand\x1b[31m red", "Two lines and [31m red"),
        ("x" * 300, "x" * 200),
        ("日本 🙂", "日本 🙂"),
        ("a\u2028b", "a b"),
        ("a\udcffb", "ab"),
        ("a\u202eb\u2066c\u2069\u202c", "abc"),
    ],
)
def test_a_name_is_one_clean_line(registry: Registry, folder: Folder, given: str | None, name: str) -> None:
    source, _ = registry.add("folder", str(folder("My Notes")), name=given)
    assert source.name == name
    assert registry.find(source.id).name == name


def test_two_sources_may_share_a_name(registry: Registry, folder: Folder) -> None:
    a, _ = registry.add("folder", str(folder("a")), name="Notes")
    b, _ = registry.add("folder", str(folder("b")), name="Notes")
    assert a.id != b.id
    with pytest.raises(SourceAmbiguous) as caught:
        registry.find("Notes")
    assert a.id in caught.value.message
    assert b.id in caught.value.message


def test_a_blank_new_name_keeps_the_old_one(registry: Registry, folder: Folder) -> None:
    source, _ = registry.add("folder", str(folder("a")), name="Notes")
    assert registry.edit(source.id, name="  \n ").name == "Notes"


# ── finding


def test_a_source_is_found_by_id_name_and_unique_prefix(registry: Registry, folder: Folder) -> None:
    source, _ = registry.add("obsidian", str(folder("a")), name="Research Vault")
    digits = source.id.partition(":")[2]
    for wanted in (
        source.id,
        "Research Vault",
        "research vault",
        source.id[:14],
        digits,
        digits[:6],
        f"  {source.id} ",
    ):
        assert registry.find(wanted).id == source.id, wanted


def test_an_exact_name_wins_over_another_case_and_over_a_prefix(registry: Registry, folder: Folder) -> None:
    lower, _ = registry.add("folder", str(folder("a")), name="notes")
    upper, _ = registry.add("folder", str(folder("b")), name="Notes")
    named, _ = registry.add("folder", str(folder("c")), name=lower.id[:12])
    assert registry.find("notes").id == lower.id
    assert registry.find("Notes").id == upper.id
    assert registry.find(lower.id[:12]).id == named.id
    with pytest.raises(SourceAmbiguous):
        registry.find("NOTES")


def test_a_kind_alone_names_no_source(registry: Registry, folder: Folder) -> None:
    for name in "abc":
        registry.add("folder", str(folder(name)))
    for prefix in ("folder:", "folder", "f"):
        with pytest.raises((SourceAmbiguous, SourceNotFound)):
            registry.find(prefix)


def test_a_wrong_name_is_answered_with_the_nearest(registry: Registry, folder: Folder) -> None:
    registry.add("folder", str(folder("a")), name="research-vault")
    with pytest.raises(SourceNotFound) as caught:
        registry.find("reserch-vault")
    assert "Did you mean research-vault?" in caught.value.hint
    with pytest.raises(SourceNotFound) as caught:
        registry.find("zzz")
    assert "vade sources list" in caught.value.hint


@pytest.mark.parametrize("blank", ["", "   "])
def test_a_blank_id_finds_nothing(registry: Registry, folder: Folder, blank: str) -> None:
    registry.add("folder", str(folder("a")))
    with pytest.raises(SourceNotFound):
        registry.find(blank)


# ── roots


@pytest.mark.parametrize(
    ("make", "says"),
    [
        ("", "path is required"),
        ("  ", "path is required"),
        ("missing", "does not exist"),
        ("file.txt", "is not a folder"),
        ("file.txt/under", "is not a folder"),
        ("dangling", "does not exist"),
        ("loop", "loop"),
        ("/", "whole file system"),
        ("nul\x00byte", ""),
        ("~nobody-of-this-name/x", "does not exist"),
    ],
)
def test_a_root_that_cannot_be_one_is_refused_with_its_reason(
    registry: Registry, state: Settings, tmp_path: Path, make: str, says: str
) -> None:
    (tmp_path / "file.txt").write_text("x")
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "loop").symlink_to("loop")
    typed = make if make.startswith(("/", "~")) or not make.strip() else str(tmp_path / make)
    with pytest.raises(SourceRootInvalid) as caught:
        registry.add("folder", typed)
    assert says in caught.value.message.lower()
    assert caught.value.hint
    assert not state.sources_file.exists()


@pytest.mark.parametrize("inside", ["", "logs", "run", "vault/deep", "quarantine", ".."])
def test_the_state_folder_what_it_holds_and_what_holds_it_are_refused(
    registry: Registry, state: Settings, inside: str
) -> None:
    (state.home / inside).mkdir(parents=True, exist_ok=True)
    with pytest.raises(SourceRootInvalid) as caught:
        registry.add("folder", str(state.home / inside))
    assert str(state.home) in caught.value.message


def test_the_state_folder_by_another_name_is_refused(registry: Registry, state: Settings, tmp_path: Path) -> None:
    state.home.mkdir(parents=True)
    (tmp_path / "alias").symlink_to(state.home)
    with pytest.raises(SourceRootInvalid):
        registry.add("folder", str(tmp_path / "alias"))


def test_exactly_the_home_vault_in_the_state_folder_is_allowed(registry: Registry, state: Settings) -> None:
    (state.home / "vault").mkdir(parents=True)
    assert registry.add("obsidian", str(state.home / "vault"))[1]


def test_a_sibling_whose_name_begins_like_the_state_folder_is_allowed(registry: Registry, state: Settings) -> None:
    sibling = state.home.with_name(state.home.name + "-notes")
    sibling.mkdir()
    assert registry.add("folder", str(sibling))[1]


def test_a_root_that_cannot_be_listed_is_refused(public_tmp: Path) -> None:
    for name in ("home", "closed"):
        (public_tmp / name).mkdir()
    (public_tmp / "home").chmod(0o777)
    (public_tmp / "closed").chmod(0o000)
    done = run_vade(
        "--as-owner", "sources", "add", "folder", public_tmp / "closed", "--json",
        vade_home=public_tmp / "state", home=public_tmp / "home", as_user=NOBODY,
    )  # fmt: skip
    assert done.rc == 1
    assert done.json["error"]["code"] == "source_root_invalid"
    assert "cannot be listed" in done.json["error"]["message"]


def test_nested_roots_are_refused_both_ways_and_the_other_is_named(registry: Registry, folder: Folder) -> None:
    folder("v/in/deep")
    other, _ = registry.add("folder", str(folder("v/in")))
    for root in ("v", "v/in/deep"):
        for kind in ("folder", "obsidian"):
            with pytest.raises(SourceRootNested) as caught:
                registry.add(kind, str(folder(root)))
            assert other.id in caught.value.message
    assert len(registry.all()) == 1


def test_one_root_under_two_kinds_is_refused(registry: Registry, folder: Folder) -> None:
    other, _ = registry.add("folder", str(folder("v")))
    with pytest.raises(SourceRootNested) as caught:
        registry.add("obsidian", str(folder("v")))
    assert other.id in caught.value.message
    assert "kind" in caught.value.hint


def test_roots_that_only_begin_alike_are_two_sources(registry: Registry, folder: Folder) -> None:
    assert registry.add("folder", str(folder("Notes")))[1]
    assert registry.add("folder", str(folder("Notes2")))[1]
    assert registry.add("folder", str(folder("Note")))[1]


def test_a_disabled_source_blocks_nobody_until_it_is_enabled_again(registry: Registry, folder: Folder) -> None:
    outer, _ = registry.add("folder", str(folder("v")))
    registry.edit(outer.id, enabled=False)
    assert registry.add("folder", str(folder("v/in")))[1]
    with pytest.raises(SourceRootNested):
        registry.edit(outer.id, enabled=True)
    assert not registry.find(outer.id).enabled


def test_adding_a_disabled_source_again_does_not_get_around_the_check_for_nested_roots(
    registry: Registry, folder: Folder
) -> None:
    outer, _ = registry.add("folder", str(folder("v")))
    registry.edit(outer.id, enabled=False)
    registry.add("folder", str(folder("v/in")))
    with pytest.raises(SourceRootNested):
        registry.add("folder", str(folder("v")))


def test_a_root_reached_through_a_link_is_the_same_source(registry: Registry, folder: Folder, tmp_path: Path) -> None:
    source, _ = registry.add("folder", str(folder("real")))
    (tmp_path / "alias").symlink_to("real")
    again, created = registry.add("folder", str(tmp_path / "alias"))
    assert not created
    assert again.id == source.id
    assert again.root == folder("real")


def test_the_typed_path_is_kept_beside_the_resolved_one(registry: Registry, folder: Folder, tmp_path: Path) -> None:
    folder("real")
    (tmp_path / "alias").symlink_to("real")
    source, _ = registry.add("folder", str(tmp_path / "alias"))
    assert source.root == folder("real")
    assert source.display_root == str(tmp_path / "alias")
    assert registry.find(source.id).display_root == str(tmp_path / "alias")


def test_a_tilde_is_the_home_folder(registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    (tmp_path / "me/notes").mkdir(parents=True)
    assert registry.add("folder", "~/notes")[0].root == tmp_path / "me/notes"


def test_a_root_with_dots_and_slashes_is_the_plain_one(registry: Registry, folder: Folder) -> None:
    source, _ = registry.add("folder", str(folder("a")))
    folder("b")
    again, created = registry.add("folder", f"{folder('b')}/../a//")
    assert (again.id, created) == (source.id, False)


# ── what this version does not know


def test_unknown_kinds_and_unknown_fields_survive_every_change(
    registry: Registry, state: Settings, folder: Folder
) -> None:
    known, _ = registry.add("folder", str(folder("a")))
    foreign = {"id": "notion:1", "kind": "notion", "token": {"deep": [1, None]}, "root": 7}
    newer = entry_of(known, shiny=["new", {"x": 1}], provider_settings={"a": "ü"})
    write(state, {"version": 1, "sources": [foreign, newer]})
    registry.edit(known.id, name="New name", exclude=["x/**"])
    registry.add("folder", str(folder("b")))
    registry.edit(known.id, enabled=False)
    entries = {entry["id"]: entry for entry in written(state)["sources"]}
    assert entries["notion:1"] == foreign
    assert entries[known.id]["shiny"] == ["new", {"x": 1}]
    assert entries[known.id]["provider_settings"] == {"a": "ü"}
    assert [source.id for source in registry.all()] == [
        known.id,
        next(s.id for s in registry.all() if s.id != known.id),
    ]
    assert "notion:1" in registry.ids()


def test_unknown_fields_of_the_file_itself_survive(registry: Registry, state: Settings, folder: Folder) -> None:
    write(state, {"version": 1, "sources": [], "settings": {"x": 1}})
    registry.add("folder", str(folder("a")))
    assert written(state)["settings"] == {"x": 1}


def test_an_entry_of_an_older_version_is_filled_up(registry: Registry, state: Settings, folder: Folder) -> None:
    write(
        state,
        {
            "version": 1,
            "sources": [
                {
                    "id": "folder:00000000000000a1",
                    "kind": "folder",
                    "name": "Old",
                    "root": str(folder("a")),
                    "enabled": True,
                    "created_at": "t",
                }
            ],
        },
    )
    source = registry.find("Old")
    assert source.exclude == DEFAULT_GLOBS
    assert source.updated_at == "t"
    assert source.generation


# ── a file that cannot be understood

GOOD = {"id": "folder:1", "kind": "folder", "name": "n", "root": "/r", "enabled": True, "exclude": []}
CORRUPT: dict[str, object] = {
    "torn": '{"version": 1, "sources": [',
    "empty": "",
    "no object": "[]",
    "no list": '{"version": 1, "sources": {}}',
    "null list": '{"version": 1}',
    "newer": {"version": 2, "sources": []},
    "no version": {"sources": []},
    "text version": {"version": "1", "sources": []},
    "entry no object": {"version": 1, "sources": [7]},
    "entry no kind": {"version": 1, "sources": [{"id": "x"}]},
    "no id": {"version": 1, "sources": [{**GOOD, "id": ""}]},
    "no name": {"version": 1, "sources": [{**GOOD, "name": None}]},
    "relative root": {"version": 1, "sources": [{**GOOD, "root": "r"}]},
    "enabled text": {"version": 1, "sources": [{**GOOD, "enabled": "yes"}]},
    "exclude text": {"version": 1, "sources": [{**GOOD, "exclude": "x"}]},
    "exclude number": {"version": 1, "sources": [{**GOOD, "exclude": [7]}]},
    "twice": {"version": 1, "sources": [GOOD, GOOD]},
    "deep": "[" * 100_000,
}
HOSTILE = {
    "glob number list": {"version": 1, "sources": [{**GOOD, "exclude": ["../x"]}]},
    "id list": {"version": 1, "sources": [{**GOOD, "kind": "notion", "id": []}]},
    "id object": {"version": 1, "sources": [{"kind": "notion", "id": {}}]},
    "nul in root": {"version": 1, "sources": [{**GOOD, "root": "/a\x00b"}]},
    "surrogate": {"version": 1, "sources": [{**GOOD, "name": "\udcff"}]},
    "display root number": {"version": 1, "sources": [{**GOOD, "display_root": 7}]},
}


@pytest.mark.parametrize("what", CORRUPT)
def test_nothing_is_read_from_or_written_over_a_file_that_cannot_be_understood(
    registry: Registry, state: Settings, folder: Folder, what: str
) -> None:
    before = write(state, CORRUPT[what])
    acts: list[Callable[[], object]] = [
        registry.all,
        registry.ids,
        lambda: registry.find("x"),
        lambda: registry.add("folder", str(folder("a"))),
        lambda: registry.edit("x", enabled=False),
        lambda: registry.discarding("x").__enter__(),
    ]
    for act in acts:
        with pytest.raises(SourcesFileCorrupt) as caught:
            act()
        assert caught.value.hint
    assert state.sources_file.read_bytes() == before
    assert sorted(path.name for path in state.home.iterdir() if path.is_file()) == ["sources.json"]


def test_a_file_that_is_no_text_is_refused(registry: Registry, state: Settings) -> None:
    state.home.mkdir(parents=True)
    state.sources_file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SourcesFileCorrupt):
        registry.all()


def test_a_folder_in_the_place_of_the_file_is_refused(registry: Registry, state: Settings, folder: Folder) -> None:
    state.sources_file.mkdir(parents=True)
    with pytest.raises(VadeError):
        registry.all()
    with pytest.raises(VadeError):
        registry.add("folder", str(folder("a")))


@pytest.mark.parametrize("what", HOSTILE)
def test_no_hand_written_file_ends_in_an_error_that_is_not_ours(
    vade: Callable[..., Any], state: Settings, what: str
) -> None:
    write(state, HOSTILE[what])
    for words in (["sources", "list"], ["recall", "x"], ["sources", "sync"], ["status"], ["doctor"]):
        done = vade(*words, "--json")
        assert done.rc in (0, 1, 4)
        assert "should not happen" not in done.err, (what, words, done.err)
        assert "Traceback" not in done.err
        assert isinstance(done.json, dict)


# ── several at once

ADD_TEN = """
import sys
from pathlib import Path
from vademecum.sources import Registry
from vademecum.config import load
registry = Registry(load())
for number in range(10):
    registry.add("folder", f"{sys.argv[1]}/{sys.argv[2]}{number}")
"""


def test_twenty_sources_added_by_two_processes_are_all_there(
    registry: Registry, state: Settings, folder: Folder
) -> None:
    for who in "ab":
        for number in range(10):
            folder(f"roots/{who}{number}")
    children = [
        subprocess.Popen(
            [sys.executable, "-c", ADD_TEN, str(folder("roots")), who],
            env={**clean_environment(), "VADE_HOME": str(state.home)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for who in "ab"
    ]
    assert [child.communicate(timeout=60)[1] for child in children] == ["", ""]
    assert {source.name for source in registry.all()} == {f"{who}{number}" for who in "ab" for number in range(10)}
    assert [path.name for path in state.home.iterdir() if "tmp" in path.name] == []


HOLD_LOCK = """
import sys
from vademecum.sources import Registry
from vademecum.config import load
with Registry(load()).locked():
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.mark.slow  # it waits for the whole minute
def test_a_list_that_another_holds_for_too_long_is_busy_and_a_killed_holder_holds_nothing(
    registry: Registry, state: Settings, folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD_LOCK],
        env={**clean_environment(), "VADE_HOME": str(state.home)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(StateBusy) as caught:
        registry.add("folder", str(folder("a")))
    assert caught.value.hint
    holder.kill()
    holder.communicate()
    assert registry.add("folder", str(folder("a")))[1]


def test_names_and_roots_in_any_script_are_kept_as_they_are(
    registry: Registry, state: Settings, folder: Folder
) -> None:
    root = folder(unicodedata.normalize("NFD", "Café 日本"))
    source, _ = registry.add("folder", str(root))
    assert registry.find(source.id).root == root
    assert "日本" in state.sources_file.read_text(encoding="utf-8")


def test_what_a_killed_process_left_half_written_is_swept_away(tmp_path: Path) -> None:
    """It names sources that the file may no longer name."""
    file = tmp_path / "sources.json"
    dead = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True, check=True
    )
    left = tmp_path / f"sources.json.tmp-{dead.stdout.strip()}-0011aabb"
    running = tmp_path / f"sources.json.tmp-{os.getpid()}-0011aabb"
    left.write_text("{}")
    running.write_text("{}")
    replace_file(file, b"[]")
    assert sorted(path.name for path in tmp_path.glob("sources.json*")) == ["sources.json", running.name]
