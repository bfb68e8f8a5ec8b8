"""The terms of a job: its name and labels, when it may begin, a hold, the resources that it uses, and its trace.

They travel with the job: the trail of its first opcode has one entry with the source `gantry:terms` and a JSON object
as its text, without the terms that are not set:

    {"name":"backup-web1","labels":{"team":"web"},"begin":1790000000.0,"uses":{"licences":2,"web1:memory":4294967296}}

So they need no file of their own, are durable in the same write as the job, and are known after a restart, on another
master, and in the archive. A client writes the entry, luxid checks it at the submission. As long as the job has no
process, luxid changes it by rewriting the job's file.

Source: DESIGN section 16; everyday.md sections e, f, j.
"""

import enum
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs
import orjson

from common.errors import InvalidRequest
from common.queue import reasons
from common.queue.jobs import Job, JobOp, may_mention, replace_op, to_seconds
from common.queue.reasons import ReasonEntry, first_trail, next_try, texts_of
from common.tracecontext import read_traceparent

SOURCE: Final = "gantry:terms"
LONGEST_NAME: Final = 120
MOST_LABELS: Final = 32
LONGEST_VALUE: Final = 256
MOST_USES: Final = 32
_LABEL: Final = re.compile(r"[a-z0-9][a-z0-9._/-]{0,62}", re.ASCII)
_KEYS: Final = ("name", "labels", "begin", "hold", "uses", "trace")
# name of a resource, of the cluster or, after `NODE:`, of a node
_USE: Final = re.compile(r"(?:([A-Za-z0-9][A-Za-z0-9._-]{0,252}):)?([a-z][a-z0-9._-]{0,62})", re.ASCII)
# instants after the year 9999 cannot be shown
LATEST_S: Final = 253_402_300_799.0


@attrs.frozen
class Hold:
    """The job does not begin before it is released."""

    # name of the user who holds it; "": unknown
    by: str = ""
    # seconds since the epoch
    at: float = 0.0
    # the user's words; may be empty
    why: str = ""


@attrs.frozen
class Use:
    """A number of units of a resource, of the cluster or of a node."""

    # name of the node; "": the resource is the cluster's
    node: str
    resource: str
    # at least 1; bytes, where the resource is counted in bytes
    count: int

    @property
    def key(self) -> str:
        """`licences`, `web1:memory`."""
        return f"{self.node}:{self.resource}" if self.node else self.resource


@attrs.frozen
class JobTerms:
    """What a job's submitter, or an operator, has said of the job as a whole."""

    # not unique; "": none
    name: str = ""
    labels: Mapping[str, str] = attrs.Factory(dict)
    # instant before which it does not begin, in seconds since the epoch; None: it may begin at once
    begin_at: float | None = None
    hold: Hold | None = None
    # taken together with the job's slot, all or none; each resource once
    uses: tuple[Use, ...] = ()
    # `traceparent` of the span that submitted it, as `common.tracecontext` writes it; "": none
    trace: str = ""


NO_TERMS: Final = JobTerms()


def terms_entry(terms: JobTerms, at_ns: int) -> ReasonEntry:
    """The entry with which a client, or luxid, states the terms."""
    return ReasonEntry(SOURCE, write_terms(terms), at_ns)


def write_terms(terms: JobTerms) -> str:
    """The text of the entry."""
    hold = terms.hold
    written = {
        "name": terms.name,
        "labels": dict(terms.labels),
        "begin": terms.begin_at,
        "hold": None if hold is None else {"by": hold.by, "at": hold.at, "why": hold.why},
        "uses": {use.key: use.count for use in terms.uses},
        "trace": terms.trace,
    }
    return orjson.dumps({key: value for key, value in written.items() if value or value == 0.0}).decode()


def check_terms(text: str) -> JobTerms:
    """Read the entry of a client.

    Raises: InvalidRequest: it is malformed, or a term breaks a rule; the message names the term and the rule.
    """
    try:
        given = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise InvalidRequest(f"the terms of the job are not JSON: {error.msg}") from None
    if not isinstance(given, dict):
        raise InvalidRequest(f"the terms of the job must be an object, got {given!r:.60}")
    if unknown := sorted(given.keys() - _KEYS):
        raise InvalidRequest(f"the job has unknown terms: {', '.join(unknown)}; known are {', '.join(_KEYS)}")
    try:
        terms = _terms(given)
    except (TypeError, ValueError, AttributeError, KeyError) as error:
        raise InvalidRequest(f"the terms of the job are malformed: {error}") from None
    return checked(terms)


