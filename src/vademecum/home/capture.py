"""Writing a memory, and a record of work: every rule first, then one file, then everything that follows it.

The order is the contract (memory.md): what cannot be written is told with all reasons before anything is; what was
written is never lost because something after it fails.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal

from vademecum.access import ANONYMOUS, visible_notes
from vademecum.errors import MemoryFailure, MemoryNotFound, MemoryRefused, MemoryTwin, VaultError
from vademecum.memory import contract, worklog
from vademecum.memory.amend import with_list_entry, with_properties
from vademecum.memory.history import Change, content_id, note_changes
from vademecum.memory.memory import Draft, Memory, parse_memory, render
from vademecum.memory.ranking import as_title
from vademecum.memory.secrets import recognised
from vademecum.memory.similarity import fingerprint
from vademecum.memory.store import Twin
from vademecum.vault import CAPTURED

if TYPE_CHECKING:
    from vademecum.home.vault import HomeVault, Standing

_INSIDE: Final = (
    "this session works in the home vault itself, where a memory would reach only sessions that see every note"
)
# What keeps a memory in answers is not for sessions to say of their own.
_OWNERS: Final = ("pinned", "importance")


@dataclass(frozen=True, slots=True)
class Recorded:
    """What became of something that was to be remembered.

    `corroborated` says that it was known already, `indexed` that the index follows. `unmatched` are titles to supersede
    that nothing has, `dropped` links and `unlinked` wikilinks that lead nowhere. `text` is the file.
    """

    memory: Memory
    text: str
    written: bool
    corroborated: bool = False
    indexed: bool = True
    superseded: tuple[str, ...] = ()
    unmatched: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    unlinked: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The outcome with the names of the wire."""
        return {
            "id": self.memory.path,
            "path": self.memory.path,
            "title": self.memory.title,
            **self.memory.facets(),
            "written": self.written,
            "corroborated_now": self.corroborated,
            "indexed": self.indexed,
            "superseded": list(self.superseded),
            "not_superseded": list(self.unmatched),
            "links_dropped": list(self.dropped),
            "unlinked": list(self.unlinked),
            "warnings": list(self.warnings),
        }


@dataclass(frozen=True, slots=True)
class WorkRecorded:
    """A record of work: where it is, or would be, and how that place was chosen."""

    path: str
    routing: str
    text: str
    written: bool
    indexed: bool = True

    def as_json(self) -> dict[str, Any]:
        """The outcome with the names of the wire."""
        return {
            "path": self.path,
            "routing": self.routing,
            "written": self.written,
            "indexed": self.indexed,
            "text": self.text,
        }


class Names(Collection[str]):
    """The names that a link in the home vault may use, in lower case; looked up when somebody first asks."""

    def __init__(self, home: HomeVault) -> None:
        self._home = home
        self._found: frozenset[str] | None = None

    def __contains__(self, name: object) -> bool:
        return name in self._all()

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def _all(self) -> frozenset[str]:
        if self._found is None:
            home = self._home
            source = home.source()
            found: list[str] = []
            if source is not None:
                visible = visible_notes(ANONYMOUS, {source.id: home.policy})
                found = home.index().graph(source.id, visible).link_names()
            for memory in home.store.all() if home.exists else ():
                found += [memory.title, *memory.aliases, memory.path.rpartition("/")[2].removesuffix(".md")]
            self._found = frozenset(name.lower() for name in found)
        return self._found


