"""Embedding a question in the daemon, where the model is warm; and here, as soon as the daemon falls short.

Shaped against an answer that depends on whether a daemon runs. The daemon is asked only where this machine could
embed the question itself with the same model, and whatever it says that is not a vector of that model counts as
silence. It is asked once in vain: a daemon that hangs costs a process 0.3 s, not every question.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final

from vademecum import config
from vademecum.config import Settings
from vademecum.embedding.models import MODELS, Model, find
from vademecum.pump import Unanswered, ask

if TYPE_CHECKING:
    from vademecum.embedding import Vectors
    from vademecum.embedding.onnx import OnnxEmbedder

TIMEOUT_S: Final = 0.3
CONNECT_S: Final = 0.05

_HEAD_BYTES: Final = 4096
_NUMBER_BYTES: Final = 32  # a number of JSON takes 25 at most
_NUMBERS: Final = frozenset({int, float})


def daemon_embedder(settings: Settings, name: str) -> DaemonEmbedder | None:
    """The embedder of this name that asks the daemon first; None where only this process may embed with it.

    That is so for every model but those of the catalogue, and for one whose files are not all in place here.
    """
    known = next((model for model in MODELS if model.name == name and model.role == "embedding"), None)
    if known is None or any(state != "ok" for state in find(settings, known).values()):
        return None
    return DaemonEmbedder(settings, known)


class DaemonEmbedder:
    """An embedding model of the catalogue, warm in the daemon for questions, opened here for everything else.

    Making one opens nothing, so ModelMissing and ModelDamaged are raised by whatever needs the model here.
    """

    def __init__(self, settings: Settings, model: Model) -> None:
        self.name = model.name
        self.identity = model.identity
        self.dimensions = model.dimensions
        self._settings = settings
        self._model = model
        self._socket = str(config.socket_folder(settings) / "http.sock")
        self._asking = True

    @property
    def batch(self) -> int:
        """How many texts to give at once."""
        return self._here.batch

    @property
    def remarks(self) -> tuple[str, ...]:
        """What is other than the settings wished."""
        return self._here.remarks

    @property
    def host(self) -> str:
        """No other machine."""
        return self._here.host

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Embed texts of notes in this process: float32 [len(texts), dimensions], unit rows. Raises ModelError."""
        return self._here.embed_documents(texts)

    def embed_query(self, text: str) -> Vectors:
        """Embed a question: float32 [dimensions], of unit length, the same bytes from either. Raises ModelError."""
        numbers = self._asked(text) if self._asking else None
        if numbers is None:
            self._asking = False
            return self._here.embed_query(text)
        import numpy as np

        return np.array(numbers, dtype=np.float32)

    def unread(self, text: str) -> int:
        """How many tokens of a text lie beyond the last window that is read."""
        return self._here.unread(text)

    @cached_property
    def _here(self) -> OnnxEmbedder:
        from vademecum.embedding.onnx import OnnxEmbedder

        self._asking = False  # a model that is open is nearer than the daemon
        return OnnxEmbedder(self._settings, self._model)

    def _asked(self, text: str) -> list[float] | None:
        """The daemon's vector of a question; None unless it gave one of this model, whole and in time."""
        body = json.dumps({"text": text, "identity": self.identity}).encode("ascii")
        most = _HEAD_BYTES + _NUMBER_BYTES * self.dimensions
        try:
            status, said = ask(
                self._socket, "POST", "/api/embed", body, timeout_s=TIMEOUT_S, connect_s=CONNECT_S, most=most
            )
            answer = json.loads(said) if status == 200 else None
        except (Unanswered, ValueError, RecursionError):
            return None
        if not isinstance(answer, dict) or answer.get("identity") != self.identity:
            return None
        vector = answer.get("vector")
        return vector if _is_unit(vector, self.dimensions) else None


def _is_unit(vector: object, dimensions: int) -> bool:
    """Whether this is a list of so many numbers that make a vector of unit length."""
    if not isinstance(vector, list) or len(vector) != dimensions or set(map(type, vector)) - _NUMBERS:
        return False
    try:
        return abs(math.hypot(*vector) - 1) <= 1e-3  # false for NaN and infinity too
    except OverflowError:  # a whole number of hundreds of digits
        return False
