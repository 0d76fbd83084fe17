"""`vade models`: which models there are, fetching one, choosing one, and how its vectors are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from vademecum import config
from vademecum.cli import output
from vademecum.cli.main import FullHelpGroup, as_json, json_option, open_app
from vademecum.cli.vectors import make_vectors, vectors_options
from vademecum.config import Settings
from vademecum.embedding import open_embedder
from vademecum.embedding.models import DEFAULT, MODELS, Model, Progress, known_model, pull, verify
from vademecum.errors import ModelDamaged, ModelError
from vademecum.index import MOST_ATTEMPTS

if TYPE_CHECKING:
    from vademecum.app import Vademecum
    from vademecum.index import VectorSet

_MOST_REFUSALS: Final = 20


def _complete_model(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    del ctx, param
    names = [model.name for model in MODELS if model.role == "embedding"]
    return [name for name in (*names, "none", "ollama:", "openai:") if name.startswith(incomplete)]


@click.group(cls=FullHelpGroup)
def models() -> None:
    """Show, fetch and choose the models that search by meaning."""


@models.command(name="list")
@json_option
def list_models() -> None:
    """List the models that run on this machine, and which are in use."""
    settings = config.load()
    described = [_describe(settings, model) for model in MODELS]
    if as_json():
        output.print_json({"models": described, "wanted": settings.model})
        return
    head = ("NAME", "ROLE", "SIZE", "LICENCE", "INSTALLED", "CHOSEN")
    shown = {"ok": "yes", "missing": "no", "damaged": "damaged"}
    rows = [
        (m["name"], m["role"], _megabytes(m["bytes"]), m["licence"], shown[m["state"]], "yes" if m["chosen"] else "no")
        for m in described
    ]
    output.table([head, *rows])
    if settings.model not in {model.name for model in MODELS}:
        output.say(f"The setting embedding.model is {output.one_line(settings.model)}.")


@models.command()
@click.argument("name", shell_complete=_complete_model)
@vectors_options
@json_option
def use(name: str, wait: bool, no_vectors: bool) -> None:
    """Choose the model for search by meaning, and make vectors by it.

    NAME is one that `vade models list` shows, ollama:NAME or openai:NAME, or none. The old vectors answer until the new
    ones are complete.
    """
    which = config.setting("embedding.model")
    value = str(config.parse_value(which, name))
    if value != "none":
        open_embedder(config.load(), value)  # a model that does not work is refused before anything changes
    config.write_value(config.load(), which, value)
    app = open_app()
    vectors = make_vectors(app, wait=wait, skip=no_vectors)
    if as_json():
        output.print_json({"model": value, "vectors": vectors.as_json()})
        return
    output.say("Search by meaning is switched off." if value == "none" else f"Vectors are made by {value} from now on.")
    vectors.tell()
    if no_vectors and value != "none":
        old = any(s.answers and s.have and s.name != value for s in app.vector_sets())
        told = " Answers still come from the old ones." if old else ""
        output.note(f"note: none were made yet; `vade sources sync` makes them.{told}")


@models.command()
@json_option
def status() -> int:
    """Show which model answers, whether its files are right, and how many texts have a vector. Exits 1 for damage."""
    app = open_app()
    settings = app.settings
    problem: ModelError | None = None
    remarks: tuple[str, ...] = ()
    try:
        if settings.model != "none":
            remarks = open_embedder(settings).remarks
    except ModelError as exc:
        problem = exc
    sets = app.vector_sets() if settings.index_file.exists() else []
    damaged = isinstance(problem, ModelDamaged)
    if as_json():
        output.print_json(_status(app, sets, problem))
        return output.REFUSED if damaged else output.DONE
    known = settings.model in {model.name for model in MODELS}
    output.say(f"Chosen: {settings.model}" + (", every byte of it right" if known and not problem else ""))
    for remark in remarks:
        output.note(f"note: {remark}")
    if problem is not None:
        output.note(f"note: {problem.message}")
        output.note(f"      {problem.hint}")
    for found in sets:
        _print_set(app, found)
    if not sets:
        output.say("No vectors have been made yet.")
    return output.REFUSED if damaged else output.DONE


@models.command(name="pull")
@click.argument("name", required=False)
@json_option
def pull_model(name: str | None) -> None:
    """Fetch a model into the state folder. Without NAME: the one in use, else the default."""
    settings = config.load()
    model = known_model(name) if name is not None else _wanted(settings)
    with output.progress_bar(f"Fetching {model.name}, MB") as tell:
        pulled = pull(
            settings,
            model,
            progress=_in_megabytes(tell),
            waiting=lambda: output.note("Another pull is at work; waiting."),
        )
    if as_json():
        state = "pulled" if pulled.place else "already_there"
        answer = {"name": model.name, "state": state, "from": pulled.place, "bytes": model.size}
        output.print_json({**answer, "refused": dict(pulled.refusals)})
    elif pulled.place is None:
        output.say(f"{model.name} is already there, and every byte of it is right.")
    else:
        files = output.count(len(model.files), "file")
        output.say(f"Pulled {model.name} from {pulled.place}: {files}, {model.size:,} bytes, hashes verified.")
        if model.name == settings.model and settings.index_file.exists():
            output.note("`vade sources sync` makes vectors of what is indexed.")


def _status(app: Vademecum, sets: Sequence[VectorSet], problem: ModelError | None) -> dict[str, Any]:
    return {
        "wanted": app.settings.model,
        "problem": None
        if problem is None
        else {"code": problem.code, "message": problem.message, "hint": problem.hint},
        "sets": [
            {
                "model": found.name,
                "identity": found.identity,
                "dimensions": found.dimensions,
                "answers": bool(found.answers),
                "have": found.have,
                "pending": found.missing,
                "refused": found.refused,
                "not_whole": app.index.vectors.not_whole(found.row),
                "refusals": [
                    {"source_id": source_id, "path": path, "attempts": attempts, "reason": reason}
                    for source_id, path, attempts, reason in app.index.vectors.refusals(found.row, limit=_MOST_REFUSALS)
                ],
            }
            for found in sets
        ],
    }


def _print_set(app: Vademecum, found: VectorSet) -> None:
    switched_off = app.settings.model == "none"
    does = "is kept" if switched_off else "answers" if found.answers else "is being built"
    figures = f"{found.have:,} vectors, {found.missing:,} missing, {found.refused:,} given up"
    output.say(f"{found.name} {does}: {figures}; {found.dimensions} dimensions")
    longer = app.index.vectors.not_whole(found.row)
    if longer:
        output.say(f"  {output.count(longer, 'text')} longer than the model reads")
    for _, path, attempts, reason in app.index.vectors.refusals(found.row, limit=_MOST_REFUSALS):
        again = "" if attempts >= MOST_ATTEMPTS else ", to be tried again"
        output.say(f"  not embedded{again}: {output.one_line(path)}: {output.one_line(reason)}")


def _wanted(settings: Settings) -> Model:
    """The embedding model that the settings name, or the default when they name one of a server, or none."""
    chosen = (model for model in MODELS if model.name == settings.model and model.role == "embedding")
    return next(chosen, DEFAULT)


def _describe(settings: Settings, model: Model) -> dict[str, Any]:
    states = set(verify(settings, model).values())
    state = next(worst for worst in ("missing", "damaged", "ok") if worst in states)
    chosen = settings.model == model.name if model.role == "embedding" else bool(settings.values["recall.rerank"])
    return {
        "name": model.name,
        "role": model.role,
        "dimensions": model.dimensions,
        "bytes": model.size,
        "licence": model.licence,
        "about": model.about,
        "state": state,
        "chosen": chosen,
    }


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"


def _in_megabytes(tell: Progress | None) -> Progress | None:
    """A bar of bytes would be all digits."""
    return None if tell is None else lambda done, total, place: tell(done // 1_000_000, total // 1_000_000, place)
