"""A browser without a window, and what a visitor does with it.

with Browser(folder) as browser:
    browser.log_in(web.url, "op", "secret")
    browser.wait_for("#job-7", text="running")
    browser.check_console()             # fails if a page had anything to say there
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Self

from selenium import webdriver
from selenium.common.exceptions import NoSuchElementException, StaleElementReferenceException, WebDriverException
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By

from tests.support.wait import wait_until

CHROMIUM: Final = "/usr/bin/chromium"
DRIVER: Final = "/usr/bin/chromedriver"
WIDE: Final = (1440, 1000)
# the smallest telephone
NARROW: Final = (360, 780)


class Browser:
    """Args: folder: for its profile and its log."""

    def __init__(self, folder: Path) -> None:
        options: Any = Options()
        options.binary_location = CHROMIUM
        for argument in (
            *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-extensions"),
            *("--disable-background-networking", "--no-first-run", "--disable-component-update"),
            # nothing but this machine can be reached: a page that needs more shows it
            "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
            f"--user-data-dir={folder / 'profile'}",
            f"--window-size={WIDE[0]},{WIDE[1]}",
        ):
            options.add_argument(argument)
        options.accept_insecure_certs = True
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        # selenium is not there for the checks of types
        self.driver: Final[Any] = webdriver.Chrome(options, Service(DRIVER, log_output=str(folder / "driver.log")))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.driver.quit()

    def open(self, address: str) -> None:
        self.driver.get(address)

    def log_in(self, url: str, name: str, password: str) -> None:
        """Fill in the form of the login page, and send it."""
        if "/ui/login" not in self.driver.current_url:
            self.open(f"{url}/ui/login")
        self.type("input[name=name]", name)
        self.type("input[name=password]", password)
        self.click(".narrow button.main")

    def one(self, css: str) -> Any:
        return self.driver.find_element(By.CSS_SELECTOR, css)

    def all(self, css: str) -> list[Any]:
        return list(self.driver.find_elements(By.CSS_SELECTOR, css))

    def click(self, css: str) -> None:
        self._do(lambda: self.one(css).click(), what=f"a click on '{css}'")

    def follow(self, text: str) -> None:
        """Click the link with this text."""
        self._do(lambda: self.driver.find_element(By.LINK_TEXT, text).click(), what=f"a click on the link '{text}'")

    def press(self, words: str) -> None:
        """Click the button with these words."""
        button = f"//button[contains(normalize-space(.), '{words}')]"
        self._do(lambda: self.driver.find_element(By.XPATH, button).click(), what=f"a click on the button '{words}'")

    def type(self, css: str, text: str) -> None:
        def fill() -> None:
            field = self.one(css)
            field.clear()
            field.send_keys(text)

        self._do(fill, what=f"'{text}' in '{css}'")

    def ids(self, css: str) -> list[str]:
        """The ids of all these elements, read in one step: see `_ask`."""
        return list(
            self.driver.execute_script("return [...document.querySelectorAll(arguments[0])].map(each => each.id)", css)
        )

    def text(self, css: str) -> str:
        """The text that is seen, without spaces around it; empty: there is no such element."""
        return str(self._ask(css, "e ? e.innerText.trim() : ''"))

    def attribute(self, css: str, name: str) -> str | None:
        """None: there is no such element, or it has no such attribute."""
        value = self._ask(css, "e ? e.getAttribute(arguments[1]) : null", name)
        return None if value is None else str(value)

    def _ask(self, css: str, expression: str, *more: str) -> Any:
        """Ask about an element `e` in one step: a handle of it would be stale after the page has put another there."""
        return self.driver.execute_script(
            f"const e = document.querySelector(arguments[0]); return {expression}", css, *more
        )

    @staticmethod
    def _do(act: Callable[[], object], what: str) -> None:
        """Act on an element, again as long as the page puts another in its place before the act."""

        def done() -> bool:
            try:
                act()
            except WebDriverException as error:
                if _was_replaced(error):
                    return False
                raise
            return True

        wait_until(done, what=what)

    def wait_for(self, css: str, text: str) -> None:
        """Wait until the element has this text among its own."""
        wait_until(lambda: text in self.text(css), what=f"'{text}' in '{css}' of {self.driver.current_url}",
                   state=lambda: self.text(css))  # fmt: skip

    def wait_until_gone(self, css: str) -> None:
        wait_until(lambda: not self.all(css), what=f"the end of '{css}'")

    def mark(self) -> None:
        """Mark the page, so that a reload can be noticed."""
        self.driver.execute_script("window.marked = true")

    @property
    def is_marked(self) -> bool:
        """Whether the page was not loaded anew since it was marked."""
        return self.driver.execute_script("return window.marked === true") is True

    def console(self) -> list[str]:
        """What pages have written to the console since the last look."""
        return [str(line["message"]) for line in self.driver.get_log("browser")]

    def check_console(self) -> None:
        assert self.console() == []

    def resize(self, size: tuple[int, int]) -> None:
        self.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": False},
        )

    def shoot(self, path: Path) -> None:
        """Save a picture of the whole page."""
        self.driver.save_screenshot(str(path))

    def overflow(self) -> int:
        """By how many pixels the page is wider than the window."""
        wide = self.driver.execute_script(
            "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        return int(wide)


def _was_replaced(error: WebDriverException) -> bool:
    """Whether the page put another element in the place of the one that was found, or has none yet."""
    if isinstance(error, (NoSuchElementException, StaleElementReferenceException)):
        return True
    # the driver's own words when the page goes between its two steps
    return "does not belong to the document" in str(error.msg)
