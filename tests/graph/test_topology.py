"""Where a link leads: each step of the rule, each tie, and the same answer whatever order the files come in."""

import random
import time
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vademecum.graph import Candidate, Namesakes, Resolution
from vademecum.vault import link_name

Aliases = Mapping[str, Sequence[str]]

NFC, NFD = "Caf\u00e9", "Cafe\u0301"


def candidates(files: Iterable[str], aliases: Aliases) -> list[Candidate]:
    """The files of a vault, and its aliases, as the index knows them: numbered in the order of their paths."""
    numbers = {path: number for number, path in enumerate(sorted({*files, *aliases}))}
    called = [Candidate(path, numbers[path], alias) for path, given in aliases.items() for alias in given]
    return [*(Candidate(path, number) for path, number in numbers.items()), *called]


def resolved(target: str, folder: str, known: Sequence[Candidate]) -> Resolution:
    """What a link means, told by the candidates that have the name it looks for."""
    wanted = link_name(target)
    return Namesakes(c for c in known if link_name(c.alias or c.path) == wanted).resolve(target, folder)


def leads_to(
    target: str, *files: str, folder: str = "", aliases: Aliases | None = None
) -> tuple[str | None, str | None]:
    """The path that a link leads to, and by which step."""
    meant = resolved(target, folder, candidates(files, aliases or {}))
    return (meant.file.path if meant.file else None), meant.via


def other_paths(target: str, *files: str, folder: str = "", aliases: Aliases | None = None) -> list[str]:
    return [c.path for c in resolved(target, folder, candidates(files, aliases or {})).others]


# ── the steps


@pytest.mark.parametrize(
    ("target", "folder", "files", "path", "via"),
    [
        ("Note", "", ["Note.md"], "Note.md", "path"),
        ("Note.md", "", ["Note.md"], "Note.md", "path"),
        ("a/Note", "x/y", ["a/Note.md"], "a/Note.md", "path"),
        ("a/Note.md", "", ["a/Note.md"], "a/Note.md", "path"),
        ("Note", "a", ["a/Note.md"], "a/Note.md", "relative"),
        ("b/Note", "a", ["a/b/Note.md"], "a/b/Note.md", "relative"),
        ("./Note", "a", ["a/Note.md"], "a/Note.md", "relative"),
        ("../Note", "a/b", ["a/Note.md"], "a/Note.md", "relative"),
        ("../../Note", "a/b", ["Note.md"], "Note.md", "relative"),
        ("../c/Note", "a/b", ["a/c/Note.md"], "a/c/Note.md", "relative"),
        ("b/../Note", "a", ["a/Note.md"], "a/Note.md", "relative"),
        ("Note", "x", ["deep/down/below/Note.md"], "deep/down/below/Note.md", "name"),
        ("below/Note", "x", ["deep/down/below/Note.md"], "deep/down/below/Note.md", "name"),
        ("down/below/Note.md", "x", ["deep/down/below/Note.md"], "deep/down/below/Note.md", "name"),
        ("/Note", "a", ["Note.md"], "Note.md", "path"),
        ("/a/Note", "x", ["a/Note.md"], "a/Note.md", "path"),
        ("a//Note", "", ["a/Note.md"], "a/Note.md", "path"),
        ("a/./Note", "", ["a/Note.md"], "a/Note.md", "path"),
        ("Note", "", ["Note.markdown"], "Note.markdown", "path"),
        ("pic.png", "", ["img/pic.png"], "img/pic.png", "name"),
        ("img/pic.png", "x", ["img/pic.png"], "img/pic.png", "path"),
        ("pic.png", "x", ["pic.png.md", "img/pic.png"], "img/pic.png", "name"),
        ("pic.png.md", "x", ["pic.png.md", "img/pic.png"], "pic.png.md", "path"),
        ("LICENSE", "x", ["LICENSE"], "LICENSE", "path"),
        ("Board", "", ["maps/Board.canvas"], "maps/Board.canvas", "name"),
        ("Board.canvas", "", ["maps/Board.canvas"], "maps/Board.canvas", "name"),
        ("Table", "", ["maps/Table.base"], "maps/Table.base", "name"),
    ],
)
def test_a_target_is_a_path_then_relative_then_the_end_of_a_path(
    target: str, folder: str, files: list[str], path: str, via: str
) -> None:
    assert leads_to(target, *files, folder=folder) == (path, via)


