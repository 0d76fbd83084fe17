"""The only code that writes notes: a new file that overwrites nothing, or an old one replaced whole.

Shaped against two failures: a check followed by a write, which loses notes as soon as two processes do it at once, and
a write that is cut short and leaves half a note. Whatever happens, a note's file is not there, or whole.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from vademecum.errors import OutsideRoot, VaultUnwritable
from vademecum.vault.tree import leads_out

# Hidden, so that neither Obsidian nor an indexer takes it for a note while it is being written.
_TEMPORARY: Final = ".vade-{pid}-{token}.tmp"
_LEFT_AFTER_S: Final = 3600.0


def claim(
    root: Path,
    folder: str,
    content: str,
    name_for: Callable[[int], str],
    *,
    most: int,
) -> str:
    """Write a new file below a root under the first free of the names `name_for(1)`, `name_for(2)`, …; its path.

    The folder, relative to the root, is made where it is missing. However many processes do so at once, each gets a
    file of its own, and none is overwritten. Raises VaultUnwritable, OutsideRoot.
    """
    place = folder_below(root, folder)
    try:
        _sweep(place)
        temporary = _written(place, content.encode("utf-8", "replace"))
        try:
            for attempt in range(1, most + 1):
                name = name_for(attempt)
                if "/" in name or leads_out(name):
                    raise OutsideRoot(f"{name!r} is no name for a file")
                if _linked(temporary, place / name):
                    _sync(place)
                    return f"{folder}/{name}" if folder else name
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as exc:
        raise _unwritable(place, exc) from exc
    raise VaultUnwritable(
        f"{folder or root} holds {most} notes of this name already", hint="Give it a title that says more."
    )


def replace(root: Path, path: str, content: bytes) -> None:
    """Replace a file below a root, which keeps its mode. Raises VaultUnwritable, OutsideRoot."""
    place = existing_folder(root, path)
    file = place / path.rpartition("/")[2]
    try:
        status = os.lstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise OutsideRoot(f"{path!r} is no file, and links are not followed")
        _sweep(place)
        temporary = _written(place, content, mode=stat.S_IMODE(status.st_mode))
        try:
            os.replace(temporary, file)
        finally:
            temporary.unlink(missing_ok=True)
        _sync(place)
    except OSError as exc:
        raise _unwritable(file, exc) from exc


def move(root: Path, path: str, to: str) -> None:
    """Move a file below a root to where none is, making the folders that takes. Raises VaultUnwritable, OutsideRoot."""
    place = existing_folder(root, path)
    if leads_out(to):
        raise OutsideRoot(f"{to!r} leads out of {root}")
    target = folder_below(root, to.rpartition("/")[0])
    source, destination = place / path.rpartition("/")[2], target / to.rpartition("/")[2]
    try:
        if not stat.S_ISREG(os.lstat(source).st_mode):
            raise OutsideRoot(f"{path!r} is no file, and links are not followed")
        if not _linked(source, destination):
            raise FileExistsError(errno.EEXIST, "a file of this name is there already")
        source.unlink(missing_ok=True)  # where no links are to be had, it was moved already
        _sync(target)
        _sync(place)
    except OSError as exc:
        raise _unwritable(source, exc) from exc


def remove(root: Path, path: str) -> None:
    """Delete a file below a root. Raises VaultUnwritable, OutsideRoot."""
    place = existing_folder(root, path)
    try:
        (place / path.rpartition("/")[2]).unlink()
    except OSError as exc:
        raise _unwritable(root / path, exc) from exc


def append(root: Path, path: str, lines: bytes) -> None:
    """Add whole lines to a file below a root, making it where it is missing; lines of several processes do not mix.

    A last line that a killed process left unfinished is closed first. Raises VaultUnwritable, OutsideRoot.
    """
    if leads_out(path):
        raise OutsideRoot(f"{path!r} leads out of {root}")
    folder, _, name = path.rpartition("/")
    place = folder_below(root, folder)
    try:
        if os.path.lexists(place / name) and not stat.S_ISREG(os.lstat(place / name).st_mode):
            raise OutsideRoot(f"{path!r} is no file, and links are not followed")
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(place / name, flags, 0o644)
        try:
            # The size grows while another process writes: without the lock its line would pass for a torn one.
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            size = os.fstat(descriptor).st_size
            torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
            content = (b"\n" if torn else b"") + lines
            if os.write(descriptor, content) != len(content):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        finally:
            os.close(descriptor)
    except OSError as exc:
        raise _unwritable(place / name, exc) from exc


def folder_below(root: Path, folder: str) -> Path:
    """A folder below a root, made where it is missing, with no link on the way. Raises VaultUnwritable, OutsideRoot."""
    if folder and leads_out(folder):
        raise OutsideRoot(f"{folder!r} leads out of {root}")
    at = root
    try:
        if not root.is_dir():
            raise FileNotFoundError(errno.ENOENT, "it is not there")
        for segment in folder.split("/") if folder else ():
            at = at / segment
            with suppress(FileExistsError):
                at.mkdir()
            _check_folder(at, folder)
    except OSError as exc:
        raise _unwritable(at, exc) from exc
    return at


def existing_folder(root: Path, path: str) -> Path:
    """The folder of a file below a root, with no link on the way. Raises VaultUnwritable, OutsideRoot."""
    if leads_out(path):
        raise OutsideRoot(f"{path!r} leads out of {root}")
    at = root
    try:
        for segment in path.split("/")[:-1]:
            at = at / segment
            _check_folder(at, path)
    except OSError as exc:
        raise _unwritable(at, exc) from exc
    return at


def _check_folder(at: Path, path: str) -> None:
    mode = os.lstat(at).st_mode
    if stat.S_ISLNK(mode):
        raise OutsideRoot(f"{path!r} leads through a link, and nothing is written through links")
    if not stat.S_ISDIR(mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))


def _written(place: Path, content: bytes, *, mode: int | None = None) -> Path:
    """A hidden file with this content, on disk."""
    temporary = place / _TEMPORARY.format(pid=os.getpid(), token=os.urandom(4).hex())
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    try:
        with open(descriptor, "wb") as file:
            if mode is not None:
                os.fchmod(descriptor, mode)  # the umask does not change what was there
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return temporary


def _linked(temporary: Path, target: Path) -> bool:
    """Give a written file its name, unless one of that name is there."""
    try:
        os.link(temporary, target)
    except FileExistsError:
        return False
    except OSError as exc:
        if exc.errno not in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK, errno.EACCES):
            raise
        return _copied(temporary, target)
    return True


def _copied(temporary: Path, target: Path) -> bool:
    """The same where the file system knows no links: claim the name with an empty file, then put the whole one there.

    A kill between the two leaves an empty file, which is no note.
    """
    try:
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644))
    except FileExistsError:
        return False
    try:
        os.replace(temporary, target)
    except BaseException:
        target.unlink(missing_ok=True)
        raise
    return True


def _sync(place: Path) -> None:
    """Have the folder's entries on disk; not every file system can."""
    with suppress(OSError):
        descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _sweep(place: Path) -> None:
    """Delete what a killed process left: nobody writes one file for an hour."""
    import time

    with os.scandir(place) as entries:
        for entry in entries:
            if not (entry.name.startswith(".vade-") and entry.name.endswith(".tmp")):
                continue
            with suppress(OSError):
                if time.time() - entry.stat(follow_symlinks=False).st_mtime > _LEFT_AFTER_S:
                    os.unlink(entry.path)


def _unwritable(place: Path, exc: OSError) -> VaultUnwritable:
    return VaultUnwritable(f"{place} cannot be written: {exc.strerror or exc}")
