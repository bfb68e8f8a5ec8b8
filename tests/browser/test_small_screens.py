"""What a telephone shows, and that times tell their zone."""

import time

from common.words.times import zone_words
from tests.browser.browser import WIDE, Browser
from tests.support.web.rapid import Web

PHONE = (390, 844)
# all links of the navigation stand as high as the first
ONE_ROW = "return new Set([...document.querySelectorAll('.top nav a')].map(each => each.offsetTop)).size"
# the link of this page lies within the navigation's window
SEEN = """
const nav = document.querySelector('.top nav').getBoundingClientRect();
const here = document.querySelector('.top nav [aria-current]').getBoundingClientRect();
return here.left >= nav.left && here.right <= nav.right;
"""

# the instant of the first value, as the legend of a curve tells it
CURSOR = """
const plot = document.querySelector('.plot .u-over');
const box = plot.getBoundingClientRect();
for (const kind of ['mouseenter', 'mousemove']) {
  plot.dispatchEvent(new MouseEvent(kind, {clientX: box.left + 2, clientY: box.top + 5, bubbles: true}));
}
return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(
  () => done(document.querySelector('.plot .u-legend .u-value').textContent))));
"""


def test_the_navigation_of_a_telephone_is_one_row_that_shows_where_one_is(web: Web, browser: Browser) -> None:
    browser.resize(PHONE)
    for path in ("/ui", "/ui/jobs", "/ui/nodes", "/ui/history"):
        browser.open(f"{web.url}{path}")

        assert browser.driver.execute_script(ONE_ROW) == 1, path
        assert browser.driver.execute_script(SEEN), path
        assert browser.overflow() <= 0, path
    browser.resize(WIDE)


def test_each_page_tells_the_zone_of_its_times_and_curves_are_in_it(web: Web, browser: Browser) -> None:
    for path in ("/ui", "/ui/jobs", "/ui/history", "/ui/graph"):
        browser.open(f"{web.url}{path}")
        assert browser.text("#zone") == zone_words(time.time()), path

    # curves are drawn by a script, in this zone and not in the browser's
    browser.driver.execute_cdp_cmd("Emulation.setTimezoneOverride", {"timezoneId": "Pacific/Kiritimati"})
    browser.open(f"{web.url}/ui/rates")
    browser.wait_for(".plot .u-legend", text="submitted")
    shown = browser.driver.execute_script(CURSOR)
    browser.driver.execute_cdp_cmd("Emulation.setTimezoneOverride", {"timezoneId": ""})
    at = time.mktime(time.strptime(f"{time.strftime('%Y-%m-%d')} {shown}", "%Y-%m-%d %H:%M:%S"))
    # of the last minutes, whatever the hour
    assert abs(time.time() - at) % 86400 < 3600
