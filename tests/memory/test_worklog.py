"""A record of work goes to the one right folder, under a name that others can link to, and never out of the vault."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from obsidian_mind import build_obsidian_mind
from vademecum.access import Policy, policy_of
from vademecum.errors import MemoryRefused, OutsideRoot, VaultUnwritable
from vademecum.markdown import parse, read_frontmatter
from vademecum.memory.worklog import (
    Routing,
    WorkDraft,
    WorkPreview,
    preview,
    read_work,
    record,
    render_work,
    route,
)

WriteTree = Callable[..., Path]
Snapshot = Mapping[str, tuple[bytes | None, int, int]]
DAY, AT = "2026-05-11", "2026-05-11T14:02:10.000Z"
SAID = {"title": "Retry budget lives in the queue", "summary": "Moved it there, since two clients shared it."}


def whole(memory_root: str | None = "memories") -> Policy:
    return Policy(roots=(), withheld_names=(), memory_root=memory_root, origin="whole")


def exposing(*roots: str) -> Policy:
    return Policy(roots=roots, withheld_names=(), memory_root="memories", origin="manifest")


def work(**more: object) -> WorkDraft:
    return read_work({**SAID, **more})


def written(draft: WorkDraft, routing: Routing | None = None, *, names: Any = (), origin: str = "kestrel") -> str:
    routing = routing or Routing("inbox", "fallback")
    return render_work(draft, routing, date=DAY, at=AT, origin=origin, names=frozenset(names))


def recorded(root: Path, draft: WorkDraft, routing: Routing) -> str:
    return record(root, draft, routing, date=DAY, at=AT, origin="kestrel", names=frozenset())


def shown(root: Path, draft: WorkDraft, routing: Routing) -> WorkPreview:
    return preview(root, draft, routing, date=DAY, at=AT, origin="kestrel", names=frozenset())


def refused(call: Callable[[], object]) -> tuple[str, ...]:
    with pytest.raises(MemoryRefused) as caught:
        call()
    assert caught.value.message.startswith("not recorded: ")
    return caught.value.reasons


# ── what the caller says


def test_everything_that_is_said_is_read() -> None:
    draft = read_work(
        {
            **SAID,
            "changes": ["src/queue.py - owns the counter", " "],
            "decisions": ["not in Redis"],
            "learned": [],
            "verification": "All tests pass.",
            "open": None,
            "informed_by": ["Queue Sizing"],
            "folder": " work/active/ ",
            "kind": "decision",
            "shoe_size": 43,
        }
    )
    assert draft == WorkDraft(
        title=SAID["title"],
        summary=SAID["summary"],
        changes=("src/queue.py - owns the counter",),
        decisions=("not in Redis",),
        verification="All tests pass.",
        informed_by=("Queue Sizing",),
        folder="work/active/",
        kind="decision",
    )


@pytest.mark.parametrize(
    ("said", "reasons"),
    [
        (None, ("title is required", "summary is required")),
        ({}, ("title is required", "summary is required")),
        ({"title": " \n", "summary": "\t"}, ("title is required", "summary is required")),
        ({**SAID, "title": 7}, ("title must be text",)),
        ({**SAID, "summary": ["a"]}, ("summary must be text",)),
        ({**SAID, "verification": 1, "folder": []}, ("verification must be text", "folder must be text")),
        ({**SAID, "changes": "one line"}, ("changes must be a list of texts",)),
        (
            {**SAID, "open": ["a", 3], "learned": {}},
            ("learned must be a list of texts", "open must be a list of texts"),
        ),
        ({**SAID, "kind": "poem"}, ("kind must be one of: note, decision",)),
        ({**SAID, "kind": 4}, ("kind must be one of: note, decision",)),
        ({**SAID, "title": "!?…"}, ("title holds no letter and no digit, so no file can be named after it",)),
        ({"title": "🎉", "kind": "x"}, 3),
    ],
)
def test_all_that_is_wrong_is_told_at_once(said: Mapping[str, object] | None, reasons: tuple[str, ...] | int) -> None:
    told = refused(lambda: read_work(said))
    assert (len(told) if isinstance(reasons, int) else told) == reasons


def test_a_title_is_one_line_and_holds_nothing_unseen() -> None:
    assert work(title="a\r\n# b\x1b[2J\u202e\0c\ud800").title == "a # b[2J�c�"


# ── where it goes


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    return build_obsidian_mind(tmp_path / "vault")


@pytest.mark.parametrize(
    ("folder", "goes_to"),
    [
        ("work/active", "work/active"),
        (" /work/active/ ", "work/active"),
        ("work/active/Kestrel", "work/active/Kestrel"),
        ("work//active", "work/active"),
        ("Work/ACTIVE/new", "work/active/new"),
        ("brain", "brain"),
        ("reference/a/b/c/d", "reference/a/b/c/d"),
    ],
)
def test_the_folder_that_is_asked_for_is_taken_if_it_is_exposed(vault: Path, folder: str, goes_to: str) -> None:
    routing = route(vault, policy_of(vault)[0], work(folder=folder), project="kestrel")
    assert routing == Routing(goes_to, "caller")


def test_an_absolute_path_of_the_vault_itself_is_understood(vault: Path) -> None:
    routing = route(vault, policy_of(vault)[0], work(folder=f"{vault}/work/active"), project=None)
    assert routing.folder == "work/active"


@pytest.mark.parametrize(
    ("folder", "why"),
    [
        ("work", "is not in a folder that this vault exposes"),
        ("work/active-secrets", "is not in a folder that this vault exposes"),
        ("inbox", "is not in a folder that this vault exposes"),
        ("reference/a/b/c/d/e", "at most four levels deep"),
        ("memories", "lies among the memories"),
        ("memories/2026/05", "lies among the memories"),
        ("Memories", "lies among the memories"),
        ("../elsewhere", "holds a .. segment"),
        ("work/active/..", "holds a .. segment"),
        ("work/active/../active", "holds a .. segment"),
        ("work/active/../../../vault/work/active", "holds a .. segment"),
        ("work/active/%2e%2e/x", "is no path of a folder"),
        ("work\\active", "is no path of a folder"),
        ("C:/work", "is no path of a folder"),
        ("work/active\n/x", "is no path of a folder"),
        ("work/active/\x1b[2J", "is no path of a folder"),
        ("/", "is no path of a folder"),
        ("work/active/.hidden", "is hidden"),
        (".obsidian/plugins", "is hidden"),
        ("./work/active", "is hidden"),
        ("work/active/Departure Board Rewrite.md", "leads through a file"),
        ("work/active/" + "x" * 300, "cannot be used"),
    ],
)
def test_any_other_folder_is_refused_and_none_is_made(
    vault: Path, vault_bytes: Callable[[Path], Snapshot], folder: str, why: str
) -> None:
    before = vault_bytes(vault.parent)
    (reason,) = refused(lambda: route(vault, policy_of(vault)[0], work(folder=folder), project="kestrel"))
    assert why in reason
    assert vault_bytes(vault.parent) == before


def test_a_refusal_names_the_folders_that_may_be_asked_for(vault: Path) -> None:
    (reason,) = refused(lambda: route(vault, exposing("work/active", "brain"), work(folder="org"), project=None))
    assert reason.endswith("those are: work/active, brain")


def test_a_vault_that_exposes_nothing_takes_no_folder(vault: Path) -> None:
    (reason,) = refused(lambda: route(vault, exposing(), work(folder="brain"), project=None))
    assert reason.endswith("those are: none")


@pytest.mark.parametrize("folder", ["anything/at all", "Projects/kestrel/notes", "a/b/c/d/e/f"])
def test_a_vault_without_a_manifest_takes_any_folder_but_that_of_its_memories(tmp_path: Path, folder: str) -> None:
    assert route(tmp_path, whole(), work(folder=folder), project=None).folder == folder
    assert refused(lambda: route(tmp_path, whole(), work(folder=f"memories/{folder}"), project=None))


def test_a_name_that_is_never_exposed_does_not_close_a_folder(tmp_path: Path) -> None:
    policy = Policy(roots=("brain",), withheld_names=("x.md",), memory_root="memories", origin="manifest")
    assert route(tmp_path, policy, work(folder="brain"), project=None).folder == "brain"
    assert refused(lambda: route(tmp_path, policy, work(folder="memories/2026"), project=None))


@pytest.mark.parametrize("link", ["work", "work/active", "work/active/out", "work/active/out/deep"])
@pytest.mark.parametrize("leads", ["outside", "inside", "nowhere"])
def test_no_folder_is_reached_through_a_link(tmp_path: Path, link: str, leads: str) -> None:
    """Not even one that leads to somewhere in the vault: what is written goes where its path says."""
    vault, outside = tmp_path / "vault", tmp_path / "outside"
    targets = {"outside": outside, "inside": vault / "brain", "nowhere": tmp_path / "nowhere"}
    for folder in (outside / "active/out/deep", vault / "brain/active/out/deep", (vault / link).parent):
        folder.mkdir(parents=True, exist_ok=True)
    (vault / link).symlink_to(targets[leads])
    (reason,) = refused(
        lambda: route(vault, exposing("work/active"), work(folder="work/active/out/deep/er"), project=None)
    )
    assert "leads through a link" in reason


@pytest.mark.parametrize(
    ("folders", "project", "goes_to"),
    [
        (["kestrel"], "kestrel", "kestrel"),
        (["Kestrel", "kestrel"], "kestrel", "kestrel"),
        (["Kestrel", "KESTREL"], "kestrel", "KESTREL"),
        (["Kestrel"], "kestrel", "Kestrel"),
        (["Kestrel"], "kestrel-api", "Kestrel"),
        (["kestrel-api"], "kestrel", "kestrel-api"),
        (["kes", "kestrel"], "kestrel-api", "kestrel"),
        (["kestrel-api", "kes"], "kestrel", "kestrel-api"),
        (["kestrel-api", "kestrel-web"], "kestrel", None),
        (["ke"], "kestrel", None),
        (["kestrel"], "ke", None),
        (["plover"], "kestrel", None),
        ([".kestrel"], "kestrel", None),
        (["über"], "ÜBER", "über"),
        ([], "kestrel", None),
        (["kestrel"], None, None),
        (["kestrel"], "", None),
    ],
)
def test_otherwise_the_folder_of_the_callers_project_is_taken(
    tmp_path: Path, folders: list[str], project: str | None, goes_to: str | None
) -> None:
    for name in folders:
        (tmp_path / "projects" / name).mkdir(parents=True)
    (tmp_path / "projects").mkdir(exist_ok=True)
    routing = route(tmp_path, exposing("brain"), work(), project=project)
    if goes_to is None:
        assert routing == Routing("inbox", "fallback")
    else:
        assert routing == Routing(f"projects/{goes_to}/notes", "caller_identity", goes_to)


def test_a_decision_has_a_folder_of_its_own_in_the_project(vault: Path) -> None:
    routing = route(vault, policy_of(vault)[0], work(kind="decision"), project="plover")
    assert routing == Routing("projects/Plover/decisions", "caller_identity", "Plover")


def test_a_file_is_no_projects_folder(write_tree: WriteTree) -> None:
    vault = write_tree({"projects/kestrel": "no folder", "projects/kestrel.md": "# kestrel"})
    assert route(vault, whole(), work(), project="kestrel").word == "fallback"


def test_the_spelling_that_is_there_is_used_below_the_project_too(write_tree: WriteTree) -> None:
    vault = write_tree({"projects/kestrel/Notes/a.md": "# A", "Inbox/b.md": "# B"})
    assert route(vault, whole(), work(), project="kestrel").folder == "projects/kestrel/Notes"
    assert route(vault, whole(), work(), project=None).folder == "Inbox"


@pytest.mark.parametrize(
    ("inbox", "goes_to"),
    [
        ("inbox", "inbox"),
        ("Eingang", "Eingang"),
        ("../out", "inbox"),
        ("a/b", "inbox"),
        ("..", "inbox"),
        (".hidden", "inbox"),
        ("", "inbox"),
        ("Memories", "inbox"),
    ],
)
def test_without_a_project_the_inbox_is_taken(tmp_path: Path, inbox: str, goes_to: str) -> None:
    routing = route(tmp_path, exposing("brain"), work(), project=None, inbox=inbox)
    assert routing == Routing(goes_to, "fallback")


def test_a_record_never_falls_among_the_memories(write_tree: WriteTree) -> None:
    vault = write_tree({"inbox/2026/05/a.md": "# A", "projects/kestrel/a.md": "# A"})
    assert refused(lambda: route(vault, whole("inbox"), work(), project=None))
    assert route(vault, whole("projects"), work(), project="kestrel") == Routing("inbox", "fallback")


@pytest.mark.parametrize("link", ["projects", "projects/kestrel", "projects/kestrel/notes", "inbox"])
def test_neither_a_project_nor_the_inbox_is_reached_through_a_link(tmp_path: Path, link: str) -> None:
    vault, outside = tmp_path / "vault", tmp_path / "outside"
    (outside / "kestrel/notes").mkdir(parents=True)
    (vault / link).parent.mkdir(parents=True)
    (vault / link).symlink_to(outside)
    try:
        routing = route(vault, whole(), work(), project="kestrel" if link != "inbox" else None)
    except MemoryRefused as exc:
        assert "leads through a link" in exc.message
    else:
        assert (link, routing) == ("projects/kestrel", Routing("inbox", "fallback"))


# ── what is written


def test_a_record_reads_like_this(vault: Path) -> None:
    draft = work(
        changes=["src/queue.py - owns the counter", "docs - one page"],
        decisions=["Not in Redis"],
        learned=["Both clients retry"],
        verification="212 tests pass.",
        open=["The dashboard"],
        informed_by=["Storage Runbook", "Queue Sizing"],
    )
    routing = route(vault, policy_of(vault)[0], draft, project="kestrel")
    path = record(
        vault, draft, routing, date=DAY, at=AT, origin="kestrel", names=frozenset({"kestrel", "storage runbook"})
    )
    assert path == "projects/kestrel/notes/2026-05-11-retry-budget-lives-in-the-queue.md"
    assert (vault / path).read_text() == (
        """\
