"""The jobs that a new job waits for, named by an id, by a batch, or by the word PREV.

Source: DESIGN section 16; everyday.md section d.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final, TypedDict

import click

from cli.choosing.commandargs import DEPENDENCY
from cli.choosing.jobids import JOB_IDS, PREVIOUS, Named, are_ids, ids_of
from cli.connection import open_luxid
from cli.options import F, with_options
from common.queue.jobs import FINAL_NAMES, JobState

_BATCH: Final = re.compile(r"[0-9a-zA-Z_-]{1,64}", re.ASCII)
_SUCCESS: Final = (JobState.SUCCESS.value,)
_FAILURE: Final = (JobState.ERROR.value,)
_ANY: Final = tuple(sorted(FINAL_NAMES))


class JobsNameType(click.ParamType):  # type: ignore[type-arg]  # generic in newer releases of click only
    """Ids, PREV, or the id of a batch."""

    name = "jobs"

    def convert(self, value: str | Named, param: click.Parameter | None, ctx: click.Context | None) -> Named:
        if isinstance(value, tuple) or value == PREVIOUS:
            return value
        if are_ids(value):
            return JOB_IDS.convert(value, param, ctx)
        if _BATCH.fullmatch(value) is None:
            self.fail(f"'{value:.40}' names no job; write an id, the id of a batch, or {PREVIOUS}", param, ctx)
        return value

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        return "ID|BATCH|PREV"


class AfterOptions(TypedDict):
    """What `after_options` pass to a verb."""

    depends: Sequence[tuple[Named, list[str]]]
    after_success: Sequence[Named]
    after_failure: Sequence[Named]
    after_all: Sequence[Named]


def after_options(function: F) -> F:
    """`--after`, `--after-success`, `--after-failure` and `--after-all`."""
    jobs = JobsNameType()
    return with_options(
        function,
        click.option(
            "--after",
            "--depend",
            "depends",
            type=DEPENDENCY,
            multiple=True,
            help="Start after job ID has succeeded, or has ended as ID:success|error|canceled,... says; repeatable.",
        ),
        click.option(
            "--after-success",
            type=jobs,
            multiple=True,
            help="Start after these jobs have succeeded: a job, a batch, or PREV, the last submission of this "
            "terminal or session ($GANTRY_SESSION names another); repeatable.",
        ),
        click.option(
            "--after-failure",
            type=jobs,
            multiple=True,
            metavar="ID|PREV",
            help="Start after this job has failed, not if it was canceled; repeatable.",
        ),
        click.option(
            "--after-all", type=jobs, multiple=True, help="Start after these jobs have ended in any way; repeatable."
        ),
    )


def read_dependencies(options: AfterOptions, key: str | None) -> list[list[object]]:
    """The dependencies of the first opcode; each job once for each way to wait for it.

    Args: key: key of the submission.
    Raises: PrerequisiteError: PREV or a batch names no job. UsageError: one failure is asked of several jobs.
        Else as `Luxid.call`.
    """
    found: list[list[object]] = [
        [job_id, states] for named, states in options["depends"] for job_id in ids_of(named, key)
    ]
    for words, wanted in (("after_success", _SUCCESS), ("after_failure", _FAILURE), ("after_all", _ANY)):
        for name in options[words]:  # type: ignore[literal-required]  # the three above
            ids = _ids_of(name, wanted, key)
            if wanted == _FAILURE and len(ids) > 1:
                which = name if isinstance(name, str) else "this list"
                raise click.UsageError(
                    f"--after-failure waits for the failure of one job, and {which} has {len(ids)}; "
                    "name one by its id, or write --after-all"
                )
            found += [[job_id, list(wanted)] for job_id in ids]
    return _unique(found)


def _unique(found: Iterable[list[object]]) -> list[list[object]]:
    return list({str(each): list(each) for each in found}.values())


def _ids_of(name: Named, wanted: Sequence[str], key: str | None) -> Sequence[int]:
    if isinstance(name, tuple) or name == PREVIOUS:
        return ids_of(name, key)
    return _batch_ids(name, wanted)


def _batch_ids(batch_id: str, wanted: Sequence[str]) -> Sequence[int]:
    """The jobs of a batch; those that have ended as wanted are left out, if others are left."""
    from cli.fleet.batchrows import read_batch

    with open_luxid() as client:
        rows = read_batch(client, batch_id).jobs
    left = [row["id"] for row in rows if row["status"] not in wanted]
    return left or [rows[-1]["id"]]
