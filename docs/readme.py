"""Write the parts of README.md that are measured or printed: example, figures, picture.

``python docs/readme.py`` writes them; with ``--picture`` it makes the picture anew too, and with
``--check`` it compares only. The tests compare too: the README cannot say what the code does not.
"""

import contextlib
import io
import re
import sys
from collections.abc import Callable
from pathlib import Path

DOCS = Path(__file__).parent
README = DOCS.parent / "README.md"
RESULTS = DOCS.parent / "benchmarks" / "results"

WRONG = (
    ("Poisson", "none", "counts, nothing wrong"),
    ("Poisson", "far counts 10 %", "10 % of the counts far too large"),
    ("Poisson", "leverage cluster 10 %", "10 % wrong far out in x"),
    ("Poisson", "excess zeros 10 %", "10 % zeros: overlap the model"),
    ("Poisson", "+3, 15 %", "15 % of the counts 3 too high: overlap"),
    ("logit", "none", "yes/no answers, nothing wrong"),
    ("logit", "leverage cluster 10 %", "10 % wrong far out in x"),
)
"""Lines of the table of errors: model, what is wrong with the rows, and that in words."""
METHODS = ("ML", "TVD", "reweighted", "default")


def example() -> str:
    """The first lines of a newcomer, and what they print."""
    code = (DOCS / "first.py").read_text()
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "first.py", "exec"), {})
    shown = "\n".join(line.rstrip() for line in printed.getvalue().rstrip().splitlines())
    return f"```python\n{code}```\n\n```\n{shown}\n```"


def figures() -> str:
    """The table of what was measured, from the tables of the benchmarks."""
    speed, theirs = of("speed", "contaminated Poisson, n=400"), "paper's procedure"
    rows = of("rows", "zero-inflated binomial, 10,000,000 rows")
    engine = of("engines", "100,000,000")
    table = [("error", "likelihood fit", "plain TVD", "reweighted", "default"), ("---",) * 5]
    for model, kind, words in WRONG:
        found = of("default", f"{model} 400 x 6", kind)
        table.append((words, *(found[name] for name in METHODS)))
    lines = [f"| {' | '.join(line)} |" for line in table]
    told = (
        f"A thousand draws of plain TVD on 400 counts take {speed['tb.fit']} s, the paper's "
        f"procedure {speed[theirs]} s; with ten million rows behind the same cells "
        f"{rows['ratio']} times as long as with ten thousand; a hundred million rows in Parquet "
        f"files {engine['seconds']} s on two cores."
    )
    return "\n".join(lines) + "\n\n" + wrapped(told)


def of(name: str, *first: str) -> dict[str, str]:
    """A line of a benchmark's table, by its first cells."""
    rows = re.findall(r"^\| (.*) \|$", (RESULTS / f"{name}.md").read_text(), flags=re.MULTILINE)
    head, *lines = ([cell.strip() for cell in row.split(" | ")] for row in rows)
    (found,) = (cells for cells in lines if cells[: len(first)] == [*first])
    return dict(zip(head, found, strict=True))


def wrapped(text: str) -> str:
    """Lines as the README has them."""
    from textwrap import fill

    return fill(text, 100, break_on_hyphens=False)


PARTS: dict[str, Callable[[], str]] = {"example": example, "figures": figures}


def written(text: str) -> str:
    """The README with its parts made anew."""
    for name, make in PARTS.items():
        begin, end = f"<!-- {name}: python docs/readme.py -->\n", f"\n<!-- {name} ends -->"
        before, _, rest = text.partition(begin)
        _, _, after = rest.partition(end)
        if not after:
            raise SystemExit(f"README.md has no place for {name}.")
        text = before + begin + make() + end + after
    return text


def picture() -> None:
    """Counts with wrong ones among them: both fitted models, and both posteriors of the mean."""
    import numpy as np
    from matplotlib.figure import Figure
    from scipy.stats import poisson

    import tvdbayes as tb
    from tvdbayes.plots._style import CHANCE, FLAGGED, INK, ORDINARY, ROBUST, axes_for

    rng, n, n_wrong, truth = np.random.default_rng(1), 400, 40, 3.0
    y = rng.poisson(truth, n)
    y[:n_wrong] += 15
    fit = tb.fit("y ~ 1", {"y": y})
    means = ((ROBUST, np.exp(fit.draws[:, 0])), (ORDINARY, np.exp(fit.kld_draws[:, 0])))
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    left, right = map(axes_for, figure.subplots(1, 2))
    at = np.arange(y.max() + 1)
    good, wrong = (np.bincount(part, minlength=len(at)) / n for part in (y[n_wrong:], y[:n_wrong]))
    left.bar(at, good, color=CHANCE, alpha=0.5, label="good rows")
    left.bar(at, wrong, bottom=good, color=FLAGGED, alpha=0.7, label="wrong rows")
    for style, draws in means:
        looks = {"label": f"{style.label} fit", "markersize": 4, **style.looks}
        left.plot(at, poisson.pmf(at, draws.mean()), style.line, **looks)
        edges = np.linspace(draws.min(), draws.max(), 25)
        shown = {"color": style.colour, "alpha": 0.45, "label": f"{style.label} fit"}
        right.hist(draws, edges, density=True, **shown)
    right.axvline(truth, color=INK, linestyle=":", label="truth")
    left.set(title="Counts, and both fitted models", xlabel="count", ylabel="share of rows")
    right.set(title="Posterior of the mean", xlabel="mean of the good counts", yticks=[])
    for ax in (left, right):
        ax.legend(frameon=False, fontsize=9)
    figure.savefig(DOCS / "picture_first.png", dpi=150)


if __name__ == "__main__":
    shown = README.read_text()
    if "--check" in sys.argv:
        sys.exit(None if written(shown) == shown else "README.md shows something else.")
    README.write_text(written(shown))
    if "--picture" in sys.argv:
        picture()
