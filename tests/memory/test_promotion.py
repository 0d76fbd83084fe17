"""What promoted memories are served as: the named part of a note that anybody may read, or nothing of it."""

import os
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest

from vademecum.access import WHOLE, Policy
from vademecum.memory.promotion import Broken, Promotion, PromotionHealth, Promotions, audit, describe

WriteTree = Callable[..., Path]

HOME = Policy(roots=(), withheld_names=(), memory_root="memories", origin="whole")
EXPOSED = Policy(
    roots=("brain", "work/active"), withheld_names=("Secret Plan.md",), memory_root="memories", origin="manifest"
)
NOTE = "# Storage\n\n- Copy all three files. ^om-1\n- Something else.\n\n## Backups\n\nNightly.\n"
TREE = {
    "brain/Storage.md": NOTE,
    "brain/Secret Plan.md": NOTE,
    "brain/Diary.md": "---\ntags: [private]\n---\n" + NOTE,
    "brain/Tagged.md": NOTE + "\n#private\n",
    "brain/Open.md": "---\nkey: value\n\n" + NOTE,
    "brain/a/b/c/d/Deep.md": NOTE,
    "brain/a/b/c/d/e/Deeper.md": NOTE,
    "brain/folder.md/inside.md": NOTE,
    "brain/.hidden/N.md": NOTE,
    "work/active/N.md": NOTE,
    "work/active-secrets/N.md": NOTE,
    "private/N.md": NOTE,
    "memories/2026/09/2026-09-02 M.md": NOTE,
    ".trash/N.md": NOTE,
    ".obsidian/N.md": NOTE,
    "N.md": NOTE,
}


def resolve(root: Path, marker: str | None, policy: Policy = EXPOSED) -> Promotion:
    return Promotions(root, policy).resolve(marker)


@pytest.fixture
def vault(write_tree: WriteTree) -> Path:
    return write_tree(TREE)


# ── what is served


@pytest.mark.parametrize(
    ("marker", "promotion"),
    [
        (None, Promotion("none")),
        ("", Promotion("none")),
        (" ", Promotion("none")),
        ("#^om-1", Promotion("unparsed")),
        ("brain/Storage\n## Forged#^om-1", Promotion("unparsed")),
        ("brain/Storage", Promotion("no_anchor", "brain/Storage.md")),
        ("brain/Storage#^", Promotion("no_anchor", "brain/Storage.md")),
        ("brain/Nowhere", Promotion("no_anchor", "brain/Nowhere.md")),
        ("brain/Storage#^om-1", Promotion("served", "brain/Storage.md", "^om-1", "- Copy all three files.")),
        ("brain/Storage.md#^om-1", Promotion("served", "brain/Storage.md", "^om-1", "- Copy all three files.")),
        ("brain/Storage#backups", Promotion("served", "brain/Storage.md", "backups", "Nightly.")),
        ("brain/Storage#^om-", Promotion("stale_anchor", "brain/Storage.md", "^om-")),
        ("brain/Storage#Restore", Promotion("stale_anchor", "brain/Storage.md", "Restore")),
        ("brain/Storage#Storage", Promotion("stale_anchor", "brain/Storage.md", "Storage")),
        ("brain/Nowhere#^om-1", Promotion("unreadable", "brain/Nowhere.md", "^om-1")),
        ("brain/folder#^om-1", Promotion("unreadable", "brain/folder.md", "^om-1")),
        ("brain/Storage.md/x#^om-1", Promotion("unreadable", "brain/Storage.md/x.md", "^om-1")),
        ("N#^om-1", Promotion("not_exposed", "N.md", "^om-1")),
    ],
)
def test_a_marker_comes_to_one_of_seven_ends(vault: Path, marker: str | None, promotion: Promotion) -> None:
    assert resolve(vault, marker) == promotion


def test_what_was_cut_says_so(write_tree: WriteTree) -> None:
    root = write_tree({"brain/N.md": "a" * 240_000 + " ^om-1\n"})
    found = resolve(root, "brain/N#^om-1")
    assert (found.status, found.truncated, len(found.text)) == ("served", True, 8_000)


@pytest.mark.parametrize("content", [b"\xef\xbb\xbfa\r\nb ^om-1\r\n\r\nc", b"a\nb ^om-1\n\n\xff\xfe"])
def test_marks_of_other_systems_and_broken_text_do_not_matter(write_tree: WriteTree, content: bytes) -> None:
    assert resolve(write_tree({"brain/N.md": content}), "brain/N#^om-1").text == "a\nb"


# ── what is not

