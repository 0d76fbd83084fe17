"""Reference pages written from the code, so that they cannot tell of a product that no longer exists.

python -m docs.generate            write the pages
python -m docs.generate --check    write nothing; exit 1 and name the pages that are stale
"""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import click
from docs.http import page as http_page
from docs.rows import with_rows

from vademecum.cli.main import vade
from vademecum.cli.output import EXIT_STATUS
from vademecum.config import AGENT_VARIABLES, SETTINGS, Setting
from vademecum.daemon.wire import STATUS
from vademecum.errors import VadeError
from vademecum.search import STOP_WORDS

FOLDER: Final = Path(__file__).parent
_WIDTH: Final = 96
_HEADER: Final = "<!-- Written by docs/generate.py. Change the code it reads, then run `make docs`. -->\n\n"

_VARIABLES: Final = (
    ("VADE_HOME", "The state folder. `~/.vademecum` when it is not set."),
    ("VADE_VAULT", "The home vault, over the setting `vault.path`. `OM_VAULT_PATH` is the same."),
    ("VADE_HOST", "The address the daemon listens on, over the setting `daemon.host`."),
    ("VADE_PORT", "The port the daemon listens on, over the setting `daemon.port`."),
    (
        "VADE_DIRECTORY_PICKER",
        "The program that lets a person choose a folder; it prints the path. `SIGNET_DIRECTORY_PICKER` is the same.",
    ),
    ("XDG_RUNTIME_DIR", "Where the daemon's sockets lie, in a folder of their own; `run/` when it is not set."),
    ("DISPLAY", "With it, or with `WAYLAND_DISPLAY`, the daemon can open a window to choose a folder in."),
    ("WAYLAND_DISPLAY", "As `DISPLAY`."),
    ("PATH", "Where the programs that open such a window are looked for."),
    ("HOME", "The home folder: where the state folder lies by default. Its own name never names a project."),
    ("TMPDIR", "A temporary folder. Its name never names a project."),
    (
        "ORT_DISABLE_TELEMETRY",
        "Set by vademecum itself, so that the library which runs models keeps no id of this machine.",
    ),
    ("_VADE_COMPLETE", "Set by the shell while it asks for completions; not for people."),
)
_STATUSES: Final = (
    ("0", "done, also when nothing was found"),
    ("1", "refused or failed; also `vade doctor` when something is wrong"),
    ("2", "the command line was not understood"),
    ("3", "what was named does not exist"),
    ("4", "not available now: a folder offline, the state busy or not writable"),
    ("130", "interrupted"),
)


def pages() -> dict[str, str]:
    """Every generated page: its path below docs/, and its text."""
    return {
        "architecture.md": with_rows((FOLDER / "architecture.md").read_text(encoding="utf-8")),
        "errors.md": _HEADER + _errors(),
        "http-api.md": _HEADER + http_page(),
        "reference/cli.md": _HEADER + _command_line(),
        "reference/settings.md": _HEADER + _settings(),
        "reference/stop-words.md": _HEADER + _stop_words(),
    }


def stale(folder: Path, wanted: Mapping[str, str]) -> list[str]:
    """The pages that are missing from a folder or differ from what the code says."""
    return [name for name, text in wanted.items() if _text_of(folder / name) != text]


def commands(group: click.Group, above: click.Context | None = None) -> Iterator[click.Context]:
    """A context for each command of a group, the group's own first; its `command_path` is what a person types."""
    context = _context(group, group.name or "", above)
    yield context
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            command.name = name
            yield from commands(command, context)
        elif command is not None and not command.hidden:
            yield _context(command, name, context)


def _context(command: click.Command, name: str, above: click.Context | None) -> click.Context:
    settings = {**command.context_settings, "max_content_width": _WIDTH, "terminal_width": _WIDTH}
    return click.Context(command, info_name=name, parent=above, **settings)


def _command_line() -> str:
    contexts = list(commands(vade))
    parts = [
        "# The command line\n",
        "What `--help` prints, for every command.\n",
        *(f"- [{c.command_path}](#{c.command_path.replace(' ', '-')})" for c in contexts),
        "",
        *(f"## {c.command_path}\n\n```text\n{c.get_help().rstrip()}\n```\n" for c in contexts),
    ]
    return "\n".join(parts)


