"""How figures grow from 10,000 notes to 100,000."""

from __future__ import annotations

from benchmarks.measure import Figure
from benchmarks.scale import links, text


def run() -> list[Figure]:
    """Measure text, then links."""
    return [*text.run(), *links.run()]
