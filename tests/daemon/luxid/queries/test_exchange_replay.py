"""The rest of a recorded day, held again with a real luxid: rules, locks, the watcher's pause, what is no request.

One conversation, line by line, on a cluster with the recorded configuration and the jobs that the recorded one had by
then; the lines between that other tests compare are sent for what they bring about. Each answer must be the recorded
one, but for texts, times and ids that are drawn; what differs is listed with its reason.

Source: luxid.md 1.2-1.4, 2, 6, 8; the recording is of a Ganeti 3.0.2.
"""

import json
import re
import time
from collections.abc import Iterable, Iterator
from typing import Any

import attrs
import orjson
import pytest

from common.ids import JobId
from common.queue.jobfile import encode_job
from protocol.luxi.queries import QueryJobs
from tests.support.cluster import Cluster
from tests.support.configs import recorded_json
from tests.support.recordings import recorded_exchanges, recorded_jobs
from tests.support.sockets.rawsocket import RawCaller
from tests.support.wait import wait_until

COMPARED = recorded_exchanges("luxi-exchanges.jsonl")
JOB_LINES = recorded_exchanges("luxi-jobs.jsonl")
BETWEEN = [*JOB_LINES, *recorded_exchanges("luxi-queries.jsonl")]
# by number: the drain flag; a job that is watched, and one to cancel; what is done to paused jobs; archiving
SENT = {57, 63, 148, *range(163, 178), *range(194, 200), *range(216, 238), *range(252, 272)}
ROUNDS = [each for each in JOB_LINES if each["name"].startswith("WaitForJobChange/fields/")]
FINAL_ROUND = "WaitForJobChange/fields/finished-unchanged"
# these come several on a connection
TOGETHER = {68, 69, 70}
# the job before the first that is submitted here
LAST_JOB = 29
MASTER = "acfaa8e2-6745-4e5c-ac80-7a605f2e4409"
# answered all the same: bytes that are no UTF-8, two requests at once, the answer to the second
NO_JSON = {292, 296, 297}
REFUSED, ERROR, ANSWER, SILENCE, BATCH = "refused", "error", "answer", "silence", "batch"
PROBE = b'{"method": "QueryConfigValues", "args": [[]]}'

# a job that ends by itself: on a slow machine it may have
BEGUN = "begun"

# line -> jobs that must be so before it is sent; None: final
BEFORE: dict[str, tuple[tuple[int, ...], str | None]] = {
    "SubmitJob/for-wfjc-timeout": ((30, 31), None),
    "WaitForJobChange/timeout-0": ((32,), BEGUN),
    "QueryJobs/after-cancel-running": ((32,), None),
    "SubmitManyJobs/lock-waiters": ((33,), "running"),
    "QueryJobs/waiting-all-fields": ((34, 35, 36), "waiting"),
    "QueryJobs/killed": ((33,), None),
    "QueryJobs/lock-waiters-done": ((34, 35, 36), None),
    "QueryJobs/formerly-paused": ((37, 38, 39), None),
    "unicode/QueryJobs": ((47,), None),
}

BAD_RULE = "what is wrong with a rule is told as an error of the call, and the connection stays"
NOT_SUBMITTED = "a job that a rule rejects is refused when it is submitted, and gets no id"
PRIORITIES = "BUG-8: -10, 0 and 10 only"
ARCHIVED = "BUG-2: the job that was canceled before it began is archived; and 43 and 44 were refused"
KILLED = "DESIGN 16: a killed job ends canceled; its process ends by itself, and the reason trail tells of no death"


def killed(recorded: Any) -> Any:
    """The recorded row of a job, but it was canceled and did not die."""
    [row] = recorded[1]
    [op] = row[4]
    return ANSWER, [
        [row[0], "canceled", *row[2:4], [{**op, "reason": op["reason"][:-1]}], row[5], ["canceled"], *row[7:]]
    ]


def killed_among_others(recorded: Any) -> Any:
    """The recorded rows, but the job that was killed is canceled."""
    return ANSWER, [[row[0], "canceled", *row[2:]] if row[0] == 33 else row for row in recorded[1]]


