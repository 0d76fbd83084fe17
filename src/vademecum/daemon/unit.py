"""The daemon as a service of the user's session: a unit of systemd, or an agent of launchd.

Shaped against a service that starts something else than what was installed: the interpreter is the one that runs now,
by its path and not by a shim's, and every path is written so that systemd reads back the same bytes. Where the
session cannot be asked, as in a container, the file is written all the same and the person is told what to run.
"""

from __future__ import annotations

import hashlib
import os
import plistlib
import shlex
import subprocess
import sys
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from vademecum.config import Settings, given, replace_file
from vademecum.errors import StateError, StateReadOnly

Runner: TypeAlias = Callable[..., subprocess.CompletedProcess[bytes]]
"""What starts a program, as subprocess.run does."""

_WORDS: Final = ("-P", "-m", "vademecum", "serve")
_TIMEOUT_S: Final = 30.0
_NONE: Final[Mapping[str, str]] = MappingProxyType({})
# systemd refuses a program with one of the first three in its path, and reads a dollar there literally, elsewhere as a
# variable.
_ODD: Final = frozenset("\"'\\$")


class Installed(NamedTuple):
    """What installing did, in sentences, and whether the session runs the service now."""

    sentences: list[str]
    started: bool


def systemd_unit(settings: Settings, executable: str, variables: Mapping[str, str] = _NONE) -> str:
    """The unit that runs the daemon of this state folder, with these variables.

    Raises StateError for a path that no unit can hold.
    """
    environment = "\n".join(
        f"Environment={_quoted(f'{name}={_written(value)}')}"
        for name, value in {"VADE_HOME": str(settings.home), **variables}.items()
    )
    return f"""\
[Unit]
Description=vademecum, one local memory for every coding agent

[Service]
ExecStart={_exec_line(_written(executable))}
{environment}
Restart=on-failure
RestartSec=10

[Install]
WantedBy=default.target
"""


def launchd_plist(settings: Settings, executable: str, variables: Mapping[str, str] = _NONE) -> bytes:
    """The agent that runs the daemon of this state folder, with these variables.

    Raises StateError for a path that no agent can hold.
    """
    environment = {"VADE_HOME": str(settings.home), **variables}
    agent = {
        "Label": _label(settings),
        "ProgramArguments": [_written(executable), *_WORDS],
        "EnvironmentVariables": {name: _written(value) for name, value in environment.items()},
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
    }
    return plistlib.dumps(agent)


def installed(settings: Settings, *, system: str = sys.platform, home: Path | None = None) -> Path | None:
    """The file of the service of this state folder; None where there is none."""
    path = _file(settings, system, home)
    return path if os.path.lexists(path) else None


def install(
    settings: Settings, *, system: str = sys.platform, home: Path | None = None, run: Runner = subprocess.run
) -> Installed:
    """Write the service and start it, now and at every login. What the environment says of settings goes into it.

    One that is there already is written anew. Raises StateError, StateReadOnly.
    """
    path, mac = _file(settings, system, home), system == "darwin"
    again = os.path.lexists(path)
    variables = given()
    written = launchd_plist if mac else systemd_unit
    content = written(settings, sys.executable, variables)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise StateReadOnly(f"{path.parent} cannot be made: {exc.strerror}") from exc
    replace_file(path, content.encode() if isinstance(content, str) else content)
    if mac and again:
        _why_not(_bootout(settings), run)  # launchd takes no second one of a name; that none was loaded is no matter
    commands = [_bootstrap(path)] if mac else [_systemctl("daemon-reload"), _systemctl("enable", "--now", path.name)]
    failed = _failed(commands, run)
    done = f"{'launchd' if mac else 'systemd'} starts the daemon now and at every login."
    return Installed([f"Wrote {path}.", *(failed or [done])], not failed)


