"""What may become a memory: what is refused, what is flagged, whom it reaches, and that its file says what it says."""

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vademecum.access import ANONYMOUS, Caller, Reach
from vademecum.errors import MemoryRefused
from vademecum.markdown import parse
from vademecum.memory.contract import RULES, Checked, Rule, check, markup_problem, neutralise
from vademecum.memory.memory import Draft, Memory, parse_memory, render

TITLE = "A WAL database is three files"
BODY = "Copying only the main file of a database in WAL mode loses what was committed last."
NAMES = frozenset({"backup runbook", "storage gotchas"})
SAID: Mapping[str, object] = {"title": TITLE, "body": BODY, "confidence": "inferred"}


def checked(**said: Any) -> Checked:
    return check({**SAID, **said}, origin="kestrel", names=NAMES)


def refused(said: Any, **keywords: Any) -> tuple[str, ...]:
    with pytest.raises(MemoryRefused) as caught:
        check(said, **{"origin": "kestrel", "names": NAMES, **keywords})
    return caught.value.reasons


def jotted(said: Mapping[str, object], **keywords: Any) -> Checked:
    return check(said, **{"origin": "kestrel", "names": NAMES, "strict": False, **keywords})


def read_again(draft: Draft) -> Memory:
    return parse_memory(render(draft, date="2026-09-02", session="2026-09-02T13:20:41.006Z"), path="m.md")


def test_what_is_said_becomes_a_draft() -> None:
    made = checked(
        confidence="verified",
        verification="Restored such a copy.",
        scope="platform",
        platforms=["sqlite"],
        links=["Backup Runbook"],
        tags=["#backup", "data/storage"],
        type="learning",
        importance=0.7,
    )
    assert made == Checked(
        Draft(
            title=TITLE,
            body=BODY,
            reach=Reach("platform", (), ("sqlite",)),
            confidence="verified",
            origin="kestrel",
            verification="Restored such a copy.",
            links=("Backup Runbook",),
            tags=("backup", "data/storage"),
            type="learning",
            importance=0.7,
        )
    )


@pytest.mark.parametrize("said", [None, {}, [], "text", 7])
def test_nothing_at_all_is_refused_with_all_that_is_missing(said: object) -> None:
    assert refused(said) == (
        "title is required",
        "body is required",
        "confidence must be one of: verified, inferred, unverified",
    )


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({"title": " \n\t "}, "title is required"),
        ({"title": "###"}, "title is required"),
        ({"title": 404}, "title must be text"),
        ({"title": "a" * 201}, "title is too long: 201 characters, 200 at most"),
        ({"title": "?!..."}, "title has no characters that a file name can have"),
        ({"title": "\u200b\u2060"}, "title has no characters that a file name can have"),
        ({"body": ["a"]}, "body must be text"),
        ({"body": "x" * 39}, "body is too short: 39 characters, 40 at least"),
        ({"body": "x" * 39 + " " * 9}, "body is too short: 39 characters, 40 at least"),
        ({"confidence": "sure"}, "confidence must be one of: verified, inferred, unverified"),
        ({"confidence": ["verified"]}, "confidence must be one of: verified, inferred, unverified"),
        ({"verification": 7}, "verification must be text"),
        ({"generality": {}}, "generality must be text"),
        ({"scope": "world"}, "scope must be one of: general, platform, project"),
        ({"projects": "kestrel"}, "projects must be an array: it may have several values"),
        ({"platforms": {"a": 1}}, "platforms must be an array: it may have several values"),
        ({"projects": ["ok", "a b", "c/d", 5, ""]}, 'letters, digits and ._-, not "a b", "c/d", "5", ""'),
        ({"platforms": ["x\nprivate"]}, 'platforms are simple names of letters, digits and ._-, not "x private"'),
        ({"projects": ["x" * 101]}, "projects are simple names"),
        ({"projects": [f"p{n}" for n in range(51)]}, "projects has 51 entries, 50 at most"),
        ({"scope": "platform"}, "it would reach nobody: list its platforms, or say scope project"),
        ({"tags": "a"}, "tags must be an array: it may have several values"),
        (
            {"tags": ["a, b", "-x", "a]", "a/", "/", "🦊", "\ud800"]},
            "tags are simple names of letters, digits and _-/, ",
        ),
        ({"tags": ["Private/notes"]}, "tags must not make it private: it would reach nobody"),
        ({"type": "lesson"}, "type must be one of: fact, preference, decision, rule, learning, issue"),
        ({"pinned": "yes"}, "pinned must be true or false"),
        ({"importance": 1.01}, "importance must be a number from 0 to 1"),
        ({"importance": True}, "importance must be a number from 0 to 1"),
        ({"importance": float("nan")}, "importance must be a number from 0 to 1"),
        ({"importance": 10**400}, "importance must be a number from 0 to 1"),
    ],
)
def test_a_fault_of_form_is_refused_by_name(said: dict[str, object], reason: str) -> None:
    (only,) = refused({**SAID, **said})
    assert reason in only


