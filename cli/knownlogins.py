"""Logins of the cluster's users, as far as this machine can know them."""

from cli.remote.remoteoptions import is_remote
from cli.user import login_of


def known_login(uid: int) -> str | None:
    """The login of a user of the cluster; None: it is not known here. A number may be another user's elsewhere."""
    return None if is_remote() else login_of(uid)
