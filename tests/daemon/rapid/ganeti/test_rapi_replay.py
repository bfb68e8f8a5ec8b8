"""A recorded conversation with Ganeti's remote API, held again with a real rapid over HTTPS.

All its requests, in their order, on a cluster with the recorded configuration and the jobs that the recorded one had by
then. Each reply must have the recorded status and value, but for texts, times and ids that are drawn; what differs
is listed with its reason.

Source: rapi.md; the recording is of a Ganeti 3.0.2, with `--require-authentication`.
"""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import orjson
import pytest

from common.queue.jobfile import encode_job
from tests.support.configs import recorded_json
from tests.support.recordings import job_of, recorded_exchanges
from tests.support.web.rapid import Web

LINES = recorded_exchanges("rapi-exchanges.jsonl")
USERS = "peer secret write\nreader rsecret read\n"
SETTINGS = "ganeti_rights = true\nrequire_authentication = true\n[luxid]\nsweep_s = 3600.0\n"
# the last job before the conversation
LAST_JOB = 6
# jobs with opcodes on instances and operating systems
WITHOUT_UNIT = (7, 10, 11)
# lines before which a job must have ended
ENDED = {"tags-after": 8, "job-done": 9, "jobs-bulk": 9, "job-created": 10, "job-wait/a": 11, "job-delete-finished": 11}
# fields that node daemons tell
LIVE = ("mtotal", "mnode", "mfree", "ctotal", "cnos", "cnodes", "csockets", "oper_state", "oper_ram", "oper_vcpus")
# facts about the program, not about the cluster
OF_THE_PROGRAM = ("software_version", "vcs_version")
# parameters that a client, luxid or the job process fill in
FILLED_IN = (
    *("debug_level", "beparams", "hypervisor", "pnode_uuid", "osparams_private", "osparams_secret"),
    *("helper_startup_timeout", "helper_shutdown_timeout"),
)
# a job without a unit for its opcode
IN_ERROR = {"status": "error", "opstatus": ["error"], "start_ts": None, "end_ts": "time"}
WITH_RESULT = {"oplog": [[]], "opresult": [["OpCodeUnknown", "text"]]}

NO_UNIT = "no logical unit carries out this opcode here, so the job ends in error"
NO_NODE_DAEMON = "there is no node daemon to ask for live data"
UNKNOWN_JOB = "advice of rapi.md 6.3: an unknown job is 404"
RULE_OF_LUXID = "advice of rapi.md 6.4: what is wrong with a rule, or that there is none, is no fault of the server"


def job_in_error(theirs: Any) -> Any:
    status, job = theirs
    return status, {**job, **IN_ERROR, **WITH_RESULT}


def jobs_in_error(theirs: Any) -> Any:
    status, jobs = theirs
    return status, [{**job, **IN_ERROR} if job["id"] in WITHOUT_UNIT else job for job in jobs]


def ended_in_error(theirs: Any) -> Any:
    status, reply = theirs
    info = ["error" if each in ("queued", "running", "success") else each for each in reply["job_info"]]
    return status, {**reply, "job_info": info}


def without_live_data(theirs: Any) -> Any:
    status, found = theirs
    rows = found if isinstance(found, list) else [found]
    rows = [{key: None if key in LIVE else value for key, value in row.items()} for row in rows]
    # the last field is younger than the recording
    rows = [{**row, "status": None, "custom_osparams": {}} if "status" in row else row for row in rows]
    return status, rows if isinstance(found, list) else rows[0]


def states_in_error(theirs: Any) -> Any:
    status, found = theirs
    rows = [[job_id, [0, "error"] if job_id[1] in WITHOUT_UNIT else state] for job_id, state in found["data"]]
    return status, {**found, "data": rows}


def with_our_fields(theirs: Any) -> Any:
    status, found = theirs
    ours = [{"name": "opid", "title": "OpCode_ids", "kind": "other"}]
    ours += [{"name": "summary_text", "title": "SummaryText", "kind": "text"}]
    ours += [{"name": "reason", "title": "Reasons", "kind": "other"}]
    ours += [{"name": "reason_text", "title": "ReasonText", "kind": "text"}]
    ours += [{"name": word, "title": word.title(), "kind": "text"} for word in ("user", "words")]
    ours += [{"name": "node", "title": "Node", "kind": "text"}, {"name": "batch", "title": "Batch", "kind": "text"}]
    ours += [{"name": "batch_terms", "title": "BatchTerms", "kind": "other"}]
    ours += [{"name": "name", "title": "Name", "kind": "text"}]
    ours += [{"name": word, "title": word.title(), "kind": "other"} for word in ("labels", "hold", "uses", "tries")]
    ours += [{"name": "dependencies", "title": "Dependencies", "kind": "other"}]
    ours += [{"name": "trace", "title": "Trace", "kind": "text"}]
    ours += [{"name": "traceparent", "title": "TraceParent", "kind": "text"}]
    ours += [{"name": "exit_code", "title": "ExitCode", "kind": "number"}]
    ours += [{"name": "begin_ts", "title": "Begin", "kind": "other"}]
    return status, {"fields": sorted([*found["fields"], *ours], key=lambda field: field["name"])}


