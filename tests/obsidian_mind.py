"""A small vault in the shape of obsidian-mind, with content of our own: folders, manifest, brain notes and memories.

`build_obsidian_mind(folder)` writes the same bytes every time. Every wikilink in it leads to a note of it. What a test
needs to be odd (a dangling link, a torn file, another manifest) it adds itself.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from obsidian_mind_notes import HUMAN_NOTE, NOTES, OTHER_FILES

__all__ = ["EXPOSED_ROOTS", "HUMAN_NOTE", "MANIFEST", "SERVED_MEMORIES", "build_obsidian_mind"]

MANIFEST: Mapping[str, object] = {
    "template": "obsidian-mind",
    "version": "9.1.0",
    "released": "2026-10-05",
    "qmd_index": "",
    "qmd_min_version": "2.5.1",
    "qmd_context": "Work notes, people and decisions of somebody who builds departure boards at Larkfield Transit.",
    "open_loop_dirs": ["work/1-1", "work/meetings", "work/incidents"],
    "open_loop_sections": ["action items", "what to watch"],
    "eager_layer_budget_bytes": 80000,
    "eager_layer_instruction_budget_bytes": 20000,
    "listing_collapse_threshold": 12,
    "memory_root": "memories",
    "mcp_exposed_roots": [],
    "mcp_never_expose": ["Door Codes.md"],
    "mcp_inbox": "inbox",
    "infrastructure": [
        "AGENTS.md",
        "Home.md",
        "README.md",
        "README.*.md",
        "CHANGELOG.md",
        "LICENSE",
        ".gitignore",
        ".mcp.json",
        ".claude/**",
        "templates/**",
        "bases/**",
        "vault-manifest.json",
        "brain/Skills.md",
        "perf/competencies/README.md",
        "thinking/README.md",
        "work/meetings/README.md",
    ],
    "scaffold": {
        "brain/North Star.md": "replace if the source has real content",
        "brain/Memories.md": "replace if the source has real content",
        "brain/Key Decisions.md": "replace if the source has real content",
        "brain/Patterns.md": "replace if the source has real content",
        "brain/Gotchas.md": "replace if the source has real content",
        "work/Index.md": "replace if the source has real content",
        "org/People & Context.md": "replace if the source has real content",
        "perf/Brag Doc.md": "replace if the source has real content",
    },
    "user_content_roots": [
        "work/active/",
        "work/archive/",
        "work/incidents/",
        "work/1-1/",
        "org/people/",
        "org/teams/",
        "perf/brag/",
        "perf/evidence/",
        "perf/h*-*/",
        "perf/competencies/*.md",
        "brain/*.md",
        "reference/",
        "memories/",
    ],
    "version_fingerprints": {
        "v8.0": {"exists": ["bases/Memories.base"], "missing": [".claude/agents/correction-sweep.md"]},
    },
    "frontmatter_required": {
        "global": ["date", "description", "tags"],
        "work-note": ["date", "status", "quarter"],
        "incident": ["date", "status", "quarter", "ticket", "severity", "role"],
        "person": ["date", "title"],
        "team": ["date"],
        "1-1": ["date", "quarter"],
    },
    "field_aliases": {"ticket": ["incident-id"]},
}

EXPOSED_ROOTS = (
    "work/active",
    "work/archive",
    "work/incidents",
    "work/1-1",
    "org/people",
    "org/teams",
    "perf/brag",
    "perf/competencies",
    "brain",
    "reference",
)
"""What the manifest comes down to, given the folders that are there."""

SERVED_MEMORIES = (
    "memories/2026/03/2026-03-19 Postgres drops a connection that waits in a transaction.md",
    "memories/2026/04/2026-04-02 Times, delays, and cancellations share one cache key.md",
    "memories/2026/04/2026-04-09 Cancellations have a cache key of their own since April.md",
    "memories/2026/04/2026-04-11 Map tiles are cut at 512 pixels.md",
    "memories/2026/04/2026-04-15 A retry without a jitter brings the feed down twice.md",
    "memories/2026/05/2026-05-06 A clock that jumps back makes every timeout wait for as.md",
    "memories/2026/05/2026-05-07 The depot firmware answers only on channel 11.md",
)
"""The memories, oldest first; the last is hand-filed, and the third corrects the second."""

_MEMORIES: Mapping[str, str] = {
    SERVED_MEMORIES[0]: """\
---
date: 2026-03-19
description: "The server ends a session that sits idle in a transaction for a minute; the pool still hands it out."
tags: [memory]
source: mcp-capture
origin: "kestrel"
session: "2026-03-19T08:41:12.310Z"
scope: platform
projects: []
platforms: ["postgres"]
confidence: verified
promoted: brain/Gotchas#^om-77e0b2
---

# Postgres drops a connection that waits in a transaction

The server ends a session that sits idle in a transaction for a minute; the pool still hands it out.

## How this is known

Watched the server's log on 2026-03-19 while a form stood open.

## Related

- [[Storage Runbook]]
""",
    SERVED_MEMORIES[1]: """\
---
date: 2026-04-02
description: "The board's cache has one key for a stop, under which times, delays and cancellations lie together."
tags: [memory]
source: mcp-capture
origin: "kestrel"
session: "2026-04-02T15:02:44.871Z"
scope: project
projects: ["kestrel"]
confidence: inferred
superseded_by: ["Cancellations have a cache key of their own since April"]
---

# Times, delays, and cancellations share one cache key

The board's cache has one key for a stop, under which times, delays and cancellations lie together. Clearing one of them
clears all.
""",
    SERVED_MEMORIES[2]: """\