def _settings() -> str:
    rows = [
        (f"`{s.name}`", f"`{_shown(s.default)}`", _kind(s), s.help.rstrip(".") + ".")
        for s in sorted(SETTINGS, key=lambda s: s.name)
    ]
    agents = [f"- `{name}`" for name in AGENT_VARIABLES]
    return "\n".join(
        (
            "# Settings\n",
            "They stand in `config.toml` in the state folder. `vade config set NAME VALUE` changes one and leaves the",
            "rest of the file as it is. An unknown name or a value of the wrong type is an error, never ignored.\n",
            *_table(("setting", "default", "takes", "what it does"), rows),
            "\n## Environment variables\n",
            *_table(("variable", "what it does"), [(f"`{name}`", text) for name, text in _VARIABLES]),
            "\nAny of these, when not empty, means that an agent typed the command and not the owner of the notes.",
            "It is then answered as the project of the folder it runs in; see",
            "[who is asking](../security.md#who-is-asking).\n",
            *agents,
            "",
        )
    )


def _errors() -> str:
    rows = [
        (f"`{e.code}`", str(EXIT_STATUS[e]), str(STATUS[e]), _first_sentence(e), e.default_hint.replace("|", "\\|"))
        for e in _tree(VadeError)
    ]
    return "\n".join(
        (
            "# Errors\n",
            "An error says on stderr what went wrong and, below that, what to do now. With `--json`, stdout holds",
            '`{"error": {"code", "message", "hint"}}`, and so does an answer of [the HTTP API](http-api.md).',
            "Codes are stable: scripts may rely on them.\n",
            "## Exit status\n",
            *_table(("status", "means"), _STATUSES),
            "\n## Codes\n",
            "Where the last column is empty, the hint depends on the case.\n",
            *_table(("code", "exit", "HTTP", "what it says", "hint"), rows),
            "",
        )
    )


def _stop_words() -> str:
    words = textwrap.fill(" ".join(sorted(STOP_WORDS)), _WIDTH)
    return "\n".join(
        (
            "# Stop words\n",
            f"These {len(STOP_WORDS)} words are left out of a question that holds others: they stand in nearly every",
            "English note and tell nothing. A question made of nothing else keeps them, and so does a phrase in",
            "quotes. [How a question is read](../recall.md#how-a-question-is-read) says more.\n",
            f"```text\n{words}\n```",
            "",
        )
    )


def _tree(root: type[VadeError]) -> Iterator[type[VadeError]]:
    yield root
    for below in root.__subclasses__():
        yield from _tree(below)


def _first_sentence(error: type[VadeError]) -> str:
    paragraph = " ".join((error.__doc__ or "").partition("\n\n")[0].split())
    return paragraph.replace("|", "\\|")


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    for row in (head, ["---"] * len(head), *rows):
        yield f"| {' | '.join(row)} |".replace("  |", " |")


def _shown(value: int | float | bool | str) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _kind(setting: Setting) -> str:
    """What the setting takes, in a reader's words."""
    if setting.choices:
        return " or ".join(f"`{choice}`" for choice in setting.choices)
    if type(setting.default) in (bool, str):
        return "true or false" if type(setting.default) is bool else "text"
    kind = "whole number" if type(setting.default) is int else "number"
    return f"{kind}, {setting.least:g} to {setting.most:,g}"


def _text_of(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.is_file() else None


def main(arguments: list[str]) -> int:
    """Write the pages, or with --check name the stale ones; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m docs.generate", description="Write the reference pages.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when a page is stale")
    check = parser.parse_args(arguments).check
    wanted = pages()
    outdated = stale(FOLDER, wanted)
    for name in outdated:
        if check:
            sys.stderr.write(f"docs/{name} is stale; `make docs` writes it again\n")
            continue
        path = FOLDER / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(wanted[name], encoding="utf-8")
        sys.stdout.write(f"wrote docs/{name}\n")
    return 1 if check and outdated else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
