"""Counted resources: their totals, and what is in use of them; ours.

wconfd keeps the totals, luxid counts the use.

Source: DESIGN section 16.
"""

import attrs

from common.ids import JobId
from common.resources import Resource
from common.shapes import Lenient
from protocol.messages import Request


@attrs.frozen
class ResourceUse(Lenient):
    """A resource, and who uses and wants it."""

    resource: Resource
    # units of jobs that have a process, or whose locks still stand; may be more than the total after it was lowered
    used: int
    # job -> its units
    users: tuple[tuple[JobId, int], ...]
    # number of jobs that are ready but for it
    waiting: int


@attrs.frozen
class ReadResourceUse(Request[tuple[ResourceUse, ...]]):
    """All resources."""

    METHOD = "ReadResourceUse"


@attrs.frozen
class SetResource(Request[None]):
    """Set a total, durably; a resource of a new name comes to be by it. It is in force on return."""

    METHOD = "SetResource"
    resource: Resource


@attrs.frozen
class RemoveResource(Request[None]):
    """Remove a resource, durably; jobs that want it wait until it is set again."""

    METHOD = "RemoveResource"
    # name of the node; "": the resource is the cluster's
    node: str
    name: str
