"""Whether a machine with a valid token fits among the nodes."""

import pytest

from common.errors import Conflict
from daemons.noded.joining import check_place
from protocol.noded.joining import Join


def asking(address: str) -> Join:
    return Join("01234567", "secret", "request", "node2", address, 1, 0.0)


def test_a_cluster_whose_master_has_a_local_address_takes_no_other_machine() -> None:
    with pytest.raises(Conflict, match=r"'node1' has the address 127.0.0.1 .* set primary_ip"):
        check_place(asking("192.0.2.2"), "", {"node1": "127.0.0.1"})


def test_on_one_machine_all_nodes_have_local_addresses() -> None:
    check_place(asking("127.0.0.2"), "", {"node1": "127.0.0.1"})
