"""What ends an iterator: nothing more, or StopIteration with a value, which some iterators pass on and some do not."""
import itertools
import operator

import pytest
import torch

from tests.differential import check

LINES = """
next(itertools.takewhile(lambda v: True, gen(0)))
next(itertools.takewhile(lambda v: False, gen(1)))
next(itertools.dropwhile(lambda v: False, gen(0)))
next(itertools.dropwhile(lambda v: True, gen(1)))
next(itertools.filterfalse(lambda v: True, gen(1)))
next(filter(None, gen(1)))
next(filter(None, gen(0)))
next(map(str, gen(0)))
next(map(operator.add, gen(0), gen(3)))
next(map(operator.add, gen(3), gen(0)))
next(zip(gen(0), gen(1)))
next(zip(gen(1), gen(0)))
next(zip(gen(0), gen(0), strict=True))
next(zip(gen(1), gen(0), strict=True))
next(enumerate(gen(0)))
next(itertools.islice(gen(0), 3))
next(itertools.islice(gen(1), 1, 3))
next(itertools.islice(gen(1), 3, None))
next(itertools.starmap(operator.add, gen(0)))
next(itertools.accumulate(gen(0)))
next(itertools.chain(gen(0)))
next(itertools.chain(gen(0), gen(0)))
next(itertools.chain.from_iterable(gen(0)))
next(itertools.compress(gen(0), [1]))
next(itertools.compress(gen(1), gen(0)))
next(itertools.pairwise(gen(1)))
next(itertools.pairwise(gen(0)))
next(itertools.zip_longest(gen(0), gen(0)))
next(itertools.groupby(gen(0)))
next(itertools.cycle(gen(0)))
next(itertools.tee(gen(0))[0])
next(iter(gen(0)))
next(reversed(list(gen(0))))
next((x for x in gen(0)))
gen(0).send(None)
next(gen(0))
next(iter(gen, 3))
next(itertools.product(gen(0)))
next(itertools.count())
next(map(lambda v: next(gen(0)), [1]))
next(filter(lambda v: next(gen(0)), [1]))
next(itertools.takewhile(lambda v: next(gen(0)), [1]))
next(itertools.starmap(lambda v: next(gen(0)), [(1,)]))
next(itertools.accumulate([1,2], lambda a, b: next(gen(0)))) + next(itertools.accumulate([1,2], lambda a, b: next(gen(0))))
list(map(lambda v: next(gen(0)), [1]))
list(itertools.accumulate([1,2], lambda a, b: next(gen(0))))
next(itertools.islice(map(str, gen(0)), 2))
next(enumerate(zip(gen(0))))
next(zip(map(str, gen(0))))
next(iter(lambda: next(gen(0)), 3))
sum(gen(0))
max(gen(0), default=3)
list(zip(gen(0)))
tuple(map(str, gen(2)))
any(gen(0))
dict(zip(gen(1), gen(1)))
[*enumerate(gen(1))]
""".strip().splitlines()


def ends(number):
    yield from range(number)
    return 7


class Raises:
    """An iterator of the program's own."""

    def __init__(self, number):
        self.left = number

    def __iter__(self):
        return self

    def __next__(self):
        if not self.left:
            raise StopIteration(8)
        self.left -= 1
        return self.left


SCOPE = {"itertools": itertools, "operator": operator}


@pytest.mark.sampled(40)
@pytest.mark.parametrize("gen", [ends, Raises])
@pytest.mark.parametrize("line", LINES)
def test_what_an_iterator_ends_with(line, gen):
    """At the first call, and at the two after it."""
    scope = {**SCOPE, "gen": gen}
    again = line[len("next("):-1] if line.startswith("next(") and line.endswith(")") and line.count("next(") == 1 else "()"
    exec(f"""
def program(x):
    def delegates(it):
        said.append((yield from it))

    said = []
    try:
        said.append({line})
    except BaseException as error:
        said.append((type(error).__name__, getattr(error, "value", None), error.args))
    it = {again}
    for _ in range(3):
        try:
            said.append(next(it))
        except BaseException as error:
            said.append((type(error).__name__, getattr(error, "value", None), error.args))
    said.append(list(delegates({again})) if {"count" not in line} else None)
    return x + 1, [each for each in said if not hasattr(each, "__next__")]
""", scope)
    check(scope["program"], torch.ones(2))
