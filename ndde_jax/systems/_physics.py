"""Named systems of physics and climate: lasers, machines, El Niño."""

import jax.numpy as jnp
import numpy as np

from .._types import RealScalarLike
from ._system import System, make, register, register_factory


@register(
    "ikeda_delay", source="Ikeda & Matsumoto (1987), Physica D 29, 223-235", lags={"tau": 2.0},
    drivers={"x": "x x@1"}, history=(0.1,), sigma=0.1, dt=0.002, transient=50.0,
)  # fmt: skip
def ikeda_delay(t, x, lagged, *, c=1.0, mu=-20.0, x0=0.0):
    """A passive optical ring resonator.

    x' = μ sin(x(t−τ) − x₀) − c x, with μ = −20, c = 1, x₀ = 0, τ = 2.

    x is the phase shift of the light in one round trip, in radians. Time is in units of the
    relaxation time of the medium, and τ is the round-trip time. Hyperchaotic, with many
    positive Lyapunov exponents.
    """
    return mu * jnp.sin(lagged[0] - x0) - c * x


@register(
    "lang_kobayashi",
    source="Lang & Kobayashi (1980), IEEE J. Quantum Electron. 16, 347-355; "
    "Heil et al. (2001), Phys. Rev. Lett. 87, 243901",
    lags={"tau": 70.0},
    drivers={
        "E_re": "E_re E_im N E_re@1 E_im@1",
        "E_im": "E_re E_im N E_re@1 E_im@1",
        "N": "E_re E_im N",
    },
    history=(1.0, 0.0, 0.0), sigma=(0.005, 0.005, 0.0), dt=0.02, sampling_step=1.0,
    transient=5000.0,
)  # fmt: skip
def lang_kobayashi(t, x, lagged, *, alpha=5.0, kappa=0.135, phase=0.5, pump=1.155, lifetime=1710.0):
    """A semiconductor laser with optical feedback from an external mirror.

    E' = (1 + iα) N E + κ exp(−iφ) E(t−τ), T N' = P − N − (1 + 2N) |E|², with α = 5, κ = 0.135,
    φ = 0.5, P = 1.155, T = 1710, τ = 70.

    E = E_re + i E_im is the slow amplitude of the field, N the excess of carriers, both scaled.
    Time is in photon lifetimes of about a picosecond, and τ is the round-trip time to the mirror.
    The noise acts on the field, like spontaneous emission.
    """
    re, im, carriers = x
    re_late, im_late, _ = lagged[0]
    cos, sin = jnp.cos(phase), jnp.sin(phase)
    re_rate = carriers * (re - alpha * im) + kappa * (cos * re_late + sin * im_late)
    im_rate = carriers * (alpha * re + im) + kappa * (cos * im_late - sin * re_late)
    pumped = (pump - carriers - (1 + 2 * carriers) * (re**2 + im**2)) / lifetime
    return jnp.stack([re_rate, im_rate, pumped])


@register(
    "optoelectronic", source="Kouomou et al. (2005), Phys. Rev. Lett. 95, 203903",
    lags={"tau": 1.0}, drivers={"x": "x y x@1", "y": "x"}, history=(0.5, 0.0), sigma=(0.05, 0.0),
    dt=0.002, transient=100.0,
)  # fmt: skip
def optoelectronic(t, x, lagged, *, beta=3.0, phase=-jnp.pi / 4, epsilon=0.05, delta=1.0):
    """An electro-optical oscillator: laser, modulator, fibre and a band-pass amplifier in a loop.

    ε x' = −x − y + β cos²(x(t−τ) + φ), y' = δ x, with β = 3, φ = −π/4, ε = 0.05, δ = 1, τ = 1.

    x is the voltage at the modulator in units that make it a phase, and y is its integral. Time is
    in units of the fibre's delay. ε is the short time of the filter and δ the inverse of its long
    time. The original device has ε near 0.001; the larger value keeps the chaos at a lower cost.
    """
    fast, slow = x
    light = jnp.cos(lagged[0, 0] + phase) ** 2
    return jnp.stack([(-fast - slow + beta * light) / epsilon, delta * fast])


def _sunflower(t, x, lagged, *, a, b, growth):
    rate = x[1]
    return jnp.stack([rate, -(a * rate + b * jnp.sin(lagged[0, 0])) / growth])


