"""A caller over HTTP, after the check of a password or a token."""

from typing import Final

import attrs

from common.access import Role
from common.webaccess.rights import Rights


@attrs.frozen
class Principal:
    """A user or a token."""

    # "": nobody said a name
    name: str
    rights: Rights
    # login of the user as whom commands run, who owns the jobs; None: none, so no command can be run
    unix_user: str | None = None
    # id of the token that was shown; None: it was a password, or the kernel has named the caller
    token_id: str | None = None
    # what changes when the password or the token does; "": nothing can be changed, as the kernel has named the caller
    stamp: str = attrs.field(default="", repr=False)

    @property
    def is_anonymous(self) -> bool:
        return not self.name


NOBODY: Final = Principal("", Rights(Role.NONE))
