"""The way of the rows from a CSV file to the report is short enough to be read."""

import inspect
import sys
from collections import Counter
from pathlib import Path

import pandas as pd
import pytest

import tvdbayes as tb
from tvdbayes.cli import main
from tvdbayes.data.cells import distinct_rows

SOURCE = Path(tb.__file__).parent

MOST_FILES = 93
"""Files with functions that one fit calls; 80 is the aim. A feature that all fits pass through may
add one, and says so in ARCHITECTURE.md."""


@pytest.fixture(scope="module")
def walk(tmp_path_factory):
    """Files with functions that `tvdbayes fit` calls, and the numbers of rows that it compared."""
    folder = tmp_path_factory.mktemp("walk")
    data = pd.DataFrame(tb.example_data(300, wrong=0.1))
    data.to_csv(folder / "visits.csv", index=False)
    command = ["fit", str(folder / "visits.csv"), "visits ~ age + region", "--draws", "20"]
    called, compared = set(), Counter()

    def watch(frame, event, _):
        if event == "call":
            called.add(frame.f_code)
            if frame.f_code is distinct_rows.__code__:
                compared[len(frame.f_locals["columns"][0][0])] += 1

    def run(name):
        with pytest.raises(SystemExit) as done:
            main([*command, "--out", str(folder / name)])
        assert not done.value.code

    run("first")
    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        run("again")
    finally:
        sys.setprofile(before)
    # Bodies of classes and modules run where they are imported.
    paths = {Path(code.co_filename) for code in called if code.co_flags & inspect.CO_OPTIMIZED}
    files = {str(path.relative_to(SOURCE)) for path in paths if path.is_relative_to(SOURCE)}
    return files, compared, data


def test_a_fit_walks_through_few_files(walk):
    files, _, _ = walk
    assert {"cli/_fit.py", "fitting/run.py", "sampling/bootstrap.py", "report/_page.py"} <= files
    assert len(files) <= MOST_FILES


def test_rows_are_compared_once(walk):
    """All that comes later sees distinct rows, and the covariates of these are compared once."""
    _, compared, data = walk
    assert compared[len(data)] == 1
    assert compared[len(data.drop_duplicates(["age", "region", "visits"]))] == 3
