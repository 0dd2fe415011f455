"""Random programs of side effects, as text.

A statement is a row of a table, with holes: `<list>` takes a name, or an expression, that stands for a list; `<+list>`
binds a name to one; `<1>` repeats what the first hole took; `...` is a block of statements. The rows of a program come
from a few themes, so that its statements have to do with each other.
"""
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

Choose = Callable[[Sequence[Any]], Any]

#: name of an argument -> what it is
ARGUMENTS = {
    "x": "plain", "v": "plain", "w": "leaf", "handle": "handle", "box": "object", "slots": "object", "careful": "careful",
    "other_box": "object", "items": "list", "other": "list", "numbers": "numbers", "table": "dict", "order": "ordered",
    "groups": "groups", "tally": "tally", "bag": "set", "ring": "deque", "stack": "stack", "special": "special",
    "it": "iterator", "gen": "generator", "out": "file"}
#: names of the enclosing function and of the module
OUTER = {"total": "count", "kept": "list", "TOTAL": "count", "LOG": "list", "SHARED": "object"}

#: what else than its own names fills a hole
KINDS = {
    "int": ["count"], "tensor": ["plain", "grad", "leaf"], "list": ["stack"], "dict": ["ordered", "groups", "special"],
    "object": ["careful"], "differentiable": ["grad", "leaf"], "iterator": ["generator"],
    "value": ["tensor", "list", "dict", "object", "set", "deque", "function", "handle", "pair", "any", "iterator", "view", "numbers"],
    "iterable": ["list", "numbers", "dict", "deque", "iterator", "view"],
}
EXPRESSIONS = {
    "int": ["0", "1", "2", "-1", "<count>", "<count> + 1", "len(<list>)", "len(<dict>)", "<object>.count",
            "sum(<numbers>)", "<plain>.dim()", "MODULE.level"],
    "key": ["'a'", "'b'", "'c'", "'d'", "1", "<object>.name"],
    "text": ["'one'", "'two'", "f'{<int>}'", "<object>.name", "str(<key>)"],
    "value": ["<int>", "<text>", "None", "(<int>, <value>)", "[<value>]", "{<key>: <value>}", "<object>.value", "<plain> + <int>",
              "<dict>.get(<key>)", "<tensor> * <tensor>", "<list>[:2]", "Node(<text>)", "Pair(<value>)", "<leaf>.grad"],
    "object": ["<object>.next"],
    "hook": ["doubled", "seen", "lambda g: g * <int>", "functools.partial(scaled, by=<int>)", "<object>.hook",
             "lambda g: LOG.append(<value>)", "lambda g: g + <plain>"],
    "condition": ["<int> > <int>", "<object> is <object>", "<value> is <value>", "<key> in <dict>", "hasattr(<object>, 'extra')",
                  "len(<list>) > <int>", "<object>.count == <int>", "not <list>", "<int> in <numbers>", "True"],
    "error": ["KeyError(<text>)", "ValueError(<int>)", "StopIteration(<int>)"],
    "errors": ["Exception", "(KeyError, IndexError, ValueError)", "AttributeError"],
}

