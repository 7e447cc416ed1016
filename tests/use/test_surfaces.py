"""Joint effects of two sources, against drifts with known second-order effects."""

import functools
import io

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

from ndde_jax import AbstractDelayModel, cli
from ndde_jax.use._effects import Grid

from .small import discovery
from .test_commands import read

DT, PRODUCT = 0.2, 0.8
NAMES = ("a", "b", "c")


class Known(AbstractDelayModel):
    """The true drift: c driven by a product of a and b, and by curves of each."""

    lags: tuple = eqx.field(static=True)
    dt: jnp.ndarray
    scaling: object
    mask: jnp.ndarray
    product: float

    def __call__(self, history):
        a, b, c = history[0]
        return jnp.stack([-a, -b, self.product * a * b + a**2 - jnp.sin(b) - c])


@functools.cache
def path(n, product, seed=0):
    rng, x = np.random.default_rng(seed), np.zeros((n, 3))
    x[0] = (1.0, -0.5, 0)
    for k in range(n - 1):
        a, b, c = x[k]
        rate = np.array([1.0 - a, -0.5 - b, product * a * b + a**2 - np.sin(b) - c])
        x[k + 1] = x[k] + DT * rate + np.sqrt(DT) * np.array([0.5, 0.7, 0.2]) * rng.normal(size=3)
    return x


GRAPH = np.zeros((3, 3, 1), bool)
GRAPH[[0, 1, 2], [0, 1, 2]] = GRAPH[[0, 1], 2] = True


@functools.cache
def made(product, own=False, n=3000):
    x = path(n, product)
    found = discovery(x, GRAPH, lags=(0,), dt=DT, names=NAMES)
    if not own:
        return found, x
    model = Known((0,), jnp.asarray(DT), found.model.scaling, found.model.mask, product)
    return discovery(x, GRAPH, lags=(0,), dt=DT, names=NAMES, model=model), x


@pytest.fixture(scope="module")
def multiplied():
    return made(PRODUCT)


def product_of_means(surface, x):
    """(x − mean)(y − mean) at the middle of every cell, and its variance over the data."""
    middles = [(e[1:] + e[:-1]) / 2 for e in (surface.x, surface.y)]
    a, b = x[:, 0] - x[:, 0].mean(), x[:, 1] - x[:, 1].mean()
    return np.outer(middles[0] - x[:, 0].mean(), middles[1] - x[:, 1].mean()), np.var(a * b)


# ---- the calculation ----


def test_products_of_independent_sources_come_out_and_curves_do_not():
    """On rows, without a model: additional curves change nothing."""
    rng = np.random.default_rng(0)
    x, y = rng.gamma(2.0, size=4000), rng.uniform(-1, 3, size=4000)
    grid = Grid(x, y, 8, "x", "y")

    def at(law):
        (low, high), (left, right) = (side.ends for side in grid.sides)
        mixed = law(high, right) - law(high, left) - law(low, right) + law(low, left)
        return grid.interaction(grid.mean(mixed[:, None]))[..., 0]

    alone = at(lambda u, v: u * v)
    truth = np.outer(grid.sides[0].edges - x.mean(), grid.sides[1].edges - y.mean())
    assert np.abs(alone - truth).max() < 0.05 * np.abs(truth).max()
    np.testing.assert_allclose(at(lambda u, v: u * v + u**3 - np.exp(v)), alone, atol=1e-9)
    np.testing.assert_allclose(at(lambda u, v: u**3 - np.exp(v)), 0, atol=1e-9)


