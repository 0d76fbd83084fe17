"""The HTTP API: each route translates a request for the application, and its answer back. Nothing is decided here.

Whoever gets past the guard is the owner. Errors have one shape on every route, by the table below.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Body, FastAPI, Query, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from pydantic import ConfigDict, Field, model_validator
from starlette.exceptions import HTTPException

from vademecum import __version__, errors
from vademecum.access import OWNER
from vademecum.app import Vademecum
from vademecum.daemon import front, memory_api, metrics
from vademecum.daemon.host import Daemon
from vademecum.daemon.memory_api import FACETS, Confidence, Scope, Type
from vademecum.daemon.wire import Strict, Text, failures, media, outside_of_routes, router_of
from vademecum.doctor import diagnosis, examine
from vademecum.errors import PickerMissing, RouteNotFound, SourceDisabled
from vademecum.sources.registry import now

_READY_S: Final = 1.0
_TITLE: Final = "Choose folder"
log = logging.getLogger("vademecum.api")


# ── what requests carry


class Connect(Strict):
    """A folder to connect. `path` and `root` are two names of one thing."""

    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": ["path"]}, {"required": ["root"]}]})

    path: Text | None = None
    root: Text | None = None
    name: Text | None = None
    exclude: list[Text] | None = Field(None, description="Globs of files to leave out.")

    @model_validator(mode="after")
    def _names_one_folder(self) -> Connect:
        if (self.path is None) == (self.root is None):
            raise ValueError("give path")
        return self

    @property
    def folder(self) -> str:
        """The folder that is meant."""
        return self.path if self.path is not None else self.root or ""


class Look(Strict):
    """A folder to look into, by names alone."""

    path: Text
    kind: Literal["obsidian", "folder"] = "obsidian"
    exclude: list[Text] | None = None


class Change(Strict):
    """What to change of a source. `exclude` replaces all globs that were given before."""

    name: Text | None = None
    enabled: bool | None = None
    exclude: list[Text] | None = None


class Sync(Strict):
    """How to sync. `accept_loss` takes out notes that are gone even if nearly all are."""

    force: bool = False
    accept_loss: bool = False


class Pick(Strict):
    """The title of the window in which a folder is chosen."""

    title: Text = Field(default=_TITLE, max_length=200)


class Ask(Strict):
    """A question, and what its hits must satisfy."""

    query: Text = Field(max_length=100_000)
    limit: int | None = Field(None, ge=1, le=100)
    lane: Literal["words", "meaning", "hybrid"] = "hybrid"
    include: Literal["all", "memories", "sources"] = "all"
    source: list[Text] = Field(default=[], description="Ids or names of sources.", max_length=100)
    path: Text = Field("", description="Only notes whose path starts so.")
    tag: list[Text] = Field(default=[], max_length=100)
    since: Text | None = Field(None, description="ISO day, or an age as 30d or 6w.")
    until: Text | None = None
    scope: Scope | None = Field(None, description="Only memories of this scope, and so no notes.")
    confidence: Confidence | None = Field(None, description="Only memories of this confidence, and so no notes.")
    type: Type | None = Field(None, description="Only memories of this type, and so no notes.")
    pinned: bool | None = Field(None, description="Only memories that are pinned, or not, and so no notes.")
    importance: float | None = Field(None, ge=0, le=1, description="Only memories that matter so much.")
    without: list[Text] = Field(default=[], max_length=100)
    explain: bool = False
    rerank: bool | None = None


class Embed(Strict):
    """A question to embed, and the identity of the model that is expected."""

    text: Text = Field(max_length=100_000)
    identity: Text


# ── the application


class Application(FastAPI):
    """Describes itself without FastAPI's 422: what is wrong with a request is a 400 here."""

    def openapi(self) -> dict[str, Any]:
        """The description."""
        described = super().openapi()
        for route in (route for methods in described["paths"].values() for route in methods.values()):
            route["responses"].pop("422", None)
        for name in ("HTTPValidationError", "ValidationError"):
            described["components"]["schemas"].pop(name, None)
        return described


