"""Follow jobs over one connection: `POST /3/jobs/follow`.

The reply is a stream of events with the feed of luxid as it is (`protocol.luxi.feed`): values of fields and log
entries have LUXI's form. The first event is `begin`, a `FeedBegin`; then come `changes`, each `[position,
FeedChanges]`. When the stream ends or breaks, the same call goes on there, with `since` and with what has been read of
logs and output.

Source: DESIGN section 15.
"""

import attrs

from common.ids import JobId
from protocol.luxi.feed import OutputPlace


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
