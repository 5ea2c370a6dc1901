// gRPC by C++, both ends. The words are those of main.go, and two forms of a server: `serve` has one
// completion queue and one thread that waits for it, which is the fastest here; `serve-sync` is the
// synchronous interface, which hands each call from the thread that waits to another one.
//
// The client is synchronous: the thread that calls waits for the answer itself.

#include <atomic>
#include <memory>

#include <malloc.h>

#include <grpcpp/grpcpp.h>

#include "echo.grpc.pb.h"
#include "peer.hpp"

namespace rpc = costof::rpc;

namespace {

const int MESSAGE_MOST = 8 << 20;
// As ours: a message of 64 KiB is one frame, and one write.
const int FRAME_MOST = 128 << 10;

void must(const grpc::Status& status) {
    if (!status.ok()) throw std::runtime_error("the call failed: " + status.error_message());
}

// Listens, and says where.
std::unique_ptr<grpc::Server> start(grpc::ServerBuilder& builder) {
    int port = 0;
    builder.SetMaxReceiveMessageSize(MESSAGE_MOST);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, FRAME_MOST);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_WRITE_BUFFER_SIZE, FRAME_MOST);
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    auto server = builder.BuildAndStart();
    if (!server) throw std::runtime_error("it cannot listen");
    peer::say("127.0.0.1:" + std::to_string(port));
    return server;
}

// What waits in the completion queue: a step of a call.
struct Step {
    virtual ~Step() = default;
    virtual void done(bool ok) = 0;
};

// One call of EchoString, and then another one of its own.
class EchoString final : public Step {
public:
    EchoString(rpc::Echo::AsyncService& service, grpc::ServerCompletionQueue& queue)
        : service_(service), queue_(queue), answer_(&context_) {
        service_.RequestEchoString(&context_, &message_, &answer_, &queue_, &queue_, this);
    }

    void done(bool ok) override {
        if (!ok || answered_) {
            delete this;
            return;
        }
        answered_ = true;
        new EchoString(service_, queue_);
        answer_.Finish(message_, grpc::Status::OK, this);
    }

private:
    rpc::Echo::AsyncService& service_;
    grpc::ServerCompletionQueue& queue_;
    grpc::ServerContext context_;
    rpc::StringMessage message_;
    grpc::ServerAsyncResponseWriter<rpc::StringMessage> answer_;
    bool answered_ = false;
};

// One call of Upload, and then another one of its own.
class Upload final : public Step {
public:
    Upload(rpc::Echo::AsyncService& service, grpc::ServerCompletionQueue& queue)
        : service_(service), queue_(queue), chunks_(&context_) {
        service_.RequestUpload(&context_, &chunks_, &queue_, &queue_, this);
    }

    void done(bool ok) override {
        switch (at_) {
            case At::asked:
                if (!ok) break;
                new Upload(service_, queue_);
                at_ = At::reads;
                chunks_.Read(&chunk_, this);
                return;
            case At::reads:
                if (!ok) {
                    at_ = At::answered;
                    chunks_.Finish(summary_, grpc::Status::OK, this);
                    return;
                }
                summary_.set_chunks(summary_.chunks() + 1);
                summary_.set_bytes(summary_.bytes() + chunk_.data().size());
                chunks_.Read(&chunk_, this);
                return;
            case At::answered:
                break;
        }
        delete this;
    }

private:
    enum class At { asked, reads, answered };
    rpc::Echo::AsyncService& service_;
    grpc::ServerCompletionQueue& queue_;
    grpc::ServerContext context_;
    rpc::Chunk chunk_;
    rpc::Summary summary_;
    grpc::ServerAsyncReader<rpc::Summary, rpc::Chunk> chunks_;
    At at_ = At::asked;
};

void serve() {
    rpc::Echo::AsyncService service;
    grpc::ServerBuilder builder;
    builder.RegisterService(&service);
    auto queue = builder.AddCompletionQueue();
    auto server = start(builder);
    new EchoString(service, *queue);
    new Upload(service, *queue);
    void* step = nullptr;
    bool ok = false;
    while (queue->Next(&step, &ok)) static_cast<Step*>(step)->done(ok);
}

class Service final : public rpc::Echo::Service {
    grpc::Status EchoString(grpc::ServerContext*, const rpc::StringMessage* message,
                            rpc::StringMessage* answer) override {
        *answer = *message;
        return grpc::Status::OK;
    }

    grpc::Status Upload(grpc::ServerContext*, grpc::ServerReader<rpc::Chunk>* chunks,
                        rpc::Summary* summary) override {
        rpc::Chunk chunk;
        while (chunks->Read(&chunk)) {
            summary->set_chunks(summary->chunks() + 1);
            summary->set_bytes(summary->bytes() + chunk.data().size());
        }
        return grpc::Status::OK;
    }
};

void serve_sync() {
    Service service;
    grpc::ServerBuilder builder;
    builder.RegisterService(&service);
    start(builder)->Wait();
}

std::unique_ptr<rpc::Echo::Stub> connect(const std::string& address) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, FRAME_MOST);
    arguments.SetInt(GRPC_ARG_HTTP2_WRITE_BUFFER_SIZE, FRAME_MOST);
    auto credentials = grpc::InsecureChannelCredentials();
    return rpc::Echo::NewStub(grpc::CreateCustomChannel(address, credentials, arguments));
}

void ask(const std::string& address, std::size_t warm_up, std::size_t calls, std::size_t size) {
    auto stub = connect(address);
    rpc::StringMessage message, answer;
    message.set_value(peer::letters(size));
    peer::ask(warm_up, calls, [&] {
        grpc::ClientContext context;
        must(stub->EchoString(&context, message, &answer));
        if (answer.value() != message.value()) throw std::runtime_error("the answer is another");
    });
}

void stream(const std::string& address, long lasts_ms, std::size_t size) {
    auto stub = connect(address);
    rpc::Chunk chunk;
    chunk.set_data(std::string(size, '\7'));
    peer::stream(lasts_ms, [&](auto more) {
        grpc::ClientContext context;
        rpc::Summary summary;
        std::uint64_t sent = 0;
        auto chunks = stub->Upload(&context, &summary);
        while (more()) {
            if (!chunks->Write(chunk)) break;
            sent++;
        }
        chunks->WritesDone();
        must(chunks->Finish());
        if (summary.chunks() != sent || summary.bytes() != sent * size)
            throw std::runtime_error("another sum arrived than was sent");
        return summary.bytes();
    });
}

}  // namespace

int main(int count, char** all) {
    // What a message was in is kept for the next one, as in crates/rpc.
    mallopt(M_MMAP_THRESHOLD, MESSAGE_MOST);
    mallopt(M_TRIM_THRESHOLD, 2 * MESSAGE_MOST);
    return peer::play([&] {
        peer::Words words(count, all);
        const auto& what = words.at(0);
        if (what == "version") return peer::say("gRPC C++ " + grpc::Version());
        if (what == "serve") return serve();
        if (what == "serve-sync") return serve_sync();
        if (what == "call") return ask(words.at(1), words.number(2), words.number(3), words.number(4));
        if (what == "stream") return stream(words.at(1), words.number(2), words.number(3));
        throw std::runtime_error("it takes serve, call or stream");
    });
}
