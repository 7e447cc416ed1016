"""Models of El Niño as a delayed oscillator, where ocean waves return past winds to the coast."""

import jax.numpy as jnp

from .._types import RealScalarLike
from ._registry import register
from ._system import System, make


def _suarez_schopf(t, x, lagged, *, alpha):
    return x - x**3 - alpha * lagged[0]


@register("suarez_schopf", source="Suarez & Schopf (1988), J. Atmos. Sci. 45, 3283-3287")
def suarez_schopf(*, tau: RealScalarLike = 6.0) -> System:
    """El Niño as a delayed oscillator.

    T' = T − T³ − α T(t−τ), with α = 0.75, τ = 6.

    T is the temperature anomaly of the eastern Pacific. A warm anomaly strengthens itself through
    the winds and sends Rossby waves west, which return as cooling Kelvin waves a time τ later.
    T in units of the saturated anomaly, time in units of the growth time; periodic.
    """
    return make(
        _suarez_schopf,
        parameters={"alpha": 0.75},
        lags=(tau,),
        drivers={"T": "T T@1"},
        history=(0.1,),
        sigma=0.02,
        dt=0.05,
        sampling_step=0.5,
        transient=100.0,
    )


def _enso3_chain(t, x, lagged, *, alpha, coupling):
    # Each variable reads its own lag; the shortest belongs to the last one.
    own = jnp.stack([lagged[2, 0], lagged[1, 1], lagged[0, 2]])
    return x - x**3 - alpha * own + coupling * (jnp.roll(x, 1) - x)


@register(
    "enso3_chain",
    source="Suarez & Schopf (1988), J. Atmos. Sci. 45, 3283-3287, three of them coupled",
)
def enso3_chain() -> System:
    """Three Suarez-Schopf oscillators, each with a delay of its own, coupled in a closed chain.

    xᵢ' = xᵢ − xᵢ³ − α xᵢ(t−τᵢ) + k (xᵢ₋₁ − xᵢ), with α = 0.75, k = 0.1, τ = (6, 5, 4), and x₃
    before x₁.

    Regions of an ocean with different wave transit times that exchange heat with one neighbour.
    Units as in `suarez_schopf`. `lags` are (4, 5, 6), ascending: x₃ has the first.
    """
    return make(
        _enso3_chain,
        parameters={"alpha": 0.75, "coupling": 0.1},
        lags=(4.0, 5.0, 6.0),
        drivers={"x1": "x1 x3 x1@3", "x2": "x2 x1 x2@2", "x3": "x3 x2 x3@1"},
        history=(0.5, 0.2, -0.1),
        sigma=0.02,
        dt=0.05,
        sampling_step=0.5,
        transient=100.0,
    )


def _tziperman(t, x, lagged, *, a, b, c, kappa, omega):
    kelvin, rossby = lagged
    return a * jnp.tanh(kappa * kelvin) - b * jnp.tanh(kappa * rossby) + c * jnp.cos(omega * t)


@register("tziperman_enso", source="Tziperman et al. (1994), Science 264, 72-74")
def tziperman_enso(*, tau1: RealScalarLike = 1.15, tau2: RealScalarLike = 5.75) -> System:
    """A seasonally forced El Niño with two wave delays.

    h' = a tanh(κ h(t−τ₁)) − b tanh(κ h(t−τ₂)) + c cos(ω t), with a = 1/180, b = 1/120 and c = 1/138
    per day, ω = 2π per year, τ₁ = 1.15 and τ₂ = 5.75 months, and κ = 2.

    h is the anomaly of the depth of the thermocline at the eastern boundary, in units of its
    saturation; time in months, to which the rates are converted. Kelvin waves bring the winds of
    τ₁ ago, reflected Rossby waves those of τ₂ ago. The drift depends on the time of year, which the
    graph cannot show. There is no dependence on the present state. With b < a the depth runs off.
    """
    days = 365.25 / 12
    return make(
        _tziperman,
        parameters={
            "a": days / 180,
            "b": days / 120,
            "c": days / 138,
            "kappa": 2.0,
            "omega": jnp.pi / 6,
        },
        lags=(tau1, tau2),
        drivers={"h": "h@1 h@2"},
        history=(1.0,),
        sigma=0.02,
        dt=0.046,
        sampling_step=0.23,
        transient=240.0,
    )


def _ghil_zaliapin(t, x, lagged, *, kappa, b):
    return b * jnp.cos(2 * jnp.pi * t) - jnp.tanh(kappa * lagged[0])


@register(
    "ghil_zaliapin_enso",
    source="Ghil, Zaliapin & Thompson (2008), Nonlin. Processes Geophys. 15, 417-433",
)
def ghil_zaliapin_enso(*, tau: RealScalarLike = 0.6) -> System:
    """A seasonally forced El Niño with one wave delay.

    T' = −tanh(κ T(t−τ)) + b cos(2π t), with κ = 10, b = 1 and τ = 0.6.

    T is the temperature anomaly of the eastern Pacific in units of the wind-driven change in a
    year; time in years. The drift depends on the time of year, which the graph cannot show, and not
    on the present state.
    """
    return make(
        _ghil_zaliapin,
        parameters={"kappa": 10.0, "b": 1.0},
        lags=(tau,),
        drivers={"T": "T@1"},
        history=(1.0,),
        sigma=0.02,
        dt=0.005,
        sampling_step=0.05,
        transient=20.0,
    )


def _recharge(t, x, lagged, *, mu, b0, gamma, r, alpha, c, e):
    temperature, depth = x
    b = b0 * mu
    late = lagged[0, 0]
    return jnp.stack(
        [
            (gamma * b - c) * temperature + gamma * depth - e * (depth + b * temperature) ** 3,
            -r * depth - alpha * b * late,
        ]
    )


@register(
    "recharge_oscillator",
    source="Jin (1997), J. Atmos. Sci. 54, 811-829, with a wave delay",
)
def recharge_oscillator(*, tau: RealScalarLike = 0.5) -> System:
    """A recharge oscillator of El Niño whose western Pacific answers the winds late.

    T' = (γ b − c) T + γ h − e (h + b T)³, h' = −r h − α b T(t−τ), b = μ b₀, with γ = 0.75, c = 1,
    r = 0.25, α = 0.125, b₀ = 2.5, μ = 0.7, e = 3 and τ = 0.5.

    T is the temperature of the eastern Pacific in units of 7.5 °C, h the depth of the
    thermocline in the west in units of 150 m, time in units of 2 months, so that τ is the month in
    which equatorial waves cross the basin. In the original τ = 0. Periodic, a cycle in 3.3 years.
    """
    return make(
        _recharge,
        parameters={
            "mu": 0.7,
            "b0": 2.5,
            "gamma": 0.75,
            "r": 0.25,
            "alpha": 0.125,
            "c": 1.0,
            "e": 3.0,
        },
        lags=(tau,),
        drivers={"T": "T h", "h": "h T@1"},
        history=(0.1, 0.0),
        sigma=(0.001, 0.0005),
        dt=0.01,
        sampling_step=0.25,
        transient=200.0,
    )
