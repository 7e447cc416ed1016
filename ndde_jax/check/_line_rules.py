"""Lines on identifiability: what the paper's theorems ask for, as far as data can show it.

They weigh nothing: a theorem's condition is sufficient, and the verdict rests on what was tested.
"""

import functools
from collections.abc import Iterator

import numpy as np

from ..models._confine import RestoredDDE, confine
from ._conditioning import condition_number, covariance_of, radial_drift
from ._finding import ASSUMED, ESTIMATED, LINE, MEASURED, Hit, rule
from ._graph_rules import FINITE, PENALISED, PROCESS, SUPPORT, GraphEvidence
from ._theory import penalty_window, recovery_margin

# Above this condition number of the lagged design, inputs can hardly be told apart.
COLLINEAR = 1e4
# Share of a rate's variance from which on it counts as unexplained.
UNEXPLAINED = 0.9
NOISE = "the noise explores (invertible Σ)"
ERGODIC = "ergodicity (delay-adapted dissipativity)"

measured = functools.partial(rule, about=LINE, kind=MEASURED)
estimated = functools.partial(rule, about=LINE, kind=ESTIMATED)
assumed = functools.partial(rule, about=LINE, kind=ASSUMED)


# ---- the data ----


@measured(
    "windows per input",
    sentence="{used} windows for {candidates} candidate inputs of each target.",
    theorem=FINITE,
)
def _windows(e: GraphEvidence) -> Iterator[Hit]:
    yield Hit(e.used / e.candidates, {"used": e.used, "candidates": e.candidates})


@measured(
    "condition number",
    sentence="of the lagged design; large where inputs are nearly linear functions of one "
    "another.{then}",
    theorem=SUPPORT,
)
def _condition(e: GraphEvidence) -> Iterator[Hit]:
    number = condition_number(e.windows)
    then = " Neighbouring lags can stand in for one another here: read a lag as an interval."
    yield Hit(number, {"then": then if number > COLLINEAR else ""})


@measured(
    "lag 0",
    sentence="lag 0 is no candidate: drivers without a delay can show up at the smallest lag.",
)
def _present(e: GraphEvidence) -> Iterator[Hit]:
    if 0 not in e.lags:
        yield Hit(float(min(e.lags)))


# ---- edges and their price ----


@estimated(
    "largest unexplained share",
    sentence="of a rate's variance, of {who}; noise and a missing driver look alike here.{then}",
    theorem="the model class contains the truth",
)
def _unexplained(e: GraphEvidence) -> Iterator[Hit]:
    risk = np.asarray(e.strengths.risk, float)
    hardly = [name for name, left in zip(e.names, risk, strict=True) if not left < UNEXPLAINED]
    worst = int(np.argmax(risk))
    then = f" Hardly anything is explained of {len(hardly)} of {len(e.names)}." if hardly else ""
    yield Hit(float(risk[worst]), {"who": e.names[worst], "then": then})


def _weakest(e: GraphEvidence, strength: np.ndarray) -> tuple[float, str, tuple]:
    edge = np.unravel_index(np.argmin(np.where(e.graph, strength, np.inf)), e.graph.shape)
    i, j, a = map(int, edge)
    return float(strength[edge]), f"{e.names[i]}@{e.lags[a]} → {e.names[j]}", edge


@estimated(
    "smallest signal strength",
    sentence="ŝ²_min, of {edge}; lower confidence bound {lower:.4g}. True only if the graph is: a "
    "missed weak edge would be smaller.",
    theorem=PENALISED,
)
def _strength(e: GraphEvidence) -> Iterator[Hit]:
    if e.graph.any():
        least, edge, where = _weakest(e, np.asarray(e.strengths.value, float))
        yield Hit(least, {"edge": edge, "lower": float(np.asarray(e.strengths.lower)[where])})


@estimated("largest in-degree", sentence="d_max.", theorem=PENALISED)
def _degree(e: GraphEvidence) -> Iterator[Hit]:
    if e.graph.any():
        yield Hit(float(e.graph.sum(axis=(0, 2)).max()))


