"""Tables, ratios and sentences for a paper: what they say is what the fit holds."""

import json
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import statsmodels.api as sm
from click.testing import CliRunner

import tvdbayes as tb
from tvdbayes.cli import main
from tvdbayes.fitting.story import story_of
from tvdbayes.report import expected_rows
from tvdbayes.report._tables import number, ratio_lines

ENDS = ("low", "high")


def run(*args):
    result = CliRunner().invoke(main, [*map(str, args)])
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture(scope="module")
def fit():
    return tb.fit("visits ~ age + region", tb.example_data(300, wrong=0.1), n_draws=60)


@pytest.fixture(scope="module")
def stored(fit, tmp_path_factory):
    path = tmp_path_factory.mktemp("stored") / "fit.tvd"
    fit.save(path)
    return path


# Ratios.


@pytest.mark.parametrize("options", [{}, {"kind": "hdi", "interval": 0.5}, {"rope": (-1, 1)}])
def test_ratios_are_exp_of_the_plain_table(fit, options):
    plain, ratios = fit.summary(**options), fit.summary(exponentiate=True, **options)
    assert ratios.names == plain.names
    renamed = {"mean": "ratio", "kld_mean": "kld_ratio", "diff": "quotient"}
    renamed |= {f"diff_{end}": f"quotient_{end}" for end in ENDS}
    renamed |= {name: name for name in ("low", "high", "kld_low", "kld_high")}
    for name, new in renamed.items():
        np.testing.assert_array_equal(ratios[new], np.exp(plain[name]))
    for name in {"direction", "rope"} & set(plain.columns):
        np.testing.assert_array_equal(ratios[name], plain[name])
    np.testing.assert_allclose(ratios["sd"], plain["sd"] * np.exp(plain["mean"]))


def test_the_quotient_is_that_of_both_ratios(fit):
    table = fit.summary(exponentiate=True)
    np.testing.assert_allclose(table["quotient"], table["ratio"] / table["kld_ratio"])


def test_ratios_do_not_depend_on_the_order_of_the_draws(fit):
    order = np.random.default_rng(0).permutation(len(fit.draws))
    posterior = fit.posterior
    shuffled = replace(
        posterior, draws=posterior.draws[order], kld_draws=posterior.kld_draws[order]
    )
    one, two = (p.summary(exponentiate=True) for p in (posterior, shuffled))
    for name in one.columns:
        np.testing.assert_allclose(one[name], two[name], rtol=1e-12)


def test_another_reference_category_inverts_the_ratio():
    frame = pd.DataFrame(tb.example_data(300, wrong=0.1))
    levels = (["north", "south"], ["south", "north"])
    south, north = (
        tb.fit(
            "visits ~ region",
            frame.assign(region=pd.Categorical(frame["region"], order)),
            n_draws=2,
        )
        for order in levels
    )
    np.testing.assert_allclose(south.estimate[1], -north.estimate[1], rtol=1e-6)
    names = south.summary(exponentiate=True).names[1], north.summary(exponentiate=True).names[1]
    assert names == ("region[T.south]", "region[T.north]")


KINDS = {
    "poisson": ({"family": "poisson"}, "visits", ["rate ratio"] * 2),
    "negative binomial": (
        {"family": "negativebinomial"},
        "visits",
        ["rate ratio", "rate ratio", "dispersion ratio"],
    ),
    "inflated": (
        {"family": "zero_inflated_poisson"},
        "visits",
        ["rate ratio", "rate ratio", "odds ratio"],
    ),
    "logit": ({"family": "bernoulli"}, "ill", ["odds ratio"] * 2),
    "cloglog": ({"family": "bernoulli", "link": "cloglog"}, "ill", ["hazard ratio"] * 2),
    "probit": ({"family": "bernoulli", "link": "probit"}, "ill", ["", ""]),
    "categories": ({"family": "categorical"}, "region", ["odds ratio"] * 2),
    "ratings": ({"family": "ordinal"}, "visits", None),
}


