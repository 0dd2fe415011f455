"""What the functions of `traceback` say of exceptions, in the graph: entries, lines of source, chains, notes, groups.

PYTEST_DONT_REWRITE: the programs are what is tested.
"""
import importlib.util
import io
import linecache
import os
import sys
import traceback

import pytest

import jit
from tests.differential import check, same_as_eager, tensors

X, = tensors(3, 4)


class Own(Exception):
    def __init__(self, number):
        super().__init__(number)
        self.number = number

    def __str__(self):
        return f"own {self.number}"


def deep(x, n):
    if n:
        return deep(x, n - 1)
    raise Own(x.shape[1])


@same_as_eager(graphs=1)
def test_text_of_a_handled_exception(x):
    try:
        deep(x, 2)
    except Own:
        return x + 1, traceback.format_exc()


@same_as_eager(graphs=1)
def test_its_last_line(x):
    try:
        deep(x, 0)
    except Own as e:
        return x + 1, traceback.format_exception_only(e), traceback.format_exception_only(type(e), e)


@same_as_eager(graphs=1)
def test_repeated_entries_and_a_limit(x):
    try:
        deep(x, 6)
    except Own as e:
        few = [traceback.format_tb(e.__traceback__, limit) for limit in (1, -1, 0)]
        return x + 1, few, traceback.format_exc(limit=2), traceback.format_exception(e)


@same_as_eager(graphs=1)
def test_entries(x):
    try:
        {"a": 1}["k" + str(len(x))]
    except KeyError as e:
        found = traceback.extract_tb(e.__traceback__)
        shown = [(each.name, each.lineno, each.line, each.colno, each.end_colno, each.filename) for each in found]
        return x + 1, shown, found.format(), traceback.format_list(found), type(found).__name__


@same_as_eager(graphs=1)
def test_chain_with_a_cause(x):
    try:
        try:
            deep(x, 1)
        except Own as e:
            raise KeyError("k") from e
    except KeyError as e:
        return x + 1, traceback.format_exception(e), traceback.format_exception(e, chain=False)


@same_as_eager(graphs=1)
def test_chain_with_a_context_and_a_note(x):
    try:
        try:
            deep(x, 1)
        finally:
            x = x * 2
            1 / 0  # noqa: B018
    except ZeroDivisionError as e:
        e.add_note("noted")
        return x + 1, "".join(traceback.format_exception(type(e), e, e.__traceback__))


@same_as_eager(graphs=1)
def test_group(x):
    try:
        raise ExceptionGroup("two", [ValueError(1), KeyError("k")])
    except ExceptionGroup:
        return x + 1, traceback.format_exc()


@same_as_eager(graphs=1)
def test_kept_for_later(x):
    try:
        deep(x, 2)
    except Own as e:
        kept = traceback.TracebackException.from_exception(e)
    return x + 1, str(kept), list(kept.format()), [each.name for each in kept.stack]


@same_as_eager(graphs=1)
def test_printed(x):
    file = io.StringIO()
    try:
        deep(x, 2)
    except Own as e:
        traceback.print_exc(file=file)
        traceback.print_exception(e, limit=1, file=file)
        traceback.print_tb(e.__traceback__, file=file)
        traceback.print_exc()
    return x + 1, file.getvalue()


@same_as_eager(graphs=1)
def test_shown_and_passed_on(x):
    try:
        try:
            deep(x, 1)
        except Own:
            text = traceback.format_exc()
            raise
    except Own as e:
        return x + 1, text, traceback.format_exc(), e


@same_as_eager
def test_shown_and_left_to_the_caller(x):
    try:
        deep(x, 1)
    except Own:
        traceback.print_exc()
        raise


def test_exception_that_comes_in():
    def program(x, e):
        return x + 1, traceback.format_exception(e), [each.lineno for each in traceback.extract_tb(e.__traceback__)]

    def raised(n, x=X):
        try:
            deep(x, n)
        except Own as e:
            return e

    def elsewhere():
        try:
            raise ValueError("other")
        except ValueError as e:
            return e
    check(program, X, raised(1), changed=[(X, raised(1)), (X, raised(2)), (X, raised(1, X.T)), (X, elsewhere()), (X, KeyError(1))])


def test_limit_of_the_interpreter():
    def program(x):
        try:
            deep(x, 3)
        except Own:
            return x + 1, traceback.format_exc()
    compiled = jit.compile(program, backend="eager")
    for limit in (None, 1, 2, None):
        try:
            if limit is not None:
                sys.tracebacklimit = limit
            assert compiled(X)[1] == program(X)[1]
        finally:
            vars(sys).pop("tracebacklimit", None)


MODULE = """
import traceback
def program(x):
    try: raise ValueError(1)  # first
    except ValueError: return x + 1, traceback.format_exc()
"""


@pytest.fixture
def module(tmp_path):
    path = tmp_path / "shown.py"
    path.write_text(MODULE)
    spec = importlib.util.spec_from_file_location("shown", path)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    yield made, path
    linecache.checkcache()


def test_source_that_is_written_anew(module):
    made, path = module
    compiled = jit.compile(made.program, backend="eager")
    assert "# first" in compiled(X)[1] == made.program(X)[1]
    path.write_text(MODULE.replace("first", "second time"))
    assert "# second time" in compiled(X)[1] == made.program(X)[1]
    path.unlink()
    assert "ValueError(1)" not in made.program(X)[1] == compiled(X)[1]


def test_source_that_is_only_in_the_cache(module):
    made, path = module
    os.rename(path, path.with_suffix(".old"))
    keep = lambda text: linecache.cache.update({str(path): (len(text), None, text.splitlines(True), str(path))})  # noqa: E731
    compiled = jit.compile(made.program, backend="eager")
    try:
        for text in (MODULE, MODULE.replace("first", "other"), MODULE):
            keep(text)
            assert compiled(X)[1] == made.program(X)[1] and ("# other" in compiled(X)[1]) == ("other" in text)
        del linecache.cache[str(path)]
        assert compiled(X)[1] == made.program(X)[1] and "#" not in compiled(X)[1]
    finally:
        linecache.cache.pop(str(path), None)


@same_as_eager(graphs=1)
def test_lines_by_themselves(x):
    linecache.checkcache()
    linecache.checkcache(__file__)
    return linecache.getline(__file__, 1), linecache.getline(__file__, lineno=3, module_globals=globals()), x + 1


@same_as_eager
def test_lines_of_what_is_no_file(x):
    out = [linecache.lazycache("<text>", globals()), linecache.getline("", 1), linecache.getline("<text>", 1)]
    for wrong in (lambda: linecache.getline(None, 1), lambda: linecache.getline(__file__, "1")):
        try:
            out.append(wrong())
        except (TypeError, AttributeError) as e:
            out.append(type(e))
    return out, x + 1


@same_as_eager
def test_errors_of_other_kinds(x):
    out = []
    for wrong in (lambda: undefined_name, lambda: x.view(7), lambda: open("/nowhere"), lambda: compile("x =", "f.py", "exec"),
                  lambda: importlib.import_module("nowhere"), lambda: [].pop()):
        try:
            wrong()
        except Exception as e:
            out += traceback.format_exception(e)
            out += traceback.format_exception_only(e)
    return out, traceback.format_exception(None, None, None), x * 2


def test_lines_are_kept_as_without_a_compiler(module):
    made, path = module
    compiled = jit.compile(made.program, backend="eager")
    for _ in range(3):
        linecache.clearcache()
        compiled(X)
        assert str(path) in linecache.cache
        assert linecache.cache[str(path)][2] == MODULE.splitlines(True)
