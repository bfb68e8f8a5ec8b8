"""`gantry export-traces`: a real cluster's jobs reach a collector as traces, once, whoever is away or killed."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from common.ids import JobId
from common.queue.explanation import WaitKind
from common.queue.terms import JobTerms, terms_entry
from common.webaccess.tokens import NewToken, TokensFile
from protocol.luxi.jobs import ArchiveJob, OpInput
from protocol.luxi.why import ReadJobWaits
from tests.cli.command import Background, run
from tests.support.accounts.users import OWN_LOGIN
from tests.support.cluster import Cluster
from tests.support.wait import wait_until
from tests.support.web.rapid import Web

pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="the extra 'otel' is not installed")

from tests.cli.traces.collector import CollectorServer, Taken

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
# OTLP's numbers of statuses
UNSET, OK, ERROR = 0, 1, 2


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("traced")) as cluster:
        cluster.start("wconfd", "forkserver", "luxid")
        yield cluster


@pytest.fixture
def collector() -> Iterator[CollectorServer]:
    with CollectorServer() as collector:
        yield collector


Start = Callable[..., Background]


@pytest.fixture
def export(cluster: Cluster, collector: CollectorServer, tmp_path: Path) -> Iterator[Start]:
    """Begin an export; it has begun when this returns. All have one place."""
    with ExitStack() as started:

        def start(*words: str) -> Background:
            options = ("--root", cluster.root, "export-traces", "--state", tmp_path / "place.json", *words)
            begun = started.enter_context(Background("gantry", *options, env=collector.environment))
            assert begun.read_error_line().startswith("exporting the jobs of 'cluster.test'")
            # it follows from here on
            place = tmp_path / "place.json"
            wait_until(
                lambda: json.loads(place.read_text())["position"] is not None, what="it follows", state=place.read_text
            )
            return begun

        yield start


def kill(process: Background) -> None:
    """SIGKILL, and wait."""
    process.__exit__()


def command(*argv: str, terms: JobTerms | None = None, **fields: Any) -> OpInput:
    trail = [] if terms is None else [terms_entry(terms, time.time_ns()).to_wire()]
    return {"OP_ID": "OP_RUN_COMMAND", "argv": list(argv), "reason": trail, **fields}


def came(collector: CollectorServer, job_id: int, count: int = 1) -> Taken:
    """The job's own span, when it has come so often."""
    wait_until(
        lambda: len(collector.roots(job_id)) >= count,
        what=f"the trace of job {job_id} has come {count} times",
        state=lambda: [span.job_id for span in collector.spans],
    )
    return collector.roots(job_id)[-1]


def noted(tmp_path: Path, job_id: int) -> None:
    """Return when the export has noted that the job was sent."""
    place = tmp_path / "place.json"
    wait_until(
        lambda: str(job_id) in json.loads(place.read_text())["exported"], what="it is noted", state=place.read_text
    )


