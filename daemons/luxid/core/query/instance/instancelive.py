"""The fields of instances that are read from the facts of node daemons, and the status that follows from them.

Theory. A node daemon tells which instances run on its node. One that is not on its primary node may be on another
that was asked. The status sets what is beside what should be; a node that does not reply makes it an error of the
node, and a fault of this machine makes it unknown: nobody may restart an instance because of that.

Source: luxid.md 7.6, "instance", live; noded.md 6, "all_instances_info".
"""

import enum
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final, assert_never

import attrs

from common.objects.index import ConfigIndex
from common.objects.instance import AnyInstance
from common.objects.kinds import AdminState, AdminStateSource, Hypervisor
from common.objects.node import Node
from daemons.luxid.core.query.fields import Kind, Need, QueryField, or_unavailable
from daemons.luxid.core.query.instance.instanceparams import hv_params
from daemons.luxid.core.query.live import NoFacts, or_no_data, status_without
from daemons.luxid.core.query.rows import Row

if TYPE_CHECKING:
    # what is known of node daemons is loaded only where there are other nodes
    from protocol.noded.instances import InstanceFacts

# `InstanceFacts.state` of an instance that runs
_RUNS: Final = 0


class InstanceStatus(enum.Enum):
    """What an instance does, beside what it should do."""

    RUNNING = "running"
    USER_DOWN = "USER_down"
    ADMIN_DOWN = "ADMIN_down"
    ADMIN_OFFLINE = "ADMIN_offline"
    ERROR_UP = "ERROR_up"
    ERROR_DOWN = "ERROR_down"
    WRONG_NODE = "ERROR_wrongnode"
    NODE_DOWN = "ERROR_nodedown"
    NODE_OFFLINE = "ERROR_nodeoffline"


@attrs.frozen(eq=False)
class Sighting:
    """What the node daemons know of an instance."""

    # None: it is on none of the nodes that were asked
    facts: "InstanceFacts | None"
    # whether it is on its primary node
    is_in_place: bool = True


@attrs.frozen(eq=False)
class InstanceRow(Row[AnyInstance]):
    """An instance, and what node daemons have told of it."""

    seen: Sighting | NoFacts = NoFacts.NOT_ASKED
    # how to reach its console; None: its node daemon does not tell
    console: Mapping[str, object] | NoFacts | None = NoFacts.NOT_ASKED

    @property
    def primary(self) -> Node | None:
        """Its primary node, if it has one that exists."""
        uuid = self.object.primary_node
        return None if uuid is None else self.config.config.nodes.get(uuid)


_Field = QueryField[InstanceRow]


def instance_rows(instances: Iterable[AnyInstance], config: ConfigIndex) -> list[InstanceRow]:
    """The rows of these instances before anybody is asked."""
    return [InstanceRow(each, config) for each in instances]


def with_sightings(
    rows: Iterable[InstanceRow], found: "Mapping[str, Mapping[str, InstanceFacts] | NoFacts]"
) -> list[InstanceRow]:
    """The rows with what is known of their instances.

    Args: found: UUID of a node -> its instances by name, or why they are not known.
    """
    everywhere = {
        name: facts for here in found.values() if not isinstance(here, NoFacts) for name, facts in here.items()
    }
    return [InstanceRow(row.object, row.config, _seen(row, found, everywhere), row.console) for row in rows]


def _seen(
    row: InstanceRow,
    found: "Mapping[str, Mapping[str, InstanceFacts] | NoFacts]",
    everywhere: "Mapping[str, InstanceFacts]",
) -> Sighting | NoFacts:
    here, name = found.get(row.object.primary_node or "", NoFacts.NOT_ASKED), row.object.name or ""
    if isinstance(here, NoFacts):
        return here
    return Sighting(here[name]) if name in here else Sighting(everywhere.get(name), is_in_place=False)


def with_consoles(
    rows: Iterable[InstanceRow], found: Mapping[str, Mapping[str, Mapping[str, object]] | NoFacts]
) -> list[InstanceRow]:
    """The rows with how to reach their consoles. Args: found: as of `with_sightings`."""
    return [InstanceRow(row.object, row.config, row.seen, _console_of(row, found)) for row in rows]


