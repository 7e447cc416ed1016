"""Default treatments of samples, and their inverse."""

import jax.random as jr
import numpy as np
import pandas as pd
import pytest
from scipy.signal import lfilter

import ndde_jax as ndde
from ndde_jax import _wording
from ndde_jax.samples._clock import find_grid
from ndde_jax.samples._columns import APART, find_isolated_outliers, find_spikes, trends
from ndde_jax.samples._gaps import fill_gaps
from ndde_jax.samples._lines import _chances, find_lines
from tests.check.test_data_findings import limit_cycle, oscillators


def prepared(x, **options):
    options = options if "t" in options else {"dt": 1.0, **options}
    return ndde.prepare_samples(ndde.read_samples(x, **options))


def names(samples):
    return [treatment.name for treatment in samples.treatments]


def test_good_data_stay_as_they_are():
    samples = ndde.read_samples(oscillators(), dt=1.0)
    assert ndde.prepare_samples(samples) is samples


# ---- seasons ----


def test_a_season_is_removed_and_known_ever_after():
    x, t = oscillators(), np.arange(1200.0)
    season = np.array([1.0, 2.0, 0.0]) * np.sin(2 * np.pi * t / 12 + 0.3)[:, None]
    samples = prepared(x + season, time_unit="month")
    assert names(samples) == ["season"]
    (treatment,) = samples.treatments
    assert treatment.periods == (12.0,)  # a known clock is used exactly
    error = samples.values[0] - x
    assert error.std(axis=0).max() < 0.2 * x.std()  # a variable that moves at that period anyway
    later = treatment.removed(np.arange(1200.0, 1224.0))
    expected = (
        np.array([1.0, 2.0, 0.0]) * np.sin(2 * np.pi * np.arange(1200, 1224) / 12 + 0.3)[:, None]
    )
    np.testing.assert_allclose(later, expected, atol=0.3)
    np.testing.assert_array_equal(samples.as_measured().values[0], x + season)


def test_an_oscillation_of_the_systems_own_is_none():
    for seed in range(4):
        assert find_lines(limit_cycle(seed)) == ()


def building(per_day, n=2000):
    """Outdoor temperature, sun, and temperatures of a room and its walls."""
    rng, t = np.random.default_rng(0), np.arange(n)
    noise = rng.normal(size=(4, n))
    slow, clouds = (
        lfilter([np.sqrt(1 - a * a)], [1, -a], e)
        for a, e in zip((0.98, 0.9), noise[:2], strict=True)
    )
    outdoor = 8 + 5 * np.sin(2 * np.pi * t / per_day) + 4 * slow
    day = np.maximum(np.sin(2 * np.pi * (t - 10) / per_day), 0)
    sun = day * (0.4 + 0.6 / (1 + np.exp(-2 * clouds)))
    room, walls = np.full(n, 18.0), np.full(n, 15.0)
    for k in range(n - 1):
        step = 0.1 * (walls[k] - room[k]) + 0.02 * (outdoor[k] - room[k]) + sun[k]
        room[k + 1] = room[k] + step + 0.1 * noise[2, k]
        step = 0.03 * (room[k] - walls[k]) + 0.02 * (outdoor[k] - walls[k])
        walls[k + 1] = walls[k] + step + 0.04 * noise[3, k]
    return np.stack([outdoor, sun, room, walls], axis=1)


def test_a_day_shows_by_its_usual_count_where_no_unit_of_time_is_known():
    """Half-hourly samples of a building have 48 a day; 43 a day have no known meaning."""
    assert {0, 1, 2} <= {line.column for line in find_lines(building(48)) if line.outer}
    assert not any(line.outer for line in find_lines(building(43)))
    # A limit cycle of just that period, with little noise.
    rng, z, own = np.random.default_rng(0), 1 + 0j, []
    for step in 0.02 * rng.normal(size=(2000, 2)) @ [1, 1j]:
        z = (z + 0.3 * (1 - abs(z) ** 2) * z) * np.exp(2j * np.pi / 48) + step
        own.append((z.real, z.imag))
    assert not any(line.outer for line in find_lines(np.array(own)))