def test_a_chain_of_jobs_with_one_that_fails_is_told_as_traces(
    cluster: Cluster, collector: CollectorServer, export: Start, tmp_path: Path
) -> None:
    export()
    go = tmp_path / "go"
    terms = JobTerms("build", {"team": "web"}, trace=f"00-{TRACE}-{SPAN}-01")
    script = f"touch {go}.began; while [ ! -e {go} ]; do sleep 0.05; done"
    first = cluster.submit(command("sh", "-c", script, locks={"node/a": "exclusive"}, terms=terms), command("true"))
    wait_until(Path(f"{go}.began").exists, what="the first job has the lock")
    failing, never, after = cluster.submit_many(
        (command("false", locks={"node/a": "exclusive"}),),
        (command("true", depends=[[-1, ["success"]]]),),
        (command("true", depends=[[-2, ["error"]]]),),
    )

    def has_waited() -> bool:
        (waits,) = cluster.luxi(ReadJobWaits((JobId(failing),)))
        return any(
            each.cause.kind is WaitKind.LOCKS and each.until is None and time.time() - each.since > 0.3
            for each in waits or ()
        )

    wait_until(has_waited, what="the second job waits for the lock of the first")
    go.touch()

    root = came(collector, first)
    assert (root.name, root.trace_id, root.parent_id, root.status) == ("build", TRACE, SPAN, OK)
    assert root.attributes["gantry.job.label.team"] == "web"
    assert root.attributes["gantry.job.status"] == "success"
    assert (root.resource["service.name"], root.resource["gantry.cluster.name"]) == ("gantry", "cluster.test")
    one, two = sorted((span for span in collector.children(root) if span.name == "RUN_COMMAND"), key=lambda s: s.start)
    assert (one.attributes["gantry.opcode.index"], two.attributes["gantry.opcode.index"]) == (0, 1)
    assert one.events == ("locks held",)
    assert root.start <= one.start <= one.end <= two.start <= two.end <= root.end

    failed = came(collector, failing)
    assert (failed.status, failed.parent_id) == (ERROR, "")
    assert "exit code 1" in failed.message
    assert failed.trace_id not in (TRACE, "0" * 32)
    (opcode,) = (span for span in collector.children(failed) if span.name == "RUN_COMMAND")
    assert opcode.status == ERROR
    (lock_wait,) = collector.children(opcode)
    assert lock_wait.name == "wait locks"
    assert lock_wait.attributes["gantry.wait.jobs"] == [first]
    assert lock_wait.attributes["gantry.wait.names"] == ["node/a"]
    assert lock_wait.attributes["gantry.wait.reason"] == f"for the lock node/a held by job {first}"
    assert 0.3e9 <= lock_wait.end - lock_wait.start <= opcode.end - opcode.start

    skipped = came(collector, never)
    assert skipped.status == ERROR
    assert "never ran" in skipped.message
    assert [span.name for span in collector.children(skipped)] == ["wait dependency"]
    waited = came(collector, after)
    assert waited.status == OK
    (dependency,) = (span for span in collector.children(waited) if span.name == "wait dependency")
    assert dependency.attributes["gantry.wait.jobs"] == [failing]
    assert len({span.span_id for span in collector.spans}) == len(collector.spans)


def test_what_is_not_recorded_upstream_is_not_recorded_here(
    cluster: Cluster, collector: CollectorServer, export: Start, tmp_path: Path
) -> None:
    export()

    unrecorded = cluster.submit(command("true", terms=JobTerms(trace=f"00-{TRACE}-{SPAN}-00")))
    canceled = cluster.submit(command("false"))

    came(collector, canceled)
    noted(tmp_path, unrecorded)
    assert collector.roots(unrecorded) == []


def test_a_collector_that_is_away_gets_all_when_it_is_back(
    cluster: Cluster, collector: CollectorServer, export: Start, tmp_path: Path
) -> None:
    process = export()
    collector.status = 503
    jobs = [cluster.submit(command("true")) for _ in range(3)]

    wait_until(lambda: len(collector.answered) > 1, what="it was tried twice")
    assert "takes no traces, the place is held" in process.read_error_line()
    assert not process.has_ended
    assert not set(map(str, jobs)) & json.loads((tmp_path / "place.json").read_text())["exported"].keys()
    collector.status = 200

    for job_id in jobs:
        came(collector, job_id)
        noted(tmp_path, job_id)
    assert [len(collector.roots(job_id)) for job_id in jobs] == [1, 1, 1]
    assert process.read_error_line() == "the collector takes traces again\n"


def test_a_trace_that_the_collector_never_takes_holds_no_others_up(
    cluster: Cluster, collector: CollectorServer, export: Start, tmp_path: Path
) -> None:
    process = export()
    collector.status = 400
    refused = cluster.submit(command("true"))

    noted(tmp_path, refused)
    assert f"refuses the trace of job {refused}" in process.read_error_line()
    collector.status = 200
    came(collector, cluster.submit(command("true")))


def test_an_export_that_was_killed_goes_on_without_gaps_or_doubles(
    cluster: Cluster, collector: CollectorServer, export: Start, tmp_path: Path
) -> None:
    before = cluster.submit(command("true"))
    process = export()
    first = cluster.submit(command("true"))
    noted(tmp_path, first)
    kill(process)
    meanwhile = [cluster.submit(command("true")) for _ in range(3)]
    for job_id in meanwhile:
        cluster.wait(job_id)

    export()

    last = cluster.submit(command("true"))
    for job_id in (first, *meanwhile, last):
        came(collector, job_id)
    noted(tmp_path, last)
    assert [len(collector.roots(job_id)) for job_id in (first, *meanwhile, last)] == [1] * 5
    # it ended before the first export began, or just then
    assert len(collector.roots(before)) <= 1


def test_what_was_sent_and_not_noted_is_sent_again_as_the_same_spans(
    cluster: Cluster, collector: CollectorServer, export: Start
) -> None:
    process = export()
    collector.answers.clear()
    job_id = cluster.submit(command("true"))
    first = came(collector, job_id)
    kill(process)
    collector.answers.set()

    export()

    again = came(collector, job_id, 2)
    assert (again.trace_id, again.span_id, again.start, again.end) == (
        *(first.trace_id, first.span_id, first.start, first.end),
    )


