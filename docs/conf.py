"""The site: pages in Markdown, code cells run when it is built, warnings are errors."""

import os
import runpy
import shutil
from pathlib import Path

from tvdbayes import __version__

HERE = Path(__file__).parent
RESULTS = HERE.parent / "benchmarks" / "results"
LINKS = {
    "](../benchmarks/results)": "](tables.md)",
    "../benchmarks/results/": "results/",
    "](benchmarks/results/": "](results/",
    "](docs/": "](",
    "](../CONTRIBUTING.md)": "](contributing.md)",
    "](ARCHITECTURE.md)": "](architecture.md)",
}

project = "tvdbayes"
author = "The tvdbayes developers"
project_copyright = author
version = release = __version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
]
exclude_patterns = ["_build"]
templates_path = ["_templates"]

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
# Quotation marks stay as they are written: messages and code are searched and copied.
smartquotes = False

# Code cells run on every build, in a kernel that draws sharp pictures; one that fails ends it.
nb_execution_mode = "force"
nb_execution_timeout = 900
nb_execution_raise_on_error = True
nb_merge_streams = True
KERNEL = HERE / "_build" / "ipython" / "profile_default"
KERNEL.mkdir(parents=True, exist_ok=True)
(KERNEL / "ipython_kernel_config.py").write_text(
    'get_config().InlineBackend.figure_formats = {"retina"}\n'
)
os.environ["IPYTHONDIR"] = str(KERNEL.parent)
os.environ["TVDBAYES_PROGRESS"] = "0"

# What stands in single quotes in a docstring is a name of ours, or just code.
default_role = "py:obj"
autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
# Two names that differ by a capital alone must not share a file where capitals do not count.
autosummary_filename_map = {
    "tvdbayes.Fit": "tvdbayes.Fit-class",
    "tvdbayes.plan.Power": "tvdbayes.plan.Power-class",
}

# Names of other libraries are links where the lists of these names can be fetched: the workflow
# that builds the site sets the variable. Elsewhere they are plain text, and no network is needed.
OTHERS = {
    "matplotlib": "https://matplotlib.org/stable/",
    "numpy": "https://numpy.org/doc/stable/",
    "pandas": "https://pandas.pydata.org/docs/",
    "python": "https://docs.python.org/3/",
    "scipy": "https://docs.scipy.org/doc/scipy/",
    "sklearn": "https://scikit-learn.org/stable/",
}
linked = os.environ.get("TVDBAYES_DOCS_LINKED") == "1"
intersphinx_mapping = {name: (address, None) for name, address in OTHERS.items() if linked}
# Names of code only: a link to a page that we lack must not find one elsewhere.
intersphinx_disabled_reftypes = ["std:*"]

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

html_theme = "pydata_sphinx_theme"
html_title = "tvdbayes"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
# Pages that stand alone have nothing to navigate to.
html_sidebars = {name: [] for name in ("index", "start", "is_it_for_me")}
html_context = {"default_mode": "auto"}
html_theme_options = {
    "navbar_end": ["theme-switcher"],
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "header_links_before_dropdown": 7,
    "show_prev_next": True,
}


def pages_of_the_repository(_app) -> None:
    """Make pages of what stands elsewhere: the tables of the benchmarks, the changelog, ..."""
    shutil.copytree(RESULTS, HERE / "results", dirs_exist_ok=True)
    for name in ("CHANGELOG", "CONTRIBUTING", "ARCHITECTURE"):
        shutil.copy(HERE.parent / f"{name}.md", HERE / f"{name.lower()}.md")
    (HERE / "api" / "messages.md").write_text(runpy.run_path(HERE / "messages.py")["page"]())


def links_within_the_site(_app, _name, source) -> None:
    """Let links that work in the repository work in the site."""
    for there, here in LINKS.items():
        source[0] = source[0].replace(there, here)


def setup(app) -> None:
    """Sphinx calls this."""
    app.connect("builder-inited", pages_of_the_repository)
    app.connect("source-read", links_within_the_site)
