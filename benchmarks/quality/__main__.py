"""Score a folder of notes with its questions, or hold two results against each other.

python -m benchmarks.quality FOLDER [--lane words|meaning|hybrid]... [--rerank] [--out FILE]
python -m benchmarks.quality compare A.json B.json
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.quality.scores import request, settings
from vademecum.access import OWNER
from vademecum.cli.evaluation import LANES, by_group, check_out, runs_in, score_folder, write_out
from vademecum.cli.output import print_error
from vademecum.cli.quality import print_evaluation, sentence
from vademecum.errors import UsageError, VadeError


def main(argv: Sequence[str]) -> int:
    """Score or compare, and print; the exit status."""
    try:
        return _compare(argv[1:]) if argv[:1] == ["compare"] else _score(argv)
    except VadeError as exc:
        return print_error(exc, as_json=False)


def _score(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser("benchmarks.quality", usage=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--lane", action="append", choices=LANES, default=[])
    parser.add_argument("--rerank", action="store_true")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args(argv)
    check_out(given.out, given.folder)
    wanted = request(given.folder, lanes=tuple(given.lane), rerank=given.rerank)
    with settings() as user:
        evaluation = score_folder(wanted, user, OWNER)
    if given.out is not None:
        write_out(given.out, evaluation)
    print_evaluation(evaluation)
    return 0


def _compare(argv: Sequence[str]) -> int:
    """Compare the runs of the same name; where each file has one run only, whatever they are called."""
    parser = argparse.ArgumentParser("benchmarks.quality compare", usage=__doc__)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    given = parser.parse_args(argv)
    before, after = runs_in(given.before), runs_in(given.after)
    pairs = [(before[name], after[name]) for name in before if name in after]
    if not pairs and len(before) == len(after) == 1:
        pairs = list(zip(before.values(), after.values(), strict=True))
    if not pairs:
        raise UsageError(
            "the files have no run in common", hint=f"They hold {', '.join(before)} and {', '.join(after)}."
        )
    for first, second in pairs:
        for group, comparison in by_group(first, second):
            print(sentence(group, comparison))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
