"""The operating systems, from the result of the job that finds them.

Source: rapi.md 6.11.
"""

from collections.abc import Iterable, Sequence

from daemons.rapid.ganeti.core.reads import as_objects


def names_of(rows: Iterable[Sequence[object]]) -> list[str]:
    """Name and variant, or the name alone where there are no variants."""
    names: list[str] = []
    for name, variants in rows:
        found = [str(variant) for variant in variants] if isinstance(variants, list) else []
        names += [f"{name}+{variant}" for variant in found] or [str(name)]
    return names


def objects_of(fields: Sequence[str], rows: Iterable[Sequence[object]]) -> list[dict[str, object]]:
    """All about each, with parameters as objects."""
    return [{**system, "parameters": _parameters(system["parameters"])} for system in as_objects(fields, rows)]


def _parameters(value: object) -> object:
    if not isinstance(value, list):
        return value
    return [{"name": name, "description": description} for name, description in value]
