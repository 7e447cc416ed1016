"""Oscillators and machines with delayed feedback."""

import jax.numpy as jnp
import numpy as np

from .._types import RealScalarLike
from ._registry import register
from ._system import System, make


def _sunflower(t, x, lagged, *, a, b, growth):
    rate = x[1]
    return jnp.stack([rate, -(a * rate + b * jnp.sin(lagged[0, 0])) / growth])


@register(
    "sunflower",
    source="Israelsson & Johnsson (1967), Physiol. Plant. 20, 957-976; "
    "Somolinos (1978), Q. Appl. Math. 35, 465-478",
)
def sunflower(*, tau: RealScalarLike = 50.0) -> System:
    """Circling of a growing shoot, which answers gravity when the growth hormone has arrived.

    x'' = −(a/τ) x' − (b/τ) sin x(t−τ), with a = 4.8, b = 0.186 and τ = 50, that is, a per minute
    and b per minute squared after division.

    x is the angle between shoot and plumb line in radians, v = x'; time in minutes. Oscillates for
    τ above 34.8. The τ in the coefficients is the parameter `growth`, which `get(tau=…)`
    changes with the lag.
    """
    return make(
        _sunflower,
        parameters={"a": 4.8, "b": 0.186, "growth": tau},
        lags=(tau,),
        drivers={"x": "v", "v": "v x@1"},
        history=(0.5, 0.0),
        sigma=(0.0, 0.0001),
        dt=0.1,
        sampling_step=2.0,
        transient=2000.0,
    )


def _stick_slip(t, x, lagged, *, damping, belt, static, kinetic, decay, width, gain):
    position, velocity = x
    slip = belt - velocity
    # Coulomb's sign function, smoothed so that trajectories need no event detection.
    friction = kinetic + (static - kinetic) * jnp.exp(-((slip / decay) ** 2))
    feedback = gain * (lagged[0, 0] - position)
    force = friction * jnp.tanh(slip / width)
    return jnp.stack([velocity, force - position - 2 * damping * velocity + feedback])


@register("stick_slip", source="after Das & Mallik (2006), J. Sound Vib. 297, 578-594")
def stick_slip(*, tau: RealScalarLike = 2.0) -> System:
    """A block held by a spring on a moving belt, with delayed feedback of its position.

    x'' = −x − 2ζ x' + μ(w) tanh(w/ε) + g (x(t−τ) − x), w = V − x',
    μ(w) = μ_k + (μ_s − μ_k) exp(−(w/w₀)²), with ζ = 0.05, V = 0.5, μ_s = 1, μ_k = 0.5, w₀ = 0.5,
    ε = 0.05, g = 0.2, τ = 2.

    x in units of the stretch under the weight of the block, time in units of 1/ω of block and
    spring, v = x'. Friction falls with speed, so the block sticks to the belt and slips back. The
    friction law is a smoothed Stribeck curve and the numbers are chosen here; the reference
    controls such a block by delayed feedback.
    """
    return make(
        _stick_slip,
        parameters={
            "damping": 0.05,
            "belt": 0.5,
            "static": 1.0,
            "kinetic": 0.5,
            "decay": 0.5,
            "width": 0.05,
            "gain": 0.2,
        },
        lags=(tau,),
        drivers={"x": "v", "v": "x v x@1"},
        history=(0.5, 0.0),
        sigma=(0.0, 0.02),
        dt=0.005,
        sampling_step=0.1,
        transient=100.0,
    )


def _van_der_pol(t, x, lagged, *, epsilon, gain):
    position, velocity = x
    force = epsilon * (1 - position**2) * velocity - position + epsilon * gain * lagged[0, 0]
    return jnp.stack([velocity, force])


@register("van_der_pol_delay", source="Atay (1998), J. Sound Vib. 218, 333-339")
def van_der_pol_delay(*, tau: RealScalarLike = 1.0) -> System:
    """Van der Pol's oscillator under delayed position feedback.

    x'' = ε (1 − x²) x' − x + ε k x(t−τ), with ε = 0.5, k = 0.5, τ = 1.

    x in units of the amplitude at which damping changes sign, time in units of 1/ω, v = x'. The
    phase of the feedback decides whether it drives or brakes; periodic.
    """
    return make(
        _van_der_pol,
        parameters={"epsilon": 0.5, "gain": 0.5},
        lags=(tau,),
        drivers={"x": "v", "v": "x v x@1"},
        history=(0.5, 0.0),
        sigma=(0.0, 0.05),
        dt=0.01,
        sampling_step=0.1,
        transient=100.0,
    )


