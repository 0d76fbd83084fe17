"""Plans made real below a folder, and what a stranger sees there: nothing here asks the product.

Whatever an operating system refuses (a name that is taken, too long, a folder in the way) is passed over, so a plan
stays a plan when something is left out of it.
"""

import os
import shutil
import socket
import stat
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple
from urllib.parse import unquote

from fuzz.hostile_tree import EXCLUDES, SECOND, Change, Entry

BINARY_PROBE_BYTES = 8192
BLANK = "\ufeff \t\r\n\f\v\xa0"


class Disk:
    """A root that plans are carried out in. What is `protected`, and what lies above it, no plan can touch."""

    def __init__(self, root: bytes) -> None:
        self.root = root
        self.protected: set[bytes] = set()
        self.written = 0
        os.makedirs(root)

    def protect(self, path: bytes, content: bytes) -> None:
        """Write a file that stays as it is."""
        if self.make(Entry(path, "file", content)):
            parts = path.split(b"/")
            self.protected |= {b"/".join(parts[: n + 1]) for n in range(len(parts))}

    def make(self, entry: Entry) -> bool:
        """Make an entry; whether it is there."""
        at = self._place(entry.path)
        if at is None or os.path.lexists(at):
            return False
        try:
            os.makedirs(os.path.dirname(at), exist_ok=True)
            self._put(at, entry)
            if entry.mtime_s is not None:
                os.utime(at, ns=(0, entry.mtime_s * SECOND), follow_symlinks=False)
        except (OSError, ValueError):
            return False
        return True

    def _put(self, at: bytes, entry: Entry) -> None:
        match entry.kind:
            case "file":
                with open(at, "wb") as file:
                    file.write(entry.data)
                self.written += 1
            case "folder":
                os.mkdir(at)
            case "link":
                os.symlink(entry.data, at)
            case "fifo":
                os.mkfifo(at)
            case "hard link":
                source = self._place(entry.data)
                if source is not None:
                    os.link(source, at, follow_symlinks=False)
            case "socket":
                self._listen(at)

    def _listen(self, at: bytes) -> None:
        here = os.getcwd()
        os.chdir(os.path.dirname(at))  # a socket's path has to be short
        try:
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind(os.path.basename(at))
        finally:
            os.chdir(here)

    def change(self, change: Change) -> None:
        """Let one thing happen, as far as it can."""
        at = self._place(change.path)
        if at is None:
            return
        with suppress(OSError, ValueError, shutil.Error):
            match change.act:
                case "write" | "append" if change.entry is not None and not os.path.isdir(at):
                    self._write(at, change.entry.data, append=change.act == "append")
                case "forge" if stat.S_ISREG(os.lstat(at).st_mode):
                    _forge(at)
                case "delete":
                    _remove(at)
                case "touch":
                    os.utime(at, ns=(0, change.mtime_s * SECOND), follow_symlinks=False)
                case "move" | "swap":
                    self._move(at, change)
                case "replace" if change.entry is not None:
                    _remove(at)
                    self.make(change.entry)

    def _write(self, at: bytes, content: bytes, *, append: bool) -> None:
        status = os.lstat(at) if os.path.lexists(at) else None
        if status is None or stat.S_ISREG(status.st_mode):
            os.makedirs(os.path.dirname(at), exist_ok=True)
            with open(at, "ab" if append else "wb") as file:
                file.write(content)
            self.written += 1

    def _move(self, at: bytes, change: Change) -> None:
        to = self._place(change.other)
        if to is None or to == at:
            return
        os.makedirs(os.path.dirname(to), exist_ok=True)
        if change.act == "swap" and os.path.lexists(to):
            aside = self.root + b".aside"
            os.rename(at, aside)
            try:
                os.rename(to, at)
                os.rename(aside, to)
            finally:
                if os.path.lexists(aside):
                    _remove(aside)
        else:
            os.rename(at, to)

    def _place(self, path: bytes) -> bytes | None:
        """Where a path is, unless it is protected or leads through a link."""
        if path in self.protected or b".." in path.split(b"/") or not path.strip(b"/"):
            return None
        at = os.path.join(self.root, path)
        parent = os.path.dirname(at)
        return at if os.path.realpath(parent) == os.path.normpath(parent) else None


def _forge(at: bytes) -> None:
    before = os.stat(at)
    with open(at, "r+b") as file:
        content = file.read()
        file.seek(0)
        file.write(content[::-1])
    os.utime(at, ns=(0, before.st_mtime_ns))


