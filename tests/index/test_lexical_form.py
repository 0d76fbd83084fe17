"""The text as the word indexes see it: identifiers whole beside their parts, unspaced scripts word by word."""

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vademecum.index.schema import is_identifier, lexical_form, lexical_form_with_identifiers, unsplit


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("plain words", ["plain", "words"]),
        ("日本語", ["日", "本", "語"]),
        ("東京都へ行く", ["東", "京", "都", "へ", "行", "く"]),
        ("カタカナ", ["カ", "タ", "カ", "ナ"]),
        ("한국어", ["한", "국", "어"]),
        ("Redis を使う", ["Redis", "を", "使", "う"]),
        ("ｆｕｌｌ　ｗｉｄｔｈ", ["full", "width"]),
        ("ﬁne", ["fine"]),
        ("Cafe\u0301", ["Caf\u00e9"]),
    ],
)
def test_unspaced_scripts_are_spaced_out_and_compatibility_forms_folded(text: str, words: list[str]) -> None:
    assert lexical_form(text).split() == words


@pytest.mark.parametrize(
    "name", ["ADR-0042", "snake_case_name", "4.7.13", "v3.1", "os.path", "flush_cache", "a-1", "X_Y", "2025-03-11"]
)
def test_an_identifier_is_held_whole_beside_its_parts(name: str) -> None:
    assert is_identifier(name)
    assert unsplit(name) in lexical_form_with_identifiers(f"see ({name}), then").split()
    assert len(unsplit(name).split()) == 1
    assert lexical_form_with_identifiers(f"see {name}").startswith(f"see {name}")


@pytest.mark.parametrize("word", ["well-known", "plain", "42", "", "-", "_", "a.", "don't", "日本-語"])
def test_a_plain_or_merely_hyphenated_word_is_no_identifier(word: str) -> None:
    assert not is_identifier(word)
    assert lexical_form_with_identifiers(word) == lexical_form(word)


def test_two_different_identifiers_are_two_words() -> None:
    names = ["a-1", "a_1", "a.1", "a-1-1", "A-1"]
    assert len({unsplit(name) for name in names}) == len(names)


def test_an_identifier_stands_once_however_often_it_is_said() -> None:
    assert lexical_form_with_identifiers("ADR-0042 " * 50).count(unsplit("ADR-0042")) == 1


@settings(derandomize=True, deadline=None, max_examples=300)
@given(st.text())
def test_no_text_raises_and_ascii_stays_as_it_is(text: str) -> None:
    form = lexical_form(text)
    if text.isascii():
        assert form == text
    assert lexical_form(form).split() == form.split() or unicodedata.normalize("NFKC", form) != form
    lexical_form_with_identifiers(text)
