"""What a node lacks of the configuration, and what failures mean (noded.md 8; wconfd.md 7.5)."""

import pytest

from daemons.wconfd.core.config.nodechanges import with_masters
from daemons.wconfd.core.config.replicas import CallFailure, NodeHolding, Part
from protocol.noded.files import group_on_wire, user_on_wire
from tests.support.configs import UUIDS, small_config

BOTH = {Part.SSCONF: 3, Part.CONFIG: 7}
FULL = NodeHolding(BOTH)


def test_a_node_lacks_ssconf_first_then_the_file_and_then_nothing() -> None:
    first = NodeHolding()
    second = first.received(Part.SSCONF, 3)

    assert (first.lacks(BOTH), second.lacks(BOTH)) == (Part.SSCONF, Part.CONFIG)
    assert second.received(Part.CONFIG, 7).lacks(BOTH) is None


def test_a_node_that_is_no_candidate_does_not_lack_the_file() -> None:
    assert NodeHolding({Part.SSCONF: 3}).lacks({Part.SSCONF: 3}) is None


@pytest.mark.parametrize(
    ("failure", "lacked", "in_doubt"),
    [
        (CallFailure.REFUSED, Part.CONFIG, False),
        (CallFailure.SILENT, Part.SSCONF, False),
        (CallFailure.UNKNOWN, Part.SSCONF, True),
    ],
)
def test_what_a_failure_leaves_is_unknown(failure: CallFailure, lacked: Part, in_doubt: bool) -> None:
    after = FULL.failed(Part.CONFIG, failure)

    assert (after.lacks(BOTH), after.in_doubt) == (lacked, in_doubt)


def test_a_node_in_doubt_gets_everything_once_more() -> None:
    again = NodeHolding().failed(Part.CONFIG, CallFailure.UNKNOWN).received(Part.SSCONF, 3).received(Part.CONFIG, 7)

    assert (again.lacks(BOTH), again.in_doubt) == (None, True)
    assert again.settled() == NodeHolding()
    assert FULL.settled() is FULL


def test_the_masters_certificate_is_named_only_where_there_is_none() -> None:
    config = small_config()

    named = with_masters(config, "AA:BB", 100.0)

    assert dict(named.cluster.candidate_certs) == {**config.cluster.candidate_certs, UUIDS.node: "AA:BB"}
    assert (named.serial_no, named.cluster.serial_no) == (config.serial_no + 1, config.cluster.serial_no + 1)
    assert with_masters(named, "CC:DD", 101.0) is named


def test_owners_that_node_daemons_do_not_take_are_named_as_ours() -> None:
    assert [user_on_wire(name) for name in ("root", "gnt-masterd", "alice")] == ["root", "gnt-masterd", "gantry"]
    assert [group_on_wire(name) for name in ("gnt-daemons", "users")] == ["gnt-daemons", "gantry"]
