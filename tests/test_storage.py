"""Files: what was saved comes back bit for bit, or not at all."""

import hashlib
import io
import json
import os
import pickle
import warnings
import zipfile
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import tvdbayes as tb
from bits import assert_same
from tvdbayes import storage
from tvdbayes.fitting import record as _record
from tvdbayes.formula.guard import read_formula
from tvdbayes.formula.matrix import model_matrix
from tvdbayes.models.families import ALL_FAMILIES
from tvdbayes.objective.divergences import ALL_DIVERGENCES
from tvdbayes.objective.partitions import LearnedGroups, report_groups
from tvdbayes.results.prediction import NewRows, pmf
from tvdbayes.sampling.options import Options
from tvdbayes.storage import StorageError, _archive

LINE = tb.Linear()
PARTITIONS = (tb.Distinct(), tb.KMeansGroups((tb.Cluster(copies=2),)))


def table_of(family, partition, n=48):
    """A sample of the family, on two covariate values or as many as rows."""
    rng = np.random.default_rng(7)
    x = np.column_stack([np.ones(n), np.repeat([0.0, 1.0], n // 2)])
    if partition.pools_rows:
        x[:, 1] = rng.normal(size=n)
    trials = np.full(n, 4.0 if family.needs_trials else 1.0)
    y = family.sample(rng, np.full((len(family.predictors), n), 0.2), trials)
    return tb.Cells.from_rows(x, y, trials=trials, offset=0.1 * x[:, 1])


def quiet_posterior(family, partition, divergence=None, n_draws=4):
    """A fit of a family to its own sample; so few rows warn, which is beside the point here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tb.TVDBayesWarning)
        return tb.posterior_bootstrap(
            tb.Model(family),
            table_of(family, partition),
            divergence=divergence,
            partition=partition,
            n_draws=n_draws,
            ridge=0.01,
        )


def made_posterior(family, partition, n_draws=4, predictor=LINE):
    """The record of a fit that was never made: searches of some families take a minute."""
    rng = np.random.default_rng(8)
    cells, model = table_of(family, partition), tb.Model(family, predictor)
    names = model.param_names(cells)
    learned = partition.learn(cells, len(names), 0)
    codes = rng.integers(0, 3, (3, n_draws))
    return tb.Posterior(
        **{"model": model, "cells": cells, "divergence": tb.TVD(), "partition": learned},
        **dict(
            zip(
                ("minimiser", "kld_minimiser", "shift"),
                rng.normal(size=(3, len(names))),
                strict=True,
            )
        ),
        **dict(zip(("draws", "kld_draws"), rng.normal(size=(2, n_draws, len(names))), strict=True)),
        **dict(zip(("distance", "kld_distance"), rng.random((2, n_draws)), strict=True)),
        **dict(zip(("decrement", "residual"), rng.random((2, n_draws)), strict=True)),
        **dict(zip(("status", "n_iter", "kld_status"), codes, strict=True)),
        **{"param_names": names, "minimiser_distance": 0.1, "ridge": 0.0, "seed": 3},
        groups=report_groups(cells, learned.name, learned.group(cells)),
        options=Options(partition=partition, ridge=0.0, bins="auto"),
        bins=tb.Bins.starting_at([0, 1, 3], 9) if family.counts else None,
    )


@pytest.fixture(scope="module")
def posterior():
    made = quiet_posterior(tb.Poisson(), tb.KMeansGroups((tb.Cluster(copies=1),)))
    return replace(made, bins=tb.Bins.starting_at([0, 1, 3], 9))


@pytest.fixture
def saved(posterior, tmp_path):
    path = tmp_path / "fit.tvd"
    storage.save(posterior, path)
    return path


# Round trips


@pytest.mark.parametrize("partition", PARTITIONS, ids=lambda p: p.name)
@pytest.mark.parametrize("family", ALL_FAMILIES, ids=repr)
def test_every_family_comes_back_bit_for_bit(family, partition, tmp_path):
    before = made_posterior(family, partition)
    storage.save(before, tmp_path / "fit.tvd")
    after = storage.load(tmp_path / "fit.tvd")
    assert_same(before, after)
    np.testing.assert_array_equal(before.estimate, after.estimate)
    before_groups, after_groups = (p.partition.group(p.cells).groups for p in (before, after))
    np.testing.assert_array_equal(before_groups, after_groups)


NETWORKS = (
    tb.MLP(hidden=(3,)),
    tb.MLP(hidden=()),
    tb.MLP((4, 2), "tanh", False, 7, 0.1 + 0.2, 0.5, 32, 0, 0.0),
)


@pytest.mark.parametrize("network", NETWORKS, ids=repr)
@pytest.mark.parametrize(
    "family", [tb.Poisson(), tb.NegativeBinomial(), tb.Categorical(("a", "b", "c"))], ids=repr
)
def test_networks_come_back_bit_for_bit(family, network, tmp_path):
    before = made_posterior(family, PARTITIONS[0], predictor=network)
    storage.save(before, tmp_path / "fit.tvd")
    after = storage.load(tmp_path / "fit.tvd")
    assert_same(before, after)
    rows = NewRows.of(before, before.cells.x)
    assert pmf(before, rows, [0, 1]).tobytes() == pmf(after, rows, [0, 1]).tobytes()


@pytest.mark.parametrize("partition", [*PARTITIONS, tb.Singletons(), tb.Auto()], ids=repr)
@pytest.mark.parametrize("divergence", ALL_DIVERGENCES, ids=repr)
def test_every_divergence_and_partition_comes_back(divergence, partition, tmp_path):
    before = quiet_posterior(tb.Poisson(), partition, divergence)
    storage.save(before, tmp_path / "fit.tvd")
    assert_same(before, storage.load(tmp_path / "fit.tvd"))


@pytest.mark.parametrize("partition", [tb.Auto(), *PARTITIONS], ids=repr)
def test_a_partition_that_has_not_learned_yet_comes_back(posterior, partition, tmp_path):
    before = replace(posterior, partition=partition)
    storage.save(before, tmp_path / "fit.tvd")
    assert_same(before, storage.load(tmp_path / "fit.tvd"))


def test_learned_groups_and_bins_are_arrays_in_the_file(posterior, saved):
    assert isinstance(posterior.partition, LearnedGroups)
    with zipfile.ZipFile(saved) as archive:
        names = set(archive.namelist())
        centres = np.load(io.BytesIO(archive.read("posterior.partition.centres.0.npy")))
    assert {"header.json", "posterior.draws.npy", "posterior.bins.lows.npy"} <= names
    np.testing.assert_array_equal(centres, posterior.partition.centres[0])


@pytest.mark.parametrize("n_draws", [0, 1, 70])
def test_any_number_of_draws_comes_back_with_the_same_mean(n_draws, tmp_path):
    before = quiet_posterior(tb.Geometric(), tb.Distinct(), n_draws=n_draws)
    storage.save(before, tmp_path / "fit.tvd")
    after = storage.load(tmp_path / "fit.tvd")
    assert_same(before, after)
    # A sum depends on the order in memory in its last bit.
    assert before.estimate.tobytes() == after.estimate.tobytes()


def test_wide_layouts_keep_their_order_in_memory(posterior, tmp_path):
    wide = np.random.default_rng(0).normal(size=(2, 10_000))[:, :9_001].T
    flat = np.zeros(9_001)
    per_draw = dict.fromkeys(("distance", "decrement", "residual", "kld_distance"), flat)
    codes = dict.fromkeys(("status", "n_iter", "kld_status"), flat.astype(np.intp))
    before = replace(posterior, draws=wide, kld_draws=wide, **per_draw, **codes)
    storage.save(before, tmp_path / "fit.tvd")
    after = storage.load(tmp_path / "fit.tvd")
    assert before.draws.mean(0).tobytes() == after.draws.mean(0).tobytes()


def test_numbers_that_json_does_not_know_come_back(posterior, tmp_path):
    before = replace(posterior, minimiser_distance=float("nan"), ridge=np.float64(0.1))
    storage.save(before, tmp_path / "fit.tvd")
    after = storage.load(tmp_path / "fit.tvd")
    assert np.isnan(after.minimiser_distance)
    assert type(after.ridge) is np.float64
    assert after.ridge == before.ridge


def test_the_same_posterior_gives_the_same_bytes(posterior, saved, tmp_path):
    storage.save(posterior, tmp_path / "again")
    assert saved.read_bytes() == (tmp_path / "again").read_bytes()


def test_loaded_arrays_can_be_written_to(saved):
    storage.load(saved).draws[0] = 0.0


# Laws made of functions


def custom(name="halves", start=0.5):
    return tb.CustomFamily(
        log_pmf=lambda y, q: y * np.log(q) + np.log1p(-q),
        score=lambda y, q: [y / q - 1 / (1 - q)],
        curvature=lambda y, q: [[-y / q**2 - 1 / (1 - q) ** 2]],
        support=(0, None),
        parameters={"q": "logit"},
        start={"q": start},
        name=name,
    )


@pytest.mark.parametrize("wrap", [lambda law: law, tb.Hurdle], ids=["bare", "wrapped"])
def test_a_custom_family_is_asked_for_and_put_back(wrap, tmp_path):
    law = wrap(custom())
    before = quiet_posterior(law, tb.Distinct())
    path = tmp_path / "fit.tvd"
    storage.save(before, path)
    with pytest.raises(StorageError, match=r"'halves'.*load\(path, family="):
        storage.load(path)
    again = custom()
    assert storage.load(path, family=wrap(again)).model.family == wrap(again)
    after = storage.load(path, family=again)
    np.testing.assert_array_equal(after.draws, before.draws)
    assert after.model == tb.Model(wrap(again), before.model.predictor)


@pytest.mark.parametrize("other", [custom("thirds"), custom(start=0.4), tb.Poisson()], ids=repr)
def test_another_family_than_the_one_saved_is_refused(other, tmp_path):
    storage.save(quiet_posterior(custom(), tb.Distinct()), tmp_path / "fit.tvd")
    with pytest.raises(StorageError):
        storage.load(tmp_path / "fit.tvd", family=other)


def test_a_family_given_for_nothing_is_refused(saved):
    with pytest.raises(StorageError, match="not made with the family"):
        storage.load(saved, family=tb.Geometric())


# Formulas


FORMULAS = [
    "y ~ 1",
    "y ~ 0 + x",
    "y ~ C(g)",
    "y ~ g - 1",
    "y ~ C(k, Treatment(1))",
    "y ~ C(g, levels=['c', 'b', 'a'])",
    "y ~ cat + b",
    "y ~ scale(x) + center(z)",
    "y ~ poly(x, 3)",
    "y ~ bs(z, df=5)",
    "y ~ cr(z, df=4) - 1",
    "y ~ g * x + log(z):C(k)",
    "y ~ scale(log(z)) * g + I(x ** 2) + {x * z}",
    "y ~ `my column` + `my column`:g",
    "y ~ (x + z + g + b + C(k)) ** 3",
]


@pytest.fixture(scope="module")
def frame():
    rng, n = np.random.default_rng(3), 80
    return pd.DataFrame(
        {
            "y": rng.poisson(2, n),
            "x": rng.normal(size=n),
            "z": 1 + 5 * rng.random(n),
            "g": rng.choice(list("abc"), n),
            "k": rng.integers(0, 3, n),
            "b": rng.random(n) < 0.5,
            "cat": pd.Categorical(rng.choice(["u", "v"], n), categories=["v", "u"], ordered=True),
            "my column": rng.random(n),
        }
    )


def quiet_fit(formula, frame, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tb.TVDBayesWarning)
        return tb.fit(formula, frame, n_draws=2, ridge=0.01, partition="distinct", **options)


def encoded(spec, frame):
    return np.asarray(model_matrix(spec, frame)[0], float)


@pytest.mark.parametrize("formula", FORMULAS)
def test_new_data_are_encoded_as_before(formula, frame, tmp_path):
    terms = read_formula(formula, list(frame.columns)).terms
    matrix, _ = model_matrix(terms, frame, np.ones(len(frame)))
    before, forms = matrix.model_spec, _record._forms()
    storage.write_record(before, tmp_path / "spec", forms)
    after = storage.read_record(tmp_path / "spec", forms)
    # Few rows of the new data, so that levels, means and knots cannot be learned from them.
    new = frame.iloc[[5, 11, 12]].reset_index(drop=True)
    assert encoded(after, new).tobytes() == encoded(before, new).tobytes()
    assert after.column_names == before.column_names
    assert after.required_variables == before.required_variables


def test_a_fit_by_formula_comes_back(frame, tmp_path):
    before = quiet_fit("y ~ scale(x) + C(k)", frame)
    before.save(tmp_path / "fit.tvd")
    after = tb.load(tmp_path / "fit.tvd")
    assert_same(before, after)
    assert after.summary().to_dict().keys() == before.summary().to_dict().keys()
    replayed = encoded(after.encoding, frame)
    np.testing.assert_array_equal(replayed[:, 1:], encoded(before.encoding, frame)[:, 1:])


def test_further_predictors_come_back(frame, tmp_path):
    before = quiet_fit(
        "y ~ x", frame, family="zero_inflated_poisson", predictors={"inflation": "~ scale(z) + g"}
    )
    before.save(tmp_path / "fit.tvd")
    after = tb.load(tmp_path / "fit.tvd")
    assert_same(before, after)
    ((name, spec),) = after.more_encodings.items()
    new = frame.iloc[:4]
    np.testing.assert_array_equal(encoded(spec, new), encoded(before.more_encodings[name], new))


def test_a_loaded_fit_saves_to_the_same_bytes(frame, tmp_path):
    quiet_fit("y ~ poly(x, 2) + C(g)", frame).save(tmp_path / "one")
    tb.load(tmp_path / "one").save(tmp_path / "two")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_a_posterior_can_be_loaded_by_the_door(posterior, saved):
    assert_same(posterior, tb.load(saved))


def test_a_fit_is_more_than_a_posterior(frame, tmp_path):
    quiet_fit("y ~ 1", frame).save(tmp_path / "fit.tvd")
    with pytest.raises(StorageError, match=r"'ModelSpec'|'Fit'"):
        storage.load(tmp_path / "fit.tvd")


# The data of a fit


def test_the_data_of_a_fit_come_back_in_every_kind_of_column(frame, tmp_path):
    extended = frame.assign(
        level=pd.Categorical(frame["k"], [2, 0, 1]),
        small=frame["k"].astype("uint8"),
        short=frame["z"].astype("float32"),
    )
    before = quiet_fit(
        "y ~ g + cat + b + level + small + short", extended, exposure="z", weights="k"
    )
    before.save(tmp_path / "fit.tvd")
    after = tb.load(tmp_path / "fit.tvd")
    assert_same(before, after)
    kinds = {name: column.kind for name, column in after.data.columns.items()}
    assert kinds == {
        **{"y": "number", "b": "boolean", "cat": "ordered", "g": "text", "level": "category"},
        **{"small": "number", "short": "number", "z": "number"},
    }
    assert after.data.columns["level"].levels == (2, 1)
    assert (after.data.exposure, after.data.weights, after.data.trials) == ("z", "k", None)
    kept = extended[frame["k"] > 0].reset_index(drop=True)
    rows = after.data.frame().iloc[after.data.row[frame["k"] > 0]].reset_index(drop=True)
    for name in after.data.columns:
        assert rows[name].tolist() == kept[name].tolist()
    assert (after.data.row[frame["k"] == 0] == -1).all()
    np.testing.assert_array_equal(
        np.bincount(after.data.row[after.data.row >= 0], kept["k"]), after.data.counts
    )
    np.testing.assert_array_equal(
        after.data.cell[after.data.row[after.data.row >= 0]],
        after.cell_of_row[after.cell_of_row >= 0],
    )


def test_an_outcome_of_intervals_can_still_be_saved(frame, tmp_path):
    cut = frame.assign(y=pd.cut(frame["z"], 3))
    fit = quiet_fit("y ~ g", cut, family="ordinal")
    fit.save(tmp_path / "fit.tvd")
    assert_same(fit, tb.load(tmp_path / "fit.tvd"))


def columns(header):
    return dict(record(header)["data"]["fields"]["columns"]["dict"])


@pytest.fixture
def fitted(frame, tmp_path):
    path = tmp_path / "fit.tvd"
    quiet_fit("y ~ g + x", frame, offset="z").save(path)
    return path


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("fit.data.row.npy", 10_000),
        ("fit.data.row.npy", -2),
        ("fit.data.row.npy", 0),
        ("fit.data.cell.npy", 10_000),
        ("fit.data.cell.npy", -1),
        ("fit.data.counts.npy", 0),
        ("fit.data.counts.npy", np.nan),
        ("fit.cell_of_row.npy", 10_000),
        ("g", 3),
        ("g", -1),
        ("x", np.inf),
    ],
)
def test_data_that_point_nowhere_are_refused(fitted, part, value):
    def astray(parts):
        number = {"y": 0, "g": 1, "x": 2}
        name = f"fit.data.columns.{number[part]}.1.values.npy" if part in number else part
        wrong = parts[name].copy()
        assert len(set(wrong.tolist())) > 1 or value != wrong[-1]
        wrong[-1] = value
        return {**parts, name: wrong}

    with pytest.raises(StorageError, match=r"its (data|rows|input)"):
        tb.load(rewritten(fitted, as_it_is, astray))


@pytest.mark.parametrize(
    "change",
    [
        lambda h: record(h)["data"]["fields"].update(outcome="nothing"),
        lambda h: record(h)["data"]["fields"].update(offset=3),
        lambda h: record(h)["data"]["fields"].update(trials="lots"),
        lambda h: record(h)["data"]["fields"].update(columns={"dict": []}),
        lambda h: record(h)["data"]["fields"]["columns"]["dict"].pop(1),
        lambda h: record(h)["data"]["fields"].pop("row"),
        lambda h: columns(h)["g"]["fields"].update(levels={"tuple": ["a", "a", "b"]}),
        lambda h: columns(h)["g"]["fields"].update(levels={"tuple": [["a"], "b", "c"]}),
        lambda h: columns(h)["g"]["fields"].update(levels={"tuple": []}),
        lambda h: columns(h)["g"]["fields"].update(kind="boolean"),
        lambda h: columns(h)["x"]["fields"].update(kind="category"),
        lambda h: columns(h)["x"]["fields"].update(kind="object"),
        lambda h: columns(h)["x"]["fields"].update(values={"array": "fit.posterior.draws.npy"}),
    ],
)
def test_data_that_make_no_sense_are_refused(fitted, change):
    with pytest.raises(StorageError):
        tb.load(rewritten(fitted, change))


@pytest.mark.parametrize(
    "evil",
    [
        "__import__('os').system('true')",
        "I(open('/etc/hostname').read())",
        "x.__class__",
        "eval('1')",
        "`x` + {[i for i in x]}",
    ],
)
def test_a_formula_in_a_file_is_guarded(evil, frame, tmp_path):
    path = tmp_path / "fit.tvd"
    quiet_fit("y ~ x", frame).save(path)

    def poison(header):
        terms = record(header)["encoding"]["fields"]["terms"]
        assert terms == ["1", "`x`"]
        terms[1] = evil

    with pytest.raises(StorageError):
        tb.load(rewritten(path, poison))


# Files that must not be loaded


def rewritten(path, change, arrays=lambda parts: parts):
    """The file with another header and other arrays, and hashes that fit them."""
    with zipfile.ZipFile(path) as archive:
        header = json.loads(archive.read("header.json"))
        names = [name for name in archive.namelist() if name != "header.json"]
        parts = {name: np.load(io.BytesIO(archive.read(name))) for name in names}
    change(header)
    _archive.write_archive(path, header, arrays(parts))
    return path


def as_it_is(header):
    """Leave the header alone."""


def sealed(content):
    """Any bytes, closed with a seal as if they were ours."""
    assert content.endswith(b"0" * 64)
    return content[:-64] + hashlib.sha256(content[:-64]).hexdigest().encode()


def zipped(members, compression=zipfile.ZIP_STORED):
    """A sealed zip of any members."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, content in members:
            archive.writestr(name, content)
        archive.comment = b"tvdbayes sha256 " + b"0" * 64
    return sealed(buffer.getvalue())


def members_of(path):
    with zipfile.ZipFile(path) as archive:
        return [(name, archive.read(name)) for name in archive.namelist()]


def header_bytes(path):
    with zipfile.ZipFile(path) as archive:
        text = archive.read("header.json")
    return path.read_bytes().index(text), text


def test_a_flipped_byte_of_the_header_is_never_loaded(saved):
    whole = saved.read_bytes()
    start, text = header_bytes(saved)
    for at in range(start, start + len(text)):
        saved.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(StorageError, match="altered"):
            storage.load(saved)


def test_a_flipped_byte_anywhere_is_never_loaded(saved):
    whole = saved.read_bytes()
    places = [*range(0, len(whole), 37), *range(len(whole) - 120, len(whole))]
    for at in places:
        saved.write_bytes(whole[:at] + bytes([whole[at] ^ 0x20]) + whole[at + 1 :])
        with pytest.raises(StorageError):
            storage.load(saved)


def test_a_header_altered_with_its_seal_does_not_slip_through(saved):
    """Whoever can compute the seal can write any file; it must still hold a consistent fit."""
    whole = saved.read_bytes()
    start, text = header_bytes(saved)
    silent = []
    for at in range(start, start + len(text), 11):
        forged = whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 : -64] + b"0" * 64
        saved.write_bytes(sealed(forged))
        try:
            storage.load(saved)
        except StorageError:
            continue
        silent.append(at)
    assert not silent


def test_a_truncated_file_is_refused_at_any_length(saved):
    whole = saved.read_bytes()
    for length in [*range(0, len(whole), 101), *range(len(whole) - 100, len(whole))]:
        saved.write_bytes(whole[:length])
        with pytest.raises(StorageError, match=r"cut short|altered"):
            storage.load(saved)


def test_appended_bytes_are_refused(saved):
    saved.write_bytes(saved.read_bytes() + b"\0")
    with pytest.raises(StorageError):
        storage.load(saved)


def test_a_later_version_is_refused_by_name(saved):
    def later(header):
        header.update(version=2, library="9.9.9")

    with pytest.raises(StorageError, match=r"written by a later version of tvdbayes \(9.9.9"):
        storage.load(rewritten(saved, later))


@pytest.mark.parametrize("version", [0, -1, True, "1", None, 1.0])
def test_a_version_that_is_none_is_refused(saved, version):
    with pytest.raises(StorageError, match="no version"):
        storage.load(rewritten(saved, lambda header: header.update(version=version)))


@pytest.mark.parametrize(
    "content",
    [b"", b"hello", b"PK\x03\x04" + b"\0" * 200, pickle.dumps({"a": 1}), b"x" * 10_000],
    ids=["empty", "text", "zip-like", "pickle", "long"],
)
def test_a_foreign_file_is_refused(tmp_path, content):
    (tmp_path / "foreign").write_bytes(content)
    with pytest.raises(StorageError, match="not written by tvdbayes"):
        storage.load(tmp_path / "foreign")


def test_a_foreign_zip_is_refused(tmp_path):
    np.savez(tmp_path / "foreign.npz", a=np.ones(3))
    with pytest.raises(StorageError, match="not written by tvdbayes"):
        storage.load(tmp_path / "foreign.npz")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(StorageError, match=r"no file '.*nothing.tvd'"):
        storage.load(tmp_path / "nothing.tvd")


def test_a_zip_bomb_is_refused_before_it_is_read(saved, monkeypatch):
    members = [("bomb.npy", b"\0" * (1 << 24)), *members_of(saved)]
    saved.write_bytes(zipped(members, zipfile.ZIP_DEFLATED))
    assert saved.stat().st_size < 1 << 20
    monkeypatch.setattr(zipfile.ZipFile, "open", lambda *_: pytest.fail("read"))
    with pytest.raises(StorageError, match="compressed"):
        storage.load(saved)


def test_parts_that_claim_more_than_the_file_holds_are_refused(saved):
    content = zipped(members_of(saved))
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        size = archive.getinfo("posterior.draws.npy").file_size
    # The central directory stands behind the members; there both sizes are raised alike.
    entry = content.index(b"PK\x01\x02", content.rindex(b'"record"'))
    at = content.index(b"posterior.draws.npy", entry) - 46
    claim = (1 << 30).to_bytes(4, "little")
    assert content[at + 20 : at + 24] == size.to_bytes(4, "little")
    forged = content[: at + 20] + claim * 2 + content[at + 28 : -64] + b"0" * 64
    saved.write_bytes(sealed(forged))
    with pytest.raises(StorageError, match="declare"):
        storage.load(saved)


def test_pickled_objects_are_refused_and_not_run(saved, tmp_path):
    class Evil:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "ran"),)

    buffer = io.BytesIO()
    np.save(buffer, np.array([Evil()], object), allow_pickle=True)
    forge_array(saved, "posterior.draws.npy", buffer.getvalue())
    with pytest.raises(StorageError, match="objects are never read"):
        storage.load(saved)
    assert not (tmp_path / "ran").exists()


