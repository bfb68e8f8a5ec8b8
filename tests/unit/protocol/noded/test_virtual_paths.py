"""Names of files between nodes that share a machine, and those that do not (noded.md 7)."""

from pathlib import Path

import pytest

from common.errors import InvalidRequest
from protocol.noded.files import WireNames

NODE1 = WireNames(Path("/x/node1"))
NODE2 = WireNames(Path("/x/node2"))


def test_without_a_root_names_travel_unchanged() -> None:
    path = Path("/var/lib/ganeti/queue/job-1")

    assert WireNames().to_wire(path) == str(path)
    assert WireNames().from_wire(str(path)) == path


def test_a_file_of_one_root_is_the_same_file_below_another() -> None:
    name = NODE1.to_wire(Path("/x/node1/var/lib/ganeti/queue/job-1"))

    assert name == "/###-VIRTUAL-PATH-###,/var/lib/ganeti/queue/job-1"
    assert NODE2.from_wire(name) == Path("/x/node2/var/lib/ganeti/queue/job-1")


def test_the_hosts_file_is_the_machines() -> None:
    assert NODE1.to_wire(Path("/etc/hosts")) == "/etc/hosts"
    assert NODE1.from_wire("/etc/hosts") == Path("/etc/hosts")


@pytest.mark.parametrize(
    ("names", "name", "said"),
    [
        (NODE1, "/x/node1/var/lib/ganeti/queue/job-1", "is not a virtual path"),
        (NODE1, "/###-VIRTUAL-PATH-###,/../node2/secret", "without '.', '..'"),
        (NODE1, "/###-VIRTUAL-PATH-###,//etc/shadow", "without '.', '..' or doubled slashes"),
        (NODE1, "/###-VIRTUAL-PATH-###,etc/shadow", "must be an absolute path"),
        (NODE1, "/###-VIRTUAL-PATH-###,", "must be an absolute path"),
        (NODE1, "/###-VIRTUAL-PATH-###,/###-VIRTUAL-PATH-###,/../a", "without '.', '..'"),
        (NODE1, "/###-VIRTUAL-PATH-###,/etc/ho\0sts", "must be an absolute path"),
        (WireNames(), "/###-VIRTUAL-PATH-###,/var/lib/ganeti/queue/job-1", "this node is in none"),
        (WireNames(), "/var/lib/ganeti/queue/../secret", "without '.', '..'"),
        (WireNames(), "queue/job-1", "must be an absolute path"),
        (WireNames(), "//var/lib", "doubled slashes"),
        (WireNames(), "", "must be an absolute path"),
    ],
)
def test_a_name_that_leads_elsewhere_is_refused(names: WireNames, name: str, said: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        names.from_wire(name)

    assert said in caught.value.message


@pytest.mark.parametrize("path", ["/x/node2/file", "/x/node1", "relative", "/x/node1/../node2/file"])
def test_a_path_beyond_the_root_is_not_sent(path: str) -> None:
    with pytest.raises(InvalidRequest):
        NODE1.to_wire(Path(path))


def test_the_root_is_that_of_ganetis_variables() -> None:
    both = {"GANETI_ROOTDIR": "/x/node1", "GANETI_HOSTNAME": "node1"}

    assert WireNames.of_environment(both) == NODE1
    assert WireNames.of_environment({}) == WireNames()


@pytest.mark.parametrize(
    "environment",
    [
        {"GANETI_ROOTDIR": "/x/node1"},
        {"GANETI_HOSTNAME": "node1"},
        {"GANETI_ROOTDIR": "/x/node1", "GANETI_HOSTNAME": "node2"},
        {"GANETI_ROOTDIR": "x/node1", "GANETI_HOSTNAME": "node1"},
    ],
)
def test_half_a_virtual_cluster_is_refused(environment: dict[str, str]) -> None:
    with pytest.raises(InvalidRequest, match="GANETI_ROOTDIR"):
        WireNames.of_environment(environment)