def test_of_sources_that_go_together_nothing_is_left_of_curves():
    """There are no data off the diagonal, and their replacement leaves no trace on it."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=3000)
    y = x + 0.1 * rng.normal(size=3000)
    grid = Grid(x, y, 8, "x", "y")
    assert (grid.count == 0).sum() > 20
    (low, high), (left, right) = (side.ends for side in grid.sides)
    mixed = (high - low) * (right - left)
    values = grid.at_rows(grid.interaction(grid.mean(mixed[:, None])))[:, 0]
    # On the diagonal a product is a curve of either, up to the width of the outermost slices.
    assert np.var(values) < 0.03 * np.var(x * y)
    for slot in (side.slot for side in grid.sides):
        by_slice = np.bincount(slot, values) / np.bincount(slot)
        assert np.abs(by_slice).max() < 0.05


# ---- of discoveries ----


@pytest.mark.slow
@pytest.mark.parametrize("own", [False, True])
def test_a_product_is_found_with_its_size(own):
    found, x = made(PRODUCT, own)
    surface = found.effects().surface("a", "b", "c")
    middle, variance = product_of_means(surface, x)
    seen = surface.count > 0
    assert surface.z.shape == (8, 8) and np.isfinite(surface.z[seen]).all()
    assert np.isnan(surface.z[~seen]).all() and np.isnan(surface.low[~seen]).all()
    error = np.abs(surface.z - PRODUCT * middle)[seen].max()
    # The drift is not its own but one for Heun's steps, and these data were made by Euler's.
    assert error < (0.05 if own else 0.2) * PRODUCT * np.abs(middle).max()
    inside = (surface.low <= PRODUCT * middle) & (PRODUCT * middle <= surface.high)
    assert inside[seen].mean() > 0.85 or not own
    rate = np.diff(x[:, 2]) / DT
    assert surface.share == pytest.approx(
        PRODUCT**2 * variance / np.var(rate), rel=0.15 if own else 0.5
    )
    assert 0 < surface.share_low < surface.share < surface.share_high < 1


@pytest.mark.slow
def test_a_sum_of_curves_leaves_nothing():
    exact = made(0.0, own=True)[0].effects()
    assert exact.ensemble.own[2]
    surface = exact.surface("a", "b", "c")
    assert np.nanmax(np.abs(surface.z)) < 1e-9 and surface.share < 1e-12
    assert exact.interactions().above(0.01) == []
    fitted = made(0.0)[0].effects().surface("a", "b", "c")
    assert fitted.share < 0.005 and fitted.share_low < 1e-9


@pytest.mark.slow
def test_the_order_swaps_the_axes(multiplied):
    effects = multiplied[0].effects()
    one, other = effects.surface("a", "b", "c"), effects.surface(1, 0, 2, points=8)
    for name in ("z", "low", "high", "count"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name).T, atol=1e-12)
    assert one.share == pytest.approx(other.share)
    assert (one.first, one.second) == (other.second, other.first) == (("a", 0), ("b", 0))


@pytest.mark.slow
def test_pairs_come_by_their_share(multiplied):
    effects = multiplied[0].effects()
    pairs = effects.interactions()
    assert len(pairs) == 3 and pairs.rows()[0][:5] == ("a", 0, "b", 0, "c")
    shares = [row[5] for row in pairs.rows()]
    assert shares == sorted(shares, reverse=True) and shares[0] > 10 * shares[1]
    surface = effects.surface("a", "b", "c")
    assert pairs.rows()[0][5:] == (surface.share, surface.share_low, surface.share_high)
    assert list(pairs.to_frame().columns) == list(pairs.columns)
    assert "a with b -> c" in repr(pairs) and "cells hold no data" in repr(surface)


@pytest.mark.slow
def test_a_source_of_two_values_has_no_slices_and_says_so():
    x = path(600, PRODUCT).copy()
    x[:, 1] = np.sign(x[:, 1])
    effects = discovery(x, GRAPH, lags=(0,), dt=DT, names=NAMES).effects()
    with pytest.raises(ValueError, match="b takes too few different values"):
        effects.surface("a", "b", "c")
    rows = effects.interactions().rows()
    assert [np.isnan(row[5]) for row in rows] == [False, True, True]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("a", "b", "a"), "b -> a is not an edge"),
        (("a", "a", "c"), "first and second must differ"),
        (("a", "b", "c", 1), "first_lag: a -> c has lags of 0 samples; got 1"),
        (("a", "b", "c", 0, "0"), "second_lag must be a lag in samples"),
        (("z", "b", "c"), "first must be one of"),
    ],
)
def test_surfaces_are_of_two_kept_inputs(multiplied, arguments, message):
    with pytest.raises(ValueError, match=message):
        multiplied[0].effects().surface(*arguments)


def test_pictures_of_surfaces(multiplied):
    pytest.importorskip("matplotlib")
    effects = multiplied[0].effects()
    for answer, panels in ((effects.surface("a", "b", "c"), 1), (effects.interactions(), 1)):
        figure = answer.plot()
        assert len([ax for ax in figure.axes if ax.get_label() != "<colorbar>"]) == panels
        figure.savefig(io.BytesIO(), dpi=40)


@pytest.mark.slow
def test_the_command_writes_pairs_and_a_picture_where_one_matters(
    multiplied, found, tmp_path, capsys
):
    pytest.importorskip("matplotlib")
    multiplied[0].save(tmp_path / "one" / "discovery")
    out = tmp_path / "out"
    assert cli.main(["effects", str(tmp_path / "one"), "--out", str(out)]) == 0
    assert "a with b -> c" in capsys.readouterr().out
    rows = read(out / "interactions.csv")
    assert [(row["first"], row["second"], row["target"]) for row in rows[:1]] == [("a", "b", "c")]
    share = multiplied[0].effects().interactions().rows()[0][5]
    assert float(rows[0]["share"]) == pytest.approx(share, rel=1e-11)
    assert (out / "interactions.png").exists()
    found.save(tmp_path / "linear" / "discovery")
    straight = tmp_path / "straight"
    assert cli.main(["effects", str(tmp_path / "linear"), "--out", str(straight)]) == 0
    assert "interactions.png" not in capsys.readouterr().out
    assert read(straight / "interactions.csv") and not (straight / "interactions.png").exists()
