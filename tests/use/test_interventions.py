"""Interventions against the same change made in the true system."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from .small import DT, HORIZON, KEY, LAGS, NAMES, TRUTH, A, discovery, linear_path, respond


@pytest.mark.slow
def test_what_is_set_moves_the_others_as_in_the_true_system(found):
    history = linear_path(80, seed=5)
    made = found.intervene({"sun": 0.8}, horizon=HORIZON, key=KEY, history=history)
    np.testing.assert_array_equal(made.changed[:, :, 0], 0.8)
    past = history[-LAGS[-1] - 1 :]
    expected = respond(past, HORIZON, held={0: 0.8}) - respond(past, HORIZON)
    np.testing.assert_allclose(made.difference.mean(axis=0), expected, atol=0.12)
    np.testing.assert_array_equal(made.effect(), made.effect(0.5))
    low, high = (made.effect(q)[-1, 1] for q in (0.05, 0.95))
    assert f"heat  {made.effect()[-1, 1]:+.3g} ({low:.3g} to {high:.3g})" in repr(made)
    # Variables that the change has not reached yet do not differ at all, in members without an edge
    # from there: the noise is the same.
    deaf = ~found.resample().graphs[:, 0, 2].any(axis=1)[np.arange(200) % 40]
    assert deaf.mean() > 0.9
    np.testing.assert_allclose(made.difference[deaf, 0, 2], 0, atol=1e-9)


def test_what_nothing_changes_is_said_to_be_unchanged(found):
    made = found.intervene({"ice": 0.8}, horizon=4, paths=20, key=KEY)
    assert "sun  unchanged" in repr(made) and "ice  unchanged" not in repr(made)
    # At a high level an effect is no smaller; and the size of a diverged path is no reference.
    high = dataclasses.replace(made, baseline=made.baseline + 1e9, changed=made.changed + 1e9)
    assert "ice  unchanged" not in repr(high)
    away = np.array(made.baseline)
    away[0] = 1e20
    lost = dataclasses.replace(made, baseline=away, diverged=jnp.arange(20) == 0)
    assert "ice  unchanged" not in repr(lost)


def test_what_is_held_is_seen_a_delay_later_and_no_sooner(found):
    """The sun is read two samples late: it has no effect at sample 2, and at sample 3 that of one
    sample, whenever it was set.
    """
    for start in (0, 3):
        made = found.intervene({"sun": 1.0}, horizon=HORIZON, start=start, key=KEY)
        heard = np.asarray(made.difference)[..., 1]
        # Members may have other, weak edges.
        np.testing.assert_allclose(heard[:, : start + 2].mean(axis=0), 0, atol=0.02)
        pushed = (
            1.0 - np.asarray(made.baseline)[:, start - 1, 0]
            if start
            else (1.0 - found.samples.values[0][-1, 0])
        )
        # 1.2 of the difference during the sample, which decays at .8 meanwhile; the sun would have
        # moved on by noise, so on the mean.
        expected = np.mean(pushed) * 1.2 * DT * (1 - 0.8 * DT / 2)
        assert heard[:, start + 2].mean() == pytest.approx(expected, rel=0.25)


@pytest.mark.slow
def test_an_edge_that_is_cut_acts_no_more(found):
    history = linear_path(80, seed=5)
    made = found.intervene(cut=[("sun", "heat")], horizon=HORIZON, key=KEY, history=history)
    without = A.copy()
    without[1, 1, 0] = 0
    expected = respond(history[-LAGS[-1] - 1 :], HORIZON, a=without)
    np.testing.assert_allclose(made.changed.mean(axis=0), expected, atol=0.15)
    # A GPU adds up the two runs' terms in different orders.
    np.testing.assert_allclose(made.difference[:, :, 0], 0, atol=1e-12)
    scaled = found.intervene(
        scale={("sun", "heat"): 0.0}, horizon=HORIZON, key=KEY, history=history
    )
    np.testing.assert_allclose(scaled.changed, made.changed, atol=1e-9)
    half = found.intervene(scale={(0, 1): 0.5}, horizon=HORIZON, key=KEY, history=history)
    # To first order in a step; drifts are nearly linear.
    np.testing.assert_allclose(half.effect()[:4, 1], made.effect()[:4, 1] / 2, atol=0.03)


@pytest.mark.slow
def test_a_new_delay_is_that_of_the_other_system(found):
    history = linear_path(80, seed=5)
    made = found.intervene(delay={("heat", "ice"): 0}, horizon=HORIZON, key=KEY, history=history)
    other = A.copy()
    other[2, 0, 1], other[2, 2, 1] = A[2, 2, 1], 0
    expected = respond(history[-LAGS[-1] - 1 :], HORIZON, a=other)
    np.testing.assert_allclose(made.changed.mean(axis=0), expected, atol=0.15)
    longer = found.intervene(delay={("heat", "ice"): 9}, horizon=HORIZON, key=KEY)
    assert np.isfinite(longer.changed).all()


def test_a_shift_is_seen_by_others_and_not_by_oneself(found):
    made = found.intervene(shift={"sun": 0.5}, horizon=HORIZON, start=3, stop=8, key=KEY)
    difference = np.asarray(made.difference)
    active = (np.arange(1, HORIZON + 1) >= 3) & (np.arange(1, HORIZON + 1) < 8)
    np.testing.assert_allclose(difference[:, :, 0], np.tile(0.5 * active, (200, 1)), atol=1e-9)
    # Sun drives heat two samples later, and the shift ends.
    np.testing.assert_allclose(difference[:, :4, 1], 0, atol=0.05)
    assert (difference[:, 8, 1] > 0.05).all()


@pytest.mark.slow
def test_values_may_follow_time_and_state(found):
    series = np.linspace(-0.5, 0.5, HORIZON)
    made = found.intervene({"sun": series}, horizon=HORIZON, key=KEY)
    np.testing.assert_allclose(made.changed[:, :, 0], np.tile(series, (200, 1)))
    last = found.samples.times[0][-1]
    by_time = found.intervene(
        {"sun": lambda t: -0.5 + (t - last - DT) / DT / (HORIZON - 1)}, horizon=HORIZON, key=KEY
    )
    np.testing.assert_allclose(by_time.changed[:, 1:, 0], made.changed[:, 1:, 0], atol=1e-9)
    mirrored = found.intervene({0: lambda t, x: -x[1]}, horizon=HORIZON, start="1h", key=KEY)
    np.testing.assert_allclose(mirrored.changed[:, 4:, 0], -mirrored.changed[:, 4:, 1])
    np.testing.assert_array_equal(mirrored.difference[:, :3], 0)


@pytest.mark.slow
def test_outcomes_have_gradients(found):
    def outcome(value, factor):
        made = found.intervene(
            {"sun": value}, scale={("heat", "ice"): factor}, horizon=HORIZON, key=KEY
        )
        assert made.notes == ()
        return jnp.mean(made.changed[:, -1, 2])

    got = jax.grad(outcome, argnums=(0, 1))(0.5, 0.9)
    np.testing.assert_allclose(jax.jit(outcome)(0.5, 0.9), outcome(0.5, 0.9), rtol=1e-6)
    step = 1e-5
    by_value = (outcome(0.5 + step, jnp.asarray(0.9)) - outcome(0.5 - step, jnp.asarray(0.9))) / (
        2 * step
    )
    by_factor = (outcome(0.5, 0.9 + step) - outcome(0.5, 0.9 - step)) / (2 * step)
    np.testing.assert_allclose(got, [by_value, by_factor], rtol=1e-5)
    assert abs(got[0]) > 0.1


@pytest.mark.slow
def test_notes_say_what_an_answer_rests_on(found):
    far = found.intervene({"sun": 5.0}, horizon=HORIZON, key=KEY)
    assert any(note.startswith("Outside the range of the data: sun") for note in far.notes)
    graph = TRUTH.copy()
    graph[0, 2, 1] = True
    weak = discovery(linear_path(800), graph)
    made = weak.intervene({"sun": 0.1}, horizon=HORIZON, key=KEY)
    assert any("rests on sun -> ice at lag 2" in note for note in made.notes)
    other = weak.intervene({"ice": 0.1}, horizon=HORIZON, key=KEY)
    assert not any("rests on" in note for note in other.notes)


@pytest.mark.parametrize(
    ("values", "options", "message"),
    [
        (None, {}, "needs a change"),
        ({"moon": 1.0}, {}, "a variable to set must be one of"),
        ({"sun": "high"}, {}, "the value of sun must be real numbers"),
        ({"sun": np.nan}, {}, "must be finite"),
        ({"sun": np.zeros(3)}, {}, r"\[horizon\] = \(24,\)"),
        ({"sun": lambda a, b, c: 0.0}, {}, "function of time"),
        (3, {}, "must be a mapping"),
        ({"sun": 1.0}, dict(start=24), "start must lie before"),
        ({"sun": 1.0}, dict(start=5, stop=5), "start must lie before"),
        ({"sun": 1.0}, dict(shift={"sun": 1.0}), "is set, so it cannot be shifted"),
        ({"sun": 1.0, NAMES.index("sun"): 2.0}, {}, "sun is set twice"),
        (None, dict(shift={"sun": 1.0, NAMES.index("sun"): 2.0}), "sun is shifted twice"),
        (None, dict(cut=[("ice", "sun")]), "ice -> sun is not an edge"),
        (
            None,
            dict(cut=[("sun", "heat", 4)]),
            "a lag in cut: sun -> heat has lags of 2 samples; got 4",
        ),
        (None, dict(cut="sun>heat"), "cut must be a list"),
        (None, dict(cut=[("sun",)]), "cut must be made of edges"),
        (None, dict(scale={("sun", "heat"): "half"}), "factor of sun -> heat"),
        (None, dict(delay={("sun", "heat"): -1}), "must not be negative"),
        ({"sun": 0.0}, dict(inputs={"sun": np.zeros(24)}), "known inputs are none"),
    ],
)
def test_interventions_that_cannot_be_made_are_refused(found, values, options, message):
    with pytest.raises(ValueError, match=message):
        found.intervene(values, **{"key": KEY} | options)
