"""Whom luxid tells of ended jobs: the table `[notify]` of the settings, and one table for each rule.

    [notify.rules.operators]
    on = ["error", "recovered"]
    labels = ["team=web"]
    program = ["/usr/local/bin/page-someone"]

Source: DESIGN section 16; everyday.md sections h, j.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

import attrs

from common.settingwords.settingchecks import positive
from common.settingwords.settingvalues import READERS
from common.validation import Checked

# words of `on`; "end" is any of the first three
EVENTS: Final = ("success", "error", "canceled", "end", "try", "recovered")
# seconds before each delivery; the first is made at once
PAUSES_S: Final = (5.0, 300.0, 1800.0, 7200.0, 18_000.0, 36_000.0, 36_000.0)
# hours of a delivery after which it is given up, in seconds
GIVE_UP_S: Final = 24 * 3600.0
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}", re.ASCII)


class RuleFault(Exception):
    """A rule is malformed; the text says where, and what is allowed."""


def _events(_: object, field: Checked, value: tuple[str, ...]) -> None:
    wrong = [word for word in value if word not in EVENTS]
    if wrong or not value:
        raise ValueError(f"{field.name} lists some of {', '.join(EVENTS)}")


def _program(_: object, __: object, value: tuple[str, ...]) -> None:
    if value and (not value[0].startswith("/") or any("\0" in word for word in value)):
        raise ValueError("a program is named by its absolute path, its arguments follow; there is no shell")


def _url(_: object, __: object, value: str) -> None:
    # imported late: most settings have no rules
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(value)
        # a port that is no number is refused by this property
        is_known = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_known = False
    if value and (
        not is_known or "@" in parts.netloc or not value.isascii() or not value.isprintable() or " " in value
    ):
        raise ValueError("an address is like https://host:port/path, without a user")


def _file(_: object, field: Checked, value: str) -> None:
    if value and not value.startswith("/"):
        raise ValueError(f"{field.name} is an absolute path")


def _pauses(_: object, field: Checked, value: tuple[float, ...]) -> None:
    if any(not 0 <= pause_s <= GIVE_UP_S for pause_s in value):
        raise ValueError(f"{field.name} are seconds, each from 0 to {GIVE_UP_S:.0f}")


def _networks(_: object, __: object, value: tuple[str, ...]) -> None:
    # imported late: as above
    import ipaddress

    for text in value:
        ipaddress.ip_network(text, strict=False)


@attrs.frozen
class NotifyRule:
    """Whom to tell of which jobs: by a program, or by a POST to an address."""

    on: tuple[str, ...] = attrs.field(default=("error",), validator=_events)
    # labels that a job has, all of them: "team=web", or "team" with any value
    labels: tuple[str, ...] = ()
    # patterns of which its name fits one, such as "backup*"; empty: any name, or none
    names: tuple[str, ...] = ()
    # logins of which one has submitted it; empty: anybody
    users: tuple[str, ...] = ()
    program: tuple[str, ...] = attrs.field(default=(), validator=_program)
    url: str = attrs.field(default="", validator=_url)
    # file with the secret by which deliveries are signed; empty: they are not
    secret_file: str = attrs.field(default="", validator=_file)
    # PEM file with the authorities that the receiver's certificate is checked against; empty: the system's
    ca_file: str = attrs.field(default="", validator=_file)
    # time for one delivery
    timeout_s: float = attrs.field(default=10.0, validator=positive)
    # pauses between deliveries; after the last one, or after 24 hours, it is given up
    retry_s: tuple[float, ...] = attrs.field(default=PAUSES_S, validator=_pauses)

    def __attrs_post_init__(self) -> None:
        if bool(self.program) == bool(self.url):
            raise ValueError("it needs either a program or a url")
        if self.secret_file and not self.url:
            raise ValueError("secret_file is for a url; a program gets no signature")


@attrs.frozen
class NotifySettings:
    """Off without rules."""

    rules: Mapping[str, NotifyRule] = attrs.field(factory=dict)
    # number of deliveries under way at once
    at_once: int = attrs.field(default=4, validator=positive)
    # beginning of addresses at which people look at a job, such as "https://master:5080/ui/jobs/"; empty: none is told
    job_url: str = ""
    # private addresses and networks to which may be posted, such as "10.1.0.0/16"
    private: tuple[str, ...] = attrs.field(default=(), validator=_networks)

    @property
    def is_on(self) -> bool:
        return bool(self.rules)


Rules = Mapping[str, NotifyRule]


def read_rules(value: object) -> Rules:
    """Read the tables of rules, by name. Raises: TypeError: it is no table. RuleFault: a rule is malformed."""
    if not isinstance(value, dict):
        raise TypeError
    for name in value:
        if _NAME.fullmatch(name) is None:
            raise RuleFault(f"'[notify.rules]': a rule is named by 1 to 40 of a-z, 0-9, '_' and '-', got {name!r:.60}")
    return {name: _read_rule(name, rule) for name, rule in value.items()}


def _read_rule(name: str, value: object) -> NotifyRule:
    table = f"'[notify.rules.{name}]'"
    if not isinstance(value, dict):
        raise RuleFault(f"{table} is a table with a program or a url, got {value!r:.60}")
    fields = {field.name: field for field in attrs.fields(NotifyRule)}
    values: dict[str, Any] = {}
    for key, given in value.items():
        if key not in fields:
            raise RuleFault(f"unknown key '{key}' in {table}; known are {', '.join(fields)}")
        expected, read = READERS[fields[key].type]
        try:
            values[key] = read(given)
        except TypeError:
            raise RuleFault(f"'{key}' in {table} must be {expected}, got {given!r}") from None
    try:
        return NotifyRule(**values)
    except ValueError as error:
        raise RuleFault(f"{table}: {error}") from None
