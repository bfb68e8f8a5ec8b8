"""The trees that containers are made from: Debian with systemd, and above it what installing Gantry has written."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.systemd.containers.layers import Layers, mount_script

CHECKOUT: Final = Path(__file__).resolve().parents[3]
# variable that names the folder in which the tree of Debian is kept for the next time
TREE: Final = "GANTRY_SYSTEMD_TREE"
# place of the package in an installed tree
PACKAGE: Final = "root/gantry.deb"
# what systemd and the tests need, and what the package depends on
_PACKAGES: Final = "systemd-sysv,dbus,libpam-systemd,python3,libstdc++6,passwd,logrotate,procps"
# a tree that was half written when the power went is not used: nothing needs to be synced
_UNSYNCED: Final = "--dpkgopt=force-unsafe-io"
# a machine that is busy with all else takes long to start a daemon
_PATIENCE: Final = "[Manager]\nDefaultTimeoutStartSec=10min\n"
_INSTALL: Final = """set -e
mount --make-rprivate /
{mount}
exec systemd-nspawn --quiet --register=no --keep-unit --directory={folder}/root dpkg -i /{package}
"""


def base_tree(place: Path) -> Path:
    """Debian with systemd, from Debian's servers unless an earlier call left it there.

    Args: place: the folder for it, if `TREE` names none.
    Raises: CalledProcessError.
    """
    folder = Path(os.environ.get(TREE) or place)
    tree = folder / "debian"
    mark = folder / "debian.whole"
    if not mark.exists():
        folder.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(tree, ignore_errors=True)
        _call("mmdebstrap", "--variant=minbase", _UNSYNCED, f"--include={_PACKAGES}", "bookworm", str(tree))
        # logs that are kept over a reboot
        (tree / "var/log/journal").mkdir(exist_ok=True)
        (tree / "etc/systemd/system.conf.d").mkdir(parents=True, exist_ok=True)
        (tree / "etc/systemd/system.conf.d/patience.conf").write_text(_PATIENCE)
        mark.touch()
    return tree


def build_package(folder: Path) -> Path:
    """The package of this checkout, built into an empty folder. Raises: CalledProcessError."""
    _call("make", "--quiet", f"--directory={CHECKOUT}", "deb", f"OUTPUT={folder}")
    (package,) = folder.glob("gantry_*.deb")
    return package


def installed_tree(debian: Path, package: Path, folder: Path) -> Layers:
    """Debian with the package, installed and not configured. Args: folder: a new one. Raises: CalledProcessError."""
    layers: Layers = (debian,)
    upper, whole = folder / "upper", folder / "root"
    for below in (upper / "root", folder / "work", whole):
        below.mkdir(parents=True)
    (upper / "root").chmod(0o700)
    shutil.copy(package, upper / PACKAGE)
    script = _INSTALL.format(mount=mount_script(layers, folder), folder=folder, package=PACKAGE)
    _call("unshare", "--mount", "sh", "-c", script)
    # what is not mounted any more was a layer; else all was copied
    return (whole,) if any(whole.iterdir()) else (upper, *layers)


def _call(*command: str) -> None:
    subprocess.run(command, check=True, stdout=sys.stderr, stdin=subprocess.DEVNULL)
