"""When sources are signalled: real files and real events; only clock, chance and refusals are made up."""

import errno
import os
import shutil
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from process import NOBODY, clean_environment
from vademecum.sources import Registry, Source
from vademecum.sources.notify import TreeEvents
from vademecum.sources.watch import Watch, Why
from workbench import settings_at

WriteTree = Callable[..., Path]
IN_TIME_S = 20.0
NEVER_S = 3600.0
QUICK = {
    "reconcile_s": NEVER_S,
    "quiet_s": 0.05,
    "longest_s": 1.0,
    "poll_s": 0.2,
    "again_s": 0.05,
    "chance": lambda: 0.0,
}
TESTS = Path(__file__).parents[1]


class Listener:
    """Notes what is signalled, and when."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, Why, float]] = []
        self.raises: set[str] = set()
        self._news = threading.Condition()

    def __call__(self, source_id: str, why: Why) -> None:
        with self._news:
            self.heard.append((source_id, why, time.monotonic()))
            self._news.notify_all()
        if source_id in self.raises:
            raise RuntimeError("the listener has a fault")

    def count(self, source: Source, why: Why = "changed") -> int:
        return sum(1 for heard in list(self.heard) if heard[:2] == (source.id, why))

    def until(self, promised: Callable[[], bool], within_s: float = IN_TIME_S) -> None:
        """Wait for a condition; looked at with every signal, and now and then for what no signal tells."""
        deadline = time.monotonic() + within_s
        with self._news:
            while not promised():
                assert time.monotonic() < deadline, f"not in {within_s} s; heard {self.heard}"
                self._news.wait(0.02)

    def after(self, moment: float, source: Source, why: Why = "changed") -> None:
        """Wait for a signal that came after a moment."""
        self.until(lambda: any(h[:2] == (source.id, why) and h[2] > moment for h in list(self.heard)))


class Bench:
    """A list of sources, those who watch them, and a second source that shows that time has passed."""

    def __init__(self, home: Path, fence: Path) -> None:
        self.registry = Registry(settings_at(home))
        self.list_file = home / "sources.json"
        self.listener = Listener()
        self._watches: list[Watch] = []
        self._fence_root = fence

    def add(self, root: Path, kind: str = "obsidian", **options: Any) -> Source:
        root.mkdir(exist_ok=True)
        return self.registry.add(kind, str(root), **options)[0]

    def watch(self, *awaited: Source, **options: Any) -> Watch:
        """Start to watch, and wait until these sources are."""
        self._fence = self.add(self._fence_root, "folder")
        options = {**QUICK, "list_file": self.list_file, **options}
        watch = Watch(options.pop("sources", self.registry.all), self.listener, **options)
        self._watches.append(watch)
        watch.start()
        for source in (*awaited, self._fence):
            self.listener.until(lambda source=source: self.listener.count(source, "due") > 0)
        return watch

    def change(self, root: Path, name: str = "n.md") -> float:
        """Write a note; the moment when it was there."""
        (root / name).write_text(f"wombat {time.monotonic()}")
        return time.monotonic()

    def pass_time(self) -> None:
        """Let two bursts elsewhere run their course: whatever was to be signalled before has been."""
        for _ in range(2):
            self.listener.after(self.change(self._fence_root), self._fence)

    def signals_by(self, source: Source, act: Callable[[], Any]) -> int:
        """How many signals of a change an act makes."""
        before = self.listener.count(source)
        act()
        self.pass_time()
        return self.listener.count(source) - before

    def notices(self, source: Source, act: Callable[[], Any]) -> None:
        """Do something and wait for the signal of it."""
        moment = time.monotonic()
        act()
        self.listener.after(moment, source)

    def settle(self, source: Source) -> None:
        """Wait until nothing more is signalled of what has happened, so that the next signal is of the next act."""
        while self.signals_by(source, lambda: None):
            pass

    def close(self) -> None:
        for watch in self._watches:
            watch.stop()
        assert not threads()


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("vade-watch")]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path / "state", tmp_path / "fence")
    yield made
    made.close()


@pytest.fixture
def root(write_tree: WriteTree) -> Path:
    return write_tree({"a.md": "a", "sub/b.md": "b", "sub/deep/c.md": "c", "pic.png": "p", ".obsidian/app.json": "{}"})


def save_by_rename(path: Path) -> None:
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_text("numbat")
    temporary.replace(path)


# ── what counts


@pytest.mark.parametrize(
    "act",
    {
        "saved": lambda root: (root / "a.md").write_text("new"),
        "saved below": lambda root: (root / "sub/deep/c.md").write_text("new"),
        "added": lambda root: (root / "sub/new.md").write_text("new"),
        "atomic save": lambda root: save_by_rename(root / "sub/b.md"),
        "suffix in capitals": lambda root: (root / "N.MARKDOWN").write_text("new"),
        "deleted": lambda root: (root / "sub/b.md").unlink(),
        "renamed": lambda root: (root / "a.md").rename(root / "z.md"),
        "stamp": lambda root: os.utime(root / "a.md", (1, 1)),
        "attachment added": lambda root: (root / "new.png").write_bytes(b"x"),
        "attachment deleted": lambda root: (root / "pic.png").unlink(),
        "folder added": lambda root: (root / "empty").mkdir(),
        "folder renamed": lambda root: (root / "sub").rename(root / "other"),
        "folder deleted": lambda root: shutil.rmtree(root / "sub"),
        "ignore list": lambda root: (root / ".obsidian/app.json").write_text('{"userIgnoreFilters": ["sub/"]}'),
        "ignore list, atomic": lambda root: save_by_rename(root / ".obsidian/app.json"),
        "ignore list deleted": lambda root: shutil.rmtree(root / ".obsidian"),
        "manifest": lambda root: (root / "vault-manifest.json").write_text("{}"),
        "evicted": lambda root: (root / "a.md").rename(root / ".a.md.icloud"),
        "link": lambda root: (root / "link.md").symlink_to("a.md"),
    }.items(),
    ids=lambda act: act[0].replace(" ", "-"),
)
def test_a_change_is_one_signal(bench: Bench, root: Path, act: tuple[str, Callable[[Path], Any]]) -> None:
    source = bench.add(root)
    bench.watch(source)
    bench.notices(source, lambda: act[1](root))
    folder_came = act[0] in {"folder added", "folder renamed"}
    bench.settle(source)
    assert bench.listener.count(source) == 1 + folder_came


IGNORED: dict[str, Callable[[Path], Any]] = {
    "hidden file": lambda root: (root / ".hidden.md").write_text("x"),
    "hidden folder": lambda root: (root / ".git/objects").mkdir(parents=True),
    "file in a hidden folder": lambda root: (root / ".trash/n.md").write_text("x"),
    "workspace": lambda root: (root / ".obsidian/workspace.json").write_text("x"),
    "theme": lambda root: (root / ".obsidian/themes").mkdir(),
    "attachment modified": lambda root: (root / "pic.png").write_bytes(b"xyz"),
    "excluded folder": lambda root: (root / "out/n.md").write_text("x"),
    "below an excluded folder": lambda root: (root / "out/deep/n.md").write_text("x"),
    "excluded name": lambda root: (root / "sub/draft.tmp.md").write_text("x"),
    "read": lambda root: [path.read_bytes() for path in root.rglob("*.md")],
}


@pytest.mark.parametrize("ignored", [pytest.param([act], id=name) for name, act in IGNORED.items()])
def test_what_is_ignored_is_silent(
    bench: Bench, root: Path, write_tree: WriteTree, ignored: list[Callable[[Path], Any]], events: Any = None
) -> None:
    write_tree({"out/deep/n.md": "x", ".trash/o.md": "x"}, root)
    source = bench.add(root, exclude=["out/**", "*.tmp.md"])
    bench.watch(source, events=events)
    bench.settle(source)
    assert bench.signals_by(source, lambda: [act(root) for act in ignored]) == 0
    bench.notices(source, lambda: bench.change(root / "sub"))


def test_where_a_whole_tree_is_watched_the_same_is_silent(bench: Bench, root: Path, write_tree: WriteTree) -> None:
    test_what_is_ignored_is_silent(bench, root, write_tree, list(IGNORED.values()), TreeEvents)


def test_a_plain_folder_has_no_ignore_list(bench: Bench, root: Path) -> None:
    source = bench.add(root, "folder")
    bench.watch(source)
    assert bench.signals_by(source, lambda: (root / ".obsidian/app.json").write_text("x")) == 0
    bench.notices(source, lambda: bench.change(root))


def test_a_name_in_another_unicode_form_is_ignored_as_the_scan_does(bench: Bench, root: Path) -> None:
    source = bench.add(root, exclude=["caf\u00e9.md"])
    bench.watch(source)
    assert bench.signals_by(source, lambda: (root / "cafe\u0301.md").write_text("x")) == 0


# ── bursts


def test_a_saved_note_is_signalled_soon(bench: Bench, root: Path) -> None:
    """Within a second a note is to be findable, and a sync needs a third of one."""
    source = bench.add(root)
    bench.watch(source, quiet_s=0.25, longest_s=2.0)
    delays = []
    for _ in range(5):
        saved = bench.change(root)
        bench.listener.after(saved, source)
        delays.append(bench.listener.heard[-1][2] - saved)
    assert min(delays) < 0.45


def test_a_mass_checkout_is_at_most_two_signals(bench: Bench, root: Path) -> None:
    source = bench.add(root)
    bench.watch(source, quiet_s=0.5, longest_s=10.0)

    def check_out() -> None:
        for i in range(1000):
            folder = root / f"d{i % 10}"
            folder.mkdir(exist_ok=True)
            (folder / f"{i}.md").write_text("wombat")

    bench.notices(source, check_out)
    bench.settle(source)
    assert 1 <= bench.listener.count(source) <= 2


def test_a_burst_without_end_is_signalled_all_the_same(bench: Bench, root: Path) -> None:
    source = bench.add(root)
    bench.watch(source, quiet_s=NEVER_S, longest_s=0.3)
    began = time.monotonic()
    while bench.listener.count(source) < 2:
        bench.change(root)
        assert time.monotonic() < began + IN_TIME_S


def test_two_sources_are_signalled_apart(bench: Bench, root: Path, tmp_path: Path) -> None:
    one, other = bench.add(root), bench.add(tmp_path / "other")
    bench.watch(one, other)
    bench.notices(other, lambda: bench.change(tmp_path / "other"))
    assert bench.listener.count(one) == 0


# ── folders that come and go


def test_files_written_into_a_fresh_folder_at_once_are_followed_by_a_signal(bench: Bench, root: Path) -> None:
    source = bench.add(root)
    bench.watch(source, quiet_s=0.02)
    for i in range(30):
        (root / f"new{i}").mkdir()
        (root / f"new{i}/n.md").write_text("wombat")
        bench.listener.after(time.monotonic(), source)
    bench.settle(source)
    for i in (0, 15, 29):
        bench.notices(source, lambda i=i: bench.change(root / f"new{i}"))


def test_nested_fresh_folders_are_all_watched(bench: Bench, root: Path) -> None:
    source = bench.add(root)
    bench.watch(source)
    deep = root
    for i in range(12):
        deep = deep / f"d{i}"
        deep.mkdir()
        bench.change(deep)
    bench.listener.after(time.monotonic(), source)
    bench.settle(source)
    for folder in (deep, deep.parents[5]):
        bench.notices(source, lambda folder=folder: bench.change(folder))


def test_a_folder_that_was_renamed_is_watched_at_its_new_place(bench: Bench, root: Path) -> None:
    source = bench.add(root, exclude=["out/**"])
    bench.watch(source)
    bench.notices(source, lambda: (root / "sub").rename(root / "moved"))
    bench.settle(source)
    bench.notices(source, lambda: bench.change(root / "moved/deep"))
    bench.notices(source, lambda: (root / "moved").rename(root / "out"))
    bench.settle(source)
    assert bench.signals_by(source, lambda: bench.change(root / "out/deep")) == 0
    bench.notices(source, lambda: (root / "out").rename(root / "back"))
    bench.settle(source)
    bench.notices(source, lambda: bench.change(root / "back/deep"))


def test_a_folder_that_was_moved_away_is_watched_no_more(bench: Bench, root: Path, tmp_path: Path) -> None:
    source = bench.add(root)
    bench.watch(source)
    bench.notices(source, lambda: (root / "sub").rename(tmp_path / "away"))
    bench.settle(source)
    assert bench.signals_by(source, lambda: bench.change(tmp_path / "away/deep")) == 0
    bench.notices(source, lambda: (tmp_path / "away").rename(root / "again"))
    bench.settle(source)
    bench.notices(source, lambda: bench.change(root / "again/deep"))


def watches_of_this_process() -> int:
    total = 0
    for entry in Path("/proc/self/fdinfo").iterdir():
        try:
            total += entry.read_text().count("inotify wd")
        except OSError:
            continue
    return total


@pytest.mark.skipif(sys.platform != "linux", reason="counts inotify watches")
def test_neither_links_nor_ignored_folders_are_watched(bench: Bench, root: Path, tmp_path: Path) -> None:
    for i in range(200):
        (tmp_path / f"outside/d{i}").mkdir(parents=True)
        (root / f".git/{i}").mkdir(parents=True)
    (root / "link").symlink_to(tmp_path / "outside")
    (root / "sub/loop").symlink_to(root)
    source = bench.add(root)
    watch = bench.watch(source)
    # The root, sub, sub/deep and .obsidian; and the fence.
    assert watches_of_this_process() == 5
    assert bench.signals_by(source, lambda: bench.change(tmp_path / "outside/d5")) == 0
    bench.notices(source, lambda: (root / "late").symlink_to(tmp_path / "outside"))
    bench.settle(source)
    assert bench.signals_by(source, lambda: bench.change(tmp_path / "outside/d6")) == 0
    assert watches_of_this_process() == 5
    assert watch.states()[source.id].mode == "events"


# ── a root that goes away


def swap_for_another(root: Path) -> None:
    (root.parent / "new").mkdir()
    root.rename(root.parent / "old")
    (root.parent / "new").rename(root)


def remove_and_make(root: Path) -> None:
    shutil.rmtree(root)
    root.mkdir()


def move_its_parent(root: Path) -> None:
    parent = root.parent
    parent.rename(parent.with_name("elsewhere"))
    root.mkdir(parents=True)


@pytest.mark.parametrize("replace", [swap_for_another, remove_and_make, move_its_parent])
@pytest.mark.parametrize("events", [None, TreeEvents], ids=["folders", "tree"])
def test_a_root_that_was_replaced_is_watched_anew(
    bench: Bench, tmp_path: Path, replace: Callable[[Path], None], events: Any
) -> None:
    root = tmp_path / "above/vault"
    root.mkdir(parents=True)
    source = bench.add(root)
    watch = bench.watch(source, events=events)
    bench.notices(source, lambda: replace(root))
    bench.listener.until(lambda: watch.states()[source.id].mode == "events")
    bench.settle(source)
    bench.notices(source, lambda: bench.change(root))


@pytest.mark.parametrize("events", [None, TreeEvents], ids=["folders", "tree"])
def test_a_root_that_is_away_is_waited_for(bench: Bench, root: Path, events: Any) -> None:
    source = bench.add(root)
    watch = bench.watch(source, events=events)
    for _ in range(2):
        bench.notices(source, lambda: root.rename(root.with_name("away")))
        bench.listener.until(lambda: watch.states()[source.id].mode == "waiting")
        assert watch.states()[source.id].detail == "the folder is not there"
        bench.settle(source)
        bench.notices(source, lambda: root.with_name("away").rename(root))
        assert watch.states()[source.id][:2] == ("events", "")
        bench.settle(source)
        bench.notices(source, lambda: bench.change(root / "sub"))


def test_a_root_that_is_away_at_the_start_is_waited_for(bench: Bench, root: Path) -> None:
    source = bench.add(root)
    root.rename(root.with_name("away"))
    watch = bench.watch(source)
    assert watch.states()[source.id].mode == "waiting"
    bench.notices(source, lambda: root.with_name("away").rename(root))
    bench.notices(source, lambda: bench.change(root))


@pytest.mark.parametrize("become", ["file", "link", "dangling link"])
def test_what_stands_in_the_place_of_a_root_is_not_watched(bench: Bench, root: Path, become: str) -> None:
    source = bench.add(root)
    watch = bench.watch(source)
    away = root.with_name("away")
    root.rename(away)
    if become == "file":
        root.write_text("x")
    else:
        root.symlink_to(away if become == "link" else "nowhere")
    words = "file" if become == "file" else "link"
    bench.listener.until(lambda: watch.states()[source.id].mode == "waiting" and words in watch.states()[source.id][1])
    bench.settle(source)
    assert bench.signals_by(source, lambda: bench.change(away)) == 0


# ── children: what would disturb this process

CHILD = """
import os, sys, threading, time, subprocess
from pathlib import Path
sys.path[:0] = [{tests!r}, {tests!r} + "/sources"]
from test_watch import Bench, NEVER_S
bench = Bench(Path({home!r}), Path({fence!r}))
root = Path({root!r})
ahead = [0.0]
clock = lambda: time.monotonic() + ahead[0]
def mode(source):
    return watch.states()[source.id].mode
