#include <cstdint>
#include <string>
#include <string_view>

static std::string message;
volatile std::uint64_t result;

// A word of an axis arrives as a C string.
extern "C" void fnv_setup(std::uint64_t size, const char *of) {
    message.assign(size, std::string_view(of) == "zeros" ? '\0' : 'a');
}

extern "C" void fnv(std::uint64_t n, std::uint64_t, const char *) {
    for (std::uint64_t i = 0; i < n; i++) {
        std::uint64_t hash = 0xcbf29ce484222325;
        for (unsigned char byte : message)
            hash = (hash ^ byte) * 0x100000001b3;
        result = hash;
    }
}
