"""The documentation tells of the product that is here: nothing missing, nothing stale, no link into the void."""

import ast
import importlib.util
import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import unquote

import click
import pytest

from source_tree import PACKAGE, ROOT, parsed_modules
from vademecum.cli.main import vade as vade_command
from vademecum.config import AGENT_VARIABLES, SETTINGS

DOCS = ROOT / "docs"
CLI_PAGE = DOCS / "reference" / "cli.md"
SETTINGS_PAGE = DOCS / "reference" / "settings.md"

FENCE = re.compile(r"^(?P<mark>`{3,}|~{3,})(?P<language>[\w-]*)[^\n]*\n(?P<body>.*?)^(?P=mark)[ \t]*$", re.S | re.M)
INLINE_CODE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)", re.S)
LINK = re.compile(r"(?<!!)\[(?:[^\[\]]|\[[^\[\]]*\])*\]\((?P<target><[^>]*>|[^\s()]+)\)")
HEADING = re.compile(r"^#{1,6}[ \t]+(?P<text>.+?)[ \t]*#*$", re.M)
HEREDOC = re.compile(r"[ \t]*<<-?(['\"]?)(?P<end>\w+)\1[ \t]*$.*?^(?P=end)$", re.S | re.M)
PROMPT = "$ "
SHELL = {"sh", "bash", "zsh"}


def load_generator() -> ModuleType:
    """docs/generate.py, which `python -m docs.generate` runs from the root of the checkout."""
    spec = importlib.util.spec_from_file_location("docs.generate", DOCS / "generate.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["docs.generate"] = module
    spec.loader.exec_module(module)
    return module


def people_read() -> list[Path]:
    """Every page meant for people."""
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "AGENTS.md", *sorted(DOCS.rglob("*.md"))]


# ── generated pages


def test_no_generated_page_is_stale() -> None:
    generate = load_generator()
    assert generate.stale(DOCS, generate.pages()) == [], "`make docs` writes them again"


