"""Text into vectors, on this machine unless the user configured a server; and the reranker.

A seam one method wide: whoever embeds is an `Embedder`, and nothing above knows which model or server it is. Vectors
are float32 of unit length, so a dot product is the cosine.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

from vademecum.config import Settings
from vademecum.embedding.warm import NOT_INSTALLED, Models
from vademecum.errors import ModelMissing, ModelUnknown

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from vademecum.embedding.onnx import CrossEncoder

    Vectors: TypeAlias = NDArray[np.float32]


__all__ = ["NOT_INSTALLED", "Embedder", "Models", "Vectors", "check_name", "open_embedder", "open_reranker"]


class Embedder(Protocol):
    """Whatever turns texts into vectors."""

    @property
    def name(self) -> str:
        """What the setting `embedding.model` calls it."""
        ...

    @property
    def identity(self) -> str:
        """Model, revision, prompts and dimensions: vectors of two identities are never compared."""
        ...

    @property
    def dimensions(self) -> int:
        """The length of each vector."""
        ...

    @property
    def batch(self) -> int:
        """How many texts to give at once."""
        ...

    @property
    def remarks(self) -> tuple[str, ...]:
        """What is other than the settings wished, in sentences: a device that is not there."""
        ...

    @property
    def host(self) -> str:
        """The other machine that texts are sent to; "" while they stay on this one."""
        ...

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Embed texts of notes: float32 [len(texts), dimensions], unit rows, in the order given.

        Raises TextRefused when a text among them cannot be embedded (give it alone to know which), EmbedderDown when
        no text can be embedded now.
        """
        ...

    def embed_query(self, text: str) -> Vectors:
        """Embed a question: float32 [dimensions], of unit length. Raises as embed_documents does."""
        ...

    def unread(self, text: str) -> int:
        """How many tokens of a text the vector leaves out because the model cannot read so much; 0 where unknown."""
        ...


def check_name(name: str) -> None:
    """Whether a name could mean an embedder, without opening it. Raises ModelUnknown."""
    from vademecum.embedding.models import known_model

    provider, colon, model = name.strip().partition(":")
    if name in ("none", "hashing") or (colon and provider in ("ollama", "openai") and model.strip()):
        return
    if known_model(name).role != "embedding":
        raise ModelUnknown(f"{name} puts hits in order; it makes no vectors")


def open_embedder(settings: Settings, name: str | None = None) -> Embedder:
    """The embedder of this name, or the one that the settings name, loaded and ready.

    Raises ModelUnknown for a name that means no embedder, ModelMissing and ModelDamaged for one whose files are not
    as they must be, ConsentMissing and EmbedderDown for one of a server.
    """
    wanted = (settings.model if name is None else name).strip()
    if wanted == "none":
        raise ModelMissing("search by meaning is switched off", hint="`vade models use NAME` switches it on.")
    if wanted == "hashing":
        from vademecum.embedding.hashing import HashingEmbedder

        return HashingEmbedder()
    provider, colon, model = wanted.partition(":")
    if colon and provider in ("ollama", "openai"):
        return _open_remote(settings, provider, model)
    from vademecum.embedding.models import known_model
    from vademecum.embedding.onnx import OnnxEmbedder

    known = known_model(wanted)
    if known.role != "embedding":
        raise ModelUnknown(f"{wanted} puts hits in order; it makes no vectors")
    return OnnxEmbedder(settings, known)


def open_reranker(settings: Settings) -> CrossEncoder:
    """The model that reads the best hits again, loaded and ready. Raises ModelMissing, ModelDamaged."""
    from vademecum.embedding.onnx import CrossEncoder

    return CrossEncoder(settings)


def _open_remote(settings: Settings, provider: str, model: str) -> Embedder:
    from vademecum.embedding.http import OllamaEmbedder, OpenAIEmbedder

    if not model.strip():
        raise ModelUnknown(f"{provider}: names no model")
    return OllamaEmbedder(settings, model) if provider == "ollama" else OpenAIEmbedder(settings, model)
