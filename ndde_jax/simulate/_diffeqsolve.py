"""Delay equations inside `diffrax.diffeqsolve`, for SaveAt, events and adaptive steps."""

from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._checks import argument_error, check_kind, check_real_array, check_whole, is_traced
from .._types import Checked
from ..models._model import AbstractDelayModel
from ._problem import ConstantHistory, LearnedDrift
from ._read import check_signature, is_system, read_system

# Passes over a step that reads itself; each adds an order to the extrapolation.
PASSES = 6
# Share of a step: a reading this far after its end counts as rounding of a vanishing delay.
REACH = 0.1
# Share of the way to a step's middle by which readings move to decide their side of a jump.
INSIDE = 1e-3


class DelayTerm(diffrax.AbstractTerm):
    """The drift of a delay equation as a term for `diffrax.diffeqsolve`.

    Use it with [`DelaySolver`][ndde_jax.simulate.DelaySolver], alone or in a `MultiTerm` with a
    `ControlTerm` for the noise. Without delays, use `diffrax.ODETerm(model.vector_field)` instead,
    for a learned model or a [`System`][ndde_jax.systems.System].

    **Arguments:**

    - `drift`: `drift(t, x, lagged, args)` with `lagged` `[delay *state]`; or a learned model, which
        supplies its delays; or a `System`, which supplies its delays and its history.
    - `delays`: in units of time; or, if they depend on time or state, a function
        `delays(t, x, args)` that returns them, `[delay]`; these may be zero. `lags` is an alias.
    - `history`: the state before `t0`, a function of time or a constant (an array or a tree).

    **Raises:** `ValueError` for other types, and for a drift that needs delayed derivatives
    (neutral equations), which are not supported.

    The state may be a pytree of arrays. `lagged` is then a pytree of the same structure.
    """

    drift: Callable
    delays: Float[Array, "delay"] | Callable
    history: Callable
    reader: Callable | None

    def __init__(
        self,
        drift: Checked[Callable],
        delays: Any = None,
        history: Any = None,
        *,
        lags: Any = None,
        reader: Any = None,
    ):
        model = drift if isinstance(drift, AbstractDelayModel) else None
        if model is not None and (delays is not None or lags is not None):
            raise ValueError("a learned model has its own delays; omit them.")
        name = "delays" if lags is None else "lags"
        if history is None and not is_system(drift):
            raise ValueError(
                "history is missing; give a function of time, the state before the start."
            )
        given = read_system(drift, delays, lags, None, history, None, noisy=False)
        drift, delays, history = given.drift, given.delays, given.history
        if model is not None:
            drift, delays = LearnedDrift(model), model.delays[np.asarray(model.lags) > 0]
        if not callable(drift):
            raise argument_error("drift", "a function drift(t, x, lagged, args)", drift)
        if model is None:
            check_signature(drift)
        if not callable(history):
            history = _constant(history)
        self.drift, self.history, self.reader = drift, history, reader
        if callable(delays):
            self.delays = delays
            return
        check_real_array(delays, name, "delays in units of time", finite=True)
        if np.ndim(delays) > 1:
            raise ValueError(
                f"{name} must be a number or one per delay; got shape {np.shape(delays)}."
            )
        if not is_traced(delays) and not (np.size(delays) and np.all(np.asarray(delays) > 0)):
            raise ValueError(
                f"{name} must hold at least one delay, all of them positive; got {delays}. "
                "Without delays use diffrax.ODETerm, with model.vector_field for a model."
            )
        self.delays = jnp.atleast_1d(jnp.asarray(delays, jnp.result_type(float)))

    @property
    def lags(self) -> Float[Array, "delay"] | Callable:
        """The delays."""
        return self.delays

    def vf(self, t, y, args):
        """Return the drift.

        Without a solver that knows the past, all lags read the present, which suffices for Diffrax
        to infer shapes.
        """
        delays: Any = self.delays
        if callable(delays):
            delays = jnp.atleast_1d(delays(t, y, args))
        if self.reader is None:
            n = delays.shape[0]
            lagged = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (n, *leaf.shape)), y)
        else:
            lagged = jax.vmap(lambda delay: self.reader(self.history, t, delay))(delays)
        return self.drift(t, y, lagged, args)

    def contr(self, t0, t1, **kwargs):
        """Return the elapsed time."""
        return t1 - t0

    def prod(self, vf, control):
        """Return the drift times the elapsed time."""
        return jax.tree.map(lambda leaf: control * leaf, vf)


