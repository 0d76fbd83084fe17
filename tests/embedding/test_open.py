"""A name leads to one embedder, or to an error that says what to do."""

from collections.abc import Callable

import pytest

from vademecum.config import Settings
from vademecum.embedding import open_embedder, open_reranker
from vademecum.errors import ModelMissing, ModelUnknown

MakeSettings = Callable[..., Settings]


def test_the_settings_name_the_embedder_unless_the_caller_does(make_settings: MakeSettings) -> None:
    settings = make_settings({"embedding.model": "hashing"})
    assert open_embedder(settings).name == "hashing"
    assert open_embedder(make_settings(), "hashing").name == "hashing"


def test_none_is_switched_off(make_settings: MakeSettings) -> None:
    with pytest.raises(ModelMissing, match="switched off"):
        open_embedder(make_settings({"embedding.model": "none"}))


@pytest.mark.parametrize("name", ["", "bge", "ms-marco-minilm-l12", "../bge-small-en-v1.5", "ollama", "openai:"])
def test_a_name_that_means_no_embedder_is_unknown(make_settings: MakeSettings, name: str) -> None:
    with pytest.raises(ModelUnknown):
        open_embedder(make_settings(), name)


def test_a_model_that_was_never_pulled_is_missing(make_settings: MakeSettings) -> None:
    with pytest.raises(ModelMissing, match="not on this machine"):
        open_embedder(make_settings())
    with pytest.raises(ModelMissing) as missing:
        open_reranker(make_settings())
    assert missing.value.hint == "`vade models pull ms-marco-minilm-l12` fetches it."
