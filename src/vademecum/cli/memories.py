"""`vade remember`, `vade memories`, `vade record-work` and `vade whoami`: what is to be kept, and what is kept."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from vademecum.cli import output
from vademecum.cli.main import FullHelpGroup, as_json, caller, how_decided, json_option, open_app, standing
from vademecum.cli.recall import CONFIDENCES, SCOPES, TYPES, declared, narrowing
from vademecum.errors import UsageError

F = TypeVar("F", bound=Callable[..., Any])

_EMBED_S = 5.0


def declaring(function: F) -> F:
    """The options by which a memory declares itself."""
    options = (
        click.option("--title", help="The lesson as a claim, at most 200 characters."),
        click.option("--body", help="The whole of it, for a reader who knows nothing; - reads standard input."),
        click.option("--confidence", type=CONFIDENCES, help="How sure it is."),
        click.option("--scope", type=SCOPES, help="Whom it is for: everybody, some platforms, or some projects."),
        click.option("--project", "projects", multiple=True, metavar="P", help="A project it is for. Repeatable."),
        click.option("--platform", "platforms", multiple=True, metavar="P", help="A platform it is for. Repeatable."),
        click.option("--tag", "tags", multiple=True, metavar="T", help="A tag. Repeatable."),
        click.option("--type", "type", type=TYPES, help="What kind of thing it is; told by its words if not set."),
        click.option("--importance", type=click.FloatRange(0, 1), help="How much it matters, from 0 to 1."),
        click.option("--allow-secret", is_flag=True, help="Write it although it seems to hold a secret; owner only."),
        json_option,
    )
    for option in reversed(options):
        function = option(function)
    return function


@click.command()
@click.argument("text", nargs=-1)
@declaring
@click.option("--verification", help="How it is known; expected of what is verified.")
@click.option("--generality", help="Why it reaches everywhere; expected of what is general.")
@click.option("--supersedes", multiple=True, metavar="TITLE|PATH", help="A memory that this corrects. Repeatable.")
@click.option("--link", "links", multiple=True, metavar="NOTE", help="A note of the vault it relates to. Repeatable.")
@click.option("--pinned", is_flag=True, default=None, help="Never push it out of an answer that it matches.")
@click.option("--force", is_flag=True, help="Write it although a memory says nearly the same.")
@click.option("--dry-run", is_flag=True, help="Show what would be written, and write nothing.")
def remember(text: tuple[str, ...], force: bool, dry_run: bool, allow_secret: bool, **said: Any) -> None:
    """Keep something for later sessions: TEXT as it comes, or a title and a body.

    TEXT may begin with `critical:` and with tags in brackets: vade remember "critical: [deploy, db]: never run
    migrations on Friday".
    """
    app = open_app()
    who = standing(app)
    told = {**_captured(" ".join(text)), **_given(said)}
    outcome = app.memories.remember(told, who, force=force, dry_run=dry_run, allow_secret=allow_secret)
    if as_json():
        output.print_json({**outcome.as_json(), "text": outcome.text})
    else:
        _print_recorded(outcome, dry_run=dry_run)
    if outcome.written:
        _embed(app)


def _captured(text: str) -> dict[str, Any]:
    if not text.strip():
        return {}
    from vademecum.memory.capture import capture

    return dict(capture(text))


def _given(said: Mapping[str, Any]) -> dict[str, Any]:
    """The options that were given; a body of - is read from standard input."""
    told = {name: list(value) if isinstance(value, tuple) else value for name, value in said.items()}
    told = {name: value for name, value in told.items() if value is not None and value != []}
    if told.get("body") == "-":
        told["body"] = sys.stdin.read()
    return told


def _print_recorded(outcome: Any, *, dry_run: bool) -> None:
    memory = outcome.memory
    if dry_run:
        output.say("Nothing was written. This would be:")
        output.say()
        output.say(outcome.text.rstrip("\n"))
        output.say()
    elif outcome.corroborated:
        output.say(f"Known already: {output.one_line(memory.path)}")
        output.say(f"It is corroborated now, {_times(memory.corroborated)}.")
    else:
        output.say(f"Recorded: {output.one_line(memory.path)}")
    output.say(f"Scope: {output.one_line(_reach(memory))}")
    for label, names in (
        ("Superseded, kept and linked back", outcome.superseded),
        ("Nothing to supersede is called", outcome.unmatched),
        ("Links dropped, since no note is called so", outcome.dropped),
        ("Wikilinks turned into plain words", outcome.unlinked),
    ):
        if names:
            output.say(f"{label}: {output.one_line('; '.join(names))}")
    for warning in outcome.warnings:
        output.note(f"warning: {output.one_line(warning)}")
    if outcome.written and not outcome.indexed:
        output.note("The index could not follow now: it may not be found by words yet. The next sync catches up.")


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


def _reach(memory: Any) -> str:
    named = [*memory.reach.projects, *memory.reach.platforms]
    return f"{memory.reach.scope} → {', '.join(named)}" if named else str(memory.reach.scope)


def _embed(app: Any) -> None:
    """Have it found by its meaning too, where no daemon will see to that. Nothing is lost where that fails."""
    from contextlib import suppress

    from vademecum.daemon import control
    from vademecum.errors import VadeError

    if app.settings.model == "none" or control.running(app.settings) is not None or app.models.why_none():
        return
    with suppress(VadeError):
        app.embed(budget_s=_EMBED_S)


@click.group(cls=FullHelpGroup)
def memories() -> None:
    """Show and change what is remembered."""


@memories.command("list")
@narrowing
@click.option("--project", metavar="P", help="Only those that name this project.")
@click.option("--tag", "tags", multiple=True, metavar="T", help="Only with this tag, or one below it. Repeatable.")
@click.option("--since", metavar="D", help="Only of this day or later: 2026-01-31, or 30d for 30 days ago.")
@click.option("--until", metavar="D", help="Only of this day or earlier.")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="How many at most.")
@click.option("--forgotten", is_flag=True, help="Those that can be restored instead.")
@click.option("--explain", is_flag=True, help="Say why each reaches here, and why others do not.")
@json_option
def list_memories(limit: int, forgotten: bool, explain: bool, **wanted: Any) -> None:
    """Show the memories that reach here: live ones before superseded ones, the more specific and newer first."""
    app = open_app()
    if forgotten:
        _print_forgotten(app.memories.forgotten())
        return
    found = app.memories.list(caller(), app.wanted(**wanted), limit=limit, explain=explain)
    if as_json():
        output.print_json(found)
        return
    for memory in found["memories"]:
        _print_memory(memory)
    if not found["memories"]:
        output.say(_nothing(found))
    more = found["total"] - len(found["memories"])
    withheld = found["withheld"]
    if more > 0:
        output.say(f"{more:,} more; --limit shows them.")
    if withheld["count"]:
        reasons = ", ".join(f"{number} {reason.replace('_', ' ')}" for reason, number in withheld["by_reason"].items())
        output.say(f"{output.count(withheld['count'], 'memory', 'memories')} withheld ({reasons}).")
    for reason in withheld.get("why", ()):
        output.say(f"  {output.one_line(reason)}")


def _nothing(found: Mapping[str, Any]) -> str:
    project = found["caller"]["project"]
    if found["total"]:
        return "None of them is like that."
    if found["caller"]["origin"] == "owner":
        return 'Nothing is remembered yet. `vade remember "…"` keeps the first thing.'
    if project is None:
        return "Nothing tells who asks, so only general memories reach here, and there are none. See `vade whoami`."
    return f'No memory is scoped to reach "{project}". `vade whoami` shows how that was decided.'


def _print_memory(memory: Mapping[str, Any]) -> None:
    marks = [name for name in ("pinned", "superseded", "private") if memory.get(name)]
    output.say(output.one_line(" ".join([memory["title"] or "(untitled)", *(f"[{mark}]" for mark in marks)])))
    output.say(f"  {output.one_line(memory['path'])}")
    output.say(f"  {output.one_line(declared(memory))}")
    if memory.get("why"):
        output.say(f"  why: {output.one_line(memory['why'])}")


def _print_forgotten(found: Sequence[Any]) -> None:
    if as_json():
        output.print_json({"forgotten": [entry.as_json() for entry in found]})
        return
    for entry in found:
        output.say(f"{output.one_line(entry.title)}\n  {output.one_line(entry.path)}\n  until {entry.until[:10]}")
    if not found:
        output.say("Nothing was forgotten in the last 30 days.")


@memories.command()
@click.argument("memory")
@json_option
def show(memory: str) -> None:
    """Print one memory: what it declares, what it says, and what it was promoted to."""
    app = open_app()
    found = app.memories.show(memory, standing(app))
    if as_json():
        output.print_json(found)
        return
    _print_memory(found)
    for name in ("superseded_by", "tags"):
        if found[name]:
            output.say(f"  {name.replace('_', ' ')}: {output.one_line('; '.join(found[name]))}")
    if found.get("promotion"):
        output.say(f"  {output.one_line(found['promotion_told'])}")
    output.say()
    output.say(found["content"])


@memories.command()
@click.argument("memory")
@json_option
def history(memory: str) -> None:
    """Show what was done to a memory, the oldest first."""
    app = open_app()
    changes = app.memories.history(memory, standing(app))
    if as_json():
        output.print_json({"changes": [change.as_json() for change in changes]})
        return
    for change in changes:
        reason = f": {change.reason}" if change.reason else ""
        output.say(output.one_line(f"{change.at[:19]}  {change.event} by {change.by}{reason}"))
    if not changes:
        output.say("No change of it is on record; it was written by hand, or before there was a history.")


@memories.command()
@click.argument("memory", nargs=-1, required=True)
@click.option("--reason", default="", help="Why.")
@click.option("--force", is_flag=True, help="Also where it is pinned.")
@json_option
def forget(memory: tuple[str, ...], reason: str, force: bool) -> None:
    """Move memories to the trash of the vault, from where they can be restored for 30 days."""
    app = open_app()
    who = standing(app, owner="forgets")
    done = [app.memories.forget(one, who, reason=reason, force=force) for one in memory]
    if as_json():
        output.print_json({"forgotten": [entry.as_json() for entry in done]})
        return
    for entry in done:
        output.say(
            f"Forgotten: {output.one_line(entry.path)}. `vade memories restore` brings it back until "
            f"{entry.until[:10]}."
        )


@memories.command()
@click.argument("memory")
@json_option
def restore(memory: str) -> None:
    """Bring a forgotten memory back to where it was."""
    app = open_app()
    found = app.memories.restore(memory, standing(app, owner="restores"))
    if as_json():
        output.print_json({"id": found.path, "path": found.path, "title": found.title})
    else:
        output.say(f"Restored: {output.one_line(found.path)}")


@memories.command()
@click.argument("memory")
@declaring
@click.option("--pinned/--not-pinned", default=None, help="Whether it is pinned.")
@click.option("--reason", required=True, help="Why it is changed; kept in its history.")
@click.option("--if-version", "version", metavar="V", help="Only if it is still this version, as `show --json` tells.")
def modify(memory: str, reason: str, version: str | None, allow_secret: bool, **said: Any) -> None:
    """Change what a memory says or declares. What it said before stays in its history."""
    app = open_app()
    who = standing(app, owner="changes")
    told = _given(said)
    if not told:
        raise UsageError("nothing is to be changed", hint="`vade memories modify --help` lists what can be.")
    known = app.memories.modify(memory, told, who, reason=reason, version=version, allow_secret=allow_secret)
    if as_json():
        output.print_json({"id": known.path, "path": known.path, "title": known.title, **known.facets()})
    else:
        output.say(f"Changed: {output.one_line(known.path)}")
        output.say(f"Scope: {output.one_line(_reach(known))}")


@memories.command()
@click.argument("memory")
@click.argument("note", metavar="NOTE[#Heading|#^id]")
@json_option
def promote(memory: str, note: str) -> None:
    """Mark a memory as copied into a note of the vault, from where it is served then.

    The memory stays: its reach decides who sees the note's words. Without a heading or an id nothing is served.
    """
    app = open_app()
    known, told = app.memories.promote(memory, note, standing(app, owner="promotes"))
    if as_json():
        output.print_json({"id": known.path, "path": known.path, "promoted": known.promoted, **told})
    else:
        output.say(f"Promoted: {output.one_line(known.path)}")
        output.say(output.one_line(told["told"]))


@memories.command()
@json_option
def inbox() -> None:
    """Show the memories that wait to be copied into a note of the vault, the oldest first."""
    app = open_app()
    found = app.memories.inbox(standing(app))
    if as_json():
        output.print_json(found)
        return
    for memory in found["memories"]:
        _print_memory(memory)
    if not found["memories"]:
        output.say("Nothing waits.")
        return
    waiting = "1 memory waits" if found["count"] == 1 else f"{found['count']:,} memories wait"
    output.say(f"{waiting}, the oldest for {output.count(found['oldest_days'], 'day')}.")


@memories.command()
@click.argument("folder", type=click.Path(path_type=Path))
@json_option
def export(folder: Path) -> None:
    """Copy the memories that reach here into a folder, as the Markdown files they are."""
    app = open_app()
    done = app.memories.export(folder, standing(app))
    if as_json():
        output.print_json(done.as_json())
    else:
        _print_exchanged(done, "Exported")


@memories.command("import")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--allow-secret", is_flag=True, help="Also what seems to hold a secret.")
@json_option
def import_memories(folder: Path, allow_secret: bool) -> int:
    """Copy memories from a folder into the home vault, byte for byte; what is there already stays."""
    app = open_app()
    done = app.memories.bring_in(folder, standing(app, owner="imports"), allow_secret=allow_secret)
    if as_json():
        output.print_json(done.as_json())
    else:
        _print_exchanged(done, "Imported")
    return output.REFUSED if done.refused else output.DONE


def _print_exchanged(done: Any, verb: str) -> None:
    output.say(f"{verb}: {output.count(len(done.written), 'memory', 'memories')}.")
    if done.there:
        output.say(f"There already: {len(done.there):,}.")
    for path, reason in done.refused:
        output.note(f"left out: {output.one_line(path)}: {output.one_line(reason)}")


@click.command("record-work")
@click.option("--title", required=True, help="Short and specific.")
@click.option("--summary", required=True, help="Two to four sentences: what, and why; - reads standard input.")
@click.option("--project", metavar="P", help="The project it belongs to; the repository this runs in if not set.")
@click.option("--change", "changes", multiple=True, help="One line for a file or a part: what changed, and why.")
@click.option("--decision", "decisions", multiple=True, help="A choice, and what was not chosen. Repeatable.")
@click.option("--learned", multiple=True, help="A surprise. Repeatable.")
@click.option("--verification", help="Tests and what they showed.")
@click.option("--open", "still_open", multiple=True, help="Something that is not done. Repeatable.")
@click.option("--informed-by", multiple=True, metavar="NOTE", help="A note that was read for it. Repeatable.")
@click.option("--folder", metavar="PATH", help="Where in the vault it goes; chosen by the project if not set.")
@click.option("--kind", type=click.Choice(["note", "decision"]), help="A decision has no date in its name.")
@click.option("--dry-run", is_flag=True, help="Show what would be written, and write nothing.")
@json_option
def record_work(project: str | None, still_open: tuple[str, ...], dry_run: bool, **said: Any) -> None:
    """Write down what was done, as a note of the vault where the project keeps such notes."""
    app = open_app()
    told = _given({**said, "open": still_open})
    if told.get("summary") == "-":
        told["summary"] = sys.stdin.read()
    done = app.memories.record_work(told, standing(app, project=project), dry_run=dry_run)
    if as_json():
        output.print_json(done.as_json())
        return
    output.say(f"{'Would be' if dry_run else 'Recorded'}: {output.one_line(done.path)}")
    output.say(f"Routing: {done.routing.replace('_', ' ')}")
    if dry_run:
        output.say()
        output.say(done.text.rstrip("\n"))
    elif not done.indexed:
        output.note("The index could not follow now: it may not be found yet. The next sync catches up.")


@click.command()
@json_option
def whoami() -> None:
    """Show who this call is for, how that was decided, and which memories that reaches."""
    app = open_app()
    told = app.memories.whoami(standing(app), decided=how_decided())
    if as_json():
        output.print_json(told)
        return
    who = told["caller"]
    output.say(f"Caller: {output.one_line(who['name'])}  ({output.one_line(who['decided'])})")
    output.say(f"Project: {output.one_line(who['project'] or 'none')}")
    output.say(f"Platforms: {output.one_line(', '.join(who['platforms']) or 'none declared')}")
    home = told["home_vault"]
    output.say(f"Home vault: {output.one_line(home['path'])}{'' if home['exists'] else '  (not made yet)'}")
    output.say(f"Memories that reach here: {told['memories']['reach']:,} of {told['memories']['total']:,}")
    if who["inside"]:
        output.note("This is the home vault itself: sessions here write notes, not memories.")
