"""A question loads no module that only indexing needs: the cold start of the command line has a budget."""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

BANNED = {"pyromark", "yaml", "regex", "rich", "tomlkit", "asyncio", "numpy", "vademecum.markdown.note"}

_ASK = """
import sys
from vademecum.cli.main import run
status = run(["recall", "wombat"])
print(" ".join(sys.modules), file=sys.stderr)
sys.exit(status)
"""


def loaded_by(code: str, vade_home: Path) -> set[str]:
    child = subprocess.run(
        [sys.executable, "-c", code],
        env={"VADE_HOME": str(vade_home), "PATH": "/usr/bin:/bin"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )
    return set(child.stderr.split("\n")[-2].split())


def test_a_question_loads_neither_parser_nor_progress_bar(
    vade: Callable[..., object], vade_home: Path, write_tree: Callable[[dict[str, str]], Path]
) -> None:
    vade("sources", "add", "folder", str(write_tree({"a.md": "# A\n\nwombat"})))
    time.sleep(2.1)  # a note this young would be read and judged afresh
    vade("sources", "sync")
    assert loaded_by(_ASK, vade_home) & BANNED == set()


@pytest.mark.parametrize("module", ["yaml", "vademecum.markdown.note"])
def test_the_guard_sees_a_module_that_is_loaded(module: str, vade_home: Path) -> None:
    assert module in loaded_by(f"import {module}\n" + _ASK, vade_home)
