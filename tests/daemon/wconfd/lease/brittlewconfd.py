"""A wconfd that can be told to die, or to find its disk full, between commit and write; and whose doubts end sooner.

It does so while a file of that name is in its root.
"""

import os
import signal
import sys
from pathlib import Path

from daemons.wconfd import main
from daemons.wconfd.configfile import ConfigFile
from daemons.wconfd.nodes import follower

DIE = "die-before-write"
FULL = "full-disk"
_write = ConfigFile.write


def _brittle(self: ConfigFile, content: bytes, note: bytes = b"") -> None:
    root = Path(sys.argv[sys.argv.index("--root") + 1])
    if (root / DIE).exists():
        os.kill(os.getpid(), signal.SIGKILL)
    if (root / FULL).exists():
        raise OSError(28, "No space left on device")
    _write(self, content, note)


if __name__ == "__main__":
    ConfigFile.write = _brittle  # type: ignore[method-assign]
    follower._SETTLING_S = 0.5  # type: ignore[misc]
    main.main()
