"""The verbs of `gnt-debug` that submit jobs."""

import socket
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

import attrs
import click

from cli.commands import Command
from cli.connection import Luxid, open_luxid
from cli.context import wants_json
from cli.exitcodes import DONE, FAILED
from cli.live.following import JobFeed, JobUpdate, follow_jobs, until_ended
from cli.options import DURATION
from cli.outcomes import fetch_outcomes
from cli.query import query_jobs
from cli.screen import complain, remark, say, say_json, warn
from cli.submitting.options import PRIORITIES, SubmissionOptions, job_with_options, submit_options
from cli.submitting.submission import send_jobs, submit_jobs, taken, tell_refused
from common.errors import ProtocolError, RemoteError
from common.ids import JobId
from common.queue.jobs import SUBMIT_PRIORITIES
from common.words.fields import JobRow
from common.words.logs import JobLogLine
from common.words.times import to_seconds
from protocol.luxi.jobs import NewJob, OpInput, SubmitAnswer, SubmitJob, SubmitManyJobs
from protocol.messages import AnyRequest
from protocol.plans.documents import read_document
from protocol.plans.jobs import read_plan

# `gnt-debug delay`: a job that sleeps.
#
# Source: cli.md 4, "delay".


@click.command("delay", cls=Command, examples=("gnt-debug delay 2.5", "gnt-debug delay --node node1 --wait 1"))
@click.option("-n", "--node", "nodes", multiple=True, metavar="NAME", help="Sleep on this node; repeatable.")
@click.option("--no-master", is_flag=True, help="Do not sleep on the master.")
@click.option("-r", "--repeat", type=click.IntRange(min=0), default=0, help="Repeat the sleep N times.")
@click.option("-i", "--interruptible", is_flag=True, help="Let it be ended through a socket.")
@click.option("-l", "--no-locks", is_flag=True, help="Do not lock the nodes.")
@submit_options
@click.argument("seconds", type=DURATION)
def delay(
    seconds: float,
    nodes: Sequence[str],
    no_master: bool,
    repeat: int,
    interruptible: bool,
    no_locks: bool,
    submission: SubmissionOptions,
) -> int:
    """Submit a job that sleeps for SECONDS; it holds the locks of its nodes meanwhile."""
    options = attrs.evolve(submission, program="gnt-debug")
    op = {
        "OP_ID": "OP_TEST_DELAY",
        "duration": seconds,
        "on_master": not no_master,
        "on_nodes": list(nodes),
        "repeat": repeat,
        "interruptible": interruptible,
        "no_locks": no_locks,
    }
    return submit_jobs([job_with_options(NewJob((op,)), options, "delay")], options)


# `gnt-debug submit-job`: jobs from files, one from each.
#
# Source: cli.md 4, "submit-job".


@click.command(
    "submit-job",
    cls=Command,
    examples=(
        "gnt-debug submit-job first.json second.json",
        "gnt-debug submit-job --job-repeat 100 --timing-stats delay.json",
    ),
)
@click.option("-v", "--verbose", is_flag=True, help="Print each step, and the ids.")
@click.option("--op-repeat", type=click.IntRange(min=1), default=1, help="Repeat the opcodes inside each job.")
@click.option("--job-repeat", type=click.IntRange(min=1), default=1, help="Submit each job N times.")
@click.option("--timing-stats", is_flag=True, help="Wait for the jobs, and print how long it took.")
@click.option("--each", "is_each", is_flag=True, help="Submit the jobs one by one, not all at once.")
@submit_options
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(readable=False, path_type=Path))
def submit_job(
    files: Sequence[Path],
    verbose: bool,
    op_repeat: int,
    job_repeat: int,
    timing_stats: bool,
    is_each: bool,
    submission: SubmissionOptions,
) -> int:
    """Submit the jobs in these files and print their ids."""
    options = attrs.evolve(submission, program="gnt-debug", is_each=is_each)
    if is_each and options.key is not None:
        raise click.UsageError("--each submits several times, and --key names one submission; leave one of them out")
    jobs = [job for file in files for job in read_plan(read_document(file.read_bytes(), str(file))).jobs]
    repeated = [attrs.evolve(job, ops=job.ops * op_repeat) for job in jobs for _ in range(job_repeat)]
    submitted = [job_with_options(job, options, "submit-job") for job in repeated]
    if verbose:
        remark(f"submitting {len(submitted)} jobs with {sum(map(len, submitted))} opcodes")
    return _measure(submitted, options, verbose) if timing_stats else submit_jobs(submitted, options)


