"""The compiled kernel says what NumPy says, in any instruction set, on any number of threads."""

import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from scipy import special

import tvdbayes as tb
from tvdbayes import (
    KLD,
    Bernoulli,
    Binomial,
    Cells,
    Cloglog,
    Logit,
    Model,
    NegativeBinomial,
    Poisson,
    Probit,
    Status,
    kernel,
)
from tvdbayes._errors import SettingsError
from tvdbayes.kernel import _library, build
from tvdbayes.objective import Layout, Objective
from tvdbayes.objective._compiled import Compiled
from tvdbayes.objective._penalty import degenerate
from tvdbayes.objective.partitions import Auto
from tvdbayes.objective.partitions._kmeans import nearest
from tvdbayes.sampling.execution import Joblib, Threads
from tvdbayes.solvers import newton
from tvdbayes.storage import load, save

HOME = Path(kernel.__file__).parent
LEVELS = sorted(_library._open(_library._path())[0])
needs_kernel = pytest.mark.skipif(not LEVELS, reason="there is no compiled kernel")
needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
needs_numpy_off = pytest.mark.skipif(
    os.environ.get("TVDBAYES_KERNEL") == "numpy", reason="the kernel is switched off"
)

# Elementary functions.


def elementary(which, x, lib=None):
    lib = lib or kernel.library()
    padded = np.concatenate([x, np.zeros(-x.size % lib.lanes)])
    out = np.empty_like(padded)
    with np.errstate(all="ignore"):
        lib.call("elementary", which, padded.size, padded, out)
    return out[: x.size]


def arguments(rng):
    ends = [0.0, -0.0, 745.0, -745.0, 709.0, -708.0, 1e-300, 1e5, -1e5, np.inf, -np.inf, np.nan]
    wide = np.concatenate([rng.uniform(-745, 709, 5000), rng.normal(0, 1, 5000), ends])
    unit = np.concatenate([rng.uniform(0, 1, 5000), 10 ** rng.uniform(-300, 0, 5000), [0.0, 1.0]])
    scaled = np.abs(wide[np.isfinite(wide)])
    return [
        *((0, np.exp, wide), (1, np.log1p, unit), (2, np.log, unit[unit > 0]), (3, np.sqrt, unit)),
        *((4, np.expm1, np.concatenate([wide, unit, -unit])), (5, special.erfcx, scaled)),
    ]


@needs_kernel
def test_elementary_functions_are_those_of_numpy(rng):
    with kernel.using("c"):
        for which, function, x in arguments(rng):
            found = elementary(which, x)
            with np.errstate(all="ignore"):
                true = function(x)
            # Products of subnormal numbers have fewer digits.
            np.testing.assert_allclose(found, true, rtol=1e-15, atol=1e-307)


@needs_kernel
@pytest.mark.parametrize("level", LEVELS)
def test_every_instruction_set_gives_the_same_bits(level, rng):
    known = _library._open(_library._path())[0]
    for which, _, x in arguments(rng):
        ours, plain = (elementary(which, x, known[name]) for name in (level, "plain"))
        np.testing.assert_array_equal(ours, plain)


# The likelihood.


def table(name, rng, n=203, d=4):
    """A table of one law: the family, and cells with continuous or repeated x."""
    x = np.column_stack([np.ones(n), rng.normal(size=(n, d - 1))])
    if "repeated" in name:
        x = np.column_stack([np.ones(n), rng.integers(0, 3, (n, d - 1))])
    eta, more = x @ rng.normal(0, 0.4, d), {}
    if "offset" in name:
        more["offset"] = rng.normal(size=n).round(1)
    if "binomial" in name:
        more["trials"] = rng.integers(1, 30, n)
        y = rng.binomial(more["trials"], 1 / (1 + np.exp(-eta)))
        return Binomial(link(name)), Cells.from_rows(x, y, **more)
    if "dispersed" in name:
        spread = 1.0 if "boundary" in name else rng.gamma(2, 0.5, n)
        y = rng.poisson(np.exp(eta) * spread) * (10**6 if "huge" in name else 1)
        return NegativeBinomial(), Cells.from_rows(x, y, **more)
    if "poisson" not in name:
        y = rng.random(n) < 1 / (1 + np.exp(-eta))
        return Bernoulli(link(name)), Cells.from_rows(x, y, **more)
    y = rng.poisson(np.exp(eta)) * (10**6 if "huge" in name else 1)
    return Poisson(), Cells.from_rows(x, y, **more)


