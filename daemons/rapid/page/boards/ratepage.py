"""The page of rates: how fast jobs come, start and end, and how long they wait."""

from collections.abc import Callable, Sequence

import attrs

from common.webaccess.rights import Right
from common.words.times import duration
from daemons.rapid.calls import Asked
from daemons.rapid.page.boards.board import Board
from daemons.rapid.page.live.parts import Interest
from daemons.rapid.page.reading import ClusterNow
from daemons.rapid.page.recorder import EVERY_S, Recorder
from daemons.rapid.page.templates import figure
from daemons.rapid.page.views.boards import Figure, NamedChart, RatePage
from daemons.rapid.page.views.figures import Sample, delay_chart, quantile, rate_chart
from protocol.metrics import DaemonMetrics


@attrs.frozen
class RatePageFacts:
    metrics: DaemonMetrics
    # of now, whenever it is drawn
    samples: Callable[[], Sequence[Sample]]
    latest: Callable[[], DaemonMetrics | None]


def board(recorder: Recorder) -> Board[RatePageFacts]:
    async def read(asked: Asked, now: ClusterNow) -> RatePageFacts:
        return RatePageFacts(now.metrics, lambda: recorder.samples, lambda: recorder.latest)

    return Board(
        "rates",
        "/ui/rates",
        (Right.METRICS_READ,),
        "The page of rates and delays.",
        ("health", "figures"),
        read,
        view,
        lambda _: "Rates",
        lambda _: Interest(),
    )


def view(facts: RatePageFacts, now: float) -> RatePage:
    samples = facts.samples()
    told = f"measured every {EVERY_S:g} s; the last {duration(_length(samples))}"
    delays = "from the arrival of a job to its process, as ranges of a histogram tell it"
    return RatePage(
        (
            NamedChart("Jobs a second", rate_chart(samples), "/s", told),
            NamedChart("Queue delay", delay_chart(samples), " s", delays),
        ),
        tuple(_now(facts.latest() or facts.metrics)),
    )


def _length(samples: Sequence[Sample]) -> float:
    return samples[-1].at - samples[0].at if samples else 0.0


def _now(metrics: DaemonMetrics) -> list[Figure]:
    delay, lock_wait = metrics.distribution("queue_delay_seconds"), metrics.distribution("lock_wait_seconds")
    submission, scheduling = metrics.distribution("submission_seconds"), metrics.distribution("scheduling_seconds")
    ended, died = metrics.by("jobs_ended"), metrics.number("job_deaths")
    backstop = metrics.number("backstop_wakeups")
    since = "since the start of luxid"
    return [
        Figure("submitted", figure(metrics.number("jobs_submitted")), f"jobs that the queue has taken {since}"),
        Figure("refused", figure(metrics.number("jobs_refused")), f"jobs refused at submission {since}"),
        Figure("started", figure(metrics.number("job_starts")), f"processes started for jobs {since}"),
        *(Figure(f"ended: {status}", figure(count), f"jobs {since}") for status, count in sorted(ended.items())),
        Figure("died", figure(died), f"jobs that ended because their process had died, {since}"),
        Figure("backstop wake-ups", figure(backstop), "deaths that no event reported: each is a defect"),
        Figure("queue delay, median", _seconds(quantile(delay, 0.5)), since),
        Figure("queue delay, 99 %", _seconds(quantile(delay, 0.99)), since),
        Figure("wait for locks, median", _seconds(quantile(lock_wait, 0.5)), "of opcodes that were executed"),
        Figure("wait for locks, 99 %", _seconds(quantile(lock_wait, 0.99)), "of opcodes that were executed"),
        Figure("submission, 99 %", _seconds(quantile(submission, 0.99)), "of one call, the disk included"),
        Figure("scheduling, 99 %", _seconds(quantile(scheduling, 0.99)), "of one choice of the jobs to start"),
    ]


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"at most {figure(value)} s"
