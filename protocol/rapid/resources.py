"""Counted resources under /3.

Source: DESIGN sections 15 and 16.
"""

import attrs

from common.resources import Unit
from protocol.luxi.resources import ResourceUse


@attrs.frozen
class ResourceList:
    # those of the cluster first, by name
    resources: tuple[ResourceUse, ...]


@attrs.frozen
class TotalWish:
    """The total of a resource."""

    # at least 0; it may be less than what is in use: nothing is ended, and nothing new is taken
    total: int
    unit: Unit = Unit.COUNT