def test_all_faults_are_told_at_once() -> None:
    bad = {
        "title": "",
        "body": "short",
        "confidence": "",
        "scope": "x",
        "projects": 1,
        "tags": 2,
        "type": 3,
        "pinned": 4,
    }
    assert len(refused(bad)) == len(bad)


@pytest.mark.parametrize(
    ("scope", "projects", "origin", "reach", "claimed"),
    [
        ("general", ["a", "b"], "kestrel", Reach("project", ("a", "b")), "general"),
        ("general", ["a"], None, Reach("project", ("a",)), "general"),
        ("general", [], "kestrel", Reach("general"), None),
        ("general", None, None, Reach("general"), None),
        ("project", None, "kestrel", Reach("project", ("kestrel",)), None),
        (None, [], "kestrel", Reach("project", ("kestrel",)), None),
        ("", None, "kestrel", Reach("project", ("kestrel",)), None),
        (None, ["a", "A", " b "], "kestrel", Reach("project", ("a", "b")), None),
        ("project", ["a"], None, Reach("project", ("a",)), None),
        ("platform", ["a"], "kestrel", Reach("platform", ("a",), ("redis",)), None),
        ("platform", None, None, Reach("platform", (), ("redis",)), None),
    ],
)
def test_reach_is_narrowed_and_never_widened(
    scope: str | None, projects: list[str] | None, origin: str | None, reach: Reach, claimed: str | None
) -> None:
    said = {**SAID, "scope": scope, "projects": projects, "platforms": ["redis"] if reach.platforms else None}
    draft = check(said, origin=origin, names=()).draft
    assert (draft.reach, draft.claimed_scope, draft.origin) == (reach, claimed, origin or "unknown")


@pytest.mark.parametrize("scope", ["project", None])
@pytest.mark.parametrize("strict", [True, False])
def test_what_would_reach_nobody_is_refused(scope: str | None, strict: bool) -> None:
    (reason,) = refused({**SAID, "scope": scope}, origin=None, strict=strict)
    assert reason.startswith("it would reach nobody: it names no projects and the caller has no identity")


def test_what_names_its_readers_wrongly_is_not_said_to_reach_nobody_as_well() -> None:
    assert refused({**SAID, "scope": "world"}, origin=None) == ("scope must be one of: general, platform, project",)
    assert refused({**SAID, "projects": ["a b"]}, origin=None) == (
        'projects are simple names of letters, digits and ._-, not "a b"',
    )