STATEMENTS = {
    "objects": """
<object>.value = <value>
<object>.count += <int>
<object>.next = <object>
<object>.extra = <value>
del <object>.extra
<object>.bump(<int>)
<+object> = Node(<text>, <int>)
<+object> = Slotted(<text>)
<+careful> = Careful(<text>)
<careful>.size = <int>
<careful>.held = <value>
<careful>.value = <value>
del <careful>.size
<+any> = <careful>.held
<+any> = getattr(<careful>, 'nothing')
setattr(<object>, 'extra', <value>)
if hasattr(<object>, 'extra'): del <1>.extra
<+pair> = Pair(<value>)
<pair>.right.append(<value>)
<pair>.left = <pair>
<pair>.left, <pair>.right = <value>, [<value>]
Node.made += 1
MODULE.level = <int>
MODULE.stores += 1
vars(<careful>)['extra'] = <value>
<careful>.__dict__.update(extra=<value>)
print(sorted(vars(<careful>)))
print(<object>.next is <object>, <object>.value is <value>)
<+object> = copy.copy(<object>)
<+object> = copy.deepcopy(<object>)
<+any> = {id(<object>): 1, id(<object>): 2}.get(id(<object>))
<dict>[<object>] = <value>
<+function> = <object>.bump
<+any> = weakref.ref(<careful>)() is <careful>
""",
    "lists": """
<list>.append(<value>)
<list>.extend([<value>, <value>])
<list>.insert(<int>, <value>)
<list> += [<value>]
<list>[:1] = [<value>, <value>]
<list>[-1:] = []
del <list>[2:]
<list>[0] = <value>
<+any> = <list>.pop()
if <list>: <1>.pop(0)
<list>.clear()
<list>.reverse()
<list>.sort(key=kind_of)
<numbers>.sort(reverse=<condition>)
<numbers>.append(<int>)
<numbers>.remove(<int>)
<+numbers> = sorted(<numbers>, key=lambda n: -n)
<+list> = [<value>, <value>]
<+list> = <list> + [<value>]
<+list> = list(<iterable>)
<+list> = <list>[::-1]
<+list> = copy.copy(<list>)
<+list> = [n + <int> for n in <numbers>]
<+list> = <list>
<+stack> = Stack([<value>])
<stack>.append(<value>)
<stack>.pushed = <int>
<+any> = <list>[<int>]
print(<list>)
""",
    "dicts": """
<dict>[<key>] = <value>
<dict>.pop(<key>, None)
<dict>.setdefault(<key>, <value>)
<dict>.update(a=<value>, z=<value>)
<dict>.update({<key>: <value>})
<dict> |= {<key>: <value>}
del <dict>[<key>]
if <key> in <dict>: del <2>[<1>]
<+any> = <dict>.popitem() if <dict> else None
<dict>.clear()
<+dict> = {<key>: <value>, <key>: <value>}
<+dict> = dict(<dict>)
<+dict> = {n: <value> for n in <numbers>}
<+ordered> = collections.OrderedDict(a=<value>, b=<value>)
<ordered>.move_to_end(<key>)
<ordered>.move_to_end('a', last=False)
<ordered>.popitem(last=False)
<groups>[<key>].append(<value>)
<+groups> = collections.defaultdict(list)
<tally>[<key>] += <int>
<tally>.update('abc')
<+any> = <tally>.most_common(1)
<+special> = Table(b=<value>)
<special>[<key>] = <value>
<+any> = <special>[<key>]
<+view> = <dict>.keys()
<+view> = <dict>.values()
<+view> = <dict>.items()
print(list(<view>))
print(<dict>)
print(list(reversed(<dict>)))
<+any> = collections.ChainMap(<dict>, <dict>).get(<key>)
<+dict> = copy.copy(<dict>)
<+dict> = copy.deepcopy(<dict>)
""",
    "deques and sets": """
<deque>.append(<value>)
<deque>.appendleft(<value>)
<deque>.extend([<value>, <value>])
<deque>.rotate(<int>)
<+any> = <deque>.popleft()
if <deque>: <1>.pop()
<deque>.reverse()
<deque>[0] = <value>
<+deque> = collections.deque([<value>, <value>], 3)
<+list> = list(<deque>)
<set>.add(<int>)
<set>.add(<key>)
<set>.discard(<key>)
<set> |= {<int>, <key>}
<set> -= {<int>}
<set>.remove(<key>)
<+set> = {<int>, <key>}
<+set> = <set> | {<key>}
print(len(<set>), <key> in <set>)
""",
    "names": """
total += <int>
TOTAL += 1
kept.append(<value>)
LOG.append(<value>)
SHARED.value = <value>
SHARED = <object>
LOG = [<value>]
kept = <list>
<+function> = lambda: <value>
<+function> = functools.partial(kind_of, <value>)
<+any> = <function>()
def <+function>(a=<value>, *, b=<int>): return a, b
def <+function>():;    nonlocal total;    total += 1;    return total
def <+function>():;    ...;    return <value>
print(total, TOTAL, len(kept), len(LOG))
<+list> = [<function>, <function>]
<+any> = <value>
<+dead> = <value>;del <1>
class Local(Node):;    made = <int>;    def again(self): return self.bump(total);<+object> = Local(<text>).again()
""",
    "iterators": """
<+any> = next(<iterator>, None)
<+any> = next(<iterator>)
<+iterator> = iter(<list>)
<+iterator> = iter(<dict>.items())
<+iterator> = zip(<iterable>, <list>)
<+iterator> = enumerate(<iterable>)
<+iterator> = map(kind_of, <iterable>)
<+iterator> = filter(None, <numbers>)
<+iterator> = reversed(<list>)
<+iterator> = itertools.chain(<iterable>, <list>)
<+generator> = (<value> for n in <numbers>)
<+generator> = (n + t for n in <numbers> for t in [<plain>])
<+generator> = numbered(<int>, <list>)
<+generator> = <genfunction>()
<generator>.close()
<+list> = list(<iterator>)
<+list> = list(itertools.islice(<iterator>, 2))
for <+any> in <iterator>: break
for <+any> in <iterable>:;    if not FUEL: break;    FUEL.pop();    LOG.append(<1>)
<+any> = [n for n in <iterator>]
""",
    "tensors": """
<+plain> = <plain> + <int>
<+plain> = <plain> * <plain>
<+plain> = <plain>[:]
<+plain> = <plain>.view(-1)
<+plain> = <tensor>.detach()
<+plain> = <plain>.clone()
<+plain> = torch.ones_like(<plain>)
<plain>.add_(<int>)
<plain>.mul_(<plain>)
<plain>[0] = <int>
<plain>[1:].zero_()
<plain>.copy_(<plain>)
<plain>.data = <plain>.clone()
<plain> += <plain>
<+grad> = <tensor> * <differentiable>
<+grad> = (<differentiable> * 2).sin()
<+grad> = <differentiable> + <tensor>
<grad>.mul_(<int>)
<+any> = <differentiable>.requires_grad
<plain>.label = <value>
<+any> = getattr(<plain>, 'label', None)
print(<tensor>.detach())
print(<plain>.sum().item())
<+plain> = copy.copy(<plain>)
<+plain> = copy.deepcopy(<plain>)
torch.nn.init.constant_(<plain>, <int>)
with torch.no_grad(): <leaf>.mul_(2)
""",
    "hooks": """
<+handle> = <grad>.register_hook(<hook>)
<grad>.register_hook(<hook>)
<+handle> = <leaf>.register_hook(<hook>)
<leaf>.register_hook(<hook>)
<+handle> = <leaf>.register_post_accumulate_grad_hook(lambda t: print('accumulated', t.grad.sum().item()))
<handle>.remove()
<handle>.remove()
with <handle>: <+any> = <value>
<object>.value = <handle>
LOG.append(<handle>)
<grad>.retain_grad()
<+any> = <grad>.grad
print(<grad>.retains_grad, <leaf>.grad is None)
<+grad> = <tensor> * <differentiable>
<+grad> = (<differentiable> * <plain>).sin()
<grad>.sum().backward(retain_graph=True)
(<grad> * <plain>).sum().backward(retain_graph=True)
<+any> = torch.autograd.grad(<grad>.sum(), <leaf>, retain_graph=True, allow_unused=True)
<leaf>.grad = None
<leaf>.grad = <plain>.clone()
if <leaf>.grad is not None: <1>.grad.zero_()
print(<leaf>.grad)
<+plain> = <grad>.detach()
<+leaf> = <plain>.clone().requires_grad_()
<+leaf> = torch.nn.Parameter(<plain>.clone())
""",
    "outside": """
print(<value>, <text>)
print(<text>, end=' ')
print(<value>, file=<file>)
print(<plain>)
sys.stdout.write(<text>)
sys.stderr.write(<text>)
<file>.write(<text>)
LOGGER.info('%s of %s', <text>, <value>)
LOGGER.info(<text>)
warnings.warn(<text>)
LOG.append(<text>)
random.random()
<+any> = random.randint(0, 9)
<+plain> = torch.rand_like(<plain>)
numpy.random.rand(2)
""",
}
BLOCKS = """
if <condition>:;    ...
if <condition>:;    ...;else:;    ...
for <+count> in range(<int>):;    ...
for <+any> in <list>[:2]:;    ...
for <+any> in list(<dict>):;    ...
for <+any> in <iterable>:;    if not FUEL: break;    FUEL.pop();    ...
while <list> and FUEL:;    FUEL.pop();    ...
try:;    ...;except <errors> as error:;    print(type(error).__name__, error)
try:;    ...;    raise <error>;except Exception as error:;    LOG.append(error);    ...
try:;    ...;finally:;    ...
try:;    ...;except <errors>:;    ...;else:;    ...;finally:;    print('finally')
with Managed(<text>):;    ...
with Managed(<text>) as named, torch.no_grad():;    ...;    <dict>['x'];    ...
with contextlib.suppress(KeyError, AttributeError, IndexError, ValueError):;    ...
with contextlib.suppress(KeyError):;    ...;    raise <error>
def <+function>():;    ...;    return <value>
def <+genfunction>():;    ...;    yield <value>;    ...;    yield <value>
"""
ENDINGS = """
return <value>
if <condition>: return <value>
if <condition>: raise <error>
raise <error>
"""
HOLE = re.compile(r"<(\+?)([a-z]+|\d)>")
ASSIGNED = re.compile(r"^ *(\w+) (?:[-+|]?=) |^ *for (\w+) in ", re.MULTILINE)
ROWS = {theme: text.strip().split("\n") for theme, text in {**STATEMENTS, "blocks": BLOCKS, "endings": ENDINGS}.items()}
#: how deep blocks stand in blocks, and expressions in expressions
DEEPEST = 2


