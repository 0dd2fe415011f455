"""Continuations one entry at a time, what they refuse, what they leave behind; and random programs."""

import dis
import itertools
import random
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CellType, CodeType, FunctionType
from typing import Any

import pytest

from codegen.residual.resume import Entry, Slot, Unresumable, implicit_local, needed_closure, raise_again, resume_code
from symbolic.code import Inst, decode
from tests.codegen.frames import Guard, breaks, hands_over, log, mark


def calls(code: CodeType) -> list[Inst]:
    return [inst for inst in decode(code).insts if inst.op in ("CALL", "CALL_KW")]


def continued(f: Callable[..., Any], entry: Entry, call: int, *slots: Slot, **options: Any) -> FunctionType:
    """A continuation of `f` at its call with this number; every local and cell must be given as an option."""
    code = f.__code__
    inst = calls(code)[call]
    offset = inst.next_offset if entry is Entry.AFTER else inst.offset
    cells = options.pop("closure", f.__closure__)
    options.setdefault("locals", ())
    new = resume_code(code, entry=entry, stack=slots, offset=offset, **options)
    return FunctionType(new, f.__globals__, closure=cells)


# --- AFTER ---


def polynomial(a: Any, b: Any) -> Any:
    return a * mark(b) + b


def test_after() -> None:
    f = continued(polynomial, Entry.AFTER, 0, Slot.VALUE, Slot.VALUE, locals=("b",))
    assert f(5, 2, 10) == 25
    assert f.__code__.co_varnames[0] == "b" and f.__code__.co_argcount == 3
    assert f.__doc__ is None


def test_attributes_are_kept() -> None:
    f = continued(polynomial, Entry.AFTER, 0, Slot.VALUE, Slot.VALUE, locals=("b",))
    old, new = polynomial.__code__, f.__code__
    for name in ("co_name", "co_qualname", "co_filename", "co_firstlineno"):
        assert getattr(new, name) == getattr(old, name)
    g = continued(polynomial, Entry.AFTER, 0, Slot.VALUE, Slot.VALUE, locals=("b",), name="later")
    assert g.__code__.co_name == g.__code__.co_qualname == "later"


def test_flags_and_parameters() -> None:
    def f(a: Any, *args: Any, k: Any = 1, **kw: Any) -> Any:
        "docstring"
        mark(1)
        return a, args, k, kw

    g = continued(f, Entry.AFTER, 0, Slot.VALUE, locals=("a", "args", "k", "kw"))
    code = g.__code__
    assert code.co_argcount == 5 and code.co_kwonlyargcount == code.co_posonlyargcount == 0
    assert not code.co_flags & 12 and code.co_flags & 3 == 3
    assert g.__doc__ is None
    assert g(1, (2,), 3, {"l": 4}, "result") == (1, (2,), 3, {"l": 4})


def test_only_reachable_code_is_kept() -> None:
    def f(a: Any) -> Any:
        b = "early constant", a
        try:
            b = list(b)
        finally:
            mark(b)
        return "late constant", len

    g = continued(f, Entry.AFTER, 1, Slot.VALUE)
    assert g(None) == ("late constant", len)
    assert "late constant" in str(g.__code__.co_consts) and "early" not in str(g.__code__.co_consts)
    assert not g.__code__.co_exceptiontable and "list" not in g.__code__.co_names


def test_null_slots() -> None:
    def f(x: Any) -> Any:
        return max(x, mark(3), key=lambda v: v)

    order = (Slot.VALUE, Slot.NULL) if sys.version_info >= (3, 13) else (Slot.NULL, Slot.VALUE)
    g = continued(f, Entry.AFTER, 0, *order, Slot.VALUE, Slot.VALUE)
    assert g(max, 5, 3) == 5


def test_a_call_that_comes_first_is_under_its_handler() -> None:
    def fails(x: Any) -> Any:
        raise KeyError(x)

    def f(g: Any) -> Any:
        try:
            return g(mark("k"))
        except KeyError as e:
            return "caught", e.args

    order = (Slot.VALUE, Slot.NULL) if sys.version_info >= (3, 13) else (Slot.NULL, Slot.VALUE)
    g = continued(f, Entry.AFTER, 0, *order, Slot.VALUE)
    assert g(fails, "k") == ("caught", ("k",))


