"""Bytes that a note's file may hold: the grammar of Obsidian mixed, broken, repeated, and spliced with real notes.

Everything comes from the dice that are given: equal dice make equal bytes on every machine.
"""

import random
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final

EXAMPLES: Final = Path(__file__).parents[2] / "examples" / "vault"

Dice = random.Random

WORDS: Final = (
    "redis", "session", "cache", "Quick", "brown", "fox", "note-taking", "snake_case", "ADR-0042", "4.7.13",
    "don't", "naïve", "café", "Über", "ßtraße", "İstanbul", "e\u0301te\u0301", "한국어", "漢字仮名交じり文。",
    "สวัสดีครับ", "ភាសាខ្មែរ", "မြန်မာ", "हिन्दी", "עברית", "العربية", "\u202eabc\u202c", "a\u200bb",
    "x\u2060y", "👩‍👩‍👧‍👦", "🇩🇪🇫🇷", "👍🏽", "1️⃣", "ﷺ", "ﬁn", "Ⅷ", "½", "ｆｕｌｌ", "𝔘𝔫𝔦", "\ufdd0",
    "\U0010ffff", "\ue000\ue001", "\u2028", "\u2029", "\x85", "a\u0301\u0302\u0303", "...", "--", "—", "…",
    "true", "null", "2024-02-30", "1e309", "0x1F", "<br>", "&amp;", "&#0;", "C:\\x", "../../etc",
)  # fmt: skip

MARKS: Final = (
    "[[", "]]", "![[", "|", "\\|", "\\", "[", "]", "](", ")", "(", "!", "`", "``", "```", "````", "~~~", "$",
    "$$", "%%", "==", "~~", "**", "_", "*", "#", "##", "#tag", "#a/b/", "#1", "#private", "#漢字", "^", " ^id",
    "^id", "^a-1 ", "<!--", "-->", "<", ">", "<div>", "</div>", "<script>", "<?", "<![CDATA[", "]]>", "&", ":",
    "- ", "* ", "1. ", "- [ ] ", "> ", ">> ", "> [!note]+ ", "|-|", "| ", "---", "===", "\n", "\n\n", "\n    ",
    "\n\t", "\r", "\r\n", "\x85", "\x0c", "\x0b", "\x1c", "\u2028", "\xa0", "\u3000", "\ufeff", "\0", "\x01",
    "\x02", "\x7f", "\x1b[31m", "\ud800", "\u200d", "\ufe0f", "\u0301", "\u202e", "\ue0000\ue001", "{{", "}}",
    "<%", "%>", "%", "%20", "%00", "%ff", "http://", "a@b.c", "[^1]", "[^1]: ", "[x]: y.md\n",
)  # fmt: skip

TARGETS: Final = (
    "Note", "folder/Note", "../up", "Note#Heading", "Note#A#B", "Note#^block", "#Heading", "#^id", "^id", "",
    " ", "#", "#^", "a\\", "a]b", "x.png", "Note.md", "é", "e\u0301", "漢字", "a\x01b", "a\tb", "%41", "a|b",
    "a\x85b", "\u202ex", "C:\\x", "A" * 300,
)  # fmt: skip

DESTINATIONS: Final = (
    "Note.md", "<My Note.md#h>", "My%20Note.md", "a%0Ab.md", "%00.md", "%ff%fe.md", "%.md", "%zz", "../x.md",
    "#h", "#^b", "http://x", "mailto:a@b", "//host/x.md", "x.md 'title'", "x.md \"t\nt\"", "<", "<a b",
    "a(b(c)).md", "\\(", "a\x01.md", "é.md", "%E2%80%AE.md", "a#b#^c", "%23h.md", "%2e%2e%2fx.md", "/abs.md",
    "C:/x.md", "file:///etc/passwd",
)  # fmt: skip

