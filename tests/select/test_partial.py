"""Windows that miss values of some variables: their contents, and the targets they serve."""

import jax
import numpy as np
import pytest

import ndde_jax as ndde
from ndde_jax.samples._reading import read_samples
from ndde_jax.select._partial import with_partial
from ndde_jax.select._reading import choose_windows
from ndde_jax.select._screened import Screened

LAGS = (0, 1, 2)
FAST = ndde.Recipe.fast()


def chain(n=800, seed=0):
    """x0 -> x1 -> x2 at level lags 1 and 3, and x3 alone; noises of one size."""
    rng = np.random.default_rng(seed)
    x = np.zeros((n + 50, 4))
    for k in range(3, len(x)):
        x[k] = 0.5 * x[k - 1] + rng.normal(size=4)
        x[k, 1] += 0.4 * x[k - 1, 0]
        x[k, 2] += 0.4 * x[k - 3, 1]
    return x[50:]


def with_outages(x, share=0.13, length=12, seed=1):
    """Each variable is missing for a given number of samples at a time."""
    rng, x = np.random.default_rng(seed), x.copy()
    for j in range(x.shape[1]):
        for start in np.flatnonzero(rng.random(len(x)) < share / length):
            x[start : start + length, j] = np.nan
    return x


def partial_of(x, scheme):
    samples = read_samples(x, dt=1.0)
    screened = Screened(ndde.lagged_windows(samples, lags=LAGS))
    if scheme == "midpoint":
        screened = choose_windows(samples, lags=LAGS, scheme=scheme, prior=None).screened
    return with_partial(screened, samples).windows


@pytest.mark.parametrize("scheme", ["euler", "midpoint"])
def test_what_is_measured_is_that_of_the_complete_record(scheme):
    x = chain(400)
    y = with_outages(x)
    windows, whole = partial_of(y, scheme), partial_of(x, scheme)
    assert whole.partial is None
    partial = windows.partial
    known, rated = np.asarray(partial.known), np.asarray(partial.rated)

    # By hand: the samples that a row reads.
    first = int(np.asarray(windows.position)[0])
    rows = first + np.arange(len(rated))
    there = np.isfinite(y)
    np.testing.assert_array_equal(rated, there[rows] & there[rows + 1])
    if scheme == "euler":
        read = [[there[rows - lag]] for lag in LAGS]
    else:  # two samples on either side, none beyond the present
        around = [[0], [2, 1, 0], [3, 2, 1, 0]]
        read = [[there[rows - lag] for lag in lags] for lags in around]
    by_hand = np.stack([np.all(parts, axis=0) for parts in read], axis=1)
    some = rated.any(axis=1)
    np.testing.assert_array_equal(known[some], by_hand[some])

    def physical(scaling, history, increment):
        s = jax.tree.map(np.asarray, scaling)
        return history * s.scale + s.center, increment * s.rate_scale + s.rate_center

    seen = physical(windows.scaling, np.asarray(partial.history), np.asarray(partial.increment))
    true = physical(whole.scaling, np.asarray(whole.history), np.asarray(whole.increment))
    past = known & (np.asarray(LAGS) > 0)[None, :, None]  # the present may be predicted half a step
    np.testing.assert_allclose(seen[0][past], true[0][past], atol=1e-5)
    if scheme == "euler":
        np.testing.assert_allclose(seen[0][known], true[0][known], atol=1e-5)
        np.testing.assert_allclose(seen[1][rated], true[1][rated], atol=1e-5)


@pytest.mark.slow
def test_a_station_that_is_down_half_of_the_time_costs_only_what_needs_it():
    x = chain(900)
    y = x.copy()
    for start in range(0, len(x), 80):
        y[start : start + 40, 3] = np.nan
    given = dict(dt=1.0, lags=LAGS, recipe=FAST, scheme="euler", key=jax.random.key(0))
    whole, found = ndde.discover(x, **given), ndde.discover(y, **given)
    counts = np.asarray(found.windows.count(found.graph))
    n = int(whole.windows.n_valid)
    assert int(found.windows.n_valid) < 0.5 * n
    np.testing.assert_array_equal(counts[:3], n)
    assert counts[3] < 0.55 * n
    np.testing.assert_array_equal(found.graph[:, :3], whole.graph[:, :3])
    # The regressions of the others are those of the complete record, and so are their results.
    np.testing.assert_allclose(found.held_out[:3], whole.held_out[:3], atol=1e-3)
    kept = whole.graph & (np.arange(4) < 3)[None, :, None]
    np.testing.assert_allclose(found.scores[kept], whole.scores[kept], atol=1e-3)
    assert f"{counts.min()} to {counts.max()} windows each" in " ".join(
        found.report(full=True).split()
    )


def test_outages_of_each_variable_leave_the_links_of_the_complete_record():
    found = []
    for seed in range(2):
        x = chain(700, seed)
        for record in (x, with_outages(x, share=0.2, seed=seed)):
            windows = partial_of(record, "euler")
            graph = ndde.recover(windows, ndde.select.Splines(), key=jax.random.key(0)).graph
            found.append(np.asarray(graph))
    assert sum((a != b).sum() for a, b in zip(found[::2], found[1::2], strict=True)) <= 1


def test_a_series_of_its_own_drives_nothing_though_its_values_are_estimated():
    links = 0
    for seed in range(3):
        x = np.random.default_rng(seed).normal(size=(400, 5)).cumsum(axis=1)  # related at once
        windows = partial_of(with_outages(x, share=0.25, seed=seed), "euler")
        graph = ndde.recover(windows, ndde.select.Splines(), key=jax.random.key(0)).graph
        links += np.asarray(graph)[~np.eye(5, dtype=bool)].sum()
    assert links <= 1


def test_windows_that_are_stacked_or_thinned_keep_the_complete_ones():
    windows = partial_of(with_outages(chain(300)), "euler")
    assert ndde.stack_windows([windows]).partial is None
    assert ndde.windows.thin_windows(windows, 1).partial is None


@pytest.mark.slow  # compiles the search
@pytest.mark.parametrize("scheme", ["euler", "midpoint"])
def test_under_jit_and_vmap_the_same_windows_count(scheme):
    windows = partial_of(with_outages(chain(500)), scheme)

    def graph(w):
        return ndde.recover(w, ndde.select.Splines(), key=jax.random.key(0)).graph

    host = np.asarray(graph(windows))
    np.testing.assert_array_equal(host, jax.jit(graph)(windows))
    two = jax.tree.map(lambda a: np.stack([a, a]), windows)
    np.testing.assert_array_equal(host, jax.vmap(graph)(two)[1])
