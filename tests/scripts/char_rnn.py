"""Learns a text letter by letter with an LSTM, and writes some of its own."""
import random
import string

import torch
import torch.nn as nn
from rounds import rounds

ALPHABET = string.ascii_lowercase + " .,\n"
TEXT = ("the quick brown fox jumps over the lazy dog.\n" "a lazy dog, a quick fox, and the brown hen.\n") * 120


class CharRNN(nn.Module):
    def __init__(self, letters, hidden):
        super().__init__()
        self.hidden = hidden
        self.embed = nn.Embedding(letters, hidden)
        self.rnn = nn.LSTM(hidden, hidden, num_layers=2, batch_first=True)
        self.out = nn.Linear(hidden, letters)

    def forward(self, text, state):
        output, state = self.rnn(self.embed(text), state)
        return self.out(output), state

    def start(self, batch):
        return tuple(torch.zeros(2, batch, self.hidden) for _ in range(2))


def letters(text):
    return torch.tensor([ALPHABET.index(letter) for letter in text])


def batches(text, count, length):
    rows = letters(text)[: count * (len(text) // count)].view(count, -1)
    for start in range(0, rows.shape[1] - 1, length):
        size = min(length, rows.shape[1] - 1 - start)
        yield rows[:, start:start + size], rows[:, start + 1:start + size + 1]


def train_epoch(model, optimizer, criterion):
    state = model.start(8)
    total, count = 0.0, 0
    for source, target in batches(TEXT, 8, 32):
        state = tuple(one.detach() for one in state)
        optimizer.zero_grad()
        scores, state = model(source, state)
        loss = criterion(scores.reshape(-1, len(ALPHABET)), target.reshape(-1))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        total += loss.item()
        count += 1
    return total / count


@torch.no_grad()
def sample(model, start, length):
    state = model.start(1)
    text = start
    for _ in range(length):
        scores, state = model(letters(text[-1:]).unsqueeze(0), state)
        text += ALPHABET[int(scores[0, -1].argmax())]
    return text


def main():
    random.seed(2)
    torch.manual_seed(2)
    model = CharRNN(len(ALPHABET), 48)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    criterion = nn.CrossEntropyLoss()
    for epoch in rounds(6):
        loss = train_epoch(model, optimizer, criterion)
        print(f"epoch {epoch}: loss {loss:.2f}, {sample(model, random.choice('tqb'), 3)!r}")


if __name__ == "__main__":
    main()