@dataclass
class Scope:
    """What the names stand for at one place of the program."""
    names: dict[str, str]

    def of(self, kind: str) -> list[str]:
        found = [name for name, its in self.names.items() if its == kind]
        return found + [name for other in KINDS.get(kind, ()) for name in self.of(other)]

    def within(self, bound: dict[str, str]) -> "Scope":
        return Scope({**self.names, **bound})


@dataclass(frozen=True)
class Program:
    """`text` defines `build()`, which makes the program; `steps` statements of the tables went into it.
    `takes`: those of the `ARGUMENTS` that it has."""
    text: str
    takes: tuple[str, ...]
    steps: int

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """As hypothesis shows it."""
        printer.text(f"\n{self.text}")


class Author:
    """Writes a program by the choices of somebody else."""

    def __init__(self, choose: Choose) -> None:
        self.choose = choose
        self.steps = 0
        self.names = 0
        themes = list(STATEMENTS)
        self.themes = [*dict.fromkeys(choose(themes) for _ in range(3)), "blocks"]

    def program(self, most: int) -> Program:
        scope = Scope({**ARGUMENTS, **OUTER})
        lines = self.block(scope, self.choose(range(1, most + 1)), 0)
        if self.choose((False, True)):
            lines += self.statement(scope, self.choose(ROWS["endings"]), 0)
        own = [name for name, kind in scope.names.items() if kind != "dead" and name not in OUTER]
        results = [name for name in own[len(ARGUMENTS):] if self.choose((True, True, False))]
        lines += [f"return [{', '.join(results)}]"]
        words = set(re.findall(r"\w+", "\n".join(lines)))
        takes = tuple(name for name in ARGUMENTS if name in words)
        head = ["def build():", "    total, kept = 0, [1]", f"    def program({', '.join(takes)}):",
                "        nonlocal total, kept", "        global TOTAL, LOG, SHARED"]
        text = "\n".join([*head, *(f"        {line}" for line in lines), "    return program"])
        return Program(text + "\n", takes, self.steps)

    def block(self, scope: Scope, count: int, depth: int) -> list[str]:
        lines: list[str] = []
        for _ in range(count):
            themes = self.themes if depth < DEEPEST else self.themes[:-1]
            rows = [row for row in ROWS[self.choose(themes)] if self.possible(row, scope)]
            lines += self.statement(scope, self.choose(rows), depth)
        return lines

    def possible(self, row: str, scope: Scope) -> bool:
        return all(binds or kind.isdigit() or kind in EXPRESSIONS or scope.of(kind) for binds, kind in HOLE.findall(row))

    def statement(self, scope: Scope, row: str, depth: int) -> list[str]:
        self.steps += 1
        taken: list[str] = []
        bound: dict[str, str] = {}
        lines: list[str] = []
        defines = row.startswith("def ")
        for line in row.split(";"):
            if line.strip() == "...":
                inside = scope.within({} if defines else bound)
                lines += [line[:-3] + text for text in self.block(inside, self.choose((1, 1, 2, 3)), depth + 1)]
            else:
                lines.append(self.filled(line, scope, taken, bound))
        if defines and "..." in row:
            lines[1:1] = self.declared(lines[1:], scope)
        if defines or "..." not in row and not row.startswith("for "):
            scope.names.update(bound)
        return lines

    def declared(self, body: list[str], scope: Scope) -> list[str]:
        """What a function says of names that it rebinds but does not own."""
        rebound = [first or second for first, second in ASSIGNED.findall("\n".join(body))]
        ours = dict.fromkeys(name for name in rebound if name in scope.names)
        words = {name: "global" if name.isupper() else "nonlocal" for name in ours}
        return [f"    {word} {name}" for name, word in words.items()]

    def filled(self, text: str, scope: Scope, taken: list[str], bound: dict[str, str], depth: int = 0) -> str:
        def fill(hole: re.Match[str]) -> str:
            binds, kind = hole.groups()
            if kind.isdigit():
                return taken[int(kind) - 1]
            taken.append(self.bind(kind, bound) if binds else self.expression(kind, scope, depth))
            return taken[-1]
        return HOLE.sub(fill, text)

    def bind(self, kind: str, bound: dict[str, str]) -> str:
        self.names += 1
        name = f"{kind}_{self.names}"
        bound[name] = kind
        return name

    def expression(self, kind: str, scope: Scope, depth: int) -> str:
        forms = EXPRESSIONS.get(kind, [])
        options = scope.of(kind) + [form for form in forms if depth < DEEPEST or not HOLE.search(form)]
        return self.filled(self.choose(options), scope, [], {}, depth + 1)
