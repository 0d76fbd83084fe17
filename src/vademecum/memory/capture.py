"""A line that somebody jots down, taken apart: what its prefixes say, and what kind of thing it tells."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from vademecum.memory.contract import is_tag

_CRITICAL: Final = re.compile(r"\s*critical\s*[:：]", re.IGNORECASE)
# Neither a wikilink nor the text of a link, which no colon follows.
_TAGS: Final = re.compile(r"\s*\[([^\[\]\n]{1,500})\]\s*[:：]")

# The first that fits, in this order.
_KINDS: Final = (
    ("preference", re.compile(r"\b(?:prefer(?:s|red)?|likes|wants|(?:i|we) (?:like|want))\b", re.IGNORECASE)),
    ("decision", re.compile(r"\b(?:decided|agreed|will use)\b", re.IGNORECASE)),
    ("rule", re.compile(r"\b(?:never|always|must)\b", re.IGNORECASE)),
    ("learning", re.compile(r"\b(?:learned|learnt|discovered)\b", re.IGNORECASE)),
    ("issue", re.compile(r"\b(?:bugs?|broken|problems?)\b", re.IGNORECASE)),
)


def capture(text: str) -> Mapping[str, object]:
    """The raw values that a text gives `contract.check`.

    `critical:` pins it, `[tag, tag]:` tags it, each once, at the start, in either order. The rest is the body, and its
    words tell the type.
    """
    said: dict[str, object] = {}
    rest = text.removeprefix("\ufeff")
    while True:
        if "pinned" not in said and (found := _CRITICAL.match(rest)):
            said |= {"pinned": True, "importance": 1.0}
        elif "tags" not in said and (found := _TAGS.match(rest)) and (tags := _tags(found[1])):
            said["tags"] = tags
        else:
            break
        rest = rest[found.end() :]
    body = rest.strip()
    return {"body": body, "type": kind_of(body), **said}


def kind_of(text: str) -> str:
    """What kind of thing a text tells, by its words: one of `contract.TYPES`."""
    return next((kind for kind, words in _KINDS if words.search(text)), "fact")


def _tags(listed: str) -> list[str]:
    """The tags of a list between brackets; none where one of them is none."""
    tags = [tag.strip().lstrip("#") for tag in listed.split(",")]
    return tags if all(map(is_tag, tags)) else []
