"""Which collectors run, and how often: the cluster's configuration says so, and confd tells it.

Theory. No reply is no verdict: what was told last goes on to count, and before the first reply all collectors are
active, at their usual intervals.

Source: mond.md 5; confd.md 4, type 11.
"""

from collections.abc import Mapping
from typing import Final

import trio

from common.errors import GantryError, explain_os_error
from common.settings import Settings
from common.system.inthread import in_thread
from common.system.log import get_log
from daemons.mond.collecting import Reports, Rhythm
from protocol.confd.candidates import candidates, read_key
from protocol.confd.clients.client import ask_confd
from protocol.confd.gathering import Peer
from protocol.confd.questions import Question

# seconds between two questions; Ganeti's
ASK_EVERY_S: Final = 15.0
# shorter intervals are not obeyed
_LEAST_S: Final = 0.5
_log: Final = get_log(__name__)


class RhythmsByConfd:
    """Keeps the rhythms as the candidates tell them."""

    def __init__(self, settings: Settings, reports: Reports) -> None:
        self._settings = settings
        self._reports = reports
        self._is_silent = False

    async def run(self) -> None:
        """Ask until cancelled."""
        while True:
            await self._ask()
            await trio.sleep(ASK_EVERY_S)

    async def _ask(self) -> None:
        try:
            key, peers = await in_thread(self._read)
            outcome = await ask_confd(key, peers, Question.COLLECTORS)
            rhythms = read_rhythms(outcome.answer())
        except (GantryError, OSError) as error:
            if not self._is_silent:
                reason = explain_os_error(error) if isinstance(error, OSError) else error.message
                _log.warning("rhythms.unknown", reason=reason, effect="they stay as they are", retry_s=ASK_EVERY_S)
            self._is_silent = True
            return
        self._is_silent = False
        self._reports.set_rhythms(rhythms)

    def _read(self) -> tuple[bytes, list[Peer]]:
        paths = self._settings.paths
        return read_key(paths), list(candidates(paths, self._settings.confd.port))


def read_rhythms(answer: object) -> Mapping[str, Rhythm]:
    """The rhythms in confd's answer, by the name of the collector; entries of another form are left out."""
    found: dict[str, Rhythm] = {}
    for name, told in answer.items() if isinstance(answer, dict) else ():
        if isinstance(told, dict) and isinstance(told.get("active"), bool) and type(told.get("interval")) is int:
            found[name] = Rhythm(told["active"], max(told["interval"] / 1e6, _LEAST_S))
    return found
