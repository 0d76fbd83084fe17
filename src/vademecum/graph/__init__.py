"""The vault's own shape: where links lead, what leads to a note, and the whole of it for other tools."""

from vademecum.graph.export import Form, Origin, Topology, written
from vademecum.graph.links import Links, OutLink
from vademecum.graph.topology import Candidate, Namesakes, Resolution

__all__ = ["Candidate", "Form", "Links", "Namesakes", "Origin", "OutLink", "Resolution", "Topology", "written"]
