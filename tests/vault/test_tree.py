"""The walk, its ignore rules, containment, and reading one file: what a hostile or unlucky folder may not do."""

import errno
import json
import os
import time
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from process import NOBODY, run_python
from vademecum.errors import GlobInvalid, NoteError, NoteNotFound, NoteUnreadable, OutsideRoot, SourceRootMissing
from vademecum.vault import (
    FileStamp,
    Ignores,
    check_globs,
    contained,
    leads_out,
    note_key,
    read_note_bytes,
    stamp_of,
    user_ignore_filters,
    walk,
)
from workbench import files_on_disk

WriteTree = Callable[..., Path]


def listed(root: Path, *globs: str, prefixes: tuple[str, ...] = ()) -> list[str]:
    return list(walk(root, Ignores(check_globs(globs), prefixes)).files)


# ── globs


@pytest.mark.parametrize(
    ("glob", "path", "excluded"),
    [
        # the table of the specification
        ("private/**", "private/a.md", True),
        ("private/**", "x/private/a.md", False),
        ("private/**", "a.tmp.md", False),
        ("private/**", "d/e/n.md", False),
        ("**/private/**", "private/a.md", True),
        ("**/private/**", "x/private/a.md", True),
        ("**/private/**", "a.tmp.md", False),
        ("*.tmp.md", "private/a.md", False),
        ("*.tmp.md", "x/private/a.md", False),
        ("*.tmp.md", "a.tmp.md", True),
        # no slash: anywhere
        ("*.tmp.md", "deep/down/a.tmp.md", True),
        ("Idea.md", "Idea.md", True),
        ("Idea.md", "x/y/Idea.md", True),
        ("Idea.md", "My Idea.md", False),
        ("Idea.md", "Idea.md.md", False),
        # a slash: anchored at the root
        ("a/*.md", "a/x.md", True),
        ("a/*.md", "b/a/x.md", False),
        ("a/*.md", "a/b/x.md", False),
        # ** is zero or more whole segments
        ("a/**/z.md", "a/z.md", True),
        ("a/**/z.md", "a/b/c/z.md", True),
        ("a/**/z.md", "b/a/z.md", False),
        ("**/z.md", "z.md", True),
        ("private/**", "private/deep/down/a.md", True),
        ("**", "anything/at/all.md", True),
        ("**/**/x.md", "x.md", True),
        ("a/**/b/**/c.md", "a/1/b/2/3/c.md", True),
        ("a/**/b/**/c.md", "a/1/2/c.md", False),
        # inside a segment ** is no more than *
        ("a**z.md", "abcz.md", True),
        ("a**z.md", "a/z.md", False),
        # * may be empty inside a segment, but not alone
        ("x*.md", "x.md", True),
        ("a/*/c.md", "a/b/c.md", True),
        ("a/*/c.md", "a/c.md", False),
        ("a/*/c.md", "a/b/b/c.md", False),
        ("*a*b*.md", "xxaxxbxx.md", True),
        ("*a*b*.md", "xxbxxaxx.md", False),
        # the whole path must match; a slash-less name that is a folder's takes the folder
        ("private", "private/a.md", True),
        ("private", "x/private/deep/a.md", True),
        ("private", "private.md", False),
        ("riv", "private/a.md", False),
        ("a/b", "a/b/c.md", True),
        ("a/b", "a/bc.md", False),
        # case counts
        ("Private/**", "private/a.md", False),
        ("*.MD", "a.md", False),
        # no other syntax: these characters stand for themselves
        ("a?.md", "ab.md", False),
        ("a?.md", "a?.md", True),
        ("[ab].md", "a.md", False),
        ("[ab].md", "[ab].md", True),
        ("{a,b}.md", "a.md", False),
        ("{a,b}.md", "{a,b}.md", True),
        ("!a.md", "a.md", False),
        ("!a.md", "!a.md", True),
        ("a.c.md", "abc.md", False),
        ("a+.md", "aa.md", False),
        ("$(x).md", "$(x).md", True),
        # what is tidied before it is stored
        ("./private/**", "private/a.md", True),
        ("private\\**", "private/a.md", True),
        ("private/", "private/deep/a.md", True),
        ("private/", "x/private/a.md", False),
        ("  *.tmp.md  ", "a.tmp.md", True),
    ],
)
def test_a_glob_leaves_out_exactly_what_it_says(write_tree: WriteTree, glob: str, path: str, excluded: bool) -> None:
    root = write_tree({path: "text", "kept by all but **/kept.md": "no note"})
    assert (path not in listed(root, glob)) is excluded


