"""What a cluster elsewhere tells of ended jobs: rapid's stream of events.

Source: `protocol.rapid.events`.
"""

from collections.abc import Generator

from cli.traces.following import EndedFeed, EndedJobsUpdate
from common.queue.jobs import FINAL_NAMES
from protocol.rapid.clients.blocking import RapidClient
from protocol.rapid.clients.place import Place
from protocol.rapid.events import Begin, JobsChanged, Topic


def rapid_feed(place: Place) -> EndedFeed:
    """The feed of the cluster at a place. What it raises: Unavailable, RemoteError: it stays away, or refuses."""

    def follow(position: str | None) -> Generator[EndedJobsUpdate, None, None]:
        with RapidClient(place) as client:
            for news in client.events((Topic.JOBS,), last_id=position or ""):
                value = news.value
                if isinstance(value, Begin) and not value.resumed:
                    yield EndedJobsUpdate(news.id, True, ())
                elif isinstance(value, JobsChanged):
                    archived = tuple(job.id for job in value.jobs if job.archived)
                    ended = (job.id for job in value.jobs if job.status is not None and job.status.value in FINAL_NAMES)
                    yield EndedJobsUpdate(news.id, False, (*ended, *archived), archived)

    return follow
