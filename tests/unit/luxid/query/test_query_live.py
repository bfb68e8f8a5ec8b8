"""Fields whose values node daemons know: cells, errors in cells, filters, and what is asked (luxid.md 7.6)."""

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import pytest

from common.objects.codec import decode_object, to_json
from common.objects.config import AnyInstance, Config, Node
from common.objects.index import ConfigIndex
from common.objects.kinds import DiskTemplate, Hypervisor, InstanceUuid, NodeUuid
from common.query.qlang import Expression
from daemons.luxid.core.live import console_calls, facts_of, instance_calls, node_info, notes_on
from daemons.luxid.core.query.engine import Need, NoFacts, Things
from daemons.luxid.core.query.instances import INSTANCES, InstanceRow, instance_rows, with_consoles, with_sightings
from daemons.luxid.core.query.nodes import NODES, NodeRow, node_rows
from daemons.luxid.core.query.objects import EXPORTS, export_rows, found_exports
from protocol.noded.call import Failed, FailureKind, Outcome, Replied, Skipped, request_body
from protocol.noded.facts import RUNNING, SHUT_DOWN, HypervisorFacts, InstanceFacts, NodeFacts, StorageSpace
from tests.support.configs import UUIDS, instance, small_config

HYPERVISOR = HypervisorFacts(
    memory_total=24105, memory_dom0=137, memory_free=23117, cpu_total=4, cpu_dom0=2, cpu_nodes=1, cpu_sockets=1
)
FACTS = NodeFacts("17f9c0d3", (), (HYPERVISOR,))
LIVE_NODE = ("bootid", "cnodes", "cnos", "csockets", "ctotal", "dfree", "dtotal", "mfree", "mnode", "mtotal")
LIVE_INSTANCE = ("status", "oper_state", "oper_ram", "oper_vcpus")
RUNS = InstanceFacts(memory=512, vcpus=2, state=RUNNING, time=1.5)
STOPPED = attrs.evolve(RUNS, state=SHUT_DOWN)


def config_of(*instances: AnyInstance, nodes: tuple[str, ...] = (), cluster: Mapping[str, Any] | None = None) -> Config:
    """The small configuration with instances, and with nodes of these names beside `node1.test`."""
    base = small_config()
    first = to_json(base.nodes[UUIDS.node])
    added = [decode_object({**first, "uuid": name, "name": f"{name}.test"}, Node, "node") for name in nodes]
    return attrs.evolve(
        base,
        cluster=attrs.evolve(base.cluster, **(cluster or {})),
        nodes={**base.nodes, **{NodeUuid(node.uuid): node for node in added}},
        instances={InstanceUuid(each.uuid): each for each in instances},
    )


def node_row(facts: NodeFacts | NoFacts, config: Config | None = None) -> NodeRow:
    index = ConfigIndex(config or config_of())
    return attrs.evolve(node_rows(index.nodes, index)[0], facts=facts)


def seen(
    *instances: AnyInstance, found: Mapping[str, Any], nodes: tuple[str, ...] = (), **cluster: object
) -> list[InstanceRow]:
    """The rows of these instances. Args: found: as of `with_sightings`."""
    index = ConfigIndex(config_of(*instances, nodes=nodes, cluster=cluster))
    return with_sightings(instance_rows(index.instances, index), found)


def cells(things: Things[Any], rows: Any, *names: str, filter: Any = None) -> list[list[Any]]:
    expression = None if filter is None else Expression.from_wire(filter)
    return [
        [cell[1] if cell[0] == 0 else f"status {cell[0]}" for cell in row]
        for row in things.plan(names, expression).rows(rows)
    ]


def test_facts_of_a_node_fill_its_cells_as_in_the_recording() -> None:
    assert cells(NODES, [node_row(FACTS)], *LIVE_NODE, "spfree", "sptotal") == [
        ["17f9c0d3", 1, 2, 1, 4, "status 2", "status 2", 23117, 137, 24105, "status 2", "status 2"]
    ]


