"""The page at `/`: that the daemon runs, and where to go from there. It says no more than the open `/health` does.

No script and nothing from elsewhere; the guard's policy would not let either load.
"""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter
from fastapi.responses import HTMLResponse, Response

from vademecum import __version__

_PAGE: Final = f"""\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark">
<title>vademecum</title>
<link rel="stylesheet" href="/static/front.css">
<main>
<h1>vademecum</h1>
<p>The daemon runs, version {__version__}. It keeps the index of your notes current and answers over HTTP.</p>
<p>There is no dashboard yet. Ask with <code>vade recall</code>, or over the API, which
<a href="/api/openapi.json">describes itself</a> to whoever is signed in: <code>vade login</code> prints a link that
signs this browser in.</p>
</main>
</html>
"""
_STYLE: Final = """\
:root { color-scheme: light dark; --ground: #fdfcf9; --ink: #24211c; --accent: #7a4a12; }
@media (prefers-color-scheme: dark) { :root { --ground: #1b1a18; --ink: #e6e1d8; --accent: #e0ab6b; } }
body { margin: 0; background: var(--ground); color: var(--ink); font: 1.05rem/1.6 system-ui, sans-serif; }
main { max-width: 38rem; margin: 15vh auto; padding: 0 1.5rem; }
h1 { font-size: 1.6rem; }
a { color: var(--accent); }
code { font-size: 0.95em; }
"""


def routes() -> APIRouter:
    """The page and its style."""
    router = APIRouter(include_in_schema=False)

    @router.get("/")
    async def front() -> HTMLResponse:
        return HTMLResponse(_PAGE)

    @router.get("/static/front.css")
    async def style() -> Response:
        return Response(_STYLE, media_type="text/css")

    return router