@pytest.mark.parametrize(
    ("target", "folder", "files"),
    [
        ("Note", "", []),
        ("Note", "", ["Notes.md", "My Note.md"]),
        ("/Note", "a", ["a/Note.md", "b/Note.md"]),
        ("/a/Note", "x", ["x/a/Note.md"]),
        ("./Note", "a", ["Note.md", "b/Note.md"]),
        ("../Note", "a/b", ["Note.md", "a/b/Note.md"]),
        ("../../../Note", "a/b", ["Note.md"]),
        ("b/Note", "", ["a/Note.md", "Note.md", "bb/Note.md"]),
        ("pic", "", ["img/pic.png"]),
        ("pic.jpg", "", ["img/pic.png"]),
        ("Note.md", "", ["Note.markdown"]),
        ("Note.markdown", "", ["Note.md"]),
        ("Note.canvas", "", ["Note.md"]),
        ("Note.txt", "", ["Note.md"]),
    ],
)
def test_what_no_step_finds_is_unresolved(target: str, folder: str, files: list[str]) -> None:
    assert leads_to(target, *files, folder=folder) == (None, None)


@pytest.mark.parametrize(
    ("folder", "files", "path", "via"),
    [
        ("a", ["Note.md", "a/Note.md", "b/Note.md"], "Note.md", "path"),
        ("a", ["a/Note.md", "b/Note.md", "Note2.md"], "a/Note.md", "relative"),
        ("c", ["a/Note.md", "b/Note.md"], "a/Note.md", "name"),
    ],
)
def test_an_earlier_step_wins_over_a_later_one(folder: str, files: list[str], path: str, via: str) -> None:
    assert leads_to("Note", *files, folder=folder, aliases={"z.md": ["Note"]}) == (path, via)


# ── ties


@pytest.mark.parametrize(
    ("target", "folder", "files", "path"),
    [
        # notes before boards and other files
        ("Map", "", ["Map.canvas", "deep/Map.md"], "deep/Map.md"),
        ("Map", "x", ["x/Map.canvas", "deep/Map.md"], "deep/Map.md"),
        ("Map", "", ["Map", "deep/Map.markdown"], "deep/Map.markdown"),
        ("Map", "", ["a/Map.base", "b/c/Map.canvas"], "b/c/Map.canvas"),
        ("Map", "", ["a/Map", "b/c/Map.base"], "b/c/Map.base"),
        ("Map", "", ["a/Map.markdown", "b/c/Map.md"], "b/c/Map.md"),
        ("map", "", ["a/map.markdown", "b/c/MAP.md"], "b/c/MAP.md"),
        ("map", "", ["a/map.base", "b/c/MAP.canvas"], "b/c/MAP.canvas"),
        # then what is spelled exactly so
        ("note", "", ["a/NOTE.md", "b/Note.md", "long/folder/note.md"], "long/folder/note.md"),
        ("Note", "", ["NOTE.md", "Note.md", "note.md"], "Note.md"),
        ("B/Note", "", ["x/b/Note.md", "deep/down/B/Note.md"], "deep/down/B/Note.md"),
        ("Note.MD", "", ["a/Note.md", "b/c/Note.MD"], "b/c/Note.MD"),
        # then the note's own folder
        ("s/Note", "long/folder/s", ["a/s/Note.md", "long/folder/s/Note.md"], "long/folder/s/Note.md"),
        # then the shortest path
        ("Note", "", ["aaa/aaa/Note.md", "zz/Note.md"], "zz/Note.md"),
        ("s/Note", "", ["aa/b/s/Note.md", "z/s/Note.md"], "z/s/Note.md"),
        # then code points
        ("Note", "", ["b/Note.md", "a/Note.md"], "a/Note.md"),
        ("Note", "", ["\u00e9/Note.md", "z/Note.md"], "z/Note.md"),
        ("Note", "", ["a/Note.md", "B/Note.md"], "B/Note.md"),
    ],
)
def test_ties_go_by_kind_spelling_folder_length_and_code_points(
    target: str, folder: str, files: list[str], path: str
) -> None:
    assert leads_to(target, *files, folder=folder)[0] == path
    assert leads_to(target, *reversed(files), folder=folder)[0] == path


