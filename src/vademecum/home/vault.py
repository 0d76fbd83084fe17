"""Where memories live, and what of them each caller sees.

The vault's files are the truth: they are listed anew for every question, so that no index has to be there for a memory
to be found. The index only follows, and orders what matches.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from vademecum import config, git
from vademecum.access import Caller, Policy, Remembered, caller_in, checkout, policy_of
from vademecum.config import Settings, file_lock
from vademecum.errors import StateBusy, VadeError, VaultError, VaultMissing
from vademecum.index import Index
from vademecum.memory.memory import Memory, parse_memory
from vademecum.memory.promotion import Promotions
from vademecum.memory.ranking import Reached, reached
from vademecum.memory.store import Store
from vademecum.sources import Registry, Source
from vademecum.vault import Manifest, find_memories, load_manifest, platforms_of

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOCK_WAIT_S: Final = 60.0
# Where a project says what it runs on is looked for in the whole vault, but not for every question.
_PLATFORMS_S: Final = 5.0
# So long a memory may take to be findable by the index; it is found by its file in any case.
_INDEX_WAIT_S: Final = 20.0


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which memories are asked for; whatever is not given does not narrow. `importance` is the least."""

    scope: str | None = None
    confidence: str | None = None
    type: str | None = None
    pinned: bool | None = None
    importance: float | None = None
    tags: tuple[str, ...] = ()
    since: str = ""
    until: str = ""
    project: str | None = None

    def admits(self, memory: Mapping[str, Any]) -> bool:
        """Whether a memory is one of them, by its facets. A tag stands for those nested below it too."""
        if any(
            wanted is not None and memory[name] != wanted
            for name, wanted in (
                ("scope", self.scope),
                ("confidence", self.confidence),
                ("type", self.type),
                ("pinned", self.pinned),
            )
        ):
            return False
        if self.importance is not None and memory["weight"] < self.importance:
            return False
        if (self.since and memory["date"] < self.since) or (self.until and memory["date"] > self.until):
            return False
        if self.project is not None and self.project.lower() not in (p.lower() for p in memory["projects"]):
            return False
        held = [tag.casefold() for tag in memory["tags"]]
        return all(any(t == tag or t.startswith(tag + "/") for t in held) for tag in self.tags)


class Standing(NamedTuple):
    """Who speaks, for which project, and whether from inside the home vault itself."""

    caller: Caller
    project: str | None
    inside: bool

    @property
    def name(self) -> str:
        """The word by which memories and the history tell who it was."""
        return "owner" if self.caller.is_owner else self.project or "unknown"


