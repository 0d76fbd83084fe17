"""Vademecum: everything below wired together once. Surfaces call this and decide nothing."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from vademecum import config
from vademecum.access import Caller
from vademecum.config import Settings, file_lock
from vademecum.embedding import NOT_INSTALLED, Models
from vademecum.errors import IndexCorrupt, ModelMissing, SourceDisabled, SourceNotFound, VadeError
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
    from vademecum.search.expansion import Expansion
    from vademecum.sources.removal import Removal
    from vademecum.sources.sync import Preview, Progress, SyncReport
    from vademecum.sources.vectors import EmbedReport

T = TypeVar("T")


class Check(NamedTuple):
    """One line of the doctor: what was looked at, whether it is well, and what to do if not."""

    name: str
    ok: bool
    detail: str
    remedy: str = ""


def diagnosis(checks: Sequence[Check]) -> dict[str, Any]:
    """What a doctor found, with the names of the wire."""
    return {
        "status": "healthy" if all(check.ok for check in checks) else "degraded",
        "checks": [{**check._asdict(), "remedy": "" if check.ok else check.remedy} for check in checks],
    }


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
        return self._healing(
            lambda: remove(source_id, source, registry=self.registry, index=self.index, settings=self.settings)
        )

    def disconnect(self, wanted: str) -> Source:
        """Take a source off the list alone, where its rows cannot be reached: they are never recalled again, and the
        next sync that reaches them purges them. Raises SourceNotFound.
        """
        source = self.registry.find(wanted)
        with self.registry.discarding(source.id):
            return source

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
        if not _is_there(source.root):
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
        explain: bool = False,
        rerank: bool | None = None,
    ) -> Question:
        """A question as people put it, in the form that `recall` takes.

        `since` and `until` are ISO days or an age ("30d"). Raises SourceNotFound, SourceDisabled, UsageError.
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
        )
        return Question(
            text=text,
            limit=limit or self.settings.recall_limit,
            lane=lane,
            include=include,
            without=tuple(without),
            filters=filters,
            explain=explain,
            rerank=rerank,
        )

    def recall(self, question: Question, caller: Caller) -> Recall:
        """Answer a question from the enabled sources."""
        return self._healing(lambda: recall(question, self.index, self._places(), caller, self.models))

    def read(self, address: str, caller: Caller) -> Passage:
        """Open a note, or a heading, block or line range of it."""
        return self._healing(lambda: read_passage(address, self.index, self._places(), caller))

    def expand(self, address: str, caller: Caller, *, depth: int = 1, limit: int = 50) -> Expansion:
        """Walk from a note over at most `depth` links: what it links to, what links to it, and where it stands."""
        from vademecum.search.expansion import expand

        places = self._places()
        return self._healing(lambda: expand(address, self.index, places, caller, depth=depth, limit=limit))

    def artifacts(
        self, source: Source, caller: Caller, *, contains: str = "", limit: int = 100, offset: int = 0
    ) -> dict[str, Any]:
        """The notes of a source by path, without their text; `contains` is part of a path or title."""

        def act() -> dict[str, Any]:
            visible, _, _ = visible_in(self.index, {source.id: _place(source)}, caller)
            total, rows = self.index.graph(source.id, visible).artifacts(contains, limit=limit, offset=offset)
            return {"total": total, "artifacts": [{**row._asdict(), "private": bool(row.private)} for row in rows]}

        return self._healing(act)

    def export_graph(
        self, caller: Caller, *, source: Source | None = None, form: Form = "json", outline: bool = False
    ) -> Iterator[str]:
        """The graph of one source, or of all that are enabled, as text for other tools, piece by piece."""
        from vademecum.search.expansion import export

        places = self._places()
        chosen = places if source is None else {source.id: _place(source)}

        def begin() -> Iterator[str]:
            pieces = export(form, self.index, chosen, caller, outline=outline, tell=self._notify)
            return _resumed(next(pieces), pieces)

        return self._healing(begin)

    def doctor(self) -> list[Check]:
        """Look at everything that has to be well."""
        return [*self._check_state(), *self._check_sources(), *self._check_index(), *self._check_model()]

    # ── inside

    def _places(self) -> dict[str, Place]:
        return {source.id: _place(source) for source in self.registry.all() if source.enabled}

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

    def _check_state(self) -> list[Check]:
        home = self.settings.home
        if not home.exists():
            return [Check("state folder", True, f"{home} is not made yet")]
        mode = home.stat().st_mode & 0o777
        private = not mode & 0o077
        writable = os.access(home, os.W_OK | os.X_OK)
        return [
            Check("state folder", writable, str(home), f"Make {home} writable for you."),
            Check("privacy", private, f"mode {mode:04o}", f"Others can read your index: chmod 700 {home}"),
        ]

    def _check_index(self) -> list[Check]:
        path = self.settings.index_file
        if not path.exists():
            return [Check("index", True, "not made yet")]
        try:
            problems = self.index.integrity(thorough=not self.index.read_only)
            pending = self.index.scrub_pending()
        except VadeError as exc:
            return [Check("index", False, exc.message, exc.hint)]
        return [
            Check(
                "index", not problems, "; ".join(problems[:3]) or f"{path.name}, {path.stat().st_size:,} bytes", REBUILD
            ),
            Check(
                "removals",
                not pending,
                "deleted text still lies in gaps of the file" if pending else "none unfinished",
                "Close other vade processes, then run `vade sources sync`.",
            ),
        ]

    def _check_model(self) -> list[Check]:
        if self.settings.model == "none":
            return [Check("model", True, "search by meaning is switched off")]
        try:
            embedder = self.models.embedder()
            remarks = embedder.remarks  # opens the model, where the daemon's would be asked
            sets = self.index.vectors.sets() if self.settings.index_file.exists() else []
        except VadeError as exc:
            absent = isinstance(exc, ModelMissing) and self.models.why_none() == NOT_INSTALLED
            told = "none is installed; words are searched. `vade models pull` fetches one." if absent else exc.message
            return [Check("model", absent, told, exc.hint)]
        detail = " ".join([f"{embedder.name}, {embedder.dimensions} dimensions.", *remarks])
        return [Check("model", True, detail.rstrip(".")), *map(_check_set, sets), *self._check_reranker()]

    def _check_reranker(self) -> list[Check]:
        if not self.settings.values["recall.rerank"]:
            return []
        try:
            return [Check("reranker", True, self.models.reranker().name)]
        except VadeError as exc:
            return [Check("reranker", False, exc.message, exc.hint)]

    def _check_sources(self) -> list[Check]:
        try:
            sources = self.registry.all()
        except VadeError as exc:
            return [Check("sources", False, exc.message, exc.hint)]
        checks = [Check("sources", True, f"{len(sources)} connected")]
        try:
            known = self.index.sources() if self.settings.index_file.exists() else {}
        except VadeError:  # told by the check of the index
            return checks
        return [*checks, *(_check_source(s, known.get(s.id)) for s in sources if s.enabled)]


