"""Who may see which notes: one rule, whatever the manifest, the caller and the spelling of a path."""

import dataclasses
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from process import NOBODY, run_python
from vademecum.access import (
    ANONYMOUS,
    OWNER,
    UNKNOWN,
    WHOLE,
    Caller,
    Policy,
    VisibleSet,
    caller_in,
    policy_of,
    readable_note,
    visible_notes,
)
from vademecum.errors import NoteNotFound, NoteWithheld, OutsideRoot
from vademecum.vault import FileStamp
from workbench import PROJECT, Workbench

WriteTree = Callable[..., Path]


def vault_with(write_tree: WriteTree, manifest: Any, *folders: str) -> Path:
    text = manifest if isinstance(manifest, str | bytes) else json.dumps(manifest)
    root = write_tree({"vault-manifest.json": text})
    for folder in folders:
        (root / folder).mkdir(parents=True, exist_ok=True)
    return root


def served(policy: Policy, path: str, *, caller: Caller = PROJECT, private: bool = False) -> bool:
    return visible_notes(caller, {"s": policy}).withheld("s", path, private=private) is None


# ── roots


@pytest.mark.parametrize(
    ("entry", "root"),
    [
        ("brain", "brain"),
        ("./brain", "brain"),
        ("/brain/", "brain"),
        ("work/active/", "work/active"),
        ("work\\active", "work/active"),
        ("brain/*.md", "brain"),
        ("work/active/*", "work/active"),
        ("perf/h*-*/", None),
        ("*/x", None),
        ("*", None),
        ("*.md", None),
        ("a/*/b.md", None),
        ("a/b/*/", None),
        ("**/x", None),
        ("..", None),
        (".", None),
        ("a/../b", None),
        ("a/./b", None),
        ("../brain", None),
        ("", None),
        ("   ", None),
        ("/", None),
        ("a//b", None),
        (7, None),
        (None, None),
        (["brain"], None),
        ({"path": "brain"}, None),
        (True, None),
    ],
)
def test_a_declared_root_is_cleaned_and_never_widened(write_tree: WriteTree, entry: object, root: str | None) -> None:
    policy, diagnostic = policy_of(vault_with(write_tree, {"mcp_exposed_roots": ["kept", entry]}))
    assert policy.roots == (("kept",) if root is None else ("kept", root))
    assert policy.origin == "manifest"
    assert diagnostic is None


def test_declared_roots_need_not_exist_and_lose_repeats(write_tree: WriteTree) -> None:
    policy, _ = policy_of(vault_with(write_tree, {"mcp_exposed_roots": ["a", "./a/", "b"]}))
    assert policy.roots == ("a", "b")


def test_no_manifest_serves_the_whole_tree(tmp_path: Path) -> None:
    assert policy_of(tmp_path) == (WHOLE, None)
    assert served(WHOLE, "any/where/at/any/depth/at/all/n.md")


@pytest.mark.parametrize("exposed", [None, [], ["*", ".."], "brain", {}])
def test_without_a_clean_exposed_root_the_content_roots_that_exist_are_served(
    write_tree: WriteTree, exposed: object
) -> None:
    manifest = {"user_content_roots": ["work/active/", "brain/*.md", "gone", "h*/"], "mcp_exposed_roots": exposed}
    policy, _ = policy_of(vault_with(write_tree, manifest, "work/active", "brain", "reference", "private"))
    assert (policy.roots, policy.origin) == (("work/active", "brain"), "derived")


@pytest.mark.parametrize(
    ("folders", "roots"),
    [(("brain",), ("brain",)), (("brain", "reference"), ("brain", "reference")), ((), ("brain", "reference"))],
)
def test_with_neither_the_fallback_roots_are_served(
    write_tree: WriteTree, folders: tuple[str, ...], roots: tuple[str, ...]
) -> None:
    policy, _ = policy_of(vault_with(write_tree, {"user_content_roots": ["gone"]}, "other", *folders))
    assert (policy.roots, policy.origin) == (roots, "fallback")


def test_an_empty_manifest_is_a_manifest(write_tree: WriteTree) -> None:
    policy, _ = policy_of(vault_with(write_tree, {}, "other"))
    assert policy.origin == "fallback"


@pytest.mark.parametrize(
    "text", ["{", "[]", "7", "null", '"brain"', "", b"\xff\xfe", "[" * 100_000, '{"mcp_exposed_roots": ["secret"]']
)
def test_a_manifest_that_cannot_be_read_never_widens_what_is_served(write_tree: WriteTree, text: str | bytes) -> None:
    policy, diagnostic = policy_of(vault_with(write_tree, text, "secret"))
    assert (policy.roots, policy.origin) == (("brain", "reference"), "fallback")
    assert diagnostic
    assert "vault-manifest.json" in diagnostic
    assert not served(policy, "secret/n.md")


