"""Planning: widths and powers that theory knows, and records that say what they found."""

import numpy as np
import pytest
from scipy.stats import norm

import tvdbayes as tb
from tvdbayes import Bernoulli, Binomial, DataError, Model, Poisson, SettingsError, plan
from tvdbayes.bounds import parameter_set
from tvdbayes.objective.partitions import rows_per_group
from tvdbayes.plots.bounds import plot_bound, plot_parameter_set, plot_power, plot_sample_size

ARMS = np.array([[1.0, 0.0], [1.0, 1.0]])


def width(**options):
    given = {"coefficient": 0, "width": 0.1, "n_sets": 6, "n_draws": 100} | options
    return plan.sample_size(Model(Poisson()), [[1.0]], [np.log(3)], **given)


def test_the_ordinary_width_is_that_of_theory():
    found = width(rows=[200, 800], n_draws=400, n_sets=6)
    # The log of a rate of 3 has the variance 1 / (3 n).
    theory = 2 * norm.ppf(0.95) / np.sqrt(3 * np.array([200, 800]))
    assert found.ordinary_width == pytest.approx(theory, rel=0.1)
    assert found.width[0] / found.width[1] == pytest.approx(2, rel=0.2)
    assert found.width == pytest.approx(found.ordinary_width, rel=0.1)


def test_enough_rows_are_found_and_are_enough():
    seen = []
    found = width(share=0.1, contaminant=plan.shifted_by(20), progress=lambda *at: seen.append(at))
    low, high = found.range
    assert low <= found.needed
    assert high is None or found.needed <= high
    assert found.width[-1] <= 0.1 < found.width[-2]
    assert found.rows[-2] < found.needed <= found.rows[-1]
    assert seen[-1] == (6 * len(found.rows),) * 2
    again = width(share=0.1, contaminant=plan.shifted_by(20), rows=[found.needed], seed=5)
    assert again.width[0] == pytest.approx(0.1, rel=0.12)
    assert f"{found.needed:,} rows" in str(found)
    assert not found.vacuous


def test_wrong_rows_spoil_the_ordinary_interval_only():
    found = width(rows=[400], share=0.1, contaminant=plan.shifted_by(20), n_sets=8)
    assert found.covers[0] >= 0.75
    assert found.ordinary_covers[0] == 0


def test_the_crossing_follows_a_power_of_the_rows():
    record = plan.SampleSize(
        *("x", 1.0, 0.1, 0.9, 0.0, np.array([100, 1600])),
        *(np.array([0.4, 0.05]), np.zeros(2), *[np.zeros(2)] * 4, 9),
    )
    # Widths fall like n ** -.75 here: .4 * (n / 100) ** -.75 is .1 at 100 * 4 ** (4 / 3).
    assert record.needed == int(np.ceil(100 * 4 ** (4 / 3)))


def test_rows_that_are_not_enough_are_said_to_be():
    found = width(rows=[50, 100], width=0.01, n_sets=3)
    assert found.needed is None
    assert found.vacuous
    assert "still" in str(found)
    assert "not enough" in plot_sample_size(found).get_title(loc="right")
    fewer = width(rows=[100], width=3.0, n_sets=3)
    assert fewer.needed == 100
    assert "or fewer" in str(fewer)


def test_the_same_seed_gives_the_same_plan():
    first, second, other = (width(rows=[60], n_sets=3, seed=seed) for seed in (1, 1, 2))
    assert (first.width == second.width).all()
    assert (first.width != other.width).all()


@pytest.mark.slow
def test_power_is_one_for_large_effects_and_the_level_without_any():
    options = {"coefficient": "x1", "n_draws": 100}
    large = plan.power(Model(Poisson()), ARMS, [1.0, 1.5], rows=80, n_sets=4, **options)
    assert large.power.tolist() == [1]
    assert (large.error > 0).all()
    none = plan.power(Model(Poisson()), ARMS, [1.0, 0.0], rows=80, n_sets=8, **options)
    assert none.power.max() <= 0.4
    assert not none.vacuous
    some = plan.power(Model(Poisson()), ARMS, [1.0, -0.3], rows=[40, 640], n_sets=4, **options)
    assert some.power[1] > some.power[0]
    assert "640 rows" in str(some)


def test_an_interval_on_the_wrong_side_of_zero_is_no_power():
    found = plan.power(
        Model(Poisson()), ARMS, [1.0, -0.05], coefficient=1, rows=200, n_sets=3, n_draws=50,
        share=0.2, contaminant=lambda _, x, y: (x, np.where(x[:, 1] > 0, 30, y)),
    )  # fmt: skip
    assert found.ordinary_power.tolist() == [0]


def test_a_design_may_be_a_function_with_trials_and_wrong_covariates():
    def design(rng, n):
        return np.column_stack([np.ones(n), rng.integers(0, 3, n)])

    def far(_, x, y):
        return np.column_stack([x[:, 0], np.full(len(x), 2)]), np.zeros(len(y))

    found = plan.power(
        Model(Binomial()), design, [-0.5, 1.0], coefficient="x1", rows=150, trials=5,
        share=0.05, contaminant=far, n_sets=4, n_draws=50,
    )  # fmt: skip
    assert found.power[0] == 1


def test_continuous_covariates_are_planned_in_groups():
    def design(rng, n):
        return np.column_stack([np.ones(n), rng.normal(size=n)])

    found = plan.sample_size(
        Model(Bernoulli()), design, [0.5, 1.0], coefficient="x1", width=0.8, rows=[300], n_sets=3,
        n_draws=50,
    )  # fmt: skip
    assert 0.3 < found.width[0] < 1.5


