"""Several processes on one state folder: nobody dies, nothing is lost, and nothing is left that should be gone."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from process import Finished

Vade = Callable[..., Finished]
WriteTree = Callable[..., Path]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_adding_syncing_and_removing_side_by_side_kills_nobody(vade: Vade, write_tree: WriteTree) -> None:
    """A proof that maps a file which another process cuts short dies of a bus error: here it has to survive."""
    roots = [
        write_tree({f"{n}/{i}.md": f"# {n} {i}\n\nwombat number {n}" for i in range(80)}) / str(n) for n in range(3)
    ]
    failed: list[Finished] = []

    def cycle(root: Path) -> None:
        name = f"side {root.name}"
        for _ in range(8):
            for words in (
                ["add", "folder", str(root), "--name", name],
                ["sync", name, "--force"],
                ["remove", name, "--json"],
            ):
                done = vade("sources", *words)
                blocked = words[0] == "remove" and done.rc == 1 and done.json["proof"]["blocked_by"]
                if done.rc != 0 and not blocked:
                    failed.append(done)

    threads = [threading.Thread(target=cycle, args=(root,)) for root in roots]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        asked = vade("recall", "wombat", "--json")
        if asked.rc != 0:
            failed.append(asked)
    assert failed == []
    vade("sources", "sync")
    assert vade("doctor").rc == 0
    assert vade("recall", "wombat", "--json").json["hits"] == []
