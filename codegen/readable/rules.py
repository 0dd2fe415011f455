"""A rule for each instruction: what it does to the symbolic stack, and which statement it is."""

from __future__ import annotations

import ast
import builtins
import dis
from collections.abc import Sequence
from typing import Any

from codegen.readable import helpers
from codegen.readable.flow import Unreadable
from codegen.readable.stack import NULL, Mark, Stack, assign, rule, store
from symbolic import versions
from symbolic.code import Inst


# --- the stack itself -------------------------------------------------------------------------------------------------
@rule("NOP RESUME COPY_FREE_VARS MAKE_CELL PRECALL CACHE JUMP_FORWARD JUMP_BACKWARD JUMP_BACKWARD_NO_INTERRUPT")
def nothing(s: Stack, inst: Inst) -> None:
    pass


@rule("PUSH_NULL")
def push_null(s: Stack, inst: Inst) -> None:
    s.push(NULL)


@rule("POP_TOP")
def pop_top(s: Stack, inst: Inst) -> None:
    item = s.items.pop()
    if isinstance(item, ast.expr) and not isinstance(item, (ast.Name, ast.Constant)):
        s.emit(ast.Expr(item))


@rule("COPY")
def copy(s: Stack, inst: Inst) -> None:
    item = s.items[-inst.arg]
    following = s.rest[0] if s.rest else None
    if inst.arg == 1 and isinstance(item, ast.expr) and not s.is_stable(item):
        if following is not None and following.op == "STORE_FAST" and s.variable(following.argval) in s.fixed:
            s.rest.pop(0)
            name = s.variable(following.argval)
            s.items.pop()
            s.emit(assign(name, item))
            s.push(ast.Name(name))
            return
        s.settle("*")
    elif not s.is_stable(item):
        s.settle("*")
    s.push(s.items[-inst.arg])


@rule("SWAP")
def swap(s: Stack, inst: Inst) -> None:
    if not all(map(s.is_stable, s.items[-inst.arg :])):
        s.settle("*")
    s.items[-1], s.items[-inst.arg] = s.items[-inst.arg], s.items[-1]


# --- constants and variables ------------------------------------------------------------------------------------------
@rule("LOAD_CONST")
def load_const(s: Stack, inst: Inst) -> None:
    following = s.rest[0] if s.rest else None
    if type(inst.argval) is list and following is not None and following.op == "UNPACK_SEQUENCE" and following.arg == 1:
        s.rest.pop(0)  # see `Emitter.const`
        s.push(s.names.constant(inst.argval[0]))
    else:
        s.push(s.names.constant(inst.argval))


@rule("LOAD_FAST LOAD_FAST_CHECK LOAD_DEREF")
def load(s: Stack, inst: Inst) -> None:
    s.push(ast.Name(s.variable(inst.argval)))


@rule("STORE_FAST STORE_DEREF")
def store_fast(s: Stack, inst: Inst) -> None:
    if s.items[-1] == Mark(f"saved {inst.argval}"):
        s.items.pop()  # the comprehension is over
        return
    name = s.variable(inst.argval)
    value = s.pop()
    if not (isinstance(value, ast.Name) and value.id == name):
        s.emit(assign(name, value), name)


@rule("LOAD_FAST_AND_CLEAR")
def load_fast_and_clear(s: Stack, inst: Inst) -> None:
    s.push(Mark(f"saved {inst.argval}"))


@rule("DELETE_FAST DELETE_DEREF")
def delete(s: Stack, inst: Inst) -> None:
    name = s.variable(inst.argval)
    waits = any(isinstance(item, ast.Name) and item.id == name for item in s.items)
    if waits and not inst.argval.isidentifier():
        return  # `Emitter.take`
    s.emit(ast.Delete([ast.Name(name, ast.Del())]), name)


@rule("LOAD_CLOSURE")
def load_closure(s: Stack, inst: Inst) -> None:
    nobody = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
    s.push(s.helper(helpers.cell_of, ast.Lambda(nobody, ast.Name(s.variable(inst.argval)))))


