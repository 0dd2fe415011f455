"""Programs that one process compiles one after the other do not get into each other's way."""
import gc

import jit


def begin_anew() -> None:
    """Nothing is compiled, and what there is now is not looked through by each search for garbage, of which tests make
    many."""
    jit.reset()
    gc.collect()
    gc.freeze()
