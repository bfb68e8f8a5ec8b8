"""Ended jobs in words: what they did, and why they failed or were canceled.

Theory. To read an opcode is dear. That of a job that has just ended was read when it was queued, and its summary is
looked up (`readings`). The jobs of an archive would only drive the opcodes of the queue out of there, so they have a
memory of their own, in which all nights of a backup are one entry.
"""

from collections.abc import Callable, Mapping
from typing import Final

import orjson

from common.errors import GantryError
from common.opcodes.base import summary
from common.opcodes.registry import parse_opcode
from common.queue.jobs import Job
from common.words.ends import end_words
from common.words.outcome import Outcome
from daemons.luxid.core.choice.readings import reading_of
from daemons.luxid.core.past.endedrow import Texts

# keys on which no summary depends, and that differ from job to job
_COMMON_KEYS: Final = frozenset({"reason", "depends", "priority", "debug_level", "dry_run"})
_REMEMBERED: Final = 512
Summarize = Callable[[Mapping[str, object]], str]


def texts_of_queue() -> Texts:
    """For jobs that have just ended."""
    return _texts(lambda op_input: reading_of(op_input).summary)


def texts_of_archive() -> Texts:
    """For jobs of earlier; keep it as long as there are some to read."""
    known: dict[bytes, str] = {}

    def look_up(op_input: Mapping[str, object]) -> str:
        own = {key: value for key, value in op_input.items() if key not in _COMMON_KEYS}
        text = orjson.dumps(own)
        if text not in known:
            if len(known) >= _REMEMBERED:
                known.clear()
            known[text] = _read(own)
        return known[text]

    return _texts(look_up)


def _texts(summarize: Summarize) -> Texts:
    return Texts(summarize, lambda job: _reason(job, summarize))


def _read(own: Mapping[str, object]) -> str:
    try:
        return summary(parse_opcode(own))
    except GantryError:
        op_id = own.get("OP_ID")
        return op_id.removeprefix("OP_") if isinstance(op_id, str) else "INVALID_OP"


def _reason(job: Job, summarize: Summarize) -> str:
    """As `gnt-job why` says it."""
    words = end_words(_outcome(job, summarize), lambda _: None) or ""
    return next(iter(words.splitlines()), "")


def _outcome(job: Job, summarize: Summarize) -> Outcome:
    return Outcome(
        job.job_id,
        job.state.value,
        tuple(summarize(op.input) for op in job.ops),
        tuple(op.state.value for op in job.ops),
        tuple(op.result for op in job.ops),
        tuple(op.input for op in job.ops),
        tuple(op.exec_at for op in job.ops),
        None,
    )
