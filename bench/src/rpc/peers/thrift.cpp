// Thrift by Apache's C++, both ends, framed, binary protocol. The words are those of
// main.go with the transport before them: `framed serve`, `framed call …`.
//
// Both ends block, as ours do: the server has a thread for each connection. Templates instead of
// virtual calls (`--gen cpp:templates`), and no poll(2) before each read of the server
// (setInterruptableChildren): its fastest form.

#include <memory>

#include <thrift/protocol/TBinaryProtocol.h>
#include <thrift/server/TThreadedServer.h>
#include <thrift/transport/TBufferTransports.h>
#include <thrift/transport/TServerSocket.h>
#include <thrift/transport/TSocket.h>
#include <thrift/thrift-config.h>

#include "Echo.h"
#include "peer.hpp"

namespace protocol = apache::thrift::protocol;
namespace server = apache::thrift::server;
namespace transport = apache::thrift::transport;

namespace {

class Handler final : public EchoIf {
public:
    int32_t echo_int(const int32_t value) override { return value; }
    double echo_double(const double value) override { return value; }
    void echo_string(std::string& answer, const std::string& value) override { answer = value; }
    void echo_structure(Structure& answer, const Structure& value) override { answer = value; }
    void chunk(const std::string&) override {}
    void finish(Summary&) override {}
};

// Says where the server listens, when it does.
class Listens final : public server::TServerEventHandler {
public:
    explicit Listens(std::shared_ptr<transport::TServerSocket> socket) : socket_(socket) {}
    void preServe() override { peer::say("127.0.0.1:" + std::to_string(socket_->getPort())); }

private:
    std::shared_ptr<transport::TServerSocket> socket_;
};

template <typename Transport, typename Factory>
void serve() {
    using Protocol = protocol::TBinaryProtocolT<Transport>;
    auto socket = std::make_shared<transport::TServerSocket>("127.0.0.1", 0);
    socket->setInterruptableChildren(false);
    auto processor =
        std::make_shared<EchoProcessorT<Protocol>>(std::make_shared<Handler>());
    server::TThreadedServer threaded(
        processor, socket, std::make_shared<Factory>(),
        std::make_shared<protocol::TBinaryProtocolFactoryT<Transport>>());
    threaded.setServerEventHandler(std::make_shared<Listens>(socket));
    threaded.serve();
}

template <typename Transport>
void ask(const std::string& address, std::size_t warm_up, std::size_t calls, std::size_t size) {
    auto colon = address.rfind(':');
    auto socket = std::make_shared<transport::TSocket>(address.substr(0, colon),
                                                       std::stoi(address.substr(colon + 1)));
    auto over = std::make_shared<Transport>(socket);
    over->open();
    using Protocol = protocol::TBinaryProtocolT<Transport>;
    EchoClientT<Protocol> client(std::make_shared<Protocol>(over));
    const std::string message = peer::letters(size);
    std::string answer;
    peer::ask(warm_up, calls, [&] {
        client.echo_string(answer, message);
        if (answer != message) throw std::runtime_error("the answer is another");
    });
}

template <typename Transport, typename Factory>
void part(const peer::Words& words) {
    const auto& what = words.at(1);
    if (what == "serve") return serve<Transport, Factory>();
    if (what == "call")
        return ask<Transport>(words.at(2), words.number(3), words.number(4), words.number(5));
    throw std::runtime_error("it takes serve or call");
}

}  // namespace

int main(int count, char** all) {
    return peer::play([&] {
        peer::Words words(count, all);
        using namespace transport;
        if (words.at(0) == "version") return peer::say("Thrift C++ " PACKAGE_VERSION);
        if (words.at(0) == "framed")
            return part<TFramedTransport, TFramedTransportFactory>(words);
        throw std::runtime_error("it takes framed");
    });
}
