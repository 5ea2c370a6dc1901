"""What is sent, as payload.rs has it, and how a server of a test begins and ends."""

import sys

INT = 1_234_567
DOUBLE = 1_234.567_89
SIZES = [0, 1, 64, 512, 1024, 2048, 65_536, 1_000_003]
CHUNKS = [(1, 1000), (65_536, 30), (1 << 20, 3)]


def string(size):
    letters = "abcdefghijklmnopqrstuvwxyz"
    return (letters * (size // 26 + 1))[:size]


def chunk(size):
    return (bytes(range(256)) * (size // 256 + 1))[:size]


def structure(kind, position):
    """The structure, of generated classes."""
    return kind(
        id=9_007_199_254_740_993,
        name="a structure with a name",
        price=-0.125,
        sold=True,
        at=position(x=48.137_154, y=11.576_124),
        numbers=[0, 1, -1, 127, 128, -65_536, 2**31 - 1, -(2**31)],
        notes=["first", "", "a note that is longer than the others"],
        labels={"colour": "green", "maker": "Zündapp", "owner": "none", "wheels": "two"},
    )


def same(what, expected):
    """A value is the one that was expected, or the test fails by an exception."""
    if what != expected:
        raise ValueError(f"{str(what)[:200]!r} came, not {str(expected)[:200]!r}")
    return what


def serve_until_told(address):
    """Says where it can be found, and waits until standard input ends."""
    print(address, flush=True)
    sys.stdin.read()
