"""``tvdbayes families``: the laws by name."""

__all__ = ["FAMILIES", "INSIDE", "run_families"]

_ANY = "logit, probit, cloglog"

FAMILIES: tuple[tuple[str, str, str], ...] = (
    ("poisson", "counts 0, 1, 2, ...", "log"),
    ("geometric", "counts, widely spread", "log"),
    ("negativebinomial", "counts, spread estimated", "log"),
    ("discreteweibull", "counts, spread estimated", "log"),
    ("bernoulli", "0 or 1", _ANY),
    ("binomial", "successes of --trials", _ANY),
    ("betabinomial", "the same, spread estimated", _ANY),
    ("categorical", "names without an order", "logit"),
    ("ordinal", "ranks: numbers or ordered names", _ANY),
    ("zero_inflated_X", "X, and zeros for another reason", "that of X"),
    ("hurdle_X", "X, zeros by a law of their own", "that of X"),
    ("truncated_X", "X, without zeros", "that of X"),
)
"""Name, outcomes and links of each family."""

INSIDE = (
    *("poisson", "geometric", "negativebinomial", "discreteweibull"),
    *("binomial", "betabinomial"),
)
"""What X may be."""


def run_families() -> None:
    """Print the table."""
    import click

    from tvdbayes.cli._text import Column, heading, paragraph, table

    names, outcomes, links = zip(*FAMILIES, strict=True)
    head, *lines = table(
        [
            Column("--family", names, left=True),
            Column("outcomes", outcomes, left=True),
            Column("--link", links, left=True),
        ]
    ).split("\n")
    click.echo("\n".join([heading(head), *lines, ""]))
    click.echo(paragraph(f"X is one of {', '.join(INSIDE)}. The first link is the default."))
