"""Named systems of biology: control loops of the body, neurons, populations, genes."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from .._types import RealScalarLike
from ._system import System, make, register, register_factory

_MACKEY_GLASS = "Mackey & Glass (1977), Science 197, 287-289"
_blood_cells = functools.partial(
    register, source=_MACKEY_GLASS, drivers={"x": "x x@1"}, history=(1.2,), sigma=0.002, dt=0.1,
    transient=500.0,
)  # fmt: skip


@_blood_cells("mackey_glass", lags={"tau": 17.0})
@_blood_cells("mackey_glass_23", lags={"tau": 23.0})
@_blood_cells("mackey_glass_30", lags={"tau": 30.0})
def mackey_glass(t, x, lagged, *, beta=0.2, gamma=0.1, n=10.0):
    """The Mackey-Glass equation for the density of circulating white blood cells.

    x' = β x(t−τ) / (1 + x(t−τ)ⁿ) − γ x, with β = 0.2, γ = 0.1 per day, n = 10.

    Cells are released into the blood in proportion to a count that is τ days old. x in units of the
    density at which production turns down, time in days. Chaotic at τ = 17, 23 and 30; the
    dimension of the attractor grows with τ.
    """
    late = lagged[0]
    return beta * late / (1 + late**n) - gamma * x


@register(
    "cheyne_stokes", source=_MACKEY_GLASS, lags={"tau": 0.25}, drivers={"x": "x x@1"},
    history=(39.0,), sigma=0.05, dt=0.0025, transient=20.0,
)  # fmt: skip
def cheyne_stokes(
    t, x, lagged, *, production=6.0, removal=6.0 / 280, ventilation=80.0, threshold=41.53, n=62.62
):
    """Carbon dioxide in the blood with a delayed breathing response (Cheyne-Stokes respiration).

    x' = λ − α x V(x(t−τ)), V(x) = V_m xⁿ / (θⁿ + xⁿ), with λ = 6 mmHg/min, V_m = 80 L/min,
    α = 0.0214 per L, τ = 0.25 min, and n = 62.6, θ = 41.5 mmHg.

    x is the arterial pressure of CO₂ in mmHg, time in minutes. n and θ are chosen so that at
    x = 40 mmHg the ventilation is 7 L/min and grows by 10 L/min per mmHg, as in patients. It grows
    by 4 in healthy reflexes, and the steady state is unstable above 7.44. Heavy and very weak
    breathing alternate with a period of about a minute.
    """
    late = (lagged[0] / threshold) ** n
    return production - removal * x * ventilation * late / (1 + late)


@register(
    "pupil_reflex", source="Longtin, Milton, Bos & Mackey (1990), Phys. Rev. A 41, 6992-7005",
    lags={"tau": 0.3}, drivers={"x": "x x@1"}, history=(40.0,), sigma=0.5, dt=0.003,
    transient=10.0,
)  # fmt: skip
def pupil_reflex(t, x, lagged, *, alpha=3.21, c=200.0, theta=50.0, n=10.0):
    """The area of the pupil under delayed negative feedback.

    x' = c / (1 + (x(t−τ)/θ)ⁿ) − α x, with c = 200 mm²/s, θ = 50 mm², α = 3.21 per second,
    τ = 0.3 s, and n = 10.

    Light on the retina closes the pupil after the response time of nerve and muscle. x is in mm²,
    time in seconds. With the gain n = 10 of an optically amplified loop, the pupil cycles about
    once a second.
    """
    return c / (1 + (lagged[0] / theta) ** n) - alpha * x


@register(
    "testosterone", source="Smith (1980), Bull. Math. Biol. 42, 57-78, with a delay",
    lags={"tau": 1.0}, drivers={"R": "R T@1", "L": "R L", "T": "L T"}, history=(1.0, 1.0, 1.0),
    sigma=0.02, dt=0.01, transient=100.0,
)  # fmt: skip
def testosterone(t, x, lagged, *, r0=10.0, k=2.0, n=6.0, g1=1.0, g2=1.0, d1=1.0, d2=1.0, d3=1.0):
    """Release of testosterone: a chain of three hormones with delayed negative feedback.

    R' = r₀ / (1 + (T(t−τ)/K)ⁿ) − d₁ R, L' = g₁ R − d₂ L, T' = g₂ L − d₃ T, with r₀ = 10,
    K = 2, n = 6, g₁ = g₂ = 1, d₁ = d₂ = d₃ = 1 per hour and τ = 1 h.

    R, L and T are releasing hormone (hypothalamus), luteinising hormone (pituitary) and
    testosterone, all in arbitrary units, time in hours. The delay represents transport in the
    blood. The rates are rounded, not measured. Pulses occur every few hours.
    """
    r, luteinising, hormone = x
    released = r0 / (1 + (lagged[0, 2] / k) ** n) - d1 * r
    return jnp.stack([released, g1 * r - d2 * luteinising, g2 * luteinising - d3 * hormone])


@register(
    "wilson_cowan", source="Coombes & Laing (2009), Phil. Trans. R. Soc. A 367, 1117-1129",
    lags={"tau1": 1.0, "tau2": 1.4}, drivers={"u": "u u@1 v@2", "v": "v u@2"}, history=(0.3, 0.1),
    sigma=0.01, dt=0.005, transient=50.0,
)  # fmt: skip
def wilson_cowan(
    t, x, lagged, *, a=-1.0, b=-0.4, c=-1.0, theta_u=0.7, theta_v=0.5, beta=60.0, alpha=0.5
):
    """Two mutually inhibiting populations of neurons, one self-inhibiting, with two delays.

    u' = −u + f(θ_u + a u(t−τ₁) + b v(t−τ₂)), v' = α (−v + f(θ_v + c u(t−τ₂))),
    f(z) = 1 / (1 + exp(−β z)), with a = −1, b = −0.4, c = −1, θ_u = 0.7, θ_v = 0.5, α = 0.5,
    β = 60, τ₁ = 1 and τ₂ = 1.4.

    u and v are fractions of active cells, time is in units of the decay time of u, and v is slower.
    Signals take τ₁ within u and τ₂ between the populations. In the original, v also inhibits
    itself. Periodic.
    """
    u, v = x
    u_short, u_long, v_long = lagged[0, 0], lagged[1, 0], lagged[1, 1]
    u_rate = -u + jax.nn.sigmoid(beta * (theta_u + a * u_short + b * v_long))
    v_rate = alpha * (-v + jax.nn.sigmoid(beta * (theta_v + c * u_long)))
    return jnp.stack([u_rate, v_rate])


@register(
    "hopfield_pair", source="Lu (2002), Phys. Lett. A 298, 109-116", lags={"tau": 1.0},
    drivers={"x1": "x1 x2 x1@1 x2@1", "x2": "x1 x2 x1@1 x2@1"}, history=(0.4, 0.6),
    sigma=(0.004, 0.02), dt=0.005, sampling_step=0.1, transient=100.0,
)  # fmt: skip
def hopfield_pair(
    t, x, lagged, *, instantaneous=((2.0, -0.1), (-5.0, 3.0)), delayed=((-1.5, -0.1), (-0.2, -2.5))
):
    """Two Hopfield neurons with delayed synapses and a chaotic double scroll.

    x' = −x + A tanh(x) + B tanh(x(t−τ)), with A = [[2, −0.1], [−5, 3]],
    B = [[−1.5, −0.1], [−0.2, −2.5]] and τ = 1.

    x are potentials in units of the range of the firing rate, time in units of the decay time of a
    membrane. Every neuron drives every neuron, without delay and after τ.
    """
    return -x + instantaneous @ jnp.tanh(x) + delayed @ jnp.tanh(lagged[0])


def _hopfield_ring(t, x, lagged, *, weight):
    return -x + weight * jnp.tanh(jnp.roll(lagged[0], 1))


@register_factory(
    "hopfield_ring", source="Baldi & Atiya (1994), IEEE Trans. Neural Netw. 5, 612-621"
)
def hopfield_ring(*, size: int = 3, tau: RealScalarLike = 1.0) -> System:
    """A ring of neurons, each inhibited by its predecessor after a delay.

    xᵢ' = −xᵢ + w tanh(xᵢ₋₁(t−τ)), with w = −2, τ = 1. `size`, the number of neurons,
    must be odd: an even ring has stable rest states.

    x are potentials, time in units of the decay time of a membrane. Periodic.
    """
    if size < 1 or size % 2 == 0:
        raise ValueError(f"size must be odd and positive; got {size}.")
    graph = np.zeros((size, size, 2), bool)
    units = np.arange(size)
    graph[units, units, 0] = True
    graph[units, (units + 1) % size, 1] = True
    return make(
        _hopfield_ring, parameters={"weight": -2.0}, lags=(tau,), graph=graph,
        history=0.1 * (1 + units), sigma=0.02, dt=0.01, transient=100.0,
    )  # fmt: skip


@register(
    "fitzhugh_nagumo_pair", source="Dahlem et al. (2009), Int. J. Bifurcation Chaos 19, 745",
    lags={"tau": 3.0}, drivers={"u1": "u1 v1 u2@1", "v1": "u1", "u2": "u2 v2 u1@1", "v2": "u2"},
    history=(2.0, 0.0, -1.3, -0.57), sigma=(0.0, 0.02, 0.0, 0.02), dt=0.001, sampling_step=0.02,
    transient=20.0,
)  # fmt: skip
def fitzhugh_nagumo_pair(t, x, lagged, *, epsilon=0.01, a=1.3, coupling=0.5):
    """Two excitable FitzHugh-Nagumo neurons that keep each other spiking through the delay.

    ε uᵢ' = uᵢ − uᵢ³/3 − vᵢ + C (uⱼ(t−τ) − uᵢ), vᵢ' = uᵢ + a, with ε = 0.01, a = 1.3, C = 0.5,
    τ = 3.

    u is the membrane potential, v the recovery; dimensionless, time in units of the recovery. A
    single neuron rests. A spike of one neuron arrives at the other a time τ later, so the pair
    fires in antiphase with a period slightly above 2 τ. The history excites the first neuron. The
    rest state is also stable, and strong noise may end or start the firing. The noise acts on v.
    """
    u1, v1, u2, v2 = x
    u1_late, _, u2_late, _ = lagged[0]
    rate1 = (u1 - u1**3 / 3 - v1 + coupling * (u2_late - u1)) / epsilon
    rate2 = (u2 - u2**3 / 3 - v2 + coupling * (u1_late - u2)) / epsilon
    return jnp.stack([rate1, u1 + a, rate2, u2 + a])


@register(
    "hutchinson", source="Hutchinson (1948), Ann. N.Y. Acad. Sci. 50, 221-246", lags={"tau": 1.0},
    drivers={"N": "N N@1"}, history=(1.2,), sigma=0.005, dt=0.01, transient=50.0,
)  # fmt: skip
def hutchinson(t, x, lagged, *, r=1.8):
    """Delayed logistic growth.

    N' = r N (1 − N(t−τ)), with r = 1.8, τ = 1.

    Growth depends on the population a time τ ago. N is in units of the carrying capacity, time in
    units of the delay. Oscillates for r τ > π/2. N stays positive without noise. If noise takes it
    below zero, it diverges, so the default noise is small.
    """
    return r * x * (1 - lagged[0])


@register(
    "nicholson_blowflies", source="Gurney, Blythe & Nisbet (1980), Nature 287, 17-21",
    lags={"tau": 15.0}, drivers={"N": "N N@1"}, history=(2.0,), sigma=0.05, dt=0.05,
    transient=500.0,
)  # fmt: skip
def nicholson_blowflies(t, x, lagged, *, p=10.0, n0=1.0, delta=0.2):
    """Nicholson's blowflies: adults compete for the protein that they need to lay eggs.

    N' = P N(t−τ) exp(−N(t−τ)/N₀) − δ N, with P = 10 per day, δ = 0.2 per day, N₀ = 1 and
    τ = 15 days.

    N counts adults in units of the number at which the population reproduces fastest; eggs take τ
    days to mature. P τ and δ τ are rounded from the fit to Nicholson's data. Irregular cycles with
    double peaks, slightly longer than a month.
    """
    late = lagged[0]
    return p * late * jnp.exp(-late / n0) - delta * x


@register(
    "delayed_lotka_volterra",
    source="May (1973), Ecology 54, 315-325; Song & Wei (2005), J. Math. Anal. Appl. 301, 1-21",
    lags={"tau": 1.0}, drivers={"x": "x y x@1", "y": "y x"}, history=(0.8, 0.4), sigma=0.002,
    dt=0.002, sampling_step=0.1, transient=100.0,
)  # fmt: skip
def delayed_lotka_volterra(t, x, lagged, *, r1=2.5, r2=0.5, a11=1.0, a12=1.0, a21=1.0, a22=0.5):
    """Predator and prey, where the prey limits its own growth with a delay.

    x' = x (r₁ − a₁₁ x(t−τ) − a₁₂ y), y' = y (−r₂ + a₂₁ x − a₂₂ y), with r₁ = 2.5, r₂ = 0.5,
    a₁₁ = a₁₂ = a₂₁ = 1, a₂₂ = 0.5, τ = 1.

    Densities in units of the carrying capacity, time in units of the delay. The parameters are
    round numbers beyond the Hopf bifurcation. Additive noise must stay well below the smallest
    density, as in `hutchinson`.
    """
    prey, predator = x
    prey_rate = prey * (r1 - a11 * lagged[0, 0] - a12 * predator)
    return jnp.stack([prey_rate, predator * (-r2 + a21 * prey - a22 * predator)])


@register(
    "hes1", source="Monk (2003), Curr. Biol. 13, 1409-1413", lags={"tau": 18.5},
    drivers={"m": "m p@1", "p": "m p"}, history=(3.0, 100.0), sigma=(0.003, 0.05), dt=0.025,
    sampling_step=1.85, transient=5000.0,
)  # fmt: skip
def hes1(t, x, lagged, *, alpha_m=1.0, alpha_p=1.0, mu_m=0.03, mu_p=0.03, p0=100.0, n=5.0):
    """Hes1, a protein that represses its own gene.

    m' = α_m / (1 + (p(t−τ)/p₀)ⁿ) − μ_m m, p' = α_p m − μ_p p, with α_m = α_p = 1 and
    μ_m = μ_p = 0.03 per minute, p₀ = 100, n = 5, τ = 18.5 min.

    m and p are amounts of messenger RNA and protein. τ is the total time of transcription and
    translation. The period is just under two hours. The amplitude is small because the Hopf
    bifurcation is near.
    """
    messenger, protein = x
    messenger_rate = alpha_m / (1 + (lagged[0, 1] / p0) ** n) - mu_m * messenger
    return jnp.stack([messenger_rate, alpha_p * messenger - mu_p * protein])


@register(
    "p53_mdm2", source="Tiana, Jensen & Sneppen (2002), Eur. Phys. J. B 29, 135-140",
    lags={"tau": 1200.0}, drivers={"p": "p m", "m": "m p@1 m@1"}, history=(50.0, 50.0),
    sigma=(0.1, 0.03), dt=1.0, sampling_step=40.0, transient=30000.0,
)  # fmt: skip
def p53_mdm2(t, x, lagged, *, s=1.0, a=0.03, b=1e-4, c=1.0, d=0.01, k=12.0, kg=28.0):
    """p53 and Mdm2: a protein induces its own inhibitor, whose transcription takes time.

    p' = S − a q − b p, m' = c f(t−τ) / (k_g + f(t−τ)) − d m, with the complex
    q = ½ (p + m + k − √((p + m + k)² − 4 p m)) and the free p53 f = p − q, and with S = 1,
    a = 0.03, b = 0.0001, c = 1, d = 0.01 per second, k_g = 28, k = 12 and τ = 1200 s.

    p and m are numbers of p53 and Mdm2 molecules, time in seconds. k is the dissociation constant
    of the complex. DNA damage changes k, here from 180 in a healthy cell to 12, and p53 then
    pulses. Both variables drive m' at the delay, because f depends on both.
    """

    def bound(p, m):
        total = p + m + k
        return (total - jnp.sqrt(total**2 - 4 * p * m)) / 2

    p, m = x
    late = lagged[0, 0] - bound(*lagged[0])
    return jnp.stack([s - a * bound(p, m) - b * p, c * late / (kg + late) - d * m])
