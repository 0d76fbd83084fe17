"""The `vade` command: its groups, loaded only when used, its global options, and where every error ends."""

from __future__ import annotations

import errno
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import click

from vademecum import __version__, config
from vademecum.cli import output
from vademecum.errors import OutputFailed, UsageError, VadeError

F = TypeVar("F", bound=Callable[..., Any])


class Entry(NamedTuple):
    """A command of the top level: the module that holds it, and its line of help (which must not import it).

    `function` is what the module calls it, where Python keeps the command's own name for itself.
    """

    module: str
    help: str
    function: str = ""


COMMANDS: Final = {
    "completion": Entry("system", "Print the completion script for a shell."),
    "config": Entry("system", "Read and change settings."),
    "doctor": Entry("system", "Check everything and say what to do about what is wrong."),
    "eval": Entry("quality", "Measure how well notes are found, and compare settings.", function="evaluate"),
    "expand": Entry("graph", "Show what lies around a note: links both ways, outline, tags, folder."),
    "graph": Entry("graph", "Hand the shape of a vault to other tools."),
    "login": Entry("daemon", "Print a link that signs a browser in to the daemon."),
    "logs": Entry("daemon", "Show what the daemon logged."),
    "memories": Entry("memories", "Show and change what is remembered."),
    "models": Entry("models", "Show, fetch and choose the models that search by meaning."),
    "read": Entry("recall", "Print a note, or a heading, block or line range of it."),
    "recall": Entry("recall", "Ask, and get the notes and memories that answer, with a receipt."),
    "record-work": Entry("memories", "Write down what was done, as a note of the vault.", function="record_work"),
    "remember": Entry("memories", "Keep something for later sessions."),
    "restart": Entry("daemon", "Stop the daemon if one runs, and start it."),
    "search": Entry("recall", "Ask the notes only."),
    "serve": Entry("daemon", "Be the daemon, in this terminal."),
    "service": Entry("daemon", "Have the daemon started with your session."),
    "sources": Entry("sources", "Connect, index and remove folders of notes."),
    "start": Entry("daemon", "Start the daemon, which watches, serves and keeps the model warm."),
    "status": Entry("system", "Show what is connected and how it is."),
    "stop": Entry("daemon", "Stop the daemon."),
    "uninstall": Entry("daemon", "Take away service, daemon and state; vaults are left."),
    "vault": Entry("vault", "Choose the home vault, where memories are written."),
    "whoami": Entry("memories", "Show who this call is for, and which memories that reaches."),
}


class LazyGroup(click.Group):
    """A group whose commands are imported when they are run, and listed from a table."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in the order of the alphabet."""
        del ctx
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command of this name."""
        del ctx
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        command = getattr(importlib.import_module(f"vademecum.cli.{entry.module}"), entry.function or cmd_name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands of --help, without importing one of them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name].help) for name in self.list_commands(ctx)])


class FullHelpGroup(click.Group):
    """A group whose --help shows the first sentence of each command whole."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands with their first sentence."""
        del ctx
        rows = [(name, command.get_short_help_str(500)) for name, command in sorted(self.commands.items())]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


@dataclass(slots=True)
class Session:
    """What every command of one call shares."""

    as_owner: bool = False
    as_json: bool = False


def _show_version(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        output.say(f"vade {__version__}")
        ctx.exit()


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option("--as-owner", is_flag=True, help="Act as the owner of the notes, also where no terminal is attached.")
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_show_version, help="Print the version."
)
@click.pass_context
def vade(ctx: click.Context, as_owner: bool) -> None:
    """One memory for every coding agent: local, and kept in your own Markdown.

    Connect a vault with `vade sources add obsidian PATH`, then ask it with `vade recall "QUESTION"`.
    """
    ctx.obj = Session(as_owner=as_owner)


def json_option(function: F) -> F:
    """Add --json to a command."""

    def keep(ctx: click.Context, _: click.Parameter, value: bool) -> None:
        ctx.find_root().obj.as_json = value

    return click.option("--json", is_flag=True, expose_value=False, callback=keep, help="Print one JSON object.")(
        function
    )


def settings_anyway() -> config.Settings:
    """The settings, or the defaults and a note where they cannot be read: for commands that need none of them."""
    settings, problem = config.load_anyway()
    if problem:
        output.note(f"warning: {problem}; going on with the defaults.")
    return settings


def open_app(settings: config.Settings | None = None) -> Any:
    """The application on this call's state folder, closed when the command ends."""
    from vademecum.app import Vademecum
    from vademecum.embedding import Models

    settings = settings or config.load()
    app = Vademecum(settings, notify=output.note, models=Models(settings, ask_daemon=True))
    click.get_current_context().call_on_close(app.close)
    return app


