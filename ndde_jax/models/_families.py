"""Drift functions, and families of them as values that own their settings."""

import abc
from typing import TypeAlias

import equinox as eqx
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from .._checks import check_flag, check_kind, check_whole
from .._types import Checked, Settings, setting

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


class AbstractFamily(Settings):
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


class Networks(Settings):
    """The family of tanh networks: per variable the average of several trained from random starts.

    - `members`: networks averaged; 4. One in ten starts ends in a poor minimum, and the gain beyond
        four is small.
    - `width`, `depth`: hidden units and layers; 8 and 2, the paper's.
    - `steps`: Levenberg–Marquardt steps of each; 40, after which the risk of noise-free chaotic
        systems is about 1e-6.
    """

    members: Checked[int] = setting(4, check_whole)
    width: Checked[int] = setting(8, check_whole)
    depth: Checked[int] = setting(2, check_whole)
    steps: Checked[int] = setting(40, check_whole)


class Polynomials(Settings):
    """The family of sparse polynomials, of degree three in up to six inputs, two in up to twelve,
    else one.

    The target with most inputs counts; where the graph is traced, as many as there are candidates,
    or the `max_inputs` of [`fit_flow`][ndde_jax.fitting.fit_flow].

    - `simple_numbers`: hold coefficients, in physical units, at whole numbers or at the size of
        another one, where that is likelier than not (False). For laws like x' = 10 (y − x). What is
        wrongly held is off by about its standard error, and what is rightly held is exact.
    """

    simple_numbers: Checked[bool] = setting(False, check_flag)


class Best(Settings):
    """The better of polynomials and networks for each variable, by the Bayesian information
    criterion.

    - `networks`, `polynomials`: the two.
    """

    networks: Checked[Networks] = setting(
        Networks, check_kind, kind=Networks, expected="a Networks"
    )
    polynomials: Checked[Polynomials] = setting(
        Polynomials, check_kind, kind=Polynomials, expected="a Polynomials"
    )


Family = Networks | Polynomials | Best | AbstractFamily