@pytest.mark.parametrize(
    ("body", "flags"),
    [
        ("The build always fails on the second run of a day.", ("generalised",)),
        ("The importer never quite really properly recovers from it.", ("generalised",)),
        ("It crashed every  time the cache was cold and nobody looked.", ("generalised",)),
        ("The job keeps on breaking when the disk is nearly full.", ("generalised",)),
        ("It is a recurring complaint of those who use the exporter.", ("generalised",)),
        ("The proxy consistently hangs when two clients share a name.", ("generalised",)),
        ("The release never reaches them, since their patch is older.", ()),
        ("The job failed once on 2026-09-01, when the disk was full.", ()),
        ("Never mind the warning. The build fails for another reason.", ()),
        ("Always look at the first line of output, which is what the wrapper repeats when it breaks.", ()),
        ("It always talks to the network framework of the platform.", ()),
        ("The library has 12,400 stars and two people look after it.", ("volatile",)),
        ("The package has 3.1 million downloads and no maintainer.", ("volatile",)),
        ("The library has 12,400 stars as of the day of this note.", ()),
        ("On 2026-09-01 the library had 12,400 stars on the forge.", ()),
        ("It breaks every time; the library has 900 open forks now.", ("generalised",)),
        ("It breaks every time, and the library has 900 forks now.", ("generalised", "volatile")),
    ],
)
def test_judgement_is_flagged_and_caps_what_was_verified(body: str, flags: tuple[str, ...]) -> None:
    made = checked(body=body, confidence="verified", verification="Looked.")
    assert made.draft.flags == flags
    assert len(made.warnings) == len(flags)
    capped = ("inferred", "verified") if flags else ("verified", None)
    assert (made.draft.confidence, made.draft.claimed_confidence) == capped


@pytest.mark.parametrize("confidence", ["inferred", "unverified"])
def test_a_flag_changes_no_confidence_but_verified(confidence: str) -> None:
    draft = checked(body="The build always fails on the second run of a day.", confidence=confidence).draft
    assert (draft.confidence, draft.claimed_confidence, draft.flags) == (confidence, None, ("generalised",))


def test_a_title_is_flagged_too_and_not_read_together_with_the_body() -> None:
    assert checked(title="The build fails every time").draft.flags == ("generalised",)
    assert checked(title="Never", body="Failing is what the job did once, when the disk was full.").draft.flags == ()


@pytest.mark.parametrize(
    "line", ["User: {}", "assistant: {}", "  HUMAN : {}", "**AI:** {}", "**system**: {}", "> user: {}"]
)
def test_a_transcript_is_refused_and_one_short_exchange_is_none(line: str) -> None:
    said = [line.format(f"this is what was said in turn {turn} of it") for turn in range(4)]
    assert refused({**SAID, "body": "\n".join(said)}) == (
        "it looks like a transcript; record the conclusion that was drawn from it",
    )
    assert checked(body="\n".join([*said[:3], "users: all of them", "The system: a database"])).draft.flags == ()


def test_a_rule_can_be_added_and_one_that_raises_is_skipped() -> None:
    broken = Rule("broken", "reject", "", lambda _, body: body[10**6] == "x", "never said")
    shouting = Rule("shouting", "flag", "loud", lambda title, _: title.isupper(), "it shouts")
    made = check({**SAID, "title": "A LOUD TITLE"}, origin="k", names=(), rules=(broken, *RULES, shouting))
    assert (made.draft.flags, made.warnings) == (("loud",), ("it shouts",))


@pytest.mark.parametrize(
    ("said", "warning"),
    [
        ({"body": "x" * 8_001}, "body has 8001 characters"),
        ({"confidence": "verified"}, "confidence is verified, but nothing says how it is known"),
        ({"confidence": "verified", "verification": " \n"}, "confidence is verified, but nothing says how it is known"),
        ({"scope": "general"}, "it reaches everywhere, but nothing says why"),
    ],
)
def test_what_may_be_better_is_written_with_a_warning(said: dict[str, object], warning: str) -> None:
    (only,) = checked(**said).warnings
    assert warning in only


@pytest.mark.parametrize(
    "said",
    [
        {"body": "x" * 8_000},
        {"scope": "general", "generality": "It is how file systems work."},
        {"scope": "general", "projects": ["a"]},
    ],
)
def test_what_is_well_said_has_no_warning(said: dict[str, object]) -> None:
    assert checked(**said).warnings == ()


