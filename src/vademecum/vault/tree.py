"""The walk over a root, its ignore rules, containment, and reading one file.

The failures it is shaped against: a link that leads out of the vault, one name that arrives in two Unicode forms, a
folder that cannot be listed and so looks empty, a pattern that takes exponential time.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Final, NamedTuple

from vademecum.errors import (
    GlobInvalid,
    NoteEvicted,
    NoteNotFound,
    NoteUnreadable,
    OutsideRoot,
    SourceRootMissing,
)

DEFAULT_GLOBS: Final = ("**/.obsidian/**", "**/.trash/**", "**/.hermes/**", "**/.*/**", "**/.*")
NOTE_SUFFIXES: Final = (".md", ".markdown")
LINKED_SUFFIXES: Final = (*NOTE_SUFFIXES, ".canvas", ".base")
"""What a link may leave out of a file's name, the most likely first."""
_BINARY_PROBE_BYTES: Final = 8192
_MOST_DECLARED_BYTES: Final = 1 << 20
_MAX_GLOBS: Final = 200
_MAX_GLOB_CHARACTERS: Final = 500
# A path this long is nobody's note; it keeps a hostile tree from exhausting the stack or the index.
_MAX_PATH_CHARACTERS: Final = 4096
_MOST_LISTED: Final = 200_000
_MOST: Final = (1 << 63) - 1
# What the flags of a file whose content is in a cloud alone hold on macOS. Reading it would fetch it.
_SF_DATALESS: Final = 0x40000000
# In its place, older versions of iCloud leave a hidden file named after it.
_PLACEHOLDER: Final = ".icloud"
_HELD_BY_ITS_CLOUD: Final = "its cloud holds it"
# What reading a file gives whose cloud, drive or server does not hand it out.
_AWAY: Final = frozenset(
    (
        errno.EDEADLK,
        errno.EAGAIN,
        errno.EIO,
        errno.ETIMEDOUT,
        errno.ESTALE,
        errno.ECANCELED,
        errno.ENOTCONN,
        errno.EHOSTDOWN,
        errno.EHOSTUNREACH,
        errno.ENETDOWN,
        errno.ENETUNREACH,
    )
)
_DRIVE: Final = re.compile(r"[A-Za-z]:/").match
_PLAIN: Final = re.compile(r"[ -\[\]-~]{1,4096}").fullmatch

Read = Callable[[int, int], bytes]
"""Reads at most so many bytes from a descriptor. The one seam for read errors that no machine produces on demand."""