def test_values_are_not_kept_alive() -> None:
    """The prologue moves its parameters: what the program drops is freed at once."""

    class Noisy:
        def __del__(self) -> None:
            freed.append(1)

    freed: list[int] = []

    def f(count: Any) -> Any:
        make()
        return len(count)

    def make() -> Any:
        return Noisy()

    g = continued(f, Entry.AFTER, 0, Slot.VALUE, locals=("count",))
    codes = [inst.opname for inst in dis.get_instructions(g)]
    assert "DELETE_FAST" in codes
    boxes = [Noisy()]
    assert g(freed, *[boxes.pop()]) in (0, 1)  # the caller's argument tuple may still hold it
    assert freed == [1]


# --- RAISE ---


def risky(x: Any) -> Any:
    try:
        return mark(
            x,
        )
    except KeyError as e:
        return "caught", e, e.__context__, e.__cause__, sys.exc_info()[1]


def test_raise_is_caught_in_the_frame() -> None:
    f = continued(risky, Entry.RAISE, 0)
    error, context, cause = KeyError("k"), OSError(), EOFError()
    error.__context__ = context
    error.__cause__ = cause
    assert f(error) == ("caught", error, context, cause, error)
    entries = traceback.extract_tb(error.__traceback__)
    line = risky.__code__.co_firstlineno + 2
    assert [(entry.name, entry.lineno) for entry in entries] == [("risky", line)]
    assert sys.exc_info() == (None, None, None)


def test_raise_that_escapes() -> None:
    f = continued(risky, Entry.RAISE, 0)
    with pytest.raises(ValueError) as info:
        try:
            raise EOFError("being handled by the caller")
        except EOFError:
            f(ValueError("v"))
    assert info.value.__context__ is None, "the exception was raised before: its context is what it was"
    entries = traceback.extract_tb(info.value.__traceback__)[1:]
    line = risky.__code__.co_firstlineno + 2
    assert [(entry.name, entry.lineno, entry.end_lineno) for entry in entries] == [("risky", line, line + 2)]


def test_raise_keeps_the_inner_traceback() -> None:
    def inner() -> None:
        raise ValueError("inner")

    try:
        inner()
    except ValueError as e:
        assert e.__traceback__ is not None
        error = e.with_traceback(e.__traceback__.tb_next)
    f = continued(risky, Entry.RAISE, 0)
    with pytest.raises(ValueError) as info:
        f(error)
    assert [entry.name for entry in traceback.extract_tb(info.value.__traceback__)][1:] == ["risky", "inner"]


def test_raise_again_leaves_no_entry() -> None:
    error = ValueError()
    with pytest.raises(ValueError) as info:
        raise_again(error)
    assert len(traceback.extract_tb(info.value.__traceback__)) == 1


# --- CALL ---


def outer(x: Any) -> Any:
    y = 1
    try:
        y = x + mark(2)
    except ValueError as e:
        y = str(e)
    return y


def test_call() -> None:
    f = continued(outer, Entry.CALL, 0, Slot.VALUE, nested=hands_over(lambda a, b: a * b), nested_args=2)
    assert f(100, 3, 4) == 112
    assert f.__code__.co_argcount == 3


@pytest.mark.parametrize("nested", [max, int("5").__add__, "{}".format, dict.get])
def test_call_of_any_callable(nested: Any) -> None:
    args = {max: (2, 3), dict.get: ({"k": 5}, "k")}.get(nested, (1,))
    f = continued(outer, Entry.CALL, 0, Slot.VALUE, nested=hands_over(nested), nested_args=len(args), locals=("x",))
    want = nested(*args)
    assert f("", "" if isinstance(want, str) else 0, *args) == want


def test_call_that_raises_is_caught_by_the_handler_of_the_call() -> None:
    def nested(error: BaseException) -> None:
        raise error

    f = continued(outer, Entry.CALL, 0, Slot.VALUE, nested=hands_over(nested), nested_args=1)
    assert f(100, ValueError("boo")) == "boo"
    with pytest.raises(KeyError) as info:
        f(100, KeyError())
    entries = traceback.extract_tb(info.value.__traceback__)[1:]
    assert [entry.name for entry in entries] == ["outer", "nested"]
    assert entries[0].lineno == outer.__code__.co_firstlineno + 3


