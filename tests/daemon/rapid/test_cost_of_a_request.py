"""What a request over HTTP costs the daemons behind rapid (DESIGN section 9)."""

from pathlib import Path

from protocol.luxi.daemon.metrics import ReadMetrics
from tests.daemon.luxid.ops import dummy
from tests.support.web.rapid import Web

GETS = 10


def test_a_get_of_a_job_is_one_call_and_no_new_connection(tmp_path: Path) -> None:
    with Web(tmp_path) as web:
        web.start()
        job_id = web.cluster.submit(dummy())
        web.cluster.wait(job_id)
        assert web.local.get(f"/3/jobs/{job_id}").status_code == 200
        before = web.cluster.luxi(ReadMetrics()).calls

        for _ in range(GETS):
            web.local.get(f"/3/jobs/{job_id}")

        after = web.cluster.luxi(ReadMetrics()).calls
        # and the question itself
        assert after.calls - before.calls == GETS + 1
        assert after.connections == before.connections
