"""The locks that each of Ganeti's opcodes declares, row by row (opcodes.md 6.2, predictive column).

Notation, level by level: `S` shared, `X` exclusive; `{names}`, `?` for some that are not known, `*` for all.
I instance, G node group, N node, R node-res, W network.

Named differences from the column:
- INSTANCE_REINSTALL and NETWORK_RENAME are not in it: their real locks.
- TAGS_GET without `use_locking`: nothing, as it really takes; the column says everything, exclusively.
- INSTANCE_FAILOVER, INSTANCE_MIGRATE: parameters do not tell the instance's nodes, but it has some: unknown, never all.
- TEST_DELAY: the nodes that it names, and none under `no_locks`: what our own unit takes.
- NETWORK_ADD, NETWORK_CONNECT, NETWORK_DISCONNECT: their real locks, which our own units take.
- new instances go by their name, which is their lock's, and not unknown.
"""

from typing import Any, Final

import pytest

from common.lockdecl import LockDeclaration, Scope
from common.locks import LockLevel, LockMode
from common.opcodes.registry import opcode_classes, parse_opcode

LETTERS: Final = {
    "I": LockLevel.INSTANCE,
    "G": LockLevel.NODEGROUP,
    "N": LockLevel.NODE,
    "R": LockLevel.NODE_RES,
    "W": LockLevel.NETWORK,
}
KNOWN: Final = {
    (LockLevel.INSTANCE, "i1"): "i1.example.com",
    (LockLevel.INSTANCE, "i2"): "i2.example.com",
    (LockLevel.NODEGROUP, "g1"): "uuid-g1",
    (LockLevel.NODE, "n1"): "uuid-n1",
    (LockLevel.NODE_RES, "n1"): "uuid-n1",
    (LockLevel.NODE, "n2"): "uuid-n2",
    (LockLevel.NODE_RES, "n2"): "uuid-n2",
    (LockLevel.NETWORK, "w1"): "uuid-w1",
}
INSTANCE: Final = {"instance_name": "i1"}
NODE: Final = {"node_name": "n1"}
BY_UUID: Final = {"node_name": "n1", "node_uuid": "u1"}
GROUP: Final = {"group_name": "g1"}
NETWORK: Final = {"network_name": "w1"}
FIELDS: Final = {"output_fields": ["name"]}
CREATE: Final = {"instance_name": "new", "disks": [], "nics": [], "mode": "create"}
STORAGE: Final = {"storage_type": "lvm-vg"}