def build(daemon: Daemon, *, lifespan: Any = None) -> FastAPI:
    """The application of a daemon. Its pages of documentation would load scripts from elsewhere, so it has none."""
    app = Application(
        title="vademecum",
        version=__version__,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/openapi.json",
        redirect_slashes=False,
    )
    app.add_exception_handler(HTTPException, outside_of_routes)
    for routes in (_health, _sources, _one_source, _inside_a_source, _questions, memory_api.routes, _daemon):
        app.include_router(routes(daemon))
    app.include_router(front.routes())
    return app


def _health(daemon: Daemon) -> APIRouter:
    router = router_of("health", 503)

    @router.get("/health")
    async def health() -> dict[str, Any]:
        """The process lives. Touches neither index nor model."""
        return {"status": "ok", "instance": daemon.instance, "version": __version__}

    @router.get("/health/ready")
    async def ready() -> dict[str, str]:
        """The index can be asked, within a second."""
        try:
            await asyncio.wait_for(daemon.answers.run(_probe), _READY_S)
        except TimeoutError as exc:
            raise errors.IndexBusy("the index did not answer within a second") from exc
        return {"status": "ready"}

    @router.get("/metrics", response_class=Response, responses=media("text/plain"))
    async def measured() -> PlainTextResponse:
        """Figures of the process and its sources, in the text format of Prometheus."""
        return PlainTextResponse(await daemon.upkeep.run(lambda app: metrics.exposition(daemon, app)))

    return router


def _probe(app: Vademecum) -> int:
    return len(app.index.sources()) if app.settings.index_file.exists() else 0


def _sources(daemon: Daemon) -> APIRouter:
    router = router_of("sources", 409, 503)

    @router.get("/api/sources")
    async def list_sources() -> dict[str, Any]:
        """Every source, with what the index knows of it and its newest job."""

        def listed(app: Vademecum) -> list[dict[str, Any]]:
            return [daemon.source(app, source) for source in app.registry.all()]

        return {"version": 1, "sources": await daemon.answers.run(listed)}

    @router.post("/api/sources/preview")
    async def preview(body: Look) -> dict[str, Any]:
        """What connecting a folder would index, by file names alone."""
        found = await daemon.upkeep.run(lambda app: app.preview(body.kind, body.path, exclude=body.exclude))
        return found.as_json()

    @router.post("/api/sources/pick-directory", responses=failures(501))
    async def pick_directory(request: Request, body: Annotated[Pick | None, Body()] = None) -> dict[str, Any]:
        """Have the person at this machine choose a folder. 501 where no window can be opened."""
        if not _is_local(request):
            raise PickerMissing("a folder is chosen at the machine itself")
        picked = await asyncio.to_thread(daemon.picker.pick, (body or Pick(title=_TITLE)).title)
        return {"path": picked.path, "cancelled": picked.path is None}

    @router.post("/api/sources/obsidian", status_code=202)
    async def connect_obsidian(body: Connect) -> dict[str, Any]:
        """Connect an Obsidian vault, or update it, and have it indexed in the background."""
        return await _connect(daemon, "obsidian", body)

    @router.post("/api/sources/folder", status_code=202)
    async def connect_folder(body: Connect) -> dict[str, Any]:
        """Connect a folder of Markdown, or update it, and have it indexed in the background."""
        return await _connect(daemon, "folder", body)

    return router


async def _connect(daemon: Daemon, kind: str, body: Connect) -> dict[str, Any]:
    source, created = await asyncio.to_thread(
        daemon.registry.add, kind, body.folder, name=body.name, exclude=body.exclude
    )
    job = daemon.jobs.sync(source.id)
    daemon.watch.reload()
    return {"source": source.as_json(), "created": created, "indexed": 0, "queued": True, "job": job.as_json()}


def _is_local(request: Request) -> bool:
    return request.client is None or request.client.host in ("127.0.0.1", "::1")


