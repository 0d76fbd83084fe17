"""The reference of the HTTP API, from the description that the daemon itself serves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from vademecum.daemon.api import build

_INTRODUCTION: Final = """# The HTTP API

`vade start` serves it on `127.0.0.1:8233` (settings `daemon.host` and `daemon.port`) and on a socket of yours. The
daemon itself describes it at `/api/openapi.json`, from which this page is written.

- Over TCP every request needs `Authorization: Bearer TOKEN`, where TOKEN is the content of `run/token` in the state
  folder. Whoever has it is the owner, and is served private notes too. Only `/health`, `/health/ready`, `/login` and
  the page at `/` go without. A browser is signed in once by the link that `vade login` prints. Over the socket the
  permissions of its folder are the proof.
- `HEAD` is answered wherever `GET` is. What is not HTTP at all gets a bare 400, as plain text.
- A body is JSON and says so in its `Content-Type`. A field that no route knows, or of another type, is refused.
- An error is `{"error": {"code", "message", "hint"}}` on every route; [the codes](errors.md) are those of the command
  line.
- No request of a page from elsewhere is served, and no answer lets one read it; [security](security.md) says more.

```sh
curl -H "Authorization: Bearer $(cat ~/.vademecum/run/token)" -H 'Content-Type: application/json' \\
  -d '{"query": "why did we drop redis"}' http://127.0.0.1:8233/api/recall
```
"""


def page() -> str:
    """The page."""
    described = build(None).openapi()  # type: ignore[arg-type]  # no route is called
    schemas = described.get("components", {}).get("schemas", {})
    parts = [_INTRODUCTION]
    for path, methods in described["paths"].items():
        for method, route in methods.items():
            parts += [f"## {method.upper()} {path}\n", _sentence(route), *_parameters(route), *_body(route, schemas)]
            parts.append(f"Answers {_statuses(route)}.\n")
    return "\n".join(parts)


def _sentence(route: Mapping[str, Any]) -> str:
    return " ".join(str(route.get("description", "")).split()) + "\n"


def _parameters(route: Mapping[str, Any]) -> Iterator[str]:
    rows = [
        (f"`{p['name']}`", p["in"], _kind(p["schema"]), "required" if p.get("required") else _default(p["schema"]))
        for p in route.get("parameters", ())
    ]
    yield from _table(("parameter", "in", "takes", "default"), rows)


def _body(route: Mapping[str, Any], schemas: Mapping[str, Any]) -> Iterator[str]:
    if "requestBody" not in route:
        return
    schema = _resolved(route["requestBody"]["content"]["application/json"]["schema"], schemas)
    told = " ".join(str(schema.get("description", "")).split())
    yield f"Body: {told[:1].lower()}{told[1:]}\n"
    required = schema.get("required", ())
    rows = [
        (
            f"`{name}`",
            _kind(field),
            "required" if name in required else _default(field),
            field.get("description", ""),
        )
        for name, field in schema.get("properties", {}).items()
    ]
    yield from _table(("field", "takes", "default", "what it is"), rows)


def _resolved(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> Mapping[str, Any]:
    for choice in schema.get("anyOf", (schema,)):
        if "$ref" in choice:
            found: Mapping[str, Any] = schemas[choice["$ref"].rpartition("/")[2]]
            return found
    return schema


def _kind(schema: Mapping[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(_kind(choice) for choice in schema["anyOf"] if choice.get("type") != "null")
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_kind(schema['items'])}"
    bounds = [f"{schema[key]:,}" for key in ("minimum", "maximum") if key in schema]
    return str(schema.get("type", "anything")) + (f", {' to '.join(bounds)}" if bounds else "")


def _default(schema: Mapping[str, Any]) -> str:
    value = schema.get("default")
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return "" if value in (None, "", []) else f"`{value}`"


def _statuses(route: Mapping[str, Any]) -> str:
    return ", ".join(sorted(route["responses"]))


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    if not rows:
        return
    for row in (head, ("---",) * len(head), *rows):
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |".replace("  |", " |")
    yield ""
