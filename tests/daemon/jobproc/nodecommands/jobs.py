"""Jobs with commands on a node of a fleet, and what came of them."""

from typing import Any

from protocol.wconfd.locks import ListAllLocksOwners
from tests.support.machines.fleet import Fleet, FleetNode


def shell(script: str, **more: Any) -> dict[str, Any]:
    return {"OP_ID": "OP_RUN_COMMAND", "argv": [script], "shell": True, "node": "node2.test", **more}


def result_of(fleet: Fleet, job_id: int) -> Any:
    return fleet.master.job(job_id, "opresult")[0][-1]


def log_of(fleet: Fleet, job_id: int) -> list[str]:
    return [entry[3] for lines in fleet.master.job(job_id, "oplog")[0] for entry in lines]


def output_of(fleet: Fleet, job_id: int) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(fleet.master.paths.output.glob(f"job-{job_id}.0*")))


def commands_on(node: FleetNode) -> set[str]:
    """Names of what the node keeps of commands, forgotten ones left out."""
    folder = node.paths.node_commands
    return {path.name for path in folder.iterdir() if path.suffix not in (".gone", "")} if folder.exists() else set()


def locks_of(fleet: Fleet, job_id: int) -> Any:
    found = []
    for lock, owners in fleet.master.wconf(ListAllLocksOwners()):
        found += [(lock, mode) for owner, mode in owners if owner.ident == job_id]
    return found


def shell_parameters(script: str) -> dict[str, Any]:
    parameters = shell(script)
    return {"op_id": parameters.pop("OP_ID"), **parameters}
