"""`gantry-wconfd --check FILE...`: check files of wconfd without a daemon.

Source: wconfd.md 6.2, 7.6 and 7.7.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import orjson

from common.errors import DamagedFile, InvalidRequest
from common.objects.codec import decode_config
from daemons.wconfd.core import reservations
from daemons.wconfd.core.config.verify import find_problems
from daemons.wconfd.core.keptrows import FORMS
from daemons.wconfd.core.locks.encoding import LockRows, rebuild, replay
from daemons.wconfd.core.locks.mayrun import decode_may_run
from daemons.wconfd.locks.lockfiles import JOURNAL, read_pair

# (place, as `byte 17` or `$.cluster.uuid`, reason)
Problem = tuple[str, str]

_USAGE: Final = """usage: gantry-wconfd --check FILE...

Checks config.data, locks.data, ghosts.data, tempres.data, schedules.data, resources.data and sessions.data files, also
copies of them under names that begin so. The journal of a locks.data is checked with it; it lies beside it, as
locks.data.journal.
Ends with 0 if all are sound, with 1 if any is not; for each problem a line says file, place and reason.
"""


def check_files(names: Sequence[str]) -> int:
    """Check these files and print the problems; return the exit code: 0 sound, 1 not sound, 2 no files given."""
    if not names or any(name.startswith("-") for name in names):
        print(_USAGE, end="", file=sys.stdout if "--help" in names or "-h" in names else sys.stderr)
        return 0 if "--help" in names or "-h" in names else 2
    found = [(name, list(_problems(Path(name)))) for name in names]
    for name, problems in found:
        for where, reason in problems:
            print(f"{name}: {where}: {reason}")
        if not problems:
            print(f"{name}: ok")
    return int(any(problems for _, problems in found))


def _problems(path: Path) -> Iterator[Problem]:
    check = next((check for stem, check in _CHECKS.items() if path.name.startswith(stem)), None)
    if check is _check_locks and path.name.endswith(JOURNAL):
        check = _check_journal
    if check is None:
        yield "$", f"it is none of the files of wconfd by its name; they begin with {', '.join(_CHECKS)}"
        return
    try:
        yield from check(path)
    except OSError as error:
        yield "-", f"it cannot be read: {error.strerror}"


def _check_config(path: Path) -> Iterator[Problem]:
    try:
        config = decode_config(orjson.loads(path.read_bytes()))
    except orjson.JSONDecodeError as error:
        yield f"byte {len(error.doc[: error.pos].encode())}", f"it is not JSON: {error.msg}"
    except InvalidRequest as error:
        for problem in error.message.removeprefix("invalid configuration: ").split("; "):
            reason, _, where = problem.rpartition(" @ ")
            yield (where, reason) if reason else ("$", where)
    else:
        for problem in find_problems(config):
            yield "$", problem


def _damage(decode: Callable[[], object]) -> Iterator[Problem]:
    """The problem, if there is one, that a file cannot be decoded."""
    try:
        decode()
    except DamagedFile as error:
        where = str(error.fields["where"])
        yield where, error.message.partition(f" at {where}: ")[2] or error.message


def _check_locks(path: Path) -> Iterator[Problem]:
    """Check both together with the journal beside it, if there is one."""
    content, journal = read_pair(path)

    def decode() -> None:
        rows = LockRows.read(content)
        if journal is not None:
            replay(journal, content, rows)
        rebuild(rows)

    return _damage(decode)


def _check_journal(path: Path) -> Iterator[Problem]:
    """Check together with the `locks.data` beside it, which it continues."""
    return _check_locks(path.with_name(path.name.removesuffix(JOURNAL)))


def _check_rows(path: Path) -> Iterator[Problem]:
    """Check a file of rows, whose form its name tells."""
    form = next(form for name, form in FORMS.items() if path.name.startswith(name))
    return _damage(lambda: form.contents(path.read_bytes()))


_CHECKS: Final[Mapping[str, Callable[[Path], Iterator[Problem]]]] = {
    "config.data": _check_config,
    "locks.data": _check_locks,
    "ghosts.data": lambda path: _damage(lambda: decode_may_run(path.read_bytes())),
    "tempres.data": lambda path: _damage(lambda: reservations.decode(path.read_bytes())),
    **dict.fromkeys(FORMS, _check_rows),
}
