"""Systems with known answers, delay equations of dysts, and networks of chaotic units."""

import jax.numpy as jnp
import numpy as np

from .._types import RealScalarLike, Square
from ._system import System, make, register, register_factory


@register(
    "linear_one_lag", source="Küchler & Mensch (1992), Stochastics 40, 23-42", lags={"tau": 1.0},
    drivers={"x": "x x@1"}, history=(1.0,), sigma=0.5, dt=0.01, transient=10.0,
)  # fmt: skip
def linear_one_lag(t, x, lagged, *, a=-1.0, b=-0.5):
    """The Langevin equation with a delayed term.

    dX = (a X + b X(t−τ)) dt + σ dW, with a = −1, b = −0.5, σ = 0.5, τ = 1.

    Driven by noise; without noise it comes to rest. The stationary variance is 0.1151 and the
    covariance at the lag is 0.0198, from the closed form of the reference. Dimensionless.
    """
    return a * x + b * lagged[0]


@register(
    "linear_several_lags", source="linear theory; stationary covariance by quadrature",
    lags=(0.5, 1.0), drivers={"x": "x y y@1", "y": "y x@2 y@2"}, history=(1.0, -1.0),
    sigma=(0.5, 0.4), dt=0.01, transient=10.0,
)  # fmt: skip
def linear_several_lags(
    t, x, lagged, *,
    present=((-1.5, 0.3), (0.0, -1.0)), past=(((0.0, -0.8), (0.0, 0.0)), ((0.0, 0.0), (0.6, -0.2))),
):  # fmt: skip
    """Two linear variables that drive each other at different lags.

    x' = −1.5 x + 0.3 y − 0.8 y(t−0.5), y' = −y + 0.6 x(t−1) − 0.2 y(t−1), both with noise
    σ = (0.5, 0.4).

    Driven by noise; without noise it comes to rest. The parameters `present` [target source] and
    `past` [lag target source] hold the coefficients, zeros included. Dimensionless.
    """
    return present @ x + jnp.einsum("lij,lj->i", past, lagged)


@register(
    "minus_delay", source="Driver (1977), Ordinary and Delay Differential Equations, Springer",
    lags={"tau": 1.0}, drivers={"x": "x@1"}, history=(1.0,), sigma=0.1, dt=0.01, transient=20.0,
)  # fmt: skip
def minus_delay(t, x, lagged):
    """The simplest delay equation.

    x' = −x(t−τ), with τ = 1 and x = 1 on t ≤ 0.

    Its solution is the polynomial Σₖ (−1)ᵏ (t − (k−1) τ)ᵏ / k!, summed from k = 0 while the bracket
    is positive. This tests any integrator. It decays to zero for τ < π/2, so long records need the
    noise.
    """
    return -lagged[0]


@register(
    "two_lag_pair", source="made for testing integrators with two lags", lags=(1.0, 1.7),
    drivers={"x": "x y@1 x@2", "y": "y x@2"}, history=(0.5, -0.2), sigma=0.02, dt=0.01,
    transient=50.0,
)  # fmt: skip
def two_lag_pair(t, x, lagged, *, gain=1.5, decay=0.5):
    """Two saturating variables in a negative feedback loop with two lags.

    x' = −x + tanh(g y(t−1)) − c x(t−1.7), y' = −y − tanh(g x(t−1.7)), with g = 1.5, c = 0.5.

    Dimensionless; periodic.
    """
    present_x, present_y = x
    y_first, x_second = lagged[0, 1], lagged[1, 0]
    x_rate = -present_x + jnp.tanh(gain * y_first) - decay * x_second
    return jnp.stack([x_rate, -present_y - jnp.tanh(gain * x_second)])


@register(
    "scroll_delay", source="dysts: Driver (1977), Ordinary and Delay Differential Equations",
    lags={"tau": 10.0}, drivers={"x": "x@1"}, history=(0.1,), sigma=0.01, dt=0.05, transient=500.0,
)  # fmt: skip
def scroll_delay(t, x, lagged, *, alpha=0.2, beta=0.2):
    """A delayed circuit with two scrolls.

    x' = −α x(t−τ) + β tanh(10 x(t−τ)), with α = β = 0.2, τ = 10.

    Dimensionless; the present state does not enter. Chaotic.
    """
    return -alpha * lagged[0] + beta * jnp.tanh(10 * lagged[0])