@estimated(
    "smallest strength against all inputs",
    sentence="s²_min as the paper defines it, of {edge}: what all other candidates together, not "
    "those of the graph alone, cannot make up for.",
    theorem=PENALISED,
)
def _alone(e: GraphEvidence) -> Iterator[Hit]:
    if e.alone is not None:
        least, edge, _ = _weakest(e, e.alone)
        yield Hit(least, {"edge": edge})


def _window(e: GraphEvidence) -> tuple[float, float, float, int]:
    """Return the window, the price, s²_min and d_max."""
    strength = np.asarray(e.strengths.value, float) if e.alone is None else e.alone
    least = max(_weakest(e, strength)[0], 0.0)  # estimates scatter around zero
    degree = int(e.graph.sum(axis=(0, 2)).max())
    return float(penalty_window(least, degree)), float(e.price.max()), least, degree


@estimated(
    "penalty window",
    sentence="upper end of the prices per unit of time that the paper proves to recover this "
    "graph, {which}; {where}.",
    theorem=PENALISED,
)
def _prices(e: GraphEvidence) -> Iterator[Hit]:
    if not e.graph.any():
        return
    window, used, *_ = _window(e)
    where = "empty"
    if window > 0:
        where = f"the price of an edge used here, {used:.3g}, is {used / window:.2g} times that"
        where += ", outside it: the window is sufficient, not necessary" * (used >= window)
    which = "(0, s²_min / d_max)"
    if e.alone is None:
        which = (
            "at most (0, ŝ²_min / d_max), since ŝ is relative to this graph and the paper's s is "
            "no larger"
        )
    yield Hit(window, {"which": which, "where": where})


@estimated(
    "margin",
    sentence="γ per unit of time, by which every other graph costs more; it must exceed the "
    "sampling error of the risks.",
    theorem=PENALISED,
)
def _margin(e: GraphEvidence) -> Iterator[Hit]:
    if e.graph.any():
        _, used, least, degree = _window(e)
        yield Hit(float(recovery_margin(used, least, degree)))


@measured(
    "prior against data",
    sentence="{said}.",
)
def _prior(e: GraphEvidence) -> Iterator[Hit]:
    prior, worth = e.windows.prior, (e.scores > e.price[None, :, None]) & (e.lower > 0)
    for said, edges in (
        ("is forbidden, but would explain", worth & ~np.asarray(prior.allowed)),
        ("is required, but the data would do without it; it explains",
         ~worth & np.asarray(prior.required)),
    ):  # fmt: skip
        for i, j, a in e.edges(edges):
            score = max(float(e.scores[i, j, a]), 0.0)
            edge = f"{e.names[i]}@{e.lags[a]} → {e.names[j]}"
            yield Hit(score, {"said": f"{edge} {said} {score:.3g} of the rate's variance"})


@measured(
    "dropped together",
    sentence="Inputs of {name} were dropped together although each was measured with the others in "
    "place: if they can stand in for one another, that was too many.",
)
def _dropped(e: GraphEvidence) -> Iterator[Hit]:
    counts = (np.asarray(e.strengths.graph) & ~e.graph).sum(axis=(0, 2))
    for name, count in zip(e.names, counts.tolist(), strict=True):
        if count > 1:
            yield Hit(float(count), {"count": count, "name": name}, variable=name)


# ---- noise and damping ----


@assumed(
    "noise covariance",
    sentence="that needs equally spaced samples and lag 0.",
    theorem=NOISE,
)
def _unknown_noise(e: GraphEvidence) -> Iterator[Hit]:
    if e.drift is None or 0 not in e.lags:
        yield Hit(0.0, value="not measured")


def _noise(e: GraphEvidence) -> np.ndarray | None:
    """Return the eigenvalues of ΣΣᵀ in standardised states, ascending."""
    if e.drift is None or 0 not in e.lags:
        return None
    scale = np.asarray(e.windows.scaling.scale, float)
    return np.linalg.eigvalsh(covariance_of(e.windows, e.drift) / np.outer(scale, scale))


