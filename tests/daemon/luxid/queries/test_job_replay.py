"""A recorded conversation about jobs, held again with a real luxid.

Answers must have the same shape and the same meaning: which calls are refused and how, who is canceled, which states
are told. Ids are translated, texts and times are not compared. What differs is listed with its reason.

Source: luxid.md 2, 8; the recording is of a Ganeti 3.0.2.
"""

import json
from typing import Any

import orjson

from common.queue.jobs import JobState
from protocol.blocking import BlockingClient
from protocol.framing import ETX
from protocol.luxi.queries import QueryJobs
from tests.support.cluster import FINAL, Cluster
from tests.support.configs import RECORDED
from tests.support.sockets.rawsocket import RawCaller
from tests.support.wait import wait_until

EXCHANGES = [json.loads(line) for line in (RECORDED / "luxi-jobs.jsonl").read_text().splitlines()]
STATES = {state.value for state in JobState}
REFUSED, ERROR, ANSWER = "refused", "error", "answer"
UNKNOWN_JOB = 999999
# a delay that outlasted the calls about it; ours outlasts them on a slow machine, too
RECORDED_LONG_S, LONG_S = 5, 600

# name -> what we answer, and why
DIFFERENCES: dict[str, tuple[Any, str]] = {
    "SubmitJob/no-reason": ((ANSWER, "id"), "the reason trail may be left out: whoever gives none has none"),
    "SubmitJob/empty-op-list": ((REFUSED,), "BUG-7: an empty job is refused"),
    "SubmitManyJobs/one-job-empty-ops": ((ANSWER, [[False, "text"]]), "BUG-7: refused, by itself (DESIGN 11)"),
    "SubmitJob/dep-on-unknown-job": ((ERROR, "GenericError"), "refused before an id is spent, DESIGN 11"),
    "SubmitJob/dep-relative": ((ERROR, "GenericError"), "DIFF-5: relative ids stay within the submission"),
    "SubmitManyJobs/relative-dep-too-far": (
        (ANSWER, [[False, "text"]]),
        "BUG-4: there was no answer; each job has its own, and no id is spent (DESIGN 11)",
    ),
    "SetDrainFlag/false-again": ((ANSWER, True), "BUG-3: there was no answer"),
    "ChangeJobPriority/running": ((ERROR, "GenericError"), "BUG-8: -10, 0 and 10 only"),
    "ChangeJobPriority/queued-odd-value": ((ERROR, "GenericError"), "BUG-8"),
    "ChangeJobPriority/queued-out-of-range": ((ERROR, "GenericError"), "BUG-8"),
    "ChangeJobPriority/finished": ((ERROR, "GenericError"), "BUG-8: the number is looked at first"),
    "ChangeJobPriority/unknown": ((ERROR, "GenericError"), "BUG-8: the number is looked at first"),
    "ArchiveJob/canceled-from-queue": ((ANSWER, True), "BUG-2: it has no process, so it is archived"),
}


def shape(value: Any, in_ids: bool = False) -> Any:
    """What must be equal: truth values, states, nulls; of the rest only the kind."""
    if isinstance(value, list):
        if len(value) == 2 and value[0] is True and isinstance(value[1], int) and not isinstance(value[1], bool):
            return [True, "id"]
        return [shape(item) for item in value]
    if isinstance(value, bool) or value is None or value in STATES:
        return value
    return "text" if isinstance(value, str) else "id" if in_ids else "number"


def meaning(reply: dict[str, Any] | None, *, submits: bool) -> Any:
    if reply is None:
        return ("silence",)
    result = reply["result"]
    if reply["success"]:
        return ANSWER, shape(result, in_ids=submits)
    return (REFUSED,) if isinstance(result, str) else (ERROR, result[0])


