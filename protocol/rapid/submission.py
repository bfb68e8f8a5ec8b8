"""Submit jobs: `POST /3/jobs`.

Source: DESIGN section 15; luxid.md 2.2, 2.3.
"""

from collections.abc import Mapping
from typing import Annotated, Final

import attrs

from common.ids import JobId


class OpcodeMark:
    """The marker for JSON objects that luxid reads as opcodes."""


OPCODE: Final = OpcodeMark()
# one opcode: {"OP_ID": "OP_...", parameters}
OpInput = Annotated[Mapping[str, object], OPCODE]


@attrs.frozen
class NewJob:
    """A job: opcodes that run one after the other, and the terms of the job as a whole."""

    ops: tuple[OpInput, ...]
    # shown instead of the summary; many jobs may have it
    name: str = ""
    # key -> value, as in {"team": "web"}
    labels: Mapping[str, str] = attrs.Factory(dict)
    # instant before which it does not begin, in seconds since 1970
    begin_at: float | None = None
    # words for a hold, which may be empty: it does not begin before it is released; null: it is not held
    hold: str | None = None
    # resources and their units, as in {"licences": 2, "web1:memory": 4294967296}
    uses: Mapping[str, int] = attrs.Factory(dict)


@attrs.frozen
class Submission:
    """Jobs to submit together.

    A dependency in `depends` of an opcode names a job by its id; -1 is the job before this one in the list, -2 the
    one before that.
    """

    # at least one
    jobs: tuple[NewJob, ...]


@attrs.frozen
class SubmittedJob:
    """What became of one job: its id, or why it was refused."""

    id: JobId | None = None
    refused: str | None = None


@attrs.frozen
class Submitted:
    """One result for each job, in order; at least one job was taken, and is durable."""

    jobs: tuple[SubmittedJob, ...]
    # whether the same jobs were submitted before under this key: these are the results of then
    earlier: bool = False
