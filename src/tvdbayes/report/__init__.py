"""What is told about a fit, and one self-contained page of it.

`Story` holds the facts. The page is one file of HTML that loads nothing: pictures are in it, its
script is a few lines that sort and filter a table, and everything that comes from data is text.
"""

import base64
import hashlib
import re
from importlib.resources import files

from tvdbayes.report._page import covariates, page_of
from tvdbayes.report._story import INTERVAL, Averages, Story
from tvdbayes.report._tables import listed

__all__ = ["INTERVAL", "Averages", "Story", "covariates", "listed", "render"]

_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\u202a-\u202e\u2066-\u2069]")
"""What no file of HTML may hold, and what turns the rest of a sentence around; names may."""


def render(story: Story, *, title: str | None = None, command: str | None = None) -> str:
    """The page of a fit, as text; the same fit gives the same page.

    Parameters
    ----------
    story : Story
    title : str, optional
        The heading; the formula unless given.
    command : str, optional
        The command line that made the fit; the call of `fit` unless given.
    """
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["sha256"] = _sha256
    source = (files(__package__) / "page.html.jinja").read_text("utf-8")
    page = page_of(story, title=title, command=command)
    return _UNPRINTABLE.sub("\ufffd", environment.from_string(source).render(page=page))


def _sha256(script: str) -> str:
    """How a content security policy names the one script that may run."""
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
