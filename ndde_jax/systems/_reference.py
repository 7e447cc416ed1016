"""Systems with known answers, and the delay equations of the dysts collection."""

import jax.numpy as jnp

from .._types import RealScalarLike
from ._registry import register
from ._system import System, make


def _linear_one_lag(t, x, lagged, *, a, b):
    return a * x + b * lagged[0]


@register("linear_one_lag", source="Küchler & Mensch (1992), Stochastics 40, 23-42")
def linear_one_lag(*, tau: RealScalarLike = 1.0) -> System:
    """Langevin's equation with a delayed term.

    dX = (a X + b X(t−τ)) dt + σ dW, with a = −1, b = −0.5, σ = 0.5, τ = 1.

    Noise drives it; without noise it comes to rest. The stationary variance is 0.1151 and the
    covariance at the lag 0.0198, by the closed form of the reference. Dimensionless.
    """
    return make(
        _linear_one_lag,
        parameters={"a": -1.0, "b": -0.5},
        lags=(tau,),
        drivers={"x": "x x@1"},
        history=(1.0,),
        sigma=0.5,
        dt=0.01,
        sampling_step=0.1,
        transient=10.0,
    )


def _linear_several_lags(t, x, lagged, *, present, past):
    return present @ x + jnp.einsum("lij,lj->i", past, lagged)


@register("linear_several_lags", source="linear theory; stationary covariance by quadrature")
def linear_several_lags() -> System:
    """Two linear variables that drive each other at different lags.

    x' = −1.5 x + 0.3 y − 0.8 y(t−0.5), y' = −y + 0.6 x(t−1) − 0.2 y(t−1), both with noise
    σ = (0.5, 0.4).

    Noise drives it; without noise it comes to rest. The parameters `present` [target source] and
    `past` [lag target source] hold the coefficients, zeros included. Dimensionless.
    """
    return make(
        _linear_several_lags,
        parameters={
            "present": [[-1.5, 0.3], [0.0, -1.0]],
            "past": [[[0.0, -0.8], [0.0, 0.0]], [[0.0, 0.0], [0.6, -0.2]]],
        },
        lags=(0.5, 1.0),
        drivers={"x": "x y y@1", "y": "y x@2 y@2"},
        history=(1.0, -1.0),
        sigma=(0.5, 0.4),
        dt=0.01,
        sampling_step=0.1,
        transient=10.0,
    )


def _minus_delay(t, x, lagged):
    return -lagged[0]


@register(
    "minus_delay", source="Driver (1977), Ordinary and Delay Differential Equations, Springer"
)
def minus_delay(*, tau: RealScalarLike = 1.0) -> System:
    """The simplest delay equation.

    x' = −x(t−τ), with τ = 1 and x = 1 on t ≤ 0.

    Its solution is the polynomial Σₖ (−1)ᵏ (t − (k−1) τ)ᵏ / k!, over k from 0 while the bracket is
    positive, a test of any integrator. It decays to zero for τ < π/2, so long data need the noise.
    """
    return make(
        _minus_delay,
        parameters={},
        lags=(tau,),
        drivers={"x": "x@1"},
        history=(1.0,),
        sigma=0.1,
        dt=0.01,
        sampling_step=0.1,
        transient=20.0,
    )


def _two_lag_pair(t, x, lagged, *, gain, decay):
    present_x, present_y = x
    y_first = lagged[0, 1]
    x_second = lagged[1, 0]
    return jnp.stack(
        [
            -present_x + jnp.tanh(gain * y_first) - decay * x_second,
            -present_y - jnp.tanh(gain * x_second),
        ]
    )