def refused(status: int) -> Callable[[Any], Any]:
    return lambda _: (status, None)


# line -> how our reply follows from the recorded one, and why
DIFFERENCES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "os": (refused(502), NO_UNIT),
    "404-job": (refused(404), UNKNOWN_JOB),
    "job-wait/unknown-job": (refused(404), UNKNOWN_JOB),
    "instances-bulk": (without_live_data, NO_NODE_DAEMON),
    "instance": (without_live_data, NO_NODE_DAEMON),
    "nodes-bulk": (without_live_data, NO_NODE_DAEMON),
    "node": (without_live_data, NO_NODE_DAEMON),
    "jobs-bulk": (jobs_in_error, NO_UNIT),
    "job-created": (job_in_error, NO_UNIT),
    "job-wait/a": (ended_in_error, NO_UNIT),
    "job-wait/b0": (ended_in_error, NO_UNIT),
    "job-wait/b1": (ended_in_error, NO_UNIT),
    "job-wait/finished-unchanged": (ended_in_error, NO_UNIT),
    "job-wait/no-body": (refused(400), "advice of rapi.md 6.3: no body is a fault of the client"),
    "filter-put-bad-uuid": (refused(400), RULE_OF_LUXID),
    "filter-post-bad-action": (refused(400), RULE_OF_LUXID),
    "filter-post-negative": (refused(400), RULE_OF_LUXID),
    "filter-delete-again": (refused(404), RULE_OF_LUXID),
    "query-job": (states_in_error, NO_UNIT),
    "query-fields": (with_our_fields, "jobs have fields of ours"),
    "query-unknown": (refused(404), "an unknown kind is an unknown URI, and no outage"),
}


class Conversation:
    """The recorded conversation, from one line to the next, and our replies."""

    def __init__(self, web: Web) -> None:
        self.web = web
        self.client = web.remote()
        # as Ganeti's clients, which ask for no compression
        del self.client.headers["Accept-Encoding"]
        # line number -> our reply
        self.replies: dict[int, httpx2.Response] = {}
        # recorded UUID of a rule -> ours
        self.rules: dict[str, str] = {}

    def hold(self) -> None:
        for line in LINES:
            if line["name"] in ENDED:
                self.web.cluster.wait(ENDED[line["name"]])
            self.replies[line["n"]] = self._send(line)

    def _send(self, line: dict[str, Any]) -> httpx2.Response:
        path = line["path"]
        for recorded, ours in self.rules.items():
            path = path.replace(recorded, ours)
        reply = self.client.request(
            line["method"], path, headers=line["req_headers"], content=(line["req_body"] or "").encode()
        )
        if line["name"].startswith("filter") and line["method"] == "POST" and line["status"] == 200:
            self.rules[json.loads(line["body"])] = reply.json()
        return reply

    def meaning(self, line: dict[str, Any]) -> Any:
        reply = self.replies[line["n"]]
        text = reply.text
        for recorded, ours in self.rules.items():
            text = text.replace(ours, recorded)
        return meaning(line, reply.status_code, text)


def meaning(line: dict[str, Any], status: int, text: str) -> Any:
    """Status and value, without what is drawn."""
    value = json.loads(text)
    if status != 200:
        assert sorted(value) == ["code", "explain", "message"]
        assert value["code"] == status
        return status, None
    if line["name"] == "info":
        value = {key: "ours" if key in OF_THE_PROGRAM else each for key, each in value.items()}
    if line["name"] == "features":
        value = sorted(value)
    if line["name"] in ("filters", "filters-bulk", "query-filter"):
        # by uuids, which are drawn
        rows = value["data"] if line["name"] == "query-filter" else value
        value = sorted(rows, key=lambda row: str(normal(row)))
    if line["name"] in ("job-done", "job-created", "jobs-bulk"):
        value = [job_meaning(job) for job in value] if isinstance(value, list) else job_meaning(value)
    if line["name"].startswith("job-delete"):
        value = [value[0], "text"]
    return status, normal(value)


