"""An embedder that knows no language: words and their trigrams, hashed into 256 dimensions. For tests.

It needs no model and no network, gives the same vector on every machine, and puts texts that share words close.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from vademecum.embedding.prompts import readable

if TYPE_CHECKING:
    from vademecum.embedding import Vectors

_WORD: Final = re.compile(r"\w+")
_ENDINGS: Final = ("ing", "ed", "es", "s")


class HashingEmbedder:
    """Signed feature hashing of stems and character trigrams."""

    name: Final = "hashing"
    identity: Final = "hashing-1-256"
    dimensions: Final = 256
    batch: Final = 1
    host: Final = ""
    remarks: Final[tuple[str, ...]] = ()

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Embed texts of notes: float32 [len(texts), 256], unit rows."""
        import numpy as np

        rows = [self.embed_query(text) for text in texts]
        return np.stack(rows) if rows else np.empty((0, self.dimensions), dtype=np.float32)

    def embed_query(self, text: str) -> Vectors:
        """Embed a question: float32 [256], of unit length."""
        import numpy as np

        vector = np.zeros(self.dimensions, dtype=np.float32)
        for feature, weight in _features(text):
            digest = hashlib.blake2b(feature.encode(), digest_size=4).digest()
            vector[digest[0]] += weight if digest[1] & 1 else -weight
        length = np.linalg.norm(vector)
        if length == 0:  # no word at all, or words that cancel each other out
            vector[0] = length = np.float32(1)
        unit: Vectors = vector / np.float32(length)
        return unit

    def unread(self, text: str) -> int:
        """Nothing: texts of any length are read whole."""
        del text
        return 0


def _features(text: str) -> Iterator[tuple[str, float]]:
    for word in _WORD.findall(readable(text).casefold()):
        yield _stem(word), 1.0
        marked = f"<{word}>"
        yield from ((marked[i : i + 3], 0.25) for i in range(len(marked) - 2))


def _stem(word: str) -> str:
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) > len(ending) + 2:
            return word.removesuffix(ending)
    return word
