"""`subscribe`: lock and configuration changes as events on one connection; ours.

After the reply come notifications. `locksChanged` has `[[owner, [[lock, mode], ...]], ...]`: each owner
whose holdings or pending request changed, with all its present holdings, in the order of the changes.
`configChanged` has the serial number, and whether filter rules or limits of jobs changed.
`ghostsChanged` has all ghosts, whenever one comes, changes or goes (`protocol.wconfd.ghosts`).
`keptChanged` has the name of what was changed: `schedules` or `resources`; runs of schedules are not told.

Source: DESIGN section 8.
"""

from typing import Final

import attrs

from common.locks import Owner
from protocol.messages import Request
from protocol.wconfd.locks import Owned

LOCKS_CHANGED: Final = "locksChanged"
CONFIG_CHANGED: Final = "configChanged"
KEPT_CHANGED: Final = "keptChanged"
SCHEDULES: Final = "schedules"
RESOURCES: Final = "resources"

Holdings = tuple[Owner, tuple[Owned, ...]]


@attrs.frozen
class Subscribe(Request[tuple[tuple[Holdings, ...], int]]):
    """Take over the connection; returns the present holdings and the configuration's serial number."""

    METHOD = "subscribe"
