"""Making vectors after a command that changed the text, and saying how far that got."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from vademecum.cli import output
from vademecum.embedding import NOT_INSTALLED
from vademecum.errors import ConfigError, ModelError, ModelMissing

if TYPE_CHECKING:
    from vademecum.app import Vademecum
    from vademecum.sources.vectors import EmbedReport

F = TypeVar("F", bound=Callable[..., Any])


def vectors_options(function: F) -> F:
    """Add --wait and --no-vectors to a command."""
    function = click.option("--no-vectors", is_flag=True, help="Index the text only.")(function)
    return click.option("--wait", is_flag=True, help="Make all vectors that are missing, however long it takes.")(
        function
    )


@dataclass(frozen=True, slots=True)
class Vectors:
    """How making vectors went: a report, or the error that stood in the way, or neither when it was not asked for."""

    report: EmbedReport | None = None
    error: ModelError | ConfigError | None = None

    def as_json(self) -> dict[str, Any]:
        """The outcome with the names that `--json` prints."""
        if self.report is not None:
            return self.report.as_json()
        if self.error is not None:
            return {"state": "unavailable", "reason": self.error.message, "hint": self.error.hint}
        return {"state": "skipped"}

    def tell(self) -> None:
        """Say it to a person; nothing when there was nothing to do."""
        if self.error is not None:
            output.note(f"note: no vectors were made: {self.error.message}")
            output.note(f"      {self.error.hint}")
        elif self.report is not None:
            _tell(self.report)


def make_vectors(app: Vademecum, *, wait: bool = False, skip: bool = False) -> Vectors:
    """Make the vectors that are missing: all of them with `wait`, else for as long as the setting allows."""
    if skip or app.settings.model == "none":
        return Vectors()
    budget_s = None if wait else float(app.settings.values["embedding.budget_s"])
    try:
        with output.progress_bar("Embedding") as progress:
            return Vectors(report=app.embed(budget_s=budget_s, progress=progress))
    except (ModelError, ConfigError) as exc:  # whatever is wrong with the model, the text was indexed
        if isinstance(exc, ModelMissing) and app.models.why_none() == NOT_INSTALLED:
            hint = "`vade models pull` fetches it; words are searched meanwhile."
            return Vectors(error=ModelMissing(NOT_INSTALLED, hint=hint))
        return Vectors(error=exc)


def _tell(report: EmbedReport) -> None:
    seconds = report.took_ms / 1000
    if report.embedded:
        output.say(f"Embedded {output.count(report.embedded, 'text')} by {report.model} in {seconds:.1f} s.")
    if report.state == "busy":
        output.note(f"note: {report.reason}; {output.count(report.pending, 'text')} without a vector yet.")
    elif report.pending:
        left = f"{output.count(report.pending, 'text')} without a vector yet"
        if report.embedded:
            left += f", about {_duration(report.pending * seconds / report.embedded)} of work"
        output.note(f"note: {left}: {report.reason or 'they were refused and will be tried again'}.")
        output.note(f"      {report.hint or 'Later commands go on; `vade sources sync --wait` makes them all.'}")
    if report.refused:
        output.note(f"note: {output.count(report.refused, 'text')} given up; `vade models status` says why.")
    if not report.answers:
        output.note("note: answers still come from the old vectors, until the new ones are complete.")


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
