"""Networks on the rice data: one draw beside the paper's procedure, and a thousand on a GPU."""

import time
import warnings

import numpy as np

import tvdbayes as tb
from benchmarks._designs import paper_data
from benchmarks._report import Table
from benchmarks.gpu import copy_rate
from tvdbayes._array import Device
from tvdbayes.experiments import AS_PUBLISHED
from tvdbayes.sampling.execution import single_threaded
from tvdbayes.sampling.neural.trainer import Masses
from tvdbayes.sampling.planners import plan_of
from tvdbayes.sampling.weights import Stream, reweight

NAIVE = tb.MLP(direct=False, hold_out=0.0, weight_decay=0.0)
ROWS = {"partition": tb.Singletons(), "refine": None}
TRAIN = 3429
"""Rows of a training set: nine tenths of the data."""


def rice(quick):
    data = paper_data("rice", AS_PUBLISHED, quick)
    chosen = np.random.default_rng(0).permutation(len(data.y))[: 200 if quick else TRAIN]
    return data.x[chosen], data.y[chosen].astype(float)


def fit(cells, n_draws, **how):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tb.TVDBayesWarning)
        started = time.perf_counter()
        found = tb.posterior_bootstrap(
            tb.Model(tb.Bernoulli(), how.pop("network", tb.MLP())), cells, n_draws=n_draws, **how
        )
    return found, time.perf_counter() - started


def batches(rng, weights):
    """Ten passes in batches of 64 rows, drawn with the weights."""
    n = len(weights)
    for _ in range(10):
        rows = rng.choice(n, n, p=weights)
        for start in range(0, n, 64):
            yield rows[start : start + 64]


class InNumPy:
    """The paper's procedure for one draw, from its description and its released settings.

    50 nodes, softmax of two outputs; ten passes of gradient descent (rate .01, momentum .9), then
    one call of limited-memory BFGS (20 steps of rate .01 at most) on the TVD of single rows. A draw
    goes on from the network of the last one; it returns the TVD that is reached.
    """

    def __init__(self, x, y, seed=0):
        rng = np.random.default_rng(seed)
        self.x, self.y, self.rng = x.astype(np.float32), y.astype(int), rng
        p = x.shape[1]
        shapes = [((p, 50), p), (50, p), ((50, 2), 50), (2, 50)]
        self.theta = [
            (rng.uniform(-1, 1, shape) / np.sqrt(fan)).astype(np.float32) for shape, fan in shapes
        ]

    def draw(self, weights):
        speed = [np.zeros_like(part) for part in self.theta]
        for rows in batches(self.rng, weights):
            prob, back = self._forward(self.theta, self.x[rows])
            prob[np.arange(rows.size), self.y[rows]] -= 1
            for v, g, part in zip(speed, back(prob / rows.size), self.theta, strict=True):
                v[...] = 0.9 * v + g
                part[...] -= 0.01 * v
        return self._lbfgs(weights)

    def _forward(self, theta, x):
        w1, b1, w2, b2 = theta
        hidden = np.maximum(x @ w1 + b1, 0)
        eta = hidden @ w2 + b2
        eta -= eta.max(1, keepdims=True)
        prob = np.exp(eta)
        prob /= prob.sum(1, keepdims=True)

        def back(slope):
            inner = (slope @ w2.T) * (hidden > 0)
            return [x.T @ inner, inner.sum(0), hidden.T @ slope, slope.sum(0)]

        return prob, back

    def _lbfgs(self, weights):
        shapes = [part.shape for part in self.theta]
        ends = np.cumsum([part.size for part in self.theta])[:-1]
        w, one_hot = weights.astype(np.float32), np.eye(2, dtype=np.float32)[self.y]

        def value(flat):
            parts = [a.reshape(s) for a, s in zip(np.split(flat, ends), shapes, strict=True)]
            prob, back = self._forward(parts, self.x)
            sign = 0.5 * w[:, None] * np.sign(prob - one_hot)
            slope = prob * (sign - (sign * prob).sum(1, keepdims=True))
            tvd = 0.5 * (w[:, None] * np.abs(prob - one_hot)).sum()
            return tvd, np.concatenate([g.ravel() for g in back(slope)])

        at = np.concatenate([part.ravel() for part in self.theta])
        tvd, grad = value(at)
        rate, pairs = min(1.0, 1 / np.abs(grad).sum()) * 0.01, []
        for _ in range(20):
            direction, memory = -grad, []
            for s, z in reversed(pairs):
                a = s @ direction / (s @ z)
                memory.append(a)
                direction = direction - a * z
            if pairs:
                s, z = pairs[-1]
                direction = direction * (s @ z) / (z @ z)
            for (s, z), a in zip(pairs, reversed(memory), strict=True):
                direction = direction + s * (a - z @ direction / (s @ z))
            step = rate * direction
            if np.abs(step).max() <= 1e-9:
                break
            tvd, new = value(at + step)
            if step @ (new - grad) > 1e-10:
                pairs.append((step, new - grad))
            at, grad, rate = at + step, new, 0.01
        return tvd