def job_meaning(job: dict[str, Any]) -> dict[str, Any]:
    """A job without what is filled into its opcodes, and without texts of errors."""
    ops = [{key: value for key, value in op.items() if key not in FILLED_IN} for op in job["ops"]]
    results = [
        [each[0], "text"] if isinstance(each, list) and len(each) > 1 else each for each in job.get("opresult", ())
    ]
    return {**job, "ops": ops, **({"opresult": results} if "opresult" in job else {})}


UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def is_ours(entry: Any) -> bool:
    """Whether an entry of a reason trail is one of those that we add: who asked, and whose the job is."""
    return isinstance(entry, list) and bool(entry) and str(entry[0]).startswith("gantry:")


def normal(value: Any) -> Any:
    """The value without docs, times, ids that are drawn, and our entries of trails."""
    match value:
        case dict():
            return {key: normal(each) for key, each in value.items() if key != "doc"}
        case [int() as seconds, int()] if seconds > 1_000_000_000:
            return "time"
        case list():
            return [normal(each) for each in value if not is_ours(each)]
        case int() | float() if value > 1_000_000_000 and value != 1700000000000000000:
            return "time"
        case str():
            return re.sub(r"^aa:00:00:..:..:..$", "mac", UUID.sub("uuid", value))
        case _:
            return value


def recorded(line: dict[str, Any]) -> Any:
    return meaning(line, line["status"], line["body"])


def expected(line: dict[str, Any]) -> Any:
    follow, _ = DIFFERENCES.get(line["name"], (lambda same: same, ""))
    return follow(recorded(line))


@pytest.fixture(scope="module")
def conversation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Conversation]:
    with Web(tmp_path_factory.mktemp("day"), SETTINGS) as web:
        prepare(web)
        web.start()
        conversation = Conversation(web)
        conversation.hold()
        yield conversation


def prepare(web: Web) -> None:
    """Make the cluster like the recorded one: configuration, users, jobs."""
    paths = web.paths
    paths.config_data.write_bytes(orjson.dumps(recorded_json()))
    paths.make_folders()
    paths.rapi_users.parent.mkdir(exist_ok=True)
    paths.rapi_users.write_text(USERS)
    jobs = json.loads(next(line["body"] for line in LINES if line["name"] == "jobs-bulk"))
    for row in jobs[:LAST_JOB]:
        count = len(row["ops"])
        nothing, zero = [None] * count, [0] * count
        lists = {"oplog": [[]] * count, "opresult": nothing, "oppriority": zero}
        job = job_of({**row, **lists, "opstart": nothing, "opexec": nothing, "opend": nothing})
        paths.job_file(job.job_id).write_bytes(encode_job(job))
    paths.serial_file.write_text(f"{LAST_JOB}\n")


@pytest.mark.parametrize("line", LINES, ids=lambda line: f"{line['n']}-{line['name']}")
def test_a_request_gets_the_recorded_reply(conversation: Conversation, line: dict[str, Any]) -> None:
    assert conversation.meaning(line) == expected(line)


@pytest.mark.parametrize("line", LINES, ids=lambda line: f"{line['n']}-{line['name']}")
def test_a_reply_has_the_recorded_form(conversation: Conversation, line: dict[str, Any]) -> None:
    reply = conversation.replies[line["n"]]
    headers = {name.lower(): value for name, value in line["headers"]}

    assert reply.headers["content-type"] == headers["content-type"]
    assert reply.headers.get("www-authenticate") == headers.get("www-authenticate")
    assert int(reply.headers["content-length"]) == len(reply.content)
    assert reply.text.endswith("\n")
    if reply.status_code == line["status"] != 200:
        assert reply.json()["explain"] == json.loads(line["body"])["explain"]


def test_trails_of_jobs_and_rules_name_the_user(conversation: Conversation) -> None:
    lines = {line["name"]: line["n"] for line in LINES}
    job, rule = (conversation.replies[lines[name]].json() for name in ("job-done", "filter"))

    sources = [entry[:2] for entry in job["ops"][0]["reason"]]
    assert sources[:2] == [["gnt:library:rlib2:tags", ""], ["gantry:http", "peer"]]
    assert [entry[:2] for entry in rule["reason_trail"]] == [
        ["gnt:user", "rapi"],
        ["gantry:http", "peer"],
        ["luxid", ""],
    ]


def test_each_difference_is_one_and_is_one_of_the_recording() -> None:
    lines = {line["name"]: line for line in LINES}

    assert DIFFERENCES.keys() <= lines.keys()
    same = [name for name in DIFFERENCES if expected(lines[name]) == recorded(lines[name])]
    assert same == []
    assert len(LINES) == 85
