"""The properties of a note: what is read, what a fault costs, and when the note becomes private."""

import time

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from vademecum.markdown import Note, parse


def note(properties: str, body: str = "# A\nnumbat text\n") -> Note:
    return parse(f"---\n{properties}---\n{body}", stem="stem")


def test_every_scalar_is_text_as_written() -> None:
    read = note("n: 007\nday: 2024-02-03\nyes: no\nempty:\nlist: [1, two]\nmap: {a: 1.50}\n")
    assert read.frontmatter == {
        "n": "007",
        "day": "2024-02-03",
        "yes": "no",
        "empty": "",
        "list": ["1", "two"],
        "map": {"a": "1.50"},
    }
    assert read.diagnostics == ()


@pytest.mark.parametrize("first", ["--- columns: 2", "----", " ---", "-- -", "---x", "***"])
def test_only_a_bare_rule_on_line_one_opens_properties(first: str) -> None:
    read = parse(f"{first}\ntitle: x\n---\n# Two columns\nwombat text\n", stem="b")
    assert (read.frontmatter, read.diagnostics, read.body_line, read.private) == ({}, (), 1, False)


@pytest.mark.parametrize("rule", ["---", "---  ", "---\t"])
def test_rules_may_have_trailing_blanks(rule: str) -> None:
    read = parse(f"{rule}\ntitle: x\n{rule}\nbody\n", stem="b")
    assert (read.title, read.body_line, read.frontmatter_text) == ("x", 4, "title: x")


def test_dots_do_not_close_properties() -> None:
    read = parse("---\na: b\n...\nc: d\n---\nbody\n", stem="b")
    assert read.body_line == 6
    assert read.frontmatter["c"] == "d"


def test_properties_that_are_never_closed_are_body_and_private() -> None:
    read = parse("---\ntitle: x\n\n# Heading\n", stem="b")
    assert (read.frontmatter, read.body_line, read.private) == ({}, 1, True)
    assert [d.line for d in read.diagnostics] == [1]
    assert [h.text for h in read.headings] == ["Heading"]


def test_empty_properties_and_an_empty_body_are_fine() -> None:
    read = parse("---\n---", stem="b")
    assert (read.frontmatter, read.frontmatter_text, read.body_line, read.diagnostics) == ({}, "", 3, ())


@pytest.mark.parametrize(
    ("properties", "kept", "lines"),
    [
        (
            "title: Ops: night shift\nowner: rota: b\nok: 1\n",
            {"title": "Ops: night shift", "owner": "rota: b", "ok": "1"},
            [2, 3],
        ),
        ("key: [unclosed\n", {"key": "[unclosed"}, [2]),
        ("a: 1\nkey: [unclosed\nb: 2\n", {"a": "1", "key": "[unclosed", "b": "2"}, [3]),
        ("a: 1\nlist:\n  - x\n - y\nb: 2\n", {"a": "1", "list": ["x", "y"], "b": "2"}, [3]),
        ("aliases:\n- @one\n- 'two'\n-\nb: 2\n", {"aliases": ["@one", "two", ""], "b": "2"}, [2]),
        ("a: x\n- y\nb: 2\n", {"b": "2"}, [2]),
        ("a: 1\njust words\nb: 2\n", {"a": "1", "b": "2"}, [3]),
        ("a:\tx\n\tb: y\nc: z\n", {"c": "z"}, [2]),
        ("a: 1\n--- x\nb: 2\n", {"a": "1", "b": "2"}, [3]),
        ("a: 1\n...\nb: 2\n", {"a": "1", "b": "2"}, [3]),
        ("a: *nobody\nb: 2\n", {"a": "*nobody", "b": "2"}, [2]),
        ("a: &x [*x]\nb: 2\n", {"a": "&x [*x]", "b": "2"}, [2]),
        ("a: @at\nb: `tick`\nc: %p\n", {"a": "@at", "b": "`tick`", "c": "%p"}, [2, 3, 4]),
        ("? [a, b]\n: c\nd: e\n", {"d": "e"}, [2, 3]),
    ],
)
def test_a_bad_entry_costs_itself_and_one_diagnostic(
    properties: str, kept: dict[str, object], lines: list[int]
) -> None:
    read = note(properties)
    assert read.frontmatter == kept
    assert [d.line for d in read.diagnostics] == lines
    assert [h.text for h in read.headings] == ["A"]


@pytest.mark.parametrize("properties", ["- a\n- b\n", "just words\n", '"quoted"\n', "[a, b]\n"])
def test_a_document_that_is_no_mapping_is_reported(properties: str) -> None:
    read = note(properties)
    assert read.frontmatter == {}
    assert read.diagnostics
    assert read.title == "A"