def test_a_manifest_that_is_a_folder_never_widens_what_is_served(write_tree: WriteTree) -> None:
    policy, diagnostic = policy_of(write_tree({"vault-manifest.json/x": "", "secret/n.md": ""}))
    assert policy.origin == "fallback"
    assert diagnostic


def test_a_manifest_that_is_a_dangling_link_never_widens_what_is_served(write_tree: WriteTree) -> None:
    root = write_tree({"secret/n.md": ""})
    (root / "vault-manifest.json").symlink_to("synced-elsewhere.json")
    assert policy_of(root)[0].origin == "fallback"


def test_a_manifest_closed_to_us_never_widens_what_is_served(write_tree: WriteTree, public_tmp: Path) -> None:
    root = write_tree({"vault-manifest.json": "{}", "secret/n.md": ""}, public_tmp / "v")
    (root / "vault-manifest.json").chmod(0o000)
    code = (
        "import sys; from pathlib import Path; from vademecum.access import policy_of;"
        " print(policy_of(Path(sys.argv[1]))[0].origin)"
    )
    assert run_python(["-c", code, str(root)], as_user=NOBODY, cwd=public_tmp).out.strip() == "fallback"


def test_a_manifest_with_a_byte_order_mark_is_read(write_tree: WriteTree) -> None:
    policy, diagnostic = policy_of(vault_with(write_tree, '\ufeff{"mcp_exposed_roots": ["a"]}'))
    assert (policy.roots, diagnostic) == (("a",), None)


# ── the memory root


@pytest.mark.parametrize(
    ("manifest", "roots"),
    [
        ({"mcp_exposed_roots": ["memories", "brain"]}, ("brain",)),
        ({"mcp_exposed_roots": ["Memories/2026", "brain"]}, ("brain",)),
        ({"mcp_exposed_roots": ["memories"]}, ()),
        ({"mcp_exposed_roots": ["memories-old", "brain"]}, ("memories-old", "brain")),
        ({"mcp_exposed_roots": ["lessons/x", "memories", "brain"], "memory_root": "lessons"}, ("memories", "brain")),
        ({"mcp_exposed_roots": ["brain"], "memory_root": "../brain"}, ("brain",)),
        ({"mcp_exposed_roots": ["brain"], "memory_root": "a/b"}, ("brain",)),
        ({"mcp_exposed_roots": ["brain"], "memory_root": 7}, ("brain",)),
        ({"mcp_exposed_roots": ["brain"], "memory_root": ".."}, ("brain",)),
    ],
)
def test_the_memory_root_is_never_served(
    write_tree: WriteTree, manifest: dict[str, Any], roots: tuple[str, ...]
) -> None:
    assert policy_of(vault_with(write_tree, manifest))[0].roots == roots


def test_the_memory_root_is_taken_out_of_derived_roots_and_out_of_a_wider_root(write_tree: WriteTree) -> None:
    manifest = {"user_content_roots": ["memories", "brain"], "memory_root": "memories"}
    assert policy_of(vault_with(write_tree, manifest, "memories", "brain"))[0].roots == ("brain",)
    inside = Policy(roots=("brain",), withheld_names=(), memory_root="brain", origin="manifest")
    assert not served(inside, "Brain/2026/n.md")


# ── the verdict


@pytest.mark.parametrize(
    ("path", "is_served"),
    [
        ("work/active/n.md", True),
        ("Work/ACTIVE/n.md", True),
        ("work/active-secrets/n.md", False),
        ("work/n.md", False),
        ("work/active.md", False),
        ("x/work/active/n.md", False),
        ("n.md", False),
        ("work/active/1/2/3/4/n.md", True),
        ("work/active/1/2/3/4/5/n.md", False),
        ("memories/n.md", False),
        ("MEMORIES/2026/n.md", False),
        ("work/active/Secrets.md", False),
        ("work/active/deep/sECRETS.MD", False),
        ("work/active/My Secrets.md", True),
        ("work/active/Secrets.md.md", True),
        ("work/active/Secrets/n.md", True),
    ],
)
def test_a_note_is_served_when_it_lies_in_a_root_and_is_not_named(path: str, is_served: bool) -> None:
    policy = Policy(("work/active",), ("secrets.md",), "memories", "manifest")
    assert served(policy, path) is is_served
    assert served(policy, path, caller=ANONYMOUS) is is_served