def checked(terms: JobTerms) -> JobTerms:
    """The terms, if they keep the rules. Raises: InvalidRequest: as `check_terms`."""
    check_name(terms.name)
    if len(terms.labels) > MOST_LABELS:
        raise InvalidRequest(f"a job has at most {MOST_LABELS} labels, got {len(terms.labels)}")
    for key, value in terms.labels.items():
        check_label(key, value)
    if terms.begin_at is not None and not 0 <= terms.begin_at <= LATEST_S:
        raise InvalidRequest(f"begin must be seconds since 1970, at most {LATEST_S:.0f}, got {terms.begin_at!r}")
    if terms.hold is not None:
        check_hold_words(terms.hold.why)
    if len(terms.uses) > MOST_USES:
        raise InvalidRequest(f"a job uses at most {MOST_USES} resources, got {len(terms.uses)}")
    for use in terms.uses:
        if isinstance(use.count, bool) or not 1 <= use.count < 2**63:
            raise InvalidRequest(f"a job uses at least 1 of '{use.key}', got {use.count!r}")
    if terms.trace and ((found := read_traceparent(terms.trace)) is None or found.text != terms.trace):
        raise InvalidRequest(f"trace must be a traceparent of version 00, as W3C writes it; got {terms.trace!r:.80}")
    return terms


def check_name(name: str) -> None:
    """Raises: InvalidRequest: no job may be named so."""
    if len(name) > LONGEST_NAME or not name.isprintable() or name != name.strip():
        raise InvalidRequest(
            f"a job's name has at most {LONGEST_NAME} printable characters, no blanks around it; got {name!r:.60}"
        )


def check_label(key: str, value: str) -> None:
    """Raises: InvalidRequest: no job may have such a label."""
    if not is_label_key(key):
        raise InvalidRequest(
            f"label {key!r:.80}: a label is named by 1 to 63 of a-z, 0-9, '.', '_', '/' and '-', as in team=web"
        )
    if len(value) > LONGEST_VALUE or not value.isprintable():
        raise InvalidRequest(
            f"label '{key}': its value has at most {LONGEST_VALUE} printable characters; got {value!r:.60}"
        )


def is_label_key(key: str) -> bool:
    """Whether a label may be named so."""
    return _LABEL.fullmatch(key) is not None


def check_hold_words(words: str) -> None:
    """Raises: InvalidRequest: no hold may have such words."""
    if len(words) > LONGEST_VALUE or not words.isprintable():
        raise InvalidRequest(f"the words of a hold are at most {LONGEST_VALUE} printable characters; got {words!r:.60}")


def read_use(key: str, count: int) -> Use:
    """The use that is written `licences` or `web1:memory`. Raises: InvalidRequest: the key names no resource."""
    match = _USE.fullmatch(key)
    if match is None:
        raise InvalidRequest(
            f"{key!r:.80} names no resource; write NAME or NODE:NAME, with a NAME of a-z, 0-9, '.', '_' and '-'"
        )
    return Use(match[1] or "", match[2], count)


def terms_of_trail(trail: object) -> JobTerms:
    """The terms that the trail of a job's first opcode states; none, if it has no entry or one that is damaged."""
    text = terms_text(trail)
    if text is None:
        return NO_TERMS
    try:
        return _terms(orjson.loads(text))
    except (ValueError, TypeError, AttributeError, KeyError, InvalidRequest):
        return NO_TERMS


def terms_text(trail: object) -> str | None:
    """The text of the entry; None: there is none."""
    return next(texts_of(trail, SOURCE), None)


def trail_with_terms(trail: Sequence[object], wanted: JobTerms, at_ns: int) -> list[object]:
    """The trail of a job's first opcode with these terms, which win over those that it states.

    Raises: InvalidRequest: it states malformed terms.
    """
    text = terms_text(trail)
    given = NO_TERMS if text is None else check_terms(text)
    rest = [entry for entry in trail if not (isinstance(entry, list | tuple) and entry and entry[0] == SOURCE)]
    return [*rest, terms_entry(_joined(given, wanted), at_ns).to_wire()]


def _joined(given: JobTerms, wanted: JobTerms) -> JobTerms:
    """Both; where both say something, `wanted` wins."""
    uses = {use.key: use for use in (*given.uses, *wanted.uses)}
    return JobTerms(
        wanted.name or given.name,
        {**given.labels, **wanted.labels},
        given.begin_at if wanted.begin_at is None else wanted.begin_at,
        wanted.hold or given.hold,
        tuple(uses.values()),
        wanted.trace or given.trace,
    )