def forge_array(path, name, content):
    """Put other bytes in the place of an array."""
    path.write_bytes(zipped((dict(members_of(path)) | {name: content}).items()))


def test_an_array_whose_shape_lies_is_refused(saved):
    lie = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        lie, {"descr": "<f8", "fortran_order": False, "shape": (10**12, 10**12)}
    )
    forge_array(saved, "posterior.draws.npy", lie.getvalue())
    with pytest.raises(StorageError, match="longer or shorter"):
        storage.load(saved)


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("posterior.draws.npy", np.zeros((4, 3))),
        ("posterior.draws.npy", np.zeros(4)),
        ("posterior.draws.npy", np.zeros((4, 2), np.float32)),
        ("posterior.status.npy", np.zeros(4)),
        ("posterior.status.npy", np.zeros(5, np.intp)),
        ("posterior.cells.x_index.npy", np.zeros(3, np.intp)),
        ("posterior.cells.y.npy", np.zeros(1)),
        ("posterior.partition.common.npy", np.zeros((1, 5))),
        ("posterior.partition.maps.0.npy", np.zeros((9, 9))),
        ("posterior.bins.lows.npy", np.zeros(1)),
    ],
)
def test_arrays_that_do_not_belong_together_are_refused(saved, name, array):
    path = rewritten(saved, as_it_is, lambda parts: {**parts, name: array})
    with pytest.raises(StorageError):
        storage.load(path)


