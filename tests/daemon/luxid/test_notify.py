"""Who is told of ended jobs: by real daemons, a real receiver and a real program (everyday.md h)."""

import base64
import hashlib
import hmac
import http.server
import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from common.errors import RemoteError
from common.queue.reasons import Batch, batch_entry
from common.queue.terms import Hold, JobTerms, terms_entry
from protocol.luxi.daemon import ReadHealth
from protocol.luxi.jobs import ArchiveJob, AutoArchiveJobs, CancelJob
from protocol.luxi.queries import QueryJobs
from protocol.luxi.queue import SetDrainFlag
from tests.support.cluster import Cluster
from tests.support.wait import wait_until

SECRET = "a secret of the test"
# replies by path: one after the other, the last one for ever; 0: none at all, until the test is over
SCRIPTS = {"/flaky": [500, 200], "/slow": [0, 200], "/gone": [410], "/moved": [302], "/fine": [200]}


class Receiver(http.server.ThreadingHTTPServer):
    """Keeps what it gets, and replies as scripted."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.got: list[tuple[str, dict[str, str], bytes]] = []
        self.over = threading.Event()
        # set when a storm is over, of which so many deliveries are under way, and were at most
        self.calm = threading.Event()
        self.under_way = self.most_under_way = 0
        self.lock = threading.Lock()

    def of(self, path: str) -> list[tuple[dict[str, str], Any]]:
        return [(headers, json.loads(body)) for at, headers, body in list(self.got) if at == path]


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        with self.server.lock:
            earlier = sum(at == self.path for at, _, _ in self.server.got)
            self.server.got.append((self.path, {key.lower(): value for key, value in self.headers.items()}, body))
        if self.path == "/storm":
            with self.server.lock:
                self.server.under_way += 1
                self.server.most_under_way = max(self.server.most_under_way, self.server.under_way)
            self.server.calm.wait()
            with self.server.lock:
                self.server.under_way -= 1
        script = SCRIPTS.get(self.path, [200])
        status = script[min(earlier, len(script) - 1)]
        if not status:
            self.server.over.wait()
            return
        self.send_response(status)
        self.send_header("location", "/target")
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    server = Receiver()
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield server
    finally:
        server.over.set()
        server.calm.set()
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, receiver: Receiver) -> Iterator[Cluster]:
    root = tmp_path_factory.mktemp("c")
    (root / "secret").write_text(SECRET)
    (root / "page").write_text(f"#!/bin/sh\necho told\ncat > {root}/paged.$GANTRY_TRY\n[ $GANTRY_TRY = 2 ]\n")
    (root / "page").chmod(0o755)
    base = f"http://127.0.0.1:{receiver.server_port}"
    posts = {
        name: f'url = "{base}/{name}"\nsecret_file = "{root}/secret"\ntimeout_s = {6 if name == "slow" else 60}\n'
        for name in ("flaky", "slow", "gone", "moved", "fine", "batch", "storm")
    }
    rules = {
        **posts,
        "page": f'program = ["{root}/page"]\n',
        "back": f'on = ["recovered", "try"]\nurl = "{base}/back"\n',
    }
    told = "".join(
        f'[notify.rules.{name}]\nlabels = ["to={name}"]\nretry_s = [0.1, 0.1]\n{text}' for name, text in rules.items()
    )
    every = f'[notify.rules.every]\non = ["end"]\nusers = ["nobody-has-this-name", ""]\nurl = "{base}/every"\n'
    text = f'[notify]\nat_once = 2\nprivate = ["127.0.0.0/8"]\n{told}{every}'
    with Cluster(root, settings=text) as cluster:
        cluster.start("wconfd", "forkserver", "luxid")
        yield cluster


def op(to: str, *, fail: bool = True, name: str = "", reason: object = None, **parameters: object) -> dict[str, object]:
    terms = terms_entry(JobTerms(name=name, labels={"to": to}), time.time_ns()).to_wire()
    trail = [terms, *([reason] if reason else [])]
    if parameters:
        return {"OP_ID": "OP_RUN_COMMAND", "reason": trail, **parameters}
    return {"OP_ID": "OP_TEST_DUMMY", "fail": "as wanted" if fail else False, "result": None, "submit_jobs": None,
            "messages": None, "reason": trail}  # fmt: skip


def deliveries(cluster: Cluster, about: int) -> list[tuple[int, str]]:
    """Id and state of the jobs that tell of this one."""
    rows = cluster.luxi_wire(QueryJobs((), ("id", "summary", "status")))
    return [(row[0], row[2]) for row in rows if row[1][0].startswith(f"NOTIFY({about},")]


def wait_delivered(cluster: Cluster, about: int, *states: str) -> list[int]:
    wait_until(
        lambda: sorted(state for _, state in deliveries(cluster, about)) == sorted(states),
        what=f"deliveries of job {about} are {states}",
        state=lambda: (deliveries(cluster, about), cluster.log("luxid")[-2000:]),
    )
    return [job_id for job_id, _ in deliveries(cluster, about)]


def test_a_refused_delivery_comes_again_signed_and_with_the_same_id(cluster: Cluster, receiver: Receiver) -> None:
    failed = cluster.submit(op("flaky", name="backup"))

    wait_delivered(cluster, failed, "success", "success")

    (first, told), (second, again) = receiver.of("/flaky")
    assert told == again
    assert (told["job"], told["event"], told["name"], told["labels"]) == (failed, "error", "backup", {"to": "flaky"})
    assert first["webhook-id"] == second["webhook-id"] == told["id"]
    _, headers, body = next(each for each in receiver.got if each[0] == "/flaky")
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    mac = base64.b64encode(hmac.digest(SECRET.encode(), signed, hashlib.sha256)).decode()
    assert headers["webhook-signature"] == f"v1,{mac}"
    assert abs(int(headers["webhook-timestamp"]) - time.time()) < 3600


def test_a_receiver_that_hangs_is_left_and_asked_again(cluster: Cluster, receiver: Receiver) -> None:
    failed = cluster.submit(op("slow"))

    wait_delivered(cluster, failed, "success", "success")

    assert len(receiver.of("/slow")) == 2


def test_redirects_are_not_followed_and_it_is_given_up(cluster: Cluster, receiver: Receiver) -> None:
    before = cluster.luxi(ReadHealth()).given_up
    failed = cluster.submit(op("moved"))

    wait_delivered(cluster, failed, "error", "success")

    assert cluster.luxi(ReadHealth()).given_up == before + 1

    assert (len(receiver.of("/moved")), receiver.of("/target")) == (3, [])


def test_a_receiver_that_wants_no_more_gets_no_more(cluster: Cluster, receiver: Receiver) -> None:
    wait_delivered(cluster, cluster.submit(op("gone")), "error", "success")

    # the other rule still tells
    wait_delivered(cluster, cluster.submit(op("gone")), "success")

    assert len(receiver.of("/gone")) == 1
    assert "notify.off rule=gone" in cluster.log("luxid")
    assert cluster.luxi(ReadHealth()).rules_off == ("gone",)


def test_a_program_reads_the_event_and_is_tried_again(cluster: Cluster) -> None:
    failed = cluster.submit(op("page", argv=["/bin/sh", "-c", "exit 7"]))

    wait_delivered(cluster, failed, "success", "success")

    first, second = (json.loads((cluster.root / f"paged.{number}").read_text()) for number in (1, 2))
    assert first == second
    assert (first["job"], first["exit_code"], first["status"]) == (failed, 7, "error")
    assert "exit 7" not in json.dumps(first)


def test_a_success_after_failures_and_each_failed_try_are_told(cluster: Cluster, receiver: Receiver) -> None:
    cluster.wait(cluster.submit(op("back", name="nightly")))
    ended = cluster.submit(op("back", name="nightly", fail=False))
    retried = cluster.submit(op("back", argv=["/bin/sh", "-c", "[ $GANTRY_TRY = 2 ]"], retries=3, retry_delay=0.05))
    cluster.wait(ended, retried)

    wait_until(lambda: len(receiver.of("/back")) == 2, what="both are told", state=lambda: receiver.of("/back"))

    told = {each["event"]: each for _, each in receiver.of("/back")}
    assert (told["recovered"]["job"], told["try"]["job"]) == (ended, retried)
    assert (told["try"]["try"], told["try"]["exit_code"]) == (1, 1)


def test_a_batch_is_told_once_when_all_of_it_has_ended(cluster: Cluster, receiver: Receiver) -> None:
    jobs = [
        (op("batch", fail=place == 2, reason=batch_entry(Batch("b-9", place, 3), 0).to_wire()),) for place in (1, 2, 3)
    ]
    job_ids = cluster.submit_many(*jobs)
    cluster.wait(*job_ids)

    wait_until(lambda: receiver.of("/batch") != [], what="the batch is told")
    cluster.restart("luxid")
    last = cluster.submit(op("fine"))
    wait_delivered(cluster, last, "success", "success")

    (told,) = [each for _, each in receiver.of("/batch") if each["batch"] == "b-9"]
    assert (told["batch"], told["jobs"], told["status"]) == ("b-9", {"success": 2, "error": 1}, "error")


def test_a_failure_that_ended_long_before_its_batch_is_told_with_it(
    cluster: Cluster, receiver: Receiver, tmp_path: Path
) -> None:
    def entry(place: int) -> list[Any]:
        return list(batch_entry(Batch("b-long", place, 2), 0).to_wire())

    gate = tmp_path / "gate"
    argv = ["/bin/sh", "-c", f"while [ ! -e {gate} ]; do sleep 0.02; done"]
    failed, last = cluster.submit_many((op("batch", reason=entry(1)),), (op("batch", argv=argv, reason=entry(2)),))
    cluster.wait(failed)

    with pytest.raises(RemoteError, match="or its batch are still pending"):
        cluster.luxi(ArchiveJob(failed))
    cluster.luxi(AutoArchiveJobs(-1, 10))
    gate.touch()
    cluster.wait(last)

    def of_batch() -> list[Any]:
        return [each for _, each in receiver.of("/batch") if each["batch"] == "b-long"]

    wait_until(lambda: of_batch() != [], what="the batch is told")
    told = of_batch()
    assert [(each["jobs"], each["status"]) for each in told] == [({"success": 1, "error": 1}, "error")]
    wait_until(lambda: cluster.luxi(ArchiveJob(failed)), what="it may be archived")


def test_an_end_while_luxid_is_dead_is_told_once_and_so_after_further_deaths(
    cluster: Cluster, receiver: Receiver, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    argv = ["/bin/sh", "-c", f"while [ ! -e {gate} ]; do sleep 0.02; done; exit 3"]
    job_id = cluster.submit(op("fine", argv=argv))
    cluster.wait(job_id, status="running")

    cluster.kill("luxid")
    gate.touch()
    file = cluster.paths.job_file(job_id)
    wait_until(lambda: b'"error"' in file.read_bytes(), what="the job has ended")
    cluster.start("luxid")
    told_by = wait_delivered(cluster, job_id, "success", "success")
    cluster.restart("luxid")
    cluster.restart("luxid")
    wait_delivered(cluster, cluster.submit(op("fine")), "success", "success")

    assert sorted(wait_delivered(cluster, job_id, "success", "success")) == sorted(told_by)
    ids = Counter(headers["webhook-id"] for headers, _ in receiver.of("/fine"))
    assert set(ids.values()) == {1}


def test_a_storm_waits_in_line_and_holds_up_no_other_job(cluster: Cluster, receiver: Receiver) -> None:
    failed = cluster.submit_many(*[(op("storm"),) for _ in range(6)])
    cluster.wait(*failed)
    wait_until(lambda: receiver.under_way == 2, what="two are under way", state=lambda: receiver.under_way)

    assert cluster.wait(cluster.submit({"OP_ID": "OP_TEST_DELAY", "duration": 0.01})) == ["success"]

    def in_line() -> int:
        return sum(state == "queued" for job_id in failed for _, state in deliveries(cluster, job_id))

    wait_until(lambda: in_line() >= 4, what="the others wait", state=in_line)
    assert receiver.under_way == 2
    receiver.calm.set()
    for job_id in failed:
        wait_delivered(cluster, job_id, "success", "success")
    assert receiver.most_under_way == 2


def test_people_are_told_while_the_queue_is_drained(cluster: Cluster, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    argv = ["/bin/sh", "-c", f"while [ ! -e {gate} ]; do sleep 0.02; done; exit 3"]
    job_id = cluster.submit(op("fine", argv=argv))
    cluster.luxi(SetDrainFlag(True))
    gate.touch()

    wait_delivered(cluster, job_id, "success", "success")

    cluster.luxi(SetDrainFlag(False))


def test_told_jobs_can_be_archived_and_deliveries_are_never_told(cluster: Cluster, receiver: Receiver) -> None:
    job_id = cluster.submit(op("nobody", fail=False))
    (told_by,) = wait_delivered(cluster, job_id, "success")

    assert cluster.luxi(ArchiveJob(job_id)) is True
    assert deliveries(cluster, told_by) == []
    about = {told["job"] for _, told in receiver.of("/every")}
    assert about.isdisjoint({int(row[0]) for row in cluster.luxi_wire(QueryJobs((), ("id", "summary")))
                             if row[1][0].startswith("NOTIFY")})  # fmt: skip


def test_a_full_queue_delays_and_the_job_is_kept_until_then(cluster: Cluster, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    told = cluster.submit(op("nobody", fail=False))
    wait_delivered(cluster, told, "success")
    settings = (cluster.root / "gantry.toml").read_text()
    cluster.configure(f"{settings}\n[luxid]\nmax_queued_jobs = 1\n")
    cluster.restart("luxid")
    # tests come in any order
    cluster.configure(settings)
    argv = ["/bin/sh", "-c", f"while [ ! -e {gate} ]; do sleep 0.02; done; exit 3"]
    job_id = cluster.submit(op("fine", argv=argv))
    cluster.wait(job_id, status="running")
    held = terms_entry(JobTerms(labels={"to": "x"}, hold=Hold()), 0).to_wire()
    in_the_way = cluster.submit({"OP_ID": "OP_TEST_DELAY", "duration": 1.0, "reason": [held]})
    gate.touch()
    cluster.wait(job_id)

    with pytest.raises(RemoteError, match="still pending"):
        cluster.luxi(ArchiveJob(job_id))
    assert cluster.luxi(AutoArchiveJobs(-1, 10)).archived_count > 0
    assert cluster.status(job_id) == "error"
    cluster.luxi(CancelJob(in_the_way))

    wait_delivered(cluster, job_id, "success", "success")
    assert cluster.luxi(ArchiveJob(job_id)) is True
    cluster.restart("luxid")
