"""Any bytes whatever are a note: read without an exception, no line lost, in a time that grows with their length."""

import random
import time

import pytest

from fuzz.cases import outcome, promise, seeds, shrinking_ends, told
from fuzz.growth import grows_too_fast
from fuzz.hostile_text import repeated_unit, text_bytes
from fuzz.promises import broken
from fuzz.shrink import smaller, smaller_content

QUICK_FILES = 1_500
SLOW_FILES = 66_000
PART = 11_000
MOST_S = 5.0  # for one file of at most 300,000 bytes, which takes a quarter of a second


def problem_of(content: bytes, *, thorough: bool = False) -> str | None:
    """The first broken promise; a file that takes far too long breaks one."""
    started = time.process_time()
    problem = outcome(lambda: broken(content, thorough=thorough))
    took_s = time.process_time() - started
    return problem or (f"time: {took_s:.1f} s for {len(content)} bytes" if took_s > MOST_S else None)


def check_text(seed: str) -> None:
    """Fail, with the smallest bytes that do, when the file of this seed breaks a promise."""
    content = text_bytes(random.Random(seed))
    problem = problem_of(content)
    if problem is None:
        return
    wanted = promise(problem)
    smallest = smaller_content(
        content, lambda kept: promise(problem_of(kept, thorough=True)) == wanted, until=shrinking_ends()
    )
    pytest.fail(told(seed, problem_of(smallest, thorough=True) or problem, __file__, smallest), pytrace=False)


def check_unit(seed: str) -> None:
    """Fail, with the shortest unit that does, when a repeated unit takes more than linear time."""
    unit = repeated_unit(random.Random(seed))
    problem = outcome(lambda: grows_too_fast(unit))
    if problem is None:
        return
    shortest = smaller(
        unit, lambda kept: bool(kept) and grows_too_fast("".join(kept)) is not None, until=shrinking_ends()
    )
    pytest.fail(told(seed, problem, __file__, "".join(shortest)), pytrace=False)


def test_any_file_keeps_the_promises_of_a_note() -> None:
    for seed in seeds("text", QUICK_FILES):
        check_text(seed)


def test_a_repeated_pattern_takes_linear_time() -> None:
    for seed in seeds("unit", 8):
        check_unit(seed)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("start", range(QUICK_FILES, QUICK_FILES + SLOW_FILES, PART))
def test_tens_of_thousands_of_files_keep_the_promises_of_a_note(start: int) -> None:
    for seed in seeds("text", PART, start=start):
        check_text(seed)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_hundreds_of_repeated_patterns_take_linear_time() -> None:
    for seed in seeds("unit", 300, start=8):
        check_unit(seed)
