"""Ports that tests give to daemons: no two test processes have the same, and the kernel gives them to nobody."""

import socket
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.support.sockets.ports import BLOCK, HOST, free_port

_CHECKOUT: Final = Path(__file__).resolve().parents[3]
# a test process that takes its first port, and lives until its caller closes its standard input
_OTHER: Final = """
import sys
from tests.support.sockets.ports import free_port
print(free_port(), flush=True)
sys.stdin.read()
"""


def test_test_processes_have_different_ports() -> None:
    words = [sys.executable, "-c", _OTHER]
    others = [
        subprocess.Popen(words, cwd=_CHECKOUT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    firsts = []
    for other in others:
        assert other.stdout is not None
        firsts.append(int(other.stdout.readline()))
    own = {free_port() for _ in range(BLOCK)}
    for other in others:
        other.communicate()

    assert firsts[0] != firsts[1]
    assert not own & set(firsts)


def test_ports_are_none_of_those_that_the_kernel_chooses_from() -> None:
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])

    assert all(free_port() < lowest for _ in range(BLOCK))


def test_a_port_at_which_somebody_listens_is_passed_over() -> None:
    taken = free_port()
    with socket.create_server((HOST, taken)):
        assert taken not in {free_port() for _ in range(BLOCK - 1)}


def test_a_port_that_is_taken_for_udp_alone_is_passed_over() -> None:
    taken = free_port()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind((HOST, taken))

        assert taken not in {free_port() for _ in range(BLOCK - 1)}