def _constant(state: Any) -> ConstantHistory:
    """Return a constant state, an array or a tree of arrays, as a function of time."""
    # A list of numbers is an array.
    if not isinstance(state, dict) and all(np.ndim(leaf) == 0 for leaf in jax.tree.leaves(state)):
        if not np.ndim(state):
            raise argument_error("history", "a function of time, or a state [dim]", state)
        state = np.asarray(state)
    for leaf in jax.tree.leaves(state):
        check_real_array(leaf, "history", "a function of time, or a state", finite=True)
    return ConstantHistory(jax.tree.map(lambda x: jnp.asarray(x, jnp.result_type(float)), state))


class _Past(eqx.Module):
    """The latest accepted steps, in a ring buffer."""

    start: Float[Array, "step"]
    end: Float[Array, "step"]
    record: Any
    count: Array
    begin: Array


class DelaySolver(diffrax.AbstractWrappedSolver, diffrax.AbstractAdaptiveSolver):
    """A Diffrax solver that stores its steps for [`DelayTerm`][ndde_jax.simulate.DelayTerm].

    The term reads the past from the solver's own dense output. Use
    [`solve_sdde`][ndde_jax.solve_sdde] for constant steps, gradients and speed. Use this class with
    `diffeqsolve` for its other features: any `SaveAt`, events, adaptive steps, progress meters. A
    gradient through `diffeqsolve` keeps copies of the whole memory and costs hundreds of times more
    than one through `solve_sdde`.

    A step longer than the shortest delay would need the state at its own end. An adaptive
    controller rejects and shrinks it (set `dtmax=` to the shortest delay to avoid the rejections).
    With constant steps the result is NaN rather than wrong. The same holds if the memory is too
    short. Step size control sees only the error of the solver's own polynomial, so pass the times
    of [`kinks`][ndde_jax.simulate.kinks], at sums of delays, to
    `ClipStepSizeController(jump_ts=...)`. Gradients with respect to delays need them, too: they
    are of first order where a kink lies within a step.

    Delays that are a function of time and state may be shorter than a step. Such a step is
    repeated in six passes, the first with an extrapolation; explicit solvers only. If delays reach
    into the future, the result is NaN.

    A `y0` that differs from the history at `t0` is a jump there.

    **Arguments:**

    - `solver`: any explicit solver of Diffrax, or an implicit one, such as `Kvaerno5`, for stiff
        equations. Its root finder uses the tolerances of the controller and does not converge if
        these are below rounding. In that case, set tolerances of its own:
        `Kvaerno5(root_finder=diffrax.VeryChord(rtol=1e-6, atol=1e-9))`.
    - `capacity`: number of steps to store: at least two more than fit into the longest delay.

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
        check_kind(self.solver, diffrax.AbstractSolver, "solver", "a solver of Diffrax")
        check_whole(self.capacity, "capacity", least=2)

    term_structure = property(attrgetter("solver.term_structure"))
    interpolation_cls = property(attrgetter("solver.interpolation_cls"))
    term_compatible_contr_kwargs = property(attrgetter("solver.term_compatible_contr_kwargs"))
    # For implicit solvers; Diffrax sets the tolerances.
    root_finder = property(attrgetter("solver.root_finder"))
    root_find_max_steps = property(attrgetter("solver.root_find_max_steps"))

    @property
    def scan_kind(self):
        """The kind of loop over stages, which `diffrax.ForwardMode` sets."""
        return getattr(self.solver, "scan_kind", None)

    def order(self, terms):
        """Return the order of the solver."""
        return self.solver.order(terms)

    def strong_order(self, terms):
        """Return the strong order of the solver."""
        return self.solver.strong_order(terms)

    def error_order(self, terms):
        """Return the order of the solver's error estimate."""
        return self.solver.error_order(terms)

    def init(self, terms, t0, t1, y0, args):
        """Return the initial state of the solver, with an empty memory."""
        bound = _bind(terms, _at_start)
        inner = self.solver.init(bound, t0, t1, y0, args)
        shapes = eqx.filter_eval_shape(
            lambda: self.solver.step(bound, t0, t1, y0, args, inner, jnp.asarray(False))[2]
        )
        record = jax.tree.map(lambda s: jnp.zeros((self.capacity, *s.shape), s.dtype), shapes)
        time = jnp.full((self.capacity,), jnp.inf, jnp.result_type(t0, float))
        return inner, _Past(time, time, record, jnp.asarray(0), jnp.asarray(t0, time.dtype))

    def step(self, terms, t0, t1, y0, args, solver_state, made_jump):
        """Take a step of the solver and store it."""
        inner, past = solver_state

        middle = (t0 + t1) / 2
        terms_delayed = _delay_terms(terms)
        varying = [term for term in terms_delayed if callable(term.delays)]

        def read(history, t, delay, current=None):
            # A reading inside the step lies on the same side of a jump as the step's middle.
            side = t + INSIDE * (middle - t) - delay
            t = t - delay
            k = jnp.argmax(jnp.where(past.start <= side, past.start, -jnp.inf))
            known = past.start[k] <= side
            value = self._between(past, k, known).evaluate(t)
            if current is not None:
                within = current(t)
                value = jax.tree.map(lambda a, b: jnp.where(side > t0, a, b), within, value)
                known = known | (side > t0)
            before = history(jnp.minimum(t, past.begin))

            def chosen(value, before):
                return jnp.where(side <= past.begin, before, jnp.where(known, value, jnp.nan))

            return jax.tree.map(chosen, value, before)

        def step(current=None):
            reader = read if current is None else partial(read, current=current)
            return self.solver.step(_bind(terms, reader), t0, t1, y0, args, inner, made_jump)

        found = self._repeated(step, past, t0, t1, y0) if varying else step()
        y1, error, record, inner, result = found
        too_long = jnp.asarray(False)
        for term in terms_delayed:
            if not callable(term.delays):
                too_long = too_long | (t1 - t0 > jnp.min(term.delays) * (1 + 1e-5))
        if varying:
            # NaN comes from readings beyond the memory or in the future.
            finite = [jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(y1)]
            too_long = too_long | ~jnp.all(jnp.stack(finite))
        y1 = jax.tree.map(lambda leaf: jnp.where(too_long, jnp.nan, leaf), y1)
        if error is not None:
            error = jax.tree.map(lambda leaf: jnp.where(too_long, jnp.inf, leaf), error)
        slot = past.count % self.capacity
        start, end = past.start.at[slot].set(t0), past.end.at[slot].set(t1)
        records = jax.tree.map(lambda rows, new: rows.at[slot].set(new), past.record, record)
        past = _Past(start, end, records, past.count + 1, past.begin)
        return y1, error, record, (inner, past), result

    def _between(self, past: _Past, k, known):
        """Return the dense output of a stored step.

        An unknown step gets safe end times, because both branches are differentiated.
        """
        record = jax.tree.map(lambda rows: rows[k], past.record)
        start, end = jnp.where(known, past.start[k], 0), jnp.where(known, past.end[k], 1)
        return self.solver.interpolation_cls(t0=start, t1=end, **record)

    def _repeated(self, step, past, t0, t1, y0):
        """Return a step that may read itself: first from extrapolation, then from the last pass."""
        known = past.count > 0
        last = self._between(past, (past.count - 1) % self.capacity, known)

        def ahead(t):
            found = last.evaluate(t)
            found = jax.tree.map(lambda a, b: jnp.where(known, a, b), found, y0)
            return within_reach(t, found)

        def within_reach(t, found):
            reach = t <= t1 + REACH * (t1 - t0)
            return jax.tree.map(lambda leaf: jnp.where(reach, leaf, jnp.nan), found)

        def again(found, _):
            between = self.solver.interpolation_cls(t0=t0, t1=t1, **found[2])
            return step(lambda t: within_reach(t, between.evaluate(t))), None

        found, _ = jax.lax.scan(again, step(ahead), None, length=PASSES - 1)
        return found

    def func(self, terms, t0, y0, args):
        """Return the vector field at the start, for the choice of the first step."""
        return self.solver.func(_bind(terms, _at_start), t0, y0, args)