@rule("LOAD_GLOBAL")
def load_global(s: Stack, inst: Inst) -> None:
    value = ast.Name(inst.argval)
    if not inst.arg & 1:
        s.push(value)
    else:
        s.items += [value, NULL] if versions.CALLABLE_FIRST else [NULL, value]


@rule("STORE_GLOBAL")
def store_global(s: Stack, inst: Inst) -> None:
    s.globals.add(inst.argval)
    s.emit(assign(inst.argval, s.pop()), inst.argval)


@rule("DELETE_GLOBAL")
def delete_global(s: Stack, inst: Inst) -> None:
    s.globals.add(inst.argval)
    s.emit(ast.Delete([ast.Name(inst.argval, ast.Del())]), inst.argval)


@rule("LOAD_ASSERTION_ERROR")
def load_assertion_error(s: Stack, inst: Inst) -> None:
    s.push(s.names.constant(AssertionError))


# --- attributes and items ---------------------------------------------------------------------------------------------
def _named(name: str) -> str:
    if not name.isidentifier():
        raise Unreadable(f"an attribute is called {name!r}")
    return name


@rule("LOAD_ATTR LOAD_METHOD")
def load_attr(s: Stack, inst: Inst) -> None:
    value = ast.Attribute(s.pop(), _named(inst.argval))
    is_method = inst.op == "LOAD_METHOD" or (versions.PY312 and inst.arg & 1)
    if not is_method:
        s.push(value)
    else:
        s.items += [value, NULL] if versions.CALLABLE_FIRST else [NULL, value]


@rule("LOAD_SUPER_ATTR")
def load_super_attr(s: Stack, inst: Inst) -> None:
    function, cls, owner = s.popped(3)
    value = ast.Attribute(ast.Call(function, [cls, owner], []), _named(inst.argval))
    if not inst.arg & 1:
        s.push(value)
    else:
        s.items += [value, NULL] if versions.CALLABLE_FIRST else [NULL, value]


@rule("STORE_ATTR")
def store_attr(s: Stack, inst: Inst) -> None:
    value, owner = s.popped(2)
    s.emit(ast.Assign([ast.Attribute(owner, _named(inst.argval), ast.Store())], value))


@rule("DELETE_ATTR")
def delete_attr(s: Stack, inst: Inst) -> None:
    s.emit(ast.Delete([ast.Attribute(s.pop(), _named(inst.argval), ast.Del())]))


@rule("BINARY_SUBSCR")
def subscr(s: Stack, inst: Inst) -> None:
    owner, key = s.popped(2)
    s.push(ast.Subscript(owner, key))


@rule("STORE_SUBSCR")
def store_subscr(s: Stack, inst: Inst) -> None:
    value, owner, key = s.popped(3)
    s.emit(ast.Assign([ast.Subscript(owner, key, ast.Store())], value))


@rule("DELETE_SUBSCR")
def delete_subscr(s: Stack, inst: Inst) -> None:
    owner, key = s.popped(2)
    s.emit(ast.Delete([ast.Subscript(owner, key, ast.Del())]))


@rule("BUILD_SLICE")
def build_slice(s: Stack, inst: Inst) -> None:
    s.push(ast.Call(s.names.constant(slice), s.popped(inst.arg), []))


@rule("BINARY_SLICE")
def binary_slice(s: Stack, inst: Inst) -> None:
    owner, start, stop = s.popped(3)
    s.push(ast.Subscript(owner, ast.Slice(start, stop)))


@rule("STORE_SLICE")
def store_slice(s: Stack, inst: Inst) -> None:
    value, owner, start, stop = s.popped(4)
    s.emit(ast.Assign([ast.Subscript(owner, ast.Slice(start, stop), ast.Store())], value))


# --- operators --------------------------------------------------------------------------------------------------------
_BINARY = {
    type(node.op): symbol
    for symbol in "+ - * / // % ** @ << >> & | ^".split()
    if isinstance(node := ast.parse(f"a {symbol} b", mode="eval").body, ast.BinOp)
}
_OPERATORS = {symbol: kind for kind, symbol in _BINARY.items()}
_COMPARISONS: dict[str, type[ast.cmpop]] = {
    "<": ast.Lt, "<=": ast.LtE, "==": ast.Eq, "!=": ast.NotEq, ">": ast.Gt, ">=": ast.GtE,
}
_SYMBOLS = list(_COMPARISONS)
_NUMBERED = [symbol for _, symbol in dis._nb_ops]  # type: ignore[attr-defined]


