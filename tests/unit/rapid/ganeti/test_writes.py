"""Which opcodes a request means, and which requests mean none.

Source: rapi.md 3, 6, 7.
"""

from typing import Any

import pytest

from common.errors import Denied, InvalidRequest
from tests.unit.rapid.ganeti.requests import NOW_NS, find, opcodes

Op = dict[str, Any]
CREATION = {"mode": "create", "disk_template": "diskless", "disks": [], "nics": [{}]}
DEPENDS = [[7, ["success"]]]

# verb, URI, body -> opcodes
MEANT: list[tuple[str, str, Any, list[Op]]] = [
    ("PUT", "/2/redistribute-config", None, [{"OP_ID": "OP_CLUSTER_REDIST_CONF"}]),
    ("PUT", "/2/modify", {"max_running_jobs": 25}, [{"OP_ID": "OP_CLUSTER_SET_PARAMS", "max_running_jobs": 25}]),
    (
        "PUT",
        "/2/tags?tag=a&tag=b&dry-run=1",
        ["ignored"],
        [{"OP_ID": "OP_TAGS_SET", "kind": "cluster", "name": None, "tags": ("a", "b"), "dry_run": True}],
    ),
    (
        "DELETE",
        "/2/groups/default/tags?tag=a",
        None,
        [{"OP_ID": "OP_TAGS_DEL", "kind": "nodegroup", "name": "default", "tags": ("a",), "dry_run": False}],
    ),
    (
        "PUT",
        "/2/nodes/n1/role?force=1&auto-promote=0",
        "regular",
        [
            {
                "OP_ID": "OP_NODE_SET_PARAMS",
                "node_name": "n1",
                "force": True,
                "auto_promote": False,
                "master_candidate": False,
                "offline": False,
                "drained": False,
            }
        ],
    ),
    (
        "PUT",
        "/2/nodes/n1/role",
        "drained",
        [
            {
                "OP_ID": "OP_NODE_SET_PARAMS",
                "node_name": "n1",
                "force": False,
                "auto_promote": False,
                "drained": True,
            }
        ],
    ),
    (
        "POST",
        "/2/nodes/n1/modify",
        {"ndparams": {"oob_program": "/x"}, "priority": -10},
        [{"OP_ID": "OP_NODE_SET_PARAMS", "node_name": "n1", "ndparams": {"oob_program": "/x"}, "priority": -10}],
    ),
    (
        "POST",
        "/2/nodes/n1/powercycle?force=1",
        None,
        [{"OP_ID": "OP_NODE_POWERCYCLE", "node_name": "n1", "force": True}],
    ),
    (
        "POST",
        "/2/nodes/n1/evacuate",
        {"mode": "all", "iallocator": "hail"},
        [{"OP_ID": "OP_NODE_EVACUATE", "node_name": "n1", "dry_run": False, "mode": "all", "iallocator": "hail"}],
    ),
    (
        "POST",
        "/2/nodes/n1/migrate?reason=why",
        {"mode": "live", "target_node": "n2"},
        [{"OP_ID": "OP_NODE_MIGRATE", "node_name": "n1", "mode": "live", "target_node": "n2"}],
    ),
    (
        "POST",
        "/2/nodes/n1/migrate?live=0",
        None,
        [{"OP_ID": "OP_NODE_MIGRATE", "node_name": "n1", "mode": "non-live"}],
    ),
    (
        "GET",
        "/2/nodes/n1/storage?storage_type=lvm-vg&output_fields=name,%20size",
        None,
        [
            {
                "OP_ID": "OP_NODE_QUERY_STORAGE",
                "nodes": ["n1"],
                "storage_type": "lvm-vg",
                "output_fields": ("name", "size"),
            }
        ],
    ),
    (
        "PUT",
        "/2/nodes/n1/storage/modify?storage_type=lvm-pv&name=sda&allocatable=0",
        None,
        [
            {
                "OP_ID": "OP_NODE_MODIFY_STORAGE",
                "node_name": "n1",
                "storage_type": "lvm-pv",
                "name": "sda",
                "changes": {"allocatable": False},
            }
        ],
    ),
    (
        "PUT",
        "/2/nodes/n1/storage/repair?storage_type=lvm-vg&name=xen",
        None,
        [{"OP_ID": "OP_REPAIR_NODE_STORAGE", "node_name": "n1", "storage_type": "lvm-vg", "name": "xen"}],
    ),
    (
        "POST",
        "/2/groups",
        {"name": "g", "alloc_policy": None},
        [{"OP_ID": "OP_GROUP_ADD", "group_name": "g", "alloc_policy": None, "dry_run": False}],
    ),
    (
        "DELETE",
        "/2/groups/g?dry-run=1",
        {"x": 1, "depends": DEPENDS},
        [{"OP_ID": "OP_GROUP_REMOVE", "group_name": "g", "dry_run": True, "depends": DEPENDS}],
    ),
    (
        "PUT",
        "/2/groups/g/modify",
        {"custom_ndparams": {"ssh_port": 22}},
        [{"OP_ID": "OP_GROUP_SET_PARAMS", "group_name": "g", "ndparams": {"ssh_port": 22}}],
    ),
    (
        "PUT",
        "/2/groups/g/rename",
        {"new_name": "h"},
        [{"OP_ID": "OP_GROUP_RENAME", "group_name": "g", "new_name": "h", "dry_run": False}],
    ),
    (
        "PUT",
        "/2/groups/g/assign-nodes?force=1",
        {"nodes": ["n1"]},
        [{"OP_ID": "OP_GROUP_ASSIGN_NODES", "group_name": "g", "nodes": ["n1"], "force": True, "dry_run": False}],
    ),
    (
        "POST",
        "/2/networks",
        {"name": "w", "network": "192.0.2.0/28"},
        [{"OP_ID": "OP_NETWORK_ADD", "network_name": "w", "network": "192.0.2.0/28", "dry_run": False}],
    ),
    ("DELETE", "/2/networks/w", None, [{"OP_ID": "OP_NETWORK_REMOVE", "network_name": "w", "dry_run": False}]),
    (
        "PUT",
        "/2/networks/w/connect",
        {"group_name": "g", "network_mode": "bridged", "network_link": "br0"},
        [
            {
                "OP_ID": "OP_NETWORK_CONNECT",
                "network_name": "w",
                "group_name": "g",
                "network_mode": "bridged",
                "network_link": "br0",
                "dry_run": False,
            }
        ],
    ),
    (
        "PUT",
        "/2/networks/w/disconnect",
        {"group_name": "g"},
        [{"OP_ID": "OP_NETWORK_DISCONNECT", "network_name": "w", "group_name": "g", "dry_run": False}],
    ),
    (
        "PUT",
        "/2/networks/w/modify",
        {"gateway": None},
        [{"OP_ID": "OP_NETWORK_SET_PARAMS", "network_name": "w", "gateway": None}],
    ),
    (
        "PUT",
        "/2/networks/w/rename",
        {"new_name": "v"},
        [{"OP_ID": "OP_NETWORK_RENAME", "network_name": "w", "new_name": "v", "dry_run": False}],
    ),
    (
        "POST",
        "/2/instances?dry-run=1",
        {"__version__": 1, "name": "i", "os": "noop", "hvparams": {"usb_devices": "a b"}, **CREATION},
        [
            {
                "OP_ID": "OP_INSTANCE_CREATE",
                "instance_name": "i",
                "os_type": "noop",
                "hvparams": {"usb_devices": "a,b"},
                **CREATION,
                "dry_run": True,
            }
        ],
    ),
    (
        "POST",
        "/2/instances-multi-alloc",
        {"instances": [{"name": "i", "os": "noop", **CREATION}], "iallocator": "hail"},
        [
            {
                "OP_ID": "OP_INSTANCE_MULTI_ALLOC",
                "instances": [{"OP_ID": "OP_INSTANCE_CREATE", "instance_name": "i", "os_type": "noop", **CREATION}],
                "iallocator": "hail",
                "dry_run": False,
            }
        ],
    ),
    (
        "DELETE",
        "/2/instances/i",
        {"shutdown_timeout": 5},
        [
            {
                "OP_ID": "OP_INSTANCE_REMOVE",
                "instance_name": "i",
                "ignore_failures": False,
                "dry_run": False,
                "shutdown_timeout": 5,
            }
        ],
    ),
    (
        "GET",
        "/2/instances/i/info?static=1",
        None,
        [{"OP_ID": "OP_INSTANCE_QUERY_DATA", "instances": ["i"], "static": True}],
    ),
    (
        "POST",
        "/2/instances/i/reboot?ignore_secondaries=1",
        {"shutdown_timeout": 5},
        [
            {
                "OP_ID": "OP_INSTANCE_REBOOT",
                "instance_name": "i",
                "reboot_type": "hard",
                "ignore_secondaries": True,
                "dry_run": False,
                "shutdown_timeout": 5,
            }
        ],
    ),
    (
        "PUT",
        "/2/instances/i/startup?no_remember=1",
        {"force": True},
        [
            {
                "OP_ID": "OP_INSTANCE_STARTUP",
                "instance_name": "i",
                "force": False,
                "no_remember": True,
                "dry_run": False,
            }
        ],
    ),
    (
        "PUT",
        "/2/instances/i/shutdown",
        {"timeout": 3},
        [
            {
                "OP_ID": "OP_INSTANCE_SHUTDOWN",
                "instance_name": "i",
                "no_remember": False,
                "dry_run": False,
                "timeout": 3,
            }
        ],
    ),
    (
        "POST",
        "/2/instances/i/reinstall?reason=why",
        {"os": "noop", "osparams": {"a": "b"}},
        [
            {"OP_ID": "OP_INSTANCE_SHUTDOWN", "instance_name": "i"},
            {"OP_ID": "OP_INSTANCE_REINSTALL", "instance_name": "i", "os_type": "noop", "osparams": {"a": "b"}},
            {"OP_ID": "OP_INSTANCE_STARTUP", "instance_name": "i"},
        ],
    ),
    (
        "POST",
        "/2/instances/i/reinstall?os=noop&nostartup=1",
        None,
        [
            {"OP_ID": "OP_INSTANCE_SHUTDOWN", "instance_name": "i"},
            {"OP_ID": "OP_INSTANCE_REINSTALL", "instance_name": "i", "os_type": "noop", "osparams": None},
        ],
    ),
    (
        "POST",
        "/2/instances/i/replace-disks?mode=replace_auto&disks=0,1",
        None,
        [
            {
                "OP_ID": "OP_INSTANCE_REPLACE_DISKS",
                "instance_name": "i",
                "mode": "replace_auto",
                "disks": [0, 1],
                "remote_node": None,
                "iallocator": None,
            }
        ],
    ),
    (
        "POST",
        "/2/instances/i/replace-disks",
        {"mode": "replace_auto", "disks": [2], "early_release": True},
        [
            {
                "OP_ID": "OP_INSTANCE_REPLACE_DISKS",
                "instance_name": "i",
                "mode": "replace_auto",
                "disks": [2],
                "early_release": True,
            }
        ],
    ),
    (
        "PUT",
        "/2/instances/i/activate-disks?ignore_size=1",
        None,
        [{"OP_ID": "OP_INSTANCE_ACTIVATE_DISKS", "instance_name": "i", "ignore_size": True}],
    ),
    (
        "PUT",
        "/2/instances/i/deactivate-disks",
        None,
        [{"OP_ID": "OP_INSTANCE_DEACTIVATE_DISKS", "instance_name": "i", "force": False}],
    ),
    (
        "POST",
        "/2/instances/i/recreate-disks",
        {"nodes": ["n1"]},
        [{"OP_ID": "OP_INSTANCE_RECREATE_DISKS", "instance_name": "i", "nodes": ["n1"]}],
    ),
    (
        "POST",
        "/2/instances/i/disk/1/grow",
        {"amount": 512},
        [{"OP_ID": "OP_INSTANCE_GROW_DISK", "instance_name": "i", "disk": 1, "amount": 512}],
    ),
    (
        "PUT",
        "/2/instances/i/prepare-export?mode=remote",
        None,
        [{"OP_ID": "OP_BACKUP_PREPARE", "instance_name": "i", "mode": "remote"}],
    ),
    (
        "PUT",
        "/2/instances/i/export",
        {"mode": "local", "destination": "n2"},
        [{"OP_ID": "OP_BACKUP_EXPORT", "instance_name": "i", "mode": "local", "target_node": "n2"}],
    ),
    ("DELETE", "/2/instances/i/export", None, [{"OP_ID": "OP_BACKUP_REMOVE", "instance_name": "i"}]),
    (
        "PUT",
        "/2/instances/i/migrate",
        {"mode": "live"},
        [{"OP_ID": "OP_INSTANCE_MIGRATE", "instance_name": "i", "mode": "live"}],
    ),
    (
        "PUT",
        "/2/instances/i/failover",
        {"target_node": "n2"},
        [{"OP_ID": "OP_INSTANCE_FAILOVER", "instance_name": "i", "target_node": "n2"}],
    ),
    (
        "PUT",
        "/2/instances/i/rename",
        {"new_name": "k", "ip_check": False},
        [{"OP_ID": "OP_INSTANCE_RENAME", "instance_name": "i", "new_name": "k", "ip_check": False}],
    ),
    (
        "PUT",
        "/2/instances/i/modify",
        {"custom_beparams": {"memory": 128}, "comment": "x"},
        [{"OP_ID": "OP_INSTANCE_SET_PARAMS", "instance_name": "i", "beparams": {"memory": 128}, "comment": "x"}],
    ),
]


