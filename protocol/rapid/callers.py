"""Who calls, as the server sees it: `GET /3/me`.

Source: DESIGN section 15.
"""

import attrs


@attrs.frozen
class Caller:
    # name of the user or token; "": nobody said one
    name: str
    # login of the user who owns the jobs, and as whom commands run; null: none, so no command can be run
    unix_user: str | None
    # role, in a word; null: none
    role: str | None
    # single rights beside the role
    rights: tuple[str, ...]
    # value of the field `user` of jobs that the caller submits; "": nobody's
    owner: str