@rule("BINARY_OP")
def binary(s: Stack, inst: Inst) -> None:
    left, right = s.popped(2)
    symbol = _NUMBERED[inst.arg]
    if symbol[:-1] in _OPERATORS and symbol.endswith("="):
        operator = _OPERATORS[symbol[:-1]]()
        following = s.rest[0] if s.rest else None
        if following is not None and following.op == "STORE_FAST" and isinstance(left, ast.Name) and (
            left.id == s.variable(following.argval)
        ):
            s.rest.pop(0)
            s.emit(ast.AugAssign(store(left.id), operator, right), left.id)
            return
        name = s.fresh("result")  # in place, and then it may be another object
        s.emit(assign(name, left))
        s.emit(ast.AugAssign(store(name), operator, right))
        s.push(ast.Name(name))
    else:
        s.push(ast.BinOp(left, _OPERATORS[symbol](), right))


@rule("COMPARE_OP")
def compare(s: Stack, inst: Inst) -> None:
    left, right = s.popped(2)
    found: ast.expr = ast.Compare(left, [_COMPARISONS[_SYMBOLS[inst.arg >> versions.COMPARE_SHIFT]]()], [right])
    if versions.compare_to_bool(inst.arg) and not _is_asked(s):
        found = ast.Call(s.names.constant(bool), [found], [])
    s.push(found)


def _is_asked(s: Stack) -> bool:
    """Whether only the truth of what is pushed matters, since a branch takes it."""
    return bool(s.rest) and s.rest[0].op.startswith("POP_JUMP") and not s.rest[0].op.endswith("NONE")


@rule("IS_OP")
def is_op(s: Stack, inst: Inst) -> None:
    left, right = s.popped(2)
    s.push(ast.Compare(left, [ast.IsNot() if inst.arg else ast.Is()], [right]))


@rule("CONTAINS_OP")
def contains_op(s: Stack, inst: Inst) -> None:
    left, right = s.popped(2)
    s.push(ast.Compare(left, [ast.NotIn() if inst.arg else ast.In()], [right]))


_UNARY: dict[str, type[ast.unaryop]] = {
    "UNARY_NOT": ast.Not, "UNARY_NEGATIVE": ast.USub, "UNARY_INVERT": ast.Invert, "UNARY_POSITIVE": ast.UAdd,
}


@rule(" ".join(_UNARY))
def unary(s: Stack, inst: Inst) -> None:
    s.push(ast.UnaryOp(_UNARY[inst.op](), s.pop()))


@rule("TO_BOOL")
def to_bool(s: Stack, inst: Inst) -> None:
    if not _is_asked(s) and not (s.rest and s.rest[0].op == "UNARY_NOT"):
        s.push(ast.Call(s.names.constant(bool), [s.pop()], []))


# --- containers -------------------------------------------------------------------------------------------------------
@rule("BUILD_TUPLE")
def build_tuple(s: Stack, inst: Inst) -> None:
    s.push(ast.Tuple(s.popped(inst.arg)))


@rule("BUILD_LIST")
def build_list(s: Stack, inst: Inst) -> None:
    s.push(ast.List(s.popped(inst.arg)))


@rule("BUILD_SET")
def build_set(s: Stack, inst: Inst) -> None:
    items = s.popped(inst.arg)
    s.push(ast.Set(items) if items else ast.Call(s.names.constant(set), [], []))


@rule("BUILD_MAP")
def build_map(s: Stack, inst: Inst) -> None:
    items = s.popped(2 * inst.arg)
    s.push(ast.Dict(list(items[::2]), items[1::2]))


@rule("BUILD_CONST_KEY_MAP")
def build_const_key_map(s: Stack, inst: Inst) -> None:
    *values, keys = s.popped(inst.arg + 1)
    if not isinstance(keys, ast.Tuple):
        raise Unreadable("the keys of a dict are no literal")
    s.push(ast.Dict(list(keys.elts), values))


