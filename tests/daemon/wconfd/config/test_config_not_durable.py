"""A disk that fails after `config.data` is in its place: the change stands."""

from pathlib import Path

import pytest

from common.clusterinit import create_cluster
from common.durable import durably as durably_module
from common.paths import Paths
from daemons.wconfd.configfile import ConfigFile
from tests.support.fakes.failing import FailingFsync, count_renames


def test_a_configuration_that_is_in_its_place_is_not_refused_because_a_folder_is_not_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(durably_module, "RETRY_S", 0)
    paths = Paths.under_root(tmp_path)
    create_cluster(paths, "cluster.test", "node1.test")
    file = ConfigFile(paths.config_data)
    file.read()
    failing = FailingFsync(is_folder=True, failures_left=2).install(monkeypatch)
    renames = count_renames(monkeypatch)

    file.write(paths.config_data.read_bytes())

    assert failing.failures_left == 0
    assert renames == ["config.data"]
    assert file.foreign_change() is None