# opcode, parameters, declared without a resolver, and with one ("=": the same)
ROWS: Final[list[tuple[str, dict[str, Any], str, str]]] = [
    *((op, {}, "BGL", "=") for op in ("CLUSTER_POST_INIT", "CLUSTER_DESTROY")),
    *((op, {}, "BGL", "=") for op in ("CLUSTER_ACTIVATE_MASTER_IP", "CLUSTER_DEACTIVATE_MASTER_IP")),
    ("CLUSTER_RENAME", {"name": "c"}, "BGL", "="),
    ("NODE_ADD", NODE, "BGL", "="),
    ("NODE_REMOVE", NODE, "BGL", "="),
    ("TEST_ALLOCATOR", {"direction": "in", "mode": "allocate", "name": "i1"}, "BGL", "="),
    ("CLUSTER_QUERY", {}, "", "="),
    ("CLUSTER_CONFIG_QUERY", FIELDS, "", "="),
    ("CLUSTER_VERIFY", GROUP, "", "="),
    ("QUERY", {"what": "node", "fields": ["name"]}, "", "="),
    ("QUERY_FIELDS", {"what": "node"}, "", "="),
    ("OS_DIAGNOSE", FIELDS, "", "="),
    ("EXT_STORAGE_DIAGNOSE", FIELDS, "", "="),
    ("TAGS_SEARCH", {"pattern": "x"}, "", "="),
    ("NODE_POWERCYCLE", NODE, "", "="),
    ("TEST_OS_PARAMS", {}, "", "="),
    ("CLUSTER_VERIFY_CONFIG", {}, "I:S* G:S* N:S* R:S* W:S*", "="),
    ("CLUSTER_VERIFY_GROUP", GROUP, "I:S? G:S? N:S?", "I:S? G:S{uuid-g1} N:S?"),
    ("CLUSTER_VERIFY_DISKS", {}, "G:S*", "="),
    ("CLUSTER_VERIFY_DISKS", GROUP, "G:S?", "G:S{uuid-g1}"),
    ("GROUP_VERIFY_DISKS", GROUP, "I:S? G:S* N:S?", "="),
    ("CLUSTER_REPAIR_DISK_SIZES", {}, "I:X* R:S*", "="),
    (
        "CLUSTER_REPAIR_DISK_SIZES",
        {"instances": ["i1", "i2"]},
        "I:X{i1,i2} R:S?",
        "I:X{i1.example.com,i2.example.com} R:S?",
    ),
    ("CLUSTER_REPAIR_DISK_SIZES", {"instances": ["i1", "lost"]}, "I:X{i1,lost} R:S?", "I:X? R:S?"),
    ("CLUSTER_SET_PARAMS", {}, "I:S* G:S* N:S*", "="),
    ("CLUSTER_REDIST_CONF", {}, "N:S*", "="),
    ("CLUSTER_RENEW_CRYPTO", {}, "N:X*", "="),
    ("OOB_COMMAND", {"command": "health"}, "N:X*", "="),
    ("RESTRICTED_COMMAND", {"nodes": ["n1"], "command": "c"}, "N:S?", "N:S{uuid-n1}"),
    ("RESTRICTED_COMMAND", {"nodes": ["n1"], "node_uuids": ["u1"], "command": "c"}, "N:S{u1}", "="),
    ("NODE_QUERYVOLS", FIELDS, "N:S*", "="),
    ("NODE_QUERYVOLS", {**FIELDS, "nodes": ["n1", "n2"]}, "N:S?", "N:S{uuid-n1,uuid-n2}"),
    ("NODE_QUERY_STORAGE", FIELDS, "N:S*", "="),
    ("NODE_QUERY_STORAGE", {**FIELDS, "nodes": ["n1"]}, "N:S?", "N:S{uuid-n1}"),
    ("NODE_MODIFY_STORAGE", {**NODE, **STORAGE, "changes": {}}, "N:X?", "N:X{uuid-n1}"),
    ("REPAIR_NODE_STORAGE", {**BY_UUID, **STORAGE}, "N:X{u1}", "="),
    ("NODE_SET_PARAMS", NODE, "N:X? R:X?", "N:X{uuid-n1} R:X{uuid-n1}"),
    ("NODE_SET_PARAMS", {**BY_UUID, "secondary_ip": "192.0.2.1"}, "I:S? N:X{u1} R:X{u1}", "="),
    ("NODE_SET_PARAMS", {**BY_UUID, "auto_promote": True}, "N:X{u1} R:X{u1}", "="),
    ("NODE_SET_PARAMS", {**BY_UUID, "offline": True}, "N:X{u1} R:X{u1}", "="),
    *(
        ("NODE_SET_PARAMS", {**BY_UUID, "auto_promote": True, key: value}, "N:X* R:X*", "=")
        for key, value in (
            ("master_candidate", False),
            ("offline", True),
            ("drained", True),
            ("master_capable", False),
        )
    ),
    *(
        ("NODE_SET_PARAMS", {**BY_UUID, "auto_promote": True, key: value}, "N:X{u1} R:X{u1}", "=")
        for key, value in (
            ("master_candidate", True),
            ("offline", False),
            ("drained", False),
            ("master_capable", True),
        )
    ),
    ("NODE_MIGRATE", NODE, "N:S?", "N:S{uuid-n1}"),
    ("NODE_EVACUATE", {**NODE, "mode": "all"}, "I:S? G:S? N:S?", "="),
    (
        "INSTANCE_CREATE",
        {**CREATE, "pnode": "n1", "snode": "n2"},
        "I:X{new} G:S? N:X? R:X?",
        "I:X{new} G:S? N:X{uuid-n1,uuid-n2} R:X{uuid-n1,uuid-n2}",
    ),
    ("INSTANCE_CREATE", {**CREATE, "pnode": "n1", "pnode_uuid": "u1"}, "I:X{new} G:S? N:X{u1} R:X{u1}", "="),
    ("INSTANCE_CREATE", {**CREATE, "iallocator": "hail"}, "I:X{new} G:S* N:X* R:X*", "="),
    (
        "INSTANCE_CREATE",
        {**CREATE, "iallocator": "hail", "opportunistic_locking": True},
        "I:X{new} G:S? N:X? R:X?",
        "=",
    ),
    ("INSTANCE_CREATE", CREATE, "I:X{new} G:S? N:X? R:X?", "="),
    ("INSTANCE_MULTI_ALLOC", {"iallocator": "hail"}, "N:S* R:S*", "="),
    ("INSTANCE_MULTI_ALLOC", {"iallocator": "hail", "opportunistic_locking": True}, "N:S? R:S?", "="),
    ("INSTANCE_MULTI_ALLOC", {}, "N:S? R:S?", "="),
    ("INSTANCE_REINSTALL", INSTANCE, "I:X{i1}", "I:X{i1.example.com}"),
    ("INSTANCE_SHUTDOWN", INSTANCE, "I:X{i1}", "I:X{i1.example.com}"),
    ("INSTANCE_SHUTDOWN", {"instance_name": "lost"}, "I:X{lost}", "I:X?"),
    ("INSTANCE_SHUTDOWN", {**INSTANCE, "instance_uuid": "u"}, "I:X{i1}", "I:X{i1.example.com}"),
    ("INSTANCE_REBOOT", {**INSTANCE, "reboot_type": "soft"}, "I:X{i1}", "I:X{i1.example.com}"),
    ("INSTANCE_STARTUP", INSTANCE, "I:X{i1} R:X?", "I:X{i1.example.com} R:X?"),
    ("INSTANCE_CONSOLE", INSTANCE, "I:S{i1}", "I:S{i1.example.com}"),
    ("INSTANCE_RENAME", {**INSTANCE, "new_name": "new"}, "I:X{i1,new}", "I:X{i1.example.com,new}"),
    ("INSTANCE_REMOVE", INSTANCE, "I:X{i1} N:X? R:X?", "I:X{i1.example.com} N:X? R:X?"),
    ("INSTANCE_GROW_DISK", {**INSTANCE, "disk": 0, "amount": 1}, "I:X{i1} N:X? R:X?", "I:X{i1.example.com} N:X? R:X?"),
    (
        "INSTANCE_REPLACE_DISKS",
        {**INSTANCE, "mode": "replace_auto"},
        "I:X{i1} N:X? R:X?",
        "I:X{i1.example.com} N:X? R:X?",
    ),
    (
        "INSTANCE_REPLACE_DISKS",
        {**INSTANCE, "mode": "replace_new_secondary", "iallocator": "hail"},
        "I:X{i1} G:S? N:X? R:X?",
        "I:X{i1.example.com} G:S? N:X? R:X?",
    ),
    *(
        (op, {**INSTANCE, **parameters}, f"I:X{{i1}} {plain}", f"I:X{{i1.example.com}} {resolved}")
        for op in ("INSTANCE_FAILOVER", "INSTANCE_MIGRATE")
        for parameters, plain, resolved in (
            ({"iallocator": "hail"}, "N:X? R:X?", "N:X? R:X?"),
            ({"target_node": "n2"}, "N:X? R:X?", "N:X{uuid-n2},X? R:X{uuid-n2},X?"),
            ({"target_node": "n2", "target_node_uuid": "u2"}, "N:X{u2},X? R:X{u2},X?", "N:X{u2},X? R:X{u2},X?"),
            ({}, "N:X? R:X?", "N:X? R:X?"),
        )
    ),
    ("INSTANCE_MOVE", {**INSTANCE, "target_node": "n2"}, "I:X{i1} N:S* R:S*", "I:X{i1.example.com} N:S* R:S*"),
    ("INSTANCE_ACTIVATE_DISKS", INSTANCE, "I:X{i1} N:X?", "I:X{i1.example.com} N:X?"),
    ("INSTANCE_DEACTIVATE_DISKS", INSTANCE, "I:X* N:X?", "="),
    ("INSTANCE_RECREATE_DISKS", INSTANCE, "I:X{i1} G:S? N:X? R:X?", "I:X{i1.example.com} G:S? N:X? R:X?"),
    ("INSTANCE_SET_PARAMS", INSTANCE, "I:X{i1} G:S? N:X? R:X?", "I:X{i1.example.com} G:S? N:X? R:X?"),
    ("INSTANCE_QUERY_DATA", {"static": True}, "", "="),
    ("INSTANCE_QUERY_DATA", {"static": True, "use_locking": True}, "I:S* G:S? N:S? R:S?", "="),
    ("INSTANCE_QUERY_DATA", {}, "I:S* G:S? N:S? R:S?", "="),
    ("INSTANCE_CHANGE_GROUP", INSTANCE, "I:X{i1} G:X* N:X*", "I:X{i1.example.com} G:X* N:X*"),
    ("GROUP_ADD", {"group_name": "new"}, "G:X?", "="),
    ("GROUP_REMOVE", GROUP, "G:X?", "G:X{uuid-g1}"),
    ("GROUP_RENAME", {**GROUP, "new_name": "new"}, "G:X?", "G:X{uuid-g1}"),
    ("GROUP_SET_PARAMS", GROUP, "I:X? G:X?", "I:X? G:X{uuid-g1}"),
    ("GROUP_ASSIGN_NODES", {**GROUP, "nodes": ["n1"]}, "G:X? N:X?", "G:X? N:X{uuid-n1}"),
    ("GROUP_EVACUATE", GROUP, "I:S? G:S* N:S?", "="),
    ("BACKUP_PREPARE", {**INSTANCE, "mode": "local"}, "I:X{i1}", "I:X{i1.example.com}"),
    ("BACKUP_EXPORT", {**INSTANCE, "target_node": "n1"}, "I:X{i1} N:X*", "I:X{i1.example.com} N:X*"),
    ("BACKUP_REMOVE", INSTANCE, "N:X*", "="),
    ("TAGS_GET", {"kind": "node", "name": "n1"}, "", "="),
    ("TAGS_GET", {"kind": "node", "name": "n1", "use_locking": True}, "N:S?", "N:S{uuid-n1}"),
    ("TAGS_GET", {"kind": "cluster", "use_locking": True}, "", "="),
    *(
        (op, {"kind": kind, "name": name, "tags": []}, plain, resolved)
        for op in ("TAGS_SET", "TAGS_DEL")
        for kind, name, plain, resolved in (
            ("cluster", "", "", "="),
            ("instance", "i1", "I:X{i1}", "I:X{i1.example.com}"),
            ("node", "n1", "N:X?", "N:X{uuid-n1}"),
            ("nodegroup", "g1", "G:X?", "G:X{uuid-g1}"),
            ("network", "w1", "W:X?", "W:X{uuid-w1}"),
            ("instance", None, "I:X?", "="),
        )
    ),
    ("TEST_DELAY", {"duration": 1, "on_nodes": ["n1"]}, "", "="),
    ("TEST_DELAY", {"duration": 1, "on_nodes": ["n1"], "no_locks": False}, "N:X{n1}", "="),
    ("TEST_DELAY", {"duration": 1, "on_node_uuids": ["u1"], "no_locks": False}, "N:X{u1}", "="),
    ("TEST_JQUEUE", {}, "N:X?", "="),
    ("NETWORK_ADD", {"network_name": "new", "network": "192.0.2.0/24"}, "N:S* W:X?", "="),
    ("NETWORK_ADD", {"network_name": "new", "network": "192.0.2.0/24", "conflicts_check": False}, "W:X?", "="),
    ("NETWORK_REMOVE", NETWORK, "G:S* W:X?", "G:S* W:X{uuid-w1}"),
    ("NETWORK_SET_PARAMS", NETWORK, "W:X?", "W:X{uuid-w1}"),
    ("NETWORK_RENAME", {**NETWORK, "new_name": "new"}, "W:X?", "W:X{uuid-w1}"),
    (
        "NETWORK_CONNECT",
        {**GROUP, **NETWORK, "network_mode": "bridged", "network_link": "br0"},
        "I:S? G:X? W:S?",
        "I:S? G:X{uuid-g1} W:S{uuid-w1}",
    ),
    (
        "NETWORK_CONNECT",
        {**GROUP, **NETWORK, "network_mode": "bridged", "network_link": "br0", "conflicts_check": False},
        "G:X?",
        "G:X{uuid-g1}",
    ),
    ("NETWORK_DISCONNECT", {**GROUP, **NETWORK}, "I:S? G:X?", "I:S? G:X{uuid-g1}"),
]
# state their locks as a parameter
OURS: Final = {"OP_NOTIFY", "OP_RUN_COMMAND", "OP_TEST_DUMMY"}