@rule("BUILD_STRING")
def build_string(s: Stack, inst: Inst) -> None:
    parts: list[ast.expr] = []
    for part in s.popped(inst.arg):
        if isinstance(part, ast.JoinedStr):
            parts += part.values
        elif isinstance(part, ast.Constant):
            parts.append(part)
        else:
            raise Unreadable("a text is joined of something that is no part of an f-string")
    s.push(ast.JoinedStr(parts))


def _formatted(s: Stack, conversion: int, has_format: bool) -> None:
    how = s.pop() if has_format else None
    if how is not None and not isinstance(how, ast.JoinedStr):
        if not isinstance(how, ast.Constant):
            raise Unreadable("a format is no literal")
        how = ast.JoinedStr([how])
    value = s.pop()
    converted = value if isinstance(value, ast.FormattedValue) else ast.FormattedValue(value, _CONVERSIONS[conversion])
    s.push(ast.JoinedStr([ast.FormattedValue(converted.value, converted.conversion, how)]))


_CONVERSIONS = (-1, ord("s"), ord("r"), ord("a"))


@rule("FORMAT_VALUE")
def format_value(s: Stack, inst: Inst) -> None:
    _formatted(s, inst.arg & 3, bool(inst.arg & 4))


@rule("CONVERT_VALUE")
def convert_value(s: Stack, inst: Inst) -> None:
    s.push(ast.FormattedValue(s.pop(), _CONVERSIONS[inst.arg]))


@rule("FORMAT_SIMPLE FORMAT_WITH_SPEC")
def format_simple(s: Stack, inst: Inst) -> None:
    _formatted(s, 0, inst.op == "FORMAT_WITH_SPEC")


def _literal_at(s: Stack, depth: int, kind: type) -> Any:
    item = s.items[-depth]
    if not isinstance(item, kind) or depth != 1:
        raise Unreadable(f"something is added to a {kind.__name__.lower()} that is no display")
    return item


@rule("LIST_EXTEND")
def list_extend(s: Stack, inst: Inst) -> None:
    more = s.pop()
    target = _literal_at(s, inst.arg, ast.List)
    s.items[-1] = ast.List([*target.elts, ast.Starred(more)])


@rule("SET_UPDATE")
def set_update(s: Stack, inst: Inst) -> None:
    more, target = s.pop(), s.items[-inst.arg]
    elements = target.elts if isinstance(target, ast.Set) else []
    if not elements and not isinstance(target, ast.Call):
        raise Unreadable("something is added to a set that is no display")
    s.items[-inst.arg] = ast.Set([*elements, ast.Starred(more)])


@rule("DICT_UPDATE DICT_MERGE")
def dict_update(s: Stack, inst: Inst) -> None:
    more = s.pop()
    target = _literal_at(s, inst.arg, ast.Dict)
    s.items[-1] = ast.Dict([*target.keys, None], [*target.values, more])


@rule("LIST_TO_TUPLE")
def list_to_tuple(s: Stack, inst: Inst) -> None:
    s.push(ast.Tuple(_to_tuple(s.pop())))


def _to_tuple(value: ast.expr) -> list[ast.expr]:
    return list(value.elts) if isinstance(value, ast.List) else [ast.Starred(value)]


@rule("CALL_INTRINSIC_1")
def call_intrinsic_1(s: Stack, inst: Inst) -> None:
    name = versions.INTRINSICS_1[inst.arg]
    if name == "INTRINSIC_LIST_TO_TUPLE":
        list_to_tuple(s, inst)
    elif name == "INTRINSIC_UNARY_POSITIVE":
        s.push(ast.UnaryOp(ast.UAdd(), s.pop()))
    else:
        raise Unreadable(f"{name} has no Python")


@rule("LIST_APPEND SET_ADD")
def list_append(s: Stack, inst: Inst) -> None:
    value, target = s.pop(), s.items[-inst.arg]
    assert isinstance(target, ast.expr)
    if inst.arg == 1 and isinstance(target, (ast.List, ast.Set)):
        s.items[-1] = type(target)([*target.elts, value])
        return
    if not s.is_stable(target):
        raise Unreadable("something is added to a display that is not finished")
    method = "append" if inst.op == "LIST_APPEND" else "add"
    s.emit(ast.Expr(ast.Call(ast.Attribute(target, method), [value], [])))