def _at_start(history, t, delay):
    """Return the history, which is the only past before the first step."""
    return history(t - delay)


def _is_delay_term(term) -> bool:
    return isinstance(term, DelayTerm)


def _delay_terms(terms) -> list[DelayTerm]:
    found = [t for t in jax.tree.leaves(terms, is_leaf=_is_delay_term) if _is_delay_term(t)]
    if not found:
        raise ValueError("DelaySolver needs a DelayTerm among its terms.")
    return found


def _is_adjoint(term) -> bool:
    """Return whether a term is that of `diffrax.BacksolveAdjoint`.

    Decided from its name, because the class is not public.
    """
    return type(term).__name__ == "AdjointTerm"


def _bind(terms, reader: Callable):
    """Return the terms, with `reader` as the access of every delay term to the past."""

    if any(map(_is_adjoint, jax.tree.leaves(terms, is_leaf=_is_adjoint))):
        raise ValueError(
            "BacksolveAdjoint solves an equation backwards in time, which is impossible with "
            "delays; use the default, diffrax.RecursiveCheckpointAdjoint()."
        )

    def bind(term):
        if not _is_delay_term(term):
            return term
        return DelayTerm(term.drift, term.delays, term.history, reader=reader)

    return jax.tree.map(bind, terms, is_leaf=_is_delay_term)
