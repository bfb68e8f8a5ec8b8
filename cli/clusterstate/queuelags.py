"""What the master candidates lack of the queue, in words."""

from collections.abc import Sequence

import attrs

from cli.connection import ask_luxid
from common.wire import structure
from protocol.luxi.cluster import QUEUE_LAGS, QueryConfigValues, QueueLag


def ask_lags() -> Sequence[QueueLag] | None:
    """What each candidate lacks now; empty: all have everything; None: the queue is not copied."""
    (value,) = ask_luxid(QueryConfigValues((QUEUE_LAGS,)))
    return None if value is None else structure(value, tuple[QueueLag, ...], QUEUE_LAGS)


def lag_words(lag: QueueLag) -> str:
    if not lag.files:
        since = f"for {lag.seconds:.0f} s it is not known what node '{lag.node}' lacks of the queue"
        return f"{since}: {lag.failure or 'the files are being compared'}"
    count = f"{lag.files} file{'' if lag.files == 1 else 's'}"
    lacks = f"node '{lag.node}' lacks {count} of the queue for {lag.seconds:.0f} s"
    return f"{lacks}: {lag.failure}" if lag.failure else lacks


def lags_json(lags: Sequence[QueueLag]) -> object:
    return [attrs.asdict(lag) for lag in lags]
