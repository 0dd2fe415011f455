"""Text that is known when tracing: functions called for each match of a pattern, templates and formatters."""

import re
import string

from tests.differential import same_as_eager

PAT = re.compile(r"(\d+)")


@same_as_eager(graphs=1)
def test_a_function_for_each_match(x):
    m = re.match(r"(?P<n>\w+)\.(\d+)", "layer.12")
    return x * int(m.group(2)), m.groupdict(), re.sub("a", lambda m: m.group().upper(), "banana"), re.findall(r"\d", "1a2"), re.split(",", "a,b")


@same_as_eager(graphs=1)
def test_methods_of_a_pattern(x):
    n = 0
    def up(m):
        nonlocal n
        n += 1
        return str(int(m[1]) * 2)
    return x + n, PAT.sub(up, "a1b22c", count=1), PAT.subn(up, "a1b22c"), n


@same_as_eager(graphs=1)
def test_matches_one_by_one(x):
    out = []
    for m in re.finditer(r"(\w)(\d)", "a1 b2 c3"): out.append((m.group(1), int(m[2]), m.span()))
    return x * sum(n for _, n, _ in out), out


@same_as_eager(graphs=1)
def test_an_iterator_of_matches(x):
    it = PAT.finditer("1 2 3", 1)
    return x * int(next(it)[0]), [m.start() for m in it], type(it).__name__, next(it, None)


@same_as_eager(graphs=1)
def test_an_iterator_of_matches_is_returned(x):
    it = PAT.finditer("1 2 3")
    next(it)
    return x + 1, it


@same_as_eager(graphs=1)
def test_an_iterator_of_matches_that_nobody_began(x):
    return x + 1, PAT.finditer("1 2 3")


@same_as_eager(graphs=1)
def test_empty_matches(x):
    return x + 1, re.sub("x*", lambda m: "-", "abxd"), re.sub("", lambda m: "-", "abc"), re.sub("q", lambda m: "-", "abc"), re.sub("b|", lambda m: None, "abc")


@same_as_eager(graphs=1)
def test_matches_in_bytes(x):
    return x + 1, re.sub(b"a", lambda m: m.group() * 2, b"banana"), re.sub("a", lambda m: m.group(), "banana", flags=re.I)


@same_as_eager(graphs=1)
def test_a_function_that_answers_with_no_text(x):
    try: re.sub("a", lambda m: 3, "banana")
    except TypeError as e: return x + 1, str(e)


@same_as_eager(graphs=1)
def test_a_function_that_raises(x):
    try: re.sub("a", lambda m: {}["k"], "banana")
    except KeyError as e: return x + 1, str(e)


@same_as_eager(graphs=1)
def test_a_pattern_that_is_none(x):
    try: re.sub("(", lambda m: "", "banana")
    except re.error as e: return x + 1, str(e)


@same_as_eager(graphs=1)
def test_a_function_that_computes(x):
    y = []
    def f(m): y.append(x * int(m[0])); return "t"
    s = PAT.sub(f, "1 2")
    return sum(y), s


@same_as_eager(graphs=1)
def test_a_table_of_replacements(x):
    table = {"a": "1", "b": "2"}
    return x + 1, re.sub("[ab]", lambda m: table[m.group(0)], "abc"), re.compile("a").sub(str.upper and (lambda m: m[0].upper()), "cab")


@same_as_eager(graphs=1)
def test_names_in_another_style(x):
    def snake(n): return re.sub(r"(?<!^)(?=[A-Z])", "_", n).lower()
    def camel(n): return re.sub(r"_(\w)", lambda m: m.group(1).upper(), n)
    return x + 1, snake("HelloWorldFoo"), camel("hello_world_foo")


@same_as_eager(graphs=1)
def test_what_a_match_has(x):
    m = re.fullmatch(r"block(\d+)\.(?P<kind>w|b)", "block3.w")
    if m: return x * int(m[1]), m["kind"], m.groups(), m.re.pattern, m.expand(r"\1-\2"), m.lastgroup, m.end(1)


@same_as_eager(graphs=1)
def test_a_template(x):
    t = string.Template("$a ${b} $$")
    try: t.substitute(a=1)
    except KeyError as e: m = str(e)
    return x + 1, t.substitute(a=1, b=2), t.safe_substitute(a=1), t.substitute({"a": 1}, b="q"), m, t.template


@same_as_eager(graphs=1)
def test_a_template_that_is_none(x):
    try: string.Template("$ a").substitute()
    except ValueError as e: return x + 1, str(e)


@same_as_eager(graphs=1)
def test_what_a_template_has(x):
    t = string.Template("$a ${b}")
    return x + 1, getattr(t, "get_identifiers", list)(), t.pattern.flags


@same_as_eager(graphs=1)
def test_a_template_of_the_frame_s_own(x):
    class P(string.Template): delimiter = "%"
    return x + 1, P("%a $b").safe_substitute(a=1)


@same_as_eager(graphs=1)
def test_a_formatter(x):
    return x + 1, string.Formatter().format("{a}{b}{0!r:>4}", "q", a=1, b=2), string.Formatter().vformat("{x}", (), {"x": 1})


@same_as_eager(graphs=1)
def test_a_formatter_of_the_frame_s_own(x):
    class F(string.Formatter):
        def get_value(self, k, args, kw): return kw.get(k, "?")
    return x + 1, F().format("{a}{b}", a=1)


@same_as_eager(graphs=1)
def test_tokens(x):
    toks = [(m.lastgroup, m.group()) for m in re.compile(r"(?P<num>\d+)|(?P<op>[+*])|(?P<ws>\s+)").finditer("1 + 23*4")]
    return x * len(toks), toks


@same_as_eager
def test_a_count_by_position(x):
    return x + 1, re.sub("a", lambda m: "b", "aaa", 1)
