"""The files of the page: those of others are what they were, and nothing asks for what the policy forbids."""

import hashlib
import re
from pathlib import Path

import pytest

from daemons.rapid.page.templates import STATIC

TEMPLATES = STATIC.parent / "templates"


def test_the_files_of_others_are_unchanged() -> None:
    vendor = STATIC / "vendor"
    lines = [line.split() for line in (vendor / "SHA256SUMS").read_text().splitlines() if not line.startswith("#")]
    listed = {name: digest for digest, name in lines}

    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in vendor.iterdir()}

    assert {name: found[name] for name in listed} == listed
    assert set(found) - set(listed) == {"SHA256SUMS"}


@pytest.mark.parametrize("path", sorted(TEMPLATES.rglob("*.j2")), ids=lambda path: path.name)
def test_a_template_has_no_style_script_or_handler_of_its_own(path: Path) -> None:
    text = path.read_text()

    assert not re.search(r"\sstyle\s*=|\son[a-z]+\s*=|hx-on|javascript:|js:|\|\s*safe|autoescape", text)
    assert all("src=" in tag for tag in re.findall(r"<script[^>]*>", text))


def test_nothing_is_fetched_from_elsewhere() -> None:
    for path in [*TEMPLATES.rglob("*.j2"), STATIC / "page.css", STATIC / "page.js"]:
        outside = re.findall(r"(?:src|href)=[\"']?(?:https?:)?//|url\((?!#)|@import", path.read_text())
        assert not outside, path
