"""Where text goes: results to standard output, all else to standard error."""

import shutil
import sys

from cli.context import wants_json
from common.printable import defused, json_text, printable


def say(text: str) -> None:
    """Print a line of results; control sequences are made visible."""
    sys.stdout.write(f"{defused(text)}\n")


def say_styled(text: str) -> None:
    """Print a line of results with our own colours; the caller has made foreign control sequences visible."""
    sys.stdout.write(f"{text}\n")


def write(text: str) -> None:
    """Print results unchanged, at once."""
    sys.stdout.write(text)
    sys.stdout.flush()


def say_json(value: object) -> None:
    """Print a result in its wire form, as one line."""
    sys.stdout.write(f"{json_text(value)}\n")


def say_result(value: object, *lines: str) -> None:
    """Print a result: as JSON, if the user wants that, else as these lines."""
    if wants_json():
        say_json(value)
    else:
        for line in lines:
            say(line)


def remark(text: str) -> None:
    """Print a line to standard error; control sequences are made visible."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError:
        # an output that fails is told by whoever writes to it, and at the end; this line may be what tells it
        pass
    print(defused(text), file=sys.stderr, flush=True)


def complain(text: str) -> None:
    """Print an error; it is one line, unless it quotes the end of a log."""
    remark("error: " + "\n".join(map(printable, text.splitlines())))


def warn(text: str) -> None:
    remark(f"warning: {printable(text)}")


def show_note(text: str) -> None:
    """Show what a daemon tells beside a result."""
    remark(f"note: {printable(text)}")


def is_interactive() -> bool:
    """Whether the user can be asked: standard input and standard error are terminals."""
    # None: standard input is closed
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


def screen_width() -> int | None:
    """Columns of the terminal; None: standard output is none."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def confirm(question: str) -> bool:
    """Ask yes or no; without a terminal the answer is no."""
    if not is_interactive():
        return False
    remark(f"{question} [y/N] ")
    return sys.stdin.readline().strip().lower() in ("y", "yes")
