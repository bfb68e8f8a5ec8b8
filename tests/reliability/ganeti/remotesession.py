"""A session with Ganeti's own client on the node: each job of its must end as it does with Ganeti's RAPI."""

import importlib
import sys
from typing import Any

RAPI: Any = importlib.import_module("ganeti.rapi.client")
NODE, ONE, TWO, NET = "node1.rg.test", "i1.rg.test", "i2.rg.test", "n1"
CERTIFICATE = "/var/lib/ganeti/rapi.pem"
CREATION = {"os_type": "dummy+default", "pnode": NODE, "beparams": {"memory": 128}}
UNCHECKED = {"ip_check": False, "name_check": False}
NEWER = [["jobid", [">", "id", "watermark"]]]

# call, arguments, options
JOBS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("CreateInstance", ("create", ONE, "diskless", [], [{}]), {**CREATION, **UNCHECKED, "reason": "a trial"}),
    ("AddInstanceTags", (ONE, ["a", "b"]), {}),
    ("DeleteInstanceTags", (ONE, ["b"]), {}),
    ("AddClusterTags", (["x"],), {}),
    ("ModifyInstance", (ONE,), {"beparams": {"memory": 256}}),
    ("ShutdownInstance", (ONE,), {}),
    ("RenameInstance", (ONE, TWO), UNCHECKED),
    ("StartupInstance", (TWO,), {}),
    ("RebootInstance", (TWO,), {"reboot_type": "hard"}),
    ("GetInstanceInfo", (TWO,), {}),
    ("CreateGroup", ("g2",), {}),
    ("ModifyGroup", ("g2",), {"alloc_policy": "last_resort"}),
    ("DeleteGroup", ("g2",), {}),
    ("CreateNetwork", (NET, "192.0.2.0/28"), {}),
    ("ConnectNetwork", (NET, "default", "bridged", "br0"), {}),
    ("DisconnectNetwork", (NET, "default"), {}),
    ("DeleteNetwork", (NET,), {}),
    ("ModifyNode", (NODE,), {"ndparams": {"spindle_count": 2}}),
    ("GetNodeStorageUnits", (NODE, "file", "name,size"), {}),
    ("ModifyCluster", (), {"max_running_jobs": 30}),
    ("RedistributeConfig", (), {}),
]


def check(found: object, wanted: object, what: str) -> None:
    if found != wanted:
        sys.exit(f"{what}: expected {wanted!r}, got {found!r}")


def client(user: str, password: str) -> Any:
    return RAPI.GanetiRapiClient(
        "127.0.0.1", 5080, user, password, curl_config_fn=RAPI.GenericCurlConfig(cafile=CERTIFICATE, timeout=60)
    )


def end_of(peer: Any, job_id: int) -> dict[str, Any]:
    """Wait for a job; return it."""
    peer.WaitForJobCompletion(job_id, period=0.1)
    job: dict[str, Any] = peer.GetJobStatus(job_id)
    return job


def status_of(call: Any, *args: Any) -> int:
    """The status with which a call is refused; 200: it is not."""
    try:
        call(*args)
    except RAPI.GanetiApiError as error:
        return int(error.code)
    return 200


def main() -> None:
    peer = client("peer", "secret")
    check(peer.GetOperatingSystems(), ["dummy+default"], "operating systems")
    for method, args, options in JOBS:
        job = end_of(peer, getattr(peer, method)(*args, **options))
        check((job["status"], job["opresult"] if job["status"] != "success" else None), ("success", None), method)
        print(f"{method}: job {job['id']}")
    check(peer.GetInstances(), [TWO], "instances")
    check(peer.GetInstanceTags(TWO), ["a"], "tags")
    check(peer.GetInstance(TWO)["beparams"]["memory"], 256, "memory")
    check(peer.GetInstanceConsole(TWO)["kind"], "msg", "console")
    check(peer.GetNodes(bulk=True)[0]["mtotal"] > 0, True, "live data of the node")
    check((peer.GetNodeRole(NODE), peer.GetInfo()["max_running_jobs"]), ("master", 30), "facts")
    rule = peer.AddFilter(5, NEWER, "PAUSE")
    held = peer.ShutdownInstance(TWO)
    check(peer.GetJobStatus(held)["status"], "queued", "a job that a filter holds back")
    check(peer.CancelJob(held)[0], True, "cancel")
    peer.DeleteFilter(rule)
    check((peer.GetFilters(), end_of(peer, held)["status"]), ([], "canceled"), "afterwards")
    check(end_of(peer, peer.DeleteInstance(TWO))["status"], "success", "DeleteInstance")
    check(status_of(peer.GetInstance, TWO), 404, "an instance that is gone")
    check(status_of(client("peer", "wrong").GetInfo), 401, "a wrong password")
    check(status_of(client("reader", "rsecret").RedistributeConfig), 403, "a reader")


if __name__ == "__main__":
    main()
