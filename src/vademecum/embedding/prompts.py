"""What a model wants to read before a question and before a text, by the family its name gives away.

A model trained with such words answers worse without them, and vectors made with other words are not comparable. So a
prompt is part of every embedder's identity.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Prompt:
    """The words that a family of models puts before a question, and before a text of a note."""

    family: str
    query: str = ""
    document: str = ""

    @property
    def identity(self) -> str:
        """The family, and a digest of the words, so that a correction here makes vectors anew."""
        digest = hashlib.sha256(f"{self.query}\0{self.document}".encode()).hexdigest()
        return f"{self.family}-{digest[:8]}"


PLAIN: Final = Prompt("plain")
_REPRESENT: Final = "Represent this sentence for searching relevant passages: "
_INSTRUCT: Final = "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:"

# Part of a model's name → its prompt, from the model cards; the first that fits counts, so the narrower stand first.
_FAMILIES: Final = (
    ("bge-m3", PLAIN),
    ("bge-", Prompt("bge", query=_REPRESENT)),
    ("e5-mistral", Prompt("e5-instruct", query=f"{_INSTRUCT} ")),
    ("e5-large-instruct", Prompt("e5-instruct", query=f"{_INSTRUCT} ")),
    ("e5-", Prompt("e5", query="query: ", document="passage: ")),
    ("nomic-embed", Prompt("nomic", query="search_query: ", document="search_document: ")),
    ("mxbai-embed", Prompt("mxbai", query=_REPRESENT)),
    ("snowflake-arctic-embed2", Prompt("arctic-2", query="query: ")),
    ("snowflake-arctic-embed-l-v2", Prompt("arctic-2", query="query: ")),
    ("snowflake-arctic-embed-m-v2", Prompt("arctic-2", query="query: ")),
    ("snowflake-arctic-embed", Prompt("arctic", query=_REPRESENT)),
    ("qwen3-embedding", Prompt("qwen3", query=_INSTRUCT)),
    ("embeddinggemma", Prompt("gemma", query="task: search result | query: ", document="title: none | text: ")),
)


def prompt_for(model: str) -> Prompt:
    """The prompt of a model's family; a plain one for a family that is not known.

    The name may carry an owner and a tag: "intfloat/e5-base", "nomic-embed-text:v1.5".
    """
    name = model.lower().rpartition("/")[2]
    for part, prompt in _FAMILIES:
        if part in name:
            return prompt
    return PLAIN


def readable(text: str) -> str:
    """The text with every lone surrogate replaced: it is no character, and no tokenizer or server takes one."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