def uninstall(
    settings: Settings, *, system: str = sys.platform, home: Path | None = None, run: Runner = subprocess.run
) -> list[str]:
    """Stop the service and remove its file: sentences about what was done and is to do. Does it twice without harm.

    Raises StateReadOnly.
    """
    path, mac = _file(settings, system, home), system == "darwin"
    if not os.path.lexists(path):
        return ["No service of this state folder is installed; nothing was changed."]
    why = _why_not(_bootout(settings) if mac else _systemctl("disable", "--now", path.name), run)
    wanted = path.parent / "default.target.wants" / path.name
    try:
        path.unlink(missing_ok=True)
        if not mac:
            wanted.unlink(missing_ok=True)  # left behind where systemctl could not be asked
    except OSError as exc:
        raise StateReadOnly(f"{exc.filename} cannot be removed: {exc.strerror}") from exc
    if not mac:
        _why_not(_systemctl("daemon-reload"), run)
    if not why:
        return [f"Removed {path}.", "The daemon that it started has been stopped."]
    stop = _bootout(settings) if mac else _systemctl("stop", path.name)  # without its file nothing can be disabled
    told = f"Should its daemon still run: `{shlex.join(stop)}` in a session of your own stops it."
    return [f"Removed {path}.", f"{stop[0]} {why}.", told]


def _failed(commands: Sequence[Sequence[str]], run: Runner) -> list[str]:
    """Run the commands: why one failed and what the person has to run, or nothing where all worked."""
    for place, command in enumerate(commands):
        why = _why_not(command, run)
        if why:
            left = " and ".join(f"`{shlex.join(each)}`" for each in commands[place:])
            return [f"{command[0]} {why}.", f"Run {left} in a session of your own."]
    return []


def _why_not(command: Sequence[str], run: Runner) -> str:
    """Run a command: "" when it worked, else why not, to be put after its name."""
    try:
        done = run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_TIMEOUT_S, check=False)
    except FileNotFoundError:
        return "is not installed"
    except subprocess.TimeoutExpired:
        return f"did not answer within {_TIMEOUT_S:g} s"
    except OSError as exc:
        return f"cannot be run: {exc.strerror}"
    if done.returncode == 0:
        return ""
    said = (done.stderr or b"").decode("utf-8", "replace").split("\n")
    first = next((line.strip().rstrip(".") for line in said if line.strip()), "")
    return f"failed: {first[:300]}" if first else f"failed with status {done.returncode}"


def _systemctl(*words: str) -> list[str]:
    return ["systemctl", "--user", *words]


def _bootstrap(path: Path) -> list[str]:
    return ["launchctl", "bootstrap", f"gui/{os.getuid()}", str(path)]


def _bootout(settings: Settings) -> list[str]:
    return ["launchctl", "bootout", f"gui/{os.getuid()}/{_label(settings)}"]


def _file(settings: Settings, system: str, home: Path | None) -> Path:
    folder = _home_folder() if home is None else home
    if system == "darwin":
        return folder / "Library" / "LaunchAgents" / f"{_label(settings)}.plist"
    return folder / ".config" / "systemd" / "user" / f"vademecum-{_mark(settings)}.service"


def _home_folder() -> Path:
    folder = os.path.expanduser("~")
    if not os.path.isabs(folder) or os.environ.get("HOME") == "":  # an empty one would be taken for /
        raise StateError("the variable HOME names no folder, so no service can be written", hint="Set HOME.")
    return Path(folder)


def _label(settings: Settings) -> str:
    return f"local.vademecum.{_mark(settings)}"


def _mark(settings: Settings) -> str:
    """What tells the services of two state folders apart."""
    return hashlib.sha256(os.fsencode(settings.home)).hexdigest()[:8]


def _exec_line(executable: str) -> str:
    """The command with its words as systemd wants them quoted."""
    words = [executable, *_WORDS]
    if _ODD & set(executable):
        # As an argument of a shell, which only executes it, a path may hold anything.
        words = ["/bin/sh", "-c", 'exec "$0" "$@"', *words]
    program, *rest = words
    return " ".join([_quoted(program), *(_quoted(word.replace("$", "$$")) for word in rest)])


def _quoted(word: str) -> str:
    r"""One word by systemd's rules: in double quotes, with \ before a quote or a backslash, and % doubled."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"'


def _written(path: str) -> str:
    """The path, unless it holds what neither a unit nor an agent may. Raises StateError."""
    if any(unicodedata.category(c) in ("Cc", "Cs") for c in path):
        hint = "Rename the folder, or start the daemon with `vade start`."
        raise StateError(f"no service can name {path!r}: it holds control characters, or is no text", hint=hint)
    return path
