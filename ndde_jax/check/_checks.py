"""The checks behind an identifiability report: each adds findings, problems and reservations."""

import jax
import jax.numpy as jnp
import numpy as np

from ..measure._strength import SignalStrengths
from ..models._confine import RestoredDDE, confine
from ..models._model import AbstractDelayModel
from ..simulate._solve import solve_sdde
from ..windows._stencils import SMOOTH_SHARE
from ..windows._windows import Windows
from ._conditioning import condition_number, covariance_of, memory_of, radial_drift
from ._finding import ASSUMED, ESTIMATED, MEASURED, Finding
from ._theory import penalty_window, recovery_margin

# Below this many windows per candidate input a graph is not supported.
WINDOWS_PER_INPUT = 20
# Above this condition number of the lagged design, inputs can hardly be told apart.
COLLINEAR = 1e4
# Held-out risk from which on a rate counts as unexplained.
UNEXPLAINED = 0.9
# Share of a rate's variance that may persist in its residuals before something must be missing.
MEMORY = 0.05


class Notes:
    """What has been found so far."""

    def __init__(self, names, lags, graph):
        self.names, self.lags, self.graph = names, lags, graph
        self.findings, self.problems, self.reservations = [], [], []

    def add(self, kind, name, value, theorem, text):
        self.findings.append(Finding(kind, name, value, theorem, text))

    def edges(self, which) -> str:
        """The edges of a graph in words, at most four of them."""
        found = [
            f"{self.names[i]}@{self.lags[a]} -> {self.names[j]}" for i, j, a in np.argwhere(which)
        ]
        more = f" and {len(found) - 4} more" if len(found) > 4 else ""
        return ", ".join(found[:4]) + more


def about_data(notes: Notes, windows: Windows) -> None:
    """Enough windows, and inputs that can be told apart."""
    n_inputs = windows.dim * windows.n_lags
    used = int(windows.n_valid)
    notes.add(
        MEASURED,
        "windows per input",
        used / n_inputs,
        "finite-sample recovery",
        f"{used} windows for {n_inputs} candidate inputs of each target.",
    )
    if used < WINDOWS_PER_INPUT * n_inputs:
        notes.problems.append(
            f"Too short: {used} windows for {n_inputs} candidate inputs per target, fewer than "
            f"{WINDOWS_PER_INPUT} each. Use fewer lags or longer data."
        )
    condition = condition_number(windows)
    notes.add(
        MEASURED,
        "condition number",
        condition,
        "full support of the occupation measure",
        "of the lagged design; large where inputs are nearly linear functions of one another.",
    )
    if condition > COLLINEAR:
        notes.reservations.append(
            f"The candidate inputs are nearly collinear (condition number {condition:.1e}); "
            "neighbouring lags can stand in for one another, so read a lag as an interval."
        )


