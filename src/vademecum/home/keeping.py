"""What the owner does with a memory that is there: look at its history, change it, forget it, bring it back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from vademecum.access import Reach
from vademecum.errors import (
    MemoryChanged,
    MemoryForgotten,
    MemoryNotForgotten,
    MemoryNotFound,
    MemoryPinned,
    MemoryRefused,
    UsageError,
)
from vademecum.home.capture import _change, _moment, _refuse_secrets
from vademecum.memory import contract
from vademecum.memory.amend import with_properties, with_text
from vademecum.memory.history import Change, all_changes, changes_of, content_id, note_changes
from vademecum.memory.memory import Draft, Memory, describe, listed, parse_memory, quoted
from vademecum.memory.store import choose
from vademecum.vault import CAPTURED, write

if TYPE_CHECKING:
    from vademecum.home.vault import HomeVault, Standing

TRASH: Final = ".trash"
KEPT_DAYS: Final = 30
"""How long a forgotten memory can be restored."""


@dataclass(frozen=True, slots=True)
class Forgotten:
    """A memory in the trash: its last path, its title, when it was forgotten and until when it can be restored."""

    path: str
    title: str
    at: str
    until: str
    reason: str
    kept: str

    def as_json(self) -> dict[str, Any]:
        """The entry with the names of the wire."""
        return {
            "id": self.path,
            "path": self.path,
            "title": self.title,
            "forgotten_at": self.at,
            "restorable_until": self.until,
            "reason": self.reason,
        }


def find(home: HomeVault, wanted: str, who: Standing) -> Memory:
    """The memory of a path or a title, also one that was renamed since. Raises MemoryNotFound, MemoryAmbiguous."""
    seen = home.memories(who.caller)
    try:
        return choose(wanted, seen)
    except MemoryNotFound:
        held = {c.held for c in all_changes(home.root) if c.path == wanted.strip() and c.held}
        for memory in seen if held else ():
            if content_id(home.store.text(memory.path)) in held:
                return memory
        raise


def version_of(home: HomeVault, memory: Memory) -> str:
    """The word for what a memory's file holds now, to which a change can be tied."""
    return content_id(home.store.text(memory.path))[:16]


def history(home: HomeVault, wanted: str, who: Standing) -> list[Change]:
    """What was done to a memory, the oldest first; also of one that is forgotten. Raises MemoryNotFound."""
    changes = all_changes(home.root)
    try:
        memory = find(home, wanted, who)
    except MemoryNotFound:
        found = [c for c in changes if wanted.strip() in (c.path, c.title)] if who.caller.is_owner else []
        if not found:
            raise
        return changes_of(found[-1].path, "", changes)
    return changes_of(memory.path, content_id(home.store.text(memory.path)), changes)


def modify(
    home: HomeVault,
    wanted: str,
    said: Mapping[str, object],
    who: Standing,
    *,
    reason: str,
    version: str | None = None,
    allow_secret: bool = False,
) -> Memory:
    """Change what a memory says or declares. What it said before stays in the history.

    Raises MemoryRefused, MemoryChanged where it is no longer `version`, MemoryNotFound, MemoryAmbiguous.
    """
    if not reason.strip():
        raise MemoryRefused(["a reason is required"], what="not changed")
    at = datetime.now(UTC)
    with home.writing():
        memory = find(home, wanted, who)
        text = home.store.text(memory.path)
        if version is not None and not content_id(text).startswith(version):
            raise MemoryChanged(f"{memory.path} is no longer the version {version}")
        checked = contract.check(
            {**_as_said(memory), **said}, origin=who.project, names=_EVERY_NAME, strict=False, fallback=None
        ).draft
        draft = replace(checked, flags=memory.flags)
        _refuse_secrets(draft, allow_secret=allow_secret)
        rows = _rows(memory, draft, said)

        def change(before: str) -> str:
            after = with_properties(before, rows)
            if "title" in said or "body" in said:
                body = draft.body if "body" in said else None
                after = with_text(after, title=draft.title if "title" in said else None, body=body)
            return after

        before, after = home.store.change(memory.path, change)
        known = parse_memory(after, path=memory.path)
        if after != before:
            done = _change(at, "modified", known, who, after, reason=reason)
            note_changes(home.root, [replace(done, before=before, after=after)])
    home.follow(home.ensure(), [known.path])
    return known


def forget(home: HomeVault, wanted: str, who: Standing, *, reason: str = "", force: bool = False) -> Forgotten:
    """Move a memory to the trash of the vault. Raises MemoryPinned, MemoryForgotten, MemoryNotFound."""
    at = datetime.now(UTC)
    with home.writing():
        _empty_trash(home, at)
        try:
            memory = find(home, wanted, who)
        except MemoryNotFound as exc:
            if any(wanted.strip() in (f.path, f.title) for f in forgotten(home)):
                raise MemoryForgotten(f'"{wanted}" is forgotten already') from exc
            raise
        if memory.pinned and not force:
            raise MemoryPinned(f"“{memory.title}” is pinned")
        text = home.store.text(memory.path)
        kept = f"{TRASH}/{_moment(at).replace(':', '').replace('.', '')}/{memory.path}"
        write.move(home.root, memory.path, kept)
        note_changes(home.root, [replace(_change(at, "forgotten", memory, who, text, reason=reason), kept=kept)])
    home.follow(home.ensure(), [memory.path])
    return Forgotten(memory.path, memory.title, _moment(at), _until(at), reason, kept)


