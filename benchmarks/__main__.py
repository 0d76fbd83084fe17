"""`python -m benchmarks [NAME]...`: measure, print, and keep the results; exits 1 when a target is missed."""

from __future__ import annotations

import sys

from benchmarks import scale
from benchmarks.latency import daemon, embedding, meaning, memory, recall, text
from benchmarks.measure import write_results
from benchmarks.quality import scores
from vademecum.__main__ import tune

BENCHMARKS = {
    "text": text.run,
    "recall": recall.run,
    "quality": scores.run,
    "meaning": meaning.run,
    "embedding": embedding.run,
    "daemon": daemon.run,
    "memory": memory.run,
    "scale": scale.run,
}


def main(names: list[str]) -> int:
    """Run the named benchmarks, or all of them."""
    tune()
    missed = 0
    for name in names or BENCHMARKS:
        figures = BENCHMARKS[name]()
        write_results(name, figures)
        for figure in figures:
            print(figure.line())
            missed += not figure.met
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
