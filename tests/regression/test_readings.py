"""Map or flow, against records for which the answer is known."""

import jax
import numpy as np
import pytest
from scipy.integrate import quad

import ndde_jax as ndde
from benchmarks.readings import sampled
from benchmarks.world import generators
from ndde_jax.regression import compare_readings
from ndde_jax.regression._design import InterpolationErrors
from ndde_jax.regression._readings import FINER, _FineLags, local_variance, mean_weights

KEY = jax.random.key(0)


def read(x, lags):
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    allowed = np.ones((x.shape[1], x.shape[1], len(lags)), bool)
    return compare_readings([x], tuple(lags), allowed, ~allowed)


def autoregression(seed, n=1500, p=0.6, c=0.8, bend=np.tanh):
    """y[t+1] = p y[t] + c tanh x[t−2] + e, which is a map."""
    rng, x = np.random.default_rng(seed), np.zeros((n, 2))
    for t in range(2, n - 1):
        x[t + 1] = p * x[t] + np.array([0, c * bend(x[t - 2, 0])]) + rng.normal(size=2)
    return x


def delayed_path(seed, n=3000, parts=20, delay=2.5):
    """dx = −x/4 dt + dW, dy = (tanh x(t − 2.5) − y/4) dt + dW, at a twentieth of the interval."""
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=((n + 100) * parts, 2)) * 0.5 / np.sqrt(parts)
    x, back = np.zeros((len(noise) + 1, 2)), round(delay * parts)
    for k in range(len(noise)):
        late = x[k - back, 0] if k >= back else 0.0
        x[k + 1] = x[k] + (np.array([0, np.tanh(late)]) - x[k] / 4) / parts + noise[k]
    return x[::parts][100:]


def with_estimates(x, estimated):
    """A comparison for a record with some values estimated from their neighbours."""
    rows = np.arange(len(x))
    for column, gone in zip(x.T, estimated.T, strict=True):
        column[gone] = np.interp(rows[gone], rows[~gone], column[~gone])
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    allowed = np.ones((2, 2, 5), bool)
    return [
        compare_readings([x], tuple(range(5)), allowed, ~allowed, None, told)
        for told in (None, (estimated,))
    ]


def test_lags_far_apart_are_looked_at_in_no_more_room_than_there_is():
    lags, graph = (0, 1, 2, 4, 72, 144, 288), np.zeros((3, 3, 7), bool)
    graph[[0, 0, 1], 0, [0, 4, 6]] = graph[2, 2, 0] = True
    finer = _FineLags.of(graph, lags, np.array([0.5, 1.0, 0.6]))
    assert len(finer.lags) * len(finer.variables) <= FINER
    assert finer.variables[finer.targets].tolist() == [0] and finer.variables.tolist() == [0, 1]
    near = {lag + side for lag in (0, 72, 288) for side in (-1, 0, 1)} - {-1}
    assert near <= set(finer.lags) and len(finer.lags) > 30
    # With candidates close to one another all targets have room.
    every = _FineLags.of(graph, (0, 2, 4, 6, 8, 10, 12), np.ones(3))
    assert every.targets.all() and every.lags == (0, 1, 2, *range(6, 15))


def test_values_that_were_estimated_make_no_flow_of_a_map():
    rng = np.random.default_rng(0)
    estimated = rng.random((1500, 2)) < 0.3
    estimated[[0, -1]] = False
    blind, told = with_estimates(autoregression(0), estimated)
    assert blind.name == "flow" and told.name == "map"
    # Without estimated values nothing changes; and a flow stays one.
    none, there = with_estimates(autoregression(1, n=600), np.zeros((600, 2), bool))
    np.testing.assert_allclose(none.nats, there.nats, atol=1e-3)
    path = delayed_path(3)
    estimated = rng.random(path.shape) < 0.05
    estimated[[0, -1]] = False
    assert with_estimates(path, estimated)[1].name == "flow"


