"""Settings of rapid, the daemon for HTTP.

Source: DESIGN section 15; rapi.md 1; common/settings.py.
"""

import ipaddress
from collections.abc import Sequence
from typing import Final

import attrs

from common.settingwords.settingchecks import not_negative, port, positive
from common.validation import Checked

# the word in `trusted_proxies` for the Unix socket
OVER_SOCKET: Final = "unix"
_PROXY_HEADERS: Final = ("X-Forwarded-For", "Forwarded")


def _proxies(_: object, field: Checked, value: Sequence[str]) -> None:
    for text in value:
        try:
            if text != OVER_SOCKET:
                ipaddress.ip_network(text, strict=False)
        except ValueError:
            raise ValueError(
                f"{field.name}: '{text}' is neither an address or network such as '192.0.2.1' or '10.0.0.0/8', "
                f"nor '{OVER_SOCKET}'"
            ) from None


def _proxy_header(_: object, field: Checked, value: str) -> None:
    if value not in _PROXY_HEADERS:
        raise ValueError(f"{field.name} must be one of {', '.join(_PROXY_HEADERS)}")


@attrs.frozen
class RapidSettings:
    # whether it runs
    enabled: bool = False
    # address to listen at; empty: all
    address: str = ""
    port: int = attrs.field(default=5080, validator=port)
    # whether connections are encrypted, except over the Unix socket
    ssl: bool = True
    # file of the certificate; empty: rapi.pem of the installation
    certificate: str = ""
    # file of its key; empty: it is in the same file
    key: str = ""
    # whether callers without a name may read, as strangers: no environment, arguments, results and output
    anonymous_read: bool = False
    # whether Ganeti's resources keep Ganeti's rule: who has no name reads all of them
    ganeti_rights: bool = False
    # whether every call needs a name
    require_authentication: bool = False
    # connections at once, also those whose handshake is not over
    max_clients: int = attrs.field(default=2000, validator=positive)
    # bytes of a request's body
    max_body_bytes: int = attrs.field(default=10 * 2**20, validator=positive)
    # time within which a body must be here
    body_timeout_s: float = attrs.field(default=30.0, validator=positive)
    # time for the TLS handshake
    handshake_timeout_s: float = attrs.field(default=5.0, validator=positive)
    # time without a request, or within its headers, after which a connection is closed
    idle_timeout_s: float = attrs.field(default=10.0, validator=positive)
    # time for which a call waits for a luxid that is being restarted
    luxid_patience_s: float = attrs.field(default=10.0, validator=not_negative)
    # whether it ends, with exit code 11, where this node is not the master, as Ganeti's does
    only_on_master: bool = False
    # time for requests under way when the daemon is told to stop
    stop_timeout_s: float = attrs.field(default=5.0, validator=not_negative)
    # whether /metrics is for everybody, without a name
    anonymous_metrics: bool = False
    # addresses and networks of proxies whose word on their clients' addresses counts; "unix": over the Unix socket
    trusted_proxies: tuple[str, ...] = attrs.field(default=(), validator=_proxies)
    # header in which they say it
    proxy_header: str = attrs.field(default="X-Forwarded-For", validator=_proxy_header)

    def url(self, node: str) -> str:
        """The address of the interface on a node. Args: node: its name; an address to listen at counts more."""
        host = self.address or node
        return f"http{'s' if self.ssl else ''}://{f'[{host}]' if ':' in host else host}:{self.port}"
