"""Difference schemes, and the rule that selects one from the noise in a trajectory."""

from typing import Any

import numpy as np

# Weights of X[k + offset] in dt * dX/dt(k).
STENCILS: dict[str, dict[int, float]] = {
    "euler": {0: -1.0, 1: 1.0},
    "central": {-1: -1 / 2, 1: 1 / 2},
    "central4": {-2: 1 / 12, -1: -8 / 12, 1: 8 / 12, 2: -1 / 12},
}
# Distance between the first and the last sample of the widest scheme.
WIDEST_STENCIL = max(max(stencil) - min(stencil) for stencil in STENCILS.values())
FORMULAS = {
    "euler": "(X[k+1] - X[k]) / Δ",
    "central": "(X[k+1] - X[k-1]) / 2Δ",
    "central4": "(X[k-2] - 8 X[k-1] + 8 X[k+1] - X[k+2]) / 12Δ",
    "midpoint": "(X[k+1] - X[k]) / Δ of states half a step later",
}

# The automatic rule, on the mean noise share over variables. On Euler-Maruyama paths of chaotic
# systems, refitted strengths rank edges better with "central4" or "central" up to a share of 0.02
# and with "euler" from 0.05 on.
SMOOTH_SHARE = 1e-3
NOISY_SHARE = 0.03
# Noise that falls off towards the sampling frequency was filtered. The samples are then smooth, not
# Markov states whose next increment a forward difference measures, and "central4" ranks edges much
# better, unless noise is nearly everything.
FILTERED_ROLL_OFF = 0.83
DOMINANT_SHARE = 0.7
# An oscillation at the sampling frequency, strongest at both ends, comes from resampling by Fourier
# transform. Central differences do not respond to that frequency; forward ones respond the most.
RINGING = 1.5
# Samples that "auto" then omits at either end, at most a twentieth of a series each. Central
# differences do not respond to ringing further inside.
RINGING_ENDS = 20


def choose_scheme(
    share: Any, roll_off: Any = None, ringing: Any = None, *, regular=True, delayed=False
) -> str:
    """Return the difference scheme that `scheme="auto"` selects, from the noise of each variable.

    Differences over more samples approximate the derivative better and add fewer two-step paths to
    the graph, but if white noise drives the system they measure the current velocity instead of the
    drift. They are therefore used if the increments are mostly signal, the noise was filtered
    before sampling, or the series rings at its ends. The mean share, the geometric mean of the
    roll-offs and the largest ringing decide.

    `delayed`: whether past states are candidates and
    [`midpoint_windows`][ndde_jax.select.midpoint_windows] an option. The noise in a central
    difference is also in the present state. Past states separate it from the signal there and thus
    appear as drivers.
    """
    return _decide(share, roll_off, ringing, regular, delayed)[0]


def rings(ringing: Any) -> bool:
    """Return whether any variable rings at both ends."""
    return ringing is not None and bool(np.any(np.asarray(ringing) > RINGING))


def reads_filtered(share: Any, roll_off: Any, ringing: Any) -> bool:
    """Return whether the noise was filtered before sampling or by resampling, as judged by
    `choose_scheme`.
    """
    typical = float(np.mean(np.asarray(share, float)))
    falls = _mean_fall(roll_off) < FILTERED_ROLL_OFF
    return rings(ringing) or (SMOOTH_SHARE <= typical < DOMINANT_SHARE and falls)


def _mean_fall(roll_off: Any) -> float:
    if roll_off is None or not np.all(np.asarray(roll_off) > 0):
        return np.nan
    return float(np.exp(np.mean(np.log(np.asarray(roll_off, float)))))


def _decide(
    share: Any, roll_off: Any, ringing: Any, regular: bool, delayed: bool
) -> tuple[str, str]:
    """Return the scheme and the reason for it."""
    if not regular:
        return "euler", "samples are not equally spaced"
    typical, fall = float(np.mean(np.asarray(share, float))), _mean_fall(roll_off)
    if typical < SMOOTH_SHARE:
        return "central4", f"a mean noise share of {typical:.2g} is below {SMOOTH_SHARE:g}"
    if rings(ringing):
        loudest = np.nanmax(np.asarray(ringing, float))
        return "central4", (
            f"both ends ring at the sampling frequency ({loudest:.1f} times the 97 % quantile of "
            "the series), like data resampled by Fourier transform; scheme 'auto' also omits up to "
            f"{RINGING_ENDS} samples there"
        )
    mixed = ", and central differences would mix up noise and signal"
    if typical < DOMINANT_SHARE and fall < FILTERED_ROLL_OFF:
        if delayed:
            return "midpoint", f"the increments are smooth (ratio {fall:.2f}){mixed}"
        return "central4", (
            f"the increments lose power towards the sampling frequency (ratio {fall:.2f}, below "
            f"{FILTERED_ROLL_OFF:g}), like filtered or averaged data"
        )
    if typical < NOISY_SHARE:
        if delayed:
            return "midpoint", f"a mean noise share of {typical:.2g} is low{mixed}"
        return "central", f"a mean noise share of {typical:.2g} is below {NOISY_SHARE:g}"
    return "euler", f"a mean noise share of {typical:.2g} says that white noise drives the system"


def explain_scheme(
    scheme: str, share: Any, roll_off: Any, ringing: Any, *, regular: bool, delayed: bool
) -> str:
    """Return sentences on a scheme: what it computes, what the automatic rule selects and why, and
    caveats.
    """
    # Midpoints are an option if past states are candidates or increments lose power, or on request.
    filtered = reads_filtered(share, roll_off, ringing)
    delayed = (delayed or filtered) and scheme == "midpoint"
    automatic, reason = _decide(share, roll_off, ringing, regular, delayed)
    shares = ", ".join("unknown" if np.isnan(s) else f"{s:.2g}" for s in share.tolist())
    parts = [
        f"Rates of change by scheme {scheme!r}, {FORMULAS[scheme]}. Estimated share of noise in "
        f"the variance of one-step increments, per variable: {shares}."
    ]
    forward = automatic == "euler" and scheme == "midpoint"
    agrees = ", as was done" if automatic == scheme or forward else ""
    automatic = "euler or midpoint" if forward else automatic
    parts.append(f"The automatic rule takes {automatic!r}{agrees}: {reason}.")
    if scheme == "euler" and automatic != "euler":
        parts.append(
            "With so little noise, the error of the forward difference, of order dt, can cause "
            "false edges; compare with a central scheme."
        )
    if scheme in ("central", "central4") and not np.mean(share) < SMOOTH_SHARE:
        parts.append(
            "If noise drives the system, a central difference estimates the current velocity, the "
            "mean of forward and backward drift, not the drift; compare with 'euler'."
        )
    return " ".join(parts)
