"""A browser without a window, and what a visitor does with it.

with Browser(folder) as browser:
    browser.log_in(web.url, "op", "secret")
    browser.wait_for("#job-7", text="running")
    browser.check_console()             # fails if a page had anything to say there
"""

from pathlib import Path
from typing import Any, Final, Self

from selenium import webdriver
from selenium.common.exceptions import NoSuchElementException, StaleElementReferenceException
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
        self.one(css).click()

    def follow(self, text: str) -> None:
        """Click the link with this text."""
        self.driver.find_element(By.LINK_TEXT, text).click()

    def press(self, words: str) -> None:
        """Click the button with these words."""
        self.driver.find_element(By.XPATH, f"//button[contains(normalize-space(.), '{words}')]").click()

    def type(self, css: str, text: str) -> None:
        field = self.one(css)
        field.clear()
        field.send_keys(text)

    def text(self, css: str) -> str:
        """The text that is seen; empty: there is no such element, or it is being replaced."""
        try:
            return str(self.one(css).text)
        except (NoSuchElementException, StaleElementReferenceException):
            return ""

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
