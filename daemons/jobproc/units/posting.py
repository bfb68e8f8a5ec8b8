"""One POST to an address, with a hard limit of time.

Theory. The request is made in a thread, as the look-up of a name cannot be interrupted; at the limit it is left alone,
and the process of the job ends soon. The name is looked up once, all its addresses are checked, and the connection
goes to one of them: a name that leads elsewhere a moment later changes nothing. Redirects are not followed, and of
the reply only the status is read.

Source: DESIGN section 16; everyday.md section h.
"""

import http.client
import ipaddress
import os
import socket
import ssl
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Final
from urllib.parse import urlsplit

import attrs

from common.errors import GantryError
from common.system.shortages import start_thread

_PORTS: Final = {"http": 80, "https": 443}


class NotDelivered(GantryError):
    """the receiver was not reached, or did not take it"""


@attrs.frozen
class Post:
    """A request that is to be made."""

    url: str
    body: bytes
    headers: Mapping[str, str]
    timeout_s: float
    # PEM file; empty: the system's authorities
    ca_file: str = ""
    # networks that may be posted to, though they are private
    private: tuple[str, ...] = ()

    def send(self) -> int:
        """Make the request; return the status of the reply. Raises: NotDelivered."""
        parts = urlsplit(self.url)
        host, port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
        try:
            address = _address(host, port, self.private)
            connection = http.client.HTTPConnection(host, port, timeout=self.timeout_s)
            plain = socket.create_connection((address, port), self.timeout_s)
            try:
                connection.sock = self._encrypted(plain, host) if parts.scheme == "https" else plain
                target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
                connection.request("POST", target, self.body, {**self.headers, "content-type": "application/json"})
                return connection.getresponse().status
            finally:
                connection.close()
                plain.close()
        except ssl.SSLCertVerificationError as error:
            raise NotDelivered(f"the certificate of {host} is refused: {error.verify_message}") from error
        except (OSError, http.client.HTTPException, UnicodeError) as error:
            text = str(error) or type(error).__name__
            raise NotDelivered(f"{host}, port {port}, was not reached: {text}") from error

    def _encrypted(self, plain: socket.socket, host: str) -> socket.socket:
        context = ssl.create_default_context(cafile=self.ca_file or None)
        return context.wrap_socket(plain, server_hostname=host)


def send_within(post: Post, wait: Callable[[int], bool]) -> int:
    """Make the request in a thread; return the status of the reply.

    Args: wait: waits until a descriptor is readable; returns whether it is, and not when the time is over.
    Raises: NotDelivered; NoThread; what `wait` raises.
    """
    done: list[int | NotDelivered] = []
    reader, writer = os.pipe2(os.O_CLOEXEC)

    def work() -> None:
        try:
            done.append(post.send())
        except NotDelivered as error:
            done.append(error)
        except Exception as error:
            done.append(NotDelivered(f"{type(error).__name__}: {error}"))
        finally:
            os.close(writer)

    try:
        start_thread(threading.Thread(target=work, daemon=True))
    except OSError:
        os.close(writer)
        os.close(reader)
        raise
    try:
        if not wait(reader) or not done:
            raise NotDelivered(f"no reply within {post.timeout_s:g} s")
    finally:
        os.close(reader)
    if isinstance(done[0], NotDelivered):
        raise done[0]
    return done[0]


def _address(host: str, port: int, private: Sequence[str]) -> str:
    """One of the addresses of a host. Raises: NotDelivered: none of them may be posted to. OSError: it has none."""
    found = [str(each[4][0]) for each in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    allowed = [address for address in found if is_allowed(address, private)]
    if not allowed:
        raise NotDelivered(
            f"{host} has the private address {found[0]}, to which nothing is posted; list it in 'private' of "
            "'[notify]' in the settings"
        )
    return allowed[0]


def is_allowed(text: str, private: Sequence[str]) -> bool:
    """Whether an address may be posted to: it is public, or one of the networks that are listed has it."""
    address: ipaddress.IPv4Address | ipaddress.IPv6Address = ipaddress.ip_address(text.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    if address.is_global and not address.is_multicast:
        return True
    return any(address in ipaddress.ip_network(network, strict=False) for network in private)
