"""One tree for all scenarios, and one container for those that leave it as it was."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.systemd.containers.container import Container
from tests.systemd.containers.layers import Layers
from tests.systemd.containers.prepared import Prepared
from tests.systemd.containers.tree import PACKAGE
from tests.systemd.engine import Engine

# settings with which all daemons run on one machine, but keeperd
ALL: Final = """[cluster]
replication = "nodes"
[rapid]
enabled = true
address = "127.0.0.1"
[confd]
enabled = "yes"
[mond]
enabled = "yes"
"""
MakeContainer = Callable[[], Container]


@pytest.fixture(scope="session")
def place() -> Iterator[Path]:
    """A folder for containers of this process; not in memory, where overlays may be refused."""
    folder = Path(tempfile.mkdtemp(prefix="gantry-systemd-", dir="/var/tmp"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def prepared() -> Prepared:
    return Prepared.find()


@pytest.fixture(scope="session")
def tree(prepared: Prepared) -> Layers:
    """Debian with Gantry installed, and nothing configured."""
    return prepared.installed


@pytest.fixture(scope="session")
def make_container(place: Path, tree: Layers) -> MakeContainer:
    """Returns a container that is not booted yet; the caller enters it."""
    made = iter(range(1000))
    return lambda: Container(tree, place / f"c{next(made)}")


@pytest.fixture
def bare(prepared: Prepared, place: Path) -> Iterator[Container]:
    """A machine without Gantry, with the package as a file."""
    with Container(prepared.debian, place / "bare") as container:
        container.put(prepared.package, PACKAGE)
        yield container


@pytest.fixture
def fresh(make_container: MakeContainer) -> Iterator[Container]:
    """A machine of the test's own, on which Gantry was never started."""
    with make_container() as container:
        yield container


@pytest.fixture(scope="session")
def running(make_container: MakeContainer) -> Iterator[Engine]:
    """An installation with all daemons, shared; use `engine`."""
    with make_container() as container:
        container.write("/etc/gantry/gantry.toml", ALL)
        engine = Engine(container)
        engine.start()
        yield engine


@pytest.fixture
def engine(running: Engine) -> Iterator[Engine]:
    """The shared installation; it must be sound before and after the test."""
    running.until_active(*ALWAYS)
    yield running
    running.container.check("systemctl reset-failed")
    running.until_active(*ALWAYS)


ALWAYS: Final = ("wconfd", "forkserver", "luxid", "rapid", "noded", "confd", "mond")
