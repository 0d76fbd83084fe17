"""Opening one note, or a part of it, by the address that a hit or a person gives.

    PATH   PATH#Heading   PATH#Heading#Subheading   PATH#^block   PATH:12   PATH:12-40

PATH is absolute, relative to a source's root, the end of such a path, or what a link would call the note. Only what is
indexed can be opened, and `access` has the last word on the file as it is now.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from vademecum.access import Caller, VisibleSet, readable_note
from vademecum.errors import NoteAmbiguous, NoteError, NoteNotFound, NoteUnreadable, NoteWithheld, OutsideRoot
from vademecum.index import Index, Located
from vademecum.search.hit import Place
from vademecum.search.recall import prove, visible_in
from vademecum.vault import contained, leads_out, link_name, note_key, read_note_bytes

_MOST_BYTES: Final = 1 << 24
_MOST_NAMED: Final = 10
_LINES: Final = re.compile(r"(.+):(\d{1,9})(?:-(\d{1,9}))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Passage:
    """A note or a part of it, as its file is now. Lines are 1-based and inclusive."""

    place: Place
    path: str
    source_path: str
    title: str
    line_start: int
    line_end: int
    text: str
    private: bool

    def as_json(self) -> dict[str, Any]:
        """The passage with the names of the wire."""
        passage = {
            "source_id": self.place.source_id,
            "source_name": self.place.name,
            "source_path": self.source_path,
            "path": self.path,
            "title": self.title,
            "line_start": self.line_start,
            "line_end": self.line_end,
            "text": self.text,
        }
        return {**passage, "private": True} if self.private else passage


def read_passage(address: str, index: Index, places: Mapping[str, Place], caller: Caller) -> Passage:
    """Open what an address names.

    Raises OutsideRoot, NoteNotFound, NoteAmbiguous, NoteWithheld or NoteUnreadable.
    """
    visible, _, offline = visible_in(index, places, caller)
    note, part = find_note(address, index, places, visible)
    place = places[note.source_id]
    if place.source_id in offline:
        raise NoteUnreadable(f"{place.name} is offline", hint=f"Bring {place.root} back, then try again.")
    try:
        opened = readable_note(visible, note, root=place.root)
    except NoteWithheld as exc:  # what is withheld is not named in full either
        raise NoteWithheld(f"{address} is not served to this caller", hint=exc.hint) from exc
    content, _ = read_note_bytes(str(opened.path), max_bytes=_MOST_BYTES)
    return _cut_out(content.decode("utf-8", "replace"), note, part, place=place, private=opened.private)


def find_note(address: str, index: Index, places: Mapping[str, Place], visible: VisibleSet) -> tuple[Located, str]:
    """The note that an address means, and the part of it ("" for all). What is not served is never named.

    Raises OutsideRoot, NoteNotFound or NoteAmbiguous.
    """
    problem: OutsideRoot | None = None
    for path, part in _readings(address):
        try:
            fits = _located(path, index, places, visible)
        except OutsideRoot as exc:
            problem = problem or exc
            continue
        served = [n for n in fits if visible.withheld(n.source_id, n.path, private=n.private) is None]
        if len(served) > 1:
            served = [note for note in served if _still_served(note, places, visible)]
        found = served or fits[:1]
        if len(found) > 1:
            listed = "; ".join(str(places[note.source_id].root / note.disk_path) for note in found[:_MOST_NAMED])
            more = f" and {len(found) - _MOST_NAMED:,} more" if len(found) > _MOST_NAMED else ""
            raise NoteAmbiguous(f"{path} could be {len(found)} notes", hint=f"Give one whole path: {listed}{more}")
        if found:
            return found[0], part
    raise problem or NoteNotFound(
        f"no indexed note is called {address!r}",
        hint="`vade recall` prints paths; `vade sources sync` indexes new notes; what is excluded cannot be read.",
    )


def _still_served(note: Located, places: Mapping[str, Place], visible: VisibleSet) -> bool:
    """Whether a note may be named by its file as it is now; it may have become private since it was indexed."""
    try:
        prove(note, places[note.source_id], visible, offline=False)
    except NoteWithheld:
        return False
    except NoteError:
        return True
    return True


def _readings(address: str) -> list[tuple[str, str]]:
    """The ways to read an address, the most literal first: a name may hold a colon or a hash itself."""
    if address.startswith("[[") and address.endswith("]]"):
        address = address[2:-2].partition("|")[0]
    readings = [(address, "")]
    lines = _LINES.fullmatch(address)
    if lines:
        readings.append((lines[1], f":{lines[2]}-{lines[3] or lines[2]}"))
    path, mark, part = address.partition("#")
    if mark and path and part:
        readings.append((path, f"#{part}"))
    return readings


def _located(path: str, index: Index, places: Mapping[str, Place], visible: VisibleSet) -> list[Located]:
    """The indexed notes that a path means. Raises OutsideRoot for a path that leads, or could lead, elsewhere."""
    if not os.path.isabs(path):
        if leads_out(path):
            raise OutsideRoot(f"{path!r} leads out of every source")
        found = [note for note in index.locate(note_key(path)) if note.source_id in places]
        return found or _linked(path, index, places, visible) or _not_there(path, places.values())
    for place in places.values():
        for root in (place.root, Path(place.display_root or place.root)):
            if Path(path).is_relative_to(root) and not leads_out(str(Path(path).relative_to(root))):
                relative = note_key(str(Path(path).relative_to(root)))
                names = (relative, f"{relative}.md")
                found = [n for n in index.locate(relative) if n.source_id == place.source_id and n.path in names]
                return found or _not_there(relative, [place])
    raise OutsideRoot(f"{path!r} lies in no source")


def _linked(path: str, index: Index, places: Mapping[str, Place], visible: VisibleSet) -> list[Located]:
    """The notes that a link with this target, at the root of a source, could mean: in any case, or by an alias."""
    from vademecum.graph.topology import Candidate, Namesakes

    found: list[Located] = []
    for source_id in sorted(places):
        graph = index.graph(source_id, visible)
        named = graph.files([link_name(path)])
        known = Namesakes(Candidate(f.path, f.document, f.alias, f.reason) for f in named if f.document is not None)
        meant = known.resolve(path, "")
        files = [] if meant.file is None else [meant.file, *meant.others]
        found += graph.notes(file.document for file in files if file.document is not None).values()
    return found


def _not_there(path: str, places: Iterable[Place]) -> list[Located]:
    """No note; but say so when a link of this name leads out of a source. Raises OutsideRoot."""
    for place in places:
        if os.path.lexists(place.root / path):
            with suppress(NoteNotFound, NoteUnreadable):
                contained(place.root, path)
    return []


def _cut_out(text: str, note: Located, part: str, *, place: Place, private: bool) -> Passage:
    from vademecum.markdown import block_lines, normalise, parse, section

    text = normalise(text)
    lines = text.removesuffix("\n").split("\n")
    first, last = 1, len(lines)
    if part.startswith(":"):
        wanted = [int(number) for number in part[1:].split("-")]
        first, last = wanted[0], min(wanted[1], len(lines))
        if not 1 <= first <= last:
            asked = str(first) if wanted[0] == wanted[1] else part[1:]
            raise NoteNotFound(f"{note.path} has lines 1 to {len(lines)}, not {asked}")
    elif part:
        parsed = parse(text, stem=Path(note.path).stem)
        found = block_lines(parsed, part[2:]) if part.startswith("#^") else section(parsed, part[1:])
        if found is None:
            known = ", ".join(dict.fromkeys(h.text for h in parsed.headings)) or "none"
            what = "block" if part.startswith("#^") else "heading"
            raise NoteNotFound(f"{note.path} has no {what} {part[1:].lstrip('^')!r}", hint=f"Its headings: {known}.")
        first, last = found
        while last > first and not lines[last - 1].strip():
            last -= 1
    return Passage(
        place=place,
        path=note.path,
        source_path=str(place.root / note.disk_path),
        title=note.title,
        line_start=first,
        line_end=last,
        text="\n".join(lines[first - 1 : last]) + "\n",
        private=private,
    )
