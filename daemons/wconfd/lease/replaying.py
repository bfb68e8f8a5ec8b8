"""What is in etcd, laid over the files of this node, before wconfd loads them.

Theory. Each change is committed in etcd before it is written, so what is there is never older than a file. A file may
lack changes: it is a copy on a candidate, or the daemon was killed between commit and write. Both get the same, at
every start. Of a file that is older than what was forgotten in etcd the rest is not known any more: it is refused.

A file with a higher serial number than etcd knows was changed by hand, or etcd was restored from a snapshot. Then the
file counts, and what etcd has of its objects is put anew.

Source: DESIGN section 14.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from common.durable.atomicfile import write_file
from common.durable.durably import durably
from common.errors import Conflict, DamagedFile
from common.lease.dirty import Change
from common.objects.config import Config
from common.paths import Paths
from common.system.log import get_log
from daemons.wconfd.configfile import ConfigFile
from daemons.wconfd.core.config.configstate import ConfigState, is_same
from daemons.wconfd.core.config.replicas.differences import difference, overlay
from daemons.wconfd.core.config.verify import find_problems
from daemons.wconfd.lease.configkeys import ConfigKeys

_log: Final = get_log(__name__)


@attrs.frozen
class Laid:
    # serial number of the configuration now
    serial_no: int
    # what etcd has otherwise, and lacks, in the order in which it is to be put
    older: Sequence[Change] = ()


def lay_over(paths: Paths, keys: ConfigKeys, found: Mapping[str, bytes], *, takes_loss: bool = False) -> Laid:
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
    after, older = overlay(known, keys.objects_in(found)), list[Change]()
    if after.serial_no < known.serial_no:
        after, older = known, _over(known, after, keys)
    note = file.note if older else keys.note_in(found)
    if is_same(config, after) and (note is None or note == file.note):
        return Laid(config.serial_no, older)
    if problems := find_problems(after):
        raise DamagedFile(
            f"the configuration '{paths.config_data}' with its changes in etcd is inconsistent: {'; '.join(problems)}; "
            "copy the file from the last master, and start again"
        )
    file.write(ConfigState.of(after).content, file.note if note is None else note)
    _log.info("config.replayed", changes=len(found), serial_before=config.serial_no, serial=after.serial_no)
    return Laid(after.serial_no, older)


def _over(config: Config, older: Config, keys: ConfigKeys) -> list[Change]:
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