def _one_source(daemon: Daemon) -> APIRouter:
    router = router_of("sources", 404, 409, 503)

    @router.get("/api/sources/{source_id}")
    async def show(source_id: str) -> dict[str, Any]:
        """One source whole, with its skipped files and what is odd about single notes."""

        def details(app: Vademecum) -> dict[str, Any]:
            source = app.registry.find(source_id)
            return {"source": {**app.details(source), "job": daemon.job_of(source.id)}}

        return await daemon.upkeep.run(details)

    @router.patch("/api/sources/{source_id}")
    async def change(source_id: str, body: Change) -> dict[str, Any]:
        """Rename a source, switch it on or off, or replace its globs."""
        source = await asyncio.to_thread(
            daemon.registry.edit, source_id, name=body.name, enabled=body.enabled, exclude=body.exclude
        )
        if not source.enabled:
            daemon.jobs.cancel(source.id)
        elif body.enabled or body.exclude is not None:
            daemon.jobs.sync(source.id)
        daemon.watch.reload()
        return {"source": await daemon.answers.run(lambda app: daemon.source(app, source))}

    @router.delete("/api/sources/{source_id}")
    async def remove(source_id: str) -> dict[str, Any]:
        """Disconnect a source, purge every row of it, and prove that nothing is left. No file is touched."""
        return (await asyncio.to_thread(daemon.remove, source_id)).as_json()

    @router.post("/api/sources/{source_id}/sync", status_code=202)
    async def sync(source_id: str, body: Annotated[Sync | None, Body()] = None) -> dict[str, Any]:
        """Have a source synced. Asked while it is, exactly one more sync follows."""
        source = await asyncio.to_thread(daemon.registry.find, source_id)
        if not source.enabled:
            raise SourceDisabled(f"{source.name} is disabled")
        how = body or Sync()
        return {"job": daemon.jobs.sync(source.id, force=how.force, accept_loss=how.accept_loss).as_json()}

    return router


def _inside_a_source(daemon: Daemon) -> APIRouter:
    router = router_of("sources", 404, 409, 503)

    @router.get("/api/sources/{source_id}/health")
    async def source_health(source_id: str) -> dict[str, Any]:
        """How a source is: what is indexed, what failed, what watches it."""
        return await daemon.answers.run(lambda app: _health_of(daemon, app, source_id))

    @router.get("/api/sources/{source_id}/artifacts")
    async def artifacts(
        source_id: str,
        q: Annotated[str, Query(max_length=1000)] = "",
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
        offset: Annotated[int, Query(ge=0, le=10_000_000)] = 0,
    ) -> dict[str, Any]:
        """The notes of a source by path, without their text; `q` is part of a path or title."""
        return await daemon.upkeep.run(
            lambda app: app.artifacts(app.registry.find(source_id), OWNER, contains=q, limit=limit, offset=offset)
        )

    @router.get("/api/sources/{source_id}/graph")
    async def graph(
        source_id: str,
        path: Annotated[str, Query(max_length=5000)] = "",
        depth: Annotated[int, Query(ge=1, le=5)] = 1,
        outline: bool = False,
    ) -> Response:
        """The nodes and edges of a source; with `path`, what lies around that note."""
        source = await asyncio.to_thread(daemon.registry.find, source_id)
        if path:
            address = str(source.root / path)
            found = await daemon.answers.run(lambda app: app.expand(address, OWNER, depth=depth))
            return JSONResponse(found.as_json())
        # Whole, since it is one snapshot: open while a client reads, it would take in whatever else the lane does.
        text = await daemon.upkeep.run(lambda app: "".join(app.export_graph(OWNER, source=source, outline=outline)))
        return Response(text, media_type="application/json")

    return router


def _health_of(daemon: Daemon, app: Vademecum, source_id: str) -> dict[str, Any]:
    found = daemon.source(app, app.registry.find(source_id))
    job = found["job"]
    return {
        "status": found["state"],
        "generated_at": now(),
        "documents": found["documents"],
        "chunks": found["chunks"],
        "last_indexed_at": found["last_indexed_at"],
        "stale_since": found["stale_since"],
        "skipped": found["skipped"],
        "diagnostics": found["diagnostics"],
        "error": None if job is None else job["error"],
        "job": job,
        "watch": daemon.watched(found["id"]),
        "embedding": daemon.embedding.state,
    }


