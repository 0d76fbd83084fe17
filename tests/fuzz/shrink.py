"""A failing case made small enough to read: parts are left out as long as it goes on failing in the same way."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from fuzz.hostile_tree import Change, Plan

T = TypeVar("T")


def smaller(parts: Sequence[T], fails: Callable[[list[T]], bool], *, until: float) -> list[T]:
    """As few of the parts as still fail, found by leaving out halves, then quarters, then single ones."""
    kept = list(parts)
    size = max(1, len(kept) // 2)
    while kept and time.monotonic() < until:
        start = 0
        while start < len(kept) and time.monotonic() < until:
            without = kept[:start] + kept[start + size :]
            if fails(without):
                kept = without
            else:
                start += size
        if size == 1:
            break
        size //= 2
    return kept


def smaller_content(content: bytes, fails: Callable[[bytes], bool], *, until: float) -> bytes:
    """Fewer lines, then fewer bytes."""
    lines = smaller(content.splitlines(keepends=True), lambda kept: fails(b"".join(kept)), until=until)
    found = b"".join(lines)
    if len(found) > 20_000:
        return found
    return bytes(smaller(found, lambda kept: fails(bytes(kept)), until=until))


def smaller_plan(plan: Plan, fails: Callable[[Plan], bool], *, until: float) -> Plan:
    """Fewer entries, fewer changes, and shorter files."""
    entries = smaller(plan.entries, lambda kept: fails(replace(plan, entries=tuple(kept))), until=until)
    plan = replace(plan, entries=tuple(entries))
    for at in range(len(plan.rounds)):
        plan = _with_fewer_changes(plan, at, fails, until=until)
    under = smaller(plan.under, lambda kept: fails(replace(plan, under=tuple(kept))), until=until)
    plan = replace(plan, under=tuple(under))
    for at in range(len(plan.entries)):
        plan = _with_less_content(plan, at, fails, until=until)
    for at, changes in enumerate(plan.rounds):
        for number in range(len(changes)):
            plan = _with_less_written(plan, at, number, fails, until=until)
    return plan


def _with_fewer_changes(plan: Plan, at: int, fails: Callable[[Plan], bool], *, until: float) -> Plan:
    def left(changes: list[Change]) -> Plan:
        return _with_round(plan, at, changes)

    return left(smaller(plan.rounds[at], lambda kept: fails(left(kept)), until=until))


def _with_less_content(plan: Plan, at: int, fails: Callable[[Plan], bool], *, until: float) -> Plan:
    entry = plan.entries[at]
    if entry.kind != "file":
        return plan

    def left(content: bytes) -> Plan:
        return replace(plan, entries=(*plan.entries[:at], replace(entry, data=content), *plan.entries[at + 1 :]))

    return left(smaller_content(entry.data, lambda kept: fails(left(kept)), until=until))


def _with_less_written(plan: Plan, at: int, number: int, fails: Callable[[Plan], bool], *, until: float) -> Plan:
    changes = plan.rounds[at]
    entry = changes[number].entry
    if entry is None or entry.kind != "file":
        return plan

    def left(content: bytes) -> Plan:
        changed = replace(changes[number], entry=replace(entry, data=content))
        return _with_round(plan, at, [*changes[:number], changed, *changes[number + 1 :]])

    return left(smaller_content(entry.data, lambda kept: fails(left(kept)), until=until))


def _with_round(plan: Plan, at: int, changes: list[Change]) -> Plan:
    return replace(plan, rounds=(*plan.rounds[:at], tuple(changes), *plan.rounds[at + 1 :]))
