"""What a job prints is seen as in a terminal, and goes on without a reload."""

import os
import re
from pathlib import Path

import pytest

from tests.browser.browser import NARROW, WIDE, Browser
from tests.support.wait import wait_until
from tests.support.web.rapid import Web

# a telephone as most are
USUAL = (390, 844)
PRINTS = r"""
import sys, time, pathlib
gate, out = pathlib.Path(sys.argv[1]), sys.stdout.buffer
def show(text):
    out.write(text if isinstance(text, bytes) else text.encode()); out.flush()
def wait(number):
    while not gate.with_name(f"gate{number}").exists(): time.sleep(0.02)
show("\033[1m$ make release\033[0m\n")
show("\033]0;a title\007plain <b>text</b> & \033[4munderlined\033[0m \033[7minverse\033[0m \033[9mstruck\033[0m\n")
show("::group::dependencies\n")
for name in ("trio", "attrs", "h11"):
    show(f"  \033[32m✔\033[0m {name}\n")
show("::endgroup::\n")
for ground in (3, 9):
    show("".join(f"\033[{ground}{n}m colour{n} \033[0m" for n in range(8)) + "\n")
for ground in (4, 10):
    show("".join(f"\033[{ground}{n}m behind{n} \033[0m" for n in range(8)) + "\n")
show("\033[1;37;41m ERROR \033[0m \033[30;43m WARN \033[0m \033[38;5;208m256 colours\033[0m \033[38;2;90;200;250mtrue colour\033[0m\n")
show("x" * 400 + " a long line " + "/path" * 60 + "\n")
show("::group::tests: 漢字 €\n")
for part in range(0, 61):
    show(f"\r\033[K\033[36m{'█' * (part // 3)}{'░' * (20 - part // 3)}\033[0m {part}%")
show("\033[33mstill yellow €".encode()[:-1])
wait(1)
show("€ across\n".encode()[2:])
show("and yellow here\033[3")
wait(2)
show("5m, now magenta\033[0m\n::endgroup::\n")
show("the end of it\n")
wait(3)
"""  # noqa: E501 - a program


def printing(folder: Path, program: str = PRINTS) -> dict[str, object]:
    """A command that goes on when `gate1`, `gate2` and so on are in the folder."""
    (folder / "prints.py").write_text(program)
    argv = ["python3", "-u", str(folder / "prints.py"), str(folder / "gate")]
    return {"OP_ID": "OP_RUN_COMMAND", "argv": argv, "comment": "release 4.2"}


def line(browser: Browser, number: int) -> str:
    return browser.text(f"#L{number} > span")


def test_an_output_goes_on_in_its_colours_from_where_the_page_ends(web: Web, browser: Browser, tmp_path: Path) -> None:
    job = web.cluster.submit(printing(tmp_path))
    wait_until(lambda: "still yellow" in web.local.get(f"/ui/jobs/{job}").text, what="the first part of the output")

    browser.open(f"{web.url}/ui/jobs/{job}")
    browser.mark()
    assert line(browser, 2) == "plain <b>text</b> & underlined inverse struck"
    assert browser.text("#L1 .t-bold") == "$ make release"
    # a bar is in its last state, and the beginning of a character is not shown
    assert line(browser, 15).endswith("60%still yellow")
    assert not browser.all("#G3[open]")
    assert browser.all("#G14[open]")
    (tmp_path / "gate1").touch()
    browser.wait_for("#L15 > span", text="60%still yellow € across")
    browser.wait_for("#L16 .t-f3", text="and yellow here")
    (tmp_path / "gate2").touch()
    browser.wait_for("#L16 .t-f5", text=", now magenta")
    browser.wait_for("#L18", text="the end of it")

    assert browser.is_marked
    assert browser.all("#G14 #L16")
    assert browser.all("#rows > #L18")
    seen = browser.text("#output")
    assert "\ufffd" not in seen
    assert "\x1b" not in seen
    assert "[3" not in seen
    assert len(browser.ids("#output [id]")) == len(set(browser.ids("#output [id]")))
    (tmp_path / "gate3").touch()
    browser.wait_for("#jobhead", text="success")
    # what was told in parts is what is told at once
    followed = browser.text("#rows")
    browser.open(f"{web.url}/ui/jobs/{job}")
    browser.driver.execute_script("document.querySelectorAll('details').forEach(each => { each.open = true })")
    whole = browser.text("#rows")
    browser.driver.execute_script("document.getElementById('G3').open = false")
    assert browser.text("#rows") == followed
    assert "attrs" in whole


