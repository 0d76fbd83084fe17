"""`vade expand` and `vade graph`: walk from a note, and hand the whole shape of a vault to other tools."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from vademecum.cli import output
from vademecum.cli.main import FullHelpGroup, as_json, caller, json_option, open_app
from vademecum.errors import SourceDisabled

if TYPE_CHECKING:
    from vademecum.search.expansion import Expansion, LinkBack, LinkOut, Neighbour

_MOST_LISTED = 1000
_MOST_STEPS = 5


@click.command()
@click.argument("note")
@click.option(
    "--depth",
    type=click.IntRange(1, _MOST_STEPS),
    default=1,
    show_default=True,
    metavar="N",
    help="Go over N links; 5 at most.",
)
@click.option(
    "--limit",
    type=click.IntRange(1, _MOST_LISTED, clamp=True),
    default=50,
    show_default=True,
    help="Entries of each list at most.",
)
@json_option
def expand(note: str, depth: int, limit: int) -> None:
    """Show what lies around a note: its links, what links to it, its outline, its tags and its folder.

    NOTE is what recall prints, or the end of it: absolute, relative to a source, with or without .md.
    """
    found = open_app().expand(note, caller(), depth=depth, limit=limit)
    if as_json():
        output.print_json(found.as_json())
    else:
        _print_expansion(found)


def _print_expansion(found: Expansion) -> None:
    marks = "".join(f"  [{mark}]" for mark, on in (("stale", found.stale), ("private", found.private)) if on)
    output.say(f"{output.one_line(found.note.title)}{marks}")
    output.say(f"{output.one_line(found.note.source_path)}  ({output.one_line(found.place.name)})")
    if found.aliases:
        output.say(f"also called {', '.join(map(output.one_line, found.aliases))}")
    if found.tags:
        output.say(" ".join(f"#{output.one_line(tag)}" for tag in found.tags))
    _section("Outline", (f"{h.line:>5}  {'  ' * (h.level - 1)}{output.one_line(h.text)}" for h in found.headings))
    _section("Blocks", (f"{b.first_line:>5}  ^{output.one_line(b.name or '')}" for b in found.blocks))
    _section("Links", map(_link_out, found.links_out))
    _section("Linked from", dict.fromkeys(map(_link_back, found.links_back)))
    folder = found.folder
    beside = [*(f"{output.one_line(path)}/" for path in folder.folders), *map(_beside, folder.notes)]
    _section(f"In {output.one_line(folder.path) or 'the root'}", (f"       {line}" for line in beside))
    _section(
        "Further away",
        (
            f"{far.distance:>5}  {output.one_line(far.note.path)}, over {output.one_line(far.over)}"
            for far in found.around
        ),
    )
    output.say()
    output.say(found.receipt.line())


def _section(title: str, lines: Iterable[str]) -> None:
    told = list(lines)
    if told:
        output.say()
        output.say(title)
        for line in told:
            output.say(line)


def _beside(note: Neighbour) -> str:
    return f"{output.one_line(note.path)}  {output.one_line(note.title)}"


def _link_out(link: LinkOut) -> str:
    row = link.link.row
    part = f"#^{row.block}" if row.block else f"#{row.heading}" if row.heading else ""
    kind = f"{output.one_line(row.property)}: " if row.property else "embeds " if row.embed else ""
    return f"{row.line:>5}  {kind}{output.one_line(row.target + part)}  →  {_leads_to(link)}"


def _leads_to(link: LinkOut) -> str:
    if link.state == "resolved" and link.note is not None:
        told = output.one_line(link.note.path)
        told += " (by alias)" if link.link.meant.via == "alias" else ""
        told += " (no such heading or block)" if link.anchor_found is False else ""
    elif link.state == "not_indexed":
        why = (link.reason or "").replace("_", " ")
        told = f"{output.one_line(link.file)} ({why})" if link.file else f"a file that is not indexed ({why})"
    else:
        told = {
            "unresolved": "nothing has this name",
            "withheld": "a note that is not served to you",
            "away": f"a note that is away ({link.reason})",
        }[link.state]
    if link.candidates:
        told += f"; could also be {', '.join(map(output.one_line, link.candidates))}"
    return told


def _link_back(link: LinkBack) -> str:
    row = link.link.row
    how = f" as {output.one_line(row.property)}" if row.property else " embeds it" if row.embed else ""
    part = f"#^{row.block}" if row.block else f"#{row.heading}" if row.heading else ""
    how += f", at {output.one_line(part)}" if part else ""
    return f"{row.line:>5}  {output.one_line(link.note.path)}{how}  {output.one_line(link.note.title)}"


@click.group(cls=FullHelpGroup)
def graph() -> None:
    """The shape of a vault: its folders, notes, tags and links."""


@graph.command()
@click.option("--source", "wanted", metavar="ID", help="Only this source; all enabled ones if not set.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["json", "graphml", "dot"]),
    default="json",
    show_default=True,
    help="For programs, for Gephi, yEd or Cytoscape, or for Graphviz.",
)
@click.option("--outline", is_flag=True, help="With the headings and blocks of every note.")
def export(wanted: str | None, form: Any, outline: bool) -> None:
    """Print the graph of the vaults: every folder, note, tag and link, as far as you may see it.

    Links that lead nowhere end at a node of their own kind.
    """
    app = open_app()
    source = app.registry.find(wanted) if wanted else None
    if source is not None and not source.enabled:
        raise SourceDisabled(f"{source.name} is disabled")
    for piece in app.export_graph(caller(), source=source, form=form, outline=outline):
        output.write(piece)
