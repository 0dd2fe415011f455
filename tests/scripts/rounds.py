"""The clock of the scripts: what they print must be the same each time, so times go to stderr."""
import os
import resource
import sys
import time


def rounds(count):
    """Counts, and says after each round how many seconds passed, and how many the processor worked for us. The variable
    `ROUNDS` says it otherwise."""
    for number in range(int(os.environ.get("ROUNDS", count))):
        wall, work = time.perf_counter(), _work()
        yield number
        print(f"round {number}: {time.perf_counter() - wall:.6f} {_work() - work:.6f}", file=sys.stderr)


def _work():
    """Of this process and of its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)
