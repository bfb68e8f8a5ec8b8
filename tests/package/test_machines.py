"""Three machines that are upgraded one at a time: commands run on, and machines of both versions work together."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

from tests.package.conftest import NEW, OLD, PUT
from tests.package.test_life import install, version_of
from tests.systemd.containers.layers import Layers
from tests.systemd.engine import PATIENCE_S
from tests.systemd.machines import NAMES, Machines, booted, make_cluster
from tests.systemd.remotecommand import RemoteCommand

_SETTINGS: Final = '[cluster]\nreplication = "nodes"\n'


@pytest.fixture
def machines(debian: Layers, place: Path, packages: Mapping[str, Path]) -> Iterator[Machines]:
    """A cluster of the old version."""
    with booted(debian, place) as found:
        for engine in found.engines:
            for version, package in packages.items():
                engine.container.put(package, f"{PUT}/gantry_{version}.deb")
            install(engine.container, OLD)
        make_cluster(found, _SETTINGS)
        yield found


def test_no_command_fails_while_one_machine_after_the_other_gets_a_new_version(machines: Machines) -> None:
    master = machines.until_master()
    commands = [RemoteCommand(machines, master, name) for name in NAMES]
    for command in commands:
        command.until_begun()
    processes = [command.pid() for command in commands]

    # the master last: its daemons of the old version ask node daemons of the new one
    for name in (*machines.others(master), master):
        engine = machines[name]
        install(engine.container, NEW)
        engine.until_active("noded")
        assert version_of(engine.container, engine.pid("noded")) == NEW
        machines.until_copied(machines.until_master())
        for node in NAMES:
            said = machines[master].container.check(f"gnt-job run --wait --node {node} -- hostname", limit_s=PATIENCE_S)
            assert said.splitlines()[-1] == node
        assert [command.pid() for command in commands] == processes

    assert [command.output_at_end()[-1] for command in commands] == ["ended"] * len(NAMES)
