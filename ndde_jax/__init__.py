"""Sparse neural delay differential equations in JAX: which variable drives which, at which delay.

The names that most users need are here. The rest is in namespaces, in the order of the data:
`samples`, `windows`, `regression`, `models`, `simulate`, `fitting`, `gates`, `select`, `measure`,
`assess`, `check`, `theory`, `use`; and `systems`, `metrics` and `plot`.
"""

from . import (
    assess as assess,
    check as check,
    fitting as fitting,
    gates as gates,
    measure as measure,
    metrics as metrics,
    models as models,
    regression as regression,
    samples as samples,
    select as select,
    simulate as simulate,
    systems as systems,
    theory as theory,
    use as use,
    windows as windows,
)
from ._axes import summary_graph as summary_graph
from ._discover import discover as discover
from ._discover_many import discover_many as discover_many
from ._discovery import Discovery as Discovery
from ._executors import Failed as Failed
from ._recipe import Recipe as Recipe
from .check._identifiability import identifiability_report as identifiability_report
from .check._sample_rules import data_findings as data_findings
from .fit._fit import (
    FitConfig as FitConfig,
    FitResult as FitResult,
    Status as Status,
    edge_scores as edge_scores,
    fit as fit,
    fit_many as fit_many,
    risk as risk,
    window_graph as window_graph,
    window_loss as window_loss,
)
from .fit._flow import fit_drift as fit_drift
from .fit.penalties import (
    AGL as AGL,
    CNODE as CNODE,
    L0NDDE as L0NDDE,
    NODE as NODE,
    PathReg as PathReg,
)
from .measure._strength import signal_strengths as signal_strengths
from .models._confine import confine as confine
from .models._model import AbstractDelayModel as AbstractDelayModel
from .models._polynomials import equations as equations
from .samples._chunks import Chunks as Chunks
from .samples._examples import load_example as load_example
from .samples._prepare import prepare_samples as prepare_samples
from .samples._reading import read_samples as read_samples
from .samples._samples import Samples as Samples
from .select._default import recover as recover
from .simulate._lyapunov import (
    kaplan_yorke_dimension as kaplan_yorke_dimension,
    lyapunov_spectrum as lyapunov_spectrum,
)
from .simulate._solve import solve_sdde as solve_sdde
from .windows._prior import prior_knowledge as prior_knowledge
from .windows._windows import (
    Windows as Windows,
    lagged_windows as lagged_windows,
    stack_windows as stack_windows,
)


def __getattr__(name: str):
    # Imported on first use: either takes longer than most imports.
    if name == "plot":
        import importlib

        return importlib.import_module(f"{__name__}.plot")
    if name == "__version__":
        from ._store import version

        return version()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
