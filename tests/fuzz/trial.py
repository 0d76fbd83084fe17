"""One plan carried out against the real application: real files, real SQLite, and after every sync all that must hold.

Each problem begins with the name of the promise that is broken, so that a smaller plan can be told to break the same.
"""

import hashlib
import os
import random
import re
import shutil
import time
import zlib
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Final

import pytest

from fuzz.disk import Account, Disk, account, traces
from fuzz.hostile_tree import EXCLUDES, Change, Plan
from vademecum.access import OWNER
from vademecum.sources import Source
from vademecum.sources.sync import SyncReport
from workbench import Workbench, content, counts, files_with, live_documents, selected

MOST_BYTES: Final = 50_000
REASONS: Final = frozenset(
    {
        "hidden", "excluded", "symlink", "not_read", "bad_name", "duplicate_name", "not_a_file", "empty", "binary",
        "too_large",
    }
)  # fmt: skip
SECRET: Final = "outsideqzx"
NEIGHBOURS: Final = {
    "control zero.md": "bkqzxnorth",
    "Sub/control one.md": "gkqzxwest",
    "folder.md/control two.md": "wkqzxsouth",
}
# A word index keeps of a word only what differs from the one before it, so that is what to look for in its bytes.
RESIDUES: Final = tuple(word[2:] for word in NEIGHBOURS.values())
_TICK_S: Final = 0.02  # what a file system's clock may take to go on
_WORD: Final = re.compile(r"[^\W_]{3,20}")


