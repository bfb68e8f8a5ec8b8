"""Follow jobs on the screen, to their end and their exit code.

Source: cli.md 1.2 and 2, "watch".
"""

import signal
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Final, assert_never

import attrs

from cli.connection import open_luxid
from cli.context import command_line, job_program, uses_color, wants_json
from cli.exitcodes import INTERRUPTED, TIME_OVER
from cli.live.following import Event, JobFeed, JobUpdate, OutputPiece, follow_jobs
from cli.outcomes import code_of_all, fetch_outcomes, tell_failures
from cli.outputscreen import OutputScreen
from cli.query import query_jobs
from cli.screen import remark, say, say_json, write
from common.ids import JobId
from common.printable import printable
from common.queue.jobs import JobState
from common.words.fields import JobRow, job_title
from common.words.logs import log_text
from common.words.outcome import Outcome, describe
from common.words.times import duration
from protocol.luxi.jobs import CancelJobs, OutputStream

# A limit on the time that a program waits, whatever it waits for.


class TimeOver(Exception):
    """Raised at the point where the program waits when its time is over."""


@contextmanager
def time_limit(seconds: float | None) -> Iterator[None]:
    """Limit the body to this time; None: no limit. Raises: TimeOver: it took longer."""
    if seconds is None:
        yield
        return

    def end(number: int, frame: FrameType | None) -> None:
        raise TimeOver

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


if TYPE_CHECKING:
    # one job has no need of it
    from cli.live.fleet import Fleet

# seconds between two Ctrl-C that together end the jobs
AGAIN_S: Final = 2.0
# seconds; a shorter wait of a job is not explained
_SILENCE_S: Final = 1.0
_STATUS_WIDTH: Final = max(len(state.value) for state in JobState)


def streams_of(ops: Iterable[Mapping[str, object]]) -> Sequence[OutputStream]:
    """The output streams of the commands among these opcodes."""
    return tuple(OutputStream) if any(op.get("stderr_apart") for op in ops) else (OutputStream.OUTPUT,)


def watch_jobs(job_ids: Sequence[int], *, is_raw: bool = False) -> int:
    """Follow jobs until all have ended; return the exit code.

    Args: is_raw: see `OutputScreen`.
    Raises: as `JobFeed.next_event`.
    """
    watched = _Watched(list(dict.fromkeys(job_ids)))
    try:
        outcomes = _follow(watched, None, OutputScreen(is_raw=is_raw), is_submitter=False)
    except KeyboardInterrupt:
        sys.stdout.flush()
        remark(f"\n{watched.goes_on()}")
        return INTERRUPTED
    watched.tell_end(outcomes)
    return code_of_all(outcomes)


def follow_own(
    job_ids: Sequence[int], streams: Sequence[OutputStream], screen: OutputScreen, timeout_s: float | None
) -> Sequence[Outcome]:
    """Follow jobs submitted just now: standard output has only their command's output, as if it ran here.

    Jobs that did not succeed are reported.

    Raises: WaitAbandoned: the time is over, or Ctrl-C; else as `JobFeed.next_event`.
    """
    watched = _Watched(list(job_ids))
    try:
        with time_limit(timeout_s):
            outcomes = _follow(watched, streams, screen, is_submitter=True)
    except TimeOver:
        sys.stdout.flush()
        remark(f"waited for {duration(timeout_s or 0)}; {watched.goes_on()}")
        raise WaitAbandoned(TIME_OVER) from None
    except KeyboardInterrupt:
        sys.stdout.flush()
        remark(f"\n{watched.goes_on()}")
        _end_if_asked_again(job_ids)
        raise WaitAbandoned(INTERRUPTED) from None
    watched.tell_end(outcomes)
    return outcomes


@attrs.define
class _Watched:
    """The jobs that are watched."""

    job_ids: Sequence[int]
    # None: they are not told by nodes
    fleet: "Fleet | None" = None

    def goes_on(self) -> str:
        """How to come back to them."""
        which = f"job {self.job_ids[0]} goes on" if len(self.job_ids) == 1 else "the jobs go on"
        named: Sequence[object] = self.job_ids
        if self.fleet is not None and self.fleet.batch_id is not None:
            named = ("--batch", self.fleet.batch_id)
        watch, cancel = (command_line(job_program(), verb, *named) for verb in ("watch", "cancel"))
        return f"{which}; watch again with: {watch}; cancel with: {cancel}"

    def tell_end(self, outcomes: Sequence[Outcome]) -> None:
        """Tell what went wrong, and of a fleet also what came of it."""
        if self.fleet is None:
            tell_failures(outcomes)
            return
        from cli.live.fleet import tell_summary

        tell_summary(self.fleet, outcomes)


def _end_if_asked_again(job_ids: Sequence[int]) -> None:
    """End the jobs if the user presses Ctrl-C again at once, as Ctrl-C would end a command that runs here."""
    if not sys.stderr.isatty():
        return
    try:
        # within the block: the user may press it as soon as he reads this
        remark(f"Ctrl-C again within {AGAIN_S:g} s ends {'it' if len(job_ids) == 1 else 'them'}")
        time.sleep(AGAIN_S)
    except KeyboardInterrupt:
        ids = tuple(JobId(job_id) for job_id in job_ids)
        with open_luxid() as client:
            answers = client.call(CancelJobs(ids, kill=True))
        for answer in answers:
            remark(answer.message)


