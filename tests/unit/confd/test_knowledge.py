"""The files that confd reads, and those that it cannot read now (confd.md 5)."""

import errno
import json
import os
from pathlib import Path

import pytest

from common.paths import Paths
from daemons.confd.core.catalogue import Catalogue
from daemons.confd.knowledge import CurrentSnapshot
from tests.support.machines.confds import KEY, rich_document

pytestmark = pytest.mark.trio


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    paths = Paths.under_root(tmp_path)
    paths.make_folders()
    paths.hmac_key.write_bytes(KEY)
    paths.config_data.write_text(json.dumps(rich_document()))
    return paths


def refuse(_: Path) -> bytes:
    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


async def test_what_could_not_be_read_for_want_of_descriptors_is_read_again(
    paths: Paths, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    knowledge = CurrentSnapshot(paths)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_bytes", refuse)
        await knowledge.load()
        await knowledge.load()
        assert knowledge.current.key is None
        assert "too many open files" in str(knowledge.current.catalogue)
    # told once, not at each check
    assert [record.message for record in caplog.records].count("key.missing") == 1

    # nothing has changed but that it can be read
    await knowledge.load()

    assert knowledge.current.key == KEY
    assert isinstance(knowledge.current.catalogue, Catalogue)


async def test_a_missing_configuration_is_looked_for_only_when_something_changes(
    paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths.config_data.unlink()
    knowledge = CurrentSnapshot(paths)
    await knowledge.load()
    assert knowledge.current.catalogue == "this node has no configuration: it is no master candidate"

    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_bytes", refuse)
        await knowledge.load()

    assert knowledge.current.key == KEY
