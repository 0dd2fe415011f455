"""What random programs found, each fault as a small program of its own: sets, slots, views, iterators, breaks."""
import array
import collections
import enum
import itertools

import pytest
import torch

import jit
from tests.differential import check, same_as_eager
from tests.sideeffects.things import Echo, Slotted, Stack


# --- values -----------------------------------------------------------------------------------------------------------
class Word(str):
    pass


class Raw(bytes):
    pass


class Buffer(bytearray):
    pass


@pytest.mark.parametrize("a, b", [("a", Word("b")), (b"a", Raw(b"b")), (b"a", bytearray(b"b")), (b"a", Buffer(b"b")), (b"a", [1]), ("a", Raw(b"c")),
                                  (b"a", Word("b")), (b"a", bytearray()), (b"", array.array("b", [1])), ("a", bytearray(b"b")), (b"a", None)], ids=repr)
def test_text_and_bytes_with_something_behind(a, b):
    def program(x, b):
        try:
            return x + 1, a + b
        except TypeError as error:
            return x + 2, str(error)

    check(program, torch.ones(3), b, graphs=1)


@pytest.mark.parametrize("reverse", [True, 0, 2, 1.5, "a", b"", bytearray(b"a"), None, [], 1 << 70], ids=repr)
@pytest.mark.parametrize("sort", [lambda items, reverse: items.sort(reverse=reverse) or items, lambda items, reverse: sorted(items, reverse=reverse)])
def test_which_way_a_sort_goes(sort, reverse):
    def program(x, items):
        try:
            return x + 1, sort(items, reverse)
        except (TypeError, OverflowError) as error:
            return x + 2, str(error)

    check(program, torch.ones(3), [2, 1, 3], graphs=1)


@same_as_eager(graphs=1)
def test_slots_that_are_empty(x):
    made = Slotted("made")
    said = []
    for ask in (getattr, delattr, delattr, getattr):
        for name in ("value", "nothing"):
            try:
                said.append(ask(made, name))
            except AttributeError as error:
                said.append(str(error))
    return x + 1, said


class Answers(Slotted):
    def __getattr__(self, name):
        return f"no {name}"


@pytest.mark.parametrize("cls", [Slotted, Answers])
def test_slots_of_an_argument_that_are_empty_or_not(cls):
    def make(is_empty):
        held = cls("held")
        if is_empty:
            del held.value
        return torch.ones(3), held

    def program(x, held):
        try:
            return x + 1, held.value
        except AttributeError as error:
            return x + 2, str(error)

    check(program, make=lambda: make(True), changed=[lambda: make(False)], graphs=1)


# --- what is made again -----------------------------------------------------------------------------------------------
def test_lists_of_a_users_class_are_filled_on_both_ways_out_of_an_instruction():
    def program(x, held):
        stack, echo = Stack([held]), Echo([x])
        try:
            raise ValueError(1)
        except ValueError as error:
            error.add_note("noted")
        return stack, echo

    check(program, torch.ones(3), [1])


@jit.disable
def changed(held):
    held.add(9)
    held.discard(0)


SETS = [frozenset, set, lambda held: held | {7}, lambda held: held.copy(), lambda held: {0, 2} & held, lambda held: frozenset((0, 1, 2)) - held,
        lambda held: [frozenset(held), {"a": held | {5}}], lambda held: {frozenset(held): 1}]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("change", [changed, lambda held: held.add(9), lambda held: held.clear(), lambda held: held.pop()])
@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("make", SETS)
def test_sets_are_made_of_existing_ones_as_these_were(make, size, change):
    def program(x, held):
        made = make(held)
        change(held)
        return x + 1, made

    check(program, make=lambda: (torch.ones(3), set(range(size))))


@pytest.mark.parametrize("add", [lambda held: held.update({0, "d"}), lambda held: held.update([0, "d"]), lambda held: held.update({0: 1}), lambda held: held.update(())])
def test_a_union_that_adds_nothing_may_be_a_new_order(add):
    """It makes room first."""
    def program(x, held):
        add(held)
        return x + 1, [*held]

    for word in map(str, range(30)):
        jit.reset()
        compiled = jit.compile(program, backend="eager")
        ours, theirs = set(), set()
        for element in (0, "d", word, 1):  # copies are in another order
            ours.add(element)
            theirs.add(element)
        assert compiled(torch.ones(3), ours)[1] == program(torch.ones(3), theirs)[1]
        assert list(ours) == list(theirs)