def _measure(jobs: Sequence[Sequence[OpInput]], options: SubmissionOptions, is_verbose: bool) -> int:
    """Submit, wait for all, and print counts and times in seconds; a failed job is reported, but is not an error."""
    begin = time.monotonic()
    with open_luxid() as client:
        answers = send_jobs(client, jobs, options).answers
        submitted = time.monotonic()
        ids = taken(answers)
        if is_verbose:
            remark(f"waiting for jobs {', '.join(map(str, ids))}")
        until_ended(ids)
        ended = time.monotonic()
        outcomes = fetch_outcomes(client, ids)
    stats = {
        "C:op": sum(map(len, jobs)),
        "C:job": len(jobs),
        "T:submit": round(submitted - begin, 6),
        "T:exec": round(ended - submitted, 6),
        "T:total": round(ended - begin, 6),
    }
    _tell_stats(stats)
    failed = [outcome.job_id for outcome in outcomes if not outcome.is_success]
    if failed:
        warn(f"{len(failed)} of {len(ids)} jobs did not succeed: {', '.join(map(str, failed))}")
    return max(FAILED if len(ids) < len(jobs) else DONE, tell_refused(answers))


def _tell_stats(stats: dict[str, float]) -> None:
    if wants_json():
        say_json(stats)
        return
    for name, value in stats.items():
        say(f"{name:<8} {value if isinstance(value, int) else f'{value:.6f}'}")


# Follow a job that stops at each step until a client has connected to its socket.
#
# Source: opcodes.md 7, TEST_JQUEUE.


# the kind of log entry that names a socket
_KIND: Final = "jqueue-test"
# seconds for the connection; the job waits longer than that
_CONNECT_S: Final = 20.0


@attrs.frozen
class JobSeen:
    """What a witness has seen of a job."""

    job_id: int
    # plain messages of its log, in order
    messages: tuple[str, ...]
    # (step, its argument, the job's state in it), in order
    steps: tuple[tuple[str, object, str | None], ...]
    # final states of the opcodes
    statuses: tuple[str, ...]


def witness(client: Luxid, job_id: int, feed: JobFeed) -> JobSeen:
    """Follow a job to its end, and connect to each socket that its log names. Args: feed: of this job.

    Raises: OSError: a socket cannot be reached. ProtocolError: a log entry names no socket. Else as `follow_jobs`.
    """
    messages: list[str] = []
    steps: list[tuple[str, object, str | None]] = []
    for line in (line for event in feed if isinstance(event, JobUpdate) for line in event.log):
        if line.kind == _KIND:
            steps.append(_visit(client, job_id, line))
        elif line.kind == "message":
            messages.append(str(line.message))
    row = query_jobs(client, [job_id], ("opstatus",))[0]
    return JobSeen(job_id, tuple(messages), tuple(steps), tuple(row["opstatus"]))


def _visit(client: Luxid, job_id: int, line: JobLogLine) -> tuple[str, object, str | None]:
    """Return the step, and the job's state during it; the job goes on when the connection closes."""
    path, step, argument = _parts(line.message)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as sock:
        sock.settimeout(_CONNECT_S)
        sock.connect(path)
        status = query_jobs(client, [job_id], ("status",))[0]["status"]
    return step, argument, status