@rule("MAP_ADD")
def map_add(s: Stack, inst: Inst) -> None:
    key, value = s.popped(2)
    target = s.items[-inst.arg]
    assert isinstance(target, ast.expr)
    if inst.arg == 1 and isinstance(target, ast.Dict):
        s.items[-1] = ast.Dict([*target.keys, key], [*target.values, value])
        return
    if not s.is_stable(target):
        raise Unreadable("something is added to a display that is not finished")
    s.push(key)  # evaluated in this order, while the text of a store has the value first
    s.settle()
    key = s.pop()
    s.emit(ast.Assign([ast.Subscript(target, key, ast.Store())], value))


@rule("UNPACK_SEQUENCE UNPACK_EX")
def unpack(s: Stack, inst: Inst) -> None:
    before, after = (inst.arg & 255, inst.arg >> 8) if inst.op == "UNPACK_EX" else (inst.arg, -1)
    count = before + (1 + after if after >= 0 else 0)
    value = s.pop()
    stored = s.rest[:count]
    are_stored = len(stored) == count and all(each.op in ("STORE_FAST", "STORE_DEREF") for each in stored)
    if are_stored:
        del s.rest[:count]
        names = [s.variable(each.argval) for each in stored]
        if any(isinstance(item, ast.Name) and item.id in names for item in s.items):
            s.settle("*")
    else:
        names = [s.fresh("item") for _ in range(count)]
    targets: list[ast.expr] = [store(name) for name in names]
    if after >= 0:
        targets[before] = ast.Starred(targets[before], ast.Store())
    target: ast.expr = ast.Tuple(targets, ast.Store()) if targets else ast.List([], ast.Store())
    s.emit(ast.Assign([target], value))
    if not are_stored:
        s.items += [ast.Name(name) for name in reversed(names)]


# --- calls ------------------------------------------------------------------------------------------------------------
def _called(s: Stack) -> tuple[ast.expr, list[ast.expr]]:
    second, first = s.items.pop(), s.items.pop()
    one, other = (first, second) if not versions.CALLABLE_FIRST else (second, first)
    # (null, callable) or (callable, self); on 3.13 (callable, null or self)
    if isinstance(one, Mark) and isinstance(other, ast.expr):
        return other, []
    if isinstance(first, Mark) or isinstance(second, Mark):
        raise Unreadable("a call of nothing")
    return first, [second]


@rule("KW_NAMES")
def kw_names(s: Stack, inst: Inst) -> None:
    s.kw_names = inst.argval


@rule("CALL")
def call(s: Stack, inst: Inst) -> None:
    _call(s, inst.arg, s.kw_names)
    s.kw_names = ()


@rule("CALL_KW")
def call_kw(s: Stack, inst: Inst) -> None:
    names = ast.literal_eval(s.pop())
    _call(s, inst.arg, names)


def _call(s: Stack, count: int, names: Sequence[str]) -> None:
    arguments = s.popped(count)
    function, first = _called(s)
    plain = len(arguments) - len(names)
    keywords = [ast.keyword(_named(name), value) for name, value in zip(names, arguments[plain:], strict=True)]
    s.push(ast.Call(function, [*first, *arguments[:plain]], keywords))


@rule("CALL_FUNCTION_EX")
def call_function_ex(s: Stack, inst: Inst) -> None:
    keywords = s.pop() if inst.arg & 1 else None
    arguments = s.pop()
    function, first = _called(s)
    plain = list(arguments.elts) if isinstance(arguments, ast.Tuple) else [ast.Starred(arguments)]
    s.push(ast.Call(function, [*first, *plain], _keywords(keywords)))


