"""luxid as the verbs see it: here over its socket, or another machine's over HTTP."""

from types import TracebackType
from typing import Protocol, Self, TypeVar

from protocol.messages import Request

R = TypeVar("R")


class Luxid(Protocol):
    """Carries out typed requests of LUXI, one after the other; `protocol.blocking.BlockingClient` is one."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def close(self) -> None:
        """Close the connection; a later call opens a new one."""
        ...

    def call(self, request: Request[R], *, timeout_s: float | None = None) -> R:
        """Raises: as `BlockingClient.call`."""
        ...

    def call_retrying(self, request: Request[R], *, timeout_s: float | None = None) -> R:
        """Raises: as `BlockingClient.call_retrying`."""
        ...


class FeedLuxid(Protocol):
    """luxid's feed on a connection of its own; `protocol.blocking.BlockingClient` is one."""

    def close(self) -> None:
        """Close the connection; a later subscription opens a new one."""
        ...

    def subscribe(self, request: Request[R], *, timeout_s: float | None = None) -> R:
        """Raises: as `BlockingClient.subscribe`."""
        ...

    def event(self, timeout_s: float | None = None) -> tuple[str, list[object]] | None:
        """Raises: as `BlockingClient.event`."""
        ...
