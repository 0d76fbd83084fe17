"""`vade eval`: how well the notes of a folder are found, and whether other settings would find them better."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import click

from vademecum import config
from vademecum.cli import output
from vademecum.cli.evaluation import (
    JUDGEMENTS,
    LANES,
    Evaluation,
    Request,
    Value,
    as_connected,
    check_out,
    laid_out,
    score_folder,
    write_out,
)
from vademecum.cli.main import as_json, caller, json_option
from vademecum.errors import UsageError
from vademecum.search.quality import DERIVED, Comparison, Mean

_SURE: Final = 0.05
_PLURALS: Final = {"title": "titles", "alias": "aliases", "heading": "headings"}


@click.command("eval")
@click.argument("folder", metavar="FOLDER", type=click.Path(path_type=Path))
@click.option(
    "--questions",
    multiple=True,
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Ask these too: lines of id, question and kind, with tabs between them. Repeatable.",
)
@click.option(
    "--judgements",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Their right notes: lines of id, note and grade; qrels.tsv beside the questions when not given.",
)
@click.option("--lane", multiple=True, type=click.Choice(LANES), help="How to look; all ways if not set. Repeatable.")
@click.option("--rerank", is_flag=True, help="Try the reranker too.")
@click.option("--with", "changes", multiple=True, metavar="SETTING=VALUE", help="Compare with this. Repeatable.")
@click.option("--no-derived", is_flag=True, help="Ask nothing but what is written in files.")
@click.option(
    "--limit-derived",
    type=click.IntRange(1, 100_000),
    default=200,
    show_default=True,
    metavar="N",
    help="Derive at most so many questions of a kind.",
)
@click.option("--out", metavar="FILE", type=click.Path(path_type=Path), help="Write the JSON object to this file too.")
@json_option
def evaluate(
    folder: Path, questions: tuple[Path, ...], judgements: Path | None, out: Path | None, **options: Any
) -> None:
    """Measure how well the notes of FOLDER are found, and compare settings before switching.

    Asks for notes by their titles, aliases and headings, and what queries.tsv and qrels.tsv in FOLDER ask. With --with,
    everything is asked twice: as set, and with the changes. Nothing of yours is changed.
    """
    user = config.load()
    changes = dict(_change(text) for text in options["changes"])
    root, own, warnings = laid_out(folder)
    check_out(out, folder)
    asked = [path.resolve() for path in questions]
    files = (*own, *((path, (judgements or path.with_name(JUDGEMENTS)).resolve()) for path in asked))
    kind, exclude = as_connected(root, user)
    request = Request(
        root=root,
        kind=kind,
        exclude=exclude,
        files=tuple(dict.fromkeys(files)),
        derived=0 if options["no_derived"] else options["limit_derived"],
        lanes=tuple(dict.fromkeys(options["lane"])),
        rerank=options["rerank"],
        changes=changes,
    )
    who = caller()
    if not who.is_owner:
        output.note("Private notes are left out; --as-owner asks as the owner of the notes.")
    evaluation = score_folder(request, user, who)
    evaluation = replace(evaluation, warnings=(*warnings, *evaluation.warnings))
    if out is not None:
        write_out(out, evaluation)
    if as_json():
        output.print_json(evaluation.as_json())
    else:
        print_evaluation(evaluation)


def _change(text: str) -> tuple[str, Value]:
    name, equals, value = text.partition("=")
    if not equals:
        raise UsageError(f"--with takes SETTING=VALUE, not {text!r}", hint="For example recall.meaning_weight=0.4.")
    which = config.setting(name.strip())
    return which.name, config.parse_value(which, value)


# ── for people


def print_evaluation(evaluation: Evaluation) -> None:
    """A table of the runs, then what the comparisons say in words."""
    origins = Counter(q.kind if q.origin == DERIVED else f"in {q.origin}" for q in evaluation.questions)
    asked = ", ".join(f"{count:,} {_PLURALS.get(name, name) if count > 1 else name}" for name, count in origins.items())
    notes = output.count(evaluation.notes, "note")
    output.say(f"{output.one_line(str(evaluation.folder))}: {notes}, {len(evaluation.questions):,} questions ({asked})")
    output.say()
    output.table(
        [("QUESTIONS", "N", "SEARCH", "MRR", "95 %", "R@1", "R@5", "R@10", "nDCG@10", "EMPTY"), *_rows(evaluation)]
    )
    lines = [
        sentence(group, comparison) for group, comparison in evaluation.comparisons if _worth_a_line(group, evaluation)
    ]
    if lines:
        output.say()
    for line in lines:
        output.say(output.one_line(line))
    for name, why in evaluation.left_out.items():
        output.note(f"note: {name} was not tried: {why}")
    for run in evaluation.runs:
        for reason, count in run.shortfalls.items():
            output.note(f"note: {run.name}: {output.count(count, 'answer')} without {reason}")
    for warning in evaluation.warnings:
        output.note(f"warning: {output.one_line(warning)}")
    if any(q.origin == DERIVED for q in evaluation.questions):
        output.note("Derived questions ask for a note by its own words, which favours search by words.")


def _rows(evaluation: Evaluation) -> Iterator[tuple[str, ...]]:
    parts = [(group, run, part) for run in evaluation.runs for group, part in run.groups().items()]
    order = list(dict.fromkeys(group for group, _, _ in parts))
    for group, run, part in sorted(parts, key=lambda item: order.index(item[0])):
        means = part.means()
        mrr = means.pop("mrr")
        empty = round(means.pop("empty").value * len(part.scores))
        figures = [figure(mean.value) for mean in means.values()]
        yield (
            output.one_line(group),
            f"{len(part.scores):,}",
            run.name,
            figure(mrr.value),
            interval(mrr),
            *figures,
            f"{empty:,}",
        )


def _worth_a_line(group: str, evaluation: Evaluation) -> bool:
    """Kinds within a file stand in the table and in the JSON; a sentence on each would bury the one on the file."""
    return not any(group.startswith(f"{q.origin}: ") for q in evaluation.questions if q.origin != DERIVED)


def figure(value: float) -> str:
    """A part of one with three digits: .690."""
    text = f"{abs(value):.3f}".removeprefix("0")
    return f"−{text}" if value < 0 and text != ".000" else text


def interval(mean: Mean) -> str:
    """The interval of a mean: [.592 .785]."""
    return f"[{figure(mean.low)} {figure(mean.high)}]"


def sentence(group: str, comparison: Comparison) -> str:
    """What a comparison says of the mean reciprocal rank, in words."""
    before, after = comparison.before, comparison.after
    if not comparison.metrics:
        return f"{after} and {before} have no question in common ({group})."
    found = comparison.metrics["mrr"]
    if not found.better + found.worse:
        return f"{after} finds every answer at the same rank as {before} ({group})."
    verb = (
        "finds better than"
        if found.mean.value > 0
        else "finds worse than"
        if found.mean.value < 0
        else "finds as well as"
    )
    gained, low, high = (_signed(value) for value in found.mean)
    sure = "more than chance would do" if found.p < _SURE else "not distinguishable from chance"
    rest = f"; {output.count(comparison.unpaired, 'question')} not in both" if comparison.unpaired else ""
    return (
        f"{after} {verb} {before} ({group}): MRR {gained} ({low} to {high}); {found.better:,} better,"
        f" {found.worse:,} worse, {found.same:,} the same; {sure} (p {_chance(found.p)}){rest}."
    )


def _signed(value: float) -> str:
    return figure(value) if value < 0 else f"+{figure(value)}"


def _chance(p: float) -> str:
    return "< .001" if p < 0.001 else f"= {figure(p)}"
