"""Cursors: the place in a list of jobs where the next page begins.

A cursor names the last job of the page before, so that jobs that come or go meanwhile are neither shown twice nor
passed over. It is opaque for clients.
"""

import base64
import binascii
import re
from typing import Final

import attrs

from common.errors import InvalidRequest
from common.ids import JobId

_FORM: Final = re.compile(r"([<>])([0-9]{1,19})")


@attrs.frozen
class Cursor:
    """The next page begins after this job."""

    after: JobId
    ascending: bool

    def text(self) -> str:
        """The form for clients; it needs no escape in a URL."""
        plain = f"{'>' if self.ascending else '<'}{self.after}"
        return base64.urlsafe_b64encode(plain.encode()).decode().rstrip("=")

    @classmethod
    def read(cls, text: str) -> "Cursor":
        """Raises: InvalidRequest: the text is not a cursor."""
        try:
            plain = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True).decode()
        except (binascii.Error, ValueError):
            plain = ""
        found = _FORM.fullmatch(plain)
        if found is None:
            raise InvalidRequest(f"cursor {text!r:.60} is not one of ours; take 'next' of a page, or begin without")
        return cls(JobId(int(found[2])), found[1] == ">")