def advance(seconds):
    ahead[0] += seconds
    watch.reload()
"""


def run_child(tmp_path: Path, script: str, *prefix: str) -> subprocess.CompletedProcess[str]:
    places = {"tests": TESTS, "home": tmp_path / "child", "fence": tmp_path / "fence2", "root": tmp_path / "vault"}
    head = CHILD.format(**{name: str(path) for name, path in places.items()})
    return subprocess.run(
        [*prefix, sys.executable, "-P", "-c", head + textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
        env={**clean_environment(), "PYTHONDONTWRITEBYTECODE": "1"},
    )


def test_a_process_without_descriptors_left_polls_until_there_are_some(root: Path, tmp_path: Path) -> None:
    done = run_child(
        tmp_path,
        """
        import resource
        source = bench.add(root)
        opened, limits = [], resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, limits[1]))
        watch = bench.watch(source, clock=clock)
        bench.listener.until(lambda: mode(source) == "events")
        while True:
            try:
                opened.append(os.open("/dev/null", os.O_RDONLY))
            except OSError:
                break
        root.rename(root.with_name("away"))     # its descriptors are let go, and taken by others
        bench.listener.until(lambda: mode(source) == "waiting")
        try:
            while True:
                opened.append(os.open("/dev/null", os.O_RDONLY))
        except OSError:
            pass
        root.with_name("away").rename(root)
        bench.listener.until(lambda: mode(source) == "polling")
        print(watch.states()[source.id].detail)
        seen = bench.listener.count(source, "due")
        bench.listener.until(lambda: bench.listener.count(source, "due") >= seen + 3)
        for descriptor in opened:
            os.close(descriptor)
        advance(601)
        bench.listener.until(lambda: mode(source) == "events")
        bench.notices(source, lambda: bench.change(root))
        bench.close()
        print("done")
        """,
    )
    assert done.returncode == 0, done.stderr
    said, end = done.stdout.splitlines()
    assert ("too many files" in said, end) == (True, "done")


def test_a_system_that_watches_no_more_folders_is_polled(root: Path, tmp_path: Path) -> None:
    limit = "echo {} > /proc/sys/user/max_inotify_watches"
    tried = subprocess.run(
        ["unshare", "-U", "-r", "sh", "-c", limit.format(5)], capture_output=True, text=True, check=False
    )
    if tried.returncode:
        pytest.skip(f"no user namespace with a limit of its own: {tried.stderr.strip()}")
    done = run_child(
        tmp_path,
        f"""
        source = bench.add(root)
        watch = bench.watch(source, clock=clock)
        for i in range(5):
            (root / f"new{{i}}").mkdir()
        bench.listener.until(lambda: mode(source) == "polling")
        print(watch.states()[source.id].detail)
        seen = bench.listener.count(source, "due")
        bench.listener.until(lambda: bench.listener.count(source, "due") >= seen + 3)
        bench.listener.after(0, bench._fence, "due")
        subprocess.run(["sh", "-c", "{limit.format(500)}"], check=True)
        advance(601)
        bench.listener.until(lambda: mode(source) == "events")
        bench.notices(source, lambda: bench.change(root / "new4"))
        bench.close()
        print("done")
        """,
        *("unshare", "-U", "-r", "sh", "-c", limit.format(6) + ' && exec "$@"', "sh"),
    )
    assert done.returncode == 0, done.stderr
    said, end = done.stdout.splitlines()
    assert ("max_user_watches" in said, end) == (True, "done")


def test_a_folder_that_cannot_be_read_costs_the_others_nothing(public_tmp: Path) -> None:
    """No scan can list it either; once it can, its notes are a change."""
    if os.geteuid() != 0:
        pytest.skip("only root may become another user")
    done = run_child(
        public_tmp,
        f"""
        import ctypes, traceback        # another user may not be able to read them
        os.setgid({NOBODY})
        os.setuid({NOBODY})
        closed = root / "closed"
        closed.mkdir(parents=True)
        (root / "open").mkdir()
        closed.chmod(0)
        source = bench.add(root)
        watch = bench.watch(source)
        print(*watch.states()[source.id][:2])
        bench.notices(source, lambda: bench.change(root / "open"))
        bench.settle(source)
        bench.notices(source, lambda: closed.chmod(0o700))
        bench.settle(source)
        bench.notices(source, lambda: bench.change(closed))
        bench.close()
        print("done")
        """,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["events not watched, since they cannot be read: 1 folders", "done"]


def test_a_root_that_is_unmounted_and_mounted_again_is_watched(tmp_path: Path) -> None:
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("only root may mount in a namespace of its own")
    (tmp_path / "vault").mkdir()
    done = run_child(
        tmp_path,
        """
        if subprocess.run(["mount", "-t", "tmpfs", "none", root]).returncode:
            sys.exit(77)
        source = bench.add(root)
        watch = bench.watch(source)
        bench.notices(source, lambda: bench.change(root))
        bench.settle(source)
        bench.notices(source, lambda: subprocess.run(["umount", root], check=True))
        bench.settle(source)
        bench.notices(source, lambda: subprocess.run(["mount", "-t", "tmpfs", "none", root], check=True))
        bench.settle(source)
        bench.notices(source, lambda: bench.change(root))
        bench.close()
        print("done")
        """,
        *("unshare", "-m"),
    )
    if done.returncode == 77:
        pytest.skip(f"mounting is not allowed here: {done.stderr.strip()}")
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


# ── the list of sources


def test_a_source_that_is_added_disabled_and_removed_is_followed(bench: Bench, root: Path) -> None:
    watch = bench.watch()
    source = bench.add(root)
    bench.listener.until(lambda: bench.listener.count(source, "due") == 1)
    bench.notices(source, lambda: bench.change(root))
    bench.registry.edit(source.id, enabled=False)
    bench.listener.until(lambda: source.id not in watch.states())
    bench.settle(source)
    assert bench.signals_by(source, lambda: bench.change(root)) == 0
    bench.registry.edit(source.id, enabled=True)
    bench.listener.until(lambda: bench.listener.count(source, "due") == 2)
    bench.notices(source, lambda: bench.change(root))
    with bench.registry.discarding(source.id):
        pass
    bench.listener.until(lambda: source.id not in watch.states())
    bench.settle(source)
    assert bench.signals_by(source, lambda: bench.change(root)) == 0


def test_globs_that_change_hold_at_once(bench: Bench, root: Path) -> None:
    source = bench.add(root, exclude=["sub/**"])
    watch = bench.watch(source)
    bench.registry.edit(source.id, exclude=["other/**"])
    bench.listener.until(lambda: bench.listener.count(source, "due") == 2)
    bench.notices(source, lambda: bench.change(root / "sub"))
    bench.registry.edit(source.id, name="renamed")
    watch.reload()
    bench.pass_time()
    assert bench.listener.count(source, "due") == 2


def test_a_reload_reads_a_list_that_looks_the_same(bench: Bench, root: Path) -> None:
    source = bench.add(root)
    fence = bench.add(root.with_name("fence"), "folder")
    listed = [fence]
    watch = bench.watch(sources=lambda: tuple(listed), poll_s=NEVER_S)
    listed.append(source)
    watch.reload()
    bench.listener.until(lambda: bench.listener.count(source, "due") == 1)


@pytest.mark.parametrize("content", ["{", "", "[]", '{"version": 1, "sources": [7]}'])
def test_a_list_that_cannot_be_read_leaves_the_last_one(bench: Bench, root: Path, content: str) -> None:
    source = bench.add(root)
    watch = bench.watch(source)
    good = bench.list_file.read_text()
    bench.list_file.write_text(content)
    watch.reload()
    bench.pass_time()
    bench.notices(source, lambda: bench.change(root))
    other = root.with_name("other")
    bench.list_file.write_text(good)
    added = bench.add(other)
    bench.listener.until(lambda: bench.listener.count(added, "due") == 1)
    assert bench.listener.count(source, "due") == 1


def test_a_list_that_cannot_be_read_at_the_start_is_read_later(bench: Bench, root: Path) -> None:
    source = bench.add(root)
    good = bench.list_file.read_text()
    bench.list_file.write_text("{")
    watch = Watch(bench.registry.all, bench.listener, list_file=bench.list_file, **QUICK)
    watch.start()
    try:
        bench.list_file.write_text(good)
        bench.listener.until(lambda: bench.listener.count(source, "due") == 1)
    finally:
        watch.stop()


# ── faults


def test_a_listener_that_raises_is_told_again(bench: Bench, root: Path, tmp_path: Path) -> None:
    source, other = bench.add(root), bench.add(tmp_path / "other")
    bench.listener.raises.add(source.id)
    watch = bench.watch(source, other)
    for _ in range(2):
        bench.notices(source, lambda: bench.change(root))
    bench.notices(other, lambda: bench.change(tmp_path / "other"))
    assert {state.mode for state in watch.states().values()} == {"events"}


def test_a_source_whose_signal_hangs_holds_up_no_other(bench: Bench, root: Path, tmp_path: Path) -> None:
    source, other = bench.add(root), bench.add(tmp_path / "other")
    let_go = threading.Event()
    heard = bench.listener

    def hang(source_id: str, why: Why) -> None:
        heard(source_id, why)
        if source_id == source.id:
            let_go.wait(IN_TIME_S)

    watch = Watch(bench.registry.all, hang, list_file=bench.list_file, **QUICK)
    watch.start()
    try:
        heard.until(lambda: heard.count(source, "due") == heard.count(other, "due") == 1)
        bench.notices(other, lambda: bench.change(tmp_path / "other"))
    finally:
        let_go.set()
        watch.stop()


@pytest.mark.skipif(sys.platform != "linux", reason="fills the queue of inotify")
def test_events_that_the_system_dropped_cost_no_folder(bench: Bench, root: Path) -> None:
    """While nobody fetches events, their queue runs full; what was made after that is found all the same."""
    source = bench.add(root)
    let_go = threading.Event()
    heard = bench.listener

    def hang(source_id: str, why: Why) -> None:
        heard(source_id, why)
        let_go.wait(IN_TIME_S)

    watch = Watch(bench.registry.all, hang, list_file=bench.list_file, **QUICK)
    watch.start()
    try:
        heard.until(lambda: heard.count(source, "due") == 1)
        for _ in range(int(Path("/proc/sys/fs/inotify/max_queued_events").read_text()) // 2):
            (root / "x.md").touch()
            (root / "x.md").unlink()
        (root / "unheard/deep").mkdir(parents=True)
        moment = time.monotonic()
        let_go.set()
        heard.after(moment, source)
        heard.until(lambda: watches_of_this_process() == 6)  # the four of the vault, and two more
        bench.notices(source, lambda: bench.change(root / "unheard/deep"))
    finally:
        let_go.set()
        watch.stop()


def test_stopping_is_prompt_and_final(bench: Bench, root: Path) -> None:
    source = bench.add(root)
    watch = bench.watch(source)
    bench.change(root)
    began = time.monotonic()
    watch.stop()
    assert time.monotonic() - began < 5
    assert threads() == []
    heard = len(bench.listener.heard)
    bench.change(root)
    watch.stop()
    watch.reload()
    watch.scanned(source.id, cpu_s=1.0)
    assert len(bench.listener.heard) == heard


def test_a_watch_that_never_began_can_be_stopped(bench: Bench) -> None:
    Watch(bench.registry.all, bench.listener, list_file=bench.list_file).stop()


def test_many_saves_leave_nothing_behind(bench: Bench, root: Path) -> None:
    source = bench.add(root)
    bench.watch(source, quiet_s=0.02)

    def saves(bursts: int) -> tuple[int, int, int]:
        for i in range(bursts):
            for j in range(20):
                save_by_rename(root / f"{j}.md")
            folder = root / f"made{i}"
            folder.mkdir()
            bench.notices(source, lambda folder=folder: (folder / "n.md").write_text("x"))
            bench.notices(source, lambda folder=folder: shutil.rmtree(folder))
        bench.settle(source)
        descriptors = len(list(Path("/proc/self/fd").iterdir())) if sys.platform == "linux" else 0
        return descriptors, threading.active_count(), watches_of_this_process() if sys.platform == "linux" else 0

    first = saves(3)
    assert saves(20) == first


# ── the schedule


class Clock:
    """Time that stands still unless it is told to go on."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("cpu_s", "chance", "interval_s"),
    [(0.0, 0.5, 60), (0.1, 0.5, 60), (1.0, 0.5, 200), (0.1, 0.0, 54), (0.1, 1.0, 66), (2.0, 0.0, 360), (-1, 0.5, 60)],
)
def test_the_next_reconciliation_is_counted_from_the_last_scan(
    bench: Bench, root: Path, cpu_s: float, chance: float, interval_s: float
) -> None:
    clock, luck = Clock(), [0.0]
    source = bench.add(root)
    # The clock stands still, so that no burst ends: what is signalled here is due.
    watch = bench.watch(source, clock=clock, chance=lambda: luck[0], reconcile_s=60.0)
    luck[0] = chance
    heard = bench.listener
    clock.now += 30
    watch.scanned(source.id, cpu_s=cpu_s)
    assert watch.states()[source.id].next_scan_in_s == pytest.approx(interval_s)
    for step in (interval_s - 1, 2):
        assert heard.count(source, "due") == 1
        clock.now += step
        watch.reload()
    heard.until(lambda: heard.count(source, "due") == 2)


