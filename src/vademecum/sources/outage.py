"""What a run could not look at, and what the absence of notes proves.

The failures it is shaped against: a drive that is away and looks like an empty folder, a line of output for each of a
thousand files in a cloud, and a cloud that takes a minute to refuse each of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from vademecum.vault import ConflictCopy

KEPT: Final = frozenset(("unreadable", "evicted", "postponed"))
"""Reasons for which a note is not read now; what was indexed of it stays."""

# Fewer notes than these, or a smaller share of a source's notes, may well have been deleted by their owner.
_PLAUSIBLE_LOSS: Final = 20
_PLAUSIBLE_SHARE: Final = 0.9
# What failing reads may cost in one folder, and in one run. The system gives up on some clouds after a minute.
_PATIENCE_IN_FOLDER_S: Final = 5.0
_PATIENCE_S: Final = 30.0
_NAMED: Final = 3
_TOLD: Final = {
    "unreadable": "cannot be read ({why}); what was indexed of {them} stays: {names}",
    "evicted": "{are} not on this machine ({why}); what was indexed of {them} stays: {names}. Have the app of {their}"
    " cloud keep the folder on this device, then sync",
    "postponed": "{are} left for the next sync, since others beside {them} did not answer in time: {names}",
}


def implausible(lost: int, *, of: int) -> bool:
    """Whether the loss of so many notes at once looks like an outage rather than like somebody's wish."""
    return lost >= _PLAUSIBLE_LOSS and lost >= _PLAUSIBLE_SHARE * of


class Unread:
    """The notes that a run could not look at, and how long it goes on trying."""

    def __init__(self) -> None:
        self._by_reason: dict[str, dict[str, str]] = {reason: {} for reason in _TOLD}
        self._lost_s: dict[str, float] = {}

    def __bool__(self) -> bool:
        return any(self._by_reason.values())

    def add(self, path: str, reason: str, *, why: str = "", took_s: float = 0.0) -> None:
        """Take note of a note that could not be looked at, and of what it cost to find out."""
        self._by_reason[reason][path] = why
        folder = _folder(path)
        self._lost_s[folder] = self._lost_s.get(folder, 0.0) + took_s

    def worth_trying(self, path: str) -> bool:
        """Whether to read a note, after what reading others has cost."""
        lost_s = sum(self._lost_s.values())
        return lost_s <= _PATIENCE_S and self._lost_s.get(_folder(path), 0.0) <= _PATIENCE_IN_FOLDER_S

    def diagnostics(self) -> list[str]:
        """One sentence for each reason, however many notes it has."""
        return [
            f"{_count(len(found), 'note')} " + told.format(
                why=", ".join(sorted(set(found.values()) - {""})) or "not tried again",
                are="is" if len(found) == 1 else "are",
                them="it" if len(found) == 1 else "them",
                their="its" if len(found) == 1 else "their",
                names=_named(list(found)),
            )
            for reason, told in _TOLD.items()
            if (found := self._by_reason[reason])
        ]  # fmt: skip


def unlisted_folders(unlisted: dict[str, str]) -> list[str]:
    """One sentence about the folders that could not be listed, if there are any."""
    if not unlisted:
        return []
    why = ", ".join(sorted(set(unlisted.values())))
    below = "it" if len(unlisted) == 1 else "them"
    told = f"{_count(len(unlisted), 'folder')} cannot be listed ({why}); what was indexed below {below} stays"
    return [f"{told}: {_named(list(unlisted))}"]


def copies_of_sync_tools(copies: Sequence[ConflictCopy]) -> list[str]:
    """One sentence about the conflict copies, if there are any."""
    if not copies:
        return []
    named = [copy.path if copy.original is None else f"{copy.path} (of {copy.original})" for copy in copies]
    told = "looks like a conflict copy" if len(copies) == 1 else "look like conflict copies"
    own = "is indexed as a note of its own" if len(copies) == 1 else "are indexed as notes of their own"
    return [f"{_count(len(copies), 'note')} {told} of a sync tool and {own}: {_named(named)}"]


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _named(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more:,} more" if more > 0 else "")
