"""A folder is chosen in a window, or it is said why not: soon, and without anything left running."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from vademecum.daemon.picker import Picked, Picker
from vademecum.errors import PickerBusy, PickerError, PickerMissing

Script = Callable[..., Path]
MakePicker = Callable[..., Picker]


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """The only folder on the PATH of the picker."""
    folder = tmp_path / "bin"
    folder.mkdir()
    return folder


@pytest.fixture
def chosen(tmp_path: Path) -> Path:
    folder = tmp_path / "my vault – 文"
    folder.mkdir()
    return folder


@pytest.fixture
def script(programs: Path, tmp_path: Path) -> Script:
    """Put a program on the PATH. It notes its arguments, one a line, in NAME.ran beside it."""

    def write(name: str, *lines: str) -> Path:
        path = programs / name
        head = ["#!/bin/sh", "PATH=/usr/bin:/bin", 'printf "%s\\n" ran "$@" > "$0.ran"']
        path.write_text("\n".join([*head, *lines, ""]), encoding="utf-8")
        path.chmod(0o755)
        return path

    return write


@pytest.fixture
def picker(programs: Path, chosen: Path) -> Iterator[MakePicker]:
    made = []

    def make(override: str | Path = "", *, system: str = "linux", timeout_s: float = 20.0, **env: str) -> Picker:
        environment = {"PATH": str(programs), "HOME": "/home/somebody", "DISPLAY": ":0", "CHOSEN": str(chosen), **env}
        made.append(Picker(str(override), environment=environment, system=system, timeout_s=timeout_s))
        return made[-1]

    yield make
    for each in made:
        each.close()


def arguments(program: Path) -> list[str] | None:
    """What a script was called with; None when it never ran."""
    note = program.with_name(program.name + ".ran")
    return note.read_text(encoding="utf-8").splitlines()[1:] if note.exists() else None


CHOOSE = 'echo "$CHOSEN"'
NEVER = "echo /"


# ── the user's own program


def test_the_users_program_runs_alone_and_without_arguments(script: Script, picker: MakePicker, chosen: Path) -> None:
    own, zenity = script("own picker", CHOOSE), script("zenity", NEVER)
    assert picker(own, DISPLAY="").pick("Where?") == Picked(str(chosen))
    assert picker("own picker").pick() == Picked(str(chosen))
    assert arguments(own) == []
    assert arguments(zenity) is None


@pytest.mark.parametrize("ending", ["exit 1", "exit 130", "true", "echo", 'echo "$CHOSEN"; exit 2', "kill -9 $$"])
def test_the_users_program_cancels_by_its_status_or_by_saying_nothing(
    script: Script, picker: MakePicker, ending: str
) -> None:
    zenity = script("zenity", NEVER)
    assert picker(script("own", ending)).pick() == Picked(None)
    assert arguments(zenity) is None


def test_a_program_that_cannot_be_run_is_named_and_nothing_else_is_tried(
    script: Script, picker: MakePicker, programs: Path
) -> None:
    zenity = script("zenity", NEVER)
    script("closed").chmod(0o644)
    (programs / "odd").write_text("#!/no/such/shell\n")
    (programs / "odd").chmod(0o755)
    for name in ("gone", "closed", "odd", str(programs), "own --with words"):
        with pytest.raises(PickerMissing, match=name):
            picker(name).pick()
    assert arguments(zenity) is None


def test_a_program_has_nothing_to_read(script: Script, picker: MakePicker, chosen: Path) -> None:
    assert picker(script("own", "read line", CHOOSE)).pick() == Picked(str(chosen))


# ── what counts as a folder


@pytest.mark.parametrize("printed", ["%s", "%s\\n", "%s/", "%s/\\n"])
def test_the_end_of_the_line_and_a_slash_are_not_part_of_the_path(
    script: Script, picker: MakePicker, chosen: Path, printed: str
) -> None:
    assert picker(script("own", f'printf "{printed}" "$CHOSEN"')).pick() == Picked(str(chosen))


def test_the_root_stays_what_it_is(script: Script, picker: MakePicker) -> None:
    assert picker(script("own", "echo /")).pick() == Picked("/")


def test_spaces_and_line_ends_in_a_name_are_kept(script: Script, picker: MakePicker, tmp_path: Path) -> None:
    odd = tmp_path / " two\nlines "
    odd.mkdir()
    assert picker(script("own", CHOOSE), CHOSEN=str(odd)).pick() == Picked(str(odd))


@pytest.mark.parametrize(
    ("printed", "told"),
    [
        ("echo relative", "relative"),
        ("echo ~/vault", "~/vault"),
        ("echo /no/such/folder", "/no/such/folder"),
        ("echo /etc/passwd", "/etc/passwd"),
        ('echo "$CHOSEN"; echo "$CHOSEN"', r"vault – 文\\n"),
        (r"printf '/\377\376'", r"not UTF-8.*\\xff"),
        (r"printf '/tmp\0/x'", r"/tmp\\x00"),
    ],
)
def test_what_is_no_existing_folder_is_refused_and_quoted(
    script: Script, picker: MakePicker, printed: str, told: str
) -> None:
    with pytest.raises(PickerError, match=told):
        picker(script("own", printed.replace("~", "'~'"))).pick()


# ── the desktop's programs


def test_zenity_gets_the_title_as_one_word(script: Script, picker: MakePicker, chosen: Path, tmp_path: Path) -> None:
    zenity, kdialog = script("zenity", CHOOSE), script("kdialog", NEVER)
    title = f"A 'vault' \"$(touch {tmp_path}/made)\" ; \x07\x1b[1m – naïve\n--x \ud800"
    assert picker().pick(title) == Picked(str(chosen))
    plain = f"A 'vault' \"$(touch {tmp_path}/made)\" ; [1m – naïve--x "
    assert arguments(zenity) == ["--file-selection", "--directory", "--title", plain]
    assert arguments(kdialog) is None
    assert not (tmp_path / "made").exists()


def test_a_window_without_a_title_gets_the_usual_one(script: Script, picker: MakePicker) -> None:
    zenity = script("zenity", CHOOSE)
    picker().pick()
    assert (arguments(zenity) or [])[-1] == "Choose folder"
    picker().pick("\0\n")
    assert (arguments(zenity) or [])[-1] == "Choose folder"


@pytest.mark.parametrize(
    "zenity",
    [
        None,
        ("echo trouble >&2; exit 255",),
        ("kill -11 $$",),
        ("echo 'cannot open display: :0' >&2; exit 1",),
        ("echo 'Failed to open display' >&2; exit 1",),
        ("exit 0",),
    ],
)
def test_kdialog_opens_where_zenity_does_not(
    script: Script, picker: MakePicker, chosen: Path, zenity: tuple[str, ...] | None
) -> None:
    if zenity:
        script("zenity", *zenity)
    kdialog = script("kdialog", CHOOSE)
    assert picker(WAYLAND_DISPLAY="wayland-0", DISPLAY="").pick("Where?") == Picked(str(chosen))
    assert arguments(kdialog) == ["--title", "Where?", "--getexistingdirectory", "/home/somebody"]


def test_who_cancels_one_window_gets_no_second_one(script: Script, picker: MakePicker) -> None:
    kdialog = script("kdialog", "exit 1")
    assert picker().pick() == Picked(None)
    kdialog.with_name("kdialog.ran").unlink()
    script("zenity", "echo 'Gtk-Message: mapped without a transient parent' >&2; exit 1")
    assert picker().pick() == Picked(None)
    assert arguments(kdialog) is None


def test_everything_that_was_tried_is_named_with_its_reason(script: Script, picker: MakePicker) -> None:
    script("kdialog", "echo first >&2; echo 'no such plugin' >&2; exit 134")
    with pytest.raises(PickerMissing) as missing:
        picker().pick()
    assert "zenity is not installed; kdialog ended with status 134: no such plugin" in missing.value.message
    assert "paste the path" in missing.value.hint


def test_without_a_graphical_session_nothing_is_started(script: Script, picker: MakePicker) -> None:
    zenity = script("zenity", CHOOSE)
    with pytest.raises(PickerMissing, match="neither DISPLAY nor WAYLAND_DISPLAY"):
        picker(DISPLAY="").pick()
    assert arguments(zenity) is None


# ── macOS


def test_osascript_gets_the_title_as_data(script: Script, picker: MakePicker, chosen: Path) -> None:
    script("launchctl", '[ "$*" = managername ] && echo Aqua')
    osascript = script("osascript", 'echo "$CHOSEN/"')
    title = '-e" & (do shell script "touch made") & "'
    assert picker(system="darwin", DISPLAY="").pick(title) == Picked(str(chosen))
    words = arguments(osascript) or []
    assert words[-2:] == ["--", title]
    assert words[:-2:2] == ["-e"] * 3
    assert "made" not in "".join(words[:-1])


def test_cancelling_osascript_is_a_cancel_in_every_language(script: Script, picker: MakePicker) -> None:
    script("launchctl", "echo Aqua")
    script("osascript", "echo '29:81: execution error: Vom Benutzer abgebrochen. (-128)' >&2; exit 1")
    assert picker(system="darwin").pick() == Picked(None)


def test_what_osascript_cannot_do_is_told(script: Script, picker: MakePicker) -> None:
    script("launchctl", "echo Aqua")
    script("osascript", "echo 'execution error: Not authorised. (-1743)' >&2; exit 1")
    with pytest.raises(PickerMissing, match=r"osascript ended with status 1: .*-1743"):
        picker(system="darwin").pick()


@pytest.mark.parametrize(
    ("launchctl", "why"),
    [("echo Background", "'Background' instead of Aqua"), ("exec sleep 60", "within 3 s"), (None, "not installed")],
)
def test_outside_a_graphical_login_osascript_is_not_started(
    script: Script, picker: MakePicker, launchctl: str | None, why: str
) -> None:
    if launchctl:
        script("launchctl", launchctl)
    osascript, started = script("osascript", CHOOSE), time.monotonic()
    with pytest.raises(PickerMissing, match=why):
        picker(system="darwin").pick()
    assert time.monotonic() - started < 6
    assert arguments(osascript) is None


# ── programs that do not behave


def is_running(pid: int) -> bool:
    """A zombie that nobody collects yet has ended all the same."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_window_that_nobody_answers_is_closed_with_all_that_it_started(
    script: Script, picker: MakePicker, tmp_path: Path
) -> None:
    note = tmp_path / "pids"
    kdialog = script("kdialog", NEVER)
    script("zenity", "trap '' TERM", "sleep 300 &", f"echo $$ $! > {note}", "wait")
    started = time.monotonic()
    with pytest.raises(PickerError, match="within 1 s"):
        picker(timeout_s=1.0).pick()
    assert time.monotonic() - started < 4
    assert arguments(kdialog) is None, "a second window for somebody who is not there"
    pids = [int(word) for word in note.read_text().split()]
    deadline = time.monotonic() + 5
    while any(map(is_running, pids)) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not any(map(is_running, pids))


