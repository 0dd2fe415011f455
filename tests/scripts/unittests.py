"""Runs the tests of `accounts` with unittest, some times."""
import sys
import unittest

import accounts
from rounds import rounds


def main():
    for _ in rounds(5):
        tests = unittest.defaultTestLoader.loadTestsFromModule(accounts)
        with open("/dev/null", "w") as nowhere:
            result = unittest.TextTestRunner(nowhere, verbosity=2).run(tests)
        print(result)
    return not result.wasSuccessful()


if __name__ == "__main__":
    sys.exit(main())
