"""Tests of a small library, tensors among them: `python -m unittest accounts` or `python -m pytest accounts.py`."""
import unittest
from unittest import mock

import torch


class Account:
    def __init__(self, owner, balance=0):
        self.owner = owner
        self.balance = balance
        self.lines = []

    def put(self, amount):
        if amount <= 0:
            raise ValueError(f"an amount is positive, not {amount}")
        self.balance += amount
        self.lines.append(("put", amount))

    def take(self, amount):
        if amount > self.balance:
            raise ArithmeticError(f"{self.owner} has {self.balance} only")
        self.balance -= amount
        self.lines.append(("take", amount))


def interest(balances, rate, years):
    for _ in range(years):
        balances = balances + balances * rate
    return balances.round(decimals=2)


def told(account, tell):
    tell(f"{account.owner}: {account.balance}")


class AccountTest(unittest.TestCase):
    def setUp(self):
        self.account = Account("Ann", 10)

    def test_put_and_take(self):
        for amount in range(1, 200000):
            self.account.put(amount)
            self.account.take(amount)
        self.assertEqual(self.account.balance, 10)

    def test_what_is_wrong(self):
        with self.assertRaisesRegex(ValueError, "positive, not -1"):
            self.account.put(-1)
        with self.assertRaises(ArithmeticError):
            self.account.take(11)

    def test_telling(self):
        tell = mock.Mock()
        told(self.account, tell)
        tell.assert_called_once_with("Ann: 10")

    def test_builtins_in_mocks(self):
        with mock.patch("builtins.print") as shown, mock.patch.object(Account, "put", autospec=True) as put:
            told(self.account, print)
            self.account.put(3)
        shown.assert_called_once_with("Ann: 10")
        put.assert_called_once_with(self.account, 3)

    @unittest.expectedFailure
    def test_that_is_known_to_fail(self):
        self.assertEqual(interest(torch.ones(2), 0.0, 1).tolist(), [2.0, 2.0])


class InterestTest(unittest.TestCase):
    def test_years(self):
        for years in range(3):
            with self.subTest(years=years):
                got = interest(torch.tensor([100.0, 200.0]), 0.1, years)
                torch.testing.assert_close(got, torch.tensor([100.0, 200.0]) * 1.1**years, atol=0.01, rtol=0)

    def test_many(self):
        for size in range(1, 40):
            self.assertEqual(interest(torch.ones(size), 1.0, 2).sum().item(), 4.0 * size)

    def test_gradient(self):
        rate = torch.tensor(0.5, requires_grad=True)
        (torch.ones(3) * rate).sum().backward()
        self.assertEqual(rate.grad.item(), 3.0)
