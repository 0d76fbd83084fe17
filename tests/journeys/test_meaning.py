"""The question finds the note that answers it even when they share no word: the real models, through the command."""

from collections.abc import Callable
from pathlib import Path

import pytest

from process import Finished
from workbench import files_with, selected, settings_at

Vade = Callable[..., Finished]

QUESTION = "people were thrown out of their accounts"
ANSWER = "Postmortems/2025-02-26 Lost sessions after a failover.md"


@pytest.fixture
def with_models(vade_home: Path, model_files: Path) -> Path:
    """The state folder, holding the real models."""
    vade_home.mkdir(mode=0o700)
    (vade_home / "models").symlink_to(model_files)
    return vade_home


def test_a_question_that_shares_no_word_with_its_answer_finds_it(
    vade: Vade, with_models: Path, example_vault: Path
) -> None:
    before = vade("sources", "add", "obsidian", example_vault, "--no-vectors", "--json")
    assert before.json["vectors"] == {"state": "skipped"}
    unanswered = vade("recall", QUESTION, "--json").json
    assert unanswered["receipt"]["lanes"]["meaning"] == {"state": "off", "reason": "nothing is embedded yet"}
    assert ANSWER not in [hit["path"] for hit in unanswered["hits"]]

    made = vade("sources", "sync", "--wait", "--json").json["vectors"]
    assert (made["state"], made["pending"], made["refused"]) == ("done", 0, 0)

    answer = vade("recall", QUESTION, "--explain", "--json").json
    first = answer["hits"][0]
    assert (first["path"], first["lanes"], first["explain"]["matched_terms"]) == (ANSWER, ["meaning"], [])
    assert sum(part["value"] for part in first["explain"]["parts"]) == pytest.approx(first["score"], abs=5e-5)
    vectors = answer["receipt"]["vectors"]
    assert (vectors["model"], vectors["backend"], vectors["pending"]) == ("bge-small-en-v1.5", "numpy", 0)
    assert vectors["have"] == made["have"]
    assert answer["receipt"]["lanes"]["meaning"] == {"state": "ok", "reason": None}

    reread = vade("recall", QUESTION, "--rerank", "--explain", "--json").json
    assert reread["receipt"]["lanes"]["reranker"] == {"state": "ok", "reason": None}
    assert reread["hits"][0]["path"] == ANSWER
    assert "reranker" in [part["name"] for part in reread["hits"][0]["explain"]["parts"]]


def test_renaming_moving_and_switching_a_source_off_and_on_embeds_nothing(
    vade: Vade, with_models: Path, example_vault: Path
) -> None:
    vade("sources", "add", "obsidian", example_vault, "--name", "V", "--wait")
    settings = settings_at(with_models)
    ids = {row["id"] for row in selected(settings, "select id from vector")}

    (example_vault / "People").rename(example_vault / "Colleagues")
    (example_vault / ANSWER).rename(example_vault / "Postmortems" / "The day of the failover.md")
    synced = vade("sources", "sync", "--json").json["sources"][0]["sync"]
    assert synced["added"] == synced["removed"] > 1
    vade("sources", "disable", "V")
    assert vade("recall", QUESTION, "--json").json["hits"] == []
    assert vade("sources", "enable", "V", "--json").json["vectors"]["embedded"] == 0
    vade("sources", "rename", "V", "W")

    assert {row["id"] for row in selected(settings, "select id from vector")} == ids
    found = vade("recall", QUESTION, "--json").json["hits"][0]
    assert found["path"] == "Postmortems/The day of the failover.md"


def test_nothing_of_a_removed_source_is_left_among_the_vectors(
    vade: Vade, with_models: Path, example_vault: Path
) -> None:
    vade("sources", "add", "obsidian", example_vault, "--name", "V", "--wait")
    settings = settings_at(with_models)
    stretches = [row["e"][200:240] for row in selected(settings, "select embedding as e from vector")]
    assert files_with(with_models, *stretches)

    removed = vade("sources", "remove", "V", "--json").json
    assert removed["proof"]["clean"] is True
    assert removed["purged_rows"]["vectors"] == len(stretches)
    assert files_with(with_models, *stretches) == []
    assert selected(settings, "select 1 from content union all select 1 from vector") == []
    assert vade("doctor").rc == 0


def test_a_model_with_one_wrong_bit_is_named_and_words_answer(
    vade: Vade, vade_home: Path, model_files: Path, example_vault: Path
) -> None:
    folder = vade_home / "models" / "bge-small-en-v1.5"
    folder.mkdir(parents=True)
    for file in (model_files / "bge-small-en-v1.5").iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    vade("sources", "add", "obsidian", example_vault, "--wait")

    content = bytearray((folder / "model.onnx").read_bytes())
    content[20_000_000] ^= 1
    (folder / "model.onnx").write_bytes(content)
    answer = vade("recall", "why did we drop redis", "--json").json
    assert answer["hits"][0]["path"].startswith("Decisions/ADR-0007")
    meaning = answer["receipt"]["lanes"]["meaning"]
    assert meaning["state"] == "degraded"
    assert "has other bytes" in meaning["reason"]
    assert vade("models", "status").rc == vade("doctor").rc == 1
    again = vade("sources", "sync", "--force", "--json")
    assert again.rc == 0
