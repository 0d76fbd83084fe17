"""A real daemon process for a state of its own, and ways to ask it."""

import http.client
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from process import clean_environment
from vademecum import config
from vademecum.config import Settings
from vademecum.daemon import control
from vademecum.daemon.control import Running
from vademecum.pump import ask


@dataclass
class Served:
    """A daemon that runs. It keeps this machine's loopback, which a namespace of its own would take away."""

    settings: Settings
    child: subprocess.Popen[bytes]
    running: Running
    env: dict[str, str] = field(default_factory=dict)

    @property
    def token(self) -> str:
        return (self.settings.run_dir / "token").read_text().strip()

    def ask(self, method: str, target: str, body: Any = None, *, timeout_s: float = 30) -> tuple[int, Any]:
        """Over the socket: status and JSON."""
        sent = None if body is None else json.dumps(body).encode()
        status, content = ask(str(control.http_socket(self.settings)), method, target, sent, timeout_s=timeout_s)
        try:
            return status, json.loads(content)
        except ValueError:
            return status, content.decode()

    def over_tcp(
        self, method: str, target: str, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        """Over TCP, with the token."""
        channel = http.client.HTTPConnection("127.0.0.1", self.running.port, timeout=30)
        try:
            sent = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json", **(headers or {})}
            channel.request(method, target, body=body, headers=sent)
            answer = channel.getresponse()
            content = answer.read()
            return answer.status, json.loads(content) if content else None
        finally:
            channel.close()

    def job_ended(self, job: dict[str, Any], *, timeout_s: float = 60) -> dict[str, Any]:
        """Wait until a job is over."""
        found: dict[str, Any] = {}

        def ended() -> bool:
            nonlocal found
            status, answer = self.ask("GET", f"/api/jobs/{job['id']}")
            assert status == 200, answer
            found = answer["job"]
            return found["status"] not in ("queued", "running")

        wait_until(ended, timeout_s=timeout_s)
        return found

    def connect(self, root: Path, *, kind: str = "folder", **body: Any) -> str:
        """Connect a folder and wait for its index: the source's id."""
        status, answer = self.ask("POST", f"/api/sources/{kind}", {"path": str(root), **body})
        assert status == 202, answer
        assert self.job_ended(answer["job"])["status"] == "complete"
        return str(answer["source"]["id"])

    def found(self, words: str) -> list[str]:
        """Paths of the notes that answer."""
        _, answer = self.ask("POST", "/api/recall", {"query": words, "lane": "words"})
        return [hit["path"] for hit in answer["hits"]]

    def end(self, number: int = signal.SIGTERM, *, timeout_s: float = 30) -> int:
        """Signal it, and wait: its exit status."""
        self.child.send_signal(number)
        return self.child.wait(timeout_s)


def wait_until(true: Callable[[], bool], *, timeout_s: float = 30) -> None:
    """Wait for a condition, with a bound that a busy machine does not reach."""
    deadline = time.monotonic() + timeout_s
    while not true():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.02)


Launch = Callable[..., Served]
Configure = Callable[[Mapping[str, Any]], None]


def launching(vade_home: Path, home: Path) -> Iterator[Launch]:
    """Start daemons on a state folder; all that run are ended at the end."""
    begun: list[Served] = []

    def launch(**env: str) -> Served:
        told = {"VADE_HOME": str(vade_home), "VADE_PORT": "0", "HOME": str(home), **env}
        settings = config.load(told)
        child = subprocess.Popen(
            [sys.executable, "-P", "-m", "vademecum", "serve"],
            env={**clean_environment(), **told},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=home,
        )

        def ready() -> bool:
            assert child.poll() is None, child.communicate()[0].decode()
            return (found := control.running(settings)) is not None and found.pid == child.pid

        wait_until(ready)
        found = control.running(settings)
        assert found is not None
        begun.append(Served(settings, child, found, told))
        return begun[-1]

    try:
        yield launch
    finally:
        for served in begun:
            if served.child.poll() is None:
                served.child.kill()
            served.child.communicate()
