"""Every opcode of the Python that runs the tests has exactly one fate: handled, refused, dropped or split by the decoder."""
import dis
import itertools

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
