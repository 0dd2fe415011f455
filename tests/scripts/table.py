"""Sums up a table of sales, by plain Python and by numpy."""
import collections
import csv
import io
import random
import statistics
from dataclasses import dataclass

import numpy as np
from rounds import rounds

CITIES = ["Bern", "Lyon", "Oslo", "Riga", "Turin"]


@dataclass(frozen=True)
class Sale:
    city: str
    month: int
    pieces: int
    price: float

    @property
    def amount(self):
        return self.pieces * self.price


def written(count):
    random.seed(4)
    file = io.StringIO()
    out = csv.writer(file)
    out.writerow(["city", "month", "pieces", "price"])
    for _ in range(count):
        out.writerow([random.choice(CITIES), random.randint(1, 12), random.randint(1, 9), f"{random.random() * 99:.2f}"])
    return file.getvalue()


def read(text):
    return [Sale(row["city"], int(row["month"]), int(row["pieces"]), float(row["price"]))
            for row in csv.DictReader(io.StringIO(text))]


def grouped(sales, key):
    groups = collections.defaultdict(list)
    for sale in sales:
        groups[key(sale)].append(sale)
    return groups


def summary(sales):
    by_city = grouped(sales, lambda sale: sale.city)
    return {city: (len(found), round(sum(sale.amount for sale in found), 2),
                   round(statistics.median(sale.amount for sale in found), 2)) for city, found in sorted(by_city.items())}


def trend(sales):
    months = np.array([sale.month for sale in sales])
    amounts = np.array([sale.amount for sale in sales])
    totals = np.bincount(months, weights=amounts, minlength=13)[1:]
    slope, start = np.polyfit(np.arange(12), totals, 1)
    rolling = np.convolve(totals, np.ones(3) / 3, mode="valid")
    return round(float(slope), 3), round(float(start), 3), rolling.round(2).tolist()


def main():
    text = written(40000)
    for _ in rounds(8):
        sales = read(text)
        for city, row in summary(sales).items():
            print(city, *row)
        print(trend(sales))


if __name__ == "__main__":
    main()