@pytest.mark.parametrize(
    ("target", "folder", "files", "others"),
    [
        ("Note", "", ["c/Note.md", "a/Note.md", "b/Note.md"], ["b/Note.md", "c/Note.md"]),
        ("Note", "", ["Note.md", "a/Note.md"], []),
        ("Note", "a", ["a/Note.md", "b/Note.md"], []),
        ("Note", "", ["x/Note.md", "y/Note.markdown", "z/Note.canvas", "z/Note"], []),
        ("Note", "", ["x/Note.md", "y/NOTE.md"], []),
        ("note", "", ["x/Note.md", "y/NOTE.md"], ["y/NOTE.md"]),
        ("pic.png", "", ["x/pic.png", "y/pic.png"], ["y/pic.png"]),
        ("s/Note", "zz/s", ["a/s/Note.md", "b/s/Note.md", "zz/s/Note.md"], ["a/s/Note.md", "b/s/Note.md"]),
    ],
)
def test_those_that_only_a_tie_decided_against_are_named_best_first(
    target: str, folder: str, files: list[str], others: list[str]
) -> None:
    assert other_paths(target, *files, folder=folder) == others


def test_at_most_ten_others_are_named_and_all_are_counted() -> None:
    meant = resolved("Note", "", candidates([f"{i:03}/Note.md" for i in range(40)], {}))
    assert [c.path for c in meant.others] == [f"{i:03}/Note.md" for i in range(1, 11)]
    assert meant.rivals == 39


def test_a_file_that_is_no_document_counts_like_any_other() -> None:
    excluded = Candidate("a/Note.md", None, "", "excluded")
    indexed = Candidate("far/away/Note.md", 7)
    meant = Namesakes([indexed, excluded]).resolve("Note", "")
    assert (meant.file, meant.others) == (excluded, (indexed,))


# ── aliases


@pytest.mark.parametrize(
    ("target", "folder", "aliases", "path"),
    [
        ("Nickname", "x", {"a/Real.md": ["Nickname"]}, "a/Real.md"),
        ("NICKNAME", "x", {"a/Real.md": ["nickname"]}, "a/Real.md"),
        ("TCP/IP", "x", {"a/Real.md": ["TCP/IP"]}, "a/Real.md"),
        ("Dr. No", "x", {"a/Real.md": ["Dr. No"]}, "a/Real.md"),
        ("v1.2.md", "x", {"a/Real.md": ["v1.2.md"]}, "a/Real.md"),
        (NFD, "x", {"a/Real.md": [NFC]}, "a/Real.md"),
        (NFC, "x", {"a/Real.md": [NFD]}, "a/Real.md"),
        ("Nick", "", {"b/Two.md": ["Nick"], "a/One.md": ["Nick"]}, "a/One.md"),
        ("Nick", "b", {"b/Two.md": ["Nick"], "a/One.md": ["Nick"]}, "b/Two.md"),
        ("Nick", "", {"bbbb/Two.md": ["Nick"], "zz/One.md": ["Nick"]}, "zz/One.md"),
        ("IT", "", {"a/Pronoun.md": ["it"], "long/folder/Computers.md": ["IT"]}, "long/folder/Computers.md"),
        ("Nick", "", {"a/One.markdown": ["Nick"], "long/folder/Two.md": ["Nick"]}, "long/folder/Two.md"),
    ],
)
def test_an_alias_is_taken_when_no_file_has_the_name(target: str, folder: str, aliases: Aliases, path: str) -> None:
    assert leads_to(target, folder=folder, aliases=aliases) == (path, "alias")


@pytest.mark.parametrize("files", [["Nick.canvas"], ["deep/Nick.md"], ["x/Nick"]])
def test_any_file_of_the_name_comes_before_an_alias(files: list[str]) -> None:
    assert leads_to("Nick", *files, aliases={"a/Real.md": ["Nick"]}) == (files[0], leads_to("Nick", *files)[1])