def at_once(recorded: Any) -> Any:
    """The recorded locks, except that a job waiting for a node does not have the big lock yet."""
    big, *rest = recorded[1]["data"]
    return ANSWER, {**recorded[1], "data": [[*big[:2], [0, ["33"]], big[3]], *rest]}


def with_end(recorded: Any) -> Any:
    """The recorded row of a job, but its opcode says when it was canceled."""
    [row] = recorded[1]
    return ANSWER, [[*row[:10], ["time"], *row[11:]]]


def with_text(recorded: Any) -> Any:
    """The recorded row, but with the comment that was sent."""
    [[job_id, status, [op]]] = recorded[1]
    return ANSWER, [[job_id, status, [{**op, "comment": 'gr\u00fc\u00dfe \u2713 "q" \\ \u0001 \u007f \u0080 /'}]]]


def archived(recorded: Any) -> Any:
    """The recorded rows of ids, without what we have archived and have not; or with what says so."""
    rows = [row for row in recorded[1] if row[0] not in (43, 44)]
    return ANSWER, [[40, True] if row == [40, False] else row for row in rows if row != [40]]


# line -> what we answer, or how it follows from the recorded answer; and why
def with_canceller(recorded: Any) -> Any:
    """The same row, with one reason more."""
    row = list(recorded[1][0])
    op = row[4][0]
    row[4] = [{**op, "reason": [*op["reason"], ["gnt:daemon:luxid:cancel", "text", "time"]]}]
    return ANSWER, [row]


DIFFERENCES: dict[str, tuple[Any, str]] = {
    "Query/lock/held-and-pending": (at_once, "all locks of an opcode are asked for at once, and come at once"),
    "Query/lock/after-prio": (at_once, "all locks of an opcode are asked for at once, and come at once"),
    "ChangeJobPriority/waiting": ((ERROR, "GenericError"), PRIORITIES),
    "QueryJobs/queued-after-prio": (
        lambda recorded: (ANSWER, [[38, "queued", -10, [-10]] if row[0] == 38 else row for row in recorded[1]]),
        PRIORITIES,
    ),
    "QueryJobs/canceled-from-queue": (with_canceller, "the reason trail says who asked for it"),
    "QueryJobs/killed": (killed, KILLED),
    "QueryJobs/lock-waiters-done": (killed_among_others, KILLED),
    "QueryJobs/canceled-while-waiting": (with_end, "an opcode that was canceled has ended"),
    "ReplaceFilter/bad-action": ((ERROR, "GenericError"), BAD_RULE),
    "ReplaceFilter/negative-priority": ((ERROR, "GenericError"), BAD_RULE),
    "ReplaceFilter/bad-predicate": ((ERROR, "GenericError"), BAD_RULE),
    "ReplaceFilter/rate-limit-0": ((ERROR, "GenericError"), BAD_RULE),
    "ReplaceFilter/rate-limit-string": ((ERROR, "GenericError"), BAD_RULE),
    "ReplaceFilter/bad-predicate-field": ((ERROR, "GenericError"), "a rule that can never match is refused, DESIGN 11"),
    "DeleteFilter/cleanup-bad-predicate-field": ((ERROR, "GenericError"), "there is no such rule, see above"),
    "SubmitJob/not-rejected-by-regex-filter": (
        (ERROR, "JobQueueError"),
        f"every operator works in every predicate, so that this rule matches; {NOT_SUBMITTED}",
    ),
    "QueryJobs/not-rejected-by-regex-filter": ((ANSWER, [[43, None]]), NOT_SUBMITTED),
    "SubmitJob/rejected-by-filter": ((ERROR, "JobQueueError"), NOT_SUBMITTED),
    "QueryJobs/rejected": ((ANSWER, [[44, *[None] * 15]]), NOT_SUBMITTED),
    "Query/job/archived-filter-true": (
        lambda recorded: (ANSWER, {**recorded[1], "data": [*recorded[1]["data"], [[0, 40], [0, True]]]}),
        ARCHIVED,
    ),
    "QueryJobs/all-after-archive": (archived, ARCHIVED),
    "QueryJobs/all-after-archive-with-archived-field": (archived, ARCHIVED),
    "QueryJobs/all-after-autoarchive": ((ANSWER, []), "BUG-1: a negative age means all, also jobs without opcodes"),
    "error/args-null": ((REFUSED,), "arguments are a list, whatever the method"),
    "error/array": ((BATCH,), "a list is a JSON-RPC batch; it is answered by a list of errors"),
    "ok/duplicate-key": ((ANSWER, ["cluster.peer.test"]), "of two equal keys the last counts, as JSON readers have it"),
    "ok/whitespace": ((ANSWER, ["cluster.peer.test"]), "white space around a request is forgiven, luxid.md 1.2"),
    "unicode/SubmitJob-surrogate-pair": ((ANSWER, "id"), "an escaped pair is one character; it can be saved"),
    "unicode/QueryJobs": (with_text, "BUG-9: the recorded answer was no UTF-8"),
}