@pytest.mark.parametrize("written", ["Secrets.md", "brain\\Secrets.md", "brain/SECRETS.MD", "x/y/secrets.md"])
def test_a_hand_built_policy_cannot_fail_open(written: str) -> None:
    policy = Policy((), (written,), None, "whole")
    assert not served(policy, "deep/secrets.md")
    assert not served(policy, "deep\\Secrets.md")
    assert served(policy, "deep/secrets2.md")


def test_an_exact_file_may_be_exposed_as_a_root() -> None:
    assert served(Policy(("work/Index.md",), (), None, "manifest"), "work/Index.md")


def test_nothing_is_served_when_no_root_is_left() -> None:
    assert not served(Policy((), (), "memories", "manifest"), "n.md")
    assert not served(Policy((), (), "memories", "manifest"), "brain/n.md", caller=OWNER)


def test_an_offline_source_never_scanned_serves_no_more_than_the_fallback() -> None:
    assert not served(UNKNOWN, "secret/n.md", caller=OWNER)
    assert served(UNKNOWN, "brain/n.md")


@pytest.mark.parametrize(("caller", "is_served"), [(OWNER, True), (PROJECT, False), (ANONYMOUS, False)])
def test_a_private_note_is_for_its_owner(caller: Caller, is_served: bool) -> None:
    assert served(WHOLE, "n.md", caller=caller, private=True) is is_served
    assert served(WHOLE, "n.md", caller=caller)


@pytest.mark.parametrize("origin", ["flag", "roots", "folder", "anonymous"])
def test_only_the_owner_is_the_owner(origin: Any) -> None:
    assert not Caller(None, (), origin).is_owner
    assert not served(WHOLE, "n.md", caller=Caller(None, (), origin), private=True)


def test_a_policy_survives_being_kept_in_the_index() -> None:
    policy = Policy(("a", "b/c"), ("x.md",), "memories", "derived")
    assert Policy.from_json(json.loads(json.dumps(policy.as_json()))) == policy


# ── the visible set


def test_only_visible_notes_makes_a_visible_set() -> None:
    with pytest.raises(TypeError):
        VisibleSet(OWNER, {"s": WHOLE})
    with pytest.raises(TypeError):
        VisibleSet(OWNER, {"s": WHOLE}, object())


def test_a_visible_set_cannot_be_widened_by_copying() -> None:
    with pytest.raises((TypeError, ValueError)):
        dataclasses.replace(visible_notes(ANONYMOUS, {"s": WHOLE}), caller=OWNER)


def test_changing_the_policies_afterwards_does_not_widen_the_set() -> None:
    policies = {"s": UNKNOWN}
    visible = visible_notes(PROJECT, policies)
    policies["t"] = WHOLE
    policies["s"] = WHOLE
    assert visible.sources == {"s"}
    assert visible.withheld("s", "secret/n.md", private=False) == "outside_roots"


# ── what a note says of itself, from end to end

PRIVATE = {
    "bool": "---\nprivate: true\n---\nwombat",
    "text": '---\nprivate: "true"\n---\nwombat',
    "yes": "---\nprivate: yes\n---\nwombat",
    "capitals": "---\nPrivate: TRUE\n---\nwombat",
    "list": "---\ntags: [x, private]\n---\nwombat",
    "block list": "---\ntags:\n  - x\n  - private\n---\nwombat",
    "one tag": "---\ntags: private\n---\nwombat",
    "hash": '---\ntags: ["#Private"]\n---\nwombat',
    "quoted": "---\ntags: ['private']\n---\nwombat",
    "nested": "---\ntags: [private/diary]\n---\nwombat",
    "comma": "---\ntags: x, private\n---\nwombat",
    "byte order mark": "\ufeff---\ntags: private\n---\nwombat",
    "windows": "---\r\ntags: private\r\n---\r\nwombat",
    "in the text": "wombat #private",
    "nested in the text": "wombat\n\n#Private/diary",
    "broken beside": "---\nkey: [unclosed\ntags: private\n---\nwombat",
    "far down": "---\n" + "".join(f"key{i}: value\n" for i in range(200)) + "private: true\n---\nwombat",
    "never closed": "---\ntitle: x\nwombat",
}
PUBLIC = {
    "false": "---\nprivate: false\n---\nwombat",
    "prose": "wombat is a private matter",
    "own line": "wombat\n\nprivate\n\n- private\n",
    "rule": "wombat\n\n---\n\nprivate: true\n\n---\n",
    "other tag": "---\ntags: [privateer, semi-private]\n---\nwombat #privateer",
    "long": "---\naliases:\n" + "".join(f"  - name {i}\n" for i in range(300)) + "---\nwombat",
    "in code": "wombat\n\n```\n#private\n```\n",
    "a title": "---\ntitle: private\n---\nwombat",
}