class FileStamp(NamedTuple):  # a tuple, since a scan makes two for every file: half the time of a frozen dataclass
    """What the file system says about a file's content without reading it."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int

    @property
    def newest_ns(self) -> int:
        """The later of the two times: no content change can be newer than this."""
        return max(self.mtime_ns, self.ctime_ns)


class Away(NamedTuple):
    """Why a note cannot be looked at: the reason that is counted, and what the system says."""

    reason: str
    why: str


@dataclass(slots=True)
class Scan:
    """What lies below a root.

    files      the stamp of each note by key: root-relative, POSIX separators, Unicode NFC
    spellings  the path as the disk spells it, of each key that is spelled otherwise there
    away       keys of notes that are there and cannot be looked at; they are not gone
    unlisted   keys of folders that could not be listed, and why; what lies below them is unknown, not gone
    skipped    (key, reason) of every file that is no note, but hidden ones; links may mean them
    reasons    every file that is no note candidate, counted by reason; includes those in `skipped`
    truncated  the walk stopped at its limit, so absence means nothing
    """

    files: dict[str, FileStamp] = field(default_factory=dict)
    spellings: dict[str, str] = field(default_factory=dict)
    away: dict[str, Away] = field(default_factory=dict)
    unlisted: dict[str, str] = field(default_factory=dict)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)
    truncated: bool = False

    def disk_path(self, key: str) -> str:
        """The root-relative path by which a note is opened."""
        return self.spellings.get(key, key)


class Ignores:
    """Which root-relative paths are no part of a source, for which of two reasons.

    `hidden` are the default globs, `excluded` those of the user and of the vault's own settings. A folder that
    matches is not entered.
    """

    def __init__(self, globs: Iterable[str] = (), prefixes: Iterable[str] = ()) -> None:
        patterns = [_glob_pattern(glob) for glob in globs if glob not in DEFAULT_GLOBS]
        patterns += [re.escape(prefix) + "/.*" for prefix in prefixes]
        self._excluded = re.compile("|".join(patterns), re.DOTALL).fullmatch if patterns else None

    def reason(self, key: str, name: str) -> str | None:
        """Why this path is ignored: "hidden", "excluded", or None when it is not."""
        if name.startswith("."):  # what all five default globs say of a single name
            return "hidden"
        if self._excluded is not None and self._excluded(key + "/"):
            return "excluded"
        return None

    def covers(self, key: str) -> bool:
        """Whether a path, or a folder on the way to it, is ignored."""
        segments = key.split("/")
        return any(self.reason("/".join(segments[: i + 1]), name) for i, name in enumerate(segments))


def check_glob(glob: str) -> str:
    """The glob in the form that is stored: trimmed, forward slashes, `x/` as `x/**`. Raises GlobInvalid."""
    text = glob.strip().replace("\\", "/").removeprefix("./")
    if not text:
        raise GlobInvalid("an exclude glob is empty")
    if len(text) > _MAX_GLOB_CHARACTERS:
        raise GlobInvalid(f"an exclude glob is longer than {_MAX_GLOB_CHARACTERS} characters")
    if any(unicodedata.category(c) in ("Cc", "Cs") for c in text):
        raise GlobInvalid("an exclude glob holds control characters")
    if text.startswith("/") or _DRIVE(text):
        raise GlobInvalid(f"the exclude glob {text!r} is absolute")
    if "" in text.rstrip("/").split("/"):
        raise GlobInvalid(f"the exclude glob {text!r} has an empty segment, so it could match nothing")
    if ".." in text.split("/"):
        raise GlobInvalid(f"the exclude glob {text!r} leads out of the source")
    return unicodedata.normalize("NFC", text + "**" if text.endswith("/") else text)


def check_globs(globs: Iterable[str]) -> tuple[str, ...]:
    """All globs checked, without repeats, in order. Raises GlobInvalid."""
    checked = tuple(dict.fromkeys(check_glob(glob) for glob in globs))
    if len(checked) > _MAX_GLOBS:
        raise GlobInvalid(f"more than {_MAX_GLOBS} exclude globs")
    return checked


def _glob_pattern(glob: str) -> str:
    """A regular expression for one glob, for paths with a slash after every segment.

    Each run of segments after a `**` is matched at its first place and kept (an atomic group). That is enough for
    globs, and linear where backtracking over several `**` would be exponential.
    """
    segments = glob.split("/") if "/" in glob else ["**", glob]
    runs = [""]
    for segment in segments:
        if segment == "**":
            runs.append("")
        else:
            runs[-1] += _segment_pattern(segment) + "/"
    if len(runs) == 1:
        return runs[0]
    first, *middle, last = runs
    kept = "".join(f"(?>(?:[^/]+/)*?{run})" for run in middle if run)
    return f"{first}{kept}(?:[^/]+/)*{last}"


def _segment_pattern(segment: str) -> str:
    if segment == "*":
        return "[^/]+"
    first, *rest = segment.split("*")
    if not rest:
        return re.escape(first)
    *middle, last = rest
    pattern = re.escape(first)
    for part in middle:
        if part:
            pattern += f"(?>[^/]*?{re.escape(part)})"
    return pattern + "[^/]*" + re.escape(last)


def read_declaration(path: Path) -> str | None:
    """The text of a small file by which a folder declares something; None when there is none.

    A link is followed, since people share such files among vaults, but only to a regular file of at most a megabyte.
    Raises OSError or ValueError when it is there and cannot be read.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        if os.path.lexists(path):
            raise ValueError("it is a link that leads nowhere") from None
        return None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("it is no regular file")
        if status.st_size > _MOST_DECLARED_BYTES:
            raise ValueError("it is larger than a megabyte")
        return os.read(descriptor, _MOST_DECLARED_BYTES).decode("utf-8-sig")
    finally:
        os.close(descriptor)


