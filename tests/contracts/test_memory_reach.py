"""One rule decides who sees a memory, on every surface that says anything of one.

Each memory of a corpus holds a word of its own. For every caller, whatever a surface says may hold the words of those
memories only that reach the caller, as the rule said slowly has it; and of these, all that it should.
"""

import itertools
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from vademecum.access import ANONYMOUS, OWNER, Caller, Reach
from vademecum.errors import VadeError
from vademecum.home import Standing
from vademecum.memory.memory import Draft, render
from workbench import Workbench

CALLERS = (
    Caller("kestrel", ("ios",), "folder"),
    Caller("heron", ("linux",), "folder"),
    Caller("osprey", (), "folder"),
    ANONYMOUS,
    OWNER,
)
MANY = 24


class Corpus:
    """A home vault with memories of every reach, some corrected, linked from notes and linking to them."""

    def __init__(self, bench: Workbench, seed: int) -> None:
        chance = random.Random(seed)
        self.bench = bench
        self.root = bench.app.home.root
        self.paths: list[str] = []
        self.reaches: list[Reach] = []
        self.corrected: dict[int, list[int]] = {}
        month = self.root / "memories/2026/09"
        month.mkdir(parents=True)
        for n in range(MANY):
            scope = chance.choice(["general", "platform", "project", "project"])
            projects = tuple(chance.sample(["kestrel", "Heron", "osprey"], 1 + (chance.random() < 0.3)))
            platforms = tuple(chance.sample(["iOS", "linux"], 1)) if scope == "platform" else ()
            reach = Reach(scope, () if scope != "project" else projects, platforms)  # type: ignore[arg-type]
            body = f"Everybody asks of wombats, says sign{n}. See [[Wombats]] and #tag{n}."
            draft = Draft(f"Lesson title{n}", body, reach, "inferred", "kestrel", tags=(f"tag{n}",))
            text = render(draft, date="2026-09-02", session=f"2026-09-02T00:00:{n:02d}.000Z")
            if n and chance.random() < 0.4:
                by = chance.sample(range(MANY), 1 + (chance.random() < 0.3))
                self.corrected[n] = [m for m in by if m != n]
                titles = ", ".join(f'"Lesson title{m}"' for m in self.corrected[n])
                text = text.replace("\n---\n\n#", f"\nsuperseded_by: [{titles}]\n---\n\n#", 1)
            path = month / f"2026-09-02 name{n}.md"
            path.write_text(text)
            self.paths.append(f"memories/2026/09/{path.name}")
            self.reaches.append(reach)
        links = " ".join(f"[[2026-09-02 name{n}]]" for n in range(MANY))
        (self.root / "Wombats.md").write_text(f"# Wombats\n\nWombats dig. {links}\n")
        self.source = bench.app.home.ensure()
        bench.sync(self.source)

    def seen(self, caller: Caller) -> set[int]:
        """Said slowly: whom it is for, less what is corrected by nothing that is seen, until nothing changes."""
        lowered = {name.lower() for name in caller.platforms}

        def reaches(reach: Reach) -> bool:
            if caller.origin == "owner" or reach.scope == "general":
                return True
            if caller.project and caller.project in {name.lower() for name in reach.projects}:
                return True
            return reach.scope == "platform" and bool(lowered & {name.lower() for name in reach.platforms})

        seen = {n for n, reach in enumerate(self.reaches) if reaches(reach)}
        while True:
            gone = {n for n in seen if self.corrected.get(n) and not set(self.corrected[n]) & seen}
            if not gone:
                return seen
            seen -= gone


@pytest.fixture(params=range(4))
def corpus(request: pytest.FixtureRequest, bench: Workbench) -> Corpus:
    return Corpus(bench, request.param)