@pytest.mark.parametrize(
    ("target", "aliases"),
    [
        ("/Nick", ["Nick"]),
        ("./Nick", ["Nick"]),
        ("../Nick", ["Nick"]),
        ("a/Nick", ["Nick"]),
        ("IP", ["TCP/IP"]),
        ("Nick.md", ["Nick"]),
    ],
)
def test_an_alias_is_no_path_and_is_matched_whole(target: str, aliases: list[str]) -> None:
    assert leads_to(target, aliases={"Real.md": aliases}) == (None, None)


def test_one_alias_of_two_notes_names_the_other_note() -> None:
    assert other_paths("Nick", aliases={"b.md": ["Nick"], "a.md": ["Nick"]}) == ["b.md"]


def test_a_note_that_spells_its_alias_in_two_ways_is_no_rival_of_itself() -> None:
    assert other_paths("nick", aliases={"a.md": ["Nick", "NICK"]}) == []


# ── the cases from the field


@pytest.mark.parametrize("target", [NFC, NFD, f"Notes/{NFC}", f"Notes/{NFD}", f"{NFD}.md", NFC.upper(), NFD.upper()])
def test_c03_either_spelling_of_a_link_finds_the_note(target: str) -> None:
    assert leads_to(target, f"Notes/{NFC}.md", folder="x")[0] == f"Notes/{NFC}.md"


def test_c03_the_two_spellings_of_a_link_are_equally_exact() -> None:
    files = [f"aa/{NFC.upper()}.md", f"long/folder/{NFC}.md"]
    assert {leads_to(target, *files)[0] for target in (NFC, NFD)} == {f"long/folder/{NFC}.md"}


@pytest.mark.parametrize(
    ("target", "path"),
    [
        ("Releases/plan v3.1 draft", "Releases/plan v3.1 draft.md"),
        ("plan v3.1 draft.md", "Releases/plan v3.1 draft.md"),
        ("plan v3.1 draft", "Releases/plan v3.1 draft.md"),
        ("v3.1", "v3.1.md"),
        ("v3", None),
        ("plan v3", None),
        ("v3.1.md", "v3.1.md"),
        ("Dr. Who", "people/Dr. Who.md"),
        ("...", "....md"),
    ],
)
def test_c08_a_dot_in_a_title_is_no_suffix(target: str, path: str | None) -> None:
    files = ["Releases/plan v3.1 draft.md", "v3.1.md", "people/Dr. Who.md", "....md"]
    assert leads_to(target, *files)[0] == path


@pytest.mark.parametrize(
    ("target", "path"), [("readme", "a/readme.md"), ("README", "b/README.md"), ("Readme", "a/readme.md")]
)
def test_twins_that_differ_in_case_alone_are_told_apart_by_an_exact_link(target: str, path: str) -> None:
    assert leads_to(target, "a/readme.md", "b/README.md")[0] == path


@pytest.mark.parametrize(
    "target",
    [
        "", " ", ".", "..", "/", "//", "./", "../", "/.", "/..", "../..", "././.", "a/..", "\x00", "\x01", "\n", "\t",
        "/" * 5000, "../" * 2000 + "x", "a/" * 2000 + "x", "x" * 5000, "\u202e", "\ud800", "[[", "|", "#", "%2e",
        "\\", "C:\\x", ".md", "/.md", "..md", "\U0001f642", "*", "?", "x\x00y",
    ],
)  # fmt: skip
def test_no_target_is_too_odd_to_be_answered(target: str) -> None:
    known = candidates(["x.md", "a/x.md", "b.md"], {"c.md": ["y"]})
    assert resolved(target, "a/b", known) == Resolution(None, None)
    # And when whatever is there has just that name, the answer is one of them or none.
    same = Namesakes(known).resolve(target, "a/b")
    assert same.file is None or same.file in known