@register("two_lag_pair", source="made for testing integrators with two lags")
def two_lag_pair() -> System:
    """Two saturating variables in a negative loop with two lags.

    x' = −x + tanh(g y(t−1)) − c x(t−1.7), y' = −y − tanh(g x(t−1.7)), with g = 1.5, c = 0.5.

    Dimensionless; periodic.
    """
    return make(
        _two_lag_pair,
        parameters={"gain": 1.5, "decay": 0.5},
        lags=(1.0, 1.7),
        drivers={"x": "x y@1 x@2", "y": "y x@2"},
        history=(0.5, -0.2),
        sigma=0.02,
        dt=0.01,
        sampling_step=0.1,
        transient=50.0,
    )


def _scroll(t, x, lagged, *, alpha, beta):
    return -alpha * lagged[0] + beta * jnp.tanh(10 * lagged[0])


@register("scroll_delay", source="dysts: Driver (1977), Ordinary and Delay Differential Equations")
def scroll_delay(*, tau: RealScalarLike = 10.0) -> System:
    """A delayed circuit with two scrolls.

    x' = −α x(t−τ) + β tanh(10 x(t−τ)), with α = β = 0.2, τ = 10.

    Dimensionless; the present state does not enter. Chaotic.
    """
    return make(
        _scroll,
        parameters={"alpha": 0.2, "beta": 0.2},
        lags=(tau,),
        drivers={"x": "x@1"},
        history=(0.1,),
        sigma=0.01,
        dt=0.05,
        sampling_step=0.5,
        transient=500.0,
    )


def _sprott(t, x, lagged):
    return jnp.sin(lagged[0])


@register("sprott_delay", source="Sprott (2007), Phys. Lett. A 366, 397-402")
def sprott_delay(*, tau: RealScalarLike = 5.1) -> System:
    """A sine of the past and nothing else.

    x' = sin(x(t−τ)), with τ = 5.1.

    Dimensionless; the present state does not enter. Chaotic. The equation does not change when x
    grows by 2π, so x wanders over the wells between them, rarely and without bound.
    """
    return make(
        _sprott,
        parameters={},
        lags=(tau,),
        drivers={"x": "x@1"},
        history=(0.1,),
        sigma=0.02,
        dt=0.02,
        sampling_step=0.1,
        transient=200.0,
    )


def _voss(t, x, lagged, *, alpha):
    late = lagged[0]
    return -alpha * x - 10.44 * late**3 - 13.95 * late**2 - 3.63 * late + 0.85


@register("voss_delay", source="Voss (2002), Int. J. Bifurcation Chaos 12, 1619-1625")
def voss_delay(*, tau: RealScalarLike = 13.28) -> System:
    """An electronic circuit with a cubic delayed feedback.

    x' = −α x − 10.44 z³ − 13.95 z² − 3.63 z + 0.85, z = x(t−τ), with α = 3.24, τ = 13.28.

    x in volts, time in units of the inverse rate. Chaotic.
    """
    return make(
        _voss,
        parameters={"alpha": 3.24},
        lags=(tau,),
        drivers={"x": "x x@1"},
        history=(-0.5,),
        sigma=0.01,
        dt=0.0083,
        sampling_step=0.083,
        transient=200.0,
    )


def _piecewise(t, x, lagged, *, alpha, beta, c):
    scaled = lagged[0] / c
    return -alpha * lagged[0] + beta * (3 * scaled - scaled**3)


@register("piecewise_circuit", source="Tamaševičius et al. (2006), Electron. Lett. 42, 736-737")
def piecewise_circuit(*, tau: RealScalarLike = 4.9) -> System:
    """An electronic circuit with two scrolls, its piecewise characteristic made a cubic.

    x' = −α z + β (3 z/c − (z/c)³), z = x(t−τ), with α = β = 1, c = 2.24, τ = 4.9.

    Dimensionless; the present state does not enter. Chaotic.
    """
    return make(
        _piecewise,
        parameters={"alpha": 1.0, "beta": 1.0, "c": 2.24},
        lags=(tau,),
        drivers={"x": "x@1"},
        history=(0.1,),
        sigma=0.02,
        dt=0.02,
        sampling_step=0.2,
        transient=200.0,
    )