def _resumed(first: str, rest: Iterator[str]) -> Iterator[str]:
    yield first
    yield from rest


def _check_set(found: VectorSet) -> Check:
    detail = f"{found.have:,} of {found.name}, {found.missing:,} missing, {found.refused:,} given up"
    return Check("vectors", not found.missing, detail, "`vade sources sync --wait` makes them.")


REBUILD = "`vade sources sync --force` moves it to quarantine and builds a new one from the sources."


def _check_source(source: Source, row: SourceRow | None) -> Check:
    name = f"source {source.name}"
    if not _is_there(source.root):
        return Check(name, False, f"{source.root} is unreachable", "Mount the drive, or remove the source.")
    if row is None:
        return Check(name, False, "never indexed", "Run `vade sources sync`.")
    if row.state != "healthy":
        detail = "; ".join(row.diagnostics[:3]) or row.state
        return Check(name, False, detail, f"`vade sources show {source.id}` has the details.")
    return Check(name, True, f"{row.documents:,} notes, indexed {row.last_indexed_at}")


def _skipped(by_reason: Any) -> dict[str, Any]:
    return {"count": sum(by_reason.values()), "by_reason": dict(sorted(by_reason.items()))}


def _is_there(root: Path) -> bool:
    return os.path.isdir(root) and os.access(root, os.R_OK | os.X_OK)


def _place(source: Source) -> Place:
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
    )
