"""Read the tables of a file of settings, key by key; a message says which file, table and key, and what is allowed.

Raises, all: InvalidRequest: the file is not TOML, has an unknown table or key, or a wrong value.

Source: common/settings.py.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

import attrs

from common.errors import InvalidRequest
from common.paths import Paths
from common.settingwords.notifysettings import RuleFault, Rules, read_rules
from common.settingwords.settingusers import USER_READERS
from common.settingwords.settingvalues import READERS

# type of a setting -> (what it is in words, the function that reads it)
ALL_READERS: Final = {**READERS, **USER_READERS, Rules: ("a table of rules, '[notify.rules.NAME]'", read_rules)}

_Table = TypeVar("_Table", bound=attrs.AttrsInstance)


def parse_toml(file: Path, text: bytes) -> dict[str, object]:
    """What the file has at its top, by name."""
    # imported late: most starts have no settings file
    import tomllib

    try:
        return tomllib.loads(text.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise _refuse(file, f"not valid TOML: {error}") from error


def table_of(file: Path, name: str, value: object, known: Sequence[str]) -> dict[str, object]:
    """The value, which must be a table, and its name a known one."""
    if name not in known:
        raise _refuse(file, f"unknown table '[{name}]'{_nearest(name, known)}")
    if not isinstance(value, dict):
        raise _refuse(file, f"'{name}' is a table, write '[{name}]' and its keys below")
    return value


def read_table(file: Path, name: str, cls: type[_Table], table: Mapping[str, object]) -> _Table:
    """The settings of one table; keys that are not given have their defaults."""
    fields = {field.name: field for field in attrs.fields(cls)}
    values: dict[str, object] = {}
    for key, value in table.items():
        field = fields.get(key)
        if field is None:
            raise _refuse(file, f"unknown key '{key}' in '[{name}]'{_nearest(key, fields)}")
        expected, read = ALL_READERS[field.type]
        try:
            values[key] = read(value)
            if field.validator is not None:
                field.validator(None, field, values[key])
        except TypeError:
            raise _refuse(file, f"'{key}' in '[{name}]' must be {expected}, got {value!r}") from None
        except RuleFault as error:
            raise _refuse(file, str(error)) from None
        except ValueError as error:
            raise _refuse(file, f"'{key}' in '[{name}]' got {value!r}: {error}") from None
    return cls(**values)


def read_paths(file: Path, table: Mapping[str, object], defaults: Paths) -> Paths:
    """The paths of an installation, with those that the table changes."""
    fields = [field.name for field in attrs.fields(Paths)]
    changes: dict[str, Path] = {}
    for key, value in table.items():
        if key not in fields:
            raise _refuse(file, f"unknown key '{key}' in '[paths]'{_nearest(key, fields)}")
        if not isinstance(value, str) or not os.path.isabs(value):
            raise _refuse(file, f"'{key}' in '[paths]' must be an absolute path in quotes, got {value!r}")
        changes[key] = Path(value)
    return attrs.evolve(defaults, **changes)


def _nearest(name: str, known: Iterable[str]) -> str:
    # imported late: only an error needs it
    import difflib

    known = list(known)
    nearest = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean '{nearest[0]}'?" if nearest else f"; known are {', '.join(known)}"


def _refuse(file: Path, message: str) -> InvalidRequest:
    return InvalidRequest(f"{file}: {message}", file=str(file))
