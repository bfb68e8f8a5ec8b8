"""How one of our programs starts another: with this Python, and with our packages importable."""

import os
import sys
import sysconfig
from pathlib import Path


def python_command(module: str, *words: str) -> list[str]:
    """The command that runs a module; nothing is imported from the current folder."""
    return [sys.executable, "-P", "-m", module, *words]


def python_environment() -> dict[str, str]:
    """Our environment, in which Python finds our packages even if they are not installed."""
    home = Path(__file__).resolve().parents[2]
    if home == Path(sysconfig.get_path("purelib")).resolve():
        return dict(os.environ)
    others = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys([str(home), *others]))}
