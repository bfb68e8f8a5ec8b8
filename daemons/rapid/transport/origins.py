"""For whose page a browser sends a request, by what it says itself. Pure.

Theory. A browser remembers the password of a host, and sends it with whatever another site makes it send there, such as
a form without fields. It says so: in `Sec-Fetch-Site`, and in the `Origin` of everything but plain reading. Programs
that are no browsers say neither, and nobody can make them send anything.

The page of this host without encryption is another site where this server is reached with it: whoever is on the way
can write that page.

Source: Fetch standard, "Origin header"; Fetch Metadata Request Headers.
"""

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

# what a browser says of a request of the host's own page, and of one that its user makes himself
_OWN: Final = ("same-origin", "none")


def is_of_another_site(headers: Mapping[str, str], *, is_encrypted: bool) -> bool:
    """Whether a browser says that a page of another site sends this."""
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None:
        return site not in _OWN
    return origin is not None and not is_of_host(origin, headers.get("host", ""), is_encrypted=is_encrypted)


def is_of_host(origin: str, host: str, *, is_encrypted: bool) -> bool:
    """Whether an origin is that of a host, by the header that names each.

    Args: is_encrypted: whether the host is reached by `https`.
    """
    try:
        parts = urlsplit(origin)
    except ValueError:
        # brackets without an address in them
        return False
    is_ours = parts.scheme == "https" or (parts.scheme == "http" and not is_encrypted)
    return is_ours and bool(parts.netloc) and parts.netloc == host
