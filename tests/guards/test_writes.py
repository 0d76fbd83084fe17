"""Who may write, move or remove a file is a short list, each entry with its reason."""

import ast
import re
from pathlib import Path

import pytest

from source_tree import PACKAGE, parsed_modules

# Path relative to src/vademecum → why this module may touch the disk.
ALLOWED: dict[str, str] = {
    "cli/main.py": "opens the null device, for the output that nobody reads any more",
    "cli/evaluation.py": "makes and deletes a state folder for an evaluation, writes its result where the user says",
    "config.py": "makes the state folder, replaces config.toml and sources.json whole, opens lock files, logs crashes",
    "daemon/control.py": "writes and clears the daemon's record, opens its lock, and the file for what a child prints",
    "daemon/leaving.py": "deletes the state folder's own files, when the user uninstalls",
    "daemon/serve.py": "makes and clears the sockets and their folder, and its record",
    "daemon/unit.py": "writes the unit of the user's session, when the user asks",
    "embedding/carriers.py": "keeps what pip said while it downloads a wheel, in the folder of a pull",
    "embedding/models.py": "puts the files of a model into the models folder, and sweeps what a killed pull left",
    "home/exchange.py": "makes the folder that the user names, for the memories that are copied there",
    "home/vault.py": "makes the home vault, where the user chose none",
    "index/file.py": "moves a damaged index to quarantine",
    "index/store.py": "makes the index file, readable by its owner only",
    "sources/removal.py": "deletes what no purge reaches: quarantined and outdated indexes, killed evaluations",
    "vault/write.py": "writes memories and records of work, and whatever else belongs into a vault",
}

PATH_METHODS = {
    "chmod",
    "hardlink_to",
    "lchmod",
    "mkdir",
    "rename",
    "replace",
    "rmdir",
    "symlink_to",
    "touch",
    "unlink",
    "write_bytes",
    "write_text",
}
OS_WRITES = {
    "chflags",
    "chmod",
    "chown",
    "fchmod",
    "fchown",
    "fdopen",
    "ftruncate",
    "lchown",
    "link",
    "makedirs",
    "mkdir",
    "mkfifo",
    "mknod",
    "open",
    "remove",
    "removedirs",
    "removexattr",
    "rename",
    "renames",
    "replace",
    "rmdir",
    "setxattr",
    "symlink",
    "truncate",
    "unlink",
    "utime",
}
OS_READ_FLAGS = {"O_RDONLY", "O_CLOEXEC", "O_NOFOLLOW", "O_DIRECTORY", "O_NONBLOCK", "O_NOATIME", "O_PATH"}
SHUTIL_READS = {"disk_usage", "get_terminal_size", "which", "Error"}
TEMPFILES = {"mkdtemp", "mkstemp", "NamedTemporaryFile", "TemporaryDirectory", "TemporaryFile", "SpooledTemporaryFile"}


def writes(folder: Path) -> dict[str, list[str]]:
    """For each module below the folder, the calls in it that write, move or remove a file."""
    found: dict[str, list[str]] = {}
    for module in parsed_modules(folder):
        foreign = imported_writers(module.tree)
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Call) and (what := write_call(node, foreign)):
                found.setdefault(module.path, []).append(f"line {node.lineno}: {what}")
    return found


def imported_writers(tree: ast.Module) -> dict[str, str]:
    """Local name → dotted name, for `from os import replace` and `import shutil as sh`."""
    names = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module in {"os", "shutil", "tempfile", "io"}:
            names.update({alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names})
        elif isinstance(node, ast.Import):
            names.update({alias.asname: alias.name for alias in node.names if alias.asname})
    return names


def write_call(call: ast.Call, foreign: dict[str, str]) -> str | None:
    """What the call does to the disk, or None."""
    name = dotted(call.func, foreign)
    if name in {"open", "io.open"}:
        return opened_for_writing(call, position=1, what="open")
    module, _, function = name.rpartition(".")
    if module == "os":
        return os_write(call, function)
    if module == "shutil":
        return None if function in SHUTIL_READS else name
    if module == "tempfile":
        return name if function in TEMPFILES else None
    if not isinstance(call.func, ast.Attribute):
        return None
    if call.func.attr == "open":
        return method_opened_for_writing(call)
    return path_write(call, call.func.attr)


def path_write(call: ast.Call, method: str) -> str | None:
    if method not in PATH_METHODS:
        return None
    if method == "replace" and (len(call.args) != 1 or call.keywords):
        return None  # str.replace takes two arguments, datetime.replace keywords; Path.replace takes one
    return f"Path.{method}"


