"""Let a page say what was seen: rewrite the outputs of its commands, and nothing else."""

from collections.abc import Iterable

from tests.guide.page import Command
from tests.guide.running import CTRL_C, Difference


def rewritten(text: str, differences: Iterable[Difference]) -> str:
    """The page's text with what was seen in the place of what differs."""
    lines = text.split("\n")
    # from the end, so that the places before stay where they are
    for difference in sorted(differences, key=lambda found: found.command.line, reverse=True):
        command = difference.command
        place = command.output_lines
        lines[place.start : place.stop] = [f"{command.indent}{line}".rstrip() for line in difference.merged]
        is_interrupted = difference.merged[-1:] == (CTRL_C,)
        if difference.seen.exit_code != command.exit_code and not command.is_code_shown and not is_interrupted:
            lines[place.start - 1] = _with_code(lines[place.start - 1], command, difference.seen.exit_code)
    return "\n".join(lines)


def _with_code(line: str, command: Command, exit_code: int) -> str:
    bare = line.removesuffix(f"# exit code {command.exit_code}").rstrip()
    return f"{bare}   # exit code {exit_code}" if exit_code else bare
