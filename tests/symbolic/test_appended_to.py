"""Containers that are only appended to may come in with any contents: no new graph for each length."""
import collections

import torch

import jit
from tests.differential import Counting, check, tensors

X = tensors(3)[0]


def run(program, container, calls=6):
    """Graphs compiled for so many calls that append to one container, which is in the end as eager code leaves it."""
    counter = Counting()
    compiled, theirs = jit.compile(program, backend=counter), type(container)(container)
    if isinstance(container, collections.deque):
        theirs = collections.deque(container, container.maxlen)
    for step in range(calls):
        assert torch.equal(compiled(X + step, container), program(X + step, theirs))
    assert [str(item) for item in container] == [str(item) for item in theirs]
    return counter


def appended(x, seen):
    seen.append(x.sum())
    seen += [1, x]
    seen.extend((2, 3))
    return x + 1


def read_later(x, seen):
    seen.append(4)
    return x + len(seen)


def test_one_graph():
    run(appended, []).expect(1)
    run(appended, collections.deque(maxlen=4)).expect(1)
    run(appended, collections.deque([1, 2])).expect(1)


def test_what_is_read_is_guarded():
    run(read_later, []).expect(6)
    run(read_later, collections.deque(maxlen=2)).expect(3)


def everything(x, seen, last):
    seen.append(x)
    last.append(seen)
    last.extend([x + 1, 5])
    seen.extend(last)
    found = list(last), seen[0], seen[-1], len(seen), list(seen)
    seen.pop()
    seen.append(seen)
    return found, x + 1


def in_two_places(x, seen):
    box = [seen, seen]
    box[0].append(x + 1)
    return box, box[1] is seen, len(box[1])


def test_reads_see_what_was_appended():
    check(everything, X, [1, 2], collections.deque([1, 2, 3], 3), graphs=1, recompiles=True)
    check(in_two_places, X, [1], graphs=1, recompiles=True)


def test_two_lists_and_one_list_twice():
    def program(x, a, b):
        a.append(x + 1)
        b.append(2)
        return x * 2

    one = []
    check(program, X, [], [5], changed=[(X, one, one), (X, [1], [])], graphs=1)
