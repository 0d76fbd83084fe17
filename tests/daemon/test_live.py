"""While the daemon runs, what is saved is findable soon, by whatever way it was saved, and nothing piles up."""

import http.client
import json
import os
import shutil
import statistics
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from daemon_process import Configure, Launch, Served, wait_until
from process import Finished
from workbench import counts, live_documents, settle

Vade = Callable[..., Finished]
WriteTree = Callable[..., Path]


class Listener:
    """Every job that the daemon tells of, by id, each as it was told last."""

    def __init__(self, served: Served) -> None:
        self.jobs: dict[str, dict[str, Any]] = {}
        self._channel = http.client.HTTPConnection("127.0.0.1", served.running.port, timeout=60)
        self._channel.request("GET", "/api/events", headers={"Authorization": f"Bearer {served.token}"})
        self._answer = self._channel.getresponse()
        assert self._answer.readline() == b": listening\n"
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def ended(self) -> set[str]:
        return {name for name, job in list(self.jobs.items()) if job["finished_at"] is not None}

    def close(self) -> None:
        """Wait for the end of the stream, which comes with the daemon's."""
        self._thread.join(30)
        self._channel.close()

    def _listen(self) -> None:
        kind = b""
        try:
            while line := self._answer.readline():
                if line.startswith(b"event: "):
                    kind = line.removeprefix(b"event: ").strip()
                elif line.startswith(b"data: ") and kind == b"job":
                    job = json.loads(line.removeprefix(b"data: "))
                    self.jobs[job["id"]] = job
        except (OSError, ValueError, http.client.HTTPException):
            pass  # the daemon was killed


@pytest.fixture
def listen() -> Iterator[Callable[[Served], Listener]]:
    """Listen to a daemon; it is ended before the listener is."""
    begun: list[tuple[Served, Listener]] = []

    def start(served: Served) -> Listener:
        begun.append((served, Listener(served)))
        return begun[-1][1]

    yield start
    for served, listener in begun:
        if served.child.poll() is None:
            served.end()
        listener.close()


def wait_found(served: Served, words: str, *paths: str) -> None:
    wait_until(lambda: served.found(words) == list(paths))


def paths(served: Served) -> set[str]:
    return {row["path"] for row in live_documents(served.settings)}


def figure(served: Served, name: str) -> float:
    """One of the daemon's own figures."""
    text = served.ask("GET", "/metrics")[1]
    return next(float(line.split()[1]) for line in text.splitlines() if line.startswith(name + " "))


def source_of(served: Served, source_id: str) -> dict[str, Any]:
    found: dict[str, Any] = served.ask("GET", f"/api/sources/{source_id}")[1]["source"]
    return found


def sync(served: Served, source_id: str, **how: bool) -> dict[str, Any]:
    """Ask for a sync, and wait for its end."""
    status, answer = served.ask("POST", f"/api/sources/{source_id}/sync", how)
    assert status == 202, answer
    return served.job_ended(answer["job"])


# ── saving


def test_a_saved_note_is_findable_and_a_changed_one_answers_with_its_new_words_alone(
    served: Served, write_tree: WriteTree
) -> None:
    root = write_tree({"a.md": "pelican"})
    served.connect(root)
    (root / "b.md").write_text("heron")
    wait_found(served, "heron", "b.md")
    (root / "a.md").write_text("stork")
    wait_found(served, "stork", "a.md")
    assert served.found("pelican") == []
    (root / "b.md").unlink()
    wait_until(lambda: paths(served) == {"a.md"})
    assert served.found("heron") == []


def in_place(note: Path, text: str) -> None:
    note.write_text(text)


def replaced(note: Path, text: str) -> None:
    (note.parent / ".n.md.tmp").write_text(text)
    os.replace(note.parent / ".n.md.tmp", note)


def as_vim_does(note: Path, text: str) -> None:
    (note.parent / "4913").write_text("")
    (note.parent / "4913").unlink()
    note.rename(note.parent / "n.md~")
    note.write_text(text)
    (note.parent / "n.md~").unlink()


def deleted_and_made_anew(note: Path, text: str) -> None:
    note.unlink()
    settle(0.05)
    note.write_text(text)


def by_another_ending(note: Path, text: str) -> None:
    (note.parent / "n.saving").write_text(text)
    (note.parent / "n.saving").rename(note)


