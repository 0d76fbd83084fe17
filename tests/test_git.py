"""Git is optional: it is used where it is there, and nothing breaks where it is not."""

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from vademecum import git

Snapshot = Mapping[str, object]
needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def environment(home: Path, **more: str) -> dict[str, str]:
    """An environment whose user has a home of this test."""
    home.mkdir(exist_ok=True)
    return {"PATH": os.environ["PATH"], "HOME": str(home), "LC_ALL": "C.UTF-8", **more}


def program(folder: Path, script: str) -> str:
    """A PATH on which `git` is this shell script."""
    folder.mkdir()
    (folder / "git").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "git").chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


def asked(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, check=False)
    return done.stdout.strip()


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    folder = tmp_path / "vault"
    folder.mkdir()
    (folder / "Home.md").write_text("# Home\n")
    return folder


@needs_git
def test_a_folder_becomes_a_repository_with_nothing_committed(vault: Path, tmp_path: Path) -> None:
    assert git.init(vault, environment=environment(tmp_path / "home"))
    assert asked(vault, "rev-parse", "--show-toplevel") == str(vault)
    assert asked(vault, "status", "--porcelain") == "?? Home.md"
    assert asked(vault, "log") == ""


@needs_git
def test_a_second_time_is_no_first_time(vault: Path, tmp_path: Path, vault_bytes: Callable[[Path], Snapshot]) -> None:
    own = environment(tmp_path / "home")
    assert git.init(vault, environment=own)
    before = vault_bytes(vault)
    assert not git.init(vault, environment=own)
    assert vault_bytes(vault) == before


@needs_git
@pytest.mark.parametrize("inside", ["notes", "notes/deep/er", ".git", ".git/refs"])
def test_no_repository_is_made_inside_another(vault: Path, tmp_path: Path, inside: str) -> None:
    own = environment(tmp_path / "home")
    assert git.init(vault, environment=own)
    (vault / inside).mkdir(parents=True, exist_ok=True)
    assert git.is_in_repository(vault / inside)
    assert not git.init(vault / inside, environment=own)
    assert [path for path in vault.rglob(".git") if path != vault / ".git"] == []


@needs_git
def test_a_work_tree_whose_repository_lies_elsewhere_counts(vault: Path, tmp_path: Path) -> None:
    (vault / ".git").write_text("gitdir: /nowhere/at/all\n")
    assert not git.init(vault, environment=environment(tmp_path / "home"))
    assert (vault / ".git").read_text() == "gitdir: /nowhere/at/all\n"


@needs_git
def test_a_folder_in_a_bare_repository_is_left_alone(tmp_path: Path) -> None:
    own = environment(tmp_path / "home")
    subprocess.run(["git", "init", "-q", "--bare", str(tmp_path / "bare")], env=own, check=True)
    (tmp_path / "bare" / "vault").mkdir()
    assert not git.init(tmp_path / "bare" / "vault", environment=own)


@needs_git
def test_a_link_into_a_work_tree_is_seen_through(vault: Path, tmp_path: Path) -> None:
    own = environment(tmp_path / "home")
    assert git.init(vault, environment=own)
    (vault / "notes").mkdir()
    (tmp_path / "link").symlink_to(vault / "notes")
    assert not git.init(tmp_path / "link", environment=own)
    assert os.listdir(vault / "notes") == []


@needs_git
@pytest.mark.parametrize("how", ["config", "variable"])
def test_no_hook_comes_along_from_a_template(vault: Path, tmp_path: Path, how: str) -> None:
    """A template with a hook runs somebody's program at the next commit."""
    template = tmp_path / "template"
    (template / "hooks").mkdir(parents=True)
    (template / "hooks" / "pre-commit").write_text("#!/bin/sh\nexit 1\n")
    own = environment(tmp_path / "home")
    if how == "config":
        (tmp_path / "home" / ".gitconfig").write_text(f"[init]\n\ttemplateDir = {template}\n")
    else:
        own["GIT_TEMPLATE_DIR"] = str(template)
    assert git.init(vault, environment=own)
    assert not (vault / ".git" / "hooks").exists()


@needs_git
def test_no_hook_of_the_user_runs(vault: Path, tmp_path: Path) -> None:
    own = environment(tmp_path / "home")
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    for name in ("reference-transaction", "post-checkout", "post-index-change"):
        (hooks / name).write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
        (hooks / name).chmod(0o755)
    (tmp_path / "home" / ".gitconfig").write_text(f"[core]\n\thooksPath = {hooks}\n")
    assert git.init(vault, environment=own)
    assert not (tmp_path / "ran").exists()


@needs_git
def test_variables_of_a_git_that_called_us_lead_nowhere_else(vault: Path, tmp_path: Path) -> None:
    """A hook of git, from which an agent may be started, has GIT_DIR and its like set."""
    other = tmp_path / "other.git"
    given = {"GIT_DIR": str(other), "GIT_WORK_TREE": str(tmp_path), "GIT_OBJECT_DIRECTORY": str(tmp_path / "objects")}
    assert git.init(vault, environment=environment(tmp_path / "home", **given))
    assert (vault / ".git" / "objects").is_dir()
    assert not other.exists()
    assert not (tmp_path / "objects").exists()


@needs_git
def test_the_branch_has_the_name_that_the_user_likes(vault: Path, tmp_path: Path) -> None:
    own = environment(tmp_path / "home")
    (tmp_path / "home" / ".gitconfig").write_text("[init]\n\tdefaultBranch = trunk\n")
    assert git.init(vault, environment=own)
    assert (vault / ".git" / "HEAD").read_text() == "ref: refs/heads/trunk\n"


def test_without_git_nothing_happens(vault: Path, tmp_path: Path, vault_bytes: Callable[[Path], Snapshot]) -> None:
    own = environment(tmp_path / "home", PATH=str(tmp_path / "empty"))
    before = vault_bytes(vault)
    assert not git.is_available(own)
    assert not git.init(vault, environment=own)
    assert vault_bytes(vault) == before


@needs_git
def test_git_is_found_where_it_is() -> None:
    assert git.is_available()


@pytest.mark.parametrize("script", ["exit 1", "exit 0", "kill -9 $$"])
def test_a_git_that_does_nothing_is_told_from_one_that_does(vault: Path, tmp_path: Path, script: str) -> None:
    own = environment(tmp_path / "home", PATH=program(tmp_path / "bin", script))
    assert not git.init(vault, environment=own)


def test_a_git_that_hangs_is_ended(vault: Path, tmp_path: Path) -> None:
    own = environment(tmp_path / "home", PATH=program(tmp_path / "bin", "exec sleep 60"))
    began = time.monotonic()
    assert not git.init(vault, environment=own, timeout_s=0.3)
    assert time.monotonic() - began < 20


def test_a_git_that_is_no_program_is_none(vault: Path, tmp_path: Path) -> None:
    own = environment(tmp_path / "home")
    own["PATH"] = program(tmp_path / "bin", "").partition(":")[0]
    (tmp_path / "bin" / "git").write_bytes(b"\x7fELF no program\n")
    assert not git.init(vault, environment=own)


@pytest.mark.parametrize("name", ["missing", "Home.md", "a\0b"])
def test_what_is_no_folder_stays_what_it_is(vault: Path, tmp_path: Path, name: str) -> None:
    assert not git.init(vault / name, environment=environment(tmp_path / "home"))
    assert sorted(os.listdir(vault)) == ["Home.md"]