def _keywords(value: ast.expr | None) -> list[ast.keyword]:
    if value is None:
        return []
    if not isinstance(value, ast.Dict):
        return [ast.keyword(None, value)]
    found = []
    for key, each in zip(value.keys, value.values, strict=True):
        name = key.value if isinstance(key, ast.Constant) else None
        if key is None:
            found.append(ast.keyword(None, each))
        elif isinstance(name, str) and name.isidentifier():
            found.append(ast.keyword(name, each))
        else:
            return [ast.keyword(None, value)]
    return found


@rule("MAKE_FUNCTION")
def make_function(s: Stack, inst: Inst) -> None:
    code = s.pop()
    parts: list[ast.expr] = [ast.Constant(None) for _ in range(4)]
    which = [bit for bit in (8, 4, 2, 1) if inst.arg & bit]
    while s.rest and s.rest[0].op == "SET_FUNCTION_ATTRIBUTE":  # since 3.13
        which.append(s.rest.pop(0).arg)
    for bit in which:
        parts[bit.bit_length() - 1] = s.pop()
    while isinstance(parts[-1:][0] if parts else None, ast.Constant):
        parts.pop()
    s.push(s.helper(helpers.function, code, ast.Name(s.names.bind(helpers.NAMESPACE, "namespace")), *parts))


@rule("IMPORT_NAME")
def import_name(s: Stack, inst: Inst) -> None:
    level, names = s.popped(2)
    space = ast.Name(s.names.bind(helpers.NAMESPACE, "namespace"))
    s.push(s.helper(builtins.__import__, ast.Constant(inst.argval), space, ast.Constant(None), names, level))


# --- what has no syntax of its own ------------------------------------------------------------------------------------
#: opcode -> how many values it takes, how many it leaves
_BY_HELPERS = {
    "CHECK_EG_MATCH": (2, 2), "PREP_RERAISE_STAR": (2, 1), "CALL_INTRINSIC_2": (2, 1), "MATCH_CLASS": (3, 1),
    "MATCH_KEYS": (2, 3), "MATCH_MAPPING": (1, 2), "MATCH_SEQUENCE": (1, 2), "GET_LEN": (1, 2), "BEFORE_WITH": (1, 2),
    "IMPORT_FROM": (1, 2),
}


@rule("GET_ITER")
def get_iter(s: Stack, inst: Inst) -> None:
    s.push(ast.Call(s.names.constant(iter), [s.pop()], []))


@rule("CHECK_EXC_MATCH")
def check_exc_match(s: Stack, inst: Inst) -> None:
    raised, kinds = s.popped(2)
    if not s.is_stable(raised):
        raise Unreadable("an exception is matched that is no variable")
    s.items += [raised, s.helper(helpers.opcode(inst.op, 0, 2, 2), raised, kinds)]


@rule(" ".join(_BY_HELPERS))
def by_helper(s: Stack, inst: Inst) -> None:
    takes, leaves = _BY_HELPERS[inst.op]
    if inst.op == "CALL_INTRINSIC_2" and versions.INTRINSICS_2[inst.arg] != "INTRINSIC_PREP_RERAISE_STAR":
        raise Unreadable(f"{versions.INTRINSICS_2[inst.arg]} has no Python")
    argument = inst.argval if inst.op == "IMPORT_FROM" else inst.arg
    value = s.helper(helpers.opcode(inst.op, argument, takes, leaves), *s.popped(takes))
    if leaves == 1:
        s.push(value)
        return
    names = [s.fresh("exit" if inst.op == "BEFORE_WITH" and not at else "part") for at in range(leaves)]
    s.emit(ast.Assign([ast.Tuple([store(name) for name in names], ast.Store())], value))
    s.items += [ast.Name(name) for name in names]


@rule("YIELD_VALUE YIELD_FROM")
def yields(s: Stack, inst: Inst) -> None:
    value = ast.Yield(s.pop()) if inst.op == "YIELD_VALUE" else ast.YieldFrom(s.pop())
    rest = [each.op for each in s.rest if each.op not in ("NOP", "JUMP_FORWARD")]
    if rest[:1] == ["POP_TOP"]:
        s.emit(ast.Expr(value))
        s.push(ast.Constant(None))  # for POP_TOP
        return
    sent = s.fresh("sent")
    s.emit(assign(sent, value))
    s.push(ast.Name(sent))


