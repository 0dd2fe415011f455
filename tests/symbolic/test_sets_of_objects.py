"""Sets that come in with objects: read by place, told apart by identity."""
import copy
import random

import pytest
import torch
from torch import nn

import jit
from jit import config
from tests.differential import Counting, check

pytestmark = pytest.mark.break_everywhere


class Thing:
    def __init__(self, number):
        self.number = number

    def step(self, x):
        return x + self.number


def double(x):
    return x * 2


def triple(x):
    return x * 3


def quarter(x):
    return x / 4


def made(number):
    return lambda x: x + number


class Own(Thing):
    def __hash__(self):
        return self.number

    def __eq__(self, other):
        return isinstance(other, Own) and self.number == other.number


def modules():
    found = [nn.Linear(3, 3), nn.Linear(3, 3, bias=False), nn.ReLU(), nn.Linear(3, 4)]
    for at, each in enumerate(found):
        each.number = at  # tests tell them apart by it
    return found


def bound():
    return [Thing(at).step for at in range(4)]


#: kind of elements -> () -> four of them
KINDS = {
    "object": lambda: [Thing(at) for at in range(4)],
    "module": modules,
    "parameter": lambda: [nn.Parameter(torch.full((3,), float(at))) for at in range(4)],
    "tensor": lambda: [torch.full((3,), float(at)) for at in range(4)],
    "sparse": lambda: [torch.eye(2 + at).to_sparse() for at in range(4)],
    "function": lambda: [double, triple, quarter, made],
    "closure": lambda: [made(at) for at in range(4)],
    "bound method": bound,
    "builtin": lambda: [torch.relu, torch.tanh, len, Thing(3)],
    "pair": lambda: [(Thing(at), at) for at in range(4)],
    "pair of tensors": lambda: [(torch.ones(at), (torch.zeros(at), "n")) for at in range(4)],
    "frozenset": lambda: [frozenset((Thing(at), Thing(-at))) for at in range(1, 5)],
    "mixed": lambda: [Thing(1), "text", Thing(2), 7],
    "classes": lambda: [Thing(1), Own, Thing, torch.float32],
    "list's method": lambda: [[0].append, [1].append, Thing(2), None],
}


def membership(x, s, items, other):
    return x + 1, [item in s for item in items], other in s, other not in s


def sizes(x, s, items, other):
    return x + len(s), bool(s), not s, 1 if s else 2


def walked(x, s, items, other):
    found = 0
    for item in s:
        x = x + 1
        found += sum(2 ** at for at, one in enumerate(items) if one is item)
    return x, found


def listed(x, s, items, other):
    return x + len(list(s)), set(list(s)), {*s}, frozenset(s), len([*s, 1]), {item for item in s} == s


def combined(x, s, items, other):
    more = {items[0], other}
    return x + 1, s | more, s & more, s - more, s ^ more, more - s, more | s, s.union([other], {1}), s.intersection(items[:2])


def compared(x, s, items, other):
    whole = set(items[:3])
    return x + 1, s == whole, s != whole, s <= whole, s < {*whole, other}, s.isdisjoint([other]), s.issuperset(items[:1]), s == 5


def added(x, s, items, other):
    s.add(other)
    s.add(items[0])
    return x + 1, len(s), other in s, items[1] in s


def dropped(x, s, items, other):
    s.discard(items[0])
    s.discard(other)
    if items[1] in s:
        s.remove(items[1])
    return x + 1, len(s), items[0] in s, items[2] in s


def missed(x, s, items, other):
    s.discard(items[0])
    try:
        s.remove(items[0])
    except KeyError as error:
        return x + 1, error.args[0] is items[0], len(s)


def updated(x, s, items, other):
    s.update([other, items[1]], {1})
    s |= {2, other}
    s -= {items[1]}
    s ^= {items[0], 3}
    return x + 1, len(s), other in s, s


def narrowed(x, s, items, other):
    s &= {items[0], items[2], other}
    s.intersection_update([items[2]])
    s.symmetric_difference_update({items[1]})
    s.difference_update(items[2:3], {5})
    return x + 1, len(s), items[1] in s, s


def filled_anew(x, s, items, other):
    s.clear()
    before = len(s)
    s.add(other)
    s.add(items[0])
    return x + 1, before, items[0] in s, items[1] in s


