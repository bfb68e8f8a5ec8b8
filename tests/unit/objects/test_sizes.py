"""Sizes are mebibytes, with or without a unit."""

import pytest

from common.wire import read_mebibytes


@pytest.mark.parametrize(
    ("value", "mebibytes"), [(512, 512), (1.6, 2), ("512", 512), ("2g", 2048), ("1.5 TiB", 1572864), (" 3 MB ", 3)]
)
def test_a_size_is_read_as_mebibytes(value: object, mebibytes: int) -> None:
    assert read_mebibytes(value) == mebibytes


@pytest.mark.parametrize(
    "value", ["", "2x", "-1", "g", True, None, [], float("nan"), float("inf"), 2**63, "9" * 400, f"{2**63}m"]
)
def test_what_is_no_size_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="expected a size in MiB"):
        read_mebibytes(value)