def os_write(call: ast.Call, function: str) -> str | None:
    if function not in OS_WRITES:
        return None
    if function == "fdopen":
        return opened_for_writing(call, position=1, what="os.fdopen")
    if function == "open":
        nodes = [node for argument in call.args[1:2] for node in ast.walk(argument)]
        names = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
        names |= {node.id for node in nodes if isinstance(node, ast.Name)} - {"os"}
        if names and names <= OS_READ_FLAGS:
            return None
    return f"os.{function}"


def opened_for_writing(call: ast.Call, *, position: int, what: str) -> str | None:
    """A mode that cannot be read here counts as writing: the guard must not be talked round by a variable."""
    modes = [call.args[position]] if len(call.args) > position else []
    modes += [keyword.value for keyword in call.keywords if keyword.arg == "mode"]
    for mode in modes:
        if not isinstance(mode, ast.Constant):
            return f"{what} with a computed mode"
        if is_write_mode(mode.value):
            return f"{what}({mode.value!r})"
    return None


def method_opened_for_writing(call: ast.Call) -> str | None:
    """`p.open("w")`, and `gzip.open(p, "w")`; the first argument of a method called open is often no mode at all."""
    for argument in call.args[:2]:
        if isinstance(argument, ast.Constant) and is_write_mode(argument.value):
            return f".open({argument.value!r})"
    return opened_for_writing(call, position=len(call.args), what=".open")


def is_write_mode(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch(r"(?=.*[wax+])[rwaxbt+]{1,3}", value) is not None


def dotted(node: ast.expr, foreign: dict[str, str]) -> str:
    """`os.path.join` for the expression of that shape, with import aliases resolved; else the empty string."""
    if isinstance(node, ast.Name):
        return foreign.get(node.id, node.id)
    if isinstance(node, ast.Attribute) and (before := dotted(node.value, foreign)):
        return f"{before}.{node.attr}"
    return ""


def test_only_listed_modules_write_move_or_remove_files() -> None:
    unlisted = {path: calls for path, calls in writes(PACKAGE).items() if path not in ALLOWED}
    assert unlisted == {}


def test_the_list_of_writers_holds_no_module_that_stopped_writing() -> None:
    assert set(ALLOWED) - set(writes(PACKAGE)) == set()


@pytest.mark.parametrize(
    "call",
    [
        "open(p, 'w')",
        "open(p, mode='ab')",
        "open(p, 'xb')",
        "open(p, 'r+b')",
        "open(p, mode)",
        "p.open('w')",
        "p.open(mode='a')",
        "p.write_text('x')",
        "p.write_bytes(b'x')",
        "p.unlink()",
        "p.parent.mkdir(parents=True)",
        "p.rename(q)",
        "p.replace(q)",
        "p.touch()",
        "p.symlink_to(q)",
        "os.replace(p, q)",
        "os.open(p, os.O_WRONLY | os.O_CREAT)",
        "os.open(p, flags)",
        "os.open(p, os.O_RDONLY | extra)",
        "gzip.open(p, 'wb')",
        "os.makedirs(p)",
        "os.chmod(p, 0o700)",
        "os.fdopen(fd, 'w')",
        "shutil.rmtree(p)",
        "tempfile.mkstemp()",
        "move(p, q)",
        "sh.copy(p, q)",
        "io.open(p, 'w')",
    ],
)
def test_a_write_is_caught(tmp_path: Path, call: str) -> None:
    (tmp_path / "bad.py").write_text(f"import shutil as sh\nfrom os import rename as move\n{call}\n")
    assert list(writes(tmp_path)) == ["bad.py"]


@pytest.mark.parametrize(
    "call",
    [
        "open(p)",
        "open(p, 'rb')",
        "open(p, encoding='utf-8')",
        "p.open('rb')",
        "p.open()",
        "webbrowser.open(url)",
        "archive.open('data.bin')",
        "p.read_text()",
        "text.replace('a', 'b')",
        "text.replace('a', 'b', 1)",
        "moment.replace(tzinfo=None)",
        "os.open(p, os.O_RDONLY | os.O_NOFOLLOW)",
        "os.fdopen(fd, 'rb')",
        "os.path.join(p, q)",
        "shutil.which('git')",
    ],
)
def test_a_read_is_left_alone(tmp_path: Path, call: str) -> None:
    (tmp_path / "good.py").write_text(f"{call}\n")
    assert writes(tmp_path) == {}
