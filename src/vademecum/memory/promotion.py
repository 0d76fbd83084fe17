"""What the vault's notes serve in the place of the memories that they took up.

Shaped against three failures: a rule of its own about which notes may leave the vault, which forgets a case; an answer
that tells whether a file outside of what is exposed is there; and a whole note served where an anchor is gone.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Literal, NamedTuple

from vademecum.access import ANONYMOUS, Policy, visible_notes
from vademecum.errors import NoteError, OutsideRoot
from vademecum.markdown import parse
from vademecum.markdown.promotion import Segments, parse_marker, segment
from vademecum.vault import contained, leads_out, note_key, read_note_bytes

Status = Literal["none", "unparsed", "no_anchor", "not_exposed", "unreadable", "stale_anchor", "served"]
"""What became of a marker. But for `served`, the memory is shown as it was first written."""

_VAULT: Final = "vault"
_MOST_BYTES: Final = 1 << 24
_SHOWN_AS_WRITTEN: Final = "the memory is shown as first written"
_Unserved = Literal["not_exposed", "unreadable"]


class Promotion(NamedTuple):
    """What a memory's marker comes to. `note` and `anchor` are as the marker has them, and claim nothing of a file."""

    status: Status = "none"
    note: str = ""
    anchor: str = ""
    text: str = ""
    truncated: bool = False


class Promotions:
    """What promoted memories are served as. Made for one answer: each note is read once, and none is kept for the next.

    Whoever asks, the text is such that anybody may have it, since what is served to the owner today is passed on to a
    project tomorrow.
    """

    def __init__(self, root: Path, policy: Policy) -> None:
        self._root = root
        self._visible = visible_notes(ANONYMOUS, {_VAULT: policy})
        self._notes: dict[str, Segments | _Unserved] = {}

    def resolve(self, marker: str | None) -> Promotion:
        """What the marker of a memory comes to now; an empty one is none."""
        if marker is None or not marker.strip(" "):
            return Promotion()
        wanted = parse_marker(marker)
        if wanted is None:
            return Promotion("unparsed")
        named = Promotion("no_anchor", wanted.note, wanted.printed)
        if wanted.kind is None:
            return named
        note = self._note(wanted.note)
        if not isinstance(note, Segments):
            return named._replace(status=note)
        served = note.served(wanted)
        if served is None:
            return named._replace(status="stale_anchor")
        return named._replace(status="served", text=served.text, truncated=served.truncated)

    def _note(self, path: str) -> Segments | _Unserved:
        # By its name first: of a path that is not exposed nobody learns whether a file is there.
        if not _is_plain(path) or self._is_withheld(path, private=False):
            return "not_exposed"
        disk_path = self._disk_path(path)
        if disk_path not in self._notes:
            self._notes[disk_path] = self._read(disk_path)
        return self._notes[disk_path]

    def _read(self, disk_path: str) -> Segments | _Unserved:
        try:
            file = contained(self._root, disk_path)
            content, _ = read_note_bytes(str(file), max_bytes=_MOST_BYTES)
        except OutsideRoot:
            return "not_exposed"
        except NoteError:
            return "unreadable"
        if len(content) > _MOST_BYTES:
            return "unreadable"
        # Judged by the very bytes that are served, so that no edit comes in between.
        note = parse(content.decode("utf-8", "replace"), stem=file.stem)
        return "not_exposed" if self._is_withheld(disk_path, private=note.private) else segment(note)

    def _is_withheld(self, path: str, *, private: bool) -> bool:
        return self._visible.withheld(_VAULT, note_key(path), private=private) is not None

    def _disk_path(self, path: str) -> str:
        """The path as the disk spells it: a name can come in two Unicode forms."""
        if path.isascii():
            return path
        spellings = (path, *(unicodedata.normalize(form, path) for form in ("NFC", "NFD")))
        return next((spelling for spelling in spellings if os.path.lexists(self._root / spelling)), path)


def _is_plain(path: str) -> bool:
    """Whether a path is written as that of a note: one spelling, nothing hidden on the way, and no way out.

    The trash and the history are hidden, and hold what was forgotten.
    """
    return not leads_out(path) and not any(not name or name.startswith(".") for name in path.split("/"))


def describe(promotion: Promotion) -> str:
    """What became of a promotion, in words on one line; "" where there is none. What cannot be read is not repeated."""
    note = promotion.note
    place = f"{note}#{promotion.anchor}"
    match promotion.status:
        case "none":
            return ""
        case "unparsed":
            return f"promoted, but the marker cannot be understood; {_SHOWN_AS_WRITTEN}"
        case "no_anchor":
            return f"promoted to {note}, with no anchor in it; {_SHOWN_AS_WRITTEN}"
        case "not_exposed":
            return f"promoted to {note}, which is not exposed; {_SHOWN_AS_WRITTEN}"
        case "unreadable":
            return f"promoted to {note}, which is missing or cannot be read; {_SHOWN_AS_WRITTEN}"
        case "stale_anchor":
            return f"promoted to {note}, where the anchor {promotion.anchor} is STALE; {_SHOWN_AS_WRITTEN}"
    return f"the promoted text of {place}" + (", TRUNCATED" if promotion.truncated else "")


class Broken(NamedTuple):
    """A memory whose anchored marker serves nothing: the file to mend, the note that it names, and why."""

    memory: str
    note: str
    status: Status


class PromotionHealth(NamedTuple):
    """How the promotions of a vault stand. A marker without an anchor is legitimate: it is counted, and no fault."""

    served: int
    named_only: int
    unparsed: tuple[str, ...]
    broken: tuple[Broken, ...]


def audit(promotions: Iterable[tuple[str, Promotion]]) -> PromotionHealth:
    """How these promotions stand, each given with the path of its memory; the lists keep their order."""
    served = named_only = 0
    unparsed: list[str] = []
    broken: list[Broken] = []
    for memory, promotion in promotions:
        match promotion.status:
            case "served":
                served += 1
            case "no_anchor":
                named_only += 1
            case "unparsed":
                unparsed.append(memory)
            case "stale_anchor" | "not_exposed" | "unreadable":
                broken.append(Broken(memory, promotion.note, promotion.status))
    return PromotionHealth(served, named_only, tuple(unparsed), tuple(broken))