def taken(x, s, items, other):
    count = 0
    while s:
        item = s.pop()
        count += any(one is item for one in items)
        x = x + 1
    return x, count


def walked_when_changed(x, s, items, other):
    s.add(other)
    found = 0
    for item in s:
        x = x + 1
        found += any(one is item for one in items)
    return x, found


def changed_while_walked(x, s, items, other):
    x = x + 1
    for _ in s:
        s.add(other)
    return x


def copied(x, s, items, other):
    one, two = s.copy(), copy.copy(s)
    one.add(other)
    return x + 1, one, two, len(s), two == s, one is s


def number(item, items):
    return sum(2 ** at for at, one in enumerate(items) if one is item)


def copies_walked(x, s, items, other):
    found = []
    for whole in (set(s), s.copy(), frozenset(s)):
        for item in whole:
            x = x + 1
            found.append(item)
    return x, sum(number(item, items) for item in found), found == [*set(s), *s.copy(), *frozenset(s)]


def emptied_by_a_copy(x, s, items, other):
    found = 0
    for item in set(s):
        s.discard(item)
        found += number(item, items)
        x = x + len(s)
    return x, found


def copy_popped(x, s, items, other):
    todo, found = set(s), 0
    todo.discard(items[1])
    while todo:
        found += number(todo.pop(), items)
        x = x + len(todo)
    return x, found


def copy_popped_and_kept(x, s, items, other):
    todo = s.copy()
    one = todo.pop() if todo else None
    s.discard(items[0])
    return x + 1, len(todo), one in todo, number(one, items) + sum(number(item, items) for item in todo)


def copy_walked_around_breaks(x, s, items, other):
    found = 0
    for item in set(s):
        s.discard(item)
        jit.graph_break()
        found += number(item, items)
        x = x + len(s)
    return x, found


def stored(x, s, items, other):
    y = x + 1
    s.add(other)
    jit.graph_break()
    s.discard(items[0])
    return y + len(s), s


def between_breaks(x, s, items, other):
    found = 0
    for item in s:
        x = x + 1
        jit.graph_break()
        found += sum(2 ** at for at, one in enumerate(items) if one is item)
    return x, found


def failed(x, s, items, other):
    y = x + 1
    s.add(other)
    s.discard(items[0])
    raise ValueError(f"{len(s)} {tuple(y.shape)}")


READING = [membership, sizes, walked, listed, combined, compared, copied, between_breaks, copies_walked, copy_popped]
CHANGING = [added, dropped, missed, updated, narrowed, filled_anew, taken, walked_when_changed, changed_while_walked, stored, failed,
            emptied_by_a_copy, copy_popped_and_kept, copy_walked_around_breaks]


def world(kind, count=3, cls=set, at=0):
    def make():
        items = KINDS[kind]()
        return torch.full((3,), 1.5), cls(items[at:at + count]), items[:3], items[3]
    return make


@pytest.mark.sampled(30)
@pytest.mark.parametrize("program", [*READING, *CHANGING], ids=lambda program: program.__name__)
@pytest.mark.parametrize("kind", KINDS)
def test_operations(kind, program):
    check(program, make=world(kind), changed=[world(kind, 2), world(kind, 4), world(kind, 1), world(kind, 2, at=1)])


@pytest.mark.sampled(18)
@pytest.mark.parametrize("program", READING, ids=lambda program: program.__name__)
@pytest.mark.parametrize("kind", KINDS)
def test_frozensets(kind, program):
    check(program, make=world(kind, cls=frozenset), changed=[world(kind, 2, frozenset), world(kind, 2, frozenset, at=1)])


# --- what is known of them --------------------------------------------------------------------------------------------
def counted(program, *calls):
    """How often the program is compiled in these calls, one after the other."""
    counter = Counting()
    compiled, seen = jit.compile(program, backend=counter), []
    for args in calls:
        assert repr(compiled(*args)) == repr(program(*args))
        seen.append(len(counter.graphs))
    return seen


class Holder(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.third = nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 3)
        for at, each in enumerate((self.first, self.second, self.third)):
            each.number = at
        self.skip = {self.second}
        self.decay = {self.first.weight, self.third.weight}
        self.seen = set()

    def forward(self, x):
        for layer in (self.first, self.second, self.third):
            if layer not in self.skip:
                x = layer(x)
        return x + sum(each.sum() for each in self.parameters() if each in self.decay)


