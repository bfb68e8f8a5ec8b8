"""A fork server on a machine whose first process is named as a file beside its settings says."""

import sys
from pathlib import Path

from common.system import signals
from daemons.jobproc.forkserver.main import main as serve

NAME = "first-process"


def main() -> None:
    """The real program; `--root` names the folder of the file."""
    signals._FIRST_PROCESS = Path(sys.argv[sys.argv.index("--root") + 1]) / NAME  # type: ignore[misc]
    serve()


if __name__ == "__main__":
    main()
