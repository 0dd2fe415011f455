"""Programs made at random of operations on tensors, of derivatives, or under modes, called with tensors of other forms
each time: sizes, strides, dtypes, classes, histories, and what lies in whose memory. `seen` makes a call and says all
that can be seen of it."""

import contextlib
import random
import re
import warnings
from typing import NamedTuple

import torch

from tests.symbolic.asked import lines
from tests.symbolic.asked_at_random import indented

HEAD = """
import torch, jit, torch.utils.checkpoint
class Sub(torch.Tensor): pass
def keep(out, gradients):  # but how they lie: that is the compiler's choice
    kept = [None if g is None else g.clone(memory_format=torch.contiguous_format) for g in gradients]
    out += kept
    return kept[0]
def hooked(tensor, function):
    return tensor.register_hook(function) if not tensor._is_view() else None  # torch's own may crash
def world(): pass
"""


class Subject(NamedTuple):
    world: str  # what the programs use
    forms: list[str]
    of_x: list[str]  # those that lie in the memory of x, or are computed of it
    done: list[str]


def _subject(name, of=None):
    """`of`: the subject that has the forms."""
    given = lines(f"{of or name}_given.txt")
    forms, of_x = ([each for each in given if bool(re.search(r"\bx\b", each)) is is_of] for is_of in (False, True))
    world = lines(f"{name}_world.txt") if of is not None else []
    return Subject("\n".join(world), forms, of_x, lines(f"{name}_done.txt"))


SUBJECTS = {
    "tensors": _subject("tensors"), "derivatives": _subject("derivatives"), "modes": _subject("modes", "derivatives")
}  # fmt: skip


def program(maker, subject):
    """The text of a module."""
    body, names = ["out = []", "r = x"], ["x", "w", "z", "r", "x", "w"]
    for _ in range(maker.choice([1, 2, 3, 4, 5])):
        step = re.sub(r"\{[abc]\}", lambda found: maker.choice(names), maker.choice(subject.done))
        body += ["try:", "    " + step, "except Exception as e: out.append(type(e).__name__)"]
        if maker.random() < 0.4:
            body.append("out.append(r)")
        if maker.random() < 0.05:
            body.append("jit.graph_break()")
    return "\n".join([HEAD, subject.world, "def program(x, w, z):", indented([*body, "return out, r"])])


def forms(maker, subject):
    """What x, w and z are given at one call."""
    usual = subject.forms[0]

    def another():
        chance = maker.random()
        return usual if chance < 0.4 else maker.choice(subject.forms) if chance < 0.75 else maker.choice(subject.of_x)

    return maker.choice(subject.forms) if maker.random() < 0.7 else usual, another(), another()


def given(scope, texts):
    torch.manual_seed(0)
    random.seed(0)
    made = dict(scope)
    for name, text in zip("xwz", texts, strict=True):
        try:
            made[name] = eval(text, made)
        except (RuntimeError, IndexError):  # x has no such part
            made[name] = torch.ones(2, 3)
    return made["x"], made["w"], made["z"]


def seen(program, scope, texts):
    """None where the compiled program says that what it did can't be put back."""
    args = given(scope, texts)
    with warnings.catch_warnings(), _as_usual():
        warnings.simplefilter("ignore")
        return _seen(program, args, scope["world"])


@contextlib.contextmanager
def _as_usual():
    """Afterwards torch is as it usually is."""
    try:
        yield
    finally:
        torch.set_grad_enabled(True)
        torch.set_default_dtype(torch.float32)
        torch.use_deterministic_algorithms(False)


def _seen(program, args, world):
    known = []
    for arg in args:
        _shown(arg, known)
    try:
        result = "returned", program(*args)
    except Exception as error:
        if any("put back" in note for note in getattr(error, "__notes__", ())):
            return None
        result = "raised", type(error).__name__
    said = [_shown(result, known)]
    for arg in args:
        said += [_shown(arg, known), _shown(arg.grad if arg.is_leaf else None, known), arg._version]
    return repr((said, _gradients(result, args), _shown(world(), known)))


def _gradients(result, args):
    outputs = [each for each in _tensors(result) if each.requires_grad and each.numel()]
    if not outputs:
        return None
    try:
        sum(each.abs().square().sum().double() for each in outputs).backward()
    except RuntimeError as error:
        return type(error).__name__
    return [_shown(arg.grad if arg.is_leaf else None, []) for arg in args]


def _tensors(value):
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _tensors(each)


def _shown(value, known):
    """`known`: the tensors that came before, by which it is told which are the same, or share memory."""
    if isinstance(value, torch.Tensor):
        return _tensor(value, known)
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [_shown(each, known) for each in value]
    if type(value).__name__ == "ndarray":
        return "array", str(value.dtype), value.strides, value.tolist()
    plain = isinstance(value, (int, float, str, type(None), torch.dtype))
    return repr(value) if plain else type(value).__name__


def _tensor(tensor, known):
    if not any(each is tensor for each in known):
        known.append(tensor)
    storage = tensor.untyped_storage()._cdata
    plain = tensor.detach().resolve_conj().resolve_neg()
    numbers = plain.to(torch.complex128 if plain.is_complex() else torch.float64).flatten().tolist()
    return (
        *(next(i for i, each in enumerate(known) if each is tensor), type(tensor).__name__, str(tensor.dtype)),
        next(i for i, each in enumerate(known) if each.untyped_storage()._cdata == storage),
        *(tuple(tensor.shape), tensor.stride(), tensor.storage_offset(), tensor.is_conj(), tensor._is_view()),
        *(tensor.requires_grad, tensor.is_leaf, [_number(n) for n in numbers]),
    )


def _number(n):
    """To three places; what is next to nothing may be nothing."""
    return n if type(n) is not float else float(f"{n:.3g}") if abs(n) > 1e-5 else 0.0


def made(name, subject="tensors"):
    """A program and what it is given at each call, from the name of a seed."""
    maker = random.Random(name)
    text = program(maker, SUBJECTS[subject])
    return text, [forms(maker, SUBJECTS[subject]) for _ in range(maker.choice([2, 3, 4, 5]))]
