"""`GET /metrics`: the numbers of real daemons for Prometheus (DESIGN section 15)."""

import signal
from collections.abc import Iterator

import httpx2
import pytest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from tests.daemon.luxid.ops import dummy
from tests.support.machines.nodes import HOST
from tests.support.stopping import stop
from tests.support.wait import wait_until
from tests.support.web.rapid import Web

PLAIN = "ssl = false\n"


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    with Web(tmp_path_factory.mktemp("web"), PLAIN) as web:
        web.start()
        yield web


def families(web: Web) -> dict[str, Metric]:
    reply = web.local.get("/metrics")
    assert reply.status_code == 200, reply.text
    assert reply.headers["content-type"].startswith("text/plain")
    return {family.name: family for family in text_string_to_metric_families(reply.text)}


def values(web: Web, name: str, label: str) -> dict[str, float]:
    """Nothing, if the daemon that knows them has not replied in time."""
    found = families(web).get(f"gantry_{name}")
    return {} if found is None else {each.labels[label]: each.value for each in found.samples}


def test_numbers_of_three_daemons_are_told(web: Web) -> None:
    web.cluster.wait(web.cluster.submit(dummy()), status="success")

    def is_counted() -> bool:
        return values(web, "jobs_ended", "status").get("success", 0) >= 1 and all(values(web, "up", "daemon").values())

    # a snapshot serves for a second, so one from before the job's end may be told first; a slow daemon is missed
    wait_until(is_counted, what="the job is counted")

    assert values(web, "up", "daemon").keys() == {"luxid", "wconfd", "rapid"}
    wait_until(lambda: values(web, "opcode_run_seconds", "opcode").keys() == {"OP_TEST_DUMMY"}, what="its run is told")
    assert values(web, "process_resident_memory_bytes", "daemon")["rapid"] > 2**20
    assert values(web, "http_connections", "over")["socket"] == 1
    wait_until(lambda: "/metrics" in values(web, "http_requests", "part"), what="the requests are counted")


def test_openmetrics_is_told_to_who_wants_it(web: Web) -> None:
    reply = web.local.get("/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})

    assert reply.headers["content-type"].startswith("application/openmetrics-text")
    assert reply.text.endswith("# EOF\n")


def test_strangers_get_no_numbers_unless_a_setting_says_so(web: Web) -> None:
    with httpx2.Client(base_url=f"http://{HOST}:{web.port}") as stranger:
        reply = stranger.get("/metrics")
        assert (reply.status_code, "www-authenticate" in reply.headers) == (401, True)

        web.configure(PLAIN + "anonymous_metrics = true\n")
        web.cluster.restart("rapid", signal.SIGTERM)
        assert "gantry_up" in stranger.get("/metrics").text


def test_a_luxid_that_is_away_or_stopped_leaves_the_other_numbers(web: Web) -> None:
    stop(web.cluster.daemons["luxid"].pid)
    try:
        wait_until(lambda: values(web, "up", "daemon")["luxid"] == 0, what="the stopped luxid is missed")
        assert "gantry_jobs" not in families(web)
        wait_until(lambda: "gantry_locks_held" in families(web), what="wconfd has replied in time")
    finally:
        web.cluster.daemons["luxid"].send_signal(signal.SIGCONT)

    wait_until(lambda: values(web, "up", "daemon")["luxid"] == 1, what="luxid is back")
    web.cluster.kill("luxid")
    wait_until(lambda: values(web, "up", "daemon")["luxid"] == 0, what="the dead luxid is missed")
    # for the tests after it, whichever they are
    web.start("luxid")