def remember(
    home: HomeVault,
    said: Mapping[str, object] | None,
    who: Standing,
    *,
    strict: bool,
    force: bool = False,
    dry_run: bool = False,
    allow_secret: bool = False,
) -> Recorded:
    """Write a memory for its caller. `strict` is the contract for agents; people are asked for less.

    Raises MemoryRefused with every reason, MemoryTwin, VaultError, OutsideRoot, StateBusy.
    """
    if who.inside and not who.caller.is_owner:
        raise MemoryRefused([_INSIDE], hint="Write an ordinary note instead.")
    said = dict(said or {})
    kept_back = [name for name in _OWNERS if strict and said.pop(name, None) is not None]
    names = Names(home)
    fallback: Literal["general"] | None = None if strict or (who.project is not None and not who.inside) else "general"
    checked = contract.check(
        said, origin=None if who.inside else who.project, names=names, strict=strict, fallback=fallback
    )
    draft, warnings = replace(checked.draft, origin=who.name), list(checked.warnings)
    warnings += [f"{name} is its owner's to give; it was left out" for name in kept_back]
    if who.inside and draft.reach.scope == "general" and said.get("scope") != "general":
        warnings.append("written in the home vault itself, it reaches everywhere")
    _refuse_secrets(draft, allow_secret=allow_secret and who.caller.is_owner)
    source = home.ensure()
    at = datetime.now(UTC)
    with home.writing():
        home.store.all()
        wanted = _listed(said.get("supersedes"))
        targets, unmatched = _targets(wanted, home.memories(who.caller)) if wanted else ([], ())
        outcome = Recorded(
            memory=_as_memory(draft, at),
            text=_rendered(draft, at),
            written=False,
            unmatched=unmatched,
            dropped=checked.dropped,
            unlinked=checked.unlinked,
            warnings=tuple(warnings),
        )
        if not force:
            known = _known_already(home, draft, who, corrected={target.path for target in targets}, unmatched=unmatched)
            if known is not None and not dry_run:
                return _corroborate(home, known, who=who, outcome=outcome, at=at)
        if dry_run:
            return outcome
        memory = home.store.write(draft, date=_local_day(at), session=_moment(at))
        text = home.store.text(memory.path)
        changes = [_change(at, "created", memory, who, text)]
        marked, left = _supersede(home, targets, memory, who, at, changes)
        note_changes(home.root, changes)
    indexed = home.follow(source, [memory.path, *marked])
    return replace(
        outcome,
        memory=memory,
        text=text,
        written=True,
        indexed=indexed,
        superseded=tuple(t.title for t in targets if t.path in marked),
        warnings=(*outcome.warnings, *left),
    )


def record_work(
    home: HomeVault, said: Mapping[str, object] | None, who: Standing, *, dry_run: bool = False
) -> WorkRecorded:
    """Write a record of work into the vault. Raises MemoryRefused, VaultError, OutsideRoot."""
    contract.refuse_markup(said or {})
    draft = worklog.read_work(said)
    found = recognised("\n".join(_texts(said or {})))
    if found:
        raise MemoryRefused(_secret_reasons(found))
    source = home.ensure()
    at = datetime.now(UTC)
    routing = worklog.route(home.root, home.policy, draft, project=who.project, inbox=home.manifest.inbox)
    day, moment, names, origin = _local_day(at), _moment(at), Names(home), who.project or who.name
    if dry_run:
        shown = worklog.preview(home.root, draft, routing, date=day, at=moment, origin=origin, names=names)
        return WorkRecorded(shown.path, routing.word, shown.text, written=False)
    path = worklog.record(home.root, draft, routing, date=day, at=moment, origin=origin, names=names)
    text = worklog.render_work(draft, routing, date=day, at=moment, origin=origin, names=names)
    return WorkRecorded(path, routing.word, text, written=True, indexed=home.follow(source, [path]))


def _refuse_secrets(draft: Draft, *, allow_secret: bool) -> None:
    found = recognised("\n".join((draft.title, draft.body, draft.verification, draft.generality)))
    if found and not allow_secret:
        raise MemoryRefused(_secret_reasons(found), hint="Take it out. Say where it is kept instead.")


def _secret_reasons(found: Sequence[str]) -> list[str]:
    return [f"it seems to hold {kind}, and a secret does not belong in a note" for kind in found]


def _targets(wanted: Sequence[str], seen: Sequence[Memory]) -> tuple[list[Memory], tuple[str, ...]]:
    """The memories that titles or paths mean, live ones before all else, and what nothing answers to."""
    targets: dict[str, Memory] = {}
    unmatched = []
    for name in wanted:
        fits = [m for m in seen if m.path == name.strip() or as_title(m.title) == as_title(name)]
        live = [m for m in fits if not m.superseded_by] or sorted(fits, key=lambda m: (m.date, m.session))[-1:]
        if not live:
            unmatched.append(name)
        targets |= {m.path: m for m in live}
    return list(targets.values()), tuple(unmatched)


