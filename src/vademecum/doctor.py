"""Everything that has to be well, looked at: what it is, whether it is well, and what to do when it is not."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from vademecum.app import Vademecum
from vademecum.embedding import NOT_INSTALLED
from vademecum.errors import ModelMissing, SourceError, VadeError
from vademecum.index import SourceRow, VectorSet
from vademecum.sources import Source

REBUILD: Final = "`vade sources sync --force` moves it to quarantine and builds a new one from the sources."


class Check(NamedTuple):
    """One line of the doctor: what was looked at, whether it is well, and what to do if not."""

    name: str
    ok: bool
    detail: str
    remedy: str = ""


def diagnosis(checks: Sequence[Check]) -> dict[str, Any]:
    """What a doctor found, with the names of the wire."""
    return {
        "status": "healthy" if all(check.ok for check in checks) else "degraded",
        "checks": [{**check._asdict(), "remedy": "" if check.ok else check.remedy} for check in checks],
    }


def examine(app: Vademecum) -> list[Check]:
    """Look at everything."""
    return [*_check_state(app), *_check_sources(app), *_check_home(app), *_check_index(app), *_check_model(app)]


def _check_state(app: Vademecum) -> list[Check]:
    home = app.settings.home
    if not home.exists():
        return [Check("state folder", True, f"{home} is not made yet")]
    mode = home.stat().st_mode & 0o777
    private = not mode & 0o077
    writable = os.access(home, os.W_OK | os.X_OK)
    return [
        Check("state folder", writable, str(home), f"Make {home} writable for you."),
        Check("privacy", private, f"mode {mode:04o}", f"Others can read your index: chmod 700 {home}"),
    ]


def _check_home(app: Vademecum) -> list[Check]:
    """The home vault, once there is one or one was chosen."""
    root = app.settings.home_vault
    if not os.path.isdir(root):
        chosen = bool(str(app.settings.values["vault.path"]).strip())
        away = Check("home vault", False, f"{root} is not there", "Bring its drive back, or choose another vault.")
        return [away] if chosen else []
    told = app.home.as_json()
    detail = "; ".join(told["diagnostics"][:3]) or f"{told['memories']:,} memories in {root / told['memory_root']}"
    return [Check("home vault", not told["diagnostics"], detail, "`vade vault show` has the details.")]


def _check_index(app: Vademecum) -> list[Check]:
    path = app.settings.index_file
    if not path.exists():
        return [Check("index", True, "not made yet")]
    try:
        problems = app.index.integrity(thorough=not app.index.read_only)
        pending = app.index.scrub_pending()
        unlisted = unlisted_sources(app)
    except VadeError as exc:
        return [Check("index", False, exc.message, exc.hint)]
    return [
        Check("index", not problems, "; ".join(problems[:3]) or f"{path.name}, {path.stat().st_size:,} bytes", REBUILD),
        *_check_removals(app, pending=pending, unlisted=unlisted),
    ]


def unlisted_sources(app: Vademecum) -> list[str]:
    """The ids of sources that are on no list, and of which the index still holds something.

    Empty where the list cannot be read, which proves nothing. Raises IndexFailure.
    """
    if not app.settings.index_file.exists():
        return []
    try:
        listed = app.registry.ids()
    except SourceError:
        return []
    return sorted(app.index.sources().keys() - listed)


def _check_removals(app: Vademecum, *, pending: bool, unlisted: Sequence[str]) -> list[Check]:
    told = []
    if pending:
        told.append("deleted text still lies in gaps of the file")
    if not unlisted:
        remedy = "Close other vade processes, then run `vade sources sync`."
    elif app.registry.exists():
        told.append(f"the index still holds {', '.join(unlisted)}, which is on no list of sources")
        remedy = "Run `vade sources sync`: it purges that."
    else:  # nothing is purged on the word of a list that is not there
        told.append(f"the list of sources is gone, and the index still holds {', '.join(unlisted)}")
        remedy = f"Restore {app.settings.sources_file}, or connect the folders again; `vade sources remove ID` purges."
    return [Check("removals", not told, "; ".join(told) or "none unfinished", remedy)]


def _check_model(app: Vademecum) -> list[Check]:
    if app.settings.model == "none":
        return [Check("model", True, "search by meaning is switched off")]
    try:
        embedder = app.models.embedder()
        remarks = embedder.remarks  # opens the model, where the daemon's would be asked
        sets = app.index.vectors.sets() if app.settings.index_file.exists() else []
    except VadeError as exc:
        absent = isinstance(exc, ModelMissing) and app.models.why_none() == NOT_INSTALLED
        told = "none is installed; words are searched. `vade models pull` fetches one." if absent else exc.message
        return [Check("model", absent, told, exc.hint)]
    detail = " ".join([f"{embedder.name}, {embedder.dimensions} dimensions.", *remarks])
    return [Check("model", True, detail.rstrip(".")), *map(_check_set, sets), *_check_reranker(app)]


def _check_reranker(app: Vademecum) -> list[Check]:
    if not app.settings.values["recall.rerank"]:
        return []
    try:
        return [Check("reranker", True, app.models.reranker().name)]
    except VadeError as exc:
        return [Check("reranker", False, exc.message, exc.hint)]


def _check_sources(app: Vademecum) -> list[Check]:
    try:
        sources = app.registry.all()
    except VadeError as exc:
        return [Check("sources", False, exc.message, exc.hint)]
    checks = [Check("sources", True, f"{len(sources)} connected")]
    try:
        known = app.index.sources() if app.settings.index_file.exists() else {}
    except VadeError:  # told by the check of the index
        return checks
    return [*checks, *(_check_source(s, known.get(s.id)) for s in sources if s.enabled)]


def _check_set(found: VectorSet) -> Check:
    detail = f"{found.have:,} of {found.name}, {found.missing:,} missing, {found.refused:,} given up"
    return Check("vectors", not found.missing, detail, "`vade sources sync --wait` makes them.")


def _check_source(source: Source, row: SourceRow | None) -> Check:
    name = f"source {source.name}"
    if not source.is_there:
        return Check(name, False, f"{source.root} is unreachable", "Mount the drive, or remove the source.")
    if row is None:
        return Check(name, False, "never indexed", "Run `vade sources sync`.")
    if row.state != "healthy":
        detail = "; ".join(row.diagnostics[:3]) or row.state
        return Check(name, False, detail, f"`vade sources show {source.id}` has the details.")
    return Check(name, True, f"{row.documents:,} notes, indexed {row.last_indexed_at}")
