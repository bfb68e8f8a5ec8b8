"""What a job claims under a new master: the locks that its opcode declares (DESIGN section 14)."""

import pytest

from common.ids import JobId
from common.locks import LockMode
from common.objects.index import ConfigIndex
from common.queue.jobs import Job, JobOp, JobState
from daemons.luxid.core.orphans import claim_of
from daemons.luxid.core.queue.recovery import node_work
from protocol.wconfd.locks import CommandOnNode
from tests.support.configs import small_config

S, X = LockMode.SHARED, LockMode.EXCLUSIVE


@pytest.fixture
def index() -> ConfigIndex:
    return ConfigIndex(small_config())


def job_on(node: str, **values: object) -> Job:
    ended = JobOp({"OP_ID": "OP_TEST_DUMMY"}, state=JobState.SUCCESS)
    command = JobOp({"OP_ID": "OP_RUN_COMMAND", "argv": ["true"], "node": node, **values}, state=JobState.RUNNING)
    return Job(JobId(7), (ended, command), livelock="/run/of/another/master")


def claimed(job: Job, index: ConfigIndex, of: str | None = None) -> dict[str, LockMode]:
    """Args: of: the node's name, if the job names it otherwise."""
    work = node_work(job)
    assert work is not None
    claim = claim_of(job, work, index)
    assert (claim.owner.ident, claim.owner.livelock) == (7, "/run/of/another/master")
    assert claim.commands == (CommandOnNode(of or work.node, "7.1.1"),)
    return {str(lock): mode for lock, mode in claim.locks}


def test_the_lock_of_its_node_and_those_that_it_names(index: ConfigIndex) -> None:
    node = index.nodes[0]

    locks = claimed(job_on(node.name, locks={"instance/a": "exclusive"}), index)

    assert locks == {"cluster/BGL": S, "instance/a": X, f"node/{node.uuid}": S}


def test_its_guard_has_the_nodes_name_however_the_job_names_it(index: ConfigIndex) -> None:
    node = index.nodes[0]
    assert node.name is not None

    for name in (node.uuid, node.name.partition(".")[0]):
        assert claimed(job_on(name), index, of=node.name) == {"cluster/BGL": S, f"node/{node.uuid}": S}


def test_a_node_that_is_gone_has_no_lock(index: ConfigIndex) -> None:
    assert claimed(job_on("gone.test"), index) == {"cluster/BGL": S}
