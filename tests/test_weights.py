import numpy as np
import pytest

from tvdbayes import Cells, DataError, Prior, SettingsError
from tvdbayes.sampling.weights import Stream, block_size, reweight


def table():
    return Cells.from_counts([[1.0], [1.0], [2.0]], [0, 1, 0], [3, 5, 12])


def test_weights_of_cells_have_the_moments_of_weights_of_rows():
    """Dirichlet(1, ..., 1) over 20 rows, added up by cell, is Dirichlet(counts)."""
    cells = table()
    p = reweight(cells, Stream.draws(0), 60_000).p
    n, share = cells.n_obs, cells.p
    assert np.allclose(p.sum(0), 1, atol=1e-14)
    error = 4 / np.sqrt(p.shape[1])
    variance = share * (1 - share) / (n + 1)
    assert np.allclose(p.mean(1), share, atol=error * np.sqrt(variance.max()))
    assert np.allclose(p.var(1), variance, rtol=2.5 * error)
    assert np.allclose(np.cov(p)[0, 1], -share[0] * share[1] / (n + 1), rtol=5 * error)


def test_tiny_counts_do_not_underflow_to_nothing():
    cells = Cells.from_counts([[1.0], [1.0]], [0, 1], [1e-5, 2e-5])
    p = reweight(cells, Stream.draws(0), 3000).p
    assert np.isfinite(p).all()
    assert np.allclose(p.sum(0), 1)
    assert abs(p.mean(1)[1] - 2 / 3) < 0.03


def test_a_table_as_base_measure_is_exact():
    cells, base = table(), Cells.from_counts([[1.0], [3.0]], [1, 2], [1, 3])
    prior = Prior(8.0, base)
    joint = prior.absorb(cells, np.random.default_rng(0))
    assert not prior.drawn
    assert np.array_equal(joint.counts, [3, 7, 12, 6])
    p = reweight(joint, Stream.draws(1), 40_000).p
    assert np.allclose(p.mean(1), joint.p, atol=0.003)


def test_atoms_tend_to_the_base_measure_as_alpha_and_atoms_grow():
    cells = table()

    def base(rng, size):
        return np.full((size, 1), 2.0), rng.integers(0, 2, size).astype(float)

    far = []
    for alpha, n_atoms in ((1, 5), (100, 50), (10_000, 2_000)):
        drawn = reweight(cells, Stream.draws(2), 40, Prior(alpha, base, n_atoms))
        at_two = drawn.cells.x[drawn.cells.x_index, 0] == 2
        target = np.where(at_two, 0.5, 0.0)
        far.append(np.abs(drawn.p - target[:, None]).sum(0).mean() / 2)
        assert np.allclose(drawn.p.sum(0), 1)
    assert far[0] > far[1] > far[2]
    assert far[2] < 0.02


def test_atoms_keep_the_prior_weight_of_alpha_rows():
    cells = table()

    def base(_, size):
        return np.full((size, 1), 9.0), np.zeros(size)

    drawn = reweight(cells, Stream.draws(3), 20_000, Prior(5.0, base, 10))
    prior = drawn.p[drawn.cells.x[drawn.cells.x_index, 0] == 9].sum(0)
    n = cells.n_obs
    share = 5 / (n + 5)
    assert abs(prior.mean() - share) < 0.003
    assert np.isclose(prior.var(), share * (1 - share) / (n + 6), rtol=0.05)


def test_each_draw_has_atoms_of_its_own():
    def base(rng, size):
        return rng.normal(size=(size, 1)), np.zeros(size)

    drawn = reweight(table(), Stream.draws(4), 6, Prior(50.0, base, 3))
    atoms = drawn.p[~np.isin(drawn.cells.x[drawn.cells.x_index, 0], [1, 2])]
    assert atoms.shape[0] == 18
    assert ((atoms > 0).sum(1) == 1).all()


@pytest.mark.parametrize(
    ("arguments", "word"),
    [((0.0, table()), "alpha"), ((np.nan, table()), "alpha"), ((1.0, table(), 0), "n_atoms")],
)
def test_bad_priors_are_refused(arguments, word):
    with pytest.raises(SettingsError, match=word):
        Prior(*arguments)


def test_a_base_measure_of_the_wrong_shape_is_named():
    def base(_, size):
        return np.ones((size, 2)), np.zeros(size)

    with pytest.raises(DataError, match=r"\(10, 1\).*got \(10, 2\)"):
        reweight(table(), Stream.draws(0), 2, Prior(1.0, base, 10))


def test_block_size_depends_on_the_table_alone():
    sizes = [block_size(m) for m in (1, 100, 1_000, 10_000, 10**7)]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] == 1024
    assert sizes[-1] == 1


def test_a_draw_depends_on_its_number_alone():
    cells = table()
    eight = reweight(cells, Stream.draws(3), 8).p
    assert np.array_equal(reweight(cells, Stream.draws(3, first=5), 3).p, eight[:, 5:])


def test_neighbouring_draws_are_independent():
    # Places a power of two apart in one generator share their lower bits, and this would see it.
    p = reweight(table(), Stream.draws(5), 20_000).p
    for lag in (1, 2, 64, 1024):
        for row in p:
            assert abs(np.corrcoef(row[lag:], row[:-lag])[0, 1]) < 0.03


def test_streams_of_one_seed_have_nothing_in_common():
    names = [name for name in vars(Stream) if name.isupper()]
    drawn = [
        next(iter(Stream.draws(3, getattr(Stream, name)))).standard_normal(500) for name in names
    ]
    off = np.abs(np.corrcoef(drawn)[~np.eye(len(names), dtype=bool)])
    assert off.max() < 0.25


def test_the_offset_and_trials_of_a_base_measure_stay_with_its_rows():
    cells = Cells.from_rows(np.ones((4, 1)), [1, 2, 3, 1], offset=np.full(4, 0.5), trials=[5] * 4)
    base = Cells.from_rows(np.ones((2, 1)), [0, 1], offset=np.full(2, -1.0), trials=[9, 9])
    joint = Prior(3.0, base).absorb(cells, np.random.default_rng(0))
    assert joint.n_obs == 7.0
    own = joint.counts[joint.y == 0]
    assert own == 1.5
    at = joint.x_index[joint.y == 0]
    assert (joint.offset[at], joint.trials[at]) == (-1.0, 9.0)


def test_every_draw_is_a_table_of_mass_one_also_for_fractions_of_rows():
    for counts in ([0.3, 2.0, 0.01], [3.0, 2.0, 1.0]):
        cells = Cells.from_counts(np.ones((3, 1)), [0, 1, 2], counts)
        p = reweight(cells, Stream.draws(1), 20).p
        assert np.allclose(p.sum(0), 1)
    prior = Prior(2.0, lambda rng, n: (np.ones((n, 1)), rng.poisson(3, n).astype(float)), 5)
    assert np.allclose(reweight(cells, Stream.draws(1), 20, prior).p.sum(0), 1)
