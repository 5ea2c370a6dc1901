"""The other end of gRPC, by Python's grpcio.

grpc_peer.py client ADDRESS | server ADDRESS | bare ADDRESS

`bare` serves no method at all. An address is `127.0.0.1:PORT`.
"""

import sys
from concurrent.futures import ThreadPoolExecutor

import echo_pb2 as messages
import echo_pb2_grpc as echo
import grpc
from payloads import CHUNKS, DOUBLE, INT, SIZES, chunk, same, serve_until_told, string, structure

UNLIMITED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


def whole_structure():
    return structure(messages.Structure, messages.Position)


class Echo(echo.EchoServicer):
    """Sends back what is right, and fails at what is not."""

    def EchoInt(self, request, context):
        same(request.value, INT)
        return request

    def EchoDouble(self, request, context):
        same(request.value, DOUBLE)
        return request

    def EchoString(self, request, context):
        same(request.value, string(len(request.value)))
        return request

    def EchoStructure(self, request, context):
        same(request, whole_structure())
        return request

    def Upload(self, request_iterator, context):
        summary = messages.Summary()
        for part in request_iterator:
            same(part.data, chunk(len(part.data)))
            summary.chunks += 1
            summary.bytes += len(part.data)
        return summary


def serve(address, servicer):
    server = grpc.server(ThreadPoolExecutor(max_workers=4), options=UNLIMITED)
    echo.add_EchoServicer_to_server(servicer, server)
    port = server.add_insecure_port(address)
    server.start()
    serve_until_told(f"127.0.0.1:{port}")
    server.stop(grace=None)


def fails(call, code):
    try:
        call()
    except grpc.RpcError as error:
        same(error.code(), code)
        return error.details()
    raise ValueError(f"it should have failed with {code}")


def call(address):
    with grpc.insecure_channel(address, options=UNLIMITED) as channel:
        stub = echo.EchoStub(channel)
        message = messages.IntMessage(value=INT)
        same(stub.EchoInt(message), message)
        message = messages.DoubleMessage(value=DOUBLE)
        same(stub.EchoDouble(message), message)
        same(stub.EchoStructure(whole_structure()), whole_structure())
        for size in SIZES:
            message = messages.StringMessage(value=string(size))
            same(stub.EchoString(message), message)
        for size, chunks in CHUNKS:
            part = messages.Chunk(data=chunk(size))
            summary = stub.Upload(part for _ in range(chunks))
            same(summary, messages.Summary(chunks=chunks, bytes=chunks * size))

        unknown = channel.unary_unary("/costof.rpc.Echo/NoSuch")
        fails(lambda: unknown(b""), grpc.StatusCode.UNIMPLEMENTED)
        unknown = channel.unary_unary("/costof.rpc.NoSuch/EchoInt")
        fails(lambda: unknown(b""), grpc.StatusCode.UNIMPLEMENTED)
        no_message = channel.unary_unary("/costof.rpc.Echo/EchoStructure")
        fails(lambda: no_message(b"\xff\xff\xff"), grpc.StatusCode.INTERNAL)
        long = messages.StringMessage(value=string(9 << 20))
        said = fails(lambda: stub.EchoString(long), grpc.StatusCode.OUT_OF_RANGE)
        same("limit" in said, True)
        same(stub.EchoStructure(whole_structure()), whole_structure())


if __name__ == "__main__":
    role, address = sys.argv[1:]
    if role == "client":
        call(address)
    else:
        serve(address, Echo() if role == "server" else echo.EchoServicer())
