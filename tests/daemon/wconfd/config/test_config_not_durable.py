"""A disk that fails after `config.data` is in its place: the change stands; and one that does not tell whose it is."""

import errno
import os
from pathlib import Path
from typing import Any, cast

import attrs
import pytest
import trio

from common.clusterinit import create_cluster
from common.durable import durably as durably_module
from common.errors import Unavailable
from common.objects.config import Config
from common.paths import Paths
from daemons.wconfd.configfile import ConfigFile
from daemons.wconfd.configstore import ConfigStore
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


def _no_descriptor(*_: object, **__: object) -> Any:
    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


def test_a_configuration_that_cannot_be_looked_at_after_its_write_is_written_and_still_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = Paths.under_root(tmp_path)
    create_cluster(paths, "cluster.test", "node1.test")
    file = ConfigFile(paths.config_data)
    file.read()

    with monkeypatch.context() as short:
        short.setattr(Path, "open", _no_descriptor)
        file.write(b"first")
        # not known, and no verdict
        with pytest.raises(OSError, match="Too many open files"):
            file.write(b"too early")

    assert paths.config_data.read_bytes() == b"first"
    assert file.foreign_change() is None
    file.write(b"second")
    assert paths.config_data.read_bytes() == b"second"


@pytest.mark.trio
async def test_a_file_that_cannot_be_looked_at_is_not_taken_for_one_that_another_program_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nursery: trio.Nursery
) -> None:
    paths = Paths.under_root(tmp_path)
    create_cluster(paths, "cluster.test", "node1.test")
    store = ConfigStore.load(paths)
    await nursery.start(store.run)

    def step(config: Config, now: float) -> tuple[Config, None]:
        return attrs.evolve(config, serial_no=config.serial_no + 1, mtime=now), None

    before = store.config
    with monkeypatch.context() as broken:
        broken.setattr(os, "stat", cast(Any, _no_descriptor))
        with pytest.raises(Unavailable, match="nothing was changed, repeat the call"):
            await store.change(step)

    assert store.config is before
    await store.change(step)
    assert store.config.serial_no == before.serial_no + 1
