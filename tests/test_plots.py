"""Pictures, read from what they are made of."""

import io
import sys
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from matplotlib.collections import LineCollection, PathCollection, PolyCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import StepPatch
from scipy.stats import beta, norm

import tvdbayes as tb
from tvdbayes import plots
from tvdbayes.results.checks import (
    ByGroup,
    Calibration,
    PitHistogram,
    Rootogram,
    calibration,
    pit_histogram,
    quantile_residuals,
    rootogram,
)
from tvdbayes.results.misfit import Misfit
from tvdbayes.results.sensitivity import Sensitivity

BLUE, VERMILLION = "#0072B2", "#D55E00"
LONG = "a_rather_long_name_of_a_column[T.with a level that is long]!!"[:60]


def draws_of(d, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(rng.normal(size=d), 0.3, (200, d))


def coefficients(ax=None, names=("Intercept", "age", "dose"), **options):
    draws = draws_of(len(names))
    return plots.plot_coefficients(names, draws, draws + 0.3, ax=ax, **options)


def a_misfit(by=()):
    rng = np.random.default_rng(1)
    parts = {name: a_misfit() for name in by}
    return Misfit(rng.normal(0.15, 0.01, 300), rng.normal(0.05, 0.01, 200), by=parts)


def a_rootogram(k=8, labels=None):
    expected = 50 * np.exp(-0.5 * ((np.arange(k) - 3) / max(k / 5, 1)) ** 2) + 0.5
    seen = np.random.default_rng(2).poisson(expected).astype(float)
    labels = labels or (*map(str, range(k - 1)), f"{k - 1} or more")
    at = np.arange(float(k))
    return Rootogram(labels, at, at, seen, expected, np.floor(expected * 0.7), expected + 3)


def a_calibration(shift=0.0):
    seen = np.linspace(0.1, 0.9, 5)
    return Calibration(seen + shift, seen, seen - 0.1, seen + 0.1, np.array([10, 20, 30, 40, 50.0]))


def a_path(name="age", sign=0.3):
    values, share = np.array([-1, 0.0, 1.0, 2.0]), np.array([0.5, sign, 0.1, 0.2])
    return Sensitivity(name, 1.0, values, share, 0.1)


def groups(ax=None):
    three = np.array([1.0, 2.0, 3.0])
    record = ByGroup(("a", "b", LONG), three, three, three + 0.2, three - 1, three + 1, -three)
    return plots.plot_groups(record, outcome="visits", ax=ax)


def rows(ax=None, n=300, every=9, **options):
    score = np.random.default_rng(3).random(n) * 0.5
    flag = np.arange(n) % every == 0
    score[flag] = 1.0
    return plots.plot_rows(np.arange(n), score, flag, ax=ax, **options)


def bands(ax=None, x=(1, 2, 3), observed=True, **options):
    mean = np.array([1.0, 3.0, 2.0])
    seen = (np.repeat(x, 20), np.arange(60) % 7, np.arange(60) % 10 == 0) if observed else None
    options = {"xlabel": "age", "ylabel": "visits", **options}
    return plots.plot_bands(
        x, (mean, mean - 0.5, mean + 1), (mean + 1, mean, mean + 2), seen, ax=ax, **options
    )


PICTURES = {
    "coefficients": coefficients,
    "one coefficient": lambda ax=None: coefficients(ax, ("$x_1$",)),
    "long names": lambda ax=None: coefficients(ax, tuple(f"{i}{LONG}"[:60] for i in range(4))),
    "misfit": lambda ax=None: plots.plot_misfit(a_misfit(), ax=ax),
    "misfit by level": lambda ax=None: plots.plot_misfit(a_misfit(("_a", "$b$", LONG)), ax=ax),
    "no misfit": lambda ax=None: plots.plot_misfit(Misfit(np.zeros(9), np.zeros(9)), ax=ax),
    "rootogram": lambda ax=None: plots.plot_rootogram(a_rootogram(), a_rootogram(), ax=ax),
    "60 bars": lambda ax=None: plots.plot_rootogram(a_rootogram(60), outcome="$", ax=ax),
    "60 stretches": lambda ax=None: plots.plot_rootogram(
        a_rootogram(60, tuple(f"{i * 100} to {i * 100 + 99}" for i in range(60))), ax=ax
    ),
    "levels": lambda ax=None: plots.plot_rootogram(
        a_rootogram(4, ("strongly disagree", "disagree", "neither of the two", "agree")), ax=ax
    ),
    "calibration": lambda ax=None: plots.plot_calibration(
        a_calibration(), a_calibration(0.1), ax=ax, outcome="probability of _yes_"
    ),
    "groups": groups,
    "rows": rows,
    "many flags": lambda ax=None: rows(ax, every=2),
    "no flags": lambda ax=None: plots.plot_rows([0, 1], [0, 0], [False, False], ax=ax),
    "named rows": lambda ax=None: rows(ax, labels=[f"patient ${i}$ {LONG}" for i in range(300)]),
    "bands": bands,
    "bands over levels": lambda ax=None: bands(ax, ("_a", "$b$", "a level of many words")),
    "one sensitivity": lambda ax=None: plots.plot_sensitivity(a_path(LONG), ax=ax)[0],
    "ranks": lambda ax=None: plots.plot_pit(
        PitHistogram(np.linspace(0, 1, 11), np.linspace(0.5, 1.5, 10), 0.8, 1.2), ax=ax
    ),
    "residuals": lambda ax=None: plots.plot_residuals(
        np.random.default_rng(4).normal(size=400), ax=ax
    ),
}


def small():
    return Figure(figsize=(3.3, 2.5), layout="constrained").add_subplot()


def text_of(figure):
    """Visible texts, tick labels within the limits of their axes only."""
    for ax in figure.axes:
        for axis, limits in ((ax.xaxis, ax.get_xlim()), (ax.yaxis, ax.get_ylim())):
            low, high = sorted(limits)
            for tick in axis.get_major_ticks():
                if low <= tick.get_loc() <= high:
                    yield tick.label1
            yield axis.label
        yield from (ax.title, ax._right_title, *ax.texts)
        yield from (ax.get_legend().get_texts() if ax.get_legend() else ())
    yield from (text for legend in figure.legends for text in legend.get_texts())


def squeezed(box):
    """A box without the blank that fonts have around them."""
    return box.padded(-min(1.5, box.height / 6))


@pytest.mark.parametrize("size", ["default", "small"])
@pytest.mark.parametrize("name", PICTURES)
def test_text_is_whole_apart_and_large_enough(name, size):
    given = small() if size == "small" else None
    ax = PICTURES[name](ax=given)
    assert given in (None, ax)
    ax.figure.draw_without_rendering()
    texts = [text for text in text_of(ax.figure) if text.get_text()]
    boxes = [squeezed(text.get_window_extent()) for text in texts]
    inside = ax.figure.bbox.padded(1)
    for text, box in zip(texts, boxes, strict=True):
        assert text.get_fontsize() >= 8
        assert inside.contains(*box.min), text
        assert inside.contains(*box.max), text
    for (one, a), (other, b) in combinations(zip(texts, boxes, strict=True), 2):
        assert not a.overlaps(b), (one, other)


def test_pictures_are_written_and_no_window_is_opened():
    import matplotlib.pyplot as plt

    bands().figure.savefig(written := io.BytesIO(), format="pdf")
    assert written.tell() > 1000
    assert plt.get_fignums() == []


def test_a_notebook_shows_pictures(monkeypatch):
    import matplotlib.pyplot as plt

    monkeypatch.setitem(sys.modules, "ipykernel", object())
    shown = bands().figure
    assert plt.get_fignums() == [shown.number]
    plt.close(shown)


HOSTILE = ("$x_1$", "$\\frac{$", "_hidden", "a_b^c", "\\$5", "100%", "<b>")


def test_words_of_the_data_show_as_they_are():
    labels = coefficients(names=HOSTILE).get_yticklabels()
    assert tuple(label.get_text() for label in labels) == HOSTILE
    assert not any(label.get_parse_math() for label in labels)
    for word in HOSTILE:
        ax = bands(x=(word, "b", "c"), xlabel=word, ylabel=word)
        assert ax.get_xlabel() == ax.get_ylabel() == ax.get_xticklabels()[0].get_text() == word
        (row,) = plots.plot_rows([0], [1], [True], labels=[word]).texts
        assert row.get_text() == word
    ax.figure.draw_without_rendering()


def test_titles_with_words_of_the_data_show_them_as_they_are():
    panels = plots.plot_sensitivity([a_path(word) for word in HOSTILE])
    for word, panel in zip(HOSTILE, panels, strict=True):
        assert panel.get_title(loc="right").startswith(f"{word}: positive")
    panels[0].figure.draw_without_rendering()


def segments(ax, colour):
    """Ends of intervals of one colour."""
    return next(
        np.array(lines.get_segments())
        for lines in ax.collections
        if isinstance(lines, LineCollection) and to_hex(lines.get_color()[0]).upper() == colour
    )


def line(ax, label):
    return next(item for item in ax.lines if item.get_label() == label)


def points(ax, label):
    return next(
        item
        for item in ax.collections
        if isinstance(item, PathCollection) and item.get_label().startswith(label)
    )


def test_intervals_of_coefficients_are_quantiles_of_the_draws():
    names = ("Intercept", "age", "dose", "inflation:Intercept")
    draws = draws_of(4)
    ax = plots.plot_coefficients(names, draws, draws + 0.3, interval=0.8)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["age", "dose"]
    for colour, label, these in (
        (BLUE, "robust", draws[:, 1:3]),
        (VERMILLION, "likelihood", draws[:, 1:3] + 0.3),
    ):
        found = segments(ax, colour)
        assert np.allclose(found[:, :, 0].T, np.quantile(these, [0.1, 0.9], axis=0))
        assert np.allclose(line(ax, label).get_xdata(), these.mean(0))
        assert np.allclose(line(ax, label).get_ydata(), found[:, 0, 1])
    assert "80%" in ax.get_xlabel()
    # The first is on top, and robust above ordinary.
    assert ax.yaxis_inverted()
    assert segments(ax, BLUE)[0, 0, 1] < segments(ax, VERMILLION)[0, 0, 1]


def test_intercepts_are_shown_where_there_is_nothing_else_or_when_asked_for():
    assert len(coefficients(names=("Intercept",)).get_yticks()) == 1
    assert len(coefficients(skip_intercepts=False).get_yticks()) == 3


def test_more_coefficients_make_a_taller_figure():
    heights = [
        coefficients(names=tuple(f"x{i}" for i in range(d))).figure.get_figheight()
        for d in (1, 5, 40)
    ]
    assert heights == sorted(heights)
    assert heights[2] > 10


def test_a_long_name_is_broken_and_not_cut():
    label = coefficients(names=(LONG, "b")).get_yticklabels()[0].get_text()
    assert label.replace("\n", "").replace(" ", "") == LONG.replace(" ", "")


def test_bars_of_the_misfit_count_its_draws():
    record = a_misfit()
    ax = plots.plot_misfit(record)
    chance, data = (p for p in ax.patches if isinstance(p, StepPatch))
    for patch, draws in ((data, record.draws), (chance, record.floor_draws)):
        values, edges, _ = patch.get_data()
        counts, _ = np.histogram(draws, edges)
        assert counts.sum() == len(draws)
        assert np.allclose(values, counts / counts.max())
    assert np.allclose(line(ax, f"at least: {record.lower:.1%}").get_xdata(), record.lower)
    assert f"{record.lower:.1%}" in ax.get_title(loc="right")
    assert all(label.get_text().endswith("%") for label in ax.get_xticklabels())


def test_no_more_misfit_than_by_chance_is_said():
    ax = plots.plot_misfit(Misfit(np.full(50, 0.04), np.full(50, 0.05)))
    assert "chance" in ax.get_title(loc="right")
    assert line(ax, "at least: 0.0%").get_xdata()[0] == 0


def test_misfit_by_level_shows_every_level_over_its_floor():
    record = a_misfit(("north", "south"))
    ax = plots.plot_misfit(record)
    parts = [record, *record.by.values()]
    assert [t.get_text() for t in ax.get_yticklabels()] == ["all rows", "north", "south"]
    assert np.allclose([bar.get_width() for bar in ax.patches], [p.floor_high for p in parts])
    assert np.allclose(segments(ax, BLUE)[:, :, 0], [(p.low, p.high) for p in parts])
    assert np.allclose(line(ax, "of these data").get_xdata(), [p.mean for p in parts])
    assert np.allclose(line(ax, "at least").get_xdata(), [p.lower for p in parts])


def test_bars_hang_from_the_expected_curve():
    record, twin = a_rootogram(), a_rootogram()
    ax = plots.plot_rootogram(record, twin, outcome="visits")
    seen, band = ax.containers
    top = np.sqrt(record.expected)
    for bar, begin, end in zip(seen, top, top - np.sqrt(record.observed), strict=True):
        assert np.allclose(sorted([bar.get_y(), bar.get_y() + bar.get_height()]), [end, begin])
    for bar, begin, low, high in zip(band, top, record.low, record.high, strict=True):
        ends = bar.get_y(), bar.get_y() + bar.get_height()
        assert np.allclose(ends, (begin - np.sqrt(high), begin - np.sqrt(low)))
    for label in ("expected: robust", "expected: likelihood"):
        assert np.allclose(line(ax, label).get_ydata(), top)
    assert "square root" in ax.get_ylabel()
    assert ax.get_xlabel() == "visits"
    assert ax.get_ylim()[1] > top.max()


def test_sixty_bars_have_some_names_the_first_and_the_last_among_them():
    ax = plots.plot_rootogram(a_rootogram(60))
    shown = [label.get_text() for label in ax.get_xticklabels()]
    assert shown[0] == "0"
    assert shown[-1] == "59 or more"
    assert 4 < len(shown) < 30


def test_rootograms_of_other_bars_are_refused():
    with pytest.raises(tb.DataError, match="same bars; got 8"):
        plots.plot_rootogram(a_rootogram(), a_rootogram(9))


def test_a_wild_prediction_does_not_stretch_the_axes():
    record = a_calibration()
    wild = replace(record, predicted=np.r_[record.predicted[:-1], 1e5])
    wide = replace(record, high=record.high + 1e5)
    plain, *others = (plots.plot_calibration(record, other) for other in (None, wild, wide))
    for ax in others:
        assert ax.get_xlim() == ax.get_ylim()
        assert np.ptp(ax.get_xlim()) < 6 * np.ptp(plain.get_xlim())
    assert "1 more beyond" in others[0].get_xlabel()
    assert "beyond" not in plain.get_xlabel() + others[1].get_xlabel()


def test_calibration_says_in_words_what_it_shows():
    assert str(a_calibration()).startswith("Seen and predicted agree in 5 of 5 bins (")
    assert "in 0 of 5 bins; 5 predicted too high (" in str(a_calibration(0.2))
    assert "in 0 of 5 bins; 5 predicted too low (" in str(a_calibration(-0.2))
    assert "typically reach 0.1 to either side" in str(a_calibration())
    unknown = np.full(5, np.nan)
    assert "too few rows" in str(replace(a_calibration(), low=unknown, high=unknown))


def test_calibration_shows_each_bin_by_its_size():
    record, other = a_calibration(), a_calibration(0.1)
    ax = plots.plot_calibration(record, other, outcome="share")
    for label, colour, bins in (("robust", BLUE, record), ("likelihood", VERMILLION, other)):
        shown = points(ax, label)
        assert np.allclose(shown.get_offsets(), np.column_stack([bins.predicted, bins.observed]))
        assert np.allclose(shown.get_sizes() / shown.get_sizes()[-1], bins.counts / 50)
        assert np.allclose(segments(ax, colour)[:, :, 1].T, [bins.low, bins.high])
    assert ax.get_xlim() == ax.get_ylim()
    assert ax.get_xlabel().startswith("predicted share")
    assert line(ax, "as predicted").get_slope() == 1


def test_a_bin_without_an_interval_is_a_point():
    one = np.array([1.0, 2.0])
    gap = np.array([np.nan, 1.5])
    ax = plots.plot_calibration(Calibration(one, one, gap, gap + 1, one))
    assert len(points(ax, "robust").get_offsets()) == 2
    assert len(segments(ax, BLUE)) == 1


def test_groups_show_what_was_seen_beside_the_interval():
    ax = groups()
    assert np.allclose(line(ax, "seen").get_xdata(), [1, 2, 3])
    assert np.allclose(segments(ax, BLUE)[:, :, 0], [(0, 2), (1, 3), (2, 4)])


def test_flagged_rows_stand_out_and_at_most_ten_are_named():
    ax = rows(n=300, every=9)
    assert len(points(ax, "flagged").get_offsets()) == 34
    assert len(points(ax, "others").get_offsets()) == 266
    assert 0 < len(ax.texts) <= 10
    assert all(int(text.get_text()) % 9 == 0 for text in ax.texts)


def test_the_worst_rows_are_named_first():
    score = np.array([0.9, 0.99, 0.95])
    ax = plots.plot_rows([10, 2_345_678, 30], score, [True] * 3)
    assert [text.get_text() for text in ax.texts] == ["2345678", "30", "10"]


def test_more_probable_rows_have_larger_markers():
    ax = plots.plot_rows([0, 1], [0.5, 0.5], [True, True], probability=[0.2, 0.9])
    small_one, large_one = points(ax, "flagged").get_sizes()
    assert small_one < large_one


def test_a_million_rows_are_kept_as_an_image():
    ax = rows(n=200_000, every=1000)
    assert points(ax, "others").get_rasterized()
    assert not points(ax, "flagged").get_rasterized()


def test_bands_follow_x_in_order():
    mean = np.array([3.0, 1.0, 2.0])
    ax = plots.plot_bands(
        [30, 10, 20], (mean, mean - 1, mean + 2), (mean, mean, mean), xlabel="x", ylabel="y"
    )
    assert line(ax, "robust").get_xdata().tolist() == [10, 20, 30]
    assert line(ax, "robust").get_ydata().tolist() == [1, 2, 3]
    band = next(c for c in ax.collections if isinstance(c, PolyCollection))
    corners = {tuple(corner) for corner in band.get_paths()[0].vertices}
    assert {(10, 0), (10, 3), (20, 1), (20, 4), (30, 2), (30, 5)} <= corners
    assert line(ax, "likelihood").get_linestyle() == "--"


def test_whole_numbers_are_moved_a_little_and_always_in_the_same_way():
    first, again = (points(bands(), "rows").get_offsets() for _ in range(2))
    assert np.array_equal(first, again)
    kept = np.arange(60) % 10 != 0
    exact = np.column_stack([np.repeat([1, 2, 3], 20), np.arange(60) % 7])[kept]
    assert 0 < np.abs(first - exact).max() <= 0.2
    assert len(points(bands(), "flagged").get_offsets()) == 6


def test_fractions_are_not_moved():
    seen = ([1.5, 2.5], [0.25, 0.75], [False, False])
    ax = plots.plot_bands([1, 2], ([1, 2],) * 3, None, seen, xlabel="x", ylabel="y")
    assert np.allclose(points(ax, "rows").get_offsets(), [(1.5, 0.25), (2.5, 0.75)])


@pytest.mark.parametrize("x", [("a", "b", "c"), (True, False, "maybe")])
def test_levels_have_dots_side_by_side(x):
    ax = bands(x=x)
    assert [label.get_text() for label in ax.get_xticklabels()] == [str(v) for v in x]
    robust, ordinary = segments(ax, BLUE), segments(ax, VERMILLION)
    assert np.allclose(robust[:, :, 1], [(0.5, 2), (2.5, 4), (1.5, 3)])
    assert (robust[:, 0, 0] < ordinary[:, 0, 0]).all()


def test_one_number_is_a_dot():
    ax = plots.plot_bands([5], ([1], [0], [2]), xlabel="x", ylabel="y")
    assert line(ax, "robust").get_xdata() == [5]
    assert np.allclose(segments(ax, BLUE)[0, :, 1], [0, 2])


def test_a_path_widens_from_what_is_needed_and_marks_where_the_sign_is_lost():
    path = a_path()
    (ax,) = plots.plot_sensitivity(path, shares=np.linspace(0, 0.4, 41))
    (band,) = (c for c in ax.collections if isinstance(c, PolyCollection))
    corners = band.get_paths()[0].vertices
    assert np.isclose(corners[:, 0].min(), path.needed)
    at = np.isclose(corners[:, 0], 0.15)
    assert np.allclose(sorted(corners[at, 1]), path.interval(0.15))
    # Where no value that was tried is impossible, the band leaves the picture.
    assert ax.get_ylim()[1] == path.values[-1] == corners[:, 1].max()
    assert ax.get_ylim()[0] < 0
    assert line(ax, "the sign is lost").get_xdata()[0] == path.sign_holds_to == 0.3
    assert line(ax, "the data need this").get_xdata()[0] == path.needed


def test_several_paths_are_panels_on_the_same_shares():
    paths = [a_path(name) for name in "abcd"] + [a_path("e", sign=0.1)]
    panels = plots.plot_sensitivity(paths)
    assert len(panels) == 5
    assert len({panel.figure for panel in panels}) == 1
    assert len({panel.get_xlim() for panel in panels}) == 1
    assert "not certain" in panels[4].get_title(loc="right")
    assert "the sign is lost" not in [item.get_label() for item in panels[4].lines]
    (legend,) = panels[0].figure.legends
    assert "the sign is lost" in [text.get_text() for text in legend.get_texts()]
    axes = Figure(layout="constrained").subplots(2, 2)
    assert plots.plot_sensitivity(paths[:4], ax=axes) == tuple(axes.ravel())


def test_ranks_are_bars_over_their_range():
    record = PitHistogram(np.linspace(0, 1, 5), np.array([0.5, 1.5, 1.2, 0.8]), 0.9, 1.1)
    ax = plots.plot_pit(record)
    (bars,) = ax.containers
    assert [bar.get_height() for bar in bars] == record.density.tolist()
    assert [bar.get_x() for bar in bars] == record.edges[:-1].tolist()
    span = next(p for p in ax.patches if p not in bars)
    assert np.allclose(
        span.get_extents().transformed(ax.transData.inverted()).intervaly, [0.9, 1.1]
    )


def test_residuals_are_in_order_against_normal_quantiles_with_the_band_of_order_statistics():
    n = 50
    residuals = np.random.default_rng(5).normal(size=n)
    ax = plots.plot_residuals(np.append(residuals, np.nan))
    shown = line(ax, "rows")
    assert np.allclose(shown.get_ydata(), np.sort(residuals))
    assert np.allclose(shown.get_xdata(), norm.ppf((np.arange(n) + 0.5) / n))
    corners = ax.collections[0].get_paths()[0].vertices
    ends = norm.ppf(beta.ppf([0.05, 0.95], 1, n))
    assert np.allclose(
        np.sort(corners[np.isclose(corners[:, 0], shown.get_xdata()[0]), 1])[[0, -1]], ends
    )


def test_of_many_residuals_the_tails_stay_whole():
    residuals = np.random.default_rng(6).normal(size=100_000)
    shown = line(plots.plot_residuals(residuals), "rows").get_ydata()
    ordered = np.sort(residuals)
    assert len(shown) <= 2000
    assert np.array_equal(shown[:5], ordered[:5])
    assert np.array_equal(shown[-5:], ordered[-5:])


def test_records_of_a_fit_are_drawn_as_they_are():
    rng = np.random.default_rng(7)
    x = np.column_stack([np.ones(400), rng.integers(0, 3, 400)])
    y = rng.poisson(np.exp(x @ [0.8, 0.3]))
    y[:40] += 15
    cells = tb.Cells.from_rows(x, y, names=("Intercept", "age"))
    fit = tb.posterior_bootstrap(tb.Model(tb.Poisson()), cells, n_draws=50)
    ax = plots.plot_coefficients(fit.param_names, fit.draws, fit.kld_draws)
    assert np.isclose(line(ax, "robust").get_xdata()[0], fit.draws[:, 1].mean())
    shown = rootogram(fit)
    ax = plots.plot_rootogram(shown)
    assert np.isclose(sum(bar.get_height() ** 2 for bar in ax.containers[0]), 400)
    bins = calibration(fit)
    ax = plots.plot_calibration(bins, calibration(fit.twin))
    assert np.allclose(points(ax, "robust").get_offsets()[:, 1], bins.observed)
    assert plots.plot_pit(pit_histogram(fit)).patches[9].get_height() > 1.5
    at = np.arange(cells.n_cells)
    ax = plots.plot_residuals(quantile_residuals(fit, at))
    assert np.isfinite(line(ax, "rows").get_ydata()).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: plots.plot_coefficients(("a",), np.ones((5, 2)), np.ones((5, 2))), "shape"),
        (lambda: plots.plot_coefficients((), np.ones((5, 0)), np.ones((5, 0))), "shape"),
        (lambda: plots.plot_coefficients(("a",), [["x"]] * 5, np.ones((5, 1))), "numbers"),
        (lambda: plots.plot_coefficients(("a",), np.full((5, 1), np.nan), np.ones((5, 1))), "fin"),
        (lambda: plots.plot_coefficients(("a",), np.ones((1, 1)), np.ones((1, 1))), "2 draws"),
        (lambda: coefficients(interval=90), "interval"),
        (lambda: plots.plot_rows([], [], []), "number"),
        (lambda: plots.plot_rows([0, 1], [0.1], [True, False]), "score must have 2"),
        (lambda: plots.plot_rows([0, 1], [0.1, np.nan], [True, False]), "score must be finite"),
        (lambda: plots.plot_rows([0, 1], [0.1, 0.2], ["yes", "no"]), "flag must be a list"),
        (lambda: plots.plot_rows([0], [0.1], [True], labels=["a", "b"]), "labels"),
        (lambda: plots.plot_residuals([np.nan, 1.0]), "at least 2"),
        (lambda: plots.plot_residuals([np.inf, 1.0]), "residuals must be finite"),
        (lambda: plots.plot_residuals(["a", "b"]), "residuals must be a list"),
        (lambda: plots.plot_bands([], ([], [], []), xlabel="", ylabel=""), "x must be"),
        (lambda: plots.plot_bands([1, 2], ([1],) * 3, xlabel="", ylabel=""), "robust must have 2"),
        (
            lambda: plots.plot_bands(
                ["a"], ([1],) * 3, None, (["z"], [1], [False]), xlabel="", ylabel=""
            ),
            "first: 'z'",
        ),
        (lambda: plots.plot_sensitivity([]), "at least one"),
        (lambda: plots.plot_sensitivity(a_path(), shares=[0.1, 2]), "from 0 to 1"),
        (lambda: plots.plot_sensitivity([a_path()] * 2, ax=small()), "2 axes"),
    ],
)
def test_what_cannot_be_drawn_is_named(call, message):
    with pytest.raises(tb.TVDBayesError, match=message):
        call()
