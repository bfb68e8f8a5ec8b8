"""The files of the page that never change: style sheet, scripts, icon."""

from pathlib import PurePosixPath
from typing import Final

from starlette.responses import Response

from daemons.rapid.calls import Asked
from daemons.rapid.page.replies import HEADERS
from daemons.rapid.page.templates import STATIC
from daemons.rapid.refusals import Refused

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
        """Raises: Refused: 404: there is no such file."""
        name = str(asked.http.path_params["name"])
        content = self._files.get(name)
        if content is None:
            raise Refused(404, f"there is no file {name!r:.80}")
        headers = {**HEADERS, "Cache-Control": "public, max-age=31536000, immutable"}
        return Response(content, headers=headers, media_type=_TYPES[PurePosixPath(name).suffix])
