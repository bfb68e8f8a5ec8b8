"""The templates, with every text escaped."""

import hashlib
import time
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Final

import jinja2
from starlette.responses import Response

from common.printable import defused
from common.words.times import duration, zone_offset, zone_words
from daemons.rapid.calls import Asked
from daemons.rapid.page.replies import HEADERS
from daemons.rapid.refusals import RequestRefused

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
    environment.filters["duration"] = duration
    environment.globals["zone"] = lambda: zone_words(time.time())
    environment.globals["zone_offset"] = lambda: zone_offset(time.time())
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


# The files of the page that never change: style sheet, scripts, icon.


_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}


def _read() -> dict[str, bytes]:
    """All files, some hundred kilobytes: none is ever looked for by a name that a stranger made."""
    files = (path for path in STATIC.rglob("*") if path.suffix in _TYPES)
    return {path.relative_to(STATIC).as_posix(): path.read_bytes() for path in files}


class StaticFiles:
    def __init__(self) -> None:
        self._files = _read()

    async def show(self, asked: Asked) -> Response:
        """Raises: RequestRefused: 404: there is no such file."""
        name = str(asked.http.path_params["name"])
        content = self._files.get(name)
        if content is None:
            raise RequestRefused(404, f"there is no file {name!r:.80}")
        headers = {**HEADERS, "Cache-Control": "public, max-age=31536000, immutable"}
        return Response(content, headers=headers, media_type=_TYPES[PurePosixPath(name).suffix])
