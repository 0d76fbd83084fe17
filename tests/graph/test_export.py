"""The graph of a source for other tools: one graph in every form, read back by other people's readers."""

import json
import re
import unicodedata
import warnings
from collections import Counter
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import networkx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vademecum.access import ANONYMOUS, OWNER, Caller
from vademecum.graph import Form
from workbench import PROJECT, Workbench

WriteTree = Callable[..., Path]
Item = dict[str, Any]

FORMS: tuple[Form, ...] = ("json", "graphml", "dot")
PRIVATE = "---\nprivate: true\n---\n"


class Read(NamedTuple):
    """A graph as it was read back. Edges come as (start, end, the rest)."""

    nodes: dict[str, Item]
    edges: list[tuple[str, str, Item]]

    def kinds(self, kind: str) -> dict[str, Item]:
        return {name: node for name, node in self.nodes.items() if node["kind"] == kind}

    def between(self, kind: str) -> list[tuple[str, str]]:
        return sorted((short(start), short(end)) for start, end, edge in self.edges if edge["kind"] == kind)


def short(name: str) -> str:
    """An id without the source: `note:a.md`."""
    return name.split(":", 2)[2]


def exported(bench: Workbench, form: Form = "json", caller: Caller = OWNER, **options: Any) -> str:
    return "".join(bench.app.export_graph(caller, form=form, **options))


def graph(bench: Workbench, caller: Caller = OWNER, **options: Any) -> Read:
    return from_json(exported(bench, caller=caller, **options))


def from_json(text: str) -> Read:
    told = json.loads(text)
    nodes = {node["id"]: {name: value for name, value in node.items() if name != "id"} for node in told["nodes"]}
    assert len(nodes) == len(told["nodes"]), Counter(node["id"] for node in told["nodes"]).most_common(3)
    edges = [(edge.pop("source"), edge.pop("target"), edge) for edge in told["edges"]]
    assert {end for start, end, _ in edges} | {start for start, _, _ in edges} <= nodes.keys()
    return Read(nodes, edges)


def from_graphml(text: str) -> Read:
    found = networkx.read_graphml(BytesIO(text.encode()), force_multigraph=True)
    assert found.is_directed()
    edges = [(start, end, {k: v for k, v in data.items() if k != "id"}) for start, end, data in found.edges(data=True)]
    return Read({name: dict(data) for name, data in found.nodes(data=True)}, edges)


def from_dot(text: str) -> Read:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pydot's own, about how it builds its parser
        import pydot

        found = pydot.graph_from_dot_data(text)
    assert found is not None
    [read] = found
    assert read.get_type() == "digraph"
    nodes = [(unquoted(node.get_name()), unquoted_all(node.get_attributes())) for node in read.get_nodes()]
    assert len({name for name, _ in nodes}) == len(nodes)
    edges = [
        (unquoted(edge.get_source()), unquoted(edge.get_destination()), unquoted_all(edge.get_attributes()))
        for edge in read.get_edges()
    ]
    return Read(dict(nodes), edges)


def unquoted(text: str) -> str:
    assert text[0] == text[-1] == '"'
    return re.sub(r"\\(.)", r"\1", text[1:-1])


def unquoted_all(attributes: Item) -> Item:
    known = {name: unquoted(value) for name, value in attributes.items()}
    return {name: int(value) if name in ("line", "members") else value for name, value in known.items()}


def comparable(read: Read) -> tuple[Item, list[str]]:
    return read.nodes, sorted(json.dumps(edge, sort_keys=True) for edge in read.edges)


NOTES = {
    "Home.md": "---\ntags: [Area/House]\n---\n# Home\n\n[[Router#Setup|a router]] ![[rack.png]] [[nowhere]] [[Router]]",
    "net/Router.md": '---\nup: "[[Home]]"\naliases: [gateway]\n---\n# Setup\n\n[[Home#^b]] [[gateway]] #area/net ^r',
    "net/deep/Old.md": "[[Home]] [[excluded]]",
    "net/rack.png": b"\x89PNG",
    "out/excluded.md": "x",
}


@pytest.fixture
def house(bench: Workbench, write_tree: WriteTree) -> Workbench:
    bench.add(write_tree(NOTES), name="House", exclude=["out/"])
    return bench


