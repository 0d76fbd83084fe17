"""The links of one source, each resolved when it is asked about.

Nothing of this is stored, so nothing of it can be stale: what a link means follows from the names that are there now.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from vademecum.graph.topology import Candidate, Namesakes, Resolution
from vademecum.index import Graph, LinkRow, Located

# Names remembered at once: what a walk over a whole vault of any size may take.
_MOST_KEPT: Final = 20_000


class OutLink(NamedTuple):
    """A link, the note that holds it, and what it means."""

    row: LinkRow
    note: Located
    meant: Resolution


class Links:
    """Resolves the links of a source for one caller; remembers the names that it has met."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._namesakes: dict[str, Namesakes] = {}

    def out_of(self, documents: Iterable[int]) -> list[OutLink]:
        """The links that these notes hold, note by note, in their order."""
        return self.resolved(self.graph.links_of(documents))

    def into(self, documents: Sequence[int]) -> list[OutLink]:
        """The links of visible notes that mean one of these notes; a note's links to itself are left out."""
        wanted = set(documents)
        names = {name for document in documents for name in self.graph.names_of(document)}
        found = self.resolved(self.graph.links_by_name(names))
        return [
            link
            for link in found
            if link.meant.file is not None
            and link.meant.file.document in wanted
            and link.meant.file.document != link.row.document
        ]

    def resolved(self, rows: Sequence[LinkRow]) -> list[OutLink]:
        """Links with what they mean, in the order given."""
        self._meet({row.name for row in rows})
        notes = self.graph.notes({row.document for row in rows})
        found = []
        for row in rows:
            note = notes[row.document]
            meant = self._namesakes[row.name].resolve(row.target, note.path.rpartition("/")[0])
            found.append(OutLink(row, note, meant))
        return found

    def _meet(self, names: set[str]) -> None:
        if len(self._namesakes) > _MOST_KEPT:
            self._namesakes.clear()
        unknown = names - self._namesakes.keys()
        by_name: dict[str, list[Candidate]] = defaultdict(list)
        for file in self.graph.files(unknown) if unknown else ():
            by_name[file.name].append(Candidate(file.path, file.document, file.alias, file.reason))
        self._namesakes |= {name: Namesakes(by_name.get(name, ())) for name in unknown}
