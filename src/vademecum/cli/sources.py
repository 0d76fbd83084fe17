"""`vade sources`: connect, index, change and remove folders of notes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import click

from vademecum import config
from vademecum.cli import output
from vademecum.cli.main import FullHelpGroup, as_json, json_option, open_app
from vademecum.cli.vectors import Vectors, make_vectors, vectors_options
from vademecum.errors import DaemonNotRunning, IndexFailure, SourceNotFound, VadeError
from vademecum.sources import CONNECTORS, Source
from vademecum.sources.sync import SyncReport

_DAEMON_S: Final = 120.0
_IS_ID: Final = re.compile("[a-z]+:[0-9a-f]{16}").fullmatch


def _complete_source(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    del ctx, param
    from vademecum.sources import Registry

    try:
        sources = Registry(config.load()).all()
    except VadeError:
        return []
    return [word for s in sources for word in (s.name, s.id) if word.startswith(incomplete)]


source_argument = click.argument("source_id", metavar="ID", shell_complete=_complete_source)
exclude_option = click.option(
    "--exclude", "exclude", multiple=True, metavar="GLOB", help="Leave these files out, e.g. 'private/**'. Repeatable."
)


@click.group(cls=FullHelpGroup)
def sources() -> None:
    """Connect, index and remove folders of notes.

    A source is read, never written. ID is a source's id, the beginning of it, or its name.
    """


@sources.command()
@click.argument("kind", metavar="obsidian|folder", type=click.Choice(list(CONNECTORS)))
@click.argument("path", metavar="PATH", type=click.Path(readable=False))
@click.option("--name", help="What to call it; the folder's name when not given.")
@exclude_option
@click.option("--dry-run", is_flag=True, help="Say what would be indexed, by file names alone; change nothing.")
@vectors_options
@json_option
def add(
    kind: str, path: str, name: str | None, exclude: tuple[str, ...], dry_run: bool, wait: bool, no_vectors: bool
) -> None:
    """Connect a folder and index it. A folder that is connected already is updated.

    Its words are findable at once; vectors follow, the newest notes first, for a minute at most.
    """
    app = open_app()
    if dry_run:
        _print_preview(app.preview(kind, path, exclude=exclude or None), path)
        return
    with output.progress_bar("Indexing") as progress:
        source, created, report = app.add(kind, path, name=name, exclude=exclude or None, progress=progress)
    if not as_json():
        output.say(f"{'Added' if created else 'Updated'} {source.name} ({source.id}): {_outcome(report)}")
    vectors = make_vectors(app, wait=wait, skip=no_vectors)
    if as_json():
        described = {"source": app.describe(source), "created": created, "sync": report.as_json()}
        output.print_json({**described, "vectors": vectors.as_json()})
        return
    vectors.tell()
    if kind == "folder" and (source.root / ".obsidian").is_dir():
        output.note(
            "This folder is an Obsidian vault. As such its own ignore list counts: "
            f"`vade sources remove {source.id}`, then `vade sources add obsidian`."
        )
    policy = app.details(source)["policy"]
    if policy is not None and policy["origin"] != "whole":
        served = ", ".join(policy["roots"]) or "nothing"
        output.note(f"note: its vault-manifest.json limits what is served to: {output.one_line(served)}")
    _print_diagnostics(report)


def _print_preview(preview: Any, path: str) -> None:
    if as_json():
        output.print_json(preview.as_json())
        return
    output.say(f"{path}: {output.count(preview.files, 'note')}, {preview.bytes:,} bytes would be indexed.")
    if preview.skipped:
        output.say(f"Not indexed: {output.by_reason(preview.skipped)}.")
    for name in preview.sample:
        output.say(f"  {name}")
    for line in preview.diagnostics:
        output.note(f"note: {line}")


@sources.command(name="list")
@json_option
def list_sources() -> None:
    """List the sources."""
    app = open_app()
    described = [app.describe(source) for source in app.registry.all()]
    if as_json():
        output.print_json({"sources": described})
    elif not described:
        output.say("No source is connected. `vade sources add obsidian PATH` connects a vault.")
    else:
        rows = [("NAME", "KIND", "NOTES", "STATE", "ID", "ROOT")]
        rows += [
            (
                output.one_line(s["name"]),
                s["kind"],
                f"{s['documents']:,}",
                s["state"] if s["enabled"] else "disabled",
                s["id"],
                output.one_line(s["root"]),
            )
            for s in described
        ]
        output.table(rows)


@sources.command()
@json_option
def status() -> None:
    """Show how each source is: notes, skipped files, and when it was last indexed."""
    app = open_app()
    described = [app.describe(source) for source in app.registry.all()]
    if as_json():
        output.print_json({"sources": described})
        return
    if not described:
        output.say("No source is connected. `vade sources add obsidian PATH` connects a vault.")
    for entry in described:
        _print_source(entry)


@sources.command()
@source_argument
@json_option
def show(source_id: str) -> None:
    """Show one source whole, with its skipped files and what was wrong with single notes."""
    app = open_app()
    details = app.details(app.registry.find(source_id))
    if as_json():
        output.print_json({"source": details})
        return
    _print_source(details)
    if details["graph"]:
        output.say("  graph: " + ", ".join(f"{number:,} {name}" for name, number in details["graph"].items()))
    for file in details["skipped_files"]:
        output.say(f"  not indexed: {output.one_line(file['path'])} ({file['reason'].replace('_', ' ')})")
    for warning in details["warnings"]:
        output.say(
            f"  warning: {output.one_line(warning['path'])}:{warning['line']}: {output.one_line(warning['message'])}"
        )
    for copy in details["conflict_copies"]:
        of = f" of {output.one_line(copy['original'])}" if copy["original"] else ""
        output.say(f"  warning: {output.one_line(copy['path'])}: looks like a sync tool's conflict copy{of}")


@sources.command()
@click.argument("source_id", metavar="[ID]", required=False, shell_complete=_complete_source)
@click.option(
    "--force", is_flag=True, help="Read every note, whatever its time and size say, and try refused texts again."
)
@click.option("--accept-loss", is_flag=True, help="Take out notes that are gone, even if nearly all are; needs an ID.")
@vectors_options
@json_option
def sync(source_id: str | None, force: bool, accept_loss: bool, wait: bool, no_vectors: bool) -> int:
    """Bring a source's index up to date; all enabled sources when no ID is given.

    Vectors that are missing are made afterwards, the newest notes first, for a minute at most.
    """
    if accept_loss and source_id is None:
        raise click.UsageError("--accept-loss needs the ID of the source that lost its notes")
    app = open_app()
    app.finish_removals()
    if source_id is None:
        chosen = [source for source in app.registry.all() if source.enabled]
    else:
        chosen = [app.registry.find(source_id)]
    synced: list[tuple[Source, SyncReport]] = []
    for source in chosen:
        with output.progress_bar(output.one_line(source.name)) as progress:
            synced.append((source, app.sync(source, force=force, accept_loss=accept_loss, progress=progress)))
    if not as_json():
        for source, report in synced:
            output.say(f"{source.name}: {_outcome(report)}")
            _print_diagnostics(report)
        if not synced:
            output.say("No source is connected and enabled, so there is nothing to sync.")
    vectors = make_vectors(app, wait=wait, skip=no_vectors or not synced)
    if as_json():
        reports = [{"source": app.describe(source), "sync": report.as_json()} for source, report in synced]
        whole = {"sources": reports} if source_id is None else reports[0]
        output.print_json({**whole, "vectors": vectors.as_json()})
    else:
        vectors.tell()
    return output.UNAVAILABLE if any(report.state == "unreachable" for _, report in synced) else output.DONE


@sources.command()
@source_argument
@json_option
def enable(source_id: str) -> None:
    """Switch a source on, so that it is scanned and searched, and bring it up to date."""
    app = open_app()
    source = app.registry.edit(source_id, enabled=True)
    report = app.sync(source)
    _print_change(app, source, f"Enabled {source.name}: {_outcome(report)}", make_vectors(app))


@sources.command()
@source_argument
@json_option
def disable(source_id: str) -> None:
    """Switch a source off: nothing of it is searched, and its index is kept."""
    app = open_app()
    source = app.registry.edit(source_id, enabled=False)
    _print_change(app, source, f"Disabled {source.name}. Its index is kept; `vade sources enable` brings it back.")


@sources.command()
@source_argument
@exclude_option
@click.option("--no-exclude", is_flag=True, help="Drop all of the globs that were given before.")
@json_option
def edit(source_id: str, exclude: tuple[str, ...], no_exclude: bool) -> None:
    """Replace a source's exclude globs. What becomes excluded leaves the index at once."""
    if bool(exclude) == no_exclude:
        raise click.UsageError("give --exclude GLOB, or --no-exclude")
    app = open_app()
    source = app.registry.edit(source_id, exclude=exclude)
    report = app.sync(source) if source.enabled else None
    text = f"Changed {source.name}: {_outcome(report) if report else 'it is disabled.'}"
    _print_change(app, source, text, make_vectors(app, skip=report is None))