@pytest.mark.parametrize("delay", [0.0, 0.3, 1.0, 2.7])
def test_weights_are_the_mean_of_an_interpolated_feature_over_a_step(delay):
    values = np.random.default_rng(0).normal(size=8)
    at = lambda t: np.interp(t, np.arange(8), values)  # noqa: E731
    now, lag = 5, int(delay)
    mean = quad(lambda s: at(now + s - delay), 0, 1, points=[delay % 1], epsabs=1e-10)[0]
    samples = [values[now - lag + shift] for shift in (1, 0, -1)]
    np.testing.assert_allclose(np.dot(mean_weights(delay), samples), mean, atol=1e-8)


@pytest.mark.parametrize("delay", [0.0, 0.3, 1.0, 2.7])
def test_where_paths_bend_the_mean_of_a_parabola_is_exact(delay):
    parabola, now, lag = np.poly1d([0.7, -2, 1]), 5, int(delay)
    mean = quad(lambda s: parabola(now + s - delay), 0, 1)[0]
    weights = mean_weights(delay, np.array([True, False]))
    samples = parabola(np.array([now - lag + shift for shift in (1, 0, -1)]))
    assert weights[:, 0] @ samples == pytest.approx(mean, abs=1e-12)
    np.testing.assert_allclose(weights[:, 1], mean_weights(delay))


def test_neighbours_tell_smooth_paths():
    """For a random walk lines err by half a step's variance; for sines by Taylor's formula."""
    rng, t = np.random.default_rng(0), np.arange(20_000.0)
    walk, wave = rng.normal(size=len(t)).cumsum(), np.sin(0.1 * t)
    between = InterpolationErrors.of([np.stack([walk, wave], axis=1)])
    steps = 2 - 2 * np.cos(0.1)  # mean squares, twice those of a sine
    lines, far = 1 - np.cos(0.1), 1 - np.cos(0.3)
    np.testing.assert_allclose(between.lines, [0.5, lines**2 / steps], rtol=0.03)
    cubics = (9 * lines - far) / 8
    np.testing.assert_allclose(between.cubics[1], cubics**2 / steps, rtol=0.03)
    # A fifth-degree polynomial is its own quintic, which no cubic equals.
    power = (t[:40, None] / 10) ** 5
    assert (
        InterpolationErrors.of([power]).quintics[0]
        < 1e-20
        < InterpolationErrors.of([power]).cubics[0]
    )
    np.testing.assert_array_equal(between.least, [between.lines[0], between.quintics[1]])
    assert between.curved.tolist() == [False, True] and not between.smooth
    assert InterpolationErrors.of([wave[:, None]]).smooth
    # Recordings too short for a guess add nothing.
    more = InterpolationErrors.of([np.stack([walk, wave], axis=1), np.zeros((5, 2))])
    np.testing.assert_array_equal(more, between)


def cycles(seed, n):
    """Oscillations of second order, with periods from 6 to 12 samples, of which the first drives
    the others: an autoregression like that of sunspots (Yule 1927).
    """
    rng = np.random.default_rng(seed)
    size, angle = rng.uniform(0.85, 0.95, 3), 2 * np.pi / rng.uniform(6, 12, 3)
    x, noise = np.zeros((n + 200, 3)), rng.normal(size=(n + 200, 3))
    for t in range(3, len(x)):
        own = 2 * size * np.cos(angle) * x[t - 1] - size**2 * x[t - 2]
        x[t] = own + noise[t] + [0, 0.3 * x[t - 1, 0], -0.3 * x[t - 3, 0]]
    return x[200:]


def steep_ring(seed, n):
    """A map of three genes in a ring: the first activates the second, with a threshold, which makes
    the third, which represses the first.
    """
    rng, x = np.random.default_rng(seed), np.full((n + 200, 3), 0.5)
    for k in range(3, len(x)):
        source, third = x[k - 2, 0] ** 4, x[k - 3, 2] ** 4
        made = [0.5 / (1 + third), 0.8 * source / (0.3 + source), 0.7 * x[k - 1, 1]]
        x[k] = np.array([0.6, 0.5, 0.4]) * x[k - 1] + made + 0.08 * rng.normal(size=3)
    return x[200:]


