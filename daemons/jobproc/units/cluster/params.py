"""OP_CLUSTER_SET_PARAMS: changes the parameters of the cluster that its configuration alone decides."""

from typing import ClassVar, Final

import attrs

from common.errors import wrong_input
from common.objects.config import Cluster, Ipolicy, Network
from common.objects.index import ConfigIndex
from common.objects.kinds import NetworkUuid, NicMode
from common.objects.policies import new_cluster_violations
from common.opcodes.base import OpCode
from common.opcodes.cluster import OpClusterSetParams
from common.opcodes.types import NicParams
from daemons.jobproc.context import UnitContext
from daemons.jobproc.units.base import LogicalUnit
from daemons.jobproc.units.cluster.values import with_hypervisors, with_inherited, with_plain, with_storage
from daemons.jobproc.units.nodes import fill_pool
from protocol.luxi.jobs import JobInput

# The network by which instances talk to their node: what must be made of it when the cluster gets one.
#
# Source: opcodes.md 4, CLUSTER_SET_PARAMS; Ganeti's `gnt-cluster modify --instance-communication-network` (known).


_SUBNET: Final = "169.254.0.0/16"
_SUBNET6: Final = "fe80::/10"
_MAC_PREFIX: Final = "52:54:00"
_LINK: Final = "communication_rt"


def check_network(config: ConfigIndex, name: str) -> None:
    """Raises: PrerequisiteError: there is such a network, with other values than it needs."""
    found = _network(config, name)
    if found is not None and (found.network, found.mac_prefix) != (_SUBNET, _MAC_PREFIX):
        raise wrong_input(
            f"network '{name}' cannot be the instances' way to their node: that needs the range {_SUBNET} and the "
            f"MAC prefix {_MAC_PREFIX}"
        )


def jobs_for(config: ConfigIndex, name: str) -> list[JobInput]:
    """The jobs that make the network, if there is none, and connect it to the groups that lack it."""
    found = _network(config, name)
    jobs: list[JobInput] = []
    if found is None:
        jobs.append((_addition(name),))
    uuid = NetworkUuid(found.uuid) if found is not None else None
    for group in config.groups:
        if uuid is None or uuid not in group.networks:
            jobs.append((_connection(name, group.name, depends_on=-len(jobs) if found is None else None),))
    return jobs


def _network(config: ConfigIndex, name: str) -> Network | None:
    return next((each for each in config.networks if each.name == name), None)


def _addition(name: str) -> dict[str, object]:
    return {
        "OP_ID": "OP_NETWORK_ADD",
        "network_name": name,
        "network": _SUBNET,
        "network6": _SUBNET6,
        "mac_prefix": _MAC_PREFIX,
        "conflicts_check": False,
    }


def _connection(name: str, group: str, depends_on: int | None) -> dict[str, object]:
    op = {
        "OP_ID": "OP_NETWORK_CONNECT",
        "group_name": group,
        "network_name": name,
        "network_mode": NicMode.ROUTED.value,
        "network_link": _LINK,
        "conflicts_check": True,
    }
    return op if depends_on is None else {**op, "depends": [[depends_on, ["success"]]]}


# OP_CLUSTER_SET_PARAMS: changes the parameters of the cluster that its configuration alone decides.
#
# Everything is checked before the first change. Parameters that move the master's address are refused. What only nodes
# know (volume groups, helpers, hypervisors) is stored as it is given. A larger pool of candidates is filled at once; a
# smaller one keeps its candidates, as in Ganeti.
#
# Source: opcodes.md 4 and 6.2, CLUSTER_SET_PARAMS.


# parameters that all opcodes have, and one that changes nothing
_COMMON: Final = frozenset({*(field.name for field in attrs.fields(OpCode)), "force"})
_PARAMETERS: Final = tuple(field.name for field in attrs.fields(OpClusterSetParams) if field.name not in _COMMON)
# parameters of the master's address, which luxid has brought up as they were
_OF_MASTER: Final = ("master_netdev", "master_netmask", "use_external_mip_script")


class ClusterSetParamsUnit(LogicalUnit[OpClusterSetParams]):
    OPCODE: ClassVar[type[OpCode]] = OpClusterSetParams

    def check_prereq(self, context: UnitContext) -> None:
        if not any(_is_given(getattr(self.op, name)) for name in _PARAMETERS):
            raise wrong_input("there is nothing to change; name at least one parameter")
        config, op = context.config, self.op
        self._notes: list[str] = []
        _check_address(config.cluster, op)
        cluster = with_inherited(with_hypervisors(config.cluster, op, config), op, config)
        self._after = with_plain(with_storage(cluster, op, config, self._notes), op, self._notes)
        if op.instance_communication_network is not None:
            self._after = attrs.evolve(self._after, instance_communication_network=op.instance_communication_network)
            check_network(config, op.instance_communication_network)
        self._notes += _violations(context, self._after.ipolicy)

    def run(self, context: UnitContext) -> object:
        """Return null, or the jobs that make the network of the instances' communication."""
        for note in self._notes:
            context.feedback(note)
        context.config.change_cluster(self._after)
        if self.op.candidate_pool_size is not None:
            _resize_pool(context, self.op.candidate_pool_size)
        network = self.op.instance_communication_network
        jobs = jobs_for(context.config, network) if network else []
        return {"jobs": context.submit_jobs(jobs)} if jobs else None


def _check_address(cluster: Cluster, op: OpClusterSetParams) -> None:
    for name in _OF_MASTER:
        wanted, now = getattr(op, name), getattr(cluster, name)
        if wanted is not None and wanted != now:
            raise wrong_input(
                f"'{name}' cannot be changed by a job here: the master's address is up with the value {now!r}; "
                "leave it out"
            )


def _violations(context: UnitContext, after: Ipolicy) -> list[str]:
    names = new_cluster_violations(context.config, after)
    if not names:
        return []
    return [f" - WARNING: After the ipolicy change the following instances violate them: {', '.join(names)}"]


def _resize_pool(context: UnitContext, size: int) -> None:
    nodes = context.config.nodes
    promoted = fill_pool(context, nodes, size)
    context.config.change_nodes(promoted.nodes, certificates=promoted.certificates, candidate_pool_size=size)
    promoted.tell(context)
    count = sum(node.master_candidate for node in nodes)
    if count > size:
        context.feedback(f"warning: there are {count} master candidates; end some with: gnt-node modify -C no NODE")


def _is_given(value: object) -> bool:
    """Whether a parameter has a value; Ganeti's clients send empty objects for those that are left out."""
    return value is not None and value != {} and value != NicParams()
