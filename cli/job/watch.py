"""`gnt-job watch`: follow jobs with their log and output."""

import sys
import time
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import closing
from typing import TypeVar

import click

from cli.choosing.jobids import batch_option, ids_argument
from cli.choosing.jobs import named_jobs, naming_options
from cli.commands import Command
from cli.connection import open_luxid
from cli.context import command_line, program, wants_json
from cli.exitcodes import DONE, FAILED, INTERRUPTED
from cli.live.following import (
    JobUpdate,
    OutputPiece,
    TimedLine,
    follow_output,
    job_output,
    timed_lines,
    until_ended,
)
from cli.live.watching import watch_jobs
from cli.options import DURATION
from cli.outcomes import fetch_outcomes, judge
from cli.outputscreen import OutputScreen, raw_option
from cli.query import jobs_now
from cli.screen import complain, remark, say_json, warn
from common.queue.reasons import has_lost_output, is_of_try, printed_bytes
from common.words.fields import size
from common.words.logs import message_text
from common.words.times import duration, iso, tenths_clock
from protocol.luxi.jobs import OutputStream

P = TypeVar("P", OutputPiece, TimedLine)


@click.command(
    "watch",
    cls=Command,
    examples=(
        "gnt-job watch 27491",
        "gnt-job watch 27490 27491 27492",
        "gnt-job watch --batch b5f2c8a10b4d",
    ),
)
@raw_option
@naming_options
@ids_argument(is_required=False)
def watch(job_ids: Sequence[int], where: str | None, batches: Sequence[str], is_raw: bool) -> int:
    """Follow jobs until they have ended; the exit code is 0 if all succeeded.

    Jobs of several nodes have a line each. Ctrl-C stops watching, and the jobs go on.
    """
    return watch_jobs(named_jobs(job_ids, where, batches), is_raw=is_raw)


# `gnt-job wait`: wait silently until jobs have ended.


@click.command(
    "wait", cls=Command, examples=("gnt-job wait 27491 27492 && echo all done", "gnt-job wait --timeout 5m 27491")
)
@click.option("--timeout", type=DURATION, help="Give up after this time: 90, 90s, 5m, 2h.")
@naming_options
@ids_argument(is_required=False)
def wait(job_ids: Sequence[int], where: str | None, batches: Sequence[str], timeout: float | None) -> int:
    """Wait until all these jobs have ended; the exit code is 0 if all succeeded."""
    deadline = None if timeout is None else time.monotonic() + timeout
    job_ids = named_jobs(job_ids, where, batches)
    try:
        late = until_ended(job_ids, deadline)
        with open_luxid() as client:
            outcomes = fetch_outcomes(client, job_ids) if not late or wants_json() else []
    except KeyboardInterrupt:
        sys.stdout.flush()
        remark(f"\nthe jobs go on; wait again with: {command_line(program(), 'wait', *job_ids)}")
        return INTERRUPTED
    if wants_json():
        say_json([{"id": outcome.job_id, "status": outcome.status} for outcome in outcomes])
    return _give_up(late[0], timeout or 0) if late else judge(outcomes)


def _give_up(job_id: int, timeout_s: float) -> int:
    again = command_line(program(), "wait", job_id)
    complain(f"job {job_id} has not ended within {duration(timeout_s)}; it goes on, wait longer with: {again}")
    return FAILED


# `gnt-job output`: print the output of jobs' commands.


@click.command(
    "output",
    cls=Command,
    examples=(
        "gnt-job output 27491 | less",
        "gnt-job output --follow 27491",
        "gnt-job output --follow 27491 27492",
        "gnt-job output --batch b5f2c8a10b4d",
        "gnt-job output --try 1 27491",
        "gnt-job output --times 27491",
    ),
)
@click.option("-f", "--follow", "is_following", is_flag=True, help="Go on until the jobs have ended.")
@click.option("--stderr", "is_error", is_flag=True, help="Print standard error, where the command keeps it apart.")
@click.option(
    "--try",
    "of_try",
    metavar="N",
    type=click.IntRange(min=1),
    help="Only of this try of a command that was tried several times; 1 is the first.",
)
@click.option("--times", "has_times", is_flag=True, help="Begin each line with the time at which it began to come.")
@raw_option
@batch_option
@ids_argument(is_required=False)
def output(
    job_ids: Sequence[int],
    batches: Sequence[str],
    is_following: bool,
    is_error: bool,
    of_try: int | None,
    has_times: bool,
    is_raw: bool,
) -> int:
    """Print the output of the jobs' commands so far; of a long output only the end is kept.

    Of several jobs each line begins with the job's id, of a batch with the job's node or value. 'gnt-job info' lists
    the tries of a command.

    The times of --times are those at which output reached the master, in local time, at most a quarter of a second too
    early; '-' where none is known: of output that came before times were kept, or whose record is damaged. Programs
    that print into a pipe often put lines aside, and then many come at once. What a node printed while it was cut off
    has the time at which it came later. Of lines that are shorter than 32 bytes some may have the time of one before.
    """
    job_ids = named_jobs(list(dict.fromkeys(job_ids)), None, batches)
    if is_following and (of_try is not None or has_times) and len(job_ids) > 1:
        raise click.UsageError(f"--follow with {'--times' if has_times else '--try'} takes one job")
    stream = OutputStream.ERROR if is_error else OutputStream.OUTPUT
    # jobs of which there was some
    shown: set[int] = set()
    try:
        if has_times:
            lines = _noting(_timed_lines(job_ids, stream, is_following, of_try), shown)
            if wants_json():
                _print_timed_json(job_ids, lines)
            else:
                _print_timed(_prefixes(job_ids, is_batch=bool(batches)), lines, OutputScreen(is_raw=is_raw))
        else:
            pieces = _noting(_pieces(job_ids, stream, is_following, of_try), shown)
            if wants_json():
                _print_json(job_ids, pieces)
            else:
                _print(_prefixes(job_ids, is_batch=bool(batches)), pieces, OutputScreen(is_raw=is_raw))
        _tell_lost(job_ids, shown if of_try is None else set(job_ids), is_error=is_error)
    except KeyboardInterrupt:
        goes_on = f"job {job_ids[0]} goes on" if len(job_ids) == 1 else "the jobs go on"
        remark(f"\n{goes_on}; watch with: {command_line(program(), 'watch', *job_ids)}")
        return INTERRUPTED
    return DONE


