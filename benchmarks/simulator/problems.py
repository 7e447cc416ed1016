"""Published problems, and their solutions by SciPy or in closed form.

A rate is written once, for NumPy and for JAX: `rate(xp, t, x, lagged)` returns a list of
derivatives, `x` is a state and `lagged` one state per delay.
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.integrate

# Output times of every problem, equally spaced.
OUTPUTS = 10
# Largest number of delays in a sum that ends a piece of a reference.
DEPTH = 7


@dataclass(frozen=True)
class Problem:
    """A delay equation from a source, with its properties for the benchmark.

    - `delays`: constants, or `delays(xp, t, x)` if they depend on time or state.
    - `history`: constants or `history(xp, t)`, a list either way.
    - `start`: the state at the start if it is not the end of the history.
    - `jumps`: times at which the rate jumps.
    - `steps`: number of steps of the coarser of two runs with constant steps; 0 for stiff problems,
        which are solved only by an adaptive implicit solver.
    - `exact`: the solution in closed form, `exact(t)`.
    """

    source: str
    rate: Callable
    delays: tuple[float, ...] | Callable
    history: Callable | tuple[float, ...]
    end: float
    steps: int = 0
    start: tuple[float, ...] | None = None
    jumps: tuple[float, ...] = ()
    begin: float = 0.0
    exact: Callable | None = None

    @property
    def constant(self) -> bool:
        """Whether the delays are constants."""
        return not callable(self.delays)

    @property
    def stiff(self) -> bool:
        """Whether the problem needs an implicit solver."""
        return self.constant and not self.steps

    def past(self, xp, t):
        """The history at a time."""
        values = self.history(xp, t) if callable(self.history) else self.history
        return xp.stack([xp.asarray(v, float) * xp.ones_like(xp.asarray(t, float)) for v in values])

    def first(self) -> np.ndarray:
        """The state at the start."""
        return self.past(np, self.begin) if self.start is None else np.asarray(self.start, float)

    @property
    def times(self) -> np.ndarray:
        """The output times."""
        return self.begin + (self.end - self.begin) * np.arange(1, OUTPUTS + 1) / OUTPUTS


def reference(problem: Problem) -> np.ndarray:
    """Return the solution at the output times, `[output dim]`: closed, or piecewise by SciPy.

    DOP853, or Radau for stiff problems, from one sum of delays to the next, in pieces no longer
    than the shortest delay, which evaluate earlier pieces by their dense output.
    """
    if problem.exact is not None:
        return np.stack([np.atleast_1d(problem.exact(t)) for t in problem.times])
    if not problem.constant:
        return _free_reference(problem)
    delays, pieces = problem.delays, []
    ends = _ends(problem)

    def past(t, side):
        if t < problem.begin - 1e-12 or (t <= problem.begin + 1e-12 and side < 0):
            return problem.past(np, t)
        for start, end, solution in reversed(pieces):
            if start - 1e-12 < t - (1e-12 if side < 0 else -1e-12):
                return solution(min(max(t, start), end))
        return pieces[0][2](t)

    y = problem.first()
    for start, end in itertools.pairwise(ends):
        middle = 0.5 * (start + end)

        def rate(t, x, middle=middle):
            side = 1 if t < middle else -1
            at = [past(t - delay, side) for delay in delays]
            return np.asarray(problem.rate(np, t + side * 1e-13, x, at), float)

        found = scipy.integrate.solve_ivp(
            rate,
            (start, end),
            y,
            method="Radau" if problem.stiff else "DOP853",
            rtol=3e-14 if not problem.stiff else 1e-10,
            atol=1e-14 if not problem.stiff else 1e-16,
            dense_output=True,
        )
        pieces.append((start, end, found.sol))
        y = found.y[:, -1]
    return np.stack([past(t, -1) for t in problem.times])


def _ends(problem: Problem) -> list[float]:
    """Return ends of the pieces."""
    sums = {problem.begin, *problem.jumps, *problem.times}
    for _ in range(DEPTH):
        sums |= {s + d for s in sums for d in problem.delays if s + d < problem.end}
        if len(sums) > 300:
            break
    known = sorted(sums)
    ends = [known[0]]
    for time in known[1:]:
        if time - ends[-1] < 1e-9:
            continue
        parts = math.ceil((time - ends[-1]) / min(problem.delays) - 1e-9)
        ends += list(np.linspace(ends[-1], time, parts + 1)[1:])
    return ends


def _free_reference(problem: Problem) -> np.ndarray:
    """Return the solution if delays depend on time or state: steps of DOP853, each shorter than the
    delays.
    """
    pieces: list = []

    def past(t):
        if t <= problem.begin:
            return problem.past(np, t)
        for piece in reversed(pieces):
            if piece.t_old <= t:
                return piece(t)
        return pieces[0](t)

    def rate(t, x):
        at = [past(t - delay) for delay in problem.delays(np, t, x)]
        return np.asarray(problem.rate(np, t, x, at), float)

    run = scipy.integrate.DOP853(
        rate, problem.begin, problem.first(), problem.end, rtol=1e-13, atol=1e-13, max_step=0.02
    )
    while run.status == "running":
        run.step()
        pieces.append(run.dense_output())
    return np.stack([past(t) for t in problem.times])


# "after" marks parameters that differ from those of the source. DDETST: Enright & Hayashi, "The
# evaluation of numerical software for delay differential equations" (1997). DDEPL:
# DDEProblemLibrary.jl of SciML. HNW: Hairer, Nørsett & Wanner, Solving Ordinary Differential
# Equations I, II.17. DDE23: Shampine & Thompson, Appl. Numer. Math. 37 (2001), and its tutorial.
# RADAR5: Guglielmi & Hairer, Computing 67 (2001).
def _polynomial(t, tau=1.0, jump=True):
    """Return the solution of x' = −x(t − τ) from 1 with the history 0, or 1 without a jump."""
    shift = 0 if jump else 1
    return sum(
        (-1) ** k * max(t - (k - shift) * tau, 0) ** k / math.factorial(k)
        for k in range(shift, int(t / tau) + 2 + shift)
    ) + (0 if jump else 1)


