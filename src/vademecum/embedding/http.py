"""Embedding by a server: Ollama's, or one that speaks as OpenAI's does.

Shaped against two failures. Text of notes that leaves this machine unasked: a host that is not this machine needs a
setting that names it, which is checked before anything is sent. And a server that answers with something else than
vectors of the model: whatever is not the right number of finite numbers of the right length is refused, never stored.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import SplitResult, urlsplit

from vademecum.config import Settings, server_key
from vademecum.embedding.prompts import prompt_for, readable
from vademecum.embedding.web import Answer, Unanswered, ask, is_loopback
from vademecum.errors import ConfigError, ConsentMissing, EmbedderDown, TextRefused

if TYPE_CHECKING:
    from vademecum.embedding import Vectors

MOST_BYTES: Final = 64 << 20
BATCH: Final = 16

_PROBE: Final = "A short text that shows how long a vector is."
# What a server says about the text it was given, rather than about itself.
_TEXT_FAULTS: Final = frozenset({400, 413, 422})
_NO_SUCH_PAGE: Final = frozenset({404, 405, 501})
_NUMBERS: Final = frozenset({int, float})


class _Served:
    """What the two kinds of server share: consent, deadlines, and the checks of what comes back.

    Making one asks the server for a vector, since its length is part of the identity. Raises ConfigError,
    ConsentMissing, EmbedderDown.
    """

    kind = ""
    usual_url = ""

    def __init__(self, settings: Settings, model: str) -> None:
        address = _address(str(settings.values["embedding.url"]) or self.usual_url)
        _check_consent(address, str(settings.values["embedding.allow_host"]))
        self.name = f"{self.kind}:{model}"
        self.remarks: tuple[str, ...] = ()
        self.host = "" if is_loopback(address.hostname or "") else address.hostname or ""
        # On this machine a request costs nothing, and a run that is killed loses one text, not sixteen.
        self.batch = BATCH if self.host else 1
        self._model = model
        self._url = address.geturl().rstrip("/")
        self._host = address.hostname or ""
        self._key_variable = str(settings.values["embedding.key_variable"])
        self._headers = self._authorisation(settings)
        self._timeout_s = float(settings.values["embedding.timeout_s"])
        self._query_timeout_s = float(settings.values["embedding.query_timeout_s"])
        self._prompt = prompt_for(model)
        self.dimensions = self._probe()
        parts = (f"{self.name}@{self._revision() or 'unknown'}", self._prompt.identity, str(self.dimensions))
        self.identity = "+".join(parts)

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Embed texts of notes: float32 [len(texts), dimensions], unit rows. Raises TextRefused, EmbedderDown."""
        import numpy as np

        vectors = np.empty((len(texts), self.dimensions), dtype=np.float32)
        for first in range(0, len(texts), BATCH):
            batch = [self._prompt.document + text for text in texts[first : first + BATCH]]
            vectors[first : first + len(batch)] = self._embed(batch, self._timeout_s)
        return vectors

    def embed_query(self, text: str) -> Vectors:
        """Embed a question: float32 [dimensions], of unit length. Raises TextRefused, EmbedderDown."""
        row: Vectors = self._embed([self._prompt.query + text], self._query_timeout_s)[0]
        return row

    def unread(self, text: str) -> int:
        """Unknown: the server does not tell."""
        del text
        return 0

    def _embed(self, texts: list[str], timeout_s: float) -> Vectors:
        vectors = _unit_rows(self._vectors([readable(text) for text in texts], timeout_s))
        if vectors.shape[1] != self.dimensions:
            raise EmbedderDown(
                f"{self._host} now gives vectors of {vectors.shape[1]} numbers instead of {self.dimensions}",
                hint=f"Another model may have taken the name {self._model}; look at the server, then run it again.",
            )
        return vectors

    def _probe(self) -> int:
        try:
            return int(_unit_rows(self._vectors([_PROBE], self._query_timeout_s)).shape[1])
        except TextRefused as exc:  # a text that nobody could object to: it is the server
            raise EmbedderDown(f"{self._host} does not embed with {self._model}: {exc.message}") from exc

    def _vectors(self, texts: list[str], timeout_s: float) -> list[Any]:
        """The server's vectors for the texts, unchecked but for their number."""
        raise NotImplementedError

    def _revision(self) -> str:
        """What tells two versions of the model apart, where the server says so."""
        raise NotImplementedError

    def _authorisation(self, settings: Settings) -> Mapping[str, str]:
        del settings
        return {}

    def _call(self, path: str, *, message: Mapping[str, Any] | None = None, timeout_s: float) -> Any:
        """Send one message and read the JSON of the answer."""
        answer = self._send(path, message=message, timeout_s=timeout_s)
        self._check_status(answer)
        return self._json(answer)

    def _send(self, path: str, *, message: Mapping[str, Any] | None = None, timeout_s: float) -> Answer:
        headers = {"Content-Type": "application/json", "Accept": "application/json", **self._headers}
        try:
            return ask(
                self._url + path,
                body=None if message is None else json.dumps(message).encode(),
                headers=headers,
                timeout_s=timeout_s,
                most_bytes=MOST_BYTES,
                direct=is_loopback(self._host),
            )
        except Unanswered as exc:
            raise EmbedderDown(f"{self._host} cannot embed: {exc}") from exc

    def _json(self, answer: Answer) -> Any:
        try:
            return json.loads(answer.body)
        except (ValueError, RecursionError) as exc:
            hint = "Check embedding.url: something else may answer there."
            raise EmbedderDown(f"{self._host} answered with something that is not JSON", hint=hint) from exc

    def _check_status(self, answer: Answer) -> None:
        status, host = answer.status, self._host
        if status == 200:
            return
        if status in _TEXT_FAULTS:
            raise TextRefused(f"{host} refused a text (status {status}); it may be too long for {self._model}")
        if status in (401, 403):
            hint = f"Put a valid key into the environment variable {self._key_variable}."
            raise EmbedderDown(f"{host} does not accept the key (status {status})", hint=hint)
        if status == 404:
            hint = f"Give {self._model} to the server, or check embedding.url."
            raise EmbedderDown(f"{host} does not know {self._model}, or nothing embeds there (status 404)", hint=hint)
        if status == 429:
            hint = "Wait a while, then run it again; what is embedded stays."
            raise EmbedderDown(f"{host} takes no more texts for now (status 429)", hint=hint)
        if 300 <= status < 400:
            hint = "Set embedding.url to the address it leads to, if you trust that one."
            raise EmbedderDown(f"{host} sends us elsewhere (status {status}), which is not followed", hint=hint)
        raise EmbedderDown(f"{host} failed (status {status})", hint="Look at the server's log, then run it again.")


