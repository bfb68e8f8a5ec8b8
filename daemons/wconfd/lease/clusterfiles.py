"""What wconfd commits in etcd: changes of its files, and which of them some candidate may lack.

Source: DESIGN section 14.
"""

from collections.abc import Awaitable, Mapping, Sequence
from functools import partial
from typing import Final, TypeVar, assert_never

import attrs
import trio

from common.durable.atomicfile import write_file
from common.durable.durably import durably
from common.errors import Conflict, DamagedFile, Unavailable
from common.lease.changes import KeyChange, WrittenFile, decode_fate, divided, encode_fate
from common.lease.records import EtcdKeys
from common.objects.config import Config
from common.paths import Paths
from common.replica.entries import DirtyEntries
from common.replica.replica import NoLongerMaster
from common.system.inthread import in_thread
from common.system.log import get_log
from common.system.mastership import OwnMastershipState
from common.system.shortages import retry_pauses
from daemons.wconfd.configfile import ConfigFile
from daemons.wconfd.core.config.configstate import ConfigState, is_same
from daemons.wconfd.core.config.replicas import Difference, difference, overlay
from daemons.wconfd.core.config.verify import find_problems
from daemons.wconfd.core.keptrows import FORMS, changed_rows, join
from daemons.wconfd.core.reservations import encode
from daemons.wconfd.distribution import ConfigChange, ReservationsChange, RowsChange, StateChange
from protocol.etcd.commits import Commits

# The keys in etcd of what wconfd commits, and the changes of its files as changes of keys.
#
# Source: DESIGN section 14.


T = TypeVar("T")
# beside the names of objects: what is kept beside the file of the configuration
NOTE: Final = "note"


