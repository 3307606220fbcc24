// What every C++ queue does in the benchmark: the same loops as src/queues.rs has for Rust's queues. They are in C++ so
// that no peer pays for a call between languages per element.
#pragma once
#include <cstddef>
#include <cstdint>
#include <sched.h>

struct Word {
    std::uint64_t words[1];
};

struct Block {
    std::uint64_t words[128];
};

template <typename T> constexpr std::size_t last = sizeof(T) / sizeof(std::uint64_t) - 1;

inline void wait(unsigned &misses) {
    if (++misses % 64 == 0) {
        sched_yield();
    } else {
#if defined(__x86_64__) || defined(__i386__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        asm volatile("isb");
#endif
    }
}

template <typename T, typename Put> void produce(std::uint64_t count, Put &put) {
    for (std::uint64_t number = 1; number <= count; ++number) {
        T value{};
        value.words[0] = number;
        value.words[last<T>] = number;
        put(value);
    }
}

template <typename T, typename Take> std::uint64_t consume(std::uint64_t count, Take &take) {
    std::uint64_t sum = 0;
    unsigned misses = 0;
    T value{};
    while (count > 0) {
        if (take(value)) {
            // All of it was wanted.
            asm volatile("" : : "r"(&value) : "memory");
            sum += value.words[last<T>];
            --count;
        } else {
            wait(misses);
        }
    }
    return sum;
}

// The functions that src/peers.rs declares, for one queue and one kind of element. KIND has `Queue`, `Put` and `Take`:
// what a thread makes for itself to put and to take.
#define PEER(NAME, KIND, T)                                                                                           \
    extern "C" void *NAME##_new() { return new KIND<T>::Queue(); }                                                    \
    extern "C" void NAME##_delete(void *queue) { delete static_cast<KIND<T>::Queue *>(queue); }                       \
    extern "C" void NAME##_produce(void *queue, std::uint64_t count) {                                                \
        KIND<T>::Put put(*static_cast<KIND<T>::Queue *>(queue));                                                      \
        produce<T>(count, put);                                                                                       \
    }                                                                                                                 \
    extern "C" std::uint64_t NAME##_consume(void *queue, std::uint64_t count) {                                       \
        KIND<T>::Take take(*static_cast<KIND<T>::Queue *>(queue));                                                    \
        return consume<T>(count, take);                                                                               \
    }