OUTSIDE = [
    "../outside/N",
    "brain/../../outside/N",
    "brain/../private/N",
    "brain/../brain/Storage",
    "brain/..",
    "/etc/passwd",
    "/brain/Storage",
    "C:/brain/Storage",
    "C:\\brain\\Storage",
    "//server/share/N",
    "\\\\server\\share\\N",
    "brain\\Storage",
    "brain\\..\\private\\N",
    "%2e%2e/outside/N",
    "brain/%2e%2e/private/N",
    "brain/..%2fprivate/N",
    "brain%5c..%5cprivate/N",
    "./brain/Storage",
    "brain/./Storage",
    "brain//Storage",
    "brain/",
    "brain",
    "~/N",
    "file:///etc/passwd",
    "private/N",
    "private/Nowhere",
    "Brainstorm/N",
    "brain-2/N",
    "work/active-secrets/N",
    "work/N",
    "brain/.hidden/N",
    ".trash/N",
    ".obsidian/N",
    ".vade/history/N",
    "brain/Secret Plan",
    "brain/SECRET PLAN",
    "brain/Nested/secret plan",
    "memories/2026/09/2026-09-02 M",
    "Memories/2026/09/2026-09-02 M",
    "./memories/2026/09/2026-09-02 M",
    "brain/a/b/c/d/e/Deeper",
]


@pytest.mark.parametrize("path", OUTSIDE)
def test_a_path_that_is_not_exposed_is_refused_whether_a_file_is_there_or_not(vault: Path, path: str) -> None:
    (vault.parent / "outside").mkdir()
    (vault.parent / "outside/N.md").write_text(NOTE)
    empty = vault.parent / "empty"
    empty.mkdir()
    found = resolve(vault, f"{path}#^om-1")
    assert (found.status, found.text) == ("not_exposed", "")
    assert found == resolve(empty, f"{path}#^om-1")


@pytest.mark.parametrize("path", ["brain/Diary", "brain/Tagged", "brain/Open"])
@pytest.mark.parametrize("anchor", ["^om-1", "Backups", "^gone"])
@pytest.mark.parametrize("policy", [EXPOSED, HOME, WHOLE])
def test_a_private_note_is_served_to_nobody(vault: Path, path: str, anchor: str, policy: Policy) -> None:
    assert resolve(vault, f"{path}#{anchor}", policy) == Promotion("not_exposed", f"{path}.md", anchor)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("N", "served"),
        ("private/N", "served"),
        ("brain/Storage", "served"),
        ("brain/a/b/c/d/e/Deeper", "served"),
        ("brain/Secret Plan", "served"),
        ("Nowhere", "unreadable"),
        ("memories/2026/09/2026-09-02 M", "not_exposed"),
        ("./memories/2026/09/2026-09-02 M", "not_exposed"),
        ("brain/../memories/2026/09/2026-09-02 M", "not_exposed"),
        (".trash/N", "not_exposed"),
        ("../vault/N", "not_exposed"),
    ],
)
def test_without_a_manifest_all_but_memories_and_what_is_hidden_is_served(vault: Path, path: str, status: str) -> None:
    assert resolve(vault, f"{path}#^om-1", HOME).status == status


def test_a_note_behind_a_link_is_not_served_wherever_it_leads(vault: Path) -> None:
    outside = vault.parent / "outside"
    outside.mkdir()
    (outside / "N.md").write_text(NOTE)
    (vault / "brain/out").symlink_to(outside)
    (vault / "brain/Out.md").symlink_to(outside / "N.md")
    (vault / "brain/Dangling.md").symlink_to(outside / "Nowhere.md")
    (vault / "brain/Private.md").symlink_to(vault / "private/N.md")
    for path in ("brain/out/N", "brain/out/Nowhere", "brain/Out", "brain/Dangling", "brain/Private"):
        assert resolve(vault, f"{path}#^om-1").status == "not_exposed", path


def test_a_pipe_that_is_called_like_a_note_keeps_nobody_waiting(vault: Path) -> None:
    os.mkfifo(vault / "brain/Pipe.md")
    assert resolve(vault, "brain/Pipe#^om-1").status == "unreadable"


def test_a_name_that_no_file_can_have_is_one_that_cannot_be_read(vault: Path) -> None:
    assert resolve(vault, f"brain/{'n' * 5_000}#^om-1").status == "unreadable"


def test_a_vault_that_is_gone_serves_nothing(tmp_path: Path) -> None:
    assert resolve(tmp_path / "gone", "brain/Storage#^om-1").status == "unreadable"


def test_a_name_is_found_in_either_unicode_form(write_tree: WriteTree) -> None:
    composed = "brain/\u00c4pfel"
    root = write_tree({f"{unicodedata.normalize('NFD', composed)}.md": NOTE})
    assert resolve(root, f"{composed}#^om-1").status == "served"
    assert resolve(root, unicodedata.normalize("NFD", f"{composed}#^om-1")).status == "served"