def user_ignore_filters(root: Path) -> tuple[tuple[str, ...] | None, list[str]]:
    """What the vault itself asks to ignore (`userIgnoreFilters` of .obsidian/app.json), and diagnostics.

    None means that the file is there but cannot be understood, so that the last known list has to stand. A regular
    expression is not supported and named in the diagnostics.
    """
    try:
        text = read_declaration(root / ".obsidian" / "app.json")
        filters = _listed_filters(text) if text is not None else []
    except (OSError, ValueError, RecursionError) as exc:
        return None, [f".obsidian/app.json cannot be used, so the last known ignore list stands: {plainly(exc)}"]
    prefixes, diagnostics = [], []
    for entry in filters:
        if not isinstance(entry, str):
            diagnostics.append(f"the ignore filter {entry!r} is no text and is not applied")
            continue
        text = unicodedata.normalize("NFC", entry).strip()
        if len(text) > 1 and text.startswith("/") and text.endswith("/"):
            diagnostics.append(f"the ignore filter {text} is a regular expression and is not applied")
        elif text.strip("/"):
            prefixes.append(text.strip("/"))
    return tuple(prefixes), diagnostics


def _listed_filters(text: str) -> list[object]:
    settings = json.loads(text)
    filters = settings.get("userIgnoreFilters", []) if isinstance(settings, dict) else None
    if filters is None and isinstance(settings, dict):  # what Obsidian writes when the last one is taken out
        return []
    if not isinstance(filters, list):
        raise ValueError("userIgnoreFilters is no list")
    return filters


def plainly(exc: Exception) -> str:
    """What is wrong with a declaration, without the words of Python."""
    match exc:
        case json.JSONDecodeError():
            return f"it is no valid JSON (line {exc.lineno})"
        case UnicodeDecodeError():
            return "it is no UTF-8"
        case RecursionError():
            return "it is nested too deep"
        case OSError():
            return exc.strerror or "it cannot be read"
    return str(exc) if type(exc) is ValueError and not str(exc).startswith("Exceeds") else "it cannot be understood"


def note_key(path: str) -> str:
    """The one spelling by which a note is known: Unicode NFC, forward slashes."""
    return path if path.isascii() else unicodedata.normalize("NFC", path)


def link_name(path: str) -> str:
    """The name by which links look for a file: the last segment of its path, or of a link's target, without a suffix
    that links may leave out, and without regard to case. A dot in a title is no suffix.
    """
    name = note_key(path).rpartition("/")[2].casefold()
    return (name.endswith(LINKED_SUFFIXES) and name.rpartition(".")[0]) or name


def walk(root: Path, ignores: Ignores, *, max_files: int = 200_000) -> Scan:
    """List the notes below a root, in a fixed order, without following any link.

    Raises SourceRootMissing when the root is not there or cannot be listed.
    """
    if os.path.realpath(root) != str(root):
        raise SourceRootMissing(f"{root} is a link now, and links are not followed")
    scan = Scan()
    folders = [""]
    while folders and not scan.truncated:
        folders += reversed(_scan_folder(root, folders.pop(), ignores, scan))
        scan.truncated = len(scan.files) > max_files
    return scan


