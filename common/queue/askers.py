"""Who asked for the end of a job that has a process: a note of luxid for the text of the job's end.

The note only informs: if it is missing or unreadable, the job ends in the same way.
"""

import re
from pathlib import Path
from typing import Final

from common.access import Caller, caller_text

_NOTE: Final = re.compile(r"user \d{1,10}|an HTTP caller without a name|HTTP user [!-~ ]{1,90}", re.ASCII)


def note_asker(path: Path, caller: Caller) -> None:
    """Write down which user asks. Raises: OSError."""
    note_words(path, caller_text(caller))


def note_words(path: Path, words: str) -> None:
    """`note_asker`, in the words of `caller_text`. Raises: OSError."""
    path.write_text(words)


def asked_by(path: Path) -> str:
    """` of user 1003`, to follow "on request"; "": the user is not known."""
    try:
        text = path.read_text(errors="replace")
    except OSError:
        return ""
    return f" of {text}" if _NOTE.fullmatch(text) else ""
