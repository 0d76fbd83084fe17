"""The service runs this interpreter on this state folder, however odd their paths; and goes without a trace."""

import os
import plistlib
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from vademecum.config import Settings
from vademecum.daemon.unit import install, installed, launchd_plist, systemd_unit, uninstall
from vademecum.errors import StateError, StateReadOnly

MakeSettings = Callable[..., Settings]

ODD = [
    "/home/somebody/.vademecum",
    "/srv/two words/  and more ",
    "/srv/100%h %% %i",
    "/srv/$HOME/${HOME}/$$/a$",
    "/srv/o'brien's",
    '/srv/"quoted"',
    "/srv/back\\slash\\n\\x41\\",
    "/srv/naïve – 文 \U0001f43b\u00a0",
    "/srv/#;&|<>*?~`!=()[]{}",
    "/srv/'\"\\$%",
]

ECHO = """#!/bin/sh
printf '%s\\0' "$0" "$@"
"""


def settings_at(home: str) -> Settings:
    return Settings(home=Path(home), values={})


def value_of(unit: str, key: str) -> str:
    (line,) = [line for line in unit.splitlines() if line.startswith(key + "=")]
    return line.removeprefix(key + "=")


def words_of(value: str) -> list[str]:
    """The words that systemd reads, by its manual: quotes, C escapes, then specifiers. No code of ours."""
    words, word, quote, rest = list[str](), None, "", iter(value)
    for letter in rest:
        if letter == "\\":
            word = (word or "") + {"\\": "\\", '"': '"', "'": "'", "s": " ", "n": "\n", "t": "\t"}[next(rest)]
        elif quote:
            quote, word = ("", word) if letter == quote else (quote, (word or "") + letter)
        elif letter in "\"'":
            quote, word = letter, word or ""
        elif letter == " ":
            words += [word] if word is not None else []
            word = None
        else:
            word = (word or "") + letter
    assert not quote
    words += [word] if word is not None else []
    return [without_specifiers(each) for each in words]


def without_specifiers(word: str) -> str:
    pieces = word.split("%%")
    assert not any("%" in piece for piece in pieces), f"a specifier that systemd would expand in {word}"
    return "%".join(pieces)


def without_variables(word: str) -> str:
    pieces = word.split("$$")
    assert not any("$" in piece for piece in pieces), f"a variable that systemd would expand in {word}"
    return "$".join(pieces)


def argv_of(unit: str) -> list[str]:
    """What systemd executes: the program's own path is not looked through for variables, the other words are."""
    program, *rest = words_of(value_of(unit, "ExecStart"))
    assert not set("\"'\\") & set(program), "systemd refuses such a program"
    return [program, *map(without_variables, rest)]


# ── what is written


@pytest.mark.parametrize("home", ODD)
def test_the_unit_names_the_state_folder_byte_for_byte(home: str) -> None:
    unit = systemd_unit(settings_at(home), "/usr/bin/python3")
    assert words_of(value_of(unit, "Environment")) == [f"VADE_HOME={home}"]
    assert argv_of(unit) == ["/usr/bin/python3", "-P", "-m", "vademecum", "serve"]
    assert value_of(unit, "Restart") == "on-failure"
    assert value_of(unit, "WantedBy") == "default.target"


@pytest.mark.parametrize("place", ODD)
def test_the_unit_starts_the_interpreter_wherever_it_lies(tmp_path: Path, place: str) -> None:
    python = tmp_path / place.removeprefix("/") / "python"
    python.parent.mkdir(parents=True)
    python.write_text(ECHO)
    python.chmod(0o755)
    argv = argv_of(systemd_unit(settings_at("/h"), str(python)))
    done = subprocess.run(argv, capture_output=True, encoding="utf-8", check=True, timeout=20)
    assert done.stdout.split("\0")[:-1] == [str(python), "-P", "-m", "vademecum", "serve"]


