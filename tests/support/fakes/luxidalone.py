"""The daemons behind rapid, where luxid alone is asked."""

from typing import TypeVar

from protocol.client import Client
from protocol.luxi.feed import Subscribe
from protocol.messages import AnyRequest, Request

R = TypeVar("R")


class LuxidAlone:
    """The rest of `Daemons`; a test answers for luxid."""

    async def wconfd(self, request: Request[R]) -> R:
        raise AssertionError("nobody asks it")

    async def feed(self, request: Subscribe) -> tuple[Client, bytes]:
        raise AssertionError("nobody follows")

    async def luxi(self, request: AnyRequest) -> bytes:
        raise AssertionError("nobody passes messages on")
