"""Names of users."""

import os


def user_name() -> str:
    """The name of the user who runs this process; the uid, if the user has no name."""
    return login_of(os.getuid()) or str(os.getuid())


def login_of(uid: int) -> str | None:
    """The name of a user; None: the uid has no name."""
    # imported late: few commands need it
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except (KeyError, OverflowError):
        return None


def with_own_name(text: str) -> str:
    """The text of a refusal with the name of the user who was refused; a daemon has only the number."""
    # imported late: only a refusal needs it
    from common.words.usernames import refused_named

    return refused_named(text, lambda uid: login_of(uid) if uid == os.getuid() else None)