@pytest.mark.parametrize("form", PRIVATE)
def test_a_note_private_in_any_form_is_withheld_from_all_but_its_owner(
    bench: Workbench, write_tree: WriteTree, form: str
) -> None:
    bench.add(write_tree({"n.md": PRIVATE[form]}))
    for caller in (PROJECT, ANONYMOUS):
        answer = bench.recall("wombat", caller=caller)
        assert answer.hits == ()
        assert answer.receipt.withheld == {"private": 1}
        with pytest.raises(NoteWithheld):
            bench.app.read("n.md", caller)
    [hit] = bench.recall("wombat").hits
    assert hit.private
    assert hit.as_json()["private"] is True
    assert bench.app.read("n.md", OWNER).private


@pytest.mark.parametrize("form", PUBLIC)
def test_a_note_that_only_speaks_of_private_things_is_served(
    bench: Workbench, write_tree: WriteTree, form: str
) -> None:
    bench.add(write_tree({"n.md": PUBLIC[form]}))
    [hit] = bench.recall("wombat", caller=ANONYMOUS).hits
    assert "private" not in hit.as_json()
    assert "wombat" in bench.app.read("n.md", ANONYMOUS).text


def test_a_manifest_narrows_recall_and_read_alike(bench: Workbench, write_tree: WriteTree) -> None:
    manifest = {"mcp_exposed_roots": ["brain"], "mcp_never_expose": ["Keys.md"], "memory_root": "memories"}
    names = ("brain/a.md", "brain/Keys.md", "other/b.md", "memories/c.md")
    bench.add(write_tree({"vault-manifest.json": json.dumps(manifest), **dict.fromkeys(names, "wombat")}))
    for caller in (PROJECT, ANONYMOUS):
        answer = bench.recall("wombat", caller=caller)
        assert [hit.path for hit in answer.hits] == ["brain/a.md"]
        assert answer.receipt.withheld == {"never_exposed": 1, "outside_roots": 1, "memory_root": 1}
        for name in names[1:]:
            with pytest.raises(NoteWithheld):
                bench.app.read(name, caller)


def test_a_manifest_that_breaks_later_narrows_at_once(bench: Workbench, write_tree: WriteTree) -> None:
    root = write_tree({"brain/a.md": "wombat", "other/b.md": "wombat"})
    source = bench.add(root)
    assert len(bench.found("wombat", caller=PROJECT)) == 2
    (root / "vault-manifest.json").write_text("{")
    assert bench.found("wombat", caller=PROJECT) == ["brain/a.md"]
    report = bench.sync(source)
    assert any("vault-manifest.json" in line for line in report.diagnostics)


# ── proof on disk


def test_a_note_made_private_is_withheld_before_a_sync_notices(
    bench: Workbench, write_tree: WriteTree, later: Callable[[float], None]
) -> None:
    root = write_tree({"n.md": "wombat\n"})
    later(10)
    bench.add(root)
    assert bench.found("wombat", caller=PROJECT) == ["n.md"]
    (root / "n.md").write_text("---\nprivate: true\n---\nwombat\n")
    answer = bench.recall("wombat", caller=PROJECT)
    assert answer.hits == ()
    assert answer.receipt.withheld == {"private": 1}
    with pytest.raises(NoteWithheld):
        bench.app.read("n.md", PROJECT)


