"""`gnt-debug test-jobqueue`: check from outside that the queue keeps its promises.

Source: cli.md 4, "test-jobqueue"; opcodes.md 7, TEST_JQUEUE.
"""

from collections.abc import Callable, Sequence
from typing import Final

import attrs
import click

from cli.commands import Command
from cli.connection import open_luxid
from cli.context import wants_json
from cli.debug.jobwitness import JobSeen, witness
from cli.exitcodes import DONE, FAILED
from cli.live.followers import until_ended
from cli.luxid import Luxid
from cli.query import query_jobs
from cli.screen import complain, say, say_json
from cli.submission import taken
from cli.submitting.submitoptions import PRIORITIES
from common.errors import ProtocolError, RemoteError
from common.ids import JobId
from common.queue.jobs import SUBMIT_PRIORITIES
from common.words.fields import Row
from common.words.times import to_seconds
from protocol.luxi.submission import OpInput, SubmitAnswer, SubmitJob, SubmitManyJobs
from protocol.messages import AnyRequest

_VALID: Final = frozenset(SUBMIT_PRIORITIES.values())
# the ends of the range of process priorities and of the submittable ones, with their neighbours
_TRIED: Final = sorted({edge + step for edge in (-20, -10, 0, 10, 19) for step in (-1, 0, 1)} - _VALID)


class Broken(Exception):
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
    except (Broken, RemoteError, ProtocolError, OSError) as error:
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
    raise Broken(f"{what} was taken: {answer}")


def _check_dependencies(client: Luxid, delay: OpInput) -> None:
    # for each job, the distance back to the job that it depends on
    backwards = (None, -1, -2, None, -2)
    jobs = [delay if step is None else {**delay, "depends": [[step, ["success"]]]} for step in backwards]
    answers = client.call(SubmitManyJobs(tuple((op,) for op in jobs)))
    ids = _ids(answers, len(jobs))
    until_ended(ids)
    rows = query_jobs(client, ids, ("id", "status", "ops", "opexec", "opend"))
    if wrong := [row["id"] for row in rows if row["status"] != "success"]:
        raise Broken(f"jobs {wrong} did not succeed")
    for place, step in enumerate(backwards):
        if step is not None:
            _must_follow(rows[place], rows[place + step])


def _ids(answers: Sequence[SubmitAnswer], count: int) -> list[JobId]:
    ids = taken(answers)
    if len(ids) != count:
        raise Broken(f"expected {count} jobs to be taken, got {answers}")
    return ids


def _must_follow(row: Row, before: Row) -> None:
    """Check that the job depends on `before` by its id, and was executed after it."""
    depends = row["ops"][0].get("depends")
    shown = [dependency[0] for dependency in depends] if isinstance(depends, list) else []
    if shown != [before["id"]]:
        raise Broken(f"job {row['id']} depends on {shown}, expected [{before['id']}]")
    start, end = to_seconds(row["opexec"][0]), to_seconds(before["opend"][0])
    if start is None or end is None or start < end:
        raise Broken(f"job {row['id']} was executed at {start}, before job {before['id']} had ended at {end}")


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
        seen = witness(client, client.call(SubmitJob(tuple(ops))))
        if reason := _wrong(trial, seen):
            raise Broken(f"job {seen.job_id} (trial {number}): {reason}")


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
