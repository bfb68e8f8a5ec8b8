"""axe-core itself: it does find something on a page that is wrong."""

from tests.browser.axe import findings
from tests.browser.browser import Browser
from tests.support.web.rapid import Web


def test_an_image_without_a_text_and_a_pale_word_are_found(web: Web, browser: Browser) -> None:
    browser.open(f"{web.url}/ui/keys")
    assert findings(browser) == []

    browser.driver.execute_script(
        "document.querySelector('main').insertAdjacentHTML('beforeend', '<img id=bare><a href=\"/ui\"></a>')"
    )

    rules = [each.partition(":")[0] for each in findings(browser)]
    assert rules == ["image-alt", "link-name"]
