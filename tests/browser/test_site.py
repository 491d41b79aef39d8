"""The documentation as people meet it: opened from a file, on a phone too, and searched.

Built by ``make docs``; without that the tests are skipped and say so.
"""

from pathlib import Path

import pytest

from conftest import missing

SITE = Path(__file__).parents[2] / "docs" / "_build" / "html"
PHONE, DESKTOP = 360, 1280


@pytest.fixture(scope="module")
def pages():
    found = [p for p in sorted(SITE.rglob("*.html")) if "_static" not in p.parts]
    return found or missing("the site is not built (make docs)")


def opened(browser, page, width, query=""):
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width == PHONE},
    )
    browser.get(page.as_uri() + query)
    return browser


@pytest.mark.parametrize("width", [PHONE, DESKTOP])
def test_no_page_scrolls_sideways_nor_lacks_a_picture_nor_complains(browser, pages, width):
    wrong = []
    for page in pages:
        opened(browser, page, width)
        wide, broken = browser.execute_script(
            """const page = document.documentElement;
            const pictures = [...document.images].filter((i) => i.complete && !i.naturalWidth);
            return [page.scrollWidth - page.clientWidth, pictures.map((i) => i.src)];"""
        )
        log = browser.get_log("browser")
        said = [line["message"] for line in log if line["level"] in ("WARNING", "SEVERE")]
        if wide > 0 or broken or said:
            wrong.append((page.relative_to(SITE).as_posix(), wide, broken, said))
    assert wrong == []


def test_nothing_is_fetched_from_elsewhere(browser, pages):
    wrong = set()
    for page in pages:
        opened(browser, page, DESKTOP)
        wrong |= set(
            browser.execute_script(
                """return performance.getEntriesByType("resource").map((one) => one.name)
                  .filter((name) => !name.startsWith("file:") && !name.startsWith("data:"));"""
            )
        )
    assert wrong == set()


@pytest.mark.usefixtures("pages")
@pytest.mark.parametrize(
    ("words", "page"),
    [("rootogram", "tutorials/trips"), ("glmrob", "coming_from"), ("NegativeBinomial", "api/")],
)
def test_the_search_finds(browser, words, page):
    from selenium.webdriver.support.ui import WebDriverWait

    opened(browser, SITE / "search.html", DESKTOP, f"?q={words}")

    def found(at):
        links = at.find_elements("css selector", "#search-results a")
        return [link.get_attribute("href") for link in links]

    links = WebDriverWait(browser, 10).until(found)
    assert any(page in link for link in links), links
