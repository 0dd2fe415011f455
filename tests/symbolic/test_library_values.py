"""Immutable values of the standard library are constants: patterns and matches, dates and times."""

import datetime
import re
import warnings
from collections import namedtuple

import pytest
import torch

import jit
from tests.differential import check, same_as_eager, tensors

X = tensors(3, 4)[0]
WORD = re.compile(r"(?P<name>[a-z]+)-(\d+)?")
DAY = datetime.date(2024, 2, 29)
WEEKDAY = DAY.strftime


@same_as_eager(graphs=1)
def test_patterns_and_matches(x):
    pattern = re.compile("a+(b)?", re.IGNORECASE)
    match = pattern.search("xxAAb")
    found = [match.group(), match[0], match.groups(), match.span(), match.start(1), bool(match), repr(match)]
    found += [pattern.sub("-", "aabaa"), pattern.split("1a2"), pattern.flags, pattern.pattern, match.re is pattern]
    found += [WORD.match("ab-12").groupdict(), WORD.fullmatch("zz") is None, WORD.findall("a-1 b-2"), match.string]
    found += [re.match("a", "ba"), re.search("a", "ba").span(), re.fullmatch("ba", "ba").end()]
    return x + len(found), found, pattern


@same_as_eager(graphs=1)
def test_errors_of_patterns_keep_their_attributes(x):
    try:
        re.compile("(")
    except re.error as error:
        caught = error
        seen = [error.msg, error.pos, error.pattern, error.lineno, str(error)]
    return x + 1, seen, caught, vars(caught)


def test_a_pattern_that_comes_in_is_compared():
    def program(pattern, x):
        return x + len(pattern.findall("abcabc"))

    check(program, re.compile("a"), X, graphs=1, changed=[(re.compile("[bc]"), X)])


KEPT: list = []


@same_as_eager(graphs=1)
def test_dates(x):
    later = datetime.date(2004, 2, 28) + datetime.timedelta(days=1)
    found = [later.isoformat(), str(later), later.weekday(), (later - DAY).days, later > DAY, later.replace(year=2008)]
    found += [datetime.date.fromordinal(7000).year, datetime.date.max, later.timetuple().tm_yday, later == DAY, f"{later}"]
    found += [datetime.datetime(2000, 1, 2, 3, tzinfo=datetime.timezone.utc).timestamp(), type(later) is datetime.date]
    found += [later.strftime("%A, %d"), f"{DAY:%b}", WEEKDAY("%a"), {DAY: 1}[datetime.date(2024, 2, 29)]]
    try:
        datetime.date(2000, 13, 1)
    except ValueError as error:
        found.append(str(error))
    return x + 1, found, later


def dates_at_each_call(x):
    made = datetime.timedelta(3)
    time = datetime.datetime(2000, 1, 2, tzinfo=datetime.timezone.utc, fold=1)
    KEPT.extend([made, time, DAY, made.resolution, [made, datetime.timedelta(3)], {made: time}])
    return x + 1, made, made + made, time.fold, time.tzinfo, datetime.time(1), datetime.date.max


def test_dates_are_made_anew_at_each_call():
    check(dates_at_each_call, X, graphs=1)
    compiled = jit.compile(dates_at_each_call, backend="eager")
    KEPT.clear()
    (_, first, *_, most), (_, second, *_) = compiled(X), compiled(X)
    assert first is KEPT[0] and first is KEPT[4][0] and first is not second and second is KEPT[6]
    assert KEPT[2] is DAY and KEPT[3] is datetime.timedelta.resolution and most is datetime.date.max
    KEPT.clear()


def test_dates_of_the_caller_are_no_constants():
    def program(day, x):
        return x + 1, [day]

    compiled = jit.compile(program, backend="eager")
    for number in range(1, 20):
        assert compiled(datetime.date(2000, 1, number), X)[1] == [datetime.date(2000, 1, number)]
    made = jit.explain(program)(DAY, X)
    assert not any("2024" in str(guard) for guard in made.guards)


@pytest.mark.parametrize("ask", ["datetime.datetime.now()", "datetime.date.today()", "DATE.timestamp()", "DATE.strftime('%Z')"])
def test_the_clock_and_the_zone_of_the_machine_are_asked_in_the_program(ask):
    namespace = {"datetime": datetime, "DATE": datetime.datetime(2000, 1, 1)}
    program = eval(f"lambda x: (x + 1, {ask})", namespace)
    assert [each.reason for each in jit.explain(program)(X).break_reasons] == ["clock or calendar"]


def test_what_warns_has_to_warn_each_time():
    def program(x):
        return x + 1, re.compile("[[a]x").pattern

    compiled = jit.compile(program, backend="eager")
    for _ in range(3):
        re.purge()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            compiled(X)
        assert [each.category for each in caught] == [FutureWarning]


@pytest.mark.parametrize("shuffle", [False, True])
def test_lengths_of_data_are_no_breaks(shuffle):
    data = torch.utils.data.TensorDataset(torch.arange(20.0).view(10, 2), torch.arange(10))
    loader = torch.utils.data.DataLoader(torch.utils.data.Subset(data, range(9)), batch_size=4, shuffle=shuffle)

    def program(x, epoch):
        print(f"epoch {epoch}: {len(loader)} batches of {len(loader.dataset)}")
        return x / len(loader.dataset) + loader.dataset[3][1] + len(data)

    check(program, X, 1, graphs=1, changed=[(X, 2)])


Sample = namedtuple("Sample", "row number")


def test_samples_are_collated():
    def program(x):
        rows = [{"row": row, "number": 1.5, "name": "s", "pair": [i, i + 1], "both": Sample(row, i)} for i, row in enumerate(x)]
        return torch.utils.data.default_collate(rows)

    check(program, X, graphs=1)


@pytest.mark.parametrize("batch", [lambda x: [[x], [x, x]], lambda x: [{"a": object}], lambda x: [(x, 1), (x[:1], 2)]])
def test_samples_that_do_not_fit(batch):
    check(lambda x: torch.utils.data.default_collate(batch(x)), X)
