"""luxid of another machine, for the verbs: each typed request becomes calls of its rapid.

Source: DESIGN section 15; `cli.luxid`.
"""

import time
from types import TracebackType
from typing import Final, Self, TypeVar, cast

# they add their rows to the table
from cli.remote import operating as operating
from cli.remote import standing as standing
from cli.remote.requests import carry_out
from common.errors import RemoteError, Unavailable
from protocol.dial import pauses
from protocol.messages import Request
from protocol.rapid.clients.blocking import RapidClient
from protocol.rapid.clients.place import Place

R = TypeVar("R")
_WHO: Final = "give --token-file FILE, or a user in the address: https://USER@HOST"


class RemoteLuxid:
    """Carries out requests of LUXI at the place; it connects at the first one.

    Raises: InvalidRequest: the file of certificates cannot be used.
    """

    def __init__(self, place: Place) -> None:
        self._client = RapidClient(place)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def close(self) -> None:
        """Nothing is left that a later call could not use."""

    def call(self, request: Request[R], *, timeout_s: float | None = None) -> R:
        """Raises: as `BlockingClient.call`; InvalidRequest: no call over HTTP does this."""
        try:
            return cast(R, carry_out(request, self._client))
        except RemoteError as error:
            if error.code != "unauthenticated":
                raise
            error.message += f"; {_WHO}"
            raise

    def call_retrying(self, request: Request[R], *, timeout_s: float | None = None) -> R:
        """Raises: as `BlockingClient.call_retrying`."""
        deadline = time.monotonic() + (timeout_s or 0.0)
        for pause in pauses():
            try:
                return self.call(request)
            except Unavailable:
                if time.monotonic() + pause >= deadline:
                    raise
            time.sleep(pause)
        raise AssertionError("pauses() has no end")
