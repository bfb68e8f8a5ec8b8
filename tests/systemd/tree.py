"""The trees that containers are made from: Debian with systemd, and that with the package of Gantry installed."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

CHECKOUT: Final = Path(__file__).resolve().parents[2]
# place of the package in a tree
PACKAGE: Final = "root/gantry.deb"
# what systemd and the tests need, and what the package depends on
_PACKAGES: Final = "systemd-sysv,dbus,libpam-systemd,python3,libstdc++6,passwd,logrotate,procps"


def base_tree(folder: Path) -> Path:
    """Debian with systemd, from Debian's servers unless an earlier call left it there. Raises: CalledProcessError."""
    tree = folder / "debian"
    mark = folder / "debian.whole"
    if not mark.exists():
        shutil.rmtree(tree, ignore_errors=True)
        _call("mmdebstrap", "--variant=minbase", f"--include={_PACKAGES}", "bookworm", str(tree))
        # logs that are kept over a reboot
        (tree / "var/log/journal").mkdir(exist_ok=True)
        mark.touch()
    return tree


def tree_with_package(debian: Path, folder: Path) -> Path:
    """A copy that has the newest built package beside it, not installed."""
    tree = folder / "with-package"
    _call("cp", "-a", "--reflink=auto", str(debian), str(tree))
    shutil.copy(newest_package(), tree / PACKAGE)
    return tree


def installed_tree(with_package: Path, folder: Path) -> Path:
    """A copy in which the package is installed, and nothing is configured."""
    tree = folder / "installed"
    _call("cp", "-a", "--reflink=auto", str(with_package), str(tree))
    _call(
        "systemd-nspawn", "--quiet", "--register=no", "--keep-unit", f"--directory={tree}", "dpkg", "-i", f"/{PACKAGE}"
    )
    return tree


def newest_package() -> Path:
    """What `make deb` has built last. Raises: AssertionError: nothing."""
    found = sorted((CHECKOUT / "dist").glob("gantry_*.deb"), key=lambda path: path.stat().st_mtime)
    assert found, "no package in dist; build it with: make deb"
    return found[-1]


def _call(*command: str) -> None:
    subprocess.run(command, check=True, stdout=sys.stderr, stdin=subprocess.DEVNULL)
