// locality_queues by itself, under plain threads: this one is also built with ThreadSanitizer, and without exceptions and RTTI.
#include "check.hpp"

#include <vicus/locality_queues.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace {

// Counts what is allocated and not freed.
template <class T> struct counting {
    using value_type = T;
    std::atomic<long> *live;

    explicit counting(std::atomic<long> *count) : live(count) {}
    template <class U> counting(const counting<U> &other) : live(other.live) {}
    T *allocate(std::size_t n) {
        ++*live;
        return std::allocator<T>().allocate(n);
    }
    void deallocate(T *at, std::size_t n) {
        --*live;
        std::allocator<T>().deallocate(at, n);
    }
    template <class U> bool operator==(const counting<U> &other) const { return live == other.live; }
    template <class U> bool operator!=(const counting<U> &other) const { return live != other.live; }
};

void within_a_domain_the_oldest_comes_first() {
    vicus::locality_queues<int> queues(2);
    for (int block = 0; block < 1000; ++block) {
        queues.push(1, block);
    }
    for (int block = 0; block < 1000; ++block) {
        CHECK(queues.size_approx(1) == std::size_t(1000 - block));
        CHECK(queues.try_pop(1) == block);
    }
    CHECK(!queues.try_pop(1) && queues.size_approx() == 0);
}

void own_domain_first_then_the_next_cyclically() {
    vicus::locality_queues<std::string> queues(4);
    for (const char *block : {"0a", "0b"}) {
        queues.emplace(0, block);
    }
    queues.push(1, "1a");
    queues.push(3, "3a");
    CHECK(!queues.try_pop_own(2));
    std::size_t found_in = 9;
    CHECK(queues.try_pop(2, &found_in) == "3a" && found_in == 3);
    CHECK(queues.try_pop(2, &found_in) == "0a" && found_in == 0);
    CHECK(queues.take(1, &found_in) == "1a" && found_in == 1);
    CHECK(queues.take(1, &found_in) == "0b" && found_in == 0);
    CHECK(!queues.try_pop(2, &found_in) && found_in == 0);
}

void blocks_that_can_only_be_moved_and_queues_that_move() {
    using queues_type = vicus::locality_queues<std::unique_ptr<int>, vicus::spin_lock>;
    static_assert(std::is_nothrow_move_constructible_v<queues_type>);
    static_assert(!std::is_copy_constructible_v<queues_type>);
    queues_type queues(3);
    queues.push(0, std::make_unique<int>(5));
    queues.emplace(2, new int(6));
    queues_type moved(std::move(queues));
    CHECK(moved.domain_count() == 3);
    CHECK(**moved.try_pop(1) == 6 && *moved.take(1) == 5);
    moved.push(1, std::make_unique<int>(7));
    moved.push(2, std::make_unique<int>(8));
    CHECK(moved.clear() == 2 && moved.size_approx() == 0);
}

void all_memory_comes_from_the_allocator_and_goes_back() {
    std::atomic<long> live{0};
    {
        vicus::locality_queues<int, std::mutex, counting<int>> queues(5, counting<int>(&live));
        for (int block = 0; block < 10000; ++block) {
            queues.push(std::size_t(block) % 5, block);
        }
        CHECK(live > 5);
        auto moved = std::move(queues);
        CHECK(moved.size_approx() == 10000);
    }
    CHECK(live == 0);
}

#if defined(__cpp_exceptions)
struct brittle {
    int number;
    bool breaks = false;
    explicit brittle(int of) : number(of) {
        if (of < 0) {
            throw std::runtime_error("negative");
        }
    }
    brittle(brittle &&other) : number(other.number), breaks(other.breaks) {
        if (breaks) {
            other.breaks = false;
            throw std::runtime_error("moved");
        }
    }
};

template <class Error, class Function> bool throws(Function &&function) {
    try {
        function();
    } catch (const Error &) {
        return true;
    }
    return false;
}

