"""A chunk as a model reads it: where it stands, then all of its words and none of its markup."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vademecum.markdown.plain import embedded_text, plain


@pytest.mark.parametrize(
    ("markdown", "text"),
    [
        ("# Heading", "Heading"),
        ("**bold** and _slanted_ and ~~gone~~ and ==marked==", "bold and slanted and gone and marked"),
        ("[[Note]]", "Note"),
        ("[[Note|what it says]]", "what it says"),
        ("[[Note#Heading]]", "Note Heading"),
        ("[shown](https://example.org/a_b)", "shown"),
        ("![[picture.png]] after", "after"),
        ("![alt](picture.png) after", "after"),
        ("> quoted", "quoted"),
        ("> [!note]+ Title\n> body", "Title\nbody"),
        ("a paragraph ^block-id", "a paragraph"),
        ("`code` here", "code here"),
        ("| a | b |\n|---|---|\n| 1 | 2 |", "a b"),
        ("one<br>two", "one two"),
        ("<b>bold</b>", "bold"),
        ("if x < 5 and y > 3 then", "if x < 5 and y 3 then"),
        ("plain words stay as they are", "plain words stay as they are"),
        ("日本語 と ümlaut", "日本語 と ümlaut"),
    ],
)
def test_markup_goes_and_words_stay(markdown: str, text: str) -> None:
    found = [" ".join(line.split()) for line in plain(markdown).split("\n")]
    assert "\n".join(found).startswith(text)


def test_paragraphs_stay_apart_and_empty_lines_do_not_pile_up() -> None:
    assert plain("one\n\n\n\n\ntwo\nthree\n\n\n\n") == "one\n\ntwo\nthree"


def test_what_is_embedded_names_title_and_headings_once() -> None:
    assert embedded_text("T", (), "words") == "T\nwords"
    assert embedded_text("T", ("T", "A", "B"), "words") == "T > A > B\nwords"
    assert embedded_text("T", ("A", "T"), "words") == "T > A > T\nwords"


def test_a_chunk_of_nothing_but_markup_still_says_where_it_stands() -> None:
    assert embedded_text("T", ("A",), "![[picture.png]]\n\n---\n").startswith("T > A\n")


WORDS = st.lists(st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=8), min_size=1, max_size=12)


@given(WORDS, st.sampled_from(["**{}**", "_{}_", "[[{}]]", "[{}](x)", "> {}", "# {}", "`{}`", "<b>{}</b>", "- {}"]))
def test_every_word_survives_its_markup(words: list[str], shape: str) -> None:
    marked = " ".join(shape.replace("{}", word) for word in words)
    assert re.findall(r"[^\W_]+", plain(marked)) == re.findall(r"[^\W_]+", " ".join(words))


@given(st.text("[]()!<>#|`*_~^= \n\tab", max_size=60))
def test_no_text_raises_and_nothing_is_added(text: str) -> None:
    made = plain(text)
    assert made == made.strip()
    assert "  " not in made
    assert len(made) <= len(text) + 2 * text.count("#")
    assert set(made) <= set(text) | {" ", ">"}


@pytest.mark.parametrize(
    "piece", ["[", "[[", "![[", "![](", "[a](", "<", "> [!", " ^", "\n", "|", "[[a|", "*", " \t", "#", ">"]
)
def test_no_row_of_marks_takes_long(piece: str) -> None:
    started = time.process_time()
    plain(piece * (20_000 // len(piece)))
    assert time.process_time() - started < 1.0
