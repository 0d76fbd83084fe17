"""`vade vault`: which vault is the home vault, where memories are written."""

from __future__ import annotations

from typing import Any

import click

from vademecum import config
from vademecum.cli import output
from vademecum.cli.main import FullHelpGroup, as_json, json_option, open_app


@click.group(cls=FullHelpGroup)
def vault() -> None:
    """Choose the home vault: the one vault where memories are written."""


@vault.command()
@click.argument("path")
@json_option
def use(path: str) -> None:
    """Make a vault the home vault, and connect it as a source where it is none yet.

    Any folder of Markdown will do. Nothing in it is changed before the first memory is written.
    """
    from vademecum.sources.registry import check_root

    app = open_app()
    root = check_root(path, app.settings)
    source = next((known for known in app.registry.all() if known.root == root), None) or app.home.connect(root)
    config.write_value(app.settings, config.setting("vault.path"), str(root))
    app.close()
    app = open_app()
    with output.progress_bar(source.name) as progress:
        app.sync(source, progress=progress)
    _print(app, source)


@vault.command()
@json_option
def show() -> None:
    """Show the home vault, what it serves, and what is remembered in it."""
    app = open_app()
    _print(app, app.home.source())


@vault.command()
@json_option
def unset() -> None:
    """Choose no vault any more: memories go to vault/ in the state folder again. No file is touched."""
    app = open_app()
    before = app.home.root
    config.write_value(app.settings, config.setting("vault.path"), "")
    if as_json():
        output.print_json({"was": str(before), "path": str(app.settings.home / "vault")})
        return
    output.say(f"{output.one_line(str(before))} is the home vault no longer; it stays connected as a source.")
    output.say(f"Memories are written to {output.one_line(str(app.settings.home / 'vault'))} from now on.")


def _print(app: Any, source: Any) -> None:
    told = app.home.as_json()
    if as_json():
        output.print_json({**told, "source_id": None if source is None else source.id})
        return
    output.say(f"Home vault: {output.one_line(told['path'])}{'' if told['exists'] else '  (not made yet)'}")
    if source is not None:
        output.say(f"Source: {output.one_line(source.name)} ({source.id})")
    if told["context"]:
        output.say(f"It says of itself: {output.one_line(told['context'])}")
    output.say(f"Memories: {told['memories']:,} in {output.one_line(told['memory_root'])}/")
    for line in told["diagnostics"]:
        output.note(f"note: {output.one_line(line)}")
