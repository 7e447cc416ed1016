"""Neurons and populations of neurons coupled with delays."""

import jax
import jax.numpy as jnp
import numpy as np

from .._types import RealScalarLike
from ._registry import register
from ._system import System, make


def _wilson_cowan(t, x, lagged, *, a, b, c, theta_u, theta_v, beta, alpha):
    u, v = x
    u_short, u_long, v_long = lagged[0, 0], lagged[1, 0], lagged[1, 1]
    return jnp.stack(
        [
            -u + jax.nn.sigmoid(beta * (theta_u + a * u_short + b * v_long)),
            alpha * (-v + jax.nn.sigmoid(beta * (theta_v + c * u_long))),
        ]
    )


@register("wilson_cowan", source="Coombes & Laing (2009), Phil. Trans. R. Soc. A 367, 1117-1129")
def wilson_cowan(*, tau1: RealScalarLike = 1.0, tau2: RealScalarLike = 1.4) -> System:
    """Two populations of neurons that inhibit each other, and one of them itself, with two delays.

    u' = −u + f(θ_u + a u(t−τ₁) + b v(t−τ₂)), v' = α (−v + f(θ_v + c u(t−τ₂))),
    f(z) = 1 / (1 + exp(−β z)), with a = −1, b = −0.4, c = −1, θ_u = 0.7, θ_v = 0.5, α = 0.5,
    β = 60, τ₁ = 1 and τ₂ = 1.4.

    u and v are fractions of active cells, time in units of the decay time of u, v is slower. Inside
    u signals need τ₁, between the populations τ₂. In the original v inhibits itself too. Periodic.
    """
    return make(
        _wilson_cowan,
        parameters={
            "a": -1.0,
            "b": -0.4,
            "c": -1.0,
            "theta_u": 0.7,
            "theta_v": 0.5,
            "beta": 60.0,
            "alpha": 0.5,
        },
        lags=(tau1, tau2),
        drivers={"u": "u u@1 v@2", "v": "v u@2"},
        history=(0.3, 0.1),
        sigma=0.01,
        dt=0.005,
        sampling_step=0.05,
        transient=50.0,
    )


def _hopfield_pair(t, x, lagged, *, instantaneous, delayed):
    return -x + instantaneous @ jnp.tanh(x) + delayed @ jnp.tanh(lagged[0])


@register("hopfield_pair", source="Lu (2002), Phys. Lett. A 298, 109-116")
def hopfield_pair(*, tau: RealScalarLike = 1.0) -> System:
    """Two Hopfield neurons with delayed synapses and a chaotic double scroll.

    x' = −x + A tanh(x) + B tanh(x(t−τ)), with A = [[2, −0.1], [−5, 3]],
    B = [[−1.5, −0.1], [−0.2, −2.5]] and τ = 1.

    x are potentials in units of the range of the firing rate, time in units of the decay time of a
    membrane. Every neuron drives every neuron, at once and after τ.
    """
    return make(
        _hopfield_pair,
        parameters={
            "instantaneous": [[2.0, -0.1], [-5.0, 3.0]],
            "delayed": [[-1.5, -0.1], [-0.2, -2.5]],
        },
        lags=(tau,),
        drivers={"x1": "x1 x2 x1@1 x2@1", "x2": "x1 x2 x1@1 x2@1"},
        history=(0.4, 0.6),
        sigma=(0.004, 0.02),
        dt=0.005,
        sampling_step=0.1,
        transient=100.0,
    )


def _hopfield_ring(t, x, lagged, *, weight):
    return -x + weight * jnp.tanh(jnp.roll(lagged[0], 1))


@register("hopfield_ring", source="Baldi & Atiya (1994), IEEE Trans. Neural Netw. 5, 612-621")
def hopfield_ring(*, size: int = 3, tau: RealScalarLike = 1.0) -> System:
    """A ring of neurons, each inhibited by its predecessor after a delay.

    xᵢ' = −xᵢ + w tanh(xᵢ₋₁(t−τ)), with w = −2, τ = 1; `size` neurons, an odd number, since with an
    even one the ring has stable rest states.

    x are potentials, time in units of the decay time of a membrane; periodic.
    """
    if size < 1 or size % 2 == 0:
        raise ValueError(f"size must be odd and positive; got {size}.")
    graph = np.zeros((size, size, 2), bool)
    units = np.arange(size)
    graph[units, units, 0] = True
    graph[units, (units + 1) % size, 1] = True
    return make(
        _hopfield_ring,
        parameters={"weight": -2.0},
        lags=(tau,),
        graph=graph,
        variables=[f"x{i + 1}" for i in range(size)],
        history=0.1 * (1 + units),
        sigma=0.02,
        dt=0.01,
        sampling_step=0.1,
        transient=100.0,
    )


def _fitzhugh_nagumo(t, x, lagged, *, epsilon, a, coupling):
    u1, v1, u2, v2 = x
    u1_late, _, u2_late, _ = lagged[0]
    return jnp.stack(
        [
            (u1 - u1**3 / 3 - v1 + coupling * (u2_late - u1)) / epsilon,
            u1 + a,
            (u2 - u2**3 / 3 - v2 + coupling * (u1_late - u2)) / epsilon,
            u2 + a,
        ]
    )


@register("fitzhugh_nagumo_pair", source="Dahlem et al. (2009), Int. J. Bifurcation Chaos 19, 745")
def fitzhugh_nagumo_pair(*, tau: RealScalarLike = 3.0) -> System:
    """Two excitable FitzHugh-Nagumo neurons that keep each other spiking through the delay.

    ε uᵢ' = uᵢ − uᵢ³/3 − vᵢ + C (uⱼ(t−τ) − uᵢ), vᵢ' = uᵢ + a, with ε = 0.01, a = 1.3, C = 0.5,
    τ = 3.

    u is the membrane potential, v the recovery; dimensionless, time in units of the recovery. Alone
    either neuron rests. A spike of one arrives at the other a time τ later, so the pair fires in
    antiphase with a period a little above 2 τ; the history excites the first one. The rest
    state is stable too, and strong noise may end or start the firing. The noise acts on v.
    """
    return make(
        _fitzhugh_nagumo,
        parameters={"epsilon": 0.01, "a": 1.3, "coupling": 0.5},
        lags=(tau,),
        drivers={"u1": "u1 v1 u2@1", "v1": "u1", "u2": "u2 v2 u1@1", "v2": "u2"},
        history=(2.0, 0.0, -1.3, -0.57),
        sigma=(0.0, 0.02, 0.0, 0.02),
        dt=0.001,
        sampling_step=0.02,
        transient=20.0,
    )
