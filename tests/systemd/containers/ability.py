"""Whether this machine can run the scenarios, found out by booting a Debian without Gantry."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.systemd.containers.container import Container
from tests.systemd.containers.tree import base_tree

# option of the command line: a machine that cannot run the scenarios is no failure
IF_POSSIBLE: Final = "--if-possible"
_PROGRAMS: Final = ("mmdebstrap", "systemd-nspawn", "nsenter", "unshare", "setpriv", "dpkg-deb")
# what the package is for: see deploy/package/build.py
_PYTHON: Final = ("/usr/bin/python3", "-Ic", "import sys; sys.exit(sys.version_info[:2] != (3, 11))")
# with the limit of its group it ends early, unless limits do not hold in there
_SERVICE: Final = "systemd-run --wait --quiet {} python3 -c 'bytearray(300 << 20)'"
_LIMIT: Final = "-p MemoryMax=64M -p MemorySwapMax=0"


def why_not_here(place: Path) -> str | None:
    """Why the scenarios cannot run on this machine, in one line; None: they can.

    Args: place: a folder, in which the tree of Debian stays for `base_tree`.
    """
    if why := _missing():
        return why
    try:
        debian = base_tree(place)
    except subprocess.CalledProcessError as error:
        return f"no Debian can be made here: {error.cmd[0]} ended with exit code {error.returncode}"
    try:
        with Container((debian,), place / "trial") as container:
            container.check(_SERVICE.format(""))
            if container.run(_SERVICE.format(_LIMIT)).code == 0:
                return "limits of memory do not hold in containers here"
    except (AssertionError, OSError, subprocess.SubprocessError) as error:
        return f"a Debian without Gantry does not run here: {' '.join(str(error).split())[-400:]}"
    return None


def exit_code(why: str, what: str, *, is_optional: bool) -> int:
    """Say why something is not run, and return the exit code. Args: what: such as 'all scenarios'."""
    if is_optional:
        print(f"left out, {what}: {why}", file=sys.stderr)
        return 0
    print(f"error: cannot run {what}: {why}", file=sys.stderr)
    return 1


def _missing() -> str | None:
    if os.geteuid() != 0:
        return "only root can boot containers"
    if missing := [name for name in _PROGRAMS if shutil.which(name) is None]:
        return f"missing: {', '.join(missing)}; apt-get install mmdebstrap systemd-container"
    try:
        subprocess.run(_PYTHON, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        return f"{_PYTHON[0]} is not Debian 12's Python 3.11, for which the package is"
    return None
