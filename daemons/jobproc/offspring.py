"""The properties that jobs inherit from the opcode that submits them: reason, priority, and debug level.

Name, labels, begin, hold and resources of the submitting job, and its tries, are its own.

Source: opcodes.md 2.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from common.queue import terms, tries
from protocol.luxi.submission import JobInput, OpInput

# keys inherited if the opcode itself does not set them
_IF_UNSET: Final = ("priority", "debug_level")


def inherit(parent: Mapping[str, object], jobs: Sequence[JobInput]) -> tuple[JobInput, ...]:
    """Return the jobs to submit.

    Args:
        parent: the submitting opcode, as in its job's file.
    """
    return tuple(tuple(_child(parent, op) for op in job) for job in jobs)


def _child(parent: Mapping[str, object], op: OpInput) -> OpInput:
    taken = {name: parent[name] for name in _IF_UNSET if op.get(name) is None and parent.get(name) is not None}
    # what is said of the parent as a job is not said of its offspring
    inherited = (entry for entry in _trail(parent) if not _is_of_job(entry))
    reason = [*_trail(op), *inherited]
    comment = op.get("comment") or f"Submitted by {parent['OP_ID']}"
    return {**op, **taken, "reason": reason, "comment": comment}


def _is_of_job(entry: object) -> bool:
    return isinstance(entry, list | tuple) and bool(entry) and entry[0] in (terms.SOURCE, tries.SOURCE)


def _trail(op: OpInput) -> Sequence[object]:
    reason = op.get("reason") or ()
    # luxid refuses other values
    return reason if isinstance(reason, list | tuple) else (reason,)