def _console_of(
    row: InstanceRow, found: Mapping[str, Mapping[str, Mapping[str, object]] | NoFacts]
) -> Mapping[str, object] | NoFacts | None:
    here = found.get(row.object.primary_node or "", NoFacts.NOT_ASKED)
    return here if isinstance(here, NoFacts) else here.get(row.object.name or "")


def instance_status(row: InstanceRow) -> InstanceStatus | None:
    """The status of an instance; None: it is not known."""
    match row.seen:
        case NoFacts.NOT_ASKED:
            return None
        case NoFacts.OFFLINE:
            return InstanceStatus.NODE_OFFLINE
        case NoFacts.FAILED:
            return InstanceStatus.NODE_DOWN
        case Sighting(facts=None):
            return _when_absent(row)
        case Sighting(is_in_place=False):
            return InstanceStatus.WRONG_NODE
        case Sighting():
            return _when_there(row, runs=_runs(row.seen))
        case _:
            assert_never(row.seen)


def _when_there(row: InstanceRow, *, runs: bool) -> InstanceStatus:
    should_run = row.object.admin_state is AdminState.UP
    if runs:
        return InstanceStatus.RUNNING if should_run else InstanceStatus.ERROR_UP
    if not should_run:
        return InstanceStatus.ADMIN_DOWN
    return InstanceStatus.USER_DOWN if _user_may_stop(row) else InstanceStatus.ERROR_DOWN


def _when_absent(row: InstanceRow) -> InstanceStatus:
    match row.object.admin_state:
        case AdminState.UP:
            return InstanceStatus.ERROR_DOWN
        case AdminState.OFFLINE:
            return InstanceStatus.ADMIN_OFFLINE
        case AdminState.DOWN | None:
            by_user = row.object.admin_state_source is AdminStateSource.USER
            is_user_down = by_user and row.config.cluster.enabled_user_shutdown
            return InstanceStatus.USER_DOWN if is_user_down else InstanceStatus.ADMIN_DOWN
        case _:
            assert_never(row.object.admin_state)


def _user_may_stop(row: InstanceRow) -> bool:
    """Whether a user may shut the instance down from inside."""
    if not row.config.cluster.enabled_user_shutdown:
        return False
    return row.object.hypervisor is not Hypervisor.KVM or hv_params(row).get("user_shutdown") is True


def _status(row: InstanceRow) -> object:
    found = instance_status(row)
    return status_without(NoFacts.NOT_ASKED, row.primary) if found is None else found.value


def _sighted(read: Callable[[Sighting], object]) -> Callable[[InstanceRow], object]:
    return lambda row: status_without(row.seen, row.primary) if isinstance(row.seen, NoFacts) else read(row.seen)


def _runs(seen: Sighting) -> bool:
    return seen.facts is not None and seen.facts.state == _RUNS


def _console(row: InstanceRow) -> object:
    return status_without(row.console, row.primary) if isinstance(row.console, NoFacts) else or_no_data(row.console)


def live_instance_fields() -> Iterable[_Field]:
    """The fields whose values only node daemons know."""
    seen = Need.INSTANCES
    return (
        _Field("status", "Status", Kind.TEXT, "what it does, beside what it should do", _status, need=seen),
        _Field("oper_state", "Running", Kind.BOOL, "whether it runs", _sighted(_runs), need=seen),
        _Field(
            "oper_ram",
            "Memory",
            Kind.UNIT,
            "memory that it has",
            _sighted(lambda seen: or_unavailable(seen.facts and seen.facts.memory)),
            need=seen,
        ),
        _Field(
            "oper_vcpus",
            "VCPUs",
            Kind.NUMBER,
            "virtual processors that it has",
            _sighted(lambda seen: or_unavailable(seen.facts and seen.facts.vcpus)),
            need=seen,
        ),
        _Field("console", "Console", Kind.OTHER, "how to reach its console", _console, need=Need.CONSOLES),
    )
