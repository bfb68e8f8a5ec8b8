"""Convert configuration objects from JSON values and back, strictly, by the rules of `entity`.

Source: wconfd.md 7.1.
"""

from collections.abc import Callable, Mapping
from functools import partial
from operator import eq
from typing import Final, TypeVar, cast

import attrs
from cattrs import BaseConverter, Converter
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn, override

from common.jsontext import ascii_json
from common.objects.config import (
    UNWRITTEN,
    AnyDisk,
    AnyInstance,
    Config,
    Disk,
    ForthcomingDisk,
    ForthcomingInstance,
    Instance,
    Ipolicy,
    Ispec,
    PartialIpolicy,
    PartialIspec,
)
from common.objects.kinds import Mebibytes
from common.shapes import OwnForm
from common.wire import Hook, expected, explain, make_converter, read_mebibytes

T = TypeVar("T")

_HYPHENATED: Final = (Ispec, PartialIspec, Ipolicy, PartialIpolicy)


def decode_config(value: object) -> Config:
    """Read a whole configuration from a JSON value.

    Raises: InvalidRequest: unknown or missing keys, wrong types, each with its place:
        `invalid configuration: expected int, got 'x' @ $.nodes['...'].serial_no`.
    """
    return decode_object(value, Config, "configuration")


def decode_object(value: object, kind: type[T], what: str) -> T:
    """Read one configuration object from a JSON value. Raises: InvalidRequest."""
    try:
        return _fast.structure(value, kind)
    except Exception:
        return explain(_detailed, value, kind, what)


def to_json(value: attrs.AttrsInstance) -> dict[str, object]:
    """The JSON-able form of a configuration object."""
    return cast(dict[str, object], _fast.unstructure(value))


def _make_object_converter(*, detailed: bool) -> Converter:
    converter = make_converter(detailed=detailed)
    converter.register_structure_hook_factory(_is_object, _object_reader)
    converter.register_unstructure_hook_factory(_is_object, _object_writer)
    for either, settled, forthcoming in (
        (AnyInstance, Instance, ForthcomingInstance),
        (AnyDisk, Disk, ForthcomingDisk),
    ):
        reader = _either_reader(converter, settled, forthcoming)
        converter.register_structure_hook_func(partial(eq, either), reader)
    converter.register_structure_hook_func(lambda kind: kind == frozenset[str], _read_tags)
    converter.register_unstructure_hook_func(lambda kind: kind == frozenset[str], sorted)
    converter.register_structure_hook_func(lambda kind: kind is Mebibytes, lambda value, _: read_mebibytes(value))
    return converter


def _is_object(kind: object) -> bool:
    return (
        isinstance(kind, type)
        and attrs.has(kind)
        and kind.__module__.startswith("common.objects.")
        and not issubclass(kind, OwnForm)
    )


def _key(kind: type, field: "attrs.Attribute[object]") -> str:
    return field.name.replace("_", "-") if kind in _HYPHENATED else field.name


def _object_reader(kind: type[attrs.AttrsInstance], converter: BaseConverter) -> Hook:
    keys = {field.name: _key(kind, field) for field in attrs.fields(kind)}
    renames = {name: override(rename=key) for name, key in keys.items()}
    inner = make_dict_structure_fn(
        kind,
        cast(Converter, converter),
        _cattrs_forbid_extra_keys=True,
        **renames,  # type: ignore[arg-type]  # the names are those of fields, not of options
    )
    known = frozenset(keys.values())

    def read(value: object, _: object) -> object:
        if not isinstance(value, dict):
            raise expected("an object", value)
        if None in value.values():
            # null means absent, but not for an unknown key
            value = {key: part for key, part in value.items() if part is not None or key not in known}
        return inner(value, kind)

    return read


def _object_writer(kind: type, converter: BaseConverter) -> Callable[[object], dict[str, object]]:
    overrides = {
        field.name: override(
            rename=_key(kind, field),
            omit_if_default=field.default is None or UNWRITTEN in field.metadata,
        )
        for field in attrs.fields(kind)
    }
    return make_dict_unstructure_fn(kind, converter, **overrides)  # type: ignore[arg-type]  # as above


def _either_reader(converter: Converter, settled: type, forthcoming: type) -> Hook:
    def read(value: object, _: object) -> object:
        if not isinstance(value, dict) or "forthcoming" not in value:
            return converter.structure(value, settled)
        if value["forthcoming"] is True:
            return converter.structure(value, forthcoming)
        if value["forthcoming"] is not False and value["forthcoming"] is not None:
            raise expected("true or false as 'forthcoming'", value["forthcoming"])
        return converter.structure({key: part for key, part in value.items() if key != "forthcoming"}, settled)

    return read


def _read_tags(value: object, _: object) -> frozenset[str]:
    if not isinstance(value, list) or not all(isinstance(tag, str) for tag in value):
        raise expected("a list of strings", value)
    return frozenset(value)


_fast: Final = _make_object_converter(detailed=False)
_detailed: Final = _make_object_converter(detailed=True)


# The configuration as the bytes of its file, which are also the reply to a reader.
#
# Theory. The configuration is a value: a change makes a new one that shares all unchanged objects
# with the old one. So the bytes of an object are kept beside the object, and a configuration of
# thousands of objects is encoded by encoding the changed ones and joining all.


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