def test_layers_that_are_left_out():
    check(Holder(), torch.randn(2, 3), graphs=1, changed=[(torch.randn(2, 3),)])


def test_what_belongs_to_a_set_is_asked_of_the_set_that_comes():
    def program(x, s, item):
        return x + (2 if item in s else 1)

    things = [Thing(at) for at in range(4)]
    x = torch.ones(2)
    seen = counted(
        program, (x, {things[0]}, things[0]), (x, {things[1]}, things[1]), (x, {things[1]}, things[0]),
        (x, {things[2]}, things[3]), (x, {things[2]}, things[2]), (x, set(), things[0]), (x, {1}, things[0]),
    )
    assert config.break_everywhere or seen == [1, 1, 2, 2, 2, 2, 2], seen


def test_an_element_is_what_comes_in_by_another_path():
    def program(x, s, one, other):
        for item in s:
            item.number += 1
        return x + one.number, other.number, one in s, other in s, one is other

    def world(in_set, is_one):
        one, other = Thing(1), Thing(5)
        return torch.ones(2), {Thing(3)} | ({one} if in_set else set()), one, one if is_one else other

    ways = [(True, False), (False, False), (True, True), (False, True)]
    worlds = [lambda way=way: world(*way) for way in ways]
    for first in worlds:
        check(program, make=first, changed=worlds)


def test_two_sets_that_share_an_element():
    def program(x, one, other):
        for item in one:
            item.mul_(2)
        return x + sum(item.sum() for item in other), one == other, len(one & other), len(one - other), one.isdisjoint(other)

    def world(kind):
        a, b = torch.ones(2), torch.full((2,), 5.0)
        return torch.ones(2), {a}, {"same": {a}, "other": {b}, "both": {a, b}}[kind]

    worlds = [lambda kind=kind: world(kind) for kind in ("same", "other", "both")]
    for first in worlds:
        check(program, make=first, changed=worlds)


def test_one_set_under_two_names():
    def program(x, one, other):
        y = x + len(one)
        one.add(7)
        other.discard(3)
        return y + len(other), one is other, 7 in other

    def world(is_one):
        s = {Thing(1), 3}
        return torch.ones(2), s, s if is_one else {Thing(1), 3}

    for first in (True, False):
        check(program, make=lambda: world(first), changed=[lambda: world(not first), lambda: world(first)])


class Crowd(set):
    __hash__ = object.__hash__
    __eq__ = object.__eq__


def test_the_owner_of_a_set_is_in_it():
    def program(x, owner):
        y = x + len(owner.all)
        return y * (owner in owner.all), [each is owner for each in owner.all], sum(each.number for each in owner.all)

    def world():
        owner = Thing(2)
        owner.all = {owner}
        return torch.ones(2), owner

    check(program, graphs=1, make=world)


def test_a_set_that_is_in_itself():
    def program(x, crowd, thing):
        y = x + len(crowd)
        found = crowd in crowd, thing in crowd
        crowd.discard(thing)
        return y, found, [each is crowd for each in crowd]

    def world():
        crowd, thing = Crowd(), Thing(1)
        crowd.update((crowd, thing))
        return torch.ones(2), crowd, thing

    check(program, make=world)


def test_elements_with_a_hash_of_their_own_break_the_graph():
    def program(x, s, item):
        return x + 1, item in s, len(s), [each.number for each in s if type(each) is Own]

    for wrap in (lambda each: each, lambda each: (each, 1), lambda each: frozenset([each])):
        def world(wrap=wrap):
            return torch.ones(2), {wrap(Own(1)), Thing(3)}, wrap(Own(1))

        check(program, make=world)
        explained = jit.explain(program)(*world())
        assert "key with its own hash" in str(explained)


def test_the_length_alone_asks_for_no_element():
    def program(x, s):
        return x + len(s) + (1 if s else 2)

    x = torch.ones(2)
    seen = counted(program, (x, {Thing(1)}), (x, {Own(1)}), (x, {torch.ones(2)}), (x, {double}))
    assert config.break_everywhere or seen == [1] * 4