class Replay:
    """The conversation, from one line to the next."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        # recorded -> ours
        self.ids: dict[int, int] = {UNKNOWN_JOB: UNKNOWN_JOB}
        self.wrong: dict[str, Any] = {}

    def hold(self, *names: str) -> None:
        """Send all lines whose names begin so, in their order."""
        for exchange in EXCHANGES:
            if exchange["name"].startswith(names):
                self.send(exchange)

    def send(self, exchange: dict[str, Any]) -> None:
        name, request = exchange["name"], json.loads(exchange["req"])
        recorded = json.loads(exchange["resp"]) if exchange["resp"] else None
        request["args"] = self.translate(request["method"], request["args"])
        with RawCaller(self.cluster.paths.query_socket) as caller:
            answer = caller.ask(json.dumps(request).encode() + b"\n")
            reply = orjson.loads(answer) if answer is not None else None
            is_closed = caller.ask(b'{"method": "QueryConfigValues", "args": [[]]}') is None
        submits = request["method"].startswith("Submit")
        ours = meaning(reply, submits=submits)
        theirs = DIFFERENCES[name][0] if name in DIFFERENCES else meaning(recorded, submits=submits)
        if ours != theirs or is_closed is not (ours == (REFUSED,)):
            self.wrong[name] = (ours, theirs, is_closed, reply)
        if submits and reply and recorded and reply["success"] and recorded["success"]:
            pairs = zip(numbers(recorded["result"]), numbers(reply["result"]), strict=True)
            self.ids.update((theirs, mine) for theirs, mine in pairs if theirs is not None and mine is not None)

    def translate(self, method: str, args: Any) -> Any:
        if not isinstance(args, list) or not args:
            return args
        if not method.startswith("Submit"):
            return [self.own_id(args[0]), *args[1:]]
        jobs = args[0] if method == "SubmitManyJobs" else [args[0]]
        for op in (op for job in jobs if isinstance(job, list) for op in job):
            if op.get("duration") == RECORDED_LONG_S:
                op["duration"] = LONG_S
            for dependency in op.get("depends") or []:
                dependency[0] = self.own_id(dependency[0])
        return args

    def own_id(self, value: Any) -> Any:
        if isinstance(value, str) and value.isdigit():
            return str(self.ids.get(int(value), value))
        return self.ids.get(value, value) if isinstance(value, int) and not isinstance(value, bool) else value


def numbers(result: Any) -> list[int | None]:
    """The ids of an answer; None: of a job that was not taken."""
    return [result] if isinstance(result, int) else [item[1] if item[0] else None for item in result]


def all_ended(cluster: Cluster) -> bool:
    with BlockingClient(cluster.paths.query_socket) as client:
        return all(status in FINAL for (status,) in client.call(QueryJobs(None, ("status",))))


def test_submissions_are_answered_as_recorded(cluster: Cluster) -> None:
    replay = Replay(cluster)

    # the few lines about one more job each belong to another test
    for exchange in EXCHANGES:
        if exchange["name"].startswith(("Submit", "SetDrainFlag")) and exchange["n"] < 100:
            replay.send(exchange)

    assert replay.wrong == {}
    wait_until(lambda: all_ended(cluster), what="all jobs ended")
    states = {recorded: cluster.status(ours) for recorded, ours in replay.ids.items() if recorded != UNKNOWN_JOB}
    # where they were recorded a delay by nothing failed: 11, 12, 24 and what depends on them; here it succeeds
    assert [states[number] for number in (11, 12, 14, 24)] == ["success"] * 4
    assert [states[number] for number in (7, 8, 10, 13, 15, 27, 28, 29)] == ["success"] * 8


def test_waits_are_answered_as_recorded(cluster: Cluster) -> None:
    replay = Replay(cluster)
    replay.hold("SubmitJob/for-wfjc-timeout")
    cluster.wait(replay.ids[32], status="running")

    replay.hold(
        *(f"WaitForJobChange/{case}" for case in ("timeout", "float", "negative", "unknown", "bad-id", "too-few")),
        *("ArchiveJob/running", "ChangeJobPriority/running", "CancelJob/running"),
    )

    assert replay.wrong == {}


def watched(replay: Replay) -> list[Any]:
    """The shapes of what a watcher of a new job is told until its end; each log line comes once."""
    replay.hold("SubmitJob/for-wfjc-status")
    seen: list[Any] = []
    lines: list[int] = []
    values, state = None, ""
    while state != "success":
        args = [replay.ids[30], ["status"], values, lines[-1] if lines else None, 20]
        with RawCaller(replay.cluster.paths.query_socket) as caller:
            reply = caller.call("WaitForJobChange", *args)
        (values, entries) = reply["result"]
        lines += [entry[0] for entry in entries]
        state = values[0]
        seen.append(shape(reply["result"]))
    assert lines == [1, 2, 3]
    return seen


def test_rounds_of_a_watcher_are_answered_as_recorded(cluster: Cluster) -> None:
    replay = Replay(cluster)
    recorded = [shape(json.loads(each["resp"])["result"]) for each in EXCHANGES if "status-only/round" in each["name"]]
    missed: list[Any] = []

    def is_told_as_recorded() -> bool:
        nonlocal missed
        seen = watched(replay)
        # they read every state from the file
        missed = [answer for answer in recorded if answer not in seen and answer != [["queued"], []]]
        return not missed

    # what lasts for less than a round may be missed: then another job is watched
    wait_until(is_told_as_recorded, what="a watcher is told all that was recorded", state=lambda: missed)
    replay.send(next(each for each in EXCHANGES if each["name"] == "WaitForJobChange/status-only/finished-unchanged"))
    assert replay.wrong == {}


def test_queued_jobs_are_changed_and_archived_as_recorded(cluster: Cluster) -> None:
    replay = Replay(cluster)
    replay.hold("SubmitJob/delay")
    cluster.wait(replay.ids[7])
    cluster.kill("forkserver")

    for exchange in EXCHANGES:
        if 216 <= exchange["n"] <= 237:
            replay.send(exchange)
    cluster.start("forkserver")
    wait_until(lambda: all_ended(cluster), what="all jobs ended")
    for exchange in EXCHANGES:
        if 252 <= exchange["n"] <= 271:
            replay.send(exchange)

    assert replay.wrong == {}


def test_each_difference_is_one_of_the_recording() -> None:
    names = {exchange["name"] for exchange in EXCHANGES}

    assert set(DIFFERENCES) <= names
    assert ETX not in (RECORDED / "luxi-jobs.jsonl").read_bytes()
