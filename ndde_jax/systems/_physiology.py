"""Control loops of the body whose response comes late."""

import jax.numpy as jnp

from .._types import RealScalarLike
from ._registry import register
from ._system import System, make

_MACKEY_GLASS = "Mackey & Glass (1977), Science 197, 287-289"


def _mackey_glass(t, x, lagged, *, beta, gamma, n):
    late = lagged[0]
    return beta * late / (1 + late**n) - gamma * x


@register("mackey_glass", source=_MACKEY_GLASS)
@register("mackey_glass_23", source=_MACKEY_GLASS, tau=23.0)
@register("mackey_glass_30", source=_MACKEY_GLASS, tau=30.0)
def mackey_glass(*, tau: RealScalarLike = 17.0) -> System:
    """The Mackey-Glass equation for the density of circulating white blood cells.

    x' = β x(t−τ) / (1 + x(t−τ)ⁿ) − γ x, with β = 0.2, γ = 0.1 per day, n = 10.

    Cells are released into the blood in proportion to a count that is τ days old. x in units of the
    density at which production turns down, time in days. Chaotic at τ = 17, 23 and 30; the
    dimension of the attractor grows with τ.
    """
    return make(
        _mackey_glass,
        parameters={"beta": 0.2, "gamma": 0.1, "n": 10.0},
        lags=(tau,),
        drivers={"x": "x x@1"},
        history=(1.2,),
        sigma=0.002,
        dt=0.1,
        sampling_step=1.0,
        transient=500.0,
    )


def _cheyne_stokes(t, x, lagged, *, production, removal, ventilation, threshold, n):
    late = (lagged[0] / threshold) ** n
    return production - removal * x * ventilation * late / (1 + late)


@register("cheyne_stokes", source=_MACKEY_GLASS)
def cheyne_stokes(*, tau: RealScalarLike = 0.25) -> System:
    """Carbon dioxide in the blood when breathing answers late (Cheyne-Stokes respiration).

    x' = λ − α x V(x(t−τ)), V(x) = V_m xⁿ / (θⁿ + xⁿ), with λ = 6 mmHg/min, V_m = 80 L/min,
    α = 0.0214 per L, τ = 0.25 min, and n = 62.6, θ = 41.5 mmHg.

    x is the arterial pressure of CO₂ in mmHg, time in minutes. n and θ are such that at x = 40 mmHg
    the ventilation is 7 L/min and grows by 10 L/min per mmHg, as in patients; healthy reflexes grow
    by 4, and the steady state is lost above 7.44. Periods of about a minute of heavy and of
    hardly any breathing.
    """
    return make(
        _cheyne_stokes,
        parameters={
            "production": 6.0,
            "removal": 6.0 / 280,
            "ventilation": 80.0,
            "threshold": 41.53,
            "n": 62.62,
        },
        lags=(tau,),
        drivers={"x": "x x@1"},
        history=(39.0,),
        sigma=0.05,
        dt=0.0025,
        sampling_step=0.025,
        transient=20.0,
    )


def _pupil_reflex(t, x, lagged, *, alpha, c, theta, n):
    return c / (1 + (lagged[0] / theta) ** n) - alpha * x


@register(
    "pupil_reflex",
    source="Longtin, Milton, Bos & Mackey (1990), Phys. Rev. A 41, 6992-7005",
)
def pupil_reflex(*, tau: RealScalarLike = 0.3) -> System:
    """The area of the pupil under delayed negative feedback.

    x' = c / (1 + (x(t−τ)/θ)ⁿ) − α x, with c = 200 mm²/s, θ = 50 mm², α = 3.21 per second,
    τ = 0.3 s, and n = 10.

    Light falling on the retina closes the pupil after the time nerve and muscle need. x in mm²,
    time in seconds. With the gain n = 10 of an optically amplified loop the pupil cycles about once
    a second.
    """
    return make(
        _pupil_reflex,
        parameters={"alpha": 3.21, "c": 200.0, "theta": 50.0, "n": 10.0},
        lags=(tau,),
        drivers={"x": "x x@1"},
        history=(40.0,),
        sigma=0.5,
        dt=0.003,
        sampling_step=0.03,
        transient=10.0,
    )


def _testosterone(t, x, lagged, *, r0, k, n, g1, g2, d1, d2, d3):
    r, luteinising, hormone = x
    return jnp.stack(
        [
            r0 / (1 + (lagged[0, 2] / k) ** n) - d1 * r,
            g1 * r - d2 * luteinising,
            g2 * luteinising - d3 * hormone,
        ]
    )


@register("testosterone", source="Smith (1980), Bull. Math. Biol. 42, 57-78, with a delay")
def testosterone(*, tau: RealScalarLike = 1.0) -> System:
    """Release of testosterone: a chain of three hormones closed by a delayed negative feedback.

    R' = r₀ / (1 + (T(t−τ)/K)ⁿ) − d₁ R, L' = g₁ R − d₂ L, T' = g₂ L − d₃ T, with r₀ = 10,
    K = 2, n = 6, g₁ = g₂ = 1, d₁ = d₂ = d₃ = 1 per hour and τ = 1 h.

    R, L and T are releasing hormone (hypothalamus), luteinising hormone (pituitary) and
    testosterone, all in arbitrary units, time in hours. The delay stands for transport in the
    blood. The rates are rounded, not measured; pulses come every few hours.
    """
    return make(
        _testosterone,
        parameters={
            "r0": 10.0,
            "k": 2.0,
            "n": 6.0,
            "g1": 1.0,
            "g2": 1.0,
            "d1": 1.0,
            "d2": 1.0,
            "d3": 1.0,
        },
        lags=(tau,),
        drivers={"R": "R T@1", "L": "R L", "T": "L T"},
        history=(1.0, 1.0, 1.0),
        sigma=0.02,
        dt=0.01,
        sampling_step=0.1,
        transient=100.0,
    )
