"""What the documents say is what the code does."""

import re
import runpy
import tomllib
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
    heading = r"^## (\S+) \((\S+)\)"
    latest = re.search(heading, (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    assert latest.group(1) == version
    (released,) = re.findall(r"^date-released: (.*)$", citation, flags=re.MULTILINE)
    assert latest.group(2) == released
    recipe = (ROOT / "recipe" / "recipe.yaml").read_text()
    assert re.findall(r'^  version: "(.*)"$', recipe, flags=re.MULTILINE) == [version]


def test_the_recipe_needs_what_the_package_needs():
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    of_conda = {"matplotlib": "matplotlib-base"}
    needed = {f"python {project['requires-python']}"}
    for line in project["dependencies"]:
        name, bound = re.fullmatch(r"([\w-]+)(.*)", line.lower()).groups()
        needed.add(f"{of_conda.get(name, name)} {bound}")
    recipe = (ROOT / "recipe" / "recipe.yaml").read_text()
    run = re.search(r"^  run:\n((?:    - .*\n)+)", recipe, flags=re.MULTILINE)
    assert set(re.findall(r"- (.*)", run.group(1))) == needed


def test_the_paper_cites_what_its_bibliography_lists():
    paper = (ROOT / "paper" / "paper.md").read_text()
    listed = re.findall(r"^@\w+\{(\w+),", (ROOT / "paper" / "paper.bib").read_text(), flags=re.M)
    assert sorted(listed) == sorted(set(re.findall(r"@(\w+)", paper)))
    # What the Journal of Open Source Software asks for.
    assert 250 <= len(paper.split()) <= 1750
    for section in ("Summary", "Statement of need", "State of the field", "References"):
        assert f"\n# {section}\n" in paper


@pytest.mark.parametrize(
    "page",
    [path for path in sorted((ROOT / "docs" / "tutorials").glob("*.md")) if path.stem != "index"],
)
def test_a_tutorial_is_a_notebook_to_download(page):
    text = page.read_text()
    assert f"{{nb-download}}`Download this page as a notebook <{page.stem}.ipynb>`" in text
    assert text.index("{nb-download}") < text.index("{code-cell}")


def test_the_five_ways_quote_what_the_pages_say(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    ways = runpy.run_path(str(ROOT / "docs" / "five_ways.py"))["WAYS"]
    quoted = [quote for way in ways.values() for step in way.steps for quote in step.says]
    assert len(ways) == 5
    assert len(quoted) > 5
    for name, words in quoted:
        assert words in " ".join((ROOT / "docs" / name).read_text().split())


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "SECURITY.md"])
def test_links_of_the_repository_lead_somewhere(name):
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", (ROOT / name).read_text())
    assert [link for link in links if not (ROOT / link).exists()] == []
