"""Torch's own table of operations (OpInfo), and the way through it: what all tests of the table do alike.

Torch's flags are others once this is loaded, so tests run it in a process of their own: see `apart`.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import multiprocessing
import random
import signal
import sys
import tempfile
import warnings
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import numpy
import torch
from torch.testing._internal.common_methods_invocations import op_db

import jit

DEVICE = "cpu"
PER_OPERATION = 120  # seconds


class TooLong(Exception):
    pass


def unseeded(op, *args, **kwargs):
    """In the place of torch's wrapper, which sets the seed in the middle of the operation: no compiled graph does."""
    return op(*args, **kwargs)


for module in list(sys.modules.values()):
    if module.__name__.startswith("torch.testing._internal") and hasattr(module, "wrapper_set_seed"):
        module.wrapper_set_seed = unseeded


def name_of(op):
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


OPERATIONS = {name_of(op): op for op in op_db}


def seed():
    torch.manual_seed(0)
    random.seed(0)
    numpy.random.seed(0)


def samples(op, dtype, count):
    """The first samples, with tensors that ask for gradients where the operation gives them any; none of a dtype that
    it does not take."""
    if dtype not in op.supported_dtypes(DEVICE):
        return []
    gradients = op.supports_autograd and dtype in op.supported_backward_dtypes(DEVICE)
    seed()
    return itertools.islice(op.sample_inputs(DEVICE, dtype, requires_grad=gradients), count)


@contextmanager
def limited():
    """Raises TooLong in what takes longer than an operation may."""

    def alarm(*args):
        raise TooLong(f"takes more than {PER_OPERATION} seconds")

    signal.signal(signal.SIGALRM, alarm)
    signal.alarm(PER_OPERATION)
    try:
        yield
    finally:
        signal.alarm(0)


def examined(verdicts, names, processes, folder):
    """(name, verdicts(name)), one after the other. `folder`: what is compiled is kept there."""
    if processes == 1:
        prepare(folder)
        yield from ((name, verdicts(name)) for name in names)
        return
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"), prepare, (folder,)) as pool:
        yield from zip(names, pool.map(verdicts, names, chunksize=8), strict=True)


def prepare(folder):
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    jit.config.cache_dir = folder


def arguments(samples):
    """A parser of what all the tables' commands take. `samples`: how many if nothing is said."""
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--samples", type=int, default=samples)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--report", type=Path)
    return parser


def run(options, verdicts, report, *settings):
    """Prints (name, its verdicts as data) line by line, and writes `report(all of them, samples)`.

    `verdicts(name, samples, *settings)`: a function of a module, for other processes to call."""
    found = {}
    each = functools.partial(_verdicts, verdicts, options.samples, settings)
    with tempfile.TemporaryDirectory(prefix="framejit-opinfo-") as folder:
        for name, answer in examined(each, options.names or list(OPERATIONS), options.processes, folder):
            found[name] = answer
            print(json.dumps([name, [asdict(verdict) for verdict in answer]]), flush=True)
    if options.report:
        options.report.write_text(report(found, options.samples))


def _verdicts(verdicts, count, settings, name):
    return verdicts(name, count, *settings)
