"""The templates, with every text escaped."""

import hashlib
import time
from functools import cache
from pathlib import Path
from typing import Final

import jinja2

from common.words.text import defused

_HERE: Final = Path(__file__).parent
STATIC: Final = _HERE / "static"


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters["static"] = static_href
    environment.filters["time_of_day"] = _time_of_day
    environment.filters["figure"] = figure
    return environment


def _shown(value: object) -> object:
    """What stands on the page: characters that change the direction of writing become visible."""
    if isinstance(value, str) and not hasattr(value, "__html__"):
        return defused(value)
    return "" if value is None else value


@cache
def static_href(name: str) -> str:
    """The address of a static file; it changes with the file's content, so it may be kept for ever."""
    digest = hashlib.sha256((STATIC / name).read_bytes()).hexdigest()
    return f"/ui/static/{name}?v={digest[:12]}"


def _time_of_day(seconds: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(seconds))


def figure(value: float) -> str:
    """`0`, `0.25`, `3.5`, `120`, `12,000`."""
    if value == 0 or value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value >= 1 else f"{value:.2g}"


_ENVIRONMENT: Final = _environment()


def draw(name: str, **values: object) -> str:
    """A page, or a part of one.

    Args: name: of the template, without its endings.
    """
    return _ENVIRONMENT.get_template(f"{name}.html.j2").render(**values)
