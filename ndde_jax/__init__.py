"""Who drives whom, at which delay: sparse neural delay differential equations in JAX."""

from . import (
    check as check,
    gates as gates,
    measure as measure,
    metrics as metrics,
    models as models,
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
from .check._conditioning import (
    noise_covariance as noise_covariance,
    residual_memory as residual_memory,
)
from .check._data_findings import data_findings as data_findings
from .check._finding import Finding as Finding
from .check._finite_sample import finite_sample_bound as finite_sample_bound
from .check._identifiability import (
    IdentifiabilityReport as IdentifiabilityReport,
    identifiability_report as identifiability_report,
)
from .check._theory import (
    occupation_bound as occupation_bound,
    penalty_window as penalty_window,
    recovery_margin as recovery_margin,
)
from .check._verdict import Verdict as Verdict
from .fit._correction import correct_flow as correct_flow
from .fit._drift import Flow as Flow, fit_drift as fit_drift
from .fit._edges import edge_scores as edge_scores, window_graph as window_graph
from .fit._fit import FitConfig as FitConfig, FitResult as FitResult, Status as Status, fit as fit
from .fit._fixed import fit_graph as fit_graph
from .fit._flow import fit_flow as fit_flow
from .fit._many import fit_many as fit_many
from .fit._risk import risk as risk, window_loss as window_loss
from .fit.penalties import (
    AGL as AGL,
    CNODE as CNODE,
    L0NDDE as L0NDDE,
    NODE as NODE,
    AbstractMethod as AbstractMethod,
    PathReg as PathReg,
)
from .measure._certificate import OneFlip as OneFlip, one_flip_certificate as one_flip_certificate
from .measure._delays import DelayEstimates as DelayEstimates, refine_delays as refine_delays
from .measure._precedence import (
    Ranking as Ranking,
    precedence as precedence,
    rank_sources as rank_sources,
)
from .measure._rivals import (
    RivalEdges as RivalEdges,
    joint_strengths as joint_strengths,
    rival_edges as rival_edges,
)
from .measure._stability import EdgeStability as EdgeStability, edge_stability as edge_stability
from .measure._strength import (
    SignalStrengths as SignalStrengths,
    StrengthConfig as StrengthConfig,
    signal_strengths as signal_strengths,
)
from .measure._travel import TravelTime as TravelTime, travel_time as travel_time
from .models._confine import (
    Certificate as Certificate,
    RestoredDDE as RestoredDDE,
    confine as confine,
    damp as damp,
    drift_bound as drift_bound,
)
from .models._equations import equations as equations
from .models._model import AbstractDelayModel as AbstractDelayModel, NeuralDDE as NeuralDDE
from .models._networks import MaskedDrift as MaskedDrift
from .models._polynomials import PolynomialDrift as PolynomialDrift
from .models._splines import SplineDrift as SplineDrift
from .samples._examples import (
    Example as Example,
    KnownLink as KnownLink,
    example_names as example_names,
    load_example as load_example,
)
from .samples._noise import (
    end_ringing as end_ringing,
    high_frequency_roll_off as high_frequency_roll_off,
    noise_autocorrelation as noise_autocorrelation,
    noise_share as noise_share,
)
from .samples._prepare import prepare_samples as prepare_samples
from .samples._reading import read_samples as read_samples
from .samples._samples import Samples as Samples
from .samples._treatments import Treatment as Treatment
from .select._exhaustive import ExactGraph as ExactGraph, exact_graph as exact_graph
from .select._midpoint import midpoint_windows as midpoint_windows
from .select._moves import LagSearch as LagSearch, search_lags as search_lags
from .select._path import SweptGraphs as SweptGraphs, coefficient_path as coefficient_path
from .select._recover import recover as recover
from .select._select import search_graph as search_graph, select_graph as select_graph
from .select._spline_fit import fit_splines as fit_splines
from .select._splines import SplineGraph as SplineGraph, spline_graph as spline_graph
from .simulate import (
    DelaySolver as DelaySolver,
    DelayTerm as DelayTerm,
    GridBrownianPath as GridBrownianPath,
    Path as Path,
    PathStatus as PathStatus,
    rollout as rollout,
    solve_sdde as solve_sdde,
)
from .simulate._lyapunov import (
    LyapunovSpectrum as LyapunovSpectrum,
    kaplan_yorke_dimension as kaplan_yorke_dimension,
    lyapunov_spectrum as lyapunov_spectrum,
)
from .windows._choose_lags import choose_lags as choose_lags
from .windows._prior import PriorKnowledge as PriorKnowledge, prior_knowledge as prior_knowledge
from .windows._stack import stack_windows as stack_windows, unstack_windows as unstack_windows
from .windows._stencils import choose_scheme as choose_scheme
from .windows._thin import thin_windows as thin_windows
from .windows._windows import (
    Scaling as Scaling,
    Windows as Windows,
    lagged_windows as lagged_windows,
)


def __getattr__(name: str):
    # Read when asked for: finding it takes longer than most imports.
    if name == "__version__":
        from ._version import version

        return version()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
