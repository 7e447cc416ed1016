"""The lines on identifiability: conditions of the paper's theorems, as far as data show them.

They have no weight: a theorem's condition is sufficient, and the verdict rests on the tests.
"""

from collections.abc import Iterator

import numpy as np

from ..models._confine import RestoredDDE, confine
from ..theory._recovery import penalty_window, recovery_margin
from ._conditioning import condition_number, covariance_of, radial_drift
from ._finding import ASSUMED, ESTIMATED, LINE, MEASURED, RULES, Hit, Rule, rules_about
from ._graph_rules import FINITE, PENALISED, PROCESS, SUPPORT, GraphEvidence

# Condition number of the lagged design above which inputs are hardly distinguishable.
COLLINEAR = 1e4
# Residual share of a rate's variance from which on the rate counts as unexplained.
UNEXPLAINED = 0.9
NOISE = "the noise explores (invertible Σ)"
ERGODIC = "ergodicity (delay-adapted dissipativity)"
INDEPENDENT = " Neighbouring lags can be proxies for one another here: read a lag as an interval."
ORBIT = (
    " Too little to explore: the graph rests on the richness of the orbit alone, and inputs that "
    "are functions of one another along it cannot be distinguished."
)
OUTWARDS = " Far out, these data still move outwards: the record may not be stationary."


measured_rule = rules_about(LINE)
estimated_rule = rules_about(LINE, kind=ESTIMATED, theorem=PENALISED)


def _known(e: GraphEvidence) -> bool:
    """Return whether noise can be measured: samples are equally spaced and lag 0 is a candidate."""
    return e.drift is not None and 0 in e.lags


def _noise(e: GraphEvidence) -> np.ndarray:
    """Return the eigenvalues of ΣΣᵀ in standardised states, ascending."""
    scale = np.asarray(e.windows.scaling.scale, float)
    return np.linalg.eigvalsh(covariance_of(e.windows, e.drift) / np.outer(scale, scale))


def _weakest(e: GraphEvidence, strength: np.ndarray) -> tuple[float, str, tuple]:
    least = np.argmin(np.where(e.graph, strength, np.inf))
    edge = tuple(map(int, np.unravel_index(least, e.graph.shape)))
    return float(strength[edge]), e.label(edge), edge


def _degree(e: GraphEvidence) -> int:
    """Return d_max, the largest number of inputs of a target."""
    return int(e.graph.sum(axis=(0, 2)).max())


def _smallest_strength(e: GraphEvidence) -> float:
    """Return s²_min, relative to the graph if nothing else was measured, and at least 0."""
    strength = np.asarray(e.strengths.value, float) if e.alone is None else e.alone
    return max(_weakest(e, strength)[0], 0.0)


# ---- the data, edges and prices ----


@measured_rule(
    "windows per input",
    "{used} windows for {candidates} candidate inputs of each target.",
    theorem=FINITE,
)
def _windows(e: GraphEvidence) -> Iterator[Hit]:
    yield Hit(e.used / e.candidates, {"used": e.used, "candidates": e.candidates})


@measured_rule(
    "condition number",
    "of the lagged design; large where inputs are nearly linear functions of one another.{then}",
    theorem=SUPPORT,
)
def _condition(e: GraphEvidence) -> Iterator[Hit]:
    number = condition_number(e.windows)
    yield Hit(number, {"then": INDEPENDENT if number > COLLINEAR else ""})


@estimated_rule(
    "largest unexplained share",
    "of a rate's variance, that of {who}; noise and a missing driver look alike here.{then}",
    theorem="the model class contains the truth",
)
def _unexplained(e: GraphEvidence) -> Iterator[Hit]:
    risk = np.where(e.modelled, np.asarray(e.strengths.risk, float), -np.inf)
    hardly, worst = int((~(risk < UNEXPLAINED)).sum()), int(np.argmax(risk))
    count = int(e.modelled.sum())
    then = f" Almost nothing is explained for {hardly} of {count}." if hardly else ""
    yield Hit(float(risk[worst]), {"who": e.names[worst], "then": then})


@estimated_rule(
    "smallest signal strength",
    "ŝ²_min, of {edge}; lower confidence bound {lower:.4g}. True only if the graph is: a missed "
    "weak edge would be smaller.",
)
def _strength(e: GraphEvidence) -> Iterator[Hit]:
    if e.graph.any():
        least, edge, where = _weakest(e, np.asarray(e.strengths.value, float))
        yield Hit(least, {"edge": edge, "lower": float(np.asarray(e.strengths.lower)[where])})


@estimated_rule(
    "smallest strength against all inputs",
    "s²_min, of {edge}: the part that all other candidates together, not only those of the graph, "
    "cannot replace, with lines and bends of each.",
)
def _alone(e: GraphEvidence) -> Iterator[Hit]:
    if e.alone is not None and e.graph.any():
        least, edge, _ = _weakest(e, e.alone)
        yield Hit(least, {"edge": edge})


@estimated_rule(
    "penalty window",
    "upper end of the prices per unit of time proved in the paper to recover this graph, "
    "{which}; {where}.",
)
def _prices(e: GraphEvidence) -> Iterator[Hit]:
    if not e.graph.any():
        return
    window, used = float(penalty_window(_smallest_strength(e), _degree(e))), float(e.price.max())
    where = "empty"
    if window > 0:
        where = f"the price of an edge used here, {used:.3g}, is {used / window:.2g} times that"
        where += ", outside it: the window is sufficient, not necessary" * (used >= window)
    which = "(0, s²_min / d_max)"
    if e.alone is None:
        which = "at most (0, ŝ²_min / d_max), since ŝ is relative to this graph and s no larger"
    yield Hit(window, {"which": which, "where": where})


