"""Why a command could not be started, in words: each reason has its own text."""

import errno
import os
import resource
from typing import Final, assert_never

from common.commands.prelude import Failure, Step

_MAGIC_BYTES: Final = 4
_ELF: Final = b"\x7fELF"
_ENTERED: Final = {errno.ENOENT: "does not exist", errno.ENOTDIR: "is not a folder"}


def folder_words(cwd: str, number: int | None, user: str) -> str:
    """Args: number: errno of entering the folder."""
    if number in _ENTERED:
        return f"cwd {cwd!r} {_ENTERED[number]}"
    return f"user {user!r} cannot enter cwd {cwd!r}: {_reason(number)}; name another folder, or change its mode"


def prelude_words(failure: Failure, user: str) -> str:
    """Why a step between fork and exec failed."""
    match failure.step:
        case Step.FOLDER:
            return folder_words(failure.name, failure.number, user)
        case Step.INPUT:
            what = "it is not a regular file" if failure.number is None else _reason(failure.number)
            return f"user {user!r} cannot read {failure.name!r} for standard input: {what}"
        case Step.NICENESS:
            return f"user {user!r} may not have the niceness {failure.name}: {_reason(failure.number)}"
        case Step.LIMIT:
            number = int(failure.name)
            return f"the limit '{limit_name(number)}' cannot be set: user {user!r} has at most {_hard_limit(number)}"
        case _:
            assert_never(failure.step)


def program_words(program: str, path: str, error: OSError) -> str:
    """Why a program was not executed.

    Args:
        path: the PATH that was searched.
    """
    found = _find(program, path)
    match error.errno:
        case errno.ENOENT if found is not None:
            return f"{program!r} cannot be started: the program that its '#!' line names does not exist"
        case errno.ENOENT | errno.ENOTDIR:
            where = "" if "/" in program else f" in the PATH of the job, {path}"
            return f"there is no program {program!r}{where}; give its full path, or install it"
        case errno.ENOEXEC:
            return f"{program!r} cannot be started: {_format_words(found)}"
        case errno.EACCES if found is not None and os.path.isdir(found):
            return f"{program!r} is a folder; name a program"
        case errno.EACCES | errno.EPERM:
            return f"{program!r} may not be executed: {_reason(error.errno)}; check its mode and owner"
        case errno.E2BIG:
            return f"{program!r} cannot be started: its arguments and its environment are too long for the kernel"
        case _:
            return f"{program!r} cannot be started: {_reason(error.errno)}"


def limit_name(number: int) -> str:
    """`nofile` for RLIMIT_NOFILE."""
    names = (name for name in dir(resource) if name.startswith("RLIMIT_") and getattr(resource, name) == number)
    return next(names, str(number)).removeprefix("RLIMIT_").lower()


def _hard_limit(number: int) -> str:
    hard = resource.getrlimit(number)[1]
    return "unlimited" if hard == resource.RLIM_INFINITY else str(hard)


def _format_words(found: str | None) -> str:
    try:
        with open(found or "", "rb") as file:
            magic = file.read(_MAGIC_BYTES)
    except OSError:
        magic = b"?"
    if magic == _ELF:
        return "it is made for another kind of machine"
    if not magic:
        return "it is empty"
    return "it is a script without a '#!' line; begin it with '#!/bin/sh', or run it by its interpreter: sh SCRIPT"


def _find(program: str, path: str) -> str | None:
    places = [program] if "/" in program else [os.path.join(folder, program) for folder in path.split(os.pathsep)]
    return next((place for place in places if os.path.lexists(place)), None)


def _reason(number: int | None) -> str:
    return os.strerror(number).lower() if number is not None else "it is not known why"
