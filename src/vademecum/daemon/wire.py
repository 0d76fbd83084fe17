"""What every route shares: the one shape of errors and their statuses, and bodies that hold nothing unknown."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, Final

from fastapi import APIRouter, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from fastapi.routing import APIRoute
from pydantic import AfterValidator, BaseModel, ConfigDict
from starlette.exceptions import HTTPException

from vademecum import config, errors
from vademecum.daemon import guard
from vademecum.errors import BadRequest, MethodRefused, RouteNotFound, VadeError

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
    errors.VaultError: 400,
    errors.VaultMissing: 503,
    errors.VaultUnwritable: 503,
    errors.SourceReadOnly: 400,
    errors.SourceIsHome: 409,
    errors.MemoryFailure: 400,
    errors.MemoryNotFound: 404,
    errors.MemoryAmbiguous: 409,
    errors.MemoryRefused: 400,
    errors.MemoryTwin: 409,
    errors.MemoryChanged: 409,
    errors.MemoryPinned: 409,
    errors.MemoryNotForgotten: 409,
    errors.MemoryForgotten: 409,
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

log = logging.getLogger("vademecum.api")


def _encodable(text: str) -> str:
    text.encode()  # JSON can spell half a character, which no answer could carry; the error is a ValueError
    return text


Text = Annotated[str, AfterValidator(_encodable)]


class Strict(BaseModel):
    """A body that holds what it says and nothing else, each of its own type."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Told(BaseModel):
    """An error: its stable code, what happened, and what to do."""

    code: str
    message: str
    hint: str


class Failure(BaseModel):
    """The body of every error."""

    error: Told


def failures(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The description of these refusals."""
    return {status: {"model": Failure} for status in statuses}


def media(media_type: str) -> dict[int | str, dict[str, Any]]:
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


async def outside_of_routes(_: Request, exc: Exception) -> Response:
    """The answer where no route fits."""
    status = getattr(exc, "status_code", 404)
    told = MethodRefused("the route does not take this method") if status == 405 else RouteNotFound("no such route")
    answer = refusal(told)
    answer.headers.update(getattr(exc, "headers", None) or {})
    return answer


def router_of(tag: str, *statuses: int) -> APIRouter:
    """A router whose routes fail with these statuses, and with those of the guard and of a list that is damaged."""
    return APIRouter(route_class=Route, tags=[tag], responses=failures(400, 401, 403, 413, 415, 500, *statuses))
