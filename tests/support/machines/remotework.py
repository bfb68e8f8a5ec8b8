"""Commands on the nodes of a fleet, without the jobs that would have started them."""

from typing import TypeVar

from common.commands.spec import CommandSpec
from common.ids import JobId
from common.locks import LockMode, Owner, parse_lock
from common.queue.jobfile import encode_job
from common.queue.jobs import Job, JobOp, JobState
from protocol.luxi.jobs import CancelJob
from protocol.noded.call import NodeAddress, NodeCall, Replied
from protocol.noded.clients.blocking import BlockingNodeClient
from protocol.noded.clients.certificates import CertificateFiles
from protocol.noded.commands import CommandPhase, ListCommands, StartCommand
from protocol.wconfd.locks import Claim, ClaimLocks, CommandOnNode, ListOrphanedLocks
from tests.support.machines.fleet import Fleet, FleetNode

R = TypeVar("R")
FOREVER = CommandSpec(argv=("/bin/sleep", "1000"), grace_s=1.0)


class RemoteWork:
    """What the master of a fleet asks of its nodes and of wconfd."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self._client = BlockingNodeClient(CertificateFiles.of(fleet.master.paths))

    def call(self, node: FleetNode, call: NodeCall[R]) -> R:
        address = NodeAddress(node.name, node.ip, node.port)
        outcome = self._client.call_nodes([address], call, 20.0, even_paused=True)[node.name]
        assert isinstance(outcome, Replied), outcome
        return outcome.value

    def start(self, node: FleetNode, key: str, spec: CommandSpec = FOREVER) -> None:
        self.call(node, StartCommand(key, spec, 0, 0))

    def phases(self, node: FleetNode) -> dict[str, CommandPhase]:
        return {state.key: state.phase for state in self.call(node, ListCommands(""))}

    def orphan_locks(self, node: FleetNode, key: str, lock: str) -> None:
        """Have a dead owner\'s locks orphaned, as if its process had begun a command and died."""
        owner = Owner(JobId(int(key.split(".")[0])), str(self.fleet.master.paths.livelocks / f"dead_{key}"))
        claim = Claim(owner, ((parse_lock(lock), LockMode.EXCLUSIVE),), (CommandOnNode(node.name, key),))
        assert self.fleet.master.wconf(ClaimLocks((claim,))) == ()

    def orphans(self) -> dict[str, list[str]]:
        """Orphaned locks, by owner."""
        return {
            str(each.owner): [str(lock) for lock, _ in each.locks]
            for each in self.fleet.master.wconf(ListOrphanedLocks())
        }

    def write_job(self, job_id: int, node: FleetNode, state: JobState = JobState.RUNNING, **values: object) -> None:
        """Write the file of a job whose process has died while its command ran on this node."""
        paths = self.fleet.master.paths
        op = JobOp({"OP_ID": "OP_RUN_COMMAND", "argv": ["true"], "node": node.name, **values}, state=state)
        job = Job(JobId(job_id), (op,), livelock=str(paths.livelocks / f"job_{job_id}_gone"), process_id=99)
        paths.job_file(job_id).write_bytes(encode_job(job))

    def kill(self, job_id: int) -> tuple[bool, str]:
        """Ask luxid to kill a job; returns whether that is done, and a sentence."""
        done = self.fleet.master.luxi(CancelJob(JobId(job_id), kill=True))
        return done.is_done, done.message
