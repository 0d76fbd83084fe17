"""People's words: whatever is typed is data, and only quotes, a leading minus and function words mean anything."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vademecum.search import STOP_WORDS, parse_query
from vademecum.search.query import meaning_of


@pytest.mark.parametrize(
    ("text", "terms", "phrases", "excluded"),
    [
        ("redis", ["redis"], [], []),
        ("why did we drop redis", ["drop", "redis"], [], []),
        ("Why did we drop Redis?", ["drop", "Redis"], [], []),
        # function words stay when nothing else is left
        ("who are we", ["who", "are", "we"], [], []),
        ('"to be"', [], ["to be"], []),
        ('the "to be"', [], ["to be"], []),
        # quotes
        ('"drop redis"', [], ["drop redis"], []),
        ('cache "drop redis" now', ["cache"], ["drop redis"], []),
        ('"one two" "three four"', [], ["one two", "three four"], []),
        ('he said "stop', ["said", "stop"], [], []),
        ('a "b c" d"', ["d"], ["b c"], []),
        ('""', [], [], []),
        ('"  "', [], [], []),
        ('redis ""', ["redis"], [], []),
        # a leading minus
        ("redis -cluster", ["redis"], [], ["cluster"]),
        ("-cluster redis", ["redis"], [], ["cluster"]),
        ('redis -"two words"', ["redis"], [], ["two words"]),
        ('"drop redis" -cluster', [], ["drop redis"], ["cluster"]),
        ("-0042", ["0042"], [], []),
        ("redis -0042", ["redis", "0042"], [], []),
        ("-cluster", ["cluster"], [], []),
        ("-alpha -beta", ["alpha", "beta"], [], []),
        ("redis - cluster", ["redis", "cluster"], [], []),
        ("-", [], [], []),
        # identifiers
        ("ADR-0042", ["ADR-0042"], [], []),
        ('"ADR-0042"', [], ["ADR-0042"], []),
        ("call flush_cache() today", ["call", "flush_cache", "today"], [], []),
        ("fixed in 4.7.13.", ["fixed", "4.7.13"], [], []),
        ("os.path.join", ["os.path.join"], [], []),
        # punctuation and operators of other languages
        ("where did we leave it, exactly?", ["leave", "exactly"], [], []),
        ("NEAR(a b, 5)", ["NEAR", "b", "5"], [], []),
        ("col:x", ["col", "x"], [], []),
        ("redis AND cache OR NOT x", ["redis", "cache", "x"], [], []),
        ("redis*", ["redis"], [], []),
        ("^redis", ["redis"], [], []),
        ("redis + cache", ["redis", "cache"], [], []),
        ("{redis}: (cache)", ["redis", "cache"], [], []),
        ("redis\\", ["redis"], [], []),
        ("*", [], [], []),
        ("", [], [], []),
        ("   \n\t", [], [], []),
        ("?!…—", [], [], []),
        ("\x00a redis", ["redis"], [], []),
        # one word once, in its first spelling
        ("Redis redis REDIS", ["Redis"], [], []),
        # clitics
        ("the user's cache", ["user", "cache"], [], []),
        ("Mara’s notes", ["Mara", "notes"], [], []),
        # other scripts
        ("検索 メモ", ["検索", "メモ"], [], []),
        ("Jürgen Vogt", ["Jürgen", "Vogt"], [], []),
    ],
)
def test_a_question_is_read_as_people_mean_it(
    text: str, terms: list[str], phrases: list[str], excluded: list[str]
) -> None:
    query = parse_query(text)
    assert (list(query.terms), list(query.phrases), list(query.excluded)) == (terms, phrases, excluded)
    assert query.empty is (not terms and not phrases)


@pytest.mark.parametrize(
    ("text", "without", "terms", "excluded"),
    [
        ("redis", ["cluster"], ["redis"], ["cluster"]),
        ("redis", ["0042"], ["redis"], ["0042"]),
        ("redis", ["-cluster"], ["redis"], ["cluster"]),
        ("redis", ["two words"], ["redis"], ["two words"]),
        ("redis -a1", ["b", "b"], ["redis"], ["a1", "b"]),
        ("redis", ["", " ", "!"], ["redis"], []),
        ("redis", ["the"], ["redis"], ["the"]),
        ("", ["redis"], [], ["redis"]),
    ],
)
def test_without_always_excludes(text: str, without: list[str], terms: list[str], excluded: list[str]) -> None:
    query = parse_query(text, without=without)
    assert (list(query.terms), list(query.excluded)) == (terms, excluded)


@pytest.mark.parametrize("text", ["well-known", "redis-cluster -sentinel", "x well-known"])
def test_a_hyphen_inside_a_word_is_no_minus(text: str) -> None:
    query = parse_query(text)
    assert {"well-known", "redis-cluster"} & set(query.terms)
    assert not {"known", "cluster", "well-known"} & set(query.excluded)


def test_the_list_of_function_words_is_about_a_hundred_and_fifty_to_two_hundred_and_fifty() -> None:
    assert 140 <= len(STOP_WORDS) <= 260
    assert not STOP_WORDS & {"redis", "note", "work", "time", "new", "first"}


@pytest.mark.parametrize(
    "text", ["x" * 20_000, "word " * 20_000, '"' * 9999, "-" * 9999, "- " * 9999, '-"' * 5000, "a-" * 9999]
)
def test_a_question_of_any_length_is_bounded(text: str) -> None:
    query = parse_query(text)
    assert sum(map(len, query.terms + query.phrases + query.excluded)) <= 30_000
    assert len(query.terms) + len(query.phrases) + len(query.excluded) <= 300


@settings(derandomize=True, deadline=None, max_examples=1000)
@given(st.text(), st.lists(st.text(), max_size=3))
def test_no_text_raises(text: str, without: list[str]) -> None:
    query = parse_query(text, without=without)
    assert all(word.strip() for word in query.terms + query.phrases + query.excluded)


def test_of_a_long_question_the_first_words_count_however_often_they_come_back() -> None:
    query = parse_query(" ".join(f"word{n} redis Session" for n in range(100)))
    assert query.terms[:4] == ("word0", "redis", "Session", "word1")
    assert len(query.terms) == 64


def test_what_is_embedded_of_a_question_is_bounded_and_leaves_out_what_is_ruled_out() -> None:
    assert meaning_of('why "page cache" -mobile') == "why page cache"
    assert len(meaning_of("x " * 100_000)) == 2_000