@pytest.mark.parametrize("place", ODD)
def test_systemd_itself_takes_the_unit(tmp_path: Path, place: str) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd-analyze here")
    python = tmp_path / place.removeprefix("/") / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    unit = tmp_path / "vademecum-0123abcd.service"
    unit.write_text(systemd_unit(settings_at(place), str(python)), encoding="utf-8")
    env = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}
    command = ["systemd-analyze", "--user", "verify", str(unit)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
    # It looks at the other units of the machine too.
    assert [line for line in done.stderr.splitlines() if unit.name in line] == []


@pytest.mark.parametrize("place", ODD)
def test_the_agent_of_launchd_says_the_same(place: str) -> None:
    agent = plistlib.loads(launchd_plist(settings_at(place), f"{place}/python"))
    assert agent["ProgramArguments"] == [f"{place}/python", "-P", "-m", "vademecum", "serve"]
    assert agent["EnvironmentVariables"] == {"VADE_HOME": place}
    assert agent["RunAtLoad"] is True
    assert agent["KeepAlive"] == {"SuccessfulExit": False}


@pytest.mark.parametrize("path", ["/srv/two\nlines", "/srv/bell\x07", "/srv/\udcff", "/srv/tab\t"])
def test_a_path_that_no_service_can_hold_is_refused(path: str) -> None:
    for write in (systemd_unit, launchd_plist):
        with pytest.raises(StateError, match="no service can name"):
            write(settings_at(path), "/usr/bin/python3")
        with pytest.raises(StateError, match="no service can name"):
            write(settings_at("/h"), path)


# ── installing


class Session:
    """Real programs called systemctl and launchctl, which note how they are called."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.log = folder / "calls"
        folder.mkdir()
        monkeypatch.setenv("PATH", str(folder))

    def has(self, name: str, *lines: str) -> None:
        path = self.folder / name
        path.write_text("\n".join(["#!/bin/sh", f'echo "{name} $*" >> "{self.log}"', *lines, ""]))
        path.chmod(0o755)

    def calls(self) -> Sequence[str]:
        calls = self.log.read_text().splitlines() if self.log.exists() else []
        self.log.unlink(missing_ok=True)
        return calls


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Session:
    return Session(tmp_path / "bin", monkeypatch)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def test_the_service_is_written_and_started(make_settings: MakeSettings, home: Path, session: Session) -> None:
    session.has("systemctl")
    settings = make_settings()
    told = install(settings, system="linux", home=home)
    path = installed(settings, system="linux", home=home)
    assert path is not None
    assert path.parent == home / ".config" / "systemd" / "user"
    assert path.read_text(encoding="utf-8") == systemd_unit(settings, sys.executable)
    assert session.calls() == ["systemctl --user daemon-reload", f"systemctl --user enable --now {path.name}"]
    assert told.started
    assert told.sentences == [f"Wrote {path}.", "systemd starts the daemon now and at every login."]
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_two_state_folders_have_two_services(home: Path, session: Session) -> None:
    session.has("systemctl")
    paths = set()
    for state in ("/a", "/b"):
        install(settings_at(state), system="linux", home=home)
        paths.add(installed(settings_at(state), system="linux", home=home))
    assert len(paths) == 2


def test_installing_again_writes_what_is_right_now(make_settings: MakeSettings, home: Path, session: Session) -> None:
    session.has("systemctl")
    install(make_settings(), system="linux", home=home)
    path = installed(make_settings(), system="linux", home=home)
    assert path is not None
    path.write_text("[Service]\nExecStart=/gone/python\n")
    install(make_settings(), system="linux", home=home)
    assert path.read_text(encoding="utf-8") == systemd_unit(make_settings(), sys.executable)


@pytest.mark.parametrize(
    ("systemctl", "why"),
    [
        (None, "systemctl is not installed."),
        (("echo 'Failed to connect to bus: No medium found' >&2; exit 1",), "Failed to connect to bus"),
        (("exit 5",), "systemctl failed with status 5."),
    ],
)
def test_without_a_session_the_file_is_written_and_the_rest_is_told(
    make_settings: MakeSettings, home: Path, session: Session, systemctl: tuple[str, ...] | None, why: str
) -> None:
    if systemctl:
        session.has("systemctl", *systemctl)
    told = install(make_settings(), system="linux", home=home)
    path = installed(make_settings(), system="linux", home=home)
    assert not told.started
    assert path is not None and told.sentences[0] == f"Wrote {path}."
    assert why in told.sentences[1]
    assert "`systemctl --user daemon-reload` and `systemctl --user enable --now " + path.name in told.sentences[2]


def test_only_what_failed_is_left_to_the_person(make_settings: MakeSettings, home: Path, session: Session) -> None:
    session.has("systemctl", '[ "$2" = daemon-reload ]')
    told = install(make_settings(), system="linux", home=home)
    assert "daemon-reload" not in told.sentences[2]
    assert "enable --now" in told.sentences[2]


def test_a_program_that_hangs_is_given_up(make_settings: MakeSettings, home: Path) -> None:
    def hanging(command: Sequence[str], **options: object) -> subprocess.CompletedProcess[bytes]:
        assert options["timeout"]
        raise subprocess.TimeoutExpired(command, 30)

    told = install(make_settings(), system="linux", home=home, run=hanging)
    assert told.sentences[1] == "systemctl did not answer within 30 s."


def test_on_a_mac_the_agent_is_loaded_and_an_older_one_replaced(
    make_settings: MakeSettings, home: Path, session: Session
) -> None:
    session.has("launchctl")
    told = install(make_settings(), system="darwin", home=home)
    path = installed(make_settings(), system="darwin", home=home)
    assert path is not None
    assert path.parent == home / "Library" / "LaunchAgents"
    label = plistlib.loads(path.read_bytes())["Label"]
    assert path.name == f"{label}.plist"
    load = f"launchctl bootstrap gui/{os.getuid()} {path}"
    assert session.calls() == [load]
    assert told.sentences[1] == "launchd starts the daemon now and at every login."
    install(make_settings(), system="darwin", home=home)
    assert session.calls() == [f"launchctl bootout gui/{os.getuid()}/{label}", load]


def test_a_folder_that_cannot_be_made_is_our_error(make_settings: MakeSettings, home: Path, session: Session) -> None:
    home.write_text("in the way")
    with pytest.raises(StateReadOnly):
        install(make_settings(), system="linux", home=home)
    assert session.calls() == []


# ── removing


@pytest.mark.parametrize(
    ("system", "program", "calls"),
    [
        ("linux", "systemctl", ["systemctl --user disable --now {name}", "systemctl --user daemon-reload"]),
        ("darwin", "launchctl", ["launchctl bootout gui/{uid}/{label}"]),
    ],
)
def test_removing_stops_the_service_and_leaves_nothing(
    make_settings: MakeSettings, home: Path, session: Session, system: str, program: str, calls: list[str]
) -> None:
    session.has(program)
    settings = make_settings()
    install(settings, system=system, home=home)
    path = installed(settings, system=system, home=home)
    assert path is not None
    session.calls()
    told = uninstall(settings, system=system, home=home)
    assert told == [f"Removed {path}.", "The daemon that it started has been stopped."]
    names = {"name": path.name, "label": path.stem, "uid": os.getuid()}
    assert session.calls() == [call.format(**names) for call in calls]
    assert installed(settings, system=system, home=home) is None
    assert not list(path.parent.iterdir())
    assert uninstall(settings, system=system, home=home) == [
        "No service of this state folder is installed; nothing was changed."
    ]
    assert session.calls() == []


def test_where_systemctl_cannot_be_asked_its_link_goes_too(
    make_settings: MakeSettings, home: Path, session: Session
) -> None:
    settings = make_settings()
    install(settings, system="linux", home=home)
    path = installed(settings, system="linux", home=home)
    assert path is not None
    link = path.parent / "default.target.wants" / path.name
    link.parent.mkdir()
    link.symlink_to(path)
    told = uninstall(settings, system="linux", home=home)
    assert told[0] == f"Removed {path}."
    assert told[1] == "systemctl is not installed."
    assert f"`systemctl --user stop {path.name}`" in told[2]
    assert not os.path.lexists(link)
    assert installed(settings, system="linux", home=home) is None
