"""What was done to memories, one line for each change, in the vault itself, so that it outlives every index.

The lines are never rewritten. A memory that a person renamed in an editor is found again by what it held.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from vademecum.errors import VaultUnwritable
from vademecum.vault import write

Event = Literal["created", "modified", "superseded", "corroborated", "promoted", "forgotten", "restored", "imported"]
STATE: Final = ".vade"
_FOLDER: Final = f"{STATE}/history"
_IGNORED: Final = "state/\nbackups/\n"


@dataclass(frozen=True, slots=True)
class Change:
    """One change. `before` and `after` are whole files, "" where there was none or it lies elsewhere.

    `held` is the SHA-256 of the file after the change, `by` who made it, `kept` where a forgotten file lies.
    """

    at: str
    event: Event
    path: str
    title: str
    by: str
    held: str
    reason: str = ""
    before: str = ""
    after: str = ""
    kept: str = ""

    def as_json(self) -> dict[str, Any]:
        """The change as it stands in its line."""
        told = {name: getattr(self, name) for name in self.__slots__}
        return {name: value for name, value in told.items() if value != ""}


def content_id(text: str) -> str:
    """What a memory's file holds, as one word: the version that a change may be tied to."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def note_changes(root: Path, changes: Iterable[Change]) -> None:
    """Add lines to the history of a vault. Raises VaultUnwritable, OutsideRoot."""
    by_month: dict[str, bytes] = {}
    for change in changes:
        line = json.dumps(change.as_json(), ensure_ascii=False).encode("utf-8", "replace") + b"\n"
        by_month[change.at[:7]] = by_month.get(change.at[:7], b"") + line
    for month, lines in by_month.items():
        _prepare(root)
        write.append(root, f"{_FOLDER}/{month}.jsonl", lines)


def all_changes(root: Path) -> list[Change]:
    """Every change, the oldest first. A line that cannot be read is left out."""
    changes: list[Change] = []
    try:
        names = sorted(name for name in os.listdir(root / _FOLDER) if name.endswith(".jsonl"))
    except OSError:
        return []
    for name in names:
        changes += _lines_of(root / _FOLDER / name)
    return changes


def changes_of(path: str, held: str, changes: Iterable[Change]) -> list[Change]:
    """The changes of one memory, the oldest first: of its path, and of whatever once held what it holds now."""
    listed = list(changes)
    names, contents = {path}, {held} - {""}
    while True:
        found = [c for c in listed if c.path in names or (c.held and c.held in contents)]
        more = {c.path for c in found} | {path}
        if more == names:
            return found
        names = more


def _prepare(root: Path) -> None:
    """Make the state folder of a vault, with what git is not to keep of it."""
    if not os.path.lexists(root / STATE / ".gitignore"):
        try:
            write.claim(root, STATE, _IGNORED, lambda _: ".gitignore", most=1)
        except VaultUnwritable:  # another process was first
            if not os.path.lexists(root / STATE / ".gitignore"):
                raise


def _lines_of(file: Path) -> Iterator[Change]:
    try:
        lines = file.read_bytes().split(b"\n")
    except OSError:
        return
    for line in lines:
        try:
            said = json.loads(line)
            yield Change(**{name: str(said.get(name, "")) for name in Change.__slots__})  # type: ignore[arg-type]
        except (ValueError, AttributeError, RecursionError):
            continue
