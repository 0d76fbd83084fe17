"""The memories of one vault as its files have them now, and the changes that may be made to them.

Every question lists the files and looks at the stamp of each; only what changed is read again, so that an edit in an
editor, a sync tool's work and another process's memory are seen at once. What is kept between two questions is what a
file says, never an answer.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NamedTuple

from vademecum.errors import MemoryAmbiguous, MemoryNotFound, MemoryRefused, NoteError, NoteNotFound
from vademecum.memory.memory import Draft, Memory, parse_memory, render, slug
from vademecum.memory.ranking import as_title
from vademecum.memory.similarity import DUPLICATE, Bag, bag, similarity
from vademecum.vault import note_key, read_note_bytes, write

_MOST_BYTES: Final = 1 << 22
_SETTLING_NS: Final = 2_000_000_000
_SAME_TITLES: Final = 50


class Twin(NamedTuple):
    """A memory that says nearly the same, and how nearly, from 0 to 1."""

    memory: Memory
    similarity: float


@dataclass(slots=True)
class _Known:
    """A file as it was last read. `stamp` is None for one that is not to be believed."""

    path: str
    stamp: tuple[int, ...] | None
    content: bytes
    memory: Memory
    mtime_ns: int
    bag: Bag | None = None


class Store:
    """The memories below one folder of a vault. Not shared among threads."""

    def __init__(self, root: Path, folder: str) -> None:
        self.root = root
        self.folder = folder
        self.problems: tuple[str, ...] = ()
        self._known: dict[str, _Known] = {}
        self._all: tuple[Memory, ...] = ()

    def all(self) -> tuple[Memory, ...]:
        """Every file two folders below the memory root, human notes among them too, in the order of their paths.

        The same tuple as before where nothing has changed. A file that cannot be read now is as it was last read, or is
        left out; `problems` says so.
        """
        problems: list[str] = []
        known: dict[str, _Known] = {}
        changed = False
        for disk_path, stamp in self._listed(problems):
            old = self._known.get(disk_path)
            if old is not None and old.stamp == stamp:
                known[disk_path] = old
                continue
            try:
                known[disk_path] = self._read(disk_path, old)
            except NoteNotFound:
                continue
            except NoteError as exc:
                problems.append(exc.message)
                if old is not None:
                    known[disk_path] = old
            changed |= old is None or old.memory is not known[disk_path].memory
        if changed or len(known) != len(self._known):
            self._all = tuple([known[disk_path].memory for disk_path in sorted(known)])
        self._known, self.problems = known, tuple(problems)
        return self._all

    def age_days(self, path: str) -> int | None:
        """For how many days a memory's file is as it is; None where that cannot be told."""
        known = next((entry for entry in self._known.values() if entry.path == path), None)
        return None if known is None else max(0, (time.time_ns() - known.mtime_ns) // 86_400_000_000_000)

    def text(self, path: str) -> str:
        """A memory's file as it is now. Raises NoteError; MemoryRefused where it is no text that could be put back."""
        content, _ = read_note_bytes(os.path.join(self.root, self._disk_path(path)), max_bytes=_MOST_BYTES)
        try:
            return content.decode()
        except UnicodeDecodeError as exc:
            raise MemoryRefused([f"{path} is not valid UTF-8"], what="not changed") from exc

    def twins(self, title: str, body: str, fits: Callable[[Memory], bool]) -> list[Twin]:
        """Of the memories that fit, those that say nearly the same as this title and body, the nearest first.

        Looks at what `all` listed last; but whether one does is decided on its file as it is now.
        """
        wanted = bag(title, body)
        found = []
        for disk_path, entry in self._known.items():
            if similarity(wanted, _bag_of(entry), at_least=DUPLICATE) < DUPLICATE or not fits(entry.memory):
                continue
            try:
                fresh = self._read(disk_path, None).memory
            except NoteError:
                continue
            score = similarity(wanted, bag(fresh.title, fresh.claim))
            if score >= DUPLICATE:
                found.append(Twin(fresh, score))
        return sorted(found, key=lambda twin: (-twin.similarity, twin.memory.path))

    def write(self, draft: Draft, *, date: str, session: str) -> Memory:
        """Write a new memory under a name of its own. Raises VaultUnwritable, OutsideRoot."""
        name = slug(draft.title)

        def name_for(attempt: int) -> str:
            return f"{date} {name}.md" if attempt == 1 else f"{date} {name} ({attempt}).md"

        folder = f"{self.folder}/{date[:4]}/{date[5:7]}"
        content = render(draft, date=date, session=session)
        path = write.claim(self.root, folder, content, name_for, most=_SAME_TITLES)
        return parse_memory(content, path=note_key(path))

    def change(self, path: str, change: Callable[[str], str]) -> tuple[str, str]:
        """Rewrite a memory's file by a function of its text: the text before, and after.

        Raises NoteError, VaultUnwritable, MemoryRefused.
        """
        before = self.text(path)
        after = change(before)
        if after != before:
            write.replace(self.root, self._disk_path(path), after.encode())
            self._known.pop(self._disk_path(path), None)
        return before, after

    def _read(self, disk_path: str, old: _Known | None) -> _Known:
        content, stamp = read_note_bytes(os.path.join(self.root, disk_path), max_bytes=_MOST_BYTES)
        settled = stamp.inode != -1 and time.time_ns() - stamp.newest_ns > _SETTLING_NS
        believed = tuple(stamp) if settled else None
        if old is not None and old.content == content:
            return replace(old, stamp=believed, mtime_ns=stamp.mtime_ns)
        path = note_key(disk_path)
        memory = parse_memory(content.decode("utf-8", "replace"), path=path)
        return _Known(path, believed, content, memory, stamp.mtime_ns)

    def _disk_path(self, path: str) -> str:
        if os.path.lexists(os.path.join(self.root, path)):
            return path
        return next((disk_path for disk_path, _ in self._listed([]) if note_key(disk_path) == path), path)

    def _listed(self, problems: list[str]) -> Iterator[tuple[str, tuple[int, ...]]]:
        """The Markdown files of every month of every year, as the disk spells them, with their stamps."""
        if os.path.islink(os.path.join(self.root, self.folder)) and not self._is_inside(self.folder):
            problems.append(f"{self.folder} is a link out of the vault, which is not followed")
            return
        for year in self._folders(self.folder, problems):
            for month in self._folders(year, problems):
                yield from self._files(month, problems)

    def _files(self, month: str, problems: list[str]) -> Iterator[tuple[str, tuple[int, ...]]]:
        try:
            with os.scandir(os.path.join(self.root, month)) as entries:
                for entry in entries:
                    name = entry.name
                    if name[0] != "." and name[-3:].lower() == ".md" and entry.is_file(follow_symlinks=False):
                        status = entry.stat(follow_symlinks=False)
                        # Made for every file of every question: as a FileStamp, it would take as long again.
                        yield (
                            f"{month}/{name}",
                            (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino),
                        )
        except OSError as exc:
            problems.append(f"{month} cannot be listed: {exc.strerror}")

    def _folders(self, folder: str, problems: list[str]) -> list[str]:
        """The folders in one, also those that are links, as long as they lead to somewhere in the vault."""
        found = []
        try:
            with os.scandir(os.path.join(self.root, folder)) as entries:
                for entry in entries:
                    if entry.name.startswith(".") or not entry.is_dir():
                        continue
                    path = f"{folder}/{entry.name}"
                    if entry.is_symlink() and not self._is_inside(path):
                        problems.append(f"{path} is a link out of the vault, which is not followed")
                    else:
                        found.append(path)
        except FileNotFoundError:
            return []
        except OSError as exc:
            problems.append(f"{folder} cannot be listed: {exc.strerror}")
        return found

    def _is_inside(self, path: str) -> bool:
        real, root = os.path.realpath(os.path.join(self.root, path)), os.path.realpath(self.root)
        return real.startswith(root + os.sep)


def _bag_of(entry: _Known) -> Bag:
    if entry.bag is None:
        entry.bag = bag(entry.memory.title, entry.memory.claim)
    return entry.bag


def choose(wanted: str, memories: Sequence[Memory]) -> Memory:
    """The memory that a path, or a title that only one has, means. Raises MemoryNotFound, MemoryAmbiguous."""
    text = wanted.strip()
    path = note_key(text.removeprefix("./"))
    for fits in (
        [m for m in memories if m.path in (path, f"{path}.md")],
        [m for m in memories if as_title(m.title) == as_title(text)],
        [m for m in memories if m.path.rpartition("/")[2].removesuffix(".md").casefold() == as_title(text)],
    ):
        if len(fits) > 1:
            listed = ", ".join(m.path for m in fits)
            raise MemoryAmbiguous(f'"{text}" is the title of several memories: {listed}')
        if fits:
            return fits[0]
    import difflib

    near = difflib.get_close_matches(text, [m.title for m in memories], n=1)
    hint = f"Did you mean “{near[0]}”? `vade memories list` shows all that reach here." if near else None
    raise MemoryNotFound(f'no memory that reaches you is called "{text}"', hint=hint)