def _mackey_glass(n):
    return lambda xp, t, x, z: [0.2 * z[0][0] / (1 + z[0][0] ** n) - 0.1 * x[0]]


def _marchuk(xp, t, x, z):
    """Return Marchuk's rate with a healthy organ, ξ(m) = 1."""
    v, c, f, m = x
    return [
        (2 - 0.8 * f) * v,
        1e4 * z[0][2] * z[0][0] - 0.5 * (c - 1),
        0.17 * (c - f) - 8 * f * v,
        10 * v - 0.12 * m,
    ]


def _quorum(xp, t, x, z):
    def hill(v, k, n):
        return v**n / (k**n + v**n)

    s, cells, r, c, lactonase = x
    grown = cells * hill(s, 0.38, 1.3)
    bound = 4e4 * (5e-7 - c) * r - 0.08 * c
    return [
        0.1 * (1 - s) - 1.3e-12 * grown,
        0.66 * grown - 0.1 * cells,
        (2.3e-19 + 2.3e-18 * hill(c, 70e-9, 2.3)) * cells
        - 0.15 * r
        - bound
        - 1.5e-4 * r * lactonase,
        bound,
        1.1e-8 * hill(z[0][3], 70e-9, 2.5) * cells - 0.105 * lactonase,
    ]


def _switched(t):
    if t <= 2 * math.log(2):
        return 2 * math.exp(-t) - 1
    return 1 - 6 * math.exp(-t) if t <= 2 * math.log(6) else 66 * math.exp(-t) - 1


def _oregonator(xp, t, x, z):
    k1, k2, k3, k4, a, b = 1.34, 1.6e9, 8e3, 4e7, 0.06, 0.06
    u, v = x
    late = z[0][1]
    return [
        k1 * a * v - k2 * u * late + k3 * b * u - 2 * k4 * u**2,
        -k1 * a * v - k2 * u * late + k3 * b * u,
    ]


