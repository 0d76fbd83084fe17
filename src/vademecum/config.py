"""Where vademecum keeps its state, and the settings a person can change.

The only reader of the environment and of config.toml. Its failure to guard against is a setting that is silently
ignored: an unknown name or a value of the wrong type is an error, never a default.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from vademecum.errors import ConfigError, StateBusy, StateError, StateReadOnly

SCHEMA_NUMBER: Final = 1
_LONGEST_SOCKET: Final = 100
_NAME_HOME: Final = "Set VADE_HOME to an absolute path."


class Setting(NamedTuple):
    """One setting: its dotted name in config.toml, its default (whose type is the setting's), and what it does.

    `least` and `most` bound a number; `choices`, when there are any, are all that a text may be.
    """

    name: str
    default: int | float | bool | str
    help: str
    least: float = 0
    most: float = 1
    choices: tuple[str, ...] = ()


SETTINGS: Final = (
    Setting("recall.limit", 10, "Hits in an answer when --limit is not given.", least=1, most=100),
    Setting("vault.path", "", "The home vault, where memories are written; vault/ in the state folder when empty."),
    Setting("sources.max_file_bytes", 1 << 22, "A larger file is skipped as too_large.", least=1, most=1 << 24),
    Setting(
        "sources.max_files",
        200_000,
        "A scan that meets more notes than this stops and deletes nothing.",
        least=1,
        most=10_000_000,
    ),
    Setting("index.busy_timeout_s", 15.0, "How long to wait for another process that is writing.", least=0, most=3600),
    Setting(
        "index.vectors",
        "numpy",
        "What searches vectors: numpy, or the sqlite-vec extension where it is installed.",
        choices=("numpy", "sqlite-vec"),
    ),
    Setting("recall.meaning_weight", 0.65, "Weight of meaning against words in a hybrid answer."),
    Setting("recall.rerank", False, "Let the reranker read the ten best hits again, as --rerank does."),
    Setting(
        "embedding.model",
        "bge-small-en-v1.5",
        "Model for search by meaning: one that `vade models list` shows, ollama:NAME, openai:NAME, or none.",
    ),
    Setting("embedding.url", "", "Address of the Ollama or OpenAI-compatible server; the usual one when empty."),
    Setting(
        "embedding.allow_host", "", "The one host other than this machine to which note text may be sent for embedding."
    ),
    Setting("embedding.key_variable", "OPENAI_API_KEY", "Environment variable that holds the key for that server."),
    Setting("embedding.threads", 1, "Processor threads that a local model may use.", least=1, most=64),
    Setting("embedding.device", "cpu", "What a local model runs on: cpu, or an onnxruntime provider such as cuda."),
    Setting("embedding.timeout_s", 30.0, "How long to wait for a server to embed a text.", least=0.1, most=600),
    Setting("embedding.query_timeout_s", 5.0, "How long a question waits for a server.", least=0.1, most=60),
    Setting(
        "daemon.host", "127.0.0.1", "Address the daemon listens on; another than this machine's needs allow_remote."
    ),
    Setting("daemon.port", 8233, "Port the daemon listens on; 0 takes any that is free.", least=0, most=65_535),
    Setting("daemon.allow_remote", False, "Let other machines reach the daemon, where daemon.host says so."),
    Setting(
        "daemon.reconcile_s", 60.0, "How often at most the daemon scans a whole source anew.", least=1, most=86_400
    ),
    Setting(
        "embedding.budget_s", 60.0, "How long add and sync embed before they leave the rest.", least=0, most=86_400
    ),
)

# Any of these in the environment means that an agent, not its owner, typed the command.
AGENT_VARIABLES: Final = (
    "CLAUDECODE",
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_PROJECT_DIR",
    "CODEX_SANDBOX",
    "CODEX_THREAD_ID",
    "GEMINI_CLI",
    "CURSOR_AGENT",
    "AI_AGENT",
)


@dataclass(frozen=True, slots=True)
class Settings:
    """The state folder and every setting's value. `models` is the folder of models where that lies elsewhere."""

    home: Path
    values: Mapping[str, int | float | bool | str]
    models: Path | None = None

    @property
    def config_file(self) -> Path:
        """The settings a person wrote."""
        return self.home / "config.toml"

    @property
    def sources_file(self) -> Path:
        """The list of sources: the truth about what is mounted."""
        return self.home / "sources.json"

    @property
    def index_file(self) -> Path:
        """The index of this program's schema number."""
        return self.home / f"index-{SCHEMA_NUMBER}.db"

    @property
    def home_vault(self) -> Path:
        """The vault in which memories are written, whether it is there or not; links resolved."""
        named = str(self.values["vault.path"]).strip()
        return Path(os.path.realpath(Path(named).expanduser())) if named else self.home / "vault"

    @property
    def run_dir(self) -> Path:
        """Lock files; safe to delete when nothing runs."""
        return self.home / "run"

    @property
    def quarantine_dir(self) -> Path:
        """Damaged index files, kept until the next removal."""
        return self.home / "quarantine"

    @property
    def models_dir(self) -> Path:
        """Models that were pulled, a folder each."""
        return self.models or self.home / "models"

    @property
    def recall_limit(self) -> int:
        """Hits in an answer by default."""
        return int(self.values["recall.limit"])

    @property
    def max_file_bytes(self) -> int:
        """Files above this many bytes are skipped."""
        return int(self.values["sources.max_file_bytes"])

    @property
    def max_files(self) -> int:
        """Notes a scan may list."""
        return int(self.values["sources.max_files"])

    @property
    def busy_timeout_s(self) -> float:
        """Seconds to wait for another writer."""
        return float(self.values["index.busy_timeout_s"])

    @property
    def model(self) -> str:
        """The embedding model that is wanted; "none" for none."""
        return str(self.values["embedding.model"])


def load(environment: Mapping[str, str] = os.environ) -> Settings:
    """Read the settings of the state folder that the environment names.

    Raises ConfigError for a config.toml that cannot be read or holds what no setting explains.
    """
    home = state_home(environment)
    values: dict[str, int | float | bool | str] = {s.name: s.default for s in SETTINGS}
    values.update(_read_file(home / "config.toml"))
    values.update(_named_by(environment))
    return Settings(home=home, values=values)


def load_anyway(environment: Mapping[str, str] = os.environ) -> tuple[Settings, str]:
    """The settings, or the defaults and what is wrong with those that were written; for whoever needs none of them.

    Raises ConfigError where no state folder can be told, StateError where a file stands in its place.
    """
    home = state_home(environment)
    try:
        return load(environment), ""
    except (ConfigError, StateError) as exc:
        if isinstance(exc, StateError) and not home.is_dir():
            raise
        return Settings(home=home, values={s.name: s.default for s in SETTINGS}), exc.message


# Settings that the environment may give, over what config.toml says.
_VARIABLES: Final = {
    "VADE_HOST": "daemon.host",
    "VADE_PORT": "daemon.port",
    "OM_VAULT_PATH": "vault.path",
    "VADE_VAULT": "vault.path",
}


def _named_by(environment: Mapping[str, str]) -> dict[str, int | float | bool | str]:
    given = {name: environment.get(variable, "").strip() for variable, name in _VARIABLES.items()}
    return {name: parse_value(setting(name), text) for name, text in given.items() if text}


def given(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variables that change what a daemon does, for a service that starts without them. Paths are absolute."""
    names = (*_VARIABLES, "VADE_DIRECTORY_PICKER", "SIGNET_DIRECTORY_PICKER")
    found = {name: text for name in names if (text := environment.get(name, "").strip())}
    paths = (name for name in found if _VARIABLES.get(name) == "vault.path")
    return {**found, **{name: os.path.realpath(os.path.expanduser(found[name])) for name in paths}}


def directory_picker(environment: Mapping[str, str] = os.environ) -> str:
    """The program that the user wants to choose folders with; "" for the usual ones."""
    named = environment.get("VADE_DIRECTORY_PICKER", "") or environment.get("SIGNET_DIRECTORY_PICKER", "")
    return named.strip()


def socket_folder(settings: Settings, environment: Mapping[str, str] = os.environ) -> Path:
    """The folder of the daemon's sockets: below XDG_RUNTIME_DIR, else run/, else a temporary one where that is long.

    Not made, and not judged: whoever listens makes it 0700, whoever connects checks that it is the user's own.
    """
    import hashlib
    import tempfile

    name = f"vade-{hashlib.sha256(os.fsencode(settings.home)).hexdigest()[:8]}"
    runtime = environment.get("XDG_RUNTIME_DIR", "").strip()
    wished = Path(runtime) / name if os.path.isabs(runtime) else settings.run_dir
    # The system allows about 104 bytes for the path of a socket.
    return wished if len(os.fsencode(wished / "http.sock")) <= _LONGEST_SOCKET else Path(tempfile.gettempdir()) / name


def state_home(environment: Mapping[str, str] = os.environ) -> Path:
    """The state folder: VADE_HOME, else ~/.vademecum; absolute, links resolved."""
    named = environment.get("VADE_HOME", "").strip()
    if (not named or named.startswith("~")) and environment.get("HOME") == "":  # it would be taken for /
        raise ConfigError("the variable HOME is empty, so the state folder cannot be found", hint=_NAME_HOME)
    try:
        home = Path(named).expanduser() if named else Path.home() / ".vademecum"
        return Path(os.path.realpath(home))
    except (RuntimeError, ValueError, OSError) as exc:
        raise ConfigError(f"the state folder cannot be found: {exc}", hint=_NAME_HOME) from exc


def called_by_an_agent(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether the environment shows that a coding agent started this process."""
    return any(environment.get(name) for name in AGENT_VARIABLES)


def server_key(settings: Settings, environment: Mapping[str, str] = os.environ) -> str:
    """The key for the server that embeds; empty when there is none. Raises ConfigError, which never quotes it."""
    name = str(settings.values["embedding.key_variable"]).strip()
    key = environment.get(name, "").strip()
    if not key.isascii() or not key.isprintable():
        raise ConfigError(f"the environment variable {name} holds something that cannot be a key")
    return key


def nameless_folders(environment: Mapping[str, str] = os.environ) -> frozenset[Path]:
    """Folders whose name says nothing of a project: the home folder, a file system's root, temporary folders."""
    named = ("/", "/tmp", "/var/tmp", environment.get("TMPDIR", ""), environment.get("HOME", ""))  # noqa: S108 - compared, never opened
    return frozenset(Path(os.path.realpath(name)) for name in named if name)


def prepare(settings: Settings) -> None:
    """Make the state folder, readable by its owner only.

    Raises StateReadOnly or StateError when that cannot be done.
    """
    try:
        settings.home.mkdir(mode=0o700, parents=True, exist_ok=True)
        settings.run_dir.mkdir(mode=0o700, exist_ok=True)
    except (PermissionError, OSError) as exc:
        if isinstance(exc, FileExistsError | NotADirectoryError):
            raise StateError(
                f"the state folder {settings.home} is a file", hint="Point VADE_HOME at a folder."
            ) from exc
        raise StateReadOnly(f"the state folder {settings.home} cannot be written: {exc.strerror}") from exc


def setting(name: str) -> Setting:
    """The setting of this dotted name. Raises ConfigError when there is none."""
    for candidate in SETTINGS:
        if candidate.name == name:
            return candidate
    raise ConfigError(f'no setting is called "{name}"')


def parse_value(which: Setting, text: str) -> int | float | bool | str:
    """Read a value that a person typed as the setting's type."""
    kind = type(which.default)
    try:
        if kind is bool:
            value: int | float | bool | str = {"true": True, "false": False}[text.strip().lower()]
        else:
            value = kind(text.replace("_", "") if kind in (int, float) else text)
    except (KeyError, ValueError) as exc:
        raise ConfigError(f"{which.name} takes {_kind_name(kind)}, not {text!r}") from exc
    return _checked(which, value)


def write_value(settings: Settings, which: Setting, value: int | float | bool | str) -> None:
    """Set one setting in config.toml and leave every other byte of the file as it is."""
    import tomlkit

    prepare(settings)
    path = settings.config_file
    _read_file(path)  # a broken file is refused here, before anything is written over it
    document = tomlkit.parse(path.read_bytes().decode() if path.exists() else "")
    table, _, key = which.name.partition(".")
    if table not in document:
        document[table] = tomlkit.table()
    document[table][key] = value
    replace_file(path, tomlkit.dumps(document).encode())


def replace_file(path: Path, content: bytes) -> None:
    """Write a file of the state folder so that a crash leaves the old one or the new one, never a torn one."""
    temporary = path.with_name(f"{path.name}.tmp-{os.getpid()}-{os.urandom(4).hex()}")
    try:
        _sweep(path)
        with open(temporary, "xb", opener=_private_file) as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as exc:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        hint = "Free some space, then run it again." if exc.errno == errno.ENOSPC else None
        raise StateReadOnly(f"{path} cannot be written: {exc.strerror}", hint=hint) from exc


def _sweep(path: Path) -> None:
    """Delete what a killed process left of writing this file: it may name what the file no longer does."""
    for left in path.parent.glob(f"{path.name}.tmp-*-*"):
        pid = left.name.rpartition("-")[0].rpartition("-")[2]
        if pid.isdecimal() and not _is_running(int(pid)):
            left.unlink(missing_ok=True)


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


def log_crash(exc: BaseException, environment: Mapping[str, str] = os.environ) -> Path | None:
    """Note where an unexpected error arose, in logs/crash.log; without its message, which may quote a note.

    Never raises: where that cannot be noted, as on a disk that is full, None.
    """
    import traceback

    try:
        folder = state_home(environment) / "logs"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = folder / "crash.log"
        with open(path, "a", encoding="utf-8", opener=_private_file) as log:
            log.write(f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {type(exc).__name__}\n")
            log.writelines(traceback.format_tb(exc.__traceback__))
    except (OSError, ConfigError):
        return None
    return path


@contextmanager
def file_lock(path: Path, *, wait_s: float, what: str, waiting: Callable[[], None] | None = None) -> Iterator[None]:
    """Hold a lock among processes; the system lets go of it when its holder dies.

    `waiting` is called once if somebody else holds it. Raises StateBusy after `wait_s`, StateReadOnly.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as exc:
        raise StateReadOnly(f"{path} cannot be opened: {exc.strerror}") from exc
    try:
        deadline, told = time.monotonic() + wait_s, False
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError as exc:
                if waiting is not None and not told:
                    waiting()
                told = True
                if time.monotonic() > deadline:
                    raise StateBusy(f"another process has been using {what} for {wait_s:.0f} s") from exc
                time.sleep(0.01)
        yield
    finally:
        os.close(descriptor)


def _private_file(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _read_file(path: Path) -> dict[str, int | float | bool | str]:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except NotADirectoryError as exc:
        raise StateError(f"the state folder {path.parent} is a file", hint="Point VADE_HOME at a folder.") from exc
    except PermissionError as exc:
        hint = "Check the permissions of the state folder."
        raise StateError(f"{path} cannot be read: {exc.strerror}", hint=hint) from exc
    except (OSError, UnicodeDecodeError) as exc:
        raise ConfigError(f"{path} cannot be read: {exc}") from exc
    import tomllib

    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as exc:
        raise ConfigError(f"{path} is not valid TOML: {exc}") from exc
    values = {}
    for table, entries in tables.items():
        if not isinstance(entries, dict):
            raise ConfigError(f"{path}: {table} stands outside of a table")
        for key, value in entries.items():
            which = setting(f"{table}.{key}")
            values[which.name] = _checked(which, value)
    return values


def _checked(which: Setting, value: Any) -> int | float | bool | str:
    kind = type(which.default)
    if kind is float and type(value) is int:
        value = float(value)
    if type(value) is not kind:
        raise ConfigError(f"{which.name} takes {_kind_name(kind)}, not {value!r}")
    if kind is str:
        if which.choices and value not in which.choices:
            raise ConfigError(f"{which.name} takes {' or '.join(which.choices)}, not {value!r}")
    elif isinstance(value, int | float) and not which.least <= value <= which.most:
        raise ConfigError(f"{which.name} must lie between {which.least:g} and {which.most:g}, not {value!r}")
    checked: int | float | bool | str = value
    return checked


def _kind_name(kind: type) -> str:
    return {int: "a whole number", float: "a number", bool: "true or false"}.get(kind, "text")