@same_as_eager(changed=None)
def test_iterators_that_a_break_leaves_half_way(x):
    items = [3, 2, 1, 4]
    found = [itertools.dropwhile(lambda v: v > 2, items), itertools.dropwhile(lambda v: v > 9, items), itertools.takewhile(lambda v: v > 2, items),
             itertools.cycle(items), itertools.islice(itertools.cycle(items), 1, 20, 2)]
    done = itertools.takewhile(lambda v: v > 2, items), itertools.islice(items, 1)
    given = [next(iterator) for iterator in found], [[*iterator] for iterator in done]
    jit.graph_break()
    return x + 1, found, done, given


@pytest.mark.timeout(60)
def test_an_object_that_comes_to_hold_itself_before_a_call():
    def program(x, held, echo):
        held.next = held
        held.value = [held]
        return x + len(echo), held.bump()

    check(program, make=lambda: (torch.ones(3), Slotted("held"), Echo([1])), graphs=1)


# --- tensors ----------------------------------------------------------------------------------------------------------
MANY_VIEWS = [lambda x: x.unbind(), lambda x: x.split(1), lambda x: x.chunk(3), lambda x: [*x], lambda x: x.tensor_split(3)]


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "default"])
@pytest.mark.parametrize("take", MANY_VIEWS)
def test_views_that_come_together_are_new_each_time(take, backend):
    def program(x):
        y = x * 2
        return *take(x), *take(x), *take(y), take(y)[1]

    check(program, torch.arange(12.0).view(3, 4), backend=backend)


@pytest.mark.parametrize("write", [lambda x: x.copy_(x.unbind()[1][:1]), lambda x: x[1:].copy_(x[:-1]), lambda x: x[1:].add_(x[:-1]), lambda x: x.add_(x.t()),
                                   lambda x: x[:1].expand(3, 3).add_(1), lambda x: torch.add(x, 1, out=x.t()), lambda x: torch.mul(x, 2, out=x)])
@pytest.mark.parametrize("backend", ["eager", "default"])
def test_writes_over_what_is_read(write, backend):
    """Where torch refuses, it does so after what the frame did before."""
    def program(x, log):
        log.append("before")
        print("here")
        write(x)
        print("not")
        return x + 1

    check(program, make=lambda: (torch.arange(9.0).view(3, 3), []), backend=backend, traceback="full")


def test_a_handle_of_several_hooks_has_no_number():
    def program(w):
        handle = torch.autograd.graph.register_multi_grad_hook((w, w), lambda gradients: None)
        handle.extra = 1
        return w * 2, hasattr(handle, "id"), hasattr(handle, "hooks_dict_ref"), handle.extra

    check(program, torch.ones(3, requires_grad=True), graphs=1)


@pytest.mark.timeout(60)
def test_a_tensor_that_is_added_to_itself_often():
    def program(x, v):
        for _ in range(40):
            v += x

    def make():
        x = torch.full((3,), 2.0**-30)
        return x, x[:]

    check(program, make=make, backend="default")


def of_a_result(x, w):
    y = w * 2
    d = y.detach()
    return y, d, d[:], d[1:][:1]


def of_an_input(x, w):
    one, other = x.detach(), x.detach()
    return one, one[:], other, other[:], x[:]


def of_nobody(x, w):
    d = (w * 2).detach()
    return d[:], d[1:], (w * 2).detach()[:]


def written(x, w):
    d = x.detach()
    part = d[:2]
    part.add_(1)
    y = w * 2
    other = y.detach()
    other[1:].add_(1)
    return d, part, d[1:], y, other, other[:1]


def of_data(x, w):
    data = w.data
    d = data.detach().detach()
    return data, d, d[:], data[:]


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "default"])
@pytest.mark.parametrize("program", [of_a_result, of_an_input, of_nobody, written, of_data], ids=lambda program: program.__name__)
def test_views_of_what_was_detached_are_views_of_that(program, backend):
    check(program, make=lambda: (torch.arange(3.0), torch.ones(3, requires_grad=True)), backend=backend)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "default"])
@pytest.mark.parametrize("is_hooked", [False, True])
def test_data_of_another_dtype_under_a_leaf(is_hooked, backend):
    def program(x, w):
        if is_hooked:
            torch.autograd.graph.register_multi_grad_hook((w, w), lambda gradients: print("all"))
        w.data = x.clone()
        return x + 1 if is_hooked else w + w

    check(program, make=lambda: (torch.arange(3.0, dtype=torch.float64), torch.ones(3, requires_grad=True)), backend=backend)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "default"])
def test_a_write_under_a_view_that_requires_a_gradient_for_itself(backend):
    def program(x, v):
        x.mul_(v)
        return x.requires_grad, v.is_leaf

    def make():
        x = torch.arange(3.0)
        return x, x[:].requires_grad_()

    check(program, make=make, backend=backend)


def came_to_lie_in_its_part(x):
    part = x[1:]
    later = part[:1]
    x.set_(part)
    return part, later, x[:1], x.detach(), part.detach()


