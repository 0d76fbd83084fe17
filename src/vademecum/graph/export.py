"""The graph of a source as nodes and edges, and the forms in which other tools read it.

    source ─contains→ folder ─contains→ note ─contains→ heading ─contains→ block
    note ─link, embed, relation→ note, file, unresolved          note ─tagged→ tag ─below→ tag

Everything is produced as it is written; what is kept meanwhile is the names of folders, tags and files that are no
notes, and whether each note may be shown.
Ids are made of the source's id, the kind and the path, so the same vault gives the same graph every time.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple
from xml.sax.saxutils import escape, quoteattr

from vademecum.graph.links import Links, OutLink
from vademecum.index import BlockRow, Graph, HeadingRow, Located

Form = Literal["json", "graphml", "dot"]
NodeKind = Literal["source", "folder", "note", "heading", "block", "tag", "file", "unresolved"]
EdgeKind = Literal["contains", "link", "embed", "relation", "tagged", "below"]


class Origin(NamedTuple):
    """The source that a graph is of."""

    source_id: str
    kind: str
    root: str
    name: str


class Node(NamedTuple):
    """A thing of the graph. `path` is root-relative, `community` the folder that it lies in.

    `disk_path` is the path as the disk spells it, where that may differ.
    """

    id: str
    kind: NodeKind
    label: str
    path: str | None = None
    line: int | None = None
    community: str | None = None
    members: int | None = None
    """Of a folder: the notes that lie directly in it."""
    disk_path: str | None = None


class Edge(NamedTuple):
    """What one thing has to do with another. `path` is that of the note that says so, `property` names a relation, and
    `anchor` is the heading, or the ^block, in the note that a link leads to.
    """

    start: str
    end: str
    kind: EdgeKind
    path: str | None = None
    line: int | None = None
    property: str | None = None
    anchor: str | None = None
    disk_path: str | None = None


class Topology:
    """The nodes and edges of one source, as far as `shown` admits its notes."""

    def __init__(self, graph: Graph, origin: Origin, shown: Callable[[Located], bool], *, outline: bool) -> None:
        self.origin = origin
        self._graph = graph
        self._links = Links(graph)
        self._shown = shown
        self._outline = outline

    def nodes(self) -> Iterator[Node]:
        """Every node once: folders and notes by path, then tags, then what links name beside notes."""
        folders: dict[str, int] = {"": 0}
        tags: dict[str, str] = {}
        others: dict[str, Node] = {}
        for notes in self._pages():
            for note in notes.values():
                folder = _folder(note.path)
                folders |= {above: folders.get(above, 0) for above in _up_to_the_root(folder)}
                folders[folder] += 1
                yield Node(
                    self._id("note", note.path), "note", note.title, note.path, 1, folder, disk_path=note.disk_path
                )
            yield from self._outline_nodes(notes)
            spelled_in = self._graph.tags(notes)
            for document in notes:  # by path, so that the first spelling does not hang on who was indexed first
                held = spelled_in[document]
                tags |= {name: spelled for tag in held for name, spelled in _with_those_above(tag) if name not in tags}
            for link in self._links.out_of(notes):
                if (node := self._other(link)) is not None:
                    others[node.id] = node
        yield from (self._folder_node(path, members) for path, members in sorted(folders.items()))
        yield from (Node(self._id("tag", name), "tag", f"#{tag}") for name, tag in sorted(tags.items()))
        yield from (others[name] for name in sorted(others))

    def edges(self) -> Iterator[Edge]:
        """Every edge once, note by note, those among folders and among tags last."""
        folders: set[str] = {""}
        tags: set[str] = set()
        for notes in self._pages():
            for note in notes.values():
                folders.update(_up_to_the_root(_folder(note.path)))
                start = self._folder_id(_folder(note.path))
                yield Edge(start, self._id("note", note.path), "contains", note.path, disk_path=note.disk_path)
            yield from self._outline_edges(notes)
            for document, held in self._graph.tags(notes).items():
                note = notes[document]
                for tag in held:
                    tags.update(name for name, _ in _with_those_above(tag))
                    end = self._id("tag", tag.casefold())
                    yield Edge(self._id("note", note.path), end, "tagged", note.path, disk_path=note.disk_path)
            yield from (edge for link in self._links.out_of(notes) if (edge := self._link_edge(link)) is not None)
        for folder in sorted(folders - {""}):
            yield Edge(self._folder_id(_folder(folder)), self._folder_id(folder), "contains")
        for tag in sorted(tags):
            if above := tag.rpartition("/")[0]:
                yield Edge(self._id("tag", tag), self._id("tag", above), "below")

    # ── parts

    def _pages(self) -> Iterator[dict[int, Located]]:
        for page in self._graph.all_notes():
            yield {note.document: note for note in page if self._shown(note)}

    def _id(self, kind: NodeKind, name: str) -> str:
        return f"{self.origin.source_id}:{kind}:{name}"

    def _folder_id(self, path: str) -> str:
        return self._id("folder", path) if path else self._id("source", "/")

    def _folder_node(self, path: str, members: int) -> Node:
        if not path:
            return Node(self._folder_id(""), "source", self.origin.name, "", members=members)
        name = path.rpartition("/")[2]
        return Node(self._folder_id(path), "folder", name, path, community=_folder(path), members=members)

    def _outline_nodes(self, notes: Mapping[int, Located]) -> Iterator[Node]:
        if not self._outline:
            return
        for heading in self._graph.headings(notes):
            path, at = notes[heading.document].path, notes[heading.document].disk_path
            name = self._heading_id(path, heading.line)
            yield Node(name, "heading", heading.text, path, heading.line, _folder(path), disk_path=at)
        for block in self._graph.blocks(notes, named=False):
            path, at = notes[block.document].path, notes[block.document].disk_path
            label = f"^{block.name}" if block.name else f"{block.first_line}-{block.last_line}"
            yield Node(self._block_id(path, block), "block", label, path, block.first_line, _folder(path), disk_path=at)

    def _outline_edges(self, notes: Mapping[int, Located]) -> Iterator[Edge]:
        """From a note to its headings, from a heading to those below it and to the blocks under it."""
        if not self._outline:
            return
        lines: dict[int, list[int]] = {document: [] for document in notes}
        above: list[HeadingRow] = []
        for heading in self._graph.headings(notes):
            while above and (above[-1].document != heading.document or above[-1].level >= heading.level):
                above.pop()
            path = notes[heading.document].path
            start = self._heading_id(path, above[-1].line if above else 0)
            at = notes[heading.document].disk_path
            yield Edge(start, self._heading_id(path, heading.line), "contains", path, heading.line, disk_path=at)
            above.append(heading)
            lines[heading.document].append(heading.line)
        for block in self._graph.blocks(notes, named=False):
            path = notes[block.document].path
            under = bisect_right(lines[block.document], block.first_line)
            start = self._heading_id(path, lines[block.document][under - 1] if under else 0)
            at = notes[block.document].disk_path
            yield Edge(start, self._block_id(path, block), "contains", path, block.first_line, disk_path=at)

    def _heading_id(self, path: str, line: int) -> str:
        """The id of a heading; that of the note for what stands above all headings."""
        return self._id("heading", f"{path}:{line}") if line else self._id("note", path)

    def _block_id(self, path: str, block: BlockRow) -> str:
        return self._id("block", f"{path}:{block.first_line}-{block.last_line}:{block.name or ''}")

    def _link_edge(self, link: OutLink) -> Edge | None:
        """The edge of a link; None when what it leads to is not shown to the caller."""
        row, note, end = link.row, link.note, self._end(link)
        if end is None:
            return None
        kind: EdgeKind = "relation" if row.property else "embed" if row.embed else "link"
        anchor = f"^{row.block}" if row.block else row.heading
        start = self._id("note", note.path)
        return Edge(start, end, kind, note.path, row.line, row.property, anchor, note.disk_path)

    def _other(self, link: OutLink) -> Node | None:
        """The node of what a link leads to, where that is no note."""
        file = link.meant.file
        if file is None:
            return Node(self._end(link) or "", "unresolved", link.row.target)
        if file.document is None and (end := self._end(link)) is not None:
            return Node(end, "file", file.path.rpartition("/")[2], file.path, community=_folder(file.path))
        return None

    def _end(self, link: OutLink) -> str | None:
        """The id of what a link leads to; None when that is not shown to the caller."""
        file = link.meant.file
        if file is None:
            return self._id("unresolved", link.row.target)
        if file.document is None:
            return self._id("file", file.path) if self._graph.may_name(file.path, file.reason, self._shown) else None
        note = self._graph.notes([file.document]).get(file.document)
        return self._id("note", file.path) if note is not None and self._shown(note) else None


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _up_to_the_root(folder: str) -> Iterator[str]:
    while folder:
        yield folder
        folder = _folder(folder)
    yield ""


def _with_those_above(tag: str) -> Iterator[tuple[str, str]]:
    """A tag and the tags that it is nested in, each folded and as it is spelled."""
    while tag:
        yield tag.casefold(), tag
        tag = tag.rpartition("/")[0]


# ── the forms

_NODE_FIELDS: Final = ("kind", "label", "path", "line", "community", "members")
_EDGE_FIELDS: Final = ("kind", "path", "line", "property", "anchor")
_ORIGIN_FIELDS: Final = ("source_id", "source_kind", "source_path", "source_root")
# What XML cannot hold at all.
_NOT_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# What a terminal would obey, or what turns its lines around.
_UNSAFE: Final = re.compile("[\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_NOT_DOT: Final = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]")


def written(form: Form, graphs: Sequence[Topology], receipt: Callable[[], Mapping[str, Any]]) -> Iterator[str]:
    """The graphs in one of the forms, piece by piece. The receipt, which only JSON has room for, is asked last."""
    writers = {"graphml": _graphml, "dot": _dot}
    yield from writers[form](graphs) if form in writers else _json(graphs, receipt)


def _json(graphs: Sequence[Topology], receipt: Callable[[], Mapping[str, Any]]) -> Iterator[str]:
    yield '{"nodes": ['
    yield from _listed({"id": n.id, **_told(n, _NODE_FIELDS, g.origin)} for g in graphs for n in g.nodes())
    yield '\n], "edges": ['
    yield from _listed(
        {"source": e.start, "target": e.end, **_told(e, _EDGE_FIELDS, g.origin)} for g in graphs for e in g.edges()
    )
    yield f'\n], "receipt": {_json_text(receipt())}}}\n'


def _listed(items: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    mark = "\n"
    for item in items:
        yield mark + _json_text(item)
        mark = ",\n"


def _json_text(value: Mapping[str, Any]) -> str:
    return _UNSAFE.sub(_spelled, json.dumps(value, ensure_ascii=False))


def _spelled(found: re.Match[str]) -> str:
    """A character by its number; left out or replaced by a blank, it would make two names into one."""
    return f"\\u{ord(found.group()):04x}"


def _told(item: Node | Edge, fields: Sequence[str], origin: Origin) -> dict[str, Any]:
    """What is known of a node or an edge, with where it comes from."""
    known = {name: value for name in fields if (value := getattr(item, name)) is not None}
    at = item.disk_path or item.path
    place = f"{origin.root}/{at}" if at else origin.root
    return known | {
        "source_id": origin.source_id,
        "source_kind": origin.kind,
        "source_path": place,
        "source_root": origin.root,
    }


def _graphml(graphs: Sequence[Topology]) -> Iterator[str]:
    yield '<?xml version="1.0" encoding="UTF-8"?>\n<graphml xmlns="http://graphml.graphdrawing.org/xmlns">\n'
    for what, fields in (("node", _NODE_FIELDS), ("edge", _EDGE_FIELDS)):
        for name in (*fields, *_ORIGIN_FIELDS):
            kind = "int" if name in ("line", "members") else "string"
            yield f'<key id="{what}_{name}" for="{what}" attr.name="{name}" attr.type="{kind}"/>\n'
    yield '<graph id="vault" edgedefault="directed">\n'
    for graph in graphs:
        for node in graph.nodes():
            data = _xml_data("node", _told(node, _NODE_FIELDS, graph.origin))
            yield f"<node id={_xml_quoted(node.id)}>{data}</node>\n"
    for graph in graphs:
        for edge in graph.edges():
            data = _xml_data("edge", _told(edge, _EDGE_FIELDS, graph.origin))
            yield f"<edge source={_xml_quoted(edge.start)} target={_xml_quoted(edge.end)}>{data}</edge>\n"
    yield "</graph>\n</graphml>\n"


def _xml_data(what: str, told: Mapping[str, Any]) -> str:
    return "".join(f'<data key="{what}_{name}">{_xml_text(escape, str(value))}</data>' for name, value in told.items())


def _xml_quoted(text: str) -> str:
    return _xml_text(quoteattr, text)


def _xml_text(escaped: Callable[[str], str], text: str) -> str:
    return _UNSAFE.sub(lambda found: f"&#{ord(found.group())};", escaped(_NOT_XML.sub(_spelled, text)))


def _dot(graphs: Sequence[Topology]) -> Iterator[str]:
    yield "digraph vault {\n"
    for graph in graphs:
        for node in graph.nodes():
            yield f"  {_dot_quoted(node.id)} [{_dot_attributes(_told(node, _NODE_FIELDS, graph.origin))}];\n"
    for graph in graphs:
        for edge in graph.edges():
            told = _dot_attributes(_told(edge, _EDGE_FIELDS, graph.origin))
            yield f"  {_dot_quoted(edge.start)} -> {_dot_quoted(edge.end)} [{told}];\n"
    yield "}\n"


def _dot_attributes(told: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={_dot_quoted(str(value))}" for name, value in told.items())


def _dot_quoted(text: str) -> str:
    plain = _NOT_DOT.sub(_spelled, text)
    return '"' + plain.replace("\\", "\\\\").replace('"', '\\"') + '"'