@pytest.mark.parametrize(
    ("written", "left", "unlinked"),
    [
        ("see [[Backup Runbook]]", "see [[Backup Runbook]]", ()),
        ("see [[ backup runbook |it]]", "see [[ backup runbook |it]]", ()),
        ("see [[Storage Gotchas#Backups]]", "see [[Storage Gotchas#Backups]]", ()),
        ("see [[Nowhere]]", "see Nowhere", ("Nowhere",)),
        ("see [[Nowhere|that page]]", "see that page", ("Nowhere",)),
        ("see [[Nowhere#Part]] and [[nowhere]]", "see Nowhere and nowhere", ("Nowhere",)),
        ("see ![[image.png]]", "see image.png", ("image.png",)),
        ("see [[a[[b]]c]]", "see abc", ("b", "abc")),
        ("see [[x|[[y]]]]", "see y", ("y", "x")),
        ("see [[#Part]]", "see [[#Part]]", ()),
        ("see [[Nowhere", "see [[Nowhere", ()),
    ],
)
def test_a_link_that_leads_nowhere_becomes_text(written: str, left: str, unlinked: tuple[str, ...]) -> None:
    made = checked(title=f"A note: {written}", body=f"{BODY}\n{written}")
    assert made.draft.title == f"A note: {left}"
    assert made.draft.body == f"{BODY}\n{left}"
    assert made.unlinked == unlinked


def test_brackets_of_code_are_no_links() -> None:
    body = "In bash, `[[ -f x ]]` splits no words, and so does:\n\n```\nif [[ $a == b ]]; then\n```\n\nsee [[Nowhere]]"
    made = checked(body=body, verification="`[[ -n $x ]]` and [[Elsewhere]]")
    assert made.draft.body == body.replace("[[Nowhere]]", "Nowhere")
    assert made.draft.verification == "`[[ -n $x ]]` and Elsewhere"
    assert made.unlinked == ("Nowhere", "Elsewhere")


def test_a_property_knows_no_code() -> None:
    text = "`[[ -f x ]]` and [[Backup Runbook]]"
    assert neutralise(text, NAMES) == (text, ())
    assert neutralise(text, NAMES, anywhere=True) == ("`-f x` and [[Backup Runbook]]", ("-f x",))


def test_brackets_that_nest_without_end_are_taken_away() -> None:
    body = BODY + "[[" * 40 + "x" + "]]" * 40
    assert "[[" not in checked(body=body).draft.body


def test_what_is_checked_is_what_is_written() -> None:
    assert refused({**SAID, "title": "[[?]]"}) == ("title has no characters that a file name can have",)
    assert refused({**SAID, "body": f"see [[Nowhere{'x' * 60}|it]]"}) == (
        "body is too short: 6 characters, 40 at least",
    )


@pytest.mark.parametrize(
    ("links", "kept", "dropped"),
    [
        (["Backup Runbook", "backup runbook", " "], ("Backup Runbook",), ()),
        (["[[Storage Gotchas]]", "Nowhere", "Nowhere", 5, None], ("Storage Gotchas",), ("Nowhere",)),
        (["a\nb", "Backup Runbook|x", "x]] [[Backup Runbook"], (), ("a b", "Backup Runbook|x", "x]] [[Backup Runbook")),
        (["odd]] [[name", "c# tips"], (), ("odd]] [[name", "c# tips")),
        ("Backup Runbook", (), ()),
        ({"Backup Runbook": 1}, (), ()),
        (None, (), ()),
    ],
)
def test_links_that_lead_nowhere_are_dropped_and_told(
    links: object, kept: tuple[str, ...], dropped: tuple[str, ...]
) -> None:
    names = {*NAMES, "odd]] [[name", "c# tips"}
    made = check({**SAID, "links": links}, origin="kestrel", names=names)
    assert (made.draft.links, made.dropped) == (kept, dropped)