def link(name):
    return Probit() if "probit" in name else Cloglog() if "cloglog" in name else Logit()


TABLES = [
    *("logit", "logit, repeated", "logit, offset", "binomial", "binomial, repeated, offset"),
    *("probit", "probit, repeated, offset", "binomial, probit"),
    *("cloglog", "cloglog, repeated, offset", "binomial, cloglog"),
    *("dispersed", "dispersed, repeated, offset"),
    *("poisson", "poisson, repeated", "poisson, offset", "poisson, huge"),
]


def stated(name, rng, n_draws=19, **more):
    """The objective of a likelihood, and random tables with zeros among their masses."""
    family, cells = table(name, rng, **more)
    objective = Objective(Layout(Model(family), cells, Auto(), cells), KLD(), 1e-6)
    p = rng.standard_gamma(cells.counts[:, None], (cells.n_cells, n_draws))
    p[rng.random(p.shape) < 0.2] = 0.0
    return objective, p / p.sum(0)


def steps(objective, rng, size, n_draws=19):
    """Parameters whose predictors reach about so far."""
    theta = rng.normal(size=(objective.layout.bound.n_params, n_draws))
    reach = np.abs(objective.layout.bound.eta(theta)).max((0, 1))
    return size * theta / reach


@needs_kernel
@needs_numpy_off
@pytest.mark.parametrize("size", [0.0, 1e-3, 1.0, 30.0, 700.0, 1e4])
@pytest.mark.parametrize("name", TABLES)
def test_value_and_gradient_are_those_of_numpy(name, size, rng):
    objective, p = stated(name, rng)
    theta = steps(objective, rng, size)
    compiled, bound = Compiled.of(objective.layout, 19), objective.layout.bound
    with kernel.using("numpy"):
        problem = objective.on(p)
        form, penalty = problem._form, problem.penalty
        grad = problem.at(theta).expansion.grad - penalty.grad(theta)
        loss = problem._loss(theta)
        ends = bound.eta(theta)[0]
        mean = objective.layout.family.mean(bound.eta(theta), objective.layout.x_trials)
        log_pmf, score, _ = objective.layout.cell_pairs.log_jet(theta)
    total = problem.layout.cell_pairs.x_of_pair.total
    # Relative to the sizes of what is added up.
    rows = total(p * (np.abs(objective.layout.cells.y[:, None]) + np.abs(score).sum(0)))
    rows += total(p) * mean
    size_of_grad = np.abs(np.hstack(bound.designs)).T @ rows
    found = compiled.slope(p, theta)
    assert (np.abs(found - grad) <= 1e-12 * size_of_grad).all()
    for masses in (p, np.asfortranarray(p)):
        np.testing.assert_array_equal(compiled.slope(masses, theta), found)
    if compiled.constant is not None:
        value = objective.on(p)._loss(theta)
        size_of_loss = (rows * (1 + np.abs(ends))).sum(0) + (p * np.abs(log_pmf)).sum(0)
        if form is not None:
            size_of_loss += np.abs(form.constant[:, 0]) @ p
        assert (np.abs(value - loss) <= 1e-12 * size_of_loss).all()


@needs_kernel
@needs_numpy_off
@pytest.mark.parametrize("name", TABLES)
def test_minima_are_those_of_numpy(name, rng):
    objective, p = stated(name, rng)
    start = np.zeros((objective.layout.bound.n_params, p.shape[1]))
    if name == "poisson, huge":
        start[0] = np.log(1e6)
    if "dispersed" in name:
        # The curvature there has both signs.
        start[0], start[-1] = np.log(objective.layout.cells.y @ objective.layout.cells.p), -1.0
    found = {}
    for choice in ("numpy", "c"):
        with kernel.using(choice):
            problem = objective.on(p)
            goal = replace(problem.accuracy, decrement=1e-10)
            found[choice] = newton(problem, start, accuracy=goal)
    plain, ours = found["numpy"], found["c"]
    assert (ours.status == Status.CONVERGED).all()
    # Data without overdispersion say little about a log dispersion; the values below are the same.
    sure = slice(-1 if "dispersed" in name else None)
    np.testing.assert_allclose(ours.theta[sure], plain.theta[sure], atol=2e-8)
    with kernel.using("numpy"):
        low, lowest = problem.value(ours.theta), problem.value(plain.theta)
    assert (low <= lowest + 1e-13 * (1 + np.abs(lowest))).all()
    assert (low >= lowest - 1e-10 * (1 + np.abs(lowest))).all()
    assert (np.abs(ours.value - low) <= 1e-12 * (1 + np.abs(low))).all()
    assert (ours.decrement < 1e-10).all()
    # None was left to NumPy.
    quick = objective.on(p).by_kernel(start, goal, False)
    assert (quick.status == Status.CONVERGED).all()
    np.testing.assert_array_equal(ours.n_iter, quick.n_iter)
    assert (quick.n_iter < 60).all()


