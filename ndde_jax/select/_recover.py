"""The search for a graph, the variables that drive each rate, by a strategy and at a price."""

from jaxtyping import PRNGKeyArray

from .._checks import check_key, check_windows
from .._memory import make_room
from .._types import Checked, RealScalarLike
from ..fit._prices import AbstractPrice, as_price
from ..fit._refit import StrengthConfig
from ..windows._windows import Windows
from ._default import as_strategy
from ._moves import searches_by_moves
from ._strategies import Gates, Moves
from ._strategy import AbstractStrategy, Recovery


def recover(
    windows: Checked[Windows],
    strategy: Checked[AbstractStrategy | None] = None,
    price: Checked[AbstractPrice | RealScalarLike | None] = None,
    *,
    key: Checked[PRNGKeyArray],
) -> Recovery:
    """Find which variables drive which, at which lag.

    Pure: `jit`, and `vmap` over windows, keys and all numbers in strategy and price, agree with
    single calls. A graph is piecewise constant, so there is nothing to differentiate in it; `risk`
    and `scores` of [`Splines`][ndde_jax.select.Splines] have derivatives by the windows, on the
    graph that is found.

    **Arguments:**

    - `windows`: of one system, from [`lagged_windows`][ndde_jax.lagged_windows].
    - `strategy`: [`Gates`][ndde_jax.select.Gates], [`Splines`][ndde_jax.select.Splines],
        [`Moves`][ndde_jax.select.Moves], [`Exhaustive`][ndde_jax.select.Exhaustive] or
        [`CoefficientPath`][ndde_jax.select.CoefficientPath]. By default
        [`Default`][ndde_jax.select.Default]: closed forms, and networks where these explain more.
    - `price`: least worth of a kept edge: [`EBIC`][ndde_jax.select.EBIC], the default,
        [`PerInput`][ndde_jax.select.PerInput] or a number λ, which means the latter.
    - `key`: all randomness.

    **Returns:** [`Recovery`][ndde_jax.select.Recovery]; NaN, and a status that says so, for windows
    that [`fit`][ndde_jax.fit] would refuse.

    **Raises:** `ValueError` for a batch of systems (use `jax.vmap`), for a value that is no
    strategy or price, and for a price that a strategy cannot use.

    ```python
    import jax, numpy as np
    import ndde_jax as ndde

    t = np.arange(300) * 0.1
    windows = ndde.lagged_windows(np.stack([np.sin(t), np.cos(t)], 1), dt=0.1, scheme="central4")
    found = ndde.recover(windows, ndde.select.Splines(), key=jax.random.key(0))
    print(found.graph[:, :, 0], found.status)
    ```
    """
    check_windows(windows, "recover")
    key = check_key(key)
    strategy = as_strategy(strategy)
    price = None if price is None else as_price(price)
    make_room(windows, strategy, price, key)
    return strategy.search(windows, price, key)


def refitting_strategy(windows: Windows, refit: StrengthConfig | None = None) -> AbstractStrategy:
    """Return the best of the strategies that judge every edge by refitted networks, with these
    settings: gates where candidates are few, and moves from 25 candidate inputs (variables × lags)
    on and for midpoint windows, since the cost of gates grows with the square of their number.
    """
    refit = StrengthConfig() if refit is None else refit
    return Moves(refit=refit) if searches_by_moves(windows) else Gates(refit=refit)
