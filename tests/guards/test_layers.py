"""Import direction is the architecture, so a program checks it."""

import configparser
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from source_tree import ROOT

LINT = "from importlinter.cli import lint_imports_command; lint_imports_command()"


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run import-linter on the checkout at `folder` (.importlinter and src/), in a process of its own."""
    env = {**os.environ, "PYTHONPATH": str(folder / "src")}
    command = [sys.executable, "-c", LINT, "--no-cache", "--no-logo", str(folder / ".importlinter")]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=100, check=False)


def test_no_module_imports_against_the_layers() -> None:
    linted = lint_imports(ROOT)
    assert linted.returncode == 0, linted.stdout + linted.stderr


def bare_house(folder: Path) -> Path:
    """A checkout with our contracts and an empty package for every layer that must exist."""
    shutil.copy(ROOT / ".importlinter", folder)
    contracts = configparser.ConfigParser()
    contracts.read(folder / ".importlinter", encoding="utf-8")
    words = contracts["importlinter:contract:layers"]["layers"].replace("|", " ").split()
    for name in ["", *(word for word in words if not word.startswith("("))]:
        package = folder / "src" / "vademecum" / name
        package.mkdir(parents=True)
        (package / "__init__.py").touch()
    return folder


def test_an_empty_house_keeps_every_contract(tmp_path: Path) -> None:
    linted = lint_imports(bare_house(tmp_path))
    assert linted.returncode == 0, linted.stdout + linted.stderr


@pytest.mark.parametrize(
    ("module", "line", "contract"),
    [
        ("markdown/bad.py", "import vademecum.vault", "Layers, bottom to top as drawn BROKEN"),
        ("sources/bad.py", "import vademecum.search", "Layers, bottom to top as drawn BROKEN"),
        ("drawer.py", "SHELF = 1", "Layers, bottom to top as drawn BROKEN"),
        ("pump.py", "import vademecum.errors", "import nothing of ours BROKEN"),
        ("git.py", "import vademecum.config", "imports the standard library and, at most, errors BROKEN"),
        ("access/bad.py", "import socket", "reach no database, no process and no network BROKEN"),
        ("memory.py", "import subprocess", "reach no database, no process and no network BROKEN"),
        ("hooks.py", "import vademecum.index", "A hook reaches no index, no model and no server BROKEN"),
        ("search/bad.py", "import apsw", "Only the index opens a database BROKEN"),
        ("app/bad.py", "import click", "Only the command line knows the terminal BROKEN"),
    ],
)
def test_an_import_against_the_layers_is_caught(tmp_path: Path, module: str, line: str, contract: str) -> None:
    (bare_house(tmp_path) / "src" / "vademecum" / module).write_text(f"{line}\n", encoding="utf-8")
    linted = lint_imports(tmp_path)
    assert linted.returncode == 1, linted.stdout + linted.stderr
    assert contract in " ".join(linted.stdout.split())
