"""Cutting notes into chunks: nothing lost, nothing torn, keys that survive edits."""

import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from vademecum.markdown import Chunk, Note, cut, parse

CAP = 1200


def chunks_of(body: str) -> list[Chunk]:
    return cut(parse(body, stem="stem"))


def words(count: int, *, word: str = "word") -> str:
    return " ".join(f"{word}{n}" for n in range(count)) + "."


def paragraphs(count: int, *, length: int = 60) -> str:
    return "\n\n".join(words(length, word=f"p{n}w") for n in range(count))


# What is kept.


def test_a_note_without_a_body_has_no_chunks() -> None:
    for text in ("", "\n \n\t\n", "---\ntitle: x\n---\n", "---\ntitle: x\n---\n\n  \n", "---\n---"):
        assert chunks_of(text) == []


def test_a_short_note_is_one_chunk_with_its_lines() -> None:
    (chunk,) = chunks_of("---\ntitle: x\n---\n\n# One\ntext  \n\n## Two\nmore\n\n")
    assert (chunk.text, chunk.first_line, chunk.last_line) == ("# One\ntext  \n\n## Two\nmore", 5, 9)


def test_even_a_heading_alone_is_a_chunk() -> None:
    (chunk,) = chunks_of("# Only\n")
    assert (chunk.text, chunk.heading_path, chunk.key) == ("# Only", ("Only",), "only:0:0")


def test_text_before_the_first_heading_has_an_empty_path() -> None:
    first, second = chunks_of(f"  \n\n  {words(60)}\n\n# One\n{words(60)}\n")
    assert (first.heading_path, first.key, first.first_line) == ((), "overview:0:0", 3)
    assert first.text.startswith("  word0")
    assert (second.heading_path, second.first_line) == (("One",), 5)


# Sections and their paths.


def test_sections_of_their_own_size_become_chunks_with_their_heading_path() -> None:
    body = f"# A *b*\n{words(60)}\n\n## C\n{words(60)}\n\n### D\n{words(60)}\n\n## E [[n|x]]\n{words(60)}\n"
    found = [(chunk.heading_path, chunk.first_line, chunk.last_line) for chunk in chunks_of(body)]
    assert found == [(("A b",), 1, 2), (("A b", "C"), 4, 5), (("A b", "C", "D"), 7, 8), (("A b", "E x"), 10, 11)]


def test_a_bare_heading_goes_under_the_subsection_it_heads() -> None:
    (chunk,) = chunks_of(f"# Title\n\n## Part\n{words(60)}\n")
    assert (chunk.heading_path, chunk.first_line) == (("Title", "Part"), 1)