@pytest.mark.parametrize(
    ("make", "seed", "n", "links"),
    [
        *((cycles, seed, 1000, {(0, 1, 0), (0, 2, 2)}) for seed in range(3)),
        *((steep_ring, seed, 500, {(0, 1, 1), (1, 2, 0), (2, 0, 2)}) for seed in range(2)),
    ],
)
def test_a_map_that_moves_smoothly_is_no_flow_for_that(make, seed, n, links):
    x = make(seed, n)
    assert InterpolationErrors.of([x]).smooth
    found = ndde.discover(x, dt=1.0, lags=tuple(range(6)), key=KEY)
    assert found.reading != "flow" and found.verdict == "supported"
    kept = {tuple(edge) for edge in np.argwhere(found.graph).tolist() if edge[0] != edge[1]}
    assert kept == links


def test_a_delay_between_coarse_lags_fits_neither_reading():
    found = ndde.discover(steep_ring(0, 500), dt=1.0, lags=(0, 1, 2, 4), key=KEY)
    assert found.reading == "flow"


def doubtful(x, lags) -> float:
    """The allowance for interpolation errors that is in doubt."""
    every = np.ones((x.shape[1], x.shape[1], len(lags)), bool)
    found = compare_readings([(x - x.mean(axis=0)) / x.std(axis=0)], lags, every, ~every)
    assert found.smooth and found.name == "flow"
    return found.doubtful


def test_the_allowance_is_not_in_doubt_where_noise_is_carried_on():
    """As by a spring."""
    assert doubtful(steep_ring(0, 500), tuple(range(6))) > 0
    rng, x, path = np.random.default_rng(0), np.array([2.0, 0.0]), []
    for _ in range(1700 * 20):  # Van der Pol's oscillator
        drift = np.array([x[1], 2 * (1 - x[0] ** 2) * x[1] - x[0]])
        x = x + 0.01 * drift + 0.01 * rng.normal(size=2)
        path.append(x)
    assert doubtful(np.array(path)[4000::20], (0,)) == 0


@pytest.mark.slow
def test_chaos_with_errors_of_measurement_stays_a_flow():
    """All six variables follow their own past linearly, and the residual is larger than the error
    of two-sided interpolation: interpolation of higher order errs more, as it does with such
    errors.
    """
    x = sampled("Hopfield")[:600]
    x = x + 0.01 * x.std(axis=0) * np.random.default_rng(4).normal(size=x.shape)
    assert ndde.discover(x, dt=1.0, lags=(0, 1, 2), key=KEY).reading == "flow"


def mackey_glass(every: int, n: int) -> np.ndarray:
    """dx/dt = x(t − 17) / 5 / (1 + x(t − 17)¹⁰) − x / 10, by Euler steps of a twentieth."""
    parts, x = 20, np.full((n + 150) * every * 20 + 1, 1.2)
    for k in range(17 * parts, len(x) - 1):
        late = x[k - 17 * parts]
        x[k + 1] = x[k] + (0.2 * late / (1 + late**10) - 0.1 * x[k]) / parts
    return x[:: every * parts][150:, None] + 0.002 * np.random.default_rng(0).normal(
        size=(n + 1, 1)
    )


@pytest.mark.parametrize("lags", [(0, 4, 8, 12), range(13)])
def test_a_smooth_path_of_few_samples_a_delay_is_a_flow(lags):
    """Almost no noise, 8.5 samples per delay: interpolation errors decide nothing."""
    found = ndde.discover(
        mackey_glass(2, 550), dt=2.0, lags=lags, recipe=ndde.Recipe.fast(), key=KEY
    )
    assert found.reading == "flow"
    late = found.delays[0, 0, 2:][found.graph[0, 0, 2:]]
    np.testing.assert_allclose(late, 17, atol=0.5)  # a quarter of a sample


@pytest.mark.parametrize("seed", range(3))
def test_a_map_is_a_map_and_its_lag_is_found(seed):
    found = read(autoregression(seed), range(5))
    assert found.name == "map"
    assert [tuple(e) for e in np.argwhere(found.map_graph) if e[0] != e[1]] == [(0, 1, 2)]


@pytest.mark.parametrize("seed", range(3))
def test_a_flow_is_a_flow(seed):
    found = read(delayed_path(seed), range(5))
    assert found.name == "flow"
    links = {tuple(e[:2]) for e in np.argwhere(found.flow_graph) if e[0] != e[1]}
    assert links == {(0, 1)}


