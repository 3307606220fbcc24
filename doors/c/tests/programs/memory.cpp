// Placed memory, queues and pools, by vicus.h and by vicus.hpp. Arguments are a strategy and a number of threads.
#include <vicus.hpp>

#include <atomic>
#include <cstring>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "check.h"

static void by_pointer(const vicus::runtime &runtime) {
    void *memory = nullptr;
    for (const char *distribution : {"standard", "fine", "coarse", "blocked", "replicated", "on:0", "weighted:1,1"}) {
        // Weights are as many as there are nodes.
        if (std::string(distribution) == "weighted:1,1" && runtime.topology().nodes() != 2) continue;
        CHECK(vicus_alloc(runtime.get(), 1 << 20, 64, distribution, &memory) == VICUS_OK);
        auto *bytes = static_cast<unsigned char *>(memory);
        CHECK(reinterpret_cast<std::uintptr_t>(memory) % 4096 == 0);
        for (int at = 0; at < 1 << 20; at += 1000) CHECK(bytes[at] == 0);
        std::memset(memory, 1, 1 << 20);
        std::size_t by_node[8], unknown = 0, end = 0, covered = 0;
        CHECK(vicus_footprint(memory, 1 << 20, by_node, 8, &unknown) == VICUS_OK);
        CHECK(std::accumulate(by_node, by_node + 8, unknown) == 1 << 20);
        for (std::size_t offset = 0; offset < 1 << 20; offset = end) {
            std::int32_t node = -2;
            CHECK(vicus_memory_stretch(memory, offset, &node, &end) == VICUS_OK);
            CHECK(end > offset && node >= -1 && node < int(runtime.topology().nodes()));
            covered += end - offset;
        }
        CHECK(covered == 1 << 20);
        CHECK(vicus_free(memory) == VICUS_OK);
        CHECK_ERROR(vicus_free(memory), VICUS_ERROR_ARGUMENT, "was freed");
    }
    CHECK_ERROR(vicus_alloc(runtime.get(), 100, 3, nullptr, &memory), VICUS_ERROR_ARGUMENT, "power of two");
    CHECK_ERROR(vicus_alloc(runtime.get(), 100, 8, "anyhow", &memory), VICUS_ERROR_SETTING, "anyhow");
    CHECK_ERROR(vicus_alloc(runtime.get(), 100, 8, "on:1000", &memory), VICUS_ERROR_SETTING, "1000");
    CHECK_ERROR(vicus_alloc(runtime.get(), std::size_t(1) << 60, 8, "fine", &memory), VICUS_ERROR_NO_MEMORY, "");
    CHECK_ERROR(vicus_alloc(runtime.get(), 100, 8, "fine", nullptr), VICUS_ERROR_ARGUMENT, "`memory` is null");
    auto alternate = [](void *data, std::size_t units, std::size_t locations,
                        std::uint32_t *location_of_unit) -> std::int32_t {
        *static_cast<std::size_t *>(data) = units;
        for (std::size_t unit = 0; unit < units; ++unit) location_of_unit[unit] = std::uint32_t((unit + 1) % locations);
        return VICUS_OK;
    };
    std::size_t units = 0;
    CHECK(vicus_alloc_by(runtime.get(), 10 * 4096 - 5, 0, alternate, &units, &memory) == VICUS_OK && units == 10);
    std::memset(memory, 1, 10 * 4096 - 5);
    std::int32_t first = -2;
    std::size_t end = 0;
    CHECK(vicus_memory_stretch(memory, 0, &first, &end) == VICUS_OK && first == vicus_node_of(memory) && end >= 4096);
    CHECK(vicus_free(memory) == VICUS_OK);
    auto refuses = [](void *, std::size_t, std::size_t, std::uint32_t *) -> std::int32_t {
        return vicus_fail(7, "not here", nullptr, nullptr);
    };
    CHECK_ERROR(vicus_alloc_by(runtime.get(), 100, 0, refuses, nullptr, &memory), 7, "not here");
    auto beyond = [](void *, std::size_t, std::size_t locations, std::uint32_t *at) -> std::int32_t {
        *at = std::uint32_t(locations);
        return VICUS_OK;
    };
    CHECK_ERROR(vicus_alloc_by(runtime.get(), 100, 0, beyond, nullptr, &memory), VICUS_ERROR_SETTING, "counted from 0");
    CHECK_ERROR(vicus_alloc_by(runtime.get(), 100, 0, nullptr, nullptr, &memory), VICUS_ERROR_ARGUMENT, "`policy` is null");
    std::vector<unsigned char> moving(1 << 20, 7);
    CHECK(vicus_migrate(moving.data(), moving.size(), 0) == VICUS_OK);
    CHECK(vicus_migrate(moving.data(), moving.size(), VICUS_NEXT_TOUCH) == VICUS_OK);
    runtime.run([&] {
        vicus_access all = {moving.data(), moving.size(), 0, 0, VICUS_READ, 0};
        vicus_task_options options = VICUS_TASK_OPTIONS_INIT;
        options.touches = &all;
        options.touches_count = 1;
        auto sum = [](void *of) -> std::int32_t { return *static_cast<unsigned char *>(of) == 7 ? VICUS_OK : 5; };
        CHECK(vicus_spawn(sum, moving.data(), nullptr, &options) == VICUS_OK && vicus_wait() == VICUS_OK);
    });
    CHECK(moving.front() + moving.back() == 14);
    CHECK_ERROR(vicus_migrate(moving.data(), moving.size(), 1000), VICUS_ERROR_ARGUMENT, "no node 1000");
    CHECK_ERROR(vicus_migrate(moving.data(), moving.size(), -2), VICUS_ERROR_ARGUMENT, "no node -2");
    int own = 0;
    CHECK_ERROR(vicus_free(&own), VICUS_ERROR_ARGUMENT, "is not where memory");
    CHECK(vicus_free(nullptr) == VICUS_OK);
    CHECK(vicus_alloc(nullptr, 0, 0, nullptr, &memory) == VICUS_OK && vicus_free(memory) == VICUS_OK);
    CHECK(vicus_node_of(&own) == -1 && vicus_here() >= 0);
}

