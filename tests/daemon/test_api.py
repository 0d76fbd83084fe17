"""Every route over both doors: what it answers, what it refuses, and that all refusals have one shape."""

import http.client
import http.cookiejar
import json
import re
import socket
import struct
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from daemon_process import Launch, Served, launching, wait_until
from process import NOBODY, run_vade
from vademecum import config
from vademecum.config import Settings
from vademecum.daemon import control
from vademecum.daemon.api import build
from workbench import counts, live_documents

WriteTree = Callable[..., Path]
Snapshots = Callable[[Path], Mapping[str, Any]]
Body = dict[str, Any] | bytes | None

NOTES: dict[str, str] = {
    "caching.md": "# Caching\n\nWe dropped redis. See [[queue]].\n\n## Why\n\nIt lost writes.\n",
    "queue.md": "---\ntags: [infra]\n---\n# Queue\n\nRabbit, after [[caching]].\n",
    "Straße/日本.md": "# Umlaut\n\nNothing about caches.\n",
}
NO_NOTES: dict[str, str | bytes] = {
    ".obsidian/app.json": "{}",
    "picture.png": b"\x89PNG",
    "board.canvas": "{}",
    ".trash/old.md": "gone",
}


# ── asking


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    content: Any

    @property
    def code(self) -> str:
        """The code of a refusal."""
        return str(self.content["error"]["code"])