@pytest.mark.parametrize("save", [in_place, replaced, as_vim_does, deleted_and_made_anew, by_another_ending])
def test_c16_however_a_note_is_saved_it_is_one_note_with_its_new_words(
    served: Served, write_tree: WriteTree, save: Callable[[Path, str], None]
) -> None:
    root = write_tree({"n.md": "pelican"})
    served.connect(root)
    for word in ("heron", "stork"):
        save(root / "n.md", f"# n\n{word}")
        wait_found(served, word, "n.md")
    assert paths(served) == {"n.md"}
    assert served.found("pelican heron") == []


def test_a_thousand_notes_changed_at_once_cost_at_most_two_syncs_after_the_burst(
    configure: Configure, launch: Launch, listen: Callable[[Served], Listener], write_tree: WriteTree
) -> None:
    configure({"daemon.reconcile_s": 3600.0})
    served = launch()
    root = write_tree({f"n{i}.md": f"pelican {i}" for i in range(1000)})
    listener = listen(served)
    served.connect(root)
    for i in range(1000):
        (root / f"n{i}.md").write_text(f"heron {i}")
    before = set(listener.jobs)
    wait_until(lambda: counts(served.settings)["document"] == 1000 and len(changed_texts(served)) == 1000)
    settle()
    assert len(set(listener.jobs) - before) <= 2
    assert served.found("pelican") == []


def changed_texts(served: Served) -> list[str]:
    return [row["path"] for row in live_documents(served.settings) if row["size"] == len(f"heron {row['path'][1:-3]}")]


def test_a_folder_that_appears_with_its_notes_is_indexed_whole(
    served: Served, write_tree: WriteTree, tmp_path: Path
) -> None:
    root = write_tree({"a.md": "pelican"})
    served.connect(root)
    write_tree({f"made/deep/{i}/n.md": f"heron {i}" for i in range(30)}, root)
    elsewhere = write_tree({f"in/{i}.md": f"stork {i}" for i in range(30)}, tmp_path / "elsewhere")
    (elsewhere / "in").rename(root / "moved")
    wait_until(lambda: len(paths(served)) == 61)
    (root / "made" / "deep" / "7" / "n.md").write_text("wombat")
    wait_found(served, "wombat", "made/deep/7/n.md")
    shutil.rmtree(root / "made")
    wait_until(lambda: len(paths(served)) == 31)


# ── which sources


def test_a_source_that_the_command_adds_is_watched(served: Served, vade: Vade, write_tree: WriteTree) -> None:
    root = write_tree({"a.md": "pelican"})
    assert vade("sources", "add", "folder", root).rc == 0
    wait_until(lambda: served.ask("GET", "/api/sources")[1]["sources"] != [])
    assert served.found("pelican") == ["a.md"]
    (root / "b.md").write_text("heron")
    wait_found(served, "heron", "b.md")


def test_a_source_that_the_command_removes_is_watched_no_more(
    served: Served, vade: Vade, write_tree: WriteTree
) -> None:
    root = write_tree({"a.md": "pelican"})
    source_id = served.connect(root)
    assert vade("sources", "remove", source_id).rc == 0
    (root / "b.md").write_text("heron")
    wait_until(lambda: served.ask("GET", "/api/status")[1]["sources"] == [])
    settle()
    assert counts(served.settings)["document"] == 0


def test_a_disabled_source_is_not_scanned_until_it_is_enabled(served: Served, write_tree: WriteTree) -> None:
    root = write_tree({"a.md": "pelican"})
    source_id = served.connect(root)
    assert served.ask("PATCH", f"/api/sources/{source_id}", {"enabled": False})[0] == 200
    (root / "b.md").write_text("heron")
    settle()
    assert paths(served) == {"a.md"}
    assert served.found("pelican") == []
    assert served.ask("POST", f"/api/sources/{source_id}/sync")[0] == 409
    assert served.ask("PATCH", f"/api/sources/{source_id}", {"enabled": True})[0] == 200
    wait_found(served, "heron", "b.md")


def test_a_source_switched_off_and_on_while_it_is_first_indexed_is_indexed_whole(
    served: Served, write_tree: WriteTree
) -> None:
    root = write_tree({f"n{i}.md": f"pelican {i}" for i in range(2000)})
    _, answer = served.ask("POST", "/api/sources/folder", {"path": str(root)})
    source_id = answer["source"]["id"]
    for enabled in (False, True, False, True):
        assert served.ask("PATCH", f"/api/sources/{source_id}", {"enabled": enabled})[0] == 200
    wait_until(lambda: served.ask("GET", "/metrics")[1].count("vade_jobs 0") == 1)
    assert source_of(served, source_id)["documents"] == 2000