def test_contaminants_do_what_they_say():
    rng, x, y = np.random.default_rng(0), np.ones((3, 1)), np.arange(3.0)
    assert plan.shifted_by(5)(rng, x, y)[1].tolist() == [5, 6, 7]
    assert plan.replaced_by(9)(rng, x, y)[1].tolist() == [9, 9, 9]


@pytest.mark.parametrize("n_params", [1, 2, 6, 30])
def test_groups_are_those_of_a_fit(n_params):
    found = plan.groups(n_params)
    assert found.rows == 48 * n_params
    assert 2 * rows_per_group(found.rows, n_params) == found.group_size
    assert found.rows / found.group_size == 2 * n_params == found.n_groups
    assert rows_per_group(found.comfortable, n_params) == pytest.approx(12)
    assert rows_per_group(1.1 * found.comfortable, n_params) > 12
    assert found.expected_bias == pytest.approx(0.025)
    assert not found.vacuous


def test_fewer_rows_than_planned_make_a_fit_warn():
    rng = np.random.default_rng(3)

    def fit(n):
        x = np.column_stack([np.ones(n), rng.normal(size=(n, 3))])
        y = rng.random(n) < 1 / (1 + np.exp(-x @ [0.2, 1, -1, 0.5]))
        cells = tb.Cells.from_rows(x, y)
        tb.posterior_bootstrap(Model(Bernoulli()), cells, n_draws=0, refine=None)

    fit(plan.groups(4).rows)
    with pytest.warns(tb.TooFewRowsWarning):
        fit(plan.groups(4).rows // 2)


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: width(width=0), SettingsError, "width"),
        (lambda: width(coefficient="age"), SettingsError, r"\['x0'\]"),
        (lambda: width(share=0.1), SettingsError, "shifted_by"),
        (lambda: width(share=1.0), SettingsError, "share"),
        (lambda: width(interval=90), SettingsError, "interval"),
        (lambda: width(n_sets=1), SettingsError, "n_sets"),
        (lambda: width(rows=[1]), SettingsError, "rows"),
        (lambda: width(rows=[10.5]), SettingsError, "rows"),
        (lambda: plan.groups(0), SettingsError, "n_params"),
        (lambda: plan.groups(2, group_size=0), SettingsError, "group_size"),
        (
            lambda: plan.power(Model(Poisson()), ARMS, [1.0], coefficient=0, rows=9),
            SettingsError,
            "theta",
        ),
        (
            lambda: plan.power(Model(Poisson()), [1.0], [1.0], coefficient=0, rows=9),
            DataError,
            "design",
        ),
        (
            lambda: plan.power(
                Model(Poisson()), lambda *_: np.ones((3, 1)), [1.0], coefficient=0, rows=9
            ),
            DataError,
            "design",
        ),
    ],
)
def test_bad_input_is_named(call, error, says):
    with pytest.raises(error, match=says):
        call()


# ---- pictures


def test_pictures_show_what_the_records_hold():
    found = width(rows=[100, 400], n_sets=3, width=0.15)
    ax = plot_sample_size(found)
    labels = ax.get_legend_handles_labels()[1]
    assert {"wanted", "needed", "robust", "likelihood"} == set(labels)
    assert f"{found.needed:,}" in ax.get_title(loc="right")
    chance = plan.power(
        Model(Poisson()), ARMS, [1.0, 0.5], coefficient=1, rows=[50, 100], n_sets=3, n_draws=50
    )
    ax = plot_power(chance)
    assert ax.lines[0].get_ydata() == pytest.approx(chance.power)
    assert "x1" in ax.get_ylabel()


def test_sets_of_one_and_two_parameters_are_drawn():
    cells = tb.Cells.from_rows(np.ones((80, 1)), np.random.default_rng(4).poisson(2, 80))
    found = parameter_set(
        Model(Poisson()), cells, 0.05, theta=np.linspace(0, 2, 9)[:, None], n_simulations=100
    )
    ax = plot_parameter_set(found)
    assert ax.lines[0].get_ydata() == pytest.approx(found.distance)
    assert "5%" in ax.get_title(loc="right")
    x = np.column_stack([np.ones(80), np.arange(80) % 2])
    two = tb.Cells.from_rows(x, np.random.default_rng(4).poisson(2, 80))
    grid = np.array([[a, b] for a in (0.6, 0.7) for b in (0.0, -9.0)])
    found = parameter_set(Model(Poisson()), two, 0.0, theta=grid)
    ax = plot_parameter_set(found)
    assert len(ax.lines[0].get_xdata()) == (~found.inside).sum() == 2
    assert len(ax.lines[1].get_xdata()) == 2
    many = np.column_stack([x, np.random.default_rng(5).random(80)])
    cells = tb.Cells.from_rows(many, np.arange(80) % 4)
    three = parameter_set(Model(Poisson()), cells, 0.1, theta=[0, 0, 0])
    with pytest.raises(DataError, match="one or two"):
        plot_parameter_set(three)


def test_a_bound_is_drawn_over_what_happened():
    ax = plot_bound(
        [1, 2], {"bound": [0.5, 0.4]}, {"seen": [0.1, 0.2]}, xlabel="x", ylabel="y", log=False
    )
    assert ax.lines[0].get_ydata().tolist() == [0.5, 0.4]
    assert ax.lines[1].get_linestyle() == "None"
    with pytest.raises(DataError, match="up to 5"):
        plot_bound([1], {str(k): [1] for k in range(6)}, xlabel="x", ylabel="y")
