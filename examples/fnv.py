import sys

message = b"a" * int(sys.argv[1])

for line in sys.stdin:
    n = int(line)
    for _ in range(n):
        hash = 0xCBF29CE484222325
        for byte in message:
            hash = (hash ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    print(n, flush=True)