def test_a_glob_typed_decomposed_meets_a_composed_name(write_tree: WriteTree) -> None:
    name = unicodedata.normalize("NFC", "Café")
    root = write_tree({f"{name}/a.md": "x"})
    assert listed(root, unicodedata.normalize("NFD", "Café/**")) == []


def test_globs_add_up(write_tree: WriteTree) -> None:
    root = write_tree({"a/1.md": "", "b/2.md": "", "c/3.md": ""})
    assert listed(root, "a/**", "2.md") == ["c/3.md"]


def matches(segments: tuple[str, ...], path: tuple[str, ...]) -> bool:
    """The rules of the specification, written down naively."""
    if not segments:
        return not path
    head, rest = segments[0], segments[1:]
    if head == "**":
        return matches(rest, path) or (bool(path) and matches(segments, path[1:]))
    return bool(path) and one_segment(head, path[0]) and matches(rest, path[1:])


def one_segment(pattern: str, text: str) -> bool:
    if pattern == "*":
        return bool(text)
    return letters(pattern, text)


def letters(pattern: str, text: str) -> bool:
    if not pattern:
        return not text
    if pattern[0] == "*":
        return letters(pattern[1:], text) or (bool(text) and letters(pattern, text[1:]))
    return bool(text) and pattern[0] == text[0] and letters(pattern[1:], text[1:])


@settings(derandomize=True, deadline=None, max_examples=600)
@given(
    st.lists(st.sampled_from(["**", "*", "a", "b", "a*", "*b", "a*b", "*a*"]), min_size=2, max_size=6),
    st.lists(st.sampled_from(["a", "b", "ab", "ba", "aab", "c"]), min_size=1, max_size=7),
)
def test_globs_agree_with_the_rules_read_naively(segments: list[str], path: list[str]) -> None:
    said = Ignores(("/".join(segments),)).reason("/".join(path), path[-1])
    assert (said == "excluded") is matches(tuple(segments), tuple(path))


@pytest.mark.parametrize(
    ("glob", "path"),
    [
        ("/".join(["**", "a"] * 25) + "/z.md", "/".join(["a"] * 400) + "/y.md"),
        ("*a" * 100 + "*z.md", "a" * 240 + ".md"),
        ("/".join(["**", "*a*a*a*b"] * 12) + "/x", "/".join(["a" * 60] * 60) + "/y.md"),
    ],
)
def test_no_glob_takes_exponential_time(glob: str, path: str) -> None:
    ignores = Ignores(check_globs([glob]))
    started = time.perf_counter()
    assert ignores.reason(path, "y.md") is None
    assert time.perf_counter() - started < 0.5


@pytest.mark.parametrize(
    "glob",
    [
        "",
        "   ",
        "/abs/**",
        "\\abs",
        "C:/x/**",
        "C:\\x",
        "../x",
        "a/../b",
        "a\\..\\b",
        "x" * 501,
        "a\x00b",
        "a\nb",
        "\udcff",
    ],
)
def test_a_glob_that_could_never_mean_what_was_hoped_is_refused(glob: str) -> None:
    with pytest.raises(GlobInvalid):
        check_globs([glob])


def test_two_hundred_globs_are_taken_and_one_more_is_not() -> None:
    assert len(check_globs([f"{i}/**" for i in range(200)])) == 200
    with pytest.raises(GlobInvalid):
        check_globs([f"{i}/**" for i in range(201)])


def test_globs_keep_their_order_and_lose_repeats() -> None:
    assert check_globs(["b/**", "a/**", " b/** ", "./a/**", "b/"]) == ("b/**", "a/**")


# ── what the vault itself asks to ignore


