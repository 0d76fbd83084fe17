"""Other people's vaults: every file is indexed or explained, none is touched, and removal is proven.

VADE_TEST_VAULTS names a folder; each folder in it, or the `vault` folder within, is one vault. They are not part of the
repository, so these tests skip where the variable is not set.
"""

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from vademecum.access import OWNER
from vademecum.app import Vademecum
from vademecum.config import Settings
from vademecum.search import Question
from workbench import Workbench, files_on_disk, files_with, selected

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

REASONS = {
    "hidden", "excluded", "symlink", "not_read", "bad_name", "duplicate_name", "not_a_file", "empty", "binary",
    "too_large", "unreadable", "evicted", "postponed",
}  # fmt: skip


def vaults() -> list[Path]:
    named = os.environ.get("VADE_TEST_VAULTS", "")
    if not named:
        return []
    folders = [path / "vault" if (path / "vault").is_dir() else path for path in sorted(Path(named).iterdir())]
    return [folder for folder in folders if folder.is_dir()]


@pytest.fixture(params=vaults() or [None], ids=lambda vault: vault.parent.name if vault else "none")
def vault(request: pytest.FixtureRequest) -> Path:
    if request.param is None:
        pytest.skip("VADE_TEST_VAULTS names no folder with vaults")
    chosen: Path = request.param
    return chosen


def test_a_real_vault_is_indexed_or_explained_file_by_file_and_removed_with_proof(
    vault: Path, bench: Workbench, vault_bytes: Callable[[Path], object]
) -> None:
    before = vault_bytes(vault)
    source, _, report = bench.app.add("obsidian", str(vault))

    on_disk = {
        path.relative_to(vault).as_posix() for path in vault.rglob("*") if path.suffix.lower() in {".md", ".markdown"}
    }
    shown = [path for path in on_disk if not any(part.startswith(".") for part in path.split("/"))]
    indexed = bench.paths(source)
    explained = dict(bench.app.index.skipped(bench.app.index.sources()[source.id].row, limit=100_000))
    unexplained = [path for path in shown if path not in indexed and path not in explained]
    assert len(unexplained) <= report.skipped["excluded"]
    assert set(report.skipped) <= REASONS
    assert report.documents == len(indexed)
    assert report.documents + report.skipped.total() == files_on_disk(vault)
    assert bench.app.index.integrity(thorough=True) == []

    again = bench.sync(source, force=True)
    assert (again.added, again.updated, again.removed, again.unchanged) == (0, 0, 0, report.documents)

    titles = [row["title"] for row in selected(bench.settings, "select title from document order by id")]
    for title in random.Random(1).sample(titles, min(40, len(titles))):
        answer = bench.recall(title, explain=True)
        assert answer.receipt.empty_query or answer.hits, title
        for hit in answer.hits:
            lines = bench.app.read(f"{hit.source_path}:{hit.line_start}-{hit.line_end}", OWNER)
            assert lines.path == hit.path

    passages = [
        row["body"].strip().split("\n")[-1][-60:]
        for row in selected(bench.settings, "select body from chunk where length(body) > 200 order by id")[::50]
    ]
    assert files_with(bench.settings.home, *passages[:5])
    removal = bench.app.remove(source.id)
    assert removal.proof.clean, (removal.proof.residue[:3], removal.proof.problems, removal.proof.blocked_by)
    assert removal.purged.documents == report.documents
    assert files_with(bench.settings.home, *[passage for passage in passages if len(passage) > 20]) == []
    assert vault_bytes(vault) == before


def test_a_real_vault_of_a_few_hundred_notes_is_embedded_kept_through_moves_and_removed_with_its_vectors(
    vault: Path, tmp_path: Path, real_models: Callable[..., Settings]
) -> None:
    if sum(1 for _ in vault.rglob("*.md")) > 1_000:
        pytest.skip("embedding a vault of this size takes an hour")
    copy = Path(shutil.copytree(vault, tmp_path / "copy"))
    app = Vademecum(real_models())
    source, _, _ = app.add("obsidian", str(copy))
    made = app.embed(budget_s=None)
    assert (made.state, made.pending, made.refused) == ("done", 0, 0)
    stretches = [row["e"][600:640] for row in selected(app.settings, "select embedding as e from vector limit 200")]

    folder = next(path for path in sorted(copy.iterdir()) if path.is_dir() and not path.name.startswith("."))
    folder.rename(copy / "Moved elsewhere")
    moved = app.sync(source)
    assert moved.added == moved.removed > 0
    assert app.embed(budget_s=None).embedded == 0

    for row in selected(app.settings, "select title from document where removed_at is null order by id limit 20"):
        answer = app.recall(Question(row["title"], limit=3), OWNER)
        assert answer.receipt.empty_query or row["title"] in [hit.title for hit in answer.hits], row["title"]
    removal = app.remove(source.id)
    assert removal.proof.clean, removal.proof
    assert removal.purged.vectors == made.have
    assert files_with(app.settings.home, *stretches) == []
    app.close()