def test_a_note_made_private_with_its_time_and_size_put_back_is_withheld(
    bench: Workbench, write_tree: WriteTree, later: Callable[[float], None]
) -> None:
    root = write_tree({"n.md": "wombat " + "x" * 30})
    later(10)
    bench.add(root)
    before = (root / "n.md").stat()
    (root / "n.md").write_text("---\ntags: private\n---\nwombat xxx".ljust(before.st_size, "x"))
    os.utime(root / "n.md", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (root / "n.md").stat().st_size == before.st_size
    assert bench.found("wombat", caller=PROJECT) == []


def test_a_note_made_public_again_waits_for_no_sync_to_be_read(bench: Workbench, write_tree: WriteTree) -> None:
    root = write_tree({"n.md": "---\nprivate: true\n---\nwombat\n"})
    bench.add(root)
    (root / "n.md").write_text("wombat\n")
    assert "wombat" in bench.app.read("n.md", PROJECT).text


class Note(NamedTuple):
    """A note of which the index knows next to nothing."""

    disk_path: str
    source_id: str = "s"
    known: FileStamp | None = None
    private: bool = False

    @property
    def path(self) -> str:
        return self.disk_path


def test_a_file_that_changed_and_cannot_be_inspected_counts_as_private(tmp_path: Path, write_tree: WriteTree) -> None:
    root = write_tree({"n.md": "x" * 10})
    with (root / "n.md").open("r+b") as file:
        file.truncate((1 << 24) + 1)
    with pytest.raises(NoteWithheld):
        readable_note(visible_notes(PROJECT, {"s": WHOLE}), Note("n.md"), root=root)


@pytest.mark.parametrize(
    ("path", "error"), [("../x.md", OutsideRoot), ("link.md", OutsideRoot), ("gone.md", NoteNotFound)]
)
def test_c24_a_note_is_opened_through_containment(write_tree: WriteTree, path: str, error: type[Exception]) -> None:
    root = write_tree({"n.md": "x"})
    (root / "link.md").symlink_to("/etc/hosts")
    with pytest.raises(error):
        readable_note(visible_notes(OWNER, {"s": WHOLE}), Note(path), root=root)


def test_a_note_replaced_by_a_link_is_not_served(bench: Workbench, write_tree: WriteTree) -> None:
    root = write_tree({"n.md": "wombat"})
    bench.add(root)
    (root / "n.md").unlink()
    (root / "n.md").symlink_to("/etc/hosts")
    answer = bench.recall("wombat")
    assert answer.hits == ()
    assert answer.receipt.withheld == {"outside_root": 1}
    with pytest.raises(OutsideRoot):
        bench.app.read("n.md", OWNER)


# ── the caller


def test_the_folder_names_the_project(tmp_path: Path) -> None:
    (tmp_path / "Kestrel-App").mkdir()
    assert caller_in(tmp_path / "Kestrel-App") == Caller("kestrel-app", (), "folder")


def test_the_root_of_the_checkout_names_the_project_from_any_folder_in_it(tmp_path: Path) -> None:
    deep = tmp_path / "Kestrel" / "src" / "deep"
    deep.mkdir(parents=True)
    (tmp_path / "Kestrel" / ".git").mkdir()
    assert caller_in(deep).project == "kestrel"


def test_a_worktree_whose_git_is_a_file_is_a_checkout(tmp_path: Path) -> None:
    (tmp_path / "Tree" / "src").mkdir(parents=True)
    (tmp_path / "Tree" / ".git").write_text("gitdir: elsewhere")
    assert caller_in(tmp_path / "Tree" / "src").project == "tree"


@pytest.mark.parametrize(
    ("files", "project"),
    [
        ({".vade-project": "Falcon\n"}, "falcon"),
        ({".om-project": "falcon"}, "falcon"),
        ({".vade-project": "one", ".om-project": "two"}, "one"),
        ({".vade-project": "# a comment\n\n  Falcon.v2  \nmore\n"}, "falcon.v2"),
        ({".vade-project": "\ufefffalcon"}, "falcon"),
        ({".vade-project": ""}, "kestrel"),
        ({".vade-project": "../../etc"}, "kestrel"),
        ({".vade-project": "two words"}, "kestrel"),
        ({".vade-project": b"\xff\xfe"}, "kestrel"),
        ({".vade-project": "!junk", ".om-project": "falcon"}, "falcon"),
    ],
)
def test_a_declared_name_wins_and_junk_does_not(
    tmp_path: Path, write_tree: WriteTree, files: dict[str, str], project: str
) -> None:
    folder = write_tree({**files, "src/x": ""}, tmp_path / "Kestrel")
    (folder / ".git").mkdir()
    assert caller_in(folder).project == project
    assert caller_in(folder / "src").project == project


def test_the_home_folder_a_root_and_temporary_folders_name_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, temporary = tmp_path / "home", tmp_path / "scratch"
    home.mkdir()
    temporary.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("TMPDIR", str(temporary))
    for folder in (home, temporary, Path("/"), Path("/tmp"), Path("/var/tmp")):
        assert caller_in(folder) == ANONYMOUS


def test_a_home_folder_under_git_still_names_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "home/.git").mkdir(parents=True)
    (tmp_path / "home/notes").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert caller_in(tmp_path / "home" / "notes") == ANONYMOUS


def test_a_link_to_a_folder_names_what_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "Real").mkdir()
    (tmp_path / "alias").symlink_to("Real")
    assert caller_in(tmp_path / "alias").project == "real"
