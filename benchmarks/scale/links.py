"""What links cost: `expand` as a vault grows, and the rename of a note that many lead to."""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Final

from benchmarks.measure import Figure, big_vault, cpu, wall
from benchmarks.scale.vaults import LARGE, SMALL, most_linked
from vademecum import config
from vademecum.access import OWNER
from vademecum.app import Vademecum

_EXPANDED: Final = 200
_RENAMES: Final = 5


def run() -> list[Figure]:
    """Measure the rename."""
    return [_renaming()]


def expanding(small: tuple[Path, Path], large: tuple[Path, Path]) -> list[Figure]:
    """Measure `expand` of notes in the indexes of both vaults, each given as its state folder and the vault."""
    at_10k = _expand_all(*small, SMALL)
    detail = at_10k | {f"{name}_at_100k": value for name, value in _expand_all(*large, LARGE).items()}
    return [Figure("expand a note of 10,000, warm p50", detail.pop("p50_ms"), 15, " ms", detail)]


def _expand_all(home: Path, vault: Path, notes: int) -> dict[str, float]:
    """Milliseconds of CPU and of wall time, over the notes that most links lead to and as many others."""
    app = Vademecum(config.load({"VADE_HOME": str(home)}))
    app.sync(app.registry.find("bench"))  # stamps that were young when the notes were read are believed after it
    chosen = list(map(str, most_linked(vault, notes, _EXPANDED)))
    for address in chosen[:: _EXPANDED // 20]:
        app.expand(address, OWNER)
    taken: list[float] = []

    def spent(address: str, depth: int = 1) -> float:
        own = 0.0

        def act() -> None:
            nonlocal own
            own = cpu(lambda: app.expand(address, OWNER, depth=depth))

        taken.append(1000 * wall(act))
        return 1000 * own

    once = [spent(address) for address in chosen]
    wall_ms = statistics.median(taken)
    twice = [spent(address, depth=2) for address in chosen[:20]]
    app.close()
    return {
        "p50_ms": round(statistics.median(once), 2),
        "p95_ms": round(sorted(once)[int(len(once) * 0.95)], 2),
        "wall_p50_ms": round(wall_ms, 2),
        "most_linked_p50_ms": round(statistics.median(once[:20]), 2),
        "most_linked_two_deep_p50_ms": round(statistics.median(twice), 1),
    }


def _renaming() -> Figure:
    """A note that many links lead to gets another name and then its old one; each time all of those are told anew."""
    with big_vault() as (vault, what), tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "vault"
        shutil.copytree(vault, copy)
        time.sleep(2.5)  # stamps younger than two seconds are not believed
        app = Vademecum(config.load({"VADE_HOME": str(Path(folder) / "state")}))
        source, _, _ = app.add("obsidian", str(copy), name="bench")
        app.sync(source)
        note, links = _much_linked(copy)
        other = note.with_name(f"{note.stem} renamed.md")
        unchanged, renamed = [], []
        for _ in range(_RENAMES):
            for old, new in ((note, other), (other, note)):
                unchanged.append(cpu(lambda: app.sync(source)))
                os.rename(old, new)
                renamed.append(cpu(lambda: app.sync(source)))
        app.close()
    return Figure(
        f"rename of a note with {links:,} links to it in {what}, more than an unchanged sync",
        round((statistics.median(renamed) - statistics.median(unchanged)) * 1000, 1),
        150,
        " ms",
        {"cpu_ms": min(renamed) * 1000, "unchanged_ms": min(unchanged) * 1000},
    )


def _much_linked(vault: Path) -> tuple[Path, int]:
    """The note that most links name, by a count of `[[name` in the bytes of all notes."""
    notes = [path for path in sorted(vault.rglob("*.md")) if "/." not in str(path.relative_to(vault.parent))]
    by_name: dict[str, Path | None] = {}
    for path in notes:
        by_name[path.stem.casefold()] = None if path.stem.casefold() in by_name else path
    counts: dict[Path, int] = {}
    for path in notes:
        for piece in path.read_text(encoding="utf-8", errors="replace").split("[[")[1:]:
            name = piece.split("]]")[0].split("|")[0].split("#")[0].strip().rpartition("/")[2].casefold()
            target = by_name.get(name)
            if target is not None:
                counts[target] = counts.get(target, 0) + 1
    most = max(counts, key=lambda path: (counts[path], str(path)))
    return most, counts[most]
