"""Terms of jobs as the user types them: `team=web`, `licences=2`, `web1:memory=4G`, `tomorrow 02:00`.

Source: DESIGN section 16.
"""

import time
from typing import Final

import click

from cli.choosing.commandargs import SIZE
from cli.screen import remark
from common.errors import InvalidRequest
from common.queue.terms import Use, check_label, check_name, read_use

# seconds; an instant that is past by less was meant as now
_JUST_NOW_S: Final = 60.0


class JobNameType(click.ParamType):  # type: ignore[type-arg]  # generic in newer releases of click only
    """The name of a job."""

    name = "name"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            check_name(value)
        except InvalidRequest as error:
            self.fail(error.message, param, ctx)
        return value

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        return "NAME"


class LabelType(click.ParamType):  # type: ignore[type-arg]  # as above
    """`KEY=VALUE`."""

    name = "label"

    def convert(
        self, value: str | tuple[str, str], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        key, equals, text = value.partition("=")
        if not equals:
            self.fail(f"'{value}' is no label; write KEY=VALUE, as in team=web", param, ctx)
        try:
            check_label(key, text)
        except InvalidRequest as error:
            self.fail(error.message, param, ctx)
        return key, text

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        return "KEY=VALUE"


class UseType(click.ParamType):  # type: ignore[type-arg]  # as above
    """`[NODE:]NAME=COUNT`; a count with K, M, G or T is in bytes, `NAME` alone is one unit."""

    name = "use"

    def convert(self, value: str | Use, param: click.Parameter | None, ctx: click.Context | None) -> Use:
        if isinstance(value, Use):
            return value
        key, equals, text = value.partition("=")
        count = SIZE.convert(text, param, ctx) if equals else 1
        if count < 1:
            self.fail(f"'{value}' uses nothing; write a count of at least 1", param, ctx)
        try:
            return read_use(key, count)
        except InvalidRequest as error:
            self.fail(error.message, param, ctx)

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        return "[NODE:]NAME=COUNT"


class InstantType(click.ParamType):  # type: ignore[type-arg]  # as above
    """`tomorrow 02:00`: an instant in seconds since the epoch; of one that is past the user is told."""

    name = "time"

    def convert(self, value: str | float, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        # imported late: few commands name a time
        from common.words.instants import parse_instant
        from common.words.times import clock

        now = time.time()
        try:
            instant = parse_instant(value, now, None)
        except InvalidRequest as error:
            self.fail(error.message, param, ctx)
        if now - instant > _JUST_NOW_S and (ctx is None or not ctx.resilient_parsing):
            # a script that submits once, under a key, may come late: this is no mistake of every caller
            remark(f"'{value}' is past, it was {clock(instant)}: nothing is left to wait for")
        return instant

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        return "TIME"


JOB_NAME: Final = JobNameType()
LABEL: Final = LabelType()
USE: Final = UseType()
