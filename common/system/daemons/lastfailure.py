"""Why a daemon last failed, from its log."""

import contextlib
import os
import re
from pathlib import Path
from typing import Final

# bytes at the end of the log that are read
_TAIL: Final = 65_536
# the value of the reason is quoted, see `common.system.log`
_EVENT: Final = re.compile(r' daemon\.(?:ready|failed reason=(?:"((?:[^"\\]|\\.)*)"|(\S+)))$', re.MULTILINE)
_ESCAPED: Final = re.compile(r"\\(.)")


def last_failure(log: Path) -> str | None:
    """Return the reason; None: it was ready since, or its log does not tell."""
    with contextlib.suppress(OSError), log.open("rb") as file:
        file.seek(max(os.fstat(file.fileno()).st_size - _TAIL, 0))
        return failure_in(file.read().decode(errors="replace"))
    return None


def failure_in(text: str) -> str | None:
    """Return the reason of the last failure that lines of a log tell, if the daemon was not ready after it."""
    events = list(_EVENT.finditer(text))
    if not events:
        return None
    quoted, plain = events[-1].groups()
    return plain if quoted is None else _ESCAPED.sub(r"\1", quoted)
