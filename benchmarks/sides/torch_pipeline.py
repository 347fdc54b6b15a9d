# SPDX-License-Identifier: MIT
"""PyTorch's side of `benchmarks.pipelines`: BATCH LAYERS SIDE COUNT STEPS.

Two processes of one thread each train a stack of dense layers in two stages under 1F1B
over gloo; the first prints samples a second, the median of the steps after the first
two.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from typing import Any


def stage_of(layers: int, side: int) -> Any:
    from torch import nn

    parts: list[Any] = []
    for _ in range(layers):
        parts += [nn.Linear(side, side), nn.ReLU()]
    return nn.Sequential(*parts)


def work(rank: int, arguments: list[int], port: int) -> None:
    import torch
    import torch.distributed as dist
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B

    batch, layers, side, count, steps = arguments
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=2)
    torch.manual_seed(0)
    module = stage_of(layers // 2, side)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.01)
    example = torch.zeros(batch, side)
    stage = PipelineStage(module, rank, 2, torch.device("cpu"), input_args=(example,))
    schedule = Schedule1F1B(stage, count, loss_fn=torch.nn.functional.mse_loss)
    x = torch.randn(batch * count, side)
    times = []
    for _ in range(steps + 2):
        dist.barrier()
        begin = time.perf_counter()
        optimizer.zero_grad()
        if rank == 0:
            schedule.step(x)
        else:
            schedule.step(target=x)
        optimizer.step()
        dist.barrier()
        times.append(time.perf_counter() - begin)
    if rank == 0:
        print(batch * count / statistics.median(times[2:]), flush=True)
    dist.destroy_process_group()


def main() -> None:
    import socket

    import torch.multiprocessing as processes

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    arguments = [int(text) for text in sys.argv[1:]]
    processes.spawn(work, args=(arguments, port), nprocs=2)


if __name__ == "__main__":
    main()