@register_factory(
    "sunflower",
    source="Israelsson & Johnsson (1967), Physiol. Plant. 20, 957-976; "
    "Somolinos (1978), Q. Appl. Math. 35, 465-478",
)
def sunflower(*, tau: RealScalarLike = 50.0) -> System:
    """Circling of a growing shoot that responds to gravity when the growth hormone has arrived.

    x'' = −(a/τ) x' − (b/τ) sin x(t−τ), with a = 4.8, b = 0.186 and τ = 50. a/τ is per minute
    and b/τ per minute squared.

    x is the angle between the shoot and the vertical in radians, v = x', time in minutes.
    Oscillates for τ above 34.8. The τ in the coefficients is the parameter `growth`, which
    `get(tau=…)` changes together with the lag.
    """
    return make(
        _sunflower, parameters={"a": 4.8, "b": 0.186, "growth": tau}, lags=(tau,),
        drivers={"x": "v", "v": "v x@1"}, history=(0.5, 0.0), sigma=(0.0, 0.0001), dt=0.1,
        sampling_step=2.0, transient=2000.0,
    )  # fmt: skip


@register(
    "stick_slip", source="after Das & Mallik (2006), J. Sound Vib. 297, 578-594",
    lags={"tau": 2.0}, drivers={"x": "v", "v": "x v x@1"}, history=(0.5, 0.0), sigma=(0.0, 0.02),
    dt=0.005, sampling_step=0.1, transient=100.0,
)  # fmt: skip
def stick_slip(
    t, x, lagged, *,
    damping=0.05, belt=0.5, static=1.0, kinetic=0.5, decay=0.5, width=0.05, gain=0.2,
):  # fmt: skip
    """A block held by a spring on a moving belt, with delayed feedback of its position.

    x'' = −x − 2ζ x' + μ(w) tanh(w/ε) + g (x(t−τ) − x), w = V − x',
    μ(w) = μ_k + (μ_s − μ_k) exp(−(w/w₀)²), with ζ = 0.05, V = 0.5, μ_s = 1, μ_k = 0.5, w₀ = 0.5,
    ε = 0.05, g = 0.2, τ = 2.

    x is in units of the stretch under the weight of the block, time in units of 1/ω of block and
    spring, v = x'. Friction decreases with speed, so the block sticks to the belt and slips back.
    The friction law is a smoothed Stribeck curve, with numbers that are not from the reference,
    which controls such a block by delayed feedback.
    """
    position, velocity = x
    slip = belt - velocity
    # Coulomb's sign function, smoothed so that trajectories need no event detection.
    friction = kinetic + (static - kinetic) * jnp.exp(-((slip / decay) ** 2))
    feedback = gain * (lagged[0, 0] - position)
    force = friction * jnp.tanh(slip / width)
    return jnp.stack([velocity, force - position - 2 * damping * velocity + feedback])


@register(
    "van_der_pol_delay", source="Atay (1998), J. Sound Vib. 218, 333-339", lags={"tau": 1.0},
    drivers={"x": "v", "v": "x v x@1"}, history=(0.5, 0.0), sigma=(0.0, 0.05), dt=0.01,
    transient=100.0,
)  # fmt: skip
def van_der_pol_delay(t, x, lagged, *, epsilon=0.5, gain=0.5):
    """Van der Pol's oscillator under delayed position feedback.

    x'' = ε (1 − x²) x' − x + ε k x(t−τ), with ε = 0.5, k = 0.5, τ = 1.

    x is in units of the amplitude at which damping changes sign, time in units of 1/ω, v = x'. The
    phase of the feedback determines whether it drives or brakes. Periodic.
    """
    position, velocity = x
    force = epsilon * (1 - position**2) * velocity - position + epsilon * gain * lagged[0, 0]
    return jnp.stack([velocity, force])


@register(
    "duffing_delay", source="Cantisán et al. (2020), Int. J. Bifurcation Chaos 30, 2030007",
    lags={"tau": 3.0}, drivers={"x": "v", "v": "x v x@1"}, history=(1.0, 0.0), sigma=(0.0, 0.02),
    dt=0.005, sampling_step=0.1, transient=200.0,
)  # fmt: skip
def duffing_delay(t, x, lagged, *, damping=0.1, alpha=-1.0, gamma=-0.5):
    """A bistable Duffing oscillator driven only by a delayed force.

    x'' = −μ x' − α x (1 − x²) − γ x(t−τ), with μ = 0.1, α = −1, γ = −0.5 and τ = 3.

    x is in units of half the distance between the wells, time in units of the inverse frequency at
    the barrier, v = x'. Without the delay, the oscillator comes to rest. The damping of the
    reference, 0.01, is so weak that noise or a coarse step moves the oscillator to a much larger
    cycle.
    """
    position, velocity = x
    force = -damping * velocity - alpha * position * (1 - position**2) - gamma * lagged[0, 0]
    return jnp.stack([velocity, force])