def test_a_scan_that_never_ends_is_asked_for_again(bench: Bench, root: Path) -> None:
    clock = Clock()
    source = bench.add(root)
    watch = bench.watch(source, clock=clock, reconcile_s=60.0)
    for expected in (2, 3):
        clock.now += 61
        watch.reload()
        bench.listener.until(lambda expected=expected: bench.listener.count(source, "due") == expected)


def test_at_the_start_sources_are_spread_and_later_ones_are_due_at_once(
    bench: Bench, root: Path, tmp_path: Path
) -> None:
    clock = Clock()
    first = bench.add(root)
    heard = bench.listener
    watch = Watch(
        bench.registry.all, heard, list_file=bench.list_file, **{**QUICK, "clock": clock, "chance": lambda: 0.7}
    )
    watch.start()
    try:
        heard.until(lambda: first.id in watch.states())
        assert watch.states()[first.id].next_scan_in_s == pytest.approx(0.7)
        later = bench.add(tmp_path / "later")
        heard.until(lambda: heard.count(later, "due") == 1)
        assert heard.count(first, "due") == 0
        clock.now += 0.8
        watch.reload()
        heard.until(lambda: heard.count(first, "due") == 1)
    finally:
        watch.stop()


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ENOSPC, "max_user_watches"),
        (errno.EMFILE, "max_user_instances"),
        (errno.ELOOP, "Too many levels"),
        (errno.EACCES, "Permission denied"),
        (None, "RuntimeError"),
    ],
)
def test_a_source_that_cannot_be_watched_is_polled_by_the_cost_of_its_scans(
    bench: Bench, root: Path, number: int | None, words: str
) -> None:
    clock, luck = Clock(), [0.0]
    refused = [RuntimeError("unknown") if number is None else OSError(number, os.strerror(number))]
    source = bench.add(root)

    def events(watched: Source, ended: Callable[[], bool]) -> TreeEvents:
        if refused and watched.id == source.id:
            raise refused[0]
        return TreeEvents(watched, ended)

    watch = bench.watch(source, events=events, clock=clock, chance=lambda: luck[0], poll_s=10.0)
    luck[0] = 0.5
    heard = bench.listener
    heard.until(lambda: watch.states()[source.id].mode == "polling")
    assert words in watch.states()[source.id].detail
    watch.scanned(source.id, cpu_s=0.1)
    assert watch.states()[source.id].next_scan_in_s == pytest.approx(10)
    watch.scanned(source.id, cpu_s=1.0)
    assert watch.states()[source.id].next_scan_in_s == pytest.approx(50)
    before = heard.count(source, "due")
    clock.now += 51
    watch.reload()
    heard.until(lambda: heard.count(source, "due") == before + 1)
    refused.clear()
    clock.now += 600
    watch.reload()
    heard.until(lambda: watch.states()[source.id].mode == "events")
    clock.now += 1  # what happened meanwhile is a change that nobody saw
    watch.reload()
    heard.until(lambda: heard.count(source) == 1)
