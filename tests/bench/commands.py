"""How long a command takes that does next to nothing."""

import subprocess
import sys

from tests.bench.figures import median_ms
from tests.cli.command import argv, environment
from tests.support.cluster import Cluster


def list_jobs_ms(cluster: Cluster, count: int) -> float:
    """Median of `gnt-job list`."""
    return _run_ms(argv("gnt-job", "--root", cluster.root, "list"), count)


def bare_start_ms(count: int) -> float:
    """Median of the interpreter's start and end."""
    return _run_ms([sys.executable, "-P", "-c", "pass"], count)


def _run_ms(command: list[str], count: int) -> float:
    return median_ms(lambda: subprocess.run(command, env=environment(), capture_output=True, check=True), count)