# ── nodes and edges


def test_every_folder_note_tag_file_and_unresolved_name_is_a_node(house: Workbench) -> None:
    found = {short(name): (node["kind"], node["label"]) for name, node in graph(house).nodes.items()}
    assert found == {
        "source:/": ("source", "House"),
        "folder:net": ("folder", "net"),
        "folder:net/deep": ("folder", "deep"),
        "note:Home.md": ("note", "Home"),
        "note:net/Router.md": ("note", "Setup"),
        "note:net/deep/Old.md": ("note", "Old"),
        "tag:area": ("tag", "#Area"),
        "tag:area/house": ("tag", "#Area/House"),
        "tag:area/net": ("tag", "#area/net"),
        "file:net/rack.png": ("file", "rack.png"),
        "file:out/excluded.md": ("file", "excluded.md"),
        "unresolved:nowhere": ("unresolved", "nowhere"),
    }


def test_every_link_is_an_edge_and_so_is_where_a_thing_belongs(house: Workbench) -> None:
    found = graph(house)
    assert found.between("contains") == [
        ("folder:net", "folder:net/deep"),
        ("folder:net", "note:net/Router.md"),
        ("folder:net/deep", "note:net/deep/Old.md"),
        ("source:/", "folder:net"),
        ("source:/", "note:Home.md"),
    ]
    assert found.between("link") == [
        ("note:Home.md", "note:net/Router.md"),
        ("note:Home.md", "note:net/Router.md"),
        ("note:Home.md", "unresolved:nowhere"),
        ("note:net/Router.md", "note:Home.md"),
        ("note:net/Router.md", "note:net/Router.md"),
        ("note:net/deep/Old.md", "file:out/excluded.md"),
        ("note:net/deep/Old.md", "note:Home.md"),
    ]
    assert found.between("embed") == [("note:Home.md", "file:net/rack.png")]
    assert found.between("relation") == [("note:net/Router.md", "note:Home.md")]
    assert found.between("tagged") == [("note:Home.md", "tag:area/house"), ("note:net/Router.md", "tag:area/net")]
    assert found.between("below") == [("tag:area/house", "tag:area"), ("tag:area/net", "tag:area")]
    assert {edge["kind"] for _, _, edge in found.edges} == {
        "contains", "link", "embed", "relation", "tagged", "below",
    }  # fmt: skip


def test_an_edge_tells_its_line_its_property_and_its_place_in_the_target(house: Workbench) -> None:
    found = graph(house)
    told = {
        (short(start), short(end), edge["kind"], edge["line"], edge.get("property"), edge.get("anchor"))
        for start, end, edge in found.edges
        if edge["kind"] in ("link", "relation")
    }
    assert ("note:Home.md", "note:net/Router.md", "link", 6, None, "Setup") in told
    assert ("note:net/Router.md", "note:Home.md", "link", 7, None, "^b") in told
    assert ("note:net/Router.md", "note:Home.md", "relation", 2, "up", None) in told


def test_a_note_tells_its_community_and_a_folder_its_members(bench: Workbench, write_tree: WriteTree) -> None:
    bench.add(write_tree({"a/b/1.md": "x", "a/b/2.md": "x", "3.md": "x"}))
    found = {short(name): (node.get("community"), node.get("members")) for name, node in graph(bench).nodes.items()}
    assert found == {
        "source:/": (None, 1),
        "folder:a": ("", 0),
        "folder:a/b": ("a", 2),
        "note:a/b/1.md": ("a/b", None),
        "note:a/b/2.md": ("a/b", None),
        "note:3.md": ("", None),
    }


@pytest.mark.parametrize("outline", [False, True])
def test_each_node_and_edge_says_where_it_comes_from(house: Workbench, outline: bool) -> None:
    [source] = house.app.registry.all()
    found = graph(house, outline=outline)
    for item in [*found.nodes.values(), *(edge for _, _, edge in found.edges)]:
        assert item["source_id"] == source.id
        assert item["source_kind"] == "obsidian"
        assert item["source_root"] == str(source.root)
        path = item.get("path")
        assert item["source_path"] == (f"{source.root}/{path}" if path else str(source.root))
    assert all(name.startswith(f"{source.id}:") for name in found.nodes)