def test_constants_that_are_hashed_by_identity():
    def program(x, a, b, d, s):
        return x + len({a: 1, b: 2}) + len({a, b}), d.get(a), d.get(b), a in s, b in s

    check(program, make=lambda: (torch.ones(2), torch.float32, torch.float32, {torch.float32: 5}, {Thing(1), torch.float32}),
          changed=[lambda: (torch.ones(2), None, None, {None: 5}, {Thing(1), None})], graphs=1)


# --- what programs do with them ---------------------------------------------------------------------------------------
def groups(model):
    decay = {each for each in model.parameters() if each.dim() > 1}
    everything = set(model.parameters())
    none = everything - decay
    assert not decay & none and decay | none == everything
    return [
        {"params": [each for each in model.parameters() if each in decay], "weight_decay": 0.1},
        {"params": [each for each in model.parameters() if each in none], "weight_decay": 0.0},
    ]


def test_groups_of_an_optimizer():
    def program(x, model):
        found = groups(model)
        norm = sum(each.square().sum() for each in found[0]["params"])
        return x + norm, [len(each["params"]) for each in found]

    check(program, make=lambda: (torch.ones(2), Holder()), graphs=1)


def test_a_step_of_training_by_sets_of_parameters():
    def program(x, model, decay, frozen):
        loss = model(x).square().mean()
        loss.backward()
        with torch.no_grad():
            for each in model.parameters():
                if each in frozen:
                    continue
                assert each.grad is not None
                each.mul_(0.9 if each in decay else 1.0)
                each.sub_(each.grad, alpha=0.1)
                each.grad = None
        return loss.detach()

    def world(tied=False):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 3))
        if tied:
            model[2].weight = model[0].weight
        return torch.randn(2, 3), model, {model[0].weight, model[2].weight}, frozenset({model[2].bias})

    check(program, graphs=1, make=world, changed=[lambda: world(True)])


def test_tied_weights_are_changed_once():
    def program(x, tied):
        done = set()
        with torch.no_grad():
            for each in tied:
                if each not in done:
                    each.mul_(2)
                    done.add(each)
        return x + len(done), done

    check(program, make=lambda: (torch.ones(2), {nn.Parameter(torch.ones(2)), nn.Parameter(torch.zeros(3))}), graphs=1)


def test_what_was_seen_is_noted():
    def program(x, model):
        for layer in (model.first, model.second, model.first):
            if layer not in model.seen:
                model.seen.add(layer)
                x = layer(x)
        return x, len(model.seen)

    check(program, make=lambda: (torch.randn(2, 3), Holder()))


def test_functions_that_were_registered():
    def program(x, hooks, more):
        hooks.discard(double)
        hooks.add(more)
        return x + len(hooks), double in hooks, more in hooks

    check(program, make=lambda: (torch.ones(2), {double, triple}, quarter), graphs=1)
    check(program, make=lambda: (torch.ones(2), {double, made(3)}, made(4)), graphs=1)


def test_what_the_frame_makes_goes_in_and_out():
    def program(x, s):
        new, y = Thing(10 + len(s)), x + len(s)
        s.add(new)
        s.add(y)
        s.add((new, y))
        found = new in s, y in s, (new, y) in s, (y, new) in s, x in s
        s.discard(y)
        return found, y, len(s)

    check(program, make=lambda: (torch.ones(2), {Thing(1)}), graphs=1)


def test_an_iterator_that_goes_on_after_the_frame():
    def program(x, s):
        found = iter(s)
        return x + next(found).number * 0, found

    check(program, make=lambda: (torch.ones(2), {Thing(1), Thing(1)}), then=lambda result, *args: len(list(result[1])))


def test_an_iterator_over_a_set_that_is_changed_from_without():
    def program(x, walked, s):
        x = x + 1
        s.add(5)
        try:
            next(walked)
        except RuntimeError as error:
            return x, str(error)

    def world():
        s = {Thing(1)}
        return torch.ones(2), iter(s), s

    check(program, make=world)


