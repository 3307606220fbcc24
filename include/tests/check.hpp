// The few words that the tests of the headers need: a check that says where it failed, a test with a name, chance with a printed seed.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>

#define CHECK(condition)                                                                                                         \
    do {                                                                                                                         \
        if (!(condition)) {                                                                                                      \
            std::fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition);                                       \
            std::exit(1);                                                                                                        \
        }                                                                                                                        \
    } while (false)

template <class Function> void test(const char *fact, Function &&function) {
    const auto began = std::chrono::steady_clock::now();
    function();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
    std::printf("  ok  %s (%.2f s)\n", fact, took.count());
    std::fflush(stdout);
}

// Of VICUS_TEST_SEED if it is set; printed, so that a failure can be run again.
inline std::uint64_t seed() {
    static const std::uint64_t value = [] {
        const char *given = std::getenv("VICUS_TEST_SEED");
        const std::uint64_t chosen = given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device()();
        std::printf("  seed %llu\n", static_cast<unsigned long long>(chosen));
        std::fflush(stdout);
        return chosen;
    }();
    return value;
}
