"""What the replies of nodes tell about them (noded.md 6, node_verify; recorded jobs)."""

from typing import Any

import pytest

from common.objects.config import CONFIG_VERSION
from common.opcodes.cluster import OpClusterVerifyGroup
from daemons.jobproc.units.cluster.findings import Findings
from daemons.jobproc.units.cluster.nodefaults import Expected, NodeFaults, judge
from protocol.noded.call import Failed, FailureKind, Replied, Skipped

FILE = "/var/lib/ganeti/hmac.key"
EXPECTED = Expected({FILE: "aa"}, 1000.0, 1010.0)
GOOD: dict[str, object] = {
    "version": [CONFIG_VERSION, "3.0.2"],
    "time": [1005, 0],
    "filelist": {FILE: "aa"},
    "nodesetup": [],
    "client-cert": [None, "AA:BB"],
}


def lines(outcome: Any, **parameters: Any) -> list[str]:
    told: list[str] = []
    faults = NodeFaults(tuple(judge("web2", outcome, EXPECTED)))
    faults.tell(Findings(OpClusterVerifyGroup(group_name="default", reason=(), **parameters), told.append))
    return told


def test_a_node_whose_replies_are_good_has_no_faults() -> None:
    assert lines(Replied(GOOD)) == []
    assert lines(Skipped()) == []


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            {"version": [2150000, "2.15"]},
            f"incompatible protocol versions: master {CONFIG_VERSION}, node [2150000, ",
        ),
        ({"time": [2000, 0]}, "Node time diverges by at least 990.0s from master"),
        # at its reply, or at the question: no later one is proved
        ({"time": [1160, 500_000]}, "Node time diverges by at least 150.5s from master"),
        ({"time": [849, 500_000]}, "Node time diverges by at least 150.5s from master"),
        ({"time": "now"}, "Node returned invalid time"),
        ({"filelist": {}}, f"File {FILE} is missing"),
        ({"filelist": {FILE: "bb"}}, f"File {FILE} differs from the master's; send it with: gnt-cluster redist-conf"),
        ({"nodesetup": ["the folder '/x' is missing"]}, "node setup error: the folder '/x' is missing"),
        ({"client-cert": ["ERROR", "it is missing"]}, "it is missing"),
    ],
)
def test_a_wrong_reply_is_a_fault_of_the_node(change: dict[str, object], text: str) -> None:
    (line,) = lines(Replied({**GOOD, **change}))

    assert line.startswith(("  - ERROR: node web2: ", "  - ERROR: cluster web2: "))
    assert line.partition(" web2: ")[2].startswith(text)


def test_a_certificate_that_ends_soon_is_a_warning_and_silence_a_fault() -> None:
    assert lines(Replied({**GOOD, "client-cert": ["WARNING", "it ends soon"]})) == [
        "  - WARNING: cluster web2: it ends soon"
    ]
    assert lines(Failed(FailureKind.UNREACHABLE, "no route"), error_codes=True) == [
        "  - ERROR:ENODERPC:node:web2:while contacting node: no route"
    ]