def _duffing(t, x, lagged, *, damping, alpha, gamma):
    position, velocity = x
    force = -damping * velocity - alpha * position * (1 - position**2) - gamma * lagged[0, 0]
    return jnp.stack([velocity, force])


@register("duffing_delay", source="Cantisán et al. (2020), Int. J. Bifurcation Chaos 30, 2030007")
def duffing_delay(*, tau: RealScalarLike = 3.0) -> System:
    """A bistable Duffing oscillator with a delayed force and nothing else that drives it.

    x'' = −μ x' − α x (1 − x²) − γ x(t−τ), with μ = 0.1, α = −1, γ = −0.5 and τ = 3.

    x in units of half the distance of the wells, time in units of the inverse frequency at the
    barrier, v = x'. Without the delay the oscillator comes to rest. The damping of the reference,
    0.01, is so weak that noise or a coarse step carries the oscillator to a far larger cycle.
    """
    return make(
        _duffing,
        parameters={"damping": 0.1, "alpha": -1.0, "gamma": -0.5},
        lags=(tau,),
        drivers={"x": "v", "v": "x v x@1"},
        history=(1.0, 0.0),
        sigma=(0.0, 0.02),
        dt=0.005,
        sampling_step=0.1,
        transient=200.0,
    )


def _kuramoto(t, x, lagged, *, power, damping, feedback, coupling):
    n = power.shape[0]
    angle, rate = x[:n], x[n:]
    pulls = jnp.sin(angle[:, None] - angle[None, :])  # [source target]
    torque = power - damping * rate - feedback * lagged[0, n:] + jnp.sum(coupling * pulls, axis=0)
    return jnp.concatenate([rate, torque])


@register(
    "kuramoto_inertia", source="Schäfer et al. (2016), Eur. Phys. J. Special Topics 225, 569-582"
)
def kuramoto_inertia(*, tau: RealScalarLike = 0.92) -> System:
    """Kuramoto oscillators with inertia: a power grid whose prices answer the frequency late.

    θⱼ'' = Pⱼ − α θⱼ' − γ θⱼ'(t−τ) + Σᵢ Kᵢⱼ sin(θᵢ − θⱼ), with α = 0.2, γ = 0.25, τ = 0.92, a
    consumer P₁ = −3 and three producers P = 1 around it, and K = 8 on the three lines.

    θ in radians relative to the grid's reference phase, w = θ' in radians per unit of time, powers
    per inertia. Producers and consumers act on a frequency that is τ old. At this delay that feeds
    the oscillations of the producers against each other instead of damping them, and the damping α,
    twice that of the reference, keeps them from tearing the grid apart. The mean angle is constant
    without noise and diffuses with it; differences stay bounded. The noise acts on the rates.
    """
    size = 4
    coupling = np.zeros((size, size))
    coupling[0, 1:] = coupling[1:, 0] = 8.0
    graph = np.zeros((2 * size, 2 * size, 2), bool)
    units = np.arange(size)
    graph[size + units, units, 0] = True  # θ' = w
    graph[size + units, size + units, 0] = True  # damping
    graph[size + units, size + units, 1] = True  # delayed feedback
    graph[:size, size:, 0] = (coupling > 0) | np.eye(size, dtype=bool)
    return make(
        _kuramoto,
        parameters={
            "power": [-3.0, 1.0, 1.0, 1.0],
            "damping": 0.2,
            "feedback": 0.25,
            "coupling": coupling,
        },
        lags=(tau,),
        graph=graph,
        variables=[f"theta{i + 1}" for i in units] + [f"w{i + 1}" for i in units],
        history=(0.0, 0.1, 0.2, 0.3, 0.0, 0.0, 0.0, 0.0),
        sigma=(0.0,) * size + (0.02,) * size,
        dt=0.002,
        sampling_step=0.04,
        transient=500.0,
    )
