"""Connected folders: the list of them, the connectors that read them, the sync that keeps the index current, and
removal with its proof.
"""

from vademecum.sources.connector import Connector, Labels
from vademecum.sources.registry import CONNECTORS, Registry, Source
from vademecum.sources.removal import Removal, finish_removals, remove
from vademecum.sources.sync import Preview, Progress, SyncReport, preview, sync_source

__all__ = [
    "CONNECTORS",
    "Connector",
    "Labels",
    "Preview",
    "Progress",
    "Registry",
    "Removal",
    "Source",
    "SyncReport",
    "finish_removals",
    "preview",
    "remove",
    "sync_source",
]
