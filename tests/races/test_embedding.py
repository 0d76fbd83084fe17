"""Embedding is killed, interrupted, and started twice: words answer all the while, and nothing is mixed or lost."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from process import NOBODY, Finished, clean_environment, run_vade
from workbench import Workbench, selected

Vade = Callable[..., Finished]
WriteTree = Callable[..., Path]

NOTES = 180
CHOICE = '[embedding]\nmodel = "hashing"\n'


def vault(write_tree: WriteTree) -> Path:
    """Notes long enough that embedding them all takes a second or two."""
    return write_tree({f"{i}.md": f"# N{i}\n\n" + f"wombat number {i} digs a burrow here. " * 60 for i in range(NOTES)})


def configured(home: Path) -> Path:
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text(CHOICE)
    return home


def start(home: Path, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "vademecum", "--as-owner", *map(str, arguments)],
        env={**clean_environment(), "VADE_HOME": str(home), "HOME": str(home.parent)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def embedded(bench: Workbench) -> int:
    if not bench.settings.index_file.exists():
        return 0
    try:
        return int(selected(bench.settings, "select count(*) n from vector")[0]["n"])
    except apsw.Error:  # the tables are being made at this moment
        return 0


def wait_for(condition: Callable[[], bool], timeout_s: float = 40) -> None:
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.01)


@pytest.fixture
def reader(vade_home: Path) -> Iterator[Workbench]:
    made = Workbench(configured(vade_home), embedding_model="hashing")
    yield made
    made.close()


def sound(bench: Workbench) -> None:
    """Every vector belongs to a text that is said, once, and SQLite finds nothing wrong."""
    rows = selected(
        bench.settings,
        "select (select count(*) from vector) vectors, (select count(distinct content) from vector) contents,"
        " (select count(*) from content) said, (select count(*) from model) models,"
        " (select sum(added - removed) from model) counted",
    )[0]
    assert rows["vectors"] == rows["contents"] == rows["counted"]
    assert rows["vectors"] <= rows["said"]
    assert bench.app.index.integrity(thorough=True) == []


def test_a_killed_run_leaves_words_and_all_that_was_finished(reader: Workbench, write_tree: WriteTree) -> None:
    root = vault(write_tree)
    source = reader.add(root)
    child = start(reader.settings.home, "sources", "sync", source.id, "--wait")
    wait_for(lambda: embedded(reader) >= 20)
    child.kill()
    child.communicate()
    done = embedded(reader)
    total = selected(reader.settings, "select count(*) n from content")[0]["n"]
    assert 20 <= done < total
    answer = reader.recall("wombat number 7")
    assert answer.hits
    meaning = answer.receipt.lanes["meaning"]
    assert (meaning.state, meaning.reason) == (
        "degraded", f"{total - done:,} of {total:,} texts are not embedded yet",
    )  # fmt: skip
    sound(reader)
    report = reader.embed()
    assert (report.embedded, report.have, report.pending) == (total - done, total, 0)
    sound(reader)


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_add_keeps_what_was_finished_and_the_next_run_goes_on(
    vade: Vade, reader: Workbench, write_tree: WriteTree, stop: signal.Signals
) -> None:
    child = start(reader.settings.home, "sources", "add", "folder", vault(write_tree), "--wait")
    wait_for(lambda: embedded(reader) >= 20)
    child.send_signal(stop)
    _, err = child.communicate(timeout=30)
    assert child.returncode == (130 if stop == signal.SIGINT else -stop)
    assert "Traceback" not in err
    done = embedded(reader)
    assert done >= 20
    asked = vade("recall", "wombat", "--json").json
    assert asked["hits"]
    assert asked["receipt"]["vectors"]["have"] == done
    rest = vade("sources", "sync", "--wait", "--json").json["vectors"]
    assert (rest["state"], rest["pending"]) == ("done", 0)
    assert rest["embedded"] + done == rest["have"]
    sound(reader)


def test_of_two_runs_at_once_one_waits_or_says_so_and_no_text_is_embedded_twice(
    reader: Workbench, write_tree: WriteTree
) -> None:
    reader.add(vault(write_tree))
    home = reader.settings.home
    both = [start(home, "sources", "sync", "--wait", "--json") for _ in range(2)]
    wait_for(lambda: embedded(reader) > 0)
    hasty = start(home, "sources", "sync", "--json")
    outs: list[Any] = []
    for child in (*both, hasty):
        out, err = child.communicate(timeout=60)
        assert child.returncode == 0, err
        outs.append(Finished((), 0, out, err).json["vectors"])
    total = selected(reader.settings, "select count(*) n from content")[0]["n"]
    assert sum(out["embedded"] for out in outs) == total
    assert [out["have"] for out in outs[:2]] == [total, total]
    assert outs[2]["state"] in {"busy", "done", "partial"}
    assert embedded(reader) == total
    sound(reader)


def test_questions_and_syncs_beside_a_run_answer_and_disturb_nothing(
    vade: Vade, reader: Workbench, write_tree: WriteTree
) -> None:
    root = vault(write_tree)
    source = reader.add(root)
    child = start(reader.settings.home, "sources", "sync", "--wait")
    wait_for(lambda: embedded(reader) > 0)
    for i in range(6):
        (root / f"{i}.md").write_text(f"# N{i}\n\nquokka instead, number {i}")
        (root / f"{100 + i}.md").unlink()
        reader.sync(source)
        assert reader.recall("quokka instead").hits
        assert reader.recall("burrows", lane="meaning").hits
    _, err = child.communicate(timeout=60)
    assert (child.returncode, err) == (0, "")
    reader.embed()
    sound(reader)
    assert reader.app.index.vectors.sets()[0].missing == 0


def test_a_model_change_killed_in_the_middle_answers_from_the_old_set_and_goes_on(
    reader: Workbench, write_tree: WriteTree
) -> None:
    from embedder import fill, open_set

    reader.add(vault(write_tree))
    index = reader.app.index
    fill(index, open_set(index, "fake"))  # an older model, which answers
    total = index.vectors.sets()[0].have
    child = start(reader.settings.home, "sources", "sync", "--wait")
    wait_for(lambda: embedded(reader) >= total + 20)
    child.kill()
    child.communicate()
    old, new = index.vectors.sets()
    assert (old.name, bool(old.answers), old.have) == ("fake", True, total)
    assert (new.name, bool(new.answers)) == ("hashing", False)
    assert 20 <= new.have < total
    answer = reader.recall("wombat")
    assert answer.hits
    assert answer.receipt.lanes["meaning"].state == "degraded"  # nobody can open the older model any more
    report = reader.embed()
    assert report.embedded == total - new.have
    assert [(s.name, bool(s.answers), s.have) for s in index.vectors.sets()] == [("hashing", True, total)]
    sound(reader)


def test_a_state_that_cannot_be_written_still_answers_by_meaning(public_tmp: Path) -> None:
    home = public_tmp / "home"
    bench = Workbench(configured(home), embedding_model="hashing")
    root = public_tmp / "vault"
    root.mkdir()
    (root / "a.md").write_text("The wombat digs burrows.")
    (root / "b.md").write_text("Trains are late.")
    bench.add(root)
    bench.embed()
    bench.close()
    (home / "config.toml").write_text(CHOICE)
    for path in (public_tmp, root, home, *home.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    nobody_home = public_tmp / "nobody"
    nobody_home.mkdir(mode=0o755)
    for backend in ("numpy", "sqlite-vec"):
        (home / "config.toml").write_text(f'{CHOICE}[index]\nvectors = "{backend}"\n')
        (home / "config.toml").chmod(0o644)
        done = run_vade("--as-owner", "recall", "wombatish", "--json", vade_home=home, home=nobody_home, as_user=NOBODY)
        assert done.rc == 0, done
        assert [hit["path"] for hit in done.json["hits"]] == ["a.md", "b.md"]
        assert done.json["receipt"]["lanes"]["meaning"]["state"] == "ok"
        refused = run_vade("--as-owner", "sources", "sync", vade_home=home, home=nobody_home, as_user=NOBODY)
        assert refused.rc == 4