def test_the_first_store_counts_and_spindles_are_counted_apart() -> None:
    stores = (
        StorageSpace("lvm-pv", "xenvg", 1, 3),
        StorageSpace("lvm-vg", "xenvg", 2048, 4096),
        StorageSpace("file", "/srv", 7, 8),
    )
    unknown = (StorageSpace("lvm-vg", "xenvg", None, None),)
    names = ("dfree", "dtotal", "spfree", "sptotal", "mfree")

    assert cells(NODES, [node_row(NodeFacts("b", stores, ()))], *names) == [[2048, 4096, 1, 3, "status 2"]]
    assert cells(NODES, [node_row(NodeFacts("b", unknown, (HYPERVISOR,)))], *names) == [
        ["status 2", "status 2", "status 2", "status 2", 23117]
    ]


@pytest.mark.parametrize(
    ("reason", "status"),
    [(NoFacts.FAILED, "status 2"), (NoFacts.OFFLINE, "status 4"), (NoFacts.NOT_ASKED, "status 2")],
)
def test_a_node_without_facts_says_why_in_its_live_cells_only(reason: NoFacts, status: str) -> None:
    assert cells(NODES, [node_row(reason)], "name", *LIVE_NODE) == [["node1.test", *[status] * len(LIVE_NODE)]]


@pytest.mark.parametrize(
    ("admin_state", "found", "status"),
    [
        ("up", {"i1.test": RUNS}, "running"),
        ("up", {"i1.test": STOPPED}, "ERROR_down"),
        ("up", {}, "ERROR_down"),
        ("down", {"i1.test": RUNS}, "ERROR_up"),
        ("offline", {"i1.test": RUNS}, "ERROR_up"),
        ("down", {"i1.test": STOPPED}, "ADMIN_down"),
        ("down", {}, "ADMIN_down"),
        ("offline", {}, "ADMIN_offline"),
        ("up", NoFacts.FAILED, "ERROR_nodedown"),
        ("up", NoFacts.OFFLINE, "ERROR_nodeoffline"),
        # nobody may restart an instance because this machine could not ask
        ("up", NoFacts.NOT_ASKED, "status 2"),
    ],
)
def test_the_status_of_an_instance_sets_what_is_beside_what_should_be(
    admin_state: str, found: object, status: str
) -> None:
    rows = seen(instance("i1", admin_state=admin_state), found={UUIDS.node: found})

    assert cells(INSTANCES, rows, "status") == [[status]]


@pytest.mark.parametrize(
    ("changes", "allowed", "found", "status"),
    [
        ({}, True, {"i1.test": STOPPED}, "USER_down"),
        ({}, False, {"i1.test": STOPPED}, "ERROR_down"),
        ({"hypervisor": "kvm"}, True, {"i1.test": STOPPED}, "ERROR_down"),
        ({"hypervisor": "kvm", "hvparams": {"user_shutdown": True}}, True, {"i1.test": STOPPED}, "USER_down"),
        ({"admin_state": "down", "admin_state_source": "user"}, True, {}, "USER_down"),
        ({"admin_state": "down", "admin_state_source": "user"}, False, {}, "ADMIN_down"),
    ],
)
def test_an_instance_that_its_user_may_stop_is_no_error_when_stopped(
    changes: Mapping[str, Any], allowed: bool, found: object, status: str
) -> None:
    rows = seen(instance("i1", **changes), found={UUIDS.node: found}, enabled_user_shutdown=allowed)

    assert cells(INSTANCES, rows, "status") == [[status]]


def test_an_instance_on_another_node_is_told_so_with_what_it_has_there() -> None:
    rows = seen(
        instance("i1"),
        instance("i2", primary_node="node2"),
        found={UUIDS.node: {}, "node2": {"i1.test": RUNS, "i2.test": RUNS}},
        nodes=("node2",),
    )

    assert cells(INSTANCES, rows, *LIVE_INSTANCE) == [
        ["ERROR_wrongnode", True, 512, 2],
        ["running", True, 512, 2],
    ]


