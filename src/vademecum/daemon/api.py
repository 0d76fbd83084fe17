"""The HTTP API: each route translates a request for the application, and its answer back. Nothing is decided here.

Whoever gets past the guard is the owner. Errors have one shape on every route, by the table below.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Body, FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from fastapi.routing import APIRoute
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from starlette.exceptions import HTTPException

from vademecum import __version__, config, errors
from vademecum.access import OWNER
from vademecum.app import Vademecum, diagnosis
from vademecum.daemon import guard, metrics
from vademecum.daemon.host import Daemon
from vademecum.errors import BadRequest, MethodRefused, PickerMissing, RouteNotFound, SourceDisabled, VadeError
from vademecum.sources.registry import now

STATUS: Final[Mapping[type[VadeError], int]] = {
    errors.VadeError: 500,
    errors.UsageError: 400,
    errors.OutputFailed: 500,
    errors.ConfigError: 500,
    errors.StateError: 503,
    errors.StateReadOnly: 503,
    errors.StateBusy: 503,
    errors.SourceError: 400,
    errors.SourceNotFound: 404,
    errors.SourceAmbiguous: 409,
    errors.SourceDisabled: 409,
    errors.SourceRemoved: 409,
    errors.SourceRootInvalid: 400,
    errors.SourceRootNested: 409,
    errors.SourceRootMissing: 503,
    errors.SourcesFileCorrupt: 500,
    errors.GlobInvalid: 400,
    errors.NoteError: 400,
    errors.NoteNotFound: 404,
    errors.NoteAmbiguous: 409,
    errors.NoteWithheld: 403,
    errors.NoteUnreadable: 503,
    errors.NoteEvicted: 503,
    errors.OutsideRoot: 400,
    errors.IndexFailure: 503,
    errors.IndexBusy: 503,
    errors.IndexCorrupt: 503,
    errors.IndexUnavailable: 503,
    errors.ModelError: 500,
    errors.ModelUnknown: 404,
    errors.ModelMissing: 503,
    errors.ModelDamaged: 500,
    errors.ModelPullFailed: 503,
    errors.ConsentMissing: 403,
    errors.EmbedderDown: 503,
    errors.TextRefused: 400,
    errors.DaemonError: 500,
    errors.DaemonNotRunning: 503,
    errors.DaemonRunning: 409,
    errors.DaemonFailed: 500,
    errors.PortTaken: 409,
    errors.PickerError: 500,
    errors.PickerMissing: 501,
    errors.PickerBusy: 409,
    **{kind: status for kind, status in guard.STATUS.items()},  # noqa: C416 - a dict of subclasses is none of errors
}
_READY_S: Final = 1.0
_TITLE: Final = "Choose folder"
log = logging.getLogger("vademecum.api")


# ── what requests carry


def _encodable(text: str) -> str:
    text.encode()  # JSON can spell half a character, which no answer could carry; the error is a ValueError
    return text


Text = Annotated[str, AfterValidator(_encodable)]


class Strict(BaseModel):
    """A body that holds what it says and nothing else, each of its own type."""

    model_config = ConfigDict(extra="forbid", strict=True)


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
    without: list[Text] = Field(default=[], max_length=100)
    explain: bool = False
    rerank: bool | None = None


class Embed(Strict):
    """A question to embed, and the identity of the model that is expected."""

    text: Text = Field(max_length=100_000)
    identity: Text


# ── errors


class Told(BaseModel):
    """An error: its stable code, what happened, and what to do."""

    code: str
    message: str
    hint: str


class Failure(BaseModel):
    """The body of every error."""

    error: Told


def _failures(*statuses: int) -> dict[int | str, dict[str, Any]]:
    return {status: {"model": Failure} for status in statuses}


def _as(media_type: str) -> dict[int | str, dict[str, Any]]:
    """An answer that is no JSON. A class of response would say the same of the refusals."""
    return {200: {"content": {media_type: {"schema": {"type": "string"}}}}}


def refusal(exc: VadeError) -> JSONResponse:
    """The answer for an error."""
    status = next(STATUS[kind] for kind in type(exc).__mro__ if kind in STATUS)
    return JSONResponse({"error": {"code": exc.code, "message": exc.message, "hint": exc.hint}}, status)


class Route(APIRoute):
    """A route whose every error has the one shape."""

    def get_route_handler(self) -> Callable[[Request], Awaitable[Response]]:  # type: ignore[override]
        """The handler, with errors answered."""
        inner = super().get_route_handler()

        async def handle(request: Request) -> Response:
            try:
                return await inner(request)
            except VadeError as exc:
                return refusal(exc)
            except RequestValidationError as exc:
                return refusal(BadRequest(_what_is_wrong(exc)))
            except HTTPException as exc:
                return refusal(BadRequest(str(exc.detail)))
            except Exception as exc:  # noqa: BLE001 - the log gets the place, never the message: it may quote a note
                config.log_crash(exc)
                log.error("a request ended unexpectedly (%s); logs/crash.log has the place", type(exc).__name__)
                return refusal(VadeError(f"something that should not happen did ({type(exc).__name__})"))

        return handle


def _what_is_wrong(exc: RequestValidationError) -> str:
    found = exc.errors()[0]
    place = ".".join(str(part) for part in found["loc"][1:]) or str(found["loc"][0])
    return f"{place}: {found['msg']}"


async def _outside_of_routes(_: Request, exc: Exception) -> Response:
    status = getattr(exc, "status_code", 404)
    told = MethodRefused("the route does not take this method") if status == 405 else RouteNotFound("no such route")
    answer = refusal(told)
    answer.headers.update(getattr(exc, "headers", None) or {})
    return answer


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
    app.add_exception_handler(HTTPException, _outside_of_routes)
    for routes in (_health, _sources, _one_source, _inside_a_source, _questions, _daemon):
        app.include_router(routes(daemon))
    return app


def _router(tag: str, *statuses: int) -> APIRouter:
    """A router whose routes fail with these statuses, and with those of the guard and of a list that is damaged."""
    return APIRouter(route_class=Route, tags=[tag], responses=_failures(400, 401, 403, 413, 415, 500, *statuses))


def _health(daemon: Daemon) -> APIRouter:
    router = _router("health", 503)

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

    @router.get("/metrics", response_class=Response, responses=_as("text/plain"))
    async def measured() -> PlainTextResponse:
        """Figures of the process and its sources, in the text format of Prometheus."""
        return PlainTextResponse(await daemon.upkeep.run(lambda app: metrics.exposition(daemon, app)))

    return router


def _probe(app: Vademecum) -> int:
    return len(app.index.sources()) if app.settings.index_file.exists() else 0


def _sources(daemon: Daemon) -> APIRouter:
    router = _router("sources", 409, 503)

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

    @router.post("/api/sources/pick-directory", responses=_failures(501))
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
    router = _router("sources", 404, 409, 503)

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
    router = _router("sources", 404, 409, 503)

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
    router = _router("recall", 404, 409, 503)

    async def asked(body: Ask) -> dict[str, Any]:
        words = body.model_dump(exclude={"query"})
        return (await daemon.answers.run(lambda app: app.recall(app.question(body.query, **words), OWNER))).as_json()

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
    router = _router("daemon", 503)

    @router.get("/api/status")
    async def status() -> dict[str, Any]:
        """The daemon, its sources, what watches them, and what is being made."""
        return await daemon.answers.run(daemon.status)

    @router.get("/api/diagnostics")
    async def diagnostics() -> dict[str, Any]:
        """Everything that has to be well, looked at now."""
        return diagnosis(await daemon.upkeep.run(lambda app: app.doctor()))

    @router.get("/api/jobs/{job_id}", responses=_failures(404))
    async def job(job_id: str) -> dict[str, Any]:
        """A sync, as it goes, or as it ended: the last hundred are kept."""
        found = daemon.jobs.find(job_id)
        if found is None:
            raise RouteNotFound("no such job", hint="Only the last hundred that ended are kept.")
        return {"job": found.as_json()}

    @router.get("/api/events", response_class=Response, responses=_as("text/event-stream"))
    async def events() -> StreamingResponse:
        """Server-sent events: `job` as a sync goes on, `changed` when notes did, `removed` when a source is gone."""
        return StreamingResponse(daemon.events.stream(), media_type="text/event-stream")

    @router.post("/api/login-link")
    async def login_link() -> dict[str, str]:
        """A link that signs a browser in, once, within a minute."""
        return {"url": f"http://127.0.0.1:{daemon.port}/login?code={daemon.logins.issue()}"}

    return router