@pytest.mark.parametrize("target", ["", " ", ".", "/", "//", "./", "/.", "././.", "a/..", "/a/.."])
def test_a_target_that_names_a_folder_and_no_file_leads_nowhere(target: str) -> None:
    known = candidates(["x.md", "a/x.md"], {"c.md": ["y"]})
    assert Namesakes(known).resolve(target, "a") == Resolution(None, None)


@pytest.mark.parametrize("target", ["../" * 50_000 + "Note", "a/" * 50_000 + "Note", "/" * 100_000 + "Note"])
def test_a_hostile_target_costs_no_more_than_its_length(target: str) -> None:
    namesakes = Namesakes(candidates([f"{i}/Note.md" for i in range(2000)], {}))
    started = time.process_time()
    namesakes.resolve(target, "a/b")
    assert time.process_time() - started < 2


def test_a_hub_with_thousands_of_namesakes_is_sorted_once() -> None:
    known = candidates([f"{i}/Note.md" for i in range(5000)], {})
    started = time.process_time()
    namesakes = Namesakes(known)
    for _ in range(2000):
        namesakes.resolve("Note", "7")
    assert time.process_time() - started < 2


# ── the rule as a whole


class Wanted(NamedTuple):
    """What the oracle expects."""

    path: str | None
    via: str | None
    others: list[str]


SUFFIXES = (".md", ".markdown", ".canvas", ".base")
STEPS = ("path", "relative", "name")


def oracle(target: str, folder: str, known: Sequence[Candidate]) -> Wanted:
    """The rule again, the plain way: rate every candidate, take the best, name those that only a tie put behind it."""
    text = unicodedata.normalize("NFC", target.strip())
    rated = sorted(rating for c in known if (rating := rate(text, folder, c)) is not None)
    if not rated:
        return Wanted(None, None, [])
    best = rated[0]
    others = [r[-1] for r in rated[1:] if r[:4] == best[:4] and r[-1] != best[-1]]
    return Wanted(best[-1], STEPS[best[1]] if best[0] < 3 else "alias", list(dict.fromkeys(others)))


def rate(text: str, folder: str, candidate: Candidate) -> tuple[int, int, int, bool, bool, int, str] | None:
    """Kind (called just so, note, other file, alias), step, suffix, spelling, folder, length, path; less is better."""
    path = candidate.path
    rank = next((i for i, suffix in enumerate(SUFFIXES) if path.lower().endswith(suffix)), len(SUFFIXES))
    elsewhere = path.rpartition("/")[0] != folder
    parts = tidy(text)
    if not parts:
        return None
    rooted, near = text.startswith("/"), text.startswith(("./", "../"))
    if candidate.alias:
        spelled = unicodedata.normalize("NFC", candidate.alias)
        if rooted or near or spelled.casefold() != text.casefold():
            return None
        return 3, 0, rank, spelled != text, elsewhere, len(path), path
    wholes = [path] if rank == len(SUFFIXES) else [path, path[: -len(SUFFIXES[rank])]]
    beside = tidy("/".join([folder, *parts]))
    tests = [
        (not near, [whole.split("/") for whole in wholes], parts),
        (not rooted, [whole.split("/") for whole in wholes], beside),
        (not rooted and not near, [whole.split("/")[-len(parts) :] for whole in wholes], parts),
    ]
    for step, (open_, forms, wanted) in enumerate(tests):
        fits = [form for form in forms if [p.casefold() for p in form] == [p.casefold() for p in wanted]]
        if open_ and fits:
            called_so = "." in parts[-1] and path.split("/")[-1].casefold() == parts[-1].casefold()
            kind = 0 if called_so else 1 + int(rank > 1)
            return kind, step, rank, wanted not in fits, elsewhere, len(path), path
    return None


def tidy(path: str) -> list[str]:
    parts: list[str] = []
    for part in path.split("/"):
        if part == ".." and parts and parts[-1] != "..":
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return parts


