"""Plant small bugs one at a time, and see that the tests named for each of them fail.

``python tests/mutants/run.py [topic ...]`` reads the tables ``tests/mutants/TOPIC.toml``, all of
them unless topics are named. Every entry is one change of one file:

    [[mutant]]
    about = "sign of the calibrating shift"
    file = "src/tvdbayes/sampling/plan.py"
    old = '''text that occurs exactly once in the file'''
    new = '''what stands there instead'''
    tests = ["tests/test_x.py::test_y"]

The named tests must pass as things are. Then each change is made in a copy of the project, and at
least one of its tests must fail there. The exit status is 1 if a change survives, if it cannot be
made, or if its tests cannot be run.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
_COPIED = ("src", "tests", "benchmarks", "docs")
_AT_ONCE = 2
_SECONDS = 180
"""For the tests of one mutant: a planted bug may make a search endless."""

_RUN = """
import sys
from pathlib import Path

import tvdbayes

# The package that is installed must not be the one that is tested.
assert Path(tvdbayes.__file__).is_relative_to(Path.cwd()), tvdbayes.__file__
import pytest

sys.exit(pytest.main(sys.argv[1:]))
"""
_OPTIONS = ("-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--tb=no", "-rfE")
_PASSED, _FAILED = 0, 1
_OF_KERNEL = "tests/test_kernel"


@dataclass(frozen=True)
class Mutant:
    """One change of one file, and the tests that must see it."""

    topic: str
    about: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def fault(self, root: Path) -> str:
        """Why the change cannot be made there, or its tests cannot be named; empty if it can."""
        path = root / self.file
        if not path.is_file():
            return f"there is no {self.file}"
        n = path.read_text().count(self.old)
        if n != 1:
            return f"its old text occurs {n} times in {self.file}, not once"
        if self.old == self.new:
            return "it changes nothing"
        return self._unknown_test(root)

    def _unknown_test(self, root: Path) -> str:
        if not self.tests:
            return "it names no tests"
        for test in self.tests:
            name, *parts = test.split("[")[0].split("::")
            if not (root / name).is_file():
                return f"there is no {name}"
            text = (root / name).read_text()
            for part in parts:
                if not _defined(part, text):
                    return f"there is no {part} in {name}"
        return ""

    def plant(self, root: Path) -> None:
        """Make the change in the file below this folder."""
        path = root / self.file
        path.write_text(path.read_text().replace(self.old, self.new))
        # What was compiled from the old text must not be used.
        for compiled in path.parent.glob(f"__pycache__/{path.stem}.*"):
            compiled.unlink()
        if path.suffix == ".h":
            build = path.with_name("build.py")
            subprocess.run([sys.executable, str(build)], check=True, capture_output=True)


def _defined(name: str, text: str) -> bool:
    return any(f"{word} {name}{end}" in text for word in ("def", "class") for end in "(:")


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant: whether it was seen, and by what."""

    mutant: Mutant
    killed: bool
    words: str
    seconds: float


def read(topics: Sequence[str] = (), folder: Path = Path(__file__).parent) -> list[Mutant]:
    """The mutants of these topics, or of all."""
    known = sorted(path.stem for path in folder.glob("*.toml"))
    unknown = sorted(set(topics) - set(known))
    if unknown:
        sys.exit(f"There is no topic {unknown[0]!r}. Choose from {', '.join(known)}.")
    names = topics or known
    return [
        Mutant(name, **{**entry, "tests": tuple(entry["tests"])})
        for name in names
        for entry in tomllib.loads((folder / f"{name}.toml").read_text())["mutant"]
    ]


def copy(source: Path, goal: Path) -> None:
    """Copy what tests need, with what was compiled already."""
    goal.mkdir()
    unwanted = shutil.ignore_patterns("_build", "generated", ".*")
    for name in _COPIED:
        shutil.copytree(source / name, goal / name, ignore=unwanted)
    for path in [source / "pyproject.toml", source / "Makefile", *source.glob("*.md")]:
        shutil.copy2(path, goal)


