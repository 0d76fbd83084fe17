"""The seeds of a run, and how a failing case is told: its seed, how to run it again, the smallest that fails.

VADE_TEST_FUZZ names other seeds: a word begins a new series, and what a failure prints (`1-text/17`) runs that alone.
"""

import os
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from pprint import pformat
from typing import Final

SERIES: Final = os.environ.get("VADE_TEST_FUZZ", "1")
SHRINKING_S: Final = 60.0
_REPOSITORY: Final = Path(__file__).parents[2]


def seeds(kind: str, count: int, *, start: int = 0) -> Iterator[str]:
    """So many seeds of one kind, from the one numbered `start`; the one that is asked for, if one is."""
    if "/" in SERIES:
        yield from [SERIES] if SERIES.split("/")[-2].endswith(kind) else []
    else:
        yield from (f"{SERIES}-{kind}/{number}" for number in range(start, start + count))


def outcome(attempt: Callable[[], str | None]) -> str | None:
    """What an attempt says is broken; anything that it raises is a broken promise too."""
    try:
        return attempt()
    except Exception as exc:  # noqa: BLE001  (whatever a hostile file makes the product raise is the finding)
        at = traceback.extract_tb(exc.__traceback__)[-1]
        return f"crash at {Path(at.filename).name}:{at.lineno}: {type(exc).__name__}: {exc}"


def promise(problem: str | None) -> str:
    """Which promise a problem breaks."""
    return "" if problem is None else problem.partition(": ")[0]


def shrinking_ends() -> float:
    """When to stop making a case smaller."""
    return time.monotonic() + SHRINKING_S


def told(seed: str, problem: str, test: str, smallest: object) -> str:
    """A failure as a person needs it."""
    file = Path(test).resolve().relative_to(_REPOSITORY)
    return (
        f"{problem}\n\nSeed {seed}. Again: VADE_TEST_FUZZ={seed} .venv/bin/python -m pytest -m '' {file}\n"
        f"The smallest that fails in the same way:\n{pformat(smallest, width=110)}"
    )
