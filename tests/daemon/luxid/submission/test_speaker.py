"""A gateway speaks for HTTP users: jobs, rights and the log of a real cluster (DESIGN sections 4 and 15)."""

from collections.abc import Iterator
from typing import Any

import pytest

from common.access import Role
from common.errors import RemoteError
from common.ids import JobId
from common.objects.kinds import QueryKind
from common.query.qlang import Expression
from protocol.blocking import BlockingClient
from protocol.luxi.jobs import CancelJob, ReadJobOutput, SubmitJob, SubmitJobToDrainedQueue
from protocol.luxi.queries import Query, QueryJobs
from protocol.luxi.queue import ReplaceFilter, SetDrainFlag
from protocol.messages import Request
from protocol.peer import Speaker
from tests.daemon.luxid.ops import command, dummy
from tests.support.accounts.users import ALICE, BOB, Refused, call_as, needs_root, uid_of
from tests.support.cluster import Cluster

pytestmark = needs_root
CI, BOBS = Speaker("ci", Role.SUBMIT, ALICE), Speaker("bob", Role.SUBMIT, BOB)
# without Unix users
ONE, TWO, OPS = Speaker("one", Role.SUBMIT), Speaker("two", Role.SUBMIT), Speaker("ops", Role.OPERATE)
BOSS = Speaker("boss", Role.FULL)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    settings = f'[luxid]\nsweep_s = 3600.0\n[access]\nsubmit = ["{BOB}"]\n'
    with Cluster(tmp_path_factory.mktemp("speaker"), settings=settings) as cluster:
        cluster.start()
        yield cluster


def call(cluster: Cluster, speaker: Speaker, request: Request[Any]) -> Any:
    with BlockingClient(cluster.paths.query_socket) as client:
        return client.call(request, speaker=speaker)


def refused(cluster: Cluster, speaker: Speaker, request: Request[Any]) -> str:
    with pytest.raises(RemoteError) as no:
        call(cluster, speaker, request)
    assert no.value.code == "denied"
    return no.value.message


def test_a_command_runs_as_the_unix_user_and_its_job_is_his(cluster: Cluster) -> None:
    job_id = JobId(call(cluster, CI, SubmitJob((command("id", "-u"),))))
    cluster.wait(job_id)

    assert call(cluster, CI, ReadJobOutput(job_id)).text.strip() == str(uid_of(ALICE))
    assert "the output of job" in refused(cluster, BOBS, ReadJobOutput(job_id))
    assert cluster.job(job_id, "user") == (ALICE,)
    (trail,) = [list(entry) for entry in cluster.job(job_id, "ops")[0][0]["reason"] if entry[0] == "gantry:http"]
    assert trail[1] == "ci"


def test_speakers_without_unix_user_own_nothing_and_run_nothing(cluster: Cluster) -> None:
    assert "HTTP user 'one' has no Unix user" in refused(cluster, ONE, SubmitJob((command("id"),)))
    job_id = JobId(call(cluster, ONE, SubmitJob((dummy(),), key="k")))

    assert JobId(call(cluster, ONE, SubmitJob((dummy(),), key="k"))) == job_id
    assert JobId(call(cluster, TWO, SubmitJob((dummy(),), key="k"))) != job_id
    for speaker in (ONE, TWO):
        why = refused(cluster, speaker, CancelJob(job_id))
        assert f"it belongs to 'http:one'; another user needs the role 'operate', and HTTP user '{speaker.name}'" in why
    assert call(cluster, OPS, CancelJob(job_id)) is not None
    assert call(cluster, TWO, QueryJobs((job_id,), ("user", "opresult")))[0][0] == "http:one"


def test_the_smaller_role_counts_and_never_all_rights(cluster: Cluster) -> None:
    assert "needs the role 'operate', and HTTP user 'ci' has only" in refused(cluster, CI, SetDrainFlag(True))
    assert "HTTP user 'boss' has no Unix user" in refused(cluster, BOSS, SubmitJob((command("id"),)))
    assert call(cluster, BOSS, SubmitJobToDrainedQueue((dummy(),))) > 0


def test_a_rule_and_the_log_name_the_speaker(cluster: Cluster) -> None:
    rule = ReplaceFilter(None, 7, (["jobid", ["=", "id", 0]],), "CONTINUE", (["gantry:http", "forged", 1],))
    uuid = call(cluster, OPS, rule)

    trail: Any
    [[(_, trail)]] = cluster.luxi(
        Query(QueryKind.FILTER, ("reason_trail",), Expression.from_wire(["=", "uuid", uuid]))
    ).data
    assert [entry[1] for entry in trail if entry[0] == "gantry:http"] == ["ops"]
    assert any("filter.replaced" in line and "speaker=ops" in line for line in cluster.log("luxid").splitlines())


def test_who_is_not_trusted_speaks_for_nobody(cluster: Cluster) -> None:
    with pytest.raises(Refused, match="may not call in the name of HTTP user 'ci'"):
        call_as(BOB, cluster, SubmitJob((dummy(),)), speaker=CI)