def test_ignore_filters_are_read_from_the_settings_of_the_vault(write_tree: WriteTree) -> None:
    filters = {"userIgnoreFilters": ["Templates/", "Archive", "/^draft.*/", "  ", 7, "deep/down/"]}
    root = write_tree({".obsidian/app.json": json.dumps(filters)})
    prefixes, diagnostics = user_ignore_filters(root)
    assert prefixes == ("Templates", "Archive", "deep/down")
    assert len(diagnostics) == 2
    assert "/^draft.*/" in diagnostics[0]


@pytest.mark.parametrize(
    "tree",
    [
        {"a.md": ""},
        {".obsidian/app.json": "{}"},
        {".obsidian/app.json": '{"userIgnoreFilters": null}'},
        {".obsidian/app.json": '{"userIgnoreFilters": []}'},
        {".obsidian": "a file"},
    ],
)
def test_no_ignore_filters_is_an_empty_list(write_tree: WriteTree, tree: dict[str, str]) -> None:
    assert user_ignore_filters(write_tree(tree)) == ((), [])


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '"x"',
        '{"userIgnoreFilters": "Templates/"}',
        '{"userIgnoreFilters": {"a": 1}}',
        b"\xff\xfe{}",
        "[" * 100_000,
    ],
)
def test_settings_that_cannot_be_understood_are_not_an_empty_list(write_tree: WriteTree, text: str | bytes) -> None:
    prefixes, diagnostics = user_ignore_filters(write_tree({".obsidian/app.json": text}))
    assert prefixes is None
    assert len(diagnostics) == 1
    assert "app.json" in diagnostics[0]


def test_a_settings_file_with_a_byte_order_mark_is_read(write_tree: WriteTree) -> None:
    root = write_tree({".obsidian/app.json": '\ufeff{"userIgnoreFilters": ["x/"]}'})
    assert user_ignore_filters(root) == (("x",), [])


def test_a_prefix_of_the_vault_ends_at_a_folder(write_tree: WriteTree) -> None:
    root = write_tree(
        {"Templates/a.md": "", "Templates/deep/b.md": "", "Templates old/c.md": "", "x/Templates/d.md": ""}
    )
    assert listed(root, prefixes=("Templates",)) == ["Templates old/c.md", "x/Templates/d.md"]


# ── the walk


def test_notes_are_md_and_markdown_in_any_case(write_tree: WriteTree) -> None:
    root = write_tree(dict.fromkeys(("a.md", "b.MD", "c.Md", "d.markdown", "e.txt", "f.md.bak", "md", "g.canvas"), "x"))
    scan = walk(root, Ignores())
    assert list(scan.files) == ["a.md", "b.MD", "c.Md", "d.markdown"]
    assert scan.reasons == {"not_read": 4}


def test_hidden_files_and_folders_are_not_entered_but_counted(write_tree: WriteTree) -> None:
    root = write_tree(
        {
            "d/.x/n.md": "",
            "d/.x/deep/m.md": "",
            ".hidden.md": "",
            ".git/HEAD": "",
            ".trash/t.md": "",
            ".hermes/h.md": "",
            ".obsidian/app.json": "{}",
            "a.md": "",
        }
    )
    scan = walk(root, Ignores())
    assert list(scan.files) == ["a.md"]
    assert scan.reasons == {"hidden": 7}


def test_links_to_files_to_folders_to_nothing_and_in_circles_are_not_followed(
    write_tree: WriteTree, tmp_path: Path
) -> None:
    outside = write_tree({"secret.md": "outside", "deep/er.md": "outside"}, tmp_path / "outside")
    root = write_tree({"a.md": "", "d/b.md": ""})
    (root / "file.md").symlink_to(outside / "secret.md")
    (root / "folder").symlink_to(outside)
    (root / "d/loop").symlink_to(root)
    (root / "dead.md").symlink_to("nowhere")
    (root / "self.md").symlink_to("self.md")
    (root / "inside.md").symlink_to("a.md")
    scan = walk(root, Ignores())
    assert list(scan.files) == ["a.md", "d/b.md"]
    assert scan.reasons == {"symlink": 6}
    links = ("d/loop", "dead.md", "file.md", "folder", "inside.md", "self.md")
    assert sorted(scan.skipped) == [(name, "symlink") for name in links]


