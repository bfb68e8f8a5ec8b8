"""Rows of files of ours that are in etcd, laid over the files of this node before wconfd loads them.

Theory. Each row that was changed under a lease is in etcd for ever, so what is there is the whole file, and a file that
differs is an older copy. Until a first wconfd has put all rows of its file there, the file counts.

Source: DESIGN section 14.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from common.durable.atomicfile import write_file
from common.durable.durably import durably
from common.lease.dirty import Change
from common.paths import Paths
from common.system.log import get_log
from daemons.wconfd.core.keptforms import FORMS
from daemons.wconfd.core.keptrows import join
from daemons.wconfd.lease.configkeys import ConfigKeys

# rows that are put together
_TOGETHER: Final = 1000
_log: Final = get_log(__name__)


def lay_rows(paths: Paths, keys: ConfigKeys, found: Mapping[str, bytes]) -> Sequence[Sequence[Change]]:
    """Bring the files up to what is in etcd; return what etcd lacks, in groups to be put in this order.

    Args: found: all keys of wconfd.
    Raises: DamagedFile: a file, or what is in etcd, is not ours. OSError.
    Durability: on return all is durable here.
    """
    lacking: list[Sequence[Change]] = []
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
