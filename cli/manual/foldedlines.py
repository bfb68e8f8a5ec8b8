"""Long commands in several lines, as a shell reads them."""

import re
from typing import Final

# words with what is quoted in them
_WORDS: Final = re.compile(r"""(?:[^\s'"]|'[^']*'|"(?:[^"\\]|\\.)*")+""")
_COMMENT: Final = re.compile(r"\s{2,}# ")
_INDENT: Final = "    "


def folded(command: str, width: int) -> str:
    """The command with a backslash at the end of each line but the last; only words longer than `width` stick out.

    A comment behind the command goes above it.
    """
    if len(command) <= width:
        return command
    command, _, comment = _COMMENT.sub("\0", command, count=1).partition("\0")
    lines = [""]
    for word in _WORDS.findall(command):
        line = f"{lines[-1]} {word}" if lines[-1].strip() else f"{lines[-1]}{word}"
        if len(line) > width - 2 and lines[-1].strip():
            lines.append(f"{_INDENT}{word}")
        else:
            lines[-1] = line
    text = " \\\n".join(lines)
    return f"# {comment}\n{text}" if comment else text