class OverSocket(http.client.HTTPConnection):
    """HTTP over a unix socket, whoever owns it."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=30)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


@dataclass(frozen=True)
class Door:
    """One of the two ways in. Whatever is asked through it is checked for what holds of every answer."""

    settings: Settings
    tcp: bool = False

    def channel(self) -> http.client.HTTPConnection:
        """A connection, not yet made."""
        if not self.tcp:
            return OverSocket(control.http_socket(self.settings))
        record = json.loads(control.record_file(self.settings).read_text())
        return http.client.HTTPConnection("127.0.0.1", record["port"], timeout=30)

    def headers(self) -> dict[str, str]:
        """What a client of this door sends."""
        token = {"Authorization": f"Bearer {(self.settings.run_dir / 'token').read_text().strip()}"} if self.tcp else {}
        return {"Content-Type": "application/json", **token}

    def ask(self, method: str, target: str, body: Body = None, **headers: str) -> Answer:
        """Send one request; header names come with `_` for `-`."""
        sent = json.dumps(body).encode() if isinstance(body, dict) else body
        told = self.headers() | {name.replace("_", "-"): value for name, value in headers.items()}
        channel = self.channel()
        try:
            channel.request(method, target, sent, {name: value for name, value in told.items() if value})
            return answer_of(channel.getresponse())
        finally:
            channel.close()

    def get(self, target: str) -> Any:
        """What a route answers that does not refuse."""
        found = self.ask("GET", target)
        assert found.status == 200, found
        return found.content


def answer_of(response: http.client.HTTPResponse) -> Answer:
    """Read an answer, which lets no page elsewhere read it, and if it is a refusal has the one shape."""
    headers = {name.lower(): value for name, value in response.getheaders()}
    assert not [name for name in headers if name.startswith("access-control-")]
    assert headers["x-content-type-options"] == "nosniff"
    raw = response.read()
    is_json = headers.get("content-type", "").startswith("application/json")
    content = json.loads(raw) if is_json else raw.decode()
    if response.status >= 400:
        check_refusal(content)
    return Answer(response.status, headers, content)


def check_refusal(content: Any) -> None:
    assert set(content) == {"error"}
    assert set(content["error"]) == {"code", "message", "hint"}
    assert all(isinstance(value, str) and value for value in content["error"].values()), content
    assert re.fullmatch("[a-z_]+", content["error"]["code"])


@pytest.fixture(params=["socket", "tcp"])
def door(served: Served, request: pytest.FixtureRequest) -> Door:
    """Each of the two ways into a daemon with nothing connected."""
    return Door(served.settings, tcp=request.param == "tcp")


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A daemon with one vault, for tests that change nothing."""
    folder = tmp_path_factory.mktemp("standing")
    (folder / "state").mkdir(mode=0o700)
    (folder / "state" / "config.toml").write_text('[embedding]\nmodel = "hashing"\n')
    tree: dict[str, str | bytes] = {**NOTES, **NO_NOTES}
    for name, content in tree.items():
        (folder / "vault" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "vault" / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with contextmanager(launching)(folder / "state", folder) as launch:
        served = launch()
        served.connect(folder / "vault", kind="obsidian")
        wait_until(lambda: metrics(Door(served.settings))["vade_vectors"] > 0)
        yield served


def source_of(door: Door) -> dict[str, Any]:
    """The only source that is connected."""
    (found,) = door.get("/api/sources")["sources"]
    return dict(found)


def ended(door: Door, job: Mapping[str, Any]) -> dict[str, Any]:
    """A job when it is over."""
    found: dict[str, Any] = {}

    def over() -> bool:
        found.update(door.get(f"/api/jobs/{job['id']}")["job"])
        return found["status"] not in ("queued", "running")

    wait_until(over, timeout_s=60)
    return found


def connected(door: Door, root: Path, kind: str = "obsidian", **body: Any) -> str:
    """Connect a folder and wait until it is indexed: its id."""
    answer = door.ask("POST", f"/api/sources/{kind}", {"path": str(root), **body})
    assert answer.status == 202, answer
    assert ended(door, answer.content["job"])["status"] == "complete"
    return str(answer.content["source"]["id"])


def metrics(door: Door) -> dict[str, float]:
    """The figures of /metrics, those of all labels added up; every line of it must be one of Prometheus' format."""
    told: dict[str, float] = {}
    for line in door.get("/metrics").splitlines():
        if line.startswith("#"):
            assert re.fullmatch(r"# (HELP [a-z_]+ .+|TYPE [a-z_]+ (gauge|counter))", line), line
            continue
        found = re.fullmatch(r'([a-z_]+)(\{(?:[a-z]+="[^"]*",?)+\})? (\S+)', line)
        assert found, line
        told[found[1]] = told.get(found[1], 0) + float(found[3])
    return told


# ── connecting


def test_without_sources_the_list_is_empty(door: Door) -> None:
    assert door.get("/api/sources") == {"version": 1, "sources": []}


@pytest.mark.parametrize("kind", ["obsidian", "folder"])
def test_a_connected_folder_is_indexed_in_the_background(door: Door, kind: str, write_tree: WriteTree) -> None:
    root = write_tree({**NOTES, **NO_NOTES})
    answer = door.ask("POST", f"/api/sources/{kind}", {"root": str(root), "name": "Team"})
    assert answer.status == 202
    told = answer.content
    assert (told["created"], told["indexed"], told["queued"]) == (True, 0, True)
    assert told["source"]["id"].startswith(f"{kind}:")
    job = ended(door, told["job"])
    assert (job["status"], job["indexed"], job["partial"]) == ("complete", len(NOTES), False)
    found = source_of(door)
    assert (found["name"], found["documents"], found["state"]) == ("Team", len(NOTES), "healthy")
    assert found["job"]["id"] == job["id"]
    assert {row["path"] for row in live_documents(door.settings)} == set(NOTES)


def test_the_same_root_again_is_the_same_source(door: Door, write_tree: WriteTree) -> None:
    root = write_tree(NOTES)
    source_id = connected(door, root, name="Team")
    again = door.ask("POST", "/api/sources/obsidian", {"path": f"{root}/../{root.name}/", "name": "  "}).content
    assert (again["created"], again["source"]["id"], again["source"]["name"]) == (False, source_id, "Team")
    assert ended(door, again["job"])["status"] == "complete"
    assert source_of(door)["documents"] == len(NOTES)


@pytest.mark.parametrize("kind", ["obsidian", "folder"])
def test_what_is_no_folder_is_refused(door: Door, kind: str, write_tree: WriteTree) -> None:
    root = write_tree({"a.md": "words"})
    bodies: list[dict[str, Any]] = [
        {"path": "  "},
        {"path": str(root / "missing")},
        {"path": str(root / "a.md")},
        {"path": str(root), "root": str(root)},
        {"path": "\0"},
        {"path": "/"},
        {"path": str(door.settings.home)},
        {"path": str(root), "exclude": ["\0"]},
        {"path": "\ud800"},
        {"path": str(root), "exclude": ["\udcff"]},
        {},
    ]
    answers = [door.ask("POST", f"/api/sources/{kind}", body) for body in bodies]
    assert [answer.status for answer in answers] == [400] * len(bodies)
    assert door.get("/api/sources")["sources"] == []


def test_a_folder_in_or_around_a_source_is_refused(door: Door, write_tree: WriteTree) -> None:
    root = write_tree({"in/a.md": "words"})
    connected(door, root)
    for path in (root / "in", root.parent / "vault" / "..", root):
        answer = door.ask("POST", "/api/sources/folder", {"path": str(path)})
        assert answer.status in (400, 409)  # around it lies the state folder too, which is refused first
    assert door.ask("POST", "/api/sources/folder", {"path": str(root / "in")}).code == "source_root_nested"
    assert door.ask("POST", "/api/sources/preview", {"path": str(root / "in")}).status == 409


def test_a_preview_counts_and_writes_nothing(
    door: Door, write_tree: WriteTree, vault_bytes: Snapshots, vade_home: Path
) -> None:
    root = write_tree({**NOTES, **NO_NOTES})
    before = vault_bytes(root), {path.name for path in vade_home.iterdir()}
    answer = door.ask("POST", "/api/sources/preview", {"path": str(root), "kind": "obsidian", "exclude": ["queue.md"]})
    assert answer.status == 200
    assert answer.content["files"] == len(NOTES) - 1
    assert "excluded" in answer.content["skipped"]["by_reason"]
    assert set(answer.content["sample"]) <= set(NOTES)
    assert (vault_bytes(root), {path.name for path in vade_home.iterdir()}) == before
    assert door.get("/api/sources")["sources"] == []


def test_a_file_name_that_is_no_text_harms_no_answer(door: Door, write_tree: WriteTree) -> None:
    root = write_tree(NOTES)
    (root / "odd").mkdir()
    Path(bytes(root).decode() + "/odd/" + b"\xff.md".decode("utf-8", "surrogateescape")).write_text("words")
    assert door.ask("POST", "/api/sources/preview", {"path": str(root)}).content["files"] == len(NOTES)
    source_id = connected(door, root)
    assert door.get(f"/api/sources/{source_id}")["source"]["documents"] == len(NOTES)
    assert door.get(f"/api/sources/{source_id}/artifacts")["total"] == len(NOTES)


# ── one source


def test_a_source_is_meant_by_its_id_raw_or_encoded_a_prefix_or_its_name(door: Door, write_tree: WriteTree) -> None:
    source_id = connected(door, write_tree(NOTES), name="Team ä/b")
    digits = source_id.partition(":")[2]
    for wanted in (source_id, quote(source_id, safe=""), digits[:6], f"obsidian:{digits[:3]}"):
        assert door.get(f"/api/sources/{wanted}")["source"]["id"] == source_id
    assert door.ask("PATCH", f"/api/sources/{digits[:6]}", {"name": "Team ä"}).content["source"]["name"] == "Team ä"
    assert door.get(f"/api/sources/{quote('team ä')}")["source"]["id"] == source_id
    assert door.ask("DELETE", f"/api/sources/{quote('Team ä')}").content["source"]["id"] == source_id
    assert door.get("/api/sources")["sources"] == []


ODD_IDS = ["nope", "%2F", "..", "%2e%2e%2f%2e%2e", "%00", "%FF", "%20", "%0a", "x" * 5000, "%C3%A9", "*"]
ID_ROUTES = [
    ("GET", ""),
    ("DELETE", ""),
    ("PATCH", ""),
    ("POST", "/sync"),
    ("GET", "/health"),
    ("GET", "/artifacts"),
    ("GET", "/graph"),
    ("GET", "/graph?path=caching.md"),
]


@pytest.mark.parametrize("wanted", ODD_IDS, ids=lambda wanted: wanted[:20])
def test_an_id_that_means_no_source_is_not_found(standing: Served, wanted: str) -> None:
    for door in (Door(standing.settings), Door(standing.settings, tcp=True)):
        for method, rest in ID_ROUTES:
            answer = door.ask(method, f"/api/sources/{wanted}{rest}", {} if method == "PATCH" else None)
            assert answer.status == 404, (method, rest, answer)
        assert door.ask("GET", f"/api/jobs/{wanted}").status == 404
    assert source_of(door)["documents"] == len(NOTES)


def test_a_change_is_kept_and_tells_what_it_changed(door: Door, write_tree: WriteTree) -> None:
    source_id = connected(door, write_tree(NOTES))
    target = f"/api/sources/{source_id}"
    assert door.ask("PATCH", target, {"name": " New \n name "}).content["source"]["name"] == "New name"
    assert door.ask("PATCH", target, {"name": " "}).content["source"]["name"] == "New name"
    changed = door.ask("PATCH", target, {"exclude": ["queue.md"]}).content["source"]
    assert "queue.md" in changed["exclude"]
    wait_until(lambda: source_of(door)["documents"] == len(NOTES) - 1)
    assert door.ask("PATCH", target, {"enabled": False}).content["source"]["enabled"] is False
    assert door.ask("POST", f"{target}/sync").code == "source_disabled"
    assert door.ask("POST", "/api/recall", {"query": "redis", "source": [source_id]}).status == 409
    assert door.ask("POST", "/api/recall", {"query": "redis"}).content["hits"] == []
    assert door.ask("PATCH", target, {"enabled": True, "exclude": []}).content["source"]["enabled"] is True
    wait_until(lambda: source_of(door)["documents"] == len(NOTES))


def test_a_sync_needs_no_body_and_sees_what_changed(door: Door, write_tree: WriteTree) -> None:
    root = write_tree(NOTES)
    source_id = connected(door, root)
    (root / "new.md").write_text("# New\n\npelican\n")
    bodies: list[Body] = [None, {}, {"force": True}, b"null", {"accept_loss": True, "force": False}]
    for body in bodies:
        answer = door.ask("POST", f"/api/sources/{source_id}/sync", body)
        assert answer.status == 202
        assert ended(door, answer.content["job"])["status"] == "complete"
    found = door.ask("POST", "/api/recall", {"query": "pelican"}).content["hits"]
    assert [hit["path"] for hit in found] == ["new.md"]


def test_a_list_of_sources_that_cannot_be_read_is_an_error_and_no_empty_list(door: Door, write_tree: WriteTree) -> None:
    source_id = connected(door, write_tree(NOTES))
    door.settings.sources_file.write_text("{")
    for target in ("/api/sources", f"/api/sources/{source_id}", f"/api/sources/{source_id}/health"):
        answer = door.ask("GET", target)
        assert (answer.status, answer.code) == (500, "sources_file_corrupt")
    assert door.ask("DELETE", f"/api/sources/{source_id}").status == 500
    assert counts(door.settings)["document"] == len(NOTES)


@pytest.fixture
def large(write_tree: WriteTree, tmp_path: Path) -> Path:
    """A vault whose first scan takes a while."""
    body = "\n\n".join(f"## Part {part}\n\nWords of [[n{part}]] and more." for part in range(6))
    return write_tree({f"d{n % 30}/n{n}.md": f"# N{n}\n\n{body}\n" for n in range(3000)}, tmp_path / "large")


def test_ten_syncs_asked_during_a_scan_make_one_more_scan(served: Served, large: Path) -> None:
    door = Door(served.settings)
    with Listener(door) as listener:
        first = door.ask("POST", "/api/sources/obsidian", {"path": str(large)}).content["job"]
        wait_until(lambda: bool(door.get(f"/api/jobs/{first['id']}")["job"]["status"] == "running"))
        target = f"/api/sources/{first['source_id']}/sync"
        asked = [door.ask("POST", target).content["job"]["id"] for _ in range(10)]
        assert door.get(f"/api/jobs/{first['id']}")["job"]["status"] == "running"
        assert len(set(asked)) == 1
        assert asked[0] != first["id"]
        told = listener.until("job", id=asked[0], status="complete")
    begun = [event["id"] for event in told if "id" in event]
    assert list(dict.fromkeys(begun)) == [first["id"], asked[0]]
    assert metrics(door)["vade_jobs"] == 0
    assert source_of(door)["documents"] == 3000


def test_a_removal_during_its_own_scan_leaves_no_row(served: Served, large: Path) -> None:
    door = Door(served.settings)
    job = door.ask("POST", "/api/sources/obsidian", {"path": str(large)}).content["job"]
    wait_until(lambda: metrics(door).get("vade_documents", 0) > 0)
    answer = door.ask("DELETE", f"/api/sources/{job['source_id']}")
    assert answer.status == 200
    assert answer.content["proof"]["clean"] is True
    assert ended(door, job)["status"] == "cancelled"
    assert set(counts(door.settings).values()) == {0}
    assert door.get("/api/sources")["sources"] == []


def test_of_ten_removals_at_once_one_removes(door: Door, write_tree: WriteTree) -> None:
    source_id = connected(door, write_tree(NOTES))
    with ThreadPoolExecutor(10) as pool:
        answers = list(pool.map(lambda _: door.ask("DELETE", f"/api/sources/{source_id}"), range(10)))
    assert Counter(answer.status for answer in answers) == {200: 1, 404: 9}
    assert set(counts(door.settings).values()) == {0}


def test_rows_of_a_source_that_is_on_no_list_can_be_removed(door: Door, write_tree: WriteTree, tmp_path: Path) -> None:
    source_id = connected(door, write_tree(NOTES))
    content = json.loads(door.settings.sources_file.read_text())
    door.settings.sources_file.write_text(json.dumps({**content, "sources": []}))
    assert door.ask("GET", f"/api/sources/{source_id}").status == 404
    assert counts(door.settings)["document"] == len(NOTES)
    answer = door.ask("DELETE", f"/api/sources/{source_id}")
    assert answer.status == 200
    assert answer.content["source"] is None
    assert answer.content["purged"] > 0
    assert set(counts(door.settings).values()) == {0}
    assert door.ask("DELETE", f"/api/sources/{source_id}").status == 404


# ── health of a source


def test_health_tells_an_empty_folder_from_one_with_notes(door: Door, write_tree: WriteTree) -> None:
    root = write_tree(NO_NOTES)
    target = f"/api/sources/{connected(door, root)}/health"
    empty = door.get(target)
    assert (empty["status"], empty["documents"]) == ("empty", 0)
    (root / "a.md").write_text("words")
    ended(door, door.ask("POST", target.replace("/health", "/sync")).content["job"])
    found = door.get(target)
    assert (found["status"], found["documents"], found["error"]) == ("healthy", 1, None)
    assert found["last_indexed_at"]


def test_health_tells_that_the_root_is_away_and_keeps_what_it_knew(door: Door, write_tree: WriteTree) -> None:
    root = write_tree(NOTES)
    target = f"/api/sources/{connected(door, root)}"
    before = door.get(f"{target}/health")
    root.rename(root.with_name("away"))
    ended(door, door.ask("POST", f"{target}/sync").content["job"])
    gone = door.get(f"{target}/health")
    assert (gone["status"], gone["documents"]) == ("unreachable", len(NOTES))
    assert gone["last_indexed_at"] == before["last_indexed_at"]
    assert gone["stale_since"]
    assert gone["job"]["partial"] or gone["job"]["status"] == "error"
    assert door.get("/api/diagnostics")["status"] == "degraded"
    root.with_name("away").rename(root)
    ended(door, door.ask("POST", f"{target}/sync").content["job"])
    back = door.get(f"{target}/health")
    assert (back["status"], back["stale_since"], back["documents"]) == ("healthy", None, len(NOTES))


@pytest.fixture
def as_nobody(public_tmp: Path) -> Iterator[Door]:
    """A daemon of a user whom permissions bind, unlike root."""
    state = public_tmp / "state"
    begun = run_vade("start", vade_home=state, home=public_tmp, env={"VADE_PORT": "0"}, as_user=NOBODY)
    assert begun.rc == 0, begun
    yield Door(config.load({"VADE_HOME": str(state)}))
    assert run_vade("stop", vade_home=state, home=public_tmp, as_user=NOBODY).rc == 0


def test_health_tells_that_a_folder_cannot_be_read(as_nobody: Door, public_tmp: Path, write_tree: WriteTree) -> None:
    door, root = as_nobody, write_tree({**NOTES, "shut/in.md": "# In\n"}, public_tmp / "vault")
    for path in (root, *root.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    target = f"/api/sources/{connected(door, root)}"
    (root / "shut").chmod(0)
    job = ended(door, door.ask("POST", f"{target}/sync").content["job"])
    found = door.get(f"{target}/health")
    assert (found["status"], found["documents"]) == ("degraded", len(NOTES) + 1)
    assert found["diagnostics"]
    assert (job["status"], job["partial"]) == ("complete", True)
    root.chmod(0)
    assert door.get(f"{target}/health")["status"] == "unreachable"
    root.chmod(0o755)
    (root / "shut").chmod(0o755)
    ended(door, door.ask("POST", f"{target}/sync").content["job"])
    assert door.get(f"{target}/health")["status"] == "healthy"


# ── inside a source


@pytest.fixture(params=["socket", "tcp"])
def reader(standing: Served, request: pytest.FixtureRequest) -> Door:
    """Each of the two ways into the daemon that stands."""
    return Door(standing.settings, tcp=request.param == "tcp")


def test_artifacts_are_listed_in_pages_without_their_text(reader: Door) -> None:
    target = f"/api/sources/{source_of(reader)['id']}/artifacts"
    whole = reader.get(target)
    paths = [row["path"] for row in whole["artifacts"]]
    assert (whole["total"], paths) == (len(NOTES), sorted(paths))
    assert set(paths) == set(NOTES)
    assert "It lost writes" not in json.dumps(whole)
    pages = [reader.get(f"{target}?limit=1&offset={offset}")["artifacts"] for offset in range(len(NOTES) + 1)]
    assert [row["path"] for page in pages for row in page] == paths
    assert pages[-1] == []
    found = reader.get(f"{target}?q={quote('Straße')}")
    assert (found["total"], [row["path"] for row in found["artifacts"]]) == (1, ["Straße/日本.md"])
    for wrong in ("limit=0", "limit=x", "limit=1001", "offset=-1", "q=" + "x" * 1001):
        assert reader.ask("GET", f"{target}?{wrong}").status == 400


def test_the_graph_comes_whole_or_around_a_note(reader: Door) -> None:
    target = f"/api/sources/{source_of(reader)['id']}/graph"
    whole = reader.get(target)
    assert {node["path"] for node in whole["nodes"] if node["kind"] == "note"} == set(NOTES)
    around = reader.get(f"{target}?path=caching.md&depth=1")
    assert around["note"]["path"] == "caching.md"
    assert "queue.md" in json.dumps(around)
    assert reader.ask("GET", f"{target}?path=missing.md").status == 404
    for outside in ("../x.md", "/etc/passwd", "%00", "caching.md/../../x.md"):
        assert reader.ask("GET", f"{target}?path={outside}").status in (400, 404)
    for wrong in ("depth=0", "depth=6", "depth=x", "outline=maybe", "path=" + "x" * 5001):
        assert reader.ask("GET", f"{target}?{wrong}").status == 400


# ── questions


def test_a_question_is_answered_with_hits_and_a_receipt(reader: Door) -> None:
    answer = reader.ask("POST", "/api/recall", {"query": "redis", "lane": "words"})
    assert answer.status == 200
    assert set(answer.content) == {"query", "hits", "receipt"}
    assert [hit["path"] for hit in answer.content["hits"]] == ["caching.md"]
    assert answer.content["receipt"]["searched"][0]["documents"] == len(NOTES)
    memories = reader.ask("POST", "/api/memory/recall", {"query": "redis", "lane": "words"}).content
    assert memories["results"] == memories["hits"] == answer.content["hits"]


def test_what_is_asked_of_a_question_is_checked(reader: Door) -> None:
    def status(**words: Any) -> int:
        return reader.ask("POST", "/api/recall", {"query": "redis", **words}).status

    assert status(source=["nope"]) == 404
    assert status(since="someday") == 400
    assert status(limit=0) == status(limit=101) == status(query="x" * 100_001) == 400
    assert status(lane="both") == status(source=["\ud800"]) == status(tag=["\ud800"]) == 400
    assert status(query="") == status(path="%", tag=["infra"], without=["x"], explain=True, until="1d") == 200


def test_a_note_is_read_whole_and_in_part(reader: Door) -> None:
    assert reader.get("/api/notes/read?address=caching.md")["text"] == NOTES["caching.md"]
    assert reader.get("/api/notes/read?address=caching.md%23Why")["text"].strip() == "## Why\n\nIt lost writes."
    assert reader.get("/api/notes/read?address=caching.md:1-1")["text"].strip() == "# Caching"
    around = reader.get("/api/notes/expand?address=queue.md&depth=2&limit=5")
    assert around["note"]["path"] == "queue.md"
    for route in ("read", "expand"):
        refused = {wrong: reader.ask("GET", f"/api/notes/{route}?{wrong}").status for wrong in WRONG_ADDRESSES}
        assert refused == WRONG_ADDRESSES


WRONG_ADDRESSES = {
    "": 400,
    "address=" + "x" * 5001: 400,
    "address=missing.md": 404,
    "address=picture.png": 404,
    "address=%FF": 404,
    "address=../x.md": 400,
    "address=/etc/passwd": 400,
    "address=%00": 400,
}


def test_a_vector_is_made_by_the_model_that_is_asked_for(reader: Door) -> None:
    made = reader.ask("POST", "/api/embed", {"text": "redis", "identity": "hashing-1-256"})
    assert (made.status, len(made.content["vector"])) == (200, 256)
    other = reader.ask("POST", "/api/embed", {"text": "redis", "identity": "another"})
    assert (other.status, other.code) == (404, "model_unknown")


# ── choosing a folder


def script(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize("tcp", [False, True])
def test_a_person_chooses_a_folder_or_cancels(launch: Launch, tmp_path: Path, tcp: bool) -> None:
    picker = script(tmp_path / "picker", f'[ -e "{tmp_path}/cancel" ] && exit 1; echo "{tmp_path}"')
    door = Door(launch(VADE_DIRECTORY_PICKER=picker).settings, tcp=tcp)
    bodies: list[Body] = [None, {}, {"title": "Vault"}]
    for body in bodies:
        answer = door.ask("POST", "/api/sources/pick-directory", body)
        assert (answer.status, answer.content) == (200, {"path": str(tmp_path), "cancelled": False})
    (tmp_path / "cancel").touch()
    assert door.ask("POST", "/api/sources/pick-directory").content == {"path": None, "cancelled": True}


def test_one_window_is_open_at_a_time(launch: Launch, tmp_path: Path) -> None:
    waits = f'touch "{tmp_path}/open"; while [ ! -e "{tmp_path}/go" ]; do sleep 0.05; done; echo "{tmp_path}"'
    door = Door(launch(VADE_DIRECTORY_PICKER=script(tmp_path / "picker", waits)).settings)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(door.ask, "POST", "/api/sources/pick-directory")
        wait_until((tmp_path / "open").exists)
        second = door.ask("POST", "/api/sources/pick-directory")
        assert (second.status, second.code) == (409, "picker_busy")
        assert door.get("/health")["status"] == "ok"
        (tmp_path / "go").touch()
        assert first.result().content["path"] == str(tmp_path)


def test_without_a_display_no_window_opens(door: Door) -> None:
    answer = door.ask("POST", "/api/sources/pick-directory", {"title": "Vault"})
    assert (answer.status, answer.code) == (501, "picker_missing")
    assert "paste" in answer.content["error"]["hint"]


# ── events


class Listener:
    """A client of the events."""

    def __init__(self, door: Door) -> None:
        self._channel = door.channel()
        self._channel.request("GET", "/api/events", headers=door.headers())
        self._answer = self._channel.getresponse()
        assert self._answer.status == 200
        assert (self._answer.getheader("Content-Type") or "").startswith("text/event-stream")
        assert self._answer.readline() == b": listening\n"

    def until(self, kind: str, **fields: Any) -> list[dict[str, Any]]:
        """The data of all events up to the one of this kind with these fields."""
        heard: list[dict[str, Any]] = []
        while True:
            told, data = self._event()
            heard.append(data)
            if told == kind and fields.items() <= data.items():
                return heard

    def _event(self) -> tuple[str, dict[str, Any]]:
        lines: dict[str, str] = {}
        while not lines.get("data"):
            line = self._answer.readline().decode()
            assert line, "the stream ended"
            name, _, value = line.rstrip("\n").partition(": ")
            lines[name] = value
        return lines["event"], json.loads(lines["data"])

    def ends(self) -> bool:
        """Whether the stream ends, after whatever is still told."""
        while self._answer.readline():
            pass
        return True

    def leave(self) -> None:
        """Go away without a word."""
        self._answer.close()
        self._channel.close()

    def __enter__(self) -> "Listener":
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()


def test_a_listener_is_told_of_jobs_changes_and_removals(door: Door, write_tree: WriteTree) -> None:
    with Listener(door) as listener:
        source_id = connected(door, write_tree(NOTES))
        states = [event["status"] for event in listener.until("job", status="complete")]
        assert states[0] == "running"
        (changed,) = listener.until("changed")
        assert changed == {"source_id": source_id, "documents": 3, "added": 3, "updated": 0, "removed": 0}
        door.ask("DELETE", f"/api/sources/{source_id}")
        assert listener.until("removed")[-1] == {"source_id": source_id}


def test_a_listener_that_goes_is_forgotten(door: Door) -> None:
    listeners = [Listener(door) for _ in range(3)]
    wait_until(lambda: metrics(door)["vade_listeners"] == 3)
    for listener in listeners:
        listener.leave()
    wait_until(lambda: metrics(door)["vade_listeners"] == 0)


def test_a_stop_lets_listeners_go(served: Served) -> None:
    with Listener(Door(served.settings)) as listener:
        assert served.end() == 0
        assert listener.ends()


# ── the daemon


def test_the_daemon_tells_how_it_is(reader: Door) -> None:
    assert reader.get("/health")["instance"] == reader.get("/api/status")["instance"]
    assert reader.get("/health/ready") == {"status": "ready"}
    status = reader.get("/api/status")
    assert [found["documents"] for found in status["sources"]] == [len(NOTES)]
    assert status["vectors"]["pending"] == 0
    assert status["home"] == str(reader.settings.home)
    checks = reader.get("/api/diagnostics")
    assert checks["status"] == "healthy", checks
    assert {check["name"] for check in checks["checks"]} >= {"state folder", "sources", "index", "model"}
    figures = metrics(reader)
    assert figures["vade_documents"] == len(NOTES)
    assert figures["vade_index_bytes"] == reader.settings.index_file.stat().st_size


def test_figures_name_no_note_and_no_source(reader: Door) -> None:
    text = reader.get("/metrics")
    assert not [word for word in (source_of(reader)["id"], "vault", "caching", "Caching") if word in text]


def test_health_needs_no_token_and_tells_nothing_of_the_notes(standing: Served) -> None:
    door = Door(standing.settings, tcp=True)
    for target in ("/health", "/health/ready"):
        answer = door.ask("GET", target, Authorization="")
        assert answer.status == 200
        assert "vault" not in json.dumps(answer.content)


def test_a_login_link_lets_a_browser_in_once(standing: Served) -> None:
    link = Door(standing.settings, tcp=True).ask("POST", "/api/login-link").content["url"]
    first, second = (
        urllib.request.build_opener(urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())) for _ in range(2)
    )
    fetched(first, link)
    assert fetched(first, f"{standing.running.url}/api/sources") == 200
    assert fetched(second, link) == 401
    assert fetched(second, f"{standing.running.url}/api/sources") == 401


def fetched(browser: urllib.request.OpenerDirector, url: str) -> int:
    try:
        with browser.open(url, timeout=30) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as exc:
        with exc:
            return exc.code


# ── what holds of every route

DESCRIBED: dict[str, Any] = build(None).openapi()  # type: ignore[arg-type]  # no route is called
ROUTES = [(method.upper(), path) for path, methods in DESCRIBED["paths"].items() for method in methods]
OPEN = {"/health", "/health/ready"}
NO_MEMORY = "memories/2026/09/2026-09-02%20None.md"


def target_of(path: str, door: Door) -> str:
    """A route's path with what it stands for filled in, of the source that is connected if there is one."""
    sources = door.get("/api/sources")["sources"]
    source_id = sources[0]["id"] if sources else "obsidian:0"
    job_id = sources[0]["job"]["id"] if sources else "sync:0"
    query = "?address=caching.md" if path.startswith("/api/notes") else ""
    return path.format(source_id=source_id, job_id=job_id, memory_id=NO_MEMORY) + query


FAULTS: dict[str, tuple[int, dict[str, str]]] = {
    "no token": (401, {"Authorization": ""}),
    "wrong token": (401, {"Authorization": "Bearer " + "0" * 64}),
    "another host": (403, {"Host": "evil.example"}),
    "another origin": (403, {"Origin": "https://evil.example"}),
    "another site": (403, {"Sec-Fetch-Site": "cross-site"}),
    "a form": (415, {"Content-Type": "application/x-www-form-urlencoded", "Content-Length": "2"}),
    "no type": (415, {"Content-Type": "", "Content-Length": "2"}),
    "50 MB": (413, {"Content-Length": str(50 << 20)}),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_every_route_refuses_in_one_shape(standing: Served, method: str, path: str, fault: str) -> None:
    door = Door(standing.settings, tcp=True)
    status, headers = FAULTS[fault]
    if status == 401 and path in OPEN:
        return
    answer = headed(door, method, target_of(path, door), headers)
    assert answer.status == status, answer


def headed(door: Door, method: str, target: str, headers: Mapping[str, str]) -> Answer:
    """The answer to a head alone: a refusal waits for no body."""
    told = {**door.headers(), **headers}
    channel = door.channel()
    try:
        channel.putrequest(method, target, skip_host="Host" in told, skip_accept_encoding=True)
        for name, value in told.items():
            if value:
                channel.putheader(name, value)
        channel.endheaders()
        return answer_of(channel.getresponse())
    finally:
        channel.close()


@pytest.mark.parametrize("path", sorted({path for _, path in ROUTES}))
def test_every_route_refuses_other_methods_and_longer_paths(reader: Door, path: str) -> None:
    target = target_of(path, reader)
    for method in ("PUT", "TRACE", "OPTIONS", "VADE"):
        answer = reader.ask(method, target)
        assert (answer.status, answer.code) == (405, "method_refused")
        assert answer.headers["allow"]
    # A memory's id is a path itself, which may be as long as it likes.
    of_memories = path.startswith("/api/memory/")
    longer = reader.ask("GET", f"{target if of_memories else path}/more/of/it")
    assert longer.code == ("memory_not_found" if of_memories else "route_not_found")


def wrong_bodies() -> Iterator[Any]:
    """For each route with a body: what is no JSON, no object, has a field of no route, or one of a wrong type."""
    for method, path in ROUTES:
        if "requestBody" not in DESCRIBED["paths"][path][method.lower()]:
            continue
        schema = schema_of(DESCRIBED["paths"][path][method.lower()]["requestBody"])
        right = dict.fromkeys(schema.get("required", ()), "x")
        wrong: list[Any] = [b"{", b"\xff", b"[]", b'"x"', b"[" * 100_000, {**right, "surprise": 1}]
        wrong += [{**right, name: value} for name, told in schema["properties"].items() for value in unlike(told)]
        yield pytest.param(method, path, wrong, id=f"{method} {path}")


def schema_of(body: Mapping[str, Any]) -> Mapping[str, Any]:
    schema = body["content"]["application/json"]["schema"]
    (reference,) = [choice["$ref"] for choice in schema.get("anyOf", (schema,)) if "$ref" in choice]
    found: Mapping[str, Any] = DESCRIBED["components"]["schemas"][reference.rpartition("/")[2]]
    return found


def unlike(field: Mapping[str, Any]) -> list[Any]:
    """Values of other types than a field takes, such as a lenient reader would take for it."""
    kinds = {choice.get("type") for choice in field.get("anyOf", (field,))}
    values = {"string": "1", "integer": 1, "boolean": True, "array": ["x", 7], "object": {}, "number": 1.5}
    if "number" in kinds:
        kinds.add("integer")
    strange = [value for kind, value in values.items() if kind not in kinds]
    return strange if "null" in kinds else [*strange, None]


@pytest.mark.parametrize(("method", "path", "wrong"), list(wrong_bodies()))
def test_every_body_is_checked(standing: Served, method: str, path: str, wrong: list[Any]) -> None:
    door = Door(standing.settings)
    for body in wrong:
        answer = door.ask(method, target_of(path, door), body)
        assert (answer.status, answer.code) == (400, "bad_request"), (body, answer)


def test_a_body_of_50_mb_is_refused_though_it_says_no_length(standing: Served) -> None:
    door = Door(standing.settings, tcp=True)
    channel = door.channel()
    with closing(channel):
        channel.putrequest("POST", "/api/recall")
        for name, value in {**door.headers(), "Transfer-Encoding": "chunked"}.items():
            channel.putheader(name, value)
        channel.endheaders()
        with suppress(OSError):  # it may cut off who sends on
            for _ in range((50 << 20) // 0x10000):
                channel.send(b"10000\r\n" + b"x" * 0x10000 + b"\r\n")
        with suppress(OSError):
            assert answer_of(channel.getresponse()).status == 413
    assert metrics(door)["process_resident_memory_bytes"] < 1 << 30
    assert door.get("/health")["status"] == "ok"


def test_the_description_declares_what_routes_refuse(reader: Door) -> None:
    described = reader.get("/api/openapi.json")
    assert described == DESCRIBED
    for method, path in ROUTES:
        answers = described["paths"][path][method.lower()]["responses"]
        assert set(answers) >= {"400", "401", "403", "413", "415"}
        assert "422" not in answers
        assert ("404" in answers) >= ("{" in path)
        refused = [told for status, told in answers.items() if status >= "400"]
        shapes = {told["content"]["application/json"]["schema"]["$ref"] for told in refused}
        assert shapes == {"#/components/schemas/Failure"}


GETS = [p for method, p in ROUTES if method == "GET" and p != "/api/events" and "{memory_id}" not in p]


def test_reading_changes_nothing(reader: Door, vault_bytes: Snapshots) -> None:
    root = Path(source_of(reader)["root"])

    def state() -> Any:
        rows = live_documents(reader.settings)
        return reader.settings.sources_file.read_bytes(), counts(reader.settings), rows, vault_bytes(root)

    before = state()
    for path in GETS:
        assert reader.ask("GET", target_of(path, reader)).status == 200
    assert state() == before


# ── clients that misbehave


def hang_up(door: Door, channel: http.client.HTTPConnection) -> None:
    """End a connection at once, as a killed client's is."""
    assert channel.sock is not None
    if door.tcp:
        channel.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    channel.sock.close()


def test_reading_makes_nothing_where_nothing_is_connected(served: Served) -> None:
    wait_until(served.settings.index_file.exists)  # the daemon makes it itself, when it begins
    before = sorted(path.name for path in served.settings.home.rglob("*"))
    for path in ("/api/sources", "/api/status", "/api/notes/read?address=a.md", "/api/notes/expand?address=a.md"):
        assert served.ask("GET", path)[0] in (200, 404)
    assert sorted(path.name for path in served.settings.home.rglob("*")) == before


def test_a_client_that_goes_in_the_middle_of_its_request_leaves_nothing(reader: Door) -> None:
    open_before = metrics(reader)["process_open_fds"]
    for announced in (10, 100_000):
        for _ in range(20):
            channel = reader.channel()
            channel.putrequest("POST", "/api/recall")
            for name, value in {**reader.headers(), "Content-Length": str(announced)}.items():
                channel.putheader(name, value)
            channel.endheaders(b'{"que')
            hang_up(reader, channel)
    wait_until(lambda: metrics(reader)["process_open_fds"] <= open_before)
    assert reader.ask("POST", "/api/recall", {"query": "redis"}).status == 200


def test_a_client_that_goes_in_the_middle_of_an_answer_leaves_nothing(
    launch: Launch, vade_home: Path, large: Path
) -> None:
    vade_home.mkdir(mode=0o700)
    (vade_home / "config.toml").write_text('[embedding]\nmodel = "none"\n')  # whatever opens files later
    settings = launch().settings
    target = f"/api/sources/{connected(Door(settings), large)}/graph"
    for door in (Door(settings), Door(settings, tcp=True)):
        assert door.ask("POST", "/api/recall", {"query": "words"}).status == 200
        hang_up(door, half_read(door, target))
        wait_until(partial(is_settled, door))
        open_before = metrics(door)["process_open_fds"]
        for _ in range(3):
            hang_up(door, half_read(door, target))
        wait_until(lambda: metrics(door)["process_open_fds"] <= open_before)  # noqa: B023 - called in this round
        assert door.ask("POST", "/api/recall", {"query": "words"}).status == 200


def is_settled(door: Door) -> bool:
    """Whether two looks a moment apart find the same files open."""
    first = metrics(door)["process_open_fds"]
    time.sleep(0.2)
    return metrics(door)["process_open_fds"] == first


def half_read(door: Door, target: str) -> http.client.HTTPConnection:
    """A client that has read the beginning of an answer, and reads no further."""
    channel = door.channel()
    channel.connect()
    channel.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    channel.request("GET", target, headers=door.headers())
    assert channel.sock.recv(1000).startswith(b"HTTP/1.1 200")
    return channel


def test_a_client_that_reads_no_further_hinders_no_removal(served: Served, large: Path) -> None:
    door = Door(served.settings)
    source_id = connected(door, large)
    stalled = [half_read(door, f"/api/sources/{source_id}/graph") for _ in range(2)]
    answer = door.ask("DELETE", f"/api/sources/{source_id}")
    assert answer.status == 200
    assert answer.content["proof"]["clean"] is True
    assert set(counts(door.settings).values()) == {0}
    for channel in stalled:
        hang_up(door, channel)


def test_fifty_requests_at_once_are_all_answered(reader: Door) -> None:
    source_id = source_of(reader)["id"]
    targets = [target_of(path, reader) for path in GETS]
    failed: list[Any] = []
    together = threading.Barrier(50)

    def client(number: int) -> None:
        together.wait()
        for round_ in range(3):
            answer = reader.ask("GET", targets[(number + round_) % len(targets)])
            asked = reader.ask("POST", "/api/recall", {"query": "redis", "source": [source_id]})
            failed.extend(one for one in (answer, asked) if one.status != 200)

    with ThreadPoolExecutor(50) as pool:
        list(pool.map(client, range(50)))
    assert failed == []