def _remove(at: bytes) -> None:
    if os.path.isdir(at) and not os.path.islink(at):
        shutil.rmtree(at)
    else:
        os.unlink(at)


def traces(root: bytes) -> dict[bytes, tuple[int, ...]]:
    """What any write, and any change of a time or a mode, would change; the bytes need not be read for that."""
    found: dict[bytes, tuple[int, ...]] = {}
    for path in [root, *_below(root)]:
        status = os.lstat(path)
        found[path] = (status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
    return found


def _below(folder: bytes) -> Iterator[bytes]:
    with os.scandir(folder) as entries:
        found = sorted(entries, key=lambda entry: entry.name)
    for entry in found:
        yield entry.path
        if entry.is_dir(follow_symlinks=False):
            yield from _below(entry.path)


class Account(NamedTuple):
    """What has to become of each file: indexed by key, or skipped for a reason.

    A person has to be `told` of each note that is skipped, and may be told of whatever is `tellable`.
    """

    indexed: dict[str, bytes]
    reasons: Counter[str]
    told: set[tuple[str, str]]
    tellable: set[tuple[str, str]]

    @property
    def files(self) -> int:
        """Everything that is no folder."""
        return len(self.indexed) + self.reasons.total()


def account(root: bytes, *, most_bytes: int) -> Account:
    """Judge every file below a root by the rules that the pages state."""
    found = Account({}, Counter(), set(), set())
    candidates: dict[str, bytes] = {}
    for path, hidden, excluded in _files(root):
        reason = "hidden" if hidden else "excluded" if excluded else None
        name = os.fsdecode(path)
        key = unicodedata.normalize("NFC", name)
        if reason is None:
            reason = _why_no_note(root, path, name, key, candidates)
            if reason is None:
                candidates[key] = path
                reason = _why_not_read(os.path.join(root, path), most_bytes)
            if reason is not None and name.lower().endswith((".md", ".markdown")):
                found.told.add((shown(key), reason))
        if reason is None:
            found.indexed[key] = path
        else:
            found.reasons[reason] += 1
            found.tellable.add((shown(key), reason))
    return found


def _files(root: bytes) -> Iterator[tuple[bytes, bool, bool]]:
    """All that is no folder, with whether it is hidden or excluded, in the order of a walk by names."""
    folders: list[tuple[bytes, bool, bool]] = [(b"", False, False)]
    while folders:
        folder, hidden, excluded = folders.pop()
        with os.scandir(os.path.join(root, folder)) as entries:
            listed = sorted(entries, key=lambda entry: os.fsdecode(entry.name))
        below = []
        for entry in listed:
            path = folder + b"/" + entry.name if folder else entry.name
            is_hidden = hidden or (entry.name.startswith(b".") and not excluded)
            is_excluded = excluded or (_is_excluded(path) and not is_hidden)
            if entry.is_dir(follow_symlinks=False):
                below.append((path, is_hidden, is_excluded))
            else:
                yield path, is_hidden, is_excluded
        folders += reversed(below)


def _is_excluded(path: bytes) -> bool:
    folder, ending = (pattern.encode() for pattern in EXCLUDES)
    return path == folder.rstrip(b"/") or path.endswith(ending.lstrip(b"*"))


def _why_no_note(root: bytes, path: bytes, name: str, key: str, seen: Iterable[str]) -> str | None:
    mode = os.lstat(os.path.join(root, path)).st_mode
    if not name.lower().endswith((".md", ".markdown")):
        return "symlink" if stat.S_ISLNK(mode) else "not_read"
    if shown(key) != key or "\\" in key or _leads_elsewhere(key):
        return "bad_name"
    if key in seen:
        return "duplicate_name"
    return None if stat.S_ISREG(mode) else "symlink" if stat.S_ISLNK(mode) else "not_a_file"


def _leads_elsewhere(key: str) -> bool:
    """Whether whoever decodes this path, or knows drives by letters, is led out of the root."""
    return any(
        form.startswith(("/", "\\")) or ".." in form.replace("\\", "/").split("/") or "\0" in form or form[1:3] == ":/"
        for form in (key, unquote(key))
    )


def _why_not_read(at: bytes, most_bytes: int) -> str | None:
    with open(at, "rb") as file:
        content = file.read()
    if len(content) > most_bytes:
        return "too_large"
    if b"\0" in content[:BINARY_PROBE_BYTES]:
        return "binary"
    return None if content.decode("utf-8", "replace").strip(BLANK) else "empty"


def shown(key: str) -> str:
    """A name as a text can hold it."""
    return "".join("\ufffd" if unicodedata.category(c) in ("Cc", "Cs") else c for c in key)
