"""The routes of memories and of the home vault.

Whoever gets past the guard is the owner, so that what is remembered here may be brief, and may be changed. A memory's
id is its path in the vault.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final, Literal, TypeVar

from fastapi import APIRouter, Query
from pydantic import Field

from vademecum.access import OWNER
from vademecum.app import Vademecum
from vademecum.daemon.host import Daemon
from vademecum.daemon.wire import Strict, Text, router_of
from vademecum.errors import SourceReadOnly, UsageError, VadeError
from vademecum.home import Standing

Scope = Literal["general", "platform", "project"]
Confidence = Literal["verified", "inferred", "unverified"]
Type = Literal["fact", "preference", "decision", "rule", "learning", "issue"]
FACETS: Final = ("scope", "confidence", "type", "pinned", "importance")
_AT_ONCE: Final = 200
_SOURCE_KINDS: Final = ("obsidian:", "folder:")
_UNASKED: Final = 25

T = TypeVar("T")
Names = Annotated[list[Text], Field(max_length=100)]


class Remember(Strict):
    """What is to be remembered. `content` is text as people write it, with `critical:` or tags before it."""

    content: Text | None = Field(None, max_length=1_000_000)
    title: Text | None = None
    body: Text | None = Field(None, max_length=1_000_000)
    confidence: Confidence | None = None
    verification: Text | None = None
    scope: Scope | None = None
    generality: Text | None = None
    projects: Names | None = None
    platforms: Names | None = None
    tags: Names | None = None
    links: Names | None = None
    supersedes: Names | None = None
    type: Type | None = None
    pinned: bool | None = None
    importance: float | None = Field(None, ge=0, le=1)
    project: Text | None = Field(None, description="The project that says it; everywhere where none is given.")
    force: bool = False
    dry_run: bool = False
    allow_secret: bool = False


class Amend(Strict):
    """What to change of a memory, and why. `if_version` is what `version` was when it was read."""

    reason: Text
    if_version: Text | None = None
    title: Text | None = None
    body: Text | None = Field(None, max_length=1_000_000)
    confidence: Confidence | None = None
    scope: Scope | None = None
    projects: Names | None = None
    platforms: Names | None = None
    tags: Names | None = None
    type: Type | None = None
    pinned: bool | None = None
    importance: float | None = Field(None, ge=0, le=1)


class AmendOne(Amend):
    """One of several changes."""

    id: Text


class AmendMany(Strict):
    """Several changes, each done or refused by itself."""

    patches: list[AmendOne] = Field(max_length=_AT_ONCE)


class Forget(Strict):
    """Memories to forget. `preview` shows them and gives a token, which more than 25 of them need."""

    ids: list[Text] = Field(max_length=_AT_ONCE)
    mode: Literal["preview", "execute"] = "preview"
    reason: Text = ""
    force: bool = False
    confirm_token: Text | None = None


class Promote(Strict):
    """The note, and the heading or block in it, that a memory was copied to."""

    note: Text


class Work(Strict):
    """A record of work."""

    title: Text
    summary: Text
    changes: Names | None = None
    decisions: Names | None = None
    learned: Names | None = None
    verification: Text | None = None
    open: Names | None = None
    informed_by: Names | None = None
    folder: Text | None = None
    kind: Literal["note", "decision"] | None = None
    project: Text | None = None
    dry_run: bool = False


def routes(daemon: Daemon) -> APIRouter:
    """Every route of memories."""
    router = router_of("memories", 404, 409, 503)
    _writing(router, daemon)
    _reading(router, daemon)
    _keeping(router, daemon)
    _many(router, daemon)
    return router


def _writing(router: APIRouter, daemon: Daemon) -> None:
    @router.post("/api/memory/remember")
    async def remember(body: Remember) -> dict[str, Any]:
        """Keep something. What is known already is corroborated; what is nearly the same is refused."""
        how = body.model_dump(include={"force", "dry_run", "allow_secret"})
        said = _said(body, leave_out={"content", "project", *how})
        who = _standing(body.project)
        if body.content is not None:
            from vademecum.memory.capture import capture

            said = {**capture(body.content), **said}
        outcome = await _written(daemon, lambda app: app.memories.remember(said, who, **how))
        return {**outcome.as_json(), "text": outcome.text}

    @router.post("/api/memory/record-work")
    async def record_work(body: Work) -> dict[str, Any]:
        """Write down what was done, as a note of the vault."""
        said, who = _said(body, leave_out={"project", "dry_run"}), _standing(body.project)
        done = await _written(daemon, lambda app: app.memories.record_work(said, who, dry_run=body.dry_run))
        return done.as_json()


def _reading(router: APIRouter, daemon: Daemon) -> None:
    @router.get("/api/memories")
    async def memories(
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
        offset: Annotated[int, Query(ge=0, le=10_000_000)] = 0,
        scope: Scope | None = None,
        confidence: Confidence | None = None,
        type: Type | None = None,  # noqa: A002 - the name on the wire
        pinned: bool | None = None,
        importance: Annotated[float | None, Query(ge=0, le=1)] = None,
        project: Annotated[str | None, Query(max_length=1000)] = None,
        tag: Annotated[list[str], Query(max_length=100)] = [],  # noqa: B006 - FastAPI copies it
        since: Annotated[str | None, Query(max_length=100)] = None,
        until: Annotated[str | None, Query(max_length=100)] = None,
    ) -> dict[str, Any]:
        """The memories, live before superseded, the newest first, and some figures of all of them."""
        facets = {
            "scope": scope,
            "confidence": confidence,
            "type": type,
            "pinned": pinned,
            "importance": importance,
            "project": project,
        }

        def listed(app: Vademecum) -> dict[str, Any]:
            wanted = app.wanted(tags=tag, since=since, until=until, **facets)
            found = app.memories.list(OWNER, wanted, limit=limit, offset=offset)
            return {**found, "stats": {"total": found["total"], "critical": app.memories.critical()}}

        return await daemon.answers.run(listed)

    @router.get("/api/memories/inbox")
    async def inbox() -> dict[str, Any]:
        """The memories that no note of the vault has taken up, the oldest first."""
        return await daemon.answers.run(lambda app: app.memories.inbox(_standing(None)))

    @router.get("/api/memories/forgotten")
    async def forgotten() -> dict[str, Any]:
        """What can be restored."""
        found = await daemon.answers.run(lambda app: app.memories.forgotten())
        return {"forgotten": [entry.as_json() for entry in found]}

    @router.get("/api/vault")
    async def vault() -> dict[str, Any]:
        """The home vault."""
        return await daemon.answers.run(lambda app: app.home.as_json())

    @router.get("/api/memory/{memory_id:path}/history")
    async def history(memory_id: str, limit: Annotated[int, Query(ge=1, le=1000)] = 200) -> dict[str, Any]:
        """What was done to a memory, the oldest first; the newest so many of it."""
        changes = await _of(daemon, memory_id, lambda app: app.memories.history(memory_id, _standing(None)))
        return {"changes": [change.as_json() for change in changes[-limit:]]}

    @router.get("/api/memory/{memory_id:path}")
    async def memory(memory_id: str) -> dict[str, Any]:
        """One memory whole, or what it was promoted to, with its version."""
        return {"memory": await _of(daemon, memory_id, lambda app: app.memories.show(memory_id, _standing(None)))}


def _keeping(router: APIRouter, daemon: Daemon) -> None:
    @router.patch("/api/memory/{memory_id:path}")
    async def modify(memory_id: str, body: Amend) -> dict[str, Any]:
        """Change what a memory says or declares; a reason is required."""
        return {"memory": await _of(daemon, memory_id, lambda app: _modified(app, memory_id, body))}

    @router.delete("/api/memory/{memory_id:path}")
    async def forget(
        memory_id: str, reason: Annotated[str, Query(max_length=1000)] = "", force: bool = False
    ) -> dict[str, Any]:
        """Move a memory to the trash; a pinned one only where that is forced."""
        done = await _of(
            daemon,
            memory_id,
            lambda app: app.memories.forget(memory_id, _standing(None), reason=reason, force=force),
        )
        return {"forgotten": done.as_json()}

    @router.post("/api/memory/{memory_id:path}/recover")
    async def recover(memory_id: str) -> dict[str, Any]:
        """Bring a memory back that was forgotten in the last thirty days."""
        found = await _of(daemon, memory_id, lambda app: app.memories.restore(memory_id, _standing(None)))
        return {"memory": {"id": found.path, "path": found.path, "title": found.title, **found.facets()}}

    @router.post("/api/memory/{memory_id:path}/promote")
    async def promote(memory_id: str, body: Promote) -> dict[str, Any]:
        """Mark a memory as copied into a note, from where it is served then."""
        known, told = await _of(
            daemon, memory_id, lambda app: app.memories.promote(memory_id, body.note, _standing(None))
        )
        return {"memory": {"id": known.path, "path": known.path, "promoted": known.promoted}, "promotion": told}


def _many(router: APIRouter, daemon: Daemon) -> None:
    @router.post("/api/memory/forget")
    async def forget_many(body: Forget) -> dict[str, Any]:
        """Forget several memories, or show which they would be."""
        listed = list(dict.fromkeys(body.ids))
        token = _token_of(listed)
        if body.mode == "preview":

            def look(app: Vademecum) -> list[dict[str, Any]]:
                return [_one(one, lambda name: app.memories.show(name, _standing(None))["title"]) for one in listed]

            return {"mode": "preview", "confirm_token": token, "results": await daemon.answers.run(look)}
        if len(listed) > _UNASKED and body.confirm_token != token:
            raise UsageError(
                f"more than {_UNASKED} memories are forgotten only with the token of a preview",
                hint="Send the same ids with mode preview first.",
            )

        def act(app: Vademecum) -> list[dict[str, Any]]:
            def forget(name: str) -> Any:
                return app.memories.forget(name, _standing(None), reason=body.reason, force=body.force).path

            return [_one(one, forget) for one in listed]

        return {"mode": "execute", "results": await _written(daemon, act)}

    @router.post("/api/memory/modify")
    async def modify_many(body: AmendMany) -> dict[str, Any]:
        """Change several memories, each by itself."""

        def act(app: Vademecum) -> list[dict[str, Any]]:
            def change(patch: AmendOne) -> Callable[[str], Any]:
                return lambda name: _modified(app, name, patch)["path"]

            return [_one(patch.id, change(patch)) for patch in body.patches]

        return {"results": await _written(daemon, act)}


def _modified(app: Vademecum, memory_id: str, body: Amend) -> dict[str, Any]:
    said = _said(body, leave_out={"reason", "if_version", "id"})
    if not said:
        raise UsageError("nothing is to be changed", hint="Name what is to be different.")
    _refuse_sources(memory_id)
    known = app.memories.modify(memory_id, said, _standing(None), reason=body.reason, version=body.if_version)
    return {"id": known.path, "path": known.path, "title": known.title, **known.facets()}


def _one(name: str, act: Callable[[str], Any]) -> dict[str, Any]:
    """What became of one of several."""
    try:
        _refuse_sources(name)
        return {"id": name, "ok": True, "told": act(name)}
    except VadeError as exc:
        return {"id": name, "ok": False, "error": {"code": exc.code, "message": exc.message, "hint": exc.hint}}


def _token_of(ids: list[str]) -> str:
    import hashlib

    return hashlib.sha256("\n".join(sorted(ids)).encode()).hexdigest()[:16]


def _said(body: Strict, *, leave_out: set[str]) -> dict[str, object]:
    return body.model_dump(exclude=leave_out, exclude_none=True)


def _standing(project: str | None) -> Standing:
    return Standing(OWNER, project.lower() if project else None, inside=False)


def _refuse_sources(memory_id: str) -> None:
    """Say what it is that somebody takes for a memory. Raises SourceReadOnly."""
    if memory_id.startswith(_SOURCE_KINDS):
        raise SourceReadOnly(f"{memory_id} belongs to a source, and sources are read-only")


async def _of(daemon: Daemon, memory_id: str, act: Callable[[Vademecum], T]) -> T:
    _refuse_sources(memory_id)
    return await _written(daemon, act)


async def _written(daemon: Daemon, act: Callable[[Vademecum], T]) -> T:
    """Do what may write, beside the questions, and have what it wrote embedded and told of."""
    outcome = await daemon.upkeep.run(act)
    daemon.embedding.wake()
    return outcome