@pytest.mark.parametrize(
    ("title", "shown"),
    [
        ("  two\r\n lines\tand\u2028more\x85  ", "two lines and more"),
        ("bell\x07 and \x1b[31mred", "bell and [31mred"),
        ("\u202egnp.exe\u2069 is a picture", "gnp.exe is a picture"),
        ("a nul \0 and half \ud83d of a pair", "a nul \ufffd and half \ufffd of a pair"),
        ("# A heading #", "A heading"),
        ("C# is not #c", "C# is not #c"),
        ("Say what C # is", "Say what C # is"),
        ("---", ""),
        ("私の猫は魚が好き", "私の猫は魚が好き"),
        ("می‌خواهم 👨‍👩‍👧", "می‌خواهم 👨‍👩‍👧"),
    ],
)
def test_a_title_is_one_line_of_what_can_be_seen(title: str, shown: str) -> None:
    if not shown:
        assert refused({**SAID, "title": title}) == ("title has no characters that a file name can have",)
    else:
        assert checked(title=title).draft.title == shown


def test_a_body_keeps_its_lines_and_loses_what_cannot_be_seen() -> None:
    draft = checked(body=f"\n{BODY}\r\n\tand\0 more\x1b[0m\u202e\r\n\r\nand \ufeff\uffffso \udc00on\n\n").draft
    assert draft.body == f"{BODY}\n\tand\ufffd more[0m\n\nand so \ufffdon"


@pytest.mark.parametrize(
    ("written", "left"),
    [
        ("# One\n## Two\n### Three", "### One\n### Two\n### Three"),
        ("  ## Related\n\n- [[x]]", "  ### Related\n\n- x"),
        ("##\n#", "###\n###"),
        ("#tag and C#\n#hash", "#tag and C#\n#hash"),
        ("```sh\n# a comment\n```\n# One", "```sh\n# a comment\n```\n### One"),
    ],
)
@pytest.mark.parametrize("field", ["verification", "generality"])
def test_a_section_holds_no_heading_that_would_end_it(field: str, written: str, left: str) -> None:
    made = checked(**{field: f"So it was.\n{written}"})
    assert getattr(made.draft, field) == f"So it was.\n{left}"


def test_a_body_has_headings_of_its_own_but_none_that_ends_the_claim() -> None:
    body = f"# Top\n\n{BODY}\n\n## Related\n\n## How this is known  \n\n## Related work\n\n```\n## Related\n```"
    draft = checked(body=body, verification="Seen.").draft
    assert draft.body.splitlines()[:5] == ["# Top", "", BODY, "", "### Related"]
    assert read_again(draft).claim == draft.body
    assert read_again(draft).title == TITLE


def test_tags_keep_their_script_and_say_nothing_twice() -> None:
    draft = checked(tags=["#Ops", "ops", "日本語", "हिन्दी", "a/b-c_d", "memory", "2026"]).draft
    assert draft.tags == ("Ops", "日本語", "हिन्दी", "a/b-c_d", "2026")
    assert read_again(draft).tags == draft.tags


# The owner


@pytest.mark.parametrize(
    ("said", "title", "body"),
    [
        ({"body": "Prefers tabs."}, "Prefers tabs", "Prefers tabs."),
        ({"body": "tabs"}, "tabs", "tabs"),
        ({"title": "Prefers tabs"}, "Prefers tabs", "Prefers tabs"),
        ({"title": "Tabs", "body": "ok"}, "Tabs", "ok"),
        ({"body": "First. Then more."}, "First", "First. Then more."),
        ({"body": "Is it so? Yes."}, "Is it so?", "Is it so? Yes."),
        ({"body": "Use it, e.g. in tests, v1.2 too. Then stop."}, "Use it, e.g. in tests, v1.2 too", None),
        ({"body": "first line\nstill it\n\nsecond part"}, "first line still it", None),
        ({"body": "## A heading\ntext below"}, "A heading", None),
        ({"body": "- buy milk"}, "buy milk", None),
        ({"body": "-5 degrees"}, "-5 degrees", None),
        ({"body": "猫が好き。犬も。"}, "猫が好き", None),
        ({"body": "see [[Nowhere]] and `[[ -f x ]]`"}, "see Nowhere and `-f x`", "see Nowhere and `[[ -f x ]]`"),
        ({"body": "x" * 300}, "x" * 199 + "…", None),
        ({"body": "word " * 60}, " ".join(["word"] * 39) + "…", None),
    ],
)
def test_the_owner_may_jot_down_a_line(said: dict[str, object], title: str, body: str | None) -> None:
    draft = jotted(said).draft
    assert draft.title == title
    assert draft.body == (str(said["body"]).strip() if body is None else body)
    assert (draft.confidence, draft.reach) == ("unverified", Reach("project", ("kestrel",)))


