"""What Python's own code asks of the program's objects, and of tensors that say what they are asked, is asked in the
same order: what they say of it is compared."""
import itertools

import pytest
import torch

from tests.differential import check
from tests.symbolic import asked
from tests.symbolic.asked import lines, program


def said(result, *args):
    return list(asked.LOG)


@pytest.mark.sampled(48)
@pytest.mark.parametrize("line", lines("asked.txt"))
def test_objects(line):
    names = asked.NAMES.split()

    def arguments():
        return torch.ones(2), *asked.objects()

    check(program(line, ", ".join(["y", *names])), make=arguments, then=said, nodes=False)


def left_of(result, y, given):
    said = list(asked.LOG)
    try:
        left = list(itertools.islice(given, 6))
    except Exception as error:
        left = repr(error)
    return said, left, asked.LOG[len(said) :]


@pytest.mark.sampled(24)
@pytest.mark.parametrize("line", lines("asked_iterators.txt"))
def test_iterators(line):
    """What is asked of an iterator, how far it gets, and what is left in it."""
    name, text = line.split("|", 1)
    check(program(text, "y, given"), make=lambda: (torch.ones(2), asked.iterator(name)), then=left_of, nodes=False)


def tensors(rows, cls):
    x, y = torch.linspace(-1, 1, rows * 4).view(rows, 4), torch.linspace(1, 0, rows * 4).view(rows, 4)
    n = torch.tensor(1)
    given = (x.as_subclass(cls), y, n.as_subclass(cls))
    asked.LOG.clear()
    return given


@pytest.mark.sampled(48)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["mode", "class"])
@pytest.mark.parametrize("line", lines("asked_tensors.txt"))
def test_tensors(line, kind):
    """In a mode of torch's functions, or of a class with such a method; of sizes that vary, too."""
    function = program(line, "x, y, n", "    with Watch():\n" if kind == "mode" else "", 2 if kind == "mode" else 1)
    cls = torch.Tensor if kind == "mode" else asked.Marked
    others = [lambda rows=rows: tensors(rows, cls) for rows in (5, 7, 3)]
    check(function, make=lambda: tensors(2, cls), changed=others, then=said, nodes=False)


class Key(str):
    """With an `__eq__` of its own, filed under the hash of the text."""

    def __eq__(self, other):
        asked.log("eq")
        return False

    __hash__ = str.__hash__


KEYS = ["{key: 1}.get('ab')", "'ab' in {key}", "key in {key: 1}", "len({key, 'ab'})", "['ab'].count(key)", "held.get('ab')",
        "'ab' in held", "held.get('zz')", "{(key, 1): 2}.get(('ab', 1))", "{'ab': 1} == {key: 1}"]  # fmt: skip


@pytest.mark.parametrize("text", KEYS)
def test_keys_that_compare_themselves(text):
    def arguments():
        key = Key("ab")
        asked.LOG.clear()
        return torch.ones(2), key, {key: 1}

    check(program(text, "y, key, held"), make=arguments, then=said, nodes=False)


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
@pytest.mark.parametrize("cls", [torch.Tensor, asked.Marked])
@pytest.mark.parametrize("text", ["x._reduce_ex_internal(2)[0].__name__", "x.storage_type()", "x.__getstate__()", "x._typed_storage().device",
                                  "x.__reduce_ex__(4)[0].__name__", "torch.Tensor.storage_type(x)", "type(copy.copy(x)).__name__"])
def test_what_a_stand_in_would_say_of_itself(text, cls):
    torch.ones(2).storage_type()  # it warns once
    function = program(text, "x")
    check(function, make=lambda: (torch.ones(2).as_subclass(cls),), nodes=False)


def test_slices_of_objects():
    def at(bound):
        made = asked.Num(1), slice(bound, None) if bound is not None else slice(asked.Num(0), asked.Num(2))
        asked.LOG.clear()
        return torch.ones(3), *made

    function = program("[part.indices(3), [1, 2, 3][part], part.stop is None, y[part]]", "y, n, part")
    check(function, make=lambda: at(None), changed=[lambda: at(1), lambda: at(asked.Num(2))], then=said, nodes=False)
