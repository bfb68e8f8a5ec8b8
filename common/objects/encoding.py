"""The configuration as the bytes of its file, which are also the reply to a reader.

Theory. The configuration is a value: a change makes a new one that shares all unchanged objects
with the old one. So the bytes of an object are kept beside the object, and a configuration of
thousands of objects is encoded by encoding the changed ones and joining all.
"""

from collections.abc import Mapping
from typing import Final, TypeVar

import attrs

from common.asciijson import ascii_json
from common.objects.codec import to_json
from common.objects.config import Config

K = TypeVar("K", bound=str)

# key -> (object, `"key":{...}`), the rows of a table
_Rows = Mapping[str, tuple[object, bytes]]
_NO_ROWS: Final[_Rows] = {}
_TABLES: Final = ("nodes", "nodegroups", "instances", "networks", "disks", "filters")


@attrs.frozen
class EncodedConfig:
    """A configuration's bytes: compact JSON in pure ASCII, without a final newline."""

    content: bytes
    _rows: Mapping[str, _Rows] = attrs.field(repr=False, eq=False)

    def object(self, table: str, key: str) -> bytes:
        """Return the bytes of one object; of the cluster as ("cluster", "cluster").

        Raises: KeyError.
        Cost: O(its size).
        """
        row = self._rows[table][key][1]
        return row[len(ascii_json(key)) + 1 :]


def encode_config(config: Config, before: EncodedConfig | None = None) -> EncodedConfig:
    """Encode a configuration.

    Args:
        before: the encoding of a configuration that shares objects with this one.
    Cost: encodes the objects that are not identical to those before; joins the rest.
    """
    known: Mapping[str, _Rows] = before._rows if before else {}
    rows: dict[str, _Rows] = {
        "cluster": _encode_rows({"cluster": config.cluster}, known.get("cluster", _NO_ROWS)),
        **{name: _encode_rows(getattr(config, name), known.get(name, _NO_ROWS)) for name in _TABLES},
    }
    parts = [b'{"version":%d' % config.version, rows["cluster"]["cluster"][1]]
    for name in _TABLES:
        parts.append(b'"%b":{%b}' % (name.encode(), b",".join(row for _, row in rows[name].values())))
    times = ascii_json({"ctime": config.ctime, "mtime": config.mtime, "serial_no": config.serial_no})
    return EncodedConfig(b",".join([*parts, times[1:]]), rows)


def _encode_rows(table: Mapping[K, attrs.AttrsInstance], known: _Rows) -> _Rows:
    rows: dict[str, tuple[object, bytes]] = {}
    for key, value in table.items():
        row = known.get(key)
        if row is None or row[0] is not value:
            row = (value, b"%b:%b" % (ascii_json(key), ascii_json(to_json(value))))
        rows[key] = row
    return rows