@needs_kernel
@needs_numpy_off
def test_a_draw_does_not_depend_on_those_beside_it(monkeypatch, rng):
    objective, p = stated("logit", rng, n_draws=21)
    problem, compiled = objective.on(p), Compiled.of(objective.layout, 19)
    given = np.zeros(4), problem.penalty, problem.accuracy
    grad, curvature = compiled._beginning(p, given[0])
    whole = compiled.minimise(p, *given)
    for some in (np.array([20]), np.array([3, 17, 5]), np.arange(21)[::-1]):
        # What all draws begin with is that of their block.
        begun = np.ascontiguousarray(grad[:, some]), curvature
        monkeypatch.setattr(Compiled, "_beginning", lambda *_, begun=begun: map(np.array, begun))
        part = compiled.minimise(p[:, some], *given)
        np.testing.assert_array_equal(part.theta, whole.theta[:, some])
        np.testing.assert_array_equal(part.n_iter, whole.n_iter[some])


@needs_kernel
@needs_numpy_off
def test_separated_and_degenerate_draws_are_left_to_numpy(rng):
    x = np.column_stack([np.ones(40), np.repeat([0.0, 1.0], 20)])
    y = np.r_[rng.random(20) < 0.5, np.ones(20)]
    cells = Cells.from_rows(x, y)
    fits = {}
    for choice in ("numpy", "c"):
        with kernel.using(choice), pytest.warns(tb.TVDBayesWarning):
            fits[choice] = tb.posterior_bootstrap(Model(Bernoulli()), cells, n_draws=60)
    plain, ours = fits["numpy"], fits["c"]
    np.testing.assert_array_equal(ours.kld_status, plain.kld_status)
    assert (ours.kld_status == Status.SEPARATED).any()
    np.testing.assert_allclose(ours.kld_draws, plain.kld_draws, rtol=1e-6)


@needs_kernel
@needs_numpy_off
@pytest.mark.parametrize("name", TABLES)
def test_laws_that_are_one_point_are_found(name, rng):
    objective, _ = stated(name, rng)
    layout, found = objective.layout, []
    for size in (1.0, 12.0, 14.0, 16.0, 40.0):
        theta = steps(objective, rng, size)
        plain = layout.family.degenerate(layout.bound.eta(theta), layout.x_trials).any(0)
        np.testing.assert_array_equal(degenerate(layout, theta), plain)
        found += plain.tolist()
    assert any(found)
    assert not all(found)


@pytest.mark.parametrize("name", ["logit, offset", "binomial, repeated, offset", "dispersed"])
def test_predictors_lie_where_they_are_said_to(name, rng):
    bound = stated(name, rng)[0].layout.bound
    for size, spread in ((3.0, 1e-3), (3.0, 1.0), (0.0, 5.0)):
        centre = size * rng.normal(size=(bound.n_params, 1))
        theta = centre + spread * rng.normal(size=(bound.n_params, 30))
        low, high = np.moveaxis(bound.enclosed(theta) - bound.extremes(theta), 1, 0)
        assert (low <= 0).all()
        assert (high >= 0).all()
        # Where draws are near to one another nearly nothing is given away.
        assert spread > 1e-3 or max(-low.min(), high.max()) < 0.1
    theta[0, 3] = np.nan
    np.testing.assert_array_equal(bound.enclosed(theta), bound.extremes(theta))


