"""One daemon owns the queue, Ganeti's luxid or ours: the kernel's lock decides, not pid files."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from common.errors import Conflict
from common.paths import Paths
from daemons.luxid.files.queuefolder import take_lock

# as Ganeti's luxid does
HOLD = """
import fcntl, os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
fcntl.lockf(fd, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


def test_a_queue_that_another_process_has_is_refused_until_that_has_ended(tmp_path: Path) -> None:
    paths = Paths.under_root(tmp_path)
    paths.make_folders()
    command = [sys.executable, "-c", HOLD, str(paths.queue_lock)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"

        with pytest.raises(Conflict, match=r"another queue daemon holds '.*'; stop it first"):
            take_lock(paths)

        holder.kill()
    os.close(take_lock(paths))
