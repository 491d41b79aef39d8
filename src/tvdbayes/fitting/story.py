"""All that is told about a fit, asked of it once, and the page that is made of it."""

import os

from tvdbayes.fitting.averages import averages_of
from tvdbayes.fitting.check import CheckAnswers, check, comparison
from tvdbayes.fitting.effects import EffectAnswers
from tvdbayes.fitting.rows import RowAnswers, suspicious_of
from tvdbayes.report import INTERVAL, Story, render
from tvdbayes.sampling.rows_used import rows_used
from tvdbayes.sampling.rules import differing
from tvdbayes.storage import replacing

__all__ = ["ReportAnswers", "story_of"]


class ReportAnswers(EffectAnswers, RowAnswers, CheckAnswers):
    """The method of `Fit` that writes a page; it needs the answers that the page shows."""

    def report(self, path: str | os.PathLike[str], *, title: str | None = None) -> None:
        """Write one self-contained HTML page about this fit, which must have coefficients.

        Parameters
        ----------
        path : str or path
            The file to write.
        title : str, optional
            What stands above; made from the formula unless given.

        Examples
        --------
        >>> import tempfile, tvdbayes as tb
        >>> from pathlib import Path
        >>> fit = tb.fit("y ~ 1", {"y": [0, 1, 1, 2, 2, 3, 30] * 10}, n_draws=50)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     fit.report(f"{folder}/fit.html", title="Visits, for the record")
        ...     page = Path(folder, "fit.html").read_text()
        >>> page[:15], "Visits, for the record" in page
        ('<!DOCTYPE html>', True)
        """
        self.posterior.require_coefficients(
            "for a report to be about", "check(), misfit(), effects() and the pictures of plot"
        )
        # The file is begun first, so that nobody waits for a page that cannot be written.
        with replacing(path) as file:
            file.write(render(story_of(self), title=title).encode())


def story_of(fit: ReportAnswers, *, averages: bool = True) -> Story:
    """Ask a fit for everything that is told about it.

    ``averages`` includes average predictions and slopes, which only the page shows.
    """
    posterior = fit.posterior
    enough = posterior.n_draws > 1
    misfit, rows = fit.misfit(INTERVAL) if enough else None, fit.rows()
    differs = differing(posterior.draws, posterior.kld_draws)
    return Story(
        formula=fit.formula,
        posterior=posterior,
        data=fit.data,
        options=fit.options,
        n_rows=fit.n_rows,
        n_lines=len(fit.cell_of_row),
        n_left_out=fit.n_left_out,
        left_out=fit.left_out,
        rounding=None if fit.rounded is None else str(fit.rounded),
        summary=posterior.summary(INTERVAL) if enough else None,
        differs=differs,
        comparison=comparison(posterior, differs),
        misfit=misfit,
        rows=rows,
        suspicious=suspicious_of(fit, rows),
        rows_used=rows_used(posterior),
        findings=check(fit, misfit).findings,
        averages=averages_of(fit) if averages else None,
    )
