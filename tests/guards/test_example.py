"""The example vault and its questions belong together: a renamed note must not turn a judgement into noise."""

import csv
from pathlib import Path

from source_tree import ROOT

VAULT = ROOT / "examples" / "vault"
QUALITY = ROOT / "benchmarks" / "quality" / "example"


def rows(path: Path) -> list[list[str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def test_every_question_has_an_id_a_text_and_a_kind() -> None:
    questions = rows(QUALITY / "queries.tsv")
    assert len({question[0] for question in questions}) == len(questions) == 40
    assert {kind for _, _, kind in questions} == {"words", "paraphrase", "exact"}


def test_every_judgement_names_a_question_and_a_note_of_the_vault() -> None:
    questions = {question[0] for question in rows(QUALITY / "queries.tsv")}
    judgements = rows(QUALITY / "qrels.tsv")
    assert {question for question, _, _ in judgements} == questions
    assert [path for _, path, _ in judgements if not (VAULT / path).is_file()] == []
    assert {grade for _, _, grade in judgements} <= {"1", "2"}


def test_every_identifier_asked_for_stands_in_the_notes_that_answer() -> None:
    asked = {key: text.rstrip("()") for key, text, kind in rows(QUALITY / "queries.tsv") if kind == "exact"}
    judged = [(asked[key], path) for key, path, _ in rows(QUALITY / "qrels.tsv") if key in asked]
    assert [pair for pair in judged if pair[0] not in (VAULT / pair[1]).read_text(encoding="utf-8")] == []
