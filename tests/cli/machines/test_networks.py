"""`gnt-network` from end to end: real daemons, one story (opcodes.md 4; cli.md 1)."""

import json
from collections.abc import Iterator

import pytest

from tests.cli.command import Ended, normalised, run
from tests.cli.verbs.gantry.test_completion import complete
from tests.support.cluster import Cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster with a network `front`, connected to its only group."""
    with Cluster(tmp_path_factory.mktemp("c")) as cluster:
        cluster.start()
        words = ("--gateway", "192.0.2.1", "--mac-prefix", "aa:00:55", "--tags", "lab,rack:1")
        assert network(cluster, "add", "--network", "192.0.2.0/28", *words, "front") == Ended(0, "", "")
        connected = network(cluster, "connect", "--nic-parameters", "mode=bridged,link=br0", "front")
        assert connected == Ended(0, "", "")
        yield cluster


def network(cluster: Cluster, *words: object) -> Ended:
    return run("gnt-network", "--root", cluster.root, *words)


def test_a_list_shows_the_groups_with_the_parameters_of_their_connections(cluster: Cluster) -> None:
    listed = network(cluster, "list")

    assert (listed.code, listed.err) == (0, "")
    assert normalised(listed.out) == (
        "Network  Subnet  Gateway  MacPrefix  GroupList  Tags\n"
        "front  192.0.2.0/28  192.0.2.1  aa:00:55  default (bridged, br0, )  lab,rack:1\n"
    )
    assert json.loads(network(cluster, "list", "--output", "json", "-o", "name,free_count").out) == [
        {"name": "front", "free_count": 13}
    ]


def test_info_has_ganetis_lines(cluster: Cluster) -> None:
    told = network(cluster, "info", "front")

    assert (told.code, told.err) == (0, "")
    lines = told.out.splitlines()
    assert lines[0] == "Network name: front"
    assert lines[3:] == [
        "  Subnet: 192.0.2.0/28",
        "  Gateway: 192.0.2.1",
        "  IPv6 Subnet: None",
        "  IPv6 Gateway: None",
        "  Mac Prefix: aa:00:55",
        "  Size: 16",
        "  Free: 13 (81.25%)",
        "  Usage map:",
        f"        0 {'XX.............X':64} 63",
        "         (X) used    (.) free",
        "  externally reserved IPs:",
        "    192.0.2.0, 192.0.2.1, 192.0.2.15",
        "  connected to node groups:",
        "    default (mode:bridged link:br0 vlan:)",
        "  not used by any instances",
    ]


def test_a_network_is_changed_renamed_and_goes_when_nothing_uses_it(cluster: Cluster) -> None:
    assert network(cluster, "add", "--network", "198.51.100.0/30", "back") == Ended(0, "", "")
    changed = network(cluster, "modify", "--gateway", "198.51.100.1", "--network6", "2001:db8::/64", "back")
    renamed = network(cluster, "rename", "back", "behind")
    again = network(cluster, "modify", "--remove-reserved-ips", "198.51.100.1", "behind")

    assert (changed, renamed) == (Ended(0, "", ""), Ended(0, "", ""))
    assert (again.code, again.out) == (0, "")
    assert again.err.endswith(" - WARNING: Cannot unreserve Gateway's IP\n")
    fields = ("--no-headers", "--separator", "|", "-o", "name,gateway,network6,external_reservations")
    assert network(cluster, "list", *fields, "behind").out == (
        "behind|198.51.100.1|2001:db8::/64|198.51.100.0, 198.51.100.1, 198.51.100.3\n"
    )
    assert network(cluster, "remove", "behind") == Ended(0, "", "")
    assert network(cluster, "list", "--no-headers", "-o", "name").out == "front\n"


def test_a_refusal_is_an_error_in_one_line(cluster: Cluster) -> None:
    in_use = network(cluster, "remove", "front")
    unknown = network(cluster, "connect", "-N", "bridge=br0", "front")

    assert (in_use.code, in_use.out) == (1, "")
    assert in_use.err.count("\n") == 1
    assert "network 'front' is still connected to group 'default'; disconnect it first: gnt-network" in in_use.err
    assert unknown.code == 2
    assert unknown.err.startswith("error: interfaces have no parameter 'bridge'; known are mode, link, vlan")


def test_a_dry_run_changes_nothing_and_names_complete(cluster: Cluster) -> None:
    assert network(cluster, "disconnect", "--dry-run", "front", "default") == Ended(0, "", "")

    assert network(cluster, "list", "--no-headers", "-o", "group_cnt", "front").out == "1\n"
    assert complete("gnt-network", "--root", cluster.root, "info", "fr") == ["front"]
    assert complete("gnt-network", "--root", cluster.root, "connect", "front", "de") == ["default"]
