"""The fields `node`, `batch` and `batch_terms` of jobs (DESIGN section 13, "Fleet")."""

from common.ids import JobId
from common.queue.jobs import Job, JobOp
from common.queue.reasons import Batch, batch_entry
from daemons.luxid.core.query.jobs import JobView, row_of, select_fields
from daemons.luxid.core.rights import public_job

FIELDS = select_fields(("node", "batch", "batch_terms"))


def test_a_job_of_a_batch_tells_its_node_also_to_strangers() -> None:
    entry = batch_entry(Batch("5f2c", 1, 2, at_most=3, each=("host",)), 1)
    op = JobOp({"OP_ID": "OP_RUN_COMMAND", "argv": ["true"], "node": "web1", "reason": [entry.to_wire()]})
    job = Job(JobId(1), (JobOp({"OP_ID": "OP_TEST_DUMMY", "reason": [entry.to_wire()]}), op))

    terms = {"place": 1, "jobs": 2, "at_most": 3, "failures": None, "each": ["host"]}
    assert row_of(JobView(job), FIELDS) == ["web1", "5f2c", terms]
    assert row_of(JobView(public_job(job)), FIELDS) == ["web1", "5f2c", terms]


def test_other_jobs_have_none_of_them() -> None:
    job = Job(JobId(1), (JobOp({"OP_ID": "OP_RUN_COMMAND", "argv": ["true"], "node": None}),))

    assert row_of(JobView(job), FIELDS) == ["", "", None]