def test_replaced_and_dropped_results() -> None:
    called = []
    append = hands_over(called.append)
    f = continued(outer, Entry.CALL, 0, Slot.VALUE, nested=append, nested_args=1, replace_result=True)
    assert f(100, 7, "argument") == 107 and called == ["argument"]

    def g(x: Any) -> Any:
        x.attribute = mark(1)
        return x

    class Box:
        pass

    store = next(inst for inst in decode(g.__code__).insts if inst.op == "STORE_ATTR")
    code = resume_code(
        g.__code__, entry=Entry.CALL, locals=("x",), stack=(), offset=store.offset, nested=append, nested_args=1,
        drop_result=True,
    )  # fmt: skip
    box = Box()
    assert FunctionType(code, {})(box, "stored") is box and called == ["argument", "stored"] and not vars(box)


def test_call_resumes_where_it_is_told() -> None:
    """A test inlined from `__bool__`, say: the result decides, and the frame goes on behind the jump."""

    def f(x: Any) -> Any:
        log(mark(1))
        log(mark(2))
        return x

    code = f.__code__
    log_calls = calls(code)
    new = resume_code(
        code, entry=Entry.CALL, locals=("x",), stack=(), offset=log_calls[0].offset, nested=hands_over(int),
        nested_args=1, resume_at=log_calls[3].next_offset,
    )  # fmt: skip
    assert FunctionType(new, {})("x", "12") == "x"


def test_three_deep() -> None:
    def third(x: Any) -> Any:
        return mark(x) + 1

    def second(x: Any) -> Any:
        return [third(x)]

    def first(x: Any) -> Any:
        return {"first": second(x)}

    inner = continued(third, Entry.AFTER, 0, Slot.VALUE)
    middle = hands_over(continued(second, Entry.CALL, 0, nested=hands_over(inner), nested_args=1))
    whole = continued(first, Entry.CALL, 0, Slot.VALUE, nested=middle, nested_args=1, closure=(CellType(second),))
    assert whole("first", 41) == {"first": [42]}


# --- exceptions being handled ---


def handler() -> Any:
    try:
        raise ValueError("original")
    except ValueError as e:
        seen = sys.exc_info()[1], mark(1)
        raise


def test_handling_and_bare_raise() -> None:
    f = continued(handler, Entry.AFTER, 2, Slot.HANDLING, Slot.VALUE, Slot.VALUE)
    error = ValueError("given")
    error.__context__ = context = OSError()
    error.__traceback__ = None
    with pytest.raises(ValueError) as info:
        f(error, "exc_info", 1)
    assert info.value is error and error.__context__ is context
    # As in CPython a re-raised exception gets no second entry for the frame that caught it.
    assert [entry.name for entry in traceback.extract_tb(error.__traceback__)][1:] == []
    assert sys.exc_info() == (None, None, None)


def test_exc_slot_in_a_finally_block() -> None:
    def f() -> Any:
        try:
            log()
        finally:
            mark(1)
            seen.append(sys.exc_info()[1])

    seen: list[Any] = []
    g = continued(f, Entry.AFTER, 4, Slot.EXC, Slot.VALUE, closure=(CellType(seen),))
    error = KeyError()
    with pytest.raises(KeyError) as info:
        g(error, None)
    assert info.value is error and seen == [error] and error.__context__ is None


def test_exc_slot_in_a_with_block() -> None:
    """WITH_EXCEPT_START hands the exception to `__exit__` and asks it; the frame goes on behind that."""

    def f(manager: Any) -> Any:
        with manager:
            log()
        return "swallowed"

    code = f.__code__
    start = next(inst for inst in decode(code).insts if inst.op == "WITH_EXCEPT_START")
    new = resume_code(
        code, entry=Entry.AFTER, locals=(), stack=(Slot.VALUE, Slot.VALUE, Slot.EXC), offset=start.offset
    )  # fmt: skip
    seen: list[Any] = []

    def exit(*args: Any) -> bool:
        seen.append((args[:2], sys.exc_info()[1]))
        return True

    error = KeyError()
    assert FunctionType(new, {})(exit, 0, error) == "swallowed"
    assert seen == [((KeyError, error), error)] and sys.exc_info() == (None, None, None)


