"""The intervals during which a condition shared by many jobs held: a limit was full, starts were suspended.

Kept once for all of them, so that a change touches none; the spans of one job are cut out of it when it is let go.
"""

from typing import Final

from common.queue.waithistory import SHORTEST_S

# stretches that one timeline keeps
MOST: Final = 64
Stretch = tuple[float, float]


class Timeline:
    """The stretches of time in which it was so, oldest first.

    A gap shorter than `SHORTEST_S` is none: a limit that one job leaves and the next one takes was full all the time.
    Of more than `MOST` stretches the two with the smallest gap become one.
    """

    def __init__(self) -> None:
        self._past: list[Stretch] = []
        self._since: float | None = None

    def set(self, is_so: bool, now_s: float) -> None:  # the state is the whole message
        """From now on it is so, or is not."""
        if is_so == (self._since is not None):
            return
        if self._since is not None:
            self._past.append((self._since, now_s))
            self._since = None
            self._keep_few()
        elif self._past and now_s - self._past[-1][1] < SHORTEST_S:
            self._since = self._past.pop()[0]
        else:
            self._since = now_s

    def within(self, since: float, until: float) -> list[Stretch]:
        """The stretches between two instants, the later one not after the last change."""
        found = [] if self._since is None else [(max(self._since, since), until)]
        for begin, end in reversed(self._past):
            if end <= since:
                break
            found.append((max(begin, since), min(end, until)))
        found.reverse()
        return [(begin, end) for begin, end in found if begin < end]

    def _keep_few(self) -> None:
        past = self._past
        if len(past) >= 2 and past[-2][1] - past[-2][0] < SHORTEST_S:
            del past[-2]
        if len(past) > MOST:
            index = min(range(len(past) - 1), key=lambda at: past[at + 1][0] - past[at][1])
            past[index : index + 2] = [(past[index][0], past[index + 1][1])]
