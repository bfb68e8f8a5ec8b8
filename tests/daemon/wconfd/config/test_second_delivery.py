"""An update whose reply was lost is sent again, and succeeds after any other changes (DESIGN section 4)."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.wconfd.wire import Refused, Wire
from tests.support.cluster import Cluster

Connect = Callable[..., Wire]


def update_of_the_cluster(call: Wire, **changes: Any) -> dict[str, Any]:
    """The cluster as it is to be, from the state that it has now."""
    return {**call("readConfig")["cluster"], **changes}


def change_all_around(call: Wire) -> None:
    """Changes that others make: of the object's content alone, and of its serial number too."""
    call("allocatePort")
    (node,) = call("readConfig")["nodes"].values()
    call("updateNode", node)


@pytest.fixture
def keeps_notes(tmp_path: Path) -> None:
    try:
        os.setxattr(tmp_path, "user.test", b"1")
    except OSError as error:
        pytest.skip(f"this file system keeps nothing beside its files: {error}")


@pytest.mark.usefixtures("keeps_notes")
def test_it_is_known_again_by_the_next_daemon(cluster: Cluster, connect: Connect) -> None:
    call = connect()
    given = update_of_the_cluster(call, maintain_node_health=True)
    stamp = call("updateCluster", given)
    change_all_around(call)

    cluster.restart("wconfd")
    call = connect()

    before = cluster.paths.config_data.read_bytes()
    assert call("updateCluster", given) == stamp
    assert cluster.paths.config_data.read_bytes() == before


def test_it_is_known_again_over_another_connection(cluster: Cluster, connect: Connect) -> None:
    given = update_of_the_cluster(connect(), maintain_node_health=True)
    stamp = connect()("updateCluster", given)
    change_all_around(connect())

    assert connect()("updateCluster", given) == stamp
    with pytest.raises(Refused, match="was changed since it was read"):
        connect()("updateCluster", {**given, "maintain_node_health": False})


def test_an_update_that_a_file_from_a_backup_has_undone_is_not_known(cluster: Cluster, connect: Connect) -> None:
    call = connect()
    backup = cluster.paths.config_data.read_bytes()
    given = update_of_the_cluster(call, maintain_node_health=True)
    call("updateCluster", given)

    cluster.kill("wconfd")
    cluster.paths.config_data.write_bytes(backup)
    cluster.start("wconfd")
    call = connect()

    assert call("updateCluster", given)[0] == given["serial_no"] + 1
    assert call("readConfig")["cluster"]["maintain_node_health"] is True