def test_a_sampled_ornstein_uhlenbeck_process_is_both():
    rng, x = np.random.default_rng(0), np.zeros((1000, 1))
    for t in range(999):
        x[t + 1] = 0.8 * x[t] + rng.normal(size=1)
    assert read(x, (0,)).name == "undecided"


def test_missing_values_and_recordings_leave_what_is_known():
    x = autoregression(0)
    x[200:230, 1] = np.nan
    z = (x - np.nanmean(x, axis=0)) / np.nanstd(x, axis=0)
    allowed = np.ones((2, 2, 5), bool)
    found = compare_readings([z[:700], z[700:]], tuple(range(5)), allowed, ~allowed)
    assert found is not None and found.name == "map"
    assert compare_readings([z[:6]], tuple(range(5)), allowed, ~allowed) is None


def test_the_delay_of_a_map_is_its_lag_exactly():
    found = ndde.discover(
        autoregression(1), dt=0.1, lags=range(5), recipe=ndde.Recipe.fast(), key=KEY
    )
    assert found.reading == "map" and found.evidence < -3
    assert found.graph[0, 1].tolist() == [False, False, True, False, False]
    assert found.delays[0, 1, 2] == pytest.approx(0.2, abs=1e-7)
    np.testing.assert_allclose(found.delay_intervals[0, 1, 2], 0.2, atol=1e-6)


def test_short_unrelated_records_have_no_links():
    false = 0
    for seed in range(4):
        rng, x = np.random.default_rng(seed), np.zeros((80, 3))
        for t in range(79):
            x[t + 1] = 0.8 * x[t] + rng.normal(size=3)
        found = ndde.discover(x, dt=1.0, lags=range(4), recipe=ndde.Recipe.fast(), key=KEY)
        false += int((found.graph.any(axis=2) & ~np.eye(3, dtype=bool)).sum())
    assert false <= 1  # of 24


def test_what_is_held_out_was_not_fitted():
    """A linear law, against scikit-learn's own regression on the same blocks."""
    from sklearn.linear_model import LinearRegression

    x = autoregression(2, bend=lambda u: u)
    found = ndde.discover(x, dt=1.0, lags=range(3), recipe=ndde.Recipe.fast(), key=KEY)
    assert np.isfinite(found.held_out).all()
    rows = np.arange(2, len(x) - 1)
    inputs, rate = np.stack([x[rows, 1], x[rows - 2, 0]], 1), x[rows + 1, 1] - x[rows, 1]
    error = power = 0.0
    for block in np.array_split(np.arange(len(rows)), 5):
        rest = np.setdiff1d(np.arange(len(rows)), block)
        fit = LinearRegression().fit(inputs[rest], rate[rest])
        error += np.sum((rate[block] - fit.predict(inputs[block])) ** 2)
        power += np.sum((rate[block] - rate[rest].mean()) ** 2)
    assert found.graph[:, 1].sum() == 2
    assert found.held_out[1] == pytest.approx(error / power, abs=0.003)


def test_a_delay_between_coarse_lags_is_no_reason_for_a_map():
    """A flow whose delay of 7 samples lies between candidates at 5 and 10: neither reading contains
    it exactly, and the closer one would win by hundreds of nats.
    """
    found = [read(delayed_path(seed, n=2000, delay=7.3), (0, 5, 10, 15)) for seed in range(3)]
    assert min(one.evidence for one in found) > 0
    assert sum(one.evidence for one in found) > 6 and found[0].map_graph[0, 1].any()


def test_a_noise_free_map_of_products_is_a_map():
    """Coupled logistic maps: sums of splines have no products, and more columns come closer."""
    x = np.random.default_rng(0).uniform(0.2, 0.8, (700, 3))
    for t in range(len(x) - 1):
        grown = 3.9 * x[t] * (1 - x[t])
        x[t + 1] = 0.8 * grown + 0.2 * grown[[0, 0, 1]]
    found = ndde.discover(
        x[200:], dt=1.0, lags=(0, 1, 2), recipe=ndde.Recipe.fast(), key=jax.random.key(0)
    )
    assert found.reading == "map" and found.evidence < -100
    links = {tuple(e) for e in np.argwhere(np.asarray(found.graph)) if e[0] != e[1]}
    assert links == {(0, 1, 0), (1, 2, 0)}


