"""`vade recall`, `vade search` and `vade read`: ask, and open what answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click

from vademecum.cli import output
from vademecum.cli.main import as_json, caller, json_option, open_app
from vademecum.search import Hit, Recall, parse_query

F = TypeVar("F", bound=Callable[..., Any])

SCOPES = click.Choice(["general", "platform", "project"])
CONFIDENCES = click.Choice(["verified", "inferred", "unverified"])
TYPES = click.Choice(["fact", "preference", "decision", "rule", "learning", "issue"])

_MOST_HITS = 100
_EXCERPT_LINES = 4
_WIDTH = 100


def question_options(function: F) -> F:
    """The arguments and options that recall and search share."""
    options = (
        click.argument("query", nargs=-1, required=True),
        click.option("--limit", type=click.IntRange(1, _MOST_HITS, clamp=True), help="Hits at most; 10 if not set."),
        click.option("--source", multiple=True, metavar="ID", help="Only this source. Repeatable."),
        click.option("--path", default="", metavar="PREFIX", help="Only notes whose path starts so."),
        click.option(
            "--tag", multiple=True, metavar="T", help="Only notes with this tag, or one below it. Repeatable."
        ),
        click.option(
            "--since", metavar="D", help="Only notes of this day or later: 2026-01-31, or 30d for 30 days ago."
        ),
        click.option("--until", metavar="D", help="Only notes of this day or earlier."),
        click.option("--without", multiple=True, metavar="WORD", help="No notes with this word. Repeatable."),
        click.option(
            "--lane",
            type=click.Choice(["words", "meaning", "hybrid"]),
            default="hybrid",
            help="How to look.",
            show_default=True,
        ),
        click.option(
            "--rerank/--no-rerank", default=None, help="Read the ten best hits again; as set when neither is given."
        ),
        click.option("--explain", is_flag=True, help="Show how each score came about."),
        json_option,
    )
    for option in reversed(options):
        function = option(function)
    return function


def narrowing(function: F) -> F:
    """The options that ask for memories which declare something."""
    options = (
        click.option("--scope", type=SCOPES, help="Only memories of this scope."),
        click.option("--confidence", type=CONFIDENCES, help="Only memories of this confidence."),
        click.option("--type", "type", type=TYPES, help="Only memories of this type."),
        click.option("--pinned", is_flag=True, default=None, help="Only pinned memories."),
        click.option("--importance", type=click.FloatRange(0, 1), help="Only memories of at least this importance."),
    )
    for option in reversed(options):
        function = option(function)
    return function


@click.command()
@question_options
@click.option(
    "--include",
    type=click.Choice(["all", "memories", "sources"]),
    default="all",
    show_default=True,
    help="What to ask.",
)
@narrowing
def recall(query: tuple[str, ...], include: Any, **options: Any) -> None:
    """Ask, and get the notes and memories that answer, best first, with a receipt of what was looked at.

    "Quotes" ask for a phrase; -word leaves out notes with that word.
    """
    facets = {name: options.pop(name) for name in ("scope", "confidence", "type", "pinned", "importance")}
    _answer(" ".join(query), include, facets=facets, **options)


@click.command()
@question_options
def search(query: tuple[str, ...], **options: Any) -> None:
    """Ask the notes only. Takes what `vade recall` takes."""
    _answer(" ".join(query), "sources", **options)


@click.command()
@click.argument("address", metavar="PATH[#Heading|#^block|:FIRST-LAST]")
@json_option
def read(address: str) -> None:
    """Print a note, or a heading, block or line range of it, as its file is now.

    PATH is what recall prints, or the end of it: absolute, relative to a source, with or without .md.
    """
    app = open_app()
    passage = app.read(address, caller())
    if as_json():
        output.print_json(passage.as_json())
    else:
        output.say(passage.text.removesuffix("\n"))


def _answer(text: str, include: Any, *, facets: Mapping[str, Any] | None = None, **options: Any) -> None:
    app = open_app()
    given = {name: value for name, value in (facets or {}).items() if value is not None}
    question = app.question(text, include=include, wanted=app.wanted(**given) if given else None, **options)
    answer = app.recall(question, caller())
    if as_json():
        output.print_json(answer.as_json())
    else:
        _print_answer(answer)


def _print_answer(answer: Recall) -> None:
    if not answer.hits:
        output.say("Nothing found.")
    query = parse_query(answer.query)
    words = [word.casefold() for word in (*query.phrases, *query.terms)]
    for number, hit in enumerate(answer.hits, 1):
        _print_hit(number, hit, words)
    output.say(answer.receipt.line())


def _print_hit(number: int, hit: Hit, words: Sequence[str]) -> None:
    place = " › ".join([hit.title, *(h for h in hit.heading_path if h != hit.title)])
    told = (("stale", hit.stale), ("private", hit.private), ("pinned", hit.pinned), ("superseded", hit.superseded))
    marks = "".join(f"  [{mark}]" for mark, on in told if on)
    output.say(f"{number}. {output.one_line(place)}  {hit.score:.2f}{marks}")
    output.say(
        f"   {output.one_line(hit.source_path)}:{hit.line_start}-{hit.line_end}  ({output.one_line(hit.place.name)})"
    )
    if hit.memory is not None:
        output.say(f"   {output.one_line(declared(hit.memory))}")
    for line in _excerpt(hit.content, words):
        output.say(f"   │ {line}")
    if hit.explain is not None:
        _print_explanation(hit.score, hit.explain)
    output.say()


def declared(memory: Mapping[str, Any]) -> str:
    """What a memory declares, on one line: confidence, reach, day, and what corrects it."""
    named = [*memory["projects"], *memory["platforms"]]
    reach = memory["scope"] + (f" → {', '.join(named)}" if named else "")
    told = ["memory", memory["confidence"], reach, memory["date"] and f"as of {memory['date']}", memory["type"]]
    corrected = "; ".join(memory["superseded_by"])
    return " · ".join(filter(None, [*told, corrected and f"superseded by {corrected}"]))


def _print_explanation(score: float, explain: Mapping[str, Any]) -> None:
    parts = [part for part in explain["parts"] if part["value"]] or explain["parts"][:1]
    output.say(f"   score {score:.4f} = " + " + ".join(f"{part['name']} {part['value']:.4f}" for part in parts))
    for part in parts:
        figures = ", ".join(
            f"{name.replace('_', ' ')} {figure:g}" for name, figure in part.items() if name not in ("name", "value")
        )
        output.say(f"     {part['name']}: {figures}")
    output.say(f"     words met: {', '.join(explain['matched_terms']) or 'none'}")


def _excerpt(content: str, words: Sequence[str]) -> list[str]:
    """A few lines from the first one that holds a word that was asked for."""
    lines = [line for line in map(output.one_line, content.split("\n")) if line]
    first = next((i for i, line in enumerate(lines) if any(word in line.casefold() for word in words)), 0)
    start = max(0, min(first, len(lines) - _EXCERPT_LINES))
    return [_shortened(line, words) for line in lines[start : start + _EXCERPT_LINES]]


def _shortened(line: str, words: Sequence[str]) -> str:
    if len(line) <= _WIDTH:
        return line
    place = min((p for p in (line.casefold().find(word) for word in words) if p >= 0), default=0)
    start = 0 if place < _WIDTH * 2 // 3 else min(place - _WIDTH // 3, len(line) - _WIDTH)
    return ("…" if start else "") + line[start : start + _WIDTH - 1] + ("…" if start + _WIDTH - 1 < len(line) else "")
