"""Work on a node: delays for tests, hooks, restricted commands, the watcher's pause.

Source: noded.md section 6.
"""

from collections.abc import Mapping

import attrs

from common.shapes import Row
from protocol.noded.call import SLOW_S, URGENT_S, NodeCall


@attrs.frozen
class TestDelay(NodeCall[None]):
    """Sleep; a negative duration fails."""

    METHOD = "test_delay"
    # not a test of pytest
    __test__ = False
    # seconds
    duration: float

    @property
    def limit_s(self) -> float:
        return max(int(self.duration), 0) + 5.0


@attrs.frozen
class GetWatcherPause(NodeCall[float | None]):
    """The instant until which the watcher pauses, in seconds since 1970; null if it does not."""

    METHOD = "get_watcher_pause"
    LIMIT_S = URGENT_S


@attrs.frozen
class SetWatcherPause(NodeCall[None]):
    """LuxiD allows 300 s."""

    METHOD = "set_watcher_pause"
    LIMIT_S = URGENT_S
    # seconds since 1970; null: no pause
    until: float | None


@attrs.frozen
class HookRun(Row):
    """A script that was run: `[name, status, output]`."""

    script: str
    # 0 skipped, 1 failed, 2 succeeded
    status: int
    output: str


@attrs.frozen
class HooksRunner(NodeCall[tuple[HookRun, ...]]):
    METHOD = "hooks_runner"
    REPEATABLE = False
    hpath: str
    # pre or post
    phase: str
    env: Mapping[str, str]


@attrs.frozen
class RestrictedCommand(NodeCall[str]):
    """Run a command of the node's folder of restricted commands; returns its output."""

    METHOD = "restricted_command"
    LIMIT_S = SLOW_S
    REPEATABLE = False
    cmd: str
