"""The order of factorisations in a compiled program.

Under `vmap` a factorisation becomes a batch whose parts wait for threads of XLA, of which there are
as many as cores. As many such batches side by side as there are threads wait for ever (jaxlib
0.10.1, `ParallelBatchMap`): 64 systems on two cores did, at the first call. XLA runs side by side
whatever does not need one another's results, so what is not to run yet is made to need one.
"""

import jax.numpy as jnp
from jaxtyping import Array, Inexact


def after(value: Inexact[Array, "..."], done: Inexact[Array, "*other"]) -> Inexact[Array, "..."]:
    """Return the value unchanged, but computed after `done`. A barrier of XLA would not do: on CPUs
    it is gone before programs are scheduled.
    """
    first = done.ravel()[0]
    return value + jnp.minimum(jnp.abs(first), 0).astype(value.dtype)
