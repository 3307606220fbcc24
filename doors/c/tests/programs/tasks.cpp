// Tasks in C++: lambdas, results, exceptions, owners. Arguments are a strategy and a number of threads.
#include <vicus.hpp>

#include <array>
#include <atomic>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>

#include "check.h"

// What a callable throws, or nothing.
template <class E, class F>
std::string thrown(F &&f) {
    try {
        f();
    } catch (const E &error) {
        return error.what();
    }
    return "nothing was thrown";
}

// Counts how many of it there are, so that each is freed once.
struct counted {
    static inline std::atomic<int> alive{0};
    counted() { ++alive; }
    counted(const counted &) { ++alive; }
    counted(counted &&) noexcept { ++alive; }
    ~counted() { --alive; }
};

static void results(const vicus::runtime &runtime) {
    CHECK(runtime.run([] { return std::string("text"); }) == "text");
    runtime.run([] {});
    auto both = runtime.join([] { return 1; }, [] { return std::make_unique<int>(2); });
    CHECK(both.first == 1 && *both.second == 2);
    CHECK(runtime.join([] {}, [] { return 3; }) == 3);
    CHECK(runtime.scope([](vicus::scope_ref) { return 4; }) == 4);
    auto future = runtime.spawn([kept = std::make_unique<int>(5)] { return *kept; });
    CHECK(future.get() == 5);

    std::vector<int> numbers(10'000);
    runtime.for_each(0, numbers.size(), [&](std::size_t n) { numbers[n] = int(n); });
    auto sum = runtime.map_reduce(0, numbers.size(), [&](std::size_t n) { return long(numbers[n]); }, [](long a, long b) { return a + b; });
    CHECK(sum && *sum == 49'995'000);
    auto text = runtime.map_reduce(0, 26, [](std::size_t n) { return std::string(1, char('a' + n)); }, [](std::string a, std::string b) { return a + b; });
    CHECK(text && *text == "abcdefghijklmnopqrstuvwxyz");
    CHECK(!runtime.map_reduce(5, 5, [](std::size_t) { return 1; }, [](int a, int b) { return a + b; }));
    runtime.run([&] { vicus::for_each(numbers, [](int &number) { number *= 2; }); });
    CHECK(std::accumulate(numbers.begin(), numbers.end(), 0L) == 99'990'000);
    std::atomic<unsigned> threads{0};
    runtime.on_each_thread([&](std::uint32_t thread, std::uint32_t) { threads |= 1u << thread; });
    CHECK(threads == (1u << runtime.threads()) - 1);
}

static void exceptions(const vicus::runtime &runtime) {
    auto wrong = [](const char *what) { return [what] { throw std::out_of_range(what); }; };
    CHECK(thrown<std::out_of_range>([&] { runtime.run(wrong("run")); }) == "run");
    CHECK(thrown<std::out_of_range>([&] { runtime.join(wrong("join"), [] {}); }) == "join");
    CHECK(thrown<std::out_of_range>([&] { runtime.join([] {}, wrong("second")); }) == "second");
    CHECK(thrown<std::out_of_range>([&] { runtime.spawn(wrong("spawn")).get(); }) == "spawn");
    CHECK(thrown<std::out_of_range>([&] { runtime.for_each(0, 1000, [](std::size_t n) { if (n == 77) throw std::out_of_range("77"); }); }) == "77");
    CHECK(thrown<std::out_of_range>([&] { runtime.scope([&](vicus::scope_ref scope) { scope.spawn(wrong("task")); }); }) == "task");
    CHECK(thrown<std::out_of_range>([&] { runtime.scope([&](vicus::scope_ref) { wrong("body")(); }); }) == "body");
    CHECK(thrown<std::out_of_range>([&] {
              runtime.scope([&](vicus::scope_ref scope) { scope.spawn([&, scope] { scope.spawn(wrong("deep")); }); });
          }) == "deep");
    runtime.run([&] {
        vicus::spawn(wrong("child"));
        CHECK(thrown<std::out_of_range>([] { vicus::wait(); }) == "child");
        CHECK(thrown<std::out_of_range>([&] { vicus::task_group([&] { vicus::spawn(wrong("grouped")); }); }) == "grouped");
    });
    // What is thrown need not be a std::exception, and may be thrown again by each that waits.
    try {
        runtime.run([] { throw 42; });
        CHECK(false);
    } catch (int number) {
        CHECK(number == 42);
    }
    auto failing = runtime.spawn(wrong("twice"));
    for (int n = 0; n < 2; ++n) CHECK(thrown<std::out_of_range>([&] { failing.wait(); }) == "twice");
    // Through three runtimes' frames, and as an error with its status.
    vicus::runtime other(vicus::options().threads(2).set("quiet", "yes"));
    CHECK(thrown<std::out_of_range>([&] { runtime.run([&] { other.run([&] { runtime.run(wrong("far")); }); }); }) == "far");
    try {
        runtime.run([] { throw vicus::error(12, "twelve"); });
    } catch (const vicus::error &error) {
        CHECK(error.status() == 12 && std::string(error.what()) == "twelve");
    }
}

static void owners(const vicus::runtime &runtime) {
    counted::alive = 0;
    {
        counted kept;
        std::array<char, 200> large{};
        runtime.scope([&](vicus::scope_ref scope) {
            for (int n = 0; n < 50; ++n) scope.spawn([kept, large] { CHECK(large[0] == 0); });
        });
        // Cancelled before they begin: they are freed all the same.
        runtime.scope([&](vicus::scope_ref scope) {
            scope.cancel();
            for (int n = 0; n < 50; ++n) scope.spawn([kept] { CHECK(false); });
        });
        runtime.run([&] {
            vicus::task_group([&] {
                for (int n = 0; n < 50; ++n) vicus::spawn([kept] {});
                vicus::cancel_group();
            });
        });
        CHECK(thrown<vicus::error>([&] { vicus::spawn([kept] {}); }).find("in a task") != std::string::npos);
        runtime.spawn([kept] {}).wait();
    }
    // The runtime lets go of what it ran before it tells, but for a request's own closure.
    for (int n = 0; n < 1000 && counted::alive != 0; ++n) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    CHECK(counted::alive == 0);
}

static void order(const vicus::runtime &runtime) {
    std::vector<int> data(1000, 1);
    long sums[2] = {0, 0};
    vicus::span<int> low(data.data(), 500), high(data.data() + 500, 500);
    runtime.scope([&](vicus::scope_ref scope) {
        scope.spawn(vicus::task().updates(low), [low] { for (int &one : low) one = 2; });
        scope.spawn(vicus::task().updates(high).at(vicus::node(0)), [high] { for (int &one : high) one = 3; });
        scope.spawn(vicus::task().reads(low).writes(sums[0]), [&, low] { sums[0] = std::accumulate(low.begin(), low.end(), 0L); });
        scope.spawn(vicus::task().reads(high).writes(sums[1]).deferred(), [&, high] { sums[1] = std::accumulate(high.begin(), high.end(), 0L); });
        scope.spawn(vicus::task().updates(sums[0]).reads(sums[1]).priority(3), [&] { sums[0] += sums[1]; });
    });
    CHECK(sums[0] == 2500);
    std::vector<int> seen;
    runtime.run([&] {
        for (int n = 0; n < 20; ++n) vicus::spawn(vicus::task().updates(seen), [&seen, n] { seen.push_back(n); });
        vicus::wait();
    });
    for (int n = 0; n < 20; ++n) CHECK(seen[std::size_t(n)] == n);
}

static void budgets(const vicus::runtime &runtime) {
    auto held = runtime.spawn_within(10'000, [] {
        auto first = vicus::reserve(8'000);
        const bool refused = thrown<vicus::error>([] { vicus::reserve(8'000); }) != "nothing was thrown";
        first.reset();
        return refused && vicus::reserve(8'000);
    });
    CHECK(held.get());
    CHECK(runtime.run([] { return vicus::reserve(1u << 30) != nullptr; }) && vicus::reserve(1u << 30));
}

int main(int argc, char **argv) {
    CHECK(argc == 3);
    vicus::runtime runtime(vicus::options().strategy(argv[1]).set("threads", argv[2]).set("quiet", "yes"));
    CHECK(runtime.strategy() == argv[1]);
    CHECK(runtime.topology().nodes() >= 1 && !runtime.topology().to_string().empty());
    results(runtime);
    exceptions(runtime);
    owners(runtime);
    order(runtime);
    budgets(runtime);
    vicus::runtime moved = std::move(runtime);
    CHECK(moved.run([] { return vicus::is_in_task(); }) && !vicus::is_in_task());
    std::puts("ok");
}
