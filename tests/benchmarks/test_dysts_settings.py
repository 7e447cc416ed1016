"""Settings of the dysts benchmark: systems, recipes, protocol; and a score of its own."""

import numpy as np
import pytest
import scipy.signal

import ndde_jax as ndde
from benchmarks.dysts import generate, methods, scoring
from benchmarks.dysts.settings import Recipe, protocol, recipes, regime, system_names


def test_settings_hold_the_papers_lists():
    names = system_names()
    assert len(names) == len(set(names)) == 41
    assert sum(regime(name) == "chaotic" for name in names) == 32
    assert protocol().noise == 0.05
    # 250 Lyapunov times for every system, also where the training trajectory reaches a limit.
    lengths = {name: generate.lengths(0.01 * k, protocol()) for k, name in enumerate(names, 1)}
    for k, (n_train, n_test) in enumerate(lengths.values(), 1):
        assert 1000 <= n_train <= 10000 and n_test == pytest.approx(25000 / k, abs=1)
    assert recipes()["cnode_paper"].refine_steps == 500


def test_unknown_settings_are_refused(tmp_path):
    file = tmp_path / "settings.toml"
    file.write_text('[ours.a]\npenalty = "l0ndde"\nlambda = 3\n')
    with pytest.raises(ValueError, match="unknown setting lambda of a"):
        recipes(file)
    with pytest.raises(ValueError, match="penalty must be one of"):
        Recipe(penalty="lasso")
    with pytest.raises(ValueError, match="graph must be one of"):
        Recipe(penalty="l0ndde", graph="strength")
    with pytest.raises(ValueError, match="needs graph='penalty'"):
        Recipe(penalty="l0ndde", graph="full")


def test_round_coefficients_are_asked_for_by_name():
    asked = [name for name, recipe in recipes().items() if recipe.drift == "round"]
    assert asked == ["l0ndde_round"]
    assert ndde.models.Best().polynomials.simple_numbers is False
    assert methods.family(recipes()["l0ndde_round"]).polynomials.simple_numbers is True
    assert methods.family(recipes()["l0ndde_gates"]) == ndde.models.Best()
    assert methods.family(recipes()["node_flow"]) == ndde.models.Networks()


def test_the_papers_log_spectral_distance_is_a_mean_square():
    rng, t = np.random.default_rng(0), 0.05 * np.arange(900)[:, None] * [1.0, 2.3, 3.1]
    truth = np.sin(t) + 0.02 * rng.normal(size=t.shape)
    predicted = 1.3 * np.sin(t + 1) + 0.03 * rng.normal(size=t.shape)
    power, other = (scipy.signal.welch(x, nperseg=225, axis=0)[1][1:] for x in (truth, predicted))
    expected = np.mean(np.log(power / other) ** 2)
    both = np.stack([predicted, truth]), np.stack([truth, truth])
    np.testing.assert_allclose(scoring.squared_spectral_distance(*both), [expected, 0], rtol=1e-9)
    # The library's is its square root, variable by variable, in decibels and with a floor.
    one = ndde.metrics.log_spectral_distance(predicted[:, :1], truth[:, :1], floor=0.0)
    squared = scoring.squared_spectral_distance(predicted[:, :1], truth[:, :1])
    np.testing.assert_allclose(one**2, squared * (10 / np.log(10)) ** 2, rtol=1e-9)
    # Nothing at all is far away, not infinitely far.
    assert np.isfinite(scoring.squared_spectral_distance(0 * truth, truth))