@pytest.mark.parametrize("name", KINDS)
def test_ratios_are_named_by_family_and_link(name):
    options, outcome, expected = KINDS[name]
    data = tb.example_data(300)
    if name == "ratings":
        data["visits"] = np.minimum(data["visits"], 3)
        expected = ["odds ratio"] * 2 + [""] * 2
    fit = tb.fit(f"{outcome} ~ age", data, divergence="kld", n_draws=20, **options)
    assert list(fit.posterior.model.ratios(fit.posterior.cells)) == expected
    if not any(expected):
        with pytest.raises(tb.SettingsError, match=r"no ratios.*probit.*effects\(\)"):
            fit.summary(exponentiate=True)
        return
    table = fit.summary(exponentiate=True)
    kept = [n for n, kind in zip(fit.param_names, expected, strict=True) if kind]
    assert list(table.names) == kept
    kinds = {kind for kind in expected if kind}
    head = str(table).splitlines()[2]
    assert (kinds.pop() if len(kinds) == 1 else "ratio") in head
    for left_out in set(fit.param_names) - set(kept):
        assert left_out in table.note
    if len(kinds) > 1:
        assert all(f"({kind})" in table.note for kind in kinds)


# Tables.


def test_the_header_says_what_was_fitted_and_how_it_went(fit):
    first, second, *_ = str(fit.summary(0.8)).splitlines()
    assert first == "Poisson (log link) by tvd, trimmed: 300 rows, 60 draws, seed 0"
    assert second == "80% intervals (equal tails); all draws ended in certified minima."
    broken = replace(fit.posterior, status=np.full(60, tb.Status.STALLED))
    assert "60 of 60 draws ended without a certified minimum" in broken.summary().header
    gone = replace(fit.posterior, kld_status=np.full(60, tb.Status.SEPARATED))
    words = "60 of 60 draws of the likelihood fit have their optimum at infinity"
    assert words in gone.summary().header


def test_headings_say_the_level_and_open_the_column(fit):
    table = fit.summary(0.8)
    assert str(table).splitlines()[2].split()[1:4] == ["mean", "10%", "90%"]
    np.testing.assert_array_equal(table["kld_10%"], table["kld_low"])
    np.testing.assert_array_equal(table["90%"], table["high"])
    assert "low 80%" in str(fit.summary(0.8, kind="hdi"))
    with pytest.raises(tb.SettingsError, match=r"no column 'middle'\. The columns are mean, sd"):
        table["middle"]


def test_the_numbers_of_a_line_have_the_same_digits(fit):
    _, _, _, *lines = fit.summary().__str__().splitlines()
    for line in lines[:3]:
        assert len({len(cell.rpartition(".")[2]) for cell in line.split()[1:]}) == 1


FRAMES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}


@pytest.mark.parametrize("library", FRAMES)
def test_answers_are_in_the_kind_of_frame_that_came_in(library, fit, tmp_path):
    make = FRAMES[library]
    one = tb.fit(fit.formula, make(tb.example_data(300, wrong=0.1)), n_draws=60)
    one.save(tmp_path / "fit.tvd")
    again = tb.load(tmp_path / "fit.tvd")
    answers = {
        "rows": lambda f: f.rows(),
        "cells": lambda f: f.cells(),
        "suspicious": lambda f: f.suspicious_rows(),
        "predict": lambda f: f.predict(),
        "pmf": lambda f: f.predict(kind="pmf", outcomes=[0, 1]),
        "summary": lambda f: f.summary().to_frame(),
        "effect": lambda f: f.effects("age").summary().to_frame(),
    }
    for name, ask in answers.items():
        found, reference = ask(one), ask(fit)
        assert type(found) is type(ask(again)) is type(make({"a": [1]})), name
        as_pandas = found if library == "pandas" else found.to_pandas()
        if library != "pandas" and name == "suspicious":
            np.testing.assert_array_equal(as_pandas.pop("row"), reference.index)
        assert list(map(str, as_pandas)) == list(map(str, reference)), name
        for mine, theirs in zip(as_pandas, reference, strict=True):
            np.testing.assert_array_equal(as_pandas[mine].to_numpy(), reference[theirs].to_numpy())
    assert type(one.predict(make({"age": [2], "region": ["north"]}))) is type(make({"a": [1]}))
    assert type(one.update(tb.example_data(20)).rows()) is type(make({"a": [1]}))


def test_rows_that_were_left_out_are_gaps_in_every_frame():
    data = pl.DataFrame(tb.example_data(60)).with_columns(
        pl.when(pl.int_range(60) == 3).then(None).otherwise(pl.col("region")).alias("region")
    )
    with pytest.warns(tb.MissingRowsWarning):
        fit = tb.fit("visits ~ region", data, n_draws=2, missing="drop")
    rows = fit.rows()
    assert rows["region"][3] is None
    assert np.isnan(rows["score"][3])
    assert np.isnan(fit.predict()["mean"][3])