def test_a_page_that_comes_back_goes_on_where_it_was(web: Web, browser: Browser, tmp_path: Path) -> None:
    job = web.cluster.submit(printing(tmp_path))
    wait_until(lambda: "still yellow" in web.local.get(f"/ui/jobs/{job}").text, what="the first part of the output")
    browser.open(f"{web.url}/ui/jobs/{job}")
    browser.mark()
    (tmp_path / "gate1").touch()
    browser.wait_for("#L16", text="and yellow here")

    # as in a tab behind others, whose stream ends
    hide = "Object.defineProperty(document, 'hidden', {value: arguments[0], configurable: true});" \
        "document.dispatchEvent(new Event('visibilitychange'))"  # fmt: skip
    browser.driver.execute_script(hide, True)
    (tmp_path / "gate2").touch()
    wait_until(lambda: "the end of it" in web.local.get(f"/ui/jobs/{job}").text, what="the second part of the output")
    assert not browser.text("#L18")
    browser.driver.execute_script(hide, False)
    browser.wait_for("#L18", text="the end of it")

    assert browser.is_marked
    assert browser.text("#L16 .t-f5") == ", now magenta"
    assert browser.ids("#G14 .l") == ["L14", "L15", "L16"]
    assert browser.ids("#rows > .l")[-1:] == ["L18"]
    (tmp_path / "gate3").touch()
    assert web.cluster.wait(job) == ["success"]


FLOOD = r"""
import sys, time, pathlib
gate = pathlib.Path(sys.argv[1])
def lines(first, last):
    for number in range(first, last):
        print(f"\033[3{number % 8}mline {number}\033[0m of a job that prints for ever")
lines(1, 3001)
while not gate.with_name("gate1").exists(): time.sleep(0.02)
for begin in range(3001, 15001, 1000):
    lines(begin, begin + 1000)
    # so that the page gets it in many portions
    time.sleep(0.1)
print("::group::last")
while not gate.with_name("gate2").exists(): time.sleep(0.02)
lines(15002, 40002)
print("done")
while not gate.with_name("gate3").exists(): time.sleep(0.02)
"""


@pytest.fixture(scope="module")
def flood(web: Web, tmp_path_factory: pytest.TempPathFactory) -> int:
    """A job with 40,002 lines."""
    folder = tmp_path_factory.mktemp("flood")
    for number in (1, 2, 3):
        (folder / f"gate{number}").touch()
    job = web.cluster.submit(printing(folder, FLOOD))
    assert web.cluster.wait(job) == ["success"]
    return job


def test_a_browser_keeps_a_bounded_part_of_what_a_job_prints(web: Web, browser: Browser, tmp_path: Path) -> None:
    job = web.cluster.submit(printing(tmp_path, FLOOD))
    wait_until(lambda: 'id="L3000"' in web.local.get(f"/ui/jobs/{job}").text, what="the first part of the output")
    browser.open(f"{web.url}/ui/jobs/{job}")
    browser.mark()
    assert browser.text("#left-out").startswith("lines before 2001 are not shown here")
    (tmp_path / "gate1").touch()
    browser.wait_for("#L15001", text="last")

    kept = browser.ids("#rows .l")
    assert len(kept) == 5000
    assert kept[0] == "L10002"
    assert browser.text("#left-out").startswith("lines before 10002 are not shown here")
    (tmp_path / "gate2").touch()
    browser.wait_for("#L40002", text="done")

    kept = browser.ids("#rows .l")
    assert len(kept) <= 5002
    assert kept[-1] == "L40002"
    assert browser.all("#G15001 #L40002")
    assert browser.is_marked
    # who follows is at the end
    assert browser.driver.execute_script(
        "const o = document.getElementById('output'); return o.scrollHeight - o.scrollTop - o.clientHeight < 24"
    )
    (tmp_path / "gate3").touch()
    assert web.cluster.wait(job) == ["success"]


def test_a_link_to_a_line_shows_it_wherever_it_is(web: Web, browser: Browser, flood: int) -> None:
    for number in (39990, 1500, 15001, 15100):
        browser.open(f"{web.url}/ui/jobs")
        browser.open(f"{web.url}/ui/jobs/{flood}#L{number}")
        browser.wait_for(f"#L{number}:target", text=f"line {number}" if number != 15001 else "last")

        box = "const e = document.querySelector(arguments[0]).getBoundingClientRect(); return [e.top, e.bottom]"
        top, bottom = browser.driver.execute_script(box, f"#L{number}")
        assert -1 <= top < bottom <= WIDE[1] + 1
    browser.click("#L15110 > a")
    assert browser.driver.current_url.endswith("#L15110")
    # a line that the job never had
    browser.open(f"{web.url}/ui/jobs/{flood}#L99999")
    browser.wait_for("#outputhead", text="there is no line")


def test_an_output_is_searched_as_a_whole(web: Web, browser: Browser, flood: int) -> None:
    browser.open(f"{web.url}/ui/jobs/{flood}")
    browser.type("#find", "LINE 1234")
    browser.press("find")
    browser.wait_for("#outputhead", text="11 lines have 'LINE 1234'")
    assert [each.text for each in browser.all("#rows mark")] == ["line 1234"] * 11

    browser.click("#L12345 > a")

    browser.wait_for("#L12345:target mark", text="line 1234")
    browser.wait_for("#L12344", text="line 12344")
    assert browser.attribute("#find", "value") == "LINE 1234"


