import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tvdbayes import Cells, DataError
from tvdbayes.data.cells import compress


def same(a, b):
    arrays = ("x", "offset", "trials", "x_index", "y", "counts")
    return a.names == b.names and all(
        np.array_equal(getattr(a, name), getattr(b, name)) for name in arrays
    )


def rows(rng, n=200):
    x = np.column_stack([np.ones(n), rng.integers(-2, 3, n), rng.choice([0.1, 0.25, 7.5], n)])
    return x, rng.poisson(2, n).astype(float)


def test_cells_are_the_distinct_rows_with_counts(rng):
    x, y = rows(rng)
    cells = Cells.from_rows(x, y)
    expected, counts = np.unique(np.column_stack([x, y]), axis=0, return_counts=True)
    found = np.column_stack([cells.x[cells.x_index], cells.y])
    assert np.array_equal(found, expected)
    assert np.array_equal(cells.counts, counts)
    assert np.array_equal(cells.x, np.unique(x, axis=0))


def test_row_order_does_not_matter(rng):
    x, y = rows(rng)
    weights = rng.random(len(y))
    order = rng.permutation(len(y))
    whole = Cells.from_rows(x, y, weights=weights)
    assert same(whole, Cells.from_rows(x[order], y[order], weights=weights[order]))


def test_the_sign_of_zero_does_not_matter():
    assert same(Cells.from_rows([[0.0], [-0.0]], [1, 1]), Cells.from_rows([[-0.0], [0.0]], [1, 1]))


def test_a_weight_of_two_is_the_row_twice(rng):
    x, y = rows(rng)
    weights = rng.integers(0, 4, len(y))
    repeated = Cells.from_rows(np.repeat(x, weights, axis=0), np.repeat(y, weights))
    assert same(Cells.from_rows(x, y, weights=weights), repeated)


def test_merging_is_associative_and_equals_the_whole(rng):
    x, y = rows(rng)
    a, b, c = (Cells.from_rows(x[i::3], y[i::3]) for i in range(3))
    whole = Cells.from_rows(x, y)
    assert same(a.merge(b).merge(c), whole)
    assert same(a.merge(b.merge(c)), whole)
    assert same(c.merge(a, b), whole)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(-3, 3), st.floats(-2, 2), st.integers(0, 4)), min_size=1))
def test_every_row_finds_its_cell(data):
    x = np.array([[a, b] for a, b, _ in data], float)
    y = np.array([c for *_, c in data], float)
    made = compress(x, y)
    cells = made.cells
    assert np.array_equal(cells.x[cells.x_index[made.cell_of_row]], x)
    assert np.array_equal(cells.y[made.cell_of_row], y)
    assert np.array_equal(np.bincount(made.cell_of_row), cells.counts)


def test_rows_of_weight_zero_have_no_cell():
    made = compress([[1.0], [1.0], [2.0]], [0, 5, 1], weights=[1, 0, 2])
    assert made.cell_of_row.tolist() == [0, -1, 1]
    assert made.cells.n_obs == 3


def test_offset_and_trials_belong_to_the_x_row():
    cells = Cells.from_rows(
        [[1.0], [1.0], [1.0]], [1, 1, 1], offset=[0, 0.5, 0.5], trials=[2, 2, 3]
    )
    assert cells.n_x == 3
    assert cells.offset.tolist() == [0, 0.5, 0.5]
    assert cells.trials.tolist() == [2, 2, 3]


def test_many_columns_do_not_overflow_the_keys(rng):
    x, y = rng.normal(size=(50, 40)), rng.poisson(1, 50)
    assert Cells.from_rows(x, y).n_x == 50


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"x": np.ones((0, 1)), "y": []}, ["0 row(s)"]),
        ({"x": np.ones((2, 0)), "y": [1, 2]}, ["0 column(s)"]),
        ({"x": [[1.0], [np.nan]], "y": [1, 2]}, ["'x0'", "nan in row 1", "1 of 2"]),
        ({"x": [[1.0], [1.0]], "y": [1, np.inf]}, ["'y'", "inf in row 1"]),
        ({"x": [[1.0], [1.0]], "y": [1, 2, 3]}, ["(2,)", "(3,)"]),
        ({"x": [1.0, 2.0], "y": [1, 2]}, ["2 dimension", "(2,)"]),
        ({"x": [["a"], ["b"]], "y": [1, 2]}, ["numbers", "'a'"]),
        ({"x": [[1.0]], "y": ["3"]}, ["y must hold numbers", "'3'"]),
        ({"x": [[1.0], [1.0]], "y": [1, 2], "weights": [1, -1]}, ["-1.0 in row 1"]),
        ({"x": [[1.0], [1.0]], "y": [1, 2], "weights": [0, 0]}, ["weights", "zero"]),
        ({"x": [[1.0]], "y": [1], "names": ("a", "b")}, ["1 names", "got 2"]),
    ],
)
def test_bad_rows_are_named(arguments, words):
    with pytest.raises(DataError) as error:
        Cells.from_rows(**arguments)
    assert all(word in str(error.value) for word in words)


def test_tables_of_other_columns_do_not_merge():
    a, b = (Cells.from_rows([[1.0]], [1], names=(name,)) for name in ("age", "size"))
    with pytest.raises(DataError, match=r"'age'.*'size'"):
        a.merge(b)


def test_a_table_out_of_order_is_refused():
    whole = Cells.from_counts([[1.0], [1.0], [2.0]], [0, 1, 0], [1, 2, 3])
    order = [2, 0, 1]
    with pytest.raises(DataError, match="sorted"):
        Cells(
            whole.x,
            whole.offset,
            whole.trials,
            whole.x_index[order],
            whole.y[order],
            whole.counts[order],
            whole.names,
        )


def test_masked_values_are_refused():
    with pytest.raises(DataError, match="masked"):
        Cells.from_rows(np.ones((2, 1)), np.ma.array([1, 99], mask=[False, True]))
