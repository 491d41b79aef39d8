"""Compile the kernel beside its source; used by the build hook, `make kernel` and the tests.

``python src/tvdbayes/kernel/build.py [--out FILE] [--scalar] [--sanitize]``. It needs nothing but
Python and a C compiler: ``CC``, else cc. Without one there is no kernel, and NumPy does its work.
"""

import argparse
import hashlib
import os
import platform
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

HOME = Path(__file__).parent
LIBRARY = "kernel.so"
"""The name of the library, beside this file; git ignores it."""

LEVELS = {
    "plain": (),
    "avx2": ("-mavx2",),
    "avx512": ("-mavx512f", "-mavx512dq", "-mavx512vl", "-mprefer-vector-width=512"),
}
"""Instruction sets in rising order, and how they are asked for; beyond x86-64 there is `plain`."""

_FLAGS = (
    *("-std=gnu11", "-O3", "-fPIC", "-fvisibility=hidden", "-ffp-contract=off"),
    *("-fno-math-errno", "-fno-trapping-math", "-fno-strict-aliasing", "-Wno-psabi"),
)
_SANITIZE = ("-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "-g", "-O1")


def fingerprint(folder: Path = HOME) -> str:
    """What tells the sources from others, so that a library made of others is never used."""
    digest = hashlib.sha256()
    for path in sorted([*folder.glob("*.c"), *folder.glob("*.h")]):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def build(out: Path | None = None, extra: Iterable[str] = ()) -> Path:
    """Compile the kernel to a file; raises OSError or CalledProcessError where that fails."""
    out = HOME / LIBRARY if out is None else out
    compiler = shlex.split(os.environ.get("CC", "")) or ["cc"]
    extra = tuple(extra)
    wide = platform.machine().lower() in ("x86_64", "amd64") and "-DSCALAR" not in extra
    with tempfile.TemporaryDirectory() as folder:
        objects = []
        for level, flags in LEVELS.items() if wide else [("plain", ())]:
            made = str(Path(folder) / f"{level}.o")
            names = [f"-DLEVEL={level}", *(["-DCOMMON"] if level == "plain" else [])]
            names.append(f'-DSOURCES="{fingerprint()}"')
            source = str(HOME / "kernel.c")
            _run([*compiler, *_FLAGS, *flags, *extra, *names, "-c", source, "-o", made])
            objects.append(made)
        # Whoever has the old library open keeps it.
        new = out.with_name(f"{out.name}.{os.getpid()}")
        _run([*compiler, *extra, "-shared", *objects, "-o", str(new), "-lm"])
    os.replace(new, out)
    return out


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)


def main(arguments: list[str] | None = None) -> None:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="where the library goes; beside the source")
    parser.add_argument("--scalar", action="store_true", help="without vectors")
    parser.add_argument("--sanitize", action="store_true", help="with GCC's sanitizers")
    asked = parser.parse_args(arguments)
    extra = ["-DSCALAR"] * asked.scalar + [*_SANITIZE] * asked.sanitize
    try:
        print(build(asked.out, extra))
    except OSError as error:
        sys.exit(f"There is no kernel: {error}")
    except subprocess.CalledProcessError as error:
        sys.exit(f"There is no kernel: {error}\n{error.stderr}")


if __name__ == "__main__":
    main()
