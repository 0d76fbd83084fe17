"""What the notes and other files of the vault in `obsidian_mind` hold; its memories stand there."""

import json
from collections.abc import Mapping

HUMAN_NOTE = "memories/2026/04/What I read about buses.md"
"""A person's note that lies among the memories."""

NOTES: Mapping[str, str] = {
    "AGENTS.md": """\
# How to work in this vault

Notes are Markdown. A folder says what a note is for, a link says what it means.

- Read `brain/North Star.md` first, then only what the question needs.
- A new note links to at least one other.
- Nothing is deleted, and nothing is committed, without being asked.
""",
    "Home.md": """\
---
description: "Where everything starts."
tags:
  - index
---

# Home

## Current Focus

![[North Star#Current Focus]]

## Quick Links

- [[Index]]
- [[People & Context]]
- [[Brag Doc]]
- [[Memories]]
""",
    "work/Index.md": """\
---
description: "Map of all work notes."
tags:
  - index
  - moc
---

# Index

## Active Projects

- [[Departure Board Rewrite]]: the board reads from one feed

## Incidents

- [[LT-412 Boards went dark]]

## Completed

- [[Fare Table Import]]

## Decisions Log

| Date | Decision | Status | Link |
| --- | --- | --- | --- |
| 2026-03-30 | One feed for all boards | accepted | [[One Feed for All Boards]] |
""",
    "work/active/Departure Board Rewrite.md": """\
---
date: 2026-03-23
description: "The departure boards read one feed instead of four."
tags:
  - work-note
status: active
quarter: Q2-2026
project: kestrel
---

# Departure Board Rewrite

## Context

Four feeds disagree whenever a train is late. [[Ines Okafor]] wants one before the summer timetable.

## Next

- [ ] Replay the storm of 3 April against the new feed
- [x] Draw the [[Feed Map]]

## Related

- [[One Feed for All Boards]]
- [[Clear Writing]]: the change note that three depots understood
""",
    "work/active/One Feed for All Boards.md": """\
---
date: 2026-03-30
description: "All boards read the merged feed; the four old ones end in July."
tags:
  - decision
status: accepted
quarter: Q1-2026
---

# Decision: One feed for all boards

## Context

Each board asked the feed that was nearest to it.

## Decision

One merged feed, 2 seconds older at worst.

## Related

- [[Departure Board Rewrite]]
""",
    "work/archive/2025/Fare Table Import.md": """\
---
date: 2025-10-02
description: "Fares come from the operator's own table."
tags:
  - work-note
status: completed
quarter: Q4-2025
---

# Fare Table Import

Done with [[Tomas Lindh]]. What was learnt is in [[Patterns]].
""",
    "work/incidents/LT-412 Boards went dark.md": """\
---
date: 2026-04-03
description: "All boards of the east line were dark for 14 minutes."
tags:
  - incident
status: completed
quarter: Q2-2026
ticket: LT-412
severity: high
role: responder
---

# LT-412 Boards went dark

## Root Cause

The four feeds were retried at the same moment; see [[Gotchas#^om-4c1d7e]].

## Action Items

- [ ] Jitter for the retries of the depot feed
""",
    "work/1-1/Ines Okafor 2026-04-14.md": """\
---
date: 2026-04-14
description: "The summer timetable is the deadline, and it does not move."
tags:
  - work-note
quarter: Q2-2026
---

# Ines Okafor 2026-04-14

## Key Takeaways

- [[Ines Okafor]] prefers a late board to a wrong one.

## Action Items

- [ ] Send her the replay of the storm

## Related

- [[Departure Board Rewrite]]
""",
    "work/meetings/README.md": """\
# Meetings

Raw exports land here and are filed from here.
""",
    "org/People & Context.md": """\
---
description: "People, teams, and how they got there."
tags:
  - org
  - index
---

# People & Context

## Teams

- [[Rider Apps]]

## People

- [[Ines Okafor]], head of operations, decides what a board may show
- [[Tomas Lindh]], knows every fare since 2009
""",
    "org/people/Ines Okafor.md": """\
---
date: 2025-02-10
title: Head of Operations
description: "Runs the control room; decides what a board may show."
tags:
  - person
aliases:
  - Ines
team: Operations
---

# Ines Okafor

## Key Moments

- 2026-04-14: the deadline, see [[Ines Okafor 2026-04-14]]
""",
    "org/people/Tomas Lindh.md": """\
---
date: 2025-03-03
title: Fare Engineer
description: "Wrote the fare tables."
tags:
  - person
team: Rider Apps
---

# Tomas Lindh

Works in [[Rider Apps]].
""",
    "org/teams/Rider Apps.md": """\
---
date: 2025-01-20
description: "Boards, app and fares."
tags:
  - team
---

# Rider Apps

- [[Tomas Lindh]]
""",
    "perf/Brag Doc.md": """\
---
description: "Quarterly wins."
tags:
  - perf
  - index
---

# Brag Doc

| Quarter | Highlights | Review |
| --- | --- | --- |
| Q2 2026 | [[Q2 2026]] | open |
""",
    "perf/brag/Q2 2026.md": """\
---
date: 2026-04-01
description: "Boards back within 14 minutes; one feed decided."
tags:
  - perf
---

# Q2 2026

## Impact & Deliverables

- [[LT-412 Boards went dark]]: found the common retry
- [[Departure Board Rewrite]]: [[Clear Writing]]
""",
    "perf/competencies/README.md": """\
# Competencies

One note for each. Evidence is what links to it.
""",
    "perf/competencies/Clear Writing.md": """\
---
date: 2025-06-01
description: "Others act on what was written without asking."
tags:
  - competency
current-level: strong
target-level: expert
---

# Clear Writing

Others act on what was written without asking.
""",
    "brain/North Star.md": """\
---
date: 2026-01-05
description: "What matters this year."
tags:
  - brain
  - north-star
aliases:
  - Goals
  - Focus
---

# North Star

## Current Focus

- One feed for all boards before the summer timetable

## Goals

### Short term

- [[Departure Board Rewrite]] in the depot of the east line

## Anti-goals

- A fifth feed

## Shifts Log

| Date | Shift | Reason |
| --- | --- | --- |
| 2026-01-05 | started | new year |
""",
    "brain/Memories.md": """\
---
description: "Index of what is remembered where."
tags:
  - brain
  - index
---

# Memories

- [[Key Decisions]]
- [[Patterns]]
- [[Gotchas]]
- [[People & Context]]
- [[North Star]]
- [[Skills]]

## Recent Context

- The storm of 3 April, see [[LT-412 Boards went dark]]
""",
    "brain/Key Decisions.md": """\
---
description: "Decisions that others rest on."
tags:
  - brain
---

# Key Decisions

- 2026-03-30: all boards read one feed, see [[One Feed for All Boards]] ^om-19ab04
""",
    "brain/Patterns.md": """\
---
description: "How things are usually done."
tags:
  - brain
---

# Patterns

- Tables of others are imported as they are and corrected in a second table, see [[Fare Table Import]]
- A change note names the depot, the day and the way back
""",
    "brain/Gotchas.md": """\
---
description: "What bit somebody once."
tags:
  - brain
---

# Gotchas

- Retries of several clients meet at the same moment unless each waits
  for a random while longer. The feed went down twice for that. ^om-4c1d7e
- A board that lost its clock shows yesterday's trains, which look right.

## Connections

1. A transaction that waits for a person is ended by the server after a minute.
2. The pool does not notice.

^om-77e0b2
""",
    "brain/Skills.md": """\
---
date: 2026-01-05
description: "Commands and workflows."
tags:
  - brain
  - index
---

# Skills

- `/om-standup` in the morning
""",
    "reference/Feed Map.md": """\
---
date: 2026-03-25
description: "Which feed feeds what."
tags:
  - reference
---

# Feed Map

| Feed | Boards |
| --- | --- |
| north | 40 |
| east | 31 |

See [[Storage Runbook]] for where the raw messages lie.
""",
    "reference/Storage Runbook.md": """\
---
date: 2025-11-11
description: "Where raw messages lie, and for how long."
tags:
  - reference
aliases:
  - 'Storage: the runbook'
---

# Storage Runbook

Raw messages stay for 30 days. The table is cut at midnight; [[kestrel]] reads the newest part alone.
""",
    "reference/Pay Review.md": """\
---
date: 2026-02-02
description: "Numbers for the talk in June."
tags:
  - reference
  - private
---

# Pay Review

Not for anybody else. See [[Brag Doc]].
""",
    "reference/Door Codes.md": """\
---
date: 2026-02-03
description: "Doors of the depots."
tags:
  - reference
---

# Door Codes

East depot: ask [[Tomas Lindh]].
""",
    "projects/kestrel/kestrel.md": """\
---
date: 2026-03-20
description: "The service behind the departure boards."
tags:
  - project/kestrel
platforms:
  - typescript
  - postgres
---

# kestrel

Home of the [[Departure Board Rewrite]].
""",
    "projects/kestrel/notes/2026-03-26-feeds-merge-by-arrival.md": """\
---
date: 2026-03-26
description: 'The merged feed orders messages by arrival, since the clocks of the depots disagree.'
aliases:
  - 'Feeds merge by arrival'
tags:
  - project-note
project: kestrel
source_repo: kestrel
---

# Feeds merge by arrival

The merged feed orders messages by arrival, since the clocks of the depots disagree.

## Related

- [[kestrel]]
""",
    "projects/Plover/Plover.md": """\
---
date: 2026-02-14
description: "Draws the network map."
tags:
  - project/plover
platforms: rust
---

# Plover

Draws the map that [[Feed Map]] describes.
""",
    "thinking/README.md": """\
# Thinking

Drafts. What is worth keeping moves on.
""",
    "templates/Work Note.md": """\
---
date: "{{date}}"
description: ""
tags:
  - work-note
status: active
quarter: ""
---

# {{title}}

## Context

## Related
""",
    "memories/README.md": """\
# Memories of other repositories

Written by sessions elsewhere. Do not edit them, but for the `promoted` marker.
""",
    HUMAN_NOTE: """\
---
date: 2026-04-20
description: "From the library."
tags:
  - reading
---

# What I read about buses

Bunching is not the driver's fault.
""",
}

