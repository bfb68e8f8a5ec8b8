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
from daemons.wconfd.core.config.differences import difference, overlay
from daemons.wconfd.core.config.verify import find_problems
from daemons.wconfd.lease.configkeys import ConfigKeys

_log: Final = get_log(__name__)


@attrs.frozen
class Laid:
    # serial number of the configuration now
    serial_no: int
    # what etcd has otherwise, and lacks
    older: Sequence[Change] = ()


def lay_over(paths: Paths, keys: ConfigKeys, found: Mapping[str, bytes]) -> Laid:
    """Bring the files up to what is in etcd.

    Args: found: all keys of wconfd, in the order of their changes.
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
    _check_age(paths, config, keys.base_in(found))
    after = overlay(config, keys.objects_in(found))
    if after.serial_no < config.serial_no:
        return _laid_under(config, after, keys)
    note = keys.note_in(found)
    if is_same(config, after) and (note is None or note == file.note):
        return Laid(config.serial_no)
    if problems := find_problems(after):
        raise DamagedFile(
            f"the configuration '{paths.config_data}' with its changes in etcd is inconsistent: {'; '.join(problems)}; "
            "copy the file from the last master, and start again"
        )
    file.write(ConfigState.of(after).content, file.note if note is None else note)
    _log.info("config.replayed", changes=len(found), serial_before=config.serial_no, serial=after.serial_no)
    return Laid(after.serial_no)


def _laid_under(config: Config, older: Config, keys: ConfigKeys) -> Laid:
    changes = keys.of_difference(difference(ConfigState.of(older), ConfigState.of(config)))
    effect = "the file counts, and is put into etcd"
    _log.warning("config.newer_than_etcd", serial=config.serial_no, serial_in_etcd=older.serial_no, effect=effect)
    return Laid(config.serial_no, changes)


def _write_reservations(paths: Paths, content: bytes) -> None:
    if not paths.tempres_data.exists() or paths.tempres_data.read_bytes() != content:
        durably(lambda: write_file(paths.tempres_data, content))
        _log.info("reservations.replayed", size=len(content))


def _check_age(paths: Paths, config: Config, base: int) -> None:
    if config.serial_no < base:
        raise Conflict(
            f"'{paths.config_data}' has the serial number {config.serial_no} and lacks changes up to {base}, which all "
            "other candidates have; let one of them become the master, or copy the file from it; to lose them, "
            f"set the last 'serial_no' in the file to {base}"
        )
