"""`gnt-cluster verify` by jobs: the configuration, then each node group, told in the form of Ganeti's jobs.

Source: opcodes.md 4, CLUSTER_VERIFY; recorded jobs.
"""

from collections.abc import Mapping, Sequence

from cli.context import wants_json
from cli.exitcodes import DONE, FAILED
from cli.screen import complain, say, say_json
from cli.submitting.options import SubmissionOptions
from cli.submitting.submission import carry_out, result_of
from common.ids import JobId


def verify_by_jobs(parameters: Mapping[str, object]) -> int:
    """Submit the job that submits the others, and follow those; return the exit code. Args: of OP_CLUSTER_VERIFY."""
    submitted: list[object] = []
    op = {"OP_ID": "OP_CLUSTER_VERIFY", **parameters}
    code = carry_out(op, SubmissionOptions(), "gnt-cluster", "verify", submitted.append)
    if code != DONE:
        return code
    ids = _job_ids(submitted)
    if not wants_json():
        say(f"Submitted jobs {', '.join(map(str, ids))}")
    # imported late: the start of other verbs does without
    from cli.live.watching import WaitAbandoned

    try:
        results = [_followed(job_id) for job_id in ids]
    except WaitAbandoned as goes_on:
        return goes_on.code
    if wants_json():
        say_json({"jobs": ids, "results": results})
    failed = results.count(None)
    if failed:
        complain(f"{failed} of {len(ids)} jobs failed while verifying the cluster")
    return DONE if all(result is True for result in results) else FAILED


def _followed(job_id: int) -> object:
    """Follow a job, with its log; return the result of its opcode, null if it failed."""
    # imported late: the start of other verbs does without
    from cli.live.watching import follow_own
    from cli.outputscreen import OutputScreen

    if not wants_json():
        say(f"Waiting for job {job_id} ...")
    (outcome,) = follow_own([job_id], (), OutputScreen(is_raw=False), None)
    if not outcome.is_success:
        return None
    return result_of(JobId(job_id))


def _job_ids(results: Sequence[object]) -> list[int]:
    """The ids in a result `{"jobs": [[true, id], ...]}`; what was not taken is told."""
    ids = []
    for result in results:
        jobs = result.get("jobs", ()) if isinstance(result, dict) else ()
        for is_taken, told in jobs:
            if is_taken:
                ids.append(int(told))
            else:
                complain(f"a job was not taken: {told}")
    return ids