def test_nested_exc_slots_and_the_caller_s() -> None:
    def f() -> Any:
        seen = []
        try:
            raise ValueError
        except ValueError:
            try:
                raise KeyError
            except KeyError:
                seen.append(mark(1))
                seen.append(sys.exc_info()[1])
            seen.append(sys.exc_info()[1])
        seen.append(sys.exc_info()[1])
        return seen

    method = (Slot.VALUE, Slot.VALUE)  # function and self
    g = continued(f, Entry.AFTER, 0, Slot.HANDLING, Slot.HANDLING, *method, Slot.VALUE, locals=("seen",))
    value, key, caller = ValueError(), KeyError(), OSError()
    seen: list[Any] = []
    try:
        raise caller
    except OSError:
        assert g(seen, value, key, list.append, seen, 1) is seen
        assert sys.exc_info()[1] is caller
    assert seen == [1, key, value, caller]


# --- what is refused ---


def test_refusals() -> None:
    def generator() -> Iterator[Any]:
        yield mark(1)

    async def coroutine() -> Any:
        return mark(1)

    for f, what in ((generator, "generator"), (coroutine, "coroutine")):
        with pytest.raises(Unresumable, match=what):
            continued(f, Entry.AFTER, 0, Slot.VALUE)
    with pytest.raises(Unresumable, match="module or class body"):
        resume_code(compile("x = 1", "<string>", "exec"), entry=Entry.AFTER, locals=(), stack=(), offset=2)
    with pytest.raises(Unresumable, match="a stack of 1 values instead of 2"):
        continued(polynomial, Entry.AFTER, 0, Slot.VALUE)
    with pytest.raises(Unresumable, match="a is not a local"):
        continued(handler, Entry.AFTER, 2, Slot.HANDLING, Slot.VALUE, Slot.VALUE, locals=("a",))
    with pytest.raises(Unresumable, match="where Kind.OUTER belongs"):
        continued(handler, Entry.AFTER, 2, Slot.VALUE, Slot.VALUE, Slot.VALUE)
    with pytest.raises(Unresumable, match="where Kind.PLAIN belongs"):
        continued(polynomial, Entry.AFTER, 0, Slot.EXC)


class Parent:
    def who(self) -> str:
        return "parent"


class Child(Parent):
    def who(self) -> Any:
        mark(1)
        s = super()
        return s.who()

    def captured(self) -> Any:
        mark(lambda: self)
        s = super()
        return s.who()


def test_super_needs_the_first_parameter() -> None:
    assert implicit_local(Child.who.__code__) == "self"
    with pytest.raises(Unresumable, match="super"):
        continued(Child.who, Entry.AFTER, 0, Slot.VALUE)
    assert continued(Child.who, Entry.AFTER, 0, Slot.VALUE, locals=("self",))(Child(), None) == "parent"
    cells = (CellType(Child()), *Child.captured.__closure__)  # type: ignore[attr-defined]
    assert needed_closure(Child.captured.__code__) == ("self", "__class__")
    assert continued(Child.captured, Entry.AFTER, 0, Slot.VALUE, closure=cells)(None) == "parent"


# --- the world around ---


def test_cells_are_shared_with_the_rest_of_the_program() -> None:
    def f(x: Any) -> Any:
        def up() -> None:
            nonlocal x
            x += 1

        mark(up)
        up()
        return x, up

    g = continued(f, Entry.AFTER, 0, Slot.VALUE, locals=("up",), closure=(cell := CellType(10),))
    assert needed_closure(f.__code__) == ("x",)
    value, _ = g(lambda: setattr(cell, "cell_contents", cell.cell_contents * 2), None)
    assert value == 20 and cell.cell_contents == 20


def test_signals_wait_until_the_frame_stands() -> None:
    """A continuation doesn't look for signals before the user's handlers are in place."""

    def f() -> Any:
        try:
            mark(1)
            for _ in range(10):
                pass
            return "not interrupted"
        except KeyboardInterrupt:
            return "interrupted"

    g = continued(f, Entry.AFTER, 0, Slot.VALUE)
    resumes = [inst.arg for inst in dis.get_instructions(g) if inst.opname == "RESUME"]
    assert resumes == [2]
    assert g(None) == "not interrupted"