def turned(x):
    y = x.view(2, 2) * 2
    before = y.t()
    y.t_()
    return y, before, y.t()


def made_shorter(x):
    part = x[:2]
    x.resize_(2)
    return part, part[:1], x[:1]


def given_the_data_of_its_part(x):
    part = x[1:]
    x.data = part
    return part, part[:1], x[:1]


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "default"])
@pytest.mark.parametrize("program", [came_to_lie_in_its_part, turned, made_shorter, given_the_data_of_its_part], ids=lambda program: program.__name__)
def test_views_that_look_like_what_their_base_becomes(program, backend):
    """They are not their base."""
    check(program, torch.arange(4.0), backend=backend, graphs=1)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "default"])
def test_a_part_that_is_written_and_gets_another_size(backend):
    def program(part):
        part.add_(1)
        part.resize_(2)
        return part * 2

    check(program, make=lambda: (torch.arange(4.0)[1:],), backend=backend)


def moved(is_moved):
    x = torch.arange(6.0)[:3]
    if is_moved:
        x.data = torch.full((3,), 3.0)
    return x, x.view(-1)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "default"])
@pytest.mark.parametrize("first", [False, True])
def test_views_that_lie_elsewhere_than_their_base(first, backend):
    def program(x, v):
        v.add_(-1)
        x.mul_(v)
        return x + 1

    check(program, make=lambda: moved(first), changed=[lambda: moved(not first)], backend=backend)


def test_hooks_by_the_functions_of_the_class():
    def program(x, w, other):
        torch.Tensor.register_hook(w, hook=print)
        y = w * x
        torch.Tensor.retain_grad(y)
        torch.Tensor.register_hook(y, lambda g: g * 2)
        w.data = other  # of another dtype, so that nothing more is known of it
        torch.Tensor.register_hook(w, lambda g: None)
        said = []
        for call in (lambda: torch.Tensor.register_hook(3, print), lambda: torch.Tensor.retain_grad(None), lambda: w.register_hook()):
            try:
                call()
            except (AttributeError, TypeError) as error:
                said.append(str(error))
        return y, said

    check(program, make=lambda: (torch.ones(3), torch.ones(3, requires_grad=True), torch.ones(3, dtype=torch.float64)))


def test_a_hook_of_several_tensors_that_a_gradient_refuses():
    """What it has counted then is by the number of the backward."""
    def program(x, w):
        y = x * w
        torch.autograd.graph.register_multi_grad_hook((y, w), lambda gradients: print("all"))
        try:
            torch.autograd.grad(y.sum(), w)
        except RuntimeError as error:
            return str(error)

    check(program, make=lambda: (torch.ones(3), torch.ones(3, requires_grad=True)))


def test_an_enum_made_by_a_call_is_a_new_class_of_the_caller_s_module():
    made = []

    def program(x):
        kind = enum.Enum("Kind", "A B")
        made.append(kind)
        return x + 1, kind.__module__, [member.name for member in kind], kind is made[0]
    check(program, torch.ones(2))


class Trail(collections.deque):
    """A class of the program's."""


class Asked(list):
    def __iter__(self):
        print("asked")
        return super().__iter__()


def test_a_list_whose_slice_becomes_itself_is_not_asked():
    def program(x, own):
        born = Asked([x, 1])
        for each in (own, born):
            each[1:1] = each
            each[1:1] = Asked([3])
        return own, born, x + 1

    check(program, make=lambda: (torch.ones(2), Asked([1, 2])), graphs=1)


def test_what_is_added_in_place_is_asked_for_its_elements():
    def program(x, own):
        queue = Trail([x])
        own += Asked([3])
        queue += Asked([4])
        return own, queue, x + 1

    check(program, make=lambda: (torch.ones(2), Asked([1, 2])), graphs=1)


def cleared_on_the_way(order):
    met = []
    for key in order.keys():
        met.append(key)
        order.clear()
    return met


@pytest.mark.parametrize("count", [1, 2])
def test_an_ordered_dict_that_is_cleared_while_it_is_iterated(count):
    check(cleared_on_the_way, make=lambda: (collections.OrderedDict(zip(range(count), "ab", strict=False)),))


def test_a_set_goes_on_looking_where_it_last_popped():
    """The next one that it gives is another one than after `discard`."""
    def program(x, bag):
        first = bag.pop()
        bag.add(8)
        bag.add(3)
        return x + first, bag.pop(), bag

    check(program, torch.ones(2), {8}, graphs=None)

    def changed(x, bag):
        first = bag.pop()
        bag ^= {8, 3}
        return x + first

    compiled, plain = {8}, {8}
    jit.compile(changed)(torch.ones(2), compiled)
    changed(torch.ones(2), plain)
    assert compiled.pop() == plain.pop() == 3
