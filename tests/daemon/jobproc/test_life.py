"""One job's life: what is in its file, what wconfd is asked. DESIGN sections 3, 7 and 11; luxid.md 4 and 9."""

from pathlib import Path
from typing import Any

from tests.support.forkserver import JobHost

DUMMY: dict[str, Any] = {"OP_ID": "OP_TEST_DUMMY"}


def test_job_runs_to_success_with_its_result(host: JobHost) -> None:
    job = host.run(7, {**DUMMY, "result": {"a": [1, None]}})

    assert job.state.value == "success"
    assert job.ops[0].result == {"a": [1, None]}
    assert job.process_id == host.control.exits[0][1]
    assert job.start_at == job.ops[0].start_at is not None
    assert job.ops[0].exec_at is not None
    assert job.end_at == job.ops[0].end_at is not None
    assert job.livelock is not None
    assert not Path(job.livelock).exists()
    assert host.wconfd.owners() == []
