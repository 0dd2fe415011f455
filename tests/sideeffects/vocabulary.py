"""The words of random programs: what the arguments are, expressions and statements with holes, themes.

A statement is a row of a table, with holes: `<list>` takes a name, or an expression, that stands for a list; `<+list>`
binds a name to one; `<1>` repeats what the first hole took; `...` is a block of statements, `;` a new line.
"""
import pathlib
import re

#: name of an argument -> what it is
ARGUMENTS = {
    "x": "plain", "v": "plain", "w": "leaf", "handle": "handle", "box": "object", "slots": "object", "careful": "careful",
    "other_box": "object", "items": "list", "other": "list", "numbers": "numbers", "table": "dict", "order": "ordered",
    "groups": "groups", "tally": "tally", "bag": "set", "ring": "deque", "stack": "stack", "special": "special",
    "it": "iterator", "gen": "generator", "out": "file", "echo": "echo", "trail": "trail", "fallback": "fallback",
    "votes": "votes", "window": "window", "layers": "chainmap", "codes": "array", "raw": "bytes", "layer": "module",
    "registered": "registered"}
#: names of the enclosing function and of the module
OUTER = {"total": "count", "kept": "list", "TOTAL": "count", "LOG": "list", "SHARED": "object", "spare": "cell", "EXTRA": "cell"}

#: what else than its own names fills a hole
KINDS = {
    "int": ["count"], "tensor": ["plain", "grad", "leaf"], "list": ["stack", "echo"],
    "dict": ["ordered", "groups", "special"], "ordered": ["trail"], "groups": ["fallback"], "tally": ["votes"], "deque": ["window"],
    "object": ["careful", "registered"], "differentiable": ["grad", "leaf"], "iterator": ["generator"],
    "value": ["tensor", "list", "dict", "object", "set", "deque", "function", "handle", "pair", "any", "iterator", "view", "numbers",
              "tally", "chainmap", "array", "bytes", "module", "point", "ref"],
    "iterable": ["list", "numbers", "dict", "deque", "iterator", "view", "chainmap", "array", "bytes"],
    "sequence": ["list", "numbers", "deque", "array", "bytes"],
}
EXPRESSIONS = {
    "int": ["0", "1", "2", "-1", "<count>", "<count> + 1", "len(<list>)", "len(<dict>)", "<object>.count",
            "sum(<numbers>)", "<plain>.dim()", "MODULE.level", "<module>.calls", "(<+count> := <int>)", "-<int>"],
    "byte": ["0", "7", "65", "<int>"],
    "key": ["'a'", "'b'", "'c'", "'d'", "1", "<object>.name"],
    "text": ["'one'", "'two'", "f'{<int>}'", "<object>.name", "str(<key>)", "'%s-%r' % (<int>, <key>)"],
    "value": ["<int>", "<text>", "None", "(<int>, <value>)", "[<value>]", "{<key>: <value>}", "<object>.value", "<plain> + <int>",
              "<dict>.get(<key>)", "<tensor> * <tensor>", "<list>[:2]", "Node(<text>)", "Pair(<value>)", "<leaf>.grad",
              "Point(<int>, <value>)", "<value> if <condition> else <value>"],
    "object": ["<object>.next"],
    "hook": ["doubled", "seen", "lambda g: g * <int>", "functools.partial(scaled, by=<int>)", "<object>.hook",
             "lambda g: LOG.append(<value>)", "lambda g: g + <plain>"],
    "condition": ["<int> > <int>", "<object> is <object>", "<value> is <value>", "<key> in <dict>", "hasattr(<object>, 'extra')",
                  "len(<list>) > <int>", "<object>.count == <int>", "not <list>", "<int> in <numbers>", "True", "False",
                  "isinstance(<value>, (list, dict))", "<condition> and <condition>", "<int> <= <int> < <int>"],
    "error": ["KeyError(<text>)", "ValueError(<int>)", "StopIteration(<int>)", "Trouble(<text>, <value>)"],
    "errors": ["Exception", "(KeyError, IndexError, ValueError)", "AttributeError", "(TypeError, Trouble)"],
}

#: theme -> its rows
STATEMENTS = {theme: rows.splitlines() for theme, rows in re.findall(
    r"^\[(.+)\]\n((?:.+\n)+)", (pathlib.Path(__file__).parent / "statements.txt").read_text(), re.MULTILINE)}
BLOCKS = """
if <condition>:;    ...
if <condition>:;    ...;else:;    ...
for <+count> in range(<int>):;    ...
for <+any> in <list>[:2]:;    ...
for <+any> in list(<dict>):;    ...
for <+any> in <iterable>:;    if not FUEL: break;    FUEL.pop();    ...
for <+count> in range(3):;    try:;        ...;        if <condition>: continue;        ...;    finally:;        ...
for <+count> in range(3):;    try:;        if <condition>: break;        ...;    finally:;        ...;else:;    ...
while <list> and FUEL:;    FUEL.pop();    ...
try:;    ...;except <errors> as error:;    print(type(error).__name__, error)
try:;    ...;    raise <error>;except Exception as error:;    LOG.append(error);    ...
try:;    ...;finally:;    ...
try:;    ...;except <errors>:;    ...;else:;    ...;finally:;    print('finally')
try:;    ...;    if <condition>: return <value>;finally:;    ...
with Managed(<text>):;    ...
with Managed(<text>) as named, torch.no_grad():;    ...;    <dict>['x'];    ...
with Gate(<text>):;    ...
with noted(<text>, <list>):;    ...
with contextlib.suppress(KeyError, AttributeError, IndexError, ValueError):;    ...
with contextlib.suppress(KeyError):;    ...;    raise <error>
def <+function>():;    ...;    return <value>
def <+genfunction>():;    ...;    yield <value>;    ...;    yield <value>
def <+genfunction>():;    try:;        ...;        <+any> = yield <value>;        yield <2>;    finally:;        ...
def <+genfunction>():;    yield <value>;    yield from <iterable>;    return <value>
""".strip().splitlines()
ENDINGS = """
return <value>
if <condition>: return <value>
if <condition>: raise <error>
raise <error>
""".strip().splitlines()
