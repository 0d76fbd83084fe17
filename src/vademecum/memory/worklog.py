"""Records of work: what a session did for one project, filed where that project's notes are.

Unlike a memory such a record has one right folder, and the session that writes it knows the vault's conventions: it
may say which, and otherwise the folder follows from who it is. The failure it is shaped against is a record that is
written and lost: under a name nobody can link to, in a folder beside the one that was meant, or outside of the vault.
"""

from __future__ import annotations

import json
import os
import re
import stat
import unicodedata
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal, get_args

from vademecum.access import ANONYMOUS, Policy, visible_notes
from vademecum.errors import MemoryRefused, VaultUnwritable
from vademecum.markdown import normalise
from vademecum.memory import contract
from vademecum.memory.memory import OWNER_ORIGIN, UNKNOWN_ORIGIN
from vademecum.vault import leads_out, write

Kind = Literal["note", "decision"]
RoutingWord = Literal["caller", "caller_identity", "fallback"]

_KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
_PROJECTS: Final = "projects"
_INBOX: Final = "inbox"
_SUBFOLDERS: Final[Mapping[Kind, str]] = {"note": "notes", "decision": "decisions"}
_SHORTEST_PREFIX: Final = 3
_LONGEST_SLUG: Final = 60
_MOST_SLUG_BYTES: Final = 200  # of the 255 that a file system takes for a name
_SAME_NAMES: Final = 500
_LONGEST_DESCRIPTION: Final = 150
_EARLIEST_CUT: Final = 90
_PREVIEWED: Final = 600
_LONGEST_SHOWN: Final = 200
_RESERVED: Final = re.compile(r"con|prn|aux|nul|com[1-9]|lpt[1-9]")
_PLAIN_SEGMENT: Final = re.compile(r"[\w.-]+")
_PLAIN_YAML: Final = re.compile(r"(?!(?:true|false|yes|no|on|off|null|[yn])\Z)[a-z][\w.-]*", re.ASCII | re.IGNORECASE)
# What a terminal would obey, what turns the reading direction, and what no YAML may hold.
_UNSEEN: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ufeff\ufffe\uffff]")


@dataclass(frozen=True, slots=True)
class WorkDraft:
    """What is to be recorded, after it was checked. No list holds a blank item; a `folder` of "" leaves it to us."""

    title: str
    summary: str
    changes: tuple[str, ...] = ()
    decisions: tuple[str, ...] = ()
    learned: tuple[str, ...] = ()
    verification: str = ""
    open: tuple[str, ...] = ()
    informed_by: tuple[str, ...] = ()
    folder: str = ""
    kind: Kind = "note"


@dataclass(frozen=True, slots=True)
class Routing:
    """The folder of a record, relative to the vault, and what chose it; `project` where the caller's identity did."""

    folder: str
    word: RoutingWord
    project: str | None = None


@dataclass(frozen=True, slots=True)
class WorkPreview:
    """What a dry run shows: the path that is free now, what chose its folder, and how the note begins."""

    path: str
    routing: Routing
    text: str


# ── what the caller says


def read_work(said: Mapping[str, object] | None) -> WorkDraft:
    """Check what is to be recorded; fields that are not known are left out. Raises MemoryRefused with all reasons."""
    form = _Form(said or {})
    draft = WorkDraft(
        title=" ".join(form.text("title", required=True).split()),
        summary=form.text("summary", required=True),
        changes=form.texts("changes"),
        decisions=form.texts("decisions"),
        learned=form.texts("learned"),
        verification=form.text("verification"),
        open=form.texts("open"),
        informed_by=form.texts("informed_by"),
        folder=form.text("folder", as_written=True),
        kind=form.kind(),
    )
    if draft.title and not _slug(draft.title):
        form.reasons.append("title holds no letter and no digit, so no file can be named after it")
    if form.reasons:
        raise MemoryRefused(form.reasons)
    return draft