def changed_at(job: Job) -> float | None:
    """When luxid last changed the terms of the job, which was in the queue then; None: it never did."""
    trail = first_trail(job, SOURCE)
    for entry in trail if isinstance(trail, list | tuple) else ():
        match entry:
            case [str() as source, _, int() as at_ns] if source == SOURCE and job.received_at is not None:
                return at_ns / 1e9 if at_ns / 1e9 > to_seconds(job.received_at) else None
            case _:
                pass
    return None


def terms_of(job: Job) -> JobTerms:
    """The terms of a job."""
    return terms_of_trail(first_trail(job, SOURCE))


def with_terms(job: Job, terms: JobTerms, at_ns: int) -> Job:
    """The job with other terms; the entry keeps its place in the trail, also if it states none any more.

    So its instant tells, as long as the job is known, that the terms were changed after it came.
    """
    first = job.ops[0]
    known = first.input.get("reason")
    trail: list[object] = [*known] if isinstance(known, list | tuple) else []
    entry = terms_entry(terms, at_ns).to_wire()
    stated = (isinstance(each, list | tuple) and bool(each) and each[0] == SOURCE for each in trail)
    place = next((index for index, is_terms in enumerate(stated) if is_terms), len(trail))
    is_stated = terms != NO_TERMS or place < len(trail)
    changed = [*trail[:place], *([entry] if is_stated else []), *trail[place + 1 :]]
    return replace_op(job, 0, attrs.evolve(first, input={**first.input, "reason": changed}))


def _terms(given: Mapping[str, Any]) -> JobTerms:
    """Raises: TypeError, ValueError, AttributeError, KeyError: malformed. InvalidRequest: a use names no resource."""
    hold, begin = given.get("hold"), given.get("begin")
    if begin is not None and (
        isinstance(begin, bool) or not isinstance(begin, int | float) or not math.isfinite(begin)
    ):
        raise TypeError(f"begin must be a number, got {begin!r:.60}")
    uses = (given.get("uses") or {}).items()
    return JobTerms(
        _text(given.get("name", "")),
        {_text(key): _text(value) for key, value in (given.get("labels") or {}).items()},
        None if begin is None else float(begin),
        None if hold is None else Hold(_text(hold["by"]), float(hold["at"]), _text(hold["why"])),
        tuple(read_use(_text(key), _count(count)) for key, count in uses),
        _text(given.get("trace", "")),
    )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected a text, got {value!r:.60}")
    return value


def _count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"expected a whole number, got {value!r:.60}")
    return value


# Whether a job without a process is to begin later, and when.
#
# A job that is deferred is in the queue, and waits for nothing but a time or a word: it takes no slot, no lock, no
# units of resources, and no place in a limit.
#
# Source: DESIGN section 16.


_SOURCES: Final = (SOURCE, reasons.TRY_SOURCE)


class DeferralCause(enum.Enum):
    """What a deferred job waits for."""

    HOLD = "hold"  # a user releases it
    BEGIN = "begin"  # the instant that its submitter named
    RETRY = "retry"  # the pause before the next try of its command is over


@attrs.frozen
class Deferral:
    """A job is to begin later."""

    cause: DeferralCause
    # instant, in seconds since the epoch; None: nobody knows
    until: float | None


def deferral_of(job: Job) -> Deferral | None:
    """What defers the job, whatever the time is now; None: nothing. A hold comes first, then what ends last."""
    index = job.next_index
    if not job.ops or not (_has_cause(job.ops[0]) or (index and _has_cause(job.ops[index]))):
        return None
    terms = terms_of(job)
    if terms.hold is not None:
        return Deferral(DeferralCause.HOLD, None)
    found = []
    if terms.begin_at is not None and job.start_at is None:
        found.append(Deferral(DeferralCause.BEGIN, terms.begin_at))
    if (failed := next_try(job)) is not None:
        found.append(Deferral(DeferralCause.RETRY, failed.next_at))
    return max(found, key=lambda each: each.until or 0.0, default=None)


def _has_cause(op: JobOp) -> bool:
    """Whether terms or tries are stated with the opcode; this runs for each job of a long queue."""
    if not (may_mention(op.input, SOURCE) or may_mention(op.input, reasons.TRY_SOURCE)):
        return False
    trail = op.input.get("reason")
    if not isinstance(trail, list | tuple):
        return False
    return any(entry[0] in _SOURCES for entry in trail if isinstance(entry, list | tuple) and entry)