def test_days_of_the_week_carry_the_week_and_leave_the_day_to_be_removed():
    """Hours of load and temperature beside a column that says which days are working days."""
    t = np.arange(24 * 7 * 9.0)
    noise = np.random.default_rng(0).normal(size=(2, len(t)))
    own = np.stack([lfilter([1], [1, -0.8], e) for e in noise], axis=1)
    day = np.stack([10 * np.cos(2 * np.pi * t / 24), 5 * np.sin(2 * np.pi * t / 24)], axis=1)
    works = (t // 24 % 7 < 5) & (t // 24 != 17)  # with a holiday
    x = np.concatenate([own + day + 8 * works[:, None], works[:, None]], axis=1)
    samples = prepared(x, time_unit="hour", names=("load", "temperature", "works"))
    (season,) = [one for one in samples.treatments if one.name == "season"]
    assert season.periods == (24.0,) and season.text.startswith(
        "A season of 24 hours was removed from all variables but works"
    )
    np.testing.assert_array_equal(samples.values[0][:, 2], works)
    left = samples.values[0][:, :2] - 8 * works[:, None] - own
    assert (left.std(axis=0) < 0.1 * day.std(axis=0)).all()


@pytest.mark.parametrize("years", [3.5, 5])
def test_a_known_clock_shows_in_a_few_cycles(years):
    """Five years of days hold too few cycles to search for a period, and enough for that of a year.
    Noise with a long memory has none.
    """
    rng, t = np.random.default_rng(1), np.arange(int(365.25 * years))
    weather = lfilter([1], [1, -0.8], rng.normal(size=(len(t), 2)), axis=0)
    seasonal = weather + 6 * np.cos(2 * np.pi * t / 365.25)[:, None] * [1.0, 0.0]
    assert find_lines(seasonal) == ()
    (line,) = find_lines(seasonal, (365.25,))
    assert line.column == 0 and line.period == pytest.approx(365.25)
    slow = lfilter([1], [1, -0.99], rng.normal(size=(40, len(t), 2)), axis=1)
    assert not any(find_lines(x, (365.25,)) for x in slow)


def test_a_few_cycles_stand_out_against_the_waves_beside_them():
    """Twice as large as the weather: pieces of whole years show it in half of such records. None is
    found in walks, in noise with a long memory, or in rhythms of about a year that keep no time.
    """
    year, found, wrong = 365.25, 0, 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        t = np.arange(int(rng.uniform(3.2, 5.5) * year))
        noise = rng.normal(size=(2, len(t) + 3000))
        weather = lfilter([0.6], [1, -0.8], noise[0])[-len(t) :]
        seasonal = weather + 2 * np.sin(2 * np.pi * t / year + seed)
        found += [line.period for line in find_lines(seasonal[:, None], (year,))] == [year]
        wave = [1, -2 * 0.998 * np.cos(2 * np.pi / year), 0.998**2]
        for record in (noise.cumsum(axis=1), lfilter([1], wave, noise)):
            wrong += sum(line.outer for line in find_lines(record[:, -len(t) :].T, (year,)))
    assert found >= 8 and wrong == 0


def monthly(seed, n=120, size=2.0):
    """Three variables with a memory of their own, and a year that they share."""
    noise = np.random.default_rng(seed).normal(size=(n, 3))
    own = np.stack([lfilter([1], [1, -a], noise[:, j]) for j, a in enumerate((0.5, 0.4, 0.3))], 1)
    return own + size * np.sin(2 * np.pi * np.arange(n)[:, None] / 12 + [0, 0.7, 2.0])


def test_the_year_shows_in_ten_years_of_months_and_in_none_of_a_rhythm_alone():
    """A rhythm of the variables themselves has just its period, and lasts as long as the record."""
    assert sum(any(line.outer for line in find_lines(monthly(s), (12.0,))) for s in range(10)) >= 9
    wave = [1, -2 * 0.98 * np.cos(2 * np.pi / 12), 0.98**2]
    noise = np.random.default_rng(0).normal(size=(10, 320, 3))
    rhythms = lfilter([1], wave, noise, axis=1)[:, 200:]
    assert not any(line.outer for x in rhythms for line in find_lines(x, (12.0,)))


def test_three_years_of_365_days_are_enough():
    rng, t = np.random.default_rng(0), np.arange(3 * 365)
    weather = lfilter([1], [1, -0.6], rng.normal(size=(len(t), 3)), axis=0)
    found = find_lines(weather + 3 * np.sin(2 * np.pi * t / 365.25)[:, None], (365.25,))
    assert found and all(line.outer for line in found)


def test_what_a_wave_foretells_in_all_variables_is_told_as_by_a_multivariate_regression():
    from statsmodels.multivariate.multivariate_ols import _MultivariateOLS

    x = monthly(0, n=240, size=0.5)
    z = x / np.sqrt((x**2).mean(axis=0))
    past = [z[2:-1], z[1:-2], z[:-3]]
    angle = 2 * np.pi * np.arange(3.0, 240) / 12
    wave = np.stack([np.cos(angle), np.sin(angle)], 1)
    columns = [np.ones((237, 1)), *past, past[0] ** 2, past[0] ** 3, wave]
    fitted = _MultivariateOLS(z[3:], np.concatenate(columns, 1)).fit()
    only = np.eye(18)[-2:]
    told = fitted.mv_test([("wave", only, None)]).results["wave"]["stat"]
    found = _chances(x, {12.0})[12.0].together
    # Bartlett's approximation here, that of Rao there.
    expected = float(told.loc["Wilks' lambda", "Pr > F"])
    assert expected < 1e-3
    np.testing.assert_allclose(np.log(found), np.log(expected), rtol=0.03)


def test_a_week_of_working_days_goes_with_its_overtones():
    """They have little of the variance of slow variables, and much of that of their steps."""
    rng, t = np.random.default_rng(3), np.arange(730)
    slow = lfilter([0.1], [1, -0.98], rng.normal(size=(730, 2)), axis=0)
    week = 0.3 * np.isin(t % 7, [5, 6])
    samples = prepared(slow + week[:, None], time_unit="day")
    assert names(samples) == ["season"]
    np.testing.assert_allclose(sorted(samples.treatments[0].periods), [7 / 3, 3.5, 7], rtol=1e-3)
    # Without a known clock only lines that hold a share of the variance.
    assert len(prepared(slow + week[:, None]).treatments[0].periods) < 3


def test_two_periods_are_both_found():
    x, t = oscillators(n=3000), np.arange(3000)
    both = np.sin(2 * np.pi * t / 24) + np.sin(2 * np.pi * t / 168)
    samples = prepared(x + both[:, None], time_unit="hour")
    np.testing.assert_allclose(sorted(samples.treatments[0].periods), [24, 168])


def test_tides_are_told_apart():
    """The lunar, the solar and a daily one: the strongest hides the others in short pieces."""
    rng, t = np.random.default_rng(0), np.arange(2880)
    surge = lfilter([0.05], [1, -0.95], rng.normal(size=(2880, 2)), axis=0)
    periods, sizes = (12.0, 12.42, 25.82), (0.4, 1.2, 0.2)
    tide = sum(a * np.cos(2 * np.pi * t / p) for a, p in zip(sizes, periods, strict=True))
    samples = prepared(surge + tide[:, None], time_unit="hour")
    np.testing.assert_allclose(sorted(samples.treatments[0].periods), periods, rtol=2e-3)
    assert (samples.values[0] - surge).std(axis=0).max() < 0.1 * surge.std()


def test_the_day_of_the_moon_is_another_clock_than_that_of_the_sun():
    rng, t = np.random.default_rng(1), np.arange(4800)
    surge = lfilter([0.05], [1, -0.95], rng.normal(size=(4800, 2)), axis=0)
    for unit, scale in (("hour", 1.0), ("h", 1.0), ("min", 60.0)):
        tide = 0.3 * np.cos(2 * np.pi * t / 23.9345) + 0.5 * np.cos(2 * np.pi * t / 12)
        samples = prepared(surge + tide[:, None], dt=scale, time_unit=unit)
        lunar, solar = sorted(samples.treatments[0].periods)[::-1]
        assert solar == 12.0 * scale  # the clock itself
        np.testing.assert_allclose(lunar / scale, 23.9345, rtol=3e-4)


def test_seasons_are_told_in_a_unit_that_fits():
    rng, t = np.random.default_rng(1), np.arange(2000)
    wave = np.cos(2 * np.pi * t / 144)
    x = lfilter([0.3], [1, -0.7], rng.normal(size=(2000, 2)), axis=0) + wave[:, None]
    assert "season of 12 h was" in prepared(x, dt=5.0, time_unit="minute").treatments[0].text


def test_hours_of_the_day_beside_others_are_no_season_of_these():
    """Overtones of the count were removed from all variables, as seasons of 8 and 4.8 hours."""
    x = np.column_stack([oscillators(), np.arange(len(oscillators())) % 24])
    samples = prepared(x)
    assert "season" not in names(samples)
    np.testing.assert_array_equal(samples.values[0], x)


def test_a_column_that_is_the_clock_is_left_alone():
    t = np.arange(1200)
    clock = np.sin(2 * np.pi * t / 12)
    samples = prepared(np.column_stack([oscillators() + clock[:, None], clock]))
    assert "season" not in names(samples)


# ---- trends ----


def test_a_trend_is_removed():
    x = oscillators()
    samples = prepared(x + np.linspace(0, 6, len(x))[:, None] * [1, 0, 0])
    assert names(samples) == ["trend"] and samples.treatments[0].columns == (0,)
    error = samples.values[0] - x
    assert np.ptp(error[:, 0]) < 1.0 and not error[:, 1:].any()


def test_a_trend_that_slow_waves_hide_is_removed_with_those_it_brings():
    """A slow driver of a temperature that warms, and ice that follows both and thins as well."""
    rng, n = np.random.default_rng(2), 540
    x = np.zeros((n, 3))
    for k in range(4, n):
        x[k, 0] = 0.93 * x[k - 1, 0] + 0.35 * rng.normal()
        x[k, 1] = 0.6 * x[k - 1, 1] + 0.12 * x[k - 4, 0] + 0.08 * rng.normal()
        x[k, 2] = 0.8 * x[k - 1, 2] - 0.4 * x[k - 1, 1] + 0.15 * rng.normal()
    assert prepared(x).treatments == ()
    samples = prepared(x + np.arange(n)[:, None] * [0, 0.0018, -0.004])
    assert names(samples) == ["trend"] and samples.treatments[0].columns == (1, 2)
    slopes = samples.treatments[0].coefficients[0][1]
    np.testing.assert_allclose(slopes, [0, 0.0018, -0.004], atol=0.001)


@pytest.mark.parametrize("length", [120, 300, 1000])
def test_random_walks_have_no_trend(length):
    rng = np.random.default_rng(length)
    walks = rng.normal(size=(40, length, 3)).cumsum(axis=1)
    found = [trends(walk) for walk in walks]
    assert np.mean([(one.errors > APART).any() for one in found]) <= 0.05


@pytest.mark.parametrize("drift", [0.2, 1.0])
def test_a_follower_of_a_random_walk_with_drift_has_no_trend(drift):
    """It is pulled back, towards the walk: removing its trend would break the relation."""
    for seed in range(20):
        rng, x = np.random.default_rng(seed), np.zeros((500, 2))
        noise = rng.normal(size=x.shape)
        for k in range(499):
            x[k + 1] = x[k] + [drift, 0.3 * (x[k, 0] - x[k, 1])] + noise[k]
        assert prepared(x).treatments == ()


def test_a_trend_shows_among_slow_fluctuations():
    """Two standard deviations over 500 samples, on a memory of twenty."""
    found = 0
    for seed in range(20):
        rng, x = np.random.default_rng(seed), np.zeros((500, 2))
        for k in range(499):
            x[k + 1] = x[k] @ [[0.95, 0.4], [0, 0.6]] + rng.normal(size=2)
        assert prepared(x).treatments == ()
        x[:, 1] += 2 * x[:, 1].std() * np.linspace(0, 1, 500)
        found += names(prepared(x)) == ["trend"]
    assert found >= 14


# ---- clocks ----


def test_rows_missing_from_a_grid_are_missing_values():
    x, kept = oscillators(), np.random.default_rng(0).random(1200) > 0.2
    kept[[0, -1]] = True
    t = 5.0 + 0.25 * np.arange(1200)
    samples = ndde.prepare_samples(ndde.read_samples(x[kept], t=t[kept]), steps=("clock",))
    assert names(samples) == ["rows"] and samples.regular and samples.dt == pytest.approx(0.25)
    np.testing.assert_allclose(samples.times[0], t)
    np.testing.assert_array_equal(samples.values[0], np.where(kept[:, None], x, np.nan))


def test_irregular_samples_are_interpolated_with_a_stated_error():
    rng = np.random.default_rng(0)
    t = np.cumsum(rng.uniform(0.6, 1.4, 1000))
    x = np.stack([np.sin(t / 7.3), np.cos(t / 5.1)], axis=1)
    samples = ndde.prepare_samples(ndde.read_samples(x, t=t), steps=("clock",))
    (treatment,) = samples.treatments
    grid = samples.times[0]
    exact = np.stack([np.sin(grid / 7.3), np.cos(grid / 5.1)], axis=1)
    np.testing.assert_allclose(samples.values[0], exact, atol=1e-3)
    assert samples.regular and treatment.size < 1e-2


def test_visits_every_few_days_are_no_grid_of_days_with_rows_missing():
    """Almost no window of days would be complete."""
    rng = np.random.default_rng(0)
    t = np.cumsum(rng.integers(1, 4, 800)).astype(float)
    x = np.stack([np.sin(t / 27.3), np.cos(t / 25.1)], axis=1)
    samples = ndde.prepare_samples(ndde.read_samples(x, t=t, time_unit="day"), steps=("clock",))
    assert names(samples) == ["clock"] and samples.dt == 2.0
    grid = samples.times[0]
    exact = np.stack([np.sin(grid / 27.3), np.cos(grid / 25.1)], axis=1)
    assert np.nanmax(np.abs(samples.values[0] - exact)) < 5e-3
    assert np.isfinite(samples.values[0]).all(axis=1).mean() > 0.8


def test_stamps_around_a_grid_are_interpolated_and_slightly_uneven_steps_are_not():
    rng, x = np.random.default_rng(0), oscillators()
    jittered = np.arange(1200) + rng.uniform(-0.2, 0.2, 1200)
    assert names(ndde.prepare_samples(ndde.read_samples(x, t=jittered), steps=("clock",))) == [
        "clock"
    ]
    uneven = np.cumsum(rng.uniform(0.8, 1.2, 1200))
    assert ndde.prepare_samples(ndde.read_samples(x, t=uneven), steps=("clock",)).treatments == ()


def test_weeks_that_begin_anew_each_year_are_rows():
    """As in records of disease: 52 weeks a year, and the last of eight or nine days."""
    years = [pd.date_range(f"{year}-01-01", periods=52, freq="7D") for year in range(1990, 2008)]
    weeks = pd.DatetimeIndex(np.concatenate(years))
    x = oscillators()[: len(weeks)]
    table = pd.DataFrame(x, index=weeks)
    mask = weeks.year == 2007
    samples = ndde.prepare_samples(ndde.read_samples(table, mask=mask), steps=("clock",))
    (treatment,) = samples.treatments
    assert samples.regular and samples.dt == 7 and samples.time_unit == "day"
    assert "all but 17 of 935 steps are 7 days" in treatment.text
    np.testing.assert_array_equal(samples.values[0], x)
    np.testing.assert_array_equal(samples.mask[0], mask)
    np.testing.assert_array_equal(samples.dates(samples.times[0]), weeks.values.astype("M8[D]"))
    np.testing.assert_array_equal(
        samples.dates(samples.times[0][-1:] + 7), np.array(["2007-12-31"], "M8[D]")
    )
    (finding,) = (f for f in ndde.data_findings(samples) if f.name == "irregular clock")
    assert finding.weight == "note"
    days = (weeks - weeks[0]).days.to_numpy()
    yearly = table + 3 * np.sin(2 * np.pi * days / 365.2425)[:, None]
    season = ndde.prepare_samples(ndde.read_samples(yearly)).treatments[-1]
    assert season.periods == pytest.approx((364.0,), abs=0.1)  # 52 rows
    # A year without its second week.
    short = ndde.prepare_samples(ndde.read_samples(table.drop(weeks[105])), steps=("clock",))
    assert np.argwhere(np.isnan(short.values[0][:, 0])).tolist() == [[105]]
    np.testing.assert_array_equal(
        np.delete(short.dates(short.times[0]), 105), np.delete(weeks.values, 105).astype("M8[D]")
    )


def test_no_common_step():
    rng = np.random.default_rng(0)
    assert find_grid((np.cumsum(rng.uniform(0.5, 1.5, 100)),)) is None
    assert find_grid((np.cumsum(rng.integers(1, 3, 100)) * 0.5,)).step == pytest.approx(0.5)


# ---- spikes ----


def test_spikes_are_found_and_bursts_are_none():
    x = oscillators()
    x[[100, 102, 700], 1] += 20
    assert np.argwhere(find_spikes(x)).tolist() == [[100, 1], [102, 1], [700, 1]]
    burst = oscillators()
    burst[200:206, 0] += 20 * np.hanning(6)
    assert not find_spikes(burst).any()


def test_outliers_that_a_rough_variable_forgets_at_once_are_spikes():
    """Their neighbours do not show them, since such a variable moves as far in any step."""
    rng = np.random.default_rng(0)
    x = lfilter([1], [1, -0.65], rng.normal(size=(1000, 3)), axis=0)
    places = [40, 41, 160, 355, 499, 500, 640, 790, 999]
    x[places, 1] += 9 * x[:, 1].std() * np.array([1, 1, -1, 1, -1, 1, 1, -1, 1])
    assert not find_spikes(x).any()
    found = np.concatenate(find_isolated_outliers([x[:500], x[500:]]))
    # Two in a row are none, but the end of one recording has no neighbour in the next.
    assert np.argwhere(found).tolist() == [[k, 1] for k in (160, 355, 499, 500, 640, 790, 999)]
    assert names(prepared(x)) == ["spikes", "gaps"]


@pytest.mark.parametrize("memory, heavy", [(0.65, True), (0.0, False), (0.0, True)])
def test_outliers_that_last_or_tell_nothing_are_none(memory, heavy):
    rng = np.random.default_rng(1)
    noise = rng.standard_t(2, size=(1000, 3)) if heavy else rng.normal(size=(1000, 3))
    x = lfilter([1], [1, -memory], noise, axis=0)
    if not heavy:  # white noise has no memory anyway
        x[[40, 160, 355, 499], 1] += 9
    assert (np.abs(x) > 7).any()
    assert not find_isolated_outliers([x])[0].any()


@pytest.mark.parametrize("size", [100, 1e4, 1e8, 1e20])
def test_a_gross_error_in_a_rough_variable_is_left_out(size):
    """It would hide a link; that of a variable without memory is gross from 100 deviations on."""
    rng = np.random.default_rng(0)
    noise, x = rng.normal(size=(600, 3)), np.zeros((600, 3))
    for k in range(4, len(x)):
        x[k] = 0.5 * x[k - 1] + noise[k]
        x[k, 1] += 0.8 * x[k - 4, 0]
    x[:, 2] = noise[:, 2]
    x[300, 1] = x[5, 2] = size
    samples = prepared(x)
    (spikes,) = (t for t in samples.treatments if t.name == "spikes")
    assert set(spikes.columns) == ({1, 2} if size > 100 else {1})
    found = ndde.discover(x[:, :2], dt=1.0, lags=range(6), key=jr.key(0))
    assert np.argwhere(found.graph[0, 1]).ravel().tolist() == [3] and found.verdict == "supported"


@pytest.mark.parametrize("place", [2, 4, 300, 595, 597])
@pytest.mark.parametrize("dim", [1, 2])
def test_a_spike_is_an_error_where_nothing_can_follow_it(place, dim):
    x = np.sin(0.1 * np.arange(600)[:, None] + np.arange(dim))
    x += 0.01 * np.random.default_rng(0).normal(size=x.shape)
    x[place, 0] = 40
    samples = prepared(x)
    assert names(samples) == ["spikes", "gaps"] and np.abs(samples.values[0]).max() < 1.1


@pytest.mark.parametrize("late", [None, 1, 4])
def test_spikes_that_others_follow_are_no_errors(late):
    rng, x, n = np.random.default_rng(0), np.zeros((1500, 3)), 12
    noise, wild = rng.normal(size=x.shape), np.exp(np.cumsum(0.05 * rng.normal(size=1500)))
    places = rng.choice(np.arange(20, 1480), n, replace=False)
    for k in range(1, len(x)):  # whose variance comes and goes
        x[k] = 0.9 * x[k - 1] + wild[k] * noise[k]
        if late and k - late in places:
            x[k, 1] -= 5 * wild[k]
    x[places, 0] += 10 * x[:, 0].std()
    samples = prepared(x)
    assert names(samples) == ([] if late else ["spikes", "gaps"])
    backwards = prepared(x[::-1].copy())  # a variable that announces a spike
    assert names(backwards) == names(samples)
    parts = prepared([x[:700], x[700:]])
    assert ("spikes" in names(parts)) == (late is None)


# ---- gaps ----


def test_smooth_gaps_are_filled_by_a_curve():
    t = np.arange(500)
    x = np.stack([np.sin(t / 9), np.cos(t / 13)], axis=1)
    holes = np.random.default_rng(0).random(x.shape) < 0.1
    filled, where, error = fill_gaps(np.where(holes, np.nan, x))
    np.testing.assert_allclose(filled[where], x[where], atol=0.02)
    assert error.max() < 0.01


def test_noisy_gaps_are_filled_from_the_past_alone():
    """Values after a gap must not affect what fills it."""
    x = np.cumsum(np.random.default_rng(0).normal(size=(800, 2)), axis=0)
    x[400, 0] = np.nan
    filled, where, error = fill_gaps(x)
    after = x.copy()
    after[401:403] += 1e-3  # barely changes the fit, but would change a curve by half as much
    again = fill_gaps(after)[0]
    assert where[400, 0] and abs(filled[400, 0] - again[400, 0]) < 1e-4
    assert 0.5 < error[0] < 2  # the variance of the unseen step


def test_a_variable_without_two_values_in_succession_has_an_error_in_its_own_steps():
    x = np.random.default_rng(0).normal(size=(401, 2))
    x[1::2, 1] = np.nan
    (one, other) = (fill_gaps(scale * x)[2] for scale in (1.0, 1000.0))
    np.testing.assert_allclose(other, one)
    assert 0 < one[1] < 10


def test_long_gaps_stay():
    x = oscillators()
    x[100:150, 0] = np.nan
    x[200:203, 0] = np.nan
    samples = prepared(x)
    assert np.isnan(samples.values[0][100:150, 0]).all()
    assert not np.isnan(samples.values[0][200:203, 0]).any()


def test_the_error_that_is_stated_is_that_of_a_variable_that_was_filled():
    """A walk beside its steps is harder to predict than white noise; but it is complete."""
    walk, white = np.random.default_rng(0).normal(size=(2, 800))
    walk = np.cumsum(walk)
    white[[100, 300, 500]] = np.nan
    (treatment,) = ndde.prepare_samples(
        ndde.read_samples(np.stack([walk, white], axis=1), dt=1.0, names=("whole", "holed")),
        steps=("gaps",),
    ).treatments
    assert "a step of holed" in treatment.text and "whole" not in treatment.text


# ---- together ----


def test_a_second_time_changes_nothing():
    x = oscillators()
    x[7, 0] = np.nan
    once = prepared(x)
    assert ndde.prepare_samples(once) is once


def test_all_of_it_is_undone_at_once():
    rng = np.random.default_rng(0)
    x = oscillators() + 2 * np.sin(2 * np.pi * np.arange(1200) / 12)[:, None]
    x[50, 1] = np.nan
    x[500, 2] += 30
    t = np.cumsum(rng.uniform(0.7, 1.3, 1200))
    samples = prepared(x, t=t)
    assert len(samples.treatments) > 1
    raw = samples.as_measured()
    np.testing.assert_array_equal(raw.values[0], x)
    np.testing.assert_allclose(raw.times[0], t)
    assert not raw.regular and raw.treatments == ()


@pytest.mark.parametrize("share, said", [(0.123, "12% of"), (1.5, "150% of"), (32.96, "33 times")])
def test_shares_are_said_as_people_do(share, said):
    assert _wording.times(share) == said
