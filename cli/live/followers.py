"""Follow jobs in the way that luxid has: by its feed, over one connection, else by calls that wait.

Ganeti's luxid has no feed.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Final

from cli.connection import luxid_opener, open_feed, open_luxid
from cli.live.events import Follower
from cli.live.follow import CallFollowers, job_changes
from cli.live.jobfeed import JobFeed
from cli.luxid import FeedLuxid, Luxid
from common.errors import InvalidRequest, RemoteError, UnknownMethod
from protocol.luxi.output import OutputStream

FIELDS: Final = ("status", "summary", "received_ts", "start_ts", "end_ts")
# a luxid with a feed also knows names
_FEED_FIELDS: Final = (*FIELDS, "name")
_STATUS: Final = ("status",)
# refusals of a luxid that does not know the call, or takes fewer jobs at once
_HAS_NONE: Final = (InvalidRequest.code, UnknownMethod.code)


def follow_jobs(
    job_ids: Sequence[int],
    streams: Sequence[OutputStream] = (),
    *,
    hinted: Callable[[], None] | None = None,
) -> Follower:
    """Follow these jobs from now on; a restart of luxid is waited for. Close the result.

    Args: as for `JobFeed`; without a feed nothing is hinted.
    Raises: as `BlockingClient.call`. NoThread.
    """
    opener = luxid_opener(is_patient=False)
    found = _begun(
        is_patient=False, make=lambda feed: JobFeed(feed, opener, job_ids, _FEED_FIELDS, streams, hinted=hinted)
    )
    return found or CallFollowers(opener, job_ids, streams, FIELDS)


def follow_output(job_ids: Sequence[int], stream: OutputStream) -> Follower:
    """Follow the output of these jobs' commands to its end, and their log; all that there is already comes first.

    Close the result.
    Raises: JobLost, as RemoteError: a job does not exist. Else as `follow_jobs`.
    """
    found = _begun(is_patient=True, make=lambda feed: JobFeed(feed, open_luxid, job_ids, _STATUS, (stream,)))
    return found or CallFollowers(luxid_opener(is_patient=True), job_ids, (stream,), _STATUS)


def until_ended(job_ids: Sequence[int], deadline: float | None = None) -> list[int]:
    """Wait until all these jobs have ended; return those that have not at the deadline.

    Args: deadline: on the monotonic clock.
    Raises: JobLost: a job does not exist. Else as `BlockingClient.call`; a restart of luxid is waited for.
    """
    feed = _begun(is_patient=True, make=lambda feed: JobFeed(feed, open_luxid, job_ids, _STATUS, has_log=False))
    if feed is None:
        with open_luxid() as client:
            # the other jobs go on meanwhile, so waiting for one after another is soon enough
            return [job_id for job_id in dict.fromkeys(job_ids) if not _ends(client, job_id, deadline)]
    with closing(feed):
        while not feed.is_done:
            left = None if deadline is None else max(deadline - time.monotonic(), 0.0)
            if feed.next_event(left) is None and left == 0:
                break
        return feed.unended


def _begun(*, is_patient: bool, make: Callable[[FeedLuxid], JobFeed]) -> JobFeed | None:
    """The feed, which has begun; None: luxid has none for these jobs."""
    connection = open_feed(is_patient=is_patient)
    if connection is None:
        return None
    feed = make(connection)
    try:
        feed.begin()
    except BaseException as error:
        connection.close()
        if not isinstance(error, RemoteError) or error.code not in _HAS_NONE:
            raise
        return None
    return feed


def _ends(client: Luxid, job_id: int, deadline: float | None) -> bool:
    """Whether the job ends before the deadline."""
    is_final = False
    for change in job_changes(client, job_id, _STATUS, deadline=deadline):
        is_final = change.is_final
    return is_final