def test_cells_that_point_nowhere_are_refused(saved):
    def astray(parts):
        index = parts["posterior.cells.x_index.npy"].copy()
        index[-1] = 10_000
        return {**parts, "posterior.cells.x_index.npy": index}

    with pytest.raises(StorageError, match="covariate rows that are not there"):
        storage.load(rewritten(saved, as_it_is, astray))


def record(header):
    return header["record"]["fields"]


@pytest.mark.parametrize(
    "change",
    [
        lambda h: h.update(format="other"),
        lambda h: h.update(record={"class": "os.system", "fields": {}}),
        lambda h: h.update(record={"class": "StorageError", "fields": {}}),
        lambda h: h.update(record=None),
        lambda h: h.update(record=[1]),
        lambda h: h.pop("record"),
        lambda h: record(h).pop("seed"),
        lambda h: record(h).update(seed="1"),
        lambda h: record(h).update(seed=True),
        lambda h: record(h).update(more=1),
        lambda h: record(h).update(draws={"array": "nothing.npy"}),
        lambda h: record(h).update(draws={"pickle": "x"}),
        lambda h: record(h).update(draws={"numpy": ["object", 1]}),
        lambda h: record(h).update(ridge={"float": "1e5"}),
        lambda h: record(h).update(param_names={"tuple": ["a", "b"]}),
        lambda h: record(h).update(divergence={"class": "Poisson", "fields": {}}),
        lambda h: record(h)["model"]["fields"].update(predictor={"class": "TVD", "fields": {}}),
        lambda h: record(h)["model"]["fields"].update(
            predictor={"class": "Linear", "fields": {"columns": {"tuple": [{"tuple": [0, 2]}]}}}
        ),
        lambda h: record(h)["model"]["fields"].update(
            predictor={"class": "Linear", "fields": {"columns": {"tuple": [{"tuple": [0, -2]}]}}}
        ),
    ],
)
def test_a_header_that_makes_no_sense_is_refused(saved, change):
    with pytest.raises(StorageError):
        storage.load(rewritten(saved, change))


