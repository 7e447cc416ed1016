"""Drift functions, and families of them as objects that hold their settings."""

import abc
from typing import TypeAlias

import equinox as eqx
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from .._checks import check_flag, check_kind, check_whole
from .._types import Checked, Settings, setting

# Which inputs reach which target; None means all.
Mask: TypeAlias = Float[Array, "target lag source"] | Bool[Array, "target lag source"] | None


class AbstractDrift(eqx.Module):
    """A fitted drift in standardised units, which [`NeuralDDE`][ndde_jax.models.NeuralDDE] converts
    to physical units.

    Subclasses implement both methods. The output must be bounded, and `output_range` returns its
    bounds: far from the data, where nothing was fitted, only they keep a simulation from diverging.
    """

    @abc.abstractmethod
    def __call__(
        self, history: Float[Array, "lag dim"], mask: Mask = None
    ) -> Float[Array, "target"]:
        """Return the rates of change for one history. The mask selects the inputs that reach each
        target, by default all.
        """

    @abc.abstractmethod
    def output_range(self) -> tuple[Float[Array, "target"], Float[Array, "target"]]:
        """Return the midpoint and half-width of an interval that contains all outputs."""


class AbstractFamily(Settings):
    """The base class of user-defined families of drift functions; all settings are static.

    Subclasses implement `fit`. [`fit_drift`][ndde_jax.fit_drift] calls it, corrects the rates for
    the motion of the fitted drift during a step, and calls it again. The library's own families are
    fitted and corrected in one program, by [`fit_flow`][ndde_jax.fitting.fit_flow].
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
        """Return the drift that best describes the rates, in standardised units.

        **Arguments:**

        - `histories`, `rates`: inputs and rates of change; zeros where a value is missing.
        - `weight`: weight of each window; 0 where a value is missing.
        - `mask`: which inputs each target may use.
        - `key`: random key, for families with random starts.
        """


class Networks(Settings):
    """The family of tanh networks: for each variable, the average over several random starts.

    - `members`: number of networks averaged; 4. One start in ten ends in a poor minimum, and the
        gain beyond four is small.
    - `width`, `depth`: hidden units per layer and hidden layers; 8 and 2, as in the paper.
    - `steps`: Levenberg–Marquardt steps per network; 40, after which the risk on noise-free chaotic
        systems is about 1e-6.
    """

    members: Checked[int] = setting(4, check_whole)
    width: Checked[int] = setting(8, check_whole)
    depth: Checked[int] = setting(2, check_whole)
    steps: Checked[int] = setting(40, check_whole)


class Polynomials(Settings):
    """The family of sparse polynomials: of degree three in up to six inputs, two in up to twelve,
    otherwise one.

    The degree depends on the target with the most inputs; if the graph is traced, on the number of
    candidates or the `max_inputs` of [`fit_flow`][ndde_jax.fitting.fit_flow].

    - `simple_numbers`: fix coefficients, in physical units, at whole numbers or at the magnitude of
        another coefficient, where that is likelier than not (False). For laws like x' = 10 (y − x).
        A coefficient fixed wrongly is off by about its standard error; one fixed rightly is exact.
    """

    simple_numbers: Checked[bool] = setting(False, check_flag)


class Best(Settings):
    """The better of polynomials and networks for each variable, by the Bayesian information
    criterion.

    - `networks`, `polynomials`: the two families.
    """

    networks: Checked[Networks] = setting(
        Networks, check_kind, kind=Networks, expected="a Networks"
    )
    polynomials: Checked[Polynomials] = setting(
        Polynomials, check_kind, kind=Polynomials, expected="a Polynomials"
    )


Family = Networks | Polynomials | Best | AbstractFamily
