"""Whether systemd keeps a daemon of an installation running: the system's, or this user's own.

systemd is asked by `systemctl`, which costs tens of milliseconds: only for a daemon that does not answer.
"""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from common.settingsfile import ROOT_VARIABLE

# seconds; a systemd that is silent for longer says nothing about the daemon
_PATIENCE_S: Final = 2.0
_SYSTEM: Final = Path("/run/systemd/system")
# a unit whose process was killed goes from `deactivating` to `activating`, after a pause that it also spends there
_KEPT: Final = frozenset({"active", "activating", "deactivating", "reloading"})


def is_kept_by_systemd(daemon: str, root: Path | None) -> bool:
    """Whether a unit of systemd runs this daemon, or is about to start it again; false where that cannot be known.

    Args:
        daemon: its name in `common.daemons`.
        root: folder of the installation; None: that of the system.
    """
    if root is None:
        return _SYSTEM.is_dir() and _is_kept(daemon, None, [], os.environ)
    own = Path(os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}")
    if not (own / "systemd").is_dir():
        return False
    return _is_kept(daemon, root, ["--user"], {**os.environ, "XDG_RUNTIME_DIR": str(own)})


def _is_kept(daemon: str, root: Path | None, options: list[str], env: Mapping[str, str]) -> bool:
    words = ["systemctl", *options, "show", "--property=ActiveState,Environment", f"gantry-{daemon}.service"]
    try:
        asked = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, timeout=_PATIENCE_S, env=env, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    told = dict(line.partition("=")[::2] for line in asked.stdout.decode(errors="replace").splitlines())
    return told.get("ActiveState") in _KEPT and _root_of(told.get("Environment", "")) == root


def _root_of(environment: str) -> Path | None:
    """The installation of a unit with these variables, as systemd writes them; None: that of the system."""
    # imported late: only whoever waits needs it
    import shlex

    for word in shlex.split(environment):
        name, _, value = word.partition("=")
        if name == ROOT_VARIABLE:
            return Path(value)
    return None
