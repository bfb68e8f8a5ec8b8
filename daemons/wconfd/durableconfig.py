"""The configuration as it is durable, here and in the cluster.

Theory. A change is committed in the cluster, then written here, then passed to the other nodes; the way of
distribution decides what each of it means (`distribution`). What was committed and cannot be written here is taken back
in the cluster before the caller gets the error, so both always have the same.

Source: DESIGN section 14.
"""

from typing import Final

from common.errors import Conflict, Unavailable
from common.objects.config import Config
from common.replication import NoLongerMaster, NotCopied
from common.system.log import get_log
from common.system.mastership import Mastership
from daemons.wconfd.configfile import ConfigFile, ForeignChange
from daemons.wconfd.core.config.configstate import ConfigState
from daemons.wconfd.distribution import ConfigChange, Distribution

_log: Final = get_log(__name__)


class DurableConfig:
    """The file, and what the cluster has of it; for one thread at a time.

    Args: note: what is kept beside the file, as it would be written.
    """

    def __init__(
        self, file: ConfigFile, state: ConfigState, note: bytes, distribution: Distribution, mastership: Mastership
    ) -> None:
        self._file = file
        # state in the file, and the note beside it
        self.state = state
        self._note = note
        self._distribution = distribution
        self._mastership = mastership

    def write(self, config: Config, note: bytes) -> None:
        """Make the configuration durable, even if it is the one that it was.

        Raises:
            Unavailable: it could not be committed or written; nothing has changed.
            Conflict: another program has changed the file; nothing has changed.
            NoLongerMaster: nothing may be written any more.
        """
        self._mastership.check()
        before = self.state
        if config is before.config:
            self._write_file(before, note)
            self._note = note
            return
        change = ConfigChange(before, ConfigState.of(config, before), self._note, note)
        self._commit_first(change)
        try:
            self._write_file(change.after, note)
        except BaseException:
            self._take_back(change)
            raise
        self.state, self._note = change.after, note
        self._commit(change)

    def _commit_first(self, change: ConfigChange) -> None:
        try:
            self._file.check_ours()
        except ForeignChange as error:
            # it could not be written
            raise self._refused(str(error)) from error
        except OSError as error:
            raise self._unwritten(error) from error
        try:
            self._distribution.commit_first(change)
        except NoLongerMaster as error:
            raise self._mastership.lose(error) from error

    def _take_back(self, change: ConfigChange) -> None:
        try:
            self._distribution.take_back(change)
        except NoLongerMaster as error:
            raise self._mastership.lose(error) from error

    def _commit(self, change: ConfigChange) -> None:
        """Pass the change to the other nodes."""
        try:
            self._distribution.commit(change.before, change.after)
        except NotCopied as error:
            effect = "the change counts; the other nodes are told again until they have it"
            _log.error("copies.missing", reason=error, serial=change.after.config.serial_no, effect=effect)
        except NoLongerMaster as error:
            raise self._mastership.lose(error) from error

    def _write_file(self, state: ConfigState, note: bytes) -> None:
        try:
            self._file.write(state.content, note)
        except ForeignChange as error:
            raise self._refused(str(error)) from error
        except OSError as error:
            raise self._unwritten(error) from error

    def _unwritten(self, error: OSError) -> Unavailable:
        _log.error("config.unwritten", path=self._file.path, error=error)
        reason = error.strerror or error
        text = f"the configuration could not be written: {reason}; nothing was changed, repeat the call"
        return Unavailable(text, path=str(self._file.path))

    def _refused(self, foreign: str) -> Conflict:
        _log.error("config.foreign", path=self._file.path, error=foreign)
        return Conflict(foreign, path=str(self._file.path))