@needs_kernel
@needs_numpy_off
@pytest.mark.parametrize("n_centres", [1, 2, 7, 8, 9, 50])
def test_nearest_centres_are_those_of_numpy(n_centres, rng, monkeypatch):
    z = rng.normal(size=(203, 3))
    z[0], z[-1] = 1e6, -1e9
    centres = z[rng.choice(203, n_centres, replace=False)] + 0.01
    if n_centres == 50:
        # Ties, which go to the first: equal centres, and one that is nearer by rounding alone.
        centres[3] = centres[8] = [0, 40, 0]
        centres[1], centres[9] = [40, 0, 0], [40 * (1 - 1e-14), 0, 0]
        z[1:3] = 0.8 * centres[[1, 3]]
    with kernel.using("numpy"):
        plain = nearest(z, centres)
    for level in LEVELS:
        monkeypatch.setenv("TVDBAYES_KERNEL", level)
        np.testing.assert_array_equal(nearest(z, centres), plain)
    gaps = ((z[3:-1, None] - centres) ** 2).sum(2)
    assert (gaps[np.arange(len(gaps)), plain[3:-1]] <= gaps.min(1) + 1e-9).all()


# Whole fits.


def fitted(name, rng, **options):
    family, cells = table(name, rng)
    return tb.posterior_bootstrap(Model(family), cells, **{"n_draws": 70, **options})


@needs_kernel
@pytest.mark.parametrize("name", TABLES[:-1])
def test_fits_are_those_of_numpy(name, rng):
    seed = rng.bit_generator.state["state"]["state"] % 2**32
    fits = {}
    for choice in ("numpy", "c"):
        with kernel.using(choice):
            fits[choice] = fitted(name, np.random.default_rng(seed))
    plain, ours = fits["numpy"], fits["c"]
    assert (plain.kernel, ours.kernel) == ("numpy", "c")
    for field in ("draws", "kld_draws", "minimiser"):
        np.testing.assert_allclose(getattr(ours, field), getattr(plain, field), atol=1e-6)
    for field in ("distance", "kld_distance"):
        np.testing.assert_allclose(getattr(ours, field), getattr(plain, field), atol=1e-7)
    np.testing.assert_array_equal(ours.status, plain.status)


@needs_kernel
@needs_numpy_off
@pytest.mark.parametrize("level", LEVELS)
def test_a_fit_has_the_same_bits_in_every_instruction_set(level, monkeypatch):
    usual = fitted("logit", np.random.default_rng(1))
    monkeypatch.setenv("TVDBAYES_KERNEL", level)
    assert kernel.library().level == level
    same_bits(fitted("logit", np.random.default_rng(1)), usual)


@needs_kernel
@needs_numpy_off
def test_a_fit_has_the_same_bits_on_any_number_of_threads(monkeypatch):
    # Blocks of 16 draws, so that there are several.
    monkeypatch.setattr("tvdbayes.sampling.weights._BLOCK_ELEMENTS", 1 << 14)
    alone = fitted("binomial", np.random.default_rng(1), n_draws=150)
    for n_jobs in (2, 3):
        spread = fitted("binomial", np.random.default_rng(1), n_draws=150, n_jobs=n_jobs)
        same_bits(spread, alone)


@needs_kernel
def test_a_fit_has_the_same_bits_in_processes():
    with kernel.using("numpy"):
        plain = list(Joblib(2).map(whole_fit, range(2)))
    with kernel.using("c"):
        ours = list(Joblib(2).map(whole_fit, range(2)))
        assert [how for how, _ in ours] == ["c", "c"]
        np.testing.assert_array_equal(ours[0][1], whole_fit(0)[1])
    assert [how for how, _ in plain] == ["numpy", "numpy"]


def whole_fit(block):
    fit = fitted("logit", np.random.default_rng(block), n_draws=20)
    return fit.kernel, fit.draws


def same_bits(one, other):
    for field in ("draws", "kld_draws", "distance", "kld_distance", "decrement", "n_iter"):
        np.testing.assert_array_equal(getattr(one, field), getattr(other, field))


def test_threads_yield_in_order_and_end_on_an_error():
    def slowly(block):
        time.sleep(0.01 * (3 - block % 4))
        if block == 6:
            raise ZeroDivisionError
        return block

    found = Threads(3).map(slowly, range(40))
    assert [next(found) for _ in range(6)] == list(range(6))
    with pytest.raises(ZeroDivisionError):
        next(found)


