"""Full-batch training of one small network: Levenberg–Marquardt with evidence regularisation.

First-order training leaves a network of a hundred weights three to four orders of magnitude above
its attainable error on noise-free data, which exceeds many true signal strengths. On noisy data it
needs a stopping rule. Gauss–Newton steps reach the minimum in tens of iterations. They form the
curvature anyway, so the weight decay can be set by maximising the evidence, which also yields the
effective number of parameters that a fair in-sample comparison needs.

References: MacKay, *A practical Bayesian framework for backpropagation networks*, Neural
Computation 4 (1992); Foresee and Hagan, *Gauss–Newton approximation to Bayesian learning*, ICNN
(1997).
"""

from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int

from .._memory import after

# One network: layers without the leading axis of stacked networks.
Network = tuple[tuple[Float[Array, "_ _"], Float[Array, "_"]], ...]


class NetworkFit(eqx.Module):
    """A trained network with the diagnostics of its training.

    - `network`: weights and biases.
    - `risk`: weighted mean squared error on the training windows.
    - `n_effective`: effective number of parameters (MacKay's γ), computed with the damping of the
        last accepted step and so too low, by a third if training has not converged.
    - `decay`: weight decay relative to the sum of squared errors, for warm starts; one per array of
        weights or biases if trained with `decay_per_layer`.
    """

    network: Network
    risk: Float[Array, ""]
    n_effective: Float[Array, ""]
    decay: Float[Array, "*group"]

    def corrected_risk(self, n_windows: Any) -> Any:
        """Return the generalised cross-validation risk / (1 − γ/n)², an estimate of the risk on new
        data.
        """
        share = jnp.minimum(self.n_effective / n_windows, 0.9)
        return self.risk / (1 - share) ** 2


@partial(jax.jit, inline=True)
def predict(network: Network, inputs: Float[Array, "window input"]) -> Float[Array, "window"]:
    """Return the output of one network for every row."""
    hidden = inputs
    for weight, bias in network[:-1]:
        hidden = jnp.tanh(hidden @ weight.T + bias[None])
    weight, bias = network[-1]
    return hidden @ weight[0] + bias[0]


def predict_and_jacobian(
    network: Network, inputs: Float[Array, "window input"]
) -> tuple[Float[Array, "window"], Float[Array, "window parameter"]]:
    """Return outputs and their derivatives with respect to the parameters, in `ravel_pytree`
    order.
    """
    n = inputs.shape[0]
    hidden = [inputs]
    for weight, bias in network[:-1]:
        hidden.append(jnp.tanh(hidden[-1] @ weight.T + bias[None]))
    output = hidden[-1] @ network[-1][0][0] + network[-1][1][0]
    blocks = [jnp.ones((n, 1), inputs.dtype), hidden[-1]]
    back = (1 - hidden[-1] ** 2) * network[-1][0]
    for level in range(len(network) - 2, -1, -1):
        blocks.append(back)
        blocks.append((back[:, :, None] * hidden[level][:, None, :]).reshape(n, -1))
        if level > 0:
            back = (back @ network[level][0]) * (1 - hidden[level] ** 2)
    return output, jnp.concatenate(blocks[::-1], axis=1)