NOT_SENT = {
    "unicode/QueryJobs-u0103-first-part": "BUG-9: the answer fell apart in two, neither of which is JSON",
    "unicode/QueryJobs-u0103-second-part": "BUG-9: the other half",
}


class Conversation:
    """The recorded day, from one line to the next, and what we answered."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        # line number -> what we answered
        self.answers: dict[int, Any] = {}
        # what was said in all rounds of the watcher
        self.rounds: list[Any] = []
        # recorded -> ours; of jobs only those that have other ids
        self.rules: dict[str, str] = {}
        self.jobs: dict[int, int] = {}
        # our job -> the comment with which it was submitted
        self.comments: dict[int, str] = {}
        self._shared: dict[int, RawCaller] = {}

    def hold(self) -> None:
        lines = [*COMPARED, *(each for each in BETWEEN if each["n"] in SENT)]
        for line in sorted(lines, key=lambda each: each["n"]):
            if line["name"] in BEFORE:
                self._wait_for(*BEFORE[line["name"]])
            if line["name"] == "Query/lock/held-and-pending":
                wait_until(lambda: len(self._waiting()) == 3, what="three jobs wait for the node", state=self._waiting)
            if line["name"] not in NOT_SENT:
                self.answers[line["n"]] = self._send(line)
            if line["name"] == "SubmitJob/for-wfjc-fields":
                self._watch()
        for caller in self._shared.values():
            caller.sock.close()

    def _wait_for(self, jobs: Iterable[int], status: str | None) -> None:
        own = [self.jobs.get(job, job) for job in jobs]
        if status == BEGUN:
            wait_until(lambda: all(map(self._has_begun, own)), what=f"jobs {own} have begun")
        else:
            self.cluster.wait(*own, status=status)

    def _has_begun(self, job_id: int) -> bool:
        return self.cluster.status(job_id) not in ("queued", "waiting")

    def _waiting(self) -> Any:
        """Who waits for the lock of the master."""
        with RawCaller(self.cluster.paths.query_socket) as caller:
            rows = caller.call("Query", "lock", ["pending"], ["=", "name", f"node/{MASTER}"])["result"]["data"]
        return rows[0][0][1]

    def _send(self, line: dict[str, Any]) -> Any:
        payload = bytes.fromhex(line["req_hex"]) if "req_hex" in line else self._own(line)
        if line["conn"] in TOGETHER:
            if line["conn"] not in self._shared:
                self._shared[line["conn"]] = RawCaller(self.cluster.paths.query_socket)
            return meaning(line, self._receive(line, self._shared[line["conn"]], payload))
        with RawCaller(self.cluster.paths.query_socket) as caller:
            answer = meaning(line, self._receive(line, caller, payload))
            is_closed = caller.ask(PROBE) is None
        # a refusal closes the connection, and nothing else does
        return answer if is_closed is (answer == (REFUSED,)) else (*answer, "closed" if is_closed else "open")

    def _receive(self, line: dict[str, Any], caller: RawCaller, payload: bytes | None) -> Any:
        answer = caller.receive() if payload is None else caller.ask(payload)
        if answer is None:
            return None
        reply = orjson.loads(answer)
        self._learn(line, reply)
        text = json.dumps(reply)
        for recorded, ours in self.rules.items():
            text = text.replace(ours, recorded)
        for theirs, own in self.jobs.items():
            text = text.replace(f"[[{own},", f"[[{theirs},")
        return json.loads(text)

    def _learn(self, line: dict[str, Any], reply: Any) -> None:
        recorded: dict[str, Any] = json.loads(line["resp"]) if line["resp"] else {}
        if line["name"].startswith("ReplaceFilter/") and reply["success"] and recorded.get("success"):
            self.rules[recorded["result"]] = reply["result"]
        if line["name"].startswith("unicode/Submit"):
            self.comments[reply["result"]] = json.loads(line["req"])["args"][0][0]["comment"]
            if recorded.get("success"):
                self.jobs[recorded["result"]] = reply["result"]

    def _own(self, line: dict[str, Any]) -> bytes | None:
        """The request, with our own ids; Ganeti's delays take the lock of the master, ours of named nodes."""
        if line["req"] is None:
            return None
        text: str = line["req"]
        for recorded, ours in self.rules.items():
            text = text.replace(recorded, ours)
        if '"on_master": true' in text:
            text = text.replace('"on_node_uuids": null', f'"on_node_uuids": ["{MASTER}"]')
        for theirs, own in self.jobs.items():
            text = text.replace(f"[[{theirs}]", f"[[{own}]")
        return text.encode()

    def _watch(self) -> None:
        """Be told of everything about a job until it is over, and once more."""
        job_id, fields, *_ = json.loads(ROUNDS[0]["req"])["args"]
        values, serial = None, None
        with RawCaller(self.cluster.paths.query_socket) as caller:
            while values is None or values[1] != "success":
                values, entries = caller.call("WaitForJobChange", job_id, fields, values, serial, 20)["result"]
                serial = entries[-1][0] if entries else serial
                self.rounds.append((values, entries))
            reply = caller.call("WaitForJobChange", job_id, fields, values, serial, 20)
        line = next(each for each in ROUNDS if each["name"] == FINAL_ROUND)
        self.answers[line["n"]] = meaning(line, reply)