def run_tests(root: Path, tests: Sequence[str], *options: str) -> tuple[int | None, str]:
    """The exit status of pytest in this folder (None: out of time), and what it printed.

    Most bugs are planted in Python, so NumPy computes, except in the tests of the compiled kernel.
    """
    own = {"PYTHONPATH": str(root / "src"), "OPENBLAS_NUM_THREADS": "1"}
    if not all(test.startswith(_OF_KERNEL) for test in tests):
        own["TVDBAYES_KERNEL"] = "numpy"
    process = subprocess.Popen(
        [sys.executable, "-c", _RUN, *_OPTIONS, *options, *tests],
        cwd=root,
        env={**os.environ, **own},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        printed, _ = process.communicate(timeout=_SECONDS * (1 if "-x" in options else 10))
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return None, process.communicate()[0]
    return process.returncode, printed


def judge(mutant: Mutant, clean: Path, folder: Path) -> Outcome:
    """Plant a mutant in a copy of its own, and run its tests."""
    start = time.monotonic()
    fault = mutant.fault(clean)
    if fault:
        return Outcome(mutant, False, f"CANNOT BE PLANTED: {fault}", 0.0)
    copy(clean, folder)
    mutant.plant(folder)
    status, printed = run_tests(folder, mutant.tests, "-x")
    shutil.rmtree(folder)
    killed, words = False, "SURVIVED"
    if status is None:
        killed, words = True, f"killed by time: no answer within {_SECONDS} s"
    elif status == _FAILED:
        # A fixture that fails is an error of the test that asked for it.
        lines = [line.split(" - ")[0].split(maxsplit=1) for line in printed.splitlines()]
        seen = [line[1] for line in lines if line and line[0] in ("FAILED", "ERROR")]
        killed, words = True, f"killed by {' '.join(seen)}"
    elif status != _PASSED:
        words = _unrun(printed)
    return Outcome(mutant, killed, words, time.monotonic() - start)


def _unrun(printed: str) -> str:
    last = " | ".join(printed.strip().splitlines()[-3:])
    return f"ITS TESTS CANNOT BE RUN: {last}"


def check_unchanged(mutants: Sequence[Mutant], clean: Path) -> str:
    """Run all named tests as things are: what went wrong, or nothing."""
    # Tests that share a file share what it prepares, so a file is run by one process.
    tests = sorted({test for mutant in mutants for test in mutant.tests})
    files = sorted({test.split("::")[0] for test in tests})
    kernel = [file for file in files if file.startswith(_OF_KERNEL)]
    others = [file for file in files if file not in kernel]
    parts = [
        [test for test in tests if test.split("::")[0] in chosen]
        for chosen in (*(others[k::_AT_ONCE] for k in range(_AT_ONCE)), kernel)
    ]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        found = pool.map(lambda part: run_tests(clean, part), [part for part in parts if part])
        return "\n".join(printed for status, printed in found if status != _PASSED)


def main(topics: Sequence[str]) -> int:
    """Print a line for each mutant, and say how many were not killed."""
    mutants = read(topics)
    start, outcomes = time.monotonic(), []
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        clean = Path(folder).resolve() / "clean"
        copy(ROOT, clean)
        sound = [mutant for mutant in mutants if not mutant.fault(clean)]
        broken = check_unchanged(sound, clean) if sound else ""
        if broken:
            print(f"The named tests fail without any planted bug:\n{broken}")
            return 1
        print(f"The named tests pass unchanged, after {time.monotonic() - start:.0f} s.")
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            jobs = [
                pool.submit(judge, mutant, clean, clean.with_name(f"mutant-{number}"))
                for number, mutant in enumerate(mutants)
            ]
            for job in as_completed(jobs):
                outcomes.append(job.result())
                one = outcomes[-1]
                print(
                    f"{one.mutant.topic:<12} {one.mutant.about:<64} {one.words} "
                    f"({one.seconds:.1f} s)",
                    flush=True,
                )
    alive = [one for one in outcomes if not one.killed]
    print(
        f"{len(outcomes)} planted bugs, {len(outcomes) - len(alive)} killed, {len(alive)} not, "
        f"in {time.monotonic() - start:.0f} s."
    )
    for one in alive:
        print(f"  {one.mutant.topic}: {one.mutant.about}: {one.words}")
    return int(bool(alive))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
