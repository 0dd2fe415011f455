"""Digests of known bytes, as programs name what they keep on disk."""

import hashlib
import json
import uuid

import torch

import jit
from tests.differential import check, same_as_eager


@same_as_eager(graphs=1)
def test_names_of_settings(x):
    config = {"lr": 0.1, "layers": [64, 32]}
    name = hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()[:8]
    return x + int(name, 16) % 7, name, hashlib.md5(b"a", usedforsecurity=False).hexdigest()


@same_as_eager(graphs=1)
def test_told_piece_by_piece(x):
    digest = hashlib.sha1()
    for part in (b"a", bytearray(b"b"), "c".encode()):
        digest.update(part)
    other = digest.copy()
    other.update(b"d")
    update = other.update
    update(b"e")
    facts = digest.name, digest.digest_size, digest.block_size, other.hexdigest(), hashlib.new("sha256", b"q").digest()
    return x + len(digest.digest()), digest.hexdigest(), facts, hashlib.blake2b(b"a", digest_size=4).hexdigest()


@same_as_eager(graphs=1)
def test_what_is_wrong(x):
    said = []
    for call in (lambda: hashlib.sha256("a"), lambda: hashlib.sha256(b"").update("a"), lambda: hashlib.new("no such"),
                 lambda: hashlib.sha256().hexdigest(3), lambda: hashlib.shake_128(b"a").hexdigest(4)):
        try:
            said.append(call())
        except (TypeError, ValueError) as error:
            said.append(type(error).__name__)
    return x + 1, said


def _told(x, data):
    digest = hashlib.sha256(b"a")
    digest.update(b"b")
    copied = digest.copy()
    copied.update(b"c")
    return x + 1, [digest, copied]


def test_digests_leave_the_frame():
    compiled = jit.compile(_told, backend="eager")
    for _ in range(2):
        expected, found = ([each.hexdigest() for each in program(torch.ones(2), b"")[1]] for program in (_told, compiled))
        assert found == expected


def test_bytes_that_come_in_are_compared():
    def program(x, data):
        return x + hashlib.sha256(data).digest()[0]

    check(program, torch.ones(2), b"a", graphs=1, changed=[(torch.ones(2), b"b")])


def test_of_what_is_not_known():
    def program(x):
        digest = hashlib.sha256(x.numpy().tobytes())
        return x + 1, digest.hexdigest()

    check(program, torch.ones(2))


@same_as_eager(graphs=1)
def test_identifiers_by_name(x):
    found = [uuid.uuid5(uuid.NAMESPACE_DNS, "a.b"), uuid.uuid3(uuid.NAMESPACE_DNS, "a.b")]
    return x + found[0].version, [str(each) for each in found]


@same_as_eager
def test_a_break_between(x):
    digest = hashlib.sha256(b"a")
    digest.update(b"b")
    jit.graph_break()
    digest.update(b"c")
    return x + 1, digest.hexdigest()
