"""Recognising the copies that sync tools leave when one note was changed in two places.

Such a copy is a note of its own: which of the two is right, only their owner knows. The failure it is shaped against
is the opposite one, a note taken for a copy because its name sounds like one: a name counts only in the exact form
that a tool writes, with its date, and where there is none, only beside the note that it is a copy of.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from typing import Final, NamedTuple

_DAY: Final = r"\d{4}-\d\d-\d\d"
# By what each tool puts between the name and the suffix.
_DATED: Final = re.compile(
    r"(?P<stem>.+?)(?:"
    r"\.sync-conflict-\d{8}-\d{6}(?:-[A-Z2-7]{7})?"  # Syncthing
    rf"| \((?:[^()]+['’]s )?conflicted copy {_DAY}(?: \(?\d{{1,3}}\)?)?\)(?: \(\d{{1,3}}\))?"  # Dropbox
    rf"| \(conflicted copy (?:[^()]+ )?{_DAY} \d{{6}}\)"  # Nextcloud, ownCloud
    r"|_conflict[-_](?:[^()/]+-)?\d{8}-\d{6}"  # ownCloud before 2.5
    r"| \(conflicted copy (?:[^()]+ )?\d{12}\)"  # Obsidian Sync
    rf"| \(SFConflict [^()]+ {_DAY}-\d\d-\d\d-\d\d\)"  # Seafile
    r"|_[^_/]+_[A-Z][a-z]{2}-\d\d-\d{4,6}-\d{4}_Conflict"  # Synology
    r")(?P<suffix>\.[^./]+)",
    re.IGNORECASE,
).fullmatch
_UNDATED: Final = re.compile(
    r"(?P<stem>.+?)(?:"
    r"(?:\.Conflict\d{0,3})+"  # Resilio
    r"|-(?:DESKTOP|LAPTOP)-[A-Z0-9]{7,8}(?:-\d{1,3})?"  # OneDrive, on a computer that has the name it came with
    r"| \((?:Case|Unicode Encoding|Selective Sync) Conflict(?: \d{1,3})?\)"  # Dropbox
    r")(?P<suffix>\.[^./]+)"
).fullmatch
_MAY_BE: Final = re.compile("conflict|DESKTOP-|LAPTOP-", re.IGNORECASE).search


class ConflictCopy(NamedTuple):
    """A note that looks like a sync tool's copy of another; `original` is None when that is not there."""

    path: str
    original: str | None


def conflict_copy(path: str, notes: Container[str]) -> ConflictCopy | None:
    """What a note is a conflict copy of, by its name; None for one that is none. `notes` are all there are."""
    if not _MAY_BE(path):
        return None
    folder, slash, name = path.rpartition("/")
    for form, dated in ((_DATED, True), (_UNDATED, False)):
        found = form(name)
        if found is None:
            continue
        original = f"{folder}{slash}{found['stem']}{found['suffix']}"
        if original in notes:
            return ConflictCopy(path, original)
        if dated:
            return ConflictCopy(path, None)
    return None


def conflict_copies(paths: Iterable[str], notes: Container[str]) -> list[ConflictCopy]:
    """All conflict copies among these paths, in their order."""
    paths = list(paths)
    together = "\n".join(paths)  # one look at all of them: most vaults have none
    if not any(mark in together for mark in ("DESKTOP-", "LAPTOP-")) and "conflict" not in together.lower():
        return []
    return [copy for path in paths if (copy := conflict_copy(path, notes)) is not None]
