"""The totals of resources; ours.

Source: DESIGN section 16.
"""

import attrs

from common.resources import Resource
from protocol.messages import Request


@attrs.frozen
class ReadResources(Request[tuple[Resource, ...]]):
    """All resources, those of the cluster first, by name."""

    METHOD = "readResources"


@attrs.frozen
class SetResource(Request[None]):
    """Set a total, durably; a resource of a new name comes to be by it."""

    METHOD = "setResource"
    resource: Resource


@attrs.frozen
class RemoveResource(Request[bool]):
    """Remove a resource; false if there is none. Jobs that want it wait until it is set again."""

    METHOD = "removeResource"
    node: str
    name: str
