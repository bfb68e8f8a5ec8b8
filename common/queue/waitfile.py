"""The spans of jobs on disk, beside their files; `waithistory` says what a span is.

Theory. The job file has exactly the keys of Ganeti, so what jobs waited for is kept in files of its own, one file for
a hundred ids, one line for a span: a job that waited costs an append, not a new file, and archiving it moves nothing.
luxid writes what it knows when it lets go of a job, the job's process writes its waits for locks; each append is one
write, so lines of two writers never mix. An append begins with a newline too: half a line that a full disk left behind
spoils nothing but itself.

Durability: nothing is synced. The history is no acknowledged state: a loss of power may cost the last lines, a crash of
luxid those of the jobs that were queued then; of these the history says that it is unknown.

Source: DESIGN section 11, "the job file has exactly the keys".
"""

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import orjson

from common.queue.waithistory import Span

_MODE: Final = 0o640


def append_spans(path: Path, spans: Iterable[tuple[int, Span]]) -> None:
    """Add spans, each with the id of its job, by one write; all ids belong to this file.

    Raises: OSError: the disk is full, or the file cannot be made.
    """
    lines = [
        orjson.dumps({"job": job_id, **span.to_wire()}, option=orjson.OPT_APPEND_NEWLINE) for job_id, span in spans
    ]
    content = b"\n" + b"".join(lines)
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, _MODE)
    try:
        written = os.write(fd, content)
    finally:
        os.close(fd)
    if written < len(content):
        raise OSError(f"'{path}' took {written} of {len(content)} bytes")


def read_spans(path: Path, job_id: int) -> list[Span]:
    """The spans of one job as they were written; no file has none, and what is no line of ours is skipped.

    Raises: OSError.
    Cost: linear in the file.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return []
    begin = b'{"job":%d,' % job_id
    found = []
    for line in content.splitlines():
        if line.startswith(begin):
            with contextlib.suppress(ValueError, KeyError, TypeError):
                found.append(Span.from_wire(orjson.loads(line)))
    return found
