"""Every public answer for every kind of weights: it works, or says in words why it does not."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import tvdbayes as tb

PAGE = Path(__file__).parent.parent / "docs" / "grouped_rows.md"
pytestmark = pytest.mark.filterwarnings("ignore::tvdbayes.TVDBayesWarning")


def rows():
    rng = np.random.default_rng(3)
    n = 120
    x = rng.integers(0, 3, n)
    return pd.DataFrame(
        {
            "y": rng.poisson(np.exp(0.5 + 0.3 * x)),
            "x": x,
            "patient": np.arange(n) // 4,
            "region": np.arange(n) // 40,
            "w": rng.choice([1.0, 2.5], n),
            "times": rng.integers(1, 3, n),
        }
    )


def drawn(rng, size):
    x = rng.integers(0, 3, size)
    return np.column_stack([np.ones(size), x]), rng.poisson(1 + x)


KINDS = {
    "rows": {},
    "weights": {"weights": "times"},
    "clusters": {"clusters": "patient"},
    "strata": {"strata": "region"},
    "sampling_weights": {"sampling_weights": "w"},
    "together": {"clusters": "patient", "strata": "region", "sampling_weights": "w"},
    "prior": {"alpha": 8},
    "prior, rows": {"alpha": 8, "base_measure": {"y": [1, 2, 4], "x": [0, 1, 2]}},
    "prior, function": {"alpha": 8, "base_measure": drawn},
}


PRIORS = [kind for kind in KINDS if kind.startswith("prior")]

ANSWERS = {
    "bins": lambda fit: fit.bins,
    "calibration": lambda fit: fit.calibration(2),
    "cells": lambda fit: fit.cells(n_replicates=20),
    "chance": lambda fit: fit.chance,
    "check": lambda fit: fit.check(),
    "clusters": lambda fit: fit.clusters(n_replicates=20),
    "contrast": lambda fit: fit.contrast("x", 0, 2),
    "cross_validate": lambda fit: fit.cross_validate(3, n_draws=5),
    "design": lambda fit: fit.design,
    "distance": lambda fit: fit.distance,
    "draws": lambda fit: fit.draws,
    "drop_worst": lambda fit: fit.drop_worst([0.0, 0.05]),
    "effects": lambda fit: fit.effects("x"),
    "encode": lambda fit: fit.encode({"x": [1, 2]}),
    "estimate": lambda fit: fit.estimate,
    "groups": lambda fit: fit.groups,
    "kld_draws": lambda fit: fit.kld_draws,
    "leave_one_out": lambda fit: fit.leave_one_out(n_draws=3),
    "left_out": lambda fit: fit.left_out,
    "methods": lambda fit: str(fit.methods()),
    "misfit": lambda fit: fit.misfit(by="x", n_replicates=20),
    "misfit, with a certificate": lambda fit: fit.misfit(n_replicates=20, certificate=0.9),
    "n_left_out": lambda fit: fit.n_left_out,
    "n_rows": lambda fit: fit.n_rows,
    "observed": lambda fit: fit.observed("x"),
    "options": lambda fit: fit.options,
    "param_names": lambda fit: fit.param_names,
    "pit": lambda fit: fit.pit(4),
    "plot": lambda fit: fit.plot,
    "predict": lambda fit: fit.predict({"x": [1, 2]}),
    "predictions": lambda fit: fit.predictions({"x": [0, 1]}),
    "residuals": lambda fit: fit.residuals(),
    "rootogram": lambda fit: fit.rootogram(),
    "rounded": lambda fit: fit.rounded,
    "rows": lambda fit: fit.rows(n_replicates=20),
    "sample": lambda fit: fit.sample({"x": [1, 2]}),
    "score": lambda fit: (fit.score(), fit.score(rows())),
    "seed": lambda fit: fit.seed,
    "sensitivity": lambda fit: fit.sensitivity(),
    "status": lambda fit: fit.status,
    "summary": lambda fit: str(fit.summary()),
    "suspicious_rows": lambda fit: fit.suspicious_rows(n_replicates=20),
    "to_arviz": lambda fit: fit.to_arviz(),
    "update": lambda fit: fit.update(rows()),
    "compare": lambda fit: tb.compare({"one": fit, "other": fit}, n_folds=2, n_draws=3),
}
TO_FILES = {"report", "save"}


@pytest.mark.parametrize("kind", KINDS)
def test_a_fit_can_be_saved_or_says_why_it_cannot_be_run_again(kind, fits, tmp_path):
    fits[kind].save(tmp_path / "fit.tvd")
    again = tb.load(tmp_path / "fit.tvd")
    assert np.array_equal(again.draws, fits[kind].draws)
    if kind == "prior, function":
        with pytest.raises(tb.SettingsError, match="was a function"):
            again.misfit(n_replicates=20)
    else:
        again.misfit(n_replicates=20)


SAMPLED = ("strata", "sampling_weights", "together", "clusters")
REFUSED = {
    ("clusters", "rows"): "knows of no clusters",
    ("clusters", "weights"): "knows of no clusters",
    ("clusters", "strata"): "knows of no clusters",
    ("clusters", "sampling_weights"): "knows of no clusters",
    **{("clusters", kind): "knows of no clusters" for kind in PRIORS},
    **{
        ("misfit, with a certificate", kind): "A guarantee holds for rows that were drawn "
        "independently"
        for kind in SAMPLED
    },
}
"""What is refused, and in which words; all else works."""


@pytest.fixture(scope="module")
def fits():
    return {kind: tb.fit("y ~ x", rows(), n_draws=20, **options) for kind, options in KINDS.items()}


def test_the_table_has_every_public_answer():
    public = {name for name in dir(tb.Fit) if not name.startswith("_")}
    fields = {"posterior", "formula", "encoding", "cell_of_row", "data", "more_encodings"}
    fields |= {"sample_fit", "why_left_out"}
    asked = {name.split(",")[0] for name in ANSWERS} - {"compare"}
    assert public - fields == asked | TO_FILES


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("answer", ANSWERS)
def test_an_answer_works_or_says_why_not(answer, kind, fits):
    ask = ANSWERS[answer]
    if answer == "to_arviz":
        pytest.importorskip("arviz")
    if (answer, kind) not in REFUSED:
        ask(fits[kind])
        return
    with pytest.raises(tb.TVDBayesError, match=REFUSED[answer, kind]):
        ask(fits[kind])


@pytest.mark.parametrize("kind", KINDS)
def test_the_rows_of_the_fit_have_the_same_scores_as_new_rows(kind, fits):
    new, own = fits[kind].score(rows()), fits[kind].score()
    assert (new.log, new.rps, new.n) == pytest.approx((own.log, own.rps, own.n), rel=1e-12)


def test_new_rows_that_weigh_more_are_scored_as_more_rows(fits):
    new = rows().assign(times=1.0, w=1.0)
    heavy, twice = new.copy(), pd.concat([new, new[:40]])
    heavy.loc[:39, ["times", "w"]] = 2.0
    for kind in ("weights", "sampling_weights"):
        one, other = fits[kind].score(heavy), fits[kind].score(twice)
        assert one.log == pytest.approx(other.log, rel=1e-12)


@pytest.mark.parametrize("kind", ["weights", "sampling_weights"])
def test_new_rows_without_the_weights_of_the_fit_are_refused(kind, fits):
    with pytest.raises(tb.DataError, match=f"made with {kind}=.* Add it"):
        fits[kind].score(rows()[["x", "y"]])


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_says_what_was_reweighted(kind, fits, tmp_path):
    fits[kind].report(tmp_path / "fit.html")
    page = (tmp_path / "fit.html").read_text()
    assert ("Random weights" in page) == (kind in SAMPLED)
    assert ("Random weights" in str(fits[kind].summary())) == (kind in SAMPLED)


def test_the_page_names_every_answer_that_is_refused():
    text = " ".join(PAGE.read_text().split())
    table = text[text.index("| answer |") :]
    for answer in {name.split(",")[0] for name, _ in REFUSED}:
        assert re.search(rf"\b{answer}\b", table), answer


def test_flags_say_that_they_do_not_tell_clusters_apart():
    """Equal rows of a good and of a broken cluster are one cell, and flagged together."""
    frame = rows()
    frame.loc[:3, "y"], frame.loc[100, "y"] = 40, 40
    frame.loc[:3, "x"], frame.loc[100, "x"] = 1, 1
    fit = tb.fit("y ~ x", frame, clusters="patient", n_draws=20)
    found = fit.rows(n_replicates=40)
    assert found["flag"][[0, 1, 2, 3, 100]].all()
    assert "others with the same x and outcome are flagged with them" in found.attrs["note"]
    assert "Clusters" not in tb.fit("y ~ x", frame, n_draws=5).rows().attrs["note"]