def fit_network(
    network: Network,
    inputs: Float[Array, "window input"],
    output: Float[Array, "window"],
    weight: Float[Array, "window"],
    *,
    n_iterations: Any,
    decay: Float[Array, "*group"] | float = 1e-2,
    decay_per_layer: bool = False,
) -> NetworkFit:
    """Train one network on all windows at once.

    Minimises Σ w r² + decay ‖θ‖², where the decay follows the evidence. There are exactly
    `n_iterations` steps, each accepted only if it lowers the objective. So the result is never
    worse than the start, and the function is a plain `lax.scan`: `vmap`, `grad` and `jit` apply.

    **Arguments:**

    - `network`: initial weights and biases.
    - `inputs`, `output`, `weight`: data; rows of weight 0 have no influence.
    - `n_iterations`: Levenberg–Marquardt steps; 40 from a random start, 10 to 15 from a neighbour.
        An array lets one compiled program serve several numbers, without derivatives.
    - `decay`: initial weight decay relative to the sum of squared errors.
    - `decay_per_layer`: use one decay for the weights and one for the biases of every layer, as
        MacKay advises, instead of one for all. A nearly linear function is then cheap: small
        weights in the first layer, large ones in the last. Needs more steps to converge.
    """
    import chex  # imported only when networks are trained

    # Annotations are checked in tests only, and a column in place of a vector would broadcast.
    chex.assert_rank([inputs, output, weight], [2, 1, 1])
    chex.assert_equal_shape_prefix([inputs, output, weight], 1)
    theta, restore = ravel_pytree(network)
    dtype = theta.dtype
    weight = weight.astype(dtype)
    n = jnp.maximum(jnp.sum(weight), 1.0)
    n_parameters = theta.shape[0]
    identity = jnp.eye(n_parameters, dtype=dtype)
    leaves = jax.tree.leaves(network)
    if decay_per_layer:
        sizes = jnp.asarray([leaf.size for leaf in leaves])
        group = jnp.repeat(jnp.arange(len(leaves)), sizes, total_repeat_length=n_parameters)
    else:
        group = jnp.zeros((n_parameters,), int)
    n_groups = len(leaves) if decay_per_layer else 1

    def per_group(values):
        return jax.ops.segment_sum(values, group, n_groups)

    group_size = per_group(jnp.ones((n_parameters,), dtype))

    # In float32 the normal equations resolve curvatures down to 1e-7 of the largest, about n.
    floor = 1e-7 * n

    def squared_error(theta):
        return jnp.sum(weight * (predict(restore(theta), inputs) - output) ** 2)

    def normal_equations(theta):
        prediction, jacobian = predict_and_jacobian(restore(theta), inputs)
        weighted = jacobian * weight[:, None]
        return weighted.T @ jacobian, weighted.T @ (prediction - output)

    def advance(state, curvature, slope):
        """Return the state after one step, and whether the step was accepted."""
        theta, error, damping, decay, n_effective = state
        gradient = slope + decay[group] * theta
        factor = jnp.linalg.cholesky(curvature + jnp.diag(decay[group] + damping))
        proposal = theta - jax.scipy.linalg.cho_solve((factor, True), gradient)
        proposed_error = squared_error(proposal)
        norm, proposed_norm = per_group(theta**2), per_group(proposal**2)
        cost = error + jnp.sum(decay * norm)
        # By more than rounding: steps that gain by chance would move the decay under large damping.
        tolerance = 4 * jnp.finfo(dtype).eps
        accept = proposed_error + jnp.sum(decay * proposed_norm) < cost * (1 - tolerance)

        inverse = jax.scipy.linalg.solve_triangular(factor, after(identity, proposal), lower=True)
        variance = per_group(jnp.sum(inverse**2, axis=0))
        # At least one parameter in total is resolved, for any number of groups.
        least = 1.0 / n_groups
        resolved = group_size - (decay + damping) * variance
        resolved = jnp.where(jnp.isfinite(resolved), jnp.clip(resolved, least, group_size), least)
        total = jnp.sum(resolved)
        evidence = (resolved / norm) * error / jnp.maximum(n - total, 1.0)
        evidence = jnp.clip(evidence, floor, n)
        # The evidence update assumes a minimum, so it is damped and tied to accepted steps.
        moved = jnp.exp(0.7 * jnp.log(decay) + 0.3 * jnp.log(evidence))
        return (
            jnp.where(accept, proposal, theta),
            jnp.where(accept, proposed_error, error),
            jnp.where(accept, jnp.maximum(damping * 0.3, floor), jnp.minimum(damping * 4, 1e6)),
            jnp.where(accept, moved, decay),
            jnp.where(accept, total, n_effective),
        ), accept

    def step(state, _):
        return advance(state, *normal_equations(state[0]))[0], None

    def frugal_step(_, carry):
        state, known, moved = carry
        # Half of the steps are rejected, after which the normal equations are unchanged.
        known = jax.lax.cond(moved, normal_equations, lambda _: known, state[0])
        state, moved = advance(state, *known)
        return state, known, moved

    start = (
        theta,
        squared_error(theta),
        jnp.ones((), dtype),
        jnp.broadcast_to(jnp.clip(jnp.asarray(decay, dtype) * n / 1000, floor, n), (n_groups,)),
        jnp.ones((), dtype),
    )
    # Under differentiation, recomputing a step is cheaper than storing its curvature.
    if isinstance(n_iterations, jax.Array):
        unknown = jnp.zeros((n_parameters, n_parameters), dtype), jnp.zeros_like(theta)
        carry = (start, unknown, jnp.asarray(True))
        end, *_ = jax.lax.fori_loop(0, n_iterations, frugal_step, carry)
    else:
        end, _ = jax.lax.scan(jax.checkpoint(step), start, None, length=n_iterations)
    theta, error, _, decay, n_effective = end
    decay = decay if decay_per_layer else decay[0]
    return NetworkFit(restore(theta), error / n, n_effective, decay * 1000 / n)


def select_inputs(
    mask: Float[Array, "input"], width: int
) -> tuple[Int[Array, "slot"], Float[Array, "slot"]]:
    """Return the indices of the open inputs in `width` slots, and which slots are in use.

    Fitting the open columns only, instead of multiplying closed ones by zero, makes the cost of a
    fit depend on its in-degree.
    """
    order = jnp.argsort(mask <= 0, stable=True)[:width]
    return order, (mask[order] > 0).astype(mask.dtype)
