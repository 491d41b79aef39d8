"""The code of an earlier commit, run beside the present one in the same benchmark."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
_ENVIRONMENT = {
    # Modules are compiled once, as on the machine of a user.
    name: value
    for name, value in os.environ.items()
    if name != "PYTHONDONTWRITEBYTECODE"
}


def seconds_of(script, commit=None):
    """What a script prints, as a number; see `printed_by`."""
    found = printed_by(script, commit)
    return None if found is None else found[-1]


def printed_by(script, commit=None):
    """The numbers that a script prints; it imports the package of the commit, or the present one.

    None where the commit is not to be had, as in a clone without history.
    """
    with tempfile.TemporaryDirectory() as folder:
        if commit is not None and not _unpacked(commit, folder):
            return None
        source = ROOT if commit is None else Path(folder)
        paths = os.pathsep.join([str(source / "src"), str(ROOT)])
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", script],
            cwd=folder,
            env={**_ENVIRONMENT, "PYTHONPATH": paths, "OPENBLAS_NUM_THREADS": "1"},
            check=True,
            capture_output=True,
            text=True,
        )
    return [float(word) for word in done.stdout.split()]


def _unpacked(commit, folder):
    asked = subprocess.run(
        ["git", "archive", commit, "src"], cwd=ROOT, check=False, capture_output=True
    )
    if asked.returncode:
        return False
    subprocess.run(["tar", "-x", "-C", folder], input=asked.stdout, check=True)
    return True
