"""What the documents say is what the code does."""

import re
import runpy
from pathlib import Path

import pytest

import tvdbayes

ROOT = Path(__file__).parent.parent


def test_the_readme_prints_what_its_example_prints_and_quotes_what_was_measured():
    readme = (ROOT / "README.md").read_text()
    written = runpy.run_path(str(ROOT / "docs" / "readme.py"))["written"]
    assert written(readme) == readme, "Run python docs/readme.py."


def test_the_citation_and_the_changelog_have_the_version():
    version = tvdbayes.__version__
    citation = (ROOT / "CITATION.cff").read_text()
    assert re.findall(r"^version: (.*)$", citation, flags=re.MULTILINE) == [version]
    page = (ROOT / "docs" / "cite.md").read_text()
    assert set(re.findall(r"\d+\.\d+\.\d+", page)) == {version}
    latest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    assert latest.group(1) == version


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "SECURITY.md"])
def test_links_of_the_repository_lead_somewhere(name):
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", (ROOT / name).read_text())
    assert [link for link in links if not (ROOT / link).exists()] == []