def forgotten(home: HomeVault) -> list[Forgotten]:
    """What can be restored, the newest last."""
    found: dict[str, Forgotten] = {}
    for change in all_changes(home.root):
        if change.event == "forgotten" and (home.root / change.kept).is_file():
            until = _until(datetime.fromisoformat(change.at))
            found[change.kept] = Forgotten(change.path, change.title, change.at, until, change.reason, change.kept)
    return list(found.values())


def restore(home: HomeVault, wanted: str, who: Standing) -> Memory:
    """Bring a forgotten memory back to where it was. Raises MemoryNotForgotten, VaultUnwritable."""
    at = datetime.now(UTC)
    with home.writing():
        _empty_trash(home, at)
        fits = [f for f in forgotten(home) if wanted.strip() in (f.path, f.title)]
        if not fits:
            raise MemoryNotForgotten(f'nothing in the trash is called "{wanted}"')
        last = fits[-1]
        write.move(home.root, last.kept, last.path)
        text = home.store.text(last.path)
        memory = parse_memory(text, path=last.path)
        note_changes(home.root, [_change(at, "restored", memory, who, text)])
    home.follow(home.ensure(), [memory.path])
    return memory


def promote(home: HomeVault, wanted: str, note: str, who: Standing) -> tuple[Memory, Any]:
    """Mark a memory as copied into a note of the vault: the memory, and what that place serves now.

    Raises MemoryRefused for a marker that names no note, MemoryNotFound.
    """
    at = datetime.now(UTC)
    with home.writing():
        memory = find(home, wanted, who)
        if memory.source != CAPTURED:
            raise MemoryRefused([f"only files with `source: {CAPTURED}` are edited"], what="not changed")
        place = home.promotions().resolve(note)
        if place.status in ("none", "unparsed"):
            raise MemoryRefused([f"{note!r} names no note: write NOTE, NOTE#Heading or NOTE#^id"], what="not promoted")
        _, after = home.store.change(memory.path, lambda text: with_properties(text, {"promoted": quoted(note)}))
        known = parse_memory(after, path=memory.path)
        note_changes(home.root, [_change(at, "promoted", known, who, after, reason=note)])
    home.follow(home.ensure(), [known.path])
    return known, place


class _EveryName(frozenset[str]):
    """What the owner writes may link to a note that is yet to come."""

    def __contains__(self, name: object) -> bool:
        return True


_EVERY_NAME: Final = _EveryName()


def _as_said(memory: Memory) -> dict[str, object]:
    return {
        "title": memory.title,
        "body": memory.claim,
        "confidence": memory.confidence,
        "scope": memory.reach.scope,
        "projects": list(memory.reach.projects),
        "platforms": list(memory.reach.platforms),
        "tags": list(memory.tags),
        "type": memory.type or None,
        "pinned": memory.pinned,
        "importance": memory.importance,
    }


def _rows(memory: Memory, draft: Draft, said: Mapping[str, object]) -> dict[str, str | None]:
    """The properties that change, as they are written."""
    reach: Reach = draft.reach
    rows: dict[str, str | None] = {}
    if "body" in said:
        rows["description"] = quoted(describe(draft.body))
    if "title" in said:
        rows["aliases"] = listed(dict.fromkeys([*memory.aliases, memory.title, draft.title]))
    if said.keys() & {"scope", "projects", "platforms"}:
        rows |= {"scope": reach.scope, "projects": listed(reach.projects)}
        rows["platforms"] = listed(reach.platforms) if reach.platforms else None
    if "confidence" in said:
        rows["confidence"] = draft.confidence
    if "tags" in said:
        rows["tags"] = listed(["memory", *draft.tags], plain=True)
    if "type" in said:
        rows["type"] = draft.type or None
    if "pinned" in said:
        rows["pinned"] = "true" if draft.pinned else None
    if "importance" in said:
        rows["importance"] = None if draft.importance is None else f"{draft.importance:g}"
    return rows


def _until(at: datetime) -> str:
    return _moment(at + timedelta(days=KEPT_DAYS))


def _empty_trash(home: HomeVault, at: datetime) -> None:
    """Delete what was forgotten more than thirty days ago, and nothing that others put there."""
    for entry in forgotten(home):
        if entry.until < _moment(at):
            write.remove(home.root, entry.kept)


def chosen(wanted: Sequence[str]) -> list[str]:
    """The ids of a request for several at once. Raises UsageError for more than 200."""
    if len(wanted) > 200:
        raise UsageError(f"{len(wanted)} memories at once are too many", hint="At most 200 in one request.")
    return list(dict.fromkeys(wanted))
