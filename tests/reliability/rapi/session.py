"""A session with Ganeti's own client, run by the system's Python: `session.py HOST PORT CERTIFICATE`.

It makes each call that the client has, waits for the jobs, and checks what they are. The client's exceptions say when a
reply is not of its form.
"""

import importlib
import sys
import time
from collections.abc import Callable
from typing import Any

RAPI: Any = importlib.import_module("ganeti.rapi.client")
NODE, GROUP, NETWORK, INSTANCE = "node1.peer.test", "default", "net1", "inst1.peer.test"
FEATURES = {"instance-create-reqv1", "instance-reinstall-reqv1", "node-migrate-reqv1", "node-evac-res1"}
NEWER = [["jobid", [">", "id", "watermark"]]]
FINAL = ("success", "error", "canceled")
# time for a job to end
PATIENCE_S = 60.0


class Unexpected(Exception):
    """a call has another effect than Ganeti's client expects"""


def check(found: object, wanted: object, what: str) -> None:
    if found != wanted:
        raise Unexpected(f"{what}: expected {wanted!r}, got {found!r}")


class Session:
    """Args: open_client: makes a client of a user."""

    def __init__(self, open_client: Callable[[str, str], Any]) -> None:
        self._open = open_client
        self.client = open_client("peer", "secret")
        # names of the client's methods that were called
        self.called: set[str] = set()

    def call(self, method: str, *args: Any, **options: Any) -> Any:
        self.called.add(method)
        return getattr(self.client, method)(*args, **options)

    def refused(self, status: int, method: str, *args: Any, **options: Any) -> str:
        """Make a call that must be refused with this status; return the message."""
        try:
            value = self.call(method, *args, **options)
        except RAPI.GanetiApiError as error:
            check(error.code, status, f"{method}{args}: {error}")
            return str(error)
        raise Unexpected(f"{method}{args}: expected a refusal with {status}, got {value!r}")

    def wait(self, job_id: int) -> dict[str, Any]:
        """Wait as Ganeti's own tools do, by changes; return the job."""
        check(type(job_id), int, "the id of a job")
        deadline, known, serial = time.monotonic() + PATIENCE_S, None, None
        while time.monotonic() < deadline:
            reply = self.call("WaitForJobChange", job_id, ["status"], known, serial)
            if reply is not None:
                known = reply["job_info"]
                serial = max([serial or 0, *(entry[0] for entry in reply["log_entries"])])
                if known[0] in FINAL:
                    job: dict[str, Any] = self.call("GetJobStatus", job_id)
                    return job
        raise Unexpected(f"job {job_id} has not ended: {known}")


def read(session: Session) -> None:
    check(session.call("GetVersion"), 2, "version")
    check(set(session.call("GetFeatures")) >= FEATURES, True, "features")
    check(session.call("GetInfo")["name"], "cluster.peer.test", "name of the cluster")
    for things, one, name in (
        ("GetNodes", "GetNode", NODE),
        ("GetGroups", "GetGroup", GROUP),
        ("GetNetworks", "GetNetwork", NETWORK),
        ("GetInstances", "GetInstance", INSTANCE),
    ):
        check(name in session.call(things), True, f"{name} is listed")
        check(name in [each["name"] for each in session.call(things, bulk=True)], True, f"{name} is in bulk")
        check(session.call(one, name)["name"], name, one)
        session.refused(404, one, "nosuch")
    check(session.call("GetNodeRole", NODE), "master", "role")
    check(session.call("GetClusterTags"), ["ctag1", "ctag2"], "tags of the cluster")
    for method, name in (
        ("GetNodeTags", NODE),
        ("GetGroupTags", GROUP),
        ("GetNetworkTags", NETWORK),
        ("GetInstanceTags", INSTANCE),
    ):
        check(type(session.call(method, name)), list, method)
    found = session.call("Query", "node", ["name", "role"], ["=", "name", NODE])
    check(found["data"], [[[0, NODE], [0, "M"]]], "query")
    names = [field["name"] for field in session.call("QueryFields", "job", ["id", "status"])["fields"]]
    check(names, ["id", "status"], "fields")
    session.refused(503, "GetInstanceConsole", INSTANCE)
    # no logical unit finds them here
    session.refused(502, "GetOperatingSystems")


def submit_and_wait(session: Session) -> None:
    job = session.wait(session.call("RedistributeConfig", reason="by Ganeti's client"))
    check(job["status"], "success", "redistribution")
    check(job["ops"][0]["reason"][0][:2], ["gnt:user", "by Ganeti's client"], "reason")
    job_id = session.call("ModifyCluster", max_running_jobs=25)
    check(session.call("WaitForJobCompletion", job_id, period=0.05), True, "completion")
    check(session.call("GetInfo")["max_running_jobs"], 25, "the changed limit")
    check(job_id in session.call("GetJobs"), True, "the job is listed")
    check(job_id in [each["id"] for each in session.call("GetJobs", bulk=True)], True, "the job is in bulk")
    check(session.call("CancelJob", job_id)[0], False, "an ended job is not canceled")
    session.refused(404, "GetJobStatus", 999999)
    session.refused(404, "WaitForJobChange", 999999, ["status"], None, None)


