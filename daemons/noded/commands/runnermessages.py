"""The messages between noded, its fork server and the runners of commands.

noded sends a `RunnerOrder` for each command over a stream socket; the fork server forks a runner for it. What comes of
it is a `RunnerWord` in a pipe that all of them share, one line each: from the runner that it runs, or why not;
from the fork server if there is no runner, or it has ended. A runner closes its end of the pipe with its word; so at
the pipe's end no runner of this fork server is about to begin.

When noded dies, the fork server reads the end of the stream, and ends. The runners live on.
"""

import enum

import attrs
import orjson

from common.commands.spec import CommandSpec
from common.jsontext import ascii_json
from common.wire import structure, unstructure


@attrs.frozen(kw_only=True)
class RunnerOrder:
    """A command to run, if its records allow it."""

    # of this order, in the word on it
    number: int
    key: str
    digest: str
    spec: CommandSpec


class OrderResult(enum.Enum):
    """What came of an order."""

    # its program was executed, or could not be: the records tell
    TOLD = "told"
    # the records forbid to begin, or another process has the lock: nothing was done
    LEFT = "left"
    # there is no process, no room, no descriptor: nothing was done
    REFUSED = "refused"
    # the runner is gone; of meaning only if it was silent before
    ENDED = "ended"


@attrs.frozen(kw_only=True)
class RunnerWord:
    number: int
    word: OrderResult
    reason: str = ""


def pack_order(order: RunnerOrder) -> bytes:
    return ascii_json(unstructure(order))


def read_order(payload: bytes) -> RunnerOrder:
    return structure(orjson.loads(payload), RunnerOrder, "order")


def pack_word(word: RunnerWord) -> bytes:
    """A line of less than a pipe's atomic write."""
    return ascii_json(unstructure(attrs.evolve(word, reason=word.reason[:500]))) + b"\n"


def read_word(line: bytes) -> RunnerWord:
    return structure(orjson.loads(line), RunnerWord, "word")
