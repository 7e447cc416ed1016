"""Hard-concrete gates (Louizos, Welling and Kingma, ICLR 2018) as pure functions.

A gate is a random number in [0, 1] that is exactly 0 or exactly 1 with positive probability and
still has a gradient with respect to its location `log_alpha`:

    s = sigmoid((logit(u) + log_alpha) / temperature),  u uniform on (0, 1)
    z = clip(s (high - low) + low, 0, 1).

All functions act elementwise on `log_alpha` and work under `jit`, `vmap` and `grad`.
"""

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from .._checks import check_choice, check_key, check_kind, check_real_array
from .._types import Checked, Settings, floating_type, number

RULES = ("open_probability", "median", "deterministic_gate")


class HardConcrete(Settings):
    """The shape of the gate distribution; the defaults are those of Louizos et al. and of the
    paper.

    - `temperature`: β, 0.33. Smaller is closer to a coin toss, with a nonzero gradient less often.
    - `low`, `high`: ends of the stretched interval, −0.1 and 1.1.
    """

    temperature: Float[Array, ""] = number("temperature", 0.33, above=0)
    low: Float[Array, ""] = number("low", -0.1, below=0)
    high: Float[Array, ""] = number("high", 1.1, above=1)


def check_gate(gate: Any, log_alpha: Any = 0.0, name: str = "gate") -> HardConcrete:
    """Return the shape of a gate, the default for None; raise unless locations are numbers."""
    check_kind(gate, HardConcrete | None, name, "a HardConcrete or None")
    check_real_array(log_alpha, "log_alpha", "one location per gate")
    return HardConcrete() if gate is None else gate


def _located(gate: Any, log_alpha: Any) -> tuple[HardConcrete, Array]:
    """Return the shape of gates and their locations, in the precision of the locations."""
    gate = check_gate(gate, log_alpha)
    log_alpha = jnp.asarray(log_alpha, floating_type(log_alpha))
    return jax.tree.map(lambda a: a.astype(log_alpha.dtype), gate), log_alpha


def logistic_noise(key: Checked[PRNGKeyArray], shape: tuple[int, ...], dtype=None) -> Array:
    """Draw logit(u) for u uniform on (0, 1): the only randomness a gate needs."""
    # jr.logistic(0, 1) is unbounded; float32 uniforms are multiples of 2^-23, so a floor keeps the
    # logarithm finite without a visible change of the distribution.
    return _logits(check_key(key), tuple(shape), float if dtype is None else dtype)


@partial(jax.jit, static_argnums=(1, 2), inline=True)
def _logits(key: PRNGKeyArray, shape: tuple[int, ...], dtype: Any) -> Array:
    # Equals draws of the full shape, which in four dimensions take eight times as long to compile.
    u = jr.uniform(key, (math.prod(shape),), dtype=dtype, minval=1e-6, maxval=1 - 1e-6)
    return (jnp.log(u) - jnp.log1p(-u)).reshape(shape)


@partial(jax.jit, inline=True)
def _opened(noise: Any, log_alpha: Any, gate: HardConcrete) -> Array:
    s = jax.nn.sigmoid((noise + log_alpha) / gate.temperature)
    return jnp.clip(s * (gate.high - gate.low) + gate.low, 0.0, 1.0)


def sample_gate(
    log_alpha: Checked[Float[Array, "*#shape"]],
    *,
    key: Checked[PRNGKeyArray | None] = None,
    noise: Checked[Float[Array, "*#shape"] | None] = None,
    gate: Checked[HardConcrete | None] = None,
) -> Float[Array, "..."]:
    """Return one independent draw of every gate, as in training.

    **Arguments:**

    - `log_alpha`: locations of the gates.
    - `key`: random key of the draws; or
    - `noise`: [`logistic_noise`][ndde_jax.gates.logistic_noise] drawn beforehand, of a shape that
        broadcasts against the locations. Training draws the noise of many steps at once.
    - `gate`: shape of the distribution, [`HardConcrete`][ndde_jax.gates.HardConcrete].

    **Raises:** `ValueError` unless exactly one of `key` and `noise` is given, and for noise of
    another shape.

    ```python
    import jax, jax.numpy as jnp
    from ndde_jax import gates

    z = gates.sample_gate(jnp.array([-3.0, 0.0, 3.0]), key=jax.random.key(0))
    ```
    """
    gate, log_alpha = _located(gate, log_alpha)
    if (key is None) == (noise is None):
        raise ValueError("give either key, or noise from logistic_noise.")
    if noise is None:
        noise = logistic_noise(key, log_alpha.shape, log_alpha.dtype)
    check_real_array(noise, "noise", "one draw per gate")
    try:
        jnp.broadcast_shapes(jnp.shape(noise), log_alpha.shape)
    except ValueError:
        raise ValueError(
            f"noise must broadcast against log_alpha of shape {log_alpha.shape}; got "
            f"{jnp.shape(noise)}."
        ) from None
    return _opened(noise, log_alpha, gate)


def open_probability(
    log_alpha: Checked[Float[Array, "*shape"]], gate: Checked[HardConcrete | None] = None
) -> Float[Array, "*shape"]:
    """Return P(z ≠ 0) = sigmoid(log_alpha − β log(−low / high)), the differentiable surrogate of
    L0.
    """
    gate, log_alpha = _located(gate, log_alpha)
    return jax.nn.sigmoid(log_alpha - gate.temperature * jnp.log(-gate.low / gate.high))


def expected_l0(
    log_alpha: Checked[Float[Array, "*shape"]],
    gate: Checked[HardConcrete | None] = None,
    *,
    axis: Checked[int | None] = None,
) -> Array:
    """Return the expected number of open gates, the sum of their open probabilities, of all gates
    or along an axis. [`L0NDDE`][ndde_jax.L0NDDE] penalises this number in each network.
    """
    return jnp.sum(open_probability(log_alpha, gate), axis=axis)


def deterministic_gate(
    log_alpha: Checked[Float[Array, "*shape"]], gate: Checked[HardConcrete | None] = None
) -> Float[Array, "*shape"]:
    """Return the test-time gate clip(sigmoid(log_alpha)(high − low) + low, 0, 1); it has no
    temperature.
    """
    gate, log_alpha = _located(gate, log_alpha)
    return jnp.clip(jax.nn.sigmoid(log_alpha) * (gate.high - gate.low) + gate.low, 0.0, 1.0)


def hard_mask(
    log_alpha: Checked[Float[Array, "*shape"]],
    rule: Checked[str] = "open_probability",
    gate: Checked[HardConcrete | None] = None,
) -> Bool[Array, "*shape"]:
    """Return which gates count as open. The three rules in use disagree between log_alpha −2.4 and
    0:

    - `"open_probability"` (default): P(z ≠ 0) > 1/2, i.e. log_alpha > −0.79;
    - `"median"` (the paper's, whose mask is the sigmoid of the logits): sigmoid(log_alpha) > 1/2,
        i.e. log_alpha > 0;
    - `"deterministic_gate"`: the test-time gate is positive, i.e. log_alpha > −2.40.

    **Raises:** `ValueError` for an unknown rule.
    """
    check_choice(rule, "rule", RULES)
    gate, log_alpha = _located(gate, log_alpha)
    if rule == "open_probability":
        return open_probability(log_alpha, gate) > 0.5
    if rule == "median":
        return log_alpha > 0
    return deterministic_gate(log_alpha, gate) > 0
