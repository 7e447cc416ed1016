"""Missing values estimated by the learned system, against Gaussian conditionals and the truth."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.interpolate import CubicSpline

import ndde_jax as ndde
from ndde_jax.use import _impute
from ndde_jax.use._impute import Problem, _law, better_of, most_likely, simulated_guess
from ndde_jax.use._one_step import KINDS
from ndde_jax.use._simulate import make_steps, no_change, simulate

from .small import DT, LAGS, NAMES, TRUTH, discovery, linear_path

KEY = jax.random.key(0)
FAST = ndde.Recipe(
    strategy=ndde.select.Default(networks=None),
    scheme="midpoint",
    passes=1,
    delays=False,
    events=False,
)


# ---- the path itself, for a known linear law ----

NOW, LATE = np.array([[0.8, 0.3], [-0.2, 0.7]]), np.array([[0.1, 0.0], [0.2, -0.1]])
FACTOR = np.array([[0.5, 0.0], [0.2, 0.4]])
OFFSETS = (0, 2)


def linear_law(past):
    """Two variables, which depend on the present and on two samples ago."""
    value = past[:, 0] @ NOW.T + past[:, 1] @ LATE.T
    slope = np.stack([NOW, LATE], axis=1)
    return value, np.broadcast_to(slope[None], (len(past), *slope.shape))


def linear_record(n, rng):
    x = np.zeros((n, 2))
    x[:3] = rng.normal(size=(3, 2))
    for k in range(2, n - 1):
        x[k + 1] = NOW @ x[k] + LATE @ x[k - 2] + FACTOR @ rng.normal(size=2)
    return x


def conditional(x, missing):
    """Mean and covariance of missing values given all others and the first three samples, from
    the covariance of all samples after these.
    """
    n = len(x)
    mean = x.copy()
    for k in range(2, n - 1):
        mean[k + 1] = NOW @ mean[k] + LATE @ mean[k - 2]
    system = np.eye(2 * (n - 3))
    for k in range(n - 3):
        for back, matrix in ((1, NOW), (3, LATE)):
            if k >= back:
                system[2 * k : 2 * k + 2, 2 * (k - back) : 2 * (k - back) + 2] = -matrix
    inverse = np.linalg.inv(system)
    joint = inverse @ np.kron(np.eye(n - 3), FACTOR @ FACTOR.T) @ inverse.T
    gone, values, mu = missing[3:].ravel(), x[3:].ravel(), mean[3:].ravel()
    gain = joint[np.ix_(gone, ~gone)] @ np.linalg.inv(joint[np.ix_(~gone, ~gone)])
    covariance = joint[np.ix_(gone, gone)] - gain @ joint[np.ix_(~gone, gone)]
    return mu[gone] + gain @ (values - mu)[~gone], covariance


def linear_problem(x, missing, part=None):
    part = np.zeros(len(x), int) if part is None else part
    guess = np.where(missing, 0.0, x)
    rows = _impute.seen_rows(guess, missing, OFFSETS, part, np.ones(len(x), bool))
    white = np.broadcast_to(np.linalg.inv(FACTOR), (len(rows), 2, 2))
    return Problem(guess, missing, rows, OFFSETS, white, np.zeros(2), np.ones(2), part)


@pytest.fixture
def holes():
    missing = np.zeros((60, 2), bool)
    missing[10:14, 0] = missing[12, 1] = missing[30:45] = missing[50, 0] = missing[58:, 1] = True
    return missing


def test_estimates_are_gaussian_conditionals(holes):
    rng = np.random.default_rng(0)
    x = linear_record(60, rng)
    path = most_likely(linear_law, linear_problem(x, holes), draws=4000, rng=rng)
    mean, covariance = conditional(x, holes)
    np.testing.assert_allclose(path.values, mean, atol=1e-6)
    np.testing.assert_allclose(path.errors, np.sqrt(np.diag(covariance)), rtol=1e-4)
    error = 5 * covariance.max() / np.sqrt(4000)
    np.testing.assert_allclose(np.cov(path.draws.T), covariance, atol=error)
    assert path.settled.all() and path.group.max() == 3 and path.steps < 10


def test_recordings_know_nothing_of_each_other(holes):
    rng = np.random.default_rng(1)
    pieces = [linear_record(60, rng) for _ in range(2)]
    part = np.repeat([0, 1], 60)
    both = linear_problem(np.concatenate(pieces), np.concatenate([holes, holes]), part)
    path = most_likely(linear_law, both, draws=0, rng=rng)
    means = np.concatenate([conditional(piece, holes)[0] for piece in pieces])
    np.testing.assert_allclose(path.values, means, atol=1e-6)
    assert not (np.isin(both.rows, (59, 60, 61))).any()


def test_gaps_belong_together_if_an_equation_sees_two():
    unknown = np.zeros((20, 1), bool)
    unknown[[2, 5, 9, 13]] = True
    part = (np.arange(20) > 10).astype(int)
    np.testing.assert_array_equal(_impute.stretches(unknown, part, 2), [0, 0, 1, 2])
    np.testing.assert_array_equal(_impute.stretches(unknown, part, 3), [0, 0, 0, 1])


def test_what_no_step_leads_to_is_held_to_the_mean():
    x = linear_record(30, np.random.default_rng(2))
    missing = np.zeros(x.shape, bool)
    missing[0] = True
    problem = dataclasses.replace(linear_problem(x, missing), center=np.array([3.0, -1.0]))
    path = most_likely(linear_law, problem, draws=0, rng=np.random.default_rng(0))
    # The first sample enters only one step, as the past: a regression with a prior, by hand.
    a, rest = LATE, x[3] - NOW @ x[2]
    weight = np.linalg.inv(FACTOR @ FACTOR.T)
    precision = a.T @ weight @ a + np.eye(2)
    mean = np.linalg.solve(precision, a.T @ weight @ rest + problem.center)
    np.testing.assert_allclose(path.values, mean, atol=1e-5)
    np.testing.assert_allclose(path.errors**2, np.diag(np.linalg.inv(precision)), rtol=1e-4)


# ---- discoveries ----


def spoilt(x, seed=1, share=0.04, length=14):
    """Scattered values, a gap of every variable, and one of two variables at once."""
    rng, y = np.random.default_rng(seed), x.copy()
    y[rng.random(x.shape) < share] = np.nan
    for k, start in enumerate(range(100, len(x) - 100, 150)):
        y[start : start + length, k % x.shape[1]] = np.nan
    y[40 : 40 + length, :2] = np.nan
    return y


X = linear_path(900)
Y = spoilt(X)
GONE = np.isnan(Y)


@pytest.fixture(scope="module")
def found():
    return discovery(Y, TRUTH)


def with_samples(found, samples):
    """The same drift and noise, other samples."""
    other = dataclasses.replace(found, samples=samples)
    object.__setattr__(other, "_members", found._members)
    return other


@pytest.fixture(scope="module")
def made(found):
    return found.impute(draws=3)


@pytest.mark.slow
def test_errors_are_as_large_as_they_say(made):
    values, errors = made.samples.values[0], made.errors[0]
    np.testing.assert_array_equal(np.isfinite(errors), GONE)
    np.testing.assert_array_equal(values[~GONE], X[~GONE])
    assert made.count == GONE.sum() and sum(row[3] for row in made.rows()) == GONE.sum()
    z = (values - X)[GONE] / errors[GONE]
    assert 0.65 < np.mean(z**2) < 1.35 and 0.85 < np.mean(np.abs(z) < 1.645) < 0.96
    row = np.arange(len(X))
    lines = [np.interp(row, row[~g], v[~g]) for g, v in zip(GONE.T, Y.T, strict=True)]
    by_lines = (np.stack(lines, axis=1) - X)[GONE]
    assert np.mean((values - X)[GONE] ** 2) < 0.7 * np.mean(by_lines**2)
    # Draws scatter about the likely values by their errors.
    for draw in made.draws:
        apart = (draw.values[0] - values)[GONE] / errors[GONE]
        assert 0.65 < np.mean(apart**2) < 1.35
        np.testing.assert_array_equal(draw.values[0][~GONE], X[~GONE])
    assert "values of sun, heat, ice estimated" in repr(made)


@pytest.mark.slow
@pytest.mark.parametrize("step", KINDS)
def test_the_law_is_one_step_of_the_simulator(found, step):
    members, reach = dataclasses.replace(found._members, step=step), LAGS[-1] + 1
    k = np.arange(200, 300)
    make = lambda which: make_steps(found, members, no_change(1, 3), which, reach + 1)  # noqa: E731
    law = make([-1])
    past = X[k[:, None] - np.asarray(law.back)]
    value, slope = _law(law, past)
    whole = X[k[None] + np.arange(-reach, 1)[:, None]]
    run, *_ = simulate(make([-1] * len(k)), whole, jnp.zeros((1, len(k), 3)))
    np.testing.assert_allclose(value, run[0], atol=1e-12)
    change = 1e-6 * np.random.default_rng(0).normal(size=past.shape)
    moved = _law(law, past + change)[0] - _law(law, past - change)[0]
    by_slope = 2 * np.einsum("kiod,kod->ki", slope, change)
    np.testing.assert_allclose(moved, by_slope, atol=1e-10)


def test_gaps_that_were_filled_are_estimated_anew(found):
    samples = ndde.prepare_samples(ndde.read_samples(Y, dt=DT, names=NAMES), ("gaps",))
    assert samples.estimated[0].any() and np.isnan(samples.values[0]).any()
    made = with_samples(found, samples).impute()
    assert made.count == GONE.sum()
    np.testing.assert_array_equal(made.samples.values[0][~GONE], X[~GONE])
    assert [t.name for t in made.treated.treatments] == ["gaps", "impute"]
    np.testing.assert_array_equal(made.treated.estimated[0], GONE)
    again = with_samples(found, made.treated).impute()
    np.testing.assert_allclose(again.samples.values[0], made.samples.values[0], atol=0.2)
    assert [t.name for t in again.treated.treatments] == ["gaps", "impute"]


@pytest.mark.slow
def test_a_law_closes_gaps_better_than_a_curve():
    fine, late = 10, 170
    x = np.full(12000, 1.2)
    for k in range(late, len(x) - 1):
        x[k + 1] = x[k] + 0.1 * (0.2 * x[k - late] / (1 + x[k - late] ** 10) - 0.1 * x[k])
    x = x[2000::fine, None]
    y = x.copy()
    for start in range(100, 700, 100):
        y[start : start + 12] = np.nan
    # So long that no path along a straight line leads to the true one.
    y[750:830] = np.nan
    gone = np.isnan(y[:, 0])
    found = ndde.discover(
        y, dt=1.0, lags=(0, 9, 15, 17, 19), recipe=ndde.Recipe.fast(), key=KEY, treat=False
    )
    made = found.impute()
    assert all(row[4] for row in made.rows())
    row = np.arange(len(x))
    by_curve = CubicSpline(row[~gone], x[~gone, 0])(row) - x[:, 0]
    by_law = made.samples.values[0][:, 0] - x[:, 0]
    short = gone & (row < 700)
    assert np.sqrt(np.mean(by_law[short] ** 2)) < 0.2 * np.sqrt(np.mean(by_curve[short] ** 2))
    assert np.sqrt(np.mean(by_law[750:830] ** 2)) < 0.05 * x.std()


def test_recordings_of_any_length_and_a_variable_that_was_not_recorded(found):
    pieces = [spoilt(linear_path(n, seed), seed) for n, seed in ((400, 1), (350, 2), (300, 3))]
    pieces[2][:, 2] = np.nan
    made = with_samples(found, ndde.read_samples(pieces, dt=DT, names=NAMES)).impute()
    for piece, values, errors in zip(pieces, made.samples.values, made.errors, strict=True):
        assert values.shape == piece.shape
        np.testing.assert_array_equal(np.isfinite(errors), np.isnan(piece) & np.isfinite(values))
    assert all(np.isfinite(values).all() for values in made.samples.values[:2])
    assert np.isnan(made.samples.values[2][:, 2]).all()
    assert any("300 values were not estimated" in note for note in made.notes)


def test_a_stretch_is_followed_from_what_is_before():
    x = linear_record(40, np.random.default_rng(3))
    missing = np.zeros(x.shape, bool)
    missing[10:15, 0] = missing[30:33] = True
    problem = linear_problem(x, missing)
    made = simulated_guess(linear_law, problem, np.array([True, False]))
    by_hand = x.copy()
    for k in range(10, 15):
        by_hand[k, 0] = (NOW @ by_hand[k - 1] + LATE @ by_hand[k - 3])[0]
    np.testing.assert_allclose(made[:30], by_hand[:30])
    np.testing.assert_array_equal(made[30:], problem.x[30:])


def test_the_better_of_two_paths_is_taken_stretch_by_stretch(holes):
    rng = np.random.default_rng(4)
    x = linear_record(60, rng)
    path = most_likely(linear_law, linear_problem(x, holes), draws=1, rng=rng)
    misfit = np.add(path.misfit, [0, 5, -1, 0])
    worse = path._replace(values=path.values + 1, misfit=misfit)
    both = better_of(path, worse)
    np.testing.assert_array_equal(both.values, path.values + (path.group == 2))
    np.testing.assert_array_equal(both.misfit, np.minimum(path.misfit, worse.misfit))
    failed = path._replace(settled=np.zeros(4, bool))
    np.testing.assert_array_equal(better_of(failed, worse).values, worse.values)


def test_what_no_path_leads_through_stays_missing(found):
    y = X.copy()
    y[300:306, 1] = np.nan
    y[500:506, 1] = np.nan
    y[298:300, 1] += 60.0
    made = with_samples(found, ndde.read_samples(y, dt=DT)).impute()
    assert [row[4] for row in made.rows()] == [False, True]
    assert np.isnan(made.samples.values[0][300:306, 1]).all()
    assert "1 of 2 stretches are left unchanged, 6 values" in made.notes[0]


def test_laws_of_winters_fill_winters_only(found):
    y = spoilt(X, share=0)
    mask = np.arange(len(y)) < 450
    samples = ndde.read_samples(y, dt=DT, names=NAMES, mask=mask)
    made = with_samples(found, samples).impute()
    assert np.isfinite(made.samples.values[0][:450]).all()
    np.testing.assert_array_equal(np.isnan(made.samples.values[0][451:]), np.isnan(y[451:]))


def test_what_is_not_estimated_keeps_what_filled_it(found):
    y = spoilt(X, length=10)
    mask = np.arange(len(y)) < 450
    samples = ndde.read_samples(y, dt=DT, names=NAMES, mask=mask)
    filled = ndde.prepare_samples(samples, ("gaps",))
    made = with_samples(found, filled).impute()
    for values in (made.samples.values[0], made.treated.values[0]):
        np.testing.assert_array_equal(values[451:], filled.values[0][451:])
    changed = made.treated.values[0] != filled.values[0]
    assert changed[:450][np.isnan(y[:450])].all() and not changed[~np.isnan(y)].any()


@pytest.mark.slow
def test_estimates_come_in_measured_units():
    logs = spoilt(linear_path(700, 4))
    x = np.exp(logs) * np.array([1.0, 10.0, 100.0])
    samples = ndde.read_samples(x, dt=DT, names=NAMES)
    treated = ndde.prepare_samples(samples, (), transform="log")
    plain = discovery(logs + np.log([1.0, 10.0, 100.0]), TRUTH)
    made = dataclasses.replace(plain, samples=treated).impute()
    other = plain.impute()
    gone = np.isnan(x)
    np.testing.assert_allclose(made.samples.values[0], np.exp(other.samples.values[0]), rtol=1e-6)
    np.testing.assert_array_equal(made.samples.values[0][~gone], x[~gone])
    expected = np.exp(other.samples.values[0]) * np.sinh(other.errors[0])
    np.testing.assert_allclose(made.errors[0][gone], expected[gone], rtol=1e-6)


def test_samples_without_gaps_stay_as_they_are(found):
    made = with_samples(found, ndde.read_samples(X[:300], dt=DT)).impute()
    assert made.count == 0 and made.rows() == [] and made.moved == 0.0
    np.testing.assert_array_equal(made.samples.values[0], X[:300])


def test_irregular_samples_are_refused():
    t = np.cumsum(np.random.default_rng(0).uniform(0.1, 0.4, size=len(Y)))
    samples = ndde.read_samples(Y, t=t, names=NAMES)
    with pytest.raises(ValueError, match="imputation need equally spaced samples"):
        dataclasses.replace(discovery(Y, TRUTH), samples=samples).impute()
    recipe = dataclasses.replace(FAST, impute=1, scheme="euler")
    with pytest.raises(ValueError, match="imputation need equally spaced samples"):
        ndde.discover(Y, t=t, lags=LAGS, recipe=recipe, treat=False, key=KEY)


# ---- discovered again in what was completed ----


@pytest.fixture(scope="module")
def rounds():
    recipe = dataclasses.replace(FAST, impute=2)
    return ndde.discover(Y, dt=DT, lags=LAGS, names=NAMES, recipe=recipe, key=KEY)


@pytest.mark.slow
def test_rounds_use_every_window_and_say_so(rounds):
    plain = ndde.select.midpoint_windows(Y, dt=DT, lags=LAGS)
    assert int(rounds.windows.n_valid) > int(plain.n_valid)
    assert int(rounds.windows.dropped) == 0
    np.testing.assert_array_equal(rounds.graph, TRUTH)
    said = " ".join(rounds.report(full=True).split())
    assert f"{GONE.sum()} values that were not measured" in said and "are optimistic" in said
    assert "The last round changed them by 0.0" in said
    told = [f.text for f in rounds.verdict.notes if f.name == "missing values"]
    assert len(told) == 1 and "estimated by the model" in told[0]
    np.testing.assert_array_equal(rounds.samples.as_measured().values[0], Y)
    # Gaps are as noisy as the rest: the noise is that of the whole record.
    whole = ndde.discover(X, dt=DT, lags=LAGS, names=NAMES, recipe=FAST, key=KEY)
    sizes = [
        np.sqrt(np.diag(found.resample(resamples=4).noise.covariance)) for found in (rounds, whole)
    ]
    np.testing.assert_allclose(*sizes, rtol=0.06)


@pytest.mark.slow
def test_rounds_can_be_repeated_and_saved(rounds, tmp_path):
    recipe = dataclasses.replace(FAST, impute=2)
    options = {"dt": DT, "lags": LAGS, "names": NAMES, "recipe": recipe, "key": KEY}
    again = ndde.discover(Y, **options, directory=tmp_path / "kept")
    np.testing.assert_array_equal(again.samples.values[0], rounds.samples.values[0])
    rounds.save(tmp_path)
    loaded = ndde.Discovery.load(tmp_path)
    np.testing.assert_array_equal(loaded.samples.estimated[0], GONE)


def test_a_forecast_from_a_gap_says_so(found):
    y = Y.copy()
    y[-3:, 0] = np.nan
    made = with_samples(found, ndde.read_samples(y, dt=DT, names=NAMES)).impute()
    notes = with_samples(found, made.treated).forecast(3, paths=4, key=KEY).notes
    assert any("not measured: paths start from one draw" in note for note in notes)


@pytest.mark.slow
def test_residuals_are_looked_at_where_all_was_measured(rounds):
    from ndde_jax.check._graph_rules import evidence_of

    rows = np.asarray(evidence_of(rounds)._windows_measured().valid)
    plain = ndde.select.midpoint_windows(Y, dt=DT, lags=LAGS)
    np.testing.assert_array_equal(rows, np.asarray(plain.valid))


def test_nothing_to_estimate_is_said():
    recipe = dataclasses.replace(FAST, impute=1)
    found = ndde.discover(X[:300], dt=DT, lags=LAGS, recipe=recipe, key=KEY, treat=False)
    assert "No value is missing" in found.choices[-1]
