"""Box plots in the layout of the paper: a panel for each criterion, a colour for each method.

Boxes hold the middle half, whiskers reach to the last value within one and a half of that, points
beyond are not shown, as in the paper. Published medians are white diamonds.
"""

from collections.abc import Collection, Mapping, Sequence

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from tvdbayes.experiments.contract import Box
from tvdbayes.experiments.published import Reading

COLOURS = {
    "TVD": "#009E73",
    "KLD": "#56B4E9",
    "Bayes": "#E69F00",
    "naive TVD": "#B2DF8A",
    "TVD released": "#B2DF8A",
    "TVD reweighted": "#00543D",
    "Bayes, same scores": "#FBE3B1",
    "Hellinger": "#CC79A7",
    "density power": "#D55E00",
}
"""The three colours of the paper, and others that colour-blind readers can tell from them."""

_WIDTH = 0.8
"""Of the boxes of one setting, where settings are 1 apart."""
_FLOOR = 0.01
"""Lower end of a logarithmic axis."""

Readings = Mapping[tuple[str, str, str], Reading]


def box_panels(
    boxes: Sequence[Box],
    methods: Sequence[str],
    criteria: Mapping[str, str],
    *,
    settings: Mapping[str, str],
    axis: str,
    readings: Readings,
    title: str,
) -> Figure:
    """Panels side by side, one for each criterion, settings along the horizontal axis."""
    figure = Figure(figsize=(3.6 * len(criteria), 3.9), layout="constrained")
    panels = figure.subplots(1, len(criteria), squeeze=False)[0]
    for ax, (criterion, label) in zip(panels, criteria.items(), strict=True):
        _draw(ax, boxes, methods, criterion, settings=settings, readings=readings)
        ax.set(xlabel=axis, title=label)
    _entitle(figure, methods, bool(readings), title)
    return figure


def _draw(
    ax: Axes,
    boxes: Sequence[Box],
    methods: Sequence[str],
    criterion: str,
    *,
    settings: Mapping[str, str],
    readings: Readings,
) -> None:
    known = {(box.setting, box.method): box for box in boxes if box.criterion == criterion}
    width = _WIDTH / len(methods)
    for number, method in enumerate(methods):
        for place, setting in enumerate(settings):
            box = known.get((setting, method))
            if box is None:
                continue
            at = place + (number - (len(methods) - 1) / 2) * width
            drawn = ax.boxplot(
                box.values.ravel(),
                positions=[at],
                widths=0.85 * width,
                sym="",
                patch_artist=True,
                manage_ticks=False,
                medianprops={"color": "black"},
            )
            drawn["boxes"][0].set_facecolor(COLOURS[method])
            reading = readings.get((setting, method, criterion))
            if reading is not None:
                ax.plot(at, reading.median, "D", ms=4, mfc="white", mec="black", mew=0.8, zorder=5)
    ax.set_xticks(range(len(settings)), list(settings.values()))
    ax.set_xlim(-0.6, len(settings) - 0.4)
    ax.spines[["top", "right"]].set_visible(False)


def _entitle(figure: Figure, methods: Sequence[str], published: bool, title: str) -> None:
    handles: list[Artist] = [
        Patch(facecolor=COLOURS[method], edgecolor="black", label=method) for method in methods
    ]
    if published:
        handles.append(
            Line2D([], [], ls="", marker="D", mfc="white", mec="black", label="published median")
        )
    legend_below(figure, handles, min(len(handles), 7))
    figure.suptitle(title, fontsize=11)


def legend_below(figure: Figure, handles: Sequence[Artist], n_columns: int) -> None:
    """A legend of all panels, below them."""
    figure.legend(
        handles=handles, loc="outside lower center", ncols=n_columns, frameon=False, fontsize=8
    )


def grid_panels(
    boxes: Sequence[Box],
    methods: Sequence[str],
    criteria: Mapping[str, str],
    *,
    settings: Mapping[str, str],
    readings: Readings,
    title: str,
    log_scale: Collection[str] = (),
) -> Figure:
    """One row for each criterion, one column for each data set, as in the paper's figure 4."""
    shape = len(criteria), len(settings)
    figure = Figure(figsize=(1.9 * shape[1] + 0.8, 2.6 * shape[0] + 0.6), layout="constrained")
    panels = figure.subplots(*shape, squeeze=False)
    for row, (criterion, label) in zip(panels, criteria.items(), strict=True):
        for ax, (setting, name) in zip(row, settings.items(), strict=True):
            _draw(ax, boxes, methods, criterion, settings={setting: ""}, readings=readings)
            ax.tick_params(bottom=False, labelsize=8)
            if criterion in log_scale:
                # A split may be predicted to all digits: its score would stretch the axis for ever.
                ax.set_yscale("log")
                ax.set_ylim(bottom=max(ax.get_ylim()[0], _FLOOR))
            if ax in panels[0]:
                ax.set_title(name, fontsize=10)
        row[0].set_ylabel(label)
    _entitle(figure, methods, bool(readings), title)
    return figure