def test_the_owner_is_the_origin_where_no_project_is() -> None:
    made = jotted({"body": "Prefers tabs."}, origin=None, fallback="general")
    assert (made.draft.origin, made.draft.reach, made.draft.claimed_scope) == ("owner", Reach("general"), None)
    assert made.warnings == ("nothing says whom it is for, so it reaches everywhere",)


@pytest.mark.parametrize(
    ("said", "origin", "reach"),
    [
        ({}, "kestrel", Reach("project", ("kestrel",))),
        ({"projects": ["a"]}, None, Reach("project", ("a",))),
        ({"scope": "platform", "platforms": ["a"]}, None, Reach("platform", (), ("a",))),
    ],
)
def test_the_fallback_is_for_what_names_nobody(said: dict[str, object], origin: str | None, reach: Reach) -> None:
    assert jotted({"body": "Prefers tabs.", **said}, origin=origin, fallback="general").draft.reach == reach


@pytest.mark.parametrize(
    ("said", "reasons"),
    [
        ({}, ("title is required", "body is required")),
        ({"body": "?!"}, ("title has no characters that a file name can have",)),
        ({"title": 5, "body": "Prefers tabs."}, ("title must be text",)),
        ({"body": "tabs", "confidence": "sure"}, ("confidence must be one of: verified, inferred, unverified",)),
        ({"body": "tabs", "scope": "platform"}, ("it would reach nobody: list its platforms, or say scope project",)),
    ],
)
def test_form_holds_for_the_owner_too(said: dict[str, object], reasons: tuple[str, ...]) -> None:
    assert refused(said, strict=False) == reasons


def test_the_owner_may_withhold_what_is_theirs() -> None:
    assert read_again(jotted({"body": "Prefers tabs.", "tags": ["private"]}).draft).private


# Markup of a tool call


@pytest.mark.parametrize(
    ("text", "matched", "trailing"),
    [
        ('end.</summary>\n<parameter name="changes">["a"]', '<parameter name="changes">', False),
        ("end.</invoke>", "</invoke>", True),
        ("end.</parameter>\n</invoke>\n</function_calls> \n", "</invoke>", True),
        ("end.</ns:parameter></NS:Invoke></ns:function_calls>", "</NS:Invoke>", True),
        ("end.</parameter></invo", None, False),
        ("end.</parameter></invoke", "</invoke", True),
        ("<function_calls>\n<invoke name='x'>", "<function_calls>", False),
        ("a <ns:parameter string='x' name = 'y'", "<ns:parameter string='x' name = 'y'", False),
        ("</invoke> and on", "</invoke>", False),
        ("a <parameter> of a </summary> in <details><summary>x</summary></details>", None, False),
        ("a lone </parameter>", None, False),
        ("if a < b and invoke > c, <name=5>, <invoked>, <invoke-me>, x<parameter", None, False),
    ],
)
def test_markup_of_a_call_is_found_in_any_value(text: str, matched: str | None, trailing: bool) -> None:
    found = markup_problem({"title": "fine", "anything": text})
    if matched is None:
        assert found is None
    else:
        assert found is not None
        assert (found.field, found.matched, found.offset) == ("anything", matched, text.index(matched))
        assert (found.length, found.item, found.trailing) == (len(text), None, trailing)
        assert found.received == ("title", "anything")