def set_and_delete_filters(session: Session) -> None:
    trail = [["gnt:user", "a trial", 1700000000000000000]]
    uuid = session.call("AddFilter", 5, NEWER, "PAUSE", reason_trail=trail)
    rule = session.call("GetFilter", uuid)
    check((rule["priority"], rule["predicates"], rule["action"]), (5, NEWER, "PAUSE"), "rule")
    check(rule["reason_trail"][0], trail[0], "reason of the rule")
    check([each["uuid"] for each in session.call("GetFilters", bulk=True)], [uuid], "rules in bulk")
    held = session.call("RedistributeConfig")
    check(session.call("GetJobStatus", held)["status"], "queued", "a paused job")
    check(session.call("CancelJob", held)[0], True, "cancel")
    check(session.wait(held)["status"], "canceled", "the canceled job")
    check(session.call("ReplaceFilter", uuid, 6, [], "REJECT"), uuid, "replace")
    check(uuid in session.refused(403, "RedistributeConfig"), True, "the refusal names the rule")
    check(session.call("ReplaceFilter", uuid, 7, [], ["RATE_LIMIT", 3]), uuid, "limit")
    check(session.call("GetFilter", uuid)["action"], ["RATE_LIMIT", 3], "limit")
    check(session.call("DeleteFilter", uuid), None, "delete")
    session.refused(404, "DeleteFilter", uuid)
    session.refused(404, "GetFilter", uuid)
    session.refused(400, "AddFilter", -1, [], "ACCEPT")
    session.refused(400, "AddFilter", 1, [], "NOSUCH")
    check(session.call("GetFilters"), [], "no rules are left")


# call, arguments, options -> opcodes of the job
Write = tuple[str, tuple[Any, ...], dict[str, Any], list[str]]
DRY: dict[str, Any] = {"dry_run": True}
WRITES: list[Write] = [
    ("AddClusterTags", (["x"],), DRY, ["TAGS_SET"]),
    ("DeleteClusterTags", (["x"],), DRY, ["TAGS_DEL"]),
    ("AddNodeTags", (NODE, ["x"]), DRY, ["TAGS_SET"]),
    ("DeleteNodeTags", (NODE, ["x"]), DRY, ["TAGS_DEL"]),
    ("AddGroupTags", (GROUP, ["x"]), DRY, ["TAGS_SET"]),
    ("DeleteGroupTags", (GROUP, ["x"]), DRY, ["TAGS_DEL"]),
    ("AddNetworkTags", (NETWORK, ["x"]), DRY, ["TAGS_SET"]),
    ("DeleteNetworkTags", (NETWORK, ["x"]), DRY, ["TAGS_DEL"]),
    ("AddInstanceTags", (INSTANCE, ["x", "y"]), DRY, ["TAGS_SET"]),
    ("DeleteInstanceTags", (INSTANCE, ["x"]), DRY, ["TAGS_DEL"]),
    ("SetNodeRole", (NODE, "master-candidate"), {"auto_promote": True}, ["NODE_SET_PARAMS"]),
    ("ModifyNode", (NODE,), {"ndparams": {"spindle_count": 1}}, ["NODE_SET_PARAMS"]),
    ("PowercycleNode", (NODE,), {"force": True}, ["NODE_POWERCYCLE"]),
    ("EvacuateNode", (NODE,), {"mode": "primary-only", "iallocator": "hail"}, ["NODE_EVACUATE"]),
    ("MigrateNode", (NODE,), {"mode": "live", "iallocator": "hail", "reason": "why"}, ["NODE_MIGRATE"]),
    ("GetNodeStorageUnits", (NODE, "lvm-vg", "name,size"), {}, ["NODE_QUERY_STORAGE"]),
    ("ModifyNodeStorageUnits", (NODE, "lvm-pv", "sda"), {"allocatable": False}, ["NODE_MODIFY_STORAGE"]),
    ("RepairNodeStorageUnits", (NODE, "lvm-vg", "xenvg"), {}, ["REPAIR_NODE_STORAGE"]),
    ("CreateGroup", ("g2",), DRY, ["GROUP_ADD"]),
    ("ModifyGroup", (GROUP,), {"alloc_policy": "preferred"}, ["GROUP_SET_PARAMS"]),
    ("RenameGroup", ("nosuch", "other"), {}, ["GROUP_RENAME"]),
    ("AssignGroupNodes", (GROUP, [NODE]), DRY, ["GROUP_ASSIGN_NODES"]),
    ("DeleteGroup", ("nosuch",), DRY, ["GROUP_REMOVE"]),
    ("CreateNetwork", ("net2", "198.51.100.0/28"), DRY, ["NETWORK_ADD"]),
    ("ConnectNetwork", (NETWORK, GROUP, "bridged", "br0"), DRY, ["NETWORK_CONNECT"]),
    ("DisconnectNetwork", (NETWORK, GROUP), DRY, ["NETWORK_DISCONNECT"]),
    ("ModifyNetwork", (NETWORK,), {"mac_prefix": "aa:00:01"}, ["NETWORK_SET_PARAMS"]),
    ("DeleteNetwork", ("nosuch",), DRY, ["NETWORK_REMOVE"]),
    (
        "CreateInstance",
        ("create", "inst9.peer.test", "diskless", [], [{}]),
        {"os_type": "noop", "pnode": NODE, "beparams": {"memory": 128}, "dry_run": True, "reason": "why"},
        ["INSTANCE_CREATE"],
    ),
    ("DeleteInstance", ("nosuch",), DRY, ["INSTANCE_REMOVE"]),
    ("GetInstanceInfo", (INSTANCE,), {"static": True}, ["INSTANCE_QUERY_DATA"]),
    ("ModifyInstance", (INSTANCE,), {"beparams": {"memory": 128}}, ["INSTANCE_SET_PARAMS"]),
    ("ActivateInstanceDisks", (INSTANCE,), {"ignore_size": True}, ["INSTANCE_ACTIVATE_DISKS"]),
    ("DeactivateInstanceDisks", (INSTANCE,), {"force": True}, ["INSTANCE_DEACTIVATE_DISKS"]),
    ("RecreateInstanceDisks", (INSTANCE,), {"nodes": [NODE]}, ["INSTANCE_RECREATE_DISKS"]),
    ("GrowInstanceDisk", (INSTANCE, 0, 10), {"wait_for_sync": False}, ["INSTANCE_GROW_DISK"]),
    ("RebootInstance", (INSTANCE,), {"reboot_type": "soft", "ignore_secondaries": True}, ["INSTANCE_REBOOT"]),
    ("ShutdownInstance", (INSTANCE,), {"timeout": 1, "no_remember": True}, ["INSTANCE_SHUTDOWN"]),
    ("StartupInstance", (INSTANCE,), DRY, ["INSTANCE_STARTUP"]),
    (
        "ReinstallInstance",
        (INSTANCE,),
        {"os": "noop", "reason": "why"},
        ["INSTANCE_SHUTDOWN", "INSTANCE_REINSTALL", "INSTANCE_STARTUP"],
    ),
    ("ReplaceInstanceDisks", (INSTANCE,), {"disks": [0, 1]}, ["INSTANCE_REPLACE_DISKS"]),
    ("PrepareExport", (INSTANCE, "local"), {}, ["BACKUP_PREPARE"]),
    ("ExportInstance", (INSTANCE, "local", NODE), {}, ["BACKUP_EXPORT"]),
    ("MigrateInstance", (INSTANCE,), {"mode": "live"}, ["INSTANCE_MIGRATE"]),
    ("FailoverInstance", (INSTANCE,), {"ignore_consistency": True}, ["INSTANCE_FAILOVER"]),
    ("RenameInstance", ("nosuch", "other"), {"ip_check": False, "name_check": False}, ["INSTANCE_RENAME"]),
]


