"""Scoring a folder of notes in a state of its own, which `vade eval` and the benchmarks share.

That state lies below run/ of the user's and is deleted however the process ends; after a kill, by the next evaluation.
Neither the user's sources, index and settings nor the folder change.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any, Final, NamedTuple, NoReturn, get_args

from vademecum import __version__, config
from vademecum.access import ANONYMOUS, Caller, policy_of, visible_notes
from vademecum.app import Vademecum
from vademecum.cli import output
from vademecum.config import Settings, file_lock
from vademecum.errors import ModelError, NoteError, SourceNotFound, UsageError
from vademecum.search import Lane, Question
from vademecum.search.quality import Comparison, JudgedQuestion, Outline, Run, compare, derive, read_judged, score
from vademecum.sources import Registry, Source
from vademecum.sources.removal import EVALUATIONS_LOCK, sweep_evaluations
from vademecum.vault import Scan, contained, note_key

FORMAT: Final = "vademecum-eval"
LANES: Final[tuple[Lane, ...]] = get_args(Lane)
QUESTIONS: Final = "queries.tsv"
JUDGEMENTS: Final = "qrels.tsv"

_HITS: Final = 100
_MOST_FILE_BYTES: Final = 1 << 24
_LOCK_WAIT_S: Final = 60.0
_RERANK: Final = "recall.rerank"

Value = int | float | bool | str


class Trial(NamedTuple):
    """A way of searching that is tried."""

    lane: Lane
    rerank: bool

    @property
    def name(self) -> str:
        """What tables call it."""
        return f"{self.lane}+rerank" if self.rerank else self.lane


@dataclass(frozen=True, slots=True)
class Request:
    """What to score.

    root     the folder that holds the notes; `kind` and `exclude` as for a source
    files    pairs of a file with questions and one with judgements
    derived  how many questions of each kind to derive from the notes
    lanes    what to try; when empty, every lane that is possible
    rerank   try hybrid with the reranker too, or every lane where hybrid is not tried
    changes  settings to try in a second round
    """

    root: Path
    kind: str
    exclude: tuple[str, ...] | None
    files: tuple[tuple[Path, Path], ...]
    derived: int
    lanes: tuple[Lane, ...]
    rerank: bool
    changes: Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What came of a request. `left_out` says of each trial that was not possible why not.

    `comparisons` are listed by the questions they are about.
    """

    folder: Path
    notes: int
    questions: tuple[JudgedQuestion, ...]
    runs: tuple[Run, ...]
    comparisons: tuple[tuple[str, Comparison], ...]
    left_out: Mapping[str, str]
    warnings: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """The evaluation as --json and --out give it."""
        return {
            "format": FORMAT,
            "version": 1,
            "vademecum": __version__,
            "folder": str(self.folder),
            "notes": self.notes,
            "questions": len(self.questions),
            "warnings": list(self.warnings),
            "left_out": dict(self.left_out),
            "runs": [run.as_json() for run in self.runs],
            "comparisons": [{"group": group, **comparison.as_json()} for group, comparison in self.comparisons],
        }


# ── files


def runs_in(path: Path) -> dict[str, Run]:
    """The runs of a file that --out wrote, by name. Raises UsageError for any other file."""
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(stored, dict) or stored.get("format") != FORMAT:
            raise ValueError("it is something else")
        return {run.name: run for run in map(Run.from_json, stored["runs"])}
    except (OSError, ValueError, KeyError, TypeError) as exc:
        raise UsageError(f"{path} is no result of an evaluation: {exc}") from exc


def laid_out(folder: Path) -> tuple[Path, tuple[tuple[Path, Path], ...], list[str]]:
    """Where a folder's notes lie, its own questions with their judgements, and what is odd about these.

    A set of questions keeps its notes in vault/; in somebody's vault a folder of that name is one like any other.
    """
    if not folder.expanduser().is_dir():
        raise SourceNotFound(f"there is no folder {folder}", hint="Check the spelling of the path.")
    folder = Path(os.path.realpath(folder.expanduser()))
    pair = (folder / QUESTIONS, folder / JUDGEMENTS)
    present = [path for path in pair if path.is_file()]
    root = folder / "vault"
    if not present or not root.is_dir() or (folder / ".obsidian").is_dir():
        root = folder
    root = Path(os.path.realpath(root))
    if len(present) == 1:
        return root, (), [f"{present[0].name} is not used: it needs both {QUESTIONS} and {JUDGEMENTS}"]
    return root, (pair,) if present else (), []


