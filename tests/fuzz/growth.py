"""Whether the time that a text takes grows with its length, or faster.

A machine that does other things too makes times lie, so a pattern is only accused when each of two quadruplings of
its length costs far more than four times as much, and the longest text takes a time that somebody would notice.
"""

import time
from typing import Final

from vademecum.markdown import cut, parse
from vademecum.markdown.plain import plain

SHORT: Final = 60_000  # characters
STEP: Final = 4
# Four times as long: linear takes 4 times as long, quadratic 16. What is linear and falls out of a cache takes 5.
SUSPICIOUS: Final = 7.0
NOTICED_S: Final = 0.6


def grows_too_fast(unit: str) -> str | None:
    """What is wrong when the time for a repeated unit grows faster than its length; None when it does not."""
    short, longer = taken_s(unit, SHORT), taken_s(unit, SHORT * STEP)
    if longer < SUSPICIOUS * short:
        return None
    short, longer = min(short, taken_s(unit, SHORT)), min(longer, taken_s(unit, SHORT * STEP))
    longest = taken_s(unit, SHORT * STEP * STEP)
    if longer < SUSPICIOUS * short or longest < SUSPICIOUS * longer or longest < NOTICED_S:
        return None
    return (
        f"growth: {unit!r} takes {short:.3f} s, {longer:.3f} s, {longest:.3f} s for each time {STEP} times the length"
    )


def taken_s(unit: str, characters: int) -> float:
    """The processor time that one reading of a repeated unit takes."""
    text = (unit * (characters // max(1, len(unit)) + 1))[:characters]
    started = time.process_time()
    for chunk in cut(parse(text, stem="s")):
        plain(chunk.text)
    return time.process_time() - started
