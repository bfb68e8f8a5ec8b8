"""Names of this machine's users, which texts about ended jobs give as numbers."""

from functools import lru_cache

from common.errors import Unavailable
from common.system.accounts.users import user_numbered


def login_of(uid: int) -> str | None:
    """The name of a user; None: the uid has no name, or users cannot be read now."""
    try:
        return _login_of(uid)
    except Unavailable:
        return None


# an error is not remembered
@lru_cache(maxsize=1024)
def _login_of(uid: int) -> str | None:
    found = user_numbered(uid)
    return None if found is None else found.pw_name
