"""Who asked for the end of a job that has a process: a note from luxid, which is told when the job has ended.

It tells and decides nothing: where it is missing or cannot be read the job ends all the same.
"""

import re
from pathlib import Path
from typing import Final

_NOTE: Final = re.compile(r"user \d{1,10}", re.ASCII)


def note_asker(path: Path, uid: int) -> None:
    """Write down who asks. Raises: OSError."""
    path.write_text(f"user {uid}")


def asked_by(path: Path) -> str:
    """` of user 1003`, to be put behind "on request"; "": it is not known."""
    try:
        text = path.read_text(errors="replace")
    except OSError:
        return ""
    return f" of {text}" if _NOTE.fullmatch(text) else ""
