"""Options of the program: they count more than the settings file, as those of Ganeti's daemon do.

Source: rapi.md 1.
"""

import argparse
from collections.abc import Mapping

import attrs

from common.errors import InvalidRequest
from common.featuresettings import RapidSettings
from common.settings import Settings


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this program."""
    # obeyed before the others are looked at
    parser.add_argument("--check-enabled", action="store_true", help="only tell by the exit code whether it is enabled")
    parser.add_argument("--make-certificate", action="store_true", help="only make the certificate, if it is missing")
    parser.add_argument("-b", "--bind", metavar="ADDRESS", help="address to listen at, instead of the settings'")
    parser.add_argument("-p", "--port", type=int, metavar="PORT", help="port to listen at")
    parser.add_argument("-C", "--ssl-cert", metavar="FILE", help="file of the certificate")
    parser.add_argument("-K", "--ssl-key", metavar="FILE", help="file of its key")
    parser.add_argument("--no-ssl", action="store_true", help="do not encrypt connections")
    parser.add_argument("--require-authentication", action="store_true", help="refuse each request without a user")
    parser.add_argument("--max-clients", type=int, metavar="N", help="connections at once")


def with_options(settings: Settings, given: Mapping[str, object]) -> Settings:
    """The settings with what the command line says.

    Args: given: values by the names of options; None: not given.
    Raises: InvalidRequest: a value that the setting cannot have.
    """
    try:
        return attrs.evolve(settings, rapid=_changed(settings.rapid, given))
    except ValueError as error:
        raise InvalidRequest(f"an option cannot be used: {error}") from None


def _changed(rules: RapidSettings, given: Mapping[str, object]) -> RapidSettings:
    if isinstance(address := given.get("bind"), str):
        rules = attrs.evolve(rules, address=address)
    if isinstance(port := given.get("port"), int):
        rules = attrs.evolve(rules, port=port)
    if isinstance(certificate := given.get("ssl_cert"), str):
        rules = attrs.evolve(rules, certificate=certificate)
    if isinstance(key := given.get("ssl_key"), str):
        rules = attrs.evolve(rules, key=key)
    if given.get("no_ssl"):
        rules = attrs.evolve(rules, ssl=False)
    if given.get("require_authentication"):
        rules = attrs.evolve(rules, require_authentication=True)
    if isinstance(number := given.get("max_clients"), int):
        rules = attrs.evolve(rules, max_clients=number)
    return rules