OTHER_FILES: Mapping[str, str] = {
    ".gitignore": ".obsidian/workspace.json\n!.claude/\nthinking/session-logs/\n.claude/om-mcp-audit.jsonl\n",
    ".mcp.json": '{\n  "mcpServers": {}\n}\n',
    ".obsidian/app.json": json.dumps(
        {"newLinkFormat": "shortest", "userIgnoreFilters": ["README.md", "CHANGELOG.md", ".claude/", "templates/"]},
        indent=2,
    )
    + "\n",
    ".claude/settings.json": '{\n  "hooks": {}\n}\n',
    ".claude/commands/om-standup.md": "---\ndescription: Start the day\n---\n\nSay what is next.\n",
    ".claude/agents/people-profiler.md": "---\nname: people-profiler\n---\n\nKeep the notes on people.\n",
    ".claude/rules/brain-topics.md": "# Brain topics\n\nA topic is a menu: search first, then read one note.\n",
    "work/active/.gitkeep": "",
    "work/archive/.gitkeep": "",
    "bases/Memories.base": """\
filters:
  and:
    - file.ext == "md"
    - source == "mcp-capture"
formulas:
  reach: 'if(scope == "general", "everywhere", if(scope == "platform", platforms.join(", "), projects.join(", ")))'
  age_days: (today() - date(date)).days
  corrected: if(superseded_by.isEmpty(), "", "superseded")
views:
  - type: table
    name: Recent
    order: [file.name, formula.reach, confidence, origin, date]
    sort:
      - property: date
        direction: DESC
    limit: 50
  - type: table
    name: Superseded
    filters: "!superseded_by.isEmpty()"
    order: [file.name, superseded_by, date]
    limit: 30
""",
    "bases/Work Dashboard.base": """\
filters:
  and:
    - file.hasTag("work-note")
    - file.ext == "md"
    - '!file.inFolder("templates")'
views:
  - type: table
    name: Active Work
    filters: status == "active"
    order: [file.name, date, project, quarter, description]
""",
}
