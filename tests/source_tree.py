"""The source as the guards see it: parsed modules of a folder, with paths relative to it."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "vademecum"


@dataclass(frozen=True, slots=True)
class Module:
    path: str  # relative to the folder, POSIX
    text: str
    tree: ast.Module


def parsed_modules(folder: Path) -> Iterator[Module]:
    """Every Python module below a folder, in path order; an empty folder is a mistake of the guard."""
    paths = sorted(folder.rglob("*.py"))
    if not paths:
        raise AssertionError(f"no Python module below {folder}: the guard looks at nothing")
    for path in paths:
        text = path.read_text(encoding="utf-8")
        yield Module(path.relative_to(folder).as_posix(), text, ast.parse(text, str(path)))


def docstring_ids(tree: ast.Module) -> set[int]:
    """The identities of the constants that are docstrings, so that a guard on string literals can skip them."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.body:
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                found.add(id(first.value))
    return found
