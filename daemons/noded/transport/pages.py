"""Replies: JSON for every procedure that was carried out, pages of HTML for the rest.

Source: noded.md 2 and 4.
"""

from collections.abc import Sequence
from html import escape
from http import HTTPStatus
from typing import Final

import attrs

from protocol.noded.call import EPOCH_HEADER

# statuses after which the connection may still have parts of the request
_CLOSING: Final = (408, 413)


@attrs.frozen
class Page:
    """A reply over HTTP."""

    status: int
    content_type: str
    body: bytes
    # highest epoch that this node has seen; None: the page is not one of a procedure
    epoch: int | None = None

    @property
    def headers(self) -> Sequence[tuple[bytes, bytes]]:
        found = [(b"content-type", self.content_type.encode()), (b"content-length", b"%d" % len(self.body))]
        if self.epoch is not None:
            found.append((EPOCH_HEADER.lower().encode(), b"%d" % self.epoch))
        return [*found, (b"connection", b"close")] if self.status in _CLOSING else found


def result_page(body: bytes, epoch: int) -> Page:
    """The result of a procedure, also of one that failed. Args: epoch: the highest that this node has seen."""
    return Page(200, "application/json", body, epoch)


def error_page(status: int, text: str) -> Page:
    """A page for a request that is no call."""
    title = f"{status} {HTTPStatus(status).phrase}"
    body = (
        f"<html>\n<head>\n<title>{title}</title>\n</head>\n<body>\n<h1>{title}</h1>\n"
        f"<p>{escape(text)}</p>\n</body>\n</html>\n"
    )
    return Page(status, "text/html", body.encode())
