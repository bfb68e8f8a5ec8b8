"""Who runs this command."""

import os


def user_name() -> str:
    """The name of the user who runs this process; the number, if it has none."""
    # imported late, as only one condition needs it
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
