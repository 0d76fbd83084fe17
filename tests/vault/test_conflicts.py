"""Copies that sync tools leave are recognised by name, and no honest name is taken for one."""

import time

import pytest

from vademecum.vault import conflict_copies

NOTES = {
    "a/Plan.md",
    "a/Plan v1.2.md",
    "Plan.md",
    "Ärger.md",
    "Inventory.md",
    "Talk.markdown",
    "Notes.sync-conflict.md",
}


def original(path: str) -> str | None:
    """What the path is a copy of; "" for a copy of something that is not there, None for no copy."""
    copies = conflict_copies([path], NOTES)
    return None if not copies else copies[0].original or ""


@pytest.mark.parametrize(
    ("path", "of"),
    [
        # Syncthing
        ("a/Plan.sync-conflict-20240131-235959-K3XQ7AB.md", "a/Plan.md"),
        ("Plan.sync-conflict-20240131-235959-K3XQ7AB.md", "Plan.md"),
        ("a/Plan.sync-conflict-20160131-235959.md", "a/Plan.md"),
        ("a/Plan v1.2.sync-conflict-20240131-235959-K3XQ7AB.md", "a/Plan v1.2.md"),
        ("Talk.sync-conflict-20240131-235959-K3XQ7AB.markdown", "Talk.markdown"),
        ("Gone.sync-conflict-20240131-235959-K3XQ7AB.md", ""),
        # Dropbox
        ("Plan (Ana's conflicted copy 2024-01-31).md", "Plan.md"),
        ("Plan (Ana’s conflicted copy 2024-01-31).md", "Plan.md"),
        ("Plan (ana-laptop's conflicted copy 2024-01-31 1).md", "Plan.md"),
        ("Plan (Ana's conflicted copy 2024-01-31) (2).md", "Plan.md"),
        ("Plan (conflicted copy 2024-01-31).md", "Plan.md"),
        ("Ärger (Ana's Conflicted Copy 2024-01-31).md", "Ärger.md"),
        ("Plan (Case Conflict).md", "Plan.md"),
        ("Plan (Case Conflict 1).md", "Plan.md"),
        ("Plan (Unicode Encoding Conflict).md", "Plan.md"),
        # Nextcloud, ownCloud
        ("Plan (conflicted copy 2024-01-31 235959).md", "Plan.md"),
        ("Plan (conflicted copy ana b 2024-01-31 235959).md", "Plan.md"),
        ("Plan_conflict-20140131-235959.md", "Plan.md"),
        ("Plan_conflict-ana-20140131-235959.md", "Plan.md"),
        # Obsidian Sync
        ("Plan (Conflicted copy Ana's phone 202401312359).md", "Plan.md"),
        # Seafile, Synology, Resilio
        ("Plan (SFConflict ana@example.org 2024-01-31-23-59-59).md", "Plan.md"),
        ("Plan_DiskStation_Jan-31-2359-2024_Conflict.md", "Plan.md"),
        ("Plan.Conflict.md", "Plan.md"),
        ("Plan.Conflict1.Conflict.md", "Plan.md"),
        # OneDrive
        ("Plan-DESKTOP-1A2B3C4.md", "Plan.md"),
        ("Plan-LAPTOP-1A2B3C4D.md", "Plan.md"),
        # a copy of a copy names what it was made of
        ("Plan.sync-conflict-20240131-235959-K3XQ7AB (Ana's conflicted copy 2024-01-31).md", ""),
    ],
)
def test_what_a_sync_tool_leaves_is_recognised(path: str, of: str) -> None:
    assert original(path) == of


@pytest.mark.parametrize(
    "path",
    [
        "Plan.md",
        "Conflict.md",
        "Plan conflict.md",
        "Plan (conflict).md",
        "Plan (conflict 2024-01-31).md",
        "Plan (conflict resolution 2024-01-31).md",
        "Plan (conflicted).md",
        "Plan (conflicted copy).md",
        "Plan (the conflicted copy of Ana).md",
        "Plan (about Ana's conflicted copy 2024).md",
        "How to merge a conflicted copy 2024-01-31.md",
        "Plan sync-conflict-20240131-235959-K3XQ7AB.md",
        "Notes.sync-conflict.md",
        "sync-conflict-20240131-235959.md",
        "Resolving sync-conflict files.md",
        "Plan_conflict-20140131.md",
        "Plan 2.md",
        "Plan (1).md",
        "Plan copy.md",
        "Plan.orig.md",
        # nothing beside it bears the name, and its own says no date
        "Ideas.Conflict.md",
        "Ideas (Case Conflict).md",
        "Machines-DESKTOP-1A2B3C4.md",
        "Inventory-DESKTOP-shelf.md",
        "Inventory-DESKTOP-1A2B.md",
        # a folder says nothing about the notes in it
        "Plan.sync-conflict-20240131-235959-K3XQ7AB.md/Plan.md",
        "conflicted copy 2024-01-31/Plan.md",
        "",
    ],
)
def test_an_honest_name_is_no_copy(path: str) -> None:
    assert original(path) is None


def test_the_order_of_the_paths_stays() -> None:
    paths = [f"n{i}.sync-conflict-20240131-235959-K3XQ7AB.md" for i in (3, 1, 2)]
    assert [copy.path for copy in conflict_copies(paths, {"n1.md"})] == paths
    assert [copy.original for copy in conflict_copies(paths, {"n1.md"})] == [None, "n1.md", None]


@pytest.mark.parametrize(
    "bait", ["(conflicted copy ", "a's ", "_Conflict-", "_Jan-31-2359-", ".Conflict", "-DESKTOP-A"]
)
def test_no_name_takes_long(bait: str) -> None:
    path = "conflict" + (bait * 60)[:240] + ".md"
    started = time.perf_counter()
    conflict_copies([path] * 20, set())
    assert time.perf_counter() - started < 0.5
