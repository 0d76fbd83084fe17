"""A chunk as a model reads it: under which title and headings it stands, then its words without the markup.

Markup costs a model a quarter of its tokens and tells it nothing; measured, answers are as good without it (decision
0009). A change here makes vectors anew: raise TEXT_FORM.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

TEXT_FORM: Final = "text-1"
"""Which form of texts a set of vectors was made from."""

# Bounded repeats, so that a row of brackets is not read once from each of them.
_EMBEDDED: Final = re.compile(r"!\[\[[^\]\n]{0,300}\]\]|!\[[^\]\n]{0,300}\]\([^)\n]{0,2000}\)")
_NAMED_WIKILINK: Final = re.compile(r"\[\[[^\]|\n]{0,300}\|([^\]\n]{0,300})\]\]")
_WIKILINK: Final = re.compile(r"\[\[([^\]\n]{0,300})\]\]")
_LINK: Final = re.compile(r"\[([^\]\n]{0,300})\]\([^)\n]{0,2000}\)")
_CALLOUT: Final = re.compile(r"^[ \t]*>[ \t]*\[!\w{1,40}\][+-]?", re.MULTILINE)
# A tag or an address in angle brackets; "x < 5 and y > 3" is neither.
_TAG: Final = re.compile(r"</?[A-Za-z][^<>\n]{0,200}>")
_BLOCK_ID: Final = re.compile(r"[ \t]\^[\w-]{1,80}$", re.MULTILINE)
_MARKS: Final = re.compile(r"[*_`=#|>~]+")
_SPACES: Final = re.compile(r"[ \t]{2,}")
_BLANK_LINES: Final = re.compile(r"\n{3,}")


def embedded_text(title: str, heading_path: Sequence[str], text: str) -> str:
    """What is embedded of a chunk: "title > heading path", and its plain text on the lines below."""
    below = heading_path[1:] if heading_path and heading_path[0] == title else heading_path
    return f"{' > '.join([title, *below])}\n{plain(text)}"


def plain(text: str) -> str:
    """Markdown without its markup: links keep their words, embedded files and HTML tags go."""
    text = _EMBEDDED.sub(" ", text)
    text = _NAMED_WIKILINK.sub(r"\1", text)
    text = _WIKILINK.sub(lambda link: link[1].replace("#", " "), text)
    text = _LINK.sub(r"\1", text)
    text = _CALLOUT.sub("", text)
    text = _TAG.sub(" ", text)
    text = _BLOCK_ID.sub("", text)
    text = _MARKS.sub(" ", text)
    return _BLANK_LINES.sub("\n\n", _SPACES.sub(" ", text)).strip()
