"""What functions ask of an object's class: `pow` with a modulus, `bytes`, `operator.length_hint`."""

import operator

import pytest
import torch

from tests.differential import check


class Number:
    def __init__(self, answer):
        self.answer = answer

    def __pow__(self, other, modulus=None):
        return self.answer if modulus is None else (self.answer, other, modulus)

    def __bytes__(self):
        return self.answer

    def __length_hint__(self):
        if isinstance(self.answer, type):
            raise self.answer
        return self.answer


class Refuses:
    def __pow__(self, other, modulus=None):
        return NotImplemented

    def __rpow__(self, other, modulus=None):
        return "reflected"


class TwoOnly:
    def __pow__(self, other):
        return 5


class Sized:
    def __init__(self, length):
        self.length = length

    def __len__(self):
        if self.length is None:
            raise TypeError
        return self.length

    def __length_hint__(self):
        return 7


class Bytes(bytes):
    def __bytes__(self):
        return b"other"


class Plain(bytes):
    pass


class Whole(int):
    def __pow__(self, other, modulus=None):
        return ("whole", other, modulus)


QUESTIONS = {
    "pow": lambda: (pow(Number(3), 2, 5), pow(Number(3), 2), pow(Number(3), 2, None), pow(Whole(3), 2, 5), pow(Number(1), 2, mod=4)),
    "pow refused": lambda: pow(Refuses(), 2, 5),
    "pow is not reflected": lambda: pow(2, Refuses(), 5),
    "pow of two alone": lambda: pow(TwoOnly(), 2, 5),
    "bytes": lambda: (bytes(Number(b"q")), bytes(Bytes(b"a")), bytes(Plain(b"a")), type(bytes(Plain(b"a"))), type(bytes(Number(Plain(b"z"))))),
    "bytes that are none": lambda: bytes(Number("q")),
    "bytes of elements": lambda: (bytes([1, 2]), bytes((3, 4)), bytes(n * 2 for n in range(3)), bytes({7}), bytes(bytearray(b"z")), bytes()),
    "bytes of what does not fit": lambda: bytes([300]),
    "bytes of other elements": lambda: bytes([1, "a"]),
    "bytes of text": lambda: (bytes("é", "utf8"), bytes("a", encoding="ascii"), bytes("é", "ascii", "ignore"), bytes(3), bytes(True)),
    "bytes of text alone": lambda: bytes("a"),
    "bytes of less than none": lambda: bytes(-1),
    "bytes of a float": lambda: bytes(1.5),
    "derived bytes": lambda: (Plain([1, 2]), Plain("a", "ascii"), type(Plain(2)), Plain(Number(b"n"))),
    "hint": lambda: (operator.length_hint(Number(4)), operator.length_hint(Sized(2)), operator.length_hint(Sized(None))),
    "hint there is none of": lambda: (operator.length_hint(Refuses(), 3), operator.length_hint(Number(NotImplemented), 2), operator.length_hint(Number(TypeError), 9)),
    "hint that raises": lambda: operator.length_hint(Number(KeyError)),
    "hint that is no number": lambda: operator.length_hint(Number("a")),
    "hint that is negative": lambda: operator.length_hint(Number(-2)),
}  # fmt: skip


@pytest.mark.parametrize("question", QUESTIONS)
def test_special_methods(question):
    asked = QUESTIONS[question]

    def program(x):
        try:
            answer = asked()
        except (TypeError, ValueError, LookupError) as error:
            answer = type(error).__name__, str(error)
        return x + 1, answer

    check(program, torch.ones(2), graphs=None if question == "pow is not reflected" else 1)
