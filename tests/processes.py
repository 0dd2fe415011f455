"""Trains in two processes over gloo, wrapped in several ways: `python -m tests.processes`. Gradients must be eager's.

A script of its own for `test_others`: processes fork best from one that has done nothing else."""

import os
import socket

import torch
import torch.distributed as dist
import torch.multiprocessing as processes
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import jit

WORLD = 2


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 3))


def sharded(module):
    for layer in (module[0], module[2], module):
        fully_shard(layer)
    return module


def step(model, x):
    return model(x).square().mean()


#: How the model is wrapped, and what calls it.
WAYS = {
    "eager DDP": (lambda: DistributedDataParallel(net()), step),
    "DDP of a compiled module": (lambda: DistributedDataParallel(jit.compile(net())), step),
    "compiled DDP": (lambda: jit.compile(DistributedDataParallel(net())), step),
    "DDP in a compiled function": (lambda: DistributedDataParallel(net()), jit.compile(step)),
    "compiled FSDP2": (lambda: jit.compile(sharded(net())), step),
    "FSDP2 in a compiled function": (lambda: sharded(net()), jit.compile(step)),
}


def train(model, step, rank, steps=3):
    """The losses of some steps, and the gradients as they are on all processes together."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    found = []
    for number in range(steps):
        x = torch.linspace(-1, 1, 24).view(4, 6) * (rank + 1) + number
        optimizer.zero_grad()
        loss = step(model, x)
        loss.backward()
        gradients = [parameter.grad for parameter in model.parameters()]
        whole = [one.full_tensor() if hasattr(one, "full_tensor") else one.clone() for one in gradients]
        found.append((loss.detach(), whole, [name.removeprefix("module.") for name, _ in model.named_parameters()]))
        optimizer.step()
    return found


def worker(rank, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=WORLD)
    results = {}
    for way, (make, call) in WAYS.items():
        before = jit.stats()["graphs"]
        results[way] = train(make(), call, rank)
        torch.testing.assert_close(results[way][-1][:2], results["eager DDP"][-1][:2])
        torch.testing.assert_close(results[way][0][:2], results["eager DDP"][0][:2])
        assert results[way][0][2] == results["eager DDP"][0][2]
        assert (jit.stats()["graphs"] > before) is (way != "eager DDP")
    dist.barrier()
    dist.destroy_process_group()
    if rank == 0:
        print(*results, sep="\n")


if __name__ == "__main__":
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    processes.start_processes(worker, (port,), WORLD, start_method="fork")
