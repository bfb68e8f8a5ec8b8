"""The user in whose name a trusted program calls; ours.

A request may have the key `speaker`: `{"name": "ci", "role": "submit", "login": "builder"}`. luxid then carries out
the call with that role, and jobs belong to that login. Only root, the daemons' user, and the users in `trusted` of
`[access]` may send it, and nobody gets more rights by it than the caller has.

Source: DESIGN sections 4 and 15.
"""

import attrs

from common.access import Role


@attrs.frozen
class Speaker:
    # name for logs and reason trails: a user or a token of the HTTP interface; "": nobody said a name
    name: str
    role: Role
    # user of this machine who owns the jobs, and as whom commands run; None: no command can be run
    login: str | None = None
