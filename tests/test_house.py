"""The house rules: what the documents say is what the tree is."""

import ast
import re
import subprocess
import sys
import tomllib
from dataclasses import fields
from functools import cached_property
from importlib import import_module
from inspect import cleandoc, getattr_static
from pathlib import Path

import pytest

import tvdbayes

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "tvdbayes"


def rooms_in_tree():
    names = {p.stem for p in SOURCE.glob("*.py")} | {
        p.name for p in SOURCE.iterdir() if (p / "__init__.py").exists()
    }
    return names - {"__init__", "__main__"}


def rooms_in_table():
    text = (ROOT / "ARCHITECTURE.md").read_text()
    rows = re.findall(r"^\| (`[^|]*`) \|", text, flags=re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`(\w+)/?`", row)}


def test_the_architecture_table_lists_the_rooms():
    assert rooms_in_table() == rooms_in_tree()


def test_the_documents_stay_short():
    assert len((ROOT / "ARCHITECTURE.md").read_text().splitlines()) <= 100
    assert len((ROOT / "README.md").read_text().splitlines()) <= 120


def test_the_readme_example_runs():
    text = (ROOT / "README.md").read_text()
    code = re.search(r"```python\n(.*?)```", text, flags=re.DOTALL).group(1)
    assert len(code.splitlines()) <= 14
    exec(compile(code, "README.md", "exec"), {})


def test_importing_is_light():
    heavy = ["pandas", "sklearn", "scipy.stats", "matplotlib", "jax", "xarray", "formulaic"]
    heavy += ["scipy.optimize"]
    code = (
        "import sys, tvdbayes, tvdbayes.sampling.bootstrap; "
        f"print([m for m in {heavy!r} if m in sys.modules], tvdbayes.__version__)"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.startswith("[] ")


def members(record):
    """Public methods and properties of a record, its fields aside."""
    own = {field.name for field in fields(getattr(tvdbayes, record))}
    names = dir(getattr(tvdbayes, record))
    return [f"{record}.{n}" for n in names if not n.startswith("_") and n not in own]


ROOMS = ("bounds", "plan", "plots")
RECORDS = ("Fit", "Posterior")
PUBLIC = [
    *(name for name in tvdbayes.__all__ if name != "__version__"),
    *(f"{room}.{name}" for room in ROOMS for name in import_module(f"tvdbayes.{room}").__all__),
    *(name for record in RECORDS for name in members(record)),
]


def found(name):
    """What a name with dots stands for; a property is itself, not its value."""
    first, *rest = name.split(".")
    thing = import_module(f"tvdbayes.{first}") if first in ROOMS else getattr(tvdbayes, first)
    for part in rest:
        thing = getattr_static(thing, part)
    return thing


@pytest.mark.parametrize("name", tvdbayes.__all__)
def test_every_public_name_is_there(name):
    assert getattr(tvdbayes, name) is not None


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_has_a_docstring_with_an_example(name):
    thing = found(name)
    text = thing.__doc__
    assert text, f"tvdbayes.{name} has no docstring."
    if isinstance(thing, property | cached_property):
        # Sphinx takes what stands before a colon in the first line for a type.
        assert ": " not in text.splitlines()[0], f"tvdbayes.{name} begins with a colon."
    else:
        assert ">>>" in text, f"The docstring of tvdbayes.{name} has no example (>>>)."


def test_the_reference_lists_every_public_name():
    listed = {name for name in tvdbayes.__all__ if name in (*ROOMS, "__version__")}
    for page in (ROOT / "docs" / "api").glob("*.md"):
        listed |= set(re.findall(r"^   (\w+)$", page.read_text(), flags=re.MULTILINE))
    of_records = tuple(f"{record}." for record in RECORDS)
    wanted = {name.split(".")[-1] for name in PUBLIC if not name.startswith(of_records)}
    assert not wanted - listed, f"docs/api does not list {sorted(wanted - listed)}."


@pytest.mark.parametrize("record", RECORDS)
def test_every_field_of_a_record_is_described(record):
    thing = getattr(tvdbayes, record)
    named = re.findall(r"^([\w, ]+) : ", cleandoc(thing.__doc__), flags=re.MULTILINE)
    described = {name for line in named for name in line.split(", ")}
    missing = {field.name for field in fields(thing)} - described
    assert not missing, f"The docstring of tvdbayes.{record} does not describe {sorted(missing)}."


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="nonsense"):
        tvdbayes.nonsense  # noqa: B018


def test_the_package_is_built_with_the_version_of_the_module():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"]["dynamic"] == ["version"]
    assert project["tool"]["hatch"]["version"]["path"] == "src/tvdbayes/__init__.py"


def test_pre_commit_has_the_ruff_of_the_tests():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (pinned,) = re.findall(r"'ruff==([\d.]+)\.\*'", str(project["project"]))
    hooks = (ROOT / ".pre-commit-config.yaml").read_text()
    assert re.search(rf"/ruff-pre-commit\n    rev: v{re.escape(pinned)}\.\d+\n", hooks)


def test_the_tests_run_on_every_python_that_the_package_claims():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    claimed = re.findall(r":: (3\.\d+)", " ".join(project["classifiers"]))
    assert project["requires-python"] == f">={claimed[0]}"
    workflow = (ROOT / ".github" / "workflows" / "tests.yml").read_text()
    (matrix,) = re.findall(r"python: \[(.*)\]", workflow)
    assert re.findall(r"[\d.]+", matrix) == claimed


CLOCKS = {"time", "time_ns", "perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns"}
CLOCKS |= {"process_time", "process_time_ns", "thread_time", "clock_gettime", "default_timer"}
CLOCKS |= {"getrusage", "times"}
TIMERS = ("time", "timeit", "resource", "os")


def clocks_in(code):
    """Lines of code that read a clock, or import one by its own name."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            seen = node.value.id in TIMERS and node.attr in CLOCKS
            seen |= node.value.id in ("datetime", "date") and node.attr in ("now", "today")
        elif isinstance(node, ast.ImportFrom):
            seen = node.module in TIMERS and bool({name.name for name in node.names} & CLOCKS)
        elif isinstance(node, ast.Import):
            seen = any(name.name == "timeit" for name in node.names)
        else:
            continue
        if seen:
            yield node.lineno


@pytest.mark.parametrize(
    "code",
    [
        *("time.perf_counter()", "import timeit", "from time import monotonic", "time.time()"),
        *("datetime.now()", "resource.getrusage(0)", "from timeit import default_timer as t"),
    ],
)
def test_a_clock_is_recognised(code):
    assert list(clocks_in(code)) == [1]


def test_no_test_looks_at_a_clock():
    """A busy machine is slow, and must not fail a test: count calls, imports or rows instead."""
    folder = ROOT / "tests"
    # The other files there are tools, which may say how long they took.
    files = sorted([*folder.rglob("test_*.py"), *folder.rglob("conftest.py")])
    assert Path(__file__) in files
    seen = [
        f"{path.relative_to(ROOT)}:{line}" for path in files for line in clocks_in(path.read_text())
    ]
    assert not seen


def test_a_test_that_hangs_fails_alone(tmp_path):
    """Under xdist, too: the worker goes on with the next test."""
    (tmp_path / "test_slow.py").write_text(
        "import threading, pytest\n"
        "@pytest.mark.timeout(1)\n"
        "def test_hangs():\n    threading.Event().wait()\n"
        "def test_after():\n    pass\n"
    )
    settings = ("-c", ROOT / "pyproject.toml", "--rootdir", tmp_path, "-p", "no:cacheprovider")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *settings, "-n", "1", tmp_path],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "1 failed, 1 passed" in done.stdout
    assert "Timeout" in done.stdout
    assert "crashed" not in done.stdout