def about_signal(
    notes: Notes,
    strengths: SignalStrengths,
    price: np.ndarray,
    alone: np.ndarray | None = None,
) -> None:
    """How strong the kept edges are, and whether the price lies where recovery is proved; `alone`
    are their strengths as the paper defines them, where these were measured.
    """
    graph = notes.graph
    value, lower = np.asarray(strengths.value), np.asarray(strengths.lower)
    risk = np.asarray(strengths.risk)
    degree = graph.sum(axis=(0, 2))
    theorem = "identifiability with the penalised objective"
    hopeless = ~(risk < UNEXPLAINED)
    notes.add(
        MEASURED,
        "largest unexplained share",
        float(np.max(risk)),
        "the model class contains the truth",
        "the share of a rate's variance that the graph does not explain; noise "
        "and a missing driver look alike here.",
    )
    if not graph.any():
        notes.problems.append("No edge is worth its parameters: no candidate input is informative.")
        return
    if hopeless.all():
        notes.problems.append(
            "No rate is explained (more than 0.9 of the variance of each is left)."
        )
    elif hopeless.any():
        which = ", ".join(name for name, bad in zip(notes.names, hopeless, strict=True) if bad)
        notes.reservations.append(f"The rate of {which} is hardly explained; its edges are weak.")
    doubtful = graph & ~(lower > 0)
    if doubtful.sum() > graph.sum() / 2:
        notes.problems.append(
            f"{doubtful.sum()} of {graph.sum()} edges have a lower confidence bound at or below "
            "zero over blocks of the record."
        )
    elif doubtful.any():
        notes.reservations.append(
            "Lower confidence bound at or below zero over blocks of the record: "
            f"{notes.edges(doubtful)}."
        )
    weakest = np.unravel_index(np.argmin(np.where(graph, value, np.inf)), graph.shape)
    s_min, d_max = float(value[weakest]), int(degree.max())
    notes.add(
        ESTIMATED,
        "smallest signal strength",
        s_min,
        theorem,
        f"ŝ²_min, of {notes.edges(only(graph.shape, weakest))}; lower confidence bound "
        f"{lower[weakest]:.4g}. True only if the graph is: a missed weak edge would be smaller.",
    )
    notes.add(ESTIMATED, "largest in-degree", float(d_max), theorem, "d_max.")
    if alone is not None:
        where = np.unravel_index(np.argmin(np.where(graph, alone, np.inf)), graph.shape)
        s_min = float(alone[where])
        notes.add(
            ESTIMATED,
            "smallest strength against all inputs",
            s_min,
            theorem,
            f"s²_min as the paper defines it, of {notes.edges(only(graph.shape, where))}: what all "
            "other candidates together, not those of the graph alone, cannot make up for.",
        )
    s_min = max(s_min, 0.0)  # estimates scatter around zero
    window = float(penalty_window(s_min, d_max))
    used = float(price.max())
    where = "empty"
    if window > 0:
        where = f"the price of an edge used here, {used:.3g}, is {used / window:.0%} of it"
    notes.add(
        ESTIMATED,
        "penalty window",
        window,
        theorem,
        "upper end of the prices per unit of time that the paper proves to recover this graph, "
        + (
            "(0, s²_min / d_max)"
            if alone is not None
            else "at most (0, ŝ²_min / d_max), since ŝ is relative to this graph and the paper's s "
            "is no larger"
        )
        + f"; {where}.",
    )
    margin = float(recovery_margin(used, s_min, d_max))
    notes.add(
        ESTIMATED,
        "margin",
        margin,
        theorem,
        "γ per unit of time, by which every other graph costs more; it must exceed the sampling "
        "error of the risks.",
    )
    if margin <= 0:
        notes.reservations.append(
            f"The price of an edge, {used:.3g}, lies outside the window (0, {window:.3g}) in which "
            "the paper proves recovery. The window is sufficient, not necessary."
        )


def about_noise(notes: Notes, windows: Windows, drift: np.ndarray | None) -> None:
    """Whether the noise reaches all directions, and far enough to explore; `drift` is that of all
    valid rows, None where samples are not equally spaced.
    """
    theorem = "the noise explores (invertible Σ)"
    if drift is None or 0 not in windows.lags:
        notes.add(
            ASSUMED,
            "noise covariance",
            "not measured",
            theorem,
            "that needs equally spaced samples and lag 0.",
        )
        return
    scale = np.asarray(windows.scaling.scale, float)
    covariance = covariance_of(windows, drift) / np.outer(scale, scale)
    eigenvalues = np.linalg.eigvalsh(covariance)
    smallest, largest = max(float(eigenvalues[0]), 0.0), float(eigenvalues[-1])
    condition = largest / smallest if smallest > 0 else np.inf
    notes.add(
        ESTIMATED,
        "noise condition number",
        condition,
        theorem,
        "of ΣΣᵀ in standardised states.",
    )
    duration = int(windows.n_valid) * windows.step * float(windows.dt)
    reach = float(np.sqrt(duration * smallest))
    notes.add(
        ESTIMATED,
        "reach of the noise",
        reach,
        theorem,
        "how far noise alone would diffuse over the record in its weakest direction, in standard "
        "deviations of the data; an upper bound where differences are inexact.",
    )
    share = float(np.mean(np.asarray(windows.noise_share)))
    notes.add(
        MEASURED,
        "noise share",
        share,
        theorem,
        "of the variance of one-step increments.",
    )
    if reach < 1 or share < SMOOTH_SHARE:
        notes.reservations.append(
            "The noise is too small to explore: the theorems need it to reach every state, so the "
            "graph rests on the richness of the orbit alone. Inputs that are functions of one "
            "another along it cannot be told apart, whatever the length."
        )