def test_placeholders_of_templates_are_text_and_cost_no_other_key() -> None:
    read = note(
        'title: {{title}}\ncreated: <% tp.date.now("YYYY: MM") %>\ntags: [{{tag}}, real]\nlist:\n  - {{x}}\nb: 2\n'
    )
    assert read.frontmatter == {
        "title": "{{title}}",
        "created": '<% tp.date.now("YYYY: MM") %>',
        "tags": ["{{tag}}", "real"],
        "list": ["{{x}}"],
        "b": "2",
    }
    assert read.tags == ("real",)
    assert read.diagnostics == ()


def test_of_two_equal_keys_the_last_wins() -> None:
    assert note("a: 1\na: 2\n").frontmatter == {"a": "2"}


@pytest.mark.parametrize(
    ("properties", "aliases"),
    [
        ("aliases: [One, Two words]\n", ("One", "Two words")),
        ("alias: One, Two words\n", ("One", "Two words")),
        ("Aliases:\n  - One\n  - 'Two: x'\n  - Three: y\n", ("One", "Two: x", "Three: y")),
        ("aliases:\n- One\n- One\n-\n", ("One",)),
        ("aliases:\n", ()),
    ],
)
def test_aliases_are_read_in_every_form(properties: str, aliases: tuple[str, ...]) -> None:
    assert note(properties).aliases == aliases


@pytest.mark.parametrize(
    ("properties", "tags"),
    [
        ("tags: [One, two/three]\n", ("One", "two/three")),
        ("tag: one two,three\n", ("one", "two", "three")),
        ("TAGS: '#one, #two'\n", ("one", "two")),
        ("tags:\n  - '#one'\n  - ONE\n  - 2024\n", ("one", "2024")),
        ("tags: one\ntag: two\n", ("one", "two")),
        ("tags: [a, {b\n", ("a", "{b")),
        ("tags:\n", ()),
    ],
)
def test_tags_are_read_in_every_form(properties: str, tags: tuple[str, ...]) -> None:
    assert note(properties).tags == tags


@pytest.mark.parametrize(
    ("value", "date"),
    [
        ("2024-02-03", "2024-02-03"),
        ("2024-02-03T10:00:00Z", "2024-02-03"),
        ("'2024-02-03 10:00'", "2024-02-03"),
        ("2024-13-03", None),
        ("2024-02-033", None),
        ("03.02.2024", None),
        ("", None),
    ],
)
def test_the_date_is_an_iso_date_at_the_start_of_the_property(value: str, date: str | None) -> None:
    assert note(f"Date: {value}\n").date == date


@pytest.mark.parametrize(
    ("properties", "body", "title"),
    [
        ("title: Given\n", "# H\n", "Given"),
        ("TITLE: ' Given '\n", "# H\n", "Given"),
        ("title: |\n  two\n  lines\n", "# H\n", "two lines"),
        ("title: '  '\n", "# H\n", "H"),
        ("title: [a]\n", "# H\n", "H"),
        ("a: b\n", "## Sub\n# *First* [[x|shown]]\n# Second\n", "First shown"),
        ("a: b\n", "## Sub\n", "stem"),
    ],
)
def test_the_title_comes_from_property_then_heading_then_file(properties: str, body: str, title: str) -> None:
    assert note(properties, body).title == title


PRIVATE = [
    "private: true\n",
    "Private: YES\n",
    'private: "true"\n',
    "private: 'on'\n",
    "private: 1\n",
    "private: true # for now\n",
    "private:\n  true\n",
    "tags: private\n",
    "tags: [x, private]\n",
    "tags: ['#Private']\n",
    "tags: x, private/family\n",
    "tag: PRIVATE\n",
    "tags:\n  - x\n  - private\n",
    "tags:\n- private/family\n",
    "tags:\n  - [x, private]\n",
    "tags: [x, private, {broken\n",
    "tags: [x,\n  private,\n  {broken\n",
    "a: b: c\nprivate: true\n",
    "a: [b\n- private\n",
    "a: [b\nprivate\n",
    'tags: ["pr\\u0069vate"]\n',
    "private: true\nprivate: false\n",
    "\tprivate: true\n",
]


@pytest.mark.parametrize("properties", PRIVATE)
def test_a_note_marked_private_in_any_form_is_private(properties: str) -> None:
    assert note(properties).private


