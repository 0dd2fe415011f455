"""Runs the tests of `accounts` with pytest, some times."""
import os
import sys

import pytest
from rounds import rounds

ACCOUNTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "accounts.py")


def main():
    for _ in rounds(5):
        options = ["-q", "-v", "-s", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:randomly", "--no-header"]
        status = pytest.main([*options, "--rootdir", os.path.dirname(ACCOUNTS), "-c", os.devnull, ACCOUNTS])
    return status


if __name__ == "__main__":
    sys.exit(main())
