"""Where plug-ins of the operators are: the table `[plugins]` of the settings.

Source: DESIGN section 7.
"""

from typing import Final

import attrs

from common.validation import Checked

FOLDER: Final = "/usr/local/lib/gantry/plugins"


def _absolute(_: object, field: Checked, value: str) -> None:
    if value and (not value.startswith("/") or "\0" in value):
        raise ValueError(f"{field.name} is an absolute path, or empty")


@attrs.frozen
class PluginsSettings:
    # folder with packages of opcodes, predicates and collectors, which upgrades leave alone; empty: none
    folder: str = attrs.field(default=FOLDER, validator=_absolute)
