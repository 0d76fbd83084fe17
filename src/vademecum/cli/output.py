"""Printing for people and for programs, and the exit status of every error.

A result goes to stdout, everything else to stderr. With --json, stdout holds one object and nothing else. Notes are
untrusted text: what is printed for people never carries control characters to their terminal.
"""

from __future__ import annotations

import json
import sys
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from vademecum import errors

if TYPE_CHECKING:
    from vademecum.sources.sync import Progress


class ReaderGone(Exception):
    """Nobody reads our output any more. Not an OSError, since click makes a failure of those."""


DONE, REFUSED, USAGE, NOT_FOUND, UNAVAILABLE, INTERRUPTED = 0, 1, 2, 3, 4, 130

EXIT_STATUS: Final[Mapping[type[errors.VadeError], int]] = {
    errors.VadeError: REFUSED,
    errors.UsageError: USAGE,
    errors.OutputFailed: REFUSED,
    errors.ConfigError: REFUSED,
    errors.StateError: UNAVAILABLE,
    errors.StateReadOnly: UNAVAILABLE,
    errors.StateBusy: UNAVAILABLE,
    errors.SourceError: REFUSED,
    errors.SourceNotFound: NOT_FOUND,
    errors.SourceAmbiguous: REFUSED,
    errors.SourceDisabled: REFUSED,
    errors.SourceRemoved: REFUSED,
    errors.SourceRootInvalid: REFUSED,
    errors.SourceRootNested: REFUSED,
    errors.SourceRootMissing: UNAVAILABLE,
    errors.SourcesFileCorrupt: REFUSED,
    errors.GlobInvalid: REFUSED,
    errors.NoteError: REFUSED,
    errors.NoteNotFound: NOT_FOUND,
    errors.NoteAmbiguous: REFUSED,
    errors.NoteWithheld: REFUSED,
    errors.NoteUnreadable: UNAVAILABLE,
    errors.NoteEvicted: UNAVAILABLE,
    errors.OutsideRoot: REFUSED,
    errors.VaultError: REFUSED,
    errors.VaultMissing: UNAVAILABLE,
    errors.VaultUnwritable: UNAVAILABLE,
    errors.SourceReadOnly: REFUSED,
    errors.SourceIsHome: REFUSED,
    errors.MemoryFailure: REFUSED,
    errors.MemoryNotFound: NOT_FOUND,
    errors.MemoryAmbiguous: REFUSED,
    errors.MemoryRefused: REFUSED,
    errors.MemoryTwin: REFUSED,
    errors.MemoryChanged: REFUSED,
    errors.MemoryPinned: REFUSED,
    errors.MemoryNotForgotten: NOT_FOUND,
    errors.MemoryForgotten: REFUSED,
    errors.IndexFailure: UNAVAILABLE,
    errors.IndexBusy: UNAVAILABLE,
    errors.IndexCorrupt: UNAVAILABLE,
    errors.IndexUnavailable: UNAVAILABLE,
    errors.ModelError: REFUSED,
    errors.ModelUnknown: NOT_FOUND,
    errors.ModelMissing: UNAVAILABLE,
    errors.ModelDamaged: REFUSED,
    errors.ModelPullFailed: UNAVAILABLE,
    errors.ConsentMissing: REFUSED,
    errors.EmbedderDown: UNAVAILABLE,
    errors.TextRefused: REFUSED,
    errors.DaemonError: REFUSED,
    errors.DaemonNotRunning: UNAVAILABLE,
    errors.DaemonRunning: REFUSED,
    errors.DaemonFailed: UNAVAILABLE,
    errors.PortTaken: UNAVAILABLE,
    errors.PickerError: REFUSED,
    errors.PickerMissing: UNAVAILABLE,
    errors.PickerBusy: REFUSED,
    errors.RequestError: REFUSED,
    errors.BadRequest: REFUSED,
    errors.HostRefused: REFUSED,
    errors.OriginRefused: REFUSED,
    errors.TokenMissing: REFUSED,
    errors.RouteNotFound: NOT_FOUND,
    errors.MethodRefused: REFUSED,
    errors.BodyTooLarge: REFUSED,
    errors.NotJson: REFUSED,
}


_TURNS: Final = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def clean(text: str) -> str:
    """Text as it may be shown on a terminal: line breaks and tabs stay; every other control character goes, and so
    does what turns the direction of reading, since it can make a line say something else than it does.
    """
    if text.isprintable():
        return text
    return "".join(c for c in text if c in "\n\t" or _harmless(c))


def _harmless(character: str) -> bool:
    return character not in _TURNS and unicodedata.category(character) not in ("Cc", "Cs", "Co")


def one_line(text: str) -> str:
    """Text on one line, control characters gone."""
    return " ".join(clean(text).split())


def say(text: str = "") -> None:
    """Print a line of the result."""
    _write(clean(text) + "\n")


def flush() -> None:
    """Hand over what is still buffered, so that a failure is ours to tell."""
    _write("", flush=True)


def _write(text: str, *, flush: bool = False) -> None:
    if sys.stdout is None:
        raise ReaderGone
    try:
        sys.stdout.write(text)
        if flush:
            sys.stdout.flush()
    except BrokenPipeError as exc:
        raise ReaderGone from exc
    except OSError as exc:
        raise errors.OutputFailed(f"the output cannot be written: {exc.strerror}") from exc


def write(text: str) -> None:
    """Print a piece of the result as it is, for another program."""
    _write(text)


def note(text: str) -> None:
    """Print a line that is no part of the result, if there is anywhere to print it."""
    if sys.stderr is not None:
        with suppress(OSError):
            sys.stderr.write(clean(text) + "\n")


def print_json(value: Mapping[str, Any]) -> None:
    """Print the one object of --json; what a terminal could obey is escaped, which changes nothing for a parser."""
    text = json.dumps(value, ensure_ascii=False, indent=2)
    if not text.isprintable():
        text = "".join(c if c == "\n" or _harmless(c) else f"\\u{ord(c):04x}" for c in text)
    _write(text + "\n")


def print_error(exc: errors.VadeError, *, as_json: bool) -> int:
    """Say what went wrong and what to do now; the exit status."""
    if as_json and not isinstance(exc, errors.OutputFailed):
        print_json({"error": {"code": exc.code, "message": exc.message, "hint": exc.hint}})
    note(f"error: {exc.message}")
    if exc.hint:
        note(f"       {exc.hint}")
    return EXIT_STATUS[type(exc)]


def table(rows: Sequence[Sequence[str]]) -> None:
    """Print rows in aligned columns."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        say("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def count(number: int, noun: str, nouns: str = "") -> str:
    """A number with its noun: "1 note", "1,204 notes"; `nouns` is the plural where an s does not make it."""
    return f"{number:,} {noun if number == 1 else nouns or f'{noun}s'}"


def by_reason(reasons: Mapping[str, int]) -> str:
    """Counts by reason in words: "3 empty, 1 too large"."""
    return ", ".join(f"{number:,} {reason.replace('_', ' ')}" for reason, number in sorted(reasons.items()))


@contextmanager
def progress_bar(what: str) -> Iterator[Progress | None]:
    """A progress bar on a terminal; None where there is none to draw on."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total, _: bar.update(task, completed=done, total=total)
