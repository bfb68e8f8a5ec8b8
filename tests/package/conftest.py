"""Two versions of the package, and a machine of Debian."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

from tests.systemd.containers.container import Container
from tests.systemd.containers.layers import Layers
from tests.systemd.containers.tree import base_tree

CHECKOUT: Final = Path(__file__).resolve().parents[2]
OLD: Final = "0.9.1"
NEW: Final = "0.9.2"
# variable that names a folder in which packages, once built, are taken as they are
PACKAGES: Final = "GANTRY_PACKAGES"
# folder of the packages on the machine
PUT: Final = "/srv"
_GANETI: Final = ("ganeti", "ganeti-3.0", "ganeti-haskell-3.0", "ganeti-htools-3.0")


@pytest.fixture(scope="session")
def place() -> Iterator[Path]:
    """A folder for containers; not in memory, where overlays may be refused."""
    folder = Path(tempfile.mkdtemp(prefix="gantry-package-", dir="/var/tmp"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def packages(place: Path) -> Mapping[str, Path]:
    """The package in two versions, by their numbers, from the same files."""
    folder = Path(os.environ.get(PACKAGES) or place)
    built = {}
    for version in (OLD, NEW):
        if not list(folder.glob(f"gantry_{version}_*.deb")):
            command = ["make", "--quiet", "deb", f"VERSION={version}", f"OUTPUT={folder}"]
            subprocess.run(command, cwd=CHECKOUT, check=True)
        (built[version],) = folder.glob(f"gantry_{version}_*.deb")
    return built


@pytest.fixture(scope="session")
def ganeti(place: Path) -> tuple[Path, ...]:
    """Packages of Debian's Ganeti."""
    folder = place / "ganeti"
    folder.mkdir()
    done = subprocess.run(["apt-get", "download", "-qq", *_GANETI], cwd=folder, stderr=sys.stderr, check=False)
    if done.returncode != 0:
        pytest.skip("apt cannot download Debian's ganeti")
    return tuple(sorted(folder.glob("*.deb")))


@pytest.fixture(scope="session")
def debian(place: Path) -> Layers:
    """A tree without Gantry."""
    return (base_tree(place),)


@pytest.fixture(scope="session")
def machine(debian: Layers, place: Path, packages: Mapping[str, Path]) -> Iterator[Container]:
    """A booted machine, with the packages in `PUT` and nothing of Gantry installed."""
    with Container(debian, place / "machine") as container:
        for version, package in packages.items():
            container.put(package, f"{PUT}/gantry_{version}.deb")
        yield container
