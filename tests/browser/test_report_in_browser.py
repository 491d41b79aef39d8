"""The report as people meet it: opened from a file, on screens of all sizes, by mouse and by key.

They are not part of the usual run, since they need Chromium: ``pytest tests/browser``.
"""

import re

import pytest

PAGES = ["counts", "logit", "categories", "point", "long"]
SCRIPT, LINK, IMAGE = (
    "<script>alert(1)</script>",
    '=HYPERLINK("http://x","y")',
    "<img src=x onerror=alert(2)>",
)


@pytest.fixture
def visit(browser, addresses):
    """Opens a page in a window of this width; zoom makes all larger, as that of a browser does."""

    def visited(name, width=1280, *, zoom=1, scheme="light", media=""):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        browser.execute_cdp_cmd(
            "Emulation.setEmulatedMedia", {"media": media, "features": features}
        )
        browser.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {
                "width": width // zoom,
                "height": 900 // zoom,
                "deviceScaleFactor": zoom,
                "mobile": False,
            },
        )
        browser.get(addresses[name])
        return browser

    return visited


def heading(browser, name):
    """The button in the head of a column."""
    buttons = browser.find_elements("css selector", "#row-table thead button")
    return next(button for button in buttons if button.text == name)


def column(browser, name):
    """The texts of a column, in the rows that can be seen."""
    return browser.execute_script(
        """const table = document.getElementById("row-table");
        const names = [...table.tHead.rows[0].cells].map((cell) => cell.textContent);
        const at = names.indexOf(arguments[0]);
        return [...table.tBodies[0].rows]
          .filter((row) => row.checkVisibility())
          .map((row) => row.cells[at].textContent);""",
        name,
    )


def sorted_by(browser):
    """Heads that say that the table is sorted by them, and which way."""
    return browser.execute_script(
        """return [...document.querySelectorAll("[aria-sort]")].map(
          (cell) => [cell.textContent, cell.getAttribute("aria-sort")]);"""
    )


def shown(browser):
    return browser.find_element("id", "row-count").text


def type_in_filter(browser, text):
    box = browser.find_element("id", "row-filter")
    box.clear()
    box.send_keys(text)