@measured_rule("prior against data", "{said}.")
def _prior(e: GraphEvidence) -> Iterator[Hit]:
    prior, worth = e.windows.prior, (e.scores > e.price[None, :, None]) & (e.lower > 0)
    idle = "is required, but the data do not need it; it explains"
    for said, edges in (
        ("is forbidden, but would explain", worth & ~np.asarray(prior.allowed)),
        (idle, ~worth & np.asarray(prior.required)),
    ):
        for edge in e.edges(edges):
            score = max(float(e.scores[edge]), 0.0)
            yield Hit(score, {"said": f"{e.label(edge)} {said} {score:.3g} of the rate's variance"})


@measured_rule(
    "dropped together",
    "Inputs of {name} were dropped together although each was measured with the others in place: "
    "if they are proxies for one another, too many were dropped.",
)
def _dropped(e: GraphEvidence) -> Iterator[Hit]:
    counts = (np.asarray(e.strengths.graph) & ~e.graph).sum(axis=(0, 2)).tolist()
    for name, count in zip(e.names, counts, strict=True):
        if count > 1:
            yield Hit(count, {"name": name}, variable=name)


# ---- noise and damping ----


@estimated_rule(
    "reach of the noise",
    "how far noise alone would diffuse over the record in its weakest direction, in standard "
    "deviations of the data; an upper bound where differences are inexact.{then}",
    theorem=NOISE,
)
def _reach(e: GraphEvidence) -> Iterator[Hit]:
    if _known(e):
        least = max(float(_noise(e)[0]), 0.0)
        reach = float(np.sqrt(e.used * e.windows.step * e.dt * least))
        yield Hit(reach, {"then": ORBIT if reach < 1 else ""})


@measured_rule(
    "radial drift",
    "mean of ⟨u, dX/dt⟩ / ‖u‖² over the outermost tenth of the states, ± {error:.2g} per unit of "
    "time; negative where the system pulls back.{then}",
    theorem=ERGODIC,
)
def _radial_drift(e: GraphEvidence) -> Iterator[Hit]:
    if 0 in e.lags:
        pull, error = radial_drift(e.windows)
        yield Hit(pull, {"error": error, "then": OUTWARDS if pull > 2 * error else ""})


@estimated_rule(
    "absorbing radius",
    "of the learned drift confined to the box of the data, from its weights, in units of the data "
    "(box: {box}).",
    theorem=ERGODIC,
)
def _radius(e: GraphEvidence) -> Iterator[Hit]:
    if 0 in e.lags and not isinstance(e.model, RestoredDDE):
        confined = confine(e.model, windows=e.windows)
        box = ", ".join(f"{v:.3g}" for v in np.asarray(confined.radius).tolist())
        yield Hit(float(confined.certificate().absorbing_radius), {"box": box})


def _condition_of(values: np.ndarray) -> float:
    return float(values[-1] / values[0]) if values[0] > 0 else float("inf")


# Lines whose value is a number or a word; None if there is nothing to report.
NUMBERS = (
    (MEASURED, "lag 0", "",
     "Drivers without a delay can show up at the smallest lag.",
     lambda e: "no candidate" if 0 not in e.lags else None),
    (ESTIMATED, "largest in-degree", PENALISED, "d_max.",
     lambda e: float(_degree(e)) if e.graph.any() else None),
    (ESTIMATED, "margin", PENALISED,
     "γ per unit of time, by which every other graph costs more; it must exceed the sampling error "
     "of the risks.",
     lambda e: float(recovery_margin(float(e.price.max()), _smallest_strength(e), _degree(e)))
     if e.graph.any() else None),
    (ASSUMED, "noise covariance", NOISE, "it requires equally spaced samples and lag 0.",
     lambda e: None if _known(e) else "not measured"),
    (ESTIMATED, "noise condition number", NOISE, "of ΣΣᵀ in standardised states.",
     lambda e: _condition_of(_noise(e)) if _known(e) else None),
    (MEASURED, "noise share", NOISE, "of the variance of one-step increments.",
     lambda e: float(np.mean(np.asarray(e.windows.noise_share))) if _known(e) else None),
    (MEASURED, "largest residual memory", PROCESS,
     "share of a rate's variance that persists in its residuals; noise has none.",
     lambda e: float(e.memory.max()) if e.memory.size else None),
    (ASSUMED, "dissipativity", ERGODIC, "it requires lag 0.",
     lambda e: "not measured" if 0 not in e.lags else None),
    (ASSUMED, "no hidden driver", PROCESS,
     "every variable that drives another is observed; a driver that leaves no trace in the "
     "residuals would go unnoticed.",
     lambda e: "untestable"),
    (ASSUMED, "known lags", PROCESS,
     "the true delays are among the candidates; otherwise a neighbouring lag is found.",
     lambda e: ", ".join(map(str, e.lags))),
    (ASSUMED, "additive noise", PROCESS, "Σ is constant, and measurement error is small.",
     lambda e: "untested"),
    (ASSUMED, "no weaker edge", PENALISED, "edges weaker than their price count as absent.",
     lambda e: "untestable"),
)  # fmt: skip


def _hits(number):
    """Return the test of a line whose value is a number or a word."""

    def test(e: GraphEvidence) -> Iterator[Hit]:
        value = number(e)
        if value is not None:
            yield Hit(0.0 if isinstance(value, str) else value, value=value)

    return test


for _kind, _name, _theorem, _sentence, _number in NUMBERS:
    RULES[_name] = Rule(_name, LINE, _hits(_number), _sentence, kind=_kind, theorem=_theorem)
