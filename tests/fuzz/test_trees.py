"""Any folder whatever is a source: every file indexed or explained, no neighbour lost, and removed without a trace."""

from pathlib import Path

import pytest

from fuzz.cases import outcome, promise, seeds, shrinking_ends, told
from fuzz.hostile_tree import Plan, plan_of
from fuzz.shrink import smaller_plan
from fuzz.trial import Trial

QUICK_TREES = 5
SLOW_FILES = 36_000
PARTS = 4


class Trees:
    """Plans tried one after the other, each in a folder of its own, and how many files were made for them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self.tried = 0
        self.files = 0

    def broken(self, plan: Plan) -> str | None:
        """The first promise that is broken while a plan is carried out."""
        self.tried += 1
        folder = self.folder / str(self.tried)
        folder.mkdir()
        trial = Trial(plan, folder)
        try:
            return outcome(lambda: next(trial.problems(), None))
        finally:
            self.files += trial.disk.written
            trial.clear()

    def check(self, seed: str) -> None:
        """Fail, with the smallest plan that does, when the tree of this seed breaks a promise."""
        plan = plan_of(seed)
        problem = self.broken(plan)
        if problem is None:
            return
        wanted = promise(problem)
        smallest = smaller_plan(plan, lambda kept: promise(self.broken(kept)) == wanted, until=shrinking_ends())
        pytest.fail(told(seed, self.broken(smallest) or problem, __file__, smallest), pytrace=False)


def test_any_tree_is_indexed_or_explained_followed_and_removed(tmp_path: Path) -> None:
    trees = Trees(tmp_path)
    for seed in seeds("tree", QUICK_TREES):
        trees.check(seed)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", range(PARTS))
def test_thousands_of_files_in_trees_are_indexed_or_explained_followed_and_removed(part: int, tmp_path: Path) -> None:
    trees = Trees(tmp_path)
    for seed in seeds("tree", 10_000, start=QUICK_TREES + part * 10_000):
        trees.check(seed)
        if trees.files >= SLOW_FILES / PARTS:
            break