YAML_LINES: Final = (
    "title: A title", "title: [list, of]", "title: |\n  block\n   scalar", "title: >-\n  folded\n\n  text",
    "title: ''", "title: \"es\\ncaped \\0 \\ud800 \\U0001F600\"", "Title: Again", "aliases: [a, 'b', \"c\"]",
    "alias: one, two", "aliases:\n  - x\n  - {a: b}\n  - [y, [z]]", "aliases: [unclosed",
    "tags: [x, #y, private]", "tags: a b, c", "tags:\n- x\n- #y", "tag: private/sub", "tags: {a: b}",
    "private: true", "private: True", "PRIVATE: yes", "private: false", "private: [true]",
    "private: \"tr\\x75e\"", "date: 2024-05-06", "date: 2024-05-06T10:00:00Z", "date: 9999-99-99", "date: -1",
    "date: 0001-01-01", "when: 2024-02-30 25:61", "a: &anchor x", "b: *anchor", "c: *missing", "<<: *anchor",
    "<<: {x: 1}", "a: b: c", "key with spaces: v", "? complex\n: value", "!!python/object:os.system x",
    "!tag x: y", "n: !!binary aGk=", "link: '[[Note|x]]'", "links:\n  - \"[[A]]\"\n  - [[B]]", "up: [[Note#H]]",
    "{{title}}: x", "x: <% tp.date %>", "x: {{date}}", "t:\ttab", "\tkey: v", " indented: v", "- item",
    "just text", "# comment", "\"quoted\": v", "'q': v", ": empty", "é: ü", "漢字: 値", "a:", "a:b",
    "x: 'unclosed", "x: \"un\nclosed", "x: @at", "x: `tick`", "x: %pct", "x: *", "x: &", "x: |", "x: >",
    "x: [1, 2", "x: {a: 1", "x: 1_000", "x: .inf", "x: 0o17", "x: ~", "x: \x07bell", "x: \ufeff", "x: a\x85b",
    "x: a\u2028b", "x: \ud800", "...", "---a", "--- ", "x: &a [*a]", "{a: b, private: yes}", "tags: [private]",
    "[a, b]", "x: \"\\u0000\"", "[[wiki]]: x", "%YAML 1.1", "cssclass: x",
)  # fmt: skip


def text_bytes(dice: Dice) -> bytes:
    """One file's content."""
    make = dice.choices(_STYLES, _STYLE_WEIGHTS)[0]
    made = make(dice)
    content = made if isinstance(made, bytes) else _encoded(made, dice)
    return (_damaged(content, dice) if dice.random() < 0.15 else content)[:_MOST_BYTES]


def repeated_unit(dice: Dice) -> str:
    """A few marks and words, to be repeated until whoever reads them more than once shows."""
    kind = dice.random()
    if kind < 0.2:
        return _block(dice)[:200]
    return "".join(_piece(dice) for _ in range(dice.randint(1, 5)))


# ── styles


def _mixture(dice: Dice) -> str:
    front = _frontmatter(dice) if dice.random() < 0.5 else ""
    blocks = [_block(dice) for _ in range(dice.choice((0, 1, 2, 3, 5, 8, 14)))]
    return front + dice.choice(("\n\n", "\n\n", "\n", "\n \n", "")).join(blocks)


def _soup(dice: Dice) -> str:
    pieces = []
    for _ in range(dice.randint(1, 50)):
        piece = _piece(dice)
        pieces.append(piece * dice.choice((1, 1, 1, 1, 2, 3, 40)))
    return "".join(pieces)


def _tower(dice: Dice) -> str:
    """One thing many times over, with something else around it."""
    times = dice.choice((50, 200, 800, 3_000))
    return _block(dice)[:300] + "\n" + repeated_unit(dice)[:12] * times + "\n" + _block(dice)[:300]