def test_tracing_and_locals() -> None:
    """A tracer sees the user's lines, and looking at `f_locals` all the while changes nothing."""

    def f(n: Any) -> Any:
        c = "outer"
        get = lambda: c  # noqa: E731
        mark(1)
        a = [c for c in range(n)]
        b = [(lambda: c) for c in range(n)]
        try:
            raise KeyError(c)
        except KeyError as e:
            found = e.args
        return a, [g() for g in b], c, get(), found, sorted(locals())

    lines: set[int] = set()

    def tracer(frame: Any, event: str, arg: Any) -> Any:
        if frame.f_code.co_name == "f":
            lines.add(frame.f_lineno - f.__code__.co_firstlineno)
            frame.f_locals
        return tracer

    cell = CellType("outer")
    g = continued(f, Entry.AFTER, 0, Slot.VALUE, locals=("n", "get"), closure=(cell,) * len(needed_closure(f.__code__)))
    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        got = g(2, lambda: cell.cell_contents, None)
    finally:
        sys.settrace(before)
    assert got == f(2)
    assert {4, 5, 6, 7, 8, 9, 10} <= lines


LEAKS = """
import sys, gc
from codegen.residual.resume import original
from tests.codegen.test_resume_entries import *

def program(a, things):
    total = 0
    try:
        with Guard("g", True):
            for x in things:
                total += len(mark(a))
                if x is None:
                    raise ValueError(a)
    finally:
        total += len(mark(a))
    return total

def in_handler(a):
    try:
        raise ValueError
    except ValueError:
        mark(a)
        raise

class Quiet:
    def __exit__(self, *args): return True

a, error, nested_error = [1], ValueError("kept"), KeyError("kept")
inst = calls(program.__code__)
exits = Quiet().__exit__

def stack_at(code, offset):
    source = original(code)
    return source.states[source.index(offset)].stack

# The first call of mark is the one inside len(...): its stack is exit, iterator, total, (NULL, len).
first = next(i for i in inst if len(stack_at(program.__code__, i.next_offset)) == 6)
order = (Slot.VALUE, Slot.NULL) if sys.version_info >= (3, 13) else (Slot.NULL, Slot.VALUE)
below = (Slot.VALUE, Slot.VALUE, Slot.VALUE, *order)
mark_call = calls(in_handler.__code__)[0]

def make(code, entry, stack, offset, **options):
    names = ("a", "x", "total") if code is program.__code__ else ("a",)
    new = resume_code(code, entry=entry, locals=names, stack=stack, offset=offset, **options)
    return FunctionType(new, globals())

go_on = make(program.__code__, Entry.AFTER, (*below, Slot.VALUE), first.next_offset)
fail = make(program.__code__, Entry.RAISE, below, first.offset)
nested = hands_over(mark)
call = make(program.__code__, Entry.CALL, below, first.offset, nested=nested, nested_args=1, replace_result=True)
again = make(in_handler.__code__, Entry.AFTER, (Slot.HANDLING, Slot.VALUE), mark_call.next_offset)
in_handler_fail = make(in_handler.__code__, Entry.RAISE, (Slot.HANDLING,), mark_call.offset)

def once():
    assert go_on(a, 1, 0, exits, iter((1, None)), 5, len, a) == 9
    error.__traceback__ = error.__context__ = None
    assert fail(a, None, 10, exits, iter(()), 5, len, error) == 11
    assert call(a, 1, 0, exits, iter(()), 5, len, [1, 2], "dropped") == 8
    error.__traceback__ = error.__context__ = None
    try:
        again(a, error, 0)
    except ValueError as e:
        assert e is error
    try:
        in_handler_fail(a, error, nested_error)
    except KeyError as e:
        assert e is nested_error
    error.__traceback__ = error.__context__ = None
    nested_error.__traceback__ = nested_error.__context__ = None

watched = [a, error, nested_error, exits, len, mark, Guard, ValueError, KeyError, None, raise_again, go_on.__code__]
def counts():
    gc.collect()
    return [sys.getrefcount(x) for x in watched]

for _ in range(100): once()
before = counts()
for _ in range(10_000): once()
after = counts()
grown = [(x, b, c) for x, b, c in zip(watched, before, after) if abs(c - b) > 50]
assert not grown, grown
assert sys.exc_info() == (None, None, None)
print("fine")
"""


def test_nothing_leaks() -> None:
    """Ten thousand times through every kind of entry, in a child process: a crash is a failure, not the end."""
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", LEAKS], cwd=root, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0 and done.stdout == "fine\n", done.stderr[-3000:]


# --- random programs ---


