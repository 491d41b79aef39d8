"""The page of a fit: what it says is what the fit says, and nothing in the data becomes markup."""

import base64
import hashlib
import re
import subprocess
import sys
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest

import tvdbayes as tb
from tvdbayes.fitting import story as _story
from tvdbayes.fitting.story import story_of
from tvdbayes.models.model import name_of
from tvdbayes.report import _page, _tables
from tvdbayes.report import render as render_story
from tvdbayes.report._page import page_of
from tvdbayes.report._story import call_of, code_of
from tvdbayes.report._tables import Estimate, Line, listed, number, row_table
from tvdbayes.sampling.statements import differing

SCRIPT = "<script>alert(1)</script>"
LINK = '=HYPERLINK("http://x","y")'
VOID = {"meta", "img", "input"}


class Tree(HTMLParser):
    """Tags with their attributes, all text outside of script and style, and what is left open."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.text, self.open = [], [], []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("script", "style"):
            self.text.append(data)

    def all(self, *tags):
        return [attrs for tag, attrs in self.tags if tag in tags]

    @property
    def words(self):
        return " ".join(" ".join(self.text).split())


def wrong_counts(n=400, seed=0, **columns):
    """Poisson counts with a slope of 0.3 in z, a tenth of them far too high."""
    rng = np.random.default_rng(seed)
    z = rng.integers(0, 3, n)
    visits = rng.poisson(np.exp(0.5 + 0.3 * z))
    visits[: n // 10] += 12
    return {"visits": visits, "z": z, "g": rng.choice(["a", "b"], n), **columns}


@pytest.fixture(scope="module")
def fit():
    return tb.fit("visits ~ z + g", wrong_counts(), n_draws=200)


@pytest.fixture(scope="module")
def page(fit):
    return render(fit)


@pytest.fixture(scope="module")
def plain(fit):
    return gathered(fit)


def render(fit, **texts):
    return render_story(story_of(fit), **texts)


def gathered(fit):
    return page_of(story_of(fit), title=None, command=None)


def test_the_same_fit_gives_the_same_page(fit, page):
    assert render(fit) == page


@pytest.mark.parametrize("averages", [True, False])
def test_a_fit_is_asked_once_for_each_fact(fit, monkeypatch, averages):
    asked = []
    for name in ("misfit", "_rows", "predictions"):
        method = getattr(tb.Fit, name)

        def count(self, *args, name=name, method=method, **kwargs):
            asked.append(name)
            return method(self, *args, **kwargs)

        monkeypatch.setattr(tb.Fit, name, count)
    story = story_of(fit, averages=averages)
    page_of(story, title=None, command=None)
    # One prediction for the data as they are, one for z and one for g.
    assert asked == ["misfit", "_rows", *["predictions"] * 3 * averages]
    assert (story.averages is None) != averages


def test_headings_are_ordered_and_ids_unique(page):
    tree = Tree(page)
    assert tree.open == []
    levels = [int(tag[1]) for tag, _ in tree.tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert max(np.diff(levels)) <= 1
    assert tree.all("html") == [{"lang": "en"}]
    ids = [attrs["id"] for _, attrs in tree.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    references = [
        attrs[key] for _, attrs in tree.tags for key in ("aria-labelledby", "for") if key in attrs
    ]
    references += [attrs["href"][1:] for attrs in tree.all("a")]
    assert len(references) > 10
    assert set(references) <= set(ids)


def test_every_table_has_a_caption_and_every_header_a_scope(page):
    tree = Tree(page)
    assert len(tree.all("table")) == len(tree.all("caption")) == 5
    assert {attrs.get("scope") for attrs in tree.all("th")} == {"col", "row"}


def test_every_picture_is_inside_and_has_a_text_with_numbers(page):
    pictures = Tree(page).all("img")
    assert len(pictures) == 4
    for picture in pictures:
        head, data = picture["src"].split(",", 1)
        assert head == "data:image/svg+xml;base64"
        assert ElementTree.fromstring(base64.b64decode(data)).tag.endswith("svg")
        assert len(re.findall(r"\d", picture["alt"])) > 8


def test_nothing_is_loaded_from_elsewhere(page):
    tree = Tree(page)
    addresses = [
        attrs[key]
        for _, attrs in tree.tags
        for key in ("src", "href", "action", "srcset", "data", "poster")
        if key in attrs
    ]
    assert all(address.startswith(("data:image/svg+xml", "#")) for address in addresses)
    assert not tree.all("link", "iframe", "object", "embed", "form", "base")
    assert "url(" not in page
    assert "@import" not in page


def test_the_policy_allows_the_one_script_and_no_other(page):
    (policy,) = (a["content"] for a in Tree(page).all("meta") if "http-equiv" in a)
    (script,) = re.findall("<script>(.*?)</script>", page, flags=re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}';" in policy
    assert policy.startswith("default-src 'none';")
    assert not [key for _, a in Tree(page).tags for key in a if key.startswith("on")]


def test_names_and_levels_show_as_text():
    data = wrong_counts()
    data[SCRIPT] = data.pop("z")
    data["g"] = np.where(data["g"] == "a", LINK, "<img src=x onerror=alert(2)>")
    fit = tb.fit(f"visits ~ `{SCRIPT}` + g", data, n_draws=50)
    page = render(fit, title="<b>a & b</b>", command="tvdbayes fit 'x' <script>")
    assert len(re.findall("<script", page)) == 1
    tree = Tree(page)
    assert len(tree.all("script")) == 1
    assert len(tree.all("b")) == 0
    assert SCRIPT in tree.words
    assert LINK in tree.words
    assert "<img src=x onerror=alert(2)>" in tree.words
    assert "<b>a & b</b>" in tree.words
    assert "tvdbayes fit 'x' <script>" in tree.words
    assert any(SCRIPT in attrs["alt"] for attrs in tree.all("img"))


def test_any_text_can_be_a_level():
    names = ["other", "a\x01b", "\u202eabc", "年齢", "a" * 300, "$x_1$"]
    data = wrong_counts(300)
    data["g"] = np.array(names, object)[np.arange(300) % len(names)]
    tree = Tree(render(tb.fit("visits ~ g", data, n_draws=20)))
    for name in names:
        assert "g=" + re.sub("[\x01\u202e]", "\ufffd", name) in tree.words
    for picture in tree.all("img"):
        ElementTree.fromstring(base64.b64decode(picture["src"].split(",", 1)[1]))


def test_a_title_that_is_no_text_can_be_written(fit):
    assert "<h1>a\ufffd</h1>" in render(fit, title="a\ud800")


def test_the_coefficients_are_those_of_the_summary(fit, page, plain):
    table, lines = fit.summary(), plain.coefficients
    for j, line in enumerate(lines):
        assert line.name == fit.param_names[j]
        assert line.robust.mean == number(table["mean"][j])
        assert line.robust.interval == f"{number(table['low'][j])} to {number(table['high'][j])}"
        assert line.ordinary.mean == number(table["kld_mean"][j])
        assert line.difference.mean == number(table["diff"][j])
        assert line.differs == differing(fit.draws, fit.kld_draws)[j]
        assert f"{line.robust.mean} {line.robust.interval}" in Tree(page).words


def test_wrong_rows_are_in_the_headline(fit, page):
    misfit = fit.misfit()
    assert misfit.lower > 0
    words = Tree(page).words
    assert misfit.about_share in words
    assert f"at least {misfit.lower:.1%} of the rows do not come from the fitted model." in words
    assert f"Chance alone would leave {misfit.floor:.1%}" in words
    flagged = int(fit.rows()["flag"].sum())
    assert f"{flagged} of 400 rows stand out" in words


def test_clean_data_are_said_to_be_explained():
    visits = np.random.default_rng(1).poisson(3, 300)
    words = Tree(render(tb.fit("visits ~ 1", {"visits": visits}, n_draws=200))).words
    assert "Chance alone would leave" in words
    assert ": no more than that." in words
    assert "The robust and the likelihood fit do not differ by more than chance" in words
    assert "How are the values of visits distributed?" in words


def line(name, robust, ordinary, differs=True):
    return Line(name, Estimate(""), Estimate(""), Estimate(""), "", differs, robust, ordinary)


def test_a_changed_conclusion_is_named():
    (said,) = _page._conclusions((line("Intercept", 1, 0), line("age", 0, 1), line("x", 1, 1)))
    assert said.endswith("conclusions change for age (likelihood fit above 0, robust uncertain).")


def test_changed_sizes_are_told_from_changed_conclusions():
    (said,) = _page._conclusions((line("age", 1, 1), line("x", 1, 1)))
    assert said == "Both fits agree on the sign of every coefficient; only the sizes differ."
    same, unsure = _page._conclusions((line("age", 1, 1), line("x", 0, 1, differs=False)))
    assert same == "Both fits agree on the sign of these; only the sizes differ."
    assert unsure.startswith("How sure one can be changes for x (likelihood fit above 0, robus")


def test_fits_that_agree_have_no_conclusions_to_compare():
    assert not list(_page._conclusions((line("x", 0, 1, differs=False),)))


def test_the_page_says_in_which_coefficients_the_fits_differ(fit, plain):
    (said,) = (f.text for f in fit.check().findings if f.about == "likelihood fit")
    assert said.startswith("The robust and the likelihood fit differ in Intercept and z (5%")
    assert any(said.startswith(answer) for answer in plain.answers)


def test_rows_that_stand_out_come_first_and_not_all_are_listed(monkeypatch):
    monkeypatch.setattr(_tables, "_MOST_ROWS", 20)
    data = wrong_counts(700)
    fit = tb.fit("visits ~ z", data, n_draws=50)
    story, rows = story_of(fit), fit.rows()
    table = row_table(story)
    n_different = len({*zip(data["visits"], data["z"], strict=True)})
    assert len(table.lines) == 20 < n_different
    assert table.shown.startswith(f"Of {n_different} different rows the 20 most suspicious")
    assert story.n_flagged == rows["flag"].sum() > 20
    listed_rows = [int(cells[0].text) for cells in table.lines]
    assert rows["flag"][listed_rows].is_monotonic_decreasing
    assert rows["surprise"][listed_rows].is_monotonic_decreasing
    column = table.headings.index("visits")
    assert [int(cells[column].text) for cells in table.lines] == list(data["visits"][listed_rows])


def test_rows_that_the_fit_left_out_are_counted_and_not_listed():
    data = wrong_counts(200)
    data["z"] = data["z"].astype(float)
    data["z"][[3, 7]] = np.nan
    with pytest.warns(tb.MissingRowsWarning):
        fit = tb.fit("visits ~ z", data, n_draws=20, missing="drop")
    story = story_of(fit)
    assert story.n_known == 198
    assert {"3", "7"}.isdisjoint(cells[0].text for cells in row_table(story).lines)
    facts = dict(_page._facts(story))
    assert facts["Rows"] == "200, of which 2 were left out (gaps or a weight of zero)"
    assert "missing='drop'" in call_of(fit).text


def test_predictions_are_those_of_the_fit(fit, plain):
    at = fit.predictions({"g": ["a", "b"]}).summary()
    lines = {line.name: line for line in plain.averages}
    assert list(lines) == ["as in the data", "z=0", "z=1", "z=2", "g=a", "g=b"]
    assert lines["g=b"].robust.mean == number(at["mean"][1])
    (slope,) = plain.slopes
    assert slope.robust.mean == number(fit.effects("z").summary()["mean"][0])


def test_numbers_taken_as_categories_have_no_slope():
    found = gathered(tb.fit("visits ~ C(z)", wrong_counts(), n_draws=20))
    assert [line.name for line in found.averages[1:]] == ["z=0", "z=1", "z=2"]
    assert found.slopes == ()


def test_a_slope_that_does_not_exist_is_explained():
    data = wrong_counts()
    data["x"] = np.arange(400.0) % 4
    (note,) = gathered(tb.fit("visits ~ sqrt(x)", data, n_draws=20)).averages_notes
    assert note.startswith("x: ")
    assert "no finite slope" in note


def test_predictions_that_take_too_long_are_named(fit, monkeypatch):
    monkeypatch.setattr(_story, "_MOST_WORK", 0)
    found = gathered(fit)
    assert [line.name for line in found.averages] == ["as in the data"]
    assert found.averages_notes[0].startswith("Not shown here, for time and room: z and g.")


@pytest.mark.parametrize("n_draws", [0, 1])
def test_without_draws_there_are_numbers_but_no_intervals(n_draws):
    fit = tb.fit("visits ~ z + g", wrong_counts(200), n_draws=n_draws)
    tree = Tree(render(fit))
    assert number(fit.estimate[1]) in tree.words
    assert "too few draws" in tree.words
    assert "interval does not hold" not in tree.words
    assert len(tree.all("img")) == 2


def test_categories_have_a_page():
    rng = np.random.default_rng(0)
    data = {"mode": rng.choice(["bus", "car", "foot"], 300), "x": rng.integers(0, 3, 300)}
    tree = Tree(render(tb.fit("mode ~ x", data, family="categorical", n_draws=50)))
    assert "x=0, P(foot)" in tree.words
    assert any("probability of mode = foot" in attrs["alt"] for attrs in tree.all("img"))


def test_answers_out_of_trials_have_a_page():
    rng = np.random.default_rng(0)
    data = {"right": rng.binomial(8, 0.4, 300), "asked": np.full(300, 8)}
    fit = tb.fit("right / asked ~ 1", data, family="binomial", n_draws=50)
    page = gathered(fit)
    assert dict(page.facts)["Trials"] == "asked"
    assert page.question == "How are the values of right distributed?"
    assert page.calibration is None
    assert "trials=" not in page.command


def test_an_ordinary_fit_has_nothing_to_compare():
    page = render(tb.fit("visits ~ z", wrong_counts(), divergence="kld", n_draws=50))
    words = Tree(page).words
    assert "The fit is by maximum likelihood." in words
    assert "difference" not in words
    assert "coefficients differ" not in words


def test_problems_come_first_and_are_in_the_headline():
    rng = np.random.default_rng(0)
    x = rng.normal(size=60)
    with pytest.warns(tb.SmallGroupsWarning):
        fit = tb.fit(
            "y ~ x",
            {"y": rng.poisson(3, 60), "x": x},
            partition="distinct",
            n_draws=20,
            refine=None,
        )
    page = gathered(fit)
    assert page.findings[0].level == "problem"
    assert page.findings[-1].level == "good"
    assert any("to a problem" in sentence for sentence in page.answers)


def test_levels_that_look_like_classes_stay_as_they_are():
    family = tb.Categorical(("A(b", "it's", 'B("x'))
    assert eval(code_of(family), {"tb": tb}) == family


@pytest.mark.parametrize(
    ("family", "name"),
    [
        (tb.ZeroInflated(tb.NegativeBinomial()), "Zero Inflated Negative Binomial"),
        (tb.Bernoulli(tb.Probit()), "Bernoulli"),
        (tb.Categorical(("Poisson(", "b")), "Categorical"),
    ],
)
def test_families_have_names_in_words(family, name):
    assert name_of(family) == name


def test_the_file_is_the_page(fit, page, tmp_path):
    path = tmp_path / "fit.html"
    path.write_text("old")
    fit.report(path)
    assert path.read_bytes() == page.encode("utf-8")
    assert [p.name for p in tmp_path.iterdir()] == ["fit.html"]


@pytest.mark.parametrize(
    ("name", "words"),
    [("none/fit.html", "folder that does not exist"), (".", "is a folder")],
)
def test_a_wrong_place_is_refused_before_any_work(fit, tmp_path, monkeypatch, name, words):
    monkeypatch.setattr("tvdbayes.fitting.story.story_of", lambda *_, **__: pytest.fail("worked"))
    with pytest.raises(tb.StorageError, match=words):
        fit.report(tmp_path / name)


def test_a_failure_leaves_the_old_file(fit, tmp_path, monkeypatch):
    path = tmp_path / "fit.html"
    path.write_text("old")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tvdbayes.fitting.story.render", lambda *_, **__: "new")
    monkeypatch.setattr("os.replace", full)
    with pytest.raises(tb.StorageError, match="No space left"):
        fit.report(path)
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["fit.html"]


def test_a_folder_that_cannot_be_written_to_is_named(fit, tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tvdbayes.fitting.story.story_of", lambda *_, **__: pytest.fail("worked"))
    monkeypatch.setattr("builtins.open", refuse)
    with pytest.raises(tb.StorageError, match=r"'.*fit\.html' could not be written: Permission"):
        fit.report(tmp_path / "fit.html")


def test_importing_the_room_is_light():
    code = (
        "import sys, tvdbayes.report; "
        "print([m for m in ('jinja2', 'matplotlib') if m in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


def test_pictures_do_not_depend_on_the_style_of_the_user(fit, page):
    matplotlib = pytest.importorskip("matplotlib")
    with matplotlib.rc_context({"axes.facecolor": "black", "font.size": 30}):
        assert render(fit) == page


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.0, "1"), (0.5, "0.500"), (-3.864, "\u22123.86"), (1234.5, "1,234")],
)
def test_numbers_have_three_digits_that_matter(value, text):
    assert number(value) == text


def test_lists_name_the_first():
    assert listed(["a"]) == "a"
    assert listed(["a", "b", "c", "d"], 2) == "a, b and 2 more"
