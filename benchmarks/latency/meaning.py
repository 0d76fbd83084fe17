"""Hybrid recall, warm, against its two parts: recall by words alone, and embedding the same question. CPU time.

Questions are embedded by the real model. To embed 100,000 texts takes hours, so their vectors are made up: real
embeddings of a few of the texts, each turned by a random angle for every other text, and stored under the real model's
set. They lie in clusters, and most texts of a note in the same one, as real ones do.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import apsw

from benchmarks.make_vault import Maker, build
from benchmarks.measure import PEAK, Figure, cpu, wall
from benchmarks.quality.scores import models_folder
from vademecum import config
from vademecum.access import OWNER
from vademecum.app import Vademecum
from vademecum.embedding.models import DEFAULT, find
from vademecum.index import VectorSet
from vademecum.markdown.plain import TEXT_FORM, embedded_text
from vademecum.search import Question
from vademecum.search.query import meaning_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Chunks in all, about, and notes to add for them. The last size, where bits choose, has no target and takes minutes
# to build: it is measured where VADE_BENCH_HUGE is set.
_SIZES: Final = ((10_000, 1_020), (100_000, 9_150), (250_000, 15_250))
_TARGETS: Final = (10, 40)
_CENTRES: Final = 150
_COSINE: Final = 0.85  # of a made-up vector with the real one that it comes from
_CHUNKS_A_NOTE: Final = 9  # they are filled in the order of the notes
_LIKE_ITS_NOTE: Final = 0.9  # so many of them lie in the cluster of their note
_AT_ONCE: Final = 1_000

_CHILD: Final = f"""{PEAK}
import sys, time
from dataclasses import replace
from pathlib import Path
from vademecum import config
from vademecum.access import OWNER
from vademecum.app import Vademecum
from vademecum.search import Question
app = Vademecum(replace(config.load({{"VADE_HOME": sys.argv[1]}}), models=Path(sys.argv[2])))
app.recall(Question(sys.argv[3], limit=10, lane="words"), OWNER)
app.models.embedder().embed_query(sys.argv[3])
before, started = peak_mb(), time.perf_counter()
answer = app.recall(Question(sys.argv[3], limit=10), OWNER)
took = time.perf_counter() - started
assert answer.receipt.lanes["meaning"].state == "ok", answer.receipt.lanes
print(took * 1000, before, peak_mb())
"""


@dataclass(slots=True)
class Times:
    """Milliseconds of CPU of the same questions, asked in turn, and of wall time."""

    words: list[float] = field(default_factory=list)
    embed: list[float] = field(default_factory=list)
    hybrid: list[float] = field(default_factory=list)

    def detail(self, suffix: str) -> dict[str, float]:
        """The medians of the parts, and of what hybrid took beyond the two others right before it."""
        above = [h - w - e for h, w, e in zip(self.hybrid, self.words, self.embed, strict=True)]
        parts = {"above": above, "words": self.words, "embed": self.embed, "hybrid": self.hybrid}
        return {f"{name}_{suffix}": round(statistics.median(times), 1) for name, times in parts.items()}


def run(rounds: int = 6) -> list[Figure]:
    """Measure hybrid recall as the index grows."""
    with tempfile.TemporaryDirectory() as folder:
        settings = replace(config.load({"VADE_HOME": str(Path(folder) / "state")}), models=models_folder())
        if set(find(settings, DEFAULT).values()) != {"ok"}:
            print(f"meaning: left out, {DEFAULT.name} is not in {settings.models_dir}", file=sys.stderr)
            return []
        app = Vademecum(settings)
        try:
            return list(_grow(app, Path(folder), rounds))
        finally:
            app.close()


def _grow(app: Vademecum, folder: Path, rounds: int) -> Iterator[Figure]:
    """Add one synthetic vault after another, each with another seed, and measure after each."""
    measured: list[dict[str, float]] = []
    centres = None
    sizes = _SIZES if os.environ.get("VADE_BENCH_HUGE") else _SIZES[: len(_TARGETS)]
    for seed, (_, notes) in enumerate(sizes, start=1):
        vault = folder / f"vault-{seed}" / "vault"
        vault.mkdir(parents=True)
        build(vault, notes, seed)
        app.add("obsidian", str(vault), name=f"bench {seed}")
        if centres is None:
            centres = _real_vectors(app)
        chosen = _fill(app, centres, seed)
        measured.append(_measure(app, chosen, _questions(vault.with_name("queries.tsv"), seed), rounds))
    for huge in measured[len(_TARGETS) :]:
        measured[-2] |= {f"{name}_at_{huge['vectors']:.0f}": value for name, value in huge.items()}
    for detail, (size, _), target in zip(measured, _SIZES, _TARGETS, strict=False):
        above = detail.pop("above_ms")
        name = f"hybrid recall of {size:,} chunks, above words and the question's embedding"
        yield Figure(name, above, target, " ms", detail)


def _real_vectors(app: Vademecum) -> NDArray[np.float32]:
    """What the model makes of some texts of the vault: the middles of the clusters."""
    texts = app.index.vectors.missing(0)  # no set has this number: all of them
    embedder = app.models.embedder()
    said = filter(None, map(app.index.vectors.said, texts[:: max(1, len(texts) // _CENTRES)]))
    return embedder.embed_documents([embedded_text(s.title, s.heading_path, s.text) for s in said])


def _fill(app: Vademecum, centres: NDArray[np.float32], seed: int) -> VectorSet:
    """Give every text that has none a vector: a real one, turned at random by the same angle."""
    import numpy as np

    embedder, vectors = app.models.embedder(), app.index.vectors
    identity = f"{embedder.identity}+{TEXT_FORM}"
    chosen = vectors.open_set(identity=identity, name=embedder.name, dimensions=embedder.dimensions)
    random = np.random.default_rng(seed)
    missing = vectors.missing(chosen.row)
    for start in range(0, len(missing), _AT_ONCE):
        contents = missing[start : start + _AT_ONCE]
        own = random.integers(len(centres), size=len(contents))
        of_note = np.repeat(random.integers(len(centres), size=len(contents)), _CHUNKS_A_NOTE)[: len(contents)]
        middles = centres[np.where(random.random(len(contents)) < _LIKE_ITS_NOTE, of_note, own)]
        turned = random.standard_normal(middles.shape, dtype=np.float32)
        turned -= (turned * middles).sum(axis=1, keepdims=True) * middles
        turned /= np.linalg.norm(turned, axis=1, keepdims=True)
        made = (_COSINE * middles + (1 - _COSINE**2) ** 0.5 * turned).astype("<f4")
        vectors.put(chosen.row, [(content, row.tobytes(), 0) for content, row in zip(contents, made, strict=True)])
    filled = vectors.answering()
    assert filled is not None and not filled.missing, filled
    return filled


def _questions(queries: Path, seed: int) -> list[str]:
    """Ten questions: the vault's own, and some with more of its words."""
    own = [line.split("\t")[1] for line in queries.read_text(encoding="utf-8").splitlines()[:5]]
    topics = Maker(1, seed).prose.topics
    return own + [f"how did {' '.join(topic[:words])} go" for words, topic in enumerate(topics[:5], start=1)]