def _wide(dice: Dice) -> str:
    """Sections, paragraphs, rows and lines around the sizes at which a note is cut."""
    parts = []
    for _ in range(dice.randint(1, 8)):
        unit = dice.choice(
            (
                "word ",
                "x",
                "漢",
                "e\u0301",
                "👩‍👩‍👧‍👦",
                "One. ",
                "- item\n",
                "| a | b |\n",
                "para\n\n",
                "ไทย",
                "🇩🇪",
                "\u0301",
            )
        )
        length = dice.choice((190, 199, 200, 201, 400, 1_199, 1_200, 1_201, 1_205, 2_500))
        parts.append(dice.choice(("", "# H\n", "## H\n", "### \n", "T\n===\n", "```\n", "|-|\n", "> ")))
        parts.append((unit * (length // len(unit) + 1))[: length + dice.randint(-3, 3)])
        parts.append(dice.choice(("\n", "\n\n", " ", "\n```\n")))
    return "".join(parts)


def _echo(dice: Dice) -> str:
    """Sections that say the same, so that only their place tells them apart."""
    section = (
        dice.choice(("## Same\n\n", "# A\n\n", "")) + _words(dice) + " filler" * dice.choice((1, 40, 160)) + "\n\n"
    )
    return section * dice.choice((2, 3, 6)) + dice.choice(("", _block(dice)))


def _mutated(dice: Dice) -> bytes:
    """Real notes: spliced, cut off, repeated, bytes flipped."""
    content = bytearray(dice.choice(_real_notes()))
    for _ in range(dice.randint(1, 6)):
        at = dice.randrange(len(content) + 1)
        change = dice.randrange(6)
        if change == 0:
            other = dice.choice(_real_notes())
            start = dice.randrange(len(other))
            content[at:at] = other[start : start + dice.randint(1, 800)]
        elif change == 1:
            del content[at:]
        elif change == 2:
            content[at:at] = content[at : at + dice.randint(1, 60)] * dice.randint(1, 20)
        elif change == 3 and content:
            content[at % len(content)] ^= 1 << dice.randrange(8)
        elif change == 4:
            content[at:at] = _piece(dice).encode("utf-8", "surrogatepass") * dice.choice((1, 2, 30))
        else:
            del content[at : at + dice.randint(1, 200)]
    return bytes(content)


def _noise(dice: Dice) -> bytes:
    kind = dice.randrange(6)
    if kind == 0:
        return dice.randbytes(dice.randint(0, 600))
    if kind == 1:
        return _mixture(dice).encode(dice.choice(("utf-16", "utf-32-be", "utf-7")), "replace")
    if kind == 2:
        return b"".join(dice.choice(_BAD_UTF8) for _ in range(dice.randint(1, 30)))
    if kind == 3:
        return b"text " * dice.choice((1, 1_637, 1_639, 1_700)) + b"\0" + b" after"
    if kind == 4:
        return "".join(chr(dice.choice((dice.randrange(0x250), dice.randrange(0x110000)))) for _ in range(80)).encode(
            "utf-8", "surrogatepass"
        )
    return bytes(dice.choice(b"#-*>|`~$%[]()^!\\ \t\n:{}<&'\"") for _ in range(dice.randint(1, 300)))


def _blank(dice: Dice) -> str:
    return "".join(
        dice.choice(("", " ", "\n", "\t", "\r", "\xa0", "\ufeff", "\x0c", "---", "\u3000")) for _ in range(3)
    )


def _huge(dice: Dice) -> str:
    return dice.choice((_soup, _mixture, _wide))(dice) * dice.choice((20, 60, 120))


_STYLES: Final[tuple[Callable[[Dice], str | bytes], ...]] = (
    _mixture,
    _soup,
    _mutated,
    _wide,
    _tower,
    _noise,
    _blank,
    _huge,
    _echo,
)
_STYLE_WEIGHTS: Final = (43, 25, 16, 4, 1, 6, 2, 0.1, 3)
_MOST_BYTES: Final = 300_000
_BAD_UTF8: Final = (
    b"\xff", b"\xfe", b"\xc0\x80", b"\xe2\x82", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xf8\x88", b"\x80",
    b"ok ", b"\n", b"# h\xe9\n", b"[[\xff]]", b"\0",
)  # fmt: skip


# ── the grammar


def _frontmatter(dice: Dice) -> str:
    lines = [dice.choice(YAML_LINES) for _ in range(dice.choice((0, 1, 2, 4, 7, 12)))]
    shape = dice.random()
    if shape < 0.04:
        lines.append(
            dice.choice(
                (
                    "x: " + "v" * 70_000,
                    "l:\n" + "- i\n" * 6_000,
                    "x: " + "[" * 300,
                    "d:\n" + "".join(" " * n + "k:\n" for n in range(40)),
                )
            )
        )
    elif shape < 0.08:  # aliases that unfold into more than a machine holds
        lines.append("".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}' if n else 'x'] * 9)}]\n" for n in range(9)))
    opening = dice.choice(("---", "---", "---", "---", "--- ", "---\t", "----", "\ufeff---", " ---", "--- x", "\n---"))
    closing = dice.choice(("---", "---", "---", "---", "--- ", "...", "----", "", " ---", "---x", "---\r"))
    return f"{opening}\n" + "".join(f"{line}\n" for line in lines) + closing + dice.choice(("\n", "\n", "\n\n", ""))


def _piece(dice: Dice) -> str:
    return dice.choice(MARKS) if dice.random() < 0.7 else dice.choice(WORDS)


def _words(dice: Dice) -> str:
    return " ".join(_inline(dice) for _ in range(dice.choice((1, 3, 6, 12, 25))))


def _inline(dice: Dice) -> str:
    kind = dice.random()
    if kind < 0.6:
        return dice.choice(WORDS)
    if kind < 0.7:
        alias = dice.choice(("", "", "|shown", "\\|shown", "|a|b", "|", "|[x]", "|]", "|$x$", "#|x"))
        return (
            dice.choice(("", "!", "\\"))
            + f"[[{dice.choice(TARGETS)}{alias}"
            + dice.choice(("]]", "]]", "]]", "]", "", "]]]"))
        )
    if kind < 0.77:
        return (
            dice.choice(("", "!")) + f"[{dice.choice(WORDS)}]({dice.choice(DESTINATIONS)}" + dice.choice((")", ")", ""))
        )
    if kind < 0.83:
        mark = dice.choice(("`", "``", "$", "$$", "%%", "==", "**", "<!--"))
        return f"{mark}{_inline(dice)}" + dice.choice((mark, mark, "", "-->"))
    if kind < 0.9:
        return dice.choice(
            ("#tag", "#a/b", "#1a", "#12", "#é", "#漢字", "x#no", "(#in)", "#private", "#t\u200dx", "##x")
        )
    return dice.choice(MARKS)


def _block(dice: Dice) -> str:
    return dice.choices(_BLOCKS, _BLOCK_WEIGHTS)[0](dice)


def _heading(dice: Dice) -> str:
    if dice.random() < 0.2:
        return f"{_words(dice)}\n" + dice.choice(("===", "---", "=", " -", "    ===", "=== x"))
    return (
        dice.choice(("", "", "", " ", "   ", "    ", "> ", "- "))
        + "#" * dice.randint(1, 7)
        + dice.choice((" ", " ", "\t", ""))
        + _words(dice)
        + dice.choice(("", "", " ##", " ^id", " %%c%%", "\\"))
    )


def _list(dice: Dice) -> str:
    depth, lines = 0, []
    for _ in range(dice.choice((2, 5, 12))):
        depth = max(0, depth + dice.choice((-1, 0, 0, 1)))
        mark = dice.choice(("- ", "* ", "+ ", "1. ", "99999999999. ", "- [ ] ", "-", ""))
        lines.append(
            "  " * depth + mark + _words(dice) + dice.choice(("", "", "", " ^id", "\n" + "  " * depth + "^id"))
        )
    return "\n".join(lines)


def _quote(dice: Dice) -> str:
    mark = dice.choice(("> ", ">", "> > ", "> [!note]- x\n> ", ">" * dice.choice((3, 60, 400)), "- > "))
    return "\n".join(mark + line for line in _block(dice).split("\n"))[:4_000]


def _fence(dice: Dice) -> str:
    mark = dice.choice(("```", "````", "~~~", "`" * 9, "``", " ```", "    ```", "> ```", "- ```"))
    closing = dice.choice((mark, mark, mark, "", "```", "~~~", mark + "x", mark + "`"))
    return f"{mark}{dice.choice(('', 'py', ' x`y', '{r}'))}\n# not a heading [[n]] #no\n{_words(dice)}\n\n{closing}"


def _table(dice: Dice) -> str:
    columns = dice.choice((1, 2, 3, 30))
    rule = "|" + "|".join(dice.choice(("-", "--", ":-:", " - ", "x")) for _ in range(columns)) + "|"
    rows = ["|" + "|".join(_inline(dice) for _ in range(dice.choice((columns, columns, 1)))) for _ in range(4)]
    return "\n".join([rows[0] + "|", rule, *rows[1:]]) + dice.choice(("", "\n^id", "\n\n^id"))


def _opaque(dice: Dice) -> str:
    first, last = dice.choice(
        (
            ("%%", "%%"),
            ("$$", "$$"),
            ("<div>", "</div>"),
            ("<!--", "-->"),
            ("<script>", "</script>"),
            ("<?", "?>"),
            ("<pre>", "</pre>"),
        )
    )
    gap = dice.choice((" ", "\n", "\n\n", ""))
    return f"{first}{gap}{_words(dice)}{gap}" + dice.choice((last, last, ""))


def _deep(dice: Dice) -> str:
    count = dice.choice((20, 120, 500))
    return dice.choice(
        (
            "".join("  " * n + "- x\n" for n in range(min(count, 60))),
            "> " * count + "x",
            "[" * count + "x" + "](y)" * count,
            "*" * count + "x" + "*" * count,
            "[[" * count + "]]" * count,
            "".join("#" * (1 + n % 6) + f" h{n}\n" for n in range(count)),
            "- " * count + "x",
            "<div>\n" * count,
            "`" * count + "x",
            "e" + "\u0301" * count,
        )
    )


def _rule(dice: Dice) -> str:
    return dice.choice(
        (
            "---",
            "***",
            "___",
            "- - -",
            "---\n",
            "--- \n---",
            "\n---\nprivate: true\n---",
            "^id",
            "^only-id\n",
            "\\",
            "[^1]: note",
        )
    )


_BLOCKS: Final[tuple[Callable[[Dice], str], ...]] = (
    _words,
    _heading,
    _list,
    _quote,
    _fence,
    _table,
    _opaque,
    _deep,
    _rule,
)
_BLOCK_WEIGHTS: Final = (34, 20, 12, 6, 8, 7, 6, 2, 5)


# ── bytes


def _encoded(text: str, dice: Dice) -> bytes:
    ending = dice.random()
    if ending < 0.1:
        text = text.replace("\n", "\r\n")
    elif ending < 0.14:
        text = text.replace("\n", "\r")
    elif ending < 0.16:
        text = "".join(dice.choice(("\n", "\r\n", "\r", "\x85", "\x0c\n")) if c == "\n" else c for c in text)
    if dice.random() < 0.05:
        text = "\ufeff" * dice.choice((1, 1, 2)) + text
    return text.encode("utf-8", "surrogatepass")


def _damaged(content: bytes, dice: Dice) -> bytes:
    at = dice.randrange(len(content) + 1)
    kind = dice.randrange(5)
    if kind == 0:
        return content[:at]
    if kind == 1:
        return content[:at] + dice.choice(_BAD_UTF8) + content[at:]
    if kind == 2:
        return content[:at] + b"\0" * dice.choice((1, 3)) + content[at:]
    if kind == 3:
        return b"x" * 8_190 + b"\n" + content[:at] + b"\0" + content[at:]
    return content[at:] + content[:at]


@cache
def _real_notes() -> tuple[bytes, ...]:
    return tuple(path.read_bytes() for path in sorted(EXAMPLES.rglob("*.md")))