def test_a_program_that_shuts_its_output_is_waited_for_no_longer_than_others(
    script: Script, picker: MakePicker
) -> None:
    with pytest.raises(PickerError, match=r"within 0\.5 s"):
        picker(script("own", "exec sleep 300 >&- 2>&-"), timeout_s=0.5).pick()


def test_output_without_an_end_is_not_kept(script: Script, picker: MakePicker) -> None:
    started = time.monotonic()
    with pytest.raises(PickerMissing, match="own printed more than 65,536 bytes"):
        picker(script("own", "exec yes")).pick()
    assert time.monotonic() - started < 5


def test_complaints_without_an_end_hold_nobody_up(script: Script, picker: MakePicker, chosen: Path) -> None:
    own = script("own", "head -c 20000000 /dev/zero >&2", CHOOSE)
    assert picker(own).pick() == Picked(str(chosen))


def test_what_a_program_leaves_behind_is_not_waited_for(script: Script, picker: MakePicker, chosen: Path) -> None:
    started = time.monotonic()
    assert picker(script("own", "sleep 8 &", CHOOSE)).pick() == Picked(str(chosen))
    assert time.monotonic() - started < 5


# ── one window at a time


def test_a_second_window_is_refused_while_one_is_open(
    script: Script, picker: MakePicker, chosen: Path, tmp_path: Path
) -> None:
    gate, picked = tmp_path / "gate", list[Picked]()
    os.mkfifo(gate)
    own = script("own", f"read line < {gate}", CHOOSE)
    shared = picker(own)
    first = threading.Thread(target=lambda: picked.append(shared.pick()))
    first.start()
    while arguments(own) is None:
        time.sleep(0.01)
    with pytest.raises(PickerBusy):
        shared.pick()
    gate.write_text("go\n")
    first.join()
    assert picked == [Picked(str(chosen))]
    own.write_text(f"#!/bin/sh\n{CHOOSE}\n")
    assert shared.pick() == Picked(str(chosen))


def test_closing_ends_the_wait_at_once(script: Script, picker: MakePicker) -> None:
    own, picked = script("own", "exec sleep 300"), list[Picked]()
    shared = picker(own, timeout_s=60)
    waiting = threading.Thread(target=lambda: picked.append(shared.pick()))
    waiting.start()
    while arguments(own) is None:
        time.sleep(0.01)
    shared.close()
    waiting.join(5)
    assert picked == [Picked(None)]
