"""Jobs are found by filters that are part of the address, and by pages."""

from selenium.webdriver.common.keys import Keys

from protocol.luxi.queue import ReplaceFilter
from tests.browser.browser import Browser
from tests.support.wait import wait_until
from tests.support.web.rapid import Web

MANY = 10_000


def reasoned(text: str) -> dict[str, object]:
    return {"OP_ID": "OP_TEST_DELAY", "duration": 0.01, "reason": [["gnt:user", text, 1], ["gantry:login", "alice", 1]]}


def test_jobs_are_filtered_by_reason_and_user(web: Web, browser: Browser) -> None:
    upgrade, backup = web.cluster.submit(reasoned("upgrade of web")), web.cluster.submit(reasoned("backup"))
    web.cluster.wait(upgrade, backup)
    browser.open(f"{web.url}/ui/jobs")

    browser.type("#where", "reason=~upgrade & user=alice")
    browser.one("#where").send_keys(Keys.ENTER)
    # the page before has this job, too
    wait_until(lambda: "where=reason" in browser.driver.current_url, what="the page of these jobs")
    browser.wait_for("#joblist", text=str(upgrade))

    assert f"job-{backup}" not in browser.ids("table.jobs tr")
    browser.type("#where", "user=nobody")
    browser.press("search")
    browser.wait_for("#joblist", text="No job matches")


def remembered(number: int) -> dict[str, object]:
    return {
        "OP_ID": "OP_TEST_DELAY",
        "duration": 0.01,
        "comment": "Rolls the Kernel forward",
        "reason": [["gantry:terms", f'{{"name":"sweep-{number}","labels":{{"rack":"r{number}"}}}}', 1]],
    }


def test_words_find_jobs_by_name_label_and_comment_and_a_number_leads_to_its_job(web: Web, browser: Browser) -> None:
    one, two = web.cluster.submit(remembered(71)), web.cluster.submit(remembered(72))
    web.cluster.wait(one, two)
    browser.open(f"{web.url}/ui")

    # from anywhere
    browser.one("body").send_keys(Keys.CONTROL, "k")
    browser.driver.switch_to.active_element.send_keys("kernel SWEEP", Keys.ENTER)
    browser.wait_for("#joblist", text="2 match")
    assert browser.ids("table.jobs tbody tr") == [f"job-{two}", f"job-{one}"]
    browser.type("#where", "rack=r71")
    browser.press("search")
    browser.wait_for("[role=alert]", text="no field 'rack'")
    browser.type("#where", "r71")
    browser.press("search")
    browser.wait_for("#joblist", text="1 matches")
    assert browser.ids("table.jobs tbody tr") == [f"job-{one}"]

    browser.open(f"{web.url}/ui/locks")
    browser.one("body").send_keys(Keys.CONTROL, "k")
    browser.driver.switch_to.active_element.send_keys(str(two), Keys.ENTER)
    browser.wait_for("#jobhead", text=f"job {two}")


def test_names_of_fields_are_completed_behind_what_was_typed(web: Web, browser: Browser) -> None:
    browser.open(f"{web.url}/ui/jobs")

    browser.type("#where", "status=running & us")

    offered = browser.driver.execute_script(
        "return [...document.querySelectorAll('#fields option')].map(option => option.value)"
    )
    assert "status=running & user" in offered


def test_a_wrong_filter_says_what_is_wrong(web: Web, browser: Browser) -> None:
    browser.open(f"{web.url}/ui/jobs?where=statuss%3Dx")

    browser.wait_for("[role=alert]", text="did you mean 'status'?")


def test_keys_lead_through_the_pages(web: Web, browser: Browser) -> None:
    job = web.cluster.submit(reasoned("keys"))
    # nothing of its row changes any more while it has the focus
    web.cluster.wait(job)
    browser.open(f"{web.url}/ui")
    browser.one("body").send_keys("gj")
    browser.wait_for("#joblist", text=str(job))
    browser.one("body").send_keys("j")
    browser.driver.switch_to.active_element.send_keys(Keys.ENTER)
    browser.wait_for("#jobhead", text=f"job {job}")
    browser.one("body").send_keys("?")
    browser.wait_for("h1", text="Keys")


def test_ten_thousand_jobs_are_paged_through(web: Web, browser: Browser) -> None:
    ids = submit_paused(web, MANY)
    browser.open(f"{web.url}/ui/jobs?where=status%3Dqueued")
    seen: list[int] = []
    while True:
        rows = browser.driver.execute_script(
            "return [...document.querySelectorAll('table.jobs tbody tr')].map(row => +row.id.slice(4))"
        )
        seen += rows
        if not browser.all("#older"):
            break
        browser.open(str(browser.one("#older").get_attribute("href")))

    assert seen == sorted(ids, reverse=True)


def submit_paused(web: Web, count: int) -> list[int]:
    """Jobs that a rule keeps in the queue."""
    web.cluster.luxi(ReplaceFilter(None, 0, (["opcode", ["==", "comment", "many"]],), "PAUSE", ()))
    op = {"OP_ID": "OP_TEST_DELAY", "duration": 0.01, "comment": "many"}
    return [job for _ in range(count // 500) for job in web.cluster.submit_many(*[(op,)] * 500)]