def caller() -> Any:
    """Who runs this command: the owner at a terminal or by --as-owner, else the project whose folder it runs in."""
    from vademecum.access import ANONYMOUS, OWNER, caller_in

    if _is_owner():
        return OWNER
    folder = _working_folder()
    return ANONYMOUS if folder is None else caller_in(folder)


def standing(app: Any, *, project: str | None = None, owner: str = "") -> Any:
    """The caller, and for which project it speaks: that of the folder it runs in, or the one its owner names.

    `owner` is what only the owner does here. Raises UsageError, for anybody else, with that word.
    """
    who = app.home.standing(caller(), _working_folder())
    if (owner or project) and not who.caller.is_owner:
        told = f"only the owner {owner}" if owner else "--project is for the owner; who else asks is told by the folder"
        raise UsageError(told, hint="Run it at a terminal, or with `vade --as-owner` before the command.")
    return who._replace(project=project.lower()) if project else who


def how_decided() -> str:
    """How the caller was told, in words."""
    session: Session = click.get_current_context().find_root().obj
    if session.as_owner:
        return "--as-owner was given"
    if _is_owner():
        return "a terminal is attached, and no agent's variable is set"
    who = caller()
    if who.project is None:
        return "the folder this runs in names no project"
    return "told by the folder this runs in"


def _is_owner() -> bool:
    session: Session = click.get_current_context().find_root().obj
    at_terminal = sys.stdin is not None and sys.stdin.isatty() and not config.called_by_an_agent()
    return session.as_owner or at_terminal


def _working_folder() -> Path | None:
    try:
        return Path.cwd()
    except OSError:  # it is gone, and names nothing
        return None


def as_json() -> bool:
    """Whether --json was given."""
    session: Session = click.get_current_context().find_root().obj
    return session.as_json


def run(argv: Sequence[str]) -> int:
    """Run one call of the command line; never raises, never shows a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    wants_json = "--json" in argv
    try:
        status = vade.main(args=list(argv), prog_name="vade", standalone_mode=False)
        output.flush()
        return status if isinstance(status, int) else output.DONE
    except OutputFailed as exc:
        _discard_output()
        return output.print_error(exc, as_json=False)
    except VadeError as exc:
        return output.print_error(exc, as_json=wants_json)
    except click.ClickException as exc:
        return _usage_error(exc, as_json=wants_json)
    except OSError as exc:
        if exc.errno != errno.ENOSPC:  # click prints --help itself; our own files have their own errors
            return _unexpected(exc, as_json=wants_json)
        _discard_output()
        return output.print_error(OutputFailed(f"the output cannot be written: {exc.strerror}"), as_json=False)
    except (click.Abort, KeyboardInterrupt):
        output.note("Interrupted. What was finished stays; run it again to go on.")
        return output.INTERRUPTED
    except output.ReaderGone:  # whoever read our output has seen enough
        _discard_output()
        return output.DONE
    except SystemExit as exc:  # how completion ends
        return int(exc.code or 0)
    except Exception as exc:  # noqa: BLE001 - the last stop: a person gets a sentence, the log the place
        return _unexpected(exc, as_json=wants_json)


def _discard_output() -> None:
    """Keep Python from complaining once more when it flushes at exit."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _usage_error(exc: click.ClickException, *, as_json: bool) -> int:
    import difflib

    ctx = getattr(exc, "ctx", None)
    hint = (
        f"`{ctx.command_path} --help` shows how it is used." if ctx is not None else "`vade --help` shows the commands."
    )
    if isinstance(exc, click.NoSuchOption) and not exc.option_name.startswith("--"):
        hint = f'To leave a word out, quote the question: vade recall "redis -mobile". {hint}'
    elif isinstance(ctx, click.Context) and isinstance(ctx.command, click.Group) and "No such command" in exc.message:
        near = difflib.get_close_matches(exc.message.split("'")[1], ctx.command.list_commands(ctx), n=1)
        hint = f"Did you mean {near[0]}? {hint}" if near else hint
    if isinstance(exc, click.exceptions.NoArgsIsHelpError):
        output.note(exc.format_message())
        return output.USAGE
    return output.print_error(UsageError(exc.format_message(), hint=hint), as_json=as_json)


def _unexpected(exc: Exception, *, as_json: bool) -> int:
    noted = config.log_crash(exc)
    where = "it could not be logged" if noted is None else f"its place is noted in {noted}"
    return output.print_error(
        VadeError(f"something that should not happen did ({type(exc).__name__}); {where}", hint="Please report it."),
        as_json=as_json,
    )
