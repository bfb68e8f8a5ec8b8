"""The three folders of an installation.

Source: DESIGN section 11.
"""

import os
from pathlib import Path
from typing import Self

import attrs


@attrs.frozen
class Folders:
    """Where an installation's files lie; all paths are absolute."""

    # folder that survives a restart of the machine
    data: Path
    # folder that need not survive it
    run: Path
    log: Path

    @classmethod
    def under_root(cls, root: Path) -> Self:
        """Those of a private installation in one folder: `lib`, `run` and `log` in it."""
        root = Path(os.path.abspath(root))
        return cls(data=root / "lib", run=root / "run", log=root / "log")
