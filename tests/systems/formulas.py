"""The drifts of named systems, implemented again from their papers."""

import numpy as np


def exp_hill(x, k, n):
    return 1 / (1 + (x / k) ** n)


def mackey_glass_network(weights):
    def rates(t, x, late):
        size = len(x)
        out = np.empty(size)
        for j in range(size):
            beta = 0.18 + 0.04 * j / (size - 1)
            own = (1 - weights[:, j].sum()) * late[1, j] / (1 + late[1, j] ** 10)
            arriving = sum(weights[i, j] * late[0, i] / (1 + late[0, i] ** 10) for i in range(size))
            out[j] = beta * (own + arriving) - 0.1 * x[j]
        return out

    return rates


def p53(t, x, late):
    def bound(p, m):
        return 0.5 * (p + m + 12 - np.sqrt((p + m + 12) ** 2 - 4 * p * m))

    free = late[0, 0] - bound(late[0, 0], late[0, 1])
    return [1 - 0.03 * bound(*x) - 1e-4 * x[0], free / (28 + free) - 0.01 * x[1]]


def lang_kobayashi(t, x, late):
    field, carriers = x[0] + 1j * x[1], x[2]
    rate = (1 + 5j) * carriers * field
    rate += 0.135 * np.exp(-0.5j) * (late[0, 0] + 1j * late[0, 1])
    return [
        rate.real,
        rate.imag,
        (1.155 - carriers - (1 + 2 * carriers) * abs(field) ** 2) / 1710,
    ]


def kuramoto(t, x, late):
    theta, w = x[:4], x[4:]
    torque = np.array([-3.0, 1, 1, 1]) - 0.2 * w - 0.25 * late[0, 4:]
    for leaf in (1, 2, 3):
        torque[0] += 8 * np.sin(theta[leaf] - theta[0])
        torque[leaf] += 8 * np.sin(theta[0] - theta[leaf])
    return [*w, *torque]


