"""The stream of events: `GET /3/events`.

Each event has an id, the serial of the stream. A client that comes back with `Last-Event-ID` gets what it missed, or,
if that is not known any more, a snapshot of everything. The topics:

    jobs     `{"jobs": [Job, ...]}`: each job as it is now
    locks    `{"locks": [{"owner": ..., "locks": [[lock, mode], ...]}, ...]}`: each owner with all that it holds now
    filters  `{"changed": true}`: filter rules were changed; read them again
    queue    `{...}`: state of the queue
    state    `{"luxid": true, "wconfd": true}`: whether the daemons are there; always sent

Source: DESIGN section 15; CHOICES 1.
"""

import enum
from typing import Final

import attrs

PING_S: Final = 15.0


class Topic(enum.Enum):
    JOBS = "jobs"
    LOCKS = "locks"
    FILTERS = "filters"
    QUEUE = "queue"


@attrs.frozen
class DaemonsState:
    """Whether events of the daemons arrive; if not, what is shown may be old."""

    luxid: bool
    wconfd: bool
