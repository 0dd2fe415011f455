"""Programs with checkpoints, for the stage and for captured frames."""
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint


def again(function, *args, **kwargs):
    return checkpoint(function, *args, use_reentrant=False, **kwargs)


def checkpointed(x, w):
    return [again(lambda x: (x @ w).sin().exp(), x).sum()]


def checkpointed_dropout(x, w):
    y = F.dropout(x, 0.3)
    z = again(lambda y: F.dropout((F.dropout(y, 0.5) @ w).sin(), 0.5).exp(), y)
    return [(F.dropout(z, 0.2) * z).sum()]


def in_one_another(x, w):
    def inner(y):
        return F.dropout((y @ w).sin(), 0.5).cos()

    def outer(y):
        return again(inner, F.dropout(y, 0.5)) * again(inner, y)

    return [again(outer, x).sum()]
