"""The other end of Thrift, by Apache's Python.

thrift_peer.py client|server|bare ADDRESS

`bare` lacks a method, echo_double. An address is `127.0.0.1:PORT`.
"""

import sys
import threading

from echo import Echo
from echo.ttypes import Position, Structure, Summary
from payloads import CHUNKS, DOUBLE, INT, SIZES, chunk, same, serve_until_told, string, structure
from thrift.protocol.TBinaryProtocol import TBinaryProtocolFactory
from thrift.server.TServer import TThreadedServer
from thrift.Thrift import TApplicationException
from thrift.transport.TSocket import TServerSocket, TSocket
from thrift.transport.TTransport import TFramedTransportFactory


def whole_structure():
    return structure(Structure, Position)


class Handler:
    """Sends back what is right, and fails at what is not."""

    def __init__(self):
        self.summary = Summary(0, 0)

    def echo_int(self, value):
        return same(value, INT)

    def echo_double(self, value):
        return same(value, DOUBLE)

    def echo_string(self, value):
        return same(value, string(len(value)))

    def echo_structure(self, value):
        return same(value, whole_structure())

    def chunk(self, data):
        same(data, chunk(len(data)))
        self.summary.chunks += 1
        self.summary.bytes += len(data)

    def finish(self):
        summary, self.summary = self.summary, Summary(0, 0)
        return summary


def place(address):
    """Where a socket of Thrift's is."""
    host, port = address.split(":")
    return {"host": host, "port": int(port)}


def serve(address, lacks):
    processor = Echo.Processor(Handler())
    for method in lacks:
        del processor._processMap[method]
    listener = TServerSocket(**place(address))
    # Now, so that its port is known. serve() would listen again, at another port.
    listener.listen()
    listener.listen = lambda: None
    server = TThreadedServer(processor, listener, TFramedTransportFactory(), TBinaryProtocolFactory(), daemon=True)
    threading.Thread(target=server.serve, daemon=True).start()
    serve_until_told(f"127.0.0.1:{listener.handle.getsockname()[1]}")


def call(address):
    socket = TSocket(**place(address))
    line = TFramedTransportFactory().getTransport(socket)
    line.open()
    client = Echo.Client(TBinaryProtocolFactory().getProtocol(line))
    same(client.echo_int(INT), INT)
    same(client.echo_double(DOUBLE), DOUBLE)
    same(client.echo_structure(whole_structure()), whole_structure())
    for size in SIZES:
        same(client.echo_string(string(size)), string(size))
    for size, chunks in CHUNKS:
        for _ in range(chunks):
            client.chunk(chunk(size))
        same(client.finish(), Summary(chunks, chunks * size))

    # The server does not know it, and says so.
    fails(client, "no_such", "x", TApplicationException.UNKNOWN_METHOD)
    line.close()


def fails(client, method, value, kind):
    """A call of any method with a string."""
    out = client._oprot
    out.writeMessageBegin(method, 1, 7)
    args = Echo.echo_string_args()
    args.value = value
    args.write(out)
    out.writeMessageEnd()
    out.trans.flush()
    begins = client._iprot.readMessageBegin()
    same(begins, (method, 3, 7))
    error = TApplicationException()
    error.read(client._iprot)
    same(error.type, kind)


if __name__ == "__main__":
    role, address = sys.argv[1:]
    if role == "client":
        call(address)
    else:
        serve(address, ["echo_double"] if role == "bare" else [])