def _resolve(level: LockLevel, name: str) -> str | None:
    return KNOWN.get((level, name))


def _shown(declaration: LockDeclaration) -> str:
    if declaration.is_big_lock:
        assert not declaration.levels
        return "BGL"
    assert declaration.bgl is LockMode.SHARED
    assert set(declaration.levels) <= set(LETTERS.values())
    parts = []
    for letter, level in LETTERS.items():
        entries = declaration.levels.get(level, ())
        marks = [
            ("S" if entry.mode is LockMode.SHARED else "X")
            + {Scope.ALL: "*", Scope.UNKNOWN: "?", Scope.NAMED: f"{{{','.join(sorted(entry.names))}}}"}[entry.scope]
            for entry in entries
        ]
        if marks:
            parts.append(f"{letter}:{','.join(marks)}")
    return " ".join(parts)


@pytest.mark.parametrize(("op", "parameters", "plain", "resolved"), ROWS)
def test_an_opcode_declares_the_locks_of_its_row(
    op: str, parameters: dict[str, Any], plain: str, resolved: str
) -> None:
    opcode = parse_opcode({"OP_ID": f"OP_{op}", **parameters})

    assert _shown(opcode.lock_declaration()) == plain
    assert _shown(opcode.lock_declaration(_resolve)) == (plain if resolved == "=" else resolved)


def test_every_opcode_has_a_row() -> None:
    assert {f"OP_{row[0]}" for row in ROWS} == opcode_classes().keys() - OURS