static void arrays(const vicus::runtime &runtime) {
    vicus::array<double> numbers(runtime, 300'000);
    CHECK(numbers.size() == 300'000 && numbers[299'999] == 0.0);
    std::size_t covered = 0;
    for (auto part : numbers.parts()) {
        CHECK(part.begin == covered);
        covered = part.end;
    }
    CHECK(covered == numbers.size());
    numbers.for_each_near(runtime, [](double &number) { number += 1; });
    numbers.for_each_piece_near(runtime, [&](std::size_t from, std::size_t to) {
        for (; from != to; ++from) numbers[from] += double(from);
    });
    CHECK(std::accumulate(numbers.begin(), numbers.end(), 0.0) == 300'000.0 + 299'999.0 * 300'000.0 / 2);
    try {
        numbers.for_each_near(runtime, [](double &number) {
            if (number == 78) throw std::out_of_range("77");
        });
        CHECK(false);
    } catch (const std::out_of_range &error) {
        CHECK(std::string(error.what()) == "77");
    }
    // Elements that pages cut.
    struct odd {
        char bytes[37];
    };
    vicus::array<odd> odds(runtime, 10'000, "fine");
    odds.for_each_near(runtime, [](odd &one) { ++one.bytes[36]; });
    for (const odd &one : odds) CHECK(one.bytes[36] == 1);
    vicus::array<int> copies(runtime, 1000, "replicated");
    std::iota(copies.begin(), copies.end(), 0);
    copies.spread();
    CHECK(copies.copy(vicus::node(0))[999] == 999);
    CHECK_ERROR(vicus_for_each_near(runtime.get(), copies.data(), 4, 1001, nullptr, nullptr), VICUS_ERROR_ARGUMENT, "`function` is null");
    vicus::array<int> moved = std::move(copies);
    CHECK(moved[5] == 5);
}

static void queues(const vicus::runtime &runtime) {
    vicus::queue<std::string> ordered;
    ordered.push("one");
    ordered.push("two");
    CHECK(*ordered.try_pop() == "one" && *ordered.try_pop() == "two" && !ordered.try_pop());
    ordered.push("freed with the queue");

    vicus::topology machine("node:2 core:2");
    vicus::queue<int> near(machine);
    near.push(0, vicus::node(0));
    near.push(1, vicus::node(1));
    CHECK(*near.try_pop(vicus::node(1)) == 1 && *near.try_pop(vicus::node(1)) == 0 && !near.try_pop());
    // Consumers sleep; all elements come once, and then the end.
    std::atomic<long> sum{0};
    std::vector<std::thread> consumers;
    for (int n = 0; n < 3; ++n) {
        consumers.emplace_back([&, n] {
            while (auto element = near.pop(vicus::node(std::uint32_t(n % 2)))) sum += *element;
        });
    }
    runtime.for_each(0, 1000, [&](std::size_t n) { near.push(int(n)); });
    near.close();
    for (auto &consumer : consumers) consumer.join();
    CHECK(sum == 499'500);
    try {
        near.push(1);
        CHECK(false);
    } catch (const vicus::error &error) {
        CHECK(error.status() == VICUS_ERROR_CLOSED);
    }
    vicus_queue *raw = nullptr;
    void *element = nullptr;
    CHECK_ERROR(vicus_queue_new_near(nullptr, nullptr, &raw), VICUS_ERROR_ARGUMENT, "null handle");
    CHECK_ERROR(vicus_queue_push(nullptr, vicus::anywhere, nullptr), VICUS_ERROR_ARGUMENT, "null handle");
    CHECK(vicus_queue_new(nullptr, &raw) == VICUS_OK);
    CHECK_ERROR(vicus_queue_pop(raw, vicus::anywhere, &element), VICUS_ERROR_STATE, "sleep");
    CHECK_ERROR(vicus_queue_close(raw), VICUS_ERROR_STATE, "vicus_queue_new_near");
    vicus_queue_free(raw);
    vicus_queue_free(nullptr);
}

struct counted {
    static std::atomic<int> alive;
    explicit counted(int from) : value(from) {
        if (from < 0) throw std::range_error("negative");
        ++alive;
    }
    ~counted() { --alive; }
    int value;
    char rest[40];
};
std::atomic<int> counted::alive{0};

static void pools(const vicus::runtime &runtime) {
    for (bool frees_home : {false, true}) {
        vicus::pool<counted> pool(runtime, frees_home);
        vicus::pool<counted>::handle first(pool, vicus::node(0)), anywhere(pool);
        CHECK(first.node() == 0 && anywhere.node() >= 0);
        vicus::pool<counted>::item one = first.make(1), two = anywhere.make(2);
        CHECK(one->value == 1 && two->value == 2 && one.get() != two.get() && counted::alive == 2);
        CHECK(vicus::node_of(one.get()) == 0 && reinterpret_cast<std::uintptr_t>(one.get()) % alignof(counted) == 0);
        // What was freed last is taken next.
        counted *address = one.get();
        first.free(std::move(one));
        CHECK(counted::alive == 1);
        try {
            first.make(-1);
            CHECK(false);
        } catch (const std::range_error &) {
        }
        one = first.make(3);
        CHECK(one.get() == address);
        // Threads take, and other threads free: no memory is in two hands.
        std::vector<std::vector<vicus::pool<counted>::item>> made(3);
        std::vector<std::thread> threads;
        for (int n = 0; n < 3; ++n) {
            threads.emplace_back([&, n] {
                vicus::pool<counted>::handle own(pool);
                for (int at = 0; at < 2000; ++at) made[std::size_t(n)].push_back(own.make(2000 * n + at));
            });
        }
        for (auto &thread : threads) thread.join();
        threads.clear();
        for (int n = 0; n < 3; ++n) {
            threads.emplace_back([&, n] {
                vicus::pool<counted>::handle own(pool);
                for (int at = 0; at < 2000; ++at) {
                    auto &item = made[std::size_t(n + 1) % 3][std::size_t(at)];
                    CHECK(item->value == 2000 * ((n + 1) % 3) + at);
                    if (at % 2) own.free(std::move(item));
                    else item.reset();
                }
            });
        }
        for (auto &thread : threads) thread.join();
        CHECK(counted::alive == 2);
    }
    CHECK(counted::alive == 0);
    {
        // An object of another pool goes back to its own.
        vicus::pool<counted> one, other;
        vicus::pool<counted>::handle of_one(one), of_other(other);
        vicus::pool<counted>::item object = of_one.make(1);
        const counted *address = object.get();
        of_other.free(std::move(object));
        CHECK(counted::alive == 0 && of_other.make(2).get() != address);
    }
    vicus_pool *raw = nullptr;
    vicus_pool_handle *handle = nullptr;
    void *item = nullptr;
    CHECK_ERROR(vicus_pool_new(runtime.get(), 2 << 20, 0, 0, &raw), VICUS_ERROR_ARGUMENT, "no room for items of 2097152");
    CHECK_ERROR(vicus_pool_new(runtime.get(), 8, 3, 0, &raw), VICUS_ERROR_ARGUMENT, "no power of two");
    CHECK_ERROR(vicus_pool_new(runtime.get(), 8, std::size_t(1) << 19, 0, &raw), VICUS_ERROR_ARGUMENT, "aligned to 524288");
    CHECK_ERROR(vicus_pool_new(runtime.get(), 8, 0, 0, nullptr), VICUS_ERROR_ARGUMENT, "`pool` is null");
    CHECK(vicus_pool_new(runtime.get(), 40, 0, 0, &raw) == VICUS_OK);
    CHECK_ERROR(vicus_pool_handle_new(raw, vicus::node(99), &handle), VICUS_ERROR_ARGUMENT, "99");
    CHECK(vicus_pool_handle_new(raw, vicus::anywhere, &handle) == VICUS_OK);
    vicus_pool_free(raw);
    // The handle keeps the memory.
    CHECK(vicus_pool_take(handle, &item) == VICUS_OK && reinterpret_cast<std::uintptr_t>(item) % 16 == 0);
    std::memset(item, 1, 40);
    int own = 0;
    CHECK_ERROR(vicus_pool_give(handle, &own), VICUS_ERROR_ARGUMENT, "no item of a pool");
    CHECK_ERROR(vicus_pool_give(handle, nullptr), VICUS_ERROR_ARGUMENT, "`item` is null");
    CHECK(vicus_pool_give(handle, item) == VICUS_OK);
    CHECK_ERROR(vicus_pool_take(nullptr, &item), VICUS_ERROR_ARGUMENT, "null handle");
    vicus_pool_handle_free(handle);
    vicus_pool_handle_free(nullptr);
    vicus_pool_free(nullptr);
    CHECK(vicus_pool_node(nullptr) == -1);
}

int main(int argc, char **argv) {
    CHECK(argc == 3);
    vicus::runtime runtime(vicus::options().strategy(argv[1]).set("threads", argv[2]).set("quiet", "yes"));
    by_pointer(runtime);
    arrays(runtime);
    queues(runtime);
    pools(runtime);
    std::puts("ok");
}
