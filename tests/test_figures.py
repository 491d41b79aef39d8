"""Figures that the documents quote are figures of the tables that they name."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results"
PAGES = sorted(
    [
        ROOT / "README.md",
        ROOT / "CHANGELOG.md",
        ROOT / "paper" / "paper.md",
        *(ROOT / "docs").glob("*.md"),
        *(ROOT / "docs" / "tutorials").glob("*.md"),
    ]
)
COPIES = {"changelog.md", "contributing.md", "architecture.md"}
"""Made by `make docs` from the files of the repository."""

NUMBER = r"(?<![\w.])-?(?:\d+(?:,\d{3})*(?:\.\d+)?|\.\d+)(?:e[-+]?\d+)?"
FIGURE = re.compile(rf"({NUMBER})( ?%)?(?![\w.]*\w)")
UNITS = "s|ms|seconds?|minutes?|hours?|microseconds?|MB|MiB|GB|TB|times (?:as|the|that|KLD)"
MEASURED = re.compile(rf"{NUMBER} (?:{UNITS})\b")
"""Seconds, memory and ratios: what a benchmark measures."""

CALCULATED = "calculated from the measured points above it, as it says"
SETTING = "a setting of the package, not a measurement"
EXEMPT = {
    ("docs/scale.md", "Nothing in a formula becomes SQL"): SETTING,
    ("docs/tutorials/billion.md", "An Ibis table is data"): SETTING,
    ("docs/scale.md", "That is .2 microseconds"): CALCULATED,
    ("docs/scale.md", "**A billion rows, discrete.**"): CALCULATED,
    ("docs/scale.md", "**A trillion rows, discrete.**"): CALCULATED,
    ("docs/scale.md", "**A billion rows, continuous.**"): CALCULATED,
    ("docs/reproduction.md", "- **Reweighted TVD is"): "the atlas has its tables on this page",
    ("docs/reproduction.md", "On two cores: `poisson` 3 minutes"): "how long experiments ran",
}
"""Paragraphs, by how they begin, whose seconds and ratios no table holds, and why."""


def sentences(text):
    """Sentences of prose and lines of tables, each with the text whose links are its sources: its
    own, and for a line of a table the sentence that leads to it too.
    """
    # What is generated, included or run is compared by other tests.
    text = re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.DOTALL)
    text = re.sub(r"<!-- (\w+): python docs/readme.py -->.*?<!-- \1 ends -->", "", text, flags=re.S)
    text = re.sub(r"^```.*?^```[^\n]*$", "", text, flags=re.DOTALL | re.MULTILINE)
    leading = ""
    for block in re.split(r"\n\s*\n", text):
        if ">>>" in block:
            continue
        for item in re.split(r"\n(?=- |\d+\. |\|)", block):
            whole = " ".join(item.split())
            in_table = whole.startswith("|")
            for sentence in [whole] if in_table else re.split(r"(?<=[.!?]) (?=[A-Z`\[*])", whole):
                yield whole, sentence, f"{leading} {sentence}" if in_table else sentence
                leading = leading if in_table else sentence


def sources(text, page):
    """The tables and pages that a sentence leads to."""
    linked = [(page.parent / link).resolve() for link in re.findall(r"\]\(([^)#]*\.md)", text)]
    named = [RESULTS / f"{name}.md" for name in re.findall(r"python -m benchmarks (\w+)", text)]
    return [source for source in [*linked, *named] if source.exists() and source != page]


def plain(text):
    """Prose without code, addresses of links and years."""
    return re.sub(r"`[^`]*`|\]\([^)]*\)|\(\d{4}\)", " ", text)


def value(number):
    return float(number.replace(",", ""))


def figures(text):
    """Each figure as (number as written, whether in per cent)."""
    return [(number, bool(percent)) for number, percent in FIGURE.findall(plain(text))]


def holds(source, number, percent):
    """Whether a number of the text rounds to the figure."""
    wanted = value(number)
    exponent = int(number.partition("e")[2] or 0)
    decimals = len(number.partition("e")[0].partition(".")[2])
    half = 0.5 * 10.0 ** (exponent - decimals) * (1 + 1e-9)
    found = [value(one) for one in re.findall(NUMBER, source)]
    return any(
        abs(one - wanted) <= half or (percent and abs(100 * one - wanted) <= half) for one in found
    )


def quoted():
    """(page, paragraph, sentence, sources) of all that is written."""
    for page in PAGES:
        if page.parent == ROOT / "docs" and page.name in COPIES:
            continue
        for paragraph, sentence, linking in sentences(page.read_text()):
            yield page, paragraph, sentence, sources(linking, page)


def exemption(page, paragraph):
    """The key of the exemption that a paragraph has, if any."""
    name = str(page.relative_to(ROOT))
    return next((key for key in EXEMPT if key[0] == name and paragraph.startswith(key[1])), None)


def not_held(text, sources):
    """Figures of a text that no source holds."""
    tables = "\n".join(source.read_text() for source in sources)
    return [number for number, percent in figures(text) if not holds(tables, number, percent)]


def test_figures_in_a_sentence_that_names_a_table_are_in_the_table():
    missing = [
        f"{page.relative_to(ROOT)}: {absent} not in {[s.stem for s in named]}: {sentence}"
        for page, _, sentence, named in quoted()
        if any(source.parent == RESULTS for source in named)
        and (absent := not_held(sentence, named))
    ]
    assert not missing, "\n".join(missing)


def test_what_was_measured_names_a_table_that_holds_it():
    missing = [
        f"{page.relative_to(ROOT)}: {measured!r} is in no table or page linked there: {sentence}"
        for page, paragraph, sentence, named in quoted()
        if exemption(page, paragraph) is None
        for measured in MEASURED.findall(plain(sentence))
        if not_held(measured, named)
    ]
    assert not missing, "\n".join(missing)


def test_every_exemption_is_needed():
    used = {exemption(page, paragraph) for page, paragraph, _, _ in quoted()}
    assert set(EXEMPT) == used - {None}


@pytest.mark.parametrize(
    ("number", "percent", "right"),
    [
        *(("47.5", False, True), ("47", False, True), ("48", False, True), ("43", False, False)),
        *((".65", False, True), ("65", True, True), ("65", False, False), ("63", True, False)),
        *(("8.2e-15", False, True), ("8e-15", False, True), ("1e-15", False, False)),
        *(("1,000", False, True), ("1,001", False, False)),
    ],
)
def test_a_figure_is_held_by_what_rounds_to_it(number, percent, right):
    assert holds("| 47.5 | 0.645 | 8.2e-15 | 1,000 |", number, percent) == right


def test_a_figure_that_no_table_holds_is_seen():
    line = "It takes 43 s (72 s on [one card](../benchmarks/results/gpu_speed.md))."
    (table,) = sources(line, ROOT / "docs" / "faq.md")
    assert table == RESULTS / "gpu_speed.md"
    assert figures(line) == [("43", False), ("72", False)]
    assert [holds(table.read_text(), *figure) for figure in figures(line)] == [False, True]


@pytest.mark.parametrize("table", sorted(RESULTS.glob("*.md")), ids=lambda table: table.stem)
def test_every_table_says_at_which_commit_and_when_it_was_made(table):
    last = table.read_text().splitlines()[-1]
    assert re.search(
        r"(at|last changed in) commit [0-9a-f]{7,}(-dirty)? on \d{4}-\d\d-\d\d, ", last
    )
