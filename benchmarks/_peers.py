"""Robust packages and detectors of wrong rows that are installed by hand, where they are there."""

import subprocess
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

import numpy as np
from scipy.stats import poisson

PYTHON = {"regmmd": "regmmd", "owl": "OWL", "cleanlab": "cleanlab", "pythresh": "PyOD, PyThresh"}
"""Modules, and what they are called."""
R = {"robmixglm": "robmixglm", "bayesics": "bayesics"}


def absent():
    """What is not installed here, by the names in the tables."""
    return [name for module, name in PYTHON.items() if find_spec(module) is None] + [
        name for package, name in R.items() if of_r(package) is None
    ]


def versions():
    """Names and versions of what is installed."""
    found = []
    for module in ("regmmd", "owl", "cleanlab", "pyod", "pythresh"):
        try:
            found.append((module, version(module)))
        except PackageNotFoundError:
            continue
    return found + [(name, said) for name in R if (said := of_r(name)) is not None]


def of_r(package):
    """The version of a package of R, or None."""
    try:
        said = subprocess.run(
            ["Rscript", "-e", f'cat(as.character(packageVersion("{package}")))'],
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        return None
    return said.stdout if said.returncode == 0 else None


# Coefficients ----------------------------------------------------------------------------------


def by_regmmd(x, y, family, seed):
    """MMD regression with the settings of its own README; x has its intercept."""
    from regmmd import MMDRegressor

    model = {"poisson": "poisson-regression", "bernoulli": "logistic"}[family]
    steps = {"burnin": 500, "n_step": 1000, "stepsize": 1.0, "epsilon": 1e-4}
    way = MMDRegressor(model, fit_intercept=False, solver=steps, random_state=seed)
    return way.fit(x.copy(), y.copy())["estimator"]


def by_owl(x, y, family, share):
    """Optimistically weighted likelihood, told the share of wrong rows; and the weights."""
    from owl.ball import L1Ball
    from owl.models import OWLModel
    from sklearn.linear_model import LogisticRegression, PoissonRegressor

    class Weighted(OWLModel):
        """A GLM of scikit-learn without a penalty."""

        def __init__(self):
            super().__init__(n=len(y))
            self.model = (
                PoissonRegressor(alpha=0, solver="newton-cholesky")
                if family == "poisson"
                else LogisticRegression(C=np.inf, solver="newton-cholesky")
            )

        def maximize_weighted_likelihood(self):
            self.model.fit(x[:, 1:], y, sample_weight=self.w)

        def log_likelihood(self):
            if family == "poisson":
                return poisson.logpmf(y, self.model.predict(x[:, 1:]))
            chance = self.model.predict_proba(x[:, 1:])[np.arange(len(y)), y.astype(int)]
            return np.log(np.maximum(chance, 1e-300))

    owl = Weighted()
    owl.fit_owl(ball=L1Ball(n=len(y), r=share))
    return np.r_[np.ravel(owl.model.intercept_), np.ravel(owl.model.coef_)], owl.w


# Which rows are wrong --------------------------------------------------------------------------


def by_cleanlab(x, y, family):
    """Flags by confident learning, over the model that it takes by default."""
    from sklearn.linear_model import LogisticRegression

    if family == "poisson":
        from cleanlab.regression.learn import CleanLearning

        found = CleanLearning(seed=0).find_label_issues(x[:, 1:], y)
    else:
        from cleanlab.classification import CleanLearning

        model = LogisticRegression(C=np.inf)
        found = CleanLearning(model, seed=0).find_label_issues(x[:, 1:], y.astype(int))
    return found["is_label_issue"].to_numpy(bool)


def by_pyod(x, y, threshold):
    """Flags of an isolation forest over covariates and outcome, cut where PyThresh says."""
    from importlib import import_module

    from pyod.models.iforest import IForest

    cut = getattr(import_module(f"pythresh.thresholds.{threshold.lower()}"), threshold)()
    forest = IForest(random_state=0).fit(np.column_stack([x[:, 1:], y]))
    return cut.eval(forest.decision_scores_) > 0
