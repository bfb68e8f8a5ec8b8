"""The last submission of this session, which the word PREV means.

Each verb that submits jobs notes their ids in a small file of the user's, under $XDG_STATE_HOME or ~/.local/state, one
for each session and cluster. A session is the terminal, or the cron job or service, that the command runs in: so two
terminals do not disturb each other. What runs side by side within one session sets GANTRY_SESSION to a word of its own.
The note is a convenience: it is not durable, and where it cannot be written nothing is said.

A submission under a key that is sent again must have the same jobs. So the note keeps what PREV meant for the last
submission, and a command with the same key means the same again.

Source: DESIGN section 16.
"""

import contextlib
import hashlib
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import attrs
import orjson

from cli.context import effective_root
from cli.remoteoptions import remote_address
from common.errors import PrerequisiteError

SESSION_VARIABLE: Final = "GANTRY_SESSION"
# notes of sessions that are gone are removed after this time
_KEPT_S: Final = 30 * 86_400
# place of the start time in /proc/PID/stat, behind the name in parentheses
_START: Final = 19


@attrs.frozen
class NotedSubmission:
    """A submission of this session."""

    job_ids: tuple[int, ...]
    # its key; None: none
    key: str | None
    # ids of the submission before it
    before: tuple[int, ...]


def previous_ids(key: str | None) -> tuple[int, ...]:
    """The ids of the jobs that PREV means, for a submission under this key.

    Raises: PrerequisiteError: this session has not submitted anything.
    """
    file = _file()
    noted = _read(file)
    if noted is not None:
        ids = noted.before if key is not None and noted.key == key else noted.job_ids
        if ids:
            return ids
    raise PrerequisiteError(
        f"PREV is the last submission of this session, and none is noted in '{file.parent}'; name the job by its id",
        "wrong_state",
    )


def note_submission(job_ids: Sequence[int], key: str | None) -> None:
    """Remember these jobs as the last ones of this session."""
    file = _file()
    # without a home there is no absolute path
    if not file.is_absolute():
        return
    with contextlib.suppress(OSError):
        noted = _read(file)
        is_again = noted is not None and key is not None and noted.key == key
        before = () if noted is None else noted.before if is_again else noted.job_ids
        _write(file, NotedSubmission(tuple(job_ids), key, before), is_new=noted is None)


def _file() -> Path:
    home = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    place = f"{remote_address() or effective_root() or ''}\0{_session()}"
    return Path(home) / "gantry" / "sessions" / hashlib.sha256(place.encode()).hexdigest()[:32]


def _session() -> str:
    """The session's leader, with its start: ids of processes come again."""
    named = os.environ.get(SESSION_VARIABLE)
    if named:
        return f"named {named}"
    leader = os.getsid(0)
    try:
        start = Path(f"/proc/{leader}/stat").read_text().rpartition(")")[2].split()[_START]
    except (OSError, IndexError):
        # the leader is gone; the others of its session still have its id
        start = ""
    return f"{leader} {start}"


def _read(file: Path) -> NotedSubmission | None:
    """None: there is no note, or it cannot be read."""
    try:
        value = orjson.loads(file.read_bytes())
        return NotedSubmission(_ids(value["ids"]), value["key"], _ids(value["before"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write(file: Path, noted: NotedSubmission, *, is_new: bool) -> None:
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if is_new:
        _remove_old(file.parent)
    fresh = file.with_name(f"{file.name}.{os.getpid()}.new")
    fresh.write_bytes(orjson.dumps({"ids": _runs(noted.job_ids), "key": noted.key, "before": _runs(noted.before)}))
    fresh.replace(file)


def _remove_old(folder: Path) -> None:
    for each in os.scandir(folder):
        # another session may have removed it, or put it in its place, meanwhile
        with contextlib.suppress(OSError):
            if time.time() - each.stat().st_mtime > _KEPT_S:
                os.unlink(each.path)


def _runs(ids: Sequence[int]) -> list[list[int]]:
    """The ids as pairs of the first and the last of consecutive ones: a submission has few."""
    runs: list[list[int]] = []
    for each in ids:
        if runs and runs[-1][1] == each - 1:
            runs[-1][1] = each
        else:
            runs.append([each, each])
    return runs


def _ids(runs: Sequence[Sequence[int]]) -> tuple[int, ...]:
    return tuple(each for first, last in runs for each in range(int(first), int(last) + 1))
