"""A picture of pdftocairo, told in fewer letters: it looks the same, in half of the bytes."""

import re
from typing import Final

# a hundredth of a point is seen by nobody
_DECIMALS: Final = 2
_NUMBER: Final = re.compile(r"\d+\.\d+")
_COLOUR: Final = re.compile(r"rgb\(([\d.]+)%,([\d.]+)%,([\d.]+)%\)")
# what holds without being said
_DEFAULTS: Final = (' clip-rule="nonzero"', "fill-rule:nonzero;", "stroke:none;", "fill-opacity:1;", ' style=""')
# the letters of shapes: where a shape begins again after its end says nothing, and letters need no spaces around them
_SHAPE: Final = re.compile(r' d="([^"]*)"')
_AFTER_END: Final = re.compile(r"Z M [-\d.]+ [-\d.]+ $")
_SPACES: Final = re.compile(r" ?([A-Za-z]) ?| (?=-)")
_SIZE: Final = re.compile(r'<svg([^>]*?) width="[\d.]+pt" height="[\d.]+pt"([^>]*)>')


def lighter(picture: str, title: str) -> str:
    """The picture with a title, and without a size of its own: it is as wide as its place."""
    # what a file without its first line is taken for, is in it
    picture = picture.partition("?>")[2].lstrip()
    picture = _COLOUR.sub(
        lambda found: "#" + "".join(f"{round(float(part) * 2.55):02x}" for part in found.groups()), picture
    )
    picture = _NUMBER.sub(lambda found: f"{float(found[0]):.{_DECIMALS}f}".rstrip("0").rstrip("."), picture)
    picture = _SHAPE.sub(lambda found: f' d="{_shape(found[1])}"', picture)
    for words in _DEFAULTS:
        picture = picture.replace(words, "")
    picture = _SIZE.sub(rf'<svg\1\2 role="img">\n<title>{title}</title>', picture, count=1)
    return "\n".join(line.strip() for line in picture.splitlines()).replace(' style=" ', ' style="') + "\n"


def _shape(letters: str) -> str:
    return _SPACES.sub(lambda found: found[1] or "", _AFTER_END.sub("Z", letters)).strip()