def test_a_source_connected_again_while_another_is_indexed_before_it_is_indexed_too(
    served: Served, write_tree: WriteTree, tmp_path: Path
) -> None:
    """The job that a removal cancelled before it began must not be taken for the one of the new connection."""
    large = write_tree({f"n{i}.md": f"pelican {i}" for i in range(3000)})
    small = write_tree({"a.md": "heron"}, tmp_path / "small")
    served.ask("POST", "/api/sources/folder", {"path": str(large)})
    _, first = served.ask("POST", "/api/sources/folder", {"path": str(small)})
    assert served.ask("DELETE", f"/api/sources/{first['source']['id']}")[0] == 200
    _, again = served.ask("POST", "/api/sources/folder", {"path": str(small)})
    assert again["created"] is True
    assert served.job_ended(again["job"])["status"] == "complete"
    assert served.found("heron") == ["a.md"]


# ── what nobody asked for


def test_c02_a_loss_is_believed_only_when_somebody_asks_twice(
    configure: Configure, launch: Launch, listen: Callable[[Served], Listener], write_tree: WriteTree
) -> None:
    configure({"daemon.reconcile_s": 1.0})
    served = launch()
    root = write_tree({f"n{i}.md": f"pelican number{i}" for i in range(25)})
    listener = listen(served)
    source_id = served.connect(root)
    for i in range(1, 25):
        (root / f"n{i}.md").unlink()
    wait_until(lambda: any("gone at once" in line for line in source_of(served, source_id)["diagnostics"]))
    before = listener.ended()
    wait_until(lambda: len(listener.ended() - before) >= 4)
    assert len(paths(served)) == 25
    assert source_of(served, source_id)["state"] == "degraded"
    assert sync(served, source_id)["report"]["held"] is True
    before = listener.ended()
    wait_until(lambda: len(listener.ended() - before) >= 2)
    assert len(paths(served)) == 25
    assert sync(served, source_id)["report"]["removed"] == 24
    assert paths(served) == {"n0.md"}


def test_c02_who_meant_a_loss_says_so_and_is_believed_at_once(
    configure: Configure, launch: Launch, write_tree: WriteTree
) -> None:
    configure({"daemon.reconcile_s": 1.0})
    served = launch()
    root = write_tree({f"n{i}.md": "pelican" for i in range(25)})
    source_id = served.connect(root)
    shutil.rmtree(root)
    root.mkdir()
    wait_until(lambda: any("gone at once" in line for line in source_of(served, source_id)["diagnostics"]))
    assert len(paths(served)) == 25
    assert sync(served, source_id, accept_loss=True)["report"]["removed"] == 25
    assert paths(served) == set()


def test_a_clock_that_jumps_delays_nothing(configure: Configure, launch: Launch, write_tree: WriteTree) -> None:
    configure({"daemon.reconcile_s": 1.0})
    jumping = write_tree({"sitecustomize.py": JUMPING, "offset": "0"}, configured_folder(write_tree))
    served = launch(PYTHONPATH=str(jumping), CLOCK_OFFSET=str(jumping / "offset"))
    root = write_tree({"a.md": "pelican"})
    source_id = served.connect(root)
    for word, years in {"heron": 10, "stork": -10, "wombat": 0}.items():
        (jumping / "offset").write_text(str(years * 365 * 86400))
        last = source_of(served, source_id)["job"]["id"]
        (root / "a.md").write_text(word)
        wait_found(served, word, "a.md")
        newest = source_of(served, source_id)["job"]["id"]
        wait_until(lambda old=(last, newest): source_of(served, source_id)["job"]["id"] not in old)  # type: ignore[misc]
    assert 0 <= served.ask("GET", "/api/status")[1]["uptime_s"] < 3600
    assert served.end() == 0


JUMPING = """
import os, time
from pathlib import Path

def jumping(real, unit):
    return lambda: real() + type(real())(float(Path(os.environ["CLOCK_OFFSET"]).read_text() or 0) * unit)

time.time, time.time_ns = jumping(time.time, 1), jumping(time.time_ns, 10**9)
"""


