"""Who drives whom, at which delay: sparse neural delay differential equations in JAX."""

from . import gates as gates, metrics as metrics, systems as systems
from ._batch import fit_many as fit_many
from ._conditioning import noise_covariance as noise_covariance, residual_memory as residual_memory
from ._confine import (
    Certificate as Certificate,
    RestoredDDE as RestoredDDE,
    confine as confine,
    damp as damp,
    drift_bound as drift_bound,
)
from ._delays import DelayEstimates as DelayEstimates, refine_delays as refine_delays
from ._discover import Discovery as Discovery, discover as discover
from ._drift import MaskedDrift as MaskedDrift
from ._equations import equations as equations
from ._exact import (
    ExactGraph as ExactGraph,
    OneFlip as OneFlip,
    exact_graph as exact_graph,
    one_flip_certificate as one_flip_certificate,
)
from ._examples import (
    Example as Example,
    KnownLink as KnownLink,
    example_names as example_names,
    load_example as load_example,
)
from ._fit import FitConfig as FitConfig, FitResult as FitResult, Status as Status, fit as fit
from ._flow import correct_flow as correct_flow, fit_flow as fit_flow
from ._graph import (
    edge_scores as edge_scores,
    summary_graph as summary_graph,
    window_graph as window_graph,
)
from ._identifiability import (
    Finding as Finding,
    IdentifiabilityReport as IdentifiabilityReport,
    identifiability_report as identifiability_report,
)
from ._lag_search import LagSearch as LagSearch, search_lags as search_lags
from ._lyapunov import (
    LyapunovSpectrum as LyapunovSpectrum,
    kaplan_yorke_dimension as kaplan_yorke_dimension,
    lyapunov_spectrum as lyapunov_spectrum,
)
from ._methods import (
    AGL as AGL,
    CNODE as CNODE,
    L0NDDE as L0NDDE,
    NODE as NODE,
    AbstractMethod as AbstractMethod,
    PathReg as PathReg,
)
from ._midpoint import midpoint_windows as midpoint_windows
from ._model import NeuralDDE as NeuralDDE
from ._noise import (
    end_ringing as end_ringing,
    high_frequency_roll_off as high_frequency_roll_off,
    noise_autocorrelation as noise_autocorrelation,
    noise_share as noise_share,
)
from ._path import CoefficientPath as CoefficientPath, path as path
from ._polynomial import PolynomialDrift as PolynomialDrift
from ._prior import PriorKnowledge as PriorKnowledge, prior_knowledge as prior_knowledge
from ._rivals import (
    RivalEdges as RivalEdges,
    joint_strengths as joint_strengths,
    rival_edges as rival_edges,
)
from ._schemes import choose_scheme as choose_scheme
from ._simulate import (
    DelaySolver as DelaySolver,
    DelayTerm as DelayTerm,
    GridBrownianPath as GridBrownianPath,
    Path as Path,
    PathStatus as PathStatus,
    rollout as rollout,
    solve_sdde as solve_sdde,
)
from ._spline import SplineGraph as SplineGraph, spline_graph as spline_graph
from ._stability import EdgeStability as EdgeStability, edge_stability as edge_stability
from ._strength import (
    SignalStrengths as SignalStrengths,
    StrengthConfig as StrengthConfig,
    fit_graph as fit_graph,
    search_graph as search_graph,
    select_graph as select_graph,
    signal_strengths as signal_strengths,
)
from ._theory import (
    finite_sample_bound as finite_sample_bound,
    occupation_bound as occupation_bound,
    penalty_window as penalty_window,
    recovery_margin as recovery_margin,
)
from ._thin import thin_windows as thin_windows
from ._windows import (
    Scaling as Scaling,
    Windows as Windows,
    lagged_windows as lagged_windows,
    stack_windows as stack_windows,
    unstack_windows as unstack_windows,
)
