"""A progress bar on the terminal for work that takes more than a second."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["progress_bar"]


@contextmanager
def progress_bar(wanted: bool | None, label: str) -> Iterator[Callable[[int, int], None] | None]:
    """A callback (done, total); None asks for a bar only if someone is looking."""
    watched = sys.stderr.isatty() or "ipykernel" in sys.modules
    if wanted is False or (wanted is None and not watched):
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    started = time.monotonic()
    with Progress(console=Console(stderr=True), transient=True, disable=False) as bar:
        task = bar.add_task(label, total=None, visible=bool(wanted))

        def update(done: int, total: int) -> None:
            late = time.monotonic() - started > 1
            bar.update(task, completed=done, total=total, visible=bool(wanted) or late)

        yield update
