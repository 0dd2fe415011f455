"""Programs in processes of their own, so that a crash is a failed test and not the end of all tests.

They are forks of one process that has imported torch and jit and done nothing else: a second or more is saved each time.
A program that must be alone from the first import on, or with other settings, is no matter for this."""
import atexit
import functools
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

ROOT = Path(__file__).parents[1]
#: Forks at each line that it reads, says who the child is and then how it ended. The child goes on as a script would.
SERVER = """
def _next():
    import json, os, sys
    import torch, jit
    torch._subclasses.FakeTensorMode()  # imports what torch needs for it
    for line in sys.stdin.buffer:
        program, out, err = json.loads(line)
        child = os.fork()
        if not child:
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(os.open(out, os.O_WRONLY), 1)
            os.dup2(os.open(err, os.O_WRONLY), 2)
            return program
        print(child, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    sys.exit()

_program = _next()
del _next
exec(compile(_program, "<string>", "exec"))
"""


@functools.cache
def _server():
    command = [sys.executable, "-X", "faulthandler", "-c", SERVER]
    begun = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
    atexit.register(begun.communicate)
    return begun


def _line(server, timeout):
    if not select.select([server.stdout], [], [], timeout)[0]:
        return None
    return int(server.stdout.readline())


def run(program, timeout=300):
    """What the program printed. Fails where it does not end well within `timeout` seconds."""
    server = _server()
    with tempfile.NamedTemporaryFile("r") as out, tempfile.NamedTemporaryFile("r") as err:
        server.stdin.write(json.dumps([textwrap.dedent(program), out.name, err.name]).encode() + b"\n")
        child = _line(server, None)
        status = _line(server, timeout)
        if status is None:
            os.kill(child, signal.SIGKILL)
            status = _line(server, None)
        printed = out.read()
        assert status == 0, f"ended with {status}\n{printed}\n{err.read()[-4000:]}"
    return printed
