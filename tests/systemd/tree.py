"""The tree that containers are made from: Debian with systemd, and Gantry as the package installs it."""

import contextlib
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

CHECKOUT: Final = Path(__file__).resolve().parents[2]
_PACKAGES: Final = "systemd-sysv,dbus,libpam-systemd,python3-minimal,python3-venv,logrotate,procps"
_UNITS: Final = "usr/lib/systemd/system"


def base_tree(folder: Path) -> Path:
    """Debian with systemd, from Debian's servers unless an earlier call left it there. Raises: CalledProcessError."""
    base = folder / "debian"
    if not (base / "usr/bin/systemctl").exists():
        shutil.rmtree(base, ignore_errors=True)
        _call("mmdebstrap", "--variant=minbase", f"--include={_PACKAGES}", "bookworm", str(base))
        # kept over a reboot
        (base / "var/log/journal").mkdir()
    return base


def installed(base: Path, folder: Path) -> Path:
    tree = folder / "tree"
    _call("cp", "-a", "--reflink=auto", str(base), str(tree))
    _environment(tree / "opt/gantry")
    deploy = CHECKOUT / "deploy"
    for pattern in ("*.service", "*.target", "*.path"):
        for unit in (deploy / "systemd").glob(pattern):
            shutil.copy(unit, tree / _UNITS)
    shutil.copy(deploy / "systemd/gantry.sysusers.conf", tree / "usr/lib/sysusers.d/gantry.conf")
    shutil.copy(deploy / "systemd/gantry.tmpfiles.conf", tree / "usr/lib/tmpfiles.d/gantry.conf")
    shutil.copy(deploy / "logrotate/gantry", tree / "etc/logrotate.d/gantry")
    (tree / "etc/gantry").mkdir()
    (tree / "etc/gantry/gantry.toml").touch()
    return tree


def _environment(place: Path) -> None:
    _call("/usr/bin/python3", "-m", "venv", "--without-pip", str(place))
    pip = (sys.executable, "-m", "pip", "--python", f"{place}/bin/python", "install", "-qq")
    _call(*pip, str(CHECKOUT))
    for file in [place / "pyvenv.cfg", *(place / "bin").iterdir()]:
        if file.is_file() and not file.is_symlink():
            with contextlib.suppress(UnicodeDecodeError):
                file.write_text(file.read_text().replace(str(place), "/opt/gantry"))


def _call(*command: str) -> None:
    subprocess.run(command, check=True, stdout=sys.stderr)
