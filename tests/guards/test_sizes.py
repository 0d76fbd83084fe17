"""Short modules and short functions: what does not fit on a screen or two is two things."""

import ast
from pathlib import Path

from source_tree import PACKAGE, parsed_modules

MODULE_LINES = 600
BODY_LINES = 60


def body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines from the first statement after the docstring to the last line of the function."""
    body = function.body[1:] if ast.get_docstring(function, clean=False) is not None else function.body
    if not body:
        return 0
    first, last = body[0], body[-1]
    return (last.end_lineno or last.lineno) - first.lineno + 1


def oversized(folder: Path) -> list[str]:
    """Modules and function bodies that are too long, each with its length."""
    found = []
    for module in parsed_modules(folder):
        lines = len(module.text.splitlines())
        if lines > MODULE_LINES:
            found.append(f"{module.path}: {lines} lines")
        functions = [node for node in ast.walk(module.tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        found += [
            f"{module.path}:{function.lineno} {function.name}: {body_lines(function)} lines"
            for function in functions
            if body_lines(function) > BODY_LINES
        ]
    return found


def test_no_module_exceeds_600_lines_and_no_function_body_60() -> None:
    assert oversized(PACKAGE) == []


def test_a_long_module_is_caught(tmp_path: Path) -> None:
    (tmp_path / "fits.py").write_text("X = 1\n" * 600)
    (tmp_path / "long.py").write_text("X = 1\n" * 601)
    assert oversized(tmp_path) == ["long.py: 601 lines"]


def test_a_long_function_body_is_caught_and_its_docstring_is_not_counted(tmp_path: Path) -> None:
    docstring = '    """One.\n' + "\n    More.\n" * 40 + '    """\n'
    (tmp_path / "a.py").write_text(f"def fits():\n{docstring}" + "    x = 1\n" * 60)
    (tmp_path / "b.py").write_text("class C:\n    async def long(self):\n" + "        x = 1\n" * 61)
    assert oversized(tmp_path) == ["b.py:2 long: 61 lines"]
