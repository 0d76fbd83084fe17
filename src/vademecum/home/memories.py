"""Every verb on memories, for every surface: each is one call, and gives what is printed and sent."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from vademecum.home import keeping
from vademecum.home.capture import Recorded, WorkRecorded, record_work, remember
from vademecum.home.exchange import Exchanged, bring_in, export
from vademecum.home.keeping import Forgotten
from vademecum.home.vault import HomeVault, Standing, Wanted, told
from vademecum.markdown import is_promoted
from vademecum.memory.history import Change
from vademecum.memory.memory import Memory
from vademecum.memory.promotion import describe

if TYPE_CHECKING:
    from vademecum.access import Caller

T = TypeVar("T")


class Memories:
    """The memories of a home vault. `healing` does something with the index, and again where that proved damaged."""

    def __init__(self, home: HomeVault, healing: Callable[[Callable[[], Any]], Any]) -> None:
        self.home = home
        self._healing = healing

    def remember(
        self,
        said: Mapping[str, object] | None,
        who: Standing,
        *,
        force: bool = False,
        dry_run: bool = False,
        allow_secret: bool = False,
    ) -> Recorded:
        """Write a memory: by the contract for agents, or as people do where the owner speaks.

        Raises MemoryRefused with every reason, MemoryTwin, VaultError, OutsideRoot, StateBusy.
        """
        strict = not who.caller.is_owner
        outcome: Recorded = self._healing(
            lambda: remember(
                self.home, said, who, strict=strict, force=force, dry_run=dry_run, allow_secret=allow_secret
            )
        )
        return outcome

    def record_work(self, said: Mapping[str, object] | None, who: Standing, *, dry_run: bool = False) -> WorkRecorded:
        """Write a record of work. Raises MemoryRefused, VaultError, OutsideRoot."""
        outcome: WorkRecorded = self._healing(lambda: record_work(self.home, said, who, dry_run=dry_run))
        return outcome

    def list(
        self,
        caller: Caller,
        wanted: Wanted | None = None,
        *,
        limit: int = 100,
        offset: int = 0,
        explain: bool = False,
    ) -> dict[str, Any]:
        """The memories that reach a caller, ranked, and how many do not, by reason."""
        started = time.perf_counter()
        reached = self.home.reached(caller)
        found = [m for m in reached.memories if wanted is None or wanted.admits(m.facets())]
        reasons = Counter(reached.withheld.values())
        withheld: dict[str, Any] = {"count": reasons.total(), "by_reason": dict(sorted(reasons.items()))}
        if explain:
            withheld["why"] = sorted({reached.why(memory) for memory in reached.hidden.values()})
        return {
            "memories": [
                {**_entry(memory), **({"why": reached.why(memory)} if explain else {})}
                for memory in found[offset : offset + limit]
            ],
            "total": len(found),
            "withheld": withheld,
            "caller": _caller(reached.caller),
            "problems": list(self.home.store.problems) if self.home.exists else [],
            "took_ms": round((time.perf_counter() - started) * 1000, 1),
        }

    def critical(self) -> int:
        """How many memories are pinned."""
        return sum(memory.pinned for memory in self.home.store.all()) if self.home.exists else 0

    def show(self, wanted: str, who: Standing) -> dict[str, Any]:
        """One memory whole, or what it was promoted to. Raises MemoryNotFound, MemoryAmbiguous."""
        memory = keeping.find(self.home, wanted, who)
        promotions = self.home.promotions()
        content, facets = told(memory, promotions)
        entry = {**_entry(memory), **facets, "content": content, "version": keeping.version_of(self.home, memory)}
        if "promotion" in facets:
            entry["promotion_told"] = describe(promotions.resolve(memory.promoted))
        return entry

    def history(self, wanted: str, who: Standing) -> Sequence[Change]:
        """What was done to a memory, the oldest first. Raises MemoryNotFound, MemoryAmbiguous."""
        return keeping.history(self.home, wanted, who)

    def modify(
        self,
        wanted: str,
        said: Mapping[str, object],
        who: Standing,
        *,
        reason: str,
        version: str | None = None,
        allow_secret: bool = False,
    ) -> Memory:
        """Change a memory. Raises MemoryRefused, MemoryChanged, MemoryNotFound, MemoryAmbiguous."""
        return keeping.modify(self.home, wanted, said, who, reason=reason, version=version, allow_secret=allow_secret)

    def forget(self, wanted: str, who: Standing, *, reason: str = "", force: bool = False) -> Forgotten:
        """Move a memory to the trash. Raises MemoryPinned, MemoryForgotten, MemoryNotFound, MemoryAmbiguous."""
        return keeping.forget(self.home, wanted, who, reason=reason, force=force)

    def forgotten(self) -> Sequence[Forgotten]:
        """What can be restored, the oldest first."""
        return keeping.forgotten(self.home)

    def restore(self, wanted: str, who: Standing) -> Memory:
        """Bring a memory back. Raises MemoryNotForgotten, VaultUnwritable."""
        return keeping.restore(self.home, wanted, who)

    def promote(self, wanted: str, note: str, who: Standing) -> tuple[Memory, dict[str, Any]]:
        """Mark a memory as copied into a note: the memory, and what is served of that now. Raises MemoryRefused."""
        memory, place = keeping.promote(self.home, wanted, note, who)
        return memory, {"status": place.status, "told": describe(place)}

    def inbox(self, who: Standing) -> dict[str, Any]:
        """The memories that no note of the vault has taken up, the oldest first."""
        waiting = [m for m in self.home.memories(who.caller) if not is_promoted(m.properties)]
        waiting.sort(key=lambda memory: (memory.date, memory.session))
        ages = [age for memory in waiting if (age := self.home.store.age_days(memory.path)) is not None]
        return {
            "memories": [_entry(memory) for memory in waiting],
            "count": len(waiting),
            "oldest_days": max(ages, default=0),
        }

    def export(self, folder: Path, who: Standing) -> Exchanged:
        """Copy what reaches the caller into a folder. Raises VaultUnwritable, UsageError."""
        return export(self.home, folder, who)

    def bring_in(self, folder: Path, who: Standing, *, allow_secret: bool = False) -> Exchanged:
        """Copy memories from a folder into the vault. Raises VaultUnwritable, UsageError."""
        return bring_in(self.home, folder, who, allow_secret=allow_secret)

    def whoami(self, who: Standing, *, decided: str) -> dict[str, Any]:
        """Who asks, and what that reaches."""
        reached = self.home.reached(who.caller)
        return {
            "caller": {
                **_caller(reached.caller),
                "project": who.project,
                "name": who.name,
                "inside": who.inside,
                "decided": decided,
            },
            "home_vault": {"path": str(self.home.root), "exists": self.home.exists},
            "memories": {"reach": len(reached.memories), "total": len(reached.memories) + len(reached.withheld)},
        }


def _entry(memory: Memory) -> dict[str, Any]:
    entry = {
        "id": memory.path,
        "path": memory.path,
        "title": memory.title,
        "description": memory.description,
        **memory.facets(),
        "superseded": bool(memory.superseded_by),
    }
    return {**entry, "private": True} if memory.private else entry


def _caller(caller: Caller) -> dict[str, Any]:
    return {"project": caller.project, "platforms": list(caller.platforms), "origin": caller.origin}