class OllamaEmbedder(_Served):
    """A model of an Ollama server."""

    kind = "ollama"
    usual_url = "http://127.0.0.1:11434"

    def _vectors(self, texts: list[str], timeout_s: float) -> list[Any]:
        # Without `truncate` the server would cut a text that is too long, and say nothing.
        message = {"model": self._model, "input": texts, "truncate": False}
        answer = self._call("/api/embed", message=message, timeout_s=timeout_s)
        return _rows(answer, "embeddings", len(texts))

    def _revision(self) -> str:
        """The digest of the model; empty for a server that never lists it.

        One that fails to list it now is an error: the identity would change, and every text be embedded again.
        """
        said = self._send("/api/tags", timeout_s=self._query_timeout_s)
        if said.status in _NO_SUCH_PAGE:
            return ""
        self._check_status(said)
        answer = self._json(said)
        listed = answer.get("models") if isinstance(answer, dict) else None
        names = {self._model, f"{self._model}:latest"}
        for entry in listed if isinstance(listed, list) else ():
            if isinstance(entry, dict) and entry.get("name") in names and isinstance(entry.get("digest"), str):
                return str(entry["digest"]).removeprefix("sha256:")[:12]
        return ""


class OpenAIEmbedder(_Served):
    """A model of a server that speaks as OpenAI's does."""

    kind = "openai"
    usual_url = "https://api.openai.com/v1"

    def _vectors(self, texts: list[str], timeout_s: float) -> list[Any]:
        answer = self._call("/embeddings", message={"model": self._model, "input": texts}, timeout_s=timeout_s)
        entries = _rows(answer, "data", len(texts))
        placed: dict[Any, Any] = {}
        for position, entry in enumerate(entries):
            if not isinstance(entry, dict) or type(index := entry.get("index", position)) is not int:
                raise TextRefused("the server answered without vectors")
            placed[index] = entry.get("embedding")
        if set(placed) != set(range(len(texts))):
            raise TextRefused("the server's vectors do not belong to the texts one by one")
        return [placed[index] for index in range(len(texts))]

    def _revision(self) -> str:
        """The server's address: it is all that tells two models of one name apart."""
        return urlsplit(self._url).netloc

    def _authorisation(self, settings: Settings) -> Mapping[str, str]:
        key = server_key(settings)
        return {"Authorization": f"Bearer {key}"} if key else {}


