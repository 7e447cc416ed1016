"""A peer: the same penalised objective in eager PyTorch, written in its usual style.

One network per target as batched matrices, hard-concrete gates on the inputs, Adam. Prints
microseconds per step on one thread: `python torch_l0.py TARGETS INPUTS [STEPS]`.
"""

import itertools
import math
import sys
import time

import torch


def main(n_targets: int, n_inputs: int, n_steps: int) -> None:
    """Time the step and print it."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    width, batch, draws, temperature = 8, 128, 3, 0.33
    x, y = torch.randn(1000, n_inputs), torch.randn(1000, n_targets)
    sizes = (n_inputs, width, width, 1)
    weights, biases = [], []
    for fan_in, fan_out in itertools.pairwise(sizes):
        scale = 1 / math.sqrt(fan_in)
        weights.append(torch.nn.Parameter(scale * torch.randn(n_targets, fan_in, fan_out)))
        biases.append(torch.nn.Parameter(torch.zeros(n_targets, 1, fan_out)))
    log_alpha = torch.nn.Parameter(torch.full((n_targets, n_inputs), 2.0))
    optimiser = torch.optim.Adam([*weights, *biases, log_alpha], lr=1e-3)
    shift = temperature * math.log(0.1 / 1.1)

    def step():
        rows = torch.randint(0, 1000, (batch,))
        u = torch.rand(draws, n_targets, n_inputs).clamp(1e-6, 1 - 1e-6)
        s = torch.sigmoid((torch.log(u) - torch.log1p(-u) + log_alpha) / temperature)
        gates = (1.2 * s - 0.1).clamp(0, 1)
        hidden = x[rows][None, None] * gates[:, :, None, :]  # [draw target window input]
        for i, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
            hidden = hidden @ weight + bias
            if i < 2:
                hidden = torch.tanh(hidden)
        risk = ((hidden[..., 0] - y[rows].T) ** 2).mean()
        loss = risk + 0.025 * torch.sigmoid(log_alpha - shift).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

    for _ in range(50):
        step()
    start = time.perf_counter()
    for _ in range(n_steps):
        step()
    print(1e6 * (time.perf_counter() - start) / n_steps)


if __name__ == "__main__":
    main(*map(int, (*sys.argv[1:3], *(sys.argv[3:] or ["500"]))))
