"""Findings from samples alone: each fault by its name, and none on good data."""

import dataclasses

import jax
import numpy as np
import pytest
from scipy import signal

import ndde_jax as ndde
from ndde_jax._wording import percent, times
from ndde_jax.check import _data_tests as tests
from ndde_jax.check._finding import findings_of
from ndde_jax.check._sample_rules import TREATED, SampleEvidence
from ndde_jax.samples._noise import measurement_error

N = 1200
WANDERS = {"change of regime", "random walk"}


def oscillators(seed=0, n=N, dim=3):
    """Noise-driven, damped, coupled in a ring: stationary and nothing wrong with it."""
    rng = np.random.default_rng(seed)
    x = np.zeros((n + 200, dim))
    for k in range(2, len(x)):
        pulled = 1.5 * x[k - 1] - 0.65 * x[k - 2]
        x[k] = pulled + 0.1 * np.roll(x[k - 1], 1) + 0.3 * rng.normal(size=dim)
    return x[200:]


def rossler(seed=0, n=1000):
    """Chaos whose phase hardly wanders, without noise."""
    rng = np.random.default_rng(seed)
    x, out = np.array([1.0, 1.0, 0.0]) + 0.1 * rng.normal(size=3), []
    for k in range(20 * (n + 200)):
        drift = [-x[1] - x[2], x[0] + 0.2 * x[1], 0.2 + x[2] * (x[0] - 5.7)]
        x = x + 0.01 * np.array(drift)
        if k % 20 == 0:
            out.append(x)
    return np.array(out)[200:]


def limit_cycle(seed=0, n=1000, sigma=0.1):
    """A limit cycle whose phase noise shifts."""
    rng = np.random.default_rng(seed)
    z, out = 1 + 0j, []
    for k in range(10 * (n + 100)):
        noise = sigma * np.sqrt(0.1) * (rng.normal() + 1j * rng.normal())
        z = z + 0.1 * (0.5 * z * (1 - abs(z) ** 2) + 0.3j * z) + noise
        if k % 10 == 0:
            out.append(z)
    z = np.array(out)[100:]
    return np.stack([z.real, z.imag], axis=1)


def found(x, treated=True, **options):
    options = options if "t" in options else {"dt": 1.0, **options}
    samples = ndde.read_samples(x, **options)
    samples = ndde.prepare_samples(samples) if treated else samples
    return {finding.name: finding for finding in ndde.data_findings(samples)}


# ---- good data ----


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("make", [oscillators, limit_cycle])
def test_good_data_have_no_finding(make, seed):
    assert found(make(seed)) == {}


def test_chaos_without_noise_is_no_season():
    assert found(rossler()) == {}


@pytest.mark.parametrize("cycle", [23, 24])
def test_a_strong_cycle_that_may_be_a_day_is_noted_and_removed_where_it_is_one(cycle):
    """Hourly counts: a daily cycle with most of the variance, and short memories. Without a unit of
    time, 24 samples are likely to be a day, and 23 may be anything.
    """
    rng, hours = np.random.default_rng(0), np.arange(1200)
    x = 60 + 40 * np.sin(2 * np.pi * hours[:, None] / cycle) + np.zeros(2)
    left = np.zeros(2)
    for k in range(len(x)):
        left = 0.3 * left + 7 * rng.normal(size=2)
        x[k] += left
    (noted,) = found(x).values()
    if cycle == 24:
        assert noted.name == "season" and list(found(x, time_unit="h")) == ["season"]
    else:
        assert (noted.name, noted.weight) == ("rhythm", "note")
        assert "cycle of 23 keeps" in noted.text
        assert noted.value > 0.8 and "unit of time" in noted.remedy
    # A limit cycle that noise shifts keeps no time.
    assert "rhythm" not in found(limit_cycle() + 0.3 * rng.normal(size=(1000, 2)))


def test_a_year_in_a_record_too_short_to_tell_is_a_reservation():
    """Five years of months: some records show whether a clock makes the cycle, others cannot."""
    told = []
    for seed in range(10):
        rng, x = np.random.default_rng(seed), np.zeros((60, 3))
        for k in range(1, 60):
            x[k] = 0.4 * x[k - 1] + rng.normal(size=3)
        x += 2 * np.sin(2 * np.pi * np.arange(60)[:, None] / 12)
        told += [
            f for name, f in found(x, time_unit="month").items() if name in ("season", "rhythm")
        ]
    assert len(told) >= 4
    doubtful = [finding for finding in told if finding.name == "rhythm"]
    assert doubtful and all(finding.weight == "reservation" for finding in doubtful)
    assert all(
        "cycle of 12 month" in finding.text and "inputs=" in finding.remedy for finding in doubtful
    )