class _Form:
    """The raw values of a call, and what is wrong with them."""

    def __init__(self, said: Mapping[str, object]) -> None:
        self._said = said
        self.reasons: list[str] = []

    def text(self, field: str, *, required: bool = False, as_written: bool = False) -> str:
        value = self._said.get(field)
        if value is not None and not isinstance(value, str):
            self.reasons.append(f"{field} must be text")
            return ""
        text = (value or "").strip() if as_written else _clean(value or "").strip()
        if required and not text:
            self.reasons.append(f"{field} is required")
        return text

    def texts(self, field: str) -> tuple[str, ...]:
        value = self._said.get(field)
        if value is None:
            return ()
        if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
            self.reasons.append(f"{field} must be a list of texts")
            return ()
        return tuple(text for item in value if (text := _clean(item).strip()))

    def kind(self) -> Kind:
        value = self._said.get("kind")
        for kind in _KINDS:
            if value == kind:
                return kind
        if not (value is None or value == ""):
            self.reasons.append(f"kind must be one of: {', '.join(_KINDS)}")
        return "note"


# ── where it goes


def route(root: Path, policy: Policy, draft: WorkDraft, *, project: str | None, inbox: str = _INBOX) -> Routing:
    """Choose the folder of a record: the one that was asked for, the project's own, or else the inbox.

    Only the first is held against what the vault exposes. A folder that is there keeps its own spelling, and none is
    made. Raises MemoryRefused.
    """
    if draft.folder:
        return Routing(_asked_folder(root, policy, draft.folder), "caller")
    own = _project_folder(root, policy, project) if project else None
    if own is not None:
        routing = Routing(_spelled(root, f"{_PROJECTS}/{own}/{_SUBFOLDERS[draft.kind]}"), "caller_identity", own)
    else:
        routing = Routing(_spelled(root, _inbox(policy, inbox)), "fallback")
    problem = _not_writable(root, routing.folder)
    if problem:
        raise MemoryRefused([f"{routing.folder}, where the record belongs, {problem}"])
    return routing


def _inbox(policy: Policy, named: str) -> str:
    """The folder for what belongs nowhere else. Records among the memories would be neither notes nor memories."""
    for folder in (named, _INBOX):
        if _PLAIN_SEGMENT.fullmatch(folder) and not folder.startswith(".") and not _is_memory_root(policy, folder):
            return folder
    raise MemoryRefused([f"{_INBOX} holds the memories of this vault; name another folder for the record"])


def _asked_folder(root: Path, policy: Policy, asked: str) -> str:
    # Answers show absolute paths, so callers copy them.
    below = f"{asked}/".removeprefix(f"{root}/")
    segments = [segment for segment in below.split("/") if segment]
    problem = _not_a_path(segments)
    if not problem:
        folder = _spelled(root, "/".join(segments))
        problem = _not_exposed(policy, folder) or _not_writable(root, folder)
    if problem:
        raise MemoryRefused([f"folder {asked[:_LONGEST_SHOWN]!r} {problem}"])
    return folder


def _not_a_path(segments: Sequence[str]) -> str:
    """Why these are not the segments of a folder in the vault; "" when they are."""
    if ".." in segments:
        return "holds a .. segment, which is refused wherever it leads"
    if not segments or not _is_plain("/".join(segments)):
        return "is no path of a folder in the vault"
    return "is hidden" if any(segment.startswith(".") for segment in segments) else ""


def _not_exposed(policy: Policy, folder: str) -> str:
    """Why a note in this folder would not be served; "" when it would."""
    folders_alone = replace(policy, withheld_names=())
    reason = visible_notes(ANONYMOUS, {"": folders_alone}).withheld("", f"{folder}/x.md", private=False)
    if reason == "memory_root":
        return "lies among the memories, which are written by remember"
    if reason is None:
        return ""
    roots = ", ".join(policy.roots) or "none"
    return f"is not in a folder that this vault exposes, at most four levels deep; those are: {roots}"


def _not_writable(root: Path, folder: str) -> str:
    """Why nothing can be written there, as far as the folders on the way exist; "" when something can."""
    at = root
    for segment in folder.split("/"):
        at = at / segment
        try:
            mode = os.lstat(at).st_mode
        except FileNotFoundError:
            return ""
        except OSError as exc:
            return f"cannot be used: {exc.strerror}"
        if stat.S_ISLNK(mode):
            return "leads through a link, and nothing is written through links"
        if not stat.S_ISDIR(mode):
            return "leads through a file"
    return ""