def test_a_pipe_called_like_a_note_is_no_note_and_hangs_nobody(write_tree: WriteTree) -> None:
    root = write_tree({"a.md": ""})
    os.mkfifo(root / "pipe.md")
    scan = walk(root, Ignores())
    assert list(scan.files) == ["a.md"]
    assert scan.skipped == [("pipe.md", "not_a_file")]


def test_a_folder_called_like_a_note_is_a_folder(write_tree: WriteTree) -> None:
    root = write_tree({"v1.md/inner.md": "x"})
    assert list(walk(root, Ignores()).files) == ["v1.md/inner.md"]


@pytest.mark.parametrize(
    "name", [b"bad\xff.md", b"back\\slash.md", b"new\nline.md", b"bell\x07.md", b"esc\x1b[31m.md", b"\x7f.md"]
)
def test_a_name_that_no_text_can_hold_is_skipped_and_said(tmp_path: Path, name: bytes) -> None:
    root = tmp_path / "v"
    root.mkdir()
    (root / "ok.md").write_text("x")
    Path(os.fsdecode(os.fsencode(root) + b"/" + name)).write_text("x")
    scan = walk(root, Ignores())
    assert list(scan.files) == ["ok.md"]
    assert [reason for _, reason in scan.skipped] == ["bad_name"]
    shown = scan.skipped[0][0]
    assert shown.encode() and not any(unicodedata.category(c) in ("Cc", "Cs") for c in shown)


def test_a_note_in_a_folder_with_a_bad_name_is_skipped(tmp_path: Path) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/v/bad\xff"))
    folder.mkdir(parents=True)
    (folder / "n.md").write_text("x")
    scan = walk(tmp_path / "v", Ignores())
    assert scan.files == {}
    assert scan.reasons == {"bad_name": 1}


@pytest.mark.parametrize("name", ["C:/n.md", "%2e%2e%2fup.md", "a/%2E./b.md", "%2fabs.md", "%00.md"])
def test_a_name_under_which_nothing_is_ever_opened_is_skipped_and_said(write_tree: WriteTree, name: str) -> None:
    scan = walk(write_tree({name: "x", "ok.md": "x", "50%.md": "x", "a: b.md": "x"}), Ignores())
    assert set(scan.files) == {"50%.md", "a: b.md", "ok.md"}
    assert scan.skipped == [(name, "bad_name")]
    assert leads_out(name)


def test_odd_but_honest_names_are_notes(write_tree: WriteTree) -> None:
    names = [
        "100%.md",
        "a_b.md",
        'it\'s "q".md',
        "emoji 🙂.md",
        "日本語.md",
        "#hash.md",
        "a:b.md",
        " lead.md",
        "a..b.md",
        "%2e%2e.md",
    ]
    root = write_tree(dict.fromkeys(names, "x"))
    assert set(walk(root, Ignores()).files) == set(names)


def test_c03_a_decomposed_name_has_a_composed_key_and_keeps_its_bytes_for_opening(tmp_path: Path) -> None:
    root = tmp_path / "v"
    decomposed = unicodedata.normalize("NFD", "Notes é/Café.md")
    (root / decomposed).parent.mkdir(parents=True)
    (root / decomposed).write_text("x")
    scan = walk(root, Ignores())
    [key] = scan.files
    assert key == unicodedata.normalize("NFC", decomposed) == note_key(decomposed)
    assert scan.disk_path(key) == decomposed


def test_c03_two_spellings_of_one_name_are_one_note_and_the_other_is_said(tmp_path: Path) -> None:
    root = tmp_path / "v"
    root.mkdir()
    names = [unicodedata.normalize(form, "Café.md") for form in ("NFC", "NFD")]
    for name in names:
        (root / name).write_text(name)
    if len(os.listdir(root)) == 1:
        pytest.skip("this file system keeps one name for both spellings")
    scan = walk(root, Ignores())
    assert list(scan.files) == [names[0]]
    assert scan.skipped == [(names[0], "duplicate_name")]
    assert scan.reasons == {"duplicate_name": 1}


