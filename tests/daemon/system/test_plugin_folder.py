"""Packages in the folder of `[plugins]`: their opcodes are carried out, unless others could change the folder."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from common.daemons import daemon_named
from tests.support.cluster import Cluster

_OPCODES = """
import attrs
from common.lockdecl import declare
from common.opcodes.base import OpCode


@attrs.frozen(kw_only=True)
class OpGreet(OpCode):
    name: str

    def lock_declaration(self, resolve=None):
        return declare({})
"""
_UNITS = """
from daemons.jobproc.units.base import LogicalUnit
from greeting_opcodes import OpGreet


class GreetUnit(LogicalUnit):
    OPCODE = OpGreet

    def run(self, context):
        return f"hello, {self.op.name}"
"""


def put_package(folder: Path) -> None:
    """Make a package as `pip install --target` leaves it."""
    info = folder / "greeting-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: greeting\nVersion: 1.0\n")
    points = "[gantry.opcodes]\ngreeting = greeting_opcodes\n[gantry.units]\ngreeting = greeting_units\n"
    (info / "entry_points.txt").write_text(points)
    (folder / "greeting_opcodes.py").write_text(_OPCODES)
    (folder / "greeting_units.py").write_text(_UNITS)


@pytest.fixture
def plugins(tmp_path: Path) -> Path:
    folder = tmp_path / "plugins"
    folder.mkdir(mode=0o755)
    return folder


@pytest.fixture
def cluster(tmp_path: Path, plugins: Path) -> Iterator[Cluster]:
    """An installation with the folder, of which nothing runs yet."""
    with Cluster(tmp_path / "root", settings=f'[plugins]\nfolder = "{plugins}"\n') as cluster:
        # programs of their own: what the tests fork from has looked for packages already
        cluster.modules = {name: daemon_named(name).module for name in ("forkserver", "luxid")}
        yield cluster


def test_an_opcode_of_a_package_in_the_folder_is_submitted_and_carried_out(cluster: Cluster, plugins: Path) -> None:
    put_package(plugins)
    cluster.start("wconfd", "forkserver", "luxid")

    job = cluster.submit({"OP_ID": "OP_GREET", "name": "jane"})

    assert cluster.wait(job) == ["success"]
    assert cluster.job(job, "opresult") == (["hello, jane"],)


def test_without_the_folder_the_daemons_run(cluster: Cluster, plugins: Path) -> None:
    plugins.rmdir()

    cluster.start("wconfd", "forkserver", "luxid")

    assert cluster.wait(cluster.submit({"OP_ID": "OP_TEST_DUMMY"})) == ["success"]


@pytest.mark.parametrize("daemon", ["forkserver", "luxid"])
@pytest.mark.parametrize("part", [".", "greeting_units.py"])
def test_a_folder_that_others_can_change_is_refused_and_why_is_told(
    cluster: Cluster, plugins: Path, daemon: str, part: str
) -> None:
    put_package(plugins)
    (plugins / part).chmod(0o777)
    cluster.start("wconfd")

    told = f"'{plugins}' is not safe to use: '{plugins / part}' can be written by every user; take that away"
    with pytest.raises(AssertionError, match=re.escape(told)):
        cluster.start(daemon)