def test_parts_of_an_output_follow_each_other(web: Web, browser: Browser, flood: int) -> None:
    browser.open(f"{web.url}/ui/jobs/{flood}")
    browser.follow("from the start")
    browser.wait_for(".pager", text="lines 1 to 1000")
    browser.follow("next part")
    browser.wait_for(".pager", text="lines 1001 to 2000")
    browser.follow("part before")
    browser.wait_for(".pager", text="lines 1 to 1000")
    browser.type("input[name=line]", "39995")
    browser.press("show")
    browser.wait_for(".pager", text="lines 39995 to 40002")
    assert "next part" not in browser.text("#outputhead")
    browser.follow("end")
    browser.wait_for(".pager", text="lines 39003 to 40002")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_an_output_fits_its_window(web: Web, browser: Browser, tmp_path: Path, theme: str) -> None:
    folder = Path(os.environ.get("GANTRY_SCREENSHOTS") or tmp_path)
    job = web.cluster.submit(printing(tmp_path))
    wait_until(lambda: "still yellow" in web.local.get(f"/ui/jobs/{job}").text, what="the first part of the output")
    browser.press(theme)
    wait_until(lambda: browser.all(f'html[data-theme="{theme}"]'), what=f"the page in {theme} colours")
    pages = {"followed": "", "line": "?line=1#L11", "found": "?find=colour"}
    for size in (WIDE, USUAL, NARROW):
        browser.resize(size)
        for name, query in pages.items():
            browser.open(f"{web.url}/ui/jobs/{job}{query}")
            browser.driver.execute_script("document.querySelectorAll('details').forEach(each => { each.open = true })")
            browser.driver.execute_script("document.getElementById('outputhead').scrollIntoView()")
            browser.shoot(folder / f"output-{name}-{theme}-{size[0]}.png")

            assert browser.overflow() <= 0, name
            inside = "const o = document.getElementById('output'); return o.scrollWidth - o.clientWidth"
            assert browser.driver.execute_script(inside) <= 0, name
    browser.resize(WIDE)
    for number in (1, 2, 3):
        (tmp_path / f"gate{number}").touch()
    assert web.cluster.wait(job) == ["success"]


TIMED = """
import pathlib, sys, time
gate = pathlib.Path(sys.argv[1])
print("::group::one"); print("a line"); print("::endgroup::"); print("two")
while not gate.with_name("gate1").exists(): time.sleep(0.02)
time.sleep(0.3)
print("three")
while not gate.with_name("gate2").exists(): time.sleep(0.02)
"""
CLOCK = re.compile(r"[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]")


def test_lines_have_their_times_on_request_and_so_has_what_comes(web: Web, browser: Browser, tmp_path: Path) -> None:
    job = web.cluster.submit(printing(tmp_path, TIMED))
    wait_until(lambda: "two" in web.local.get(f"/ui/jobs/{job}").text, what="the first part of the output")
    browser.open(f"{web.url}/ui/jobs/{job}")
    assert not browser.all("#output time")

    browser.follow("times")
    browser.wait_for("#outputhead [aria-current]", text="follow")
    assert browser.driver.current_url == f"{web.url}/ui/jobs/{job}?times=yes"
    assert CLOCK.fullmatch(browser.text("#L1 > time"))
    assert CLOCK.fullmatch(browser.text("#L4 > time"))
    browser.mark()
    (tmp_path / "gate1").touch()
    browser.wait_for("#L5 > span", text="three")

    assert browser.is_marked
    assert browser.text("#L4 > time") < browser.text("#L5 > time")
    (tmp_path / "gate2").touch()
    browser.wait_for("#jobhead", text="success")
    told = [browser.text(f"#L{number} > time") for number in (1, 4, 5)]
    # the search, the parts and the numbers keep them
    browser.open(f"{web.url}/ui/jobs/{job}?times=yes&find=three")
    assert browser.text("#output time") == told[2]
    browser.click("#L5 > a")
    browser.wait_for("#outputhead", text="from the start")
    assert [browser.text(f"#L{number} > time") for number in (1, 4, 5)] == told
    assert "times=yes" in browser.driver.current_url
    browser.follow("times")
    browser.wait_until_gone("#output time")


def test_times_that_are_lost_are_told_so_and_fit_the_window(web: Web, browser: Browser, tmp_path: Path) -> None:
    program = "import sys\nprint('x' * 300); print('y')"
    job = web.cluster.submit(printing(tmp_path, program))
    web.cluster.wait(job)
    for size in (USUAL, NARROW, WIDE):
        browser.resize(size)
        browser.open(f"{web.url}/ui/jobs/{job}?times=yes")
        assert CLOCK.fullmatch(browser.text("#L1 > time"))
        assert browser.overflow() == 0
        browser.shoot(tmp_path / f"times-{size[0]}.png")
    (web.cluster.paths.output / f"job-{job}.times.{0:020d}").write_bytes(b"damaged, and longer than a mark")

    browser.open(f"{web.url}/ui/jobs/{job}?times=yes")

    assert "no times of these lines are known" in browser.text("main")
    assert browser.text("#L1 > time") == "–"
