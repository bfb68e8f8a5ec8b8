"""A file of values, and the place of each in its text.

Source: DESIGN section 16.
"""

from collections.abc import Callable, Sequence
from typing import Final

import attrs

from common.errors import InvalidRequest

# how to get from the whole to a value: keys and places
Path = tuple[str | int, ...]
# bytes; ten thousand jobs have a tenth of it
LONGEST: Final = 64 * 2**20
_YAML: Final = (".yaml", ".yml")


@attrs.frozen
class Document:
    """What a file holds: dicts, lists, texts, numbers, booleans and None."""

    # its name, as errors tell it
    name: str
    value: object
    # returns line and column, from 1, of a value, or of what is next around it
    _locate: Callable[[Path], tuple[int, int]]

    def at(self, path: Path) -> str:
        """`plan.yaml:12:5`."""
        line, column = self._locate(path)
        return f"{self.name}:{line}:{column}"

    def error(self, path: Path, message: str) -> InvalidRequest:
        """An error in this value."""
        return InvalidRequest(f"{self.at(path)}: {message}")


def read_document(text: bytes, name: str) -> Document:
    """Read JSON or YAML: by the end of the file's name, else JSON if it begins like JSON.

    Raises: InvalidRequest: it is neither, or says what cannot be meant; with line and column.
    """
    if len(text) > LONGEST:
        raise InvalidRequest(f"{name} has {len(text):,} bytes, of at most {LONGEST:,}; split it")
    if not name.endswith(_YAML) and (name.endswith(".json") or text.lstrip()[:1] in (b"{", b"[")):
        from cli.plans.jsontext import locate_json, read_json

        return Document(name, read_json(text, name), lambda path: locate_json(text, path))
    # imported late: few files are YAML
    from cli.plans.yamltext import read_yaml

    root = read_yaml(text, name)
    return Document(name, root.value(), root.locate)


def shown(value: object) -> str:
    """A value as an error tells it."""
    import orjson

    text = orjson.dumps(value).decode()
    return text if len(text) <= 60 else f"{text[:57]}..."


def path_text(path: Sequence[str | int]) -> str:
    """`$.jobs[2].env`."""
    return "$" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
