"""Which whole clusters a fit cannot explain, by the labels of the data."""

import numpy as np
import pandas as pd

from tvdbayes._errors import SettingsError
from tvdbayes._validate import probability
from tvdbayes.data.sampling_units import Labels
from tvdbayes.fitting.misfit import MisfitAnswers
from tvdbayes.results.rows import layout_of, minimiser
from tvdbayes.results.unit_replicates import UnitMaker


class ClusterAnswers(MisfitAnswers):
    """The method of `Fit` on whole clusters."""

    def clusters(self, *, false_alarm: float = 0.05, n_replicates: int = 200) -> pd.DataFrame:
        """Which clusters the model cannot explain: one line for each, in the order of labels.

        ``rows`` is how many rows a cluster has, ``kept`` the share of them that a trimmed fit uses,
        and ``surprise`` how far the cluster is from what the model expects, in deviations: outcomes
        that are all too large or all too small, or improbable. Clusters differ by nature; how much
        they do in these data is part of what is expected. ``flag`` marks clusters that stand out
        even so: on clean data, about one data set in twenty (`false_alarm`) has any.

        Parameters
        ----------
        false_alarm : float
            Share of clean data sets in which any cluster is flagged.
        n_replicates : int
            Data sets, with the same clusters, that the limit of a flag is found from.

        Examples
        --------
        Sixty patients with ten visits each, of which the counts of three are of something else:

        >>> import numpy as np, tvdbayes as tb
        >>> rng = np.random.default_rng(0)
        >>> patient, x = np.repeat(np.arange(60), 10), rng.normal(size=600)
        >>> y = rng.poisson(np.exp(1 + 0.3 * x) * rng.gamma(20, 1 / 20, 60)[patient])
        >>> y[patient < 3] = rng.poisson(12, 30)
        >>> data = {"y": y, "x": x, "patient": patient}
        >>> fit = tb.fit("y ~ x", data, clusters="patient", n_draws=100)
        >>> found = fit.clusters()
        >>> found[found["flag"]][["patient", "rows"]]
           patient  rows
        0        0    10
        1        1    10
        2        2    10
        """
        probability("false_alarm", false_alarm, 0.05)
        data, posterior, name = self.data, self.posterior, self.data.clusters
        if name is None:
            raise SettingsError(
                "This fit knows of no clusters. Fit with clusters=, the column that says which "
                "rows belong together; rows() asks about single rows."
            )
        if posterior.units is None or not posterior.units.clustered:
            raise SettingsError(f"Every cluster of {name!r} is a single row: ask rows().")
        labels = Labels.of(data.columns[name].series())
        unit, n = labels.numbers, len(labels.names)
        layout = layout_of(posterior)
        theta = minimiser(layout, posterior)[:, 0]
        maker = UnitMaker(posterior, posterior.units)
        surprise = maker.rule.surprise(layout, theta, unit, data.cell, data.counts)
        limit = self._chance(n_replicates).threshold_of_clusters(false_alarm)
        rows = np.bincount(unit, data.counts, n)
        found = {name: labels.names, "rows": rows.astype(int) if (rows % 1 == 0).all() else rows}
        if posterior.kept_rows is not None:
            share = posterior.kept_rows.share[data.cell]
            found["kept"] = np.bincount(unit, data.counts * share, n) / rows
        return pd.DataFrame({**found, "surprise": surprise, "flag": surprise > limit})
