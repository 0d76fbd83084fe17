"""A module or class is named for a thing; a drawer's name says that nobody found one."""

import ast
import re
from pathlib import Path

import pytest

from source_tree import PACKAGE, parsed_modules

DRAWERS = re.compile(r"util|helper|manager|service|common|misc", re.IGNORECASE)
CLASS_LETTERS = 24


def poor_names(folder: Path) -> list[str]:
    """Modules, packages and classes whose name is a drawer's or, for a class, too long."""
    found = []
    for module in parsed_modules(folder):
        if DRAWERS.search(module.path):
            found.append(module.path)
        classes = [node.name for node in ast.walk(module.tree) if isinstance(node, ast.ClassDef)]
        found += [f"{module.path}: {name}" for name in classes if DRAWERS.search(name) or len(name) > CLASS_LETTERS]
    return found


def test_no_module_and_no_class_has_the_name_of_a_drawer_or_a_sentence() -> None:
    assert poor_names(PACKAGE) == []


@pytest.mark.parametrize(
    ("path", "text", "found"),
    [
        ("vault/utils.py", "", ["vault/utils.py"]),
        ("common/tree.py", "", ["common/tree.py"]),
        ("tree.py", "class VaultManager: ...", ["tree.py: VaultManager"]),
        ("tree.py", f"class {'A' * 25}: ...", [f"tree.py: {'A' * 25}"]),
        ("tree.py", f"class {'A' * 24}: ...", []),
        ("tree.py", "def helper(): ...", []),
    ],
)
def test_a_poor_name_is_caught(tmp_path: Path, path: str, text: str, found: list[str]) -> None:
    (tmp_path / path).parent.mkdir(exist_ok=True)
    (tmp_path / path).write_text(text)
    assert poor_names(tmp_path) == found
