"""Which memories reach whom, and in which order."""

import itertools
import time
from collections.abc import Sequence

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from vademecum.access import ANONYMOUS, OWNER, Caller, Reach
from vademecum.memory.memory import Memory
from vademecum.memory.ranking import corrections, ranked, reached

KESTREL = Caller("kestrel", ("ios",), "folder")
SIBLING = Caller("heron", ("iOS",), "folder")
ELSEWHERE = Caller("osprey", ("linux",), "folder")
GROUP = Caller("finch", ("linux", "windows"), "folder")
PLATFORM_ALONE = Caller(None, ("ios",), "roots")
CALLERS = (KESTREL, SIBLING, ELSEWHERE, GROUP, PLATFORM_ALONE, ANONYMOUS)


def memory(name: str, reach: Reach | None = None, *, by: Sequence[str] = (), date: str = "2026-09-01") -> Memory:
    return Memory(
        path=f"memories/2026/09/{name}.md",
        title=name,
        body="",
        reach=reach or Reach("general"),
        confidence="inferred",
        source="mcp-capture",
        date=date,
        superseded_by=tuple(by),
    )


MATRIX = {
    "everywhere": Reach("general"),
    "for ios": Reach("platform", (), ("ios",)),
    "for desktops": Reach("platform", (), ("Linux", "Windows")),
    "for kestrel": Reach("project", ("Kestrel",)),
    "for two": Reach("project", ("kestrel", "osprey")),
    "platform, and named": Reach("platform", ("finch",), ("ios",)),
}
SEEN = {
    KESTREL: {"everywhere", "for ios", "for kestrel", "for two", "platform, and named"},
    SIBLING: {"everywhere", "for ios", "platform, and named"},
    ELSEWHERE: {"everywhere", "for desktops", "for two"},
    GROUP: {"everywhere", "for desktops", "platform, and named"},
    PLATFORM_ALONE: {"everywhere", "for ios", "platform, and named"},
    ANONYMOUS: {"everywhere"},
}


def titles(memories: Sequence[Memory], caller: Caller) -> list[str]:
    return [found.title for found in reached(memories, caller).memories]


@pytest.mark.parametrize("caller", CALLERS, ids=lambda caller: str(caller.project))
def test_each_caller_sees_exactly_what_is_for_it(caller: Caller) -> None:
    corpus = [memory(name, reach) for name, reach in MATRIX.items()]
    assert set(titles(corpus, caller)) == SEEN[caller]
    assert set(titles(corpus, OWNER)) == set(MATRIX)


def test_every_memory_reaches_somebody_and_nobody_but_the_owner_sees_all() -> None:
    corpus = [memory(name, reach) for name, reach in MATRIX.items()]
    assert set().union(*(titles(corpus, caller) for caller in CALLERS)) == set(MATRIX)
    assert all(len(titles(corpus, caller)) < len(MATRIX) for caller in CALLERS)


REACHES = st.builds(
    Reach,
    st.sampled_from(["general", "platform", "project"]),
    st.lists(st.sampled_from(["kestrel", "Heron", "osprey"]), max_size=2).map(tuple),
    st.lists(st.sampled_from(["ios", "Linux"]), max_size=2).map(tuple),
)


@given(REACHES, REACHES)
def test_memories_that_share_a_reader_are_both_seen_by_somebody(one: Reach, other: Reach) -> None:
    names = ["kestrel", "heron", "osprey", None]
    platforms = [(), ("ios",), ("linux",), ("ios", "linux")]
    callers = [Caller(name, having, "folder") for name, having in itertools.product(names, platforms)]
    both = any(one.reaches(caller) and other.reaches(caller) for caller in callers)
    assume(all(any(reach.reaches(caller) for caller in callers) for reach in (one, other)))
    assert both or not one.shares_a_reader(other)
    assert one.shares_a_reader(other) == other.shares_a_reader(one)


def test_the_more_specific_comes_first_then_the_newer_then_the_later_of_one_day() -> None:
    named, many = Reach("project", ("kestrel",)), Reach("project", ("kestrel", "a", "b"))
    corpus = [
        memory("general", Reach("general"), date="2026-09-09"),
        memory("platform", Reach("platform", (), ("ios",))),
        memory("many", many, date="2026-09-08"),
        memory("older", named, date="2026-09-01"),
        memory("newer", named, date="2026-09-02"),
    ]
    assert [m.title for m in ranked(corpus, KESTREL)] == ["newer", "older", "many", "platform", "general"]