def _address(url: str) -> SplitResult:
    """The address of a server. Raises ConfigError, without quoting an address that holds a password."""
    hint = "`vade config set embedding.url URL` changes it."
    try:
        parts = urlsplit(url.strip())
        _ = parts.port  # reading it is what checks it
    except ValueError as exc:
        raise ConfigError("embedding.url is no address", hint=hint) from exc
    if parts.username is not None or parts.password is not None:
        advice = "Put the key into the environment variable that embedding.key_variable names."
        raise ConfigError("embedding.url must not hold a name or a password", hint=advice)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.hostname.endswith("."):
        raise ConfigError(
            "embedding.url must begin with http:// or https:// and a host, without a dot at its end", hint=hint
        )
    if parts.query or parts.fragment or not url.strip().isprintable() or " " in url.strip():
        raise ConfigError("embedding.url must be an address without a query, a fragment or spaces", hint=hint)
    if parts.scheme == "http" and parts.hostname == "localhost":
        # By its number: what is called localhost is a table's word, and this host is asked for without consent.
        return parts._replace(netloc=f"127.0.0.1:{parts.port or 80}")
    return parts


def _check_consent(address: SplitResult, allowed: str) -> None:
    host = address.hostname or ""
    if is_loopback(host) or host == allowed.strip().lower().strip("[]").rstrip("."):
        return
    raise ConsentMissing(
        f"{host} is not this machine, and nobody agreed that text of notes may be sent there",
        hint=f"If it may leave this machine for that host: `vade config set embedding.allow_host {host}`.",
    )


def _rows(answer: Any, key: str, number: int) -> list[Any]:
    """The list below a key of the answer. Raises EmbedderDown for another shape, TextRefused for another number."""
    rows = answer.get(key) if isinstance(answer, dict) else None
    if not isinstance(rows, list):
        hint = "Check embedding.url: something else may answer there."
        raise EmbedderDown(f'the server\'s answer has no list "{key}"', hint=hint)
    if len(rows) != number:
        raise TextRefused(f"the server gave {len(rows):,} vectors for {number:,} texts")
    return rows


def _unit_rows(rows: list[Any]) -> Vectors:
    """The vectors at unit length. Raises TextRefused unless they are equally long lists of finite numbers."""
    import numpy as np

    lengths = {len(row) if isinstance(row, list) else 0 for row in rows}
    if len(lengths) != 1 or 0 in lengths:
        raise TextRefused("the server answered without vectors, or with vectors of several lengths")
    if any(set(map(type, row)) - _NUMBERS for row in rows):
        raise TextRefused("the server's vectors hold something that is no number")
    try:
        vectors = np.array(rows, dtype=np.float64)
    except OverflowError as exc:
        raise TextRefused("the server's vectors hold a number that is too large") from exc
    largest = np.abs(vectors).max(axis=1, keepdims=True)
    if not np.isfinite(largest).all() or not largest.all():
        raise TextRefused("the server's vectors are not finite, or nothing but zeros")
    vectors /= largest  # so that the squares neither vanish nor overflow
    unit: Vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    return unit