def _scan_folder(root: Path, prefix: str, ignores: Ignores, scan: Scan) -> list[str]:
    """Put what one folder holds into the scan; the folders below it, which come next."""
    try:
        with os.scandir(os.path.join(root, prefix)) as found:
            entries = sorted(found, key=attrgetter("name"))
    except OSError as exc:
        if not prefix:
            raise SourceRootMissing(f"{root} cannot be listed: {exc.strerror}") from exc
        scan.unlisted[note_key(prefix.rstrip("/"))] = exc.strerror or str(exc)
        return []
    below = []
    key_prefix = note_key(prefix)
    for entry in entries:
        name = entry.name
        key = key_prefix + note_key(name)
        reason = ignores.reason(key, name)
        if reason == "hidden" and name.endswith(_PLACEHOLDER) and _stands_for_a_note(root, prefix, name, ignores):
            key, reason = key_prefix + note_key(_in_place_of(name)), "evicted"
            scan.away[key] = Away(reason, _HELD_BY_ITS_CLOUD)
            scan.skipped.append((key, reason))
            scan.reasons[reason] += 1
            continue
        if entry.is_dir(follow_symlinks=False):
            if reason is None:
                below.append(f"{prefix}{name}/")
            else:
                _leave_out(entry.path, key, reason, scan)
            continue
        if reason is None and name.lower().endswith(NOTE_SUFFIXES):
            reason = _note_problem(entry, key, scan)
            if reason is None:
                scan.files[key] = stamp_of(entry.stat(follow_symlinks=False))
                if key != prefix + name:
                    scan.spellings[key] = prefix + name
                continue
            if reason == "vanished":  # no file to account for
                continue
        reason = reason or ("symlink" if entry.is_symlink() else "not_read")
        scan.reasons[reason] += 1
        if reason != "hidden":
            scan.skipped.append((_printable(key), reason))
    return below


def _leave_out(folder: str, key: str, reason: str, scan: Scan) -> None:
    """Account for all files of a folder that is not entered. Those that are not hidden are listed, for links."""
    for path in _files_below(folder):
        scan.reasons[reason] += 1
        if reason != "hidden" and len(scan.skipped) < _MOST_LISTED and "/." not in f"/{path}":
            scan.skipped.append((_printable(f"{key}/{note_key(path)}"), reason))


def _note_problem(entry: os.DirEntry[str], key: str, scan: Scan) -> str | None:
    """Why a file with a note's name is no note; None when it is one, and then its status is at hand."""
    if not _PLAIN(key) and (_printable(key) != key or "\\" in key or len(key) > _MAX_PATH_CHARACTERS):
        return "bad_name"
    if ("%" in key or ":" in key) and leads_out(key):  # nobody could open it: its own address leads elsewhere
        return "bad_name"
    if key in scan.files:  # the same name in another Unicode form: one key, one note
        return "duplicate_name"
    try:
        mode = entry.stat(follow_symlinks=False).st_mode
    except FileNotFoundError:
        return "vanished"
    except OSError as exc:
        scan.away[key] = Away(_reason_of(exc), exc.strerror or str(exc))
        return scan.away[key].reason
    if stat.S_ISREG(mode):
        return None
    return "symlink" if stat.S_ISLNK(mode) else "not_a_file"


def _reason_of(exc: OSError) -> str:
    return "evicted" if exc.errno in _AWAY else "unreadable"


def _in_place_of(name: str) -> str:
    return name[1 : -len(_PLACEHOLDER)]


def _stands_for_a_note(root: Path, prefix: str, name: str, ignores: Ignores) -> bool:
    """Whether this hidden file says that a note, which is not there itself, lies in a cloud."""
    real = _in_place_of(name)
    path = prefix + real
    if not real.lower().endswith(NOTE_SUFFIXES) or ignores.reason(note_key(path), real) is not None:
        return False
    return _printable(path) == path and "\\" not in path and not os.path.lexists(os.path.join(root, path))


def stamp_of(status: os.stat_result) -> FileStamp:
    """The stamp of a file from its status; a time that no 64 bits hold becomes the nearest one that they do."""
    mtime, ctime = status.st_mtime_ns, status.st_ctime_ns
    if not (0 <= mtime <= _MOST and 0 <= ctime <= _MOST):
        mtime, ctime = _held(mtime), _held(ctime)
    return FileStamp(status.st_size, mtime, ctime, status.st_ino & _MOST)


def _held(time_ns: int) -> int:
    return max(-_MOST, min(time_ns, _MOST))


def _files_below(folder: str) -> Iterator[str]:
    """Paths, relative to a folder, of all files and links below it, in a fixed order."""
    for below, folders, files in os.walk(folder):
        folders.sort()
        prefix = below[len(folder) + 1 :] + "/" if len(below) > len(folder) else ""
        links = [name for name in folders if os.path.islink(os.path.join(below, name))]
        yield from (prefix + name for name in sorted([*files, *links]))