@sources.command()
@source_argument
@click.argument("name", metavar="NAME")
@json_option
def rename(source_id: str, name: str) -> None:
    """Give a source another name. Its id stays."""
    app = open_app()
    old = app.registry.find(source_id)
    source = app.registry.edit(old.id, name=name)
    _print_change(app, source, f"Renamed {old.name} to {source.name}.")


@sources.command()
@source_argument
@json_option
def remove(source_id: str) -> int:
    """Disconnect a source and take every trace of it out of the index, with proof. No file is touched."""
    try:
        removal = _removed_by_the_daemon(source_id) or open_app().remove(source_id).as_json()
    except IndexFailure as exc:
        return _disconnect_alone(source_id, exc)
    proof = removal["proof"]
    if as_json():
        output.print_json(removal)
    else:
        name = source_id if removal["source"] is None else removal["source"]["name"]
        rows = removal["purged_rows"]
        gone = [output.count(rows[kind], kind.removesuffix("s")) for kind in ("documents", "chunks", "vectors")]
        gone[0] = output.count(rows["documents"], "note")
        gone = gone if rows["vectors"] else gone[:-1]
        output.say(f"Removed {name}: {', '.join(gone[:-1])} and {gone[-1]} left the index. No file was touched.")
        if proof["clean"] and not proof["passages"]:
            output.say("Proof: the index was rewritten and checked; what it held was too short to look for in bytes.")
        elif proof["clean"]:
            output.say(
                f"Proof: {output.count(proof['passages'], 'passage')} of it looked for in"
                f" {output.count(proof['files'], 'file')} ({proof['bytes']:,} bytes) of the state folder; none found."
            )
    _warn_of_residue(proof)
    return output.DONE if proof["clean"] else output.REFUSED


