"""Bring the vectors up to date with the text, the newest notes first.

Every vector is stored as soon as it is made, so whatever ends a run loses one request at most. Shaped against a
server that is down (a run stops after three failures in a row, and nothing is held against the texts) and against a
text that no model takes, or at which a server fails while it takes others (it is tried three times in all, then
counted and left alone).
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from vademecum.access import ANONYMOUS, policy_of, readable_note, visible_notes
from vademecum.config import Settings, file_lock
from vademecum.embedding import Embedder, Models
from vademecum.errors import EmbedderDown, ModelError, NoteError, StateBusy, TextRefused
from vademecum.index import ChunkSaid, Index, Located, VectorSet
from vademecum.markdown.plain import TEXT_FORM, embedded_text
from vademecum.sources.registry import Source
from vademecum.vault import read_note_bytes

_MOST_FAILURES: Final = 3
_PAUSE_S: Final = 0.5
_MOST_BYTES: Final = 1 << 24
_LOCK_WAIT_S: Final = 24 * 3600.0
_PLAIN: Final = "A plain text."

Progress = Callable[[int, int, str], None]


@dataclass(slots=True)
class EmbedReport:
    """What one run did.

    state     done: nothing is missing; partial: time was up or the embedder failed; busy: another process embeds
    have      texts with a vector in the set that was filled
    pending   texts that still lack one
    refused   texts that were given up
    answers   whether that set is the one that answers
    """

    model: str
    state: Literal["done", "partial", "busy"] = "done"
    embedded: int = 0
    have: int = 0
    pending: int = 0
    refused: int = 0
    answers: bool = True
    reason: str = ""
    hint: str = ""
    took_ms: int = 0

    def as_json(self) -> dict[str, Any]:
        """The report with the names that `--json` prints."""
        return {name: getattr(self, name) for name in self.__slots__}


class _Text(NamedTuple):
    content: bytes
    said: ChunkSaid


def embed(
    index: Index,
    embedder: Embedder,
    settings: Settings,
    *,
    budget_s: float | None,
    progress: Progress | None = None,
    waiting: Callable[[], None] | None = None,
    lender: Path | None = None,
    sources: Sequence[Source] = (),
) -> EmbedReport:
    """Make the vectors that are missing, for at most `budget_s` seconds, or all of them when that is None.

    `lender` is another index file, whose vectors of the same texts by the same embedder are copied first. Of `sources`
    alone texts are sent to another machine, where the embedder is there.

    One process at a time does so: another one waits when it has all the time, else says that it is busy. Raises
    StateReadOnly, IndexBusy.
    """
    started = time.perf_counter()
    report = EmbedReport(embedder.name)
    wait_s = _LOCK_WAIT_S if budget_s is None else 0.0
    try:
        with file_lock(settings.run_dir / "embed.lock", wait_s=wait_s, what="the embedder", waiting=waiting):
            gate = _Gate(index, sources, settings.home_vault) if embedder.host else None
            run = _Run(index, embedder, report, progress, lender, gate)
            run.fill(None if budget_s is None else started + budget_s)
    except StateBusy:
        report.state, report.reason = "busy", "another process is embedding"
    _count(index, _set_identity(embedder.identity), report)
    report.took_ms = round((time.perf_counter() - started) * 1000)
    return report


def complete_already(index: Index, models: Models) -> EmbedReport | None:
    """A report that nothing is to do, where that can be told without opening the embedder; else None."""
    wanted = models.settings.model
    sets = index.vectors.sets()
    if len(sets) != 1 or sets[0].missing or index.vectors.kept_back(sets[0].row):  # one not wanted any more has to go
        return None
    identity = models.identity(wanted)
    if identity is None and sets[0].name == wanted:
        try:  # of a server that may have another model of this name by now
            identity = models.embedder().identity
        except ModelError:
            return EmbedReport(wanted, have=sets[0].have, refused=sets[0].refused)
    if identity is None or sets[0].identity != _set_identity(identity):
        return None
    return EmbedReport(wanted, have=sets[0].have, refused=sets[0].refused)


def _set_identity(embedder: str) -> str:
    """What tells the vectors of two sets apart: the embedder, and the form of the texts that it was given."""
    return f"{embedder}+{TEXT_FORM}"


def _count(index: Index, identity: str, report: EmbedReport) -> None:
    for found in index.vectors.sets():
        if found.identity == identity:
            report.have, report.pending, report.refused = found.have, found.missing, found.refused
            report.answers = bool(found.answers)


class _Gate:
    """What may leave this machine: what a note says that anybody could be shown, now and as it was indexed.

    So nothing private, nothing that a manifest keeps back, nothing of a source that is switched off or removed, and
    nothing that its note has ceased to say: the file is looked at again.
    """

    def __init__(self, index: Index, sources: Sequence[Source], home: Path) -> None:
        self._vectors = index.vectors
        self._roots = {source.id: source.root for source in sources if source.enabled}
        policies = {key: policy_of(root, home=root == home)[0] for key, root in self._roots.items()}
        self._visible = visible_notes(ANONYMOUS, policies)

    def lets_out(self, content: bytes) -> bool:
        """Whether a text may be sent."""
        places = self._vectors.places(content)
        return any(self._is_open(note, indexed) for note, indexed in places if note.source_id in self._roots)

    def _is_open(self, note: Located, indexed: bytes) -> bool:
        if note.private:
            return False
        try:
            opened = readable_note(self._visible, note, root=self._roots[note.source_id])
            return opened.stamp == note.known or _fingerprint(opened.path) == indexed
        except NoteError:
            return False


def _fingerprint(file: Path) -> bytes:
    content, _ = read_note_bytes(str(file), max_bytes=_MOST_BYTES)
    return hashlib.sha256(content).digest()


class _Run:
    def __init__(
        self,
        index: Index,
        embedder: Embedder,
        report: EmbedReport,
        progress: Progress | None,
        lender: Path | None,
        gate: _Gate | None,
    ) -> None:
        self.vectors = index.vectors
        self.embedder = embedder
        self.report = report
        self.progress = progress
        self.lender = lender
        self.gate = gate
        self._failures = 0
        self._refused: list[bytes] = []
        self._doubted: list[bytes] = []
        self._in_a_row = 0

    def fill(self, deadline: float | None) -> None:
        """Embed until nothing is missing, time is up, or the embedder fails."""
        chosen = self.vectors.open_set(
            identity=_set_identity(self.embedder.identity), name=self.embedder.name, dimensions=self.embedder.dimensions
        )
        if self.lender is not None and self.lender.exists():
            self.vectors.borrow(self.lender, chosen.identity)
        if self.vectors.kept_back(chosen.row):
            self.vectors.look_again(chosen.row)
        while missing := self._to_do(chosen):
            if not self._pass(chosen, missing, deadline):
                self.report.state = "partial"
                return
        self.vectors.switch(chosen.row)

    def _to_do(self, chosen: VectorSet) -> list[bytes]:
        """What is missing but for what was refused in this very run: the next one tries that again."""
        refused = frozenset(self._refused)
        return [content for content in self.vectors.missing(chosen.row) if content not in refused]

    def _pass(self, chosen: VectorSet, missing: Sequence[bytes], deadline: float | None) -> bool:
        """Embed these texts; False when it had to end before the last of them."""
        done = 0
        for batch in self._batches(missing):
            if self._is_late(deadline) or not self._embed(chosen, batch, deadline):
                return False
            done += len(batch)
            if self.progress is not None:
                self.progress(done, len(missing), "")
        return True

    def _batches(self, missing: Sequence[bytes]) -> Iterator[list[_Text]]:
        size = self.embedder.batch
        for start in range(0, len(missing), size):
            found = [(content, self.vectors.said(content)) for content in missing[start : start + size]]
            yield [_Text(content, said) for content, said in found if said is not None]

    def _embed(self, chosen: VectorSet, batch: list[_Text], deadline: float | None) -> bool:
        """Embed a batch, whole or text by text; False when the embedder is down or time is up."""
        if self.gate is not None:
            kept = [text.content for text in batch if not self.gate.lets_out(text.content)]
            if kept:
                self.vectors.keep_back(chosen.row, kept)
            batch = [text for text in batch if text.content not in kept]
        while batch:
            try:
                self._store(chosen, batch)
                self._failures = 0
                return True
            except (TextRefused, EmbedderDown) as exc:
                if isinstance(exc, TextRefused) or self._takes_plain():
                    self._failures = 0
                    return self._embed_apart(chosen, batch, deadline, exc)
                self._failures += 1
                if self._is_late(deadline) or self._failures >= _MOST_FAILURES:
                    self.report.reason, self.report.hint = exc.message, exc.hint
                    return False
                time.sleep(_PAUSE_S * self._failures)
        return True

    def _embed_apart(self, chosen: VectorSet, batch: Sequence[_Text], deadline: float | None, why: ModelError) -> bool:
        """Embed each text of a batch by itself; a single one counts as refused."""
        if len(batch) == 1:
            self._in_a_row += 1
            if self._in_a_row >= _MOST_FAILURES and not self._takes_plain():
                self.report.reason, self.report.hint = why.message, why.hint
                return False
            self._count_against(chosen, batch[0].content, why)
            return True
        return all(not self._is_late(deadline) and self._embed(chosen, [text], deadline) for text in batch)

    def _count_against(self, chosen: VectorSet, content: bytes, why: ModelError) -> None:
        """Hold a refusal against a text, but for the first failure of the server at it: that one may be chance."""
        if isinstance(why, EmbedderDown) and content not in self._doubted:
            self._doubted.append(content)
            return
        self._refused.append(content)
        self.vectors.refuse(chosen.row, content, why.message)

    def _takes_plain(self) -> bool:
        """Whether the embedder takes a text that nobody could object to: then it is the text that it refused."""
        try:
            self.embedder.embed_documents([_PLAIN])
        except (TextRefused, EmbedderDown):
            return False
        return True

    def _is_late(self, deadline: float | None) -> bool:
        late = deadline is not None and time.perf_counter() >= deadline
        if late:
            self.report.reason = "the time for embedding is up"
        return late

    def _store(self, chosen: VectorSet, batch: Sequence[_Text]) -> None:
        texts = [embedded_text(t.said.title, t.said.heading_path, t.said.text) for t in batch]
        rows = self.embedder.embed_documents(texts).astype("<f4", copy=False)
        unread = [self.embedder.unread(text) for text in texts]
        made = [(t.content, row.tobytes(), left) for t, row, left in zip(batch, rows, unread, strict=True)]
        self.vectors.put(chosen.row, made)
        self._in_a_row = 0
        self.report.embedded += len(batch)
