"""Figures for whoever watches the machine, in Prometheus' text format. No name of a note or source is among them."""

from __future__ import annotations

import os
import resource
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from vademecum.app import Vademecum

if TYPE_CHECKING:
    from vademecum.daemon.host import Daemon


class Sample(NamedTuple):
    """One figure: its name, kind and help, and its value, with labels where one name has several."""

    name: str
    kind: str
    help: str
    value: float
    labels: str = ""


def exposition(daemon: Daemon, app: Vademecum) -> str:
    """All figures as text."""
    lines: list[str] = []
    told = ""
    for sample in (*_process(), *_ours(daemon, app)):
        if sample.name != told:
            lines += [f"# HELP {sample.name} {sample.help}", f"# TYPE {sample.name} {sample.kind}"]
            told = sample.name
        lines.append(f"{sample.name}{sample.labels} {sample.value:g}")
    return "\n".join(lines) + "\n"


def _process() -> Iterator[Sample]:
    yield Sample("process_cpu_seconds_total", "counter", "CPU of the daemon.", time.process_time())
    yield Sample("process_resident_memory_bytes", "gauge", "Memory of the daemon.", _resident())
    yield Sample("process_threads", "gauge", "Threads of the daemon.", threading.active_count())
    descriptors = Path("/proc/self/fd")
    if descriptors.exists():
        yield Sample("process_open_fds", "gauge", "Open descriptors.", len(os.listdir(descriptors)))


def _resident() -> float:
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * float(os.sysconf("SC_PAGE_SIZE"))
    except (OSError, IndexError):
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return float(most if sys.platform == "darwin" else most * 1024)


def _ours(daemon: Daemon, app: Vademecum) -> Iterator[Sample]:
    yield Sample("vade_uptime_seconds", "gauge", "Since the daemon began.", time.monotonic() - daemon.since)
    yield Sample("vade_jobs", "gauge", "Syncs that run or wait.", daemon.jobs.busy)
    yield Sample("vade_listeners", "gauge", "Listeners to events.", daemon.events.listeners)
    embedding = daemon.embedding.state
    yield Sample("vade_vectors", "gauge", "Texts with a vector.", embedding["have"])
    yield Sample("vade_vectors_pending", "gauge", "Texts that lack a vector.", embedding["pending"])
    path = app.settings.index_file
    yield Sample("vade_index_bytes", "gauge", "Size of the index file.", path.stat().st_size if path.exists() else 0)
    rows = app.index.sources().values() if path.exists() else ()
    for number, row in enumerate(rows, 1):
        labels = f'{{source="{number}",state="{row.state}"}}'
        yield Sample("vade_documents", "gauge", "Notes of a source.", row.documents, labels)