def _kuramoto(t, x, lagged, *, power, damping, feedback, coupling):
    n = power.shape[0]
    angle, rate = x[:n], x[n:]
    pulls = jnp.sin(angle[:, None] - angle[None, :])  # [source target]
    torque = power - damping * rate - feedback * lagged[0, n:] + jnp.sum(coupling * pulls, axis=0)
    return jnp.concatenate([rate, torque])


@register_factory(
    "kuramoto_inertia", source="Schäfer et al. (2016), Eur. Phys. J. Special Topics 225, 569-582"
)
def kuramoto_inertia(*, tau: RealScalarLike = 0.92) -> System:
    """Kuramoto oscillators with inertia: a power grid with delayed price response to frequency.

    θⱼ'' = Pⱼ − α θⱼ' − γ θⱼ'(t−τ) + Σᵢ Kᵢⱼ sin(θᵢ − θⱼ), with α = 0.2, γ = 0.25, τ = 0.92, a
    consumer P₁ = −3 connected to three producers P = 1, and K = 8 on the three lines.

    θ is in radians relative to the grid's reference phase, w = θ' in radians per unit of time,
    powers per inertia. Producers and consumers respond to the frequency a time τ ago. At this
    delay, the response amplifies oscillations of the producers against each other instead of
    damping them. The damping α, twice that of the reference, keeps the grid together. The mean
    angle is constant without noise and diffuses with noise; differences stay bounded. The
    noise acts on the rates.
    """
    size = 4
    coupling = np.zeros((size, size))
    coupling[0, 1:] = coupling[1:, 0] = 8.0
    graph = np.zeros((2 * size, 2 * size, 2), bool)
    units = np.arange(size)
    graph[size + units, units, 0] = True  # θ' = w
    graph[size + units, size + units, 0] = True  # damping
    graph[size + units, size + units, 1] = True  # delayed feedback
    graph[:size, size:, 0] = (coupling > 0) | np.eye(size, dtype=bool)
    return make(
        _kuramoto,
        parameters=dict(power=[-3.0, 1.0, 1.0, 1.0], damping=0.2, feedback=0.25, coupling=coupling),
        lags=(tau,), graph=graph,
        variables=[f"theta{i + 1}" for i in units] + [f"w{i + 1}" for i in units],
        history=(0.0, 0.1, 0.2, 0.3, 0.0, 0.0, 0.0, 0.0), sigma=(0.0,) * size + (0.02,) * size,
        dt=0.002, sampling_step=0.04, transient=500.0,
    )  # fmt: skip


@register(
    "suarez_schopf", source="Suarez & Schopf (1988), J. Atmos. Sci. 45, 3283-3287",
    lags={"tau": 6.0}, drivers={"T": "T T@1"}, history=(0.1,), sigma=0.02, dt=0.05,
    transient=100.0,
)  # fmt: skip
def suarez_schopf(t, x, lagged, *, alpha=0.75):
    """El Niño as a delayed oscillator.

    T' = T − T³ − α T(t−τ), with α = 0.75, τ = 6.

    T is the temperature anomaly of the eastern Pacific. A warm anomaly amplifies itself through the
    winds and sends Rossby waves west, which return as cooling Kelvin waves a time τ later. T is in
    units of the saturated anomaly, time in units of the growth time. Periodic.
    """
    return x - x**3 - alpha * lagged[0]


@register(
    "enso3_chain",
    source="Suarez & Schopf (1988), J. Atmos. Sci. 45, 3283-3287, three of them coupled",
    lags=(4.0, 5.0, 6.0), drivers={"x1": "x1 x3 x1@3", "x2": "x2 x1 x2@2", "x3": "x3 x2 x3@1"},
    history=(0.5, 0.2, -0.1), sigma=0.02, dt=0.05, transient=100.0,
)  # fmt: skip
def enso3_chain(t, x, lagged, *, alpha=0.75, coupling=0.1):
    """Three Suarez-Schopf oscillators with different delays, coupled in a closed chain.

    xᵢ' = xᵢ − xᵢ³ − α xᵢ(t−τᵢ) + k (xᵢ₋₁ − xᵢ), with α = 0.75, k = 0.1, τ = (6, 5, 4), and
    x₀ = x₃.

    Ocean regions with different wave transit times, each exchanging heat with one neighbour. Units
    as in `suarez_schopf`. `lags` are (4, 5, 6), ascending: the first belongs to x₃.
    """
    # Each variable reads its own lag; the shortest belongs to the last variable.
    own = jnp.stack([lagged[2, 0], lagged[1, 1], lagged[0, 2]])
    return x - x**3 - alpha * own + coupling * (jnp.roll(x, 1) - x)


