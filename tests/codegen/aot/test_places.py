"""Inputs with gaps, with overlaps, or in the middle of a storage, in programs that change and write them: derivatives of
all orders are taken where eager autograd takes them."""
import pytest
import torch

from codegen.aot.function import Settings, compile_program

#: (numbers, 4 by 6) -> the program's input
INPUTS = {
    "dense": lambda b: b * 1,
    "in the middle": lambda b: (b * 1)[1:],
    "gaps": lambda b: (b * 1)[:, ::2],
    "turned, gaps": lambda b: (b * 1)[:, ::2].t(),
    "gaps of its own": lambda b: torch.zeros(5, 6, dtype=b.dtype)[1:, ::2].detach().copy_(b[:, ::2]),
    "expanded": lambda b: (b * 1)[:1].expand(4, 6),
    "windows": lambda b: (b * 1).view(-1).as_strided((4, 3), (2, 1), 1),
}


def place(x):
    return x.as_strided((2, 2), (1, 2), 7)


#: x -> results
PROGRAMS = {
    "turned": lambda x: (x.t_() ** 2,),
    "turned twice": lambda x: (x.t_().unsqueeze_(0) ** 2,),
    "by place": lambda x: (place(x) ** 2, x * x),
    "changed by place": lambda x: (x.as_strided_((2, 2), (1, 1)) ** 2,),
    "written, by place": lambda x: (place(x.mul_(2)) ** 2, x * x),
    "written, a copy by place": lambda x: (torch.as_strided_copy(x.mul_(2), (2, 2), (1, 2), 7) ** 2,),
    "written, scattered by place": lambda x: (torch.as_strided_scatter(x.mul_(2), x[:2, :2], (2, 2), (1, 2), 7) ** 2,),
    "written, a copy written": lambda x: (x.mul_(2).contiguous().mul_(3) ** 2, x * x),
    "written and turned": lambda x: (x.mul_(2).t_() ** 2,),
    "by place, written behind autograd": lambda x: (place(x) ** 2, x.data.mul_(2) * 1),
}
#: Not so: a functional form of a write needs elements apart, torch's scatter no gaps.
NOT = [("expanded", "written"), ("windows", "written"), ("gaps", "scattered")]
CASES = [(i, p) for i in INPUTS for p in PROGRAMS if not any(one in i and other in p for one, other in NOT)]


def derivatives(program, make):
    """What the program gives and leaves, and its derivatives up to the third."""
    source = (torch.arange(24, dtype=torch.double) % 7 + 1).view(4, 6).requires_grad_()
    x = make(source)
    results = program(x)
    found = [(r.detach().clone(), r.stride(), r.storage_offset()) for r in (*results, x)]
    last = sum((r * (torch.arange(r.numel()).view(r.shape) + 1)).sum() for r in results)
    for _ in range(3):
        if last.requires_grad:
            (last,) = torch.autograd.grad(last.pow(2).sum(), source, create_graph=True)
            found.append(last.detach())
    return str(found)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("input, program", CASES)
def test_derivatives(input, program):
    def called(x):
        return list(PROGRAMS[program](x))

    make = INPUTS[input]
    compiled = compile_program(called, [make(torch.ones(4, 6, dtype=torch.double, requires_grad=True))], Settings())
    assert derivatives(compiled, make) == derivatives(called, make)