def meaning(line: dict[str, Any], reply: Any) -> Any:
    if reply is None:
        return (SILENCE,)
    if isinstance(reply, list):
        return (BATCH,)
    result = reply["result"]
    if not reply["success"]:
        return (REFUSED,) if isinstance(result, str) else (ERROR, result[0])
    request = json.loads(line["req"]) if line["n"] not in NO_JSON else {"method": "", "args": []}
    method, args = request["method"], request["args"]
    if method in ("CancelJob", "ChangeJobPriority"):
        return ANSWER, result[0]
    if method == "QueryClusterInfo":
        return ANSWER, sorted(result)
    if line["name"].startswith("unicode/Submit"):
        return ANSWER, "id"
    if method == "QueryFilters":
        return ANSWER, sorted(normal(result))
    if method == "QueryJobs":
        result = [[cell(*pair) for pair in zip(args[1], row, strict=True)] for row in result]
    return ANSWER, normal(result)


def cell(field: str, value: Any) -> Any:
    if field == "opresult" and value:
        return ["text" if isinstance(result, str) else result for result in value]
    if field == "ops" and value:
        # theirs is found out by the process, ours is given
        return [{key: each for key, each in op.items() if key != "on_node_uuids"} for op in value]
    return value


def normal(value: Any) -> Any:
    """The value without docs, times, numbers of jobs in trails, and the wording of a death."""
    match value:
        case dict():
            return {key: normal(each) for key, each in value.items() if key != "doc"}
        case [int() as seconds, int()] if seconds > 1_000_000_000:
            return "time"
        case [str() as source, _, int()] if source.startswith("gnt:daemon:"):
            return [source, "text", "time"]
        case list():
            return [normal(each) for each in value]
        case int() if 10**18 < value < 10**19:
            return "time"
        case str():
            return re.sub(r"^job=\d+;", "job=N;", value)
        case _:
            return value