def _measure(app: Vademecum, chosen: VectorSet, questions: list[str], rounds: int) -> dict[str, float]:
    first_ms, before_mb, peak_mb = _first_question(app, questions[0])
    spent, taken = _ask(app, questions, rounds)
    return {
        "vectors": chosen.have,
        **spent.detail("ms"),
        **taken.detail("wall_ms"),
        **_after_changes(app, chosen, questions),
        "first_wall_ms": first_ms,
        "peak_mb": peak_mb,
        "peak_without_matrix_mb": before_mb,
    }


def _ask(app: Vademecum, questions: list[str], rounds: int) -> tuple[Times, Times]:
    """The parts and the whole in turn, several times for each question: CPU, and wall time."""
    spent, taken = Times(), Times()
    embedder = app.models.embedder()

    def measure(name: str, act: Callable[[], object]) -> None:
        getattr(taken, name).append(1000 * wall(lambda: getattr(spent, name).append(1000 * cpu(act))))

    for text in questions:
        words, hybrid = Question(text, limit=10, lane="words"), Question(text, limit=10)
        app.recall(words, OWNER)
        _hybrid(app, hybrid)
        for _ in range(rounds):
            measure("words", lambda q=words: app.recall(q, OWNER))  # type: ignore[misc]
            measure("embed", lambda t=text: embedder.embed_query(meaning_of(t)))  # type: ignore[misc]
            measure("hybrid", lambda q=hybrid: _hybrid(app, q))  # type: ignore[misc]
    return spent, taken


def _hybrid(app: Vademecum, question: Question) -> None:
    meaning = app.recall(question, OWNER).receipt.lanes["meaning"]
    assert meaning.state != "off" and "embedded" in (meaning.reason or "embedded"), meaning


def _after_changes(app: Vademecum, chosen: VectorSet, questions: list[str]) -> dict[str, float]:
    """CPU of a question unchanged, right after another process took a vector out, and after it came back; medians."""
    other = apsw.Connection(str(app.settings.index_file))
    other.pragma("foreign_keys", 1)
    times: dict[str, list[float]] = {"unchanged": [], "after_one_removed": [], "after_one_added": []}
    for place, text in enumerate(questions, start=1):
        row = other.execute(
            "select v.id, t.hash, v.embedding from vector v join content t on t.id = v.content"
            " where v.model = ? and v.id >= ? limit 1",
            (chosen.row, place * chosen.have // (len(questions) + 1)),
        ).fetchone()
        assert row is not None
        vector, content, embedding = row
        question = Question(text, limit=10)
        _hybrid(app, question)
        times["unchanged"].append(cpu(lambda q=question: _hybrid(app, q)))  # type: ignore[misc]
        other.execute("delete from vector where id = ?", (vector,))
        times["after_one_removed"].append(cpu(lambda q=question: _hybrid(app, q)))  # type: ignore[misc]
        app.index.vectors.put(chosen.row, [(content, embedding, 0)])
        times["after_one_added"].append(cpu(lambda q=question: _hybrid(app, q)))  # type: ignore[misc]
    other.close()
    return {f"{name}_ms": round(1000 * statistics.median(spent), 1) for name, spent in times.items()}


def _first_question(app: Vademecum, text: str) -> list[float]:
    """In a process of its own, the model loaded: ms of the first hybrid question, MB at the most before it and after.

    The second of two such processes, so that the index file is in the page cache.
    """
    command = [sys.executable, "-c", _CHILD, str(app.settings.home), str(app.settings.models_dir), text]
    for _ in range(2):
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [round(float(number)) for number in done.stdout.split()]
