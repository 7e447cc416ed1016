"""Chaotic units coupled in networks with transmission delays."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from .._types import RealScalarLike
from ._registry import register
from ._system import System, make

_UNITS = "units of Mackey & Glass (1977), Science 197, 287-289, coupled here by their production"


def _mackey_glass_network(t, x, lagged, *, beta, gamma, n, weights):
    production = lagged / (1 + lagged**n)
    arriving, own = production
    share = 1 - jnp.sum(weights, axis=0)
    return beta * (share * own + arriving @ weights) - gamma * x


def _network(
    weights: Float[np.ndarray, "source target"], tau: RealScalarLike, delay: RealScalarLike
) -> System:
    """Return Mackey-Glass units joined by `weights`."""
    size = len(weights)
    # Equal units under a common driver would end up in the same state.
    beta = 0.2 * (1 + 0.1 * np.linspace(-1, 1, size))
    graph = np.zeros((size, size, 3), bool)
    graph[:, :, 0] = graph[:, :, 2] = np.eye(size, dtype=bool)
    graph[:, :, 1] = weights != 0
    return make(
        _mackey_glass_network,
        parameters={"beta": beta, "gamma": 0.1, "n": 10.0, "weights": weights},
        lags=(delay, tau),
        graph=graph,
        variables=[f"x{i + 1}" for i in range(size)],
        history=0.6 + 0.6 * np.arange(size) / max(size - 1, 1),
        sigma=0.002,
        dt=0.1,
        sampling_step=1.0,
        transient=1000.0,
    )


def _check_network(size: int, coupling: RealScalarLike) -> None:
    if size < 2:
        raise ValueError(f"size must be at least 2; got {size}.")
    if not 0 < coupling < 1:
        raise ValueError(f"coupling must be between 0 and 1; got {coupling}.")


@register("mackey_glass_ring", source=_UNITS)
def mackey_glass_ring(
    *,
    size: int = 5,
    coupling: RealScalarLike = 0.2,
    tau: RealScalarLike = 23.0,
    delay: RealScalarLike = 10.0,
) -> System:
    """A ring of Mackey-Glass units, each driven by its predecessor.

    xᵢ' = β ((1−ε) f(xᵢ(t−τ)) + ε f(xᵢ₋₁(t−d))) − γ xᵢ, f(x) = x / (1 + xⁿ), with β ≈ 0.2,
    γ = 0.1, n = 10, ε = `coupling` = 0.2, τ = 23 and d = `delay` = 10.

    Units as in `mackey_glass`, but β grows by a fifth from the first unit to the last, from 0.18 to
    0.22, since equal units under equal drivers end up in the same state. The parameter `weights`
    [source target] holds ε. `lags` are (d, τ), so d must be below τ. Chaotic.
    """
    _check_network(size, coupling)
    return _network(coupling * np.roll(np.eye(size), 1, axis=1), tau, delay)


@register("mackey_glass_star", source=_UNITS)
def mackey_glass_star(
    *,
    size: int = 5,
    coupling: RealScalarLike = 0.2,
    tau: RealScalarLike = 23.0,
    delay: RealScalarLike = 10.0,
) -> System:
    """A Mackey-Glass unit that drives all others, which do not drive anything.

    x₁' = β f(x₁(t−τ)) − γ x₁, xᵢ' = β ((1−ε) f(xᵢ(t−τ)) + ε f(x₁(t−d))) − γ xᵢ for i > 1,
    f(x) = x / (1 + xⁿ), with the parameters of `mackey_glass_ring`.

    The leaves have a common driver and no links, so whatever seems to link them is spurious.
    """
    _check_network(size, coupling)
    weights = np.zeros((size, size))
    weights[0, 1:] = coupling
    return _network(weights, tau, delay)


@register("mackey_glass_network", source=_UNITS)
def mackey_glass_network(
    *,
    size: int = 6,
    probability: RealScalarLike = 0.3,
    seed: int = 0,
    coupling: RealScalarLike = 0.2,
    tau: RealScalarLike = 23.0,
    delay: RealScalarLike = 10.0,
) -> System:
    """A random directed network of Mackey-Glass units.

    xⱼ' = β ((1−εⱼ) f(xⱼ(t−τ)) + Σᵢ Wᵢⱼ f(xᵢ(t−d))) − γ xⱼ, f(x) = x / (1 + xⁿ), εⱼ = Σᵢ Wᵢⱼ, with
    the parameters of `mackey_glass_ring`.

    Every ordered pair of the `size` units is linked with `probability`, drawn by NumPy's generator
    from `seed`; what a unit receives, `coupling` in all, is shared equally among its drivers.
    """
    _check_network(size, coupling)
    if not 0 <= probability <= 1:
        raise ValueError(f"probability must be in [0, 1]; got {probability}.")
    links = np.random.default_rng(seed).random((size, size)) < probability
    np.fill_diagonal(links, False)
    weights = coupling * links / np.maximum(links.sum(axis=0, keepdims=True), 1)
    return _network(weights, tau, delay)


def _lorenz63(t, x, lagged, *, sigma, rho, beta, coupling):
    x1, y1, z1, x2, y2, z2 = x
    return jnp.stack(
        [
            sigma * (y1 - x1),
            x1 * (rho[0] - z1) - y1,
            x1 * y1 - beta * z1,
            sigma * (y2 - x2) + coupling * (lagged[0, 0] - x2),
            x2 * (rho[1] - z2) - y2,
            x2 * y2 - beta * z2,
        ]
    )


@register(
    "lorenz63_delayed",
    source="units of Lorenz (1963), J. Atmos. Sci. 20, 130-141, coupled here with a delay",
)
def lorenz63_delayed(*, tau: RealScalarLike = 0.3) -> System:
    """Two Lorenz systems, of which the first drives the second after a delay.

    xᵢ' = σ (yᵢ − xᵢ), yᵢ' = xᵢ (ρᵢ − zᵢ) − yᵢ, zᵢ' = xᵢ yᵢ − β zᵢ, and x₂' has the further term
    k (x₁(t−τ) − x₂); σ = 10, ρ = (28, 35), β = 8/3, k = 2 and τ = 0.3.

    Dimensionless convection; time in units of the heat diffusion time over 1 + a². ρ differs so
    that the two do not synchronise. Chaotic.
    """
    return make(
        _lorenz63,
        parameters={"sigma": 10.0, "rho": [28.0, 35.0], "beta": 8 / 3, "coupling": 2.0},
        lags=(tau,),
        drivers={
            "x1": "x1 y1",
            "y1": "x1 y1 z1",
            "z1": "x1 y1 z1",
            "x2": "x2 y2 x1@1",
            "y2": "x2 y2 z2",
            "z2": "x2 y2 z2",
        },
        history=(1.0, 1.0, 20.0, -5.0, -5.0, 25.0),
        sigma=0.1,
        dt=0.001,
        sampling_step=0.01,
        transient=20.0,
    )


def _lorenz96(t, x, lagged, *, forcing, coupling):
    far = jnp.roll(lagged[0], -(x.shape[0] // 2))
    advection = (jnp.roll(x, -1) - jnp.roll(x, 2)) * jnp.roll(x, 1)
    return advection - x + forcing + coupling * (far - x)


@register(
    "lorenz96_delayed",
    source="Lorenz (1996), ECMWF Seminar on Predictability 1, 1-18, coupled here with a delay",
)
def lorenz96_delayed(*, size: int = 6, tau: RealScalarLike = 0.5) -> System:
    """Lorenz's atmosphere on a circle of latitude, with a teleconnection to the opposite side.

    xᵢ' = (xᵢ₊₁ − xᵢ₋₂) xᵢ₋₁ − xᵢ + F + k (xᵢ₊ₕ(t−τ) − xᵢ), h = size // 2, with F = 8, k = 0.5,
    τ = 0.5.

    x is some quantity of the atmosphere at equidistant places; a unit of time is about five
    days. Waves take τ to reach the far side. Chaotic. `size` is at least 5, so that the delayed
    neighbour is none of those that act at once.
    """
    if size < 5:
        raise ValueError(f"size must be at least 5; got {size}.")
    graph = np.zeros((size, size, 2), bool)
    units = np.arange(size)
    for offset in (-2, -1, 0, 1):
        graph[(units + offset) % size, units, 0] = True
    graph[(units + size // 2) % size, units, 1] = True
    return make(
        _lorenz96,
        parameters={"forcing": 8.0, "coupling": 0.5},
        lags=(tau,),
        graph=graph,
        variables=[f"x{i + 1}" for i in range(size)],
        history=8.0 + np.sin(1.0 + units),
        sigma=0.1,
        dt=0.002,
        sampling_step=0.02,
        transient=20.0,
    )