def said_by(corpus: Corpus, caller: Caller) -> Iterator[tuple[str, str]]:
    """Each surface with all that it says."""
    app, who = corpus.bench.app, Standing(caller, caller.project, inside=False)

    def attempt(act: Callable[[], Any]) -> str:
        try:
            told = act()
        except VadeError as exc:
            return f"{exc.message} {exc.hint}"
        return told if isinstance(told, str) else json.dumps(told, ensure_ascii=False, default=str)

    for include, lane in itertools.product(("all", "memories", "sources"), ("words", "hybrid")):
        question = app.question("wombats lesson", limit=100, include=include, lane=lane, explain=True)
        yield f"recall {include} {lane}", attempt(lambda q=question: app.recall(q, caller).as_json())
    yield (
        "search by path",
        attempt(lambda: app.recall(app.question("lesson", path="memories/", limit=100), caller).as_json()),
    )
    for n, path in enumerate(corpus.paths):
        for address in (path, f"2026-09-02 name{n}", str(corpus.root / path), f"[[2026-09-02 name{n}]]"):
            yield "read", attempt(lambda a=address: app.read(a, caller).as_json())
        yield "expand", attempt(lambda p=path: app.expand(p, caller, depth=2).as_json())
        yield "show", attempt(lambda p=path: app.memories.show(p, who))
        yield "show title", attempt(lambda n=n: app.memories.show(f"Lesson title{n}x", who))
        yield "history", attempt(lambda p=path: [c.as_json() for c in app.memories.history(p, who)])
        yield "tag", attempt(lambda n=n: app.recall(app.question("wombats", tag=[f"tag{n}"]), caller).as_json())
        said = {
            "title": f"Lesson title{n}",
            "body": f"Everybody asks of wombats, says sign{n}. See and #tag{n} also.",
            "confidence": "inferred",
            "projects": ["kestrel", "heron", "osprey"],
        }
        if not caller.is_owner and n % 6 == 0:
            told = attempt(lambda s=said: app.memories.remember(s, who, dry_run=True).warnings)
            yield "twin", told.replace(said["title"], "").replace(f"sign{n}", "") if "cannot see" in told else ""
    yield "expand a note", attempt(lambda: app.expand("Wombats.md", caller, depth=2, limit=100).as_json())
    yield "folder", attempt(lambda: app.expand("Wombats.md", caller, depth=3).as_json())
    yield "graph", attempt(lambda: "".join(app.export_graph(caller, outline=True)))
    yield "artifacts", attempt(lambda: app.artifacts(corpus.source, caller, limit=1000))
    yield "list", attempt(lambda: app.memories.list(caller, limit=100))
    yield "inbox", attempt(lambda: app.memories.inbox(who))
    yield "whoami", attempt(lambda: app.memories.whoami(who, decided=""))


def signs(text: str) -> set[int]:
    """Which memories a text says something of: by their words, titles or file names."""
    return {n for n in range(MANY) for word in (f"sign{n}", f"title{n}", f"name{n}.md") if _holds(text, word)}


def _holds(text: str, word: str) -> bool:
    at = text.find(word)
    while at >= 0:
        after = text[at + len(word) : at + len(word) + 1]
        if not after.isdigit():
            return True
        at = text.find(word, at + 1)
    return False


# What the question itself said comes back; and the text of a visible note names whatever it links to.
OWN_WORDS = ("read", "expand", "show", "show title", "history", "tag", "twin")


@pytest.mark.parametrize("caller", CALLERS, ids=lambda caller: str(caller.project or caller.origin))
def test_no_surface_says_anything_of_a_memory_that_is_not_for_the_caller(corpus: Corpus, caller: Caller) -> None:
    seen = corpus.seen(caller)
    named_by_seen = {m for n in seen for m in corpus.corrected.get(n, ())}
    (corpus.root / "Wombats.md").write_text("# Wombats\n\nWombats dig.\n")
    corpus.bench.sync(corpus.source)
    for surface, told in said_by(corpus, caller):
        if surface in OWN_WORDS:
            hidden = {n for n in range(MANY) if n not in seen and _holds(told, f"sign{n}")}
        else:
            hidden = signs(told) - seen - named_by_seen
        assert not hidden, (surface, hidden, told[:2000])


@pytest.mark.parametrize("caller", CALLERS, ids=lambda caller: str(caller.project or caller.origin))
def test_every_memory_that_is_for_the_caller_is_listed_recalled_and_readable(corpus: Corpus, caller: Caller) -> None:
    app, who = corpus.bench.app, Standing(caller, caller.project, inside=False)
    seen = corpus.seen(caller)
    listed = app.memories.list(caller, limit=100)
    assert {corpus.paths.index(entry["path"]) for entry in listed["memories"]} == seen
    assert listed["withheld"]["count"] == MANY - len(seen)
    answer = app.recall(app.question("wombats", include="memories", limit=100), caller)
    assert {corpus.paths.index(hit.path) for hit in answer.hits} == seen
    superseded = [hit.superseded for hit in answer.hits]
    assert superseded == sorted(superseded)
    for n in seen:
        assert f"sign{n}" in app.memories.show(corpus.paths[n], who)["content"]
        assert f"sign{n}" in app.read(corpus.paths[n], caller).text


def test_what_a_file_says_now_decides_on_every_surface(corpus: Corpus, tmp_path: Path) -> None:
    caller = CALLERS[2]
    seen = sorted(n for n in corpus.seen(caller) if n not in corpus.corrected)
    victim = next(n for n in seen if corpus.reaches[n].scope == "general")
    path = corpus.root / corpus.paths[victim]
    path.write_text(path.read_text().replace("scope: general", "scope: project\nprojects: [heron]", 1))
    for surface, told in said_by(corpus, caller):
        assert not _holds(told, f"sign{victim}"), surface