@pytest.fixture
def network_file(tmp_path):
    storage.save(
        made_posterior(tb.Poisson(), PARTITIONS[0], predictor=NETWORKS[0]), tmp_path / "net.tvd"
    )
    return tmp_path / "net.tvd"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"hidden": {"tuple": [-3]}}, "hidden layers"),
        ({"hidden": {"tuple": [0]}}, "hidden layers"),
        ({"hidden": {"tuple": [True]}}, "MLP.hidden"),
        ({"hidden": {"tuple": [3.0]}}, "MLP.hidden"),
        ({"hidden": [3]}, "MLP.hidden"),
        ({"hidden": {"tuple": [4]}}, "differ in number"),
        # Names of so many weights would fill any memory; their number is looked at first.
        ({"hidden": {"tuple": [10**12]}}, "differ in number"),
        ({"hidden": {"tuple": [10**400] * 50}}, "differ in number"),
        ({"hidden": {"tuple": [1] * 100_000}}, "differ in number"),
        ({"direct": False}, "differ in number"),
        ({"direct": 1}, "MLP.direct"),
        ({"activation": "__import__('os')"}, "MLP.activation"),
        ({"epochs": -1}, "epochs"),
        ({"epochs": 1.5}, "MLP.epochs"),
        ({"batch_rows": 0}, "batch_rows"),
        ({"learning_rate": {"float": "nan"}}, "learning_rate"),
        ({"second_rate": {"float": "inf"}}, "second_rate"),
        ({"weight_decay": -1}, "weight_decay"),
        ({"hold_out": "0.1"}, "MLP.hold_out"),
        ({"averages": True}, "averages"),
    ],
    ids=lambda part: str(part)[:40],
)
def test_a_network_that_makes_no_sense_is_refused(network_file, given, words):
    def change(header):
        record(header)["model"]["fields"]["predictor"]["fields"].update(given)

    with pytest.raises(StorageError, match=words):
        storage.load(rewritten(network_file, change))


