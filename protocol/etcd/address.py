"""Where etcd is, and what it takes to speak to it.

Source: DESIGN section 14; lease.md 5 and 8.
"""

from typing import Final, Self
from urllib.parse import urlsplit

import attrs

from common.errors import InvalidRequest
from common.settings import Settings
from protocol.etcd.credentials import EtcdAccount

_PORT: Final = 2379
# a request may take this part of the lease; five of them fit before the mastership ends
_PART_OF_TTL: Final = 0.1


@attrs.frozen
class Endpoint:
    """A member's address for clients."""

    host: str
    port: int
    is_tls: bool = False

    @classmethod
    def of(cls, url: str) -> Self:
        """Raises: InvalidRequest: it is no URL of a member of etcd."""
        parts = urlsplit(url)
        try:
            port = parts.port
        except ValueError:
            port = 0
        is_plain = parts.path in ("", "/") and not parts.query and parts.username is None
        if parts.scheme not in ("http", "https") or not parts.hostname or port == 0 or not is_plain:
            raise InvalidRequest(
                f"'{url}' is not the address of a member of etcd; write http://HOST:2379 or https://..."
            )
        return cls(parts.hostname, port or _PORT, parts.scheme == "https")

    @property
    def place(self) -> str:
        """Host and port, as in an URL."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def __str__(self) -> str:
        return f"{'https' if self.is_tls else 'http'}://{self.place}"


@attrs.frozen
class EtcdAddress(EtcdAccount):
    # in the order in which they are tried
    endpoints: tuple[Endpoint, ...]
    # seconds; limit of one request to one member
    request_limit_s: float = 1.0
    # whether releases that are known to lose data are used all the same
    allow_broken_releases: bool = False

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """Raises: InvalidRequest: no endpoint is set, or one is no URL."""
        etcd = settings.etcd
        if not etcd.endpoints:
            raise InvalidRequest("no member of etcd is known; name some in the setting 'endpoints' of '[etcd]'")
        return cls(
            tuple(Endpoint.of(url) for url in etcd.endpoints),
            etcd.request_timeout_s or settings.keeperd.ttl_s * _PART_OF_TTL,
            etcd.allow_broken_releases,
            user=etcd.user,
            password_file=etcd.password_file,
            ca_file=etcd.ca_file,
            cert_file=etcd.cert_file,
            key_file=etcd.key_file,
        )