# ---- faults ----


def _season(x, rng):
    return x + 2 * np.sin(2 * np.pi * np.arange(len(x)) / 12)[:, None]


def _stretch(x, rng):
    x[300:400, 1] = np.nan
    return x


def _stuck(x, rng):
    x[500:540, 2] = x[500, 2]
    return x


def _spikes(x, rng):
    x[rng.choice(len(x), 8, replace=False), 0] += 15
    return x


def _between(x, rng):
    fine = np.arange(len(x)) / 3
    return np.stack([np.interp(fine, np.arange(len(x)), c) for c in x.T], axis=1)


FAULTS = {
    "season": _season,
    "trend": lambda x, rng: x + np.linspace(0, 5, len(x))[:, None],
    "change of regime": lambda x, rng: x + 2.5 * (np.arange(len(x)) > 700)[:, None],
    "duplicate": lambda x, rng: np.hstack([x, 3 * x[:, :1] + 1]),
    "near duplicate": lambda x, rng: np.hstack(
        [x, x[:, :1] + 0.03 * x.std() * rng.normal(size=(len(x), 1))]
    ),
    "linear combination": lambda x, rng: np.hstack([x, x[:, :1] - x[:, 1:2]]),
    "missing values": lambda x, rng: np.where(rng.random(x.shape) < 0.05, np.nan, x),
    "missing stretch": _stretch,
    "wrapped angle": lambda x, rng: np.cumsum(x, axis=0) % 360,
    "quantised": lambda x, rng: np.round(x / x.std() * 2),
    "clipped": lambda x, rng: np.minimum(x, x.std()),
    "spikes": _spikes,
    "stuck sensor": _stuck,
    "held values": lambda x, rng: np.repeat(x[::4], 4, axis=0),
    "interpolated": _between,
    "measurement error": lambda x, rng: x + 0.2 * x.std(axis=0) * rng.normal(size=x.shape),
    "random walk": lambda x, rng: np.cumsum(rng.normal(size=x.shape), axis=0),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_named_with_a_number_and_a_remedy(name):
    x = FAULTS[name](
        oscillators(n=4000 if name == "measurement error" else N), np.random.default_rng(7)
    )
    finding = found(x)[name]
    assert finding.text and finding.remedy
    assert np.isfinite(finding.value)
    assert finding.weight in ("note", "reservation", "problem")


def recordings(levels, n=100, seed=0):
    """As many recordings of three autoregressions, each around its own levels."""
    rng, parts = np.random.default_rng(seed), []
    for level in levels:
        x = np.zeros((n + 50, 3))
        for k in range(n + 49):
            x[k + 1] = [0.2, 0.7, 0.9] * x[k] + rng.normal(size=3)
        parts.append(x[50:] + level)
    return parts


def test_recordings_with_levels_of_their_own_are_told_unless_these_are_taken_out():
    levels = 1.5 * np.random.default_rng(1).normal(size=(12, 3)) * [1, 1, 0]
    told = found(recordings(levels))["baselines"]
    assert told.weight == "reservation" and 0.5 < told.value < 3
    assert "x0" in told.text and "x1" in told.text and "x2" not in told.text
    samples = ndde.read_samples(recordings(levels), dt=1.0)
    level = ndde.prepare_samples(samples, ("offsets",))
    assert "baselines" not in {f.name for f in ndde.data_findings(level)}
    assert "baselines" not in found(recordings(levels)[:3])  # too few to decide


@pytest.mark.slow
def test_slow_variables_seldom_have_levels_of_their_own():
    """Means of recordings differ as autocorrelation allows; those of random walks differ most."""
    rng, told = np.random.default_rng(0), []
    for _ in range(40):
        for memory in (0.0, 0.7, 0.98):
            path = signal.lfilter([1.0], [1.0, -memory], rng.normal(size=(12, 300)))
            told.append(tests.baselines(list(path[:, 200:]))[1] < 1e-4)
        told.append(tests.baselines(list(rng.normal(size=(12, 100)).cumsum(axis=1)))[1] < 1e-4)
    assert np.mean(told) <= 0.02
    # Behind a fast variable the autocorrelation of a slow one is barely visible, but its movement
    # is.
    behind = []
    for _ in range(40):
        news = rng.normal(size=(2, 30, 300))
        slow, fast = (
            signal.lfilter([1.0], [1.0, -a], x)[:, 200:]
            for a, x in zip((0.98, 0.5), news, strict=True)
        )
        behind.append(tests.baselines(list(slow / 5 + fast / 1.15))[1] < 1e-4)
    assert np.mean(behind) <= 0.15


@pytest.mark.parametrize("width", [2, 7, 24])
@pytest.mark.parametrize("digits", [2, 9])
def test_a_running_mean_beside_its_column_is_named(width, digits):
    """Centred or of the last samples, rounded or not; another smoothed column is none."""
    x = np.round(oscillators(), digits)
    for shift in (0, width // 2):
        mean = np.convolve(x[:, 1], np.ones(width) / width)[shift:][: len(x)]
        (told,) = [
            f
            for f in ndde.data_findings(
                ndde.read_samples(np.column_stack([x, np.round(mean, digits)])[width:-width], dt=1)
            )
            if f.name == "linear combination"
        ]
        assert f"x3 is the mean of {width} samples of x1" in told.text and told.weight == "problem"
    smoothed = signal.lfilter([0.3], [1.0, -0.7], x[:, 1])
    assert tests.running_means(np.column_stack([x, smoothed])) == []
    time = np.arange(float(len(x)))
    assert tests.running_means(np.column_stack([x, time, 3 - time, np.sin(time / 9)])) == []
    assert tests.running_means(rossler()) == [] == tests.running_means(limit_cycle())


@pytest.mark.parametrize("band, weight", [(0.3, "reservation"), (1.0, "problem")])
def test_what_is_written_only_where_it_changes_is_named(band, weight):
    x = oscillators()
    written = x.copy()
    for k in range(1, len(x)):
        moved = abs(x[k, 0] - written[k - 1, 0]) > band
        written[k, 0] = x[k, 0] if moved else written[k - 1, 0]
    told = found(written)["held values"]
    assert told.weight == weight and "compression" in told.remedy
    assert tests.deadband(written[:, 0]) == pytest.approx(band, rel=0.05)
    # Values held for other reasons show changes of all sizes.
    assert tests.deadband(x[:, 0]) == tests.deadband(np.repeat(x[::3, 0], 3)) == 0


def test_a_meter_that_counts_whole_units_was_not_interpolated():
    """Many whole steps equal the previous one by chance; none do if half of them are interpolated
    linearly between the others.
    """
    rng = np.random.default_rng(0)
    meter = np.floor(np.cumsum(8 + oscillators(n=1500)[:, 0] + 0.5 * rng.normal(size=1500)))
    assert np.mean(np.diff(meter, n=2) == 0) > 0.3 and tests.straight_share(meter) < 0.2
    line = np.interp(np.arange(2998) / 2, np.arange(1500), meter)
    assert tests.straight_share(line) > 0.4
    both = np.stack([meter, rng.normal(size=1500)], axis=1)
    assert "interpolated" not in found(both)


@pytest.mark.parametrize(("period", "size"), [(60, 5), (200, 20), (600, 100)])
def test_a_smooth_record_that_was_rounded_was_not_interpolated(period, size):
    """A smooth level with few digits has equal steps, up to half of them, and nearly as many that
    equal the one before the last. Interpolated to twice the rate it has fewer of those.
    """
    t = 2 * np.pi * np.arange(2000) / period
    x = np.stack([np.sin(t) + 0.3 * np.sin(2.7 * t + 1), np.cos(t) + 0.3 * np.sin(2.7 * t)], axis=1)
    x = np.round(size * x, 1)
    assert "interpolated" not in found(x)
    half = np.stack([np.interp(np.arange(2000) / 2, np.arange(2000), each) for each in x.T], axis=1)
    assert found(half)["interpolated"].weight == "problem"


@pytest.mark.parametrize("every", [2, 4, 6, 12])
def test_rounding_hides_neither_held_nor_interpolated_values(every):
    rng = np.random.default_rng(0)
    x = signal.lfilter([1], [1, -0.9], rng.normal(size=(1950, 2)), axis=0)
    k = np.arange(1950)
    held = np.stack([x[k // every * every, 0], x[:, 1]], axis=1).round(1)
    assert found(held, treated=False)["held values"].weight == "problem"
    knots = np.interp(k, k[::every], x[::every, 0])
    assert found(np.stack([knots, x[:, 1]], axis=1).round(2))["interpolated"].weight == "problem"
    assert not {"held values", "interpolated"} & set(found(x.round(1)))


def test_a_set_point_that_moves_along_ramps_was_not_recorded_coarsely():
    rng, sets = np.random.default_rng(0), [50.0]
    while len(sets) < 2000:
        sets += [sets[-1]] * int(rng.integers(60, 200))
        target = float(rng.integers(30, 80))
        sets += [*np.arange(sets[-1], target, np.sign(target - sets[-1]) / 2).tolist(), target]
    given = np.array(sets[:2000])
    follows = signal.lfilter([0.05], [1, -0.95], given - 50) + signal.lfilter(
        [1], [1, -0.9], rng.normal(size=2000)
    )
    assert "quantised" not in found(np.stack([given, follows], axis=1))


def test_visits_at_random_times_interpolated_at_their_mean_interval_are_named():
    rng = np.random.default_rng(0)
    walk = np.cumsum(rng.normal(size=(3000, 2)), axis=0)
    visits = np.sort(rng.choice(3000, 1000, replace=False))
    grid = np.arange(0, 2990, 3)
    x = np.stack([np.interp(grid, visits, each[visits]) for each in walk.T], axis=1)
    assert found(x)["interpolated"].weight == "reservation"
    assert "interpolated" not in found(walk[::3])


def _direction(start, n=N):
    """A direction in degrees that returns to its start."""
    rng, turned = np.random.default_rng(1), np.zeros(n)
    for k in range(1, n):
        turned[k] = 0.98 * turned[k - 1] + 9 * rng.normal()
    return turned + start


@pytest.mark.parametrize("radians", [False, True])
@pytest.mark.parametrize("seam", [0, -180])
def test_what_goes_round_is_an_angle_in_either_unit_and_its_jumps_are_no_spikes(seam, radians):
    x = oscillators()
    angle = (_direction(seam) - seam) % 360 + seam
    x[:, 0] = np.deg2rad(angle) if radians else angle
    names = found(x)
    assert names["wrapped angle"].weight == "problem" and "spikes" not in names
    for free in (_direction(180), np.random.default_rng(2).uniform(0, 360, N)):
        x[:, 0] = free  # one that never completes a turn, and numbers without autocorrelation
        assert "wrapped angle" not in found(x)


def test_counts_that_rest_at_zero_are_not_cut_off():
    """Steps of a walker: zero half of the time, and never below."""
    rng, x = np.random.default_rng(0), oscillators()
    walks = np.repeat(rng.random(len(x) // 20 + 1) < 0.5, 20)[: len(x)]
    x[:, 0] = rng.poisson(np.where(walks, 90, 0.1))
    assert not {"clipped", "held values", "stuck sensor", "spikes"} & set(found(x))
    # Fewer zeros are a sensor that ends there, or dry weeks; repeats of any other value are the end
    # of its range.
    cut = oscillators()
    cut[:, 0] = np.maximum(cut[:, 0] - np.quantile(cut[:, 0], 0.05), 0)
    assert found(cut)["clipped"].weight == "note"
    assert found(cut + 1)["clipped"].weight == "reservation"


def test_a_season_that_grows_with_the_level_asks_for_logarithms():
    """Sales of years, which grow in proportion to their level, and so does their season."""
    t, noise = np.arange(240.0), np.random.default_rng(0).normal(size=(240, 2))
    own = signal.lfilter([0.1], [1, -0.4], noise, axis=0)
    sales = np.exp(
        5 + 0.006 * t[:, None] + 0.2 * np.cos(2 * np.pi * t[:, None] / 12 + [0, 1]) + own
    )
    season = found(sales, time_unit="month", names=("sales", "costs"))["season"]
    assert season.weight != "note" and "grow with the level" in season.text
    assert season.remedy == (
        "Take logarithms of what cannot fall below zero: transform={'sales': 'log', "
        "'costs': 'log'} (--log \"sales\" --log \"costs\")."
    )
    # A code for missing values is not a measurement below zero.
    coded = sales.copy()
    coded[50:200:50] = -999
    coded = found(coded, time_unit="month", names=("sales", "costs"))["season"]
    assert coded.remedy == season.remedy
    added = found(np.log(sales), time_unit="month")["season"]
    assert "grow" not in added.text and "transform" not in added.remedy


@pytest.mark.parametrize("bend, weight", [(0.0, "reservation"), (0.7, "problem")])
def test_a_season_that_moves_the_system_weighs_by_the_marks_it_leaves(bend, weight):
    """A season leaves no marks if the responses of the system that it drives are linear."""
    rng = np.random.default_rng(2)
    noise, wave = 0.5 * rng.normal(size=(2000, 2)), np.sin(np.arange(2000) * 2 * np.pi / 24)
    x = np.zeros((2000, 2))
    for k in range(2, 2000):
        drive = np.tanh(bend * x[k - 2, 0]) / bend if bend else x[k - 2, 0]
        x[k] = [0.6 * x[k - 1, 0] + wave[k], 0.5 * x[k - 1, 1] + 0.7 * drive] + noise[k]
    assert found(x, time_unit="h")["season"].weight == weight


def test_most_missing_values_are_of_a_variable_that_misses_more_than_the_others():
    x = oscillators()
    x[300:320] = np.nan
    assert "60 values (1.7%) are missing" in found(x)["missing stretch"].text
    x[400, 1] = np.nan
    assert "61 values (1.7%, most of x1) are" in found(x, treated=False)["missing stretch"].text


def test_copies_of_one_column_are_one_finding():
    """Prices of a day: open, high, low, and close twice."""
    rng, x = np.random.default_rng(0), oscillators()
    near = x[:, :1] + 0.02 * x[:, 0].std() * rng.normal(size=(len(x), 3))
    names = ("open", "other", "third", "high", "low", "close", "again")
    twice = np.hstack([x, near, near[:, 2:]])
    named = [f for f in ndde.data_findings(ndde.read_samples(twice, dt=1.0, names=names))]
    said = [(f.name, f.text.split(" (")[0], f.remedy) for f in named if "dup" in f.name]
    assert said == [
        ("duplicate", "again is a copy of close", "Omit again."),
        (
            "near duplicate",
            "high, low, close, again are nearly copies of open",
            "Keep one of them.",
        ),
    ]


def test_a_later_copy_is_named_with_its_lag():
    x = oscillators()
    copy = np.hstack([x[5:], x[:-5, :1]])
    finding = found(copy)["duplicate"]
    assert "x3 is a copy of x0 5 samples later" in finding.text
    assert finding.weight == "problem"


def test_an_irregular_clock():
    rng = np.random.default_rng(0)
    x = oscillators()
    t = np.cumsum(rng.uniform(0.1, 1.9, N))
    left = found(x, treated=False, t=t)["irregular clock"]
    assert left.weight == "problem" and left.value == pytest.approx(1.81 / 0.19, rel=0.1)
    # Jitter of a twentieth of the interval is noted without weight.
    jitter = found(oscillators(), treated=False, t=np.arange(N) + 0.05 * rng.uniform(size=N))
    assert jitter["irregular clock"].weight == "note"


def test_an_orbit_that_repeats_itself_without_noise():
    t = np.arange(1000)
    finding = found(np.stack([np.sin(0.1 * t), np.cos(0.1 * t) ** 3], axis=1))[
        "no noise, one cycle"
    ]
    assert finding.weight == "problem"


def test_findings_come_the_gravest_first():
    x = np.hstack([_spikes(oscillators(), np.random.default_rng(1)), oscillators()[:, 1:2]])
    samples = ndde.prepare_samples(ndde.read_samples(x, dt=1.0))
    weights = [finding.weight for finding in ndde.data_findings(samples)]
    order = ["problem", "reservation", "note"]
    assert weights == sorted(weights, key=order.index) and len(set(weights)) > 1


def test_names_are_those_of_the_samples():
    finding = found(np.hstack([oscillators(), oscillators()[:, :1]]), names=("a", "b", "c", "twin"))
    assert "twin" in finding["duplicate"].text and "Omit twin" in finding["duplicate"].remedy


# ---- numbers ----


def test_measurement_error_is_measured():
    rng, x = np.random.default_rng(0), np.zeros(6000)
    for k in range(1, len(x)):
        x[k] = 0.95 * x[k - 1] + rng.normal()
    error = 0.2 * x.std()
    best, least = measurement_error(x + error * rng.normal(size=len(x)))
    assert 0 < least < error**2 and best == pytest.approx(error**2, rel=0.5)
    assert measurement_error(x)[1] <= 0


def test_a_unit_root_agrees_with_statsmodels():
    adfuller = pytest.importorskip("statsmodels.tsa.stattools").adfuller
    for x in (oscillators()[:, 0], np.cumsum(np.random.default_rng(0).normal(size=500))):
        assert tests.unit_root(x) == pytest.approx(
            adfuller(x, maxlag=4, autolag=None, result_object=False)[0], rel=1e-6
        )


def test_a_path_that_grows_without_limit_is_no_random_walk():
    """Its columns are almost collinear: their inner products had no inverse."""
    growth = np.exp(0.15 * np.arange(150.0)) + np.random.default_rng(0).normal(size=150)
    for x in (growth, growth * np.linspace(1, 1e6, 150), 1.3 ** np.arange(150.0)):
        assert not np.isnan(tests.unit_root(x))
    alternating = np.random.default_rng(0).normal(size=(200, 3))
    alternating[:, 2] = np.arange(200) % 2
    found = ndde.discover(
        alternating, dt=1.0, lags=(0, 1), recipe=ndde.Recipe.fast(), key=jax.random.key(0)
    )
    assert "x2" in found.report(full=True)  # warnings are errors


def test_the_place_of_a_change_is_found():
    x = oscillators()[:, 0]
    errors, what, place = tests.regime_change(x + 3 * (np.arange(N) > 300))
    assert (what, errors > 5) == ("mean", True) and place == pytest.approx(0.25, abs=0.05)
    errors, what, _ = tests.regime_change(x * np.where(np.arange(N) > 600, 3, 1))
    assert errors > 5 and what in ("spread", "size of its steps")


def test_growth_beyond_what_digits_hold_is_a_change_without_a_warning():
    rises = np.abs(np.random.default_rng(0).normal(size=400)) * 0.4
    errors, _, _ = tests.regime_change(np.exp(np.cumsum(rises)))
    assert np.isfinite(errors)


def test_a_change_of_noise_alone_is_a_reservation_and_one_of_the_mean_a_problem():
    x, late = oscillators(), (np.arange(N) > 600)[:, None]
    assert found(x * np.where(late, 3, 1))["change of regime"].weight == "reservation"
    assert found(x + 4 * late)["change of regime"].weight == "problem"


def slow_chain(shift, seed):
    """A slow variable drives another, and its sensor reads `shift` deviations more from 700 on."""
    rng, x = np.random.default_rng(seed), np.zeros((1400, 2))
    noise = rng.normal(size=x.shape)
    for k in range(2, 1399):
        x[k + 1] = np.array([0.95 * x[k, 0], 0.8 * x[k, 1] + 0.4 * x[k - 2, 0]]) + noise[k]
    x = x[200:] / x[200:].std(axis=0)
    x[700:, 0] += shift
    return x


def test_a_changed_sensor_shows_in_what_follows_the_true_values():
    names = ("change of regime", "shifted level")
    for seed in range(10):
        assert not set(names) & set(found(slow_chain(0.0, seed)))
    told = [found(slow_chain(1.5, seed)).get("shifted level") for seed in range(10)]
    told = [finding for finding in told if finding is not None]
    assert len(told) >= 9
    assert all(finding.weight == "problem" for finding in told)
    assert all(abs(finding.value - 700 / 1200) < 0.06 for finding in told)
    gaps = slow_chain(1.5, 0)
    gaps[300:340, 1] = np.nan
    assert "shifted level" in found(gaps)


def test_shifts_match_the_errors_of_newey_and_west():
    """The size of the shift is that of statsmodels with Bartlett weights, uncorrected."""
    sm = pytest.importorskip("statsmodels.api")
    x = slow_chain(1.0, 4)
    shifts = tests.shifts(x)
    z = (x - x.mean(axis=0)) / x.std(axis=0)
    steps, level = np.diff(z, axis=0), z[2:-1]
    time = np.arange(len(level)) / len(level)
    late = np.arange(len(level)) >= round(shifts.places[1] * len(x)) - 2
    columns = [np.ones_like(time), time, level, steps[1:-1], steps[:-2], level**2, level**3, late]
    fit = sm.OLS(steps[2:, 1], np.column_stack(columns)).fit(
        cov_type="HAC", cov_kwds={"maxlags": 100}
    )
    assert shifts.errors[1] == pytest.approx(abs(fit.tvalues[-1]), rel=1e-6)


def test_a_change_that_a_switch_brings_about_is_none():
    """A law lowers speed, and speed deaths."""
    rng = np.random.default_rng(0)
    law = (np.arange(400) >= 300).astype(float)
    speed, deaths = np.zeros((2, 400))
    for k in range(1, 400):
        speed[k] = 0.5 * speed[k - 1] - 1.5 * law[k - 1] + 0.6 * rng.normal()
        deaths[k] = 0.3 * deaths[k - 1] + 0.8 * speed[k - 1] + 0.6 * rng.normal()
    month = ndde.read_samples(np.stack([deaths, law, speed], axis=1), dt=1.0, time_unit="month")

    def changed(links, samples=month):
        graph = np.zeros((samples.dim, samples.dim), bool)
        graph[tuple(np.array(links).T)] = True
        evidence = SampleEvidence(samples, links=graph)
        return {finding.name for finding in findings_of("samples", evidence)} & WANDERS

    chain = [(1, 2), (2, 0)]
    assert not changed(chain)
    assert changed(chain[1:]) == {"change of regime"}  # nothing shows the effect of the law
    # Sources whose own level changes are not switches.
    both = oscillators() + 4 * (np.arange(N) > 600)[:, None]
    assert changed([(0, 1), (1, 0)], ndde.read_samples(both, dt=1.0)) == {"change of regime"}
    # A law from which a season was removed is still a switch.
    wave = 1.5 * np.sin(np.arange(400) * np.pi / 6)[:, None] * np.array([1, 0, 1])
    treated = ndde.prepare_samples(dataclasses.replace(month, values=(month.values[0] + wave,)))
    assert treated.treatments[0].name == "season" and len(np.unique(treated.values[0][:, 1])) > 2
    assert not changed(chain, treated)


def test_a_quantum_is_exact():
    assert tests.quantum(0.25 * np.random.default_rng(0).integers(-9, 9, 300)) == pytest.approx(
        0.25
    )
    assert tests.quantum(oscillators()[:, 0]) == 0


def test_a_variable_at_rest_was_not_held():
    rng = np.random.default_rng(0)
    # Whole centimetres, still for hours, then moving at every sample.
    x = np.round(100 * np.convolve(rng.gamma(0.01, size=2000), 0.9 ** np.arange(60))[:2000])
    assert (np.diff(x) == 0).mean() > 0.45
    record = np.stack([x, np.roll(x, 3)], axis=1)
    names = {f.name for f in ndde.data_findings(ndde.read_samples(record, dt=1.0))}
    assert "held values" not in names
    held = np.repeat(np.cumsum(rng.normal(size=500)), 4)
    record = np.stack([held, np.roll(held, 4)], axis=1)
    (finding,) = (
        f for f in ndde.data_findings(ndde.read_samples(record, dt=1.0)) if f.name == "held values"
    )
    # One line for both, by name.
    assert "x0" in finding.text and "x1" in finding.text


def _driven(u, seed=0):
    """A temperature that follows a set point."""
    rng, y = np.random.default_rng(seed), np.zeros(len(u))
    for k in range(1, len(u)):
        y[k] = 0.9 * y[k - 1] + 0.3 * u[k - 1] + 0.1 * rng.normal()
    return np.stack([u, y], axis=1)


SET = {
    "switch": lambda rng: np.repeat((rng.random(500) < 0.5) * 3.0 + 3.4, 2),
    "levels": lambda rng: np.repeat(rng.integers(0, 6, 40) * 1.0, 25),
    "three levels": lambda rng: np.repeat(rng.integers(0, 3, 60) * 1.0, 17)[:1000],
    "setpoints": lambda rng: np.repeat(rng.normal(size=80), rng.integers(5, 25, 80))[:1000],
}


@pytest.mark.parametrize("kind", SET)
def test_what_is_set_is_no_broken_sensor(kind):
    u = SET[kind](np.random.default_rng(2))
    assert tests.is_set(u)
    names = set(found(_driven(u)))
    assert not names & {"quantised", "held values", "stuck sensor", "change of regime"}


def test_what_is_read_off_a_coarse_scale_is_not_set():
    for seed in range(40):
        rng = np.random.default_rng(seed)
        steps = rng.standard_t(4, size=800)
        x = signal.lfilter([1], [1, -0.99], steps)
        coarse = np.round(x / rng.choice([2.0, 4.0, 8.0]))
        assert (np.diff(coarse) == 0).mean() > tests.RESTS and not tests.is_set(coarse)


def test_an_experiment_that_has_not_begun_is_no_stuck_sensor():
    x = _driven(np.random.default_rng(0).normal(size=1000))
    assert "stuck sensor" not in found(np.concatenate([np.repeat(x[:1], 100, axis=0), x]))
    samples = ndde.read_samples(np.concatenate([np.repeat(x[:1], 100, axis=0), x]), dt=1.0)
    assert "stuck sensor" not in {f.name for f in ndde.data_findings(samples, ("x0",))}
    held = np.repeat(x[::12], 12, axis=0)  # all repeat as well, again and again
    assert "held values" in found(held)


def test_a_river_at_low_flow_is_no_stuck_sensor():
    """It falls to its rounded minimum and stays there, between floods that move it far."""
    rng, flow = np.random.default_rng(0), np.full(1000, 3.0)
    rain = np.where(rng.random(1000) < 0.4, rng.gamma(1.5, 20, size=1000), 0)
    for t in range(1, 1000):
        flow[t] = flow[t - 1] + 0.3 * (3 - flow[t - 1]) * rng.uniform(0.5, 1) + rain[t]
    flow[500:520] = [*np.linspace(3.9, 3.0, 10), *np.full(10, 3.0)]  # until the next flood
    flow[520] = 50.0
    x = np.stack([np.round(flow, 1), np.roll(flow, 1) + rng.normal(size=1000)], axis=1)
    x[900, 0] = 2.5  # not the lowest of all
    assert "stuck sensor" not in found(x)
    x[500:510, 0] = 10 + 7 * rng.normal(size=10)
    assert "stays at 3 for 10 samples" in found(x)["stuck sensor"].text


def test_a_code_for_missing_values_is_no_stuck_sensor():
    x = _driven(np.random.default_rng(0).normal(size=1000))
    x = np.round(x / x.std(axis=0), 2)  # other values repeat, too
    x[300:312, 1] = -999
    samples = ndde.prepare_samples(ndde.read_samples(x, dt=1.0))
    told = {finding.name for finding in ndde.data_findings(samples)}
    assert "missing values" in told and "stuck sensor" not in told


def test_what_is_held_and_driven_by_nothing_may_be_an_input():
    """Levels of an actuator, a new one every five samples, and a tank that follows."""
    rng, y = np.random.default_rng(0), np.zeros(600)
    u = np.repeat(rng.normal(size=121), 5)[:600]
    for t in range(2, 599):
        y[t + 1] = 0.7 * y[t] + 0.3 * u[t - 2] + 0.3 * rng.normal()
    x = np.stack([u, y], axis=1)
    found = ndde.discover(
        x,
        dt=1.0,
        lags=range(4),
        names=("valve", "tank"),
        recipe=ndde.Recipe.fast(),
        key=jax.random.key(0),
    )
    links = found.graph.any(axis=2) & ~np.eye(2, dtype=bool)
    assert links.tolist() == [[False, True], [False, False]]
    (held,) = [one for one in found.findings if one.name == "held values"]
    assert held.weight == "reservation" and "--inputs" in held.remedy
    assert str(found.verdict) == "with reservations"
    samples = ndde.read_samples(x, dt=1.0)
    (held,) = [one for one in ndde.data_findings(samples) if one.name == "held values"]
    assert held.weight == "problem"  # before its driver is known


def test_rounding_weighs_as_an_error_of_its_size_does():
    x = oscillators()
    for size, weight in ((0.5, "note"), (1.0, "reservation"), (2.5, "problem")):
        fine = size * np.diff(x[:, 0]).std()
        assert found(np.round(x / fine) * fine)["quantised"].weight == weight


def test_no_share_is_beyond_the_whole():
    assert percent(1.0) == "100%" and percent(277.443, 1) == "more than 100%"
    assert times(78.0) == "78 times"


def test_remedies_without_treatment_name_the_option_too():
    said = [remedy for _, remedy in TREATED.values() if "treat=False" in remedy]
    assert said and all("treat=False (--no-treat)" in remedy for remedy in said)
