"""sources.json: which folders are connected. This file is the truth; the index only follows it.

The failure it is shaped against: a file that cannot be understood, and is then taken for an empty list. Here it is
an error, nothing is written over it, and nothing is purged on its word. Entries of kinds that this version does not
know, and fields it does not know, survive every change.
"""

from __future__ import annotations

import json
import os
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeVar

from vademecum.config import Settings, file_lock, prepare, replace_file
from vademecum.errors import (
    GlobInvalid,
    SourceAmbiguous,
    SourceNotFound,
    SourceRootInvalid,
    SourceRootNested,
    SourcesFileCorrupt,
    UsageError,
)
from vademecum.sources.connector import Connector
from vademecum.sources.folder import FolderConnector
from vademecum.sources.obsidian import ObsidianConnector
from vademecum.vault import DEFAULT_GLOBS, check_globs

CONNECTORS: Final[Mapping[str, Connector]] = {"obsidian": ObsidianConnector(), "folder": FolderConnector()}

_VERSION: Final = 1
_MAX_NAME: Final = 200
_LEAST_DIGITS: Final = 4
_TURNS: Final = frozenset(("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"))
_LOCK_WAIT_S: Final = 60.0
_KNOWN: Final = frozenset(
    (
        "id",
        "kind",
        "name",
        "root",
        "display_root",
        "enabled",
        "mode",
        "exclude",
        "created_at",
        "updated_at",
        "generation",
    )
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Source:
    """One connected folder.

    root      absolute, links resolved; the id is made from it
    exclude   the defaults and the user's globs
    generation a random token of this connection, for whoever has to tell it from an earlier one of the same folder
    other     fields of a newer version, kept as they are
    """

    id: str
    kind: str
    name: str
    root: Path
    display_root: str | None
    enabled: bool
    exclude: tuple[str, ...]
    created_at: str
    updated_at: str
    generation: str
    other: Mapping[str, Any] = field(default_factory=dict)

    @property
    def connector(self) -> Connector:
        """What lists and reads this kind of source."""
        return CONNECTORS[self.kind]

    @property
    def is_there(self) -> bool:
        """Whether the root can be listed now."""
        return os.path.isdir(self.root) and os.access(self.root, os.R_OK | os.X_OK)

    def as_json(self) -> dict[str, Any]:
        """The entry as it stands in sources.json."""
        entry: dict[str, Any] = {
            "id": self.id,
            "kind": self.kind,
            "name": self.name,
            "root": str(self.root),
            "enabled": self.enabled,
            "mode": "read-only",
            "exclude": list(self.exclude),
            "created_at": self.created_at,
            "updated_at": self.updated_at,
            "generation": self.generation,
        }
        if self.display_root is not None:
            entry["display_root"] = self.display_root
        return {**entry, **self.other}


def now() -> str:
    """The present time as sources.json and the index write it: ISO 8601, UTC, whole seconds."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Registry:
    """The list of sources, read afresh at every call, since other processes write it too."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._path = settings.sources_file

    def all(self) -> tuple[Source, ...]:
        """Every source of a kind that this version knows. Raises SourcesFileCorrupt."""
        return tuple(_source(entry) for entry in self._entries() if entry["kind"] in CONNECTORS)

    def exists(self) -> bool:
        """Whether there is a list at all. One that is missing is not one that is empty."""
        return self._path.exists()

    def ids(self) -> frozenset[str]:
        """The ids of all entries, also of kinds that this version does not know."""
        return frozenset(str(entry.get("id")) for entry in self._entries())

    def find(self, wanted: str) -> Source:
        """The source with this id, unique id prefix or unique name.

        Raises SourceNotFound, with the nearest names as the hint, or SourceAmbiguous.
        """
        return choose(self.all(), wanted)

    def add(
        self, kind: str, path: str, *, name: str | None = None, exclude: Sequence[str] | None = None
    ) -> tuple[Source, bool]:
        """Connect a folder, or update the source that already has this root; the source, and whether it is new."""
        root, globs = self._checked(kind, path, exclude)
        clean = clean_name(name or "")

        def change(sources: list[Source]) -> tuple[Source, bool]:
            for i, old in enumerate(sources):
                if old.root == root and old.kind == kind:
                    _refuse_nested(root, kind, [s for s in sources if s is not old])
                    sources[i] = replace(
                        old,
                        enabled=True,
                        name=clean or old.name,
                        exclude=globs or old.exclude,
                        updated_at=now(),
                    )
                    return sources[i], False
            _refuse_nested(root, kind, sources)
            new = _new(kind, root, typed=path, name=clean, globs=globs)
            sources.append(new)
            return new, True

        return self._change(change)

    def draft(self, kind: str, path: str, *, exclude: Sequence[str] | None = None) -> Source:
        """The source that `add` would connect, checked like it; nothing is written."""
        root, globs = self._checked(kind, path, exclude)
        for old in self.all():
            if old.root == root and old.kind == kind:
                return replace(old, exclude=globs or old.exclude)
        _refuse_nested(root, kind, self.all())
        return _new(kind, root, typed=path, name="", globs=globs)

    def _checked(self, kind: str, path: str, exclude: Sequence[str] | None) -> tuple[Path, tuple[str, ...] | None]:
        if kind not in CONNECTORS:
            raise UsageError(f'no kind of source is called "{kind}"', hint=f"Known kinds: {', '.join(CONNECTORS)}.")
        return check_root(path, self._settings), _all_globs(exclude)

    def edit(
        self,
        wanted: str,
        *,
        name: str | None = None,
        enabled: bool | None = None,
        exclude: Sequence[str] | None = None,
    ) -> Source:
        """Change a source's name, whether it is enabled, or its globs (which replace all of the user's)."""
        globs = _all_globs(exclude)
        clean = None if name is None else clean_name(name)

        def change(sources: list[Source]) -> Source:
            old = choose(sources, wanted)
            if enabled and not old.enabled:
                _refuse_nested(old.root, old.kind, [s for s in sources if s.id != old.id])
            new = replace(
                old,
                name=clean or old.name,
                enabled=old.enabled if enabled is None else enabled,
                exclude=globs or old.exclude,
                updated_at=now(),
            )
            sources[sources.index(old)] = new
            return new

        return self._change(change)

    @contextmanager
    def discarding(self, source_id: str) -> Iterator[None]:
        """Take a source off the list, if it is there, and let nobody change the list while its rows go."""
        with self.locked():
            content = self._content()
            content["sources"] = [entry for entry in content["sources"] if entry["id"] != source_id]
            self._write(content)
            yield

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep every other process from changing the list. Raises StateBusy after a minute."""
        prepare(self._settings)
        with file_lock(self._settings.run_dir / "sources.lock", wait_s=_LOCK_WAIT_S, what="the list of sources"):
            yield

    def _change(self, change: Callable[[list[Source]], T]) -> T:
        with self.locked():
            content = self._content()
            entries: list[dict[str, Any]] = content["sources"]
            foreign = [entry for entry in entries if entry["kind"] not in CONNECTORS]
            sources = [_source(entry) for entry in entries if entry["kind"] in CONNECTORS]
            outcome = change(sources)
            content["sources"] = [*(s.as_json() for s in sources), *foreign]
            self._write(content)
            return outcome

    def _write(self, content: dict[str, Any]) -> None:
        replace_file(self._path, (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode())

    def _entries(self) -> list[dict[str, Any]]:
        entries: list[dict[str, Any]] = self._content()["sources"]
        return entries

    def _content(self) -> dict[str, Any]:
        """The whole file, checked. What this version does not know in it survives every change."""
        try:
            content: dict[str, Any] = json.loads(self._path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {"version": _VERSION, "sources": []}
        except (OSError, ValueError, RecursionError) as exc:
            raise SourcesFileCorrupt(f"{self._path} cannot be read: {exc}") from exc
        problem = _problem(content)
        if problem:
            raise SourcesFileCorrupt(f"{self._path} {problem}")
        return content


def choose(sources: Sequence[Source], wanted: str) -> Source:
    """The source that an id, a unique id prefix or a unique name means. Raises SourceNotFound or SourceAmbiguous."""
    text = wanted.strip()
    if not text:
        raise SourceNotFound("a source's id or name is required")
    for fits in (
        [s for s in sources if s.id == text],
        [s for s in sources if s.name == text] or [s for s in sources if s.name.casefold() == text.casefold()],
        [s for s in sources if s.id.startswith(text) or s.id.partition(":")[2].startswith(text)],
    ):
        if len(fits) == 1 and _says_enough(text, fits[0]):
            return fits[0]
        if fits:
            listed = ", ".join(f"{s.id} ({s.name})" for s in fits)
            raise SourceAmbiguous(f'"{text}" is too short or fits several sources: {listed}')
    import difflib

    near = difflib.get_close_matches(text, [s.name for s in sources] + [s.id for s in sources], n=1)
    hint = f"Did you mean {near[0]}? `vade sources list` shows all." if near else None
    raise SourceNotFound(f'no source called "{text}"', hint=hint)


def _says_enough(text: str, source: Source) -> bool:
    """Whether a word means this source and not merely fits it: a kind alone names none, however few there are."""
    if text.casefold() in (source.id, source.name.casefold()):
        return True
    kind = source.id.partition(":")[0]
    return len(text) > len(kind) + 1 if source.id.startswith(text) else len(text) >= _LEAST_DIGITS


def _all_globs(exclude: Sequence[str] | None) -> tuple[str, ...] | None:
    return None if exclude is None else tuple(dict.fromkeys((*DEFAULT_GLOBS, *check_globs(exclude))))


def _new(kind: str, root: Path, *, typed: str, name: str, globs: tuple[str, ...] | None) -> Source:
    at = now()
    shown = str(Path(typed.strip()).expanduser().absolute()).encode("utf-8", "replace").decode()
    return Source(
        id=source_id(kind, root),
        kind=kind,
        name=name or clean_name(root.name) or "vault",
        root=root,
        display_root=shown if shown != str(root) else None,
        enabled=True,
        exclude=globs or DEFAULT_GLOBS,
        created_at=at,
        updated_at=at,
        generation=os.urandom(16).hex(),
    )


def source_id(kind: str, root: Path) -> str:
    """The id of a source: its kind and the first 16 hex digits of the SHA-256 of its resolved root."""
    import hashlib

    return f"{kind}:{hashlib.sha256(os.fsencode(root)).hexdigest()[:16]}"


def clean_name(name: str) -> str:
    """A display name on one line, at most 200 characters, without control characters and what turns the direction of
    reading: in a list it would turn what stands beside it.
    """
    text = "".join(" " if unicodedata.category(c) in ("Cc", "Zl", "Zp") else c for c in name)
    kept = (c for c in text if unicodedata.category(c) != "Cs" and unicodedata.bidirectional(c) not in _TURNS)
    return " ".join("".join(kept).split())[:_MAX_NAME]


def check_root(path: str, settings: Settings) -> Path:
    """The resolved root that a typed path means. Raises SourceRootInvalid, saying which of the rules it breaks."""
    if not path.strip():
        raise SourceRootInvalid("a path is required", hint="Name the folder: `vade sources add obsidian PATH`.")
    typed = path.strip()
    try:
        root = Path(os.path.realpath(Path(typed).expanduser(), strict=True))
    except (FileNotFoundError, RuntimeError) as exc:
        raise SourceRootInvalid(f"{typed} does not exist", hint="Check the spelling of the path.") from exc
    except NotADirectoryError as exc:
        raise SourceRootInvalid(f"{typed} is not a folder", hint="Name the folder that holds the notes.") from exc
    except (OSError, ValueError) as exc:
        raise SourceRootInvalid(f"{typed} cannot be used: {exc}", hint="Check the path and its permissions.") from exc
    if not root.is_dir():
        raise SourceRootInvalid(f"{typed} is not a folder", hint="Name the folder that holds the notes.")
    try:
        os.listdir(root)
    except OSError as exc:
        raise SourceRootInvalid(
            f"{typed} cannot be listed: {exc.strerror}", hint="Give yourself permission to read the folder."
        ) from exc
    try:
        str(root).encode()
    except UnicodeEncodeError as exc:
        raise SourceRootInvalid(f"{typed!r} is no valid Unicode", hint="Rename the folder.") from exc
    _refuse_state(root, settings.home)
    return root


def _refuse_state(root: Path, home: Path) -> None:
    if root == Path(root.anchor):
        raise SourceRootInvalid("the whole file system cannot be a source", hint="Name the folder with your notes.")
    if root == home / "vault":
        return
    if root == home or home in root.parents or root in home.parents:
        raise SourceRootInvalid(
            f"{root} holds, or lies in, the state folder {home}",
            hint="Our own index would be indexed. Name another folder, or move the state with VADE_HOME.",
        )


def _refuse_nested(root: Path, kind: str, sources: Sequence[Source]) -> None:
    for other in sources:
        if not other.enabled and (root != other.root or kind == other.kind):  # one root has one kind, on or off
            continue
        if root == other.root or root in other.root.parents or other.root in root.parents:
            how = "is already connected as" if root == other.root else "overlaps"
            raise SourceRootNested(
                f"{root} {how} the source {other.name} ({other.id}, {other.root})",
                hint=f"Every note would belong to two sources. Remove that one first: vade sources remove {other.id}"
                if root != other.root or kind == other.kind
                else f"A root has one kind. To change it: vade sources remove {other.id}, then add it again.",
            )


def _problem(content: object) -> str | None:
    """Why this is no list of sources that may be trusted; None when it is one."""
    if not isinstance(content, dict) or not isinstance(content.get("sources"), list):
        return "holds no list of sources"
    if content.get("version") != _VERSION:
        return f"has version {content.get('version')!r}, and this vade reads {_VERSION}"
    for entry in content["sources"]:
        if not isinstance(entry, dict) or not all(isinstance(entry.get(key), str) for key in ("id", "kind")):
            return "holds an entry without an id or a kind"
        if entry["kind"] in CONNECTORS and not _is_valid(entry):
            return f"holds an entry that is not valid: {entry['id']!r}"
    ids = [entry["id"] for entry in content["sources"]]
    return "holds the same id twice" if len(set(ids)) != len(ids) else None


def _is_valid(entry: Mapping[str, Any]) -> bool:
    root, name, globs = entry.get("root"), entry.get("name"), entry.get("exclude", [])
    if not (isinstance(root, str) and isinstance(name, str) and name and isinstance(entry.get("enabled"), bool)):
        return False
    if not isinstance(entry.get("display_root", ""), str):
        return False
    if not re.fullmatch(re.escape(entry["kind"]) + ":[0-9a-f]{16}", entry["id"]):  # it names lock files too
        return False
    if not (os.path.isabs(root) and os.path.normpath(root) == root != "/") or any(c in root for c in "\x00\n"):
        return False
    if not isinstance(globs, list) or not all(isinstance(glob, str) for glob in globs):
        return False
    try:
        f"{root}{name}{entry.get('display_root', '')}".encode()
        check_globs(glob for glob in globs if glob not in DEFAULT_GLOBS)
    except (UnicodeEncodeError, GlobInvalid):
        return False
    return True


def _source(entry: Mapping[str, Any]) -> Source:
    created = str(entry.get("created_at", ""))
    return Source(
        id=entry["id"],
        kind=entry["kind"],
        name=entry["name"],
        root=Path(entry["root"]),
        display_root=entry.get("display_root"),
        enabled=entry["enabled"],
        exclude=tuple(dict.fromkeys((*DEFAULT_GLOBS, *entry.get("exclude", ())))),
        created_at=created,
        updated_at=str(entry.get("updated_at", created)),
        generation=str(entry.get("generation", created)),
        other={key: value for key, value in entry.items() if key not in _KNOWN},
    )