@estimated("noise condition number", sentence="of ΣΣᵀ in standardised states.", theorem=NOISE)
def _noise_condition(e: GraphEvidence) -> Iterator[Hit]:
    values = _noise(e)
    if values is not None:
        yield Hit(float(values[-1] / values[0]) if values[0] > 0 else float("inf"))


@estimated(
    "reach of the noise",
    sentence="how far noise alone would diffuse over the record in its weakest direction, in "
    "standard deviations of the data; an upper bound where differences are inexact.{then}",
    theorem=NOISE,
)
def _reach(e: GraphEvidence) -> Iterator[Hit]:
    values = _noise(e)
    if values is None:
        return
    reach = float(np.sqrt(e.used * e.windows.step * e.dt * max(float(values[0]), 0.0)))
    then = (
        " Too little to explore: the graph rests on the richness of the orbit alone, and inputs "
        "that are functions of one another along it cannot be told apart."
    )
    yield Hit(reach, {"then": then if reach < 1 else ""})


@measured("noise share", sentence="of the variance of one-step increments.", theorem=NOISE)
def _share(e: GraphEvidence) -> Iterator[Hit]:
    if e.drift is not None:
        yield Hit(float(np.mean(np.asarray(e.windows.noise_share))))


@measured(
    "largest residual memory",
    sentence="share of a rate's variance that persists in what is left of it; noise has none.",
    theorem=PROCESS,
)
def _memory(e: GraphEvidence) -> Iterator[Hit]:
    if e.memory.size:
        yield Hit(float(e.memory.max()))


@assumed("dissipativity", sentence="that needs lag 0.", theorem=ERGODIC)
def _unknown_damping(e: GraphEvidence) -> Iterator[Hit]:
    if 0 not in e.lags:
        yield Hit(0.0, value="not measured")


@measured(
    "radial drift",
    sentence="mean of ⟨u, dX/dt⟩ / ‖u‖² over the outermost tenth of the states, ± {error:.2g} per "
    "unit of time; negative where the system pulls back.{then}",
    theorem=ERGODIC,
)
def _pull(e: GraphEvidence) -> Iterator[Hit]:
    if 0 in e.lags:
        pull, error = radial_drift(e.windows)
        then = " Far out, these data still move outwards: the record may not be stationary."
        yield Hit(pull, {"error": error, "then": then if pull > 2 * error else ""})


@estimated(
    "absorbing radius",
    sentence="of the learned drift confined to the box of the data, from its weights, in units of "
    "the data (box: {box}).",
    theorem=ERGODIC,
)
def _radius(e: GraphEvidence) -> Iterator[Hit]:
    if 0 in e.lags and not isinstance(e.model, RestoredDDE):
        confined = confine(e.model, windows=e.windows)
        box = ", ".join(f"{v:.3g}" for v in np.asarray(confined.radius).tolist())
        yield Hit(float(confined.certificate().absorbing_radius), {"box": box})


# ---- what no data can show ----


@assumed(
    "no hidden driver",
    sentence="every variable that drives another is observed; one that leaves no trace in what is "
    "left would go unnoticed.",
    theorem=PROCESS,
)
def _observed(e: GraphEvidence) -> Iterator[Hit]:
    yield Hit(0.0, value="untestable")


@assumed(
    "known lags",
    sentence="the true delays are among the candidates; a neighbour is found in place of one that "
    "is not.",
    theorem=PROCESS,
)
def _lags(e: GraphEvidence) -> Iterator[Hit]:
    yield Hit(0.0, value=", ".join(map(str, e.lags)))


@assumed(
    "additive noise",
    sentence="Σ is constant, and measurement error is small.",
    theorem=PROCESS,
)
def _additive(e: GraphEvidence) -> Iterator[Hit]:
    yield Hit(0.0, value="untested")


@assumed(
    "no weaker edge",
    sentence="edges below the price of one are taken as absent.",
    theorem=PENALISED,
)
def _absent(e: GraphEvidence) -> Iterator[Hit]:
    yield Hit(0.0, value="untestable")
