"""Families of drift functions, as values that own their settings."""

import equinox as eqx

from .._checks import check_flag, check_whole, refusal
from .._types import Checked


class AbstractFamily(eqx.Module):
    """A family of drift functions with its settings, all static."""


class Networks(AbstractFamily):
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


class Polynomials(AbstractFamily):
    """The family of sparse polynomials, of degree three in up to six inputs, two in up to twelve,
    else one.

    - `simple_numbers`: hold coefficients, in physical units, at whole numbers or at the size of
        another one, where that is likelier than not (False). For laws like x' = 10 (y − x). What is
        wrongly held is off by about its standard error, and what is rightly held is exact.
    """

    simple_numbers: Checked[bool] = eqx.field(static=True, default=False)

    def __check_init__(self):
        check_flag(self.simple_numbers, "simple_numbers")


class Best(AbstractFamily):
    """The better of polynomials and networks for each variable, by the Bayesian information
    criterion.

    - `networks`, `polynomials`: the two.
    """

    networks: Checked[Networks] = eqx.field(default_factory=Networks)
    polynomials: Checked[Polynomials] = eqx.field(default_factory=Polynomials)

    def __check_init__(self):
        for name, kind in (("networks", Networks), ("polynomials", Polynomials)):
            if not isinstance(getattr(self, name), kind):
                raise refusal(name, f"a {kind.__name__}", getattr(self, name))