def as_connected(root: Path, user: Settings) -> tuple[str, tuple[str, ...] | None]:
    """Kind and globs of the user's source with this root, so that what is scored is what is searched."""
    for source in Registry(user).all():
        if source.root == root:
            return source.kind, source.exclude
    return "obsidian" if (root / ".obsidian").is_dir() else "folder", None


def check_out(out: Path | None, folder: Path) -> None:
    """Refuse, before an hour's work, a file that may not be written over."""
    if out is None:
        return
    real, inside = Path(os.path.realpath(out)), Path(os.path.realpath(folder.expanduser()))
    if inside in (real, *real.parents):
        raise UsageError(f"{out} lies in {folder}, and nothing is written there", hint="Name a file somewhere else.")
    if not real.parent.is_dir():
        raise UsageError(f"there is no folder {real.parent}")
    if os.path.lexists(out):
        runs_in(out)


def write_out(path: Path, evaluation: Evaluation) -> None:
    """Write an evaluation to a file that is new, or holds an earlier one."""
    content = (json.dumps(evaluation.as_json(), ensure_ascii=False, indent=2) + "\n").encode("utf-8", "replace")
    if os.path.lexists(path):
        runs_in(path)
        config.replace_file(path, content)
        return
    try:
        with open(path, "xb", opener=_private) as file:
            file.write(content)
    except OSError as exc:
        raise UsageError(f"{path} cannot be written: {exc.strerror}") from exc


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)  # it quotes titles and headings


# ── a state of its own


@contextmanager
def scratch_state(user: Settings) -> Iterator[Path]:
    """A state folder below the user's run folder, deleted at the end; so are those that killed commands left behind."""
    config.prepare(user)
    sweep_evaluations(user)
    with ExitStack() as stack:
        with file_lock(user.run_dir / EVALUATIONS_LOCK, wait_s=_LOCK_WAIT_S, what="the folder of evaluations"):
            home = user.run_dir / f"eval-{os.getpid()}-{os.urandom(4).hex()}"
            stack.callback(shutil.rmtree, home, ignore_errors=True)
            home.mkdir(mode=0o700)
            stack.enter_context(_alive(home))
        stack.enter_context(_ended_in_order())
        yield home


def _alive(home: Path) -> AbstractContextManager[None]:
    return file_lock(home / "alive.lock", wait_s=0, what="this evaluation")


@contextmanager
def _ended_in_order() -> Iterator[None]:
    """Let a polite request to end, or a closed terminal, unwind like Ctrl-C, so that the copy of the notes goes."""

    def end(number: int, _: FrameType | None) -> NoReturn:
        raise SystemExit(128 + number)

    signals = [s for s in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(s) is signal.SIG_DFL]
    for one in signals:
        signal.signal(one, end)
    try:
        yield
    finally:
        for one in signals:
            signal.signal(one, signal.SIG_DFL)


def settings_in(home: Path, user: Settings, changes: Mapping[str, Value]) -> Settings:
    """The user's settings with some changed, on another state folder, with the user's models."""
    return replace(user, home=home, values={**user.values, **changes}, models=user.models_dir)


# ── scoring


def score_folder(request: Request, user: Settings, who: Caller) -> Evaluation:
    """Index the notes into a state of its own, ask every question in every way, and compare."""
    with scratch_state(user) as home, ExitStack() as stack:
        app, source = _indexed(request, settings_in(home / "as-set", user, {}), stack)
        questions, warnings = _questions(request, app, source)
        if not questions:
            raise UsageError("there is no question to ask", hint=" ".join(warnings) or "The folder holds no note.")
        runs, left_out = _runs(request, app, questions, who, lender=user.index_file)
        comparisons = _compared_lanes(runs)
        notes = app.index.document_count(_row(app, source))
        if request.changes:
            app, source = _changed(request, app, source, stack=stack, home=home, user=user)
            others, left_out_then = _runs(request, app, questions, who, lender=user.index_file)
            suffix = " with " + ", ".join(f"{name}={shown(value)}" for name, value in request.changes.items())
            others = [replace(run, name=run.name + suffix) for run in others]
            left_out |= {name + suffix: why for name, why in left_out_then.items() if name not in left_out}
            comparisons = _compared_settings(runs, others)
            runs += others
    return Evaluation(
        folder=request.root,
        notes=notes,
        questions=tuple(questions),
        runs=tuple(runs),
        comparisons=tuple(comparisons),
        left_out=left_out,
        warnings=tuple(warnings),
    )