def test_c03_the_path_of_a_decomposed_name_is_the_one_on_disk(bench: Workbench, write_tree: WriteTree) -> None:
    bench.add(write_tree({"Cafe\u0301/no\u0308te.md": "# H\n[[x]] #t", "x.md": "x"}))
    found = graph(bench, outline=True)
    inside = [item for item in found.nodes.values() if item["kind"] in ("note", "heading", "block")]
    inside += [edge for _, _, edge in found.edges if edge.get("path")]
    assert all(Path(item["source_path"]).is_file() for item in inside)
    assert "note:Caf\u00e9/n\u00f6te.md" in map(short, found.nodes)


def test_the_outline_hangs_headings_and_blocks_where_they_stand(bench: Workbench, write_tree: WriteTree) -> None:
    text = "intro ^top\n\n# One\n\ntext\n\n### Deep\n\n- item ^i\n\n## Two\n\n# Three\nlast"
    bench.add(write_tree({"n.md": text, "m.md": "only text"}))
    assert {node["kind"] for node in graph(bench).nodes.values()} == {"source", "note"}
    found = graph(bench, outline=True)
    assert found.between("contains") == [
        ("heading:n.md:13", "block:n.md:14-14:"),
        ("heading:n.md:3", "block:n.md:5-5:"),
        ("heading:n.md:3", "heading:n.md:11"),
        ("heading:n.md:3", "heading:n.md:7"),
        ("heading:n.md:7", "block:n.md:9-9:i"),
        ("note:m.md", "block:m.md:1-1:"),
        ("note:n.md", "block:n.md:1-1:top"),
        ("note:n.md", "heading:n.md:13"),
        ("note:n.md", "heading:n.md:3"),
        ("source:/", "note:m.md"),
        ("source:/", "note:n.md"),
    ]
    assert [node["label"] for node in found.kinds("heading").values()] == ["One", "Deep", "Two", "Three"]
    assert {node["label"] for node in found.kinds("block").values()} == {"^top", "5-5", "^i", "14-14", "1-1"}


def test_blocks_that_an_id_names_twice_are_one_node(bench: Workbench, write_tree: WriteTree) -> None:
    bench.add(write_tree({"n.md": "- a ^x\n  ^x", "m.md": "text ^x\n\ttext ^x"}))
    assert len(graph(bench, outline=True).kinds("block")) == 2


TAGS = "---\ntags: [One, 'two/', ' three ', '/four']\n---\n#Five/six #five/SEVEN #/eight #a//b #nine/ #\u00fc/\u00c4"


def test_every_tag_has_those_above_it_and_no_edge_leads_to_nothing(bench: Workbench, write_tree: WriteTree) -> None:
    bench.add(write_tree({"n.md": TAGS}))
    found = graph(bench)  # which looks at both ends of every edge
    assert {"one", "five", "five/six", "five/seven", "\u00fc", "\u00fc/\u00e4"} <= {
        short(name).partition(":")[2] for name in found.kinds("tag")
    }
    assert ("tag:five/six", "tag:five") in found.between("below")
    assert not any(end.endswith("tag:") for _, end, _ in found.edges)


def test_a_tag_is_spelled_as_in_the_first_note_whichever_was_indexed_first(
    bench: Workbench, write_tree: WriteTree
) -> None:
    root = write_tree({"b.md": "#work/sub"})
    source = bench.add(root)
    write_tree({"a.md": "#Work/Sub"}, root)
    bench.sync(source)
    assert {node["label"] for node in graph(bench).kinds("tag").values()} == {"#Work", "#Work/Sub"}


def test_more_notes_than_are_fetched_at_once_are_all_there(bench: Workbench, write_tree: WriteTree) -> None:
    ring = {f"{i % 3}/{i:04}.md": f"[[{(i + 501) % 1201:04}]] #t{i % 2}" for i in range(1201)}
    bench.add(write_tree(ring), "folder")
    found = graph(bench)
    assert len(found.kinds("note")) == 1201
    assert len(found.between("link")) == len(set(found.between("link"))) == 1201
    assert len(found.between("tagged")) == 1201
    assert [node["members"] for node in found.kinds("folder").values()] == [401, 400, 400]


