"""Threads: one compiled function called from many, compiled in many, and none sees the other's hook."""
import concurrent.futures
import queue
import sys
import threading

import pytest
import torch

import jit
from jit.backends import BACKENDS
from tests.differential import Counting, tensors

X, = tensors(3, 4)
THREADS = 8


@pytest.fixture(params=["eager", "default"])
def backend(request):
    return request.param


def together(work, count=THREADS):
    """Run `work(i)` in threads that start at once; the results in order."""
    barrier = threading.Barrier(count)

    def run(i):
        barrier.wait()
        return work(i)
    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        return [f.result(timeout=120) for f in [pool.submit(run, i) for i in range(count)]]


def test_one_function_first_called_by_all(backend):
    f = jit.compile(lambda x: x.abs() * 2, backend=backend)
    assert all(torch.equal(got, X.abs() * 2) for got in together(lambda i: f(X)))


def test_one_function_is_compiled_once_for_all_threads(backend):
    counter = Counting(BACKENDS[backend])
    f = jit.compile(lambda x: x.abs() * 2, backend=counter)
    together(lambda i: [f(X) for _ in range(20)])
    counter.expect(1)
    together(lambda i: f(X[: 2 + i % 2]))
    counter.expect(2)  # X has three rows; what is compiled for two serves all sizes


def test_a_hit_does_not_wait_for_a_compilation():
    compiling, hit = threading.Event(), threading.Event()

    def backend(gm, example_inputs):
        if example_inputs[0].shape[0] == 2:
            compiling.set()
            assert hit.wait(60)
        return gm.forward
    f = jit.compile(lambda x: x.sin() * 2, backend=backend)
    f(X)
    slow = threading.Thread(target=f, args=(X[:2],))
    slow.start()
    assert compiling.wait(60) and torch.equal(f(X), X.sin() * 2)
    hit.set()
    slow.join(60)
    assert not slow.is_alive()


def test_different_inputs_in_each_thread(backend):
    f = jit.compile(lambda x, n: x * n + x.shape[0], backend=backend)

    def work(i):
        x = torch.ones(i + 1, 4)
        return all(torch.equal(f(x, i), x * i + (i + 1)) for _ in range(50))
    assert all(together(work))


def test_each_thread_compiles_its_own(backend):
    def work(i):
        def program(x):
            for _ in range(i):
                x = x + i
            return x
        return torch.equal(jit.compile(program, backend=backend)(X), program(X))
    assert all(together(work))


def test_grad_mode_is_of_the_thread(backend):
    x = X.clone().requires_grad_()
    f = jit.compile(lambda x: (x * 2, torch.is_grad_enabled()), backend=backend)

    def work(i):
        right = True
        for _ in range(50):
            with torch.set_grad_enabled(bool(i % 2)):
                y, mode = f(x)
            right = right and mode is bool(i % 2) and y.requires_grad is bool(i % 2)
        return right
    assert all(together(work))


def test_graph_breaks_in_threads(backend):
    def inner(x, i):
        x = x + i
        jit.graph_break()
        return x * 2

    def program(x, i):
        with torch.no_grad():
            return inner(x, i) - 1
    f = jit.compile(program, backend=backend)
    assert all(together(lambda i: all(torch.equal(f(X, i), (X + i) * 2 - 1) for _ in range(20))))


def test_other_threads_run_their_python_untouched(backend):
    stop, seen = threading.Event(), queue.Queue()

    def plain(n):
        return n if n < 2 else plain(n - 1) + plain(n - 2)

    def background():
        while not stop.is_set():
            seen.put(plain(12))
    thread = threading.Thread(target=background)
    thread.start()
    try:
        for i in range(5):
            def program(x, k=i):
                x = x + k
                jit.graph_break()
                return x * 2
            assert torch.equal(jit.compile(program, backend=backend)(X), (X + i) * 2)
    finally:
        stop.set()
        thread.join(60)
    assert not thread.is_alive() and set(seen.queue) <= {144}


def test_thread_started_inside_a_compiled_function(backend):
    def program(x):
        out = []
        thread = threading.Thread(target=lambda: out.append(x + 1))
        thread.start()
        thread.join()
        return out[0] * 2
    assert torch.equal(jit.compile(program, backend=backend)(X), (X + 1) * 2)


def test_lock_held_inside_a_compiled_function(backend):
    lock, total = threading.Lock(), [0]

    def program(x):
        with lock:
            total[0] += 1
        return x * 2
    f = jit.compile(program, backend=backend)
    together(lambda i: [f(X) for _ in range(25)])
    assert total[0] == 25 * THREADS and not lock.locked()


def test_exceptions_in_threads(backend):
    def program(x, i):
        y = x + i
        if i % 2:
            raise ValueError(i)
        return y
    f = jit.compile(program, backend=backend)

    def work(i):
        try:
            return torch.equal(f(X, i), X + i)
        except ValueError as e:
            return e.args == (i,)
    assert all(together(work))


def test_reset_while_others_call(backend):
    f = jit.compile(lambda x: x * 2 + 1, backend=backend)

    def work(i):
        for n in range(30):
            if i == 0:
                jit.reset()
            elif not torch.equal(f(X), X * 2 + 1):
                return False
        return True
    assert all(together(work))


def test_backward_in_another_thread(backend):
    f = jit.compile(lambda x: (x * x).sum(), backend=backend)
    x = X.clone().requires_grad_()
    y = f(x)
    thread = threading.Thread(target=y.backward)
    thread.start()
    thread.join(60)
    assert torch.equal(x.grad, 2 * X)


@pytest.mark.parametrize("interval", [1e-6])
def test_with_a_tiny_switch_interval(interval, backend):
    before = sys.getswitchinterval()
    sys.setswitchinterval(interval)
    try:
        f = jit.compile(lambda x, n: [x + i for i in range(n)][-1], backend=backend)
        assert all(together(lambda i: all(torch.equal(f(X, n), X + (n - 1)) for n in (1, 2, 3))))
    finally:
        sys.setswitchinterval(before)


def test_what_another_thread_changes_while_compiling():
    found, stop = [], threading.Event()

    def slowly(graph, inputs):
        found.append(1)  # as another thread may do
        return graph.forward

    other = threading.Thread(target=stop.wait)
    other.start()
    try:
        compiled = jit.compile(lambda x: (x + 1, len(found)), backend=slowly)
        assert [compiled(X)[1] for _ in range(3)] == [1, 2, 3]
    finally:
        stop.set()
        other.join()
