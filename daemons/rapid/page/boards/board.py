"""A page that shows something: once as a whole, then its parts as they change."""

from collections.abc import Awaitable, Callable
from math import inf
from typing import Generic, TypeVar

import attrs

from common.access import Role
from common.webaccess.rights import ROLE_OF, Right
from daemons.rapid.calls import Asked
from daemons.rapid.page.live.parts import Interest
from daemons.rapid.page.reading import ClusterNow
from daemons.rapid.page.terminal import LinePosition

F = TypeVar("F")


@attrs.frozen
class Board(Generic[F]):
    # name of its template
    template: str
    # path, as of routes: "/ui/jobs/{id:int}"
    path: str
    # any one of them is enough to see it
    rights: tuple[Right, ...]
    # one sentence for the document
    summary: str
    # names of the parts that change, which are templates and ids of elements
    parts: tuple[str, ...]
    # asks luxid; the cluster's numbers were asked for before
    read: Callable[[Asked, ClusterNow], Awaitable[F]]
    # makes the view of an instant, without asking anybody
    view: Callable[[F, float], object]
    title: Callable[[F], str]
    # what of the cluster it shows
    interest: Callable[[F], Interest]
    # adds what only the whole page shows
    complete: Callable[[Asked, F], Awaitable[F]] | None = None
    # output that goes on under a page; None: there is none, or it is not wanted
    following: Callable[[F], "Following | None"] = lambda facts: None
    # seconds after which it is read anew without an event: some of what it shows has none
    reread_s: float = inf


@attrs.frozen
class Following:
    """The output of a job that a page follows."""

    job_id: int
    # where the page ends so far: the line that is being written there
    place: LinePosition
    # whether lines have their times
    has_times: bool = False


def may(asked: Asked, *rights: Right) -> bool:
    """Whether the caller has one of these rights; nobody has none but to read, where everybody may."""
    if asked.caller.is_anonymous:
        return all(ROLE_OF[right] is Role.READ for right in rights)
    return asked.caller.rights.role_for(rights) > Role.NONE