@register(
    "sprott_delay", source="Sprott (2007), Phys. Lett. A 366, 397-402", lags={"tau": 5.1},
    drivers={"x": "x@1"}, history=(0.1,), sigma=0.02, dt=0.02, sampling_step=0.1, transient=200.0,
)  # fmt: skip
def sprott_delay(t, x, lagged):
    """A rate that is a sine of the past state.

    x' = sin(x(t−τ)), with τ = 5.1.

    Dimensionless; the present state does not enter. Chaotic. The equation is invariant under
    x → x + 2π, so x moves from well to well, rarely and without bound.
    """
    return jnp.sin(lagged[0])


@register(
    "voss_delay", source="Voss (2002), Int. J. Bifurcation Chaos 12, 1619-1625",
    lags={"tau": 13.28}, drivers={"x": "x x@1"}, history=(-0.5,), sigma=0.01, dt=0.0083,
    transient=200.0,
)  # fmt: skip
def voss_delay(t, x, lagged, *, alpha=3.24):
    """An electronic circuit with cubic delayed feedback.

    x' = −α x − 10.44 z³ − 13.95 z² − 3.63 z + 0.85, z = x(t−τ), with α = 3.24, τ = 13.28.

    x in volts, time in units of the inverse rate. Chaotic.
    """
    late = lagged[0]
    return -alpha * x - 10.44 * late**3 - 13.95 * late**2 - 3.63 * late + 0.85


@register(
    "piecewise_circuit", source="Tamaševičius et al. (2006), Electron. Lett. 42, 736-737",
    lags={"tau": 4.9}, drivers={"x": "x@1"}, history=(0.1,), sigma=0.02, dt=0.02, transient=200.0,
)  # fmt: skip
def piecewise_circuit(t, x, lagged, *, alpha=1.0, beta=1.0, c=2.24):
    """An electronic circuit with two scrolls, its piecewise characteristic replaced by a cubic.

    x' = −α z + β (3 z/c − (z/c)³), z = x(t−τ), with α = β = 1, c = 2.24, τ = 4.9.

    Dimensionless; the present state does not enter. Chaotic.
    """
    scaled = lagged[0] / c
    return -alpha * lagged[0] + beta * (3 * scaled - scaled**3)


_UNITS = "units of Mackey & Glass (1977), Science 197, 287-289, coupled here by their production"


def _mackey_glass_network(t, x, lagged, *, beta, gamma, n, weights):
    arriving, own = lagged / (1 + lagged**n)
    share = 1 - jnp.sum(weights, axis=0)
    return beta * (share * own + arriving @ weights) - gamma * x


def _network(weights: Square, tau: RealScalarLike, delay: RealScalarLike) -> System:
    """Return Mackey-Glass units coupled by `weights`."""
    size = len(weights)
    # Equal units with a common driver would synchronise.
    beta = 0.2 * (1 + 0.1 * np.linspace(-1, 1, size))
    graph = np.zeros((size, size, 3), bool)
    graph[:, :, 0] = graph[:, :, 2] = np.eye(size, dtype=bool)
    graph[:, :, 1] = weights != 0
    return make(
        _mackey_glass_network,
        parameters={"beta": beta, "gamma": 0.1, "n": 10.0, "weights": weights}, lags=(delay, tau),
        graph=graph, history=0.6 + 0.6 * np.arange(size) / (size - 1), sigma=0.002, dt=0.1,
        transient=1000.0,
    )  # fmt: skip


def _check_network(size: int, coupling: RealScalarLike) -> None:
    if size < 2:
        raise ValueError(f"size must be at least 2; got {size}.")
    if not 0 < coupling < 1:
        raise ValueError(f"coupling must be between 0 and 1; got {coupling}.")


