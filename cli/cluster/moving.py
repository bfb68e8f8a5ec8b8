"""`gnt-cluster master-failover`, without what it prints: the survey of the nodes, and the steps of the move."""

import contextlib
import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

import attrs

from common.daemons import MASTER_DAEMONS, daemon_named
from common.errors import Conflict, GantryError, NotFound, Unavailable
from common.nodes.failover import CopiesHeld, NodeSays, Situation, check_copies, check_role, check_votes, newer_copies
from common.nodes.mastership import SeenEpoch
from common.nodes.nodeplace import candidate_names, master_name, node_ips, offline_nodes, own_address
from common.settings import Settings
from common.system.processes import python_command, python_environment
from common.system.running import find_daemon
from protocol.blocking import BlockingClient
from protocol.luxi.queries import QueryConfigValues
from protocol.noded.call import Failed, FailureKind, NodeAddress, NodeCall, Outcome, Replied, Skipped
from protocol.noded.clients.blocking import BlockingNodeClient
from protocol.noded.clients.certificates import CertificateFiles
from protocol.noded.membership import (
    ClaimEpoch,
    MasterNodeName,
    NodeProgress,
    NodeStartMasterDaemons,
    NodeStopMaster,
    ReadNodeProgress,
)
from protocol.unixsocket import pauses
from protocol.wconfd.changes import UpdateCluster
from protocol.wconfd.config import GetObject, ListNodesBehind, NodeBehind
from protocol.wconfd.locks import Echo

# Ask the nodes what they know of the master, before it is moved.


# limit of one question to all nodes
LIMIT_S: Final = 10.0


@attrs.frozen
class Nodes:
    """The nodes of the cluster by this node's files of ssconf, and a client for calls to them."""

    client: BlockingNodeClient
    own: NodeAddress
    # all nodes, this one too
    addresses: Sequence[NodeAddress]

    def named(self, name: str) -> NodeAddress | None:
        return next((node for node in self.addresses if node.name == name), None)

    @property
    def others(self) -> Sequence[NodeAddress]:
        return [node for node in self.addresses if node.name != self.own.name]


def nodes_of(settings: Settings) -> Nodes:
    """Raises: OSError: a file of ssconf cannot be read."""
    paths, own_name = settings.paths, settings.cluster.own_name
    offline = offline_nodes(paths)
    addresses = [
        NodeAddress(name, ip, settings.noded.port, offline=name in offline) for name, ip in node_ips(paths).items()
    ]
    own = next((node for node in addresses if node.name == own_name), None)
    return Nodes(
        # no epoch: the calls before one is claimed are nobody's
        BlockingNodeClient(CertificateFiles.of(paths)),
        own or NodeAddress(own_name, own_address(settings), settings.noded.port),
        addresses,
    )


def survey(settings: Settings, nodes: Nodes, *, with_offline: bool) -> Situation:
    """Ask all nodes at once. Args: with_offline: whether nodes that are marked offline count too. Raises: OSError."""
    asked = [node for node in nodes.addresses if with_offline or not node.offline or node.name == nodes.own.name]
    votes = nodes.client.call_nodes(asked, MasterNodeName(), LIMIT_S, even_paused=True)
    heard = [node for node in asked if MasterNodeName.named_by(votes[node.name]) is not None]
    standings = nodes.client.call_nodes(heard, ReadNodeProgress(), LIMIT_S, even_paused=True)
    return Situation(
        settings.cluster.own_name,
        master_name(settings.paths),
        candidate_names(settings.paths),
        tuple(_says(asked, votes, standings)),
    )


def _says(
    asked: Iterable[NodeAddress], votes: Mapping[str, Outcome[str]], standings: Mapping[str, Outcome[NodeProgress]]
) -> Iterable[NodeSays]:
    for node in asked:
        vote, standing = votes[node.name], standings.get(node.name)
        master = MasterNodeName.named_by(vote)
        if isinstance(standing, Replied):
            told = standing.value
            copies = CopiesHeld(told.config_serial, told.queue_serial)
            yield NodeSays(node.name, master, SeenEpoch(told.epoch, told.epoch_master), copies)
        else:
            epoch = vote.epoch if isinstance(vote, Replied) else None
            yield NodeSays(node.name, master, SeenEpoch(epoch or 0))


# Name this node as the master in its copy of the configuration, and send that to all nodes.
#
# A wconfd is started for it, which serves the copy as no other one does now; it ends with this program, whatever ends
# that one.
#
# Source: masterfailover.md 3, part C.


# time for wconfd to be ready, and to end
_READY_S: Final = 60.0
_END_S: Final = 30.0
_PR_SET_PDEATHSIG: Final = 1


def name_master(settings: Settings) -> Sequence[NodeBehind]:
    """Make this node the master by the configuration; return the nodes that were not reached with it.

    Raises: Unavailable: wconfd does not start, or does not reply. NotFound: this node is not in the configuration.
        RemoteError. OSError.
    Durability: on return the change survives a loss of power here, and on the nodes that were reached.
    """
    with _wconfd(settings) as wconfd:
        cluster = wconfd.call(GetObject("cluster"))
        uuid = _uuid(wconfd, settings.cluster.own_name)
        if cluster["master_node"] != uuid:
            wconfd.call(UpdateCluster({**cluster, "master_node": uuid}))
        return wconfd.call(ListNodesBehind())


