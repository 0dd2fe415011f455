"""What CPython's tests of `array` found: bytes that make an array, characters that are none, an `extend` that fails."""

import array

from tests.differential import check, same_as_eager, tensors

(X,) = tensors(3, 4)


class Bytes(bytearray):
    def __iter__(self):
        return iter([7, 8])


class Ints(array.array):
    def __iter__(self):
        return iter([7, 8])


@same_as_eager(graphs=1)
def test_an_array_takes_another_buffer_as_bytes_or_by_its_elements(x):
    raw, shorts = bytearray(b"\x01\0\0\0"), array.array("h", [1, 2])
    made = [array.array("i", raw), array.array("h", raw), array.array("i", shorts), array.array("h", shorts)]
    for each in (raw, shorts):
        grown = bytearray(b"x")
        grown.extend(each)
        made += [bytearray(each), grown]
    again = array.array("h", [0])
    again.extend(raw)
    again.extend(shorts)
    again.frombytes(raw)
    return x + 1, made, again


@same_as_eager(graphs=1)
def test_an_array_is_made_of_the_bytes_of_a_bytearray_that_was_there(x, raw=bytearray(b"\x01\0\0\0")):
    return x + len(array.array("i", raw)), array.array("h", raw)


@same_as_eager
def test_elements_of_a_buffer_that_has_its_own_iter(x):
    raw, shorts, made = Bytes(b"\x01\0\0\0"), Ints("h", [3, 4]), []
    for each in (raw, shorts):
        grown = array.array("h", [0])
        try:
            grown.extend(each)
        except TypeError as error:
            made.append(str(error))
        made += [array.array("i", each), bytearray(each), grown]
    return x + 1, made


GIVEN = array.array("i", [5])


@same_as_eager(graphs=1)
def test_what_was_appended_before_the_wrong_element_stays(x):
    made, raw, said = array.array("i"), bytearray(b"z"), []
    for each in (made, GIVEN):
        try:
            each.extend((1, 2, "x"))
        except TypeError as error:
            said.append(str(error))
    for wrong in ((1, 2, "x"), [1, 300]):
        try:
            raw.extend(wrong)
        except (TypeError, ValueError) as error:
            said.append(str(error))
    return x + 1, made, raw, said, list(GIVEN)


def texts_of(characters):
    """What there is to see of it; its `repr` may raise."""
    seen = []
    for look in (str, list, array.array.tounicode, len, array.array.tobytes):
        try:
            seen.append(look(characters))
        except ValueError as error:
            seen.append(str(error))
    return seen


def test_bytes_that_are_no_character():
    def made(x):
        return x + 1, texts_of(array.array("u", b"\xff" * 4))

    def given(x):
        characters = array.array("u", "ab")
        characters.frombytes(b"\xff" * 4)
        for each in (lambda: characters[2], lambda: list(characters), lambda: str(characters)):
            try:
                return x + 1, each()
            except ValueError as error:
                x = x + len(str(error))
        return x, texts_of(characters)

    for program in (made, given):
        check(program, X)
