"""Whether a node has the same queue as the master, asked for once.

Theory. The queue changes while it is compared. A file that differs is only a suspect; it is judged when the backlog of
the node is empty. It counts if the master's file was the same before and after the node was asked, and if it was not
about to be sent. A file that changes all the time is no difference: its copy follows. Copies of histories are late, so
those that may be are compared first.

Source: DESIGN section 12.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import attrs
import trio

from common.ids import JobId
from common.paths import Paths
from common.system.inthread import in_thread
from daemons.luxid.copying.beyond import beyond_master
from daemons.luxid.copying.comparison import Comparison, Found, Jobs, States
from daemons.luxid.copying.masterfiles import digests, read_jobs, read_states
from daemons.luxid.copying.sending import NodeSender
from daemons.luxid.core.copies.backlog import Key, StateName
from daemons.luxid.core.copies.verdict import Verdict

# what has no comparison of its own: it is always sent
FACTS: Final = (StateName("queue/serial"), StateName("queue/drain"))
# times that suspects are looked at, and seconds that each waits for the backlog
_ROUNDS: Final = 5
_PATIENCE_S: Final = 3.0


@attrs.define
class _Suspects:
    """What seems to differ."""

    keys: set[Key] = attrs.field(factory=set)
    # files that the master lacks
    beyond: set[str] = attrs.field(factory=set)

    def add(self, found: Found) -> None:
        self.keys.update(found.differ)
        self.beyond.update(found.beyond.names)

    @property
    def jobs(self) -> list[JobId]:
        return sorted(key for key in self.keys if isinstance(key, int))

    @property
    def states(self) -> list[StateName]:
        return sorted(key for key in self.keys if isinstance(key, str))


async def check(paths: Paths, sender: NodeSender) -> Verdict:
    """Compare everything; what differs is sent.

    Raises: NotSent: the node cannot be asked. OSError.
    """
    comparison, suspects = sender.comparison(), _Suspects()
    while (found := await comparison.step()) is not None:
        suspects.add(found)
    suspects.add(await comparison.compare(States(FACTS)))
    guilty: set[Key] = set()
    for _ in range(_ROUNDS):
        if not suspects.keys and not suspects.beyond:
            break
        with trio.move_on_after(_PATIENCE_S):
            await sender.until_complete()
        suspects, found_guilty = await _judge(paths, sender, comparison, suspects)
        guilty |= found_guilty
    _mend(sender, guilty)
    return Verdict(time.time()).with_more(sorted(guilty, key=str))


async def _judge(
    paths: Paths, sender: NodeSender, comparison: Comparison, suspects: _Suspects
) -> tuple[_Suspects, set[Key]]:
    """Return those that are suspects still, and those that differ."""
    is_busy = sender.is_lacking
    before = await in_thread(_marks, paths, suspects.jobs, suspects.states)
    again = _Suspects()
    if suspects.jobs:
        again.add(await comparison.compare(Jobs(suspects.jobs)))
    if suspects.states:
        again.add(await comparison.compare(States(suspects.states)))
    left = await comparison.found_on_node(sorted(suspects.beyond)) if suspects.beyond else {}
    again.beyond.update((await beyond_master(paths, sender.line, list(left))).names)
    if is_busy or sender.is_lacking:
        return again, set()
    after = await in_thread(_marks, paths, again.jobs, again.states)
    guilty: set[Key] = {key for key in again.keys if before.get(key) == after.get(key)}
    guilty.update(map(StateName, again.beyond))
    return _Suspects(again.keys - guilty), guilty


def _marks(paths: Paths, jobs: Sequence[JobId], states: Iterable[StateName]) -> Mapping[Key, object]:
    """What the master's files hold. Raises: OSError."""
    marks: dict[Key, object] = {job_id: mark for job_id, mark in digests(read_jobs(paths, jobs)).items()}
    for name, content in read_states(paths, states).items():
        marks[name] = content
    return marks


def _mend(sender: NodeSender, guilty: Iterable[Key]) -> None:
    if guilty:
        # this also finds what is beyond the master, and sends the facts
        sender.backlog.doubt()
        sender.wake()