class Trial:
    """A plan, the folders it is carried out in, and the application that follows it."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        self.plan = plan
        self.folder = folder
        self.disk = Disk(os.fsencode(folder / "vault"))
        self.bench = Workbench(folder / "home", sources_max_file_bytes=MOST_BYTES)
        self.documents = 0

    def problems(self) -> Generator[str, None, None]:
        """Carry the plan out, and yield what is broken."""
        with pytest.MonkeyPatch.context() as patch:
            if self.plan.trusting:
                real = time.time_ns
                patch.setattr(time, "time_ns", lambda: real() + 10**10)
            try:
                yield from self._problems()
            finally:
                self.bench.close()

    def clear(self) -> None:
        """Delete everything that was made."""
        shutil.rmtree(self.folder)

    def _problems(self) -> Iterator[str]:
        calm = self._calm_source()
        alone = content(self.bench.settings), counts(self.bench.settings)
        self._build()
        source, _, report = self.bench.app.add(
            "obsidian", os.fsdecode(self.disk.root), name="hostile", exclude=list(EXCLUDES)
        )
        yield from self._after(source, report)
        yield from self._unchanged(source)
        for changes in self.plan.rounds:
            yield from self._round(source, changes)
        if self.plan.under:
            yield from self._changed_under(source)
        yield from self._unchanged(source)
        yield from self._opened(source)
        yield from self._asked()
        if self._drawn(3) == 0:
            yield from self._fresh(source)
        yield from self._removed(source, calm, alone)

    def _drawn(self, sides: int) -> int:
        """What a die with so many sides shows for this plan, however small it has been made."""
        return zlib.crc32(f"{sides} {self.plan.seed}".encode()) % sides

    # ── the steps

    def _calm_source(self) -> Source:
        calm = self.folder / "calm"
        calm.mkdir()
        (calm / "calm.md").write_text("# Calm\n\ncalmqzx stays.\n")
        (calm / "other.md").write_text("---\ntags: [x]\n---\nOther [[calm]].\n")
        # A removal takes another way when most of the index stays.
        for number in range(self._drawn(2) * 120):
            (calm / f"{number}.md").write_text(f"# Calm {number}\n\nSays calmqzy{number} beside [[calm]].\n")
        return self.bench.app.add("folder", str(calm), name="calm")[0]

    def _build(self) -> None:
        outside = self.folder / "outside"
        outside.mkdir()
        (outside / "secret.md").write_text(f"{SECRET} must not be read")
        for path, word in NEIGHBOURS.items():
            self.disk.protect(path.encode(), f"# Control\n\n{word} stands here.\n\n- item ^id\n".encode())
        for entry in self.plan.entries:
            self.disk.make(entry)

    def _round(self, source: Source, changes: tuple[Change, ...]) -> Iterator[str]:
        time.sleep(_TICK_S if self.plan.trusting else 0)
        for change in changes:
            self.disk.change(change)
        before = traces(self.disk.root)
        report = self.bench.sync(source)
        if traces(self.disk.root) != before:
            yield "untouched: a sync changed something below the root"
        yield from self._after(source, report)

    def _changed_under(self, source: Source) -> Iterator[str]:
        """Changes while notes are being read: nothing may be raised, and the next sync has to make it good."""
        left = list(self.plan.under)

        def meanwhile(done: int, total: int, path: str) -> None:
            if left and done % 5 == 0:
                self.disk.change(left.pop())

        time.sleep(_TICK_S)
        report = self.bench.app.sync(self.bench.app.registry.find(source.id), force=True, progress=meanwhile)
        self.documents = report.documents
        time.sleep(_TICK_S)
        yield from self._after(source, self.bench.sync(source))

    def _unchanged(self, source: Source) -> Iterator[str]:
        settings = self.bench.settings
        before = content(settings), counts(settings), traces(self.disk.root)
        report = self.bench.sync(source)
        if (report.added, report.updated, report.removed, report.unchanged) != (0, 0, 0, self.documents):
            yield f"unchanged: a second sync reports {report}"
        if (content(settings), counts(settings)) != before[:2]:
            yield "unchanged: a second sync changes what the index says"
        if traces(self.disk.root) != before[2]:
            yield "untouched: a second sync changed something below the root"

    # ── what has to hold

    def _after(self, source: Source, report: SyncReport) -> Iterator[str]:
        there = account(self.disk.root, most_bytes=MOST_BYTES)
        indexed = self.bench.paths(source)
        for what, paths in (("lost", there.indexed.keys() - indexed), ("ghost", indexed - there.indexed.keys())):
            if paths:
                yield f"{what}: {sorted(paths)[:5]}"
        yield from self._accounts(source, report, there)
        yield from self._up_to_date(source, there)
        for path, word in NEIGHBOURS.items():
            if self.bench.found(word) != [path]:
                yield f"neighbour: {word} finds {self.bench.found(word)}"
            if word not in self.bench.app.read(path, OWNER).text:
                yield f"neighbour: {path} is read without its words"
        if self.bench.found(SECRET):
            yield "containment: what lies outside is found"
        if problems := self.bench.app.index.integrity(thorough=True):
            yield f"integrity: {problems}"

    def _accounts(self, source: Source, report: SyncReport, there: Account) -> Iterator[str]:
        """Every file is a document or a skip with a reason, and the figures of the report add up."""
        if report.documents + report.skipped.total() != there.files:
            yield f"count: {report.documents} documents and {report.skipped} of {there.files} files"
        if report.skipped != there.reasons or not report.skipped.keys() <= REASONS:
            yield f"reasons: {dict(report.skipped)}, not {dict(there.reasons)}"
        row = self.bench.app.index.sources()[source.id].row
        told = set(self.bench.app.index.skipped(row, limit=100_000))
        untold = {path for path, _ in there.told} - {path for path, _ in told}
        if untold or not told <= there.tellable:
            yield f"told: not {sorted(untold)[:5]}, but {sorted(told - there.tellable)[:5]}"
        if report.state != "healthy" or report.held:
            yield f"state: {report.state}, held {report.held}, {report.diagnostics}"
        if report.documents != self.documents + report.added - report.removed:
            yield f"figures: {self.documents} documents before, {report}"
        if report.documents != report.added + report.updated + report.unchanged:
            yield f"figures: {report}"
        self.documents = report.documents

    def _up_to_date(self, source: Source, there: Account) -> Iterator[str]:
        """What is indexed of a note is what its file holds now, under the name that the disk has for it."""
        for row in live_documents(self.bench.settings):
            path = there.indexed.get(row["path"])
            if row["source_id"] == source.id and path is not None:
                with open(os.path.join(self.disk.root, path), "rb") as file:
                    current = hashlib.sha256(file.read()).digest() == row["fingerprint"]
                if not current or os.fsencode(row["disk_path"]) != path:
                    yield f"stale: {row['path']!r} is indexed as it was, or as {row['disk_path']!r}"

    def _opened(self, source: Source) -> Iterator[str]:
        """Every note that is indexed can be opened, and none of them is withheld from its owner."""
        for row in live_documents(self.bench.settings):
            if row["source_id"] == source.id:
                path = os.path.join(os.fsdecode(self.disk.root), row["disk_path"])
                if self.bench.app.read(path, OWNER).path != row["path"]:
                    yield f"opened: {path!r} is another note"

    def _asked(self) -> Iterator[str]:
        """Every hit can be opened at its lines, and says there what it said."""
        dice = random.Random(self.plan.seed)
        rows = selected(self.bench.settings, "select title, body from chunk c join document d on d.id = c.document")
        for row in dice.sample(rows, min(5, len(rows))):
            words = _WORD.findall(row["title"] + " " + row["body"][:2_000])
            question = " ".join(dice.sample(words, min(3, len(words))))
            answer = self.bench.recall(question, limit=5)
            if answer.receipt.withheld:
                yield f"withheld: {answer.receipt.withheld} for {question!r}"
            for hit in answer.hits:
                passage = self.bench.app.read(f"{hit.source_path}:{hit.line_start}-{hit.line_end}", OWNER)
                if passage.path != hit.path or (passage.line_start, passage.line_end) != (hit.line_start, hit.line_end):
                    yield f"hit: {hit.path!r} {hit.line_start}-{hit.line_end} opens {passage.path!r}"
                if not hit.whole_note and hit.content.strip("…").strip() not in passage.text:
                    yield f"hit: {hit.path!r} does not say {hit.content[:80]!r} there"

    def _fresh(self, source: Source) -> Iterator[str]:
        """An index that followed all the changes says what one says that was made just now."""
        other = Workbench(self.folder / "fresh", sources_max_file_bytes=MOST_BYTES)
        other.add(Path(os.fsdecode(self.disk.root)), exclude=list(EXCLUDES))
        anew = content(other.settings)
        other.close()
        kept = [row for row in content(self.bench.settings) if row[0] == source.id]
        if kept != anew:
            differing = next(
                (pair for pair in zip(kept, anew, strict=False) if pair[0] != pair[1]), (len(kept), len(anew))
            )
            yield f"fresh: {differing}"

    def _removed(self, source: Source, calm: Source, alone: object) -> Iterator[str]:
        """A removal leaves the other source as it was, and then nothing."""
        settings, before = self.bench.settings, traces(self.disk.root)
        removal = self.bench.app.remove(source.id)
        if not removal.proof.clean or removal.purged.documents != self.documents:
            yield f"removal: {removal.proof}, {removal.purged.as_json()}"
        if (content(settings), counts(settings)) != alone or self.bench.found("calmqzx") != ["calm.md"]:
            yield f"removal: the other source is not as it was: {counts(settings)}"
        if left := files_with(settings.home, *RESIDUES):
            yield f"residue: {left}"
        self.bench.app.remove(calm.id)
        if any(counts(settings).values()) or self.bench.app.index.integrity(thorough=True):
            yield f"removal: rows are left: {counts(settings)}"
        if traces(self.disk.root) != before:
            yield "untouched: a removal changed something below the root"