def about_memory(notes: Notes, windows: Windows, drift: np.ndarray | None) -> None:
    """Whether what a rate depends on is all among the inputs; `drift` as above."""
    theorem = "data-generating process"
    if drift is None:
        notes.add(
            ASSUMED,
            "residual memory",
            "not measured",
            theorem,
            "that needs equally spaced samples.",
        )
        return
    memory = memory_of(windows, drift)
    if not np.isfinite(memory).all():
        notes.add(ASSUMED, "residual memory", "not measured", theorem, "the model is not finite.")
        return
    worst = int(np.argmax(memory))
    of = f"of the variance of the rate of {notes.names[worst]}, unexplained and persistent"
    text = of if memory[worst] > 0 else "what is left of the rates does not persist beyond chance"
    notes.add(
        ESTIMATED,
        "residual memory",
        float(memory[worst]),
        theorem,
        f"{text}; noise has no memory.",
    )
    if memory[worst] > MEMORY:
        which = ", ".join(n for n, m in zip(notes.names, memory, strict=True) if m > MEMORY)
        notes.reservations.append(
            f"What is left of the rate of {which} has a memory: a driver is hidden or a delay is "
            "not among the candidates. Edges may be stand-ins for it."
        )


def about_damping(
    notes: Notes, windows: Windows, model: AbstractDelayModel, *, simulate: bool
) -> None:
    """Whether data and learned drift come back from far out; `simulate` also runs the latter."""
    theorem = "ergodicity (delay-adapted dissipativity)"
    if 0 not in windows.lags:
        notes.add(ASSUMED, "dissipativity", "not measured", theorem, "that needs lag 0.")
        return
    pull, error = radial_drift(windows)
    notes.add(
        MEASURED,
        "radial drift",
        pull,
        theorem,
        f"mean of ⟨u, dX/dt⟩ / ‖u‖² over the outermost tenth of the states, ± {error:.2g} per unit "
        "of time; negative where the system pulls back.",
    )
    if pull > 2 * error:
        notes.reservations.append(
            "Far out, the data still move outwards on average: the record may not be stationary."
        )
    if isinstance(model, RestoredDDE):
        return
    confined = confine(model, windows=windows)
    certificate = confined.certificate()
    notes.add(
        ESTIMATED,
        "absorbing radius",
        float(certificate.absorbing_radius),
        theorem,
        "of the learned drift confined to the box of the data, from its weights, in units of the "
        f"data (box: {_numbers(confined.radius)}).",
    )
    if not simulate:
        return
    # No more than the data lasted, and not more steps than a picture would show.
    n_steps = min(int(windows.n_valid), 5000)
    outside = float(_share_outside(confined, windows, n_steps))
    notes.add(
        ESTIMATED,
        "share outside the box",
        outside,
        theorem,
        f"of {n_steps} steps of the confined model without noise, from a state of the data.",
    )
    if not outside < 0.5:
        notes.reservations.append(
            f"The learned drift leaves the region of the data ({outside:.0%} of a rollout)."
        )


def _share_outside(confined: RestoredDDE, windows: Windows, n_steps: int):
    row = int(np.argmax(np.asarray(windows.valid)))
    scaling = windows.scaling
    state = windows.history[row, windows.lags.index(0)] * scaling.scale + scaling.center
    # Forward differences describe a map, central ones a rate, which needs shorter steps.
    parts = 1 if windows.scheme == "euler" else 4
    path = solve_sdde(
        confined, history=state, n_steps=parts * n_steps, dt=confined.dt / parts, save_every=parts
    )
    distance = jnp.abs(path.ys - confined.center[None])
    return jnp.mean(~jnp.all(distance <= confined.radius[None], axis=1))


def assumptions(notes: Notes) -> None:
    """What no check can say."""
    add = notes.add
    lags = ", ".join(str(lag) for lag in notes.lags)
    add(
        ASSUMED,
        "no hidden driver",
        "untestable",
        "data-generating process",
        "every variable that drives another is observed; one that leaves no memory in "
        "the residuals would go unnoticed.",
    )
    add(
        ASSUMED,
        "known lags",
        lags,
        "data-generating process",
        "the true delays are among the candidates; a neighbour is found in place of one that is "
        "not.",
    )
    add(
        ASSUMED,
        "additive noise",
        "untested",
        "data-generating process",
        "Σ is constant, and measurement error is small.",
    )
    add(
        ASSUMED,
        "no weaker edge",
        "untestable",
        "identifiability with the penalised objective",
        "edges below the price of one are taken as absent.",
    )


def only(shape, edge) -> np.ndarray:
    """The graph of one edge."""
    which = np.zeros(shape, bool)
    which[tuple(edge)] = True
    return which


def _numbers(values: jax.Array) -> str:
    return ", ".join(f"{v:.3g}" for v in np.asarray(values).tolist())
