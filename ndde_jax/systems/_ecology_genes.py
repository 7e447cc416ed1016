"""Populations and gene circuits: maturation, transcription and translation take time."""

import jax.numpy as jnp

from .._types import RealScalarLike
from ._registry import register
from ._system import System, make


def _hutchinson(t, x, lagged, *, r):
    return r * x * (1 - lagged[0])


@register("hutchinson", source="Hutchinson (1948), Ann. N.Y. Acad. Sci. 50, 221-246")
def hutchinson(*, tau: RealScalarLike = 1.0) -> System:
    """Delayed logistic growth.

    N' = r N (1 − N(t−τ)), with r = 1.8, τ = 1.

    A population that feels the crowding of a time τ ago. N in units of the carrying capacity, time
    in units of the delay. Oscillates for r τ > π/2. N stays positive without noise; a noise that
    carries it below zero carries it away, so the default is small.
    """
    return make(
        _hutchinson,
        parameters={"r": 1.8},
        lags=(tau,),
        drivers={"N": "N N@1"},
        history=(1.2,),
        sigma=0.005,
        dt=0.01,
        sampling_step=0.1,
        transient=50.0,
    )


def _blowflies(t, x, lagged, *, p, n0, delta):
    late = lagged[0]
    return p * late * jnp.exp(-late / n0) - delta * x


@register("nicholson_blowflies", source="Gurney, Blythe & Nisbet (1980), Nature 287, 17-21")
def nicholson_blowflies(*, tau: RealScalarLike = 15.0) -> System:
    """Nicholson's blowflies: adults compete for the protein they need to lay eggs.

    N' = P N(t−τ) exp(−N(t−τ)/N₀) − δ N, with P = 10 per day, δ = 0.2 per day, N₀ = 1 and
    τ = 15 days.

    N counts adults in units of the number at which the population reproduces fastest; eggs take τ
    days to mature. P τ and δ τ are rounded from the fit to Nicholson's data. Irregular cycles with
    double peaks, a little longer than a month.
    """
    return make(
        _blowflies,
        parameters={"p": 10.0, "n0": 1.0, "delta": 0.2},
        lags=(tau,),
        drivers={"N": "N N@1"},
        history=(2.0,),
        sigma=0.05,
        dt=0.05,
        sampling_step=0.5,
        transient=500.0,
    )


def _lotka_volterra(t, x, lagged, *, r1, r2, a11, a12, a21, a22):
    prey, predator = x
    return jnp.stack(
        [
            prey * (r1 - a11 * lagged[0, 0] - a12 * predator),
            predator * (-r2 + a21 * prey - a22 * predator),
        ]
    )


@register(
    "delayed_lotka_volterra",
    source="May (1973), Ecology 54, 315-325; Song & Wei (2005), J. Math. Anal. Appl. 301, 1-21",
)
def delayed_lotka_volterra(*, tau: RealScalarLike = 1.0) -> System:
    """Predator and prey, where the prey feels its own crowding late.

    x' = x (r₁ − a₁₁ x(t−τ) − a₁₂ y), y' = y (−r₂ + a₂₁ x − a₂₂ y), with r₁ = 2.5, r₂ = 0.5,
    a₁₁ = a₁₂ = a₂₁ = 1, a₂₂ = 0.5, τ = 1.

    Densities in units of the carrying capacity, time in units of the delay. The parameters are
    round numbers beyond the Hopf bifurcation. Additive noise must stay well below the smallest
    density, as in `hutchinson`.
    """
    return make(
        _lotka_volterra,
        parameters={"r1": 2.5, "r2": 0.5, "a11": 1.0, "a12": 1.0, "a21": 1.0, "a22": 0.5},
        lags=(tau,),
        drivers={"x": "x y x@1", "y": "y x"},
        history=(0.8, 0.4),
        sigma=0.002,
        dt=0.002,
        sampling_step=0.1,
        transient=100.0,
    )


def _hes1(t, x, lagged, *, alpha_m, alpha_p, mu_m, mu_p, p0, n):
    messenger, protein = x
    late = lagged[0, 1]
    return jnp.stack(
        [
            alpha_m / (1 + (late / p0) ** n) - mu_m * messenger,
            alpha_p * messenger - mu_p * protein,
        ]
    )


@register("hes1", source="Monk (2003), Curr. Biol. 13, 1409-1413")
def hes1(*, tau: RealScalarLike = 18.5) -> System:
    """Hes1, a protein that represses its own gene.

    m' = α_m / (1 + (p(t−τ)/p₀)ⁿ) − μ_m m, p' = α_p m − μ_p p, with α_m = α_p = 1 and
    μ_m = μ_p = 0.03 per minute, p₀ = 100, n = 5, τ = 18.5 min.

    m and p are amounts of messenger RNA and of protein; τ adds up transcription and translation.
    The period is just under two hours, the amplitude small, since the Hopf bifurcation is near.
    """
    return make(
        _hes1,
        parameters={
            "alpha_m": 1.0,
            "alpha_p": 1.0,
            "mu_m": 0.03,
            "mu_p": 0.03,
            "p0": 100.0,
            "n": 5.0,
        },
        lags=(tau,),
        drivers={"m": "m p@1", "p": "m p"},
        history=(3.0, 100.0),
        sigma=(0.003, 0.05),
        dt=0.025,
        sampling_step=1.85,
        transient=5000.0,
    )


def _p53(t, x, lagged, *, s, a, b, c, d, k, kg):
    def bound(p, m):
        total = p + m + k
        return (total - jnp.sqrt(total**2 - 4 * p * m)) / 2

    p, m = x
    late = lagged[0, 0] - bound(*lagged[0])
    return jnp.stack([s - a * bound(p, m) - b * p, c * late / (kg + late) - d * m])


@register("p53_mdm2", source="Tiana, Jensen & Sneppen (2002), Eur. Phys. J. B 29, 135-140")
def p53_mdm2(*, tau: RealScalarLike = 1200.0) -> System:
    """p53 and Mdm2: a protein makes its own killer, which takes time to be transcribed.

    p' = S − a q − b p, m' = c f(t−τ) / (k_g + f(t−τ)) − d m, with the complex
    q = ½ (p + m + k − √((p + m + k)² − 4 p m)) and the free p53 f = p − q, and with S = 1,
    a = 0.03, b = 0.0001, c = 1, d = 0.01 per second, k_g = 28, k = 12 and τ = 1200 s.

    p and m are numbers of p53 and Mdm2 molecules, time in seconds. k is the dissociation constant
    of the complex; DNA damage is a change of k, here from the 180 of a healthy cell to 12, after
    which p53 pulses. Both variables reach m' at the delay, since f depends on both.
    """
    return make(
        _p53,
        parameters={
            "s": 1.0,
            "a": 0.03,
            "b": 1e-4,
            "c": 1.0,
            "d": 0.01,
            "k": 12.0,
            "kg": 28.0,
        },
        lags=(tau,),
        drivers={"p": "p m", "m": "m p@1 m@1"},
        history=(50.0, 50.0),
        sigma=(0.1, 0.03),
        dt=1.0,
        sampling_step=40.0,
        transient=30000.0,
    )
