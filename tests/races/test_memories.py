"""Many processes that remember at once, and processes that die while they do."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

from process import clean_environment
from vademecum.access import OWNER
from vademecum.memory.memory import parse_memory
from workbench import Workbench

_WRITER = """
import json, sys
from vademecum import config
from vademecum.access import Caller
from vademecum.app import Vademecum
from vademecum.home import Standing

number, count, same = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "same"
app = Vademecum(config.load())
who = Standing(Caller("kestrel", (), "folder"), "kestrel", inside=False)
words = "quartz feldspar mica talc gneiss basalt slate marble granite schist".split()
print("ready", flush=True)
sys.stdin.readline()
for i in range(count):
    name = f"{words[number % 10]}{number} {words[i % 10]}{i} {words[(i // 10) % 10]}{i // 10}"
    body = f"{name} " + " ".join(f"{word}{number}x{i}" for word in words)
    done = app.memories.remember(
        {
            "title": "The same title" if same else name,
            "body": body,
            "confidence": "inferred",
            "supersedes": sys.argv[4:],
        },
        who,
        force=same,
    )
    print(json.dumps([done.memory.path, done.indexed, name]), flush=True)
"""


def write_at_once(
    vade_home: Path, *, processes: int, each: int, same: bool, corrects: str = ""
) -> list[tuple[str, bool, str]]:
    """Let so many processes begin together: what each was told of each memory."""
    import json

    env = {**clean_environment(), "VADE_HOME": str(vade_home), "HOME": str(vade_home.parent)}
    command = [sys.executable, "-c", _WRITER]
    children = [
        subprocess.Popen(
            [*command, str(n), str(each), "same" if same else "other", corrects],
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for n in range(processes)
    ]
    for child in children:
        assert child.stdout is not None and child.stdin is not None
        assert child.stdout.readline() == "ready\n"
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    told = []
    for child in children:
        out, _ = child.communicate(timeout=1500)
        assert child.returncode == 0
        told += [tuple(json.loads(line)) for line in out.splitlines()]
    return told


def files(vade_home: Path) -> list[Path]:
    return sorted((vade_home / "vault/memories").rglob("*.md"))


def leftovers(vade_home: Path) -> list[Path]:
    return [path for path in (vade_home / "vault").rglob(".vade-*") if path.suffix == ".tmp"]


def test_eight_processes_with_one_title_on_one_day_get_a_file_each(vade_home: Path) -> None:
    told = write_at_once(vade_home, processes=8, each=2, same=True)
    assert len({path for path, _, _ in told}) == 16
    assert {str(path.relative_to(vade_home / "vault")) for path in files(vade_home)} == {path for path, _, _ in told}
    assert leftovers(vade_home) == []


def test_two_processes_that_correct_one_memory_are_both_named_by_it(bench: Workbench, vade_home: Path) -> None:
    from vademecum.access import Caller
    from vademecum.home import Standing

    who = Standing(Caller("kestrel", (), "folder"), "kestrel", inside=False)
    said = {"title": "What is to be corrected", "body": "b" * 50, "confidence": "inferred"}
    old = bench.app.memories.remember(said, who).memory
    told = write_at_once(vade_home, processes=4, each=3, same=False, corrects=old.title)
    assert len({path for path, _, _ in told}) == 12
    text = (vade_home / "vault" / old.path).read_text()
    # The first correction retires it for good; a later one finds it superseded already and is added to the newest.
    assert len(parse_memory(text, path=old.path).superseded_by) == 12


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_four_thousand_memories_of_eight_processes_are_all_there_whole_and_found(vade_home: Path) -> None:
    told = write_at_once(vade_home, processes=8, each=500, same=False)
    assert len(told) == len({path for path, _, _ in told}) == len(files(vade_home)) == 4000
    assert all(indexed for _, indexed, _ in told)
    assert leftovers(vade_home) == []
    bench = Workbench(vade_home)
    try:
        found = {entry["path"]: entry for entry in bench.app.memories.list(OWNER, limit=5000)["memories"]}
        for path, _, name in told:
            memory = parse_memory((vade_home / "vault" / path).read_text(), path=path)
            assert memory.title == name
            assert memory.body.startswith(name) and found[path]["confidence"] == "inferred"
        for path, _, name in random.Random(1).sample(told, 200):
            assert path in bench.found(f'"{name}"', limit=3), name
    finally:
        bench.close()


_DYING = """
import os, random, signal, sys, time
from vademecum import config
from vademecum.access import OWNER
from vademecum.app import Vademecum
from vademecum.home import Standing

rounds, seed = int(sys.argv[1]), int(sys.argv[2])
chance = random.Random(seed)
who = Standing(OWNER, "kestrel", inside=False)
first = Vademecum(config.load())
old = first.memories.remember({"title": "Old", "body": "x" * 400}, who).memory.path
first.close()


def live(n):
    app = Vademecum(config.load())
    verb = n % 4
    if verb == 0:
        app.memories.modify("Old", {"body": f"changed {n} " + "y" * 400}, who, reason="so")
    elif verb == 1:
        app.memories.remember({"title": f"Forget {n}", "body": f"forget {n} " + f"w{n} " * 120}, who, force=True)
        app.memories.forget(f"Forget {n}", who)
    else:
        app.memories.remember({"title": f"New {n}", "body": f"new {n} " + f"z{n} " * 120}, who, force=True)


for n in range(rounds):
    pid = os.fork()
    if pid == 0:
        try:
            live(n)
        finally:
            os._exit(0)
    time.sleep(chance.random() * 0.05)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
print("done")
"""


def kill_while_writing(vade_home: Path, rounds: int, seed: int) -> None:
    env = {**clean_environment(), "VADE_HOME": str(vade_home), "HOME": str(vade_home.parent)}
    done = subprocess.run(
        [sys.executable, "-c", _DYING, str(rounds), str(seed)], env=env, capture_output=True, text=True, timeout=3000
    )
    assert done.stdout == "done\n", done.stderr[-3000:]


def check_after_kills(vade_home: Path) -> None:
    """Nothing torn, and everything that is there is found and can be worked with."""
    vault = vade_home / "vault"
    for path in [*files(vade_home), *(vault / ".trash").rglob("*.md")]:
        text = path.read_text()
        memory = parse_memory(text, path=path.name)
        assert memory.is_served and memory.title, text
        assert text.endswith("\n") and len(memory.body) >= 300, text
    bench = Workbench(vade_home)
    try:
        source = bench.app.home.source()
        assert source is not None
        bench.sync(source)
        listed = bench.app.memories.list(OWNER, limit=10_000)
        assert listed["total"] == len(files(vade_home))
        assert listed["problems"] == []
        assert len(bench.paths(source)) == len([p for p in vault.rglob("*.md") if ".trash" not in p.parts])
        again = bench.app.memories.remember({"body": "after all that, one more"}, _person())
        assert again.written and again.indexed
        assert bench.app.memories.history(again.memory.path, _person())
    finally:
        bench.close()


def _person():  # type: ignore[no-untyped-def]
    from vademecum.home import Standing

    return Standing(OWNER, "kestrel", inside=False)


def test_a_kill_leaves_no_memory_or_a_whole_one(vade_home: Path) -> None:
    kill_while_writing(vade_home, 60, seed=1)
    check_after_kills(vade_home)


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_ten_thousand_kills_tear_nothing(tmp_path: Path) -> None:
    for batch in range(50):
        home = tmp_path / f"home{batch}"
        kill_while_writing(home, 200, seed=batch)
        check_after_kills(home)
