"""The vault that tests of memories, hooks and the template share is what the real ones look like."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from obsidian_mind import EXPOSED_ROOTS, HUMAN_NOTE, SERVED_MEMORIES, build_obsidian_mind
from vademecum.access import policy_of
from vademecum.markdown import parse
from vademecum.memory.memory import CAPTURED, Draft, describe, parse_memory, render, slug
from vademecum.vault import Ignores, link_name, user_ignore_filters, walk

Snapshot = Mapping[str, tuple[bytes | None, int, int]]


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    return build_obsidian_mind(tmp_path / "vault", memories=40)


def test_it_is_the_same_every_time(vault: Path, tmp_path: Path, vault_bytes: Callable[[Path], Snapshot]) -> None:
    again = build_obsidian_mind(tmp_path / "again", memories=40)
    assert {path: held for path, (held, _, _) in vault_bytes(again).items()} == {
        path: held for path, (held, _, _) in vault_bytes(vault).items()
    }


def test_every_link_leads_to_a_note_of_it(vault: Path) -> None:
    notes = {path: parse((vault / path).read_text(), stem=Path(path).stem) for path in walk(vault, Ignores()).files}
    names = {link_name(path) for path in notes} | {a.casefold() for note in notes.values() for a in note.aliases}
    for path, note in notes.items():
        if not path.startswith("templates/"):
            assert [link.target for link in note.links if link_name(link.target) not in names] == [], path


def test_every_note_with_properties_can_be_read(vault: Path) -> None:
    for path in walk(vault, Ignores()).files:
        assert parse((vault / path).read_text(), stem=Path(path).stem).diagnostics == (), path


def test_the_manifest_comes_down_to_the_folders_that_are_there(vault: Path) -> None:
    policy, diagnostic = policy_of(vault)
    assert (policy.roots, policy.memory_root, diagnostic) == (EXPOSED_ROOTS, "memories", None)


def test_the_ignore_list_is_one_that_applies(vault: Path) -> None:
    filters, diagnostics = user_ignore_filters(vault)
    assert diagnostics == []
    assert filters is not None
    assert "templates" in filters


@pytest.mark.parametrize("path", SERVED_MEMORIES)
def test_a_memory_reads_as_one_and_has_the_name_of_its_title(vault: Path, path: str) -> None:
    memory = parse_memory((vault / path).read_text(), path=path)
    assert memory.is_served
    assert path.endswith(f"/{memory.date[:4]}/{memory.date[5:7]}/{memory.date} {slug(memory.title)}.md")
    assert memory.aliases == (() if slug(memory.title) == memory.title else (memory.title,))
    assert memory.description == describe(memory.body)


def test_captured_memories_are_byte_for_byte_what_the_writer_writes(vault: Path) -> None:
    """But for the two properties that come later."""
    compared = 0
    for file in sorted((vault / "memories").glob("*/*/*.md")):
        text = file.read_text()
        memory = parse_memory(text, path=file.name)
        if memory.source != CAPTURED:
            continue
        said = {name: getattr(memory, name) for name in ("title", "reach", "confidence", "origin", "flags")}
        claimed = {name: getattr(memory, name) for name in ("claimed_confidence", "claimed_scope")}
        draft = Draft(body=memory.claim, **said, **claimed)  # type: ignore[arg-type]
        later = ("superseded_by:", "promoted:")
        head = "\n".join(line for line in text.partition("\n---\n")[0].split("\n") if not line.startswith(later))
        written = render(draft, date=memory.date, session=memory.session)
        assert written.partition("\n---\n")[0] == head, file.name
        assert text.partition("\n---\n")[2].startswith(written.partition("\n---\n")[2].rstrip())
        compared += 1
    assert compared == 46


def test_what_lies_among_the_memories_is_not_taken_for_one(vault: Path) -> None:
    assert not parse_memory((vault / HUMAN_NOTE).read_text(), path=HUMAN_NOTE).is_served


def test_the_correction_names_its_title(vault: Path) -> None:
    old, new = (parse_memory((vault / path).read_text(), path=path) for path in SERVED_MEMORIES[1:3])
    assert old.superseded_by == (new.title,)


def test_more_memories_are_all_different(tmp_path: Path) -> None:
    vault = build_obsidian_mind(tmp_path / "many", memories=1500)
    titles = [parse_memory(file.read_text(), path="").title for file in (vault / "memories").glob("*/*/*.md")]
    assert len(titles) == len(set(titles)) == 1500 + len(SERVED_MEMORIES) + 1
    assert json.loads((vault / "vault-manifest.json").read_text())["memory_root"] == "memories"
