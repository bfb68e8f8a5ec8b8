"""Options of daemons that listen at one address; they count more than the settings file, as those of Ganeti's do.

Source: confd.md 1; mond.md 1.
"""

import argparse
import sys
from collections.abc import Mapping

import attrs

from common.daemons import Feature
from common.errors import InvalidRequest
from common.settings import Settings
from common.settingsfile import load_settings
from common.system.daemons.daemon import OwnOptions

_CHECK = "--check-enabled"


def tell_if_enabled(feature: Feature) -> None:
    """End the program if systemd only asks whether the settings enable it: with 0 if they do, else with 1."""
    if _CHECK in sys.argv[1:]:
        sys.exit(0 if feature in load_settings().features else 1)


def listen_options(table: str) -> OwnOptions:
    """The options. Args: table: name of the daemon's settings, which have `address` and `port`."""

    def add(parser: argparse.ArgumentParser) -> None:
        # obeyed before the others are looked at
        parser.add_argument(_CHECK, action="store_true", help="only tell by the exit code whether it is enabled")
        parser.add_argument("-b", "--bind", metavar="ADDRESS", help="address to listen at, instead of the settings'")
        parser.add_argument("-p", "--port", type=int, metavar="PORT", help="port to listen at")

    def use(settings: Settings, given: Mapping[str, object]) -> Settings:
        """Raises: InvalidRequest: a value that the setting cannot have."""
        names = {"bind": "address", "port": "port"}
        changes = {names[option]: given[option] for option in names if given.get(option) is not None}
        try:
            own = attrs.evolve(getattr(settings, table), **changes)
        except ValueError as error:
            raise InvalidRequest(f"an option cannot be used: {error}") from None
        return attrs.evolve(settings, **{table: own})

    return OwnOptions(add, use)