@needs_kernel
@needs_numpy_off
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_ctrl_c_ends_a_fit_within_a_few_calls(n_jobs, rng, monkeypatch):
    monkeypatch.setattr("tvdbayes.sampling.weights._BLOCK_ELEMENTS", 1 << 14)
    x = np.column_stack([np.ones(1000), rng.normal(size=(1000, 3))])
    cells = Cells.from_rows(x, rng.random(1000) < 0.5)
    begun, calls, usual = [], [], kernel.Library.call

    def call(*given):
        usual(*given)
        if begun:
            calls.append(given[1])
        if len(calls) == 2:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(kernel.Library, "call", call)
    options = {"n_draws": 8000, "n_jobs": n_jobs, "progress": lambda *_: begun.append(1)}
    # What is started in the background ignores the signal.
    usually = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(tb._errors.Interrupted) as stopped:
            tb.posterior_bootstrap(Model(Bernoulli()), cells, **options)
    finally:
        signal.signal(signal.SIGINT, usually)
    assert 0 < stopped.value.partial.n_draws < 4000
    # All draws take more than 2,000 calls; a busy machine may hear the signal late.
    assert len(calls) < 1000


@needs_kernel
@needs_numpy_off
def test_a_call_is_short(rng):
    compiled = Compiled.of(stated("logit", rng)[0].layout, 19)
    for n_passes, n_draws in ((1, 10**7), (6, 10**6), (6, 3)):
        parts = list(compiled._parts(n_draws, n_passes))
        assert [part[1] for part in parts] == [0, *(part[2] for part in parts[:-1])]
        assert parts[-1][2] == n_draws
        longest = max(last - first for _, first, last in parts)
        assert longest * n_passes * compiled.design.size <= 1e8


# Which kernel.


def test_the_record_says_how_it_was_computed(tmp_path, rng):
    with kernel.using("numpy"):
        fit = tb.fit("y ~ 1", {"y": rng.poisson(3, 50)}, n_draws=10)
        assert fit.posterior.kernel == "numpy"
    save(fit.posterior, tmp_path / "fit.tvd")
    assert load(tmp_path / "fit.tvd").kernel == "numpy"
    fit.report(tmp_path / "fit.html")
    assert "NumPy alone" in (tmp_path / "fit.html").read_text()


def test_without_a_library_there_is_numpy(monkeypatch, tmp_path):
    monkeypatch.setenv("TVDBAYES_KERNEL_LIBRARY", str(tmp_path / "none.so"))
    monkeypatch.delenv("TVDBAYES_KERNEL", raising=False)
    assert kernel.library() is None
    assert kernel.describe() == (
        "NumPy, no compiled kernel: it was not compiled when the package was installed"
    )
    assert fitted("logit", np.random.default_rng(0), n_draws=5).kernel == "numpy"
    with pytest.raises(SettingsError, match=r"missing here: it was not compiled .* everywhere"):
        kernel.using("c").__enter__()
    monkeypatch.setenv("TVDBAYES_KERNEL", "c")
    with pytest.raises(SettingsError, match="there is no such kernel: it was not compiled"):
        kernel.library()


def test_a_file_that_is_no_library_is_not_used(monkeypatch, tmp_path):
    (tmp_path / "bad.so").write_text("this is no library")
    monkeypatch.setenv("TVDBAYES_KERNEL_LIBRARY", str(tmp_path / "bad.so"))
    monkeypatch.delenv("TVDBAYES_KERNEL", raising=False)
    assert "cannot be opened" in kernel.describe()


@needs_kernel
def test_a_library_of_other_sources_is_not_used(monkeypatch, tmp_path):
    shutil.copy(_library._path(), tmp_path / "old.so")
    monkeypatch.setenv("TVDBAYES_KERNEL_LIBRARY", str(tmp_path / "old.so"))
    monkeypatch.delenv("TVDBAYES_KERNEL", raising=False)
    monkeypatch.setattr(_library, "fingerprint", lambda: "0123456789abcdef")
    assert kernel.library() is None
    assert "made of other sources" in kernel.describe()


