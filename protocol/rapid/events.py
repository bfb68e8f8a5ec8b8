"""The stream of events: `GET /3/events`.

Each event has an id. A client that comes back with the last one as `Last-Event-ID` gets what it missed. The events:

    begin    the first one; and again if changes were lost. If `resumed` is false, read what you show anew
    state    whether the daemons are there; without luxid, what is shown may be old
    jobs     jobs that have changed, each as it is now; with `ids`, first all of these
    reasons  the reasons why jobs wait may have changed: ask for those that you show
    locks    owners with all that they hold now; `all`: there are no others
    filters  all filter rules
    queue    the state of the queue

Source: DESIGN section 15.
"""

import enum
from typing import Final

import attrs

from common.ids import JobId
from common.objects.filter import FilterRule
from protocol.luxi.feed import OutputPlace, QueueState
from protocol.rapid.jobs import Job

PING_S: Final = 15.0


class Topic(enum.Enum):
    JOBS = "jobs"
    REASONS = "reasons"
    LOCKS = "locks"
    FILTERS = "filters"
    QUEUE = "queue"


@attrs.frozen
class DaemonsState:
    """Whether events of the daemons arrive; if not, what is shown may be old."""

    luxid: bool
    wconfd: bool


@attrs.frozen
class Begin:
    """The first event of a stream."""

    # whether it continues where the client was
    resumed: bool
    # as in `DaemonsState`
    luxid: bool
    wconfd: bool


@attrs.frozen
class JobsChanged:
    jobs: tuple[Job, ...]


@attrs.frozen
class ReasonsChanged:
    """The reasons why jobs wait may have changed; it says no more."""


@attrs.frozen
class OwnerLocks:
    """All that an owner of locks holds."""

    # "job/14", or another name
    owner: str
    # pairs of lock and mode; none: it holds nothing any more
    locks: tuple[tuple[str, str], ...]


@attrs.frozen
class LocksChanged:
    # whether these are all owners; else those that have changed
    all: bool
    locks: tuple[OwnerLocks, ...]


@attrs.frozen
class FiltersChanged:
    # in the order of the chain
    filters: tuple[FilterRule, ...]


@attrs.frozen
class QueueChanged:
    # null: luxid has not told it yet
    queue: QueueState | None


# Follow jobs over one connection: `POST /3/jobs/follow`.
#
# The reply is a stream of events with the feed of luxid as it is (`protocol.luxi.feed`): values of fields and log
# entries have LUXI's form. The first event is `begin`, a `FeedBegin`; then come `changes`, each `[position,
# FeedChanges]`. When the stream ends or breaks, the same call goes on there, with `since` and with what has been read
# of logs and output.
#
# Source: DESIGN section 15.


@attrs.frozen
class FollowWish:
    # jobs to follow, at most 1000
    ids: tuple[JobId, ...]
    # fields of jobs that are wanted
    fields: tuple[str, ...] = ("status",)
    # last position that was read; null: begin with the present state
    since: str | None = None
    # for each job the serial of the last log line that was read; null: no log is wanted
    log_after: tuple[int, ...] | None = None
    # output of commands that is wanted: job, "output" or "error", and the byte at which to begin
    outputs: tuple[OutputPlace, ...] = ()
    # whether to hear that the reasons why jobs wait may have changed
    reasons: bool = False
