"""Plain Python beside torch: objects that call one another, numbers, text, generators. Nothing here is a tensor."""
import json

import torch
from rounds import rounds


class Task:
    def __init__(self, name, work):
        self.name = name
        self.work = work
        self.done = 0

    def step(self, clock):
        self.work -= 1
        self.done += clock.tick()
        return self.work > 0


class Clock:
    def __init__(self):
        self.now = 0

    def tick(self):
        self.now += 1
        return self.now & 3


def schedule(count, work):
    clock, waiting = Clock(), [Task(f"task {number}", work + number) for number in range(count)]
    finished = []
    while waiting:
        task = waiting.pop(0)
        (waiting if task.step(clock) else finished).append(task)
    return sum(task.done for task in finished), clock.now


def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


def pull(one, other):
    away = [a - b for a, b in zip(one["at"], other["at"])]
    force = 0.001 / (sum(each * each for each in away) + 0.1) ** 1.5
    one["speed"] = [v - each * force for v, each in zip(one["speed"], away)]


def planets(steps):
    bodies = [{"at": [n * 1.5, n * 0.5, n % 2], "speed": [0.0, 0.1 * n, 0.0]} for n in range(5)]
    for _ in range(steps):
        for one in bodies:
            for other in bodies:
                if one is not other:
                    pull(one, other)
        for body in bodies:
            body["at"] = [a + v for a, v in zip(body["at"], body["speed"])]
    return bodies


def texts(count):
    kept = json.dumps([{"name": f"n{number}", "values": list(range(number % 7))} for number in range(count)])
    return sum(len(each["values"]) for each in json.loads(kept)), len(kept)


def main():
    weights = torch.ones(3)
    for _ in rounds(8):
        print(schedule(60, 1000), fibonacci(22), planets(400)[1]["at"], texts(10000))
    print(weights.sum())


if __name__ == "__main__":
    main()
