"""Continuations of hand-written programs, broken at every call of `mark` (see `frames.py`)."""

import dis
import sys
import textwrap
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.codegen.frames import Guard, breaks, log, mark


@contextmanager
def ignored(name: str, swallow: bool) -> Iterator[str]:
    try:
        yield name
    except Exception as exc:
        log("exit", name, exc)
        if not swallow:
            raise


def straight() -> Any:
    a = mark(1)
    b = a + mark(2) * mark(3)
    return [a, b, mark(4), *(mark(5), 6)], {"k": mark(7), mark(8): b}


def loops() -> Any:
    total = 0
    for i in range(3):
        for j in [10, 20]:
            if j == mark(20) and i == 1:
                continue
            total += mark(i) * j
        else:
            total += mark(1000)
        if i == 2:
            break
    else:
        total = -1
    while total > 0:
        total -= mark(777)
    return total


def operands() -> Any:
    text = "a{}".format(mark(5)), f"{mark(6)!r:>4}{mark(7)}"
    return max(1, 2 + mark(3), *[mark(4)], key=lambda x: -x), text, [1, 2][mark(1)]


def with_blocks() -> Any:
    with Guard("a") as a, Guard("b", True) as b:
        log(mark(a), mark(b))
        mark(ValueError("in with"))
        log("never")
    with Guard("c"):
        for i in range(2):
            with Guard("d"):
                if mark(i):
                    return mark("from with"), i
    return "end"


def with_escapes() -> Any:
    with Guard("a"):
        with Guard("b"):
            mark(KeyError("out"))


def with_generator_manager() -> Any:
    with ignored("x", True) as x:
        log(mark(x))
        mark(ValueError(x))
    with ignored("y", False) as y:
        mark(TypeError(y))


def try_except() -> Any:
    out = []
    for x in (1, ValueError("v"), KeyError("k"), OSError("o"), 5):
        try:
            out.append(mark(x))
        except ValueError as e:
            out.append(repr(e))
            log(sys.exc_info()[1], mark("handling"))
        except (KeyError, IndexError):
            log(sys.exc_info()[1], mark("tuple"))
            out.append(mark("k"))
        except Exception:
            mark("other")
            log(sys.exc_info()[1])
        else:
            out.append(mark("else"))
        finally:
            out.append(mark("finally"))
            log(sys.exc_info()[1])
        log(sys.exc_info()[1])
    return out


def bare_raise() -> Any:
    try:
        try:
            raise ValueError("one")
        except ValueError:
            mark("before")
            raise
    except ValueError as e:
        log(e.__context__, mark(2))
    try:
        {}["x"]
    except KeyError as e:
        mark(3)
        raise RuntimeError("two") from e


def raise_in_except() -> Any:
    try:
        try:
            raise ValueError("one")
        except ValueError:
            mark(KeyError("two"))
    finally:
        log(sys.exc_info()[1], mark("finally"))


def nested_handlers() -> Any:
    try:
        raise ValueError(1)
    except ValueError:
        try:
            raise KeyError(mark(2))
        except KeyError:
            log(sys.exc_info()[1], mark(3))
            try:
                mark(OSError(4))
            except OSError as e:
                log(sys.exc_info()[1], mark(5), e.__context__)
            log(sys.exc_info()[1], mark(6))
            try:
                raise
            except KeyError as e:
                log(mark(e.args))
        log(sys.exc_info()[1], mark(7))
        raise


def finally_with_exception() -> Any:
    try:
        try:
            raise ValueError("pending")
        finally:
            log(sys.exc_info()[1], mark("finally"))
            for i in range(2):
                log(mark(i), sys.exc_info()[1])
            try:
                mark(KeyError("inner"))
            except KeyError:
                log(sys.exc_info()[1], mark("inner"))
    except ValueError as e:
        return mark(str(e)), e.__context__


def finally_returns() -> Any:
    for i in range(3):
        try:
            if i == 1:
                mark(ValueError(i))
            if i == 2:
                return mark("lost")
        except ValueError:
            continue
        finally:
            if mark(i) == 2:
                return mark("found")
    return "end"


def finally_breaks() -> Any:
    out = []
    while True:
        try:
            out.append(mark("try"))
            try:
                mark(KeyError())
            finally:
                out.append(mark("inner"))
                break
        finally:
            out.append(mark("outer"))
    return out