def test_a_header_nested_without_end_is_refused(saved):
    deep = b'{"record": ' + b"[" * 200_000 + b"]" * 200_000 + b"}"
    saved.write_bytes(zipped([("header.json", deep)]))
    with pytest.raises(StorageError):
        storage.load(saved)


def test_two_parts_of_one_name_are_refused(saved):
    buffer = members_of(saved)
    with pytest.warns(UserWarning, match="Duplicate"):
        saved.write_bytes(zipped([*buffer, buffer[0]]))
    with pytest.raises(StorageError, match="same name"):
        storage.load(saved)


# Writing


@pytest.mark.parametrize("broken", ["fsync", "replace"])
def test_an_interrupted_write_leaves_the_old_file(posterior, saved, monkeypatch, broken):
    before = saved.read_bytes()

    def fail(*_):
        raise OSError("the disk is full")

    monkeypatch.setattr(os, broken, fail)
    with pytest.raises(StorageError, match=r"could not be written: the disk is full\."):
        storage.save(replace(posterior, seed=99), saved)
    assert saved.read_bytes() == before
    assert os.listdir(saved.parent) == [saved.name]


def test_an_interrupt_in_the_middle_leaves_the_old_file(posterior, saved, monkeypatch):
    before = saved.read_bytes()

    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(_archive, "_digest", stop)
    with pytest.raises(KeyboardInterrupt):
        storage.save(posterior, saved)
    assert saved.read_bytes() == before
    assert os.listdir(saved.parent) == [saved.name]


def test_what_cannot_be_saved_is_named_and_leaves_no_file(posterior, tmp_path):
    class Mine(type(posterior.divergence)):
        pass

    with pytest.raises(StorageError, match=r"posterior.divergence is a Mine"):
        storage.save(replace(posterior, divergence=Mine()), tmp_path / "fit.tvd")
    assert not os.listdir(tmp_path)


def test_a_folder_is_no_file(posterior, tmp_path):
    with pytest.raises(StorageError, match="is a folder"):
        storage.save(posterior, tmp_path)
    with pytest.raises(StorageError, match="does not exist"):
        storage.save(posterior, tmp_path / "nowhere" / "fit.tvd")


def test_a_link_goes_on_pointing_to_its_file(posterior, tmp_path):
    (tmp_path / "real.tvd").write_bytes(b"old")
    (tmp_path / "link.tvd").symlink_to(tmp_path / "real.tvd")
    storage.save(posterior, tmp_path / "link.tvd")
    assert (tmp_path / "link.tvd").is_symlink()
    assert_same(posterior, storage.load(tmp_path / "real.tvd"))