def _indexed(request: Request, settings: Settings, stack: ExitStack) -> tuple[Vademecum, Source]:
    app = Vademecum(settings, notify=output.note)
    stack.callback(app.close)
    with output.progress_bar("Indexing") as progress:
        source, _, _ = app.add(request.kind, str(request.root), exclude=request.exclude, progress=progress)
    return app, source


def _changed(
    request: Request, app: Vademecum, source: Source, *, stack: ExitStack, home: Path, user: Settings
) -> tuple[Vademecum, Source]:
    """The application with the changes; on the same index when they concern nothing but recall."""
    if all(name.startswith("recall.") for name in request.changes):
        changed = Vademecum(settings_in(app.settings.home, user, request.changes), notify=output.note)
        stack.callback(changed.close)
        return changed, source
    return _indexed(request, settings_in(home / "changed", user, request.changes), stack)


def _row(app: Vademecum, source: Source) -> int:
    row = app.index.source(source.id)
    assert row is not None  # it was indexed a moment ago
    return row.row


def _runs(
    request: Request, app: Vademecum, questions: Sequence[JudgedQuestion], who: Caller, *, lender: Path
) -> tuple[list[Run], dict[str, str]]:
    """A run for every trial that is possible, and why the others are not. Raises ModelError for a lane asked for.

    `lender` is an index whose vectors may be copied, so that what is connected already is not embedded again.
    """
    trials, left_out = _trials(request, app, lender)
    runs = []
    for trial in trials:
        # A reranker that is not there shows in the first receipt, and without it the run would be another one's twin.
        missing = ask(app, trial, questions[:1], who).shortfalls if trial.rerank else {}
        if missing:
            left_out[trial.name] = "; ".join(missing)
            continue
        with output.progress_bar(f"Asking, {trial.name}") as progress:
            runs.append(ask(app, trial, questions, who, progress=progress))
    return runs, left_out


def _trials(request: Request, app: Vademecum, lender: Path) -> tuple[list[Trial], dict[str, str]]:
    lanes, left_out = request.lanes or LANES, dict[str, str]()
    if any(lane != "words" for lane in lanes):
        try:
            _embed(app, lender)
        except ModelError as exc:
            if request.lanes or _is_changed(app, request):
                raise
            left_out = dict.fromkeys(LANES[1:], exc.message)
            lanes = LANES[:1]
    always = bool(app.settings.values[_RERANK])
    trials = [Trial(lane, False) for lane in lanes]
    if request.rerank and not always:
        trials += [Trial(lane, True) for lane in lanes if lane == "hybrid" or "hybrid" not in lanes]
    return trials, left_out


def _is_changed(app: Vademecum, request: Request) -> bool:
    """Whether this is the round with the changes, and they are about the model: then one that fails is the answer."""
    about = [name for name in request.changes if name.startswith("embedding.")]
    return (
        bool(about)
        and app.settings.model != "none"
        and all(app.settings.values[name] == request.changes[name] for name in about)
    )


def _embed(app: Vademecum, lender: Path) -> None:
    with output.progress_bar("Embedding") as progress:
        app.embed(budget_s=None, progress=progress, lender=lender)


def ask(app: Vademecum, trial: Trial, questions: Sequence[JudgedQuestion], who: Caller, *, progress: Any = None) -> Run:
    """Ask every question in one way, as deep as an answer goes, and hold the notes found against the judgements."""
    rerank = trial.rerank or bool(app.settings.values[_RERANK])
    scores, shortfalls = [], Counter[str]()
    for done, question in enumerate(questions, 1):
        answer = app.recall(Question(question.text, limit=_HITS, lane=trial.lane, rerank=rerank), who)
        scores.append(score(question, list(dict.fromkeys(hit.path for hit in answer.hits))))
        shortfalls.update(
            f"{name}: {report.reason or report.state}"
            for name, report in answer.receipt.lanes.items()
            if report.state != "ok" and report.reason != "not asked for"
        )
        if progress is not None:
            progress(done, len(questions), question.id)
    return Run(
        name=trial.name,
        lane=trial.lane,
        rerank=rerank,
        settings=dict(app.settings.values),
        scores=tuple(scores),
        shortfalls=dict(shortfalls),
    )