def _removed_by_the_daemon(wanted: str) -> Any:
    """What the daemon did; None where none runs or it does not answer, and the removal has to be done here.

    The id is told here, since a name may hold what no address can.
    """
    from vademecum.daemon import control
    from vademecum.sources import Registry

    settings = config.load()
    if control.running(settings) is None:
        return None
    try:
        source_id = Registry(settings).find(wanted).id
    except SourceNotFound:
        if not _IS_ID(wanted):  # rows of an interrupted removal may be left under an id
            return None
        source_id = wanted
    try:
        return control.call(settings, "DELETE", f"/api/sources/{source_id}", timeout_s=_DAEMON_S)
    except DaemonNotRunning as exc:
        output.note(f"warning: {exc.message}; the removal is done here.")
        return None


def _disconnect_alone(source_id: str, exc: IndexFailure) -> int:
    source = open_app().disconnect(source_id)
    output.note(f"warning: {exc.message}. Only the connection was removed: rows that were indexed were not purged.")
    output.note("         They are never recalled, and the next `vade sources sync` or daemon that can, purges them.")
    if as_json():
        output.print_json({"source": source.as_json(), "purged": 0, "pending": True, "files_modified": 0})
    else:
        output.say(f"Disconnected {source.name}. No file was touched.")
    return output.DONE


def _warn_of_residue(proof: Mapping[str, Any]) -> None:
    for path in dict.fromkeys(found["file"] for found in proof["residue"]):
        output.note(f"warning: passages of it are still in {path}")
    for problem in proof["problems"]:
        output.note(f"warning: {problem}")
    if proof["blocked_by"]:
        output.note(
            f"warning: the rows are gone, but {', '.join(proof['blocked_by'])} keeps old pages of the index alive."
        )
        output.note("         Close it, then run `vade sources sync`: it finishes the cleaning and proves it.")


sources.add_command(remove, "disconnect")


def _print_change(app: Any, source: Source, text: str, vectors: Vectors | None = None) -> None:
    if as_json():
        made = {} if vectors is None else {"vectors": vectors.as_json()}
        output.print_json({"source": app.describe(source), **made})
        return
    output.say(text)
    if vectors is not None:
        vectors.tell()


def _print_source(entry: dict[str, Any]) -> None:
    state = entry["state"] if entry["enabled"] else "disabled"
    output.say(f"{output.one_line(entry['name'])}  {state}")
    output.say(f"  {entry['kind']}, read-only, {output.one_line(entry['root'])}")
    output.say(f"  {entry['id']}")
    indexed = entry["last_indexed_at"] or "never"
    output.say(
        f"  {output.count(entry['documents'], 'note')}, {output.count(entry['chunks'], 'chunk')}, indexed {indexed}"
    )
    if entry["stale_since"]:
        output.say(f"  stale since {entry['stale_since']}")
    if entry["skipped"]["count"]:
        skipped = entry["skipped"]
        output.say(f"  {output.count(skipped['count'], 'file')} not indexed: {output.by_reason(skipped['by_reason'])}")
    for line in entry["diagnostics"]:
        output.say(f"  note: {output.one_line(line)}")


def _outcome(report: SyncReport) -> str:
    if report.state == "unreachable":
        return f"unreachable; {output.count(report.documents, 'note')} of the last scan kept, and answers say so."
    changes = f"{report.added:,} added, {report.updated:,} updated, {report.removed:,} removed"
    text = f"{output.count(report.documents, 'note')} indexed ({changes}) in {report.took_ms / 1000:.1f} s."
    if report.skipped:
        text += f" {output.count(report.skipped.total(), 'file')} not indexed: {output.by_reason(report.skipped)}."
    return text


def _print_diagnostics(report: SyncReport) -> None:
    for line in report.diagnostics:
        output.note(f"note: {output.one_line(line)}")
    if report.warnings:
        output.note(
            f"note: {output.count(report.warnings, 'note')} with something that could not be read as it was meant;"
            " `vade sources show` lists them."
        )
