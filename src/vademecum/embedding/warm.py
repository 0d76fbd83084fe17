"""The models of one process: opened when first needed, and kept, since opening one costs more than using it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from vademecum import config
from vademecum.config import Settings

NOT_INSTALLED: Final = "no embedding model is installed"

if TYPE_CHECKING:
    from vademecum.embedding import Embedder
    from vademecum.embedding.onnx import CrossEncoder


class Models:
    """Whoever embeds and reranks under these settings.

    With `ask_daemon`, questions go to the daemon where one listens: for a process that lives shorter than a model
    takes to open, and never for the daemon itself.
    """

    def __init__(self, settings: Settings, *, ask_daemon: bool = False) -> None:
        self.settings = settings
        self._ask_daemon = ask_daemon
        self._embedders: dict[str, Embedder] = {}
        self._reranker: CrossEncoder | None = None

    def embedder(self, name: str | None = None) -> Embedder:
        """The embedder of this name, or the one that is wanted. Raises ModelError."""
        wanted = (self.settings.model if name is None else name).strip()
        if wanted not in self._embedders:
            self._embedders[wanted] = self._open(wanted)
        return self._embedders[wanted]

    def reranker(self) -> CrossEncoder:
        """The reranker. Raises ModelError."""
        from vademecum.embedding import open_reranker

        if self._reranker is None:
            self._reranker = open_reranker(self.settings)
        return self._reranker

    def identity(self, name: str) -> str | None:
        """What vectors of this embedder are known by, where that can be told without opening it."""
        from vademecum.embedding.hashing import HashingEmbedder
        from vademecum.embedding.models import MODELS

        if name == HashingEmbedder.name:
            return HashingEmbedder.identity
        return next((model.identity for model in MODELS if model.name == name), None)

    def why_none(self) -> str:
        """Why nothing can be embedded, judged by names alone; "" when it should be possible.

        Asked at every question that only words answer, so it must not load what knows the models.
        """
        wanted = self.settings.model
        if wanted == "none":
            return "embedding.model is none"
        local = ":" not in wanted and wanted != "hashing"
        return NOT_INSTALLED if local and not os.path.isdir(self.settings.models_dir / wanted) else ""

    def _open(self, name: str) -> Embedder:
        from vademecum.embedding import open_embedder

        if self._ask_daemon and os.path.exists(config.socket_folder(self.settings) / "http.sock"):
            from vademecum.embedding.daemon import daemon_embedder

            asking = daemon_embedder(self.settings, name)
            if asking is not None:
                return asking
        return open_embedder(self.settings, name)
