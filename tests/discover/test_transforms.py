"""Variables read as logarithms or ranks: findings are about these, forecasts in measured units."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import ndde_jax as ndde
from ndde_jax.samples._treatments import restored, transformed

DT, KEY = 0.2, jax.random.key(0)
NAMES = ("rain", "flow")
RECIPE = ndde.Recipe(strategy=ndde.select.Default(networks=None), scheme="euler")
# As in `test_offsets.py`, which shares the simulator.
HORIZON, OPTIONS = 60, {"paths": 50, "key": KEY}


def logarithms(n=700, seed=0):
    """rain drives the logarithm of flow two samples later."""
    rng, x = np.random.default_rng(seed), np.zeros((n + 100, 2))
    for k in range(2, len(x) - 1):
        rate = np.array([-x[k, 0], 1.2 * x[k - 2, 0] - x[k, 1]])
        x[k + 1] = x[k] + DT * rate + np.sqrt(DT) * np.array([0.7, 0.4]) * rng.normal(size=2)
    return x[100:]


def discover(x, **options):
    options = {"dt": DT, "names": NAMES, "lags": (0, 2, 4), "recipe": RECIPE} | options
    return ndde.discover(x, key=KEY, treat=False, **options)


LOGS = logarithms()
X = np.column_stack([LOGS[:, 0], np.exp(LOGS[:, 1])])


@pytest.fixture(scope="module")
def by_hand():
    return discover(LOGS)


@pytest.fixture(scope="module")
def found():
    return discover(X, transform={"flow": "log"})


def exp(values):
    """The inverse transform, by hand."""
    return np.stack([values[..., 0], np.exp(values[..., 1])], axis=-1)


@pytest.mark.slow
def test_the_law_is_that_of_logarithms_taken_by_hand(found, by_hand):
    np.testing.assert_array_equal(found.graph, by_hand.graph)
    np.testing.assert_allclose(found.scores, by_hand.scores, atol=1e-12)
    assert found.graph[0, 1, 1] and found.graph.sum() == 3
    effects, other = found.effects(), by_hand.effects()
    np.testing.assert_allclose(effects.slope, other.slope, atol=1e-9)
    assert ("rain", "log flow", 2) in [row[:3] for row in effects.rows()]
    for names in (("rain", "flow"), ("rain", "log flow"), (0, 1)):
        np.testing.assert_allclose(effects.curve(*names), other.curve("rain", "flow"), atol=1e-9)
    # flow itself has an axis of its logarithm.
    assert effects.curve("flow", "flow")[0].min() == pytest.approx(LOGS[:, 1].min(), abs=0.2)
    labels = [row[0] for row in effects.interactions().rows()]
    assert set(labels) <= {"rain", "log flow"}


@pytest.mark.slow
def test_it_is_said_and_undone(found):
    said = " ".join(found.report(full=True).split())
    assert "flow is read as its logarithm: slopes, effects and units of it are those of the" in said
    assert found.samples.symbols == ("rain", "log(flow)")
    assert found.samples.transform == {"flow": "log"} and "log flow" in found.samples.labels
    np.testing.assert_array_equal(found.samples.as_measured().values[0], X)
    assert '"transform": {\n  "flow": "log"\n }' in found.to_json()
    assert "transform" not in discover(LOGS[:200]).to_json()


def test_forecasts_come_in_measured_units(found, by_hand, tmp_path):
    f, other = found.forecast(HORIZON, **OPTIONS), by_hand.forecast(HORIZON, **OPTIONS)
    np.testing.assert_allclose(f.paths, exp(np.asarray(other.paths)), rtol=1e-9)
    np.testing.assert_allclose(f.history[-5:], X[-5:], rtol=1e-9)
    np.testing.assert_allclose(f.quantile(0.9)[:, 1], np.exp(other.quantile(0.9)[:, 1]), rtol=0.02)
    again = found.forecast(HORIZON, **OPTIONS, history=X[-20:])
    np.testing.assert_allclose(again.paths, f.paths, rtol=1e-9)
    found.save(tmp_path)
    loaded = ndde.Discovery.load(tmp_path)
    np.testing.assert_array_equal(loaded.forecast(HORIZON, **OPTIONS).paths, f.paths)
    with pytest.raises(ValueError, match="history, flow: 3 of 20 values have no logarithm"):
        found.forecast(
            HORIZON, **OPTIONS, history=np.where(np.arange(20)[:, None] < 3, -1.0, X[-20:])
        )


@pytest.mark.slow
def test_what_is_set_is_measured_and_a_shift_is_a_factor(found, by_hand):
    level = {"horizon": HORIZON, **OPTIONS}
    g, other = (
        found.intervene({"flow": 2.0}, **level),
        by_hand.intervene({"flow": np.log(2.0)}, **level),
    )
    np.testing.assert_allclose(g.changed, exp(np.asarray(other.changed)), rtol=1e-9)
    np.testing.assert_allclose(g.baseline, exp(np.asarray(other.baseline)), rtol=1e-9)
    rule = found.intervene({"flow": lambda t, x: 2.0 * x[1] / x[1]}, **level)
    np.testing.assert_allclose(rule.changed, g.changed, rtol=1e-9)
    shifted = found.intervene(shift={"flow": np.log(1.5)}, **level)
    np.testing.assert_allclose(shifted.changed[:, 0, 1], 1.5 * shifted.baseline[:, 0, 1], rtol=1e-9)
    assert any("multiplied by 1.5" in note for note in shifted.notes)
    assert not any("logarithm" in note for note in g.notes)
    with pytest.raises(ValueError, match="the value of flow: -1 has no logarithm"):
        found.intervene({"flow": -1.0}, **level)
    with pytest.raises(ValueError, match="must return values above 0"):
        found.intervene({"flow": lambda t: 0 * t}, **level)


@pytest.mark.slow
def test_outcomes_have_gradients_through_logarithms(found):
    def outcome(level):
        changed = found.intervene({"flow": level}, horizon=HORIZON, **OPTIONS).changed
        return jnp.mean(changed[..., 1])

    # Forward mode, which is one program; `tests/use/test_interventions.py` tests the reverse mode.
    assert jax.jvp(outcome, (2.0,), (1.0,))[1] == pytest.approx(1.0, abs=1e-6)


def test_known_inputs_are_given_as_measured():
    swapped = np.column_stack([np.exp(LOGS[:, 0]), LOGS[:, 1]])
    kind = {"transform": {"rain": "log"}, "inputs": ["rain"]}
    found, other = discover(swapped, **kind), discover(LOGS, inputs=["rain"])
    future = np.linspace(0.5, 2.0, HORIZON)
    f = found.forecast(HORIZON, **OPTIONS, inputs={"rain": future})
    g = other.forecast(HORIZON, **OPTIONS, inputs={"rain": np.log(future)})
    np.testing.assert_allclose(f.paths[..., 0], np.broadcast_to(future, (50, HORIZON)), rtol=1e-9)
    np.testing.assert_allclose(f.paths[..., 1], g.paths[..., 1], rtol=1e-9)
    with pytest.raises(ValueError, match="the future of rain: 20 of 60 values"):
        found.forecast(HORIZON, **OPTIONS, inputs={"rain": future - 1})


@pytest.mark.slow
def test_backtests_score_measured_values(found, by_hand):
    held = logarithms(200, seed=1)
    options = {"horizon": 3, "origins": 8, "paths": 40, "key": KEY, "at": (1, 3)}
    b = found.backtest(data=exp(held), **options)
    other = by_hand.backtest(data=held, **options)
    np.testing.assert_allclose(b.scores[..., 0], other.scores[..., 0], rtol=1e-9)
    # An interval contains a value wherever it contains its logarithm.
    np.testing.assert_allclose(b.coverage, other.coverage, atol=1e-9)
    # For the first step: a forecast of the median, by its definition.
    assert not np.allclose(b.scores[..., 1], other.scores[..., 1])
    with pytest.raises(ValueError, match="data, flow: 116 of 200 values"):
        found.backtest(data=held, **options)


def test_seasons_of_logarithms_are_factors():
    t = np.arange(600)
    factor = np.exp(np.sin(2 * np.pi * t / 12))
    x = np.column_stack([LOGS[:600, 0], np.exp(LOGS[:600, 1]) * factor])
    samples = ndde.read_samples(x, dt=1.0, names=NAMES, time_unit="month")
    treated = ndde.prepare_samples(samples, ("season",), transform={"flow": "log"})
    assert [t.name for t in treated.treatments] == ["transform", "season"]
    removed = treated.treatments[1].removed(t.astype(float))[:, 1]
    assert np.corrcoef(removed, np.log(factor))[0, 1] > 0.99
    np.testing.assert_array_equal(treated.as_measured().values[0], x)


# ---- ranks ----


def test_ranks_are_normal_scores_with_ties_and_a_way_back():
    values = np.array([3.0, 1.0, 2.0, 2.0, np.nan, 9.0])
    samples = ndde.read_samples(values, dt=1.0, names=("a",))
    treated = ndde.prepare_samples(samples, (), transform="ranks")
    q = stats.norm.ppf(np.arange(1, 6) / 6)
    expected = [q[3], q[0], (q[1] + q[2]) / 2, (q[1] + q[2]) / 2, np.nan, q[4]]
    np.testing.assert_allclose(treated.values[0][:, 0], expected)
    (treatment,) = treated.treatments
    far = np.linspace(-9, 9, 181)[:, None]
    back = restored(treatment, far)
    assert (np.diff(back[:, 0]) > 0).all()
    np.testing.assert_allclose(transformed(treatment, back), far, atol=1e-9)
    np.testing.assert_allclose(restored(treatment, jnp.asarray(far), jnp), back, rtol=1e-9)
    # Beyond the range along the line through its outermost tenth: here the last two values.
    slope = (9 - 3) / (q[4] - q[3])
    assert restored(treatment, np.array([[q[4] + 1]]))[0, 0] == pytest.approx(9 + slope)


def test_ranks_see_the_same_in_any_monotone_scale():
    one = discover(np.column_stack([LOGS[:, 0], LOGS[:, 1]]), transform="ranks")
    other = discover(np.column_stack([LOGS[:, 0] ** 3, X[:, 1]]), transform="ranks")
    np.testing.assert_array_equal(one.graph, other.graph)
    np.testing.assert_allclose(one.scores, other.scores, atol=1e-9)
    assert other.samples.labels == ("score of rain", "score of flow")
    f, g = one.forecast(HORIZON, **OPTIONS), other.forecast(HORIZON, **OPTIONS)
    inside = np.abs(np.asarray(f.paths[..., 1])) < 1.0
    np.testing.assert_allclose(
        np.asarray(g.paths[..., 1])[inside], np.exp(f.paths[..., 1])[inside], rtol=0.02
    )
    np.testing.assert_allclose(g.history[-3:], [[a**3, np.exp(b)] for a, b in LOGS[-3:]], rtol=1e-9)


# ---- impossible requests ----


def test_recordings_have_one_scale_and_offsets_come_after_it():
    x = [X[:300], X[300:600] * np.array([1.0, 7.0])]
    recipe = ndde.Recipe(strategy=ndde.select.Default(networks=None), scheme="euler", offsets=True)
    found = discover(x, transform={"flow": "log"}, recipe=recipe)
    logs = [np.log(piece[:, 1]) for piece in x]
    np.testing.assert_allclose(
        found.samples.offsets[:, 1], [piece.mean() - np.mean(logs) for piece in logs]
    )
    f = found.forecast(HORIZON, **OPTIONS)
    np.testing.assert_allclose(f.history[-5:], x[1][-5:], rtol=1e-9)
    again = found.forecast(HORIZON, **OPTIONS, history=x[1][-20:])
    np.testing.assert_allclose(again.paths, f.paths, rtol=1e-6)


@pytest.mark.parametrize(
    ("transform", "message"),
    [
        ({"flow": "square"}, "transform must be a mapping"),
        ({"snow": "log"}, "transform names 'snow', which is not a variable"),
        ({"rain": "log"}, "transform: rain: .* of 700 values have no logarithm.*--ranks .rain"),
        (3, "transform must be a mapping"),
    ],
)
def test_what_cannot_be_transformed_is_said(transform, message):
    with pytest.raises(ValueError, match=message):
        discover(X, transform=transform)


def test_treated_samples_keep_what_they_have(found):
    samples = ndde.prepare_samples(
        ndde.read_samples(X, dt=DT, names=NAMES), (), transform={"flow": "log"}
    )
    again = discover(samples, dt=None, names=None, transform={"flow": "log"})
    np.testing.assert_array_equal(again.scores, found.scores)
    with pytest.raises(ValueError, match="transform comes too late"):
        discover(samples, dt=None, names=None, transform="ranks")
    with pytest.raises(ValueError, match="fewer than two different values"):
        ndde.prepare_samples(ndde.read_samples(np.ones((9, 1)), dt=1.0), (), transform="ranks")


def test_many_systems_are_read_alike(found):
    (many,) = ndde.discover_many(
        [X], dt=DT, names=NAMES, lags=(0, 2, 4), recipe=RECIPE, treat=False, key=KEY,
        transform={"flow": "log"}, progress=False,
    )  # fmt: skip
    np.testing.assert_array_equal(many.graph, found.graph)
    assert many.samples.transform == {"flow": "log"}
