"""Opening a note or a part of it: what an address may mean, and what it may never reach."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vademecum.access import ANONYMOUS, OWNER
from vademecum.errors import NoteAmbiguous, NoteError, NoteNotFound, NoteUnreadable, NoteWithheld, OutsideRoot
from workbench import PROJECT, Workbench

WriteTree = Callable[..., Path]

TEXT = """---
title: Guide
---
intro

# One

first ^b1

## Two

- item a
- item b ^b2

# Three

last
"""


@pytest.fixture
def library(bench: Workbench, write_tree: WriteTree) -> Workbench:
    """A vault with a guide, look-alikes and odd names."""
    bench.add(
        write_tree(
            {
                "deep/Guide.md": TEXT,
                "a/Same.md": "in a",
                "b/Same.md": "in b",
                "Same tail.md": "tail",
                "odd#name.md": "odd hash",
                "odd:12.md": "odd colon",
                "v3.1 draft.md": "dotted",
                "crlf.md": TEXT.replace("\n", "\r\n"),
                "Upper.MD": "upper",
                "dup.md": "# H\n\none\n\n# H\n\ntwo",
            }
        )
    )
    return bench


def read(bench: Workbench, address: str) -> tuple[int, int, str]:
    passage = bench.app.read(address, OWNER)
    return passage.line_start, passage.line_end, passage.text


@pytest.mark.parametrize(
    ("address", "first", "last"),
    [
        ("deep/Guide.md", 1, 17),
        ("deep/Guide", 1, 17),
        ("Guide.md", 1, 17),
        ("Guide", 1, 17),
        ("deep/Guide.md#One", 6, 13),
        ("Guide#One", 6, 13),
        ("Guide#one", 6, 13),
        ("Guide#Two", 10, 13),
        ("Guide#One#Two", 10, 13),
        ("Guide#Three", 15, 17),
        ("Guide#^b1", 8, 8),
        ("Guide#^b2", 13, 13),
        ("Guide:1", 1, 1),
        ("Guide:6-8", 6, 8),
        ("deep/Guide.md:17", 17, 17),
        ("deep/Guide.md:15-999", 15, 17),
        ("crlf#One", 6, 13),
        ("crlf:8", 8, 8),
    ],
)
def test_an_address_means_a_note_or_a_part_of_it(library: Workbench, address: str, first: int, last: int) -> None:
    expected = "".join(line + "\n" for line in TEXT.split("\n")[first - 1 : last])
    start, end, text = read(library, address)
    assert (start, text.rstrip("\n")) == (first, expected.rstrip("\n"))
    assert end - last in (0, 1)  # a section may keep the blank line that ends it


@pytest.mark.parametrize(
    ("address", "text"),
    [
        ("odd#name.md", "odd hash\n"),
        ("odd#name", "odd hash\n"),
        ("odd:12.md", "odd colon\n"),
        ("odd:12", "odd colon\n"),
        ("v3.1 draft", "dotted\n"),
        ("v3.1 draft.md", "dotted\n"),
        ("a/Same", "in a\n"),
        ("b/Same.md", "in b\n"),
        ("Upper.MD", "upper\n"),
        ("dup#H", "# H\n\none\n"),
    ],
)
def test_a_name_is_taken_literally_first(library: Workbench, address: str, text: str) -> None:
    assert read(library, address)[2].rstrip("\n") == text.rstrip("\n")


def test_an_absolute_path_and_what_recall_prints_open_the_note(library: Workbench) -> None:
    root = library.app.registry.all()[0].root
    assert read(library, str(root / "deep/Guide.md"))[1] == 17
    assert read(library, f"{root}/deep/Guide.md:6-8")[0] == 6
    assert read(library, f"{root}/deep/Guide.md#Two")[0] == 10
    for hit in library.recall("item intro tail", limit=20).hits:
        passage = library.app.read(f"{hit.source_path}:{hit.line_start}-{hit.line_end}", OWNER)
        assert passage.path == hit.path


def test_a_path_through_the_link_by_which_the_source_was_added_opens_the_note(
    bench: Workbench, write_tree: WriteTree, tmp_path: Path
) -> None:
    write_tree({"n.md": "wombat"}, tmp_path / "real")
    (tmp_path / "alias").symlink_to("real")
    bench.add(tmp_path / "alias")
    assert "wombat" in bench.app.read(str(tmp_path / "alias/n.md"), OWNER).text
    assert "wombat" in bench.app.read(str(tmp_path / "real/n.md"), OWNER).text


@pytest.mark.parametrize("address", ["X.md", "sub/X.md", "X"])
def test_a_whole_path_wins_over_one_that_only_needs_a_suffix(
    bench: Workbench, write_tree: WriteTree, address: str
) -> None:
    root = write_tree({"X.md": "plain", "X.md.md": "twice", "sub/X.md": "plain", "sub/X.md.md": "twice"})
    bench.add(root)
    assert read(bench, address)[2] == "plain\n"
    assert read(bench, str(root / "sub" / "X.md"))[2] == "plain\n"
    assert read(bench, "X.md.md")[2] == "twice\n"


@pytest.mark.parametrize("address", ["deep/guide", "GUIDE", "[[Guide]]", "[[Guide|shown]]", "Handbook", "handbook#H"])
def test_a_note_is_found_by_what_a_link_would_call_it(bench: Workbench, write_tree: WriteTree, address: str) -> None:
    bench.add(write_tree({"deep/Guide.md": "---\naliases: [Handbook]\n---\n# H\n\ntext", "deep/Other.md": "x"}))
    assert bench.app.read(address, OWNER).path == "deep/Guide.md"


def test_the_end_of_two_paths_is_ambiguous_and_both_are_named(library: Workbench) -> None:
    with pytest.raises(NoteAmbiguous) as caught:
        library.app.read("Same", OWNER)
    assert "a/Same.md" in caught.value.hint
    assert "b/Same.md" in caught.value.hint


def test_one_path_in_two_sources_is_ambiguous_until_it_is_absolute(
    bench: Workbench, write_tree: WriteTree, tmp_path: Path
) -> None:
    roots = [write_tree({"n.md": name}, tmp_path / name) for name in ("one", "two")]
    for root in roots:
        bench.add(root)
    with pytest.raises(NoteAmbiguous):
        bench.app.read("n.md", OWNER)
    assert bench.app.read(str(roots[1] / "n.md"), OWNER).text == "two\n"


@pytest.mark.parametrize(
    "address", ["uide.md", "Guide.m", "deep", "eep/Guide.md", "nothing.md", "Guid", "x" * 3000, "🙂"]
)
def test_what_is_not_indexed_is_not_found(library: Workbench, address: str) -> None:
    with pytest.raises(NoteNotFound) as caught:
        library.app.read(address, OWNER)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("Guide#Nowhere", "One"),
        ("Guide#^nope", "block"),
        ("Guide:99", "1 to 17"),
        ("Guide:8-6", "1 to 17"),
        ("Guide:0", "1 to 17"),
        ("Guide:0-3", "1 to 17"),
    ],
)
def test_a_part_that_is_not_there_is_answered_with_what_is(library: Workbench, address: str, says: str) -> None:
    with pytest.raises(NoteNotFound) as caught:
        library.app.read(address, OWNER)
    assert says in caught.value.message + caught.value.hint


def test_a_file_that_is_not_a_note_is_not_opened(bench: Workbench, write_tree: WriteTree) -> None:
    root = write_tree({"a.md": "x", "secret.txt": "s", ".hidden.md": "h", "ex/n.md": "e", "image.png": b"\x89"})
    bench.add(root, exclude=["ex/**"])
    for name in ("secret.txt", ".hidden.md", "ex/n.md", "image.png"):
        for address in (name, str(root / name)):
            with pytest.raises(NoteNotFound):
                bench.app.read(address, OWNER)


def test_an_absolute_path_to_a_folder_is_no_note(bench: Workbench, write_tree: WriteTree) -> None:
    root = write_tree({"sub/deep/sub.md": "not this"})
    bench.add(root)
    with pytest.raises(NoteNotFound):
        bench.app.read(str(root / "sub"), OWNER)


BAD = [
    "../x.md", "..\\x.md", "a/../../x.md", "/etc/hosts", "C:\\x", "C:/x", "%2e%2e/x.md", "a/./../../x", "\x00x.md",
    "link.md", "out/x.md", "../vault-evil/x.md", "x.md/../../vault-evil/x.md", "..", "/", "", ".", "./../x.md",
    "%2e%2e%2fx.md", "..%2fx.md",
]  # fmt: skip


@pytest.mark.parametrize("path", BAD, ids=range(len(BAD)))
def test_c24_no_address_leads_out(bench: Workbench, write_tree: WriteTree, tmp_path: Path, path: str) -> None:
    write_tree({"x.md": "zqoutside"}, tmp_path)
    write_tree({"x.md": "zqoutside"}, tmp_path / "vault-evil")
    root = write_tree({"inside.md": "zqinside", "a/b.md": "zqinside"})
    (root / "link.md").symlink_to("/etc/hosts")
    (root / "out").symlink_to(tmp_path / "vault-evil")
    bench.add(root)
    for address in (path, f"{root}/{path}", f"{path}#H", f"{path}:1-2"):
        with pytest.raises(NoteError) as caught:
            bench.app.read(address, OWNER)
        assert caught.value.code in {"outside_root", "note_not_found"}
    if path in BAD[:10]:
        with pytest.raises(OutsideRoot):
            bench.app.read(path, OWNER)


def test_c24_a_sibling_whose_path_begins_like_the_root_is_outside(
    bench: Workbench, write_tree: WriteTree, tmp_path: Path
) -> None:
    write_tree({"x.md": "zqoutside"}, tmp_path / "vault-evil")
    root = write_tree({"x.md": "inside"})
    bench.add(root)
    with pytest.raises(OutsideRoot):
        bench.app.read(f"{root}-evil/x.md", OWNER)
    assert bench.found("zqoutside") == []


def test_c24_what_a_link_leads_to_is_found_nowhere(bench: Workbench, write_tree: WriteTree, tmp_path: Path) -> None:
    outside = write_tree({"x.md": "zqoutside"}, tmp_path / "elsewhere")
    root = write_tree({"a.md": "words"})
    (root / "link.md").symlink_to(outside / "x.md")
    (root / "dir").symlink_to(outside)
    bench.add(root)
    assert bench.found("zqoutside") == []
    assert bench.found("words") == ["a.md"]


@settings(
    derandomize=True, deadline=None, max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.text(max_size=30)
    | st.lists(
        st.sampled_from(["..", "/", "Guide", "#", "^", ":", "1", "-", "%2e", "\\", "\x00", ".md", "deep"]), max_size=8
    ).map("".join)
)
def test_no_address_ends_in_an_error_that_is_not_ours(library: Workbench, address: str) -> None:
    try:
        library.app.read(address, OWNER)
    except NoteError as exc:
        assert exc.message


@pytest.mark.parametrize("address", ["n", "n.md", "n.md#H", "n:1", "n#^b"])
def test_a_private_note_is_opened_for_its_owner_alone(bench: Workbench, write_tree: WriteTree, address: str) -> None:
    root = write_tree({"n.md": "---\nprivate: true\n---\n# H\n\nzqsecret ^b"})
    bench.add(root)
    for caller in (PROJECT, ANONYMOUS):
        for form in (address, f"{root}/{address}"):
            with pytest.raises(NoteWithheld) as caught:
                bench.app.read(form, caller)
            assert "zqsecret" not in caught.value.message + caught.value.hint
    assert bench.app.read(address, OWNER).private


def test_an_ambiguity_does_not_name_private_notes_to_others(bench: Workbench, write_tree: WriteTree) -> None:
    bench.add(write_tree({"zqsecret plan/Same.md": "---\nprivate: true\n---\nx", "b/Same.md": "y", "c/Same.md": "z"}))
    with pytest.raises(NoteError) as caught:
        bench.app.read("Same", PROJECT)
    assert "zqsecret" not in caught.value.message + caught.value.hint


def test_a_note_is_read_as_its_file_is_now(bench: Workbench, write_tree: WriteTree) -> None:
    root = write_tree({"n.md": "old", "other.md": "x"})
    bench.add(root)
    (root / "n.md").write_text("new")
    assert bench.app.read("n", OWNER).text == "new\n"
    (root / "n.md").unlink()
    with pytest.raises(NoteNotFound):
        bench.app.read("n", OWNER)


def test_a_note_of_a_source_that_is_away_is_unreadable_not_gone(bench: Workbench, write_tree: WriteTree) -> None:
    root = write_tree({"n.md": "x"})
    bench.add(root)
    root.rename(root.with_name("off"))
    for address in ("n.md", str(root / "n.md")):
        with pytest.raises(NoteUnreadable) as caught:
            bench.app.read(address, OWNER)
        assert str(root) in caught.value.hint


def test_a_disabled_source_is_not_opened(bench: Workbench, write_tree: WriteTree) -> None:
    root = write_tree({"n.md": "x"})
    source = bench.add(root)
    bench.app.registry.edit(source.id, enabled=False)
    for address in ("n.md", str(root / "n.md")):
        with pytest.raises(NoteError):
            bench.app.read(address, OWNER)
