"""Count work instead of time."""

import sys
from collections.abc import Callable


def python_calls(work: Callable[[], object]) -> int:
    """How many Python functions `work` called: every hash or comparison of a lock is one."""
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
    return calls