@pytest.mark.parametrize("breaks", [False, True])
def test_the_order_of_a_copy(breaks):
    def walked(x, s, found):
        for item in set(s):
            s.discard(item)
            if breaks:
                jit.graph_break()
            found.append(item)
            x = x + item.number
        return x

    def popped(x, s, found):
        todo = s.copy()
        while todo:
            found.append(todo.pop())
            if breaks:
                jit.graph_break()
            s.discard(found[-1])
            x = x + found[-1].number
        return x

    draw, things = random.Random(3), [Thing(at) for at in range(12)]
    for program in (walked, popped):
        compiled = jit.compile(program, backend="eager")
        for _ in range(30):
            s = set(draw.sample(things, draw.randrange(9, 12)))
            for thing in draw.sample(things, draw.randrange(6, 12)):
                s.discard(thing)
            order, found = list(set(s)), []
            total = compiled(torch.ones(1), s, found)
            assert [each.number for each in found] == [each.number for each in order]
            assert total.item() == 1 + sum(each.number for each in order) and not s


def test_the_order_of_a_new_set_is_not_known():
    def program(x, model):
        for each in {model.first, model.second}:
            x = x + each.weight.sum() * 0
        return x

    check(program, make=lambda: (torch.ones(2), Holder()))
    explained = jit.explain(program)(torch.ones(2), Holder())
    assert "order of a set of objects" in str(explained)


def test_a_class_of_the_users_lies():
    class Lying(set):
        def __iter__(self):
            return iter([])

        def __len__(self):
            return 9

        def __contains__(self, item):
            return True

    def program(x, s, thing):
        s.add(thing)
        return x + len(s), thing in s, list(s), set.__len__(s), set.__contains__(s, x), len(set().union(s)), s - {thing} == set()

    check(program, make=lambda: (torch.ones(2), Lying([Thing(1)]), Thing(2)), changed=[lambda: (torch.ones(2), Lying([Thing(1), Thing(3)]), Thing(2))])


def test_an_element_that_can_not_be_looked_into():
    def program(x, s, sparse):
        return x + len(s), sparse in s, x in s

    def world(is_in):
        sparse = torch.eye(2).to_sparse()
        return torch.ones(2), {sparse if is_in else torch.eye(3).to_sparse(), Thing(1)}, sparse

    check(program, make=lambda: world(True), changed=[lambda: world(False)])
    check(program, make=lambda: world(False), changed=[lambda: world(True)])


def test_elements_of_a_set_of_the_program():
    check(of_the_program, torch.ones(2), graphs=1)


SKIPPED = {double, triple}
KNOWN = {Thing(3)}


def of_the_program(x):
    for function in (double, quarter):
        if function not in SKIPPED:
            x = function(x)
    KNOWN.add(function)
    return x, len(KNOWN)


# --- without reading them ---------------------------------------------------------------------------------------------
def test_a_set_that_grows_is_compiled_once():
    def program(x, seen, item, gone):
        if item not in seen:
            seen.add(item)
            x = x + 1
        seen.discard(gone)
        seen |= {item, x}
        seen -= {x}
        return x * 2

    counter = Counting()
    compiled, seen, x = jit.compile(program, backend=counter), {Thing(0)}, torch.ones(2)
    for at in range(1, 10):
        one, gone = Thing(at), Thing(-at)
        assert torch.equal(compiled(x, seen, one, gone), torch.full((2,), 4.0))
        assert len(seen) == at + 1 and one in seen and gone not in seen
    counter.expect(1)


def test_the_order_of_a_set_is_no_fact_of_what_is_in_it():
    def program(x, s, a, b, c):
        return x + (a in s) + 2 * (b in s) + 4 * (c in s)

    x, things = torch.ones(2), [Thing(at) for at in range(3)]
    calls = [(x, {a, b} | more, a, b, c) for a in things for b in things for c in things if len({a, b, c}) == 3 for more in (set(), {Thing(5)})]
    seen = counted(program, *calls)
    assert config.break_everywhere or seen[-1] == 1, seen


def test_only_what_is_asked_for_is_an_input():
    def program(x, s, a):
        return x + 1 if a in s else x + 2

    a, counter = torch.ones(2), Counting()
    jit.compile(program, backend=counter)(torch.ones(2), {a, *(torch.ones(at) for at in range(50))}, a)
    assert config.break_everywhere or len(counter.inputs[0]) == 1, counter.inputs


