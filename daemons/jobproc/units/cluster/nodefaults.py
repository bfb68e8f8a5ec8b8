"""What is wrong with nodes by their own replies. Imported late: other units call no nodes.

Source: noded.md 6, node_verify; recorded jobs.
"""

import hashlib
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, assert_never

import attrs

from common.objects.config import CONFIG_VERSION, Node
from common.shapes import JsonObject
from daemons.jobproc.context import UnitContext
from daemons.jobproc.units.cluster.findings import (
    NODE_CERTIFICATE,
    NODE_FILES,
    NODE_RPC,
    NODE_SETUP,
    NODE_TIME,
    NODE_VERSION,
    FaultKind,
    Findings,
)
from daemons.jobproc.units.nodecalls import address_of, master_client
from daemons.jobproc.units.sharedfiles import shared_files
from protocol.noded.call import Failed, Outcome, Replied, Skipped
from protocol.noded.facts import Check, NodeVerify
from protocol.noded.files import WireNames

_LIMIT_S: Final = 30.0
# seconds by which a node's clock may differ, as in Ganeti
_SKEW_S: Final = 150.0


@attrs.frozen
class NodeFaults:
    """Faults found, in the order of the nodes."""

    # (kind of fault, node, text, whether it is a warning)
    found: tuple[tuple[FaultKind, str, str, bool], ...] = ()

    def tell(self, findings: Findings) -> None:
        for fault, node, text, is_warning in self.found:
            findings.add(fault, text, item=node, is_warning=is_warning)


@attrs.frozen
class Expected:
    """What a good node replies."""

    # name on the wire -> SHA1 of the content
    files: Mapping[str, str]
    # seconds since the epoch, before and after the call
    asked_at: float
    heard_at: float


def ask_nodes(context: UnitContext, nodes: Sequence[Node]) -> NodeFaults:
    """Ask these nodes, which are online, and judge their replies by the files of this node, the master."""
    settings = context.settings
    names = WireNames.of_installation(settings.root, os.environ)
    files = {names.to_wire(path): _digest(path.read_bytes()) for path in shared_files(settings.paths.data)}
    checks = {Check.FILES: list(files), Check.VERSION: None, Check.TIME: None, Check.CLIENT_CERT: None}
    checks[Check.NODE_SETUP] = None
    client = master_client(settings)
    addresses = [address_of(node, settings) for node in nodes]
    call = NodeVerify({check.value: what for check, what in checks.items()}, context.config.cluster.cluster_name, {})
    asked_at = time.time()
    outcomes = client.call_nodes(addresses, call, _LIMIT_S)
    expected = Expected(files, asked_at, time.time())
    return NodeFaults(tuple(fault for node in nodes for fault in judge(node.name, outcomes[node.name], expected)))


def judge(name: str, outcome: Outcome[JsonObject], expected: Expected) -> Iterator[tuple[FaultKind, str, str, bool]]:
    """The faults of one node. Pure."""
    match outcome:
        case Failed():
            yield NODE_RPC, name, f"while contacting node: {outcome.text}", False
        case Replied():
            for fault, text, is_warning in _faults(outcome.value, expected):
                yield fault, name, text, is_warning
        case Skipped():
            # offline nodes are not asked
            return
        case _:
            assert_never(outcome)


def _faults(reply: JsonObject, expected: Expected) -> Iterator[tuple[FaultKind, str, bool]]:
    match reply.get(Check.VERSION):
        case [protocol, _] if protocol == CONFIG_VERSION:
            pass
        case other:
            yield NODE_VERSION, f"incompatible protocol versions: master {CONFIG_VERSION}, node {other}", False
    match reply.get(Check.TIME):
        case [int() as seconds, int() as microseconds]:
            now = seconds + microseconds / 1e6
            # the node told its time at some instant between the two
            diverges_s = max(expected.asked_at - now, now - expected.heard_at)
            if diverges_s > _SKEW_S:
                yield NODE_TIME, f"Node time diverges by at least {diverges_s:.1f}s from master", False
        case _:
            yield NODE_TIME, "Node returned invalid time", False
    found = reply.get(Check.FILES)
    digests = found if isinstance(found, dict) else {}
    for file, digest in expected.files.items():
        if file not in digests:
            yield NODE_FILES, f"File {file} is missing", False
        elif digests[file] != digest:
            yield NODE_FILES, f"File {file} differs from the master's; send it with: gnt-cluster redist-conf", False
    setup = reply.get(Check.NODE_SETUP)
    for text in setup if isinstance(setup, list) else ():
        yield NODE_SETUP, f"node setup error: {text}", False
    # Ganeti's pair: the weight of a fault and its text; or null, and the digest of a good certificate
    match reply.get(Check.CLIENT_CERT):
        case [str() as weight, text]:
            yield NODE_CERTIFICATE, str(text), weight == "WARNING"
        case _:
            pass


def _digest(content: bytes) -> str:
    return hashlib.sha1(content, usedforsecurity=False).hexdigest()