@pytest.mark.parametrize(
    "properties",
    [
        "private: false\n",
        "private:\n",
        "title: private\n",
        "tags: [privately, not-private, semi/private]\n",
        "a: private things\n",
    ],
)
def test_other_mentions_of_private_do_not_withhold_a_note(properties: str) -> None:
    assert not note(properties).private


@pytest.mark.parametrize(
    ("body", "private"),
    [
        ("private\n", False),
        ("- private\n", False),
        ("private: true\n", False),
        ("`#private`\n", False),
        ("so #private it is\n", True),
        ("#Private/family\n", True),
        ("#privately\n", False),
    ],
)
def test_in_the_body_only_a_tag_makes_private(body: str, private: bool) -> None:
    assert parse(body, stem="s").private is private
    assert note("a: b\n", body).private is private


def test_properties_over_the_limit_are_cut_and_the_note_is_private() -> None:
    read = note("a: b\n" + "".join(f"k{n}: value\n" for n in range(9_000)) + "tags: [private]\n")
    assert read.private
    assert read.frontmatter["a"] == "b"
    assert len(read.diagnostics) >= 1
    assert read.headings[0].text == "A"


BOMB = "a: &a [x, x]\n" + "".join(
    f"b{n}: &b{n} [{f'*b{n - 1}' if n else '*a'}, {f'*b{n - 1}' if n else '*a'}]\n" for n in range(60)
)
LONG_TEXT_BOMB = f"a: &a {'x' * 30_000}\nb: [{', '.join(['*a'] * 4_000)}]\n"


@pytest.mark.parametrize(
    "properties",
    [
        BOMB,
        LONG_TEXT_BOMB,
        "a: " + "[" * 60_000 + "\n",
        "a: " + "[" * 900 + "]" * 900 + "\n",
        "a: " + "{a: " * 10_000 + "\n",
        "- " * 30_000 + "\n",
        "? " * 30_000 + "\n",
        "".join(" " * n + "a:\n" for n in range(340)),
        "a: [" + "x, " * 20_000 + "]\n",
        "&a " * 20_000 + "\n",
        "a: \x01\x7f\ufffe\n",
        "a: \u2028b\nc: \x85d\n",
        "<<: {a: b}\n",
        "!!python/object/apply:os.system [x]\n",
        "a: !!binary x\n",
        '"\\0": "\\0\\u2028"\n',
        "{{a}}: {{b}}\n\ue0000\ue001: \ue00099\ue001\n",
    ],
    ids=range(17),
)
def test_hostile_properties_are_bounded_and_cost_no_body(properties: str) -> None:
    started = time.process_time()
    read = note(properties)
    assert time.process_time() - started < 3
    assert len(repr(read.frontmatter)) < 600_000
    assert "\0" not in repr(read.frontmatter)
    assert [h.text for h in read.headings] == ["A"]


def test_what_is_too_large_is_left_out_and_reported_where_it_stands() -> None:
    read = note("first: 1\n" + BOMB + "last: 2\n")
    assert read.frontmatter["first"] == "1"
    assert "b50" not in read.frontmatter
    lines = {d.line for d in read.diagnostics}
    assert 54 in lines


LINES = st.sampled_from([
    "a: b", "a:", "A-b_2: two words", "a:  b  ", "a: b # c", "a: #c", "a: b#c", "- x", "  - x", " - y ", "-",
    "  -", "- ", "- a: b", "- a:", "- 'x'", '- "x: y"', 'a: "q"', 'a: "q" r', 'a: ""', "a: ''", "a: x: y",
    "a: http://x.test/y", "a: x:", "a: @b", "a: b-", "a: b - c", "", "  ", "  x", "x", "a : b", "a:b",
    "a: [x, y]", "- - x", "key: über", "- 漢字", "a: -", "a: - b", "a: ~", "? a", "a: *x", "a: |",
    "a: >", "  text", "a: (b), c", "a: b, c", "a:\tb", "<<: b", "1: b", "a: 1:2",
])  # fmt: skip


@settings(deadline=None, derandomize=True, max_examples=1500)
@given(st.lists(LINES, max_size=6).map("\n".join))
def test_properties_are_what_yaml_says_they_are(block: str) -> None:
    try:
        expected = yaml.load(block, yaml.CBaseLoader)
    except yaml.YAMLError:
        assert parse(f"---\n{block}\n---\n", stem="s").diagnostics
        return
    read = parse(f"---\n{block}\n---\n", stem="s")
    if isinstance(expected, dict):
        assert read.frontmatter == expected
        assert read.diagnostics == ()
    else:
        assert bool(read.diagnostics) is (expected is not None)
