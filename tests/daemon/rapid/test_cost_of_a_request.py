"""What a request over HTTP costs the daemons behind rapid (DESIGN section 9)."""

from pathlib import Path

from protocol.luxi.daemon import ReadMetrics
from tests.daemon.luxid.ops import dummy
from tests.support.wait import wait_until
from tests.support.web.rapid import Web

GETS = 10


def test_a_get_of_a_job_is_one_call_and_no_new_connection(tmp_path: Path) -> None:
    with Web(tmp_path) as web:
        web.start()
        job_id = web.cluster.submit(dummy())
        web.cluster.wait(job_id)
        assert web.local.get(f"/3/jobs/{job_id}").status_code == 200

        def cost() -> tuple[float, float]:
            """Calls, and connections more than before."""
            before = web.cluster.luxi(ReadMetrics())
            for _ in range(GETS):
                web.local.get(f"/3/jobs/{job_id}")
            after = web.cluster.luxi(ReadMetrics())
            calls, connections = (after.number(name) - before.number(name) for name in ("calls", "connections"))
            return calls, connections

        # and the question itself; at times the recorder of the page asks as well
        wait_until(lambda: cost() == (GETS + 1, 0), what="the requests cost no more", state=cost)
