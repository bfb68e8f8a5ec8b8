"""A session with generated code: `clientsession.py URL TOKEN CERTIFICATE FOLDER`.

The folder has the client of openapi-python-client and the models of datamodel-code-generator. The session is run by the
Python of the generators, and imports nothing of the project. Each model must write what it has read: so it knows all
members, with their types.
"""

import importlib
import json
import re
import ssl
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# seconds in which a job, or an event, must come
PATIENCE_S = 60.0
COMMAND = ["sh", "-c", "echo hello"]


class Unexpected(Exception):
    """generated code gives something else than its document promises"""


def check(found: object, wanted: object, what: str) -> None:
    if found != wanted:
        raise Unexpected(f"{what}: expected {wanted!r}, got {found!r}")


class Session:
    """The generated client and models."""

    def __init__(self, url: str, token: str, certificate: str, document: Any) -> None:
        trusted = ssl.create_default_context(cafile=certificate)
        self.document = document
        self.client = importlib.import_module("gantryclient").AuthenticatedClient(
            base_url=url, token=token, verify_ssl=trusted, timeout=PATIENCE_S, raise_on_unexpected_status=True
        )
        self.types: Any = importlib.import_module("gantryclient.models")
        self.models: Any = importlib.import_module("gantrymodels")
        self._tags = {
            operation["operationId"]: operation["tags"][0].lower()
            for verbs in document["paths"].values()
            for operation in verbs.values()
        }

    def close(self) -> None:
        self.client.get_httpx_client().close()

    def call(self, name: str, *args: object, **options: object) -> Any:
        """The reply to a call, by its name in the document: an object of the generated client."""
        place = f"gantryclient.api.{self._tags[name]}.{_snake(name)}"
        reply = importlib.import_module(place).sync_detailed(*args, client=self.client, **options)
        for model in self._models_of(name, reply.status_code):
            self.read(model, reply.content)
        return reply

    def get(self, name: str, *args: object, **options: object) -> Any:
        """The result of a call that must succeed."""
        reply = self.call(name, *args, **options)
        check(reply.status_code < 300, True, f"{name}: {reply.content[:300]}")
        return reply.parsed

    def refused(self, status: int, code: str, name: str, *args: object, **options: object) -> None:
        reply = self.call(name, *args, **options)
        check((reply.status_code, reply.parsed.code), (status, code), name)
        check(isinstance(reply.parsed, self.types.Problem), True, f"{name}: a problem")

    def read(self, model: str, content: bytes) -> Any:
        """A value of the generated models. Raises: Unexpected: it would be written otherwise."""
        value = getattr(self.models, model).model_validate_json(content)
        check(value.model_dump(mode="json", by_alias=True, exclude_unset=True), json.loads(content), model)
        return value

    def events(self, model: str, verb: str, path: str, **options: object) -> Iterator[tuple[Any, Any]]:
        """The events of a stream, each as an object of the client and of the models."""
        with self.client.get_httpx_client().stream(verb, path, **options) as reply:
            check(reply.status_code, 200, path)
            fields: dict[str, str] = {}
            for line in reply.iter_lines():
                name, _, value = line.partition(": ")
                if name:
                    fields[name] = value
                elif fields:
                    event = {**fields, "data": json.loads(fields["data"])}
                    kind = getattr(self.types, f"{fields['event'].capitalize()}{model}")
                    check(kind.from_dict(event).to_dict(), event, kind.__name__)
                    yield kind.from_dict(event), self.read(model, json.dumps(event).encode()).root
                    fields = {}
                # a comment has no name

    def _models_of(self, name: str, status: int) -> Iterator[str]:
        """The class of a reply, if the document names one."""
        for verbs in self.document["paths"].values():
            for operation in verbs.values():
                if operation["operationId"] == name:
                    for content in operation["responses"][str(int(status))].get("content", {}).values():
                        reference = content["schema"].get("$ref", "")
                        if reference:
                            yield reference.rpartition("/")[2]


def _snake(name: str) -> str:
    return re.sub(r"([A-Z])", lambda found: f"_{found[1].lower()}", name)


def command(session: Session, *argv: str, **options: object) -> Any:
    return session.types.OpRunCommand(op_id="OP_RUN_COMMAND", argv=list(argv), **options)


def submission(session: Session, *ops: object, **options: object) -> Any:
    return session.types.Submission(jobs=[session.types.NewJob(ops=list(ops), **options)])


