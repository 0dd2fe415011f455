"""The emitter: every method runs on this Python and does what its name says."""

import dis
import operator
import sys
import traceback
from types import CodeType, FunctionType
from typing import Any

import pytest
from bytecode import Bytecode, Instr
from bytecode.instr import InstrLocation

from codegen.residual.emitter import Emitter, assemble


def emitter(*params: str) -> Emitter:
    return Emitter("f", "Owner.f", "user.py", 100, params)


def function(e: Emitter, **names: Any) -> FunctionType:
    return FunctionType(e.code(), {"__builtins__": __builtins__, **names})


def operands(code: CodeType) -> list[str]:
    return [inst.opname for inst in dis.get_instructions(code)]


# --- constants ---


class Hostile:
    """Raises whatever it is asked, even its class."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(name)

    __eq__ = __hash__ = __bool__ = __repr__ = lambda *args: operator.truediv(1, 0)


class Liar:
    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 1


def not_interned(text: str) -> str:
    return "".join(list(text))


CYCLIC: list[Any] = []
CYCLIC.append(CYCLIC)
CONSTANTS = [
    Hostile(), Hostile(), Liar(), Liar(), [], [], {}, {}, set(), bytearray(b"a"), bytearray(b"a"), memoryview(b"a"), b"a",
    0, 0.0, -0.0, False, True, 1, 1.0, 1 + 0j, float("nan"), None, ..., int, len, sys, CYCLIC, (), ((), []), 10**40, 10**40 + 0,
    "spam eggs", not_interned("spam_eggs"), not_interned("spam_eggs"), "spam_eggs", (not_interned("in_tuple"), "in_tuple"),
    frozenset({not_interned("in_set")}), (1, (not_interned("deep_in_tuple"),)), type("Str", (str,), {})("sub"), 2**70, -1,
]  # fmt: skip


def test_constants_keep_their_identity() -> None:
    inner = [value[0] for value in CONSTANTS if type(value) is tuple and len(value) == 2]
    e = emitter()
    for value in CONSTANTS:
        e.const(value)
    e.build("list", len(CONSTANTS))
    e.return_value()
    got = function(e)()
    assert len(got) == len(CONSTANTS)
    for index, (a, b) in enumerate(zip(got, CONSTANTS)):
        assert a is b, index
    now = [value[0] for value in CONSTANTS if type(value) is tuple and len(value) == 2]
    assert all(a is b for a, b in zip(inner, now)), "a user's tuple was changed in place"


def test_equal_constants_are_merged_by_identity_only() -> None:
    e = emitter()
    one: list[int] = []
    for value in (one, one, []):
        e.const(value)
    e.build("tuple", 3)
    e.return_value()
    code = e.code()
    assert len([c for c in code.co_consts if c == []]) == 2
    a, b, c = FunctionType(code, {})()
    assert a is one and b is one and c is not one


def test_a_string_constant_is_no_docstring() -> None:
    e = emitter()
    e.const("spam")
    e.return_value()
    assert function(e).__doc__ is None


# --- names, attributes, items ---


def test_locals_and_fresh_names() -> None:
    e = emitter("a", "b")
    t, u = e.fresh("t"), e.fresh("t")
    assert t != u and not t.isidentifier()
    e.load("a")
    e.store(t)
    e.load("b")
    e.store(u)
    e.load(u)
    e.load(t)
    e.build("tuple", 2)
    e.return_value()
    assert function(e)(1, 2) == (2, 1)
    assert Emitter("f", "f", "user.py", 1, [t]).fresh("t") == u


@pytest.mark.parametrize("name", ["a", "never_bound"])
def test_an_unbound_local_raises(name: str) -> None:
    e = emitter("a")
    if name == "a":
        e.delete("a")
    e.load(name)
    e.return_value()
    with pytest.raises(UnboundLocalError, match=name):
        function(e)(1)


def test_globals() -> None:
    e = emitter("x")
    e.load("x")
    e.store_global("spam")
    e.load_global("spam")
    e.load_global("len")
    e.build("tuple", 2)
    e.delete_global("spam")
    e.return_value()
    f = function(e)
    assert f(5) == (5, len) and "spam" not in f.__globals__


def test_attributes() -> None:
    class Box:
        pass

    e = emitter("box", "x")
    e.load("x")
    e.load("box")
    e.store_attr("spam")
    e.load("box")
    e.attr("spam")
    e.load("box")
    e.delete_attr("spam")
    e.return_value()
    box = Box()
    assert function(e)(box, 7) == 7 and not hasattr(box, "spam")


def test_items() -> None:
    e = emitter("d")
    e.const(1)
    e.load("d")
    e.const("key")
    e.store_subscr()
    e.load("d")
    e.const("key")
    e.subscr()
    e.load("d")
    e.const("gone")
    e.delete_subscr()
    e.return_value()
    d = {"gone": 0}
    assert function(e)(d) == 1 and d == {"key": 1}


# --- calls ---


def spy(*args: Any, **kwargs: Any) -> tuple[Any, ...]:
    return args, kwargs


@pytest.mark.parametrize("kwnames", [(), ("c",), ("b", "c"), ("a", "b", "c")])
def test_call(kwnames: tuple[str, ...]) -> None:
    e = emitter()
    e.begin_call()
    e.const(spy)
    e.end_callable()
    for i in range(3):
        e.const(i)
    e.call(3, kwnames)
    e.return_value()
    args = 3 - len(kwnames)
    assert function(e)() == (tuple(range(args)), dict(zip(kwnames, range(args, 3))))


@pytest.mark.parametrize("has_kwargs", [False, True])
def test_call_ex(has_kwargs: bool) -> None:
    e = emitter()
    e.begin_call()
    e.const(spy)
    e.end_callable()
    e.const((1, 2))
    if has_kwargs:
        e.const({"k": 3})
    e.call_ex(has_kwargs)
    e.return_value()
    assert function(e)() == ((1, 2), {"k": 3} if has_kwargs else {})


@pytest.mark.parametrize("owner, want", [([1], [1, 5]), (type("O", (), {"append": staticmethod(spy)})(), ((5,), {}))])
def test_method(owner: Any, want: Any) -> None:
    e = emitter("x")
    e.load("x")
    e.method("append")
    e.const(5)
    e.call(1)
    e.return_value()
    got = function(e)(owner)
    assert (owner if got is None else got) == want


# --- the stack and containers ---


def test_stack_shuffles() -> None:
    e = emitter()
    e.const(1)
    e.const(2)
    e.const(3)  # 1 2 3
    e.swap(3)  # 3 2 1
    e.rot_two()  # 3 1 2
    e.copy(3)  # 3 1 2 3
    e.dup()  # 3 1 2 3 3
    e.const(9)
    e.pop()
    e.build("tuple", 5)
    e.return_value()
    assert function(e)() == (3, 1, 2, 3, 3)


@pytest.mark.parametrize(
    "kind, items, want",
    [
        ("tuple", (1, 2), (1, 2)),
        ("list", (1, 2), [1, 2]),
        ("set", (1, 2), {1, 2}),
        ("map", ("a", 1, "b", 2), {"a": 1, "b": 2}),
        ("slice", (1, 2), slice(1, 2)),
        ("slice", (1, 2, 3), slice(1, 2, 3)),
        ("string", ("a", "b"), "ab"),
    ],
)
def test_build(kind: Any, items: tuple[Any, ...], want: Any) -> None:
    e = emitter()
    for item in items:
        e.const(item)
    e.build(kind, len(items) // 2 if kind == "map" else len(items))
    e.return_value()
    assert function(e)() == want


def test_unpack() -> None:
    e = emitter("x")
    e.load("x")
    e.unpack(3)
    e.build("list", 3)
    e.return_value()
    assert function(e)("abc") == ["c", "b", "a"]


# --- operators ---


@pytest.mark.parametrize("arg, symbol", [(number, text) for number, (_, text) in enumerate(dis._nb_ops[:26])])
def test_binary(arg: int, symbol: str) -> None:
    e = emitter("a", "b")
    e.load("a")
    e.load("b")
    e.binary(arg)
    e.return_value()
    a, b = (Matrix(), Matrix()) if "@" in symbol else (13, 3)
    assert function(e)(a, b) == eval("a " + symbol.rstrip("=") + " b")


class Matrix:
    def __matmul__(self, other: Any) -> str:
        return "product"


@pytest.mark.parametrize("opname", ["UNARY_NOT", "UNARY_NEGATIVE", "UNARY_INVERT", "UNARY_POSITIVE"])
@pytest.mark.parametrize("value", [0, 1, 5, -3])
def test_unary(opname: str, value: int) -> None:
    e = emitter("a")
    e.load("a")
    e.unary(opname)
    e.return_value()
    want = {"UNARY_NOT": not value, "UNARY_NEGATIVE": -value, "UNARY_INVERT": ~value, "UNARY_POSITIVE": +value}
    assert function(e)(value) == want[opname]


def test_unary_not_of_any_object() -> None:
    e = emitter("a")
    e.load("a")
    e.unary("UNARY_NOT")
    e.return_value()
    f = function(e)
    assert f([]) is True and f("x") is False


class Rich:
    def __lt__(self, other: Any) -> Any:
        return [other]

    __le__ = __eq__ = __ne__ = __gt__ = __ge__ = __lt__


@pytest.mark.parametrize("op", ["<", "<=", "==", "!=", ">", ">="])
def test_compare(op: str) -> None:
    for to_bool in (False, True):
        e = emitter("a", "b")
        e.load("a")
        e.load("b")
        e.compare(op, to_bool)
        e.return_value()
        f = function(e)
        for _ in range(30):  # long enough to be specialised
            for a, b in ((1, 2), (2, 1), (1, 1), ("a", "b"), (1.5, 1.5)):
                assert f(a, b) is eval(f"a {op} b")
        assert f(Rich(), 3) == (True if to_bool else [3])


@pytest.mark.parametrize("invert", [False, True])
def test_is_and_contains(invert: bool) -> None:
    e = emitter("a", "b")
    e.load("a")
    e.load("b")
    e.is_op(invert)
    e.load("a")
    e.load("b")
    e.build("list", 1)
    e.contains_op(invert)
    e.build("tuple", 2)
    e.return_value()
    assert function(e)(1, 1) == (not invert, not invert)
    assert function(e)([], []) == (invert, not invert)


# --- control ---


def choose(jump: str, a: Any) -> Any:
    e = emitter("a")
    taken = e.label()
    e.load("a")
    getattr(e, jump)(taken)
    e.const("fell through")
    e.return_value()
    e.mark(taken)
    e.const("jumped")
    e.return_value()
    return function(e)(a)


@pytest.mark.parametrize("value", [None, 0, 1, [], [0], True, False])
def test_conditional_jumps(value: Any) -> None:
    tests = {
        "jump_if_true": bool(value),
        "jump_if_false": not value,
        "jump_if_none": value is None,
        "jump_if_not_none": value is not None,
    }
    for jump, jumps in tests.items():
        assert choose(jump, value) == ("jumped" if jumps else "fell through")


def test_conditional_jump_backward() -> None:
    e = emitter("n")
    top = e.label()
    e.const(0)
    e.mark(top)
    e.const(2)
    e.binary(0)
    e.dup()
    e.load("n")
    e.compare("<")
    e.jump_if_true(top)
    e.return_value()
    assert function(e)(9) == 10


@pytest.mark.parametrize("length", [0, 1, 50])
@pytest.mark.parametrize("filler", [0, 300])
def test_for_loop(length: int, filler: int) -> None:
    e = emitter("xs")
    top, end = e.label(), e.label()
    e.const(0)
    e.load("xs")
    e.get_iter()
    e.mark(top)
    e.for_iter(end)
    for _ in range(filler):  # jumps too far for one byte
        e.const(1)
        e.pop()
    e.swap(2)
    e.rot_two()
    e.copy(3)
    e.binary(0)
    e.swap(3)
    e.pop()
    e.jump(top)
    e.end_for(end)
    e.return_value()
    f = function(e)
    assert f(range(length)) == sum(range(length))
    assert f(i for i in range(length)) == sum(range(length)), "a generator takes another way to the end of the loop"


def test_raise_keeps_the_line() -> None:
    e = emitter("x")
    e.line = 107
    e.load("x")
    e.raise_(1)
    error = ValueError("boo")
    with pytest.raises(ValueError) as info:
        function(e)(error)
    assert info.value is error
    last = traceback.extract_tb(error.__traceback__)[-1]
    assert (last.name, last.filename, last.lineno) == ("f", "user.py", 107)


# --- exceptions ---


def guarded(depth: int, exit: str) -> FunctionType:
    """depth values below; try: thing() except: note(exc_info()[1]), then `exit`; afterwards returns a list of them."""
    e = emitter("thing", "note")
    handler = e.label()
    for i in range(depth):
        e.const(i)
    e.begin_try(handler)
    e.begin_call()
    e.load("thing")
    e.end_callable()
    e.call(0)
    e.end_try()
    e.build("tuple", depth + 1)
    e.return_value()
    with e.catch(handler):
        e.begin_call()
        e.load("note")
        e.end_callable()
        e.copy(3)  # below the callable and its NULL
        e.call(1)
        e.pop()
        if exit == "reraise":
            e.reraise()
        elif exit == "raise":
            e.const(KeyError)
            e.raise_(1)
        elif exit == "again":
            e.raise_(0)
    if exit == "swallow":
        e.build("tuple", depth)
        e.return_value()
    return function(e)


@pytest.mark.parametrize("depth", [0, 1, 4])
@pytest.mark.parametrize("exit", ["swallow", "reraise", "raise", "again"])
def test_catch(depth: int, exit: str) -> None:
    error = ValueError("boo")
    seen: list[Any] = []

    def thing() -> str:
        if fail:
            raise error
        return "fine"

    f = guarded(depth, exit)
    for fail in (False, True, True):
        seen.clear()
        caught: BaseException | None = None
        try:
            raise LookupError("outer")
        except LookupError as outer:
            try:
                result = f(thing, lambda exc: seen.append((exc, sys.exc_info()[1])))
            except Exception as got:
                caught = got
            assert sys.exc_info()[1] is outer
        if not fail:
            assert result == (*range(depth), "fine") and not seen
            continue
        assert seen == [(error, error)]
        if exit == "swallow":
            assert result == tuple(range(depth)) and caught is None
        elif exit == "raise":
            assert type(caught) is KeyError and caught.__context__ is error
        else:
            assert caught is error


def test_nested_regions() -> None:
    """try: (try: a() except: x += b()) ; c() except: return "outer" — the outer row is split around the inner one."""
    e = emitter("a", "b", "c")
    inner, outer, after = e.label(), e.label(), e.label()

    def call(name: str) -> None:
        e.begin_call()
        e.load(name)
        e.end_callable()
        e.call(0)
        e.pop()

    e.begin_try(outer)
    e.begin_try(inner)
    call("a")
    e.end_try()
    e.jump(after)
    with e.catch(inner):
        call("b")
    e.mark(after)
    call("c")
    e.end_try()
    e.const("fine")
    e.return_value()
    with e.catch(outer):
        pass
    e.const("outer")
    e.return_value()
    f = function(e)

    def ok() -> None:
        pass

    def bad() -> None:
        raise ValueError

    for _ in range(3):
        assert f(ok, bad, ok) == "fine"
        assert f(ok, ok, bad) == "outer"
        assert f(bad, ok, ok) == "fine"
        assert f(bad, bad, ok) == "outer"
        assert f(bad, ok, bad) == "outer"
        assert sys.exc_info() == (None, None, None)


def test_empty_region_leaves_no_row() -> None:
    e = emitter()
    handler = e.label()
    e.begin_try(handler)
    e.end_try()
    e.begin_try(handler)
    e.const(1)
    e.end_try()
    e.return_value()
    with e.catch(handler):
        e.reraise()
    assert function(e)() == 1


# --- what the emitter refuses ---


def test_mistakes_fail_early() -> None:
    e = emitter()
    with pytest.raises(AssertionError, match="POP_TOP on line 100 needs 1 values, the stack holds 0"):
        e.pop()
    label = e.label()
    e.const(1)
    e.jump_if_true(label)
    e.const(1)
    with pytest.raises(AssertionError, match="reached with 1 values and with 0"):
        e.mark(label)
    with pytest.raises(AssertionError, match="runs off the end"):
        e.code()
    e.return_value()
    with pytest.raises(AssertionError, match="can't be reached"):
        e.const(2)
    with pytest.raises(AssertionError, match="1 labels are jumped to but not marked"):
        e.code()


def test_code_attributes() -> None:
    e = emitter("a", "b")
    e.load("a")
    e.return_value()
    code = e.code()
    assert (code.co_name, code.co_qualname, code.co_filename, code.co_firstlineno) == ("f", "Owner.f", "user.py", 100)
    assert code.co_varnames == ("a", "b") and code.co_argcount == 2 and not code.co_freevars and not code.co_cellvars
    assert code.co_stacksize == 1 and "LOAD_FAST" in operands(code)


@pytest.mark.parametrize("column", [120, 127, 128, 200, 255, 256, 300])
@pytest.mark.parametrize("steps", [(0, 1, 1), (1, 2, 1), (2, -1, 3), (1, 30, -29)])
def test_positions_far_to_the_right(column: int, steps: tuple[int, ...]) -> None:
    code, wanted, line = Bytecode(), [], 1
    for step in steps:
        line += step
        wanted.append((line, line, column, column + 20))
        code += [Instr("LOAD_CONST", line, location=InstrLocation(*wanted[-1])), Instr("POP_TOP")]
    code += [Instr("LOAD_CONST", None), Instr("RETURN_VALUE")]
    made = assemble(code, 1, {})
    lines = [line for start, end, line in made.co_lines() for _ in range(start, end, 2)]
    assert [position[0] for position in made.co_positions()] == lines
    assert list(dict.fromkeys(made.co_positions())) == wanted


def test_names_of_locals_are_found_at_once():
    emit, asked = Emitter("f", "f", "user.py", 1, ["x"]), []
    emit._names = type("Names", (set,), {"__contains__": lambda self, name: asked.append(name) or set.__contains__(self, name)})()
    assert [emit.fresh("item") for _ in range(300)][::299] == ["item.0", "item.299"]
    assert len(asked) == 300
