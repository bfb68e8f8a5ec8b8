"""Counted resources: how many units there are of what, of the whole cluster and of single nodes.

wconfd keeps the totals in `resources.data`, a file of ours; luxid counts what is in use. A job takes all that it uses
together with its slot, before it has a process, and gives it back when its locks are free, by proof of its death: so
nobody waits for units while he holds locks.

Source: DESIGN section 16; everyday.md section e.
"""

import enum
from typing import Final

import attrs

from common.conditions import tag_of


class Unit(enum.Enum):
    """How the count of a resource is read and shown."""

    COUNT = "count"
    # 4G, 512M
    BYTES = "bytes"


@attrs.frozen
class Resource:
    """A resource and its total."""

    # name of the node, as in the configuration; "": it is the cluster's
    node: str
    name: str
    # at least 0; it may be less than what is in use: then nothing new is taken
    total: int
    unit: Unit = Unit.COUNT

    @property
    def key(self) -> str:
        """`licences`, `web1:memory`."""
        return f"{self.node}:{self.name}" if self.node else self.name

    @property
    def tag(self) -> str:
        """By which a change says what it takes the resource for."""
        return tag_of(self)


# Numbers of units in words: `5`, `64G`.
#
# Source: DESIGN section 16.


_SUFFIXES: Final = " KMGTPE"


def units_text(count: int, unit: Unit) -> str:
    """The count as people write it. Bytes have the largest suffix with which they are a whole number: `1536M`."""
    size, power = count, 0
    while unit is Unit.BYTES and size and size % 1024 == 0 and power < len(_SUFFIXES) - 1:
        size, power = size // 1024, power + 1
    return f"{size}{_SUFFIXES[power].strip()}"