def configured_folder(write_tree: WriteTree) -> Path:
    return write_tree({}).parent / "clock"


@pytest.mark.parametrize("when", [0, 86_400, 4_102_444_800])
def test_a_note_from_another_time_is_found(served: Served, write_tree: WriteTree, when: int) -> None:
    root = write_tree({"a.md": "pelican"})
    served.connect(root)
    (root / "b.md").write_text("heron")
    os.utime(root / "b.md", (when, when))
    wait_found(served, "heron", "b.md")


# ── settings


def test_a_setting_that_changes_holds_from_the_next_sync(
    served: Served, configure: Configure, write_tree: WriteTree
) -> None:
    root = write_tree({"a.md": "pelican", "b.md": "heron " * 100})
    source_id = served.connect(root)
    configure({"sources.max_file_bytes": 100, "recall.limit": 1})
    report = sync(served, source_id, force=True)["report"]
    assert report["skipped"] == {"count": 1, "by_reason": {"too_large": 1}}
    assert paths(served) == {"a.md"}
    (root / "c.md").write_text("pelican too")
    wait_until(lambda: paths(served) == {"a.md", "c.md"})
    assert len(served.found("pelican")) == 1


def test_another_model_is_followed_without_a_new_note(
    served: Served, configure: Configure, write_tree: WriteTree
) -> None:
    configure({"embedding.model": "none"})
    source_id = served.connect(write_tree({"a.md": "pelican"}))
    assert counts(served.settings)["vector"] == 0
    configure({"embedding.model": "hashing"})
    sync(served, source_id)
    wait_until(lambda: counts(served.settings)["vector"] == 1)
    wait_until(lambda: served.ask("GET", "/api/status")[1]["vectors"] == {"model": "hashing", "have": 1, "pending": 0})


def test_settings_that_cannot_be_read_change_nothing_and_are_told_of(served: Served, write_tree: WriteTree) -> None:
    root = write_tree({"a.md": "pelican"})
    source_id = served.connect(root)
    served.settings.config_file.write_text("no [ toml")
    (root / "b.md").write_text("heron")
    wait_found(served, "heron", "b.md")
    assert any("config.toml" in remark for remark in served.ask("GET", "/api/status")[1]["remarks"])
    served.settings.config_file.write_text("[sources]\nmax_file_bytes = 6\n")
    assert sync(served, source_id, force=True)["report"]["skipped"]["count"] == 1


# ── a long life


def saves(served: Served, root: Path, *, bursts: int, notes: int) -> Iterator[dict[str, float]]:
    """Save so many notes at once, again and again, each time until they are found: the daemon's figures each time."""
    for burst in range(bursts):
        for i in range(notes):
            (root / f"n{i}.md").write_text(f"# Note {i}\n\nburst{burst} of saves\n")
        wait_until(lambda word=f"burst{burst}": len(served.found(word)) == min(notes, 10))  # type: ignore[misc]
        wait_until(lambda: figure(served, "vade_jobs") == 0)
        names = ("process_open_fds", "process_threads", "process_resident_memory_bytes")
        yield {name: figure(served, name) for name in names}


def test_three_hundred_saves_leave_descriptors_and_threads_as_they_were(
    configure: Configure, launch: Launch, write_tree: WriteTree
) -> None:
    configure({"embedding.model": "hashing"})
    served = launch()
    root = write_tree({f"n{i}.md": "a note" for i in range(15)})
    served.connect(root)
    after = list(saves(served, root, bursts=20, notes=15))
    for name in ("process_open_fds", "process_threads"):
        assert after[-1][name] <= after[1][name] + 2, [figures[name] for figures in after]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_ten_thousand_saves_leave_descriptors_threads_and_memory_as_they_were(
    configure: Configure, launch: Launch, write_tree: WriteTree
) -> None:
    configure({"embedding.model": "hashing"})
    served = launch()
    root = write_tree({f"n{i}.md": "a note" for i in range(50)})
    served.connect(root)
    after = list(saves(served, root, bursts=200, notes=50))
    for name in ("process_open_fds", "process_threads"):
        assert after[-1][name] <= after[10][name] + 2, [figures[name] for figures in after]
    resident = [figures["process_resident_memory_bytes"] for figures in after]
    grown = statistics.median(resident[150:]) - statistics.median(resident[50:100])
    assert grown < 8 << 20, [round(number / 1e6) for number in resident[::10]]