def _noting(found: Iterator[P], shown: set[int]) -> Iterator[P]:
    for each in found:
        shown.add(each.job_id)
        yield each


def _tell_lost(job_ids: Sequence[int], shown: Container[int], *, is_error: bool) -> None:
    """Say what the printed output lacks, by the results of the jobs: nobody may take it for all."""
    for row in jobs_now(job_ids, ("id", "opresult")):
        job_id, results = row["id"], row["opresult"] or ()
        rest = f"its last lines are in: {command_line(program(), 'info', job_id)}"
        if any(map(has_lost_output, results)):
            warn(f"the disk took not all that job {job_id} has printed; {rest}")
        elif job_id not in shown and (count := sum(printed_bytes(each, is_error=is_error) for each in results)):
            warn(f"nothing is kept of the {size(count)} that job {job_id} has printed; {rest}")


def _pieces(
    job_ids: Sequence[int], stream: OutputStream, is_following: bool, of_try: int | None
) -> Iterator[OutputPiece]:
    if is_following and of_try is None:
        with closing(follow_output(job_ids, stream)) as followers:
            for event in followers:
                if isinstance(event, OutputPiece):
                    yield event
                else:
                    _tell_tries(event)
        return
    with open_luxid() as client:
        for job_id in job_ids:
            yield from job_output(client, job_id, stream, is_following=is_following, of_try=of_try)


def _timed_lines(
    job_ids: Sequence[int], stream: OutputStream, is_following: bool, of_try: int | None
) -> Iterator[TimedLine]:
    with open_luxid() as client:
        for job_id in job_ids:
            yield from timed_lines(client, job_id, stream, is_following=is_following, of_try=of_try)


def _print_timed(prefixes: Mapping[int, str], lines: Iterator[TimedLine], screen: OutputScreen) -> None:
    for line in lines:
        prefix = f"{prefixes[line.job_id]}  " if len(prefixes) > 1 else ""
        at = "-" if line.at is None else tenths_clock(line.at)
        screen.write(f"{prefix}{at:<21}  {line.text}\n")


def _print_timed_json(job_ids: Sequence[int], lines: Iterator[TimedLine]) -> None:
    found: dict[int, list[dict[str, object]]] = {job_id: [] for job_id in job_ids}
    for line in lines:
        found[line.job_id].append({"at": None if line.at is None else iso(line.at), "line": line.text})
    if len(job_ids) == 1:
        say_json(found[job_ids[0]])
    else:
        say_json([{"id": job_id, "lines": rows} for job_id, rows in found.items()])


def _prefixes(job_ids: Sequence[int], *, is_batch: bool) -> Mapping[int, str]:
    """Job id -> beginning of its lines."""
    elements: Mapping[int, str] = {}
    if is_batch and len(job_ids) > 1:
        from cli.choosing.batches import elements_by_id

        elements = elements_by_id(jobs_now(job_ids, ("id", "ops")))
    width = max(len(elements.get(job_id, str(job_id))) for job_id in job_ids)
    return {
        job_id: f"{elements[job_id]:<{width}}" if job_id in elements else f"{job_id:>{width}}" for job_id in job_ids
    }


def _tell_tries(change: JobUpdate) -> None:
    """Tell where one try of a command ends and the next one begins; the rest of the log is none of the output."""
    for line in change.log:
        if is_of_try(line.message):
            remark(f"job {change.job_id}: {message_text(line)}")


def _print(prefixes: Mapping[int, str], pieces: Iterator[OutputPiece], screen: OutputScreen) -> None:
    if len(prefixes) == 1:
        for piece in pieces:
            screen.write(piece.text)
        return
    # the begun line of each job
    begun = dict.fromkeys(prefixes, "")
    for piece in pieces:
        *lines, begun[piece.job_id] = (begun[piece.job_id] + piece.text).split("\n")
        screen.write("".join(f"{prefixes[piece.job_id]}  {line}\n" for line in lines))
    screen.write("".join(f"{prefixes[job_id]}  {line}\n" for job_id, line in begun.items() if line))


def _print_json(job_ids: Sequence[int], pieces: Iterator[OutputPiece]) -> None:
    texts: dict[int, list[str]] = {job_id: [] for job_id in job_ids}
    for piece in pieces:
        texts[piece.job_id].append(piece.text)
    if len(job_ids) == 1:
        say_json("".join(texts[job_ids[0]]))
    else:
        say_json([{"id": job_id, "output": "".join(text)} for job_id, text in texts.items()])
