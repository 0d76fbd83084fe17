"""The first five minutes: mount the example vault, ask it, read, edit, sync, remove, and the vault is as it was."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from process import Finished
from workbench import files_with

Vade = Callable[..., Finished]

ADR = "Decisions/ADR-0007 Drop Redis for the session cache.md"


def test_mount_ask_read_edit_sync_and_remove(
    vade: Vade, vade_home: Path, example_vault: Path, vault_bytes: Callable[[Path], object]
) -> None:
    untouched = vault_bytes(example_vault)

    preview = vade("sources", "add", "obsidian", example_vault, "--dry-run", "--json").json
    added = vade("sources", "add", "obsidian", example_vault, "--name", "Example vault", "--json")
    assert added.rc == 0
    assert added.json["created"] is True
    assert added.json["sync"]["documents"] == preview["files"] == 33
    assert added.json["sync"]["state"] == "healthy"
    source_id = added.json["source"]["id"]

    asked = vade("recall", "why did we drop redis", "--json")
    first = asked.json["hits"][0]
    assert first["path"] == ADR
    assert Path(first["source_path"]).read_text(encoding="utf-8").split("\n")[first["line_start"] - 1]
    assert asked.json["receipt"]["searched"][0]["documents"] == 33
    for_people = vade("recall", "why did we drop redis").out
    assert for_people.startswith("1. ADR-0007 Drop Redis")
    assert "Receipt: searched 33 notes in Example vault" in for_people

    whole = vade("read", first["source_path"])
    assert whole.out.rstrip("\n") == (example_vault / ADR).read_text(encoding="utf-8").rstrip("\n")
    part = vade("read", f"{ADR}#Why we dropped it", "--json").json
    assert part["text"].startswith("## Why we dropped it")
    assert "Failover lost sessions" in part["text"]
    assert vade("read", f"{ADR}#^decision").out.startswith("We drop Redis.")

    assert vault_bytes(example_vault) == untouched

    text = (example_vault / ADR).read_text(encoding="utf-8")
    (example_vault / ADR).write_text(text + "\nThe quokkas agreed unanimously.\n", encoding="utf-8")
    (example_vault / "Fresh note.md").write_text("A numbat came to the review.\n", encoding="utf-8")
    edited = vault_bytes(example_vault)
    report = vade("sources", "sync", "Example vault", "--json").json["sync"]
    assert (report["added"], report["updated"], report["removed"], report["documents"]) == (1, 1, 0, 34)
    assert vade("recall", "quokkas", "--json").json["hits"][0]["path"] == ADR
    assert vade("search", "numbat", "--json").json["hits"][0]["path"] == "Fresh note.md"

    assert vade("sources", "status", "--json").json["sources"][0]["state"] == "healthy"
    assert vade("doctor").rc == 0

    removed = vade("sources", "remove", source_id[:14], "--json")
    assert removed.rc == 0
    assert removed.json["purged_rows"]["documents"] == 34
    assert removed.json["proof"]["clean"] is True
    assert vade("recall", "quokkas", "--json").json["hits"] == []
    assert vade("sources", "list", "--json").json == {"sources": []}
    assert files_with(vade_home, "unanimously", "Failover lost sessions", "webhook", "Marchetti") == []
    assert vault_bytes(example_vault) == edited


@pytest.mark.parametrize(
    ("question", "path"),
    [
        ("ADR-0007", ADR),
        ("flush_cache", "Runbooks/Flush the page cache.md"),
        ("how do we rotate the signing keys", "Runbooks/Rotate the signing keys.md"),
        ("検索", "Reading/検索メモ.md"),
    ],
)
def test_questions_of_the_first_day_find_their_notes(vade: Vade, example_vault: Path, question: str, path: str) -> None:
    vade("sources", "add", "obsidian", example_vault)
    hits = json.loads(vade("recall", question, "--json").out)["hits"]
    assert path in [hit["path"] for hit in hits[:5]]


def test_templates_that_the_vault_ignores_are_no_notes(vade: Vade, example_vault: Path) -> None:
    vade("sources", "add", "obsidian", example_vault)
    assert all(
        not hit["path"].startswith("Templates/") for hit in vade("recall", "decision status", "--json").json["hits"]
    )
    assert vade("read", "Templates/Daily.md").rc == 3