FOLDER = st.lists(st.sampled_from(["a", "A", "b", "\u00e9", "a.md"]), max_size=3).map("/".join)
NAME = st.sampled_from(["n", "N", "v1.2", "V1.2", "\u00e9", "\u00c9", "a"])
SUFFIX = st.sampled_from(["", ".md", ".MD", ".markdown", ".canvas", ".base", ".png"])
PATH = st.builds(lambda folder, name, suffix: f"{folder}/{name}{suffix}".lstrip("/"), FOLDER, NAME, SUFFIX)
SPELLED = st.one_of(NAME, NAME.map(lambda name: unicodedata.normalize("NFD", name)), PATH)
TARGET = st.builds(
    lambda start, middle, name, suffix: start + middle + name + suffix,
    st.sampled_from(["", "", "", "/", "./", "../", "../../", "//", " ", "a/../"]),
    st.sampled_from(["", "", "a/", "A/", "b/", "a/b/", "\u00e9/", "e\u0301/", ".//"]),
    st.one_of(NAME, NAME.map(lambda name: unicodedata.normalize("NFD", name))),
    st.sampled_from(["", "", "", ".md", ".MD", ".canvas", ".png", " ", "/", "/.."]),
)
KNOWN = st.builds(
    candidates,
    st.lists(PATH, max_size=12, unique=True),
    st.dictionaries(
        PATH.filter(lambda path: path.endswith(".md")), st.lists(SPELLED, max_size=3, unique=True), max_size=4
    ),
)


@settings(deadline=None, derandomize=True, max_examples=250)
@given(TARGET, FOLDER, KNOWN, st.randoms(use_true_random=False))
def test_the_answer_is_that_of_the_rule_written_down_plainly(
    target: str, folder: str, known: list[Candidate], random_: random.Random
) -> None:
    found = [c for c in known if link_name(c.alias or c.path) == link_name(target)]
    wanted = oracle(target, folder, found)
    random_.shuffle(found)
    meant = Namesakes(found).resolve(target, folder)
    assert (meant.file.path if meant.file else None, meant.via) == (wanted.path, wanted.via)
    assert [c.path for c in meant.others] == wanted.others[:10]
    assert meant.rivals == len(wanted.others)


@settings(deadline=None, derandomize=True, max_examples=60)
@given(TARGET, FOLDER, KNOWN, st.randoms(use_true_random=False))
def test_the_order_of_the_candidates_does_not_matter(
    target: str, folder: str, known: list[Candidate], random_: random.Random
) -> None:
    shuffled = known.copy()
    random_.shuffle(shuffled)
    assert resolved(target, folder, shuffled) == resolved(target, folder, known)


@settings(deadline=None, derandomize=True, max_examples=60)
@given(TARGET, FOLDER, KNOWN)
def test_the_chosen_file_is_a_candidate_and_none_of_the_others(
    target: str, folder: str, known: list[Candidate]
) -> None:
    meant = resolved(target, folder, known)
    assert meant.file is None or meant.file in known
    assert {c.path for c in meant.others} <= {c.path for c in known}
    assert meant.file is None or meant.file.path not in {c.path for c in meant.others}


@settings(deadline=None, derandomize=True, max_examples=60)
@given(PATH.filter(lambda path: path.endswith(".md")))
def test_the_whole_path_of_a_note_from_the_root_leads_to_it(path: str) -> None:
    others = ["x/n.md", "n.md", "a/n.md", "b/v1.2.md"]
    assert leads_to(f"/{path}", path, *others)[0] == path


@settings(deadline=None, derandomize=True, max_examples=60)
@given(PATH, FOLDER)
def test_a_link_may_be_written_in_either_unicode_form(path: str, folder: str) -> None:
    known = candidates([path, "x/\u00e9.md", "n.md"], {})
    spelled = {form: resolved(unicodedata.normalize(form, path), folder, known) for form in ("NFC", "NFD")}
    assert spelled["NFC"] == spelled["NFD"]


def test_thousands_of_files_of_one_name_are_told_apart_at_once() -> None:
    """Three thousand index notes that link to each other by the ends of their paths were quadratic in the folders."""
    known = [Candidate(f"s/p{n}/index.md", n) for n in range(3000)]
    meant = Namesakes(known)
    started = time.process_time()
    for n in range(3000):
        assert meant.resolve(f"p{n}/index", f"s/p{n + 1}").file == known[n]
        assert meant.resolve("index", f"s/p{n}").file == known[n]
    assert time.process_time() - started < 10