def reraises_in_loop() -> Any:
    for i in range(2):
        try:
            try:
                mark(ValueError(i))
            except ValueError:
                raise
        except Exception:
            pass
        try:
            mark(i)
        except Exception:
            pass
    return "end"


def exception_group() -> Any:
    out = []
    try:
        raise ExceptionGroup("g", [ValueError(1), KeyError(2), OSError(3)])
    except* ValueError as e:
        out.append(mark(str(e.exceptions)))
        log(sys.exc_info()[1])
    except* KeyError:
        log(mark(3), sys.exc_info()[1])
    except* OSError as e:
        try:
            mark(RuntimeError("in star"))
        except RuntimeError as r:
            out.append(mark(r.args))
    return out


def deletes() -> Any:
    a = b = mark(1)
    del a
    try:
        mark(2)
        a
    except UnboundLocalError as e:
        log(str(e), mark(3))
    for b in (1, 2):
        c = mark(b)
        del b
    try:
        return c, b
    except NameError as e:
        return mark(str(e))


def maybe_bound() -> Any:
    if mark(0):
        x = 1
    for i in ():
        y = i
    mark(2)
    try:
        return x
    except UnboundLocalError as e:
        log(str(e))
    return y


def star_args() -> Any:
    def f(a: Any, /, b: Any, *args: Any, c: Any = 3, **kw: Any) -> Any:
        b += mark(a)
        return a, b, args, c, mark(kw)

    return f(1, 2), f(1, 2, 3, 4, c=5, d=mark(6)), f(1, b=2, e=7)


def closures() -> Any:
    count = 0

    def up(by: Any) -> Any:
        nonlocal count
        count += mark(by)
        return lambda: (count, by)

    first, second = up(1), up(mark(2))
    return first(), second(), mark(count), up(3)()


def argument_cells() -> Any:
    def f(a: Any, b: Any, *c: Any, d: Any = 4) -> Any:
        def inner() -> Any:
            nonlocal b
            b += mark(1)
            return a, b, c, d

        mark(a)
        a = [a]
        x = inner()
        del c
        try:
            inner()
        except NameError as e:
            log(str(e), mark(2))
        return x, a, b, mark(d)

    return f(1, 2, 3)


def comprehensions() -> Any:
    base = 10
    a = [mark(x) + base for x in range(3)]
    b = {mark(x): [y + mark(x) for y in range(x)] for x in range(3) if mark(x) != 1}
    c = {mark(z) for z in a}
    x = "kept"
    d = [x for x in range(2) if mark(x) or True]
    return a, b, sorted(c), x, d, list(mark(q) for q in ())


def comprehension_raises() -> Any:
    x = 5
    try:
        return [mark(ValueError(x)) if x == 2 else mark(x) for x in range(4)]
    except ValueError as e:
        return x, mark(e.args)


def comprehension_cells() -> Any:
    c = "outer"
    get = lambda: c  # noqa: E731
    raw = [mark(c) for c in range(2)]
    log(c, get(), mark(1))
    fs = [(lambda: c, mark(c))[0] for c in range(3)]
    log(c, get(), mark(2), [f() for f in fs])
    try:
        [mark(ValueError(c)) for c in range(3)]
    except ValueError:
        log(c, get(), mark(3))
    only = [(lambda: i, mark(i))[0] for i in range(2)]
    return raw, c, get(), mark(4), [f() for f in only]


def comprehension_free() -> Any:
    x, y = "x", "y"

    def inner() -> Any:
        a = [mark(x) for x in range(2)]
        return a, mark(y)

    def inner2() -> Any:
        log(mark(y))
        return [[mark(y) + y for y in (1, 2)] for z in (3, 4)], mark(y)

    return inner(), inner2(), x


class Base:
    def hello(self, x: Any) -> Any:
        return "base", mark(x)


class Derived(Base):
    def hello(self, x: Any) -> Any:
        x = mark(x)
        return super().hello(x), mark(__class__.__name__)

    def plain(self) -> Any:
        mark(1)
        s = super
        del s
        return super().hello(2)

    def bare(self, x: Any) -> Any:
        y = mark(x)
        return super(), y

    def captured(self, x: Any) -> Any:
        def who() -> Any:
            return self

        y = mark(x)
        self.seen = who() is self
        parent = super()
        return parent.hello(y), self.seen

    def later(self, *rest: Any) -> Any:
        first, *others = rest
        mark(first)
        for other in others:
            log(super().hello(mark(other)))
        return "later"


