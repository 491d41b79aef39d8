"""The benchmark of the default takes short cuts: its estimates are those of the public function."""

import numpy as np
import pytest
from benchmarks._wrong_rows import make
from benchmarks.default import METHODS, minimisers

import tvdbayes as tb
from tvdbayes import KLD, Cells, DensityPower, Distinct, Model

PUBLIC = {
    "ML": {"divergence": KLD()},
    "TVD": {"refine": None},
    "reweighted": {"refine": "reweight"},
    "density power": {"divergence": DensityPower(), "partition": Distinct()},
    "default": {},
}


@pytest.mark.filterwarnings("ignore::tvdbayes.TVDBayesWarning")
def test_short_cuts_give_the_estimates_of_the_public_function():
    data = make("Poisson", 60, 3, "leverage cluster 10 %", 0)
    model, cells = Model(data.law), Cells.from_rows(data.x, data.y)
    found = minimisers(model, cells)
    assert set(found) == set(METHODS) == set(PUBLIC)
    for name, options in PUBLIC.items():
        expected = tb.posterior_bootstrap(model, cells, n_draws=0, **options).minimiser
        np.testing.assert_allclose(found[name], expected, rtol=1e-6, atol=1e-8, err_msg=name)