@pytest.mark.parametrize(("verb", "uri", "body", "meant"), MEANT, ids=[f"{row[0]} {row[1]}" for row in MEANT])
def test_a_request_means_these_opcodes(verb: str, uri: str, body: Any, meant: list[Op]) -> None:
    assert opcodes(verb, uri, body) == meant


# verb, URI, body, a part of the message
REFUSED: list[tuple[str, str, Any, str]] = [
    ("PUT", "/2/modify", None, "the body must be a JSON object, got null"),
    ("PUT", "/2/redistribute-config", [], "the body must be a JSON object, got a list"),
    ("PUT", "/2/redistribute-config", {"nosuch": 1}, "unknown key 'nosuch'"),
    ("POST", "/2/nodes/n1/modify", {"drained": "yes"}, "expected true or false, got 'yes'"),
    ("POST", "/2/nodes/n1/modify", {"node_name": "n2"}, "must not have 'node_name'"),
    ("POST", "/2/nodes/n1/modify", {"reason": []}, "must not have 'reason'"),
    ("POST", "/2/nodes/n1/modify", {"OP_ID": "OP_RUN_COMMAND"}, "must not have 'OP_ID'"),
    ("POST", "/2/nodes/n1/evacuate", {"mode": "all", "dry_run": True}, "must not have 'dry_run'"),
    ("POST", "/2/nodes/n1/powercycle?force=true", None, "'force' in the query string must be 0 or 1, got 'true'"),
    ("PUT", "/2/tags?tag=", None, "lacks 'tag'"),
    ("PUT", "/2/tags?tag=x&dry-run=yes", None, "'dry-run'"),
    ("PUT", "/2/nodes/n1/role", "master", "a node's role is regular"),
    ("PUT", "/2/nodes/n1/role", {"role": "drained"}, "as a JSON string, got an object"),
    ("PUT", "/2/nodes/n1/role", None, "as a JSON string, got null"),
    ("POST", "/2/nodes/n1/migrate?live=1&mode=live", None, "both 'live' and 'mode'"),
    ("POST", "/2/nodes/n1/migrate?live=1", {"target_node": "n2"}, "not in both"),
    ("GET", "/2/nodes/n1/storage?storage_type=lvm-vg", None, "lacks 'output_fields'"),
    ("PUT", "/2/nodes/n1/storage/repair?storage_type=lvm-vg", None, "lacks 'name'"),
    ("POST", "/2/groups", {"name": "a", "group_name": "b"}, "both 'name' and 'group_name'"),
    ("POST", "/2/instances", {"__version__": 1, "mode": "create"}, "required key 'instance_name' is missing"),
    ("POST", "/2/instances", {"name": "i", **CREATION}, "'__version__' in the body must be 1, got 0"),
    ("POST", "/2/instances", {"__version__": 2, "name": "i", **CREATION}, "must be 1, got 2"),
    ("POST", "/2/instances", {"__version__": True, "name": "i", **CREATION}, "must be 1, got True"),
    ("POST", "/2/instances-multi-alloc", {}, "lacks 'instances'"),
    ("POST", "/2/instances-multi-alloc", {"instances": [{"mode": "create"}]}, "'instance_name' is missing"),
    (
        "POST",
        "/2/instances-multi-alloc",
        {"instances": [{"OP_ID": "OP_RUN_COMMAND", "argv": ["id"]}]},
        "must not have 'OP_ID'",
    ),
    ("POST", "/2/instances/i/reinstall?os=noop", {"start": True}, "not in both"),
    ("POST", "/2/instances/i/reinstall", {"nosuch": True}, "unknown parameters: 'nosuch'"),
    ("POST", "/2/instances/i/reinstall", {"start": 1}, "'start' in the body must be true or false"),
    ("POST", "/2/instances/i/replace-disks?mode=replace_auto&disks=a", None, "'disks' must be numbers"),
    ("POST", "/2/instances/i/disk/1/grow", {"amount": 1, "disk": 0}, "must not have 'disk'"),
    ("POST", "/2/instances/i/reboot?type=gentle", None, "reboot_type"),
]


