"""Exception groups and `except*`: what each clause handles, what is raised in the end, and how it is all linked.

PYTEST_DONT_REWRITE: the assertions of these programs are part of what is tested.
"""
import pytest

import jit
from tests.differential import check, same_as_eager, tensors

X, Y = tensors(3, 4, count=2)


class Mine(Exception):
    pass


class Coded(ExceptionGroup):
    def __new__(cls, message, errors, code=0):
        made = super().__new__(cls, message, errors)
        made.code = code
        return made

    def derive(self, errors):
        return Coded(self.message, errors, self.code + 1)


class Plain(ExceptionGroup):
    pass


class Both(Exception):
    def __init__(self, *args):
        super().__init__(*args)
        self.count = len(args)


def told(error):
    """An exception as data: class, arguments, links, and the lines that it passed."""
    if error is None:
        return None
    parts = [told(each) for each in getattr(error, "exceptions", ())]
    lines, entry = [], error.__traceback__
    while entry is not None:
        lines.append(entry.tb_lineno)
        entry = entry.tb_next
    links = (told(error.__cause__), told(error.__context__), error.__suppress_context__)
    return (type(error).__name__, str(error), parts, links, lines, getattr(error, "__notes__", None))


def nested():
    return ExceptionGroup("outer", [ValueError(1), ExceptionGroup("inner", [TypeError(2), Mine(3)]), KeyError(4)])


@same_as_eager(graphs=1)
def test_clauses_take_their_parts(x):
    log = []
    try:
        raise nested()
    except* (ValueError, Mine) as e:
        log.append(told(e))
    except* TypeError as e:
        log.append(told(e))
    except* KeyError:
        log.append("key")
    else:
        log.append("never")
    finally:
        log.append("finally")
    return x + len(log), log


@same_as_eager(graphs=1)
def test_what_is_not_handled_goes_on(x):
    try:
        try:
            raise nested()
        except* ValueError:
            x = x + 1
    except ExceptionGroup as e:
        return x, told(e)


@same_as_eager(graphs=1)
def test_raise_again_joins_what_is_left(x):
    group = nested()
    try:
        try:
            raise group
        except* (ValueError, TypeError):
            raise
        except* Mine:
            pass
    except ExceptionGroup as e:
        return x + 1, told(e), e.__context__ is group, e.exceptions[0] is group.exceptions[0]


@same_as_eager(graphs=1)
def test_clauses_that_raise_others(x):
    try:
        try:
            raise nested()
        except* ValueError as e:
            raise Mine("new") from e
        except* TypeError:
            raise LookupError("other")
    except ExceptionGroup as e:
        return x + len(e.exceptions), told(e)


@same_as_eager(graphs=1)
def test_an_exception_that_is_no_group(x):
    try:
        raise ValueError("alone")
    except* ValueError as e:
        seen = told(e)
    return x + 1, seen


@same_as_eager(graphs=1)
def test_an_exception_that_is_no_group_and_not_handled(x):
    try:
        try:
            raise ValueError("alone")
        except* TypeError:
            x = x - 1
    except ValueError as e:
        return x + 2, told(e)


@same_as_eager(graphs=1)
def test_an_exception_that_is_no_group_raised_again(x):
    try:
        try:
            raise ValueError("alone")
        except* ValueError:
            raise
    except Exception as e:
        return x + 1, told(e)


@same_as_eager(graphs=1)
def test_what_is_handled_meanwhile(x):
    import sys
    seen = []
    try:
        raise nested()
    except* ValueError as e:
        seen.append(sys.exception() is e)
        try:
            raise Mine("inside")
        except Mine as inner:
            seen.append(inner.__context__ is e)
        seen.append(sys.exc_info()[1] is e)
    except* Exception as e:
        seen.append(told(sys.exception()))
    return x + 1, seen, sys.exception()


@same_as_eager(graphs=1)
def test_in_a_loop_with_break_like_flow(x):
    count = 0
    for step in range(3):
        try:
            if step == 1:
                raise ExceptionGroup("g", [KeyError(step)])
            x = x + 1
        except* KeyError:
            count += 1
    return x, count