def _compared_lanes(runs: Sequence[Run]) -> list[tuple[str, Comparison]]:
    """Hybrid against the lanes that it is made of, and each reranked run against the one without."""
    named = {run.name: run for run in runs}
    pairs = [("words", "hybrid"), ("meaning", "hybrid"), *((lane, f"{lane}+rerank") for lane in LANES)]
    return [
        compared
        for before, after in pairs
        if before in named and after in named
        for compared in by_group(named[before], named[after])
    ]


def _compared_settings(runs: Sequence[Run], others: Sequence[Run]) -> list[tuple[str, Comparison]]:
    """Each changed run against the one as set; against words where the change is what made it possible."""
    named = {run.name: run for run in runs}
    pairs = [(named.get(run.name.partition(" ")[0], named.get("words")), run) for run in others]
    return [compared for before, after in pairs if before is not None for compared in by_group(before, after)]


def by_group(before: Run, after: Run) -> Iterator[tuple[str, Comparison]]:
    """Two runs compared on each group of questions that both have."""
    parts = after.groups()
    for group, part in before.groups().items():
        if group in parts:
            yield group, compare(part, parts[group])


# ── questions


def _questions(request: Request, app: Vademecum, source: Source) -> tuple[list[JudgedQuestion], list[str]]:
    """Every question to ask, and what is wrong with the files that hold some."""
    scan = source.connector.scan(source.root, exclude=source.exclude, filters=(), max_files=app.settings.max_files)
    questions, warnings, names = list[JudgedQuestion](), list[str](), Counter[str]()
    for asked, judged in request.files:
        names[asked.name] += 1
        origin = asked.name if names[asked.name] == 1 else f"{asked.name} ({names[asked.name]})"
        reading = read_judged(
            (origin, _text(asked)),
            (judged.name, _text(judged)),
            origin=origin,
            find=lambda note: _found(note, source.root, scan),
        )
        questions += reading.questions
        warnings += reading.warnings
    if request.derived:
        questions += derive(_outlines(app, source, scan), limit=request.derived)
    return questions, warnings


def _text(path: Path) -> str:
    try:
        with open(path, "rb") as file:
            content = file.read(_MOST_FILE_BYTES + 1)
    except OSError as exc:
        raise UsageError(f"{path} cannot be read: {exc.strerror}", hint="--judgements names another file.") from exc
    if len(content) > _MOST_FILE_BYTES:
        raise UsageError(f"{path} holds more than {_MOST_FILE_BYTES:,} bytes")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        raise UsageError(f"{path} is not UTF-8 text: {exc.reason} at byte {exc.start}") from exc


def _found(note: str, root: Path, scan: Scan) -> str | None:
    """The path of the note that a judgement names, with or without its suffix; None when no file is there."""
    path = note_key(note.replace("\\", "/")).removeprefix("./")
    candidates = (path, f"{path}.md", f"{path}.markdown")
    return next((c for c in candidates if c in scan.files), None) or next(
        (c for c in candidates if _lies(root, c)), None
    )


def _lies(root: Path, path: str) -> bool:
    """Whether a file is there that is no note of the source: not finding it is a miss, not a mistake in the file."""
    try:
        contained(root, path)
    except NoteError:
        return False
    return True


def _outlines(app: Vademecum, source: Source, scan: Scan) -> Iterator[Outline]:
    """How each indexed note that anybody may see calls itself: a question may be sent to a server, to be embedded."""
    from vademecum.markdown import parse

    visible = visible_notes(ANONYMOUS, {source.id: policy_of(source.root)[0]})
    for path in sorted(scan.files.keys() & app.index.stamps(_row(app, source)).keys()):
        try:
            content, _ = source.connector.read(source.root, scan.disk_path(path), max_bytes=app.settings.max_file_bytes)
        except NoteError:  # changed since it was indexed
            continue
        note = parse(content.decode("utf-8", "replace"), stem=Path(path).stem)
        if visible.withheld(source.id, path, private=note.private) is None:
            yield Outline(path, note.title, note.aliases, [heading.text for heading in note.headings])


def shown(value: Value) -> str:
    """A setting's value as it is typed."""
    return str(value).lower() if isinstance(value, bool) else str(value)
