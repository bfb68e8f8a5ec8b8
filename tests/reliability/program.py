"""Running a campaign in a process of its own, for the tests: it replaces functions of `os`, and forks."""

import os
import subprocess
import sys
from pathlib import Path

# of the scenarios: each is about as much work as the other
HALVES = (
    ("submit", "submit-many", "submit-with-key", "opcodes-and-dependents", "cancel", "archive"),
    ("locks", "drain", "filter-rules", "config", "restart-luxid", "restart-wconfd"),
)
# over files of ours beside the queue and the configuration
OURS = ("schedules", "resources", "retention", "notifications")
_CHECKOUT = Path(__file__).resolve().parents[2]


def run_program(module: str, *arguments: str) -> str:
    """What it printed. Raises: AssertionError: it found something; its output is in the message."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", module, *arguments],
        cwd=_CHECKOUT,
        env={**os.environ, "PYTHONPATH": str(_CHECKOUT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, f"{module} {' '.join(arguments)} ended with {done.returncode}:\n{done.stdout[-8000:]}"
    return done.stdout
