"""Users as people name them, where luxid tells their numbers: `on request of user 1000`."""

import re
from collections.abc import Callable
from typing import Final

# uid -> login; None: the uid has no login
UserName = Callable[[int], str | None]

# not any number after "user": the text may hold the words of a command, too
_ASKER: Final = re.compile(r"(?<=\bon request of )user (\d{1,10})\b", re.ASCII)
_REFUSED: Final = re.compile(r"(?<!HTTP )\buser (\d{1,10})\b", re.ASCII)


def asker_named(text: str, user_name: UserName) -> str:
    """`job was killed on request of user jane`: the end of a job, with the name of the user who asked for it."""
    return _ASKER.sub(lambda match: _named(match, user_name), text)


def refused_named(text: str, user_name: UserName) -> str:
    """`... needs the role 'admin', and user jane has none`: the text of a refusal, with the names of users."""
    return _REFUSED.sub(lambda match: _named(match, user_name), text)


def _named(match: "re.Match[str]", user_name: UserName) -> str:
    name = user_name(int(match[1]))
    return match[0] if name is None else f"user {name}"
