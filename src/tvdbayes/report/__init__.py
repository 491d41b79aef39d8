"""One self-contained page from a fit: what was asked, what the answer is, and how far to trust it.

The page is one file of HTML that loads nothing: pictures are in it, its script is a few lines that
sort and filter a table, and everything that comes from data is text.
"""

import base64
import hashlib
import os
import re
from importlib.resources import files

from tvdbayes.report._page import gather
from tvdbayes.report._reportable import Reportable
from tvdbayes.storage import replacing

__all__ = ["Reportable", "render", "write_report"]

_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\u202a-\u202e\u2066-\u2069]")
"""What no file of HTML may hold, and what turns the rest of a sentence around; names may."""


def render(fit: Reportable, *, title: str | None = None, command: str | None = None) -> str:
    """The page of a fit, as text; the same fit gives the same page.

    Parameters
    ----------
    fit : Fit
    title : str, optional
        The heading; the formula unless given.
    command : str, optional
        The command line that made the fit; the call of `fit` unless given.

    Examples
    --------
    >>> import numpy as np, tvdbayes as tb
    >>> from tvdbayes.report import render
    >>> visits = np.random.default_rng(0).poisson(3, 100)
    >>> fit = tb.fit("visits ~ 1", {"visits": visits}, n_draws=50)
    >>> render(fit, title="Visits & more").count("<h1>Visits &amp; more</h1>")
    1
    """
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["sha256"] = _sha256
    source = (files(__package__) / "page.html.jinja").read_text("utf-8")
    page = gather(fit, title=title, command=command)
    return _UNPRINTABLE.sub("\ufffd", environment.from_string(source).render(page=page))


def write_report(
    fit: Reportable,
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    command: str | None = None,
) -> None:
    """Write the page of a fit to a file, whole or not at all.

    Parameters
    ----------
    fit, title, command
        As in `render`.
    path : str or path
        The file, such as ``fit.html``; its folder must exist.
    """
    # The file is begun first, so that nobody waits for a page that cannot be written.
    with replacing(path) as file:
        file.write(render(fit, title=title, command=command).encode())


def _sha256(script: str) -> str:
    """How a content security policy names the one script that may run."""
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
