"""An asyncio program: rooms, people who write to them, timeouts, and tasks that are given up."""
import asyncio
import contextlib

from rounds import rounds


class Room:
    def __init__(self, name):
        self.name = name
        self.people = {}
        self.log = []

    @contextlib.asynccontextmanager
    async def visit(self, person):
        self.people[person] = asyncio.Queue()
        try:
            yield self.people[person]
        finally:
            del self.people[person]

    async def say(self, person, text):
        self.log.append((person, text))
        for other, queue in self.people.items():
            if other != person:
                await queue.put((person, text))


def shorten(text, length):
    return text if len(text) <= length else text[: length - 1] + "~"


async def talk(room, person, words):
    heard = 0
    async with room.visit(person) as queue:
        await asyncio.sleep(0)
        for word in words:
            await room.say(person, shorten(f"{person} says {word}", 16))
            await asyncio.sleep(0)
        while True:
            try:
                async with asyncio.timeout(0.05):
                    await queue.get()
            except TimeoutError:
                return heard
            heard += 1


async def numbers(count):
    for number in range(count):
        if number % 10 == 0:
            await asyncio.sleep(0)
        yield number


async def main():
    rooms = [Room(f"room {number}") for number in range(4)]
    words = [f"word {number}" for number in range(500)]
    people = [talk(room, f"p{number}", words) for room in rooms for number in range(4)]
    forever = asyncio.create_task(asyncio.sleep(1000))
    heard = await asyncio.gather(*people)
    forever.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await forever
    total = sum([number * number async for number in numbers(30000)])
    print(heard, total, forever.cancelled(), [len(room.log) for room in rooms], rooms[0].log[-1])


if __name__ == "__main__":
    for _ in rounds(6):
        asyncio.run(main())