class ConfigKeys:
    """The keys of one cluster."""

    def __init__(self, keys: EtcdKeys) -> None:
        self.prefix = keys.config
        self.reservations = f"{keys.kept}tempres.data"
        self._kept = keys.kept
        # the serial number that every candidate has reached for which changes were forgotten, as text
        self.base = keys.config_base

    @property
    def prefixes(self) -> Sequence[str]:
        """The beginnings of all keys of wconfd."""
        return (self.prefix, self.reservations, self.base, *(f"{self._kept}{file}" for file in FORMS))

    def of_change(self, change: StateChange) -> Sequence[KeyChange]:
        match change:
            case ConfigChange():
                changes = self.of_difference(difference(change.before, change.after))
                if change.note == change.note_before:
                    return changes
                return [*changes, KeyChange(f"{self.prefix}{NOTE}", encode_fate(WrittenFile(change.note)))]
            case RowsChange():
                return self.of_rows(change.file, changed_rows(change.before, change.after))
            case ReservationsChange():
                return [KeyChange(self.reservations, encode_fate(WrittenFile(encode(change.after))))]
            case _:
                assert_never(change)

    def of_difference(self, found: Difference) -> Sequence[KeyChange]:
        return [KeyChange(f"{self.prefix}{name}", encode_fate(fate)) for name, fate in found.items()]

    def of_base(self, serial_no: int) -> KeyChange:
        return KeyChange(self.base, b"%d" % serial_no)

    def of_rows(self, file: str, rows: Mapping[str, bytes | None]) -> Sequence[KeyChange]:
        """Changes of rows of a file of ours. Args: rows: by key; None: it is gone."""
        start = self._rows(file)
        return [
            KeyChange(f"{start}{key}", None if content is None else encode_fate(WrittenFile(content)))
            for key, content in rows.items()
        ]

    def of_file(self, file: str) -> KeyChange:
        """Says that all rows of the file are kept."""
        return KeyChange(f"{self._kept}{file}", encode_fate(WrittenFile(b"")))

    def rows_in(self, found: Mapping[str, bytes], file: str) -> Mapping[str, bytes] | None:
        """All rows of a file of ours, by key; None: they are not kept yet. Raises: DamagedFile."""
        if f"{self._kept}{file}" not in found:
            return None
        start = self._rows(file)
        keys = sorted(key for key in found if key.startswith(start))
        return {key[len(start) :]: content for key in keys if (content := self._written(found, key)) is not None}

    def _rows(self, file: str) -> str:
        return f"{self._kept}{file}/"

    def objects_in(self, found: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """The changed objects, by name."""
        start = len(self.prefix)
        return {
            key[start:]: value
            for key, value in found.items()
            if key.startswith(self.prefix) and key != f"{self.prefix}{NOTE}"
        }

    def note_in(self, found: Mapping[str, bytes]) -> bytes | None:
        """What is kept beside the file; None: no change of it is known."""
        return self._written(found, f"{self.prefix}{NOTE}")

    def reservations_in(self, found: Mapping[str, bytes]) -> bytes | None:
        """The content of the file; None: it was never changed under a lease."""
        return self._written(found, self.reservations)

    def base_in(self, found: Mapping[str, bytes]) -> int:
        """0: nothing was forgotten. Raises: DamagedFile."""
        value = found.get(self.base, b"0")
        if not value.isdigit():
            raise _foreign(self.base, value)
        return int(value)

    @staticmethod
    def _written(found: Mapping[str, bytes], key: str) -> bytes | None:
        if key not in found:
            return None
        fate = decode_fate(key, found[key])
        if not isinstance(fate, WrittenFile):
            raise _foreign(key, found[key])
        return fate.content


def _foreign(key: str, value: bytes) -> DamagedFile:
    return DamagedFile(f"the key '{key}' of etcd has a value that is not ours: {value[:20]!r}; remove it", key=key)


# Rows of files of ours that are in etcd, laid over the files of this node before wconfd loads them.
#
# Theory. Each row that was changed under a lease is in etcd for ever, so what is there is the whole file, and a file
# that differs is an older copy. Until a first wconfd has put all rows of its file there, the file counts.
#
# Source: DESIGN section 14.


# rows that are put together
_TOGETHER: Final = 1000
_log: Final = get_log(__name__)


def lay_rows(paths: Paths, keys: ConfigKeys, found: Mapping[str, bytes]) -> Sequence[Sequence[KeyChange]]:
    """Bring the files up to what is in etcd; return what etcd lacks, in groups to be put in this order.

    Args: found: all keys of wconfd.
    Raises: DamagedFile: a file, or what is in etcd, is not ours. OSError.
    Durability: on return all is durable here.
    """
    lacking: list[Sequence[KeyChange]] = []
    for file, form in FORMS.items():
        rows, path = keys.rows_in(found, file), paths.data / file
        content = path.read_bytes() if path.exists() else None
        if rows is not None:
            joined = join(form.noun, rows.values())
            if joined != (content or join(form.noun, [])):
                # what is not ours must not replace what is
                form.contents(joined)
                durably(partial(write_file, path, joined))
                _log.info("rows.replayed", file=file, rows=len(rows))
            continue
        here = form.contents(content) if content is not None else {}
        changes = keys.of_rows(file, here)
        lacking += [changes[at : at + _TOGETHER] for at in range(0, len(changes), _TOGETHER)]
        # the last: from now on the rows in etcd are all
        lacking.append([keys.of_file(file)])
    return lacking


# What is in etcd, laid over the files of this node, before wconfd loads them.
#
# Theory. Each change is committed in etcd before it is written, so what is there is never older than a file. A file may
# lack changes: it is a copy on a candidate, or the daemon was killed between commit and write. Both get the same, at
# every start. Of a file that is older than what was forgotten in etcd the rest is not known any more: it is refused.
#
# A file with a higher serial number than etcd knows was changed by hand, or etcd was restored from a snapshot. Then the
# file counts, and what etcd has of its objects is put anew.
#
# Source: DESIGN section 14.


@attrs.frozen
class ReplayedFiles:
    # serial number of the configuration now
    serial_no: int
    # what etcd has otherwise, and lacks, in the order in which it is to be put
    older: Sequence[KeyChange] = ()


def lay_over(paths: Paths, keys: ConfigKeys, found: Mapping[str, bytes], *, takes_loss: bool = False) -> ReplayedFiles:
    """Bring the files up to what is in etcd.

    Args:
        found: all keys of wconfd, in the order of their changes.
        takes_loss: whether changes that are not kept any more may be lost: an operator wants it so.
    Raises:
        NotFound: there is no configuration here. DamagedFile: it is damaged, or what is in etcd is not ours.
        Conflict: this node's configuration lacks changes that are not kept any more, or is that of another cluster.
        OSError.
    Durability: on return all is durable here.
    """
    reservations = keys.reservations_in(found)
    if reservations is not None:
        _write_reservations(paths, reservations)
    file = ConfigFile(paths.config_data)
    config = file.read()
    known = _not_older(paths, config, keys.base_in(found), takes_loss=takes_loss)
    after, older = overlay(known, keys.objects_in(found)), list[KeyChange]()
    if after.serial_no < known.serial_no:
        after, older = known, _over(known, after, keys)
    note = file.note if older else keys.note_in(found)
    if is_same(config, after) and (note is None or note == file.note):
        return ReplayedFiles(config.serial_no, older)
    if problems := find_problems(after):
        raise DamagedFile(
            f"the configuration '{paths.config_data}' with its changes in etcd is inconsistent: {'; '.join(problems)}; "
            "copy the file from the last master, and start again"
        )
    file.write(ConfigState.of(after).content, file.note if note is None else note)
    _log.info("config.replayed", changes=len(found), serial_before=config.serial_no, serial=after.serial_no)
    return ReplayedFiles(after.serial_no, older)


def _over(config: Config, older: Config, keys: ConfigKeys) -> list[KeyChange]:
    effect = "the file counts, and is put into etcd"
    _log.warning("config.newer_than_etcd", serial=config.serial_no, serial_in_etcd=older.serial_no, effect=effect)
    return list(keys.of_difference(difference(ConfigState.of(older), ConfigState.of(config))))


def _write_reservations(paths: Paths, content: bytes) -> None:
    if not paths.tempres_data.exists() or paths.tempres_data.read_bytes() != content:
        durably(lambda: write_file(paths.tempres_data, content))
        _log.info("reservations.replayed", size=len(content))


def _not_older(paths: Paths, config: Config, base: int, *, takes_loss: bool) -> Config:
    """The configuration; one that has lost changes with the serial number that they had led to."""
    if config.serial_no >= base:
        return config
    if not takes_loss:
        raise Conflict(
            f"'{paths.config_data}' has the serial number {config.serial_no} and lacks changes up to {base}, which all "
            "other candidates have; let one of them become the master, or copy the file from it; to lose them, "
            f"use 'gantry cluster takeover' on this node, or set the last 'serial_no' in the file to {base}"
        )
    _log.error("config.changes_lost", serial=config.serial_no, lost_up_to=base, reason="an operator has accepted it")
    return attrs.evolve(config, serial_no=base)


class ClusterFiles:
    """wconfd's files in the cluster: commits of their changes, and what some candidate may lack."""

    def __init__(self, commits: Commits, keys: ConfigKeys, mastership: OwnMastershipState) -> None:
        self.commits = commits
        self.keys = keys
        # what some candidate may lack of the configuration; the numbers of changes are its serial numbers
        self.uncopied = DirtyEntries[str]()
        self._mastership = mastership
        # the last serial number that was noted in etcd before changes were forgotten
        self.base = 0

    async def replay(self, paths: Paths, *, takes_loss: bool) -> None:
        """Bring this node's files up to what is in etcd.

        Raises: NoLongerMaster. As `replaying.lay_over`. Args: takes_loss: as there.
        """
        found = await self._as_master(self.commits.read(self.keys.prefixes))
        values = {key: entry.value for key, entry in found.entries.items()}
        laid = await in_thread(partial(lay_over, paths, self.keys, values, takes_loss=takes_loss))
        self.base = self.keys.base_in(values)
        for key, entry in found.entries.items():
            if key.startswith(self.keys.prefix):
                self.uncopied.committed([key], entry.revision, laid.serial_no)
        # serial number and times are the last: until then the file is newer, and counts again
        for changes in divided(laid.older):
            await self.insist(changes, laid.serial_no)
        for changes in await in_thread(lay_rows, paths, self.keys, values):
            await self.insist(changes)

    async def commit(self, changes: Sequence[KeyChange], serial_no: int | None = None) -> None:
        """Commit changes. Args: serial_no: of the configuration with them; None: they are none of it.

        Raises: NoLongerMaster. Unavailable, InvalidRequest: nothing was committed.
        """
        revision = await self._as_master(self.commits.commit(changes))
        if serial_no is not None:
            self.uncopied.committed([change.key for change in changes], revision, serial_no)

    async def insist(self, changes: Sequence[KeyChange], serial_no: int | None = None) -> None:
        """Commit changes, however long it takes. Raises: NoLongerMaster."""
        retries, told = retry_pauses(), ""
        while True:
            try:
                await self.commit(changes, serial_no)
                return
            except NoLongerMaster:
                raise
            except Unavailable as error:
                if error.message != told:
                    told = error.message
                    _log.error("commit.delayed", reason=error, going_on="again until it succeeds")
            await trio.sleep(next(retries))

    async def forget(self, serial_no: int) -> None:
        """Forget what led up to this serial number, which all candidates have. Raises: NoLongerMaster. Unavailable."""
        due = self.uncopied.forgettable(self.uncopied.keys, lambda _, number: number <= serial_no)
        if not due:
            return
        if serial_no > self.base:
            await self.commit([self.keys.of_base(serial_no)])
            self.base = serial_no
        await self._as_master(self.commits.forget(due))
        self.uncopied.forgotten(due)

    async def _as_master(self, work: Awaitable[T]) -> T:
        """What etcd says of the mastership ends wconfd. Raises: as the work."""
        try:
            return await work
        except NoLongerMaster as error:
            self._mastership.lose(error)
            raise
