"""Counts primes in pools of processes, forked and spawned."""
import multiprocessing

from rounds import rounds


def is_prime(number):
    if number < 2:
        return False
    divisor = 2
    while divisor * divisor <= number:
        if number % divisor == 0:
            return False
        divisor += 1
    return True


def primes(bounds):
    return sum(is_prime(number) for number in range(*bounds))


def main():
    parts = [(start, start + 5000) for start in range(0, 150000, 5000)]
    for number in rounds(5):
        for method in ("fork", "spawn") if number == 0 else ("fork",):
            pool = multiprocessing.get_context(method).Pool(2)
            with pool:
                found = pool.map(primes, parts)
            pool.join()
            print(method, sum(found), found[:3])


if __name__ == "__main__":
    main()
