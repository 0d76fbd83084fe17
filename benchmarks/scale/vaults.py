"""The synthetic vaults: made once and kept, since to write 100,000 notes takes minutes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from benchmarks.make_vault import Maker

SMALL: Final = 10_000
LARGE: Final = 100_000
SEED: Final = 1


def vault_of(notes: int) -> Path:
    """The vault of so many notes, its queries beside it; written first where it is not there yet.

    It is kept in the folder that VADE_BENCH_CACHE names, else below the system's temporary folder.
    """
    kept = os.environ.get("VADE_BENCH_CACHE")
    cache = Path(kept) if kept else Path(tempfile.gettempdir()) / "vademecum-benchmarks"
    folder = cache / f"{notes // 1000}k"
    if not (folder / "qrels.tsv").exists():  # the last that the generator writes
        making = cache / f"{folder.name}-being-made"
        shutil.rmtree(making, ignore_errors=True)
        shutil.rmtree(folder, ignore_errors=True)
        print(f"scale: making {notes:,} notes in {folder}", file=sys.stderr)
        generator = Path(__file__).parents[1] / "make_vault.py"
        command = [str(generator), "--notes", str(notes), "--seed", str(SEED), "--out", str(making / "vault")]
        subprocess.run([sys.executable, *command], check=True, stdout=subprocess.DEVNULL)
        making.rename(folder)
    return Path(os.path.realpath(folder / "vault"))


def queries_of(vault: Path) -> list[str]:
    """The questions that its planted facts answer: a code name; a question about it; a code name with a number."""
    lines = vault.with_name("queries.tsv").read_text(encoding="utf-8").splitlines()
    return [line.split("\t")[1] for line in lines]


def topic_questions() -> list[str]:
    """Questions of one to six words that each stand in about one part of a note in sixty."""
    topics = Maker(1, SEED).prose.topics
    return [f"how did {' '.join(topic[:words])} go" for words, topic in enumerate(topics[:6], start=1)]


def common_questions() -> list[str]:
    """Questions of words that each stand in every sixth part of a note at least, the last two in every other one."""
    vocabulary = Maker(1, SEED).vocab
    return [
        "number people water day time",
        "what number did people write each day",
        "people look for time",
        " ".join(vocabulary[20:26]),
        " ".join(vocabulary[:3]),
        " ".join(vocabulary[:8]),
    ]


def most_linked(vault: Path, notes: int, count: int) -> list[Path]:
    """Notes of the vault: half of them those that most links lead to, half spread over all the others."""
    maker = Maker(notes, SEED)
    rest = maker.order[count // 2 :]
    chosen = maker.order[: count // 2] + rest[:: len(rest) // (count - count // 2)]
    return [vault / maker.folders[number] / f"{maker.titles[number]}.md" for number in chosen[:count]]