def test_a_library_that_is_not_installed_gives_pandas(fit, monkeypatch):
    other = replace(fit, data=replace(fit.data, library="polars"))
    monkeypatch.setattr("tvdbayes.data.sources.find_spec", lambda _: None)
    assert isinstance(other.summary().to_frame(), pd.DataFrame)


def test_a_frame_has_all_columns_to_all_digits(fit):
    table = fit.summary()
    frame = table.to_frame()
    assert list(frame) == ["parameter", *table.columns]
    for name, values in table.columns.items():
        np.testing.assert_array_equal(frame[name], values)


def test_latex_markdown_and_html_hold_what_is_printed(fit):
    table = fit.summary()
    printed = [re.split(r"  +", line) for line in str(table).splitlines()[2:-1]]
    latex, markdown = table.to_latex(), table.to_markdown()
    body = [line for line in latex.splitlines() if line.endswith(r"\\")]
    plain = [line.removesuffix(r" \\").replace("$-$", "-").replace("\\", "") for line in body]
    assert [line.split(" & ") for line in plain] == printed
    lines = [line for line in markdown.splitlines() if line.startswith("| ") and ":--" not in line]
    cells = [[c.replace("\\", "") for c in line.strip("| ").split(" | ")] for line in lines]
    assert cells == printed
    assert re.findall(r"<td>(.*?)</td>", table.to_html()) == [
        cell for line in printed[1:] for cell in line[1:]
    ]
    for text in (latex, markdown, table.to_html()):
        assert "300 rows, 60 draws" in text
        assert table.note in text


def test_characters_with_a_meaning_are_written_out():
    name = r"a_b & 50% of {x} ~ ^ \ | <b> $#"
    frame = pd.DataFrame({"y": [0, 1, 2, 3] * 5, name: np.arange(20) % 3})
    table = tb.fit(f"y ~ `{name}`", frame, divergence="kld", n_draws=5).summary()
    latex = (
        r"a\_b \& 50\% of \{x\} \textasciitilde{} \textasciicircum{} \textbackslash{} | "
        r"\textless{}b\textgreater{} \$\#"
    )
    assert latex in table.to_latex()
    assert r"\\ \| \<b\>" in table.to_markdown()
    assert "&lt;b&gt;" in table.to_html()


