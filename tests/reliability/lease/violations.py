"""Which promises a history breaks: what was acknowledged is there once, nothing ran twice, and no answer is taken back.

Source: DESIGN sections 3 and 14.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from tests.reliability.lease.history import Cancel, Line, Look, Read, Rest, Submit, Told, Write
from tests.reliability.ledger import FINAL


def violations(history: Sequence[Told], lines: Sequence[Line], rest: Rest) -> list[str]:
    """What is wrong, each in a sentence; nothing, if all is well."""
    return [
        *_ids(history),
        *_lost(history, rest),
        *_strangers(history, rest),
        *_runs(lines, rest),
        *_exclusion(lines),
        *_taken_back(history, rest),
        *_cancels(history, rest),
        *_things(history, rest),
    ]


def _ids(history: Sequence[Told]) -> Iterator[str]:
    """One id for each job, and the same for a submission that was sent again."""
    owners: dict[int, str] = {}
    answers: dict[str, tuple[int, ...]] = {}
    for key, ids in _submissions(history):
        if answers.setdefault(key, ids) != ids:
            yield f"the submission {key} was answered by {answers[key]} and by {ids}"
        for job_id in set(ids):
            if owners.setdefault(job_id, key) != key:
                yield f"the id {job_id} was given to {owners[job_id]} and to {key}"
        if len(set(ids)) != len(ids):
            yield f"the submission {key} was answered by one id twice: {ids}"


def _lost(history: Sequence[Told], rest: Rest) -> Iterator[str]:
    for told in history:
        if not (isinstance(told.asked, Submit) and told.is_sure):
            continue
        for job_id, token in zip(_ids_in(told), told.asked.tokens, strict=True):
            job = rest.jobs.get(job_id)
            if job is None:
                yield f"job {job_id} ({token}) was acknowledged by {told.by} and is lost"
            elif job.token != token:
                yield f"job {job_id} was acknowledged for {token} and is {job.token}"


def _strangers(history: Sequence[Told], rest: Rest) -> Iterator[str]:
    """Each job was submitted, and is there once; a submission is there whole or not at all."""
    known = {told.asked.tokens for told in history if isinstance(told.asked, Submit)}
    there = Counter(job.token for job in rest.jobs.values())
    submitted = {token for tokens in known for token in tokens}
    for token, count in there.items():
        if token not in submitted:
            yield f"{token} is a job and nobody submitted it"
        elif count > 1:
            yield f"{token} was submitted once and is {count} jobs"
    for tokens in known:
        if 0 < sum(token in there for token in tokens) < len(tokens):
            yield f"of the submission {tokens} only a part is there"


def _runs(lines: Sequence[Line], rest: Rest) -> Iterator[str]:
    begun = Counter(line.token for line in lines if line.event == "enter")
    ended = Counter(line.token for line in lines if line.event == "leave")
    for token, count in begun.items():
        if count > 1:
            where = [line.node for line in lines if line.event == "enter" and line.token == token]
            yield f"{token} ran {count} times, on {', '.join(where)}"
    for job_id, job in rest.jobs.items():
        if job.state not in FINAL:
            yield f"job {job_id} ({job.token}) is still {job.state}"
        if job.state == "success" and (begun[job.token], ended[job.token]) != (1, 1):
            yield (
                f"job {job_id} ({job.token}) has succeeded; its command began {begun[job.token]} times "
                f"and came to its end {ended[job.token]} times"
            )


def _exclusion(lines: Sequence[Line]) -> Iterator[str]:
    """Nobody enters under a lock before its holder has left; of one that was killed inside the kernel tells."""
    finished = {line.token for line in lines if line.event == "leave"}
    inside: dict[str, str] = {}
    for line in lines:
        if line.event == "clash":
            yield f"{line.token} on {line.node} had {line.lock} while another one had it"
        elif line.event == "enter":
            if line.lock in inside:
                yield f"{line.token} on {line.node} entered {line.lock} while {inside[line.lock]} had it"
            if line.token in finished:
                inside[line.lock] = line.token
        elif inside.get(line.lock) == line.token:
            del inside[line.lock]


def _taken_back(history: Sequence[Told], rest: Rest) -> Iterator[str]:
    """An end that was told stays; a job that was told stays; what ran is never queued again."""
    looks: dict[int, list[Told]] = {}
    for told in history:
        if isinstance(told.asked, Look) and told.is_sure:
            looks.setdefault(told.asked.job_id, []).append(told)
    for job_id, seen in looks.items():
        last = rest.jobs.get(job_id)
        for told in seen:
            if told.answer in FINAL and last is not None and last.state != told.answer:
                yield f"job {job_id} was told to be {told.answer} by {told.by} and is {last.state}"
        # of those that were over first; each later one is compared with the one that said most
        furthest: Told | None = None
        for told in sorted(seen, key=lambda each: each.ended):
            if furthest is not None and furthest.is_before(told) and not _may_follow(furthest.answer, told.answer):
                yield (
                    f"job {job_id} was told to be {furthest.answer} by {furthest.by} "
                    f"and later to be {told.answer} by {told.by}"
                )
            if furthest is None or _rank(told.answer) > _rank(furthest.answer):
                furthest = told


def _rank(state: object) -> int:
    if state is None:
        return -1
    return 2 if state in FINAL else int(state in ("running", "canceling"))


def _may_follow(first: object, second: object) -> bool:
    if first in FINAL:
        return second == first
    if first is not None and second is None:
        return False
    return not (_rank(first) == 1 and second == "queued")


def _cancels(history: Sequence[Told], rest: Rest) -> Iterator[str]:
    for told in history:
        if isinstance(told.asked, Cancel) and told.is_sure and told.answer:
            job = rest.jobs.get(told.asked.job_id)
            if job is not None and job.state == "success":
                yield f"job {told.asked.job_id} was acknowledged as canceled by {told.by} and has succeeded"


def _things(history: Sequence[Told], rest: Rest) -> Iterator[str]:
    """Whoever reads a thing gets the last value written before, or one that was being written meanwhile."""
    writes: dict[str, list[tuple[Told, Write]]] = {}
    for told in history:
        # what was refused has not been done
        if isinstance(told.asked, Write) and told.outcome.value != "refused":
            writes.setdefault(told.asked.name, []).append((told, told.asked))
    for told in history:
        if isinstance(told.asked, Read) and told.is_sure:
            name = told.asked.name
            if wrong := _wrong_value(writes.get(name, []), told.answer, told.began, told.ended):
                yield f"{name} was told to be {told.answer!r} by {told.by}, {wrong}"
    for name, value in rest.things.items():
        if wrong := _wrong_value(writes.get(name, []), value, None, None):
            yield f"{name} is {value!r}, {wrong}"


def _wrong_value(
    writes: Sequence[tuple[Told, Write]], value: object, began: int | None, ended: int | None
) -> str | None:
    """Why this could not be read then; None: it could. Args: began: None: after everything."""
    sure = [told for told, _ in writes if told.is_sure and (began is None or told.ended < began)]
    origin = [told for told, write in writes if write.value == value and (ended is None or told.began < ended)]
    if not origin:
        if value is not None:
            return "which nobody wrote before"
        # it was not there in the beginning
        return f"and had been written before, as {sure[0].by} acknowledged" if sure else None
    # the values are different, so only the removal has several origins: one that may be the last suffices
    for one in origin:
        if not any(one.is_before(other) for other in sure):
            return None
    later = next(other for other in sure if origin[-1].is_before(other))
    return f"and another value had been written after it, as {later.by} acknowledged"


def _submissions(history: Sequence[Told]) -> Iterator[tuple[str, tuple[int, ...]]]:
    for told in history:
        if isinstance(told.asked, Submit) and told.is_sure:
            yield told.asked.key, _ids_in(told)


def _ids_in(told: Told) -> tuple[int, ...]:
    assert isinstance(told.answer, tuple), told
    return told.answer
