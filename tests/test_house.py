"""The house rules: what the documents say is what the tree is."""

import re
import subprocess
import sys
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
    code = (
        "import sys, tvdbayes; "
        f"print([m for m in {heavy!r} if m in sys.modules], tvdbayes.__version__)"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.startswith("[] ")


@pytest.mark.parametrize("name", [n for n in tvdbayes.__all__ if n != "__version__"])
def test_every_public_name_is_there_and_documented(name):
    assert getattr(tvdbayes, name).__doc__


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="nonsense"):
        tvdbayes.nonsense  # noqa: B018


def test_the_version_is_said_once():
    assert f'version = "{tvdbayes.__version__}"' in (ROOT / "pyproject.toml").read_text()
