"""Connected folders: the list of them, the connectors that read them, the sync that keeps the index current, and
removal with its proof.

`sources.sync` and `sources.removal` are imported where they are used: a question needs neither, and the cold start of
the command line has a budget.
"""

from vademecum.sources.connector import Connector, Labels
from vademecum.sources.registry import CONNECTORS, Registry, Source

__all__ = ["CONNECTORS", "Connector", "Labels", "Registry", "Source"]