class HomeVault:
    """The home vault of these settings. `index` gives the index, which is not opened before it is asked for."""

    def __init__(
        self, settings: Settings, registry: Registry, index: Callable[[], Index], notify: Callable[[str], None]
    ) -> None:
        self.settings = settings
        self.registry = registry
        self.index = index
        self.notify = notify
        self._store: Store | None = None
        self._judged: tuple[tuple[Memory, ...], Reached] | None = None  # the last judgement, and what was judged
        self._platforms: dict[str, tuple[float, tuple[str, ...]]] = {}

    @property
    def root(self) -> Path:
        """Where the vault is, or would be made."""
        return self.settings.home_vault

    @property
    def exists(self) -> bool:
        """Whether the vault is there now."""
        return os.path.isdir(self.root)

    @property
    def manifest(self) -> Manifest:
        """What the vault declares of itself."""
        return load_manifest(self.root)

    @property
    def policy(self) -> Policy:
        """What the vault serves."""
        return policy_of(self.root, home=True)[0]

    @property
    def store(self) -> Store:
        """Its memories' files, below the folder where they are now."""
        folder = self.policy.memory_root or "memories"
        if self._store is None or (self._store.root, self._store.folder) != (self.root, folder):
            self._store = Store(self.root, folder)
        return self._store

    def source(self) -> Source | None:
        """The vault as a source, where it is one already."""
        return next((source for source in self.registry.all() if source.root == self.root), None)

    def as_json(self) -> dict[str, Any]:
        """What the vault is, with the names of the wire."""
        policy, diagnostic = policy_of(self.root, home=True)
        memories = self.store.all() if self.exists else ()
        return {
            "path": str(self.root),
            "exists": self.exists,
            "chosen": bool(str(self.settings.values["vault.path"]).strip()),
            "policy": policy.as_json(),
            "memory_root": self.store.folder,
            "memories": sum(memory.is_served for memory in memories),
            "context": self.manifest.context,
            "diagnostics": [*([diagnostic] if diagnostic else []), *self._moved(), *self.store.problems],
        }

    def _moved(self) -> list[str]:
        """What is to be told of the folder of the memories, where that is not what the manifest says."""
        found = find_memories(self.root, self.manifest.memory_root) if self.exists else None
        if found is None or found.state in ("configured", "empty"):
            return []
        counted = ", ".join(f"{name}/ ({number})" for name, number in found.counts.items())
        if found.state == "split":
            return [f"memories lie in several folders: {counted}; only those in {found.folder}/ are read"]
        return [f"memories are in {found.folder}/, not in {self.manifest.memory_root}/ as the manifest says"]

    # ── who asks

    def standing(self, caller: Caller, folder: Path | None) -> Standing:
        """Who a caller is that works in a folder."""
        inside = folder is not None and self.exists and checkout(folder) == self.root
        project = caller.project
        if caller.is_owner and folder is not None and not inside:
            project = caller_in(folder).project
        return Standing(caller, project, inside)

    def identified(self, caller: Caller) -> Caller:
        """The caller with the platforms that the vault's note of its project declares."""
        if caller.project is None or caller.platforms or not self.exists:
            return caller
        known = self._platforms.get(caller.project)
        if known is None or time.monotonic() - known[0] > _PLATFORMS_S:
            found = platforms_of(self.root, caller.project, memory_root=self.store.folder)
            known = self._platforms[caller.project] = (time.monotonic(), found)
        return replace(caller, platforms=known[1])

    # ── what is seen

    def reached(self, caller: Caller) -> Reached:
        """Every memory, judged for a caller; while the vault is away, as the index last saw them."""
        caller = self.identified(caller)
        if not self.exists:
            return reached(self._as_indexed(), caller)
        memories = self.store.all()
        if self._judged is None or self._judged[0] is not memories or self._judged[1].caller != caller:
            self._judged = (memories, reached(memories, caller))
        return self._judged[1]

    def memories(self, caller: Caller) -> list[Memory]:
        """The memories that reach a caller, in the order in which they rank without a question."""
        return list(self.reached(caller).memories)

    def remembered(self, caller: Caller) -> Remembered:
        """The memories as a search needs them."""
        found = self.reached(caller)
        by_path = {memory.path: memory for memory in found.memories}
        promotions = Promotions(self.root, self.policy)

        def served(path: str) -> tuple[str, Mapping[str, Any]]:
            return told(by_path[path], promotions)

        return Remembered(by_path, found.withheld, served)

    def promotions(self) -> Promotions:
        """What promoted notes say now; for one answer, never kept for the next."""
        return Promotions(self.root, self.policy)

    def _as_indexed(self) -> list[Memory]:
        source = self.source()
        root = self.policy.memory_root or "memories"
        if source is None or not self.settings.index_file.exists():
            return []
        rows = self.index().properties(source.id, f"{root}/")
        return [parse_memory(f"---\n{text}\n---\n\n# {title}\n", path=path) for path, title, text in rows]

    # ── what is written

    def ensure(self) -> Source:
        """The vault, made where none was ever chosen, and connected as a source. Raises VaultMissing."""
        config.prepare(self.settings)
        chosen = bool(str(self.settings.values["vault.path"]).strip())
        if not self.exists:
            if chosen:
                hint = "Bring its drive back, or choose another with `vade vault use PATH`."
                raise VaultMissing(f"the home vault {self.root} is not there", hint=hint)
            self.root.mkdir(mode=0o700, exist_ok=True)
            if git.init(self.root):
                self.notify(f"The home vault {self.root} was made, as a git repository.")
            else:
                self.notify(f"The home vault {self.root} was made.")
        return self.source() or self.connect(self.root)

    def connect(self, root: Path) -> Source:
        """Connect a vault as a source, named as its manifest says. Raises VaultError where that name is taken."""
        manifest = load_manifest(root)
        name = manifest.index_name
        for other in self.registry.all():
            if name and other.root != root and other.name.casefold() == name.casefold():
                raise VaultError(
                    f"the vault calls itself {name}, and so is the source at {other.root} called",
                    hint=f"Give that one another name: vade sources rename {other.id} NAME.",
                )
        is_obsidian = (root / ".obsidian").is_dir() or manifest.state != "absent"
        return self.registry.add("obsidian" if is_obsidian else "folder", str(root), name=name)[0]

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Keep every other process from writing memories meanwhile. Raises StateBusy."""
        config.prepare(self.settings)
        with file_lock(self.settings.run_dir / "memories.lock", wait_s=_LOCK_WAIT_S, what="the memories"):
            yield

    def follow(self, source: Source, paths: Sequence[str]) -> bool:
        """Have the index follow what was just written; whether it does. What cannot be now, the next sync does."""
        from vademecum.sources.sync import sync_notes, sync_source

        index = self.index()
        try:
            if sync_notes(source, paths, self.registry, index, self.settings, wait_s=_INDEX_WAIT_S):
                return True
            row = index.source(source.id)
            if row is not None and row.last_indexed_at is None:
                sync_source(source, self.registry, index, self.settings)
                return True
        except (VadeError, StateBusy):
            return False
        return False


def told(memory: Memory, promotions: Promotions) -> tuple[str, Mapping[str, Any]]:
    """What is shown of a memory: its body, or the text of the note that it was promoted to; and what it declares."""
    promotion = promotions.resolve(memory.promoted)
    facets = {**memory.facets(), "superseded": bool(memory.superseded_by)}
    if promotion.status == "none":
        return memory.body, facets
    facets["promotion"] = {"status": promotion.status, "note": promotion.note, "anchor": promotion.anchor}
    if promotion.status == "served":
        facets["promotion"]["truncated"] = promotion.truncated
        return promotion.text, facets
    return memory.body, facets
