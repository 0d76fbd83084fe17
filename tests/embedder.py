"""Models that tests make up: they count what they are asked, and fail where a test wants them to.

Each text has a direction of its own, the same everywhere; how near two of them lie means nothing.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from loopback import Reply, Request
from vademecum.index import Index
from vademecum.index.vectors import VectorSet

DIMENSIONS = 32

Trouble = Callable[[Sequence[str]], None]
"""Raises when these texts are not to be embedded."""


def direction(text: str, dimensions: int = DIMENSIONS) -> Any:
    """The vector of a text, spaces aside: float32, of unit length."""
    words = " ".join(text.split()).encode("utf-8", "surrogatepass")
    seed = int.from_bytes(hashlib.sha256(words).digest()[:8], "little")
    vector = np.random.default_rng(seed).standard_normal(dimensions)
    return (vector / np.linalg.norm(vector)).astype("<f4")


def no_trouble(_: Sequence[str]) -> None: ...


@dataclass
class FakeModel:
    """An embedder in this process. `asked` is every text that it was given, failed or not."""

    name: str = "fake"
    identity: str = "fake-1"
    dimensions: int = DIMENSIONS
    batch: int = 1
    host: str = ""
    remarks: tuple[str, ...] = ()
    trouble: Trouble = no_trouble
    asked: list[str] = field(default_factory=list)

    def embed_documents(self, texts: Sequence[str]) -> Any:
        self.asked += texts
        self.trouble(texts)
        return np.stack([direction(text, self.dimensions) for text in texts])

    def embed_query(self, text: str) -> Any:
        return direction(text, self.dimensions)

    def unread(self, text: str) -> int:
        return text.count("unread")


@dataclass
class Ollama:
    """What an Ollama server answers. `say` may answer a request for vectors of these texts in its place."""

    digest: str = "0123456789abcdef"
    dimensions: int = DIMENSIONS
    model: str = "made-up"
    say: Callable[[Sequence[str]], Reply | None] = lambda _: None
    asked: list[str] = field(default_factory=list)

    def __call__(self, request: Request) -> Reply:
        if request.path == "/api/tags":
            return replied({"models": [{"name": self.model, "digest": self.digest}]})
        texts = request.json["input"]
        self.asked += texts
        rows = [direction(text, self.dimensions).tolist() for text in texts]
        return self.say(texts) or replied({"embeddings": rows})


def replied(answer: Mapping[str, Any]) -> Reply:
    return Reply(body=json.dumps(answer).encode())


def open_set(index: Index, name: str = "fake", dimensions: int = DIMENSIONS) -> VectorSet:
    return index.vectors.open_set(identity=f"{name}-1", name=name, dimensions=dimensions)


def fill(index: Index, chosen: VectorSet, count: int | None = None) -> list[bytes]:
    """Give the texts that lack one a vector, the first `count` of them or all; their addresses."""
    contents = index.vectors.missing(chosen.row)[:count]
    made = []
    for content in contents:
        said = index.vectors.said(content)
        assert said is not None
        text = "\n".join((said.title, *said.heading_path, said.text))
        made.append((content, direction(text, chosen.dimensions).tobytes(), said.text.count("unread")))
    index.vectors.put(chosen.row, made)
    return contents
