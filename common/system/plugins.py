"""The folder with plug-in packages that stays when an upgrade replaces Gantry's own environment.

Theory. What is in it acts with the rights of the daemons. So nobody but root and the daemons' user may be able to write
to it, to a folder above it, or to anything in it; else it is refused, and the daemon does not start. It is looked
through last: nothing in it takes the place of a module of Gantry, or of one that Gantry needs.

A plug-in there is found by its entry points, as one that is installed beside Gantry (`common.opcodes.registry`).

Source: DESIGN section 7.
"""

import sys
from pathlib import Path

from common.settings import Settings
from common.system.accounts.trust import check_trusted_tree


def use_plugins(settings: Settings) -> None:
    """Let this program find the plug-ins of the folder that the settings name; without the folder there are none.

    Raises:
        Denied: another user could change it, or something in it; the message names the part, and what to do.
        OSError: it cannot be looked at.
    """
    folder = settings.plugins.folder
    if not folder or not Path(folder).is_dir():
        return
    check_trusted_tree(Path(folder))
    if folder not in sys.path:
        sys.path.append(folder)
