"""What commands tell of themselves is what they did."""

import subprocess
import time
from pathlib import Path

from tests.reliability.lease.ledgers import command, ledger_lines, token_of


def argv(folder: Path, token: str, pause_s: float, exit_code: int = 0) -> list[str]:
    found = command(folder, token, "x1", "node2", pause_s, exit_code)["argv"]
    assert isinstance(found, list)
    return found


def test_a_command_tells_when_it_begins_and_ends(tmp_path: Path) -> None:
    before = time.time()

    code = subprocess.run(argv(tmp_path, "t1", 0.0, 3), check=False).returncode

    assert code == 3
    assert [(line.event, line.token, line.lock, line.node) for line in ledger_lines(tmp_path)] == [
        ("enter", "t1", "x1", "node2"),
        ("leave", "t1", "x1", "node2"),
    ]
    assert before - 1 <= ledger_lines(tmp_path)[0].at <= time.time() + 1
    assert token_of(command(tmp_path, "t1", "x1", "", 0.0)) == "t1"


def test_a_command_tells_of_company_under_its_lock(tmp_path: Path) -> None:
    # the descriptor is inherited: as long as this process lives, the lock is taken
    holder = subprocess.Popen(
        ["flock", str(tmp_path / "held-x1"), "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdin is not None
    assert holder.stdout is not None
    holder.stdin.write(b"x\n")
    holder.stdin.flush()
    holder.stdout.read(1)

    subprocess.run(argv(tmp_path, "t1", 0.0), check=True)
    holder.communicate()
    subprocess.run(argv(tmp_path, "t2", 0.0), check=True)

    assert [(line.event, line.token) for line in ledger_lines(tmp_path)] == [
        ("clash", "t1"),
        ("enter", "t1"),
        ("leave", "t1"),
        ("enter", "t2"),
        ("leave", "t2"),
    ]
