"""How alike memories are: the scores that decide what is refused as a repeat, in any script, and how fast."""

import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vademecum.memory.similarity import DUPLICATE, RELATED, Bag, bag, fingerprint, normalised, score, similarity

TITLE = "A WAL database is three files, and a copy of one loses commits"
BODY = (
    "Copying only the main file of a SQLite database in WAL mode loses what was committed last, since that still lies "
    "in the -wal file. Use the online backup call, or checkpoint first."
)


@pytest.mark.parametrize(
    ("title", "body", "least", "most"),
    [
        pytest.param(TITLE, BODY, 1.0, 1.0, id="the same"),
        pytest.param(
            TITLE.upper(), f"> **{BODY.replace('backup', '`backup`')}**", 1.0, 1.0, id="the same in other clothes"
        ),
        pytest.param(
            "The WAL databases are three files: copies of one lose commits",
            BODY.replace("file.", "files."),
            DUPLICATE,
            1.0,
            id="near verbatim",
        ),
        pytest.param(
            "Copies of a WAL database lose commits unless all three files are taken",
            "A SQLite database in WAL mode keeps what was committed last in a -wal file. Whoever copies the main file "
            "alone loses it; checkpoint first, or use the online backup call.",
            RELATED,
            DUPLICATE,
            id="the same lesson in other words",
        ),
        pytest.param(
            "SQLite locks do not work on network file systems",
            "On NFS two hosts may both believe that they hold the lock. Keep the database file on a local disk, and "
            "let one process serve the others.",
            0.0,
            0.15,
            id="a note beside it",
        ),
        pytest.param(
            "Backups are worth nothing until one was restored",
            "The nightly job wrote empty archives for weeks. Restore one each month, on another machine.",
            0.0,
            0.15,
            id="another lesson",
        ),
        pytest.param(
            "Buttons need a visible focus ring",
            "Keyboard users lose their place without one; the reset stylesheet takes it away.",
            0.0,
            0.0,
            id="nothing to do with it",
        ),
    ],
)
def test_the_score_tells_a_repeat_from_a_relative_and_a_stranger(
    title: str, body: str, least: float, most: float
) -> None:
    assert least <= score(TITLE, BODY, title, body) <= most


@pytest.mark.parametrize(
    ("one", "other", "are_alike"),
    [
        ("caches", "cach", True),
        ("indexes", "index", True),
        ("policies", "policy", True),
        ("boxes", "box", True),
        ("files", "file", True),
        ("https", "http", False),
        ("class", "clas", False),
        ("caching", "cache", False),
        ("gas", "ga", False),
        ("python 3.11", "python 3.12", False),
        ("python 3", "python 2", False),
        ("node_modules", "node modules", False),
        ("node_modules", "node_module", True),
        ("src/app.py", "(src/app.py).", True),
        ("the cache", "a cache!", True),
        ("É", "e", False),
        ("ÉCOLE", "e\u0301cole", True),
        ("ｆｕｌｌ width", "full width", True),
        ("हिन्दी", "हिन्दी", True),
        ("हिन्दी", "हिन्दू", False),
        ("ไทย", "ลาว", False),
    ],
)
def test_a_word_is_the_same_in_either_number_and_in_no_other_way(one: str, other: str, are_alike: bool) -> None:
    assert (score(one, one, other, other) == 1.0) is are_alike


def test_a_text_without_spaces_is_compared_by_its_pairs_of_characters() -> None:
    lesson = "主文件以外还有两个文件", "复制数据库时必须一起复制预写日志文件。"
    assert score(*lesson, *lesson) == 1.0
    assert DUPLICATE <= score(*lesson, "主文件以外还有两个文件", "复制数据库时，必须一起复制预写日志的文件。") < 1.0
    assert score(*lesson, "按钮需要可见的焦点", "键盘用户否则会迷路。") == 0.0


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (("", ""), ("", ""), 1.0),
        (("", ""), ("cache", "cache"), 0.0),
        (("!!!", "?!"), ("!!!", "?!"), 1.0),
        (("!!!", "?!"), ("...", "--"), 0.0),
        (("the", "of it"), ("a", "to us"), 0.0),
        (("🦊", "🦊 🦊"), ("🐻", "🐻 🐻"), 0.0),
    ],
)
def test_texts_without_a_word_are_alike_only_if_they_are_the_same(
    one: tuple[str, str], other: tuple[str, str], expected: float
) -> None:
    assert score(*one, *other) == expected


_TEXTS = st.lists(st.sampled_from(["cache", "caches", "of", "wal", "3.11", "猫が好き", "é", "x", "!"]), max_size=9).map(
    " ".join
)


@settings(deadline=None, derandomize=True, max_examples=300)
@given(_TEXTS, _TEXTS, _TEXTS, _TEXTS, st.floats(0, 1))
def test_a_score_is_a_fraction_the_same_both_ways_and_whole_where_it_is_asked_for(
    a_title: str, a_body: str, b_title: str, b_body: str, at_least: float
) -> None:
    one, other = bag(a_title, a_body), bag(b_title, b_body)
    whole = similarity(one, other)
    assert 0.0 <= whole <= 1.0
    assert whole == similarity(other, one)
    assert similarity(one, one) == 1.0
    assert similarity(one, other, at_least=at_least) in ({whole} if whole >= at_least else {whole, 0.0})


def _bags(number: int) -> list[Bag]:
    chance = random.Random(7)
    words = [f"word{n}" for n in range(2_000)]

    def text(length: int) -> str:
        return " ".join(chance.choices(words, k=length))

    return [bag(text(9), text(chance.randint(20, 200))) for _ in range(number)]


def test_one_is_compared_with_two_thousand_while_nobody_waits() -> None:
    one, *others = _bags(2_001)
    fastest = 1.0
    for _ in range(5):
        started = time.perf_counter()
        assert all(similarity(one, other, at_least=RELATED) < RELATED for other in others)
        fastest = min(fastest, time.perf_counter() - started)
    assert fastest < 0.05  # 6 ms on a quiet machine


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("Prefers tabs", "  prefers\n\ttabs.  "),
        ("Prefers tabs", "PREFERS TABS?!"),
        ("Prefers tabs", "Prefers tabs ;"),
        ("café", "cafe\u0301"),
        ("Use 3.11", "use 3.11"),
    ],
)
def test_a_fingerprint_overlooks_case_blanks_and_the_marks_at_the_end(text: str, same: str) -> None:
    assert fingerprint(text) == fingerprint(same)
    assert len(fingerprint(text)) == 64


@pytest.mark.parametrize("other", ["Prefers tab", "prefers, tabs", ".Prefers tabs", "preferstabs", ""])
def test_a_fingerprint_tells_texts_apart(other: str) -> None:
    assert fingerprint("Prefers tabs") != fingerprint(other)


def test_a_fingerprint_is_that_of_the_normalised_text() -> None:
    assert fingerprint("a") == "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"
    assert normalised("  Two\u00a0 words\r\n") == "Two words"
    assert fingerprint("half a \ud83d pair") == fingerprint("HALF a \ud83d pair")
