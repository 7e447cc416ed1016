"""Delay equations inside `diffrax.diffeqsolve`, for SaveAt, events and adaptive steps."""

from collections.abc import Callable
from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._checks import check_real_array, check_whole, is_traced, refusal
from .._types import Checked


class DelayTerm(diffrax.AbstractTerm):
    """The drift of a delay equation as a term for `diffrax.diffeqsolve`.

    Goes with [`DelaySolver`][ndde_jax.simulate.DelaySolver], alone or in a `MultiTerm` with a
    `ControlTerm` for the noise.

    **Arguments:**

    - `drift`: `drift(t, x, lagged, args)` with `lagged` `[delay *state]`.
    - `lags`: delays in units of time.
    - `history`: a function of time, the state before `t0`.
    """

    drift: Callable
    lags: Float[Array, "delay"]
    history: Callable
    reader: Callable | None

    def __init__(
        self, drift: Checked[Callable], lags: Any, history: Checked[Callable], *, reader=None
    ):
        if not callable(drift):
            raise refusal("drift", "a function drift(t, x, lagged, args)", drift)
        if not callable(history):
            raise refusal("history", "a function of time", history)
        check_real_array(lags, "lags", "delays in units of time", finite=True)
        if np.ndim(lags) > 1:
            raise ValueError(f"lags must be a number or one per delay; got shape {np.shape(lags)}.")
        if not is_traced(lags) and not (np.size(lags) and np.all(np.asarray(lags) > 0)):
            raise ValueError(f"lags must be positive and at least one; got {lags}.")
        self.drift = drift
        self.lags = jnp.atleast_1d(jnp.asarray(lags, jnp.result_type(float)))
        self.history = history
        self.reader = reader

    def vf(self, t, y, args):
        """The drift; without a solver that knows the past, all lags read the present, which is
        enough for Diffrax to learn shapes from.
        """
        if self.reader is None:
            lagged = jnp.broadcast_to(y, (self.lags.shape[0], *y.shape))
        else:
            read = lambda lag: self.reader(self.history, t - lag)  # noqa: E731
            lagged = jax.vmap(read)(self.lags)
        return self.drift(t, y, lagged, args)

    def contr(self, t0, t1, **kwargs):
        """Time passed."""
        return t1 - t0

    def prod(self, vf, control):
        """Drift times time."""
        return control * vf


class _Past(eqx.Module):
    """The latest accepted steps, in a ring."""

    start: Float[Array, "step"]
    end: Float[Array, "step"]
    record: Any
    count: Array
    begin: Array