def _known_already(
    home: HomeVault, draft: Draft, who: Standing, *, corrected: Collection[str], unmatched: Sequence[str]
) -> Memory | None:
    """The memory that says the same, word for word and for the same readers.

    Compared with whatever some reader of the new one could see too, also where its writer cannot. Raises MemoryTwin
    where one says nearly the same.
    """

    def fits(memory: Memory) -> bool:
        return memory.is_served and memory.path not in corrected and memory.reach.shares_a_reader(draft.reach)

    twins = home.store.twins(draft.title, draft.body, fits)
    if not twins:
        return None
    seen = {memory.path for memory in home.memories(who.caller)}
    same = next((t.memory for t in twins if t.memory.path in seen and _is_same(draft, t.memory)), None)
    if same is None:
        _refuse_twins(twins, seen, unmatched)
    return same


def _is_same(draft: Draft, memory: Memory) -> bool:
    """Whether a live memory is word for word the same, for the same readers."""
    if memory.is_superseded or memory.source != CAPTURED or not memory.reach.equals(draft.reach):
        return False
    return all(
        fingerprint(one) == fingerprint(other)
        for one, other in ((memory.title, draft.title), (memory.claim, draft.body))
    )


def _corroborate(home: HomeVault, memory: Memory, *, who: Standing, outcome: Recorded, at: datetime) -> Recorded:
    def once_more(text: str) -> str:
        return with_properties(text, {"corroborated": str(parse_memory(text, path="").corroborated + 1)})

    _, after = home.store.change(memory.path, once_more)
    known = parse_memory(after, path=memory.path)
    note_changes(home.root, [_change(at, "corroborated", known, who, after)])
    return replace(outcome, memory=known, text=after, written=False, corroborated=True)


def _refuse_twins(twins: Sequence[Twin], seen: Collection[str], unmatched: Sequence[str]) -> None:
    shown = next((twin for twin in twins if twin.memory.path in seen), None)
    if shown is None:
        raise MemoryTwin("not recorded: a memory that says nearly the same is there, which this caller cannot see")
    told = f"not recorded: {shown.similarity:.0%} the same as “{shown.memory.title}” ({shown.memory.path})"
    if unmatched:
        told += f"; nothing to supersede is called {', '.join(f'“{name}”' for name in unmatched)}"
    raise MemoryTwin(told)


def _supersede(
    home: HomeVault, targets: Sequence[Memory], by: Memory, who: Standing, at: datetime, changes: list[Change]
) -> tuple[list[str], list[str]]:
    """Mark what the new memory corrects: the paths that were marked, and why others were not."""
    marked, left = [], []
    for target in targets:
        try:
            before, after = home.store.change(target.path, with_list_entry("superseded_by", by.title))
        except (MemoryFailure, VaultError, MemoryNotFound) as exc:
            left.append(f"“{target.title}” could not be marked as superseded: {exc.message}")
            continue
        marked.append(target.path)
        if after != before:
            changes.append(_change(at, "superseded", target, who, after, reason=by.title))
    return marked, left


def _change(at: datetime, event: Any, memory: Memory, who: Standing, text: str, *, reason: str = "") -> Change:
    return Change(
        at=_moment(at),
        event=event,
        path=memory.path,
        title=memory.title,
        by=who.name,
        held=content_id(text),
        reason=reason,
    )


def _as_memory(draft: Draft, at: datetime) -> Memory:
    return parse_memory(_rendered(draft, at), path="")


def _rendered(draft: Draft, at: datetime) -> str:
    return render(draft, date=_local_day(at), session=_moment(at))


def _local_day(at: datetime) -> str:
    return at.astimezone().date().isoformat()


def _moment(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%S.") + f"{at.microsecond // 1000:03d}Z"


def _listed(value: object) -> list[str]:
    if isinstance(value, str):
        return [value] if value.strip() else []
    return [item for item in value if isinstance(item, str) and item.strip()] if isinstance(value, list | tuple) else []


def _texts(said: Mapping[str, object]) -> Iterator[str]:
    for value in said.values():
        if isinstance(value, str):
            yield value
        elif isinstance(value, list | tuple):
            yield from (item for item in value if isinstance(item, str))
