"""Whole folders that a source may be, and what may happen to them between two syncs, as plain data.

A plan is a list of entries and lists of changes, so that a failing one can be made smaller by leaving some out.
"""

import random
import unicodedata
from dataclasses import dataclass
from typing import Final, Literal

from fuzz.hostile_text import text_bytes

Dice = random.Random
Kind = Literal["file", "folder", "link", "fifo", "socket", "hard link"]
Act = Literal["write", "append", "forge", "delete", "move", "swap", "touch", "replace"]

EXCLUDES: Final = ("Archive/", "*.tmp.md")
SECOND: Final = 1_000_000_000
YEARS_1601_1969_2262_3000: Final = (-11_644_473_600, -1, 9_223_372_037, 32_503_680_000)


@dataclass(frozen=True, slots=True)
class Entry:
    """Something below the root; `data` are a file's bytes, a link's target, or the file that a hard link names."""

    path: bytes
    kind: Kind
    data: bytes = b""
    mtime_s: int | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that happens; `other` is where to, `entry` what is written, or takes the place.

    To forge is to write other bytes of the same number, and to put the old time back.
    """

    act: Act
    path: bytes
    other: bytes = b""
    entry: Entry | None = None
    mtime_s: int = 0


@dataclass(frozen=True, slots=True)
class Plan:
    """A tree, and rounds of changes with a sync after each.

    `trusting` moves the clock, so that the stamps of what was just written are believed. `under` happens while a sync
    is running.
    """

    seed: str
    entries: tuple[Entry, ...]
    rounds: tuple[tuple[Change, ...], ...]
    under: tuple[Change, ...] = ()
    trusting: bool = False


STEMS: Final = (
    "Note", "note", "NOTE", "Daily", "2024-05-06", "plan v3.1 draft", "C++ & Rust", "100% sure", "%41",
    "%2e%2e%2fup", "a%2fb", "%", "a#b", "a#^b", "q?", "x:12", "x:1-2", "[[x]]", "semi;colon", 'quo"te', "it's",
    "tick`", "$HOME", "~", "-rf", "--help", "{{title}}", "..", "...", ". .", " lead", "trail ", "trail.", "con",
    "CON", "aux", "nul", "COM1", "café", "cafe\u0301", "CAFÉ", "Å", "A\u030a", "\u212b", "ﬁ", "fi", "İ", "ß",
    "ẞ", "각", "\u1100\u1161\u11a8", "漢字", "検索メモ", "สวัสดี", "हिन्दी", "עברית", "\u202egnp", "a\u200bb",
    "\ufeffbom", "👩‍👩‍👧‍👦", "🇩🇪", "\u0301", "e" + "\u0301" * 30, "\x01ctl", "tab\tname", "new\nline",
    "\x7f", "\x85nel", "back\\slash", "..\\up", "\u2028", "\ue000", "\U0010ffff", "x" * 100, "C:", "a:b",
    "file:", "README", "index", "_", "-", "(1)", "vault-manifest",
)  # fmt: skip
TAILS: Final = (
    ".MD", ".Md", ".markdown", ".mdx", ".txt", ".canvas", ".base", ".png", "", ".md.bak", ".md~", ".tmp.md",
    ".icloud", " (conflicted copy 2024-01-01).md", ".sync-conflict-20240101-120000-ABCDEFG.md", ".md.md",
    ". md", ".md ", ".excalidraw.md",
)  # fmt: skip
BAD_NAMES: Final = (b"caf\xe9.md", b"\xff\xfe.md", b"\xed\xa0\x80.md", b"\xf0\x9f.txt", b"a\xc0\xafb.md")
DOTTED: Final = (
    b".hidden.md",
    b".obsidian/x.md",
    b".git/config",
    b".trash/gone.md",
    b".a/.b/c.md",
    b"Sub/.stfolder/y.md",
)
FOLDERS: Final = (
    "Daily", "daily", "folder.md", "Projekte/Größe", "Projekte/Gro\u0308ße", "Sub", "Sub/Deeper",
    "Sub/Deeper/Deepest", "Archive", "archive", "Attachments", "日本", "a b/c d", "%41", "x.tmp.md", "C:",
    "back\\slash", "con", "trail.", " ", "v1.2", "👍",
)  # fmt: skip
LINK_TARGETS: Final = (
    b"..", b".", b"../outside", b"../outside/secret.md", b"/etc/passwd", b"Sub", b"Sub/Note.md", b"nowhere",
    b"loop.md", b"self.md", b"/", b"../vault", b"\xff", b"x" * 200, b"/dev/zero", b"/proc/self/mem",
)  # fmt: skip


def plan_of(seed: str) -> Plan:
    """The plan of a seed."""
    dice = Dice(seed)
    files = dice.choice((6, 60, 300, 500))
    folders = _folders(dice)
    entries = [_entry(dice, folders) for _ in range(files)]
    entries += _twins(dice, folders)
    dice.shuffle(entries)
    known = [entry.path for entry in entries]
    rounds = tuple(_changes(dice, known, folders, count=dice.choice((3, 12, 40))) for _ in range(2))
    under = _changes(dice, known, folders, count=6) if dice.random() < 0.3 else ()
    return Plan(seed, tuple(entries), rounds, under, trusting=dice.random() < 0.5)


# ── entries


def _folders(dice: Dice) -> list[bytes]:
    chosen = [b"", b"", *(name.encode() for name in dice.sample(FOLDERS, 6))]
    deep = "/".join(dice.choice(("d", "deep folder", "ü", "漢")) for _ in range(dice.choice((3, 12, 60))))
    return [*chosen, deep.encode(), b"Sub/\xff" if dice.random() < 0.3 else b"Sub"]


def _entry(dice: Dice, folders: list[bytes], kind: Kind | None = None) -> Entry:
    kind = kind or dice.choices(("file", "folder", "link", "fifo", "socket", "hard link"), (88, 3, 5, 1, 0.6, 1))[0]
    path = _path(dice, folders)
    match kind:
        case "file":
            mtime = dice.choice(YEARS_1601_1969_2262_3000) if dice.random() < 0.1 else dice.randrange(1_800_000_000)
            return Entry(path, kind, _content(dice)[:60_000], mtime)
        case "link":
            return Entry(path, kind, dice.choice(LINK_TARGETS))
        case "hard link":
            return Entry(path, kind, _path(dice, folders))
    return Entry(path, kind)


def _content(dice: Dice) -> bytes:
    """A text, seldom with a NUL: one near the beginning makes a file binary, and then nothing more is tried with it."""
    content = text_bytes(dice)
    return content if dice.random() < 0.1 else content.replace(b"\0", b"")


def _path(dice: Dice, folders: list[bytes]) -> bytes:
    kind = dice.random()
    if kind < 0.03:
        return dice.choice(DOTTED)
    name = dice.choice(BAD_NAMES) if kind < 0.05 else _name(dice).encode("utf-8", "surrogatepass")
    folder = dice.choice(folders)
    return folder + b"/" + name if folder else name


def _name(dice: Dice) -> str:
    kind = dice.random()
    if kind < 0.02:  # the most that a file system takes
        return dice.choice(("x" * 252, "é" * 126, "漢" * 84, "👍" * 63)) + ".md"
    stem = dice.choice(STEMS)
    if not stem.isprintable() or "\\" in stem or "%2" in stem:  # no notes: seldom enough
        stem = dice.choice(STEMS)
    if kind < 0.8:
        stem += f" {dice.randrange(60)}"
    stem = stem.replace("/", "-")
    return stem + (".md" if dice.random() < 0.85 else dice.choice(TAILS))


def _twins(dice: Dice, folders: list[bytes]) -> list[Entry]:
    """Names that are one name in another Unicode form or another case."""
    made = []
    for stem in dice.sample(("café", "Å", "각", "Ünïcode"), 2):
        folder = dice.choice(folders)
        for name in {unicodedata.normalize(form, stem) for form in ("NFC", "NFD")} | {stem.upper()}:
            path = f"{name}.md".encode()
            made.append(Entry(folder + b"/" + path if folder else path, "file", text_bytes(dice)[:4_000]))
    return made


# ── changes


def _changes(dice: Dice, known: list[bytes], folders: list[bytes], *, count: int) -> tuple[Change, ...]:
    return tuple(_change(dice, known, folders) for _ in range(count))


def _change(dice: Dice, known: list[bytes], folders: list[bytes]) -> Change:
    act: Act = dice.choices(
        ("write", "append", "forge", "delete", "move", "swap", "touch", "replace"), (20, 8, 6, 16, 20, 10, 8, 12)
    )[0]
    path = dice.choice(known)
    if act in ("delete", "move", "replace") and dice.random() < 0.15:
        path = dice.choice(folders) or path
    match act:
        case "write":
            path = path if dice.random() < 0.6 else _path(dice, folders)
            return Change(act, path, entry=Entry(path, "file", _content(dice)[:20_000]))
        case "append":
            return Change(act, path, entry=Entry(path, "file", b"\n\n" + text_bytes(dice)[:2_000]))
        case "move":
            return Change(act, path, other=dice.choice((dice.choice(known), _path(dice, folders), b".hidden/gone.md")))
        case "swap":
            return Change(act, path, other=dice.choice(known))
        case "touch":
            return Change(act, path, mtime_s=dice.choice((*YEARS_1601_1969_2262_3000, 0, 1_700_000_000)))
        case "replace":
            kind: Kind = dice.choice(("folder", "link", "fifo", "file"))
            made = _entry(dice, folders, kind)
            return Change(act, path, entry=Entry(path, kind, made.data))
    return Change(act, path)