@register_factory("mackey_glass_ring", source=_UNITS)
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

    Units as in `mackey_glass`, but β increases from 0.18 in the first unit to 0.22 in the last,
    because equal units with equal drivers would synchronise. The parameter `weights`
    [source target] holds ε. `lags` are (d, τ), so d must be less than τ. Chaotic.
    """
    _check_network(size, coupling)
    return _network(coupling * np.roll(np.eye(size), 1, axis=1), tau, delay)


@register_factory("mackey_glass_star", source=_UNITS)
def mackey_glass_star(
    *,
    size: int = 5,
    coupling: RealScalarLike = 0.2,
    tau: RealScalarLike = 23.0,
    delay: RealScalarLike = 10.0,
) -> System:
    """A Mackey-Glass unit that drives all others, which drive only themselves.

    x₁' = β f(x₁(t−τ)) − γ x₁, xᵢ' = β ((1−ε) f(xᵢ(t−τ)) + ε f(x₁(t−d))) − γ xᵢ for i > 1,
    f(x) = x / (1 + xⁿ), with the parameters of `mackey_glass_ring`.

    The driven units share a driver but have no links, so links found between them are spurious.
    """
    _check_network(size, coupling)
    weights = np.zeros((size, size))
    weights[0, 1:] = coupling
    return _network(weights, tau, delay)


@register_factory("mackey_glass_network", source=_UNITS)
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
    from `seed`. The total input of a unit, `coupling`, is shared equally among its drivers.
    """
    _check_network(size, coupling)
    if not 0 <= probability <= 1:
        raise ValueError(f"probability must be in [0, 1]; got {probability}.")
    links = np.random.default_rng(seed).random((size, size)) < probability
    np.fill_diagonal(links, False)
    weights = coupling * links / np.maximum(links.sum(axis=0, keepdims=True), 1)
    return _network(weights, tau, delay)


@register(
    "lorenz63_delayed",
    source="units of Lorenz (1963), J. Atmos. Sci. 20, 130-141, coupled here with a delay",
    lags={"tau": 0.3},
    drivers={
        "x1": "x1 y1", "y1": "x1 y1 z1", "z1": "x1 y1 z1",
        "x2": "x2 y2 x1@1", "y2": "x2 y2 z2", "z2": "x2 y2 z2",
    },
    history=(1.0, 1.0, 20.0, -5.0, -5.0, 25.0), sigma=0.1, dt=0.001, transient=20.0,
)  # fmt: skip
def lorenz63_delayed(t, x, lagged, *, sigma=10.0, rho=(28.0, 35.0), beta=8 / 3, coupling=2.0):
    """Two Lorenz systems; the first drives the second after a delay.

    xᵢ' = σ (yᵢ − xᵢ), yᵢ' = xᵢ (ρᵢ − zᵢ) − yᵢ, zᵢ' = xᵢ yᵢ − β zᵢ, and x₂' has the additional term
    k (x₁(t−τ) − x₂); σ = 10, ρ = (28, 35), β = 8/3, k = 2 and τ = 0.3.

    Dimensionless convection; time in units of the heat diffusion time over 1 + a². ρ differs so
    that the two systems do not synchronise. Chaotic.
    """
    x1, y1, z1, x2, y2, z2 = x
    first = sigma * (y1 - x1), x1 * (rho[0] - z1) - y1, x1 * y1 - beta * z1
    driven = sigma * (y2 - x2) + coupling * (lagged[0, 0] - x2)
    return jnp.stack([*first, driven, x2 * (rho[1] - z2) - y2, x2 * y2 - beta * z2])


def _lorenz96(t, x, lagged, *, forcing, coupling):
    far = jnp.roll(lagged[0], -(x.shape[0] // 2))
    advection = (jnp.roll(x, -1) - jnp.roll(x, 2)) * jnp.roll(x, 1)
    return advection - x + forcing + coupling * (far - x)


@register_factory(
    "lorenz96_delayed",
    source="Lorenz (1996), ECMWF Seminar on Predictability 1, 1-18, coupled here with a delay",
)
def lorenz96_delayed(*, size: int = 6, tau: RealScalarLike = 0.5) -> System:
    """Lorenz's atmosphere on a circle of latitude, with a teleconnection to the opposite side.

    xᵢ' = (xᵢ₊₁ − xᵢ₋₂) xᵢ₋₁ − xᵢ + F + k (xᵢ₊ₕ(t−τ) − xᵢ), h = size // 2, with F = 8, k = 0.5,
    τ = 0.5.

    x is an atmospheric quantity at equidistant points. One time unit is about five days. Waves take
    τ to reach the far side. Chaotic. `size` is at least 5, so that the delayed neighbour is not one
    of the undelayed ones.
    """
    if size < 5:
        raise ValueError(f"size must be at least 5; got {size}.")
    graph = np.zeros((size, size, 2), bool)
    units = np.arange(size)
    for offset in (-2, -1, 0, 1):
        graph[(units + offset) % size, units, 0] = True
    graph[(units + size // 2) % size, units, 1] = True
    return make(
        _lorenz96, parameters={"forcing": 8.0, "coupling": 0.5}, lags=(tau,), graph=graph,
        history=8.0 + np.sin(1.0 + units), sigma=0.1, dt=0.002, transient=20.0,
    )  # fmt: skip