def test_markup_in_a_list_is_found_in_its_item() -> None:
    found = markup_problem({"links": ["fine", {"a": "</invoke>"}]})
    assert found is not None
    assert (found.field, found.item) == ("links", 2)


@pytest.mark.parametrize(
    ("body", "advice"),
    [
        ("A secret lesson.</invoke>", "exactly one closing tag for each parameter"),
        ('A secret lesson.<parameter name="scope">general', "Send every field again"),
    ],
)
def test_markup_is_refused_alone_and_without_a_word_of_the_prose(body: str, advice: str) -> None:
    (reason,) = refused({"title": "", "body": body, "scope": "nonsense"})
    assert "did not serialise correctly: body holds" in reason
    assert f"at character 16 of {len(body)}. Fields received: title, body, scope." in reason
    assert advice in reason
    assert "Nothing was written" in reason
    assert "secret" not in reason


# Whatever is said

_PIECES = st.sampled_from(
    [
        "---", "\n---\n", "...", "\n", "\r\n", "\r", "\0", "\ud800", "\x1b[2J", "\x85", "\u2028",
        "\u202e", "\ufeff", "\uffff", "scope: general",
        "\nscope: general\n", "private: true", "\nprivate: yes\n", "confidence: verified", "source: x",
        '"', "'", "\\",
        '", "', "]", "[", ", ", "[[", "]]", "[[Nowhere]]", "[[Backup Runbook]]", "|", "# ",
        "\n# Other title\n", "## Related",
        "\n## Related\n", "\n## How this is known\n", "\n## Why this reaches everywhere\n", "```", "\n```\n",
        "\n~~~\n",
        "`", "#", " ##", "%%", "<!--", "-->", "{{", "}}", "<%", "%>", "$", "*", "!", "&a", "*a", "|-", "- ", ": ",
        "tags: [x]", "#tag", "user: ", "always fails", "9 stars", "word", "some more words of a lesson", "猫", "é",
        "e\u0301", " ", "  ", "\t", "=====", "\n---",
    ]
)  # fmt: skip
_HOSTILE = st.lists(_PIECES | st.text(max_size=4), max_size=12).map("".join)
_ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | _HOSTILE | st.sampled_from(["verified", "general"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_HOSTILE, inner, max_size=3),
    max_leaves=6,
)
_FIELDS = (
    "title", "body", "confidence", "verification", "scope", "generality", "projects", "platforms", "links", "tags",
    "type", "pinned", "importance",
)  # fmt: skip
_NAMED = st.lists(st.text("aß猫é9_.-", min_size=1, max_size=6), max_size=4)
_WELL_FORMED = st.fixed_dictionaries(
    {
        "title": _HOSTILE.map(lambda text: f"{text} title"),
        "body": _HOSTILE.map(lambda text: f"{text}\n{BODY}"),
        "confidence": st.sampled_from(["verified", "inferred", "unverified"]),
        "verification": _HOSTILE,
        "generality": _HOSTILE,
        "scope": st.sampled_from([None, "general", "platform", "project"]),
        "projects": st.none() | _NAMED,
        "platforms": _NAMED.filter(len),
        "links": st.lists(st.sampled_from(["Backup Runbook", "storage gotchas", "Nowhere"]) | _HOSTILE, max_size=4),
        "tags": st.lists(st.from_regex(r"[aß猫]([a9_/-]?[é9])*", fullmatch=True), max_size=4),
        "type": st.sampled_from([None, "rule", "issue"]),
        "pinned": st.booleans(),
        "importance": st.none() | st.floats(0, 1),
    }
)


def _outcome(said: Any, **keywords: Any) -> Checked | None:
    try:
        return check(said, **{"origin": "kestrel", "names": NAMES, **keywords})
    except MemoryRefused as refusal:
        assert refusal.reasons
        return None


