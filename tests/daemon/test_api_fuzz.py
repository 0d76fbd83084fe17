"""The API as its own description says that it is, whatever is sent: schemathesis makes the requests.

The daemon that is fuzzed has a state and a vault of its own, and every folder that a request names is moved into that
vault's parent first, so that nothing of this machine is ever connected.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import Case, GenerationMode
from schemathesis.openapi import from_dict
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from daemon_process import Served, launching
from vademecum.daemon.api import build

CHECKS: Any = [status_code_conformance, content_type_conformance, response_schema_conformance]
DESCRIBED = build(None).openapi()  # type: ignore[arg-type]  # no route is called
SCHEMA = from_dict(DESCRIBED)
ENDLESS = "/api/events"
ROUTES = [(method, path) for path, methods in DESCRIBED["paths"].items() for method in methods if path != ENDLESS]
NOTES = {"a.md": "# A\n\nredis, see [[b]] #tag\n", "sub/b.md": "---\ntags: [x]\n---\n# B\n\nwords\n"}


@dataclass(frozen=True)
class Target:
    """The daemon that is fuzzed, and the only folder whose insides it may be told to look at."""

    served: Served
    folder: Path

    def send(self, case: Case[Any]) -> None:
        """Send a request, and see that the answer is one that was described."""
        case.path_parameters = self._aimed(case.path_parameters)
        case.query = aimed_query(case.query)
        case.body = self._fenced(case.body)
        answer = case.call(
            base_url=self.served.running.url, headers={"Authorization": f"Bearer {self.served.token}"}, timeout=60
        )
        case.validate_response(answer, checks=CHECKS)
        assert answer.status_code < 500 or answer.status_code in (501, 503), answer.text
        assert not [name for name in answer.headers if name.startswith("access-control-")]
        if answer.status_code >= 400:
            check_refusal(json.loads(answer.content))

    def _fenced(self, body: Any) -> Any:
        if not isinstance(body, dict):
            return body
        inside = {key: self._inside(body[key]) for key in ("path", "root") if isinstance(body.get(key), str)}
        return {**body, **inside}

    def _inside(self, path: str) -> str:
        """Every other path is the vault, or a folder in it; no other leads out of the folder, or to its state."""
        plain = path.replace("..", "__").replace("state", "____")
        return f"{self.folder}/vault" if len(path) % 2 else f"{self.folder}/{plain}"

    def _aimed(self, parameters: Mapping[str, Any] | None) -> dict[str, Any]:
        """Often the source that there is, since no random id would ever be one."""
        given_ = dict(parameters or {})
        if "source_id" in given_ and len(str(given_["source_id"])) % 3:
            _, listed = self.served.ask("GET", "/api/sources")
            given_["source_id"] = next((found["id"] for found in listed["sources"]), "none")
        return given_


def aimed_query(query: Mapping[str, Any] | None) -> dict[str, Any]:
    """Often an address in a note that there is."""
    found = dict(query or {})
    for name, note in (("address", "a.md"), ("path", "sub/b.md")):
        if isinstance(found.get(name), str) and len(found[name]) % 2:
            found[name] = note + found[name][1:]
    return found


def check_refusal(content: Any) -> None:
    assert set(content) == {"error"}
    assert set(content["error"]) == {"code", "message", "hint"}
    assert all(isinstance(value, str) for value in content["error"].values())


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """A daemon with a small vault, and a program that chooses it."""
    folder = tmp_path_factory.mktemp("fuzzed")
    (folder / "state").mkdir(mode=0o700)
    (folder / "state" / "config.toml").write_text('[embedding]\nmodel = "hashing"\n')
    for name, text in NOTES.items():
        (folder / "vault" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "vault" / name).write_text(text)
    picker = folder / "picker"
    picker.write_text(f'#!/bin/sh\necho "{folder}/vault"\n')
    picker.chmod(0o755)
    with contextmanager(launching)(folder / "state", folder) as launch:
        yield Target(launch(VADE_DIRECTORY_PICKER=str(picker)), folder)


@pytest.fixture
def vault(target: Target) -> Target:
    """The daemon with its vault connected, which a request may have removed."""
    target.served.connect(target.folder / "vault", kind="obsidian")
    return target


def fuzz(target: Target, method: str, path: str, examples: int) -> None:
    """Send many requests to a route, right ones and wrong ones."""
    operation = SCHEMA[path][method]
    kinds = [operation.as_strategy(generation_mode=mode) for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)]

    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        derandomize=True,
    )
    @given(st.one_of(kinds))
    def run(case: Case[Any]) -> None:
        target.send(case)

    run()


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_a_route_answers_as_described(vault: Target, method: str, path: str) -> None:
    fuzz(vault, method, path, 30)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_a_route_answers_as_described_however_long_it_is_asked(vault: Target, method: str, path: str) -> None:
    fuzz(vault, method, path, 500)


def test_the_fuzzed_daemon_never_left_its_folder(vault: Target) -> None:
    _, listed = vault.served.ask("GET", "/api/sources")
    assert listed["sources"]
    assert all(Path(found["root"]).is_relative_to(vault.folder) for found in listed["sources"])
    log = vault.folder / "state" / "logs" / "crash.log"
    assert not log.exists(), log.read_text()
