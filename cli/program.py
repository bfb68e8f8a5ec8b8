"""Run a program to its exit code: each failure becomes one line that says what to do next.

Source: cli.md 1.1.
"""

import io
import os
import signal
import sys
from collections.abc import Sequence
from typing import Final, NoReturn

import click

from cli.exitcodes import DONE, FAILED, INTERRUPTED, NOT_REACHED, OURS, USAGE, FailedToWait
from cli.screen import complain
from common.errors import (
    ConnectionLost,
    Denied,
    GantryError,
    InvalidRequest,
    JobLost,
    NotFound,
    RemoteError,
    Unavailable,
    explain_os_error,
)

DEBUG_VARIABLE: Final = "GANTRY_DEBUG"


def run(command: click.Command, program: str) -> NoReturn:
    """Run `command` with the arguments of this process, then end the process."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        # see `cli/__init__.py`
        signal.signal(signal.SIGINT, signal.default_int_handler)
    _replace_closed_streams()
    if isinstance(sys.stdout, io.TextIOWrapper):
        # lines go to a pipe at once, too: its reader may wait for them
        sys.stdout.reconfigure(line_buffering=True)
    if f"_{program.replace('-', '_')}_COMPLETE".upper() in os.environ:
        # imported late: a shell asks what could be typed next, every other start does without
        from cli.shells import use_our_scripts

        use_our_scripts()
    code = exit_code(command, program)
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        code = _reader_left()
    except OSError as error:
        # what was told of it already is not told again
        code = code or _report(error)
        _leave_output()
    sys.exit(code)


def _replace_closed_streams() -> None:
    """Open the null device for closed standard streams, so that no socket of ours takes their numbers.

    `sys.stdin` stays None, so that a command that reads from it can refuse.
    """
    for fd in range(3):
        try:
            os.fstat(fd)
        except OSError:
            # open takes the lowest free number, which is this one
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", errors="replace", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", errors="replace", closefd=False)


def exit_code(command: click.Command, program: str, args: Sequence[str] | None = None) -> int:
    """Run `command` and return its exit code; every error has been told to the user.

    Args: args: arguments; those of this process if left out.
    """
    try:
        code = command.main(args, prog_name=program, standalone_mode=False)
    except FailedToWait as failed:
        told = _code_of(failed.error, program)
        return told if told == INTERRUPTED else OURS
    except (Exception, KeyboardInterrupt) as error:
        return _code_of(error, program)
    return code if isinstance(code, int) else DONE


def _code_of(error: BaseException, program: str) -> int:
    """Tell the user of the error; return the exit code."""
    match error:
        case click.exceptions.NoArgsIsHelpError():
            error.show()
            return USAGE
        case click.ClickException():
            complain(_usage_text(error, program))
            return USAGE
        case click.Abort() | KeyboardInterrupt():
            return INTERRUPTED
        case BrokenPipeError():
            return _reader_left()
        case GantryError() | OSError():
            return _report(error)
        case Exception():
            return _report_bug(error, program)
        case _:
            raise error


def _reader_left() -> int:
    _leave_output()
    return FAILED


def _leave_output() -> None:
    # Python flushes standard output once more at its end, and that flush must not fail
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


# click's words for what is no number
_NUMBERS: Final = (
    ("is not a valid integer range", "is not a whole number"),
    ("is not a valid integer", "is not a whole number"),
    ("is not a valid float range", "is not a number"),
    ("is not a valid float", "is not a number"),
)


def _usage_text(error: click.ClickException, program: str) -> str:
    # a bad argument is shown by its value, an option by its name
    is_bare = type(error) is click.BadParameter and not isinstance(error.param, click.Option)
    text = (error.message if is_bare else error.format_message()).rstrip(".")
    text = text[:1].lower() + text[1:]
    text, is_missing, choices = text.partition(". Choose from:")
    if is_missing:
        # click writes each one on a line of its own
        text = f"{text}; choices are {' '.join(choices.split())}"
    for click_words, ours in _NUMBERS:
        text = text.replace(click_words, ours)
    text = text.replace("'. Did you mean", "'; did you mean").replace(". (Did you mean", " (did you mean")
    if "; " in text or "did you mean" in text:
        return text
    ctx = error.ctx if isinstance(error, click.UsageError) else None
    return f"{text}; see '{ctx.command_path if ctx else program} --help'"


def _report(error: GantryError | OSError) -> int:
    if os.environ.get(DEBUG_VARIABLE):
        _show_traceback()
    complain(explain(error))
    match error:
        case RemoteError() | JobLost():
            return FAILED
        case Unavailable() | NotFound():
            return NOT_REACHED
        case InvalidRequest():
            return USAGE
        case _:
            return FAILED


def explain(error: GantryError | OSError) -> str:
    """The text of an error for the user, with the next step."""
    if isinstance(error, ConnectionLost):
        return f"{error.message}; whether it acted is unknown, look with 'gnt-job list' and 'gantry status'"
    if isinstance(error, GantryError):
        if getattr(error, "code", None) != Denied.code:
            return error.message
        # imported late: only an error needs it
        from cli.connection import with_own_name

        return with_own_name(error.message)
    return explain_os_error(error)


def _report_bug(error: Exception, program: str) -> int:
    # imported late: only an error needs it
    import secrets

    bug_id = secrets.token_hex(4)
    where = _log_bug(bug_id, error, program)
    if os.environ.get(DEBUG_VARIABLE):
        _show_traceback()
    complain(f"internal error {bug_id} ({type(error).__name__}); {where}")
    return FAILED


def _log_bug(bug_id: str, error: Exception, program: str) -> str:
    """Write the traceback to the log of the commands; return where it is, or how to see it otherwise."""
    from common.settingsfile import load_settings
    from common.system.log import get_log, set_up_logging

    again = f"set {DEBUG_VARIABLE}=1 and try again to see where"
    try:
        path = load_settings().paths.commands_log
        set_up_logging(program, path=path)
    except (GantryError, OSError):
        return again
    get_log(__name__).exception("command.crashed", id=bug_id, args=" ".join(sys.argv))
    return f"details are in {path} under this number, or {again}"


def _show_traceback() -> None:
    import traceback

    traceback.print_exc()
