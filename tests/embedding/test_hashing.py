"""The embedder for tests: texts that share words are close, everywhere and always the same."""

import numpy as np
import pytest

from vademecum.embedding.hashing import HashingEmbedder

EMBEDDER = HashingEmbedder()


def test_texts_that_share_words_are_closer() -> None:
    query = EMBEDDER.embed_query("why did we drop redis")
    shared, other = EMBEDDER.embed_documents(["Redis was dropped last year.", "Bananas are yellow."])
    assert query @ shared > query @ other + 0.2


def test_the_vectors_are_the_same_on_every_machine() -> None:
    vector = EMBEDDER.embed_query("Redis")
    assert np.flatnonzero(vector).tolist() == [11, 61, 82, 198, 230, 253]


def test_case_and_ending_do_not_matter() -> None:
    one, two = EMBEDDER.embed_documents(["caching servers", "CACHED SERVER"])
    assert one @ two > 0.8


@pytest.mark.parametrize("text", ["", " ", "\ud800", "\0", "!?", "a" * 100_000, "日本語"])
def test_every_text_has_a_unit_vector(text: str) -> None:
    vectors = EMBEDDER.embed_documents([text])
    assert vectors.dtype == np.float32
    assert vectors.shape == (1, 256)
    assert abs(np.linalg.norm(vectors[0]) - 1) < 1e-6


def test_no_text_gives_no_row() -> None:
    assert EMBEDDER.embed_documents([]).shape == (0, 256)


def test_it_is_told_from_every_other_embedder() -> None:
    assert (EMBEDDER.name, EMBEDDER.identity, EMBEDDER.dimensions) == ("hashing", "hashing-1-256", 256)
