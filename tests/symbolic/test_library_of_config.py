"""What programs read their settings with: dates, literals, identifiers, structures, queries."""

import ast
import datetime
import hmac
import struct
import urllib.parse
import uuid

import pytest
import torch

import jit
from tests.differential import COUNTING, check, same_as_eager

X = torch.ones(3)


class Wire:
    HEADER = struct.Struct("<IHB")


def _failures(*calls):
    said = []
    for call in calls:
        try:
            said.append(call())
        except (ValueError, SyntaxError, TypeError, struct.error) as error:
            said.append((type(error).__name__, str(error)))
    return said


@same_as_eager(graphs=1)
def test_dates_from_text(x):
    start = datetime.datetime.strptime("2024-01-31 10:30", "%Y-%m-%d %H:%M")
    later = start.replace(hour=3) + datetime.timedelta(days=1)
    found = [start, later.date(), later.weekday(), start < later, later.isoformat(), (later - start).total_seconds()]
    found += [datetime.datetime.strptime("Mar 4 2023", "%b %d %Y").strftime("%Y%m%d")]
    wrong = _failures(lambda: datetime.datetime.strptime("x", "%Y"))
    return x + later.day, found, wrong


@same_as_eager(graphs=1)
def test_literals(x):
    text = "{'lr': 0.1, 'layers': [64, 32], 'names': ('a', b'b'), 'on': True, 'none': None, 'set': {1}}"
    config = ast.literal_eval(text)
    config["layers"].append(8)
    wrong = _failures(lambda: ast.literal_eval("f(1)"), lambda: ast.literal_eval("a +"))
    return x * config["lr"], config, ast.literal_eval("-3"), [each[0] for each in wrong]


def test_a_literal_that_warns_is_evaluated_each_time():
    def program(x):
        return x + len(ast.literal_eval("'\\d'"))

    check(program, X)


@same_as_eager(graphs=1)
def test_identifiers(x):
    one = uuid.UUID("12345678-1234-5678-1234-567812345678")
    same = uuid.UUID(int=one.int)
    found = [str(one), one.hex, one.version, one == same, hash(one) == hash(same), one.bytes, one.fields, repr(same)]
    found += [uuid.UUID(bytes=one.bytes) < uuid.NAMESPACE_DNS, str(uuid.NAMESPACE_URL), {one: 1}[same]]
    return x + one.node % 7, found, _failures(lambda: uuid.UUID("zz"), lambda: uuid.UUID())


@pytest.mark.parametrize("make", [uuid.uuid1, uuid.uuid4])
@pytest.mark.skipif(not COUNTING, reason="other breaks come first")
def test_identifiers_drawn_break(make):
    report = jit.explain(lambda x: (x + 1, make()))(X)
    assert any("random numbers of Python" in str(reason) for reason in report.break_reasons)


@same_as_eager(graphs=1)
def test_structures(x):
    pair = struct.Struct("<Hf")
    header = Wire.HEADER
    packed = header.pack(1, 2, 3)
    found = [packed, header.unpack(packed), header.size, pair.format, pair.unpack_from(b"\0" + pair.pack(3, 0.5), 1)]
    wrong = _failures(lambda: header.pack(1), lambda: header.unpack(b"1"), lambda: struct.Struct("zz"))
    return x * pair.size, found, wrong


@same_as_eager(graphs=1)
def test_a_structure_leaves_the_frame(x):
    pair = struct.Struct("<Hf")
    return x + pair.size, [pair.pack(1, 2), struct.Struct("<Hf") is pair]


@same_as_eager
def test_structures_that_write(x):
    room, header = bytearray(8), Wire.HEADER
    header.pack_into(room, 1, 1, 2, 3)
    return x + header.size, room, [*struct.Struct("<H").iter_unpack(b"abcd")]


@same_as_eager(graphs=1)
def test_queries(x):
    query = urllib.parse.parse_qs("lr=0.1&layer=64&layer=32")
    found = [query, urllib.parse.parse_qsl("a=1&b=%20"), urllib.parse.urlencode({"a": 1, "b": "x y"})]
    found += [urllib.parse.urljoin("http://a/b/c", "../d"), hmac.compare_digest("a", "a"), hmac.compare_digest(b"a", b"b")]
    return x * float(query["lr"][0]), found
