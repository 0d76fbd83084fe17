"""Changing a memory's file: single properties, and the text below them, every other byte as it was."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from vademecum.errors import MemoryRefused
from vademecum.memory.memory import listed, parse_memory
from vademecum.vault import CAPTURED

_KEY: Final = re.compile(r"([^\s:#'\"\[\]{}-][^:\n]*|\"[^\"\n]*\"|'[^'\n]*'):(?=\s|$)")


def with_properties(text: str, changes: Mapping[str, str | None]) -> str:
    """The text with these properties written as given, new ones last; None takes a property out.

    Raises MemoryRefused where there are no properties to change.
    """
    lines = text.split("\n")
    end = next((n for n, line in enumerate(lines[1:], 1) if line.rstrip() == "---"), None)
    if lines[0].lstrip("\ufeff").rstrip() != "---" or end is None:
        raise MemoryRefused(["the file has no properties"], what="not changed")
    ending = "\r" if lines[0].endswith("\r") else ""
    kept: list[str] = []
    written: set[str] = set()
    skipping = False
    for line in lines[1:end]:
        found = _KEY.match(line)
        if found is not None:
            key = found[1].strip("\"'")
            skipping = key in changes
            if skipping:
                value = changes[key]
                if value is not None and key not in written:
                    kept.append(f"{key}: {value}{ending}")
                written.add(key)
        if not skipping:
            kept.append(line)
    kept += [f"{k}: {v}{ending}" for k, v in changes.items() if v is not None and k not in written]
    return "\n".join([lines[0], *kept, *lines[end:]])


def with_list_entry(key: str, entry: str) -> Callable[[str], str]:
    """A change that adds one text to a list property, unless it stands there."""

    def change(text: str) -> str:
        memory = parse_memory(text, path="")
        if memory.source != CAPTURED:
            raise MemoryRefused([f"only files with `source: {CAPTURED}` are edited"], what="not changed")
        value = memory.properties.get(key)
        there = [item for item in (value if isinstance(value, list) else [value]) if isinstance(item, str) and item]
        return text if entry in there else with_properties(text, {key: listed([*there, entry])})

    return change


def with_text(text: str, *, title: str | None, body: str | None) -> str:
    """The text with another title, or another body below it. The properties stay, and so do the generated sections."""
    lines = text.split("\n")
    end = next((n for n, line in enumerate(lines[1:], 1) if line.rstrip() == "---"), 0)
    memory = parse_memory(text, path="")
    shown = memory.title if title is None else title
    below = memory.body if body is None else body.strip() + memory.body[len(memory.claim) :]
    ending = "\r\n" if lines[0].endswith("\r") else "\n"
    head = "\n".join(line.removesuffix("\r") for line in lines[: end + 1])
    return f"{head}\n\n# {shown}\n\n{below}\n".replace("\n", ending)
