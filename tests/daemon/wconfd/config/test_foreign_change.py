"""A configuration that another program changes: noticed at once, never written over, and taken over on request."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from common.clusterinit import create_cluster
from common.paths import Paths
from daemons.wconfd import configfile
from daemons.wconfd.configfile import ConfigFile, ForeignChange
from tests.daemon.wconfd.wire import Refused, Wire, WireOwner
from tests.support.cluster import Cluster
from tests.support.wait import wait_until


def overwrite(cluster: Cluster, config: Any) -> None:
    """As a shell does: the same file with another content."""
    cluster.paths.config_data.write_bytes(orjson.dumps(config))


def put(cluster: Cluster, config: Any) -> None:
    """As an editor does: a new file under the old name."""
    new = cluster.paths.config_data.with_name("new")
    new.write_bytes(orjson.dumps(config))
    new.rename(cluster.paths.config_data)


def renamed(config: dict[str, Any], name: str) -> dict[str, Any]:
    return {**config, "cluster": {**config["cluster"], "cluster_name": name}}


def test_our_own_writes_are_not_foreign(cluster: Cluster, call: Wire) -> None:
    port = call("allocatePort")

    status = call("configStatus")

    config = call("readConfig")
    assert status == {
        "path": str(cluster.paths.config_data),
        "serial_no": config["serial_no"],
        "mtime": config["mtime"],
        "foreign_change": None,
    }
    assert (port, config["cluster"]["highest_used_port"]) == (11000, 11000)
    assert "config.foreign" not in cluster.log("wconfd")


@pytest.mark.parametrize("change", [put, overwrite])
def test_a_change_is_logged_at_once_and_the_daemon_goes_on_reading(
    cluster: Cluster, call: Wire, change: Callable[[Cluster, Any], None]
) -> None:
    config = call("readConfig")

    change(cluster, renamed(config, "other"))

    wait_until(lambda: "config.foreign" in cluster.log("wconfd"), what="the change is logged")
    assert "was changed by another program" in call("configStatus")["foreign_change"]
    assert call("readConfig") == config
    with pytest.raises(Refused, match=r"changed by another program.*reloadConfig"):
        call("allocatePort")


def test_a_removed_file_is_noticed_and_one_put_back_is_right_again(cluster: Cluster, call: Wire) -> None:
    path = cluster.paths.config_data
    aside = path.with_name("aside")

    path.rename(aside)
    wait_until(lambda: "config.foreign" in cluster.log("wconfd"), what="the removal is logged")
    assert "was removed" in call("configStatus")["foreign_change"]
    aside.rename(path)

    wait_until(lambda: "config.no_longer_foreign" in cluster.log("wconfd"), what="its return is logged")
    assert call("configStatus")["foreign_change"] is None
    assert call("allocatePort") == 11000


def test_a_sound_file_is_taken_over_under_a_serial_that_nobody_has_seen(cluster: Cluster, call: Wire) -> None:
    config = call("readConfig")
    put(cluster, renamed(config, "other"))

    status = call("reloadConfig")

    after = call("readConfig")
    assert (after["cluster"]["cluster_name"], after["serial_no"]) == ("other", config["serial_no"] + 1)
    assert (status["serial_no"], status["foreign_change"]) == (after["serial_no"], None)
    assert orjson.loads(cluster.paths.config_data.read_bytes()) == after
    assert call("allocatePort") == 11000
    wait_until(lambda: cluster.paths.ssconf_file("cluster_name").read_text() == "other\n", what="this node is told")


def test_an_unsound_file_is_refused_with_all_problems_and_stays_foreign(cluster: Cluster, call: Wire) -> None:
    config = call("readConfig")
    bad = renamed(config, "other")
    bad["cluster"] |= {"enabled_disk_templates": [], "master_node": "nobody"}
    put(cluster, bad)

    with pytest.raises(Refused, match="no disk template is enabled; the master node 'nobody' is none"):
        call("reloadConfig")

    assert call("readConfig") == config
    assert call("configStatus")["foreign_change"] is not None
    with pytest.raises(Refused, match="changed by another program"):
        call("allocatePort")
    assert orjson.loads(cluster.paths.config_data.read_bytes()) == bad


def test_a_file_that_nobody_changed_is_reloaded_for_nothing(cluster: Cluster, call: Wire) -> None:
    config = call("readConfig")

    assert call("reloadConfig")["serial_no"] == config["serial_no"]
    assert call("readConfig") == config


def test_nothing_is_taken_over_while_somebody_may_write_over_it(
    cluster: Cluster, call: Wire, job: Callable[[int], WireOwner]
) -> None:
    config = call("lockConfig", job(1), False)
    put(cluster, renamed(config, "other"))

    with pytest.raises(Refused, match="the configuration is locked by job/1"):
        call("reloadConfig")

    assert call("readConfig") == config


def test_a_write_that_fails_after_a_reload_does_not_make_older_memory_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = Paths.under_root(tmp_path)
    create_cluster(paths, "cluster.test", "node1.test")
    file = ConfigFile(paths.config_data)
    file.read()
    theirs = orjson.dumps(renamed(orjson.loads(paths.config_data.read_bytes()), "theirs"))
    paths.config_data.write_bytes(theirs)

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    for _ in range(2):
        file.read()
        with monkeypatch.context() as broken:
            broken.setattr(configfile, "write_file", full)
            with pytest.raises(OSError, match="No space left"):
                file.write(b"ours")
        with pytest.raises(ForeignChange):
            file.write(b"ours")

    file.read()
    file.write(b"theirs, normalised")
    file.write(b"and changed")
    assert file.foreign_change() is None