---
date: 2026-05-11
description: 'Moved it there, since two clients shared it.'
aliases:
  - 'Retry budget lives in the queue'
tags:
  - project-note
project: kestrel
source_repo: kestrel
---

# Retry budget lives in the queue

Moved it there, since two clients shared it.

## What changed

- src/queue.py - owns the counter
- docs - one page

## Decisions

- Not in Redis

## Learned

- Both clients retry

## Verification

212 tests pass.

## Open

- The dashboard

## Related

- [[kestrel]]
- [[Storage Runbook]]
- Queue Sizing _(not a note yet)_

_From `kestrel` through vademecum, 2026-05-11T14:02:10.000Z (routing: caller_identity)._
"""
    )


def test_an_empty_section_is_never_written() -> None:
    text = written(work(changes=[" "], verification="  "))
    assert re.findall("^##.*", text, re.MULTILINE) == []


def test_a_decision_says_so_and_has_no_day_in_its_name(vault: Path) -> None:
    draft = work(kind="decision")
    path = recorded(vault, draft, Routing("projects/kestrel/decisions", "caller_identity", "kestrel"))
    assert path == "projects/kestrel/decisions/retry-budget-lives-in-the-queue.md"
    assert read_frontmatter((vault / path).read_text()).properties["tags"] == ["decision"]


HOSTILE = [
    "It's a 'quoted' title",
    'C:\\new\\table and "quotes"',
    "colons: everywhere: # and comments",
    "- a list\n- of two",
    "--- \n---\n--- three",
    "{flow: [map]} & *anchor !tag %percent @at `tick`",
    "private: true is honoured now",
    "Private",
    "private/half",
    "tags: [private]",
    "{{title}} and <% tp.file %>",
    "\u2028line\u2029separators\x85and\x00nul",
    "\ufeffBOM and \ud800 surrogate",
    "日本語のタイトル",
    "한국어 제목과 Ünïcödé",
    "हिन्दी में शीर्षक",
    "[[Gone]] and [[Also gone|this]]",
    "x" * 300,
    "\U00020000" * 80,
    "true",
    "con",
]


@pytest.mark.parametrize("title", HOSTILE, ids=range(len(HOSTILE)))
@pytest.mark.parametrize("kind", ["note", "decision"])
def test_a_title_survives_and_can_be_linked_to(tmp_path: Path, title: str, kind: str) -> None:
    draft = read_work({"title": title, "summary": f"About {title}", "kind": kind})
    path = recorded(tmp_path, draft, Routing("inbox", "fallback"))
    name = Path(path).name
    assert [file.name for file in (tmp_path / "inbox").iterdir()] == [name]
    assert re.search(r'[<>:"|?*\\\[\]#^\s]|^\.|\.\.|[A-Z]', name) is None
    assert name.partition(".")[0] not in {"con", "nul"}
    text = (tmp_path / path).read_text()
    note = parse(text, stem=Path(path).stem)
    assert list(note.frontmatter) == ["date", "description", "aliases", "tags", "source_repo"]
    assert note.diagnostics == ()
    assert not note.private
    plain = draft.title.replace("[[Gone]]", "Gone").replace("[[Also gone|this]]", "this")
    assert note.frontmatter["aliases"] == [plain]
    assert f"\n# {plain}\n\nAbout " in text


def test_the_vowels_of_hindi_and_the_syllables_of_korean_stay_in_the_name(tmp_path: Path) -> None:
    for title, name in {
        "हिन्दी में शीर्षक": "हिन्दी-में-शीर्षक.md",
        "한국어 제목": "한국어-제목.md",
        "Crème  Brûlée": "creme-brulee.md",
    }.items():
        path = recorded(tmp_path, work(title=title, kind="decision"), Routing("inbox", "fallback"))
        assert path == f"inbox/{name}"


def test_a_long_summary_is_visibly_cut_at_a_word(tmp_path: Path) -> None:
    says = read_frontmatter(written(work(summary="Many words, " * 40))).properties["description"]
    assert says.endswith(("words…", "Many…"))
    assert len(says) <= 150
    whole_word = read_frontmatter(written(work(summary="y" * 400))).properties["description"]
    assert whole_word == "y" * 149 + "…"
    assert read_frontmatter(written(work(summary="z" * 150))).properties["description"] == "z" * 150


def test_links_that_lead_nowhere_are_words_and_others_stay() -> None:
    draft = work(
        title="After [[Gone]]",
        summary="See [[Gone|that]] and [[Here]].",
        changes=["[[Gone#Part]]", "[[Here|there]]"],
        decisions=["[[Gone]]"],
        learned=["[[Gone]]"],
        verification="As [[Gone]] says",
        open=["ask [[Gone]]"],
    )
    text = written(draft, names={"here"})
    assert "[[Gone" not in text
    assert "# After Gone\n\nSee that and [[Here]].\n" in text
    assert [link.target for link in parse(text, stem="x").links] == ["Here", "Here"]


@pytest.mark.parametrize("words", ["[[Here]]", "`[[Here]]`"])
def test_properties_hold_no_links(words: str) -> None:
    """A property that is a link would be a relation in the graph, and knows no code."""
    text = written(work(title=words, summary=words), names={"here"})
    says = read_frontmatter(text).properties
    plain = words.replace("[[", "").replace("]]", "")
    assert (says["description"], says["aliases"]) == (plain, [plain])
    assert [link.property for link in parse(text, stem="x").links if link.property] == []


@pytest.mark.parametrize(
    ("informed_by", "lines"),
    [
        (["Here"], ["- [[Here]]"]),
        (["HERE", "here", "[[Here]]"], ["- [[HERE]]"]),
        (["[[Here|this note]]"], ["- [[Here]]"]),
        (["Here#Heading"], ["- [[Here]]"]),
        (["reference/Here.md"], ["- [[Here]]"]),
        (["Gone"], ["- Gone _(not a note yet)_"]),
        (["[[Gone]]", "gone"], ["- Gone _(not a note yet)_"]),
        (["a\n## b"], ["- a ## b _(not a note yet)_"]),
        (["x ]] [[y"], ["- x y _(not a note yet)_"]),
        (["a [[b]]"], ["- a b _(not a note yet)_"]),
        (["[[", " "], []),
    ],
)
def test_what_informed_it_is_linked_if_it_is_there(informed_by: list[str], lines: list[str]) -> None:
    _, _, related = written(work(informed_by=informed_by), names={"here"}).partition("## Related\n\n")
    assert [line for line in related.split("\n") if line.startswith("- ")] == lines


def test_the_projects_note_comes_first_and_once() -> None:
    routing = Routing("projects/Kestrel/notes", "caller_identity", "Kestrel")
    text = written(work(informed_by=["kestrel", "Here"]), routing, names={"kestrel", "here"})
    assert "## Related\n\n- [[Kestrel]]\n- [[Here]]\n\n" in text
    assert "## Related" not in written(work(), routing, names=())


@pytest.mark.parametrize("origin", ["unknown", "owner"])
def test_somebody_unnamed_is_no_note(origin: str) -> None:
    text = written(work(), origin=origin, names={"unknown", "owner"})
    assert "## Related" not in text
    assert read_frontmatter(text).properties["source_repo"] == origin


@pytest.mark.parametrize("origin", ["my repo: it's", "123", "null", "true", "a`b", "- x", "it.em-4_2"])
def test_an_odd_projects_name_stays_one_text(origin: str) -> None:
    text = written(work(), Routing("projects/x/notes", "caller_identity", origin), origin=origin)
    says = read_frontmatter(text).properties
    assert (says["project"], says["source_repo"]) == (origin, origin)
    assert text.rstrip().rpartition("\n")[2].count("`") == 2


def test_an_item_of_several_lines_stays_one_bullet() -> None:
    text = written(work(learned=["first\nsecond\n\n```\ncode\n```", "other"]))
    assert "## Learned\n\n- first\n  second\n  \n  ```\n  code\n  ```\n- other\n" in text


# ── how it is written


def test_the_same_title_on_the_same_day_is_another_note(tmp_path: Path) -> None:
    routing = Routing("inbox", "fallback")
    paths = [recorded(tmp_path, work(summary=f"Number {n}"), routing) for n in range(3)]
    base = "inbox/2026-05-11-retry-budget-lives-in-the-queue"
    assert paths == [f"{base}.md", f"{base}-2.md", f"{base}-3.md"]
    assert ["Number" in (tmp_path / path).read_text() for path in paths] == [True] * 3


@pytest.mark.parametrize("title", ["\U00020000" * 80, "word " * 60], ids=["wide", "words"])
def test_the_500th_of_a_long_name_still_fits(tmp_path: Path, title: str) -> None:
    draft, routing = work(title=title), Routing("inbox", "fallback")
    first = recorded(tmp_path, draft, routing)
    for number in range(2, 500):
        (tmp_path / first.replace(".md", f"-{number}.md")).touch()
    assert recorded(tmp_path, draft, routing) == first.replace(".md", "-500.md")
    with pytest.raises(VaultUnwritable):
        recorded(tmp_path, draft, routing)
    with pytest.raises(VaultUnwritable):
        shown(tmp_path, draft, routing)


def test_a_preview_shows_what_would_be_and_makes_nothing(vault: Path, vault_bytes: Callable[[Path], Snapshot]) -> None:
    draft = work(summary="A long story. " * 100)
    routing = route(vault, policy_of(vault)[0], draft, project="plover")
    before = vault_bytes(vault)
    seen = shown(vault, draft, routing)
    assert vault_bytes(vault) == before
    path = recorded(vault, draft, routing)
    assert (seen.path, seen.routing) == (path, routing)
    assert seen.text == (vault / path).read_text()[:600]
    assert shown(vault, draft, routing).path == path.replace(".md", "-2.md")


def test_a_link_that_comes_up_after_routing_leads_nobody_out(tmp_path: Path) -> None:
    vault, outside = tmp_path / "vault", tmp_path / "outside"
    vault.mkdir()
    outside.mkdir()
    routing = route(vault, whole(), work(folder="notes"), project=None)
    (vault / "notes").symlink_to(outside)
    with pytest.raises(OutsideRoot):
        recorded(vault, work(), routing)
    assert os.listdir(outside) == []


CHILD = """
import sys
from pathlib import Path
from vademecum.memory.worklog import Routing, read_work, record
draft = read_work({"title": "Same title", "summary": "From " + sys.argv[2]})
told = {"date": "2026-05-11", "at": "now", "origin": "x", "names": ()}
for _ in range(10):
    print(record(Path(sys.argv[1]), draft, Routing("inbox", "fallback"), **told))
"""


def test_several_processes_never_share_a_record(tmp_path: Path) -> None:
    children = [
        subprocess.Popen([sys.executable, "-c", CHILD, str(tmp_path), str(n)], stdout=subprocess.PIPE, text=True)
        for n in range(8)
    ]
    told = [path for child in children for path in child.communicate(timeout=60)[0].split("\n") if path]
    assert len(set(told)) == len(told) == 80
    assert {f"inbox/{name}" for name in os.listdir(tmp_path / "inbox")} == set(told)