def _questions(daemon: Daemon) -> APIRouter:
    router = router_of("recall", 404, 409, 503)

    async def asked(body: Ask) -> dict[str, Any]:
        facets = body.model_dump(include=set(FACETS), exclude_none=True)
        words = body.model_dump(exclude={"query", *FACETS})

        def answered(app: Vademecum) -> dict[str, Any]:
            wanted = app.wanted(**facets) if facets else None
            return app.recall(app.question(body.query, wanted=wanted, **words), OWNER).as_json()

        return await daemon.answers.run(answered)

    @router.post("/api/recall")
    async def recall(body: Ask) -> dict[str, Any]:
        """Ask, and get the notes and memories that answer, best first, with a receipt of what was looked at."""
        return await asked(body)

    @router.post("/api/memory/recall")
    async def memory_recall(body: Ask) -> dict[str, Any]:
        """`/api/recall` with the hits also as `results`."""
        answer = await asked(body)
        return {**answer, "results": answer["hits"]}

    @router.get("/api/notes/read")
    async def read(address: Annotated[str, Query(max_length=5000)]) -> dict[str, Any]:
        """A note, or a heading, block or line range of it: PATH, PATH#Heading, PATH#^block, PATH:12-40."""
        return (await daemon.answers.run(lambda app: app.read(address, OWNER))).as_json()

    @router.get("/api/notes/expand")
    async def expand(
        address: Annotated[str, Query(max_length=5000)],
        depth: Annotated[int, Query(ge=1, le=5)] = 1,
        limit: Annotated[int, Query(ge=1, le=1000)] = 50,
    ) -> dict[str, Any]:
        """What lies around a note: links both ways, outline, tags, folder."""
        return (await daemon.answers.run(lambda app: app.expand(address, OWNER, depth=depth, limit=limit))).as_json()

    @router.post("/api/embed")
    async def embed(body: Embed) -> dict[str, Any]:
        """The vector of a question, by the model that is warm here. 404 where that is another one."""

        def made(app: Vademecum) -> dict[str, Any]:
            embedder = app.models.embedder()
            if embedder.identity != body.identity:
                raise errors.ModelUnknown("another model is loaded here")
            return {"identity": embedder.identity, "vector": embedder.embed_query(body.text).tolist()}

        return await daemon.answers.run(made)

    return router


def _daemon(daemon: Daemon) -> APIRouter:
    router = router_of("daemon", 503)

    @router.get("/api/status")
    async def status() -> dict[str, Any]:
        """The daemon, its sources, what watches them, and what is being made."""
        return await daemon.answers.run(daemon.status)

    @router.get("/api/diagnostics")
    async def diagnostics() -> dict[str, Any]:
        """Everything that has to be well, looked at now."""
        return diagnosis(await daemon.upkeep.run(examine))

    @router.get("/api/jobs/{job_id}", responses=failures(404))
    async def job(job_id: str) -> dict[str, Any]:
        """A sync, as it goes, or as it ended: the last hundred are kept."""
        found = daemon.jobs.find(job_id)
        if found is None:
            raise RouteNotFound("no such job", hint="Only the last hundred that ended are kept.")
        return {"job": found.as_json()}

    @router.get("/api/events", response_class=Response, responses=media("text/event-stream"))
    async def events() -> StreamingResponse:
        """Server-sent events: `job` as a sync goes on, `changed` when notes did, `removed` when a source is gone."""
        return StreamingResponse(daemon.events.stream(), media_type="text/event-stream")

    @router.post("/api/login-link")
    async def login_link() -> dict[str, str]:
        """A link that signs a browser in, once, within a minute."""
        return {"url": f"{daemon.url}/login?code={daemon.logins.issue()}"}

    return router
