"""The git that we call: always optional, never in the way.

Shaped against two surprises: a repository inside another one, and a program of somebody else that runs because ours
did. Nothing is ever committed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_TIMEOUT_S: Final = 10.0


def is_available(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether there is a git to call."""
    return _program(environment) is not None


def init(folder: Path, *, environment: Mapping[str, str] = os.environ, timeout_s: float = _TIMEOUT_S) -> bool:
    """Make a folder a repository, unless it lies in one; whether that was done. Never raises.

    Neither hooks nor the templates of the user or of the system come with it. A `git` that takes longer is ended.
    """
    program = _program(environment)
    if program is None or not os.path.isdir(folder) or is_in_repository(folder):
        return False
    # The variables that git sets for its hooks would have it make, or change, another repository than this one.
    clean = {name: value for name, value in environment.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(
            [program, "-c", f"core.hooksPath={os.devnull}", "-c", "init.templateDir=", "init", "-q", "--template="],
            cwd=folder,
            env=clean,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=timeout_s,
            check=False,
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        return False
    return done.returncode == 0 and is_in_repository(folder)


def is_in_repository(folder: Path) -> bool:
    """Whether a folder lies in a work tree, or in a repository's own folder; links resolved.

    Git itself is not asked: it disowns repositories of other users, in which ours would then be nested.
    """
    real = Path(os.path.realpath(folder))
    return any(os.path.lexists(place / ".git") or _is_repository(place) for place in (real, *real.parents))


def _is_repository(place: Path) -> bool:
    """Whether this is what a `.git` usually holds: a bare repository, or the inside of another one."""
    return os.path.isfile(place / "HEAD") and os.path.isdir(place / "objects") and os.path.isdir(place / "refs")


def _program(environment: Mapping[str, str]) -> str | None:
    found = shutil.which("git", path=environment.get("PATH", os.defpath))
    # Of a relative entry on PATH the child, which runs in another folder, would make another program.
    return None if found is None else os.path.abspath(found)