def _parts(message: object) -> tuple[str, str, object]:
    match message:
        case [str() as path, str() as step, argument]:
            return path, step, argument
        case _:
            raise ProtocolError(f"expected [socket, step, argument] in the log, got {message!r:.100}")


# `gnt-debug test-jobqueue`: check from outside that the queue keeps its promises.
#
# Source: cli.md 4, "test-jobqueue"; opcodes.md 7, TEST_JQUEUE.


_VALID: Final = frozenset(SUBMIT_PRIORITIES.values())
# the ends of the range of process priorities and of the submittable ones, with their neighbours
_TRIED: Final = sorted({edge + step for edge in (-20, -10, 0, 10, 19) for step in (-1, 0, 1)} - _VALID)


class PromiseBroken(Exception):
    """A promise that the queue did not keep; the text says which."""


@click.command("test-jobqueue", cls=Command, examples=("gnt-debug test-jobqueue",))
@click.option("--priority", type=click.Choice(PRIORITIES), default="normal", help="Priority of the submitted jobs.")
def test_jobqueue(priority: str) -> int:
    """Submit jobs, some of them wrong on purpose, and check what becomes of them; exit code 0 if all is right."""
    delay: OpInput = {"OP_ID": "OP_TEST_DELAY", "duration": 0.01, "priority": SUBMIT_PRIORITIES[priority]}
    results = {}
    with open_luxid() as client:
        for name, check in _CHECKS.items():
            results[name] = _verdict(check, client, delay)
            if not wants_json():
                say(f"{name}: {results[name] or 'as it should be'}")
    broken = [name for name, reason in results.items() if reason]
    if wants_json():
        say_json({name: reason or None for name, reason in results.items()})
    if broken:
        complain(f"{len(broken)} of {len(results)} checks failed: {', '.join(broken)}; the log of luxid may say more")
    return FAILED if broken else DONE


def _verdict(check: Callable[[Luxid, OpInput], None], client: Luxid, delay: OpInput) -> str:
    """Return what is wrong; "" if nothing is."""
    try:
        check(client, delay)
    except (PromiseBroken, RemoteError, ProtocolError, OSError) as error:
        return str(error)
    return ""


def _check_bad_dependency(client: Luxid, delay: OpInput) -> None:
    _must_refuse(client, SubmitJob(({**delay, "depends": [[-1, None]]},)), "a dependency on the job before the first")


def _check_bad_priorities(client: Luxid, delay: OpInput) -> None:
    for priority in _TRIED:
        bad = {**delay, "priority": priority}
        for ops in ((bad,), (bad, delay), (delay, bad), (delay, bad, delay)):
            what = f"priority {priority} in opcode {ops.index(bad) + 1} of {len(ops)}"
            _must_refuse(client, SubmitJob(ops), what)
            _must_refuse(client, SubmitManyJobs(((delay,), ops, (delay,))), f"a job among others with {what}")


def _must_refuse(client: Luxid, request: AnyRequest, what: str) -> None:
    try:
        answer = client.call(request)
    except RemoteError:
        # luxid hangs up after a request that it could not read
        client.close()
        return
    raise PromiseBroken(f"{what} was taken: {answer}")


def _check_dependencies(client: Luxid, delay: OpInput) -> None:
    # for each job, the distance back to the job that it depends on
    backwards = (None, -1, -2, None, -2)
    jobs = [delay if step is None else {**delay, "depends": [[step, ["success"]]]} for step in backwards]
    answers = client.call(SubmitManyJobs(tuple((op,) for op in jobs)))
    ids = _ids(answers, len(jobs))
    until_ended(ids)
    rows = query_jobs(client, ids, ("id", "status", "ops", "opexec", "opend"))
    if wrong := [row["id"] for row in rows if row["status"] != "success"]:
        raise PromiseBroken(f"jobs {wrong} did not succeed")
    for place, step in enumerate(backwards):
        if step is not None:
            _must_follow(rows[place], rows[place + step])