class WaitAbandoned(Exception):
    """The jobs are no longer waited for, and the user has been told; `code` is the exit code."""

    def __init__(self, code: int) -> None:
        super().__init__()
        self.code = code


def _follow(
    watched: _Watched, streams: Sequence[OutputStream] | None, screen: OutputScreen, *, is_submitter: bool
) -> Sequence[Outcome]:
    job_ids = watched.job_ids
    with open_luxid() as client:
        if not is_submitter:
            # refuses an unknown id at once, before any output
            before = fetch_outcomes(client, job_ids)
        is_told_in_lines = len(job_ids) > 1 and not wants_json()
        if streams is None or is_told_in_lines:
            rows = query_jobs(client, job_ids, ("id", "ops"))
            streams = streams_of(op for row in rows for op in row["ops"] or ())
            watched.fleet = _fleet_of(rows) if is_told_in_lines else None
        if watched.fleet is not None:
            _show_fleet(watched.fleet, streams)
        elif is_told_in_lines:
            _show_several(job_ids)
        else:
            with closing(follow_jobs(job_ids, streams)) as feed:
                if wants_json():
                    _show_json(feed)
                elif is_submitter:
                    _show_as_own(feed, job_ids[0], screen)
                else:
                    _show_one(feed, before[0], screen)
        # the feed may have waited for a restart of luxid, so this connection may be dead
        client.close()
        outcomes = fetch_outcomes(client, job_ids)
    if not (is_submitter or wants_json() or len(job_ids) > 1):
        say(describe(outcomes[0]))
    return outcomes


def _show_one(feed: JobFeed, job: Outcome, screen: OutputScreen) -> None:
    heading = f"Job {job.job_id}: {printable(job.title)}"
    say(heading)
    say("-" * len(heading))
    sys.stdout.flush()
    line_ends = True
    for event in _with_reasons(feed, job.job_id):
        match event:
            case OutputPiece(text=text, stream=OutputStream.ERROR):
                screen.write(text, is_error=True)
            case OutputPiece(text=text):
                screen.write(text)
                line_ends = text.endswith("\n")
            case JobUpdate(log=log):
                for line in log:
                    write(("" if line_ends else "\n") + log_text(line) + "\n")
                    line_ends = True
            case _:
                assert_never(event)
    write("" if line_ends else "\n")


def _with_reasons(feed: JobFeed, job_id: int) -> Iterator[Event]:
    """Yield the events of one job; when it waits and nothing happens for a while, tell the user why, once."""
    waits = False
    while not feed.is_done:
        event = feed.next_event(timeout_s=_SILENCE_S if waits else None)
        if event is not None:
            yield event
            if isinstance(event, JobUpdate):
                waits = event.status in ("queued", "waiting")
        elif waits:
            waits = False
            # imported late: most jobs do not wait for long
            from cli.live.waitreasons import why_waiting

            if reason := why_waiting([job_id]).get(job_id):
                remark(f"job {job_id} {reason}")


def _show_as_own(feed: JobFeed, job_id: int, screen: OutputScreen) -> None:
    for event in _with_reasons(feed, job_id):
        match event:
            case OutputPiece(text=text, stream=OutputStream.ERROR):
                screen.write(text, is_error=True)
            case OutputPiece(text=text):
                screen.write(text)
            case JobUpdate(log=log):
                for line in log:
                    remark(log_text(line))
            case _:
                assert_never(event)


def _fleet_of(rows: Sequence[JobRow]) -> "Fleet | None":
    # imported late: one job has no need of it
    from cli.live.fleet import fleet_of

    return fleet_of(rows)


def _show_fleet(fleet: "Fleet", streams: Sequence[OutputStream]) -> None:
    if uses_color():
        # imported late: rich is needed on a terminal only
        from cli.live.liveview import show_live

        show_live(fleet, streams)
        return
    from cli.live.fleet import show_fleet_lines

    show_fleet_lines(fleet, streams)


def _show_several(job_ids: Sequence[int]) -> None:
    if uses_color():
        # imported late: rich is needed on a terminal only
        from cli.live.fleet import Fleet
        from cli.live.liveview import show_live

        show_live(Fleet(dict.fromkeys(job_ids, ""), None, ()))
        return
    width = max(len(str(job_id)) for job_id in job_ids)
    statuses: dict[int, str] = {}
    with closing(follow_jobs(job_ids)) as feed:
        for event in feed:
            if isinstance(event, JobUpdate):
                for line in event.log:
                    write(f"{event.job_id:>{width}}  {log_text(line)}\n")
                if statuses.get(event.job_id) != event.status:
                    statuses[event.job_id] = event.status
                    title = printable(job_title(event.values))
                    write(f"{event.job_id:>{width}}  {event.status:<{_STATUS_WIDTH}}  {title}\n")


def _show_json(feed: JobFeed) -> None:
    for event in feed:
        say_json(_event_json(event))
        sys.stdout.flush()


def _event_json(event: Event) -> dict[str, object]:
    if isinstance(event, OutputPiece):
        is_error = event.stream is OutputStream.ERROR
        return {"id": event.job_id, "error_output" if is_error else "output": event.text}
    log = [[line.serial, line.at, line.kind, line.message] for line in event.log]
    return {"id": event.job_id, **event.values, "log": log}
