"""A real browser with the network cut, and pages of fits to open in it.

Without Chromium or selenium the tests are skipped and say why; where TVDBAYES_BROWSER=1 is set
they fail instead, so that nobody takes a skipped test for a passed one.
"""

import os
import shutil

import numpy as np
import pytest

import tvdbayes as tb

SCRIPT = "<script>alert(1)</script>"
LINK = '=HYPERLINK("http://x","y")'
IMAGE = "<img src=x onerror=alert(2)>"

OPTIONS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND",
)


def missing(what):
    if os.environ.get("TVDBAYES_BROWSER") == "1":
        pytest.fail(f"{what}, and TVDBAYES_BROWSER=1 forbids to skip")
    pytest.skip(what)


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    try:
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service
    except ImportError:
        missing("selenium is not installed (pip install selenium selenium-axe-python)")
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        missing("there is no Chromium (apt-get install chromium chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for option in (*OPTIONS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    with webdriver.Chrome(options, Service(driver)) as opened:
        yield opened


@pytest.fixture(scope="session")
def axe():
    """The text of axe-core, which finds what people with disabilities stumble over."""
    try:
        from importlib.resources import files

        return (files("selenium_axe_python") / "axe-core" / "axe.min.js").read_text("utf-8")
    except ImportError:
        missing("axe-core is not installed (pip install selenium-axe-python)")


@pytest.fixture(scope="session")
def addresses(tmp_path_factory):
    """Pages as addresses of files, by name."""
    folder = tmp_path_factory.mktemp("pages")
    rng = np.random.default_rng(0)
    n = 600
    z, x, g = rng.integers(0, 3, n), rng.normal(size=n), rng.choice([LINK, IMAGE, "c"], n)
    visits = rng.poisson(np.exp(0.5 + 0.3 * z))
    visits[:40] += 12
    sick = (rng.random(n) < 1 / (1 + np.exp(-x))).astype(int)
    mode = rng.choice(["bus", "car", "foot"], n)
    long = {"a_column_with_a_name_" * 6: z}
    fits = {
        "counts": tb.fit(
            f"visits ~ `{SCRIPT}` + g", {"visits": visits, SCRIPT: z, "g": g}, n_draws=200
        ),
        "logit": tb.fit("sick ~ x", {"sick": sick, "x": x}, family="bernoulli", n_draws=100),
        "categories": tb.fit("mode ~ z", {"mode": mode, "z": z}, family="categorical", n_draws=100),
        "point": tb.fit("visits ~ 1", {"visits": visits}, n_draws=0),
        "long": tb.fit(f"visits ~ {next(iter(long))}", {"visits": visits, **long}, n_draws=50),
    }
    for name, fit in fits.items():
        fit.report(folder / f"{name}.html")
    return {name: (folder / f"{name}.html").as_uri() for name in fits}