def _ids(answers: Sequence[SubmitAnswer], count: int) -> list[JobId]:
    ids = taken(answers)
    if len(ids) != count:
        raise PromiseBroken(f"expected {count} jobs to be taken, got {answers}")
    return ids


def _must_follow(row: JobRow, before: JobRow) -> None:
    """Check that the job depends on `before` by its id, and was executed after it."""
    depends = row["ops"][0].get("depends")
    shown = [dependency[0] for dependency in depends] if isinstance(depends, list) else []
    if shown != [before["id"]]:
        raise PromiseBroken(f"job {row['id']} depends on {shown}, expected [{before['id']}]")
    start, end = to_seconds(row["opexec"][0]), to_seconds(before["opend"][0])
    if start is None or end is None or start < end:
        raise PromiseBroken(f"job {row['id']} was executed at {start}, before job {before['id']} had ended at {end}")


@attrs.frozen
class _Trial:
    """A job whose opcodes report each step; each opcode is (messages, whether it fails)."""

    ops: tuple[tuple[tuple[str, ...], bool], ...]
    expected: tuple[str, ...]


_TRIALS: Final = (
    _Trial(((("one",), False),), ("success",)),
    _Trial(((("one", "two"), False), ((), False)), ("success", "success")),
    _Trial(((("before the end",), True),), ("error",)),
    _Trial(
        (((), False), (("a", "b", "c"), False), (("d",), True), (("never",), False)),
        ("success", "success", "error", "error"),
    ),
)


def _check_notifications(client: Luxid, delay: OpInput) -> None:
    for number, trial in enumerate(_TRIALS, 1):
        ops = [_witnessed(delay, messages, fails) for messages, fails in trial.ops]
        job_id = client.call(SubmitJob(tuple(ops)))
        with closing(follow_jobs([job_id])) as feed:
            seen = witness(client, job_id, feed)
        if reason := _wrong(trial, seen):
            raise PromiseBroken(f"job {seen.job_id} (trial {number}): {reason}")


def _witnessed(delay: OpInput, messages: Sequence[str], fails: bool) -> OpInput:
    return {
        "OP_ID": "OP_TEST_JQUEUE",
        "priority": delay["priority"],
        "notify_waitlock": True,
        "notify_exec": True,
        "log_messages": list(messages),
        "fail": fails,
    }


def _wrong(trial: _Trial, seen: JobSeen) -> str:
    """Return what does not fit; "" if all does."""
    count = trial.expected.index("error") + 1 if "error" in trial.expected else len(trial.expected)
    messages = [f"TESTMSG={text}" for texts, _ in trial.ops[:count] for text in texts]
    if list(seen.messages) != messages:
        return f"expected the messages {messages}, got {list(seen.messages)}"
    steps = [step for texts, _ in trial.ops[:count] for step in _steps(texts)]
    if list(seen.steps) != steps:
        return f"expected the steps and states {steps}, got {list(seen.steps)}"
    if seen.statuses != trial.expected:
        return f"expected the opcodes to end as {list(trial.expected)}, got {list(seen.statuses)}"
    return ""


def _steps(messages: Sequence[str]) -> list[tuple[str, object, str]]:
    """(step, its argument, the job's state during it) for one opcode."""
    logged = [("logmsg", count, "running") for count in range(1, len(messages) + 1)]
    start = [("startmsg", len(messages), "running")] if messages else []
    return [("expandnames", None, "waiting"), ("exec", None, "running"), *start, *logged]


_CHECKS: Final[dict[str, Callable[[Luxid, OpInput], None]]] = {
    "a dependency that cannot be is refused": _check_bad_dependency,
    "priorities outside the three are refused": _check_bad_priorities,
    "jobs run after those they depend on": _check_dependencies,
    "messages and states arrive in order": _check_notifications,
}