class Writer:
    """Writes a random program: nested loops, handlers, with blocks, comprehensions, closures, marks everywhere."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.numbers = itertools.count(1)

    def text(self) -> str:
        self.lines = ["def program():", "    t, c, n = [], 'c', 0"]
        self.block(1, 0, False, False)
        return "\n".join([*self.lines, "    return t, c, n"])

    def add(self, indent: int, line: str) -> None:
        self.lines.append("    " * indent + line)

    def block(self, indent: int, depth: int, loop: bool, handler: bool) -> None:
        for _ in range(self.random.randint(1, 2 if depth else 4)):
            compound = [self.try_, self.for_, self.with_, self.if_, self.def_, self.try_]
            if depth < 4 and self.random.random() < 0.55:
                self.random.choice(compound)(indent, depth + 1, loop, handler)
            else:
                self.simple(indent, loop, handler)

    def simple(self, indent: int, loop: bool, handler: bool) -> None:
        k = next(self.numbers)
        choices = [
            f"t.append(mark({k}))",
            f"t.append((mark({k}), n, mark('b')))",
            f"mark({self.error()}({k}))",
            "log(sys.exc_info()[1])",
            f"t.append([mark(c) for c in range(2)] + [c, mark({k})])",
            f"t.append([[(lambda: c)() for c in (mark(x), {k})] for x in range(2)])",
            "t.append([f() for f in [(lambda: x, mark(x))[0] for x in range(2)]])",
            f"n += mark({k})",
            f"t.append({{x: mark(x) for x in range(2) if mark(x) or {k} % 2}})",
        ]
        if loop:
            choices += ["break", "continue"]
        if handler:
            choices += ["raise", f"raise KeyError({k}) from sys.exc_info()[1]"]
        if indent > 1 and self.random.random() < 0.2:
            choices = [f"return mark('return {k}'), len(t)"]
        line = self.random.choice(choices)
        leaves = line.split()[0] in ("break", "continue", "raise", "return")
        self.add(indent, f"if mark(n + {k}) % 3: {line}" if leaves else line)

    def error(self) -> str:
        return self.random.choice(["ValueError", "KeyError", "OSError"])

    def try_(self, indent: int, depth: int, loop: bool, handler: bool) -> None:
        self.add(indent, "try:")
        self.block(indent + 1, depth, loop, handler)
        kind = self.random.choice(["except", "except", "finally", "both"])
        if kind != "finally":
            self.add(indent, self.random.choice(["except Exception:", f"except {self.error()} as e:"]))
            self.block(indent + 1, depth, loop, True)
            if self.random.random() < 0.3:
                self.add(indent, "else:")
                self.block(indent + 1, depth, loop, handler)
        if kind != "except":
            self.add(indent, "finally:")
            self.block(indent + 1, depth, loop, handler)

    def for_(self, indent: int, depth: int, loop: bool, handler: bool) -> None:
        self.add(indent, f"for i{depth} in range(mark(2)):")
        self.block(indent + 1, depth, True, handler)
        if self.random.random() < 0.3:
            self.add(indent, "else:")
            self.block(indent + 1, depth, loop, handler)

    def with_(self, indent: int, depth: int, loop: bool, handler: bool) -> None:
        self.add(indent, f"with Guard('g{next(self.numbers)}', {self.random.random() < 0.4}):")
        self.block(indent + 1, depth, loop, handler)

    def if_(self, indent: int, depth: int, loop: bool, handler: bool) -> None:
        self.add(indent, f"if mark({next(self.numbers)} + n) % 2:")
        self.block(indent + 1, depth, loop, handler)

    def def_(self, indent: int, depth: int, loop: bool, handler: bool) -> None:
        self.add(indent, f"def f{depth}(a=1, *b):")
        self.add(indent + 1, "nonlocal c, n")
        self.block(indent + 1, depth, False, False)
        self.add(indent + 1, "c = f'{c} {a} {b}'[-20:]")
        self.add(indent, f"t.append(f{depth}(mark({next(self.numbers)}), 2))")


def random_program(seed: int) -> Callable[[], Any]:
    text = Writer(seed).text()
    names: dict[str, Any] = {"mark": mark, "log": log, "Guard": Guard, "sys": sys}
    exec(compile(text, f"<random program {seed}>", "exec"), names)
    return names["program"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(25))
def test_random_program(seed: int) -> None:
    breaks(random_program(seed), limit=6)