@settings(deadline=None, derandomize=True, max_examples=200)
@given(st.dictionaries(st.sampled_from(_FIELDS), _ANYTHING) | _ANYTHING, st.booleans(), st.none() | _HOSTILE)
def test_whatever_is_said_is_checked_or_refused(said: Any, strict: bool, origin: str | None) -> None:
    made = _outcome(said, strict=strict, origin=origin, fallback=None if strict else "general")
    if made is not None:
        render(made.draft, date="2026-09-02", session="s").encode()


@settings(deadline=None, derandomize=True, max_examples=200)
@given(_WELL_FORMED, st.sampled_from(["kestrel", 'a "b": [c]', None]))
def test_the_file_says_what_the_draft_says_and_nothing_more(said: dict[str, Any], origin: str | None) -> None:
    made = _outcome(said, origin=origin)
    if made is None:
        return
    draft = made.draft
    memory = read_again(draft)
    assert (memory.title, memory.claim, memory.reach) == (draft.title, draft.body, draft.reach)
    assert (memory.confidence, memory.origin, memory.flags) == (draft.confidence, draft.origin, draft.flags)
    assert (memory.claimed_confidence, memory.claimed_scope) == (draft.claimed_confidence, draft.claimed_scope)
    assert (memory.tags, memory.type) == (draft.tags, draft.type)
    assert (memory.pinned, memory.importance) == (draft.pinned, draft.importance)
    assert (memory.source, memory.private, memory.superseded_by) == ("mcp-capture", False, ())
    assert set(memory.properties) <= {
        "date", "description", "tags", "source", "origin", "session", "scope", "projects", "platforms", "aliases",
        "confidence", "claimed_confidence", "flags", "claimed_scope", "type", "pinned", "importance",
    }  # fmt: skip


@settings(deadline=None, derandomize=True, max_examples=60)
@given(_WELL_FORMED, st.sampled_from(["kestrel", None]))
def test_whatever_is_checked_reaches_somebody(said: dict[str, Any], origin: str | None) -> None:
    made = _outcome(said, origin=origin)
    if made is not None:
        reach = made.draft.reach
        callers = [ANONYMOUS, *(Caller(project, (), "folder") for project in reach.projects)]
        callers += [Caller(None, (platform,), "folder") for platform in reach.platforms]
        assert any(reach.reaches(caller) for caller in callers)


@settings(deadline=None, derandomize=True, max_examples=200)
@given(_HOSTILE, _HOSTILE)
def test_no_link_of_what_is_written_leads_nowhere(title: str, text: str) -> None:
    made = _outcome({**SAID, "title": f"{title} title", "body": f"{text}\n{BODY}", "verification": text})
    if made is not None:
        draft = replace(made.draft, verification=made.draft.verification or "none")
        for part in (f"# {draft.title}", draft.body, draft.verification):
            targets = [link.target.lower() for link in parse(f"\n{part}", stem="").links if link.kind == "wiki"]
            assert set(targets) <= {*NAMES, ""}


def test_a_value_that_cannot_be_printed_is_refused_like_any_other() -> None:
    deep: list[Any] = []
    for _ in range(50_000):
        deep = [deep]
    assert len(refused({**SAID, "title": deep, "body": [10**5_000], "projects": [deep, 10**5_000]})) == 3


@pytest.mark.parametrize(
    "text",
    ["</invoke>x", "<parameter ", "[[", "[[a|", "[[`", "[[a]]", "# ", "\n# a", "always ", "1 ", "user: ", "- ", "a. "],
)
def test_a_long_text_takes_no_longer_than_its_length(text: str) -> None:
    long = text * (100_000 // len(text))
    started = time.perf_counter()
    _outcome(dict.fromkeys(_FIELDS, long), strict=False)
    _outcome({**SAID, "body": long + "[[" * 50_000 + "]]" * 50_000})
    assert time.perf_counter() - started < 20