@pytest.fixture(scope="module")
def conversation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Conversation]:
    now = (int(time.time()), 0)
    with Cluster(tmp_path_factory.mktemp("day"), settings="[luxid]\nsweep_s = 3600.0\nkill_grace_s = 0.5\n") as cluster:
        cluster.paths.config_data.write_bytes(orjson.dumps(recorded_json()))
        cluster.paths.make_folders()
        for job in recorded_jobs():
            # as old as they were then
            own = attrs.evolve(job, end_at=now) if job.end_at else job
            cluster.paths.job_file(job.job_id).write_bytes(encode_job(own))
        cluster.paths.serial_file.write_text(f"{LAST_JOB}\n")
        cluster.start()
        conversation = Conversation(cluster)
        conversation.hold()
        yield conversation


def recorded_meaning(line: dict[str, Any]) -> Any:
    if "resp_hex" in line:
        # each character cut to its low 8 bits
        return meaning(line, json.loads(bytes.fromhex(line["resp_hex"]).decode("latin-1"), strict=False))
    return meaning(line, json.loads(line["resp"]) if line["resp"] else None)


def expected(line: dict[str, Any]) -> Any:
    recorded = recorded_meaning(line)
    ours, _ = DIFFERENCES.get(line["name"], (recorded, ""))
    return ours(recorded) if callable(ours) else ours


@pytest.mark.parametrize(
    "line",
    [each for each in (*COMPARED, ROUNDS[-1]) if each["name"] not in NOT_SENT],
    ids=lambda line: f"{line['n']}-{line['name']}",
)
def test_a_line_is_answered_as_it_was(conversation: Conversation, line: dict[str, Any]) -> None:
    assert conversation.answers[line["n"]] == expected(line)


def test_a_watcher_of_many_fields_is_told_the_recorded_states_in_their_order_and_each_log_entry_once(
    conversation: Conversation,
) -> None:
    results = [json.loads(each["resp"])["result"] for each in ROUNDS]
    recorded = distinct(values[1:3] for values, _ in results)

    told = distinct(values[1:3] for values, _ in conversation.rounds)

    # we also tell that it is queued between its opcodes; what lasts for less than a round may be missed
    common = [state for state in told if state in recorded]
    assert common == [state for state in recorded if state in told]
    assert told[-1] == recorded[-1]
    assert log_of(conversation.rounds) == log_of(results)


def distinct(values: Iterable[Any]) -> list[Any]:
    found: list[Any] = []
    for value in values:
        if value not in found:
            found.append(value)
    return found


def log_of(rounds: list[Any]) -> list[Any]:
    """Serials and kinds; the texts are each program's own."""
    return [(entry[0], entry[2]) for _, entries in rounds for entry in entries]


def test_all_that_was_submitted_as_text_is_answered_as_it_was_sent(conversation: Conversation) -> None:
    jobs = tuple(map(JobId, conversation.comments))

    rows = conversation.cluster.luxi_wire(QueryJobs(jobs, ("id", "ops")))

    assert len(rows) == 4
    assert {job_id: ops[0]["comment"] for job_id, ops in rows} == conversation.comments


def test_a_request_of_a_megabyte_is_answered(conversation: Conversation) -> None:
    with RawCaller(conversation.cluster.paths.query_socket) as caller:
        reply = caller.call("QueryConfigValues", ["cluster_name", "x" * 2**20])

    assert reply == {"success": True, "result": ["cluster.peer.test", None]}


def test_each_difference_is_one_and_is_one_of_the_recording() -> None:
    lines = {line["name"]: line for line in COMPARED}

    assert DIFFERENCES.keys() | NOT_SENT.keys() <= lines.keys()
    assert [name for name in DIFFERENCES if expected(lines[name]) == recorded_meaning(lines[name])] == []
    assert len(COMPARED) == 104
