"""`vade start`, `stop`, `restart`, `serve`, `logs`, `login`, `service` and `uninstall`: the long-lived half."""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

import click

from vademecum import config
from vademecum.cli import output
from vademecum.cli.main import FullHelpGroup, as_json, json_option, settings_anyway
from vademecum.config import Settings
from vademecum.daemon import control
from vademecum.daemon.control import Running
from vademecum.errors import DaemonFailed, DaemonNotRunning, OutputFailed, UsageError

_LAST_LINES = 50
_LOOK_S = 0.3


@click.command()
@json_option
def start() -> None:
    """Start the daemon, which watches the sources, serves HTTP and keeps the model warm."""
    _say_started(*control.start(config.load()))


def _say_started(found: Running, new: bool) -> None:
    if as_json():
        output.print_json({"started": new, "daemon": as_entry(found)})
    else:
        output.say(f"{'Started' if new else 'Running already'}: process {found.pid}, {found.url}")


def as_entry(found: Running) -> dict[str, Any]:
    """A daemon with the names that `--json` prints."""
    return {
        "pid": found.pid,
        "url": found.url,
        "instance": found.instance,
        "version": found.version,
        "protocol": found.protocol,
        "uptime_s": round(time.time() - found.since, 1),
    }


@click.command()
@json_option
def stop() -> None:
    """Stop the daemon, and wait until it is gone."""
    found = control.stop(settings_anyway())
    if as_json():
        output.print_json({"stopped": found is not None, "daemon": None if found is None else as_entry(found)})
    else:
        output.say("No daemon was running." if found is None else f"Stopped process {found.pid}.")


@click.command()
@json_option
def restart() -> None:
    """Stop the daemon if one runs, and start it."""
    settings = config.load()
    control.stop(settings)
    _say_started(*control.start(settings))


@click.command()
def serve() -> None:
    """Be the daemon, in this terminal, until it is interrupted."""
    from vademecum.daemon.serve import serve as be_the_daemon

    be_the_daemon(config.load(), tell=_say_serving)


def _say_serving(found: Running) -> None:
    with suppress(output.ReaderGone, OutputFailed, OSError):  # whoever reads it or not, the daemon serves
        output.say(f"Serving: process {found.pid}, {found.url}. Ctrl-C ends it.")
        output.flush()


@click.command()
@click.option("-n", "lines", type=click.IntRange(0, 100_000), default=_LAST_LINES, show_default=True, help="Lines.")
@click.option("-f", "--follow", is_flag=True, help="Go on with what comes, until interrupted.")
def logs(lines: int, follow: bool) -> None:
    """Show what the daemon logged: ids and codes, never the text or path of a note."""
    path = control.log_file(settings_anyway())
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in file.read().splitlines()[-lines or sys.maxsize :]:
                output.say(line)
            while follow:
                _follow(path, file)
    except FileNotFoundError:
        output.note(f"The daemon has logged nothing yet; {path} would hold it.")


def _follow(path: Path, file: TextIO) -> None:
    output.flush()
    text = file.read()
    for line in text.splitlines():
        output.say(line)
    if not text:
        time.sleep(_LOOK_S)
        # The daemon moves a log aside when it is long.
        if os.fstat(file.fileno()).st_ino != path.stat().st_ino:
            raise DaemonFailed(f"{path} was begun anew", hint="Run `vade logs -f` again.")


@click.command()
@json_option
def login() -> None:
    """Print a link that signs a browser in to the daemon, once, within a minute."""
    answer = control.call(_running(), "POST", "/api/login-link", {})
    if as_json():
        output.print_json(answer)
    else:
        output.say(answer["url"])


def _running() -> Settings:
    settings = settings_anyway()
    if control.known(settings) is None:
        raise DaemonNotRunning("no daemon is running")
    return settings


@click.group(cls=FullHelpGroup)
def service() -> None:
    """Have the daemon started with your session: a systemd user unit, or a launchd agent."""


@service.command(name="install")
@json_option
def install_unit() -> int:
    """Install and start the unit. Only files of yours are written. Exits 1 when it is written but was not started."""
    import vademecum.daemon.unit as unit

    settings = config.load()
    config.prepare(settings)
    done = unit.install(settings)
    _say_all(done.sentences)
    return output.DONE if done.started else output.REFUSED


@service.command(name="uninstall")
@json_option
def uninstall_unit() -> None:
    """Stop the unit and take it away."""
    import vademecum.daemon.unit as unit

    _say_all(unit.uninstall(settings_anyway()))


def _say_all(sentences: list[str]) -> None:
    if as_json():
        output.print_json({"done": sentences})
        return
    for sentence in sentences:
        output.say(sentence)


@click.command()
@click.option("--yes", is_flag=True, help="Do not ask first.")
@json_option
def uninstall(yes: bool) -> None:
    """Take away the service, the daemon and all state. Vaults and notes are left, and the program itself."""
    import vademecum.daemon.unit as unit
    from vademecum.daemon.leaving import check_is_state

    settings = settings_anyway()
    if settings.home.exists():
        check_is_state(settings)
    if not yes:
        if sys.stdin is None or not sys.stdin.isatty():
            raise UsageError("uninstall deletes the index and all settings", hint="Give --yes to agree.")
        click.confirm(f"Delete the index, models and settings in {settings.home}?", abort=True, err=True)
    control.known(settings)  # a daemon that cannot be told would not be stopped either, and nothing has been done yet
    done = unit.uninstall(settings)
    stopped = control.stop(settings)
    if stopped is not None:
        done.append(f"Stopped the daemon, process {stopped.pid}.")
    _say_all([*done, *_delete_state(settings)])


def _delete_state(settings: Settings) -> list[str]:
    """Delete what is ours in the state folder; what was done and what is left, in sentences."""
    from vademecum.daemon.leaving import delete

    vault = settings.home_vault
    kept = [f"Left: the home vault {vault}, with the memories in it."] if vault.exists() else []
    if not settings.home.exists():
        return [f"There was no state in {settings.home}.", *kept]
    left = [f"Left: {path}" for path in delete(settings).left if path != vault]
    return [
        f"Deleted the state in {settings.home}. The folders that were connected were not touched.",
        *kept,
        *left,
    ]
