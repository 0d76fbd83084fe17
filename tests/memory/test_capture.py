"""What somebody jots down: prefixes, and the kind of thing it tells."""

from typing import Any

import pytest

from vademecum.memory.capture import capture, kind_of
from vademecum.memory.contract import TYPES, check

PINNED = {"pinned": True, "importance": 1.0}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("plain text", {"body": "plain text"}),
        ("critical: back it up", {"body": "back it up", **PINNED}),
        ("  CRITICAL :back it up", {"body": "back it up", **PINNED}),
        ("[ops]: back it up", {"body": "back it up", "tags": ["ops"]}),
        (
            "[ops, #data/storage , 日本語]: back it up",
            {"body": "back it up", "tags": ["ops", "data/storage", "日本語"]},
        ),
        ("critical: [ops]: back it up", {"body": "back it up", "tags": ["ops"], **PINNED}),
        ("[ops]: Critical: back it up", {"body": "back it up", "tags": ["ops"], **PINNED}),
        ("[ops]:\n\nback it up\nnow\n", {"body": "back it up\nnow", "tags": ["ops"]}),
        ("critical: critical: twice", {"body": "critical: twice", **PINNED}),
        ("[a]: [b]: twice", {"body": "[b]: twice", "tags": ["a"]}),
        ("critical:", {"body": "", **PINNED}),
        ("critically: not", {"body": "critically: not"}),
        ("it is critical: yes", {"body": "it is critical: yes"}),
        ("back it up [ops]: not", {"body": "back it up [ops]: not"}),
        ("[link](https://example.org): text", {"body": "[link](https://example.org): text"}),
        ("[[note]]: text", {"body": "[[note]]: text"}),
        ("[two words]: text", {"body": "[two words]: text"}),
        ("[a, ]: text", {"body": "[a, ]: text"}),
        ("[]: text", {"body": "[]: text"}),
        ("[ ] a task", {"body": "[ ] a task"}),
        ("", {"body": ""}),
    ],
)
def test_prefixes_count_at_the_start_alone(text: str, said: dict[str, Any]) -> None:
    assert capture(text) == {"type": "fact", **said}


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("She prefers tabs", "preference"),
        ("We like short names", "preference"),
        ("It works like a charm", "fact"),
        ("We decided to drop it", "decision"),
        ("The team will use Postgres", "decision"),
        ("NEVER push on Friday", "rule"),
        ("Every call must have a timeout", "rule"),
        ("Learned that it rounds down", "learning"),
        ("There is a bug in the exporter", "issue"),
        ("The exporter is debugged", "fact"),
        ("It decided nothing, she wants tabs and never asks", "preference"),
        ("Port 5432", "fact"),
    ],
)
def test_words_tell_the_kind(text: str, kind: str) -> None:
    assert kind_of(text) == kind
    assert kind in TYPES


def test_what_is_jotted_down_can_be_kept() -> None:
    said = capture("critical: [ops, backup]: Never copy a WAL file alone. It loses commits.")
    draft = check(said, origin=None, names=(), strict=False, fallback="general").draft
    assert (draft.title, draft.body) == (
        "Never copy a WAL file alone",
        "Never copy a WAL file alone. It loses commits.",
    )
    assert (draft.type, draft.tags, draft.pinned, draft.importance) == ("rule", ("ops", "backup"), True, 1.0)
