"""Every method and operator of every container, of existing ones and of those of a user's class with methods of its own:
one graph for each kind."""
import array
from collections import ChainMap, Counter, OrderedDict, defaultdict, deque

import pytest
import torch

from tests.differential import check, execute

#: kind -> (what makes one, statements over `c`, one of it; `r` is what they answer)
KINDS = {
    "list": ("[3, 1, 2, 1]", """
        c.append(x + 1) / c.extend([1, x]) / c.insert(1, x) / r = c.remove(1) / r = c.pop() / r = c.pop(0) / c.clear() / r = c.index(1), c.index(1, 2) /
        r = c.count(1) / c.sort() / c.sort(key=lambda v: -v, reverse=True) / c.reverse() / r = c.copy() / c[0] = x / c[1:3] = [x, x, x] /
        c[::2] = [8, 9] / del c[0] / del c[1:] / del c[::2] / r = c[1], c[1:], c[::-1] / c += [x] / c *= 2 / r = c + [1], c * 2, 2 * c /
        r = 1 in c, len(c), bool(c) / r = c == [3], c != [3], c < [4], c <= [4], c > [1], c >= [1] / r = list(reversed(c)), [v for v in c] /
        r = repr(c), sorted(c), max(c), min(c), sum(c) / c.__init__([5]) / a, *b = c; r = a, b / c.__iadd__([1]); c.__imul__(2) /
        c.__setitem__(0, 5); c.__delitem__(1); r = c.__getitem__(0), c.__len__(), c.__contains__(3)"""),
    "dict": ("{'a': 1, 'b': 2, 3: 'x'}", """
        c['z'] = x / c['a'] = x / del c['a'] / r = c['a'], c.get('a'), c.get('q'), c.get('q', x) / r = c.pop('a'), c.pop('q', 1) / r = c.popitem() /
        r = c.setdefault('a', 1), c.setdefault('q', x) / c.update(a=x, q=2) / c.update({'q': 1}, a=3) / c.update([('q', 1)]) / c |= {'q': x} /
        r = c | {'q': x}, {'q': x} | c / r = c.copy() / c.clear() / r = list(c.keys()), list(c.values()), list(c.items()) /
        r = c.keys(), c.values(), c.items(); c['n'] = 1 / r = list(reversed(c)), list(reversed(c.items())) / r = 'a' in c, 'q' not in c, len(c) /
        r = c == {'a': 1}, c != {} / r = c.fromkeys('ab', x), repr(c), {**c, 'd': 1} / c.__init__(q=1) / r = c.keys().isdisjoint({'q'}) /
        k = c.keys(); c['n'] = 1; r = 'n' in k, len(k), k & {'n'}, k | {'m'}, k - {'a'}, k ^ {'a'} /
        i = c.items(); del c['a']; r = list(i), ('b', 2) in i / v = c.values(); c['a'] = x; r = list(v)[0] is x /
        c.__setitem__('q', 1); c.__delitem__('a'); r = c.__getitem__('b'), c.__contains__('b'), c.__len__()"""),
    "OrderedDict": ("OrderedDict(a=1, b=2, c=3)", """
        c.move_to_end('a') / c.move_to_end('c', last=False) / r = c.popitem() / r = c.popitem(last=False) / c['z'] = x / c['a'] = x / del c['b'] /
        r = c.pop('a'), c.pop('q', 1) / r = c.setdefault('q', x), c.setdefault('a') / c.update(q=x) / c.update(OrderedDict(q=x)) / c |= {'q': 1} /
        r = c | {'q': 1}, {'q': 1} | c / r = c.copy() / c.clear() / r = list(c), list(c.items()), list(reversed(c)) /
        r = c == OrderedDict(b=2, a=1, c=3), c == {'c': 3, 'b': 2, 'a': 1} / r = type(c).fromkeys('ab', value=1), repr(c) /
        r = c.keys(), c.values(), c.items(); c['z'] = 1 / k = c.keys(); c.move_to_end('a'); r = list(k), list(reversed(c.items())) /
        r = c.get('a'), c.get('q'), len(c), 'a' in c"""),
    "defaultdict": ("defaultdict(list, a=[1])", """
        c['q'].append(x) / r = c['a'], c.get('q') / c.default_factory = None / r = c.default_factory / c['a'] = x / del c['a'] / r = c.pop('a') /
        r = c.popitem() / r = c.setdefault('q', 1) / c.update(q=x) / c |= {'q': 1} / r = c | {'q': 1}, {'q': 1} | c / r = c.copy(), c.__copy__() /
        c.clear() / r = c.__missing__('q') / r = repr(c), c == {'a': [1]}, list(c.items()) / c.default_factory = int; c['n'] += 1 /
        r = type(c).fromkeys('ab', 1) / c.__init__(int, z=1); c['n'] += 1"""),
    "Counter": ("Counter('aabc')", """
        c['a'] += 2 / c['q'] += 1 / r = c['zz'] / c.update('abz') / c.update({'a': 2}) / c.update(a=1) / c.subtract('ab') / c.subtract({'a': 5}) /
        r = c.most_common(), c.most_common(1), list(c.elements()), c.total() /
        r = c + Counter('a'), c - Counter('a'), c & Counter('a'), c | Counter('q'), +c, -c / c += Counter('a') / c -= Counter('a') /
        c &= Counter('a') / c |= Counter('q') / del c['a'] / del c['nope'] / r = c.pop('a') / r = c.popitem() / c.clear() / r = c.copy() /
        r = c == Counter('aabc'), c <= Counter('aabcc'), c < Counter('aabcc'), c >= Counter('a'), c > Counter('a') /
        r = repr(c), sorted(c) / r = c.setdefault('z', 1) / c['a'] = x"""),
    "ChainMap": ("ChainMap({'a': 1}, {'a': 2, 'b': 3})", """
        c['z'] = x / c['b'] = x / del c['a'] / r = c['a'], c['b'], c.get('q'), c.get('b') / r = c.pop('a') / r = c.popitem() / r = c.setdefault('q', x) /
        c.update(q=x) / c |= {'q': 1} / r = c | {'q': 1}, {'q': 1} | c / r = c.copy(), c.parents, c.new_child(), c.new_child({'m': x}, n=1) /
        c.clear() / r = list(c), list(c.items()), list(c.keys()), list(c.values()) / r = len(c), bool(c), 'b' in c, c == {'a': 1, 'b': 3} /
        c.maps.append({'n': 1}) / c.maps[1]['n'] = x / r = repr(c) / r = type(c).fromkeys('ab', 1)"""),
    "set": ("{1, 2, 'a'}", """
        c.add(7) / c.add(1) / c.discard(1) / c.discard(77) / c.remove(1) / c.clear() / c.update([5, 6], (7,)) / c |= {5} / c &= {1, 5} / c -= {1} / c ^= {1, 5} /
        c.intersection_update([1]) / c.difference_update([1]) / c.symmetric_difference_update([1, 9]) / r = c | {5}, c & {1}, c - {1}, c ^ {1, 5} /
        r = c.union([5]), c.intersection([1]), c.difference([1]), c.symmetric_difference([1, 5]), c.copy() /
        r = c <= {1, 2, 'a', 3}, c < {1}, c >= {1}, c > {1}, c == {1}, c != {1}, c.issubset([1]), c.issuperset([1]), c.isdisjoint([9]) /
        r = 1 in c, len(c), bool(c), [v for v in c] / r = repr(c), frozenset(c), {v for v in c if v != 1} / c.__init__([5])"""),
    "frozenset": ("frozenset((1, 2, 'a'))", """
        r = c | {5}, c & {1}, c - {1}, c ^ {1, 5}, c.copy() / c |= {5}; r = c / r = 1 in c, len(c), bool(c), [v for v in c], repr(c) /
        r = c.union([5]), c.intersection([1]), c.difference([1]), c.symmetric_difference([1, 5]), {c: 1}[frozenset((1, 2, 'a'))] /
        r = c <= {1, 2, 'a', 3}, c < {1}, c >= {1}, c > {1}, c == {1}, c != {1}, c.issubset([1]), c.issuperset([1]), c.isdisjoint([9])"""),
    "deque": ("deque([3, 1, 2], 4)", """
        c.append(x) / c.appendleft(x) / c.extend([1, x]) / c.extendleft([1, x]) / r = c.pop() / r = c.popleft() / c.rotate() / c.rotate(-2) / c.reverse() /
        c.clear() / c.insert(1, x) / c.remove(1) / c[0] = x / del c[0] / r = c[0], c[-1], c.index(1), c.count(1), c.maxlen / r = c.copy(), c.__copy__() /
        c += [1] / c *= 2 / r = c + deque([1]), c * 2 / r = 1 in c, len(c), bool(c), list(c), list(reversed(c)), repr(c) /
        r = c == deque([3, 1, 2]), c < deque([4]) / r = deque(c, 2), deque([1, x]) / c.__init__([1], 2) / c.__init__([1, 2])"""),
    "array": ("array.array('l', [3, 1, 2])", """
        c.append(1) / c.extend([1, 2]) / c.fromlist([5]) / c.insert(1, 9) / r = c.pop() / c.remove(1) / c.reverse() / c[0] = 9 / del c[0] / del c[::2] /
        c[:1] = array.array('l', [7, 8]) / c += array.array('l', [1]) / c *= 2 / r = c + array.array('l', [1]), c * 2 /
        r = c.index(1), c.count(1), c.tolist(), list(c), c.tobytes(), c.typecode, c.itemsize / c.frombytes(b'\\x01' * 8) / c.byteswap() /
        r = c[0], c[1:], len(c), 1 in c, repr(c), [v + 1 for v in c], c.__copy__(), list(reversed(c)) /
        r = c == array.array('l', [3, 1, 2]), c < array.array('l', [4])"""),
    "bytearray": ("bytearray(b'cab')", """
        c.append(1) / c.extend(b'xy') / c.insert(1, 9) / r = c.pop() / c.remove(97) / c.reverse() / c.clear() / c[0] = 9 / c[:1] = b'zz' / c[::2] = b'qq' /
        del c[0] / del c[::2] / c += b'x' / c *= 2 / r = c + b'x', c * 2 / r = c.index(97), c.count(b'a'), c.find(b'b'), c.rfind(b'b'), list(c) /
        r = c.decode(), c.hex(), c.upper(), c.title(), c.strip(b'c'), c.split(b'a'), c.replace(b'a', b'x'), c.join([b'1', b'2']) /
        r = c.startswith(b'c'), c.endswith(b'b'), c[0], c[1:], len(c), b'a' in c, 97 in c, repr(c), c == b'cab', c < b'd' /
        r = [v + 1 for v in c], c.copy(), c.translate(bytes(range(256))), c.partition(b'a'), c.isalpha(), c.zfill(5), list(reversed(c))"""),
}
#: what a user's class does in its own way, where the base has it
METHODS = {
    "__getitem__": "self, key: super().__getitem__(key)",
    "__setitem__": "self, key, value: (setattr(self, 'last', key), super().__setitem__(key, value))[1]",
    "__delitem__": "self, key: (setattr(self, 'last', key), super().__delitem__(key))[1]",
    "__contains__": "self, item: super().__contains__(item)",
    "__len__": "self: super().__len__()",
    "__iter__": "self: super().__iter__()",
    "append": "self, value: (setattr(self, 'last', 'append'), super().append(value))[1]",
    "pop": "self, *args: (setattr(self, 'last', 'pop'), super().pop(*args))[1]",
    "add": "self, value: (setattr(self, 'last', 'add'), super().add(value))[1]",
    "update": "self, *args, **named: (setattr(self, 'last', 'update'), super().update(*args, **named))[1]",
    "get": "self, *args: super().get(*args)",
    "union": "self, *args: super().union(*args)",
}
NAMES = {"array": array, "deque": deque, "ChainMap": ChainMap, "Counter": Counter, "OrderedDict": OrderedDict, "defaultdict": defaultdict}
BASES = {**NAMES, "array": array.array, "list": list, "dict": dict, "set": set, "frozenset": frozenset, "bytearray": bytearray}
TYPES = ("OrderedDict(", "defaultdict(", "Counter(", "ChainMap(", "frozenset(", "deque(", "array.array(", "bytearray(")
#: What breaks the graph: CPython's own code reads the elements of these, whatever the class says of them.
READS = ("__getitem__", "__len__", "__iter__")
LEFT_ALONE = {deque: READS, array.array: READS, bytearray: READS}