def test_the_order_is_the_same_whatever_order_files_were_made_in(tmp_path: Path) -> None:
    names = ["b/2.md", "a.md", "b/1.md", "B.md", "b.md", "a/z.md", "ä.md", "10.md", "9.md", "b/c/d.md"]
    listings = []
    for number, order in enumerate((names, names[::-1], sorted(names))):
        root = tmp_path / str(number)
        for name in order:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text("x")
        listings.append(list(walk(root, Ignores()).files))
    assert listings[0] == listings[1] == listings[2]
    assert sorted(listings[0]) == sorted(names)


def test_more_files_than_the_limit_stop_the_walk_and_it_says_so(write_tree: WriteTree) -> None:
    root = write_tree({f"{i // 5}/{i}.md": "x" for i in range(20)})
    assert not walk(root, Ignores(), max_files=20).truncated
    assert walk(root, Ignores(), max_files=19).truncated
    cut_short = walk(root, Ignores(), max_files=5)
    assert cut_short.truncated
    assert 5 < len(cut_short.files) < 20


@pytest.mark.parametrize("make", ["nothing", "file", "dangling"])
def test_a_root_that_cannot_be_listed_is_missing_never_empty(tmp_path: Path, make: str) -> None:
    root = tmp_path / "root"
    if make == "file":
        root.write_text("x")
    if make == "dangling":
        root.symlink_to("nowhere")
    with pytest.raises(SourceRootMissing):
        walk(root, Ignores())


WALK_AS_JSON = """
import json, sys
from pathlib import Path
from vademecum.errors import SourceRootMissing
from vademecum.vault import Ignores, walk
try:
    scan = walk(Path(sys.argv[1]), Ignores())
    print(json.dumps([list(scan.files), list(scan.unlisted), dict(scan.reasons)]))
except SourceRootMissing as exc:
    print(json.dumps(str(exc)))
"""


def test_a_closed_folder_is_unlisted_not_empty(public_tmp: Path, write_tree: WriteTree) -> None:
    root = write_tree({"open/a.md": "", "closed/b.md": "", "z/c.md": ""}, public_tmp / "v")
    (root / "closed").chmod(0o000)
    done = run_python(["-c", WALK_AS_JSON, str(root)], as_user=NOBODY, cwd=public_tmp)
    assert done.json == [["open/a.md", "z/c.md"], ["closed"], {}]


def test_a_folder_that_can_be_listed_but_not_entered_shows_its_notes_as_unreadable(
    public_tmp: Path, write_tree: WriteTree
) -> None:
    root = write_tree({"a.md": "", "half/b.md": ""}, public_tmp / "v")
    (root / "half").chmod(0o744)
    done = run_python(["-c", WALK_AS_JSON, str(root)], as_user=NOBODY, cwd=public_tmp)
    assert done.json == [["a.md"], [], {"unreadable": 1}]


def test_a_closed_root_is_missing(public_tmp: Path, write_tree: WriteTree) -> None:
    root = write_tree({"a.md": ""}, public_tmp / "v")
    root.chmod(0o000)
    done = run_python(["-c", WALK_AS_JSON, str(root)], as_user=NOBODY, cwd=public_tmp)
    assert "cannot be listed" in done.json


def test_every_file_is_a_note_or_is_counted_as_something_else(nasty: Path) -> None:
    scan = walk(nasty, Ignores(check_globs(["out/**", "*.tmp.md"]), ("Templates",)))
    assert len(scan.files) + scan.reasons.total() == files_on_disk(nasty)


@pytest.fixture
def nasty(write_tree: WriteTree, tmp_path: Path) -> Path:
    """A folder with one of everything that is no note."""
    root = write_tree(
        {
            "a.md": "x",
            "b/c.md": "x",
            "b/pic.png": b"\x89PNG",
            ".hidden.md": "x",
            ".obsidian/plugins/p/main.js": "x",
            "out/1.md": "x",
            "out/deep/2.png": "x",
            "x.tmp.md": "x",
            "Templates/t.md": "x",
            "Templates/.x/u.md": "x",
        }
    )
    (root / "link.md").symlink_to("a.md")
    (root / "folder link").symlink_to("b")
    os.mkfifo(root / "pipe.md")
    Path(os.fsdecode(os.fsencode(root) + b"/bad\xff.md")).write_text("x")
    return root


