"""Random sparse networks in which every link has its own delay."""

import jax.numpy as jnp
import numpy as np

from ndde_jax import systems


def random_network(
    size: int, *, delays: tuple[float, ...], seed: int | tuple[int, ...], most_drivers: int = 3
) -> systems.System:
    """Units that relax to the sum of their delayed inputs.

    xⱼ' = −xⱼ + Σₖ Σᵢ Wₖᵢⱼ sin(xᵢ(t − τₖ)): a linear decay, and for every unit one delayed
    feedback of its own (an [Ikeda](https://doi.org/10.1016/0167-2789(87)90058-3) oscillator) and up
    to `most_drivers` − 1 links from others, each at one of the `delays`. Weights are ±[2, 3] for
    the feedback and ±[0.8, 1.5] for links, all drawn by NumPy's generator from `seed`. Every delay
    is used if there are enough terms.

    Because of the sine, networks are chaotic for most seeds and bounded for all, and linear methods
    see a driver only in part.

    **Arguments:**

    - `size`: number of units.
    - `delays`: τₖ, ascending, in units of the relaxation time.
    - `seed`: seed of structure and weights.
    - `most_drivers`: largest number of delayed terms of a unit.
    """
    rng = np.random.default_rng(seed)
    weights = np.zeros((len(delays), size, size))  # [delay source target]
    terms = []
    for target in range(size):
        others = np.delete(np.arange(size), target)
        n_links = min(int(rng.integers(1, most_drivers)), len(others))
        terms.append((target, target, rng.uniform(2, 3)))
        for source in rng.choice(others, n_links, replace=False):
            terms.append((int(source), target, rng.uniform(0.8, 1.5)))
    # Delays are used in turn, in random order, so each occurs about equally often.
    turn = rng.permutation(np.arange(len(terms)) % len(delays))
    for (source, target, weight), k in zip(terms, turn, strict=True):
        weights[k, source, target] = weight * rng.choice((-1, 1))
    graph = np.concatenate(
        [np.eye(size, dtype=bool)[..., None], np.moveaxis(weights != 0, 0, 2)], 2
    )
    return systems.System(
        drift=systems.Drift(_field, {"weights": jnp.asarray(weights)}),
        lags=jnp.asarray(delays, float),
        sigma=jnp.asarray(0.1),
        history=jnp.asarray(rng.normal(size=size)),
        graph=jnp.asarray(graph),
        variables=tuple(f"x{i + 1}" for i in range(size)),
        dt=0.02,
        sampling_step=0.1,
        transient=50.0,
        name=f"network_{size}_{len(delays)}_{'_'.join(map(str, np.atleast_1d(seed)))}",
        source="made for this benchmark",
        description=random_network.__doc__,
    )


def _field(t, x, lagged, *, weights):
    return -x + jnp.einsum("ki,kij->j", jnp.sin(lagged), weights)