class DelaySolver(diffrax.AbstractWrappedSolver, diffrax.AbstractAdaptiveSolver):
    """Makes a Diffrax solver remember its steps, so that a
    [`DelayTerm`][ndde_jax.simulate.DelayTerm] can read the past by the solver's own dense output.

    Use [`solve_sdde`][ndde_jax.solve_sdde] for constant steps, gradients and speed; use this with
    `diffeqsolve` for what only that offers: any `SaveAt`, events, adaptive steps, progress meters.
    A gradient through `diffeqsolve` keeps copies of the whole memory and costs hundreds of times
    more than one through `solve_sdde`.

    A step longer than the shortest lag would need its own end. An adaptive controller is told to
    shrink it (`dtmax=` the shortest lag spares the rejections); with constant steps the result is
    NaN rather than wrong, as it is when the memory is too short. Step size control sees the error
    of the solver's own polynomial only: kinks that travel from the history, at sums of lags, belong
    in `ClipStepSizeController(step_ts=...)` if they matter.

    **Arguments:**

    - `solver`: any explicit solver of Diffrax.
    - `capacity`: steps to remember, at least those that fit into the longest lag and two more.

    ```python
    import diffrax, jax.numpy as jnp
    import ndde_jax as ndde

    start = jnp.ones(1)
    term = ndde.simulate.DelayTerm(lambda t, x, lagged, args: -lagged[0], 1.0, lambda t: start)
    solution = diffrax.diffeqsolve(
        term, ndde.simulate.DelaySolver(diffrax.Tsit5(), capacity=20), 0.0, 5.0, 0.1, start,
        saveat=diffrax.SaveAt(ts=jnp.linspace(0.0, 5.0, 11)),
    )
    print(solution.ys[:, 0])
    ```
    """

    solver: Checked[diffrax.AbstractSolver]
    capacity: Checked[int] = eqx.field(static=True, default=1024)

    def __check_init__(self):
        if not isinstance(self.solver, diffrax.AbstractSolver):
            raise refusal("solver", "an explicit solver of Diffrax", self.solver)
        check_whole(self.capacity, "capacity", least=2)

    @property
    def term_structure(self):
        return self.solver.term_structure

    @property
    def interpolation_cls(self):
        return self.solver.interpolation_cls

    @property
    def scan_kind(self):
        """How stages are looped over, which `diffrax.ForwardMode` decides."""
        return getattr(self.solver, "scan_kind", None)

    @property
    def term_compatible_contr_kwargs(self):
        return self.solver.term_compatible_contr_kwargs

    def order(self, terms):
        """That of the solver."""
        return self.solver.order(terms)

    def strong_order(self, terms):
        """That of the solver."""
        return self.solver.strong_order(terms)

    def error_order(self, terms):
        """That of the solver."""
        return self.solver.error_order(terms)

    def init(self, terms, t0, t1, y0, args):
        """State of the solver, and an empty memory."""
        bound = _bind(terms, lambda history, t: history(t))
        inner = self.solver.init(bound, t0, t1, y0, args)
        shapes = eqx.filter_eval_shape(
            lambda: self.solver.step(bound, t0, t1, y0, args, inner, jnp.asarray(False))[2]
        )
        record = jax.tree.map(lambda s: jnp.zeros((self.capacity, *s.shape), s.dtype), shapes)
        time = jnp.full((self.capacity,), jnp.inf, jnp.result_type(t0, float))
        return inner, _Past(time, time, record, jnp.asarray(0), jnp.asarray(t0, time.dtype))

    def step(self, terms, t0, t1, y0, args, solver_state, made_jump):
        """A step of the solver, then remembered."""
        inner, past = solver_state

        def read(history, t):
            k = jnp.argmax(jnp.where(past.start <= t, past.start, -jnp.inf))
            record = jax.tree.map(lambda rows: rows[k], past.record)
            known = past.start[k] <= t
            # Safe numbers where there is nothing to read, because both branches are differentiated.
            start = jnp.where(known, past.start[k], 0)
            end = jnp.where(known, past.end[k], 1)
            value = self.solver.interpolation_cls(t0=start, t1=end, **record).evaluate(t)
            value = jnp.where(known, value, jnp.nan)
            return jnp.where(t <= past.begin, history(jnp.minimum(t, past.begin)), value)

        y1, error, record, inner, result = self.solver.step(
            _bind(terms, read), t0, t1, y0, args, inner, made_jump
        )
        shortest = jnp.min(jnp.concatenate([term.lags for term in _delay_terms(terms)]))
        too_long = t1 - t0 > shortest * (1 + 1e-5)
        y1 = jnp.where(too_long, jnp.nan, y1)
        if error is not None:
            error = jnp.where(too_long, jnp.inf, error)
        slot = past.count % self.capacity
        past = _Past(
            past.start.at[slot].set(t0),
            past.end.at[slot].set(t1),
            jax.tree.map(lambda rows, new: rows.at[slot].set(new), past.record, record),
            past.count + 1,
            past.begin,
        )
        return y1, error, record, (inner, past), result

    def func(self, terms, t0, y0, args):
        """Vector field at the start, for the choice of the first step."""
        return self.solver.func(_bind(terms, lambda history, t: history(t)), t0, y0, args)


def _is_delay_term(term) -> bool:
    return isinstance(term, DelayTerm)


def _delay_terms(terms) -> list[DelayTerm]:
    found = [t for t in jax.tree.leaves(terms, is_leaf=_is_delay_term) if _is_delay_term(t)]
    if not found:
        raise ValueError("DelaySolver needs a DelayTerm among its terms.")
    return found


def _bind(terms, reader: Callable):
    """The same terms with every delay term reading the past by `reader`."""

    def bind(term):
        if not _is_delay_term(term):
            return term
        return DelayTerm(term.drift, term.lags, term.history, reader=reader)

    return jax.tree.map(bind, terms, is_leaf=_is_delay_term)