@pytest.mark.parametrize(("verb", "uri", "body", "message"), REFUSED, ids=[f"{row[0]} {row[1]}" for row in REFUSED])
def test_a_request_is_refused_before_luxid_sees_it(verb: str, uri: str, body: Any, message: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        opcodes(verb, uri, body)

    assert message in caught.value.message


@pytest.mark.parametrize(
    ("uri", "body"), [("/2/modify", {"compression_tools": ["gzip"]}), ("/2/modify?compression_tools=x", {})]
)
def test_what_may_not_be_changed_over_http_is_denied(uri: str, body: Any) -> None:
    with pytest.raises(Denied):
        opcodes("PUT", uri, body)


def test_the_trail_has_the_users_words_and_then_the_resource() -> None:
    write, asking = find("PUT", "/2/nodes/n1/role?reason=a+disk", "drained")

    [op] = write.opcodes(asking)

    assert op["reason"] == [["gnt:user", "a disk", NOW_NS], ["gnt:library:rlib2:nodes_name_role", "", NOW_NS]]


@pytest.mark.parametrize(
    ("verb", "uri", "body", "resource"),
    [
        ("PUT", "/2/tags?tag=x", None, "tags"),
        ("PUT", "/2/redistribute-config", None, "redist_config"),
        ("PUT", "/2/modify", {}, "cluster_modify"),
        ("POST", "/2/instances", {"__version__": 1, "name": "i", **CREATION}, "instances"),
        ("POST", "/2/instances/i/disk/0/grow", {"amount": 1}, "instances_name_disk_grow"),
        ("POST", "/2/instances/i/replace-disks?mode=replace_auto", None, "instances_name_replace_disks"),
    ],
)
def test_the_trail_names_the_resource(verb: str, uri: str, body: Any, resource: str) -> None:
    write, asking = find(verb, uri, body)

    [op] = write.opcodes(asking)

    assert op["reason"] == [[f"gnt:library:rlib2:{resource}", "", NOW_NS]]


def test_of_a_body_that_is_ignored_the_dependencies_count() -> None:
    [op] = opcodes("PUT", "/2/instances/i/startup", {"depends": DEPENDS, "nosuch": 1})

    assert op["depends"] == DEPENDS
    assert "nosuch" not in op
