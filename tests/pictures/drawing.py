"""A screen of a terminal as a vector picture, which needs no font and nothing else from outside."""

from io import StringIO
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from tests.pictures.terminal import WIDTH, Screen

# rich's measures of a letter, and the margins
_COLUMN: Final = 12.2
_ROW: Final = 24.4
_SIDE: Final = 14
_ABOVE: Final = 12
# a dark sheet with a border: it is seen on a light page and on a dark one
_GROUND: Final = (22, 27, 34)
_LETTERS: Final = (214, 221, 229)
# black, red, green, yellow, blue, magenta, cyan, white
_COLOURS: Final = [
    (72, 79, 88),
    (255, 123, 114),
    (86, 211, 100),
    (227, 179, 65),
    (121, 192, 255),
    (210, 168, 255),
    (86, 212, 221),
    (214, 221, 229),
]
_THEME: Final = TerminalTheme(_GROUND, _LETTERS, _COLOURS, _COLOURS)
# rich's own names a font of a server; whoever reads the page has one of these
_FORMAT: Final = """\
<svg viewBox="0 0 $WIDTH$ $HEIGHT$" xmlns="http://www.w3.org/2000/svg" role="img">
<title>$TITLE$</title>
<style>
.{unique_id}-matrix {{
  font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", "Liberation Mono", monospace;
  font-size: {char_height}px; white-space: pre;
}}
{styles}
</style>
<defs>{lines}</defs>
<rect fill="#161b22" stroke="#8b949e" x="1" y="1" width="$INNER_WIDTH$" height="$INNER_HEIGHT$" rx="8"/>
<g transform="translate(14, 12)">{backgrounds}<g class="{unique_id}-matrix">{matrix}</g></g>
</svg>
"""


def draw(screen: Screen, title: str, path: Path) -> Path:
    """Write the picture; the same screen gives the same bytes."""
    console = Console(record=True, width=WIDTH, file=StringIO(), force_terminal=True, color_system="truecolor")
    console.print(Text("\n").join(screen.lines), soft_wrap=True)
    width, height = WIDTH * _COLUMN + 2 * _SIDE, len(screen.lines) * _ROW + 2 * _ABOVE
    words = {"TITLE": title, "WIDTH": width + 2, "HEIGHT": height + 2, "INNER_WIDTH": width, "INNER_HEIGHT": height}
    sheet = _FORMAT
    for word, value in words.items():
        sheet = sheet.replace(f"${word}$", value if isinstance(value, str) else f"{value:.0f}")
    picture = console.export_svg(theme=_THEME, code_format=sheet, unique_id="t")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(line.rstrip() for line in picture.splitlines()) + "\n")
    return path
