"""A page that is rewritten as it was seen."""

from pathlib import Path

from tests.guide.accepting import rewritten
from tests.guide.page import Page, read_page
from tests.guide.running import Difference
from tests.guide.session import Done

TEXT = """Some words.

* A list:

  ```console
  $ one \\
    more
  old
  $ two   # exit code 3
  $ three
  as told
  ```

More words.
"""


def _differences(page: Page) -> list[Difference]:
    one, two, _ = page.commands
    return [
        Difference(page, one, Done(1, ("new", "newer")), ("new", "newer")),
        Difference(page, two, Done(0, ("now",)), ("now",)),
    ]


def test_outputs_and_exit_codes_are_rewritten_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text(TEXT)

    text = rewritten(TEXT, _differences(read_page(path)))

    assert text == TEXT.replace("more\n  old\n", "more   # exit code 1\n  new\n  newer\n").replace(
        "two   # exit code 3\n", "two\n  now\n"
    )


def test_a_difference_tells_page_line_and_what_was_seen(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text(TEXT)

    told = _differences(read_page(path))[0].told()

    assert told.startswith(f"{path}:6: $ one")
    assert "exit code 1, the page says 0" in told
    assert "  -old\n  +new\n  +newer" in told
