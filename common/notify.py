"""What is told of jobs, to whom, and in which form."""

import base64
import binascii
import datetime
import hashlib
import hmac
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Final

import attrs
import orjson

from common.errors import InvalidRequest
from common.featuresettings import NotifyRule, Rules
from common.ids import JobId
from common.queue.jobs import Job, JobState, Timestamp, to_seconds
from common.queue.reasons import submitter, tries_of
from common.queue.terms import JobTerms, terms_of

# Which rule fits which event of a job.
#
# Source: DESIGN section 16; everyday.md section h.


TRY: Final = "try"
RECOVERED: Final = "recovered"
_END: Final = "end"
_ENDS: Final = {state.value for state in (JobState.SUCCESS, JobState.ERROR, JobState.CANCELED)}


@attrs.frozen
class Subject:
    """The job of an event, as rules look at it."""

    job: Job
    terms: JobTerms
    user: str

    @classmethod
    def of(cls, job: Job) -> "Subject":
        return cls(job, terms_of(job), submitter(job))


def matching_rules(rules: Rules, subject: Subject, event: str) -> list[str]:
    """The names of the rules that tell of this event. Args: event: a final state, `try` or `recovered`."""
    return [name for name, rule in rules.items() if _wants(rule, event) and fits(rule, subject)]


def wants_any(rules: Iterable[NotifyRule], event: str) -> bool:
    """Whether one of these rules tells of such events at all."""
    return any(_wants(rule, event) for rule in rules)


def fits(rule: NotifyRule, subject: Subject) -> bool:
    """Whether the rule is for this job."""
    if rule.users and subject.user not in rule.users:
        return False
    if rule.names and not any(fnmatchcase(subject.terms.name, pattern) for pattern in rule.names):
        return False
    return all(_has_label(subject.terms, label) for label in rule.labels)


def _wants(rule: NotifyRule, event: str) -> bool:
    return event in rule.on or (_END in rule.on and event in _ENDS)


def _has_label(terms: JobTerms, label: str) -> bool:
    key, equals, value = label.partition("=")
    return terms.labels.get(key) == value if equals else key in terms.labels


# What is told of an event: ids, name, labels, state, exit code and times; never output, arguments or environment.
#
#     {"id":"3f0a…-17-error-operators","event":"error","job":17,"name":"backup-web1","labels":{"team":"web"},…}
#
# Instants are ISO 8601 in UTC. The text is the same each time that it is made of the same job.
#
# Source: DESIGN section 16; everyday.md section h.


@attrs.frozen
class BatchEnd:
    """A batch of which all jobs have ended."""

    batch_id: str
    # final state -> number of jobs
    counts: Mapping[str, int]
    # second in which its jobs were received: clients choose ids, and may use one again; 0: unknown
    received_s: int = 0
    # its jobs that ended before the last one; they stay live until the event is told, since it counts them
    earlier: frozenset[JobId] = frozenset()

    @property
    def state(self) -> str:
        """Failed if any job failed, canceled if any was canceled."""
        return next((state for state in ("error", "canceled") if self.counts.get(state)), "success")

    @property
    def key(self) -> str:
        """What tells the batch from all others: `batch-5f2c-1790000000`."""
        return f"batch-{self.batch_id}" + (f"-{self.received_s}" if self.received_s else "")


@attrs.frozen
class JobLocation:
    """Where the job is."""

    cluster: str
    cluster_uuid: str
    # beginning of addresses at which people look at a job; "": there are none
    job_url: str = ""


@attrs.frozen
class JobNotification:
    """Something to be told of a job, to whom one rule names."""

    rule: str
    # a final state, `try`, or `recovered`
    kind: str
    # None: it is of the job alone
    batch: BatchEnd | None = None
    # number of the failed try; 0: it is of no try
    number: int = 0

    def key(self, job_id: int) -> str:
        """What tells this event of the job from all others; also the key of its submission."""
        about = str(job_id) if self.batch is None else self.batch.key
        return f"notify/{about}/{self.kind}{self.number or ''}/{self.rule}"


def payload(event: JobNotification, subject: Subject, place: JobLocation) -> str:
    """The text that is sent."""
    job, terms = subject.job, subject.terms
    told: dict[str, object] = {
        "id": message_id(event, job, place),
        "event": event.kind,
        "cluster": place.cluster,
        "job": job.job_id,
        "name": terms.name,
        "labels": dict(terms.labels),
        "user": subject.user,
        "status": job.state.value,
        "exit_code": _exit_code(job),
        "received": _instant(job.received_at),
        "started": _instant(job.start_at),
        "ended": _instant(job.end_at),
        "rule": event.rule,
    }
    if event.number:
        told["try"] = event.number
    if event.batch is not None:
        told |= {"batch": event.batch.batch_id, "status": event.batch.state, "jobs": dict(event.batch.counts)}
    if place.job_url:
        told["url"] = f"{place.job_url}{job.job_id}"
    return orjson.dumps(told).decode()


def message_id(event: JobNotification, job: Job, place: JobLocation) -> str:
    """The id that receivers know a repeated delivery by."""
    return "-".join([place.cluster_uuid, *event.key(job.job_id).split("/")[1:]])


def _exit_code(job: Job) -> int | None:
    """That of the last command which has ended."""
    for op in reversed(job.ops):
        end: object = op.result
        match end:
            # a failure: its class, then its arguments
            case [str(), [str(), {"exit_code": int(code)}]] | {"exit_code": int(code)}:
                return code
            case _:
                if tried := tries_of(op):
                    return tried[-1].exit_code
    return None


def _instant(at: Timestamp | None) -> str | None:
    if at is None:
        return None
    return datetime.datetime.fromtimestamp(to_seconds(at), datetime.UTC).isoformat(timespec="milliseconds")


# The headers of a delivery, as Standard Webhooks has them.
#
# The signature is over id, instant and body, so a receiver can tell a forged delivery, a changed one and one that was
# recorded and sent again.
#
# Source: everyday.md section h; standardwebhooks.com.


_PREFIX: Final = "whsec_"
LEAST_BYTES: Final = 16


def read_secret(text: str) -> tuple[bytes, ...]:
    """The keys of a file, one a line: text, or `whsec_` and base64. Several while a key is changed for another.

    Raises: InvalidRequest: there is none, one is shorter than 16 bytes, or its base64 is malformed.
    """
    keys = tuple(_read_key(line.strip()) for line in text.splitlines() if line.strip())
    if not keys:
        raise InvalidRequest("the file of the secret is empty")
    return keys


def headers(message_id: str, at_s: int, body: bytes, keys: tuple[bytes, ...]) -> Mapping[str, str]:
    """The headers of a delivery. Args: at_s: seconds since the epoch, now. keys: empty: it is not signed."""
    told = {"webhook-id": message_id, "webhook-timestamp": str(at_s)}
    signed = f"{message_id}.{at_s}.".encode() + body
    signatures = [f"v1,{base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()}" for key in keys]
    return {**told, "webhook-signature": " ".join(signatures)} if keys else told


def _read_key(line: str) -> bytes:
    if not line.startswith(_PREFIX):
        key = line.encode()
    else:
        try:
            key = base64.b64decode(line.removeprefix(_PREFIX), validate=True)
        except binascii.Error:
            raise InvalidRequest(f"the secret after '{_PREFIX}' is not base64") from None
    if len(key) < LEAST_BYTES:
        raise InvalidRequest(f"the secret has {len(key)} bytes, and needs at least {LEAST_BYTES}")
    return key
