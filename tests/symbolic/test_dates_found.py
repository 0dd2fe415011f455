"""What CPython's tests of `datetime` found: dates by weeks, and floats that are asked for their ratio."""

import copy
import operator
from datetime import date, timedelta

from tests.differential import same_as_eager

GIVEN = date(2020, 1, 2)


@same_as_eager(graphs=1)
def test_a_date_by_weeks(x):
    found = GIVEN.isocalendar()
    year, week, _ = date(2019, 12, 30).isocalendar()
    return x + found.week + week, found, tuple(found), found[0], type(found).__name__, year, found.weekday, found == (2020, 1, 4)


@same_as_eager
def test_what_is_done_with_a_date_by_weeks(x):
    found = GIVEN.isocalendar()
    try:
        found.week = 3
    except AttributeError as error:
        said = str(error)
    return x + 1, said, str(found), type(copy.copy(found)), found + (1,), hash(found) == hash((2020, 1, 4)), {found: 1}


class Ratio(float):
    def as_integer_ratio(self):
        return (1, 7) if self else 1 << 100


SEVENTH = Ratio(2.0)


@same_as_eager
def test_a_length_of_time_asks_a_float_for_its_ratio(x):
    seen = []
    for factor in (Ratio(), SEVENTH):
        for look in (operator.truediv, operator.mul, lambda a, b: b * a, lambda a, b: timedelta(days=b)):
            try:
                seen.append(look(timedelta(3), factor))
            except TypeError as error:
                seen.append(str(error))
    return x + 1, seen, timedelta(3) == SEVENTH
