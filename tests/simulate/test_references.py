"""Delay equations and chaotic systems against stored solutions of other programs."""

import csv
import math
from fractions import Fraction
from pathlib import Path

import diffrax
import jax.numpy as jnp
import numpy as np
import pytest

import ndde_jax as ndde

REFERENCES = Path(__file__).parents[1] / "references"


def tziperman(t, x, lagged, args):
    """A system with other parameters than the named one."""
    return jnp.tanh(2 * lagged[0]) - 0.8 * jnp.tanh(2 * lagged[1]) + 0.5 * jnp.cos(2 * jnp.pi * t)


EQUATIONS = {
    "minus_delay": "minus_delay",
    "hutchinson": "hutchinson",
    "mackey_glass_tau17": "mackey_glass",
    "mackey_glass_tau23": "mackey_glass_23",
    "mackey_glass_tau30": "mackey_glass_30",
    "suarez_schopf": "suarez_schopf",
    "enso_tziperman": tziperman,
    "two_lag_2d": "two_lag_pair",
    "enso3_chain": "enso3_chain",
    "dysts_IkedaDelay": "ikeda_delay",
    "dysts_SprottDelay": "sprott_delay",
    "dysts_VossDelay": "voss_delay",
    "dysts_ScrollDelay": "scroll_delay",
    "dysts_PiecewiseCircuit": "piecewise_circuit",
}
QUICK = ("two_lag_2d", "mackey_glass_tau17", "enso_tziperman")


def common_step(lags, t, longest):
    """The largest step below `longest` that divides all lags and the times of the reference."""
    numbers = [Fraction(float(v)).limit_denominator(10_000) for v in (*lags, t[1] - t[0])]
    common = numbers[0]
    for number in numbers[1:]:
        denominator = math.lcm(common.denominator, number.denominator)
        common = Fraction(
            math.gcd(int(common * denominator), int(number * denominator)), denominator
        )
    return float(common) / math.ceil(float(common) / longest)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] * (n not in QUICK)) for n in EQUATIONS]
)
def test_delay_equation(name):
    stored = np.load(REFERENCES / "delay_equations.npz")
    t, x, lags, start = (stored[f"{name}.{part}"] for part in ("t", "x", "lags", "history"))
    equation = EQUATIONS[name]
    drift = ndde.systems.get(equation).drift if isinstance(equation, str) else equation
    lags = np.sort(lags)
    dt = common_step(lags, t, 1 / 200 if "Ikeda" in name else 1 / 50)
    path = ndde.solve_sdde(
        drift,
        lags=lags,
        dt=dt,
        n_steps=round(t[-1] / dt),
        history=jnp.asarray(start),
        solver=diffrax.Tsit5(),
    )
    at = np.round(t / dt).astype(int)
    np.testing.assert_allclose(path.ts[at], t, atol=1e-9)
    tolerance = 1e-6 if "Ikeda" in name else 1e-8
    np.testing.assert_allclose(path.ys[at], x, rtol=0, atol=tolerance)


def chaotic():
    with (REFERENCES / "dysts_lyapunov.csv").open() as file:
        return list(csv.DictReader(file))


@pytest.mark.slow
@pytest.mark.parametrize("row", chaotic(), ids=lambda row: row["name"])
def test_leading_exponent_of_dysts_systems(row):
    """Within 3 % or two standard errors."""
    exponent, error, period = (
        float(row[field]) for field in ("exponent", "standard_error", "period")
    )
    system = ndde.systems.get(row["name"])
    # Its exponential nonlinearity is stiff.
    dt = period / (500 if row["name"] == "JerkCircuit" else 150)
    spectrum = ndde.lyapunov_spectrum(
        system.drift,
        dt=dt,
        n_steps=int(np.clip(400 / exponent / dt, 20_000, 600_000)),
        history=system.history,
        solver=diffrax.Tsit5(),
    )
    difference = abs(float(spectrum.exponents[0]) - exponent)
    spread = math.hypot(error, float(spectrum.standard_error[0]))
    assert difference < max(0.03 * exponent, 2 * spread)
    assert abs(float(spectrum.exponents[1])) < max(0.03 * exponent, 4 * spread)