def test_an_empty_source_is_a_node_alone(bench: Workbench, write_tree: WriteTree) -> None:
    bench.add(write_tree({"pic.png": "x"}), name="Empty")
    assert [(node["kind"], node["label"]) for node in graph(bench).nodes.values()] == [("source", "Empty")]


def test_without_a_source_every_form_is_whole_and_empty(bench: Workbench) -> None:
    read = [from_json(exported(bench)), from_graphml(exported(bench, "graphml")), from_dot(exported(bench, "dot"))]
    assert read == [Read({}, [])] * 3


def test_graphs_of_two_sources_share_no_node_and_no_edge(bench: Workbench, write_tree: WriteTree) -> None:
    first = bench.add(write_tree({"n.md": "[[m]] [[there]] #t"}), name="One")
    second = bench.add(write_tree({"n.md": "x #t", "there.md": "y"}, write_tree({}).with_name("two")), name="Two")
    both = graph(bench)
    alone = [graph(bench, source=bench.app.registry.find(source.id)) for source in (first, second)]
    assert both.nodes == alone[0].nodes | alone[1].nodes
    assert len(both.nodes) == len(alone[0].nodes) + len(alone[1].nodes)
    assert {(start.split(":")[1], end.split(":")[1]) for start, end, _ in both.edges} == {
        (source.id.split(":")[1],) * 2 for source in (first, second)
    }
    assert ("note:n.md", "unresolved:there") in both.between("link")
    receipt = json.loads(exported(bench))["receipt"]
    assert sorted(searched["name"] for searched in receipt["searched"]) == ["One", "Two"]


def test_a_disabled_source_is_left_out(bench: Workbench, write_tree: WriteTree) -> None:
    source = bench.add(write_tree({"n.md": "x"}))
    bench.app.registry.edit(source.id, enabled=False)
    assert graph(bench) == Read({}, [])


# ── the same again


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("outline", [False, True])
def test_the_same_vault_gives_the_same_bytes(house: Workbench, form: Form, outline: bool) -> None:
    twice = [re.sub(r'"took_ms": [\d.]+', "", exported(house, form, outline=outline)) for _ in range(2)]
    assert twice[0] == twice[1]


@pytest.mark.parametrize("outline", [False, True])
def test_every_form_says_the_same(house: Workbench, outline: bool) -> None:
    told = comparable(graph(house, outline=outline))
    assert comparable(from_graphml(exported(house, "graphml", outline=outline))) == told
    assert comparable(from_dot(exported(house, "dot", outline=outline))) == told


def test_ids_stay_when_a_vault_is_indexed_again(house: Workbench, tmp_path: Path) -> None:
    [source] = house.app.registry.all()
    before = graph(house, outline=True)
    again = Workbench(tmp_path / "again")
    again.add(source.root, name="House", exclude=["out/"])
    assert comparable(graph(again, outline=True)) == comparable(before)
    again.close()


# ── hostile names

HOSTILE = [
    'quotes "double" and \'single\'', "a < b > c & d &amp; &#10;", "]]> <![CDATA[ x", "<script>alert(1)</script>",
    "back\\slash \\n \\N \\G \\", "\u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627", "\u65e5\u672c\u8a9e",
    "\U0001f642 \U0001f468\u200d\U0001f469\u200d\U0001f467", "{brace} [bracket] ; -> --", "-- comment",
    "/* c */ // x # y", "digraph", "\u00a0 nbsp", "%20 %s {0}", "e\u0301",
]  # fmt: skip
UNPRINTABLE = ["\x01", "\x1b[2J", "\x7f", "\x9b31m", "\u202eevil", "\u2066x", "\ufffe", "\uffff", "\t tab", "\u0085"]


def quoted(text: str) -> str:
    """A text as YAML holds it, whatever it is."""
    plain = json.dumps(text, ensure_ascii=False)
    return "".join(c if c.isprintable() or c == "\u200d" else f"\\u{ord(c):04x}" for c in plain)