@pytest.mark.parametrize("folder", [".hidden", "out"])
def test_a_link_to_a_folder_is_counted_wherever_it_lies(nasty: Path, folder: str) -> None:
    (nasty / folder).mkdir(exist_ok=True)
    (nasty / folder / "elsewhere").symlink_to(nasty / "b")
    scan = walk(nasty, Ignores(check_globs(["out/**", "*.tmp.md"]), ("Templates",)))
    assert len(scan.files) + scan.reasons.total() == files_on_disk(nasty)


def test_walking_changes_nothing(nasty: Path, vault_bytes: Callable[[Path], object]) -> None:
    before = vault_bytes(nasty)
    walk(nasty, Ignores())
    assert vault_bytes(nasty) == before


# ── containment


@pytest.fixture
def enclosed(write_tree: WriteTree, tmp_path: Path) -> Path:
    """A root with a look-alike sibling and links that lead out."""
    write_tree({"x.md": "outside"})
    write_tree({"x.md": "sibling"}, tmp_path / "vault-evil")
    root = write_tree({"x.md": "inside", "a/x.md": "inside", "%2e%2e/x.md": "inside", "100%25.md": "inside"})
    (root / "link.md").symlink_to("/etc/hosts")
    (root / "out").symlink_to(tmp_path / "vault-evil")
    (root / "a/up").symlink_to("..")
    (root / "inside.md").symlink_to("x.md")
    return root


@pytest.mark.parametrize(
    "path",
    [
        "../x.md",
        "..\\x.md",
        "a/../../x.md",
        "/etc/hosts",
        "C:\\x",
        "C:/x",
        "%2e%2e/x.md",
        "%2E%2E%2Fx.md",
        "%2fetc/hosts",
        "a%5c..%5c..%5cx.md",
        "a/./../../x",
        "\x00x.md",
        "x.md\x00",
        "x%00.md",
        "link.md",
        "inside.md",
        "out/x.md",
        "a/up/x.md",
        "../vault-evil/x.md",
        "..",
        "a/..",
        "",
        "a\\x.md",
        "\udcff.md",
        "\u2028x\x85.md",
    ],
)
def test_c24_no_path_leads_out_of_a_root(enclosed: Path, path: str) -> None:
    with pytest.raises(OutsideRoot) as caught:
        contained(enclosed, path)
    assert caught.value.code == "outside_root"


@pytest.mark.parametrize("path", ["x.md", "a/x.md", "100%25.md"])
def test_c24_what_lies_inside_is_given_back(enclosed: Path, path: str) -> None:
    assert contained(enclosed, path) == enclosed / path


@pytest.mark.parametrize("path", ["nothing.md", "x.md/under.md", "a/b/c.md"])
def test_what_is_not_there_is_not_found(enclosed: Path, path: str) -> None:
    with pytest.raises(NoteNotFound):
        contained(enclosed, path)


def test_a_name_longer_than_any_file_system_takes_is_an_error_of_ours(enclosed: Path) -> None:
    with pytest.raises(NoteError):
        contained(enclosed, "x" * 5000 + ".md")


@settings(derandomize=True, deadline=None, max_examples=500)
@given(
    st.lists(
        st.sampled_from(["..", ".", "a", "x.md", "/", "\\", "%2e", "%2f", "%5c", "\x00", "C:", "link.md", ""]),
        max_size=8,
    )
)
def test_whatever_is_contained_really_lies_inside(tmp_path_factory: pytest.TempPathFactory, pieces: list[str]) -> None:
    root = tmp_path_factory.getbasetemp() / "contained"
    if not root.exists():
        (root / "a").mkdir(parents=True)
        (root / "x.md").write_text("x")
        (root / "a/x.md").write_text("x")
        (root / "link.md").symlink_to("/etc/hosts")
    for path in ("/".join(pieces), "".join(pieces)):
        try:
            found = contained(root, path)
        except NoteError:
            continue
        assert not leads_out(path)
        assert os.path.realpath(found).startswith(str(root))