def overflow(browser):
    """By how many pixels the page is wider than its window."""
    return browser.execute_script(
        "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )


@pytest.mark.parametrize("name", PAGES)
def test_it_opens_without_the_network_and_without_a_word_in_the_console(visit, name):
    browser = visit(name)
    browser.get_log("browser")
    browser.refresh()
    assert browser.get_log("browser") == []
    loaded = browser.execute_script(
        "return performance.getEntriesByType('resource').map((entry) => entry.name)"
    )
    assert [address for address in loaded if not address.startswith("data:")] == []
    assert browser.execute_script(
        "return [...document.images].every((image) => image.complete && image.naturalWidth > 0)"
    )


def test_names_and_levels_show_as_text(visit):
    browser = visit("counts")
    text = browser.find_element("tag name", "body").text
    for name in (SCRIPT, LINK, IMAGE):
        assert name in text
    # An alert that had opened would make these commands fail.
    assert browser.execute_script("return document.scripts.length") == 1
    assert browser.execute_script("return document.querySelectorAll('main img').length") == 4


def test_a_click_sorts_up_and_a_second_one_down(visit):
    browser = visit("counts")
    before = column(browser, "row")
    assert sorted_by(browser) == []
    heading(browser, "visits").click()
    up = [int(text) for text in column(browser, "visits")]
    assert up == sorted(up)
    assert sorted_by(browser) == [["visits", "ascending"]]
    heading(browser, "visits").click()
    down = [int(text) for text in column(browser, "visits")]
    assert down == sorted(up, reverse=True)
    assert len(set(down)) > 5
    assert sorted_by(browser) == [["visits", "descending"]]
    assert sorted(column(browser, "row")) == sorted(before)


@pytest.mark.parametrize("key", ["ENTER", "SPACE"])
def test_a_key_sorts_too(visit, key):
    from selenium.webdriver.common.keys import Keys

    browser = visit("counts")
    heading(browser, "g").send_keys(getattr(Keys, key))
    assert sorted_by(browser) == [["g", "ascending"]]
    levels = column(browser, "g")
    first = [level for i, level in enumerate(levels) if level not in levels[:i]]
    assert len(first) == 3
    assert levels == [level for name in first for level in levels if level == name]


def test_numbers_are_sorted_by_their_value_and_not_as_they_are_written(visit):
    browser = visit("counts")
    heading(browser, "expected").click()
    heading(browser, "expected").click()
    values = [float(text.replace(",", "")) for text in column(browser, "expected")[:20]]
    assert values == sorted(values, reverse=True)
    assert values[0] > 10


def test_the_filter_keeps_rows_that_have_all_words(visit):
    browser = visit("counts")
    everything = len(column(browser, "row"))
    assert everything > 50
    assert shown(browser) == f"{everything} of {everything} lines shown"
    type_in_filter(browser, "HYPERLINK flagged")
    levels = column(browser, "g")
    assert 0 < len(levels) < 40
    assert set(levels) == {LINK}
    assert set(column(browser, "flag")) == {"flagged"}
    assert shown(browser) == f"{len(levels)} of {everything} lines shown"
    type_in_filter(browser, "no such text")
    assert column(browser, "row") == []
    assert shown(browser) == f"0 of {everything} lines shown"


def test_flagged_rows_can_be_shown_alone_and_stay_so_when_sorted(visit):
    browser = visit("counts")
    flags = column(browser, "flag")
    n = flags.count("flagged")
    assert n > 10
    browser.find_element("css selector", "label:has(#row-flagged)").click()
    assert column(browser, "flag") == ["flagged"] * n
    heading(browser, "visits").click()
    assert column(browser, "flag") == ["flagged"] * n
    assert shown(browser) == f"{n} of {len(flags)} lines shown"


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize(("width", "zoom"), [(1280, 1), (1280, 2), (360, 1), (320, 1)])
def test_it_does_not_overflow(visit, name, width, zoom):
    browser = visit(name, width, zoom=zoom)
    assert browser.execute_script("return innerWidth") == width // zoom
    assert overflow(browser) <= 0


@pytest.mark.parametrize("name", PAGES)
def test_larger_letters_do_not_overflow(visit, name):
    browser = visit(name)
    browser.execute_script("document.documentElement.style.fontSize = '200%'")
    assert overflow(browser) <= 0


@pytest.mark.parametrize("width", [1280, 360])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["counts", "categories", "point"])
def test_axe_finds_no_fault(visit, axe, name, scheme, width):
    browser = visit(name, width, scheme=scheme)
    background = browser.execute_script(
        "return getComputedStyle(document.documentElement).backgroundColor"
    )
    brightness = sum(map(int, re.findall(r"\d+", background))) / 3
    assert (brightness < 60) == (scheme == "dark")
    # Of so many equal rows some are enough: axe looks at each cell for long.
    browser.execute_script(
        """const rows = [...document.querySelectorAll("#row-table tbody tr")];
        for (const row of rows.slice(4, -4)) row.remove();"""
    )
    browser.execute_script(axe)
    found = browser.execute_async_script(
        """const done = arguments[0];
        axe.run().then((result) => done({
          faults: result.violations.map((rule) => [rule.id, rule.nodes.map((node) => node.html)]),
          unsure: result.incomplete.map((rule) => [rule.id, rule.nodes.map((node) => node.html)]),
          passed: result.passes.map((rule) => rule.id),
        }));"""
    )
    assert found["faults"] == []
    assert found["unsure"] == []
    assert "color-contrast" in found["passed"]


def test_the_first_key_leads_past_the_head(visit):
    from selenium.webdriver.common.keys import Keys

    browser = visit("counts")
    browser.find_element("tag name", "body").send_keys(Keys.TAB)
    link = browser.switch_to.active_element
    assert link.text == "Skip to the answer"
    assert link.rect["x"] >= 0
    assert link.value_of_css_property("outline-style") == "solid"
    link.send_keys(Keys.ENTER)
    assert browser.switch_to.active_element.get_attribute("id") == "main"


def test_without_scripts_the_table_is_there_and_the_controls_are_not(visit):
    from selenium.webdriver.support.ui import WebDriverWait

    browser = visit("counts")
    with_scripts = len(browser.find_elements("css selector", "#row-table tbody tr"))
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.refresh()
        # Without scripts the driver does not wait until the page has loaded: wait for its end.
        WebDriverWait(browser, 60).until(lambda page: page.find_elements("id", "cite"))
        assert not browser.find_element("id", "row-controls").is_displayed()
        assert browser.find_elements("css selector", "#row-table button") == []
        shown = browser.find_elements("css selector", "#row-table tbody tr")
        assert len(shown) == with_scripts > 50
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def test_paper_has_all_rows_and_no_controls(visit):
    browser = visit("counts", 794, media="print", scheme="dark")
    assert not browser.find_element("id", "row-controls").is_displayed()
    assert not browser.find_element("tag name", "nav").is_displayed()
    hidden = browser.execute_script(
        """const box = document.querySelector(".rows");
        return getComputedStyle(box).overflowY === "visible" ? 0 : box.scrollHeight;"""
    )
    assert hidden == 0
    assert browser.execute_script(
        "return getComputedStyle(document.documentElement).backgroundColor"
    ) == ("rgb(255, 255, 255)")
    assert browser.execute_script(
        "return getComputedStyle(document.querySelector('figure img')).filter"
    ) == ("none")