void what_throws_changes_nothing() {
    vicus::locality_queues<brittle> queues(1);
    CHECK(throws<std::runtime_error>([&] { queues.emplace(0, -1); }));
    CHECK(queues.size_approx() == 0 && !queues.try_pop(0));
    brittle block(3);
    queues.push(0, std::move(block));
    CHECK(throws<std::out_of_range>([&] { queues.push(1, brittle(4)); }));
    CHECK(throws<std::out_of_range>([&] { static_cast<void>(queues.try_pop(1)); }));
    CHECK(throws<std::out_of_range>([&] { static_cast<void>(queues.size_approx(1)); }));
    CHECK(throws<std::out_of_range>([] { vicus::locality_queues<int> none(0); }));
    CHECK(queues.take(0).number == 3);
}
#endif

// Threads that put in a block and then take one, as many submitters of tokens do: each `take` must come back, each block be taken once,
// and blocks of one submitter in one domain come out in their order.
template <class Lock> void every_token_finds_a_block() {
    struct block {
        unsigned submitter;
        unsigned domain;
        unsigned number;
    };
    std::mt19937_64 chance(seed());
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(700);
    while (std::chrono::steady_clock::now() < end) {
        const auto domain_count = unsigned(1 + chance() % 5);
        const auto submitter_count = unsigned(1 + chance() % 3);
        const auto taker_count = unsigned(chance() % 3);
        const unsigned blocks_each = 3000;
        vicus::locality_queues<block, Lock> queues(domain_count);
        // Takers get tokens through this count: a token is there after its block.
        std::atomic<long> tokens{0};
        std::atomic<long> left{long(submitter_count) * blocks_each};
        std::vector<std::vector<block>> taken(submitter_count + taker_count);
        std::vector<std::thread> threads;
        const auto run_token = [&](unsigned thread, std::size_t domain) {
            taken[thread].push_back(queues.take(domain));
            --left;
        };
        for (unsigned thread = 0; thread < submitter_count + taker_count; ++thread) {
            threads.emplace_back([&, thread, chance = std::mt19937_64(chance())]() mutable {
                if (thread < submitter_count) {
                    std::vector<unsigned> next(domain_count);
                    for (unsigned at = 0; at < blocks_each; ++at) {
                        const auto domain = unsigned(chance() % domain_count);
                        queues.push(domain, block{thread, domain, next[domain]++});
                        if (taker_count == 0 || chance() % 2 == 0) {
                            run_token(thread, chance() % domain_count);
                        } else {
                            tokens.fetch_add(1);
                        }
                    }
                }
                while (left.load() > 0) {
                    long seen = tokens.load();
                    if (seen > 0 && tokens.compare_exchange_weak(seen, seen - 1)) {
                        run_token(thread, chance() % domain_count);
                    } else {
                        std::this_thread::yield();
                    }
                }
            });
        }
        for (std::thread &thread : threads) {
            thread.join();
        }
        CHECK(queues.size_approx() == 0 && tokens == 0);
        // By submitter and domain, which numbers were seen.
        std::vector<std::vector<std::vector<bool>>> seen(submitter_count, std::vector<std::vector<bool>>(domain_count));
        std::size_t all = 0;
        for (const auto &of_thread : taken) {
            std::vector<std::vector<long>> last(submitter_count, std::vector<long>(domain_count, -1));
            for (const block &found : of_thread) {
                long &before = last[found.submitter][found.domain];
                CHECK(long(found.number) > before);
                before = long(found.number);
                std::vector<bool> &numbers = seen[found.submitter][found.domain];
                numbers.resize(std::max(numbers.size(), std::size_t(found.number) + 1));
                CHECK(!numbers[found.number]);
                numbers[found.number] = true;
                ++all;
            }
        }
        CHECK(all == std::size_t(submitter_count) * blocks_each);
    }
}

} // namespace

int main() {
    test("within a domain the oldest comes first", within_a_domain_the_oldest_comes_first);
    test("own domain first, then the next cyclically", own_domain_first_then_the_next_cyclically);
    test("blocks that can only be moved, queues that move", blocks_that_can_only_be_moved_and_queues_that_move);
    test("all memory comes from the allocator and goes back", all_memory_comes_from_the_allocator_and_goes_back);
#if defined(__cpp_exceptions)
    test("what throws changes nothing", what_throws_changes_nothing);
#endif
    test("every token finds a block, with a mutex", every_token_finds_a_block<std::mutex>);
    test("every token finds a block, with a spin lock", every_token_finds_a_block<vicus::spin_lock>);
}
