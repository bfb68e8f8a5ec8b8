"""The fields `node` and `batch` of jobs (DESIGN section 13, "Fleet")."""

from common.ids import JobId
from common.queue.jobs import Job, JobOp
from common.queue.reasons import Batch, batch_entry
from daemons.luxid.core.query.jobs import JobView, row_of, select_fields
from daemons.luxid.core.rights import public_job

BOTH = select_fields(("node", "batch"))


def test_a_job_of_a_batch_tells_its_node_also_to_strangers() -> None:
    entry = batch_entry(Batch("5f2c", 1, 2), 1)
    op = JobOp({"OP_ID": "OP_RUN_COMMAND", "argv": ["true"], "node": "web1", "reason": [entry.to_wire()]})
    job = Job(JobId(1), (JobOp({"OP_ID": "OP_TEST_DUMMY", "reason": [entry.to_wire()]}), op))

    assert row_of(JobView(job), BOTH) == ["web1", "5f2c"]
    assert row_of(JobView(public_job(job)), BOTH) == ["web1", "5f2c"]


def test_other_jobs_have_neither() -> None:
    job = Job(JobId(1), (JobOp({"OP_ID": "OP_RUN_COMMAND", "argv": ["true"], "node": None}),))

    assert row_of(JobView(job), BOTH) == ["", ""]
