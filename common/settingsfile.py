"""The file of settings: where an installation has it, and how it is read.

It may be missing. It is checked key by key when it is read, and an unknown key is refused: a misspelt setting that is
silently ignored is worse than a daemon that does not start. An installation is the system's, or a private one.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import attrs

from common.errors import InvalidRequest, NotFound, Unavailable
from common.featuresettings import RuleFault, Rules, read_rules
from common.paths import Paths
from common.settings import CLASSES, USER_READERS, Settings
from common.validation import READERS

# Read the tables of a file of settings, key by key; a message says which file, table and key, and what is allowed.
#
# Raises, all: InvalidRequest: the file is not TOML, has an unknown table or key, or a wrong value.
#
# Source: common/settings.py.


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


SYSTEM_FILE: Final = Path("/etc/gantry/gantry.toml")
SYSTEM_PATHS: Final = Paths(Path("/var/lib/gantry"), Path("/run/gantry"), Path("/var/log/gantry"))
ROOT_VARIABLE: Final = "GANTRY_ROOT"
_FILE_NAME: Final = "gantry.toml"
_TABLES: Final = ("paths", *CLASSES)


def load_settings(root: Path | None = None, environ: Mapping[str, str] = os.environ) -> Settings:
    """Load the settings of the installation in `root`, else in $GANTRY_ROOT, else of the system.

    A missing file means defaults. Nothing is created, and the folders need not exist.

    Raises:
        InvalidRequest: the file is not TOML, has an unknown table or key, or a wrong value.
        Unavailable: the users that it names cannot be looked up now.
        OSError: the file cannot be read.
    """
    root = named_root(root, environ)
    if root is None:
        return _read_settings(SYSTEM_FILE, SYSTEM_PATHS)
    paths = Paths.under_root(root)
    return attrs.evolve(_read_settings(paths.data.parent / _FILE_NAME, paths), root=root)


def find_installation(root: Path | None = None, environ: Mapping[str, str] = os.environ) -> Settings:
    """`load_settings` for clients, for which the installation must exist.

    Raises:
        NotFound: no root is given, and the system has neither a settings file nor a socket;
            the message lists the places.
        InvalidRequest, Unavailable, OSError: as `load_settings`.
    """
    settings = load_settings(root, environ)
    if named_root(root, environ) is not None or settings.source is not None or settings.paths.query_socket.exists():
        return settings
    raise NotFound(
        f"no installation found: no --root given, ${ROOT_VARIABLE} not set, no file '{SYSTEM_FILE}', "
        f"no socket '{settings.paths.query_socket}'; start one with: gantry --root DIR up"
    )


def read_despite_faults(root: Path | None = None, environ: Mapping[str, str] = os.environ) -> Settings:
    """What can be read of a settings file that `load_settings` refuses, with defaults for the tables with faults.

    For clients that must not depend on the whole file, such as the one that stops the daemons.

    Raises: InvalidRequest: the folders of the installation cannot be known. OSError.
    """
    root = named_root(root, environ)
    defaults = SYSTEM_PATHS if root is None else Paths.under_root(root)
    file = SYSTEM_FILE if root is None else defaults.data.parent / _FILE_NAME
    text = file.read_bytes()
    try:
        tables = parse_toml(file, text)
    except InvalidRequest:
        if b"[paths]" in text:
            raise
        tables = {}
    paths = read_paths(file, table_of(file, "paths", tables.get("paths", {}), _TABLES), defaults)
    found = {name: table for name, table in tables.items() if isinstance(table, dict)}
    return attrs.evolve(_settings_of(file, found, paths, is_forgiving=True), root=root)


def named_root(root: Path | None = None, environ: Mapping[str, str] = os.environ) -> Path | None:
    """The given folder, else that of $GANTRY_ROOT, absolute; None: the installation of the system."""
    # an empty variable counts as unset
    text = environ.get(ROOT_VARIABLE)
    root = root or (Path(text) if text else None)
    return None if root is None else Path(os.path.abspath(root))


def _read_settings(file: Path, paths: Paths) -> Settings:
    try:
        text = file.read_bytes()
    except FileNotFoundError:
        return Settings(paths)
    tables = {name: table_of(file, name, value, _TABLES) for name, value in parse_toml(file, text).items()}
    return _settings_of(file, tables, read_paths(file, tables.get("paths", {}), paths))


def _settings_of(
    file: Path, tables: Mapping[str, Mapping[str, object]], paths: Paths, *, is_forgiving: bool = False
) -> Settings:
    read: dict[str, Any] = {}
    for name, cls in CLASSES.items():
        try:
            read[name] = read_table(file, name, cls, tables.get(name, {}))
        except (InvalidRequest, Unavailable):
            if not is_forgiving:
                raise
            read[name] = cls()
    return Settings(paths=paths, source=file, **read)
