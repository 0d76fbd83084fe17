"""All writing SQL lives in index/: what hangs off a source must be removable in one place."""

import ast
import re
from pathlib import Path

import pytest

from source_tree import PACKAGE, docstring_ids, parsed_modules

# Statements as SQL spells them. The keyword may stand in any case; a sentence that merely begins with one of the verbs
# ("Delete the note from the vault") lacks the shape that follows it.
STATEMENT = re.compile(
    r"\b(?:insert\s+(?:or\s+\w+\s+)?into|replace\s+into)\s+[\w{\"\[]+\s*(?:\(|values\b|select\b|default\b|$)"
    r"|\bupdate\s+(?:or\s+\w+\s+)?[\w.{}\"\[\]]+\s+set\s+[\w\"{\[(]+.*?="
    r"|\bdelete\s+from\s+[\w.{}\"\[\]]+\s*(?:;|$|where\b|returning\b)",
    re.IGNORECASE | re.DOTALL,
)
KEYWORD = re.compile(r"(?:^|[;(\n])\s*(?:INSERT|UPDATE|DELETE)\b")


def literal_text(node: ast.AST) -> str | None:
    """The text of a string literal; the holes of an f-string read `{}`."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
    return None


def writing_sql(folder: Path) -> list[str]:
    """String literals outside index/ that hold a writing statement; docstrings are prose."""
    found = []
    for module in parsed_modules(folder):
        if module.path.startswith("index/"):
            continue
        skip = docstring_ids(module.tree)
        for node in ast.walk(module.tree):
            text = literal_text(node)
            if text is None or id(node) in skip or text == "DELETE":  # alone it is a method of HTTP
                continue
            if STATEMENT.search(text) or KEYWORD.search(text):
                found.append(f"{module.path}:{getattr(node, 'lineno', 0)}")
    return sorted(set(found))


def test_no_writing_sql_stands_outside_the_index() -> None:
    assert writing_sql(PACKAGE) == []


@pytest.mark.parametrize(
    "statement",
    [
        '"INSERT INTO note VALUES (?)"',
        '"insert or replace into note(id) values (?)"',
        '"UPDATE note SET title = ?"',
        '"""\n    DELETE FROM note\n    WHERE id = ?\n"""',
        'f"delete from {table} where id = ?"',
        'f"DELETE FROM {table}"',
        '"INSERT "',
        '"WITH old AS (SELECT 1) DELETE FROM note"',
    ],
)
def test_a_writing_statement_is_caught(tmp_path: Path, statement: str) -> None:
    (tmp_path / "sync.py").write_text(f"SQL = {statement}\n")
    assert writing_sql(tmp_path) == ["sync.py:1"]


@pytest.mark.parametrize(
    "literal",
    [
        '"SELECT id FROM note"',
        '"Delete the note from the vault."',
        '"delete from the list whatever you do not need"',
        '"Update your settings."',
        '"updated_at"',
    ],
)
def test_prose_and_reading_statements_are_left_alone(tmp_path: Path, literal: str) -> None:
    (tmp_path / "sync.py").write_text(f'"""INSERT INTO note VALUES (1)"""\nTEXT = {literal}\n')
    assert writing_sql(tmp_path) == []


def test_the_index_may_write(tmp_path: Path) -> None:
    (tmp_path / "index").mkdir()
    (tmp_path / "index" / "store.py").write_text('SQL = "DELETE FROM note"\n')
    assert writing_sql(tmp_path) == []