def _project_folder(root: Path, policy: Policy, project: str) -> str | None:
    """The folder of a project's notes, by its name: the same, the same but for case, or one that begins as the other.

    Of those the one that has most in common; where two have as much, none, since a record in another project's folder
    is a lost one.
    """
    if _is_memory_root(policy, _PROJECTS):
        return None
    names = [name for name in _folders(root / _PROJECTS) if _is_plain(name)]
    if project in names:
        return project
    wanted = project.casefold()
    same = [name for name in names if name.casefold() == wanted]
    if same:
        return same[0]
    shared = {name: _shared_prefix(name.casefold(), wanted) for name in names}
    longest = max(shared.values(), default=0)
    best = [name for name in names if shared[name] == longest]
    return best[0] if longest >= _SHORTEST_PREFIX and len(best) == 1 else None


def _shared_prefix(name: str, wanted: str) -> int:
    """How long the shorter is where the longer one begins with it; else 0."""
    return min(len(name), len(wanted)) if name.startswith(wanted) or wanted.startswith(name) else 0


def _is_plain(path: str) -> bool:
    """Whether a path stays below its root, and holds no character that no index would take in a name."""
    return not leads_out(path) and all(unicodedata.category(c) != "Cc" for c in path)


def _is_memory_root(policy: Policy, folder: str) -> bool:
    return policy.memory_root is not None and folder.casefold() == policy.memory_root.casefold()


def _spelled(root: Path, folder: str) -> str:
    """The path of a folder, with the segments that are there spelled as they are: on most disks case matters."""
    at, spelled = root, list[str]()
    for segment in folder.split("/"):
        if not os.path.lexists(at / segment):
            found = (name for name in _folders(at) if name.casefold() == segment.casefold())
            segment = next(found, segment)
        spelled.append(segment)
        at = at / segment
    return "/".join(spelled)


def _folders(place: Path) -> list[str]:
    """Names of the folders in one, no hidden ones and no links; none of one that cannot be listed."""
    try:
        with os.scandir(place) as entries:
            return sorted(e.name for e in entries if e.is_dir(follow_symlinks=False) and not e.name.startswith("."))
    except (OSError, ValueError):
        return []


# ── what is written


def render_work(draft: WorkDraft, routing: Routing, *, date: str, at: str, origin: str, names: Collection[str]) -> str:
    """The note. `date` is the local day, `at` the moment in UTC, `names` what links may lead to, in lower case."""
    rows = [
        f"date: {date}",
        f"description: {_quoted(_description(_unlinked(draft.summary)))}",
        f"aliases:\n  - {_quoted(_unlinked(draft.title))}",
        f"tags:\n  - {'decision' if draft.kind == 'decision' else 'project-note'}",
        *([f"project: {_scalar(routing.project)}"] if routing.project else []),
        f"source_repo: {_scalar(origin)}",
    ]
    own = routing.project or (origin if origin not in (OWNER_ORIGIN, UNKNOWN_ORIGIN) else "")
    sections = {
        "What changed": _bullets(draft.changes, names),
        "Decisions": _bullets(draft.decisions, names),
        "Learned": _bullets(draft.learned, names),
        "Verification": contract.neutralise(draft.verification, names)[0],
        "Open": _bullets(draft.open, names),
        "Related": "\n".join(_related(own, draft.informed_by, names)),
    }
    body = [
        f"# {contract.neutralise(draft.title, names, anywhere=True)[0]}",
        contract.neutralise(draft.summary, names)[0],
        *(f"## {heading}\n\n{text}" for heading, text in sections.items() if text),
        f"_From `{_flat(origin).replace('`', '')}` through vademecum, {at} (routing: {routing.word})._",
    ]
    return "---\n" + "\n".join(rows) + "\n---\n\n" + "\n\n".join(body) + "\n"


def record(
    root: Path, draft: WorkDraft, routing: Routing, *, date: str, at: str, origin: str, names: Collection[str]
) -> str:
    """Write a record as a new note; its path. No file that is there is touched. Raises VaultUnwritable, OutsideRoot."""
    text = render_work(draft, routing, date=date, at=at, origin=origin, names=names)
    return write.claim(root, routing.folder, text, _name_for(draft, date), most=_SAME_NAMES)