def _uuid(wconfd: BlockingClient, name: str) -> str:
    uuid = wconfd.call(GetObject("node", name)).get("uuid")
    if not isinstance(uuid, str):
        raise NotFound(f"the configuration has no node '{name}'")
    return uuid


@contextmanager
def _wconfd(settings: Settings) -> Iterator[BlockingClient]:
    place = [] if settings.root is None else ["--root", str(settings.root)]
    forced = ("--force-node", "--no-voting", "--yes-do-it")
    owner = _owner(settings)
    process = subprocess.Popen(
        python_command(daemon_named("wconfd").module, *place, *forced),
        env=python_environment(),
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        preexec_fn=_dying_with_parent(),
        user=owner and owner[0],
        group=owner and owner[1],
        extra_groups=owner and [],
    )
    assert process.stderr is not None
    try:
        with BlockingClient(settings.paths.wconfd_socket, connect_timeout_s=0, daemon="wconfd") as client:
            _until_ready(process, client)
            yield client
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_END_S)
        process.kill()
        process.wait()
        process.stderr.close()


def _owner(settings: Settings) -> tuple[int, int] | None:
    """As root: user and group of the daemons, who must be able to read what is written; None: those of this process."""
    if os.geteuid() != 0:
        return None
    status = settings.paths.data.stat()
    return status.st_uid, status.st_gid


def _dying_with_parent() -> Callable[[], None]:
    libc, parent = ctypes.CDLL(None, use_errno=True), os.getpid()

    def prepare() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

    return prepare


def _until_ready(process: "subprocess.Popen[bytes]", client: BlockingClient) -> None:
    """Raises: Unavailable: it ended, or is not ready in time."""
    deadline = time.monotonic() + _READY_S
    for pause_s in pauses():
        if process.poll() is not None:
            assert process.stderr is not None
            said = process.stderr.read().decode(errors="replace").strip()
            raise Unavailable(f"wconfd did not start from this node's copy of the configuration: {said}")
        try:
            client.call(Echo("ready"))
            return
        except Unavailable:
            if time.monotonic() > deadline:
                raise
        time.sleep(pause_s)


# Move the master to this node, step by step.
#
# Theory. Before anything is changed it is checked that this node may be the master and lacks nothing. Then this node
# claims an epoch, at its own node daemon last: from then on the nodes that heard refuse what the old master sends, and
# the old master, if it lives and hears, stops. Only after that a wconfd writes here. This program may be killed at each
# step: called again it begins anew with a higher epoch, and finds what was done.
#
# Source: masterfailover.md 3; DESIGN section 12.


# time for copies that are on their way to this node
CATCH_UP_S: Final = 10.0
# limit of a claim, which waits for the writes of the old master to end
CLAIM_S: Final = 30.0
# limits for the end of the old master's daemons, and for the start of the new one's
STOP_S: Final = 100.0
READY_S: Final = 60.0


@attrs.frozen
class FailoverOptions:
    """What the operator wants."""

    voting: bool = True
    with_offline: bool = True
    accept_loss: bool = False


@attrs.frozen
class FailoverDone:
    """The master was moved to this node."""

    before: str
    master: str
    epoch: int
    # whether the daemons of the master are ready here
    is_ready: bool
    # what went wrong and did not hinder the move
    warnings: tuple[str, ...]