def derived(kind):
    base = BASES[kind]
    own = [name for name in METHODS if hasattr(base, name) and name not in LEFT_ALONE.get(base, ())]
    lines = [f"    def {name}({parameters}): return {body}\n" for name in own for parameters, _, body in [METHODS[name].partition(": ")]]
    scope = {"base": base}
    exec("class Own(base):\n" + "".join(lines), scope)
    return scope["Own"]


OWN = {kind: derived(kind) for kind in KINDS}


@pytest.mark.parametrize("form", [pytest.param("existing", marks=pytest.mark.long), "own"])
@pytest.mark.parametrize("kind", KINDS)
def test_one_graph(kind, form):
    first, text = KINDS[kind]
    statements = [statement.strip() for statement in text.split(" /")]
    if form == "own":
        first = "Own(" + first.partition("(")[2] if first.startswith(TYPES) else f"Own({first})"
    names = [f"c{number}" for number in range(len(statements))]
    lines = "".join(f"    c, r = {name}, None\n    {s.replace('; ', chr(10) + '    ')}\n    results.append((r, c))\n"
                    for name, s in zip(names, statements))
    scope = {**NAMES, "Own": OWN[kind]}
    execute(f"def program(x, {', '.join(names)}):\n    results = []\n{lines}    return x + 1, results\n", scope)
    check(scope["program"], make=lambda: (torch.ones(2), *(eval(first, scope) for _ in names)), graphs=1, recompiles=True)