def preview(
    root: Path, draft: WorkDraft, routing: Routing, *, date: str, at: str, origin: str, names: Collection[str]
) -> WorkPreview:
    """Show what `record` would write, making nothing, not even a folder. Raises VaultUnwritable if no name is free."""
    name_for = _name_for(draft, date)
    paths = (f"{routing.folder}/{name_for(attempt)}" for attempt in range(1, _SAME_NAMES + 1))
    path = next((path for path in paths if not os.path.lexists(root / path)), None)
    if path is None:
        raise VaultUnwritable(
            f"{routing.folder} holds {_SAME_NAMES} notes of this name already", hint="Give it a title that says more."
        )
    text = render_work(draft, routing, date=date, at=at, origin=origin, names=names)
    return WorkPreview(path, routing, text[:_PREVIEWED])


def _name_for(draft: WorkDraft, date: str) -> Callable[[int], str]:
    """The names that a record may have. A decision lives on, so its name has no day of which it would look stale."""
    base = _slug(draft.title) if draft.kind == "decision" else f"{date}-{_slug(draft.title)}"
    return lambda attempt: f"{base}.md" if attempt == 1 else f"{base}-{attempt}.md"


def _slug(title: str) -> str:
    """The title in lower case as a file's name: letters of any script, digits, `_` and `-`; "" if none is left."""
    plain = "".join(c for c in unicodedata.normalize("NFKD", title) if not "\u0300" <= c <= "\u036f")
    lowered = unicodedata.normalize("NFC", plain).lower()
    # The vowels of many scripts are marks, which `\w` does not know.
    kept = "".join(c for c in lowered if c.isalnum() or c in "_- \t\n" or unicodedata.category(c).startswith("M"))
    text = re.sub(r"[\s-]+", "-", kept)[:_LONGEST_SLUG]
    text = text.encode()[:_MOST_SLUG_BYTES].decode(errors="ignore").strip("-")
    text = text if any(c.isalnum() for c in text) else ""
    return f"_{text}" if _RESERVED.fullmatch(text) else text


def _description(summary: str) -> str:
    """What stands for the record in lists: the summary on one line, visibly cut where it is long."""
    text = _flat(summary)
    if len(text) <= _LONGEST_DESCRIPTION:
        return text
    cut = text[: _LONGEST_DESCRIPTION - 1]
    space = cut.rfind(" ")
    return (cut[:space] if space > _EARLIEST_CUT else cut).rstrip(" .,;:!?-–—…") + "…"


def _related(own: str, informed_by: Iterable[str], names: Collection[str]) -> list[str]:
    """One line for each note: a link to one that is there, plain words for one that is not."""
    lines = {own.lower(): f"- [[{own}]]"} if own and own.lower() in names else {}
    for said in informed_by:
        name = _flat(said).removeprefix("[[").removesuffix("]]").partition("|")[0].strip()
        # The path that recall prints ends in the name of the note.
        base = name.partition("#")[0].rpartition("/")[2].removesuffix(".md").strip()
        found = next((n for n in (name, base) if n.lower() in names and not re.search(r"[\[\]|#^]", n)), None)
        shown = _flat(re.sub(r"\[{2,}|\]{2,}", " ", name))
        if found is not None:
            lines.setdefault(found.lower(), f"- [[{found}]]")
        elif shown:
            lines.setdefault(shown.lower(), f"- {shown} _(not a note yet)_")
    return list(lines.values())


def _bullets(items: Iterable[str], names: Collection[str]) -> str:
    """A list, each item one bullet whatever lines it has."""
    return "\n".join("- " + contract.neutralise(item, names)[0].strip().replace("\n", "\n  ") for item in items)


def _unlinked(text: str) -> str:
    """A text as a property holds it: with the words of its wikilinks and none of the links."""
    return contract.neutralise(text, frozenset(), anywhere=True)[0]


def _clean(text: str) -> str:
    return _UNSEEN.sub("", normalise(text))


def _flat(text: str) -> str:
    return " ".join(_clean(text).split())


def _quoted(text: str) -> str:
    """A text in single quotes, where nothing but the quote itself means anything: the paths of Windows stay.

    One that speaks of what is private could be read as saying so of the note: it is escaped, in double quotes.
    """
    flat = _flat(text)
    if "private" not in flat.lower():
        return "'" + flat.replace("'", "''") + "'"
    escaped = json.dumps(flat, ensure_ascii=False)
    return re.sub("(?i)p(?=rivate)", lambda letter: f"\\u{ord(letter[0]):04x}", escaped)


def _scalar(name: str) -> str:
    return name if _PLAIN_YAML.fullmatch(name) else _quoted(name)
