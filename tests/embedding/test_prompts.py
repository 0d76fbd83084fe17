"""A model is asked with the words it was trained with, and by these words its vectors are told apart."""

import pytest

from vademecum.embedding.prompts import PLAIN, Prompt, prompt_for, readable


@pytest.mark.parametrize(
    ("model", "query", "document"),
    [
        ("bge-small-en-v1.5", "Represent this sentence for searching relevant passages: ", ""),
        ("BAAI/bge-large-en-v1.5", "Represent this sentence for searching relevant passages: ", ""),
        ("bge-m3", "", ""),
        ("intfloat/multilingual-e5-small", "query: ", "passage: "),
        ("e5-base-v2:latest", "query: ", "passage: "),
        ("nomic-embed-text:v1.5", "search_query: ", "search_document: "),
        ("mxbai-embed-large", "Represent this sentence for searching relevant passages: ", ""),
        ("snowflake-arctic-embed:33m", "Represent this sentence for searching relevant passages: ", ""),
        ("snowflake-arctic-embed2", "query: ", ""),
        ("Snowflake/snowflake-arctic-embed-l-v2.0", "query: ", ""),
        ("embeddinggemma:300m", "task: search result | query: ", "title: none | text: "),
        ("text-embedding-3-small", "", ""),
        ("all-minilm", "", ""),
    ],
)
def test_the_prompt_follows_from_the_name(model: str, query: str, document: str) -> None:
    prompt = prompt_for(model)
    assert (prompt.query, prompt.document) == (query, document)


def test_an_instructed_model_gets_its_instruction() -> None:
    assert prompt_for("qwen3-embedding:0.6b").query.startswith("Instruct: Given a web search query, ")
    assert prompt_for("qwen3-embedding:0.6b").query.endswith("\nQuery:")


def test_other_words_are_another_identity() -> None:
    assert Prompt("e5", "query: ").identity != Prompt("e5", "query: ", "passage: ").identity
    assert PLAIN.identity.startswith("plain-")


@pytest.mark.parametrize(
    ("text", "read"), [("plain ä", "plain ä"), ("a\ud800b", "a�b"), ("\udc00", "�"), ("\ud83d\ude00", "\U0001f600")]
)
def test_lone_surrogates_are_replaced(text: str, read: str) -> None:
    assert readable(text) == read