---
date: 2026-04-09
description: "Since the change of 2026-04-08 a cancellation lies under its own key and outlives the times of its stop."
tags: [memory]
source: mcp-capture
origin: "kestrel"
session: "2026-04-09T09:30:00.002Z"
scope: project
projects: ["kestrel"]
confidence: verified
---

# Cancellations have a cache key of their own since April

Since the change of 2026-04-08 a cancellation lies under its own key and outlives the times of its stop.

## How this is known

Read both keys of one stop on 2026-04-09.
""",
    SERVED_MEMORIES[3]: """\
---
date: 2026-04-11
description: "The renderer asks for tiles of 512 pixels; a server that gives 256 leaves gaps at every second border."
tags: [memory]
source: mcp-capture
origin: "plover"
session: "2026-04-11T11:11:11.111Z"
scope: project
projects: ["plover"]
confidence: unverified
claimed_scope: general
---

# Map tiles are cut at 512 pixels

The renderer asks for tiles of 512 pixels; a server that gives 256 leaves gaps at every second border.
""",
    SERVED_MEMORIES[4]: """\
---
date: 2026-04-15
description: "Clients that retry after the same pause meet again, and the feed that just came back goes down once more."
tags: [memory]
source: mcp-capture
origin: "kestrel"
session: "2026-04-15T16:45:09.500Z"
scope: general
projects: []
confidence: inferred
claimed_confidence: verified
flags: [generalised]
promoted: brain/Gotchas
---

# A retry without a jitter brings the feed down twice

Clients that retry after the same pause meet again, and the feed that just came back goes down once more. It happens
every time that a whole line is without power.

## How this is known

The graphs of 2026-04-03.

## Why this reaches everywhere

Nothing in it depends on a language or a library.
""",
    SERVED_MEMORIES[5]: """\
---
date: 2026-05-06
description: "A deadline that is taken from the wall clock moves with it."
tags: [memory]
source: mcp-capture
origin: "unknown"
session: "2026-05-06T07:00:30.000Z"
scope: general
projects: []
aliases: ["A clock that jumps back makes every timeout wait for as long as the jump was, unless it is monotonic"]
confidence: inferred
---

# A clock that jumps back makes every timeout wait for as long as the jump was, unless it is monotonic

A deadline that is taken from the wall clock moves with it. After a correction by ten minutes all waits last ten minutes
longer.
""",
    SERVED_MEMORIES[6]: """\
---
date: 2026-05-07
description: 'Told by the depot: everything else is reserved for the signals.'
tags:
  - memory
source: hand-filed
origin: kestrel
session: 2026-05-07T12:00:00.000Z
scope: project
projects:
  - kestrel
  - plover
confidence: unverified
---

# The depot firmware answers only on channel 11

Told by the depot: everything else is reserved for the signals.
""",
}

_SUBJECTS = ("a tunnel", "the ferry feed", "the night bus", "a ticket gate", "the lift monitor", "a level crossing")
_ACTS = ("forgets", "doubles", "reorders", "truncates", "delays", "rounds", "caches")
_OBJECTS = ("its last message", "every second reading", "names with accents", "the first row", "times after midnight")
_REACHES: Sequence[tuple[str, tuple[str, ...], tuple[str, ...]]] = (
    ("general", (), ()),
    ("project", ("kestrel",), ()),
    ("project", ("plover",), ()),
    ("platform", (), ("postgres",)),
    ("platform", (), ("rust",)),
)


def build_obsidian_mind(folder: Path, *, memories: int = 0) -> Path:
    """Write the vault into a folder, which is made, with so many more memories; the folder."""
    for path, text in _files(memories):
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8", newline="\n")
    return folder


def _files(memories: int) -> Iterator[tuple[str, str]]:
    yield "vault-manifest.json", json.dumps(MANIFEST, indent=2, ensure_ascii=False) + "\n"
    yield from NOTES.items()
    yield from OTHER_FILES.items()
    yield from _MEMORIES.items()
    for number in range(memories):
        yield _generated(number)


def _generated(number: int) -> tuple[str, str]:
    """One of any number of memories, no two of which say the same."""
    scope, projects, platforms = _REACHES[number % len(_REACHES)]
    subject, act = _SUBJECTS[number % len(_SUBJECTS)], _ACTS[number % len(_ACTS)]
    what = _OBJECTS[number // 3 % len(_OBJECTS)]
    day = f"{2024 + number // 336 % 2}-{number // 28 % 12 + 1:02}-{number % 28 + 1:02}"
    title = f"{subject[0].upper()}{subject[1:]} {act} {what}, {number:05}"
    body = f"Seen in run {number * 7919 % 100_003}: {subject} {act} {what}, and nobody is told."
    rows = [
        f"date: {day}",
        f'description: "{body}"',
        "tags: [memory]",
        "source: mcp-capture",
        f'origin: "{projects[0] if projects else "kestrel"}"',
        f'session: "{day}T{number % 24:02}:{number % 60:02}:00.000Z"',
        f"scope: {scope}",
        f"projects: [{', '.join(map(json.dumps, projects))}]",
        *([f"platforms: [{', '.join(map(json.dumps, platforms))}]"] if platforms else []),
        f"confidence: {('verified', 'inferred', 'unverified')[number % 3]}",
    ]
    text = "---\n" + "\n".join(rows) + f"\n---\n\n# {title}\n\n{body}\n"
    return f"memories/{day[:4]}/{day[5:7]}/{day} {title}.md", text
