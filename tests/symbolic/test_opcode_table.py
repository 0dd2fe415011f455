"""Every opcode of the Python that runs the tests has exactly one fate: handled, refused, dropped or split by the decoder."""
import dis
import itertools
import weakref

import pytest

from symbolic import code, versions
from symbolic.opcodes import HANDLERS, REFUSED

FATES = {
    "handled": set(HANDLERS),
    "refused": set(REFUSED),
    "dropped": code.DROPPED & versions.OPCODES,
    "split": code.SPLIT.keys() & versions.OPCODES,
}


def test_opcodes_are_those_of_dis():
    own = {name for name, number in dis.opmap.items() if number > 255 or name.startswith("INSTRUMENTED_")}
    assert versions.OPCODES == dis.opmap.keys() - own


def test_every_opcode_has_a_fate():
    assert set().union(*FATES.values()) == versions.OPCODES


@pytest.mark.parametrize("first, second", list(itertools.combinations(FATES, 2)))
def test_no_opcode_has_two_fates(first, second):
    assert not FATES[first] & FATES[second]


def test_splits_lead_to_handled_opcodes():
    assert {part for name in FATES["split"] for part in code.SPLIT[name]} <= FATES["handled"]


def test_every_refusal_has_a_reason():
    assert all(REFUSED.values())


def test_what_is_kept_of_code_objects_is_bounded():
    """Those of functions that are made again and again are let go."""
    def made():
        return (lambda: None).__code__.replace(co_name="made")

    answer = code.once_per_code(code.decode, 2)
    first, equal = made(), made()
    assert answer(first) is answer(first) and answer(first).raw is first
    assert answer(equal).raw is equal
    other = code.once_per_code(lambda each: each.co_name, 2)
    ended = weakref.ref(last := made())
    assert [other(last), other(first), other(equal)] == ["made"] * 3
    del last
    assert ended() is None
