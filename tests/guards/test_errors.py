"""Every error can be acted on: scripts by its code and exit status, people by its line in the documentation."""

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from source_tree import PACKAGE, ROOT, parsed_modules
from vademecum.errors import VadeError

ERRORS_PAGE = ROOT / "docs" / "errors.md"
# 0 is success and 130 an interruption; an error is neither.
STATUSES = {1, 2, 3, 4}


def error_tree(root: type[Any]) -> Iterator[type[Any]]:
    """The class and everything below it."""
    yield root
    for child in root.__subclasses__():
        yield from error_tree(child)


def code_faults(root: type[Any]) -> list[str]:
    """Classes without a code of their own, and codes that two share. Bases count: each of ours can be raised."""
    faults, owners = [], dict[str, str]()
    for error in error_tree(root):
        code = vars(error).get("code")
        if not isinstance(code, str) or not re.fullmatch(r"[a-z]+(_[a-z]+)*", code):
            faults.append(f"{error.__name__}: no code of its own")
        elif code in owners:
            faults.append(f"{error.__name__}: shares {code} with {owners[code]}")
        else:
            owners[code] = error.__name__
    return faults


def exit_status(error: type[Any], root: type[Any], table: Mapping[Any, int]) -> int | None:
    """The status the table gives the class, by class or by code, or an ancestor of it below the root.

    The root's own entry speaks for the root alone: a table of one line would otherwise satisfy the guard.
    """
    ancestors = [base for base in error.__mro__ if issubclass(base, root) and (base is error or base is not root)]
    for base in ancestors:
        for key in (base, vars(base).get("code")):
            if key in table:
                return table[key]
    return None


def status_faults(root: type[Any], table: Mapping[Any, int]) -> list[str]:
    return [error.__name__ for error in error_tree(root) if exit_status(error, root, table) not in STATUSES]


def undocumented(root: type[Any], page: str) -> list[str]:
    """Codes that no line of the page shows in backticks."""
    return [error.code for error in error_tree(root) if f"`{error.code}`" not in page]


def stray_errors(folder: Path, names: set[str]) -> list[str]:
    """Classes outside errors.py that derive from one of the names: the tree must be readable in one file."""
    found = []
    for module in parsed_modules(folder):
        if module.path == "errors.py":
            continue
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef):
                bases = {
                    base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "") for base in node.bases
                }
                if bases & names:
                    found.append(f"{module.path}: {node.name}")
    return found


def test_every_error_has_a_code_of_its_own() -> None:
    assert code_faults(VadeError) == []


def test_every_error_has_an_exit_status() -> None:
    from vademecum.cli.output import EXIT_STATUS

    assert status_faults(VadeError, EXIT_STATUS) == []


def test_every_error_has_an_http_status() -> None:
    from vademecum.daemon.wire import STATUS

    assert [e.__name__ for e in error_tree(VadeError) if not 400 <= STATUS.get(e, 0) < 600] == []


def test_every_error_has_a_line_in_the_documentation() -> None:
    assert undocumented(VadeError, ERRORS_PAGE.read_text(encoding="utf-8")) == []


def test_every_error_stands_in_the_one_tree() -> None:
    assert stray_errors(PACKAGE, {error.__name__ for error in error_tree(VadeError)}) == []


class Base(Exception):
    code = "base"


class Good(Base):
    code = "good"


class Mute(Base):
    pass


class Twin(Base):
    code = "good"


def test_a_missing_code_and_a_shared_code_are_caught() -> None:
    assert code_faults(Base) == ["Mute: no code of its own", "Twin: shares good with Good"]


@pytest.mark.parametrize("table", [{Base: 1, Good: 3}, {"base": 1, "good": 3}])
def test_a_missing_exit_status_is_caught(table: Mapping[Any, int]) -> None:
    assert "Mute" in status_faults(Base, table)
    assert "Good" not in status_faults(Base, table)


def test_an_exit_status_outside_the_table_of_the_documentation_is_caught() -> None:
    assert "Good" in status_faults(Base, {Base: 1, Good: 0})


def test_an_undocumented_error_is_caught() -> None:
    assert undocumented(Good, "| `goods` | good |") == ["good"]


def test_an_error_outside_the_tree_is_caught(tmp_path: Path) -> None:
    (tmp_path / "errors.py").write_text("class Base(Exception): ...\nclass Inside(Base): ...\n")
    (tmp_path / "sync.py").write_text("class Outside(errors.Base): ...\n")
    assert stray_errors(tmp_path, {"Base"}) == ["sync.py: Outside"]
