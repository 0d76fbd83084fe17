"""`vade status`, `doctor`, `config` and `completion`: the product about itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from vademecum import __version__
from vademecum import config as settings_of
from vademecum.cli import output
from vademecum.cli.main import FullHelpGroup, as_json, json_option, open_app, settings_anyway, vade
from vademecum.doctor import Check, diagnosis, examine, unlisted_sources
from vademecum.embedding import check_name
from vademecum.errors import ConfigError

if TYPE_CHECKING:
    from vademecum.app import Vademecum
    from vademecum.index import VectorSet


@click.command()
@json_option
def status() -> None:
    """Show what is connected and how it is, and whether a daemon runs."""
    from vademecum.cli.daemon import as_entry
    from vademecum.daemon import control

    app = open_app(settings_anyway())
    daemon = control.known(app.settings)
    described = [app.describe(source) for source in app.registry.all()]
    path = app.settings.index_file
    size = path.stat().st_size if path.exists() else 0
    answering = next((s for s in app.vector_sets() if s.answers), None) if path.exists() else None
    meaning = _meaning(app, answering)
    unlisted = unlisted_sources(app)
    built = [s for s in app.vector_sets() if not s.answers] if path.exists() else []
    if as_json():
        output.print_json(
            {
                "version": __version__,
                "home": str(app.settings.home),
                "daemon": None if daemon is None else as_entry(daemon),
                "index": {"file": str(path), "bytes": size, "documents": sum(s["documents"] for s in described)},
                "lanes": {"words": "ok", "meaning": meaning.partition(" ")[0]},
                "vectors": None
                if answering is None
                else {"model": answering.name, "have": answering.have, "pending": answering.missing},
                "unlisted": unlisted,
                "sources": described,
            }
        )
        return
    output.say(f"vade {__version__}, state in {app.settings.home}")
    output.say(
        "No daemon runs: nothing is watched; `vade start` starts one."
        if daemon is None
        else f"Daemon: process {daemon.pid}, {daemon.url}"
    )
    notes = output.count(sum(s["documents"] for s in described), "note")
    output.say(f"Index: {notes}, {size:,} bytes. Words lane ok; meaning lane {meaning}.")
    for found in built:
        output.say(f"Vectors of {found.name} are being made: {found.have:,} there, {found.missing:,} to go.")
    for entry in described:
        state = entry["state"] if entry["enabled"] else "disabled"
        output.say(f"  {output.one_line(entry['name'])}: {output.count(entry['documents'], 'note')}, {state}")
    if unlisted:
        output.say(f"A removal is unfinished: the index still holds {', '.join(unlisted)}. `vade doctor` says more.")
    if not described:
        output.say("No source is connected. `vade sources add obsidian PATH` connects a vault.")


def _meaning(app: Vademecum, answering: VectorSet | None) -> str:
    """The state of the meaning lane, one word of which is its name for programs, and what is to say of it."""
    if app.settings.model == "none":
        return "off (switched off)"
    if answering is None or not answering.have:
        return f"off ({app.models.why_none() or 'nothing is embedded yet'})"
    told = f"{answering.name}, {output.count(answering.have, 'vector')}"
    if answering.missing:
        return f"degraded ({told}, {answering.missing:,} missing)"
    return f"ok ({told})"


@click.command()
@click.option("--attack", is_flag=True, help="Attack the running daemon, and show what it refused.")
@json_option
def doctor(attack: bool) -> int:
    """Check everything and say what to do about what is wrong. Exits 1 when something is."""
    try:
        checks = _attacked() if attack else examine(open_app())
    except ConfigError as exc:
        checks = [Check("settings", False, exc.message, exc.hint)]
    well = all(check.ok for check in checks)
    if as_json():
        output.print_json(diagnosis(checks))
    else:
        for check in checks:
            output.say(
                f"{'ok  ' if check.ok else 'BAD '}  {output.one_line(check.name)}: {output.one_line(check.detail)}"
            )
            if not check.ok and check.remedy:
                output.say(f"      {check.remedy}")
    return output.DONE if well else output.REFUSED


def _attacked() -> list[Check]:
    from vademecum.daemon import control
    from vademecum.daemon.attack import attacks
    from vademecum.errors import DaemonFailed, DaemonNotRunning

    settings = settings_anyway()
    found = control.known(settings)
    if found is None:
        raise DaemonNotRunning("no daemon is running that could be attacked")
    path = settings.run_dir / "token"
    try:
        token = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as exc:
        raise DaemonFailed(f"{path} cannot be read", hint="`vade restart` makes it anew.") from exc
    return [
        Check(outcome.name, outcome.refused, outcome.detail, "Stop the daemon and report this.")
        for outcome in attacks(found.port, token, host=found.host)
    ]


@click.group(cls=FullHelpGroup)
def config() -> None:
    """Read and change settings."""


@config.command()
@click.argument("name")
@json_option
def get(name: str) -> None:
    """Print the value of a setting."""
    which = settings_of.setting(name)
    value = settings_of.load().values[which.name]
    if as_json():
        output.print_json({"name": which.name, "value": value, "default": which.default})
    else:
        output.say(_shown(value))


@config.command(name="set")
@click.argument("name")
@click.argument("value")
@json_option
def set_value(name: str, value: str) -> None:
    """Change a setting."""
    which = settings_of.setting(name)
    parsed = settings_of.parse_value(which, value)
    if which.name == "embedding.model":
        check_name(str(parsed))
    settings_of.write_value(settings_of.load(), which, parsed)
    if as_json():
        output.print_json({"name": which.name, "value": parsed, "default": which.default})
    else:
        output.say(f"{which.name} = {_shown(parsed)}")


@config.command(name="list")
@json_option
def list_settings() -> None:
    """List every setting with its value and what it does."""
    values = settings_of.load().values
    if as_json():
        output.print_json(
            {
                "settings": [
                    {"name": s.name, "value": values[s.name], "default": s.default, "help": s.help}
                    for s in settings_of.SETTINGS
                ]
            }
        )
        return
    output.table([(s.name, _shown(values[s.name]), s.help) for s in settings_of.SETTINGS])


@config.command()
@json_option
def path() -> None:
    """Print where the settings file lies, whether it exists yet or not."""
    file = settings_of.state_home() / "config.toml"
    if as_json():
        output.print_json({"path": str(file), "exists": file.exists()})
    else:
        output.say(str(file))


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script for a shell.

    For bash, put this into ~/.bashrc:  eval "$(vade completion bash)"
    """
    from click.shell_completion import get_completion_class

    script = get_completion_class(shell)
    assert script is not None
    output.say(script(vade, {}, "vade", "_VADE_COMPLETE").source())


def _shown(value: int | float | bool | str) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