def test_a_stale_page_and_a_missing_page_are_caught(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("old\n")
    (tmp_path / "b.md").write_text("new\n")
    wanted = {"a.md": "new\n", "b.md": "new\n", "c.md": "new\n"}
    assert load_generator().stale(tmp_path, wanted) == ["a.md", "c.md"]


# ── commands and options


def command_tree(group: click.Group, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """The group and every command below it, each with the words that call it."""
    yield path, group
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None, f"{' '.join(path)} lists {name} and has no such command"
        if isinstance(command, click.Group):
            yield from command_tree(command, (*path, name))
        else:
            yield (*path, name), command


def sections(page: str) -> dict[str, str]:
    """Second-level heading → the text below it."""
    parts = re.split(r"^## +(.+)$", page, flags=re.M)
    return dict(zip(map(str.strip, parts[1::2]), parts[2::2], strict=True))


def missing_from_reference(group: click.Group, name: str, page: str) -> list[str]:
    """Commands without a section of their own, and options that their command's section does not name."""
    found = sections(page)
    missing = []
    for path, command in command_tree(group, (name,)):
        words = " ".join(path)
        if words not in found:
            missing.append(words)
            continue
        named = set(re.findall(r"(?<![\w-])--?[\w-]+", found[words]))
        options = [parameter for parameter in command.params if isinstance(parameter, click.Option)]
        missing += [f"{words} {option}" for o in options for option in o.opts if option not in named]
    return missing


def test_every_command_and_every_option_stands_in_the_reference() -> None:
    assert missing_from_reference(vade_command, "vade", CLI_PAGE.read_text(encoding="utf-8")) == []


@click.group()
@click.option("--loud", is_flag=True)
def tool(loud: bool) -> None:
    """A small command tree to try the guards on."""


@tool.group()
def things() -> None:
    """A group."""


@things.command()
@click.argument("kind", type=click.Choice(["old", "new"]))
@click.argument("path")
@click.option("--name", "-n")
@click.option("--json", is_flag=True)
def add(kind: str, path: str, name: str, json: bool) -> None:
    """A command."""


@pytest.mark.parametrize(
    ("page", "missing"),
    [
        ("## tool\n--loud\n## tool things\n## tool things add\n-n, --name, --json\n", []),
        ("## tool\n--louder\n## tool things\n## tool things add\n-n, --name, --json\n", ["tool --loud"]),
        ("## tool\n--loud --json\n## tool things\n## tool things add\n--name\n", ["tool things add -n", "… --json"]),
        ("## tool\n--loud\n## tool things\n", ["tool things add"]),
    ],
)
def test_a_missing_command_and_a_missing_option_are_caught(page: str, missing: list[str]) -> None:
    found = missing_from_reference(tool, "tool", page)
    assert found == [line.replace("…", "tool things add") for line in missing]


# ── settings and environment variables


def environment_names(folder: Path) -> set[str]:
    """Names that the code below the folder asks the environment for."""
    names = set()
    for module in parsed_modules(folder):
        for node in ast.walk(module.tree):
            asked: ast.expr | None = None
            if isinstance(node, ast.Call) and node.args:
                function = ast.unparse(node.func)
                if function.endswith(("environ.get", "environment.get", "getenv")):
                    asked = node.args[0]
            elif isinstance(node, ast.Subscript) and ast.unparse(node.value).endswith(("environ", "environment")):
                asked = node.slice
            if isinstance(asked, ast.Constant) and isinstance(asked.value, str):
                names.add(asked.value)
    return names


def unnamed(names: Iterable[str], page: str) -> list[str]:
    """Names that the page does not show in backticks."""
    return sorted(name for name in names if f"`{name}`" not in page)


def test_every_setting_and_every_variable_stands_in_the_reference() -> None:
    page = SETTINGS_PAGE.read_text(encoding="utf-8")
    names = [setting.name for setting in SETTINGS]
    assert unnamed([*names, *AGENT_VARIABLES, *environment_names(PACKAGE)], page) == []


def test_the_environment_is_really_looked_at() -> None:
    assert "VADE_HOME" in environment_names(PACKAGE)


def test_a_setting_and_a_variable_without_a_line_are_caught(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("import os\nos.environ.get('A')\nos.environ['B']\nos.getenv('C')\nd.get('D')\n")
    assert environment_names(tmp_path) == {"A", "B", "C"}
    assert unnamed(["recall.limit", "A"], "| `recall.limits` | `A` |") == ["recall.limit"]


# ── links


def prose(text: str) -> str:
    """The text without what stands in fences and in backticks."""
    return INLINE_CODE.sub("", FENCE.sub("", text))


def anchors(text: str) -> set[str]:
    """The anchors that a page's headings get where it is shown: lower case, spaces to hyphens, punctuation gone."""
    found: dict[str, int] = {}
    for heading in HEADING.finditer(FENCE.sub("", text)):
        shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading["text"])
        slug = re.sub(r"[^\w\- ]", "", shown.lower()).replace(" ", "-")
        found[slug] = found.get(slug, -1) + 1
        if found[slug]:
            found[f"{slug}-{found[slug]}"] = 0
    return set(found)


def broken_links(pages: Iterable[Path], root: Path) -> list[str]:
    """Relative links that lead to no file below the root, or to no heading of it."""
    broken = []
    for page in pages:
        text = page.read_text(encoding="utf-8")
        for link in LINK.finditer(prose(text)):
            target = link["target"].strip("<>")
            if re.match(r"[a-z][a-z0-9+.-]*:", target, re.I):
                continue
            path, _, anchor = unquote(target).partition("#")
            leads_to = (page.parent / path).resolve() if path else page
            inside = leads_to.is_relative_to(root) and leads_to.exists()
            heading = not anchor or (
                leads_to.suffix == ".md" and inside and anchor in anchors(leads_to.read_text(encoding="utf-8"))
            )
            if not (inside and heading):
                broken.append(f"{page.relative_to(root)}: {target}")
    return broken


def test_every_link_of_a_page_leads_somewhere() -> None:
    assert broken_links(people_read(), ROOT) == []


def unlinked(folder: Path) -> list[str]:
    """Pages below the folder that its README.md does not link to."""
    index = folder / "README.md"
    links = LINK.finditer(prose(index.read_text(encoding="utf-8")))
    linked = {(folder / link["target"].partition("#")[0]).resolve() for link in links}
    return [
        str(p.relative_to(folder)) for p in sorted(folder.rglob("*.md")) if p != index and p.resolve() not in linked
    ]


def test_the_index_of_the_documentation_links_to_every_page() -> None:
    assert unlinked(DOCS) == []


def test_a_page_that_the_index_does_not_link_to_is_caught(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("[a](a.md#top) `[b](b.md)`\n")
    (tmp_path / "a.md").touch()
    (tmp_path / "b.md").touch()
    assert unlinked(tmp_path) == ["b.md"]


def test_a_broken_link_is_caught(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("# One thing, `two`\n## Same\n## Same\n")
    (tmp_path / "README.md").write_text(
        "# Top\n[a](docs/a.md) [b](docs/b.md) [c](docs/a.md#one-thing-two) [d](docs/a.md#nope) [e](#top) [f](#bottom)\n"
        "[g](https://example.org/x) [h](docs/a.md#same-1) [i](../outside.md) `[j](no.md)` [k [l]](gone.md)\n"
        "```text\n[m](no.md)\n```\n"
    )
    assert broken_links([tmp_path / "README.md"], tmp_path) == [
        "README.md: docs/b.md",
        "README.md: docs/a.md#nope",
        "README.md: #bottom",
        "README.md: ../outside.md",
        "README.md: gone.md",
    ]


# ── command lines


@dataclass(frozen=True, slots=True)
class Line:
    """A command line that a page shows, with the words of one command."""

    place: str
    words: tuple[str, ...]


def shown_lines(text: str) -> Iterator[str]:
    """Lines that a reader would type: all of a shell block, and after a `$ ` elsewhere; continuations joined."""
    for fence in FENCE.finditer(text):
        body = HEREDOC.sub("", re.sub(r"\\\n[ \t]*", " ", fence["body"]))
        for line in body.split("\n"):
            if line.startswith(PROMPT):
                yield line.removeprefix(PROMPT)
            elif fence["language"] in SHELL:
                yield line


def commands_of(line: str) -> Iterator[tuple[str, ...]]:
    """The commands of a shell line, each as its words, without variables set before it and redirections."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>()")
    lexer.whitespace_split = True
    lexer.commenters = "#"
    words: list[str] = []
    skip = False
    for token in [*lexer, ";"]:
        if skip:
            skip = False
        elif set(token) <= set("<>&") and set(token) & set("<>"):
            skip = True
        elif set(token) <= set("|&;()"):
            while words and re.match(r"[A-Za-z_]\w*=", words[0]):
                words.pop(0)
            if words:
                yield tuple(words)
            words = []
        else:
            words.append(token)


def vade_lines(page: Path, root: Path, program: str) -> Iterator[Line]:
    """Every call of the program that a page shows."""
    for line in shown_lines(page.read_text(encoding="utf-8")):
        for words in commands_of(line):
            if words[0].rpartition("/")[2] == program:
                yield Line(f"{page.relative_to(root)}: {line}", words[1:])


def misfit(words: tuple[str, ...], command: click.Command) -> str | None:
    """Why a command would not accept these words, as far as can be told without running it."""
    context = click.Context(command, info_name="", resilient_parsing=True)
    try:
        values, rest, _ = command.make_parser(context).parse_args(list(words))
    except click.UsageError as exc:
        return exc.format_message()
    if isinstance(command, click.Group):
        return misfit_below(rest, command, context)
    if rest:
        return f"too many words: {rest}"
    return next(filter(None, (misfit_value(p, values, context) for p in command.params)), None)


def misfit_below(rest: list[str], group: click.Group, context: click.Context) -> str | None:
    if not rest:
        return None  # a group alone prints its help
    below = group.get_command(context, rest[0])
    return f"no command {rest[0]!r}" if below is None else misfit(tuple(rest[1:]), below)


def misfit_value(parameter: click.Parameter, values: Mapping[str, Any], context: click.Context) -> str | None:
    value = values.get(parameter.name or "")
    given = [item for item in (value if isinstance(value, list | tuple) else [value]) if isinstance(item, str)]
    if isinstance(parameter, click.Argument) and parameter.required and not given:
        return f"{parameter.name} is missing"
    if isinstance(parameter.type, click.Choice):
        strangers = [item for item in given if item not in parameter.type.choices]
        return f"{parameter.name} takes no {strangers}" if strangers else None
    return None


def misfits(pages: Iterable[Path], root: Path, program: str, command: click.Command) -> list[str]:
    """Command lines on the pages that the program would refuse."""
    lines = [line for page in pages for line in vade_lines(page, root, program)]
    return [f"{line.place} ({why})" for line in lines if (why := misfit(line.words, command))]


def test_every_command_line_that_a_page_shows_would_be_accepted() -> None:
    assert misfits(people_read(), ROOT, "vade", vade_command) == []


def test_the_pages_do_show_command_lines() -> None:
    assert len([line for page in people_read() for line in vade_lines(page, ROOT, "vade")]) > 20


@pytest.mark.parametrize(
    "line",
    [
        "tool",
        "tool --loud things add old ~/notes",
        ".venv/bin/tool things add new PATH -n x --json | head -3",
        "HOME=/tmp tool things add old 'a b' > out.txt && tool things",
        "tool things add old \\\n    path --name x",
        "echo tool things lost",
        "cat > a.md <<'END'\nAna's tool\ntool lost\nEND\ntool things  # and tool lost",
    ],
)
def test_a_command_line_that_fits_is_left_alone(tmp_path: Path, line: str) -> None:
    (tmp_path / "a.md").write_text(f"```sh\n{line}\n```\n")
    assert misfits([tmp_path / "a.md"], tmp_path, "tool", tool) == []


@pytest.mark.parametrize(
    "line",
    [
        "tool nothing",
        "tool things lose",
        "tool things add old path --colour red",
        "tool things add old",
        "tool things add odd path",
        "tool things add old path more",
        "true && tool things add old path --name",
    ],
)
def test_a_command_line_that_does_not_fit_is_caught(tmp_path: Path, line: str) -> None:
    (tmp_path / "a.md").write_text(f"```sh\n{line}\n```\n\n```console\n$ {line}\ntool prints whatever it wants\n```\n")
    assert len(misfits([tmp_path / "a.md"], tmp_path, "tool", tool)) == 2


# ── what must not be told


def machine_paths(pages: Iterable[Path], root: Path) -> list[str]:
    """Absolute paths that belong to the machine a page was written on: examples lie in /home/you."""
    pattern = re.compile(r"(?<![\w.~])/(?:root|work|Users|home(?!/you\b))/[^\s`]*")
    return [
        f"{page.relative_to(root)}: {found.group()}"
        for page in pages
        for found in pattern.finditer(page.read_text(encoding="utf-8"))
    ]


def test_no_page_shows_a_path_of_the_machine_it_was_written_on() -> None:
    assert machine_paths(people_read(), ROOT) == []


def test_a_path_of_somebodys_machine_is_caught(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("/home/you/notes /home/me/notes /root/x `/work/main` a/root/b\n")
    assert machine_paths([tmp_path / "a.md"], tmp_path) == ["a.md: /home/me/notes", "a.md: /root/x", "a.md: /work/main"]
