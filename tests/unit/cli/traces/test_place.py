"""How far an export came: nothing is forgotten that might come again, and nothing grows."""

from pathlib import Path

import pytest

from cli.traces.place import ExportPlace, PlaceFile
from common.errors import Conflict, InvalidRequest

BEGIN = ExportPlace("uuid", None, 1000.0)


def test_what_ended_before_the_place_is_forgotten() -> None:
    place = BEGIN.exporting({1: 1001.0, 2: 1120.0})

    later = place.told("a:7", 9000.0)

    assert place.has(1)
    assert (later.position, later.since) == ("a:7", 1060.0)
    assert (later.has(1), later.has(2)) == (False, True)


def test_what_is_read_late_may_have_been_told_long_ago_and_a_clock_may_be_set_back() -> None:
    assert BEGIN.told("a:7", 9000.0) == ExportPlace("uuid", "a:7", 1000.0)
    assert BEGIN.exporting({1: 9e9}).told("a:7", 2000.0).since == 1940.0


def test_a_place_never_goes_back() -> None:
    place = BEGIN.complete_until(2000.0)

    assert place.exporting({1: 1500.0}).told("a:8", 3000.0).since == 2000.0
    assert place.complete_until(10.0) == place


def test_a_file_has_what_was_written(tmp_path: Path) -> None:
    file = PlaceFile(tmp_path / "place")
    place = BEGIN.exporting({17: 1790000003.25}).told("1f:812", 1030.0)

    assert file.read() is None
    file.write(place)

    assert file.read() == place


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"7", b"\xff", b'{"cluster":"x"}', b'{"exported":{"x":1}}'])
def test_a_damaged_file_is_told(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "place").write_bytes(text)

    with pytest.raises(InvalidRequest, match="has no place of an export; remove it"):
        PlaceFile(tmp_path / "place").read()


def test_only_one_may_export_from_a_place(tmp_path: Path) -> None:
    file = PlaceFile(tmp_path / "place")

    with file.claimed(), pytest.raises(Conflict), PlaceFile(tmp_path / "place").claimed():
        pass
    with file.claimed():
        pass
