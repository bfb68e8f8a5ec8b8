"""The hook of a build: man pages for the wheel, so that each way to install Gantry has them.

They stand in share/man of the environment, where man looks when its bin is on PATH.
"""

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ManualHook(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the man pages into a folder that goes with this build."""
        self._folder = tempfile.TemporaryDirectory(prefix="gantry-man-")
        # -m finds the source tree by the current folder
        argv = [sys.executable, "-m", "cli.manual", "man", self._folder.name]
        subprocess.run(argv, cwd=self.root, check=True)
        build_data["shared_data"].update(
            {str(each): f"share/man/{each.name}" for each in Path(self._folder.name).iterdir()}
        )

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        self._folder.cleanup()