def spread_autoregression(seed, dim=6, n=600):
    """A sparse autoregression with the same size at three lags, of itself and of one other."""
    rng, matrix = np.random.default_rng(seed), np.zeros((dim, dim))
    for target in range(dim):
        matrix[target, [target, (target + rng.integers(1, dim)) % dim]] = 0.15
    x = np.zeros((n + 100, dim))
    for t in range(3, len(x)):
        x[t] = matrix @ x[t - 3 : t].sum(axis=0) + rng.normal(size=dim)
    return x[100:]


@pytest.mark.parametrize("seed", range(2))
def test_sources_that_act_over_several_lags_are_of_a_map(seed):
    """A flow reads several samples at the price of one: its average over a step."""
    assert read(spread_autoregression(seed), range(6)).name == "map"


def with_links_at_once(seed, n=1000):
    """A map: x3 drives x0 three samples later, x0 drives x1 and x1 drives x2 within the sample."""
    rng = np.random.default_rng(seed)
    own, x, noise = rng.uniform(0.3, 0.8, 4), np.zeros((n, 4)), rng.normal(size=(n, 4))
    for t in range(3, n):
        x[t] = own * x[t - 1] + noise[t]
        x[t, 0] += 0.6 * x[t - 3, 3]
        x[t, 1] += 0.6 * x[t, 0]
        x[t, 2] += 0.6 * x[t, 1]
    return x


@pytest.mark.parametrize("seed", [4, 7, 14])
def test_links_within_a_sample_make_no_flow_of_a_map(seed):
    assert read(with_links_at_once(seed), range(6)).name == "map"


@pytest.mark.parametrize("record, error", [(0, 0.02), (0, 0.3), (10, 0.2)])
def test_sensors_of_one_quantity_make_no_map_of_a_flow(record, error):
    """Each predicted the end of the other's step: these were maps by 4 to 11 nats."""
    x = generators.clean_flow(record + 1, seed=31).x[record]
    errors = error * x.std(axis=0) * np.random.default_rng(0).normal(size=x.shape)
    twins = (x + errors)[:, :2]
    assert read(np.concatenate([x, twins], axis=1), range(6)).evidence > 0


def loud(seed, n=800):
    """A map whose noise has a wandering variance, and the logarithm of that variance."""
    rng, h, x = np.random.default_rng(seed), np.zeros(n), np.zeros((n, 2))
    for t in range(2, n - 1):
        h[t + 1] = 0.98 * h[t] + 0.25 * rng.normal()
        link = np.array([0, 0.4 * x[t - 2, 0]])
        x[t + 1] = 0.5 * x[t] + link + np.exp(h[t + 1] / 2) * rng.normal(size=2)
    return x, h


@pytest.mark.parametrize("seed", [2, 5, 26])
def test_loud_stretches_do_not_decide(seed):
    """They turned these maps into flows, by 4 to 12 nats."""
    assert read(loud(seed)[0], range(5)).evidence < 3


def test_a_variance_that_changes_is_told_from_one_that_does_not():
    rng = np.random.default_rng(0)
    for noise in (rng.normal(size=(2, 800, 2)), rng.standard_t(3, size=(2, 800, 2))):
        assert local_variance(noise) is None
    _, h = loud(0)
    found = local_variance(np.exp(h / 2)[:, None] * rng.normal(size=(2, 800, 2)))
    assert found.mean() == pytest.approx(1)
    assert np.corrcoef(np.log(found), h)[0, 1] > 0.8


def test_a_window_is_no_part_of_its_own_variance():
    """Means of all other windows, by hand."""
    rng = np.random.default_rng(1)
    size = np.repeat([0.3, 3.0], 60)
    left = (size[:, None] * rng.normal(size=(120, 1)))[None]
    found, square = local_variance(left), left[0, :, 0] ** 2
    far = np.abs(np.arange(120)[:, None] - np.arange(120))
    tried = []
    for memory in (1, 2, 5, 10, 20, 50):
        weight = np.where(far > 0, 0.5 ** (far / memory), 0)
        tried.append(weight @ square / weight.sum(axis=1))
    best = min(tried, key=lambda v: np.sum(np.log(v) + square / v))
    np.testing.assert_allclose(found, best / best.mean(), rtol=1e-9)