def test_a_superseded_memory_comes_after_every_live_one() -> None:
    corpus = [memory("old", Reach("project", ("kestrel",)), by=["new"], date="2026-12-01"), memory("new")]
    assert titles(corpus, KESTREL) == ["new", "old"]


def test_a_correction_out_of_reach_takes_what_it_corrects_with_it() -> None:
    corpus = [memory("old", by=["new"]), memory("new", Reach("project", ("osprey",)))]
    assert titles(corpus, KESTREL) == []
    assert titles(corpus, ELSEWHERE) == ["new", "old"]
    found = reached(corpus, KESTREL)
    assert found.withheld[corpus[0].path] == "superseded"
    assert found.why(corpus[0]) == "superseded by a memory this caller cannot see (new)"
    assert found.withheld[corpus[1].path] == "out_of_reach"
    assert "new" not in found.why(corpus[1])


def test_one_of_two_corrections_in_reach_is_enough() -> None:
    corpus = [memory("old", by=["far", "near"]), memory("far", Reach("project", ("osprey",))), memory("near")]
    assert titles(corpus, KESTREL) == ["near", "old"]


def test_a_chain_that_ends_out_of_reach_is_withheld_whole() -> None:
    corpus = [memory("a", by=["b"]), memory("b", by=["c"]), memory("c", Reach("project", ("osprey",)))]
    assert titles(corpus, KESTREL) == []
    assert titles(corpus, ELSEWHERE) == ["c", "a", "b"]


def test_memories_that_correct_each_other_both_stay() -> None:
    corpus = [memory("a", by=["b"]), memory("b", by=["a"])]
    assert titles(corpus, KESTREL) == ["a", "b"]


def test_a_correction_that_is_nowhere_to_be_found_withholds_nothing() -> None:
    assert titles([memory("old", by=["gone"])], KESTREL) == ["old"]


def test_a_correction_of_the_same_title_is_not_the_memory_itself() -> None:
    old = memory("same", by=["same"])
    new = Memory(
        **{**{n: getattr(memory("same", Reach("project", ("osprey",))), n) for n in old.__slots__}, "path": "x"}
    )
    assert titles([old, new], KESTREL) == []
    assert corrections([old, new])[old.path] == {"x"}


def test_a_correction_that_was_renamed_since_is_found_by_its_old_title() -> None:
    old, new = memory("old", by=["before"]), memory("after", Reach("project", ("osprey",)))
    renamed = Memory(**{**{n: getattr(new, n) for n in new.__slots__}, "aliases": ("before",)})
    assert titles([old, renamed], KESTREL) == []


def test_what_is_private_is_for_its_owner_alone() -> None:
    secret = Memory(**{**{n: getattr(memory("s"), n) for n in Memory.__slots__}, "private": True})
    assert titles([secret], KESTREL) == []
    assert titles([secret], OWNER) == ["s"]


def test_a_note_of_a_person_among_the_memories_is_none() -> None:
    note = Memory(**{**{n: getattr(memory("n"), n) for n in Memory.__slots__}, "source": ""})
    assert titles([note], OWNER) == []


def by_definition(corpus: Sequence[Memory], caller: Caller) -> set[str]:
    """The rule said slowly: take out what is corrected by nothing that is left, until nothing changes."""
    served = {m.path for m in corpus if m.reach.reaches(caller)}
    by = corrections(corpus)
    while True:
        gone = {path for path in served if by.get(path) and not by[path] & served}
        if not gone:
            return served
        served -= gone


GRAPHS = st.lists(st.tuples(REACHES, st.lists(st.integers(0, 7), max_size=3)), min_size=1, max_size=8)


@given(GRAPHS, st.sampled_from(CALLERS))
def test_the_quick_rule_is_the_slow_one(graph: list[tuple[Reach, list[int]]], caller: Caller) -> None:
    corpus = [memory(f"m{i}", reach, by=[f"m{j}" for j in by]) for i, (reach, by) in enumerate(graph)]
    assert {m.path for m in reached(corpus, caller).memories} == by_definition(corpus, caller)


def test_two_thousand_memories_in_one_chain_take_no_time() -> None:
    corpus = [memory(f"m{i}", by=[f"m{i + 1}"]) for i in range(2000)]
    corpus.append(memory("m2000", Reach("project", ("osprey",))))
    started = time.process_time()
    assert titles(corpus, KESTREL) == []
    assert time.process_time() - started < 2