def test_jobs_that_ended_while_luxid_was_another_are_caught_up_with(
    cluster: Cluster, collector: CollectorServer, export: Start, tmp_path: Path
) -> None:
    process = export()
    first = cluster.submit(command("true"))
    noted(tmp_path, first)
    kill(process)
    ended = cluster.submit(command("true"))
    cluster.wait(ended)
    cluster.restart("luxid")

    process = export()
    came(collector, ended)
    cluster.restart("luxid")
    later = cluster.submit(command("true"))

    came(collector, later)
    noted(tmp_path, later)
    assert [len(collector.roots(job_id)) for job_id in (first, ended, later)] == [1, 1, 1]
    assert not process.has_ended


def test_a_job_that_was_archived_at_once_is_exported_and_one_that_was_exported_is_not_again(
    cluster: Cluster, collector: CollectorServer, export: Start, tmp_path: Path
) -> None:
    process = export()
    first = cluster.submit(command("true"))
    noted(tmp_path, first)
    kill(process)
    second = cluster.submit(command("true"))
    cluster.wait(second)
    assert cluster.luxi(ArchiveJob(first))
    assert cluster.luxi(ArchiveJob(second))

    export()

    came(collector, second)
    last = cluster.submit(command("true"))
    came(collector, last)
    assert [len(collector.roots(job_id)) for job_id in (first, second, last)] == [1, 1, 1]


def test_the_jobs_of_a_cluster_elsewhere_are_exported_with_a_token(collector: CollectorServer, tmp_path: Path) -> None:
    with Web(tmp_path / "web") as web:
        web.start()
        _, token = TokensFile(web.paths).create(NewToken("traces", ("read",), None, OWN_LOGIN), time.time())
        address = {"GANTRY_REMOTE": web.url, "GANTRY_CA": str(web.paths.rapi_pem), "GANTRY_TOKEN": str(token)}
        words = ("export-traces", "--state", tmp_path / "place.json", "--since", "1h")
        with Background("gantry", *words, env={**collector.environment, **address}) as process:
            assert process.read_error_line() == "exporting the jobs of 'cluster.test'\n"
            job_id = web.cluster.submit(command("true"))

            root = came(collector, job_id)
            assert (root.status, root.name) == (OK, "RUN_COMMAND")
            noted(tmp_path, job_id)
            assert not process.has_ended


def test_since_exports_what_has_ended_before(cluster: Cluster, collector: CollectorServer, export: Start) -> None:
    old = cluster.submit(command("true"))
    cluster.wait(old)

    export("--since", "1h")

    came(collector, old)


def test_a_place_is_of_one_process_and_one_cluster(
    cluster: Cluster, collector: CollectorServer, export: Start, tmp_path: Path
) -> None:
    process, place = export(), tmp_path / "place.json"
    words = ("--root", cluster.root, "export-traces", "--state")

    second = run("gantry", *words, place, env=collector.environment)
    assert (second.code, "another process exports from the place" in second.err) == (1, True)
    kill(process)
    since = run("gantry", *words, place, "--since", "1h", env=collector.environment)
    assert (since.code, "leave --since out" in since.err) == (2, True)
    place.write_text(json.dumps({**json.loads(place.read_text()), "cluster": "other"}))
    other = run("gantry", *words, place, env=collector.environment)
    assert (other.code, "is of another cluster, 'other'" in other.err) == (2, True)
    for damaged in ("", "[]", "{}", '{"cluster":"x","position":1,"since":"y","exported":[]}', "\x00"):
        place.write_text(damaged)
        ended = run("gantry", *words, place, env=collector.environment)
        assert (ended.code, "has no place of an export" in ended.err) == (2, True), damaged
    nowhere = run("gantry", *words, tmp_path / "no" / "place", env=collector.environment)
    assert (nowhere.code, "Traceback" in nowhere.err) == (1, False)


def test_without_the_libraries_it_says_how_to_get_them(cluster: Cluster, tmp_path: Path) -> None:
    hidden = "import sys; sys.modules['opentelemetry'] = None"

    ended = run("gantry", "--root", cluster.root, "export-traces", "--state", tmp_path / "place", prelude=hidden)

    assert (ended.code, ended.out) == (2, "")
    assert "pip install '.[otel]'" in ended.err
