"""Programs in web pages of other sites: which may read replies under /3, and what a browser is told of that (CORS).

Theory. A browser lets the page of another site read a reply only if the reply names that site. Here are the sites that
the settings name, and no others; without them nothing is said. A page calls with a token in `Authorization`, which its
program sets itself; credentials that a browser adds of its own accord, such as a cookie or a password that it knows,
are never allowed (`Access-Control-Allow-Credentials` is not sent), and with them a page changes nothing. What a browser
asks beforehand gets the same reply for every path, so it tells nobody which ones there are.

Source: Fetch Living Standard, "CORS protocol"; RFC 6454.
"""

from collections.abc import Collection
from typing import Final

from starlette.requests import Request as HttpRequest
from starlette.responses import Response

_PATHS: Final = "/3"
# seconds for which a browser remembers what it was told
_FRESH_S: Final = 600
_VERBS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
# headers of requests, beside those that pages may always send
_SENT: Final = (
    *("Authorization", "Content-Type", "Idempotency-Key", "If-None-Match", "Last-Event-ID"),
    *("Range", "traceparent", "tracestate", "X-Request-Id"),
)
# headers of replies that a page may read, beside those that it always may
_READ: Final = ("Accept-Ranges", "Content-Range", "ETag", "Link", "Location", "Retry-After", "X-Request-Id")


class CrossOrigin:
    """Args: origins: the sites, as browsers write them: `https://tools.example.org`."""

    def __init__(self, origins: Collection[str] = ()) -> None:
        self._origins = frozenset(origins)

    def answers(self, http: HttpRequest) -> Response | None:
        """The reply to what a browser asks before a request of an allowed page; None: it is another request."""
        asks = http.method == "OPTIONS" and "access-control-request-method" in http.headers
        if not asks or self._origin(http) is None:
            return None
        return Response(
            None,
            204,
            {
                "Access-Control-Allow-Methods": ", ".join(_VERBS),
                "Access-Control-Allow-Headers": ", ".join(_SENT),
                "Access-Control-Max-Age": str(_FRESH_S),
            },
        )

    def mark(self, http: HttpRequest, response: Response) -> None:
        """Say in a reply whether the page that asked may read it, and that it depends on the page."""
        if not self._origins or not _is_ours(http):
            return
        response.headers.add_vary_header("Origin")
        if (origin := self._origin(http)) is not None:
            response.headers["Access-Control-Allow-Origin"] = origin
            response.headers["Access-Control-Expose-Headers"] = ", ".join(_READ)

    def admits(self, http: HttpRequest) -> bool:
        """Whether a page of an allowed site has sent this, with a token that it has set itself."""
        return self._origin(http) is not None and http.headers.get("authorization", "")[:7].lower() == "bearer "

    def _origin(self, http: HttpRequest) -> str | None:
        """The allowed site that has sent this; None: no site, or another one."""
        given = http.headers.getlist("origin")
        return given[0] if len(given) == 1 and given[0] in self._origins and _is_ours(http) else None


def _is_ours(http: HttpRequest) -> bool:
    path: str = http.scope["path"]
    return path == _PATHS or path.startswith(f"{_PATHS}/")
