"""What one run of the scenarios makes before the first of them, for all its processes."""

import os
import shutil
from pathlib import Path
from typing import Final, Self

import attrs

from tests.systemd.containers.layers import Layers
from tests.systemd.containers.tree import base_tree, build_package, installed_tree

# variable by which processes of the run find its folder
_PLACE: Final = "GANTRY_SYSTEMD_PLACE"
_PACKAGE: Final = "gantry.deb"
_LAYERS: Final = "layers"


@attrs.frozen
class Prepared:
    """Trees and the package."""

    debian: Layers
    # with the package, not configured
    installed: Layers
    package: Path

    @classmethod
    def make(cls, place: Path) -> None:
        """Build the package and install it. Raises: CalledProcessError."""
        built = build_package(place / "dist")
        shutil.move(built, place / _PACKAGE)
        layers = installed_tree(base_tree(place), place / _PACKAGE, place / "installed")
        (place / _LAYERS).write_text("\n".join(map(str, layers)))
        os.environ[_PLACE] = str(place)

    @classmethod
    def find(cls) -> Self:
        """What this run has made. Raises: AssertionError: pytest was started by itself."""
        found = os.environ.get(_PLACE)
        assert found, "nothing is prepared; run the scenarios with: python -m tests.systemd"
        place = Path(found)
        layers = tuple(map(Path, (place / _LAYERS).read_text().split("\n")))
        return cls((base_tree(place),), layers, place / _PACKAGE)
