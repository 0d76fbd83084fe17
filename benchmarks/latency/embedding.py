"""Embedding a vault, against the bare onnxruntime session on the same texts, one thread, CPU time.

The product's part is all of `Vademecum.embed`: text from the index, tokens, the network, a commit for each vector. The
bare part is the network alone, on token arrays prepared beforehand. The two take turns every few texts, so that noise
falls on both alike; of a large vault every third note is taken, so that a run stays below three minutes.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from benchmarks.measure import PEAK, Figure
from benchmarks.quality.scores import EXAMPLE_VAULT, models_folder
from vademecum import config
from vademecum.app import Vademecum
from vademecum.config import Settings
from vademecum.embedding.models import DEFAULT, find
from vademecum.embedding.onnx import MOST_WINDOWS, WINDOW
from vademecum.embedding.prompts import prompt_for, readable
from vademecum.markdown.plain import embedded_text

_BLOCK: Final = 12
_EVERY: Final = 3  # note of a large vault
_LARGE: Final = 100  # notes

# The high-water mark of this very program: what getrusage says counts the parent that started it, too.
_CHILD: Final = f"""{PEAK}
import sys
from dataclasses import replace
from pathlib import Path
from vademecum import config
from vademecum.app import Vademecum
app = Vademecum(replace(config.load({{"VADE_HOME": sys.argv[1]}}), models=Path(sys.argv[2])))
app.add("obsidian", sys.argv[3], name="bench")
report = app.embed(budget_s=None)
assert report.state == "done", report
print(peak_mb())
"""

Feeds = list[dict[str, Any]]


def run() -> list[Figure]:
    """Measure the speed and the memory of embedding a vault."""
    with tempfile.TemporaryDirectory() as folder:
        settings = replace(config.load({"VADE_HOME": str(Path(folder) / "state")}), models=models_folder())
        if set(find(settings, DEFAULT).values()) != {"ok"}:
            print(f"embedding: left out, {DEFAULT.name} is not in {settings.models_dir}", file=sys.stderr)
            return []
        vault = Path(folder) / "vault"
        _copy_notes(vault)
        return [_speed(settings, vault), _memory(Path(folder) / "child", vault)]


def _copy_notes(vault: Path) -> None:
    """Copy the notes to embed: of help-en where it is at hand, else all of the example vault."""
    real = Path(os.environ.get("VADE_TEST_VAULTS", "")) / "help-en" / "vault"
    origin = real if os.environ.get("VADE_TEST_VAULTS") and real.is_dir() else EXAMPLE_VAULT
    notes = sorted(origin.rglob("*.md"))
    for note in notes[:: _EVERY if len(notes) > _LARGE else 1]:
        target = vault / note.relative_to(origin)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(note, target)


def _speed(settings: Settings, vault: Path) -> Figure:
    app = Vademecum(settings)
    app.add("obsidian", str(vault), name="bench")
    app.models.embedder()
    session, feeds = _bare(app)
    product: list[float] = []
    bare: list[float] = []
    since = time.process_time()

    def take_turns(done: int, total: int, _: str) -> None:
        nonlocal since
        if done % _BLOCK and done != total:
            return
        block = feeds[len(bare) * _BLOCK : done]
        now = time.process_time()
        product.append(now - since)
        for feed in (feed for text in block for feed in text):
            session(feed)
        since = time.process_time()
        bare.append(since - now)

    report = app.embed(budget_s=None, progress=take_turns)
    product[-1] += time.process_time() - since
    app.close()
    assert report.state == "done" and report.embedded == len(feeds), report
    return Figure(
        "texts embedded, of what the bare session does in the same CPU time",
        round(100 * statistics.median(b / p for b, p in zip(bare, product, strict=True)), 1),
        90,
        " %",
        {
            "texts": len(feeds),
            "texts_per_s": len(feeds) / sum(product),
            "cpu_s": sum(product),
            "floor_s": sum(bare),
            "of_all_percent": 100 * sum(bare) / sum(product),
        },
        at_most=False,
    )


def _bare(app: Vademecum) -> tuple[Callable[[dict[str, Any]], Any], list[Feeds]]:
    """A session with the product's options, and what to feed it for each missing text, window by window."""
    import numpy as np
    import onnxruntime
    from tokenizers import Tokenizer

    network, vocabulary = (str(app.settings.models_dir / DEFAULT.name / file.name) for file in DEFAULT.files)
    session = onnxruntime.InferenceSession(network, _options(onnxruntime), providers=["CPUExecutionProvider"])
    names = {each.name for each in session.get_inputs()}
    tokenizer = Tokenizer.from_file(vocabulary)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    start, end = tokenizer.token_to_id("[CLS]"), tokenizer.token_to_id("[SEP]")

    def feeds(content: bytes) -> Feeds:
        said = app.index.vectors.said(content)
        assert said is not None
        text = prompt_for(DEFAULT.name).document + embedded_text(said.title, said.heading_path, said.text)
        tokens = tokenizer.encode(readable(text), add_special_tokens=False).ids[: WINDOW * MOST_WINDOWS]
        rows = [[start, *tokens[i : i + WINDOW], end] for i in range(0, max(1, len(tokens)), WINDOW)]
        arrays = [np.array([row], dtype=np.int64) for row in rows]
        made = [
            {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
            for ids in arrays
        ]
        return [{name: array for name, array in feed.items() if name in names} for feed in made]

    nothing_yet = 0  # no set has this number, so all texts are missing from it, in the order in which embed takes them
    return (lambda feed: session.run(None, feed)), [feeds(c) for c in app.index.vectors.missing(nothing_yet)]


def _options(runtime: Any) -> Any:
    """What the product sets, too."""
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.enable_cpu_mem_arena = True
    options.enable_mem_pattern = False
    options.log_severity_level = 4
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.inter_op.allow_spinning", "0")
    return options


def _memory(home: Path, vault: Path) -> Figure:
    command = [sys.executable, "-c", _CHILD, str(home), str(models_folder()), str(vault)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=one_thread())
    return Figure("peak memory of a process that indexes and embeds them", round(float(done.stdout)), 400, " MB", {})


def one_thread() -> dict[str, str]:
    """The environment of a child whose libraries start no threads of their own."""
    return {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
