"""Lasers with delayed optical or electro-optical feedback."""

import jax.numpy as jnp

from .._types import RealScalarLike
from ._registry import register
from ._system import System, make


def _ikeda(t, x, lagged, *, c, mu, x0):
    return mu * jnp.sin(lagged[0] - x0) - c * x


@register("ikeda_delay", source="Ikeda & Matsumoto (1987), Physica D 29, 223-235")
def ikeda_delay(*, tau: RealScalarLike = 2.0) -> System:
    """A passive optical ring resonator.

    x' = μ sin(x(t−τ) − x₀) − c x, with μ = −20, c = 1, x₀ = 0, τ = 2.

    x is the phase shift of the light on one round trip, in radians; time in units of the relaxation
    time of the medium, τ the round trip. Hyperchaotic, with many positive Lyapunov exponents.
    """
    return make(
        _ikeda,
        parameters={"c": 1.0, "mu": -20.0, "x0": 0.0},
        lags=(tau,),
        drivers={"x": "x x@1"},
        history=(0.1,),
        sigma=0.1,
        dt=0.002,
        sampling_step=0.02,
        transient=50.0,
    )


def _lang_kobayashi(t, x, lagged, *, alpha, kappa, phase, pump, lifetime):
    re, im, carriers = x
    re_late, im_late, _ = lagged[0]
    cos, sin = jnp.cos(phase), jnp.sin(phase)
    return jnp.stack(
        [
            carriers * (re - alpha * im) + kappa * (cos * re_late + sin * im_late),
            carriers * (alpha * re + im) + kappa * (cos * im_late - sin * re_late),
            (pump - carriers - (1 + 2 * carriers) * (re**2 + im**2)) / lifetime,
        ]
    )


@register(
    "lang_kobayashi",
    source="Lang & Kobayashi (1980), IEEE J. Quantum Electron. 16, 347-355; "
    "Heil et al. (2001), Phys. Rev. Lett. 87, 243901",
)
def lang_kobayashi(*, tau: RealScalarLike = 70.0) -> System:
    """A semiconductor laser with light fed back by an external mirror.

    E' = (1 + iα) N E + κ exp(−iφ) E(t−τ), T N' = P − N − (1 + 2N) |E|², with α = 5, κ = 0.135,
    φ = 0.5, P = 1.155, T = 1710, τ = 70.

    E = E_re + i E_im is the slow amplitude of the field, N the excess of carriers, both scaled;
    time in photon lifetimes of about a picosecond, τ the round trip to the mirror and back. The
    noise acts on the field, as spontaneous emission does.
    """
    return make(
        _lang_kobayashi,
        parameters={
            "alpha": 5.0,
            "kappa": 0.135,
            "phase": 0.5,
            "pump": 1.155,
            "lifetime": 1710.0,
        },
        lags=(tau,),
        drivers={
            "E_re": "E_re E_im N E_re@1 E_im@1",
            "E_im": "E_re E_im N E_re@1 E_im@1",
            "N": "E_re E_im N",
        },
        history=(1.0, 0.0, 0.0),
        sigma=(0.005, 0.005, 0.0),
        dt=0.02,
        sampling_step=1.0,
        transient=5000.0,
    )


def _optoelectronic(t, x, lagged, *, beta, phase, epsilon, delta):
    fast, slow = x
    light = jnp.cos(lagged[0, 0] + phase) ** 2
    return jnp.stack([(-fast - slow + beta * light) / epsilon, delta * fast])


@register("optoelectronic", source="Kouomou et al. (2005), Phys. Rev. Lett. 95, 203903")
def optoelectronic(*, tau: RealScalarLike = 1.0) -> System:
    """An electro-optical oscillator: laser, modulator, fibre and a band-pass amplifier in a loop.

    ε x' = −x − y + β cos²(x(t−τ) + φ), y' = δ x, with β = 3, φ = −π/4, ε = 0.05, δ = 1, τ = 1.

    x is the voltage at the modulator in units that make it a phase, y its integral; time in
    units of the fibre's delay, ε and δ the short and inverse long time of the filter. The
    original device has ε near 0.001; the larger value keeps the chaos and the cost down.
    """
    return make(
        _optoelectronic,
        parameters={"beta": 3.0, "phase": -jnp.pi / 4, "epsilon": 0.05, "delta": 1.0},
        lags=(tau,),
        drivers={"x": "x y x@1", "y": "x"},
        history=(0.5, 0.0),
        sigma=(0.05, 0.0),
        dt=0.002,
        sampling_step=0.02,
        transient=100.0,
    )