def write(session: Session) -> None:
    """Each call makes a job of its opcodes; most have no logical unit here, so how they end is not looked at."""
    for method, args, options, opcodes in WRITES:
        job = session.wait(session.call(method, *args, **options))
        check([op["OP_ID"] for op in job["ops"]], [f"OP_{op_id}" for op_id in opcodes], method)
    one = session.call("InstanceAllocation", "create", "inst8.peer.test", "diskless", [], [{}], os_type="noop")
    job = session.wait(session.call("InstancesMultiAlloc", [one], iallocator="hail"))
    check([op["OP_ID"] for op in job["ops"]], ["OP_INSTANCE_MULTI_ALLOC"], "InstancesMultiAlloc")


def be_somebody_else(session: Session, open_client: Callable[[str, str], Any]) -> None:
    """Who has the wrong password, or only the option `read`, is refused as Ganeti refuses."""
    peer = session.client
    session.client = open_client("peer", "wrong")
    session.refused(401, "GetInfo")
    session.client = open_client("reader", "rsecret")
    check(session.call("GetInfo")["name"], "cluster.peer.test", "a reader reads")
    session.refused(403, "RedistributeConfig")
    session.refused(403, "AddFilter", 1, [], "ACCEPT")
    session.client = peer


def methods() -> set[str]:
    """Names of all calls that the client has."""
    return {name for name, value in vars(RAPI.GanetiRapiClient).items() if name[0].isupper() and callable(value)}


def main(host: str, port: str, certificate: str) -> int:
    # checks the certificate; Ganeti's tools know it by its file
    config = RAPI.GenericCurlConfig(cafile=certificate, timeout=60)

    def open_client(user: str, password: str) -> Any:
        return RAPI.GanetiRapiClient(host, int(port), user, password, curl_config_fn=config)

    session = Session(open_client)
    for part in (read, submit_and_wait, set_and_delete_filters, write):
        part(session)
    be_somebody_else(session, open_client)
    check(methods() - session.called, set(), "calls of the client that were not made")
    print(f"Ganeti's client made all its {len(session.called)} calls, and all was as it expects")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