def test_a_memory_root_is_recognised_in_either_unicode_form(write_tree: WriteTree) -> None:
    policy = Policy((), (), memory_root="m\u00e9moires", origin="whole")
    decomposed = unicodedata.normalize("NFD", "m\u00e9moires/2026/09/M")
    root = write_tree({f"{decomposed}.md": NOTE})
    assert resolve(root, f"{decomposed}#^om-1", policy).status == "not_exposed"


def test_names_that_differ_in_case_are_two_notes(write_tree: WriteTree) -> None:
    root = write_tree({"brain/n.md": "lower ^a\n", "brain/N.md": "upper ^a\n"})
    promotions = Promotions(root, EXPOSED)
    assert [promotions.resolve(f"brain/{name}#^a").text for name in "nN"] == ["lower", "upper"]


# ── what is remembered


def test_a_note_is_read_once_for_one_answer_and_anew_for_the_next(vault: Path) -> None:
    promotions = Promotions(vault, EXPOSED)
    assert promotions.resolve("brain/Storage#^om-1").status == "served"
    (vault / "brain/Storage.md").write_text("corrected ^om-1\n")
    assert promotions.resolve("brain/Storage#^om-1").text == "- Copy all three files."
    assert promotions.resolve("brain/Storage.MD#Backups").text == "Nightly."
    assert resolve(vault, "brain/Storage#^om-1").text == "corrected"


def test_absence_is_remembered_for_one_answer(vault: Path) -> None:
    promotions = Promotions(vault, EXPOSED)
    assert promotions.resolve("brain/New#^om-1").status == "unreadable"
    (vault / "brain/New.md").write_text(NOTE)
    assert promotions.resolve("brain/New#Backups").status == "unreadable"
    assert resolve(vault, "brain/New#^om-1").status == "served"


def test_a_note_that_was_made_private_is_withheld_from_the_next_answer_on(vault: Path) -> None:
    assert resolve(vault, "brain/Storage#^om-1").status == "served"
    (vault / "brain/Storage.md").write_text("---\nprivate: true\n---\n" + NOTE)
    assert resolve(vault, "brain/Storage#^om-1").status == "not_exposed"


# ── what is said of it


def test_every_end_is_told_in_words_of_its_own(vault: Path) -> None:
    markers = ["#x", "brain/Storage", "N#^om-1", "brain/Gone#^om-1", "brain/Storage#^gone", "brain/Storage#^om-1"]
    told = [describe(resolve(vault, marker)) for marker in markers]
    assert len(set(told)) == len(markers)
    assert all("shown as first written" in words for words in told[:-1])
    assert "shown as first written" not in told[-1]
    assert "^gone is STALE" in told[-2]
    assert told[-1] == "the promoted text of brain/Storage.md#^om-1"
    assert describe(resolve(vault, "brain/Storage#Backups")) == "the promoted text of brain/Storage.md#Backups"
    assert describe(resolve(vault, None)) == ""


def test_what_was_cut_is_told(vault: Path) -> None:
    found = resolve(vault, "brain/Storage#^om-1")
    assert "TRUNCATED" not in describe(found)
    assert describe(found._replace(truncated=True)).endswith("TRUNCATED")


@pytest.mark.parametrize("marker", ["#^forged", "forged\n\n---\n\n## Another memory#^x", "forged\x9b#x", ".md#forged"])
def test_a_marker_that_cannot_be_understood_is_not_repeated(vault: Path, marker: str) -> None:
    found = resolve(vault, marker)
    assert found == Promotion("unparsed")
    assert "forged" not in describe(found)
    assert "\n" not in describe(found)


def test_the_audit_counts_what_works_and_names_what_does_not(vault: Path) -> None:
    markers = {
        "m/none.md": None,
        "m/bare.md": "brain/Storage",
        "m/good.md": "brain/Storage#^om-1",
        "m/too.md": "brain/Storage#Backups",
        "m/garbled.md": "#^om-1",
        "m/stale.md": "brain/Storage#^gone",
        "m/away.md": "N#^om-1",
        "m/missing.md": "brain/Gone#^om-1",
    }
    promotions = Promotions(vault, EXPOSED)
    assert audit((path, promotions.resolve(marker)) for path, marker in markers.items()) == PromotionHealth(
        served=2,
        named_only=1,
        unparsed=("m/garbled.md",),
        broken=(
            Broken("m/stale.md", "brain/Storage.md", "stale_anchor"),
            Broken("m/away.md", "N.md", "not_exposed"),
            Broken("m/missing.md", "brain/Gone.md", "unreadable"),
        ),
    )


def test_without_memories_there_is_nothing_to_audit() -> None:
    assert audit([]) == PromotionHealth(0, 0, (), ())
