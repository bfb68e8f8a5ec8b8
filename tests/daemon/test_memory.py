"""Memory for large things goes back to the system (issue 9, 3.5)."""

import subprocess
import sys

import pytest

from tests.support.cluster import CHECKOUT

MIB = 2**20
# as a daemon's buffers of messages grow, chunk by chunk beside each other, while small things are made that live on
GROWN = """
import sys
from common.system.daemon import return_large_blocks

if sys.argv[1] == "returning":
    assert return_large_blocks()

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096

for size in range(1, 33):
    bytes(size * 2**20)
before = resident()
buffers, small = [bytearray() for _ in range(16)], []
for _ in range(64):
    for buffer in buffers:
        buffer += b"x" * 65536
    small.append(bytes(2000))
del buffers, buffer
print(resident() - before)
"""


def kept(how: str) -> int:
    """Bytes that a process keeps after 64 MiB of messages are gone."""
    ended = subprocess.run([sys.executable, "-c", GROWN, how], cwd=CHECKOUT, capture_output=True, text=True, check=True)
    return int(ended.stdout)


def test_what_messages_took_is_returned_when_they_are_gone() -> None:
    assert kept("returning") < 8 * MIB


def test_the_c_library_would_keep_it() -> None:
    """Else the measure above shows nothing, and what it is for may go."""
    if kept("as usual") < 32 * MIB:
        pytest.skip("this C library returns it by itself")