# ── reading one file


def stamp(path: Path) -> FileStamp:
    return stamp_of(path.stat())


def test_reading_gives_the_bytes_and_their_stamp(tmp_path: Path) -> None:
    file = tmp_path / "n.md"
    file.write_bytes(b"abc\r\n")
    assert read_note_bytes(str(file), max_bytes=100) == (b"abc\r\n", stamp(file))


def test_reading_stops_one_byte_after_the_limit(tmp_path: Path) -> None:
    file = tmp_path / "n.md"
    file.write_bytes(b"x" * 1000)
    assert len(read_note_bytes(str(file), max_bytes=10)[0]) == 11
    assert len(read_note_bytes(str(file), max_bytes=1000)[0]) == 1000


def test_a_file_read_in_small_pieces_is_read_whole(tmp_path: Path) -> None:
    file = tmp_path / "n.md"
    file.write_bytes(b"0123456789" * 50)
    content, _ = read_note_bytes(str(file), max_bytes=10_000, read=lambda fd, n: os.read(fd, min(n, 7)))
    assert content == b"0123456789" * 50


def test_a_file_that_changes_while_it_is_read_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "n.md"
    file.write_bytes(b"old")
    saved: list[None] = []

    def read(descriptor: int, count: int) -> bytes:
        content = os.read(descriptor, count)
        if not saved:
            saved.append(None)
            file.write_bytes(b"new and longer")
        return content

    assert read_note_bytes(str(file), max_bytes=100, read=read) == (b"new and longer", stamp(file))


def test_a_file_that_never_rests_is_given_a_stamp_that_no_file_has(tmp_path: Path) -> None:
    file = tmp_path / "n.md"
    file.write_bytes(b"0")

    def read(descriptor: int, count: int) -> bytes:
        content = os.read(descriptor, count)
        with file.open("ab") as more:
            more.write(b"1")
        return content

    content, found = read_note_bytes(str(file), max_bytes=100, read=read)
    assert content.startswith(b"0")
    assert found != stamp(file)
    assert found.inode == -1


def test_a_file_that_grows_without_end_is_not_read_without_end(tmp_path: Path) -> None:
    file = tmp_path / "n.md"
    file.write_bytes(b"x")
    content, _ = read_note_bytes(str(file), max_bytes=5000, read=lambda _, count: b"y" * min(count, 100))
    assert len(content) == 5001


@pytest.mark.parametrize(
    "number", [errno.EDEADLK, errno.EIO, errno.EACCES, errno.ETIMEDOUT, errno.EAGAIN, errno.ESTALE]
)
def test_a_read_that_fails_is_unreadable_never_gone(tmp_path: Path, number: int) -> None:
    file = tmp_path / "n.md"
    file.write_bytes(b"x")

    def read(descriptor: int, count: int) -> bytes:
        raise OSError(number, os.strerror(number))

    with pytest.raises(NoteUnreadable) as caught:
        read_note_bytes(str(file), max_bytes=100, read=read)
    assert os.strerror(number) in caught.value.message
    assert caught.value.hint


def test_a_file_that_is_gone_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NoteNotFound):
        read_note_bytes(str(tmp_path / "n.md"), max_bytes=100)


def test_a_note_replaced_by_a_link_between_walk_and_reading_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "n.md").symlink_to("/etc/hosts")
    with pytest.raises(NoteUnreadable):
        read_note_bytes(str(tmp_path / "n.md"), max_bytes=100)


def test_a_note_replaced_by_a_pipe_hangs_nobody(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "n.md")
    assert read_note_bytes(str(tmp_path / "n.md"), max_bytes=100)[0] == b""


def test_reading_leaves_the_time_of_access_to_the_mount_and_writes_nothing(
    tmp_path: Path, vault_bytes: Callable[[Path], object]
) -> None:
    (tmp_path / "n.md").write_bytes(b"x")
    before = vault_bytes(tmp_path)
    read_note_bytes(str(tmp_path / "n.md"), max_bytes=100)
    assert vault_bytes(tmp_path) == before
