"""The exit codes of all our programs: one table.

The tools that wait for a command (`gnt-job run --wait`, `gnt-job submit --wait`) end with its exit code. Our own
codes lie where timeout(1) has its own, so that they cannot be taken for the command's. All other tools keep Ganeti's.

Source: everyday.md i, j; cli.md 1.1.
"""

from typing import Final

import attrs

DONE: Final = 0
FAILED: Final = 1
USAGE: Final = 2
NOT_REACHED: Final = 3
REFUSED_SWITCHOVER: Final = 4
REFUSED_TAKEOVER: Final = 5
NOT_CONFIRMED: Final = 13
UNKNOWN_FIELD: Final = 14
TIME_OVER: Final = 124
OURS: Final = 125
NEVER_RAN: Final = 126
# the number of the signal is added
SIGNALLED: Final = 128
INTERRUPTED: Final = 130


class FailedToWait(Exception):
    """An error of a tool that should end with its command's exit code; no error may look like that code."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


@attrs.frozen
class ExitCode:
    """A row of the table."""

    # a number, or a range as text
    code: str
    meaning: str


def _row(code: int, meaning: str) -> ExitCode:
    return ExitCode(str(code), meaning)


# codes of every verb but those below
EVERYWHERE: Final = (
    _row(DONE, "done; of wait and watch: all jobs succeeded"),
    _row(FAILED, "failed; of wait and watch: a job did not succeed, or the time was over"),
    _row(USAGE, "the command line or the settings are wrong"),
    _row(NOT_REACHED, "a daemon, or the server of --remote, was not reached; or there is no installation"),
    _row(NOT_CONFIRMED, "a question was not answered with yes"),
    _row(UNKNOWN_FIELD, "a field does not exist"),
    _row(INTERRUPTED, "Ctrl-C; jobs go on"),
)
# codes of gnt-job run --wait and gnt-job submit --wait
WAITING: Final = (
    ExitCode("0-123", "one job: the exit code of its command, 0 if it has none; 1: it failed, whatever its code was"),
    ExitCode(
        "0, 1",
        "several jobs: all succeeded, or not; with --exit max the highest of their codes; a job that "
        "never ran because it was for a failure that did not come does not count",
    ),
    _row(TIME_OVER, "--wait-timeout is over and the job goes on; or --timeout was over and the command was stopped"),
    _row(OURS, "it is not known how the command ended: refused, no daemon, connection or process lost, wrong options"),
    _row(NEVER_RAN, "the command never ran (not found, a dependency or a rule), or the job was canceled"),
    ExitCode("128+n", "the command was ended by signal n"),
    _row(INTERRUPTED, "Ctrl-C: no longer waiting, the job goes on; twice within 2 s on a terminal: it is killed"),
)
# codes of gantry cluster switchover and takeover
MOVING: Final = (
    _row(DONE, "the node is the master, and serves"),
    _row(FAILED, "failed before anything was asked; or the cluster has no lease"),
    _row(USAGE, "the command line or the settings are wrong"),
    _row(NOT_REACHED, "keeperd of this node was not reached"),
    _row(REFUSED_SWITCHOVER, "switchover: refused, nothing was changed; the reason is told"),
    _row(REFUSED_TAKEOVER, "takeover: refused, nothing was changed; the reason is told"),
    _row(TIME_OVER, "it was asked, and has not happened in time or is not known; see: gantry cluster"),
    _row(INTERRUPTED, "Ctrl-C: no longer waiting; what was asked goes on"),
)
