"""The spans of jobs on disk, beside the job files; `waithistory` defines a span.

Theory. The job file has exactly Ganeti's keys, so the waits of jobs are kept in separate files: one file for
a hundred ids, one line for a span. A job that waited costs an append, not a new file, and archiving it moves nothing.
luxid writes its spans of a job when it lets go of the job; the job's process writes its waits for locks. Each append
is one write, so lines of two writers never mix. An append also begins with a newline: half a line left by a full disk
damages only itself.

Durability: the file is not synced. The history is not acknowledged state: a loss of power may cost the last lines, and
a crash of luxid those of the jobs queued at the time; the history then says that this part is unknown.

Source: DESIGN section 11, "the job file has exactly the keys".
"""

import contextlib
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import orjson

from common.queue.waithistory import Span

_MODE: Final = 0o640


def append_spans(path: Path, spans: Iterable[tuple[int, Span]]) -> None:
    """Append spans, each with the id of its job, in one write; all ids belong to this file.

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
    """Return the spans of one job as written; a missing file has none, and lines in another form are skipped.

    Raises: OSError.
    Cost: linear in the file.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return []
    return spans_in(content, job_id)


def spans_in(content: bytes, job_id: int) -> list[Span]:
    """As `read_spans`, of the content of a file."""
    begin = b'{"job":%d,' % job_id
    found = []
    for line in content.splitlines():
        if line.startswith(begin):
            with contextlib.suppress(ValueError, KeyError, TypeError):
                found.append(Span.from_wire(orjson.loads(line)))
    return found


def jobs_in(content: bytes) -> frozenset[int]:
    """The ids of the jobs of which the content of a file tells spans. Cost: linear in it."""
    return frozenset(int(number) for number in re.findall(rb'^{"job":(\d{1,19}),', content, re.MULTILINE))
