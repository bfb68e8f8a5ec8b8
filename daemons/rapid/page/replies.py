"""Replies with a page, and what browsers are told about it."""

from collections.abc import Mapping
from typing import Final

from starlette.responses import HTMLResponse, RedirectResponse

POLICY: Final = (
    "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'; img-src 'self'"
)
# `same-origin`: with `no-referrer` browsers hide where a form comes from, and it would be refused
HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


def page(text: str, status: int = 200) -> HTMLResponse:
    """A page, which nobody keeps: it is for this visitor, and of this moment."""
    return HTMLResponse(text, status, {**HEADERS, "Cache-Control": "no-store"})


def see(path: str) -> RedirectResponse:
    """Send the browser to another page, by GET. Args: path: one of ours."""
    return RedirectResponse(path, 303, {**HEADERS, "Cache-Control": "no-store"})
