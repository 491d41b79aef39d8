"""Try pages as a newcomer would: a fresh environment, what the page says to install, cell by cell.

``python docs/try_pages.py docs/tutorials/*.md`` after ``make docs``. Each page gets an environment
of its own with only what its first ``pip install`` line names (this copy of the project in place of
a release), its cells are run one by one in plain Python, and what they print is compared with what
the built page shows.
"""

import json
import re
import subprocess
import sys
import tempfile
import venv
from difflib import unified_diff
from pathlib import Path

DOCS = Path(__file__).parent
BUILT = DOCS / "_build" / "jupyter_execute"

# What a notebook does: run the cell, show the value of its last expression.
RUNNER = """
import ast, json, sys
import pandas
pandas.set_option("display.max_columns", 20)  # as in a notebook
names = {"__name__": "__main__"}
for cell in json.load(open(sys.argv[1])):
    body = ast.parse(cell).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), "cell", "exec"), names)
    if last is not None:
        value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
        if value is not None and not cell.rstrip().endswith(";"):
            print(repr(value))
    print(sys.argv[2], flush=True)
"""
END = "--- end of cell ---"


def cells_of(page: Path) -> tuple[list[str], list[str]]:
    """The code of each cell of a built page, and the text that it shows."""
    name = page.relative_to(DOCS).with_suffix(".ipynb")
    cells = [c for c in json.loads((BUILT / name).read_text())["cells"] if c["cell_type"] == "code"]
    return [_joined(c["source"]) for c in cells], [_shown(c["outputs"]) for c in cells]


def _joined(text: str | list[str]) -> str:
    return "".join(text)


def _shown(outputs: list[dict]) -> str:
    streams = [_joined(o["text"]) for o in outputs if o.get("name") == "stdout"]
    values = [o["data"] for o in outputs if o["output_type"] == "execute_result"]
    # Streams that were merged for the page are in the first, and still there by themselves.
    return "".join(streams[:1]) + "".join(_joined(v["text/plain"]) + "\n" for v in values)


def try_page(page: Path) -> list[str]:
    """How what a page shows differs from what a newcomer sees."""
    source = page.read_text()
    wanted = re.search(r"^pip install (.*)$", source, flags=re.MULTILINE)
    if wanted is None:
        raise SystemExit(f"{page.name} does not say what to install.")
    packages = re.findall(r"'([^']+)'|(\S+)", wanted[1])
    named = [quoted or plain for quoted, plain in packages]
    ours = [re.sub(r"^(tvdbayes|\.)(?=\[|$)", str(DOCS.parent), name) for name in named]
    code, shown = cells_of(page)
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder) / "bin" / "python"
        subprocess.run([python, "-m", "pip", "install", "-q", *ours], check=True)
        (Path(folder) / "cells.json").write_text(json.dumps(code))
        run = subprocess.run(
            [python, "-c", RUNNER, Path(folder) / "cells.json", END],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            env={"PATH": "/usr/bin:/bin", "MPLBACKEND": "agg", "OPENBLAS_NUM_THREADS": "1"},
        )
    printed = run.stdout.split(END + "\n")
    wrong = [run.stderr] if run.returncode else []
    for number, (page_shows, one_sees) in enumerate(zip(shown, printed, strict=False), 1):
        wrong += unified_diff(
            _plain(page_shows), _plain(one_sees), f"cell {number} of the page", "tried", lineterm=""
        )
    return wrong


def _plain(text: str) -> list[str]:
    """Lines without what differs from run to run: addresses, folders, seconds, bars."""
    text = re.sub(r"0x[0-9a-f]+|/tmp/\S+|\b[\d.]+ s(econds)?\b", "...", text)
    return [
        line.rstrip()
        for line in text.strip().splitlines()
        if "\N{RIGHT ONE EIGHTH BLOCK}" not in line
    ]


if __name__ == "__main__":
    failed = []
    for given in sys.argv[1:]:
        differs = try_page(Path(given).resolve())
        failed += [given] if differs else []
        print(f"{given}: {'differs' if differs else 'as the page shows'}", *differs, sep="\n")
    sys.exit(bool(failed))
