"""A compiled kernel for the passes that take most of the time of a fit; NumPy where it is missing.

`build.py` compiles `kernel.c` into one library beside it, once for each instruction set. The widest
set that the processor has is used; all give the same bits. ``TVDBAYES_KERNEL`` says otherwise:
``numpy`` for no kernel, ``c`` for an error where there is none, or an instruction set (``plain``,
``avx2``, ``avx512``).

Whoever can do a pass in C asks `library` for it, each time, and goes on in NumPy if that is None.
A fit uses one of the two throughout: blocks of draws carry its name to their workers (`under`).
"""

from tvdbayes.kernel._library import NUMPY, Library, describe, library, name, under, using

__all__ = ["NUMPY", "Library", "describe", "library", "name", "under", "using"]
