"""Jobs of one opcode each that change the cluster: followed to the end, unless the user does not want to wait.

Source: cli.md 1.2.
"""

from collections.abc import Callable, Sequence

import attrs

from cli.connection import ask_luxid
from cli.submission import submit_jobs
from cli.submitting.submitoptions import SubmitOptions
from cli.submitting.wishes import Wishes, job_with_wishes
from common.ids import JobId
from protocol.luxi.queries import QueryJobs
from protocol.luxi.submission import OpInput


def carry_out(
    op: OpInput, options: SubmitOptions, program: str, verb: str, tell: Callable[[object], None] | None = None
) -> int:
    """Carry out an opcode by a job; return the exit code.

    As with Ganeti's command it is waited for, except with `--submit`.

    Args: tell: prints the opcode's result, after a success.
    """
    wishes = _wishes(options, program)

    def succeeded(job_ids: Sequence[JobId]) -> None:
        if tell is not None:
            tell(_result(job_ids[0]))

    return submit_jobs([job_with_wishes([op], wishes, verb)], wishes, succeeded)


def carry_out_each(ops: Sequence[OpInput], options: SubmitOptions, program: str, verb: str) -> int:
    """Carry out opcodes by a job each; otherwise as `carry_out`."""
    wishes = _wishes(options, program)
    return submit_jobs([job_with_wishes([op], wishes, verb) for op in ops], wishes)


def _wishes(options: SubmitOptions, program: str) -> Wishes:
    is_waiting = options["is_waiting"] or not options["is_ganeti_form"]
    return attrs.evolve(Wishes(**options, program=program), is_waiting=is_waiting)


def _result(job_id: JobId) -> object:
    """The result of the job's only opcode."""
    ((results,),) = ask_luxid(QueryJobs((job_id,), ("opresult",)))
    return results[0] if isinstance(results, list) and results else None