def test_an_instance_that_is_nowhere_has_no_memory_and_does_not_run() -> None:
    absent = seen(instance("i1", admin_state="down"), found={UUIDS.node: {}})
    unheard = seen(instance("i1"), found={UUIDS.node: NoFacts.FAILED})

    assert cells(INSTANCES, absent, *LIVE_INSTANCE) == [["ADMIN_down", False, "status 3", "status 3"]]
    assert cells(INSTANCES, unheard, *LIVE_INSTANCE) == [["ERROR_nodedown", *["status 2"] * 3]]


def test_a_console_is_what_the_primary_node_tells() -> None:
    index = ConfigIndex(config_of(instance("i1"), instance("i2"), instance("i3", primary_node="node2")))
    rows = instance_rows(index.instances, index)
    console = {"instance": "i1.test", "kind": "msg", "message": "none"}

    told = with_consoles(rows, {UUIDS.node: {"i1.test": console}, "node2": NoFacts.FAILED})

    assert cells(INSTANCES, told, "console") == [[console], ["status 2"], ["status 2"]]


def test_each_export_has_a_row_and_an_unheard_node_has_one() -> None:
    index = ConfigIndex(config_of(nodes=("node2", "node3", "node4")))
    found: dict[str, Sequence[str] | NoFacts] = {
        UUIDS.node: ("a", "b"),
        "node2": (),
        "node3": NoFacts.FAILED,
        "node4": NoFacts.OFFLINE,
    }

    rows = found_exports(export_rows(index.nodes, index), found)

    assert cells(EXPORTS, rows, "node", "export") == [
        ["node1.test", "a"],
        ["node1.test", "b"],
        ["node3.test", "status 2"],
        ["node4.test", "status 4"],
    ]


def test_filters_compare_live_values_and_tell_of_things_without() -> None:
    rows = [node_row(FACTS), node_row(attrs.evolve(FACTS, hypervisors=())), node_row(NoFacts.FAILED)]
    plan = NODES.plan(("name",), Expression.from_wire([">", "mfree", 1000]))

    assert len(plan.rows(rows)) == 1
    assert plan.notes() == ["left out 2 nodes: field 'mfree', by which the filter judges, has no value there"]
    assert len(cells(NODES, rows, "name", filter=["<", "mfree", 1000])) == 0


@pytest.mark.parametrize(
    ("things", "names", "filter", "needs"),
    [
        (NODES, ("name", "pip", "role", "pinst_cnt"), None, set()),
        (NODES, ("name", "bootid"), None, {Need.NODE}),
        (NODES, ("name", "dtotal", "dfree", "mtotal"), None, {Need.STORAGE, Need.HYPERVISOR}),
        (NODES, ("name",), [">", "mfree", 1000], {Need.HYPERVISOR}),
        (NODES, ("name", "nosuch"), None, set()),
        (INSTANCES, ("name", "pnode", "be/memory"), None, set()),
        (INSTANCES, ("name",), ["==", "status", "running"], {Need.INSTANCES}),
        (INSTANCES, ("console", "oper_state"), None, {Need.INSTANCES, Need.CONSOLES}),
        (EXPORTS, ("node",), None, set()),
        (EXPORTS, ("node", "export"), None, {Need.EXPORTS}),
    ],
)
def test_only_what_a_field_or_the_filter_needs_is_asked(
    things: Things[Any], names: tuple[str, ...], filter: Any, needs: set[Need]
) -> None:
    expression = None if filter is None else Expression.from_wire(filter)

    assert things.plan(names, expression).needs == needs


@pytest.mark.parametrize(
    ("filter", "asked"),
    [
        (None, ["node1.test", "node2.test"]),
        (["==", "role", "M"], ["node1.test"]),
        (["&", [">", "mfree", 5], ["==", "role", "M"]], ["node1.test"]),
        (["|", [">", "mfree", 5], ["==", "role", "M"]], ["node1.test", "node2.test"]),
        (["!", ["|", [">", "mfree", 5], ["==", "role", "M"]]], ["node2.test"]),
        (["!", ["&", [">", "mfree", 5], ["==", "role", "M"]]], ["node1.test", "node2.test"]),
        # a field without a value: the caller is told of the thing
        (["&", [">", "mfree", 5], ["?", "powered"]], ["node1.test", "node2.test"]),
        # a mistake: told when the filter comes to it
        (["&", [">", "mfree", 5], ["==", "role", 5]], ["node1.test", "node2.test"]),
    ],
)
def test_nodes_that_the_filter_rules_out_anyway_are_not_asked(filter: Any, asked: list[str]) -> None:
    index = ConfigIndex(config_of(nodes=("node2",)))
    plan = NODES.plan(("name", "mfree"), None if filter is None else Expression.from_wire(filter))

    assert [row.object.name for row in plan.hopeful(node_rows(index.nodes, index))] == asked