def test_what_gives_back_its_argument_gives_the_element():
    def program(x, s):
        same = [each in s for each in (x.contiguous(), x.float(), x.cpu(), x.requires_grad_(False), x.add_(0))]
        return x + 1, same, x.detach() in s, x.view(2) in s, x[:] in s

    def world():
        x = torch.ones(2)
        return x, {x, Thing(1)}

    check(program, graphs=1, make=world)


def test_fixed_parts_of_the_program_are_asked_for():
    def program(x, s, f):
        s.discard(len)
        return x + 1, torch.relu in s, len in s, Thing in s, torch in s, nn.Module.forward in s, f in s

    def world(is_in):
        f = made(1)
        return torch.ones(2), {torch.relu, Thing, nn.Module.forward, Thing(1), f if is_in else torch}, f

    check(program, graphs=1, make=lambda: world(True), changed=[lambda: world(False), lambda: world(True)])


def test_a_gradient_that_was_there_is_the_element():
    def program(x, p, s):
        (p * x).sum().backward()
        return x + 1, p.grad in s

    def world(is_in):
        p = nn.Parameter(torch.ones(2))
        p.grad = torch.zeros(2)
        return torch.ones(2), p, {p.grad if is_in else p, Thing(1)}

    check(program, graphs=1, make=lambda: world(True), changed=[lambda: world(False)])


STEPS = ("add", "discard", "remove", "in", "new", "new in", "len", "truth", "update", "minus", "xor", "and", "union", "clear", "pop",
         "shift", "break", "note", "list", "constant", "equal", "pair", "pair in", "copy", "swap", "other", "raise", "walk")


def by_steps(x, s, t, items, count, steps):
    made, found = [], []

    def known(elements):
        return sorted([at for at, each in enumerate([*items, *made]) for one in elements if one is each])

    for step, at in steps:
        item = items[at % len(items)]
        if step == "add":
            s.add(item)
        elif step == "discard":
            s.discard(item)
        elif step == "remove":
            try:
                s.remove(item)
            except KeyError as error:
                found.append(error.args[0] is item)
        elif step == "in":
            found.append((item in s, item in t))
        elif step == "new":
            count[0] += 1
            made.append(Thing(count[0]))
            s.add(made[-1])
        elif step == "new in":
            found.append([each in s for each in made])
        elif step == "len":
            found.append((len(s), len(t)))
        elif step == "truth":
            found.append(bool(s))
        elif step == "update":
            s.update([item, items[0]])
        elif step == "minus":
            s -= {item, items[1]}
        elif step == "xor":
            s ^= t
        elif step == "and":
            s &= {*items[:3], *made}
        elif step == "union":
            t |= s
        elif step == "clear":
            t.clear()
        elif step == "pop":
            found.append(len([s.pop()]) if len(s) == 1 else None)
        elif step == "shift":
            t = s.copy()
        elif step == "break":
            x = x + 1
            jit.graph_break()
        elif step == "note":
            print("note", len(t))
        elif step == "list":
            found.append(known(list(t)))
        elif step == "constant":
            s.add(at)
            s.discard("text")
        elif step == "equal":
            found.append((s == t, s <= t, s.isdisjoint(t)))
        elif step == "pair":
            s.add((item, at % 2))
        elif step == "pair in":
            found.append((item, at % 2) in s)
        elif step == "copy":
            found.append(known(s | t))
        elif step == "swap":
            s, t = t, s
        elif step == "other":
            t.add(item)
        elif step == "raise":
            if item in s and len(found) > 3:
                raise ValueError(f"{len(s)} {len(t)}")
        elif step == "walk":
            found.append(known([each for each in s]))
    return x + len(found), found, [type(each).__name__ for each in made], s, t, made


def steps_of(seed):
    chance = random.Random(seed)
    return tuple((chance.choice(STEPS), chance.randrange(6)) for _ in range(chance.randrange(2, 9)))


def any_sets(seed):
    chance = random.Random(seed + 1)
    kind = chance.choice([Thing, lambda at: torch.full((2,), float(at)), made, lambda at: Thing(at).step])
    items = [kind(at) for at in range(5)]
    s, t = ({each for each in items if chance.random() < 0.5} for _ in range(2))
    return torch.ones(2), s, s if chance.random() < 0.1 else t, items, [100], steps_of(seed)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("seed", range(60))
def test_random_steps(seed):
    check(by_steps, make=lambda: any_sets(seed))
