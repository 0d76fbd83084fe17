"""Vademecum: everything below wired together once. Surfaces call this and decide nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from vademecum import config
from vademecum.access import Caller
from vademecum.config import Settings, file_lock
from vademecum.embedding import Models
from vademecum.errors import IndexCorrupt, SourceDisabled, SourceIsHome, SourceNotFound
from vademecum.index import Filters, Index, SourceRow, VectorSet, inode_of, quarantine
from vademecum.search import (
    Include,
    Lane,
    Passage,
    Place,
    Question,
    Recall,
    parse_day,
    read_passage,
    recall,
    visible_in,
)
from vademecum.sources import Registry, Source
from vademecum.vault import ConflictCopy, conflict_copies, note_key

if TYPE_CHECKING:
    from vademecum.graph import Form
    from vademecum.home import HomeVault, Memories, Wanted
    from vademecum.search.expansion import Expansion
    from vademecum.sources.removal import Removal
    from vademecum.sources.sync import Preview, Progress, SyncReport
    from vademecum.sources.vectors import EmbedReport

T = TypeVar("T")


class Vademecum:
    """One memory: its sources, its index, and the questions it answers.

    `notify` is told, in one sentence, of anything out of the ordinary that was mended on the way.
    """

    def __init__(
        self, settings: Settings, *, notify: Callable[[str], None] = lambda _: None, models: Models | None = None
    ) -> None:
        self.settings = settings
        self.registry = Registry(settings)
        self.models = models or Models(settings)
        self._notify = notify
        self._index: Index | None = None

    @property
    def index(self) -> Index:
        """The index, opened at its first use. Raises IndexCorrupt, IndexBusy, IndexUnavailable or StateReadOnly."""
        if self._index is None:
            if not self.settings.index_file.exists():
                config.prepare(self.settings)
            self._index = Index.open(self.settings.index_file, busy_timeout_s=self.settings.busy_timeout_s)
        return self._index

    @cached_property
    def home(self) -> HomeVault:
        """The home vault."""
        from vademecum.home import HomeVault  # with the parser of notes, which a question to other sources needs not

        return HomeVault(self.settings, self.registry, lambda: self.index, self._notify)

    @cached_property
    def memories(self) -> Memories:
        """The memories in it."""
        from vademecum.home import Memories

        return Memories(self.home, self._healing)

    @property
    def index_is_in_place(self) -> bool:
        """False where the index is open, and its file is no longer the one at its path."""
        return self._index is None or self._index.is_in_place

    def close(self) -> None:
        """Let go of the index."""
        if self._index is not None:
            self._index.close()
            self._index = None

    # ── sources

    def add(
        self,
        kind: str,
        path: str,
        *,
        name: str | None = None,
        exclude: Sequence[str] | None = None,
        progress: Progress | None = None,
    ) -> tuple[Source, bool, SyncReport]:
        """Connect a folder and index its text: the source, whether it is new, and what was indexed."""
        source, created = self.registry.add(kind, path, name=name, exclude=exclude)
        return source, created, self.sync(source, progress=progress)

    def preview(self, kind: str, path: str, *, exclude: Sequence[str] | None = None) -> Preview:
        """What `add` would index, by file names alone; nothing is written."""
        from vademecum.sources.sync import preview

        return preview(self.registry.draft(kind, path, exclude=exclude), self.settings)

    def sync(
        self,
        source: Source,
        *,
        force: bool = False,
        accept_loss: bool = False,
        automatic: bool = False,
        progress: Progress | None = None,
    ) -> SyncReport:
        """Bring one source's rows up to date; `force` reads every note, and has refused texts tried again.

        `accept_loss` takes out what is gone, however much it is; `automatic` never does so. Whatever `progress` raises
        ends the run between two notes. Raises SourceDisabled.
        """
        from vademecum.sources.sync import sync_source

        if not source.enabled:
            raise SourceDisabled(f"{source.name} is disabled")
        config.prepare(self.settings)

        def waiting() -> None:
            self._notify(f"Another process is syncing {source.name}; waiting for it.")

        def act() -> SyncReport:
            self._finish_removals()
            if force:
                self._check_integrity()
                self.index.vectors.forget_refusals()
                self.index.vectors.renew_mirror()
            return sync_source(
                source,
                self.registry,
                self.index,
                self.settings,
                force=force,
                accept_loss=accept_loss,
                automatic=automatic,
                progress=progress,
                waiting=waiting,
            )

        return self._healing(act)

    def embed(
        self, *, budget_s: float | None, progress: Progress | None = None, lender: Path | None = None
    ) -> EmbedReport:
        """Make the vectors that are missing, for so many seconds, or all of them. Raises ModelError without a model.

        `lender` is another index file, from which vectors of the same texts are copied.
        """
        from vademecum.sources.vectors import complete_already, embed

        config.prepare(self.settings)

        def waiting() -> None:
            self._notify("Another process is embedding; waiting for it.")

        def act() -> EmbedReport:
            complete = complete_already(self.index, self.models)
            return complete or embed(
                self.index,
                self.models.embedder(),
                self.settings,
                budget_s=budget_s,
                progress=progress,
                waiting=waiting,
                lender=lender,
                sources=self.registry.all(),
            )

        return self._healing(act)

    def vector_sets(self) -> list[VectorSet]:
        """Every set of vectors, the one that answers first."""
        return self._healing(lambda: self.index.vectors.sets())

    def remove(self, wanted: str) -> Removal:
        """Disconnect a source and purge every row of it, with proof. Raises SourceNotFound.

        An id that is on no list but still owns rows, since a removal was killed, can be removed too.
        """
        from vademecum.sources.removal import remove

        source: Source | None = None
        try:
            source = self.registry.find(wanted)
        except SourceNotFound:
            if wanted not in self._healing(lambda: self.index.sources()):
                raise
        source_id = wanted if source is None else source.id
        self._refuse_home(source)
        return self._healing(
            lambda: remove(source_id, source, registry=self.registry, index=self.index, settings=self.settings)
        )

    def disconnect(self, wanted: str) -> Source:
        """Take a source off the list alone, where its rows cannot be reached: they are never recalled again, and the
        next sync that reaches them purges them. Raises SourceNotFound.
        """
        source = self.registry.find(wanted)
        self._refuse_home(source)
        with self.registry.discarding(source.id):
            return source

    def _refuse_home(self, source: Source | None) -> None:
        if source is not None and source.root == self.settings.home_vault:
            raise SourceIsHome(f"{source.name} is the home vault, where memories are written")

    def finish_removals(self) -> None:
        """Do what a killed or hindered removal left undone, and say so."""
        self._healing(self._finish_removals)

    def describe(self, source: Source) -> dict[str, Any]:
        """A source's entry, and what the index knows of it."""
        return self._healing(lambda: self._describe(source))

    def _describe(self, source: Source) -> dict[str, Any]:
        row = self.index.source(source.id)
        known: dict[str, Any] = {
            "state": "empty" if row is None else row.state,
            "documents": 0 if row is None else row.documents,
            "chunks": 0 if row is None else self.index.chunk_count(row.row),
            "last_indexed_at": None if row is None else row.last_indexed_at,
            "stale_since": None if row is None else row.stale_since,
            "skipped": {"count": 0, "by_reason": {}} if row is None else _skipped(row.skipped),
            "diagnostics": [] if row is None else list(row.diagnostics),
        }
        if not source.is_there:
            known["state"] = "unreachable"
        return {**source.as_json(), **known}

    def details(self, source: Source) -> dict[str, Any]:
        """`describe`, with the skipped files and what is odd about single notes."""
        return self._healing(lambda: self._details(source))

    def _details(self, source: Source) -> dict[str, Any]:
        row = self.index.source(source.id)
        files = [] if row is None else self.index.skipped(row.row, limit=100)
        warnings = [] if row is None else self.index.warnings(row.row, limit=100)
        return {
            **self._describe(source),
            "skipped_files": [{"path": path, "reason": reason} for path, reason in files],
            "warnings": [{"path": path, "line": line, "message": message} for path, line, message in warnings],
            "graph": {} if row is None else self.index.shape_counts(row.row),
            "conflict_copies": [] if row is None else [copy._asdict() for copy in self._conflict_copies(row)],
            "policy": None if row is None or row.policy is None else row.policy.as_json(),
        }

    def _conflict_copies(self, row: SourceRow) -> list[ConflictCopy]:
        notes = self.index.stamps(row.row)
        return conflict_copies(sorted(notes), notes)[:100]

    # ── questions

    def question(
        self,
        text: str,
        *,
        limit: int | None = None,
        lane: Lane = "hybrid",
        include: Include = "all",
        source: Sequence[str] = (),
        path: str = "",
        tag: Sequence[str] = (),
        since: str | None = None,
        until: str | None = None,
        without: Sequence[str] = (),
        wanted: Wanted | None = None,
        explain: bool = False,
        rerank: bool | None = None,
    ) -> Question:
        """A question as people put it, in the form that `recall` takes.

        `since` and `until` are ISO days or an age ("30d"). `wanted` narrows to memories that declare something, and so
        leaves every note out. Raises SourceNotFound, SourceDisabled, UsageError.
        """
        chosen = [self.registry.find(wanted) for wanted in source]
        for found in chosen:
            if not found.enabled:
                raise SourceDisabled(f"{found.name} is disabled")
        filters = Filters(
            sources=frozenset(found.id for found in chosen) if chosen else None,
            path_prefix=note_key(path).removeprefix("./"),
            tags=tuple(note_key(name.strip("#/ ")).casefold() for name in tag),
            since=parse_day(since, "since"),
            until=parse_day(until, "until"),
            include=include,
        )
        return Question(
            text=text,
            limit=limit or self.settings.recall_limit,
            lane=lane,
            without=tuple(without),
            filters=filters,
            wanted=None if wanted is None else wanted.admits,
            explain=explain,
            rerank=rerank,
        )

    @staticmethod
    def wanted(
        *, tags: Sequence[str] = (), since: str | None = None, until: str | None = None, **facets: Any
    ) -> Wanted:
        """Which memories are asked for, as people put it. Raises UsageError for a day that is none."""
        from vademecum.home import Wanted

        folded = tuple(note_key(name.strip("#/ ")).casefold() for name in tags)
        return Wanted(tags=folded, since=parse_day(since, "since"), until=parse_day(until, "until"), **facets)

    def recall(self, question: Question, caller: Caller) -> Recall:
        """Answer a question from the enabled sources."""
        return self._healing(lambda: recall(question, self.index, self._places(caller), caller, self.models))

    def read(self, address: str, caller: Caller) -> Passage:
        """Open a note, or a heading, block or line range of it."""
        return self._healing(lambda: read_passage(address, self.index, self._places(caller), caller))

    def expand(self, address: str, caller: Caller, *, depth: int = 1, limit: int = 50) -> Expansion:
        """Walk from a note over at most `depth` links: what it links to, what links to it, and where it stands."""
        from vademecum.search.expansion import expand

        places = self._places(caller)
        return self._healing(lambda: expand(address, self.index, places, caller, depth=depth, limit=limit))

    def artifacts(
        self, source: Source, caller: Caller, *, contains: str = "", limit: int = 100, offset: int = 0
    ) -> dict[str, Any]:
        """The notes of a source by path, without their text; `contains` is part of a path or title."""

        def act() -> dict[str, Any]:
            visible, _, _ = visible_in(self.index, {source.id: self._place(source, caller)}, caller)
            total, rows = self.index.graph(source.id, visible).artifacts(contains, limit=limit, offset=offset)
            return {"total": total, "artifacts": [{**row._asdict(), "private": bool(row.private)} for row in rows]}

        return self._healing(act)

    def export_graph(
        self, caller: Caller, *, source: Source | None = None, form: Form = "json", outline: bool = False
    ) -> Iterator[str]:
        """The graph of one source, or of all that are enabled, as text for other tools, piece by piece."""
        from vademecum.search.expansion import export

        places = self._places(caller)
        chosen = places if source is None else {source.id: self._place(source, caller)}

        def begin() -> Iterator[str]:
            pieces = export(form, self.index, chosen, caller, outline=outline, tell=self._notify)
            return _resumed(next(pieces), pieces)

        return self._healing(begin)

    # ── inside

    def _places(self, caller: Caller) -> dict[str, Place]:
        return {source.id: self._place(source, caller) for source in self.registry.all() if source.enabled}

    def _place(self, source: Source, caller: Caller) -> Place:
        labels = source.connector.labels
        return Place(
            source_id=source.id,
            name=source.name,
            kind=source.kind,
            root=source.root,
            display_root=source.display_root,
            source=labels.source,
            chunk_type=labels.chunk_type,
            note_type=labels.note_type,
            note_header=labels.note_header,
            harness=labels.harness,
            remembered=self.home.remembered(caller) if source.root == self.settings.home_vault else None,
        )

    def _healing(self, act: Callable[[], T]) -> T:
        """Do something with the index; if it proves damaged, build a new one from the sources and do it again."""
        before = inode_of(self.settings.index_file)
        try:
            return act()
        except IndexCorrupt as exc:
            self.close()
            self._replace_index(before, why=exc.message)
            return act()

    def _replace_index(self, inode: int | None, *, why: str) -> None:
        from vademecum.sources.sync import sync_source

        config.prepare(self.settings)
        with file_lock(self.settings.run_dir / "index.lock", wait_s=60, what="the index"):
            moved = quarantine(self.settings.index_file, self.settings.quarantine_dir, inode=inode)
            if moved is not None:
                self._notify(f"{why}. It was moved to {moved}, and the sources are being indexed again.")
            for source in self.registry.all():
                if source.enabled:
                    sync_source(source, self.registry, self.index, self.settings)

    def _check_integrity(self) -> None:
        problems = self.index.integrity(thorough=True)
        if problems:
            raise IndexCorrupt(f"the index {self.settings.index_file} is damaged: {problems[0]}")

    def _finish_removals(self) -> None:
        from vademecum.sources.removal import finish_removals

        proof = finish_removals(self.registry, self.index, self.settings)
        if proof is None:
            return
        if not proof.clean:
            ended = "but something of it may be left: see `vade doctor`"
        elif proof.passages:
            ended = "and nothing of it is left"
        else:
            ended = "and the index file is clean"
        self._notify(f"A removal or cleaning that was interrupted has been finished, {ended}.")


def _resumed(first: str, rest: Iterator[str]) -> Iterator[str]:
    yield first
    yield from rest


def _skipped(by_reason: Any) -> dict[str, Any]:
    return {"count": sum(by_reason.values()), "by_reason": dict(sorted(by_reason.items()))}
