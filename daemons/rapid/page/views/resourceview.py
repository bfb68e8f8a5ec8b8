"""Counted resources, as their page shows them."""

from typing import Final

import attrs

from common.resources import Unit
from common.words.usage import size
from daemons.rapid.page.views.links import Piece, job_href
from protocol.luxi.resources import ResourceUse

# users that a row names
USERS: Final = 20


@attrs.frozen
class ResourceLine:
    key: str
    used: str
    total: str
    # for the bar
    percent: int
    is_over: bool
    # (job, its units), those with the most first
    users: tuple[tuple[Piece, str], ...]
    # number of users that are not named
    more: int
    waiting: int


def resource_line(use: ResourceUse) -> ResourceLine:
    resource = use.resource

    def shown(count: int) -> str:
        return size(count) if resource.unit is Unit.BYTES else f"{count:,}"

    users = sorted(use.users, key=lambda each: (-each[1], each[0]))
    return ResourceLine(
        resource.key,
        shown(use.used),
        shown(resource.total),
        min(100, round(100 * use.used / resource.total)) if resource.total else 100 if use.used else 0,
        use.used > resource.total,
        tuple((Piece(f"job {job_id}", job_href(job_id)), shown(count)) for job_id, count in users[:USERS]),
        max(0, len(users) - USERS),
        use.waiting,
    )