def submit_and_wait(session: Session) -> int:
    """Returns: the id of a job that has ended."""
    low = session.types.OpRunCommandPriority.LOW
    body = submission(session, command(session, *COMMAND, priority=low), name="generated")
    first = session.get("submitJobs", body=body, idempotency_key="generated-1")
    again = session.get("submitJobs", body=body, idempotency_key="generated-1")
    check((first.earlier, again.earlier, again.jobs[0].id), (False, True, first.jobs[0].id), "one job by one key")
    job_id: int = first.jobs[0].id

    change = session.get("waitForJob", job_id, until="final", timeout=PATIENCE_S)
    check(change.job.status, session.types.JobState.SUCCESS, "the job after the wait")
    job = session.get("getJob", job_id)
    check((job.id, job.name), (job_id, "generated"), "the job")
    check((job.ops[0]["argv"], job.ops[0]["priority"]), (COMMAND, 10), "its opcode")
    check(session.get("getJobOutput", job_id), "hello\n", "its output")
    page = session.get("listJobs", limit=1, order=session.types.ListJobsOrder.DESC)
    check([each.id for each in page.jobs], [job_id], "the list")
    found = session.get("queryJobs", body=session.types.JobQuery(filter_="name=generated", fields=["id", "status"]))
    check([each.id for each in found.jobs], [job_id], "the jobs of a filter")
    return job_id


def be_refused(session: Session) -> None:
    session.refused(404, "not_found", "getJob", 999999)
    session.refused(400, "invalid", "submitJobs", body=session.types.Submission(jobs=[]))
    session.refused(400, "invalid", "listJobs", limit=5000)
    session.refused(409, "conflict", "prioritizeJob", 1, body=session.types.PriorityWish(priority=10))


def set_a_rule(session: Session) -> None:
    wish = session.types.FilterWish(action=session.types.ActionType0.PAUSE, where="name=held", reason="a trial")
    rule = session.get("addFilter", body=wish)
    held = session.get("submitJobs", body=submission(session, command(session, "true"), name="held")).jobs[0].id
    reasons = session.get("explainJob", held).reasons
    check([type(each).__name__ for each in reasons], ["HeldByRule"], "why the job waits")
    check([each.uuid for each in session.get("listFilters").filters], [rule.uuid], "the rules")
    check(session.get("cancelJob", held, body=session.types.CancelWish()).done, True, "a cancelled job")
    seen = session.call("getFilter", rule.uuid).headers["ETag"]
    changed = session.get("modifyFilter", rule.uuid, body=session.types.FilterPatch(priority=7), if_match=seen)
    check((changed.priority, changed.action, f'"{changed.tag}"' == seen), (7, wish.action, False), "a changed rule")
    session.refused(412, "precondition_failed", "setFilter", rule.uuid, body=wish, if_match=seen)
    check(session.get("deleteFilter", rule.uuid, if_match=f'"{changed.tag}"'), None, "a deleted rule")


def read_all(session: Session) -> int:
    """Make each call that only reads, and needs no parameter. Returns: their number."""
    count = 0
    for path, verbs in session.document["paths"].items():
        operation = verbs.get("get")
        if path.startswith("/3") and "{" not in path and operation and operation["operationId"] != "streamEvents":
            name = operation["operationId"]
            # a cluster without a lease has no such thing
            check(session.call(name).status_code, 404 if name == "getMastership" else 200, name)
            count += 1
    return count


def follow(session: Session) -> None:
    """Both streams, until the job ends that they are about."""
    body = submission(session, command(session, "sh", "-c", "sleep 0.5; echo bye"))
    job_id = session.get("submitJobs", body=body).jobs[0].id
    kinds = set()
    for event, model in session.events("ClusterEvent", "GET", "/3/events", params={"ids": job_id}):
        kinds.add(event.event)
        if event.event == "jobs" and model.data.jobs[0].status.value == "success":
            break
    check({"begin", "filters", "locks", "queue", "jobs"} <= kinds, True, f"events of the cluster: {kinds}")

    wish = session.types.FollowWish(ids=[job_id], fields=["status"], log_after=[0], outputs=[[job_id, "output", 0]])
    text = ""
    for event, model in session.events("FollowEvent", "POST", "/3/jobs/follow", json=wish.to_dict()):
        if event.event == "changes":
            text += "".join(output.root[2] for output in model.data[1].outputs or ())
        if text:
            break
    check(text, "bye\n", "the output of the followed job")


def main(url: str, token: str, certificate: str, folder: str) -> int:
    sys.path.insert(0, folder)
    session = Session(url, token, certificate, json.loads(Path(folder, "openapi.json").read_bytes()))
    try:
        submit_and_wait(session)
        be_refused(session)
        set_a_rule(session)
        follow(session)
        count = read_all(session)
    finally:
        session.close()
    print(f"the generated client has submitted jobs, followed them, been refused, and made {count} calls that read")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