@pytest.fixture
def hostile(bench: Workbench, write_tree: WriteTree) -> Workbench:
    notes = {}
    for number, text in enumerate([*HOSTILE, *UNPRINTABLE]):
        notes[f"{number:02}.md"] = (
            f"---\ntitle: {quoted(text)}\n{quoted('key ' + text)}: '[[00]]'\n---\n"
            f"# {text}\n\n[[{text}]] [[00#{text}]]\n"
        )
    names = [
        "q \"x\" 'y'.md",
        "a &amp; <b>.md",
        "two  blanks.md",
        "two blanks.md",
        "\u202eright.md",
        "new ]]>.md",
        "\u00e9 \U0001f642.md",
    ]
    bench.add(write_tree(notes | dict.fromkeys(names, "x")), name='A "name" <of> & \\')
    return bench


def test_hostile_names_survive_graphml(hostile: Workbench) -> None:
    told, read = graph(hostile, outline=True), from_graphml(exported(hostile, "graphml", outline=True))
    assert len(read.nodes) == len(told.nodes)
    assert comparable(read) == comparable(spelled(told, _NOT_XML))


def test_hostile_names_survive_dot(hostile: Workbench) -> None:
    told, read = graph(hostile, outline=True), from_dot(exported(hostile, "dot", outline=True))
    assert len(read.nodes) == len(told.nodes)
    assert comparable(read) == comparable(spelled(told, _NOT_DOT))


# XML has no way to write these, and a quoted string of DOT none that every reader understands.
_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_NOT_DOT = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def spelled(read: Read, unwritable: re.Pattern[str]) -> Read:
    """The graph with what a form cannot hold written as \\uXXXX."""

    def of(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: of(item) for name, item in value.items()}
        return unwritable.sub(lambda m: f"\\u{ord(m[0]):04x}", value) if isinstance(value, str) else value

    return Read(
        {of(name): of(node) for name, node in read.nodes.items()}, [(of(s), of(e), of(x)) for s, e, x in read.edges]
    )


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_title_is_the_label_in_every_form(bench: Workbench, write_tree: WriteTree, text: str) -> None:
    bench.add(write_tree({"n.md": f"---\ntitle: {quoted(text)}\n---\nx"}))
    label = " ".join(unicodedata.normalize("NFC", text).split())
    for read in (
        graph(bench),
        from_graphml(exported(bench, "graphml")),
        from_dot(exported(bench, "dot")),
    ):
        [note] = read.kinds("note").values()
        assert " ".join(unicodedata.normalize("NFC", note["label"]).split()) == label


@pytest.mark.parametrize("form", FORMS)
def test_nothing_that_a_terminal_would_obey_is_written(hostile: Workbench, form: Form) -> None:
    text = exported(hostile, form, outline=True)
    obeyed = {c for c in text if c not in "\n\t" and unicodedata.category(c) in ("Cc", "Cs")}
    turned = {
        c
        for c in text
        if unicodedata.bidirectional(c) in ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
    }
    assert (obeyed, turned) == (set(), set())
    text.encode()


def test_a_note_cannot_add_a_node_or_an_edge_of_its_own_making(bench: Workbench, write_tree: WriteTree) -> None:
    title = 'x"]; "forged" [label="y"]; "</data></node><node id="forged"/>'
    bench.add(
        write_tree({"n.md": f"---\ntitle: {quoted(title)}\n---\n[[{title.replace(']', ')').replace('[', '(')}]]"})
    )
    for read in (graph(bench), from_graphml(exported(bench, "graphml")), from_dot(exported(bench, "dot"))):
        assert sorted(node["kind"] for node in read.nodes.values()) == ["note", "source", "unresolved"]


FRAGMENT = st.sampled_from([
    "[[n1]]", "[[n2#h|x]]", "![[p.png]]", "[[a\\b]]", "[[q\"]]", "[[<&>]]", "[[\x02]]", "[[ ]]", "[[#h]]", "[[n1]]\\",
    "| [[n2\\|y]] |", "`[[no]]`", "[x](n1.md)", "#t", "#t/u", "#/v", "#T/U", "# h", "## ]]>", "- a ^i", "^i", "\n",
    "\n\n", "text",
])  # fmt: skip


@settings(deadline=None, derandomize=True, max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(FRAGMENT, min_size=1, max_size=12).map(" ".join), min_size=1, max_size=4))
def test_any_vault_is_one_graph_in_every_form(bench: Workbench, write_tree: WriteTree, texts: list[str]) -> None:
    root = write_tree({f"d{i % 2}/n{i}.md": text + "\nx" for i, text in enumerate(texts)})
    source = bench.add(root)
    bench.sync(source)
    told = graph(bench, outline=True)
    xml, dot = from_graphml(exported(bench, "graphml", outline=True)), from_dot(exported(bench, "dot", outline=True))
    assert comparable(xml) == comparable(spelled(told, _NOT_XML))
    assert comparable(dot) == comparable(spelled(told, _NOT_DOT))