def supers() -> Any:
    d = Derived()
    parent, y = d.bare(5)
    assert parent.__self__ is d
    return d.hello(1), d.plain(), y, d.captured(6), d.later(7, 8, 9), parent.hello(3)


def matching() -> Any:
    out = []
    for value in (1, [1, 2, 3], {"k": 4, "l": 5}, ValueError("x"), "s"):
        match value:
            case int() if mark(value):
                out.append(mark("int"))
            case [first, *rest] if mark(first):
                out.append((first, mark(rest)))
            case {"k": k, **others} if mark(k):
                out.append((k, mark(others)))
            case ValueError(args=(a,)):
                out.append(mark(a))
            case _:
                out.append(mark("default"))
    return out


def deep(n: int = 4) -> Any:
    if n == 0:
        return mark("bottom")
    with Guard(str(n)):
        try:
            return [deep_next(n - 1)] + [mark(n)]
        finally:
            log("leaving", n, mark(n))


deep_next = deep


def deep_raise() -> Any:
    def third(x: Any) -> Any:
        try:
            return mark(x)
        finally:
            log("third", mark("t"))

    def second(x: Any) -> Any:
        for _ in range(1):
            y = third(x)
        return y

    def first(x: Any) -> Any:
        try:
            return 1 + second(x)
        except KeyError as e:
            log("first", e, mark(0))
            return mark(-1)

    out = [first(5), first(KeyError("k"))]
    try:
        first(ValueError("v"))
    except ValueError as e:
        entries = traceback.extract_tb(e.__traceback__)
        out.append([(entry.name, entry.lineno) for entry in entries if entry.name != "mark"])
    first(OSError("escapes"))


def call_in_except() -> Any:
    def helper(x: Any) -> Any:
        log(sys.exc_info()[1])
        try:
            mark(x)
        except OSError:
            log(sys.exc_info()[1], mark("helper"))
        return sys.exc_info()[1]

    try:
        raise ValueError("handled")
    except ValueError:
        log(helper(1), helper(OSError(2)))
        helper(KeyError(3))


def keyword_call() -> Any:
    def f(a: Any, *, k: Any) -> Any:
        return mark(a), k

    return f(1, k=mark(2)), f(a=3, k=4)


def assigns() -> Any:
    class Box:
        pass

    box = Box()
    box.x, (y, *z) = mark(1), mark([2, 3, 4])
    d = {}
    d[mark("k")] = box.x
    d["k"] += mark(5)
    box.x += mark(6)
    s = [1, 2, 3, 4]
    s[mark(1) : mark(3)] = [mark(9)]
    return box.x, y, z, d, s, (w := mark(7)) + w


def long_code() -> str:
    body = "\n".join(f"        v{i} = i + {i}; t += v{i}" for i in range(300))
    return f"""
def program():
    t = 0
    for i in range(2):
        t += mark(i)
{body}
        if mark(i):
            continue
        try:
{textwrap.indent(body, "    ")}
            mark(ValueError(t) if i == 0 else t)
        except ValueError as e:
            log(t, mark(e.args))
    return t, v299
"""


PROGRAMS = [
    straight, loops, operands, with_blocks, with_escapes, with_generator_manager, try_except, bare_raise,
    raise_in_except, nested_handlers, finally_with_exception, finally_returns, finally_breaks, reraises_in_loop,
    exception_group, deletes, maybe_bound, star_args, closures, argument_cells, comprehensions, comprehension_raises,
    comprehension_cells, comprehension_free, supers, matching, deep, deep_raise, call_in_except, keyword_call,
    assigns,
]  # fmt: skip


@pytest.mark.sampled(2)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_program(program: Callable[[], Any]) -> None:
    assert breaks(program) > 0


def test_long_code() -> None:
    names: dict[str, Any] = {"mark": mark, "log": log}
    exec(long_code(), names)
    assert any(inst.opname == "EXTENDED_ARG" for inst in dis.get_instructions(names["program"]))
    assert breaks(names["program"]) == 6
