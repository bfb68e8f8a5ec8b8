"""Epochs: each new master has a number of its own, higher than those before, so that an old one is refused.

Source: DESIGN sections 12 and 14.
"""

from pathlib import Path
from typing import Final

from common.errors import DamagedFile, InvalidRequest

# an epoch is less
_END: Final = 2**63
_DIGITS: Final = len(str(_END))


def read_epoch(path: Path) -> int:
    """Return the epoch in this file; 0: there is none. Raises: DamagedFile, OSError."""
    try:
        text = path.read_text("ascii", "replace").strip()
    except FileNotFoundError:
        return 0
    try:
        return parse_epoch(text)
    except InvalidRequest:
        raise DamagedFile(
            f"'{path}' is not an epoch but {text!r:.40}; write the highest epoch that any node has into it",
            file=str(path),
        ) from None


def parse_epoch(text: str) -> int:
    """Raises: InvalidRequest: the text is not a whole number from 0 to 2^63 - 1."""
    if text.isascii() and text.isdigit() and len(text) <= _DIGITS and int(text) < _END:
        return int(text)
    raise InvalidRequest(f"an epoch is a whole number from 0 to {_END - 1}, got {text!r:.40}")
