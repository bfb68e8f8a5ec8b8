"""CONTRIBUTING.md names files that are there."""

import re
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
NAMED = re.findall(r"`((?:\w[\w.-]*/)+[\w.-]*|\w+\.toml)`", (CHECKOUT / "CONTRIBUTING.md").read_text())
# things that a reader might add, and folders of any daemon
INVENTED = re.compile("frob|FAMILY|^(core|handlers)/$")


@pytest.mark.parametrize("name", sorted({name for name in NAMED if not INVENTED.search(name)}))
def test_a_file_that_is_named_exists(name: str) -> None:
    assert (CHECKOUT / name).exists()