def test_the_variable_chooses(monkeypatch):
    monkeypatch.setenv("TVDBAYES_KERNEL", "numpy")
    assert kernel.library() is None
    assert (kernel.name(), kernel.describe()) == ("numpy", "NumPy, as asked")
    monkeypatch.setenv("TVDBAYES_KERNEL", "fortran")
    with pytest.raises(SettingsError, match=r"must be one of numpy, c, .*got 'fortran'"):
        kernel.library()


@needs_kernel
def test_what_a_fit_began_with_comes_before_the_variable(monkeypatch):
    monkeypatch.setenv("TVDBAYES_KERNEL", "numpy")
    with kernel.using("c"):
        assert kernel.name() == "c"
        work = kernel.under(kernel.name)
    assert kernel.name() == "numpy"
    assert work() == "c"


@needs_kernel
def test_only_dense_arrays_are_passed():
    with kernel.using("c"), pytest.raises(ValueError, match="dense"):
        kernel.library().call("elementary", 0, 4, np.zeros((4, 2))[:, 0], np.zeros(4))


# How it is compiled.


def test_the_sources_are_short_and_allocate_nothing():
    sources = [*HOME.glob("*.c"), *HOME.glob("*.h")]
    text = "".join(path.read_text() for path in sources)
    assert len(text.splitlines()) < 1500
    assert not re.search(r"\b(malloc|calloc|realloc|alloca|free|printf|fopen)\s*\(", text)
    assert not re.search(r"immintrin|_mm\d*_|__builtin_ia32", text)


@needs_compiler
def test_scalar_code_gives_the_same_bits(monkeypatch, tmp_path):
    usual = fitted("poisson", np.random.default_rng(1)) if LEVELS else None
    made = build.build(tmp_path / "scalar.so", ["-DSCALAR"])
    monkeypatch.setenv("TVDBAYES_KERNEL_LIBRARY", str(made))
    monkeypatch.delenv("TVDBAYES_KERNEL", raising=False)
    assert (kernel.library().level, kernel.library().lanes) == ("plain", 1)
    scalar = fitted("poisson", np.random.default_rng(1))
    if usual is not None and usual.kernel == "c":
        same_bits(scalar, usual)


def built(monkeypatch, root, compiler):
    """What the build hook says of a copy of the package."""
    shutil.copytree(HOME, root / "src" / "tvdbayes" / "kernel")
    monkeypatch.setenv("CC", compiler)
    warned, name = [], "hatchling.builders.hooks.plugin.interface"
    stub = ModuleType(name)
    stub.BuildHookInterface = object
    monkeypatch.setitem(sys.modules, name, stub)
    spec = importlib.util.spec_from_file_location(
        "hook", Path(__file__).parents[1] / "hatch_build.py"
    )
    hook = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hook)
    made = hook.CustomBuildHook()
    made.root, made.app = str(root), ModuleType("app")
    made.app.display_warning = warned.append
    about = {"pure_python": True, "artifacts": []}
    made.initialize("standard", about)
    return about, warned


def test_without_a_compiler_the_wheel_is_pure(monkeypatch, tmp_path):
    for compiler in (str(tmp_path / "none"), "false"):
        about, warned = built(monkeypatch, tmp_path / Path(compiler).name, compiler)
        assert about == {"pure_python": True, "artifacts": []}
        assert "without its compiled kernel" in warned[0]
        assert not list(tmp_path.rglob("*.so"))


@needs_compiler
def test_with_a_compiler_the_wheel_is_of_the_platform(monkeypatch, tmp_path):
    about, warned = built(monkeypatch, tmp_path, "cc")
    assert not warned
    assert about["pure_python"] is False
    assert about["tag"].startswith("py3-none-")
    assert about["artifacts"] == ["src/tvdbayes/kernel/kernel.so"]
    assert (tmp_path / about["artifacts"][0]).is_file()


def test_the_script_says_that_there_is_no_compiler(tmp_path):
    script = [sys.executable, str(HOME / "build.py"), "--out", str(tmp_path / "k.so")]
    env = {**os.environ, "CC": str(tmp_path / "none")}
    shown = subprocess.run(script, env=env, capture_output=True, text=True, check=False)
    assert shown.returncode == 1
    assert shown.stderr.startswith("There is no kernel: ")