# ── who sees what


@pytest.mark.parametrize("caller", [PROJECT, ANONYMOUS], ids=["project", "anonymous"])
@pytest.mark.parametrize("form", FORMS)
def test_what_is_not_served_is_neither_a_node_nor_an_edge_nor_a_word(
    bench: Workbench, write_tree: WriteTree, caller: Caller, form: Form
) -> None:
    bench.add(
        write_tree({
            "Open.md": "[[Plan]] [[gone]] [[empty]]",
            "zqdir/Plan.md": PRIVATE + "# zqtitle\n[[Open]] [[zqnowhere]] ![[zqpic.png]] #zqtag ^zqblock",
            "zqother/n.md": "#private #zqtag2",
            "out/zqdir/gone.md": "x",
            "zqdir2/empty.md": "",
            "zqpic.png": "p",
        }),
        exclude=["out/"],
    )  # fmt: skip
    text = exported(bench, form, caller, outline=True)
    assert "zq" not in text.casefold()
    assert "Open.md" in text
    assert "zqtitle" in exported(bench, form, OWNER, outline=True)
    if form == "json":
        assert json.loads(text)["receipt"]["withheld"] == {"count": 2, "by_reason": {"private": 2}}


def test_an_attachment_outside_the_exposed_roots_is_not_named(bench: Workbench, write_tree: WriteTree) -> None:
    manifest = '{"mcp_exposed_roots": ["brain"]}'
    files = {
        "brain/n.md": "![[zqpic.png]] ![[pic.png]] [[m]]",
        "zqout/zqpic.png": "p",
        "brain/pic.png": "p",
        "zqout/m.md": "x",
    }
    bench.add(write_tree({"vault-manifest.json": manifest, **files}))
    found = graph(bench, PROJECT)
    assert sorted(map(short, found.nodes)) == ["file:brain/pic.png", "folder:brain", "note:brain/n.md", "source:/"]


def test_a_note_made_private_after_the_sync_is_not_in_the_graph_of_a_project(
    bench: Workbench, write_tree: WriteTree, later: Callable[[float], None]
) -> None:
    root = write_tree({"n.md": "[[m]]", "zqdir/m.md": "[[n]] #zqtag"})
    later(10)
    bench.add(root)
    (root / "zqdir/m.md").write_text(PRIVATE + "[[n]] #zqtag")
    assert "zq" not in exported(bench, caller=PROJECT, outline=True)
    assert graph(bench, PROJECT).between("link") == []
    assert "zqtag" in exported(bench)


def test_a_note_that_has_just_gone_is_no_node_and_no_end_of_an_edge(bench: Workbench, write_tree: WriteTree) -> None:
    root = write_tree({"n.md": "[[m]] [[k]]", "d/m.md": "[[n]]", "k.md": "x"})
    bench.add(root)
    (root / "d/m.md").unlink()
    found = graph(bench)
    assert sorted(map(short, found.nodes)) == ["note:k.md", "note:n.md", "source:/"]
    assert json.loads(exported(bench))["receipt"]["withheld"]["by_reason"] == {"vanished": 1}


def test_a_source_that_is_away_is_exported_as_it_was_and_says_so(house: Workbench) -> None:
    [source] = house.app.registry.all()
    before = comparable(graph(house))
    source.root.rename(source.root.with_name("off"))
    assert comparable(graph(house)) == before
    assert [place["name"] for place in json.loads(exported(house))["receipt"]["offline"]] == ["House"]


def test_the_receipt_says_what_the_graph_covers(house: Workbench) -> None:
    receipt = json.loads(exported(house))["receipt"]
    assert receipt["searched"][0]["documents"] == 3
    assert receipt["skipped"]["by_reason"] == {"excluded": 1, "not_read": 1}
    assert receipt["withheld"] == {"count": 0, "by_reason": {}}
    assert receipt["took_ms"] >= 0