_DAYS = 365.25 / 12  # per month


@register(
    "tziperman_enso", source="Tziperman et al. (1994), Science 264, 72-74",
    lags={"tau1": 1.15, "tau2": 5.75}, drivers={"h": "h@1 h@2"}, history=(1.0,), sigma=0.02,
    dt=0.046, sampling_step=0.23, transient=240.0,
)  # fmt: skip
def tziperman_enso(
    t, x, lagged, *, a=_DAYS / 180, b=_DAYS / 120, c=_DAYS / 138, kappa=2.0, omega=jnp.pi / 6
):
    """A seasonally forced El Niño with two wave delays.

    h' = a tanh(κ h(t−τ₁)) − b tanh(κ h(t−τ₂)) + c cos(ω t), with a = 1/180, b = 1/120 and c = 1/138
    per day, ω = 2π per year, τ₁ = 1.15 and τ₂ = 5.75 months, and κ = 2.

    h is the anomaly of the thermocline depth at the eastern boundary, in units of its saturation.
    Time is in months, and the rates are converted accordingly. Kelvin waves carry the effect of the
    winds τ₁ ago, reflected Rossby waves that of the winds τ₂ ago. The drift depends on the time of
    year, which the graph cannot show, and not on the present state. If b < a, the depth diverges.
    """
    kelvin, rossby = lagged
    return a * jnp.tanh(kappa * kelvin) - b * jnp.tanh(kappa * rossby) + c * jnp.cos(omega * t)


@register(
    "ghil_zaliapin_enso",
    source="Ghil, Zaliapin & Thompson (2008), Nonlin. Processes Geophys. 15, 417-433",
    lags={"tau": 0.6}, drivers={"T": "T@1"}, history=(1.0,), sigma=0.02, dt=0.005, transient=20.0,
)  # fmt: skip
def ghil_zaliapin_enso(t, x, lagged, *, kappa=10.0, b=1.0):
    """A seasonally forced El Niño with one wave delay.

    T' = −tanh(κ T(t−τ)) + b cos(2π t), with κ = 10, b = 1 and τ = 0.6.

    T is the temperature anomaly of the eastern Pacific, in units of the wind-driven change in a
    year. Time is in years. The drift depends on the time of year, which the graph cannot show, and
    not on the present state.
    """
    return b * jnp.cos(2 * jnp.pi * t) - jnp.tanh(kappa * lagged[0])


@register(
    "recharge_oscillator", source="Jin (1997), J. Atmos. Sci. 54, 811-829, with a wave delay",
    lags={"tau": 0.5}, drivers={"T": "T h", "h": "h T@1"}, history=(0.1, 0.0),
    sigma=(0.001, 0.0005), dt=0.01, sampling_step=0.25, transient=200.0,
)  # fmt: skip
def recharge_oscillator(
    t, x, lagged, *, mu=0.7, b0=2.5, gamma=0.75, r=0.25, alpha=0.125, c=1.0, e=3.0
):
    """A recharge oscillator of El Niño with a delayed response of the western Pacific to winds.

    T' = (γ b − c) T + γ h − e (h + b T)³, h' = −r h − α b T(t−τ), b = μ b₀, with γ = 0.75, c = 1,
    r = 0.25, α = 0.125, b₀ = 2.5, μ = 0.7, e = 3 and τ = 0.5.

    T is the temperature of the eastern Pacific in units of 7.5 °C, h the thermocline depth in the
    west in units of 150 m. Time is in units of 2 months, so that τ is the one month in which
    equatorial waves cross the basin. In the original, τ = 0. Periodic, with a cycle of 3.3 years.
    """
    temperature, depth = x
    b = b0 * mu
    warming = (gamma * b - c) * temperature + gamma * depth - e * (depth + b * temperature) ** 3
    return jnp.stack([warming, -r * depth - alpha * b * lagged[0, 0]])
