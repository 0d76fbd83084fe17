"""The commands about the daemon and the state, as people meet them on a bad day."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from daemon_process import Launch, Served
from process import Finished, clean_environment
from vademecum import __main__
from workbench import Workbench

Vade = Callable[..., Finished]
WriteTree = Callable[..., Path]


# ── removals that were cut short


@pytest.fixture
def cut_short(bench: Workbench, write_tree: WriteTree) -> str:
    """A source whose entry is gone and whose rows are there, as a kill between the two leaves it."""
    source = bench.add(write_tree({"a.md": "pelican"}))
    bench.settings.sources_file.write_text('{"version": 1, "sources": []}\n')
    bench.close()
    return source.id


def test_the_doctor_and_the_status_tell_of_rows_that_a_killed_removal_left(cut_short: str, vade: Vade) -> None:
    done = vade("doctor", "--json")
    check = {check["name"]: check for check in done.json["checks"]}["removals"]
    assert (done.rc, check["ok"]) == (1, False)
    assert cut_short in check["detail"]
    assert vade("status", "--json").json["unlisted"] == [cut_short]
    assert cut_short in vade("status").out
    assert vade("sources", "sync").rc == 0
    done = vade("doctor", "--json")
    assert {check["name"]: check["ok"] for check in done.json["checks"]}["removals"]
    assert vade("status", "--json").json["unlisted"] == []


def test_a_list_that_is_lost_is_told_apart_from_a_removal(cut_short: str, bench: Workbench, vade: Vade) -> None:
    bench.settings.sources_file.unlink()
    check = {check["name"]: check for check in vade("doctor", "--json").json["checks"]}["removals"]
    assert not check["ok"]
    assert "sources.json" in check["remedy"]


def test_a_list_that_cannot_be_read_proves_nothing(cut_short: str, bench: Workbench, vade: Vade) -> None:
    bench.settings.sources_file.write_text("{")
    checks = {check["name"]: check["ok"] for check in vade("doctor", "--json").json["checks"]}
    assert (checks["sources"], checks["removals"]) == (False, True)


# ── words that no address can hold


@pytest.mark.parametrize("wanted", ["\udcff", "no such", "a/b", "", ".", "..", "?", "folder:0123456789abcdef"])
def test_removing_what_is_not_there_is_the_same_error_with_a_daemon(served: Served, vade: Vade, wanted: str) -> None:
    done = vade("sources", "remove", "--json", "--", wanted)
    assert (done.rc, done.json["error"]["code"]) == (3, "source_not_found")


def test_a_source_whose_name_no_address_can_hold_is_removed_by_the_daemon(
    served: Served, vade: Vade, write_tree: WriteTree
) -> None:
    served.connect(write_tree({"a.md": "pelican"}), name="a/b ? ü")
    done = vade("sources", "remove", "a/b ? ü", "--json")
    assert (done.rc, done.json["proof"]["clean"]) == (0, True)


# ── interruptions


@pytest.mark.parametrize("arguments", [["serve"], ["status"]])
@pytest.mark.parametrize("delay_s", [0.02, 0.05, 0.1, 0.2])
def test_ctrl_c_while_it_starts_shows_no_traceback(vade_home: Path, arguments: list[str], delay_s: float) -> None:
    child = subprocess.Popen(
        [sys.executable, "-P", "-m", "vademecum", *arguments],
        env={**clean_environment(), "VADE_HOME": str(vade_home), "VADE_PORT": "0", "HOME": str(vade_home.parent)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    time.sleep(delay_s)
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=60)
    # Before the first line of ours runs, the interpreter itself answers.
    assert b"vademecum/cli/" not in err
    assert b"import click" not in err


def test_an_interruption_of_the_first_import_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Interrupting:
        """A finder of modules at which somebody presses Ctrl-C."""

        def find_spec(self, name: str, path: object = None, target: object = None) -> None:
            if name == "vademecum.cli.main":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "vademecum.cli.main", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Interrupting(), *sys.meta_path])
    monkeypatch.setattr(sys, "argv", ["vade", "status"])
    assert __main__.main() == 130
    assert capsys.readouterr().err == "Interrupted.\n"


def test_a_daemon_under_nohup_lives_on(vade_home: Path, launch: Launch) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        served = launch()
    finally:
        signal.signal(signal.SIGHUP, before)
    served.child.send_signal(signal.SIGHUP)
    assert served.ask("GET", "/health")[0] == 200


# ── services


@pytest.fixture
def failing_systemctl(tmp_path: Path) -> dict[str, str]:
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "systemctl"
    program.write_text("#!/bin/sh\necho 'Failed to connect to bus' >&2\nexit 1\n")
    program.chmod(0o755)
    return {"PATH": f"{folder}:{os.environ['PATH']}"}


@pytest.mark.skipif(sys.platform == "darwin", reason="launchd has another program")
def test_a_service_that_could_not_be_started_is_no_success(failing_systemctl: dict[str, str], vade: Vade) -> None:
    done = vade("service", "install", "--json", env=failing_systemctl)
    assert done.rc == 1
    assert any("Failed to connect to bus" in sentence for sentence in done.json["done"])


@pytest.mark.skipif(sys.platform == "darwin", reason="launchd has another file")
def test_a_service_listens_where_the_one_who_installed_it_would(
    failing_systemctl: dict[str, str], vade: Vade, tmp_path: Path
) -> None:
    env = {**failing_systemctl, "VADE_PORT": "9999", "VADE_HOST": "::1", "VADE_VAULT": "~/my vault"}
    assert vade("service", "install", env=env).rc == 1
    (unit,) = (tmp_path / "home" / ".config" / "systemd" / "user").glob("*.service")
    lines = [line for line in unit.read_text().splitlines() if line.startswith("Environment=")]
    assert 'Environment="VADE_PORT=9999"' in lines
    assert 'Environment="VADE_HOST=::1"' in lines
    assert any(line.startswith('Environment="VADE_VAULT=/') and line.endswith('my vault"') for line in lines)


# ── tokens


def test_a_lost_token_comes_back(served: Served, vade: Vade) -> None:
    threading.Thread(target=served.child.wait, daemon=True).start()
    token = served.token
    (served.settings.run_dir / "token").unlink()
    assert served.ask("GET", "/api/status")[0] == 200
    assert served.token == token