def _robertson(xp, t, x, z):
    late = 1e4 * z[0][1] * x[2]
    return [
        -0.04 * x[0] + late,
        0.04 * x[0] - late - 3e7 * x[1] ** 2,
        3e7 * x[1] ** 2,
    ]


PI = math.pi
PROBLEMS: dict[str, Problem] = {
    "ddetst_a1": Problem("DDETST A1", _mackey_glass(10), (14.0,), (0.5,), 100.0, 250),
    "ddetst_a2": Problem(
        "DDETST A2, Wheldon's leukaemia",
        lambda xp, t, x, z: [
            1.1 / (1 + math.sqrt(10) * z[0][0] ** 1.25) - 10 * x[0] / (1 + 40 * x[1]),
            100 * x[0] / (1 + 40 * x[1]) - 2.43 * x[1],
        ],
        (20.0,),
        (1.05767027 / 3, 1.030713491 / 3),
        100.0,
        500,
    ),
    "ddetst_b1": Problem(
        "DDETST B1",
        lambda xp, t, x, z: [1 - z[0][0]],
        lambda xp, t, x: [t - xp.exp(1 - 1 / t)],
        lambda xp, t: [xp.log(t)],
        10.0,
        begin=0.1,
        exact=math.log,
    ),
    "ddetst_b2": Problem(
        "DDETST B2",
        lambda xp, t, x, z: [xp.where(z[0][0] < 0, 1 - x[0], -1 - x[0])],
        lambda xp, t, x: [t / 2],
        (1.0,),
        2 * math.log(66),
        jumps=(2 * math.log(2), 2 * math.log(6)),
        exact=_switched,
    ),
    "ddetst_c1": Problem(
        "DDETST C1",
        lambda xp, t, x, z: [-2 * z[0][0] * (1 - x[0] ** 2)],
        lambda xp, t, x: [1 + xp.abs(x[0])],
        (0.5,),
        10.0,
    ),
    "ddetst_c2": Problem(
        "DDETST C2",
        lambda xp, t, x, z: [
            -2 * z[0][0],
            (xp.abs(z[0][0]) - xp.abs(x[0])) / (1 + xp.abs(z[0][0])),
        ],
        lambda xp, t, x: [x[1]],
        (1.0, 0.5),
        10.0,
    ),
    "ddetst_d1": Problem(
        "DDETST D1",
        lambda xp, t, x, z: [x[1], -z[0][1] * x[1] ** 2 * xp.exp(1 - x[1])],
        lambda xp, t, x: [t - xp.exp(1 - x[1])],
        lambda xp, t: [xp.log(t), 1 / t],
        5.0,
        begin=0.1,
        exact=lambda t: np.array([math.log(t), 1 / t]),
    ),
    "ddepl_1delay": Problem(
        "DDEPL 1delay, a jump at the start",
        lambda xp, t, x, z: [-z[0][0]],
        (1.0,),
        (0.0,),
        10.0,
        110,
        start=(1.0,),
        exact=_polynomial,
    ),
    "ddepl_1delay_long": Problem(
        "DDEPL 1delay_long",
        lambda xp, t, x, z: [x[0] - z[0][0]],
        (0.2,),
        (0.0,),
        10.0,
        510,
        start=(1.0,),
    ),
    "ddepl_2delays": Problem(
        "DDEPL 2delays",
        lambda xp, t, x, z: [-z[0][0] - z[1][0]],
        (1 / 3, 1 / 5),
        (0.0,),
        1.0,
        70,
        start=(1.0,),
    ),
    "ddepl_2delays_long": Problem(
        "DDEPL 2delays_long",
        lambda xp, t, x, z: [-z[0][0] - z[1][0]],
        (1 / 3, 1 / 5),
        (0.0,),
        10.0,
        510,
        start=(1.0,),
    ),
    "ddepl_quorum": Problem(
        "DDEPL qs, Buddrus-Schiemann et al. (2014)",
        _quorum,
        (2.0,),
        (1.0, 8.4e8, 2.5e-9, 7.6e-8, 5e-15),
        45.0,
        610,
    ),
    "hnw_17_1": Problem(
        "HNW II.17 (17.1)",
        lambda xp, t, x, z: [-z[0][0]],
        (1.0,),
        (1.0,),
        5.0,
        70,
    ),
    "ddeint_sine": Problem(
        "ddeint, tutorial",
        lambda xp, t, x, z: [z[0][0]],
        (1.5 * PI,),
        lambda xp, t: [xp.sin(t)],
        20.0,
        170,
        exact=math.sin,
    ),
    "ddeint_lotka": Problem(
        "ddeint, delayed Lotka–Volterra",
        lambda xp, t, x, z: [0.5 * x[0] * (1 - z[0][1]), -0.5 * x[1] * (1 - z[0][0])],
        (0.2,),
        (1.0, 2.0),
        20.0,
        1010,
    ),
    "bellen_cosine": Problem(
        "Bellen & Zennaro (2003)",
        lambda xp, t, x, z: [-z[0][0]],
        (PI / 2,),
        lambda xp, t: [xp.cos(t)],
        10.0,
        110,
        exact=math.cos,
    ),
    "bellen_forced": Problem(
        "Bellen & Zennaro (2003), test equation",
        lambda xp, t, x, z: [
            -3 * x[0] + 2 * z[0][0] + 3 * xp.sin(t) - 2 * xp.sin(t - 1) + xp.cos(t)
        ],
        (1.0,),
        lambda xp, t: [xp.sin(t)],
        10.0,
        110,
        exact=math.sin,
    ),
    "hnw_epidemic": Problem(
        "HNW II.17, Kermack–McKendrick",
        lambda xp, t, x, z: [
            -x[0] * z[0][1] + z[1][1],
            x[0] * z[0][1] - x[1],
            x[1] - z[1][1],
        ],
        (1.0, 10.0),
        (5.0, 0.1, 1.0),
        40.0,
        410,
    ),
    "hnw_enzyme": Problem(
        "HNW II.17, enzyme kinetics of Okamoto & Hayashi",
        lambda xp, t, x, z: [
            10.5 - x[0] / (1 + 0.0005 * z[0][3] ** 3),
            x[0] / (1 + 0.0005 * z[0][3] ** 3) - x[1],
            x[1] - x[2],
            x[2] - 0.5 * x[3],
        ],
        (4.0,),
        (60.0, 10.0, 10.0, 20.0),
        40.0,
        210,
    ),
    "hnw_logistic": Problem(
        "HNW II.17, Hutchinson",
        lambda xp, t, x, z: [(1.6 - z[0][0]) * x[0]],
        (1.0,),
        (0.1,),
        15.0,
        230,
    ),
    "hnw_immunology": Problem(
        "after HNW II.17, Marchuk's immunology",
        _marchuk,
        (0.5,),
        lambda xp, t: [1e-6 * (0 * t + 1), 1.0, 1.0, 0.0],
        6.0,
        130,
    ),
    "dde23_wille_baker": Problem(
        "DDE23 example 1, Wille & Baker",
        lambda xp, t, x, z: [z[0][0], z[0][0] + z[1][1], x[1]],
        (1.0, 0.2),
        (1.0, 1.0, 1.0),
        5.0,
        310,
    ),
    "dde23_jump": Problem(
        "after DDE23 example 2, Ottesen: a parameter that jumps",
        lambda xp, t, x, z: [
            -x[0] * xp.where(xp.asarray(t) < 6.0, 1.05, 0.84) + 2 / (1 + z[0][0] ** 7)
        ],
        (4.0,),
        (0.9,),
        16.0,
        210,
        jumps=(6.0,),
    ),
    "dde23_predator": Problem(
        "after May: predator and prey in the DDE23 tutorial",
        lambda xp, t, x, z: [
            0.25 * x[0] * (1 - x[0] / 200) - 0.01 * x[0] * x[1],
            -x[1] + 0.01 * z[0][0] * z[0][1],
        ],
        (7.0,),
        (80.0, 30.0),
        60.0,
        310,
    ),
    "wright": Problem(
        "Wright, J. Reine Angew. Math. 194 (1955)",
        lambda xp, t, x, z: [-1.5 * z[0][0] * (1 + x[0])],
        (1.0,),
        lambda xp, t: [-(t) / 2],
        10.0,
        230,
    ),
    "mackey_glass_17": Problem(
        "Mackey & Glass, Science 197 (1977)", _mackey_glass(10), (17.0,), (1.2,), 100.0, 250
    ),
    "nicholson": Problem(
        "after Gurney, Blythe & Nisbet, Nature 287 (1980)",
        lambda xp, t, x, z: [8 * z[0][0] * xp.exp(-z[0][0]) - x[0]],
        (2.0,),
        (0.5,),
        20.0,
        310,
    ),
    "ikeda": Problem(
        "after Ikeda & Matsumoto, Physica D 29 (1987)",
        lambda xp, t, x, z: [-x[0] + 2.5 * xp.sin(z[0][0])],
        (2.0,),
        (0.3,),
        20.0,
        310,
    ),
    "suarez_schopf": Problem(
        "Suarez & Schopf, J. Atmos. Sci. 45 (1988)",
        lambda xp, t, x, z: [x[0] - x[0] ** 3 - 0.75 * z[0][0]],
        (6.0,),
        (0.1,),
        40.0,
        310,
    ),
    "tziperman": Problem(
        "after Tziperman et al., Science 264 (1994)",
        lambda xp, t, x, z: [
            xp.tanh(2 * z[0][0]) - 0.8 * xp.tanh(2 * z[1][0]) + 0.5 * xp.cos(2 * PI * t)
        ],
        (0.17, 0.71),
        (0.4,),
        4.0,
        310,
    ),
    "repressed_gene": Problem(
        "after Monk, Curr. Biol. 13 (2003), Hes1",
        lambda xp, t, x, z: [
            1 / (1 + (z[0][1] / 100) ** 5) - 0.03 * x[0],
            x[0] - 0.03 * x[1],
        ],
        (18.5,),
        (3.0, 100.0),
        200.0,
        410,
    ),
    "houseflies": Problem(
        "Taylor & Sokal, Ecology 57 (1976)",
        lambda xp, t, x, z: [-0.147 * x[0] + 1.81 * z[0][0] * (0.5107 - 0.000409 * z[0][0])],
        (5.0,),
        (160.0,),
        30.0,
        210,
    ),
    "jitcdde_roessler": Problem(
        "JiTCDDE, two Rössler oscillators coupled with a delay",
        lambda xp, t, x, z: [
            -0.88 * x[1] - x[2] + 0.25 * (z[0][3] - x[0]),
            0.88 * x[0] + 0.165 * x[1],
            0.2 + x[2] * (x[0] - 10),
            -1.12 * x[4] - x[5] + 0.25 * (z[0][0] - x[3]),
            1.12 * x[3] + 0.165 * x[4],
            0.2 + x[5] * (x[3] - 10),
        ],
        (4.5,),
        (0.5, 0.1, 0.0, 1.0, 0.2, 0.0),
        10.0,
        610,
    ),
    "stiff_relaxation": Problem(
        "Prothero & Robinson with a delay",
        lambda xp, t, x, z: [-1000 * (x[0] - xp.cos(t)) + z[0][0] - xp.cos(t - 1) - xp.sin(t)],
        (1.0,),
        lambda xp, t: [xp.cos(t)],
        5.0,
        exact=math.cos,
    ),
    "radar5_oregonator": Problem(
        "RADAR5, oregonator of Epstein & Luo (1991)", _oregonator, (0.15,), (1e-10, 1e-5), 100.5
    ),
    "radar5_robertson": Problem("RADAR5, Robertson", _robertson, (0.01,), (1.0, 0.0, 0.0), 1.0),
}