def test_excel_holds_the_numbers_and_runs_nothing(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    frame = pd.DataFrame({"y": [0, 1, 2, 3] * 5, "=1+1": np.arange(20) % 3})
    table = tb.fit("y ~ `=1+1`", frame, divergence="kld", n_draws=5).summary()
    table.to_excel(tmp_path / "table.xlsx")
    sheet = openpyxl.load_workbook(tmp_path / "table.xlsx").active
    assert [cell.value for cell in sheet["A"]] == ["parameter", "Intercept", "'=1+1"]
    assert all(cell.data_type != "f" for row in sheet.iter_rows() for cell in row)
    np.testing.assert_array_equal([cell.value for cell in sheet["B"]][1:], table["mean"])


def test_without_openpyxl_the_message_says_what_to_install(fit, monkeypatch, tmp_path):
    monkeypatch.setattr("tvdbayes.sampling.tables.find_spec", lambda _: None)
    with pytest.raises(tb.SettingsError, match="Run: pip install openpyxl"):
        fit.summary().to_excel(tmp_path / "table.xlsx")


# Effects.


def clean(family):
    """Covariates of three kinds, and outcomes from the model."""
    rng = np.random.default_rng(3)
    n = 400
    x, flag, g = rng.normal(size=n), rng.integers(0, 2, n), rng.choice(["a", "b", "c"], n)
    eta = 0.2 + 0.3 * x - 0.4 * flag + 0.5 * (g == "b")
    y = rng.poisson(np.exp(eta)) if family == "poisson" else rng.random(n) < 1 / (1 + np.exp(-eta))
    return pd.DataFrame({"y": y.astype(int), "x": x, "flag": flag, "g": g})


@pytest.mark.parametrize("family", ["poisson", "bernoulli"])
def test_all_effects_are_the_margins_of_statsmodels(family):
    frame = clean(family)
    fit = tb.fit("y ~ x + flag + g", frame, family=family, divergence="kld", n_draws=2)
    found = fit.effects()
    assert found.names == ("x", "flag: 1 - 0", "g: b - a", "g: c - a")
    law = sm.families.Poisson() if family == "poisson" else sm.families.Binomial()
    model = sm.GLM.from_formula("y ~ x + flag + C(g)", frame, family=law)
    result = model.fit(tol=1e-12)
    # Margins of a factor in statsmodels leave the other levels as they are, so each level is set.
    expected = []
    for name, levels in (("flag", [0, 1]), ("g", ["a", "b", "c"])):
        means = [result.predict(frame.assign(**{name: level})).mean() for level in levels]
        expected += [mean - means[0] for mean in means[1:]]
    step = 1e-5
    up, down = (result.predict(frame.assign(x=frame["x"] + s)).mean() for s in (step, -step))
    np.testing.assert_allclose(found.minimiser, [(up - down) / (2 * step), *expected], rtol=1e-6)
    discrete = {"poisson": sm.Poisson, "bernoulli": sm.Logit}[family]
    short = discrete.from_formula("y ~ x + flag", frame).fit(disp=0, tol=1e-12)
    margins = short.get_margeff(dummy=True).margeff
    ours = tb.fit("y ~ x + flag", frame, family=family, divergence="kld", n_draws=2).effects()
    np.testing.assert_allclose(ours.minimiser, margins, rtol=1e-5)


def test_all_effects_are_those_asked_for_one_by_one(fit):
    together = fit.effects(at={"age": 3})
    single = [fit.effects(name, at={"age": 3}) for name in ("age", "region")]
    np.testing.assert_array_equal(together.draws, np.concatenate([e.draws for e in single], 1))
    assert together.names == tuple(name for e in single for name in e.names)
    assert fit.effects(at={"region": "south"}).names == ("age",)
    assert "slopes in numbers" in together.what
    with pytest.raises(tb.DataError, match="no covariates"):
        tb.fit("visits ~ 1", tb.example_data(60), n_draws=2).effects()


def test_all_effects_of_categories_name_each_outcome():
    fit = tb.fit("region ~ age", tb.example_data(200), family="categorical", n_draws=5)
    assert fit.effects().names == ("age, P(north)", "age, P(south)")


def test_columns_that_are_left_out_are_at_typical_values():
    frame = clean("poisson").assign(t=np.linspace(1, 3, 400))
    fit = tb.fit("y ~ x + flag + g", frame, exposure="t", divergence="kld", n_draws=20)
    typical = {
        "x": frame["x"].mean(),
        "flag": frame["flag"].mode()[0],
        "g": frame["g"].mode()[0],
        "t": 2.0,
    }
    for given in ({"g": ["a", "c"]}, {"x": [0.0], "flag": [1]}):
        n = len(next(iter(given.values())))
        whole = pd.DataFrame({**{k: [v] * n for k, v in typical.items()}, **given})
        found = fit.predict(given, typical=True)
        pd.testing.assert_frame_equal(found, fit.predict(whole))
        means = fit.predictions(given, typical=True)
        if len(given) == 1:
            np.testing.assert_allclose(means.draws.mean(0), found["mean"])
    assert fit.predictions(typical=True).names == ("typical",)
    assert fit.predictions({"g": ["a"]}, typical=True).what.startswith("Expected y, at flag=0, x=")
    with pytest.raises(tb.DataError):
        fit.predict({"g": ["a"]})


def test_typical_trials_are_a_number_of_trials():
    rng = np.random.default_rng(0)
    trials = rng.choice([5, 9], 200, p=[0.7, 0.3])
    data = {"k": rng.binomial(trials, 0.4), "n": trials, "x": rng.normal(size=200)}
    fit = tb.fit("k / n ~ x", data, family="binomial", n_draws=5)
    assert fit.predict({"x": [0.0]}, typical=True)["mean"][0] == pytest.approx(2, abs=0.4)


# Sentences.


def test_methods_say_what_was_done(fit):
    said = fit.methods(0.8)
    model, method, uncertainty = said.methods
    assert model == (
        "visits was modelled as Poisson with a log link, given age and region "
        "(visits ~ age + region; 300 rows)."
    )
    assert "trimmed likelihood" in method
    assert "80% of 60 draws" in uncertainty
    assert f"seed {fit.seed}" in uncertainty
    assert f"tvdbayes {tb.__version__}" in uncertainty
    n = round(float(fit.posterior.cells.counts @ (1 - fit.posterior.kept_rows.share)))
    table = fit.summary(0.8, exponentiate=True)
    assert said.results.startswith(f"{n} of 300 rows were dropped, and the rate ratio was ")
    for j in (1, 2):
        for column in ("ratio", "low", "high", "kld_ratio", "kld_low", "kld_high"):
            assert table.text(column, j) in said.results
    assert "Intercept" not in said.results
    assert [text.split(",")[0] for text in said.references[:2]] == ["Knoblauch", "Rubin"]


OTHERS = {
    "likelihood": ({"divergence": "kld"}, ["maximum likelihood."], ["Knoblauch", "beside"]),
    "plain": ({"refine": None}, ["minimising the total variation", "Knoblauch"], ["trimmed"]),
    "reweighted": ({"refine": "reweight"}, ["weighted once"], ["trimmed", "dropped"]),
    "hellinger": ({"divergence": "hellinger"}, ["Hellinger", "Simpson"], ["trimmed", "Knobl"]),
    "density": ({"divergence": "density_power"}, ["density power", "Basu"], ["trimmed"]),
    "ridge": ({"ridge": 0.5}, ["ridge penalty of 0.5"], []),
    "no draws": ({"n_draws": 0}, ["without intervals"], ["Rubin", "draws"]),
}


@pytest.mark.parametrize("name", OTHERS)
def test_methods_change_with_the_options(name):
    options, there, absent = OTHERS[name]
    data = tb.example_data(200)
    text = str(tb.fit("visits ~ age", data, **{"n_draws": 10, **options}).methods())
    assert all(word in text for word in there)
    assert not any(word in text for word in absent)


def test_methods_name_weights_priors_gaps_and_exposures():
    frame = pd.DataFrame(tb.example_data(200)).assign(w=2, t=1.5)
    frame.loc[3, "age"] = np.nan
    with pytest.warns(tb.MissingRowsWarning):
        fit = tb.fit(
            "visits ~ age", frame, weights="w", exposure="t", missing="drop", n_draws=5, ridge=0.1
        )
    model = fit.methods().methods[0]
    assert "t as exposure" in model
    assert "w as weights" in model
    assert "199 rows; 1 more were left out" in model
    prior = tb.fit(
        "visits ~ age", frame.dropna(), n_draws=5, alpha=3, base_measure=fit.posterior.cells
    )
    said = prior.methods()
    assert "counts for 3 rows" in said.methods[2]
    assert any("Lyddon" in text for text in said.references)


def test_a_link_without_ratios_has_coefficients_in_its_sentence():
    fit = tb.fit("ill ~ age", tb.example_data(200), family="bernoulli", link="probit", n_draws=10)
    assert "the coefficient was " in fit.methods().results


def test_sensitivity_is_a_table_for_a_paper(fit):
    found = fit.sensitivity()
    table = found.table([0.02, 0.1])
    assert table.names == ("age", "region[T.south]")
    for j, one in enumerate(found):
        assert table["estimate"][j] == one.estimate
        assert table["sign holds to"][j] == one.sign_holds_to
        for share in (0.02, 0.1):
            ends = [table[f"{end}, {100 * share:g}% wrong"][j] for end in ENDS]
            assert tuple(ends) == one.interval(share)
    assert "%" in str(table).splitlines()[1]
    assert table.to_latex().count(r"\\") == 3
    assert str(found) == "\n".join(map(str, found))
    with pytest.raises(tb.SettingsError, match="from 0 to below 1; got 2"):
        found.table([2])


# The terminal and the report.


def test_the_terminal_and_the_report_show_the_same_ratios(fit, stored):
    shown, story = run("summary", stored, "--ratios"), story_of(fit, averages=False)
    ratios = fit.summary(exponentiate=True)
    lines = ratio_lines(story.ratios, story.differs)
    assert "rate ratio: robust" in shown
    told = json.loads(run("summary", stored, "--json"))["ratios"]
    for j, name in enumerate(ratios.names):
        assert ratios.text("ratio", j) in shown
        assert told[j]["name"] == name
        assert told[j]["ratio"] == pytest.approx(ratios["ratio"][j])
        assert lines[j].robust.mean == number(ratios["ratio"][j])
    assert "rate ratio" not in run("summary", stored)


def test_a_link_without_ratios_is_told_in_words(tmp_path):
    fit = tb.fit("ill ~ age", tb.example_data(200), family="bernoulli", link="probit", n_draws=20)
    fit.save(tmp_path / "fit.tvd")
    shown = " ".join(run("summary", tmp_path / "fit.tvd", "--ratios").split())
    assert "no table of ratios: exp of a coefficient of bernoulli and the probit link" in shown
    assert story_of(fit, averages=False).ratios is None


def test_expected_rows_that_are_next_to_none_are_not_written_out(stored):
    assert expected_rows(3.87e-207) == "< 0.001"
    assert expected_rows(0.001) == "0.00100"
    assert "< 0.001" in run("summary", stored)
