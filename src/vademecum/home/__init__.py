"""The home vault: the one vault where memories are written, and a source like any other besides."""

from vademecum.home.capture import Recorded, WorkRecorded
from vademecum.home.exchange import Exchanged
from vademecum.home.keeping import Forgotten
from vademecum.home.memories import Memories
from vademecum.home.vault import HomeVault, Standing, Wanted

__all__ = ["Exchanged", "Forgotten", "HomeVault", "Memories", "Recorded", "Standing", "Wanted", "WorkRecorded"]
