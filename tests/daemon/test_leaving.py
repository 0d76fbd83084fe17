"""Uninstalling deletes what this program wrote, in a folder that is proven to be its own, and nothing else."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from daemon_process import Configure
from process import Finished
from workbench import Workbench

Vade = Callable[..., Finished]
WriteTree = Callable[..., Path]
Snapshot = Callable[[Path], object]

STRANGER = {
    "models/mine/weights.bin": "w",
    "models/model.onnx": "w",
    "logs/app.log": "l",
    "logs/access.log.1": "l",
    "run/app.pid": "1",
    "run/eval-notes/a.txt": "x",
    "quarantine/sample.exe": "x",
    "audit/2026.csv": "x",
    "index-of-books.txt": "x",
    "essay.tmp-draft": "x",
}


@pytest.mark.parametrize(
    "proof",
    [
        {},
        {"config.toml": "[server]\nport = 1\n"},
        {"config.toml": "# nothing\n"},
        {"sources.json": '{"packages": []}'},
        {"sources.json": "[]", "config.toml": "", "index-1.db": "no database"},
    ],
)
def test_a_folder_that_nothing_proves_to_be_a_state_is_left_as_it_is(
    vade: Vade, vade_home: Path, write_tree: WriteTree, vault_bytes: Snapshot, proof: dict[str, str]
) -> None:
    write_tree({**STRANGER, **proof}, vade_home)
    before = vault_bytes(vade_home)
    done = vade("uninstall", "--yes", "--json")
    assert (done.rc, done.json["error"]["code"]) == (2, "usage")
    assert "VADE_HOME" in done.json["error"]["hint"]
    assert vault_bytes(vade_home) == before


@pytest.mark.parametrize(
    "proof",
    [
        {"config.toml": "[recall]\nlimit = 5\n"},
        {"sources.json": '{"version": 1, "sources": []}'},
        {"run/daemon.lock": ""},
        {"index-7.db": b"SQLite format 3\0" + bytes(84)},
    ],
)
def test_each_of_the_distinctive_files_proves_a_state_and_goes(
    vade: Vade, vade_home: Path, write_tree: WriteTree, proof: dict[str, str | bytes]
) -> None:
    write_tree(proof, vade_home)
    done = vade("uninstall", "--yes")
    assert done.rc == 0, done
    assert not vade_home.exists()


def test_what_others_put_into_a_state_is_left_and_named(
    bench: Workbench, vade: Vade, vade_home: Path, write_tree: WriteTree
) -> None:
    bench.add(write_tree({"a.md": "words"}))
    bench.close()
    ours = {
        "models/bge-small-en-v1.5/model.onnx": "m",
        "models/bge-small-en-v1.5/tokenizer.json": "t",
        "models/bge-small-en-v1.5/.pull-0123abcd/model.onnx": "m",
        "logs/daemon.log": "l",
        "logs/daemon.log.2": "l",
        "logs/daemon.out": "l",
        "logs/crash.log": "l",
        "run/token": "t",
        "run/token.lock": "",
        "run/eval-12-0123abcd/index-1.db": "x",
        "quarantine/index-1-0123abcd.db": "x",
        "config.toml.tmp-1-0123abcd": "x",
    }
    others = {**STRANGER, "models/bge-small-en-v1.5/notes.txt": "x", "vault/m.md": "memory"}
    write_tree({**ours, **others}, vade_home)
    done = vade("uninstall", "--yes")
    assert done.rc == 0, done
    left = {path.relative_to(vade_home).as_posix() for path in vade_home.rglob("*") if path.is_file()}
    assert left == set(others)
    assert f"Left: the home vault {vade_home / 'vault'}" in done.out
    for name in ("logs/app.log", "models/mine", "models/bge-small-en-v1.5/notes.txt", "audit", "run/eval-notes"):
        assert f"Left: {vade_home / name}\n" in done.out


def test_links_are_not_followed(vade: Vade, vade_home: Path, write_tree: WriteTree, tmp_path: Path) -> None:
    elsewhere = write_tree({"crash.log": "x", "daemon.log": "x", "config.toml": "x"}, tmp_path / "elsewhere")
    write_tree({"sources.json": '{"version": 1, "sources": []}'}, vade_home)
    (vade_home / "logs").symlink_to(elsewhere)
    (vade_home / "config.toml").symlink_to(elsewhere / "config.toml")
    done = vade("uninstall", "--yes")
    assert done.rc == 0, done
    assert sorted(path.name for path in elsewhere.iterdir()) == ["config.toml", "crash.log", "daemon.log"]
    assert [path.name for path in vade_home.iterdir()] == ["logs"]


def test_a_home_vault_elsewhere_is_left_and_named(
    vade: Vade, configure: Configure, write_tree: WriteTree, vade_home: Path
) -> None:
    vault = write_tree({"memories/a.md": "memory"})
    configure({"vault.path": str(vault)})
    done = vade("uninstall", "--yes", "--json")
    assert any(str(vault) in sentence for sentence in done.json["done"] if sentence.startswith("Left:"))
    assert (vault / "memories" / "a.md").exists()
    assert not vade_home.exists()


@pytest.mark.parametrize("place", ["logs", "models/bge-small-en-v1.5", "."])
def test_a_home_vault_in_the_place_of_our_own_folders_loses_nothing(
    vade: Vade, configure: Configure, write_tree: WriteTree, vade_home: Path, place: str
) -> None:
    write_tree({f"{place}/crash.log": "a note", f"{place}/model.onnx": "another"}, vade_home)
    configure({"vault.path": str((vade_home / place).resolve())})
    vade("uninstall", "--yes")
    assert {path.name for path in (vade_home / place).iterdir()} >= {"crash.log", "model.onnx"}


# ── settings that cannot be read


@pytest.mark.parametrize("content", ["[recall\n", "[nobody]\nknows = 1\n", "[daemon]\nport = 'x'\n"])
def test_a_broken_config_leaves_a_way_out(
    vade: Vade, vade_home: Path, write_tree: WriteTree, bench: Workbench, content: str
) -> None:
    bench.add(write_tree({"a.md": "words"}))
    bench.close()
    (vade_home / "config.toml").write_text(content)
    for command in (["status"], ["stop"], ["logs"], ["service", "uninstall"], ["uninstall", "--yes"]):
        done = vade(*command)
        assert done.rc == 0, done
        assert "defaults" in done.err
    assert not vade_home.exists()


def test_a_daemon_is_stopped_though_its_config_was_broken_meanwhile(
    launch: Callable[..., object], vade: Vade, vade_home: Path
) -> None:
    served = launch()
    (vade_home / "config.toml").write_text("[")
    import threading

    threading.Thread(target=served.child.wait, daemon=True).start()  # type: ignore[attr-defined]
    assert vade("status", "--json").json["daemon"]["pid"] == served.child.pid  # type: ignore[attr-defined]
    assert json.loads(vade("stop", "--json").out)["stopped"] is True


def test_an_empty_home_is_not_the_root_of_the_file_system(vade: Vade) -> None:
    before = Path("/.config").exists()
    done = vade("service", "install", "--json", env={"HOME": ""})
    assert (done.rc, done.json["error"]["code"]) == (4, "state_unusable")
    for name in ("", "~/state"):
        done = vade("status", "--json", env={"HOME": "", "VADE_HOME": name})
        assert (done.rc, done.json["error"]["code"]) == (1, "bad_config")
    assert Path("/.config").exists() is before