def test_a_node_is_asked_for_its_own_stores_and_the_default_hypervisor() -> None:
    cluster = {
        "enabled_disk_templates": (DiskTemplate.DRBD, DiskTemplate.PLAIN, DiskTemplate.FILE, DiskTemplate.RBD),
        "volume_group_name": "xenvg",
        "file_storage_dir": "/srv/files",
        "enabled_hypervisors": (Hypervisor.FAKE, Hypervisor.KVM),
        "hvparams": {Hypervisor.FAKE: {"migration_mode": "live"}, Hypervisor.KVM: {"acpi": True}},
    }
    index = ConfigIndex(config_of(cluster=cluster))
    (node,) = index.nodes

    assert request_body(node_info(index, node, {Need.STORAGE, Need.HYPERVISOR})) == (
        b'[[["lvm-vg","xenvg",[false]],["file","/srv/files",[]],["lvm-pv","xenvg",[false]]],'
        b'[["fake",{"migration_mode":"live"}]]]'
    )
    assert request_body(node_info(index, node, {Need.NODE})) == b"[[],[]]"


def test_luxids_recorded_request_is_asked_word_for_word() -> None:
    index = ConfigIndex(config_of(cluster={"enabled_disk_templates": (DiskTemplate.DISKLESS,)}))
    (node,) = index.nodes

    assert request_body(node_info(index, node, {Need.STORAGE, Need.HYPERVISOR})) == (
        b'[[],[["fake",{"migration_mode":"live"}]]]'
    )


def test_instances_are_asked_of_their_primary_nodes_alone_once_each() -> None:
    index = ConfigIndex(
        config_of(
            instance("i1"),
            instance("i2"),
            instance("i3", primary_node="gone"),
            nodes=("node2",),
            cluster={
                "enabled_hypervisors": (Hypervisor.FAKE, Hypervisor.KVM),
                "hvparams": {Hypervisor.KVM: {"acpi": True}},
            },
        )
    )
    rows = instance_rows(index.instances, index)

    ((node, call),) = instance_calls(rows)
    ((at, console),) = console_calls(rows)

    assert (node.name, at.name) == ("node1.test", "node1.test")
    assert request_body(call) == b'[["fake","kvm"],{"fake":{},"kvm":{"acpi":true}}]'
    assert list(console.instances) == ["i1.test", "i2.test"]
    subject = console.instances["i1.test"]
    assert (subject.node["name"], subject.group["name"]) == ("node1.test", "default")
    assert (subject.instance["name"], subject.beParams["vcpus"]) == ("i1.test", 1)
    assert "migration_mode" not in subject.hvParams
    assert instance_calls([]) == []


def test_an_outcome_is_facts_or_the_reason_why_there_are_none() -> None:
    silent, unsent = Failed(FailureKind.TIMEOUT, "node 'x' is slow"), Failed(FailureKind.UNSENT, "no certificate")

    assert facts_of(Replied(FACTS)) is FACTS
    assert [facts_of(each) for each in (Skipped(), silent, unsent)] == [
        NoFacts.OFFLINE,
        NoFacts.FAILED,
        NoFacts.NOT_ASKED,
    ]


def test_notes_name_the_nodes_that_failed_and_count_the_rest() -> None:
    failures = [Failed(FailureKind.TIMEOUT, f"node 'n{number}' is slow") for number in range(8)]

    mixed: list[Outcome[NodeFacts]] = [Skipped(), Replied(FACTS), failures[0]]

    assert notes_on(mixed) == ["no live data: node 'n0' is slow"]
    assert notes_on([*mixed, *failures[1:]])[-2:] == ["no live data: node 'n4' is slow", "no live data of 3 more nodes"]