def lorenz96(t, x, late):
    n = len(x)
    return [
        (x[(i + 1) % n] - x[i - 2]) * x[i - 1] - x[i] + 8 + 0.5 * (late[0, (i + n // 2) % n] - x[i])
        for i in range(n)
    ]


def lorenz63(t, x, late):
    x1, y1, z1, x2, y2, z2 = x
    return [
        10 * (y1 - x1),
        x1 * (28 - z1) - y1,
        x1 * y1 - 8 / 3 * z1,
        10 * (y2 - x2) + 2 * (late[0, 0] - x2),
        x2 * (35 - z2) - y2,
        x2 * y2 - 8 / 3 * z2,
    ]


def sigmoid(z):
    return 1 / (1 + np.exp(-60 * z))


def friction(w):
    return (0.5 + 0.5 * np.exp(-4 * w**2)) * np.tanh(20 * w)


def mackey_glass(t, x, late):
    return 0.2 * late[0] / (1 + late[0] ** 10) - 0.1 * x


RING = 0.2 * np.eye(5)[[1, 2, 3, 4, 0]]
STAR = np.zeros((5, 5))
STAR[0, 1:] = 0.2
DAYS = 365.25 / 12

# The equations once more in NumPy, numbers and all: f(t, x [dim], late [delay dim]).
FORMULAS = {
    "cheyne_stokes": lambda t, x, late: (
        6 - 6 / 280 * x * 80 * (1 - exp_hill(late[0], 41.53, 62.62))
    ),
    "delayed_lotka_volterra": lambda t, x, late: [
        x[0] * (2.5 - late[0, 0] - x[1]),
        x[1] * (-0.5 + x[0] - 0.5 * x[1]),
    ],
    "duffing_delay": lambda t, x, late: [
        x[1],
        -0.1 * x[1] + x[0] - x[0] ** 3 + 0.5 * late[0, 0],
    ],
    "enso3_chain": lambda t, x, late: [
        x[i] - x[i] ** 3 - 0.75 * late[2 - i, i] + 0.1 * (x[i - 1] - x[i]) for i in range(3)
    ],
    "fitzhugh_nagumo_pair": lambda t, x, late: [
        100 * (x[0] - x[0] ** 3 / 3 - x[1] + 0.5 * (late[0, 2] - x[0])),
        x[0] + 1.3,
        100 * (x[2] - x[2] ** 3 / 3 - x[3] + 0.5 * (late[0, 0] - x[2])),
        x[2] + 1.3,
    ],
    "ghil_zaliapin_enso": lambda t, x, late: -np.tanh(10 * late[0]) + np.cos(2 * np.pi * t),
    "hes1": lambda t, x, late: [
        exp_hill(late[0, 1], 100, 5) - 0.03 * x[0],
        x[0] - 0.03 * x[1],
    ],
    "hopfield_pair": lambda t, x, late: [
        -x[0]
        + 2 * np.tanh(x[0])
        - 0.1 * np.tanh(x[1])
        - 1.5 * np.tanh(late[0, 0])
        - 0.1 * np.tanh(late[0, 1]),
        -x[1]
        - 5 * np.tanh(x[0])
        + 3 * np.tanh(x[1])
        - 0.2 * np.tanh(late[0, 0])
        - 2.5 * np.tanh(late[0, 1]),
    ],
    "hopfield_ring": lambda t, x, late: [-x[i] - 2 * np.tanh(late[0, i - 1]) for i in range(3)],
    "hutchinson": lambda t, x, late: 1.8 * x * (1 - late[0]),
    "ikeda_delay": lambda t, x, late: -20 * np.sin(late[0]) - x,
    "kuramoto_inertia": kuramoto,
    "lang_kobayashi": lang_kobayashi,
    "linear_one_lag": lambda t, x, late: -x - 0.5 * late[0],
    "linear_several_lags": lambda t, x, late: [
        -1.5 * x[0] + 0.3 * x[1] - 0.8 * late[0, 1],
        -x[1] + 0.6 * late[1, 0] - 0.2 * late[1, 1],
    ],
    "lorenz63_delayed": lorenz63,
    "lorenz96_delayed": lorenz96,
    "mackey_glass": mackey_glass,
    "mackey_glass_23": mackey_glass,
    "mackey_glass_30": mackey_glass,
    "mackey_glass_ring": mackey_glass_network(RING),
    "mackey_glass_star": mackey_glass_network(STAR),
    "minus_delay": lambda t, x, late: -late[0],
    "nicholson_blowflies": lambda t, x, late: 10 * late[0] * np.exp(-late[0]) - 0.2 * x,
    "optoelectronic": lambda t, x, late: [
        20 * (-x[0] - x[1] + 3 * np.cos(late[0, 0] - np.pi / 4) ** 2),
        x[0],
    ],
    "p53_mdm2": p53,
    "piecewise_circuit": lambda t, x, late: -late[0] - (late[0] / 2.24) ** 3 + 3 * late[0] / 2.24,
    "pupil_reflex": lambda t, x, late: 200 * exp_hill(late[0], 50, 10) - 3.21 * x,
    "recharge_oscillator": lambda t, x, late: [
        0.3125 * x[0] + 0.75 * x[1] - 3 * (x[1] + 1.75 * x[0]) ** 3,
        -0.25 * x[1] - 0.21875 * late[0, 0],
    ],
    "scroll_delay": lambda t, x, late: -0.2 * late[0] + 0.2 * np.tanh(10 * late[0]),
    "sprott_delay": lambda t, x, late: np.sin(late[0]),
    "stick_slip": lambda t, x, late: [
        x[1],
        -x[0] - 0.1 * x[1] + friction(0.5 - x[1]) + 0.2 * (late[0, 0] - x[0]),
    ],
    "suarez_schopf": lambda t, x, late: x - x**3 - 0.75 * late[0],
    "sunflower": lambda t, x, late: [x[1], -0.096 * x[1] - 0.00372 * np.sin(late[0, 0])],
    "testosterone": lambda t, x, late: [
        10 * exp_hill(late[0, 2], 2, 6) - x[0],
        x[0] - x[1],
        x[1] - x[2],
    ],
    "two_lag_pair": lambda t, x, late: [
        -x[0] + np.tanh(1.5 * late[0, 1]) - 0.5 * late[1, 0],
        -x[1] - np.tanh(1.5 * late[1, 0]),
    ],
    "tziperman_enso": lambda t, x, late: (
        DAYS / 180 * np.tanh(2 * late[0])
        - DAYS / 120 * np.tanh(2 * late[1])
        + DAYS / 138 * np.cos(2 * np.pi * t / 12)
    ),
    "van_der_pol_delay": lambda t, x, late: [
        x[1],
        0.5 * (1 - x[0] ** 2) * x[1] - x[0] + 0.25 * late[0, 0],
    ],
    "voss_delay": lambda t, x, late: (
        -3.24 * x - 10.44 * late[0] ** 3 - 13.95 * late[0] ** 2 - 3.63 * late[0] + 0.85
    ),
    "wilson_cowan": lambda t, x, late: [
        -x[0] + sigmoid(0.7 - late[0, 0] - 0.4 * late[1, 1]),
        0.5 * (-x[1] + sigmoid(0.5 - late[1, 0])),
    ],
}