@same_as_eager(graphs=1)
def test_from_a_callee(x):
    def fails(t):
        y = t * 2
        raise ExceptionGroup(str(y.dim()), [ValueError(y.shape)])
    try:
        fails(x)
    except* ValueError as e:
        seen = told(e)
    return x + 1, seen


@pytest.mark.parametrize("condition", [
    ValueError, (ValueError, KeyError), lambda e: isinstance(e, Mine), ExceptionGroup, Exception, OSError,
    lambda e: isinstance(e, ExceptionGroup) and e.message == "inner",
])
def test_split_and_subgroup(condition):
    def program(x):
        group = nested()
        group.add_note("noted")
        group.__cause__ = Mine("cause")
        match, rest = group.split(condition)
        return x + 1, told(match), told(rest), told(group.subgroup(condition)), match is group

    check(program, X, graphs=1)


@same_as_eager(graphs=1)
def test_own_group_classes(x):
    coded, plain = Coded("c", [ValueError(1), TypeError(2)], 7), Plain("p", [ValueError(3), TypeError(4)])
    match, rest = coded.split(ValueError)
    other, _ = plain.split(ValueError)
    return x + 1, match.code, rest.code, told(match), told(other), type(other) is ExceptionGroup, coded.args


@same_as_eager(graphs=1)
def test_own_group_class_in_a_clause(x):
    try:
        raise Coded("c", [ValueError(1), TypeError(2)], 7)
    except* ValueError as e:
        x, seen = x + e.code, told(e)
    except* TypeError as e:
        x = x * e.code
    return x, seen


@same_as_eager(graphs=1)
def test_which_class_a_group_has(x):
    made = BaseExceptionGroup("a", [ValueError()])
    other = BaseExceptionGroup("b", (ValueError(), KeyboardInterrupt()))
    return x + 1, type(made), type(other), made, other, repr(made), str(other), made.exceptions, other.args


@pytest.mark.parametrize("args", [
    (), ("m",), (1, [ValueError()]), ("m", []), ("m", [1]), ("m", [ValueError(), None]), ("m", [KeyboardInterrupt()]),
    ("m", 5), ("m", [ValueError()], 3), (ValueError(1), SyntaxError()), ("m", {ValueError(1)}), ("m", {1: 2}),
])
def test_what_is_no_group(args):
    def program(x):
        try:
            ExceptionGroup(*args)
        except (TypeError, ValueError) as e:
            return x + 1, told(e)

    check(program, X)


@same_as_eager(graphs=1)
def test_what_a_clause_does_not_take(x):
    said = []
    for kind in (int, ExceptionGroup, (ValueError, BaseExceptionGroup), (ValueError, 3)):
        try:
            try:
                raise ValueError("v")
            except* kind:
                pass
        except TypeError as e:
            said.append((str(e), type(e.__context__)))
    return x + 1, said


@same_as_eager(graphs=1)
def test_fields_of_a_group_are_fixed(x):
    group, said = nested(), []
    for name in ("message", "exceptions"):
        try:
            setattr(group, name, "x")
        except AttributeError as e:
            said.append(str(e))
    return x + 1, said


@same_as_eager
def test_break_in_a_clause(x):
    log = []
    try:
        raise nested()
    except* ValueError as e:
        log.append(told(e))
        jit.graph_break()
        log.append(told(e))
        raise
    except* TypeError as e:
        log.append(e.exceptions[0].__context__)
        print(len(log))
    except* (Mine, KeyError):
        raise Mine(len(log))


@same_as_eager
def test_break_where_a_group_is_looked_at(x):
    def fails(n):
        if n:
            print("breaks")
        raise nested()
    kinds = [ValueError, TypeError]
    try:
        fails(len(kinds))
    except* tuple(kinds) as e:
        x = x + len(e.exceptions)
    except* Exception as e:
        x = x - len(e.exceptions)
    return x


def test_a_group_that_exists():
    def program(x, group):
        log = []
        try:
            raise group
        except* ValueError as e:
            log.append(told(e))
        except* Exception as e:
            log.append(told(e)[:3])
        return x + len(log), log

    check(program, X, nested())
