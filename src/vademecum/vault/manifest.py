"""vault-manifest.json: what a vault declares about itself.

Read as mcp.md 3.2 describes. A manifest that is there but cannot be understood is not the same as none: it must
never widen what is served.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from vademecum.vault.tree import plainly, read_declaration

MANIFEST_NAME: Final = "vault-manifest.json"
_SEGMENT: Final = re.compile(r"[\w.-]+")
_INDEX_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_MOST_CONTEXT: Final = 2_000


@dataclass(frozen=True, slots=True)
class Manifest:
    """A vault's manifest and how it was found: `absent`, `read` or `broken` (then `entries` is empty)."""

    state: Literal["absent", "read", "broken"]
    entries: Mapping[str, Any]
    diagnostic: str | None = None

    @property
    def memory_root(self) -> str:
        """The folder of memories: one plain path segment, else the default."""
        value = self.entries.get("memory_root")
        if isinstance(value, str) and _SEGMENT.fullmatch(value) and value not in (".", ".."):
            return value
        return "memories"

    @property
    def inbox(self) -> str:
        """The folder for records of work that belong nowhere else: one plain path segment, else the default."""
        value = self.entries.get("mcp_inbox")
        if isinstance(value, str) and _SEGMENT.fullmatch(value) and value not in (".", ".."):
            return value
        return "inbox"

    @property
    def index_name(self) -> str:
        """The name that the vault gives itself as a source; "" when it gives none that could be one."""
        value = self.entries.get("qmd_index")
        return value if isinstance(value, str) and _INDEX_NAME.fullmatch(value) else ""

    @property
    def context(self) -> str:
        """What the vault holds, in a sentence or two of its own; "" when it says nothing."""
        value = self.entries.get("qmd_context")
        return " ".join(value.split())[:_MOST_CONTEXT] if isinstance(value, str) else ""

    @property
    def withheld_names(self) -> tuple[str, ...]:
        """File names that are never served, in any folder."""
        names = self.entries.get("mcp_never_expose")
        return tuple(n for n in names if isinstance(n, str) and n) if isinstance(names, list) else ()

    def roots(self, key: str) -> tuple[str, ...]:
        """The clean path prefixes that a list of the manifest declares."""
        declared = self.entries.get(key)
        if not isinstance(declared, list):
            return ()
        return tuple(dict.fromkeys(filter(None, map(_clean_root, declared))))


def load_manifest(root: Path) -> Manifest:
    """Read the manifest of a vault; never raises."""
    path = root / MANIFEST_NAME
    try:
        if path.is_symlink():
            raise ValueError("it is a link, which is not followed")
        text = read_declaration(path)
        if text is None:
            return Manifest("absent", {})
        entries = json.loads(text)
        if not isinstance(entries, dict):
            raise ValueError("it holds no object")
        withheld = entries.get("mcp_never_expose", [])
        if not isinstance(withheld, list) or not all(isinstance(name, str) for name in withheld):
            raise ValueError("mcp_never_expose is no list of file names")
    except (OSError, ValueError, RecursionError) as exc:
        problem = f"{MANIFEST_NAME} cannot be used, so only the fallback roots are served: {plainly(exc)}"
        return Manifest("broken", {}, problem)
    return Manifest("read", entries)


def _clean_root(entry: object) -> str | None:
    """One declared root as a plain path prefix; None where keeping it would serve more than was declared."""
    if not isinstance(entry, str):
        return None
    path = entry.strip().replace("\\", "/").removeprefix("./").strip("/")
    segments = path.split("/")
    if not path or any(segment in ("", ".", "..") for segment in segments):
        return None
    if "*" not in path:
        return path
    *folders, last = segments
    if folders and "*" in last and not any("*" in folder for folder in folders) and not entry.rstrip().endswith("/"):
        return "/".join(folders)
    return None
