"""Take a source away so that nothing is left of it, and prove that.

The order is safe against a crash at any point: first the entry of sources.json, then the rows. Rows without an entry
are never recalled, and the next command that may write takes them out. The proof searches the bytes of every file
of the state folder for passages of the removed text.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from vademecum.config import Settings, file_lock
from vademecum.errors import StateBusy, StateError
from vademecum.index import Index, Purged
from vademecum.sources.registry import Registry, Source

EVALUATIONS_LOCK: Final = "eval.lock"
_EVALUATIONS_WAIT_S: Final = 60.0
_BLOCK_BYTES: Final = 1 << 24
_INDEX_FILE: Final = re.compile(r"index-\d+\.db(?:-wal|-shm|-journal)?").fullmatch


@dataclass(frozen=True, slots=True)
class Proof:
    """What the search for residue did and found.

    residue    (file, passage) pairs: bytes of removed text that are still there
    blocked_by processes that hold the index open and kept the file from being cleaned
    problems   what SQLite finds wrong with the index, words without a note among them
    """

    files: int
    bytes: int
    passages: int
    residue: tuple[tuple[str, str], ...] = ()
    blocked_by: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def clean(self) -> bool:
        """Whether nothing is left, as far as the search could see, and nothing hindered it."""
        return not (self.residue or self.blocked_by or self.problems)


@dataclass(frozen=True, slots=True)
class Removal:
    """What a removal did. `source` is None when only leftover rows of an unlisted source were found."""

    source: Source | None
    purged: Purged
    proof: Proof
    quarantine_files: int

    def as_json(self) -> dict[str, Any]:
        """The outcome with the names that `--json` prints."""
        proof = self.proof
        return {
            "source": None if self.source is None else self.source.as_json(),
            "purged": self.purged.total,
            "purged_rows": self.purged.as_json(),
            "quarantine_files": self.quarantine_files,
            "files_modified": 0,
            "proof": {
                "clean": proof.clean,
                "files": proof.files,
                "bytes": proof.bytes,
                "passages": proof.passages,
                "residue": [{"file": file, "passage": passage} for file, passage in proof.residue],
                "blocked_by": list(proof.blocked_by),
                "problems": list(proof.problems),
            },
        }


def remove(source_id: str, source: Source | None, *, registry: Registry, index: Index, settings: Settings) -> Removal:
    """Disconnect a source and purge every row of it. Doing it again does no harm."""
    with registry.discarding(source_id):  # so that no new connection of the same folder comes in between
        purged = index.purge(source_id)
    swept = sweep(settings)
    return Removal(source, purged, prove(index, settings, [*purged.passages, *purged.numbers]), swept)


def finish_removals(registry: Registry, index: Index, settings: Settings) -> Proof | None:
    """Do what a killed or hindered removal left undone; None when there was nothing.

    Rows of sources that are on no list any more are judged while nobody can change the list. Raises
    SourcesFileCorrupt, and then nothing is purged.
    """
    sweep_evaluations(settings)
    if not registry.exists():  # lost rather than emptied: a removal leaves an empty list behind
        return None
    complete = registry.ids().issuperset(index.sources())
    # Tried in vain, a cleaning keeps every other writer waiting for seconds.
    if complete and (not index.scrub_pending() or _somebody_syncs(settings) or index.reader_in_the_way()):
        return None
    passages: list[str | bytes] = []
    with registry.locked():
        for source_id in set(index.sources()) - registry.ids():
            purged = index.purge(source_id)
            passages += (*purged.passages, *purged.numbers)
    return prove(index, settings, passages)


def _somebody_syncs(settings: Settings) -> bool:
    """Whether a sync runs now: then a cleaning that is due is its own business."""
    for lock in settings.run_dir.glob("sync-*.lock"):
        try:
            with file_lock(lock, wait_s=0, what="a source"):
                pass
        except StateBusy:
            return True
    return False


def prove(index: Index, settings: Settings, passages: Sequence[str | bytes]) -> Proof:
    """Clean the file, then search every byte of the state for the removed passages, and numbers of removed vectors."""
    cleaned = index.scrub()
    files, size, found, unread = _search_bytes(_state_bytes(index, settings), passages)
    residue = [(str(path), _told(passage)) for path, passage in found if not index.still_holds(passage)]
    return Proof(
        files=files,
        bytes=size,
        passages=len(passages),
        residue=tuple(residue),
        blocked_by=() if cleaned else tuple(_holders(settings.index_file) or ["another process"]),
        problems=(*index.integrity(thorough=True), *unread),
    )


def _search_bytes(
    files: Iterator[tuple[Path, Iterator[bytes]]], passages: Sequence[str | bytes]
) -> tuple[int, int, list[tuple[Path, str | bytes]], list[str]]:
    """Look for every passage in the bytes of every file: files read, bytes read, what was found, what was not read."""
    needles = [(passage, passage.encode() if isinstance(passage, str) else passage) for passage in passages]
    overlap = max((len(needle) for _, needle in needles), default=1) - 1
    count, size, found, unread = 0, 0, dict[tuple[Path, str | bytes], None](), list[str]()
    for path, blocks in files:
        tail = b""
        try:
            for block in blocks:
                window = tail + block
                found |= dict.fromkeys((path, passage) for passage, needle in needles if needle in window)
                tail, size = window[-overlap:] if overlap else b"", size + len(block)
        except OSError as exc:
            unread.append(f"{path} could not be searched: {exc.strerror}")
        count += 1
    return count, size, list(found), unread


def _told(passage: str | bytes) -> str:
    return passage if isinstance(passage, str) else f"vector {passage[:8].hex()}…"


def _state_bytes(index: Index, settings: Settings) -> Iterator[tuple[Path, Iterator[bytes]]]:
    """The bytes of the index, as its own connection reads them, and of every other file of the state folder.

    The index must not be opened beside its connection: when this process closes any descriptor of a file, the system
    drops all its locks on it, SQLite's too, and another process may then cut the file short under our feet. Its -shm
    file, which lists page numbers and no text, is left out for that reason.
    """
    yield from index.blocks(_BLOCK_BYTES)
    own = {settings.index_file.with_name(settings.index_file.name + end) for end in ("", "-wal", "-shm")}
    own.add(settings.sources_file)  # written anew without the removed entry: what it holds belongs to others
    for path in state_files(settings):
        if path not in own:
            yield path, _blocks(path)


def _blocks(path: Path) -> Iterator[bytes]:
    # Read, not mapped: another process may cut the file short, and a page that is gone kills the reader.
    try:
        with open(path, "rb") as file:
            while block := file.read(_BLOCK_BYTES):
                yield block
    except FileNotFoundError:
        return


def _holders(path: Path) -> list[str]:
    """The other processes that have this file open, as far as the system tells: "name (pid)"."""
    real, own, found = os.path.realpath(path), os.getpid(), []
    for process in Path("/proc").glob("[0-9]*"):
        if process.name == str(own):
            continue
        try:
            if any(os.path.realpath(fd) == real for fd in (process / "fd").iterdir()):
                name = (process / "comm").read_text().strip()
                found.append(f"{name} ({process.name})")
        except OSError:
            continue
    return sorted(found)


def sweep(settings: Settings) -> int:
    """Delete quarantined indexes and those of other schema numbers: copies of text that no purge reaches."""
    old = [
        p for p in settings.home.iterdir() if _INDEX_FILE(p.name) and not p.name.startswith(settings.index_file.name)
    ]
    if settings.quarantine_dir.is_dir():
        old += [p for p in settings.quarantine_dir.iterdir() if p.is_file()]
    for path in old:
        with suppress(OSError):  # what stays is met by the search that follows
            path.unlink(missing_ok=True)
    sweep_evaluations(settings)
    return len(old)


def sweep_evaluations(settings: Settings) -> None:
    """Delete what killed evaluations left: copies of text below run/ that no purge reaches. One that runs is let be."""
    left = list(settings.run_dir.glob("eval-*/"))
    if not left:
        return
    with file_lock(settings.run_dir / EVALUATIONS_LOCK, wait_s=_EVALUATIONS_WAIT_S, what="the folder of evaluations"):
        for folder in left:
            try:
                # A lock, not the process id in the name: ids are given out again, and differ between containers.
                with file_lock(folder / "alive.lock", wait_s=0, what="this evaluation"):
                    shutil.rmtree(folder, ignore_errors=True)
            except StateError:  # in use, or gone by now
                continue


def state_files(settings: Settings) -> Iterator[Path]:
    """Every file of the state folder but those of the home vault, which is the user's."""
    vault = settings.home / "vault"
    for folder, folders, files in os.walk(settings.home):
        folders[:] = [name for name in folders if Path(folder, name) != vault]
        yield from (path for name in files if _is_regular(path := Path(folder, name)))


def _is_regular(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False
