"""The user in whose name a trusted program calls; ours.

A request may have the key `speaker`: `{"name": "ci", "role": "submit", "login": "builder"}`. luxid then carries out
the call with that role, and jobs belong to that login. Only root, the daemons' user, and the users in `trusted` of
`[access]` may send it, and nobody gets more rights by it than the caller has.

Source: DESIGN sections 4 and 15.
"""

from typing import Final

import attrs

from common.access import Role
from common.errors import InvalidRequest


@attrs.frozen
class Speaker:
    # name for logs and reason trails: a user or a token of the HTTP interface; "": nobody said a name
    name: str
    role: Role
    # user of this machine who owns the jobs, and as whom commands run; None: no command can be run
    login: str | None = None

    @property
    def wire(self) -> dict[str, object]:
        """The value of the key `speaker`."""
        return {"name": self.name, "role": self.role.word, "login": self.login}


def read_speaker(value: object) -> Speaker:
    """Read the value of the key `speaker`.

    Raises: InvalidRequest: it is malformed; null is, too, so that a caller who means somebody never acts as itself.
    """
    match value:
        case {"name": str(name), "role": str(word), "login": str() | None as login, **others}:
            role = _ROLES.get(word)
            if role is not None and login != "" and not others:
                return Speaker(name, role, login)
        case _:
            pass
    raise InvalidRequest(
        "key 'speaker' must be an object of 'name', 'role' and 'login': a text, one of "
        f"{', '.join(map(repr, _ROLES))}, and a user of this machine or null; got {value!r:.200}"
    )


_ROLES: Final = {role.word: role for role in Role}