# --- branches ---------------------------------------------------------------------------------------------------------
_CONDITIONS = ("TRUE", "FALSE", "NONE", "NOT_NONE")


@rule(" ".join(f"POP_JUMP_{way}IF_{condition}" for way in ("", "FORWARD_", "BACKWARD_") for condition in _CONDITIONS))
def pop_jump(s: Stack, inst: Inst) -> None:
    condition = inst.op.partition("_IF_")[2]
    test = s.pop()
    s.settle("*")
    if condition.endswith("NONE"):
        test = ast.Compare(test, [ast.Is() if condition == "NONE" else ast.IsNot()], [ast.Constant(None)])
    s.read.test = ast.UnaryOp(ast.Not(), test) if condition == "FALSE" else test
    s.finish(list(s.items), list(s.items))


@rule("JUMP_IF_TRUE_OR_POP JUMP_IF_FALSE_OR_POP")
def jump_or_pop(s: Stack, inst: Inst) -> None:
    s.settle("*")
    test = s.items[-1]
    assert isinstance(test, ast.expr)
    s.read.test = ast.UnaryOp(ast.Not(), test) if "FALSE" in inst.op else test
    s.finish(list(s.items), s.items[:-1])


@rule("FOR_ITER")
def for_iter(s: Stack, inst: Inst) -> None:
    if not isinstance(s.items[-1], ast.Name):
        raise Unreadable("a loop over something that is no variable")
    s.read.test = s.items[-1]
    s.read.item = s.fresh("item")
    s.fixed.add(s.read.item)
    s.finish(s.items[:-1], [*s.items, ast.Name(s.read.item)])


# --- the end ----------------------------------------------------------------------------------------------------------
@rule("RETURN_VALUE")
def return_value(s: Stack, inst: Inst) -> None:
    s.emit(ast.Return(s.pop()))


@rule("RETURN_CONST")
def return_const(s: Stack, inst: Inst) -> None:
    s.emit(ast.Return(s.names.constant(inst.argval)))


@rule("RAISE_VARARGS")
def raise_varargs(s: Stack, inst: Inst) -> None:
    error, cause = [*s.popped(inst.arg), None, None][:2]
    s.emit(ast.Raise(error, cause))


@rule("RERAISE")
def reraise(s: Stack, inst: Inst) -> None:
    error = s.pop()
    handled = next((item for item in reversed(s.items) if isinstance(item, Mark) and item.kind == "outer"), None)
    own = None if handled is None or handled.block is None else s.raised(handled.block)
    if own is not None and getattr(error, "id", None) == own:
        s.emit(ast.Raise())
    else:
        statement = ast.Expr(s.helper(helpers.raise_again, error))
        statement.is_final = True  # type: ignore[attr-defined]
        s.emit(statement)


@rule("PUSH_EXC_INFO")
def push_exc_info(s: Stack, inst: Inst) -> None:
    error = s.pop()
    if s.rest and inst is not s.block.insts[0]:
        raise Unreadable("an exception is handled from the midst of a block on")
    s.items += [Mark("outer", s.block), error]


@rule("POP_EXCEPT")
def pop_except(s: Stack, inst: Inst) -> None:
    outer = s.items.pop()
    if not isinstance(outer, Mark) or outer.kind != "outer" or outer.block is None:
        raise Unreadable("an exception that is not the one handled is done with")
    name = s.raised(outer.block)
    for item in s.items:  # the name goes with its clause
        if isinstance(item, ast.Name) and item.id == name:
            raise Unreadable("an exception outlives its clause")
    s.read.exits = outer.block


@rule("WITH_EXCEPT_START")
def with_except_start(s: Stack, inst: Inst) -> None:
    leave, raised = s.items[-4], s.items[-1]
    assert isinstance(leave, ast.expr) and isinstance(raised, ast.expr)
    if not s.is_stable(raised):
        raise Unreadable("an exception is handed on that is no variable")
    kind = ast.Call(s.names.constant(type), [raised], [])
    s.push(ast.Call(leave, [kind, raised, ast.Attribute(raised, "__traceback__")], []))
