"""The documentation as people meet it: opened from a file, on a phone too, and searched.

Built by ``make docs``; without that the tests are skipped and say so.
"""

from pathlib import Path

import pytest

from conftest import missing

SITE = Path(__file__).parents[2] / "docs" / "_build" / "html"
PHONE, DESKTOP = 360, 1280

LOOK = """
const broken = [...document.images].filter((one) => one.complete && !one.naturalWidth);
const fetched = performance.getEntriesByType("resource").map((one) => one.name)
  .filter((name) => !name.startsWith("file:") && !name.startsWith("data:"));
// What is wider than the screen must lie in a box that scrolls.
const scrolls = (box) => ["auto", "scroll"].includes(getComputedStyle(box).overflowX);
const boxed = (one) => one.tagName !== "ARTICLE" && (scrolls(one) || boxed(one.parentElement));
const edge = document.documentElement.clientWidth + 1;
const wide = [...document.querySelectorAll("article :not(.headerlink)")].filter(
  (one) => one.getBoundingClientRect().right > edge && !boxed(one.parentElement));
return [
  ...wide.map((one) => `too wide: ${one.outerHTML.slice(0, 80)}`),
  ...broken.map((one) => one.src),
  ...fetched,
];
"""


@pytest.fixture(scope="module")
def pages():
    # The source, as it is listed for readers, is as wide as its lines.
    others = {"_static", "_modules"}
    found = [p for p in sorted(SITE.rglob("*.html")) if not others & {*p.parts}]
    return found or missing("the site is not built (make docs)")


def opened(browser, page, width, query=""):
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width == PHONE},
    )
    browser.get(page.as_uri() + query)
    return browser


@pytest.mark.parametrize("width", [PHONE, DESKTOP])
def test_pages_fit_have_their_pictures_need_no_network_and_do_not_complain(browser, pages, width):
    wrong = []
    for page in pages:
        opened(browser, page, width)
        found = browser.execute_script(LOOK)
        log = browser.get_log("browser")
        found += [line["message"] for line in log if line["level"] in ("WARNING", "SEVERE")]
        if found:
            wrong.append((page.relative_to(SITE).as_posix(), found))
    assert wrong == []


def test_a_wide_page_is_noticed(browser, pages):
    opened(browser, pages[0], PHONE)
    browser.execute_script(
        "document.querySelector('article').insertAdjacentHTML("
        "'beforeend', '<p style=\\'width: 900px\\'>wide</p>')"
    )
    assert any("too wide" in line for line in browser.execute_script(LOOK))


@pytest.mark.usefixtures("pages")
@pytest.mark.parametrize(
    ("words", "page"),
    [("rootogram", "tutorials/trips"), ("glmrob", "coming_from"), ("NegativeBinomial", "api/")],
)
def test_the_search_finds(browser, words, page):
    from selenium.webdriver.support.ui import WebDriverWait

    opened(browser, SITE / "search.html", DESKTOP, f"?q={words}")

    def links(at):
        found = at.find_elements("css selector", "#search-results a")
        return [link.get_attribute("href") for link in found]

    # Results come one after another.
    WebDriverWait(browser, 20).until(lambda at: any(page in link for link in links(at)))