class InPyTorch:
    """The same in PyTorch, as the released code has it."""

    def __init__(self, x, y, seed=0):
        import torch

        self.x, self.y = x.astype(np.float32), y.astype(int)
        self.rng = np.random.default_rng(seed)

        torch.set_num_threads(1)
        torch.manual_seed(seed)
        self.torch = torch
        self.net = torch.nn.Sequential(
            torch.nn.Linear(x.shape[1], 50), torch.nn.ReLU(), torch.nn.Linear(50, 2)
        )

    def draw(self, weights):
        torch, net = self.torch, self.net
        descent = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
        loss = torch.nn.CrossEntropyLoss()
        for rows in batches(self.rng, weights):
            descent.zero_grad()
            loss(net(torch.from_numpy(self.x[rows])), torch.from_numpy(self.y[rows])).backward()
            descent.step()
        kept = [part.detach().clone() for part in net.parameters()]
        w, x = torch.from_numpy(weights).float(), torch.from_numpy(self.x)
        one_hot = torch.nn.functional.one_hot(torch.from_numpy(self.y), 2).float()
        lbfgs = torch.optim.LBFGS(net.parameters(), lr=0.01)

        def tvd():
            off = (torch.softmax(net(x), 1) - one_hot).abs().sum(1)
            return 0.5 * (w * off).sum()

        def closure():
            lbfgs.zero_grad()
            value = tvd()
            value.backward()
            return value

        lbfgs.step(closure)
        reached = float(tvd().detach())
        with torch.no_grad():
            for part, old in zip(net.parameters(), kept, strict=True):
                part.copy_(old)
        return reached


def references(x, y):
    """The paper's procedure: in PyTorch if that is there, and in NumPy, which has less overhead."""
    try:
        yield "the paper's procedure, PyTorch", InPyTorch(x, y)
    except ImportError:
        print("PyTorch is not installed: only the reference in NumPy is run.", flush=True)
    yield "the paper's procedure, NumPy", InNumPy(x, y)


def by_rows(posterior, draws):
    """The TVD of single rows, as in the paper: the mean of 1 - probability under each weight."""
    cells = posterior.cells
    p = reweight(cells, Stream.draws(posterior.seed), len(draws)).p
    bound = posterior.model.bind(cells, cells)
    own = posterior.model.family.pmf(
        cells.y[:, None], bound.eta(bound.from_user(draws.T))[:, cells.x_index], np.ones((1, 1))
    )
    return float((p * (1 - own)).sum(0).mean())


def run(quick=False):
    """Seconds of a draw on one core, in one run, and the TVD that it reaches."""
    few, many = (1, 1) if quick else (8, 40)
    x, y = rice(quick)
    rng, lines = np.random.default_rng(1), []
    with single_threaded():
        for name, reference in references(x, y):
            weights = rng.dirichlet(np.ones(len(y)), few)
            reference.draw(weights[0])
            started = time.perf_counter()
            reached = [reference.draw(w) for w in weights]
            lines.append((name, 1e3 * (time.perf_counter() - started) / few, np.mean(reached)))
        cells = tb.Cells.from_rows(x, y)
        for name, how in (
            ("ours: ordinary, TVD and reweighted network", {}),
            ("ours: ordinary and TVD network", {"refine": None}),
            ("ours: the paper's network and objective", {"network": NAIVE, **ROWS}),
        ):
            fit(cells, 1, **how)
            _, short = fit(cells, few, **how)
            found, long = fit(cells, few + many, **how)
            lines.append((name, 1e3 * (long - short) / many, by_rows(found, found.draws)))
    first = lines[0][1]
    Table(
        "networks",
        "networks",
        "A posterior draw of a network with 50 hidden nodes on the rice data (3,429 rows, 7 "
        "covariates), one core, single precision: milliseconds, how many fit into one of the first "
        "line, and the TVD of single rows that it reaches, which is the paper's objective. "
        "Compiling is not counted. The paper's network sees covariates as they come, and hardly "
        "moves.",
        ("procedure", "milliseconds a draw", "times as fast", "TVD by rows"),
        [(name, ms, first / ms, tvd) for name, ms, tvd in lines],
    ).publish()


def on_gpu(quick=False):
    """A thousand networks on a graphics card, and how much of it training uses."""
    n_draws, device = (2, "cpu") if quick else (1000, "gpu")
    x, y = rice(quick)
    cells = tb.Cells.from_rows(x, y)
    lines = []
    for number in ("first", "again"):
        found, seconds = fit(cells, n_draws, device=device)
        lines.append((number, seconds, found.distance.mean()))
        print(lines[-1], flush=True)
    plan = plan_of(found, device)
    p = reweight(cells, Stream.draws(0), n_draws).p
    trainer = plan.trainer
    held = np.zeros_like(p)
    held[::10] = 1.0
    start = np.repeat(
        plan_of(found).robust.layout.bound.from_user(found.kld_minimiser[:, None]), n_draws, 1
    )
    masses = Masses.split(p, held)
    trainer.train(tb.KLD(), masses, start)
    started = time.perf_counter()
    trainer.train(tb.KLD(), masses, start)
    alone = time.perf_counter() - started
    rows = plan.settings.epochs * len(y) * n_draws
    # Forward, and twice that for the derivatives; hidden values are written and read thrice.
    flops, moved = 6 * rows * (7 * 50 + 50 + 7), 6 * 4 * rows * 50
    with Device(device).here():
        copied = copy_rate(1 << 10 if quick else 1 << 29)
    Table(
        "gpu_networks",
        "gpu_networks",
        f"{n_draws:,} networks of 50 hidden nodes on the rice data on an NVIDIA H200 (single "
        "precision): ordinary, TVD and reweighted network of every draw with their linear starts. "
        f"One phase of training alone takes {alone:.2f} s: {flops / alone / 1e12:.2f} Tflop/s of "
        f"about 67, and {moved / alone / 1e12:.2f} TB/s of the {copied / 1e12:.1f} of a copy. The "
        "rest of the time is spent on the processor: linear fits, distances, reweighting.",
        ("run", "seconds", "mean TVD in groups"),
        lines,
        "one GPU",
    ).publish()