class MasterFailover:
    """One attempt to make this node the master.

    Args: tell: shows a line of progress.
    """

    def __init__(self, settings: Settings, options: FailoverOptions, tell: Callable[[str], None]) -> None:
        self._settings = settings
        self._paths = settings.paths
        self._options = options
        self._tell = tell
        self._nodes: Nodes = nodes_of(settings)
        self._own_name = self._nodes.own.name
        self._warnings: list[str] = []
        # nodes that have not replied to the claim
        self._silent: frozenset[str] = frozenset()

    def carry_out(self) -> FailoverDone:
        """Make this node the master.

        Raises: Conflict: it may not be. Unavailable, RemoteError, OSError: a step failed; repeat the call.
        """
        situation = self._checked()
        epoch = situation.next_epoch
        self._claim(epoch)
        self._stop(situation.old_master)
        self._name_master()
        self._open_queue()
        is_ready = self._start()
        return FailoverDone(situation.old_master, situation.own_name, epoch, is_ready, tuple(self._warnings))

    def _checked(self) -> Situation:
        if not self._settings.cluster.has_nodes:
            raise Conflict("this cluster has one machine: there is no other node, see [cluster] in gantry.toml")
        running = [name for name in MASTER_DAEMONS if find_daemon(self._paths, name) is not None]
        situation = self._survey()
        if running and situation.old_master == situation.own_name:
            raise Conflict(f"'{situation.own_name}' is the master already, {running[-1]} runs here; see: gantry status")
        check_role(situation)
        if self._options.voting:
            check_votes(situation)
        if not self._options.accept_loss:
            situation = self._caught_up(situation)
            check_copies(situation)
        return situation

    def _survey(self) -> Situation:
        return survey(self._settings, self._nodes, with_offline=self._options.with_offline)

    def _caught_up(self, situation: Situation) -> Situation:
        """The situation when this node has what the others had, or has not got it for a while."""
        deadline = time.monotonic() + CATCH_UP_S
        for pause_s in pauses():
            if not newer_copies(situation) or time.monotonic() > deadline:
                break
            time.sleep(pause_s)
            # the others as they were: where jobs are submitted all the time, somebody is always ahead
            own = self._survey().own
            says = tuple(own if one.name == own.name else one for one in situation.says)
            situation = attrs.evolve(situation, says=says)
        return situation

    def _claim(self, epoch: int) -> None:
        """Claim the epoch everywhere, here last: so this node has what any other one still took from the old master.

        Raises: Conflict: another node has it. Unavailable: this node's own daemon does not take it.
        """
        claim = ClaimEpoch(epoch, self._own_name)
        outcomes = self._call(self._nodes.others, claim, CLAIM_S)
        own = self._call([self._nodes.own], claim, CLAIM_S)[self._own_name]
        if isinstance(own, Failed):
            raise Unavailable(f"this node's own daemon does not take epoch {epoch}: {own.text}; run this again")
        failed = {name: outcome for name, outcome in outcomes.items() if isinstance(outcome, Failed)}
        # the node daemons of Ganeti know no epochs
        failed = {name: outcome for name, outcome in failed.items() if outcome.kind is not FailureKind.UNKNOWN}
        for name, outcome in failed.items():
            self._warn(f"'{name}' has not heard of the new master: {outcome.text}")
        self._silent = frozenset(name for name, outcome in failed.items() if outcome.kind.is_silence)
        self._check_rivals(epoch, [name for name in failed if name not in self._silent])
        skipped = sum(isinstance(outcome, Skipped) for outcome in outcomes.values())
        asked = len(self._nodes.addresses) - (0 if self._options.with_offline else skipped)
        agreed = len(self._nodes.addresses) - skipped - len(failed)
        if self._options.voting and 2 * agreed <= asked:
            raise Conflict(f"only {agreed} of {asked} nodes have heard of the new master; run this again")
        self._tell(f"epoch {epoch} is this node's")

    def _check_rivals(self, epoch: int, names: Sequence[str]) -> None:
        """Raises: Conflict: another node is becoming the master too, by the word of one of these."""
        refusing = [node for node in self._nodes.others if node.name in names]
        for name, outcome in self._nodes.client.call_nodes(refusing, ReadNodeProgress(), CLAIM_S).items():
            if isinstance(outcome, Replied) and outcome.value.epoch >= epoch:
                rival, number = outcome.value.epoch_master or "another node", outcome.value.epoch
                text = f"'{rival}' is becoming the master too, with epoch {number}, says '{name}'"
                raise Conflict(f"{text}; choose one of the two, and run this there again")

    def _stop(self, old_master: str) -> None:
        """Stop the daemons of the old master, which is dead perhaps."""
        node = self._nodes.named(old_master)
        if node is None or old_master == self._own_name or old_master in self._silent:
            return
        outcome = self._call([node], NodeStopMaster(), STOP_S)[old_master]
        if isinstance(outcome, Replied):
            self._tell(f"the daemons of the master on '{old_master}' have ended")
        elif isinstance(outcome, Failed):
            self._warn(f"the daemons of the master on '{old_master}' were not stopped: {outcome.text}")

    def _name_master(self) -> None:
        """Raises: as `name_master`."""
        behind = name_master(self._settings)
        self._tell(f"the configuration names '{self._own_name}' as the master")
        for node in behind:
            self._warn(f"'{node.name}' has not got the configuration yet; it gets it as soon as it can be reached")

    def _open_queue(self) -> None:
        try:
            self._paths.drain_file.unlink()
        except FileNotFoundError:
            return
        self._warn("the queue was closed to new jobs, and is open now; close it with: gnt-cluster queue drain")

    def _start(self) -> bool:
        """Return whether the daemons of the master are ready here."""
        call = NodeStartMasterDaemons(no_voting=not self._options.voting)
        outcome = self._call([self._nodes.own], call, STOP_S)[self._own_name]
        if isinstance(outcome, Failed):
            self._warn(f"the daemons of the master are not started: {outcome.text}")
            return False
        try:
            with BlockingClient(self._paths.query_socket, connect_timeout_s=READY_S, daemon="luxid") as luxid:
                luxid.call(QueryConfigValues(("drain_flag",)))
        except GantryError as error:
            self._warn(f"luxid is not ready: {error.message}; see: gantry status")
            return False
        self._tell("the daemons of the master are ready")
        return True

    def _call(self, nodes: Sequence[NodeAddress], call: NodeCall[None], limit_s: float) -> Mapping[str, Outcome[None]]:
        return self._nodes.client.call_nodes(nodes, call, limit_s, even_paused=True)

    def _warn(self, text: str) -> None:
        self._warnings.append(text)
