"""Planning a study: how many rows, by simulation with the wrong rows that are feared.

Examples
--------
Two groups with a mean of 3 and of 4 visits; a tenth of the rows will have 20 visits too many. How
often will 400 rows show the difference, by a robust and by a likelihood fit? (Few data sets and
draws, to be quick.)

>>> import numpy as np, tvdbayes as tb
>>> from tvdbayes import plan
>>> found = plan.power(
...     tb.Model(tb.Poisson()), [[1, 0], [1, 1]], [np.log(3), np.log(4 / 3)], coefficient="x1",
...     rows=400, share=0.1, contaminant=plan.shifted_by(20), n_sets=4, n_draws=20,
... )
>>> found.power, found.ordinary_power
(array([1.]), array([0.]))
"""

from tvdbayes.plan._study import replaced_by, shifted_by
from tvdbayes.plan.groups import GroupPlan, groups
from tvdbayes.plan.power import Power, power
from tvdbayes.plan.sample_size import SampleSize, sample_size

__all__ = [
    "GroupPlan",
    "Power",
    "SampleSize",
    "groups",
    "power",
    "replaced_by",
    "sample_size",
    "shifted_by",
]
