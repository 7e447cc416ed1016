"""Drift functions, and families of them as values that own their settings."""

import abc
from typing import TypeAlias

import equinox as eqx
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from .._checks import check_flag, check_kind, check_whole
from .._types import Checked

# Which inputs reach which target; all of them if it is None.
Mask: TypeAlias = Float[Array, "target lag source"] | Bool[Array, "target lag source"] | None


class AbstractDrift(eqx.Module):
    """A fitted drift in standardised units, which [`NeuralDDE`][ndde_jax.models.NeuralDDE] gives
    physical ones.

    A new one implements both methods. Its output must be bounded, as `output_range` says: far from
    the data, where nothing was fitted, a simulation is held together by that bound.
    """

    @abc.abstractmethod
    def __call__(
        self, history: Float[Array, "lag dim"], mask: Mask = None
    ) -> Float[Array, "target"]:
        """Return the rates of change for one history; the mask says which inputs reach which
        target, all of them by default.
        """

    @abc.abstractmethod
    def output_range(self) -> tuple[Float[Array, "target"], Float[Array, "target"]]:
        """Return middle and half-width of an interval that contains all outputs."""


class AbstractFamily(eqx.Module):
    """A family of drift functions of one's own with its settings, all static.

    A new one implements `fit`. [`fit_drift`][ndde_jax.fit_drift] calls it, corrects the rates by
    the motion of that drift during a step, and calls it again. The three of the library are fitted
    and corrected in one program, by [`fit_flow`][ndde_jax.fitting.fit_flow].
    """

    @abc.abstractmethod
    def fit(
        self,
        histories: Float[Array, "window lag dim"],
        rates: Float[Array, "window dim"],
        weight: Float[Array, "window"],
        mask: Bool[Array, "target lag source"],
        *,
        key: PRNGKeyArray,
    ) -> AbstractDrift:
        """Return the drift that describes rates best, in standardised units.

        **Arguments:**

        - `histories`, `rates`: inputs, and rates of change; zeros where a value is missing.
        - `weight`: how much each window counts; 0 where a value is missing.
        - `mask`: which inputs each target may read.
        - `key`: for families with random starts.
        """


class Networks(eqx.Module):
    """The family of tanh networks: per variable the average of several trained from random starts.

    - `members`: networks averaged; 4. One in ten starts ends in a poor minimum, and the gain beyond
        four is small.
    - `width`, `depth`: hidden units and layers; 8 and 2, the paper's.
    - `steps`: Levenberg–Marquardt steps of each; 40, after which the risk of noise-free chaotic
        systems is about 1e-6.
    """

    members: Checked[int] = eqx.field(static=True, default=4)
    width: Checked[int] = eqx.field(static=True, default=8)
    depth: Checked[int] = eqx.field(static=True, default=2)
    steps: Checked[int] = eqx.field(static=True, default=40)

    def __check_init__(self):
        for name in ("members", "width", "depth", "steps"):
            check_whole(getattr(self, name), name)


class Polynomials(eqx.Module):
    """The family of sparse polynomials, of degree three in up to six inputs, two in up to twelve,
    else one.

    The target with most inputs counts; where the graph is traced, as many as there are candidates,
    or the `max_inputs` of [`fit_flow`][ndde_jax.fitting.fit_flow].

    - `simple_numbers`: hold coefficients, in physical units, at whole numbers or at the size of
        another one, where that is likelier than not (False). For laws like x' = 10 (y − x). What is
        wrongly held is off by about its standard error, and what is rightly held is exact.
    """

    simple_numbers: Checked[bool] = eqx.field(static=True, default=False)

    def __check_init__(self):
        check_flag(self.simple_numbers, "simple_numbers")


class Best(eqx.Module):
    """The better of polynomials and networks for each variable, by the Bayesian information
    criterion.

    - `networks`, `polynomials`: the two.
    """

    networks: Checked[Networks] = eqx.field(default_factory=Networks)
    polynomials: Checked[Polynomials] = eqx.field(default_factory=Polynomials)

    def __check_init__(self):
        for name, kind in (("networks", Networks), ("polynomials", Polynomials)):
            check_kind(getattr(self, name), kind, name, f"a {kind.__name__}")


Family = Networks | Polynomials | Best | AbstractFamily
