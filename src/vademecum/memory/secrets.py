"""Whether a text seems to hold a key or a password: it is about to be written to a file, indexed and shown to agents.

Two failures shape it: a key that lands in a vault which is synced and committed, and an honest sentence about keys
that is refused. So a known form is enough where its maker gave it one, and anything else has to look random as well.
What was found is named, never repeated.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from math import log2
from typing import Final, NamedTuple


def recognised(text: str) -> list[str]:
    """What kinds of keys and passwords a text seems to hold, each once; of no known form only where none has one.

    Linear in the text's length.
    """
    return _held(text, _KNOWN) or _held(text, _UNKNOWN)


class _Kind(NamedTuple):
    """One kind of key: how it is written, and which of those that are written so are meant."""

    name: str
    form: re.Pattern[str]
    holds: Callable[[re.Match[str]], bool]


def _held(text: str, kinds: Sequence[_Kind]) -> list[str]:
    return [kind.name for kind in kinds if any(kind.holds(found) for found in kind.form.finditer(text))]


# What stands in examples where a key would be.
_EXAMPLE: Final = re.compile(
    r"example|your|placeholder|change.?me|dummy|redacted|sample|fake|x{4}|\.\.\.|…|\*{3}|<|0{6}|1234567|abcdefg",
    re.IGNORECASE,
)
# A variable, or a blank to fill in, as shells, templates, format strings and programs write them.
_VARIABLE: Final = re.compile(
    r"[$%]?[{(<\[]|\$[A-Za-z_]|%[A-Za-z_]+%?$|\*|@|(?:process|env|os|self|this|config|settings|secrets|vars?)\."
)
_STAND_INS: Final = frozenset({"passwd", "pass", "pwd", "pw", "secret", "token", "key", "test"})
_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_DIGEST: Final = re.compile(r"(?:sha|md)\d{1,3}[:-]", re.IGNORECASE)
_CHARACTERS: Final = tuple(map(re.compile, ("[a-z]", "[A-Z]", "[0-9]", r"[^A-Za-z0-9_./:\\-]")))
_TURN: Final = re.compile("(?<=[A-Za-z])(?=[0-9])|(?<=[0-9])(?=[A-Za-z])")


def _genuine(found: re.Match[str]) -> bool:
    """Whether what stands where a key would is more than an example of one."""
    value = found["value"]
    return _EXAMPLE.search(value) is None and len(set(value)) > 8


def _mixed(found: re.Match[str]) -> bool:
    """Whether letters and digits take turns in it, as they do in a key and not in words joined by hyphens."""
    return _genuine(found) and len(_TURN.findall(found["value"])) >= 3


def _random(found: re.Match[str]) -> bool:
    """Whether a value looks as if nobody could have guessed it.

    Letters and digits take turns in such a one; in names and versions, digits stand together at the end.
    """
    value = found["value"]
    if _VARIABLE.match(value) or _EXAMPLE.search(value) or _UUID.fullmatch(value) or _DIGEST.match(value):
        return False
    is_long = len(value) >= 20
    if not is_long and sum(kind.search(value) is not None for kind in _CHARACTERS) < 3:
        return False
    return _entropy(value) >= 2.75 and len(_TURN.findall(value)) >= (3 if is_long else 2)


def _chosen(found: re.Match[str]) -> bool:
    """Whether the password of an address is more than a stand-in: people choose these, so it need not look random."""
    value, user = found["value"].lower(), found["user"].lower()
    stands_in = value in _STAND_INS or value == user or "password" in value
    return not (stands_in or _VARIABLE.match(value) or _EXAMPLE.search(value))


def _entropy(text: str) -> float:
    """Bits for each character (Shannon)."""
    return -sum(n / len(text) * log2(n / len(text)) for n in Counter(text).values())


def _key(form: str) -> re.Pattern[str]:
    """A key that stands by itself."""
    return re.compile(rf"(?<![A-Za-z0-9])(?P<value>{form})(?![A-Za-z0-9])")


# Repeats have bounds wherever something has to follow them: on hostile text, too, each start costs the same.
_KNOWN: Final = (
    _Kind(
        "a private key",
        re.compile(
            r"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----(?:\s|\\[nr]){1,8}"
            r"(?:[A-Za-z-]{1,30}: [^\n]{1,100}\n){0,4}\s{0,4}(?P<value>[A-Za-z0-9+/=]{32})"
        ),
        _genuine,
    ),
    _Kind("an AWS access key id", _key("(?:AKIA|ASIA)[A-Z0-9]{16}"), _genuine),
    _Kind(
        "an AWS secret access key",
        re.compile(
            r"(?i:secret[ _-]?access[ _-]?key|aws[ _-]?secret[ _-]?key)[\"'`]?\s{0,8}[:=]\s{0,8}[\"'`]?"
            r"(?P<value>[A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])"
        ),
        _genuine,
    ),
    _Kind("a GitHub token", _key("gh[oprsu]_[A-Za-z0-9]{36,255}|github_pat_[A-Za-z0-9_]{36,255}"), _genuine),
    _Kind("a GitLab token", _key("glpat-[A-Za-z0-9_-]{20,255}"), _genuine),
    _Kind("a Slack token", _key("(?:xox[a-z]|xapp)-[A-Za-z0-9-]{16,255}"), _mixed),
    _Kind("an OpenAI or Anthropic key", _key("sk-[A-Za-z0-9_-]{20,255}"), _mixed),
    _Kind("a Google key", _key("AIza[A-Za-z0-9_-]{35}"), _genuine),
    _Kind("a Stripe key", _key("[rs]k_live_[A-Za-z0-9]{16,255}"), _genuine),
    _Kind("an npm token", _key("npm_[A-Za-z0-9]{36}"), _genuine),
    _Kind("a PyPI token", _key("pypi-AgE[A-Za-z0-9_-]{40,255}"), _genuine),
    _Kind(
        "a JSON web token",
        # Its parts are of any length, so it starts only where a row of their letters does.
        re.compile(r"(?<![\w-])eyJ(?P<value>[\w-]{8,}+\.eyJ[\w-]{8,}+\.[\w-]{16,})", re.ASCII),
        _mixed,
    ),
    _Kind(
        "a password in an address",
        re.compile(
            r"(?<![A-Za-z0-9])[A-Za-z][A-Za-z0-9+.-]{1,20}://(?P<user>[^\s/:@?#\"'`<>]{0,100}):"
            r"(?P<value>[^\s/@\"'`<>]{3,100})@[A-Za-z0-9\[]"
        ),
        _chosen,
    ),
)

_NAME: Final = (
    r"(?i:pass(?:word|wd|phrase)|pwd|secret|token|credential|(?:api|access|auth|private|encryption|signing)[_-]?key)"
)
# "secret_key" and "tokenValue" hold secrets; "token_url" does not, nor does "tokenizer".
_NAME_END: Final = r"(?:[_-]?(?i:key|value|string|base(?:64)?|prod|dev|live|new|old|\d{1,3})){0,2}"
_SIGN: Final = r"[\"'`]?[ \t]{0,8}(?::=|=>|[:=])[ \t]{0,8}[\"'`]?"
_UNKNOWN: Final = (
    _Kind("a bearer token", re.compile(r"\b[Bb]earer[ \t]{1,8}(?P<value>[A-Za-z0-9._~+/=-]{20,300})"), _random),
    _Kind(
        "a password or key in an assignment",
        # What goes on with a bracket is a call.
        re.compile(_NAME + _NAME_END + _SIGN + r"(?P<value>[^\s\"'`,;()\[\]<>]{8,300}+)(?![(\[])"),
        _random,
    ),
)