def _printable(key: str) -> str:
    """The key with what no text file can hold replaced: bytes that are no Unicode, control characters."""
    if key.isascii() and key.isprintable():
        return key
    return "".join("\ufffd" if unicodedata.category(c) in ("Cc", "Cs") else c for c in key)


def contained(root: Path, path: str) -> Path:
    """The regular file that a root-relative path names, proven to lie below the root with no link on the way.

    Raises OutsideRoot for every form that leads, or could lead, elsewhere; NoteNotFound, NoteUnreadable, NoteEvicted.
    """
    if leads_out(path):
        raise OutsideRoot(f"{path!r} leads out of its source")
    at = str(root)
    try:
        for segment in path.split("/"):
            at = f"{at}/{segment}"
            mode = os.lstat(at).st_mode
            if stat.S_ISLNK(mode):
                raise OutsideRoot(f"{path!r} leads through a link, and links are not followed")
        if not stat.S_ISREG(mode):
            raise NoteNotFound(f"{path} is no file", hint="Name a note: a file that recall prints.")
    except (FileNotFoundError, NotADirectoryError) as exc:
        folder, name = os.path.split(at)
        if os.path.lexists(os.path.join(folder, f".{name}{_PLACEHOLDER}")):
            raise NoteEvicted(f"{path} is not on this machine now", why=_HELD_BY_ITS_CLOUD) from exc
        raise NoteNotFound(f"there is no {path} below {root}") from exc
    except OSError as exc:
        raise NoteUnreadable(f"{path} cannot be reached below {root}: {exc.strerror}") from exc
    return Path(at)


def leads_out(path: str) -> bool:
    """Whether a path that should be relative to a root is written so that it leads, or could lead, elsewhere."""
    if not path or "\\" in path or "\x00" in path or (not path.isascii() and _printable(path) != path):
        return True
    forms = [path]
    if "%" in path:
        from urllib.parse import unquote

        forms.append(unquote(path).replace("\\", "/"))
    return any(
        form.startswith("/") or ".." in form.split("/") or "\x00" in form or _DRIVE(form) is not None for form in forms
    )


def read_note_bytes(path: str, *, max_bytes: int, read: Read = os.read) -> tuple[bytes, FileStamp]:
    """Read a file, at most one byte more than `max_bytes`, and the stamp it had while it was read.

    A file that changes under the reading is read once more; if it changes again the later reading stands, with a
    stamp that no file has. Raises NoteUnreadable, NoteEvicted when it is not on this machine now; NoteNotFound when
    it is gone.
    """
    try:
        for _ in range(2):
            content, before, after = _read_once(path, max_bytes, read)
            if before == after:
                return content, after
    except FileNotFoundError as exc:
        raise NoteNotFound(f"{path} is gone") from exc
    except OSError as exc:
        failed = NoteEvicted if _reason_of(exc) == "evicted" else NoteUnreadable
        why = exc.strerror or str(exc)
        raise failed(f"{path} cannot be read: {why}", why=why) from exc
    return content, after._replace(inode=-1)


def _read_once(path: str, max_bytes: int, read: Read) -> tuple[bytes, FileStamp, FileStamp]:
    # O_NOFOLLOW closes the gap between the walk and the reading; O_NONBLOCK keeps a pipe from hanging us.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        if is_dataless(status):
            raise OSError(errno.EDEADLK, _HELD_BY_ITS_CLOUD)
        before = stamp_of(status)
        content = read(descriptor, min(before.size, max_bytes) + 1)
        while 0 < len(content) <= max_bytes and (more := read(descriptor, max_bytes + 1 - len(content))):
            content += more
        return content, before, stamp_of(os.fstat(descriptor))
    finally:
        os.close(descriptor)


def is_dataless(status: os.stat_result) -> bool:
    """Whether a file's content is in a cloud alone, by what macOS says of it; elsewhere nothing says so."""
    return bool(getattr(status, "st_flags", 0) & _SF_DATALESS)


def is_binary(content: bytes) -> bool:
    """Whether a NUL byte near the start says that this is no text."""
    return b"\x00" in content[:_BINARY_PROBE_BYTES]
