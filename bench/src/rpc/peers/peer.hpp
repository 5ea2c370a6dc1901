// What the peers in C++ have in common: the words that they take, as main.go says them at its head,
// and how the calls of each are timed.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

namespace peer {

using Clock = std::chrono::steady_clock;

inline std::int64_t nanoseconds(Clock::duration time) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();
}

inline std::string letters(std::size_t size) {
    std::string text(size, 'a');
    for (std::size_t i = 0; i < size; i++) text[i] = static_cast<char>('a' + i % 26);
    return text;
}

inline void say(const std::string& line) {
    std::printf("%s\n", line.c_str());
    std::fflush(stdout);
}

// The bench has so long to look what both ends have used so far.
inline void warm() {
    say("warm");
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
}

// What it has used is looked at while it is still there.
[[noreturn]] inline void until_ended() {
    for (;;) pause();
}

// Calls, and says how long each took.
template <typename Call>
[[noreturn]] void ask(std::size_t warm_up, std::size_t calls, Call call) {
    for (std::size_t i = 0; i < warm_up; i++) call();
    warm();
    std::vector<std::int64_t> took(calls);
    for (auto& time : took) {
        auto began = Clock::now();
        call();
        time = nanoseconds(Clock::now() - began);
    }
    std::sort(took.begin(), took.end());
    auto at = [&](double p) {
        return std::to_string(took[static_cast<std::size_t>((calls - 1) * p + 0.5)]);
    };
    say(at(0.5) + " " + at(0.99) + " " + at(1));
    until_ended();
}

// Streams twice for so long, and says of the second time how many bytes went, and how long it took
// until what had arrived was known. `upload` is given whether there is more to come, and gives how
// many bytes arrived.
template <typename Upload>
[[noreturn]] void stream(long lasts_ms, Upload upload) {
    auto timed = [&] {
        auto began = Clock::now();
        auto until = began + std::chrono::milliseconds(lasts_ms);
        std::uint64_t bytes = upload([&] { return Clock::now() < until; });
        return std::to_string(bytes) + " " + std::to_string(nanoseconds(Clock::now() - began));
    };
    timed();
    warm();
    say(timed());
    until_ended();
}

// The words that a program was started with.
class Words {
public:
    Words(int count, char** words) : words_(words + 1, words + count) {}

    const std::string& at(std::size_t place) const {
        if (place >= words_.size()) throw std::runtime_error("it takes serve, call or stream");
        return words_[place];
    }

    std::size_t number(std::size_t place) const { return std::stoul(at(place)); }

private:
    std::vector<std::string> words_;
};

// Runs a part, and says why it failed.
template <typename Part>
int play(Part part) {
    try {
        part();
        return 0;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 2;
    }
}

}  // namespace peer