def test_a_bare_heading_is_cut_together_with_a_section_that_fills_the_cap() -> None:
    for length in (1_195, 5_000):
        body = "# Title\n\n## Part\n" + "\n\n".join("x" * 95 for _ in range(length // 97)) + "\n" + "y" * (length % 97)
        first, *rest = chunks_of(body)
        assert len(first.text) > 200
        assert first.heading_path == ("Title", "Part")
        assert all(chunk.heading_path == ("Title", "Part") for chunk in rest)


def test_a_small_section_goes_with_the_sibling_that_follows() -> None:
    first, second = chunks_of(f"## A\nsmall\n\n## B\n{words(60)}\n\n# C\n{words(60)}\n")
    assert (first.heading_path, first.first_line, first.last_line) == (("A",), 1, 5)
    assert second.heading_path == ("C",)


def test_a_small_section_before_a_higher_heading_goes_with_the_one_before() -> None:
    first, second = chunks_of(f"## A\n{words(60)}\n\n### B\nsmall\n\n# C\n{words(60)}\n")
    assert (first.heading_path, first.last_line) == (("A",), 5)
    assert second.heading_path == ("C",)


def test_a_small_section_stays_alone_where_neither_neighbour_has_room() -> None:
    long = "x" * 1_190
    found = [chunk.heading_path for chunk in chunks_of(f"# A\n{long}\n\n## B\n{'small ' * 5}\n\n# C\n{long}\n")]
    assert found == [("A",), ("A", "B"), ("C",)]


def test_underlined_headings_keep_their_underline() -> None:
    first, second = chunks_of(f"One\n===\n{words(60)}\n\nTwo\n---\n{words(60)}\n")
    assert first.text.startswith("One\n===\nword0")
    assert (second.heading_path, second.first_line) == (("One", "Two"), 5)


# Long sections.


def test_long_sections_are_cut_at_paragraphs() -> None:
    body = paragraphs(9, length=40)
    found = chunks_of(body)
    assert len(found) > 1
    for chunk in found:
        assert len(chunk.text) <= CAP
        assert chunk.text.startswith("p")
        assert chunk.text.endswith(".")
    assert "\n\n".join(chunk.text for chunk in found) == body


def test_long_lists_are_cut_between_items() -> None:
    body = "\n".join(f"- {words(20, word=f'i{n}w')}\n  goes on" for n in range(30))
    found = chunks_of(body)
    assert len(found) > 1
    for chunk in found:
        assert chunk.text.startswith("- i")
        assert chunk.text.endswith("goes on")


def test_long_lines_are_cut_after_sentences() -> None:
    body = " ".join(words(15, word=f"s{n}w") for n in range(40))
    found = chunks_of(body)
    assert {(chunk.first_line, chunk.last_line) for chunk in found} == {(1, 1)}
    assert all(chunk.text.rstrip().endswith(".") and len(chunk.text) <= CAP for chunk in found)
    assert "".join(chunk.text for chunk in found) == body


def test_sentences_without_end_are_cut_between_words() -> None:
    body = "word " * 1_000
    found = chunks_of(body)
    assert all(set(chunk.text.split()) == {"word"} and len(chunk.text) <= CAP for chunk in found)


def test_a_fence_that_fits_is_not_torn() -> None:
    fence = "```python\n" + "\n\n".join(f"line_{n} = {n}" for n in range(50)) + "\n```"
    body = f"{paragraphs(1, length=80)}\n{fence}\n{paragraphs(3, length=80)}\n"
    assert any(fence in chunk.text for chunk in chunks_of(body))


def test_a_long_fence_is_cut_between_lines() -> None:
    body = "~~~\n" + "".join(f"line number {n} of the listing\n" for n in range(200)) + "~~~"
    found = chunks_of(body)
    assert all(len(chunk.text) <= CAP for chunk in found)
    assert "\n".join(chunk.text for chunk in found) == body


def test_a_blank_line_of_a_fence_between_two_full_lines_is_no_chunk() -> None:
    full = "x" * CAP
    found = chunks_of(f"```\n{full}\n\n \t\n{full}\n```")
    assert [(chunk.first_line, chunk.last_line) for chunk in found] == [(1, 1), (2, 2), (5, 5), (6, 6)]
    assert all(chunk.text.strip() for chunk in found)


def test_a_table_row_is_never_cut() -> None:
    wide = f"| {words(400)} | {words(100)} |"
    rows = ["| a | b |", "|---|---|", *(f"| {words(30)} | {n} |" for n in range(12)), wide, "| c | d |"]
    found = chunks_of("Before\n\n" + "\n".join(rows) + "\n\nAfter\n")
    lines = [line for chunk in found for line in chunk.text.split("\n")]
    assert [line for line in lines if line.strip()] == ["Before", *rows, "After"]
    assert wide in [chunk.text for chunk in found]


def test_rows_without_outer_pipes_are_rows_too() -> None:
    wide = f"{words(400)} | x"
    assert wide in [chunk.text for chunk in chunks_of(f"a | b\n--|--\n1 | 2\n{wide}\n")]


def test_unspaced_scripts_cap_at_a_third() -> None:
    for sentence in ("漢字仮名交じり文。", "ภาษาไทยไม่เว้นวรรค"):
        found = chunks_of(sentence * 300)
        assert len(found) > 1
        assert all(len(chunk.text) <= CAP / 3 for chunk in found)
    assert len(chunks_of("한국어는 띄어 쓴다. " * 90)) == 1


def test_a_scrap_at_the_end_takes_text_from_the_piece_before() -> None:
    body = "\n\n".join("x" * 280 for _ in range(4)) + "\n\nlast words"
    found = chunks_of(body)
    assert len(found[-1].text) > 200


def test_graphemes_stay_whole_whatever_their_length() -> None:
    for unit in ("👩‍👩‍👧‍👦", "🇩🇪", "e\u0301\u0302", "கி", "각"):
        for chunk in chunks_of(unit * 700):
            assert len(chunk.text) % len(unit) == 0
    (chunk,) = chunks_of("e" + "\u0301" * 3_000)
    assert len(chunk.text) == 3_001


# Keys.


def test_keys_name_path_occurrence_and_piece() -> None:
    headings = ["Über uns", "log day", "日本語 見出し"]
    body = f"# Log: *Day*\n{paragraphs(5)}\n" + "".join(f"\n# {heading}\n{words(60)}\n" for heading in headings)
    keys = [chunk.key for chunk in chunks_of(body)]
    pieces = [key for key in keys if key.startswith("log-day:0:")]
    assert pieces == [f"log-day:0:{n}" for n in range(len(pieces))]
    assert keys[len(pieces) :] == ["über-uns:0:0", "log-day:1:0", "日本語-見出し:0:0"]


def test_keys_survive_edits_elsewhere_in_the_note() -> None:
    tail = f"# B\n{words(60)}\n\n# C\n{words(60)}\n"
    before = {chunk.text: chunk.key for chunk in chunks_of(f"# A\n{words(60)}\n\n{tail}")}
    after = {chunk.text: chunk.key for chunk in chunks_of(f"# A\n{words(60)}\n\nmore\n\n{words(90)}\n\n{tail}")}
    shared = set(before) & set(after)
    assert len(shared) == 2
    assert all(before[text] == after[text] for text in shared)


def test_slugs_are_short_and_never_empty() -> None:
    body = f"# {'long title ' * 20}\n{words(60)}\n\n# 🎉\n{words(60)}\n\n# !!!\n{words(60)}\n\n# हिन्दी\n{words(60)}\n"
    long, emoji, marks, hindi = (chunk.key.split(":")[0] for chunk in chunks_of(body))
    assert len(long) <= 80
    assert not long.endswith("-")
    assert emoji
    assert marks
    assert emoji != marks
    assert hindi == "हिन्दी"


# Whatever the text.

FRAGMENTS = st.sampled_from([
    "\n", "\n\n", "---\n", "a: b\n", "# ", "## H\n", "### H\n", "\n===\n", "- item ", "  ", "    ", "> ",
    "| a | b |\n", "|---|---|\n", "```\n", "~~~\n", "%%", "[[a]]", "word ", "Sentence. ", "ü", "漢字。",
    "สวัสดี", "e\u0301", "\u0301", "👩‍👩‍👧", "🇩🇪", "🏻", "\u200d", "\ufe0f", "\u3000", "\u2028", "\x0c",
    "\r\n", "\ud800", "각", "कि", "\u0600", "x" * 150, "x " * 150, "\t"
])  # fmt: skip
REPEATED = st.lists(st.tuples(FRAGMENTS, st.integers(1, 30)), max_size=25).map(lambda ps: "".join(p * n for p, n in ps))
LONG_LINES = st.lists(st.tuples(FRAGMENTS, st.integers(200, 900)), max_size=4).map(
    lambda ps: "".join(p * n for p, n in ps)
)
ANY_TEXT = st.one_of(REPEATED, LONG_LINES, st.text(st.characters(), max_size=300))


def body_lines(note: Note) -> list[str]:
    return note.text.split("\n")[note.body_line - 1 :]


@settings(deadline=None, derandomize=True, max_examples=500)
@given(ANY_TEXT)
def test_chunks_cover_every_line_once_and_verbatim(text: str) -> None:
    note = parse(text, stem="s")
    found = cut(note)
    lines = note.text.split("\n")
    covered: dict[int, str] = {}
    last = note.body_line - 1
    for chunk in found:
        assert chunk.text.strip()
        parts = chunk.text.split("\n")
        assert chunk.last_line == chunk.first_line + len(parts) - 1
        # Two pieces of one line share its number; otherwise chunks begin after the one before.
        assert chunk.first_line > last or (chunk.first_line == last and covered[last] != lines[last - 1])
        for number, part in enumerate(parts, chunk.first_line):
            assert part in lines[number - 1]
            covered[number] = covered.get(number, "") + part
        last = chunk.last_line
    for number, line in enumerate(body_lines(note), note.body_line):
        if line.strip():
            assert covered[number].split() == line.split()


@settings(deadline=None, derandomize=True, max_examples=300)
@given(ANY_TEXT)
def test_keys_are_unique_and_ordinals_count(text: str) -> None:
    found = cut(parse(text, stem="s"))
    assert len({chunk.key for chunk in found}) == len(found)
    assert [chunk.ordinal for chunk in found] == list(range(len(found)))


@settings(deadline=None, derandomize=True, max_examples=500)
@given(ANY_TEXT)
def test_no_chunk_cuts_a_grapheme(text: str) -> None:
    note = parse(text, stem="s")
    boundaries = {0, *(match.end() for match in regex.finditer(r"\X", note.text))}
    position = 0
    for chunk in cut(note):
        position = note.text.index(chunk.text, position)
        assert position in boundaries
        position += len(chunk.text)
        assert position in boundaries


@settings(deadline=None, derandomize=True, max_examples=300)
@given(ANY_TEXT)
def test_a_chunk_names_headings_that_stand_above_it(text: str) -> None:
    note = parse(text, stem="s")
    for chunk in cut(note):
        above = [heading.text for heading in note.headings if heading.line <= chunk.last_line]
        assert set(chunk.heading_path) <= set(above)
