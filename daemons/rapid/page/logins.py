"""Names of this machine's users, which texts about ended jobs give as numbers."""

import pwd
from functools import lru_cache


@lru_cache(maxsize=1024)
def login_of(uid: int) -> str | None:
    """The name of a user; None: the uid has no name."""
    try:
        return pwd.getpwuid(uid).pw_name
    except (KeyError, OverflowError):
        return None
