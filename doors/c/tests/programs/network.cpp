// Networks of boxes, by vicus.h and by vicus.hpp. Arguments are a strategy and a number of threads.
#include <vicus.hpp>

#include <atomic>
#include <mutex>
#include <numeric>
#include <string>
#include <thread>

#include "check.h"

using vicus::schema;
using vicus::table;
using vicus::turn;
namespace column = vicus::column;

static const schema numbers{{"n", column::u64}};
static const schema nothing{};

// Sends the numbers up to `last`, a thousand in a table, as fast as they are read. Keeps the addresses of what it has sent.
static auto source(std::uint64_t last, std::vector<const void *> *sent = nullptr) {
    return [last, sent, next = std::uint64_t(0)](turn &now) mutable {
        while (next < last) {
            if (!now.has_room(0)) return now.run_again();
            std::vector<std::uint64_t> rows(std::size_t(std::min<std::uint64_t>(1000, last - next)));
            std::iota(rows.begin(), rows.end(), next);
            next += rows.size();
            if (sent) sent->push_back(rows.data());
            now.send(0, table().add(std::move(rows)));
        }
        now.end(0);
    };
}

// Adds what comes to a sum.
static auto sum_of(std::atomic<std::uint64_t> &sum) {
    return [&sum](turn &now) {
        if (auto rows = now.take(0)) {
            for (std::uint64_t number : rows->numbers<std::uint64_t>(0)) sum += number;
        } else if (now.has_ended()) {
            now.end_all();
        }
    };
}

static void pass_on(turn &now) {
    if (auto rows = now.take(0)) {
        now.send(0, std::move(*rows));
    } else if (now.has_ended()) {
        now.end(0);
    }
}

static void square(turn &now) {
    if (auto rows = now.take(0)) {
        auto from = rows->numbers<std::uint64_t>(0);
        std::vector<std::uint64_t> squares(from.size());
        for (std::size_t at = 0; at < squares.size(); ++at) squares[at] = from[at] * from[at];
        now.send(0, table().add(std::move(squares)));
    } else if (now.has_ended()) {
        now.end(0);
    }
}

static void runs(const vicus::runtime &runtime) {
    std::atomic<std::uint64_t> sum{0};
    vicus::network net("squares");
    auto from = net.add("numbers", {}, {numbers}, source(20'000));
    auto squares = net.add("square", {numbers}, {numbers}, square);
    auto to = net.add("sum", {numbers}, {nothing}, sum_of(sum));
    net.connect(from, squares).connect(squares, to).end(to);
    auto model = net.build();
    for (int round = 1; round <= 3; ++round) {
        model.run(runtime);
        CHECK(sum == std::uint64_t(round) * 2'666'466'670'000);
    }
    // Several runs at once.
    sum = 0;
    std::vector<vicus::request> requests;
    for (int n = 0; n < 4; ++n) requests.push_back(model.submit(runtime));
    for (auto &request : requests) request.wait();
    CHECK(sum == 4 * 2'666'466'670'000ull);
}

// Rows are the same memory at both ends, and a stream that splits and is joined again has all of them.
static void zero_copy(const vicus::runtime &runtime) {
    std::vector<const void *> sent, seen;
    std::mutex lock;
    std::atomic<std::uint64_t> sum{0};
    vicus::network net("copies");
    auto from = net.add("numbers", {}, {numbers}, source(5'000, &sent));
    auto pass = net.add("pass", {numbers}, {numbers}, pass_on);
    auto look = net.add("look", {numbers}, {nothing}, [&](turn &now) {
        if (auto rows = now.take(0)) {
            std::lock_guard<std::mutex> guarded(lock);
            seen.push_back(rows->numbers<std::uint64_t>(0).data());
        } else if (now.has_ended()) {
            now.end_all();
        }
    });
    auto other = net.add("sum", {numbers}, {nothing}, sum_of(sum));
    net.connect(from, pass).connect(pass, look).connect(pass, other).end(look).end(other);
    net.build().run(runtime);
    CHECK(sent.size() == 5 && sent == seen && sum == 12'497'500);
}

static void all_types(const vicus::runtime &runtime) {
    const schema mixed{{"i", column::i32}, {"f", column::f64}, {"name", column::text}, {"yes", column::boolean}, {"day", column::date}, {"at", column::timestamp_us}};
    std::string seen;
    vicus::network net("types");
    auto from = net.add("rows", {}, {mixed}, [](turn &now) {
        now.send(0, table().add(std::vector<std::int32_t>{-1, 2}).add(std::vector<double>{0.5, 1.5}).add(std::vector<std::string>{"", "zwei"}).add(std::vector<bool>{true, false}).add(std::vector<std::int32_t>{-165, 0}).add(std::vector<std::int64_t>{7, -8}));
        now.end(0);
    });
    auto to = net.add("look", {mixed}, {nothing}, [&seen](turn &now) {
        if (auto rows = now.take(0)) {
            for (std::size_t row = 0; row < rows->rows(); ++row) {
                seen += std::to_string(rows->numbers<std::int32_t>(0)[row]) + "," + std::to_string(rows->numbers<double>(1)[row]).substr(0, 3) + ",";
                seen += std::string(*rows->text(row, 2)) + (rows->truth(row, 3) ? ",yes," : ",no,");
                seen += std::to_string(rows->numbers<std::int32_t>(4)[row]) + "," + std::to_string(rows->numbers<std::int64_t>(5)[row]) + ";";
            }
        } else if (now.has_ended()) {
            now.end_all();
        }
    });
    net.connect(from, to).end(to);
    net.build().run(runtime);
    CHECK(seen == "-1,0.5,,yes,-165,7;2,1.5,zwei,no,0,-8;");
}

template <class E, class F>
static std::string thrown(F &&f) {
    try {
        f();
    } catch (const E &error) {
        return error.what();
    }
    return "nothing was thrown";
}

// Runs a network of a box that sends and one that reads numbers.
template <class F>
static void run_with(const vicus::runtime &runtime, F act) {
    std::atomic<std::uint64_t> sum{0};
    vicus::network net("wrong");
    auto from = net.add("wrong", {}, {numbers}, act);
    auto to = net.add("sum", {numbers}, {nothing}, sum_of(sum));
    net.connect(from, to).end(to);
    net.build().run(runtime);
}

static void errors(const vicus::runtime &runtime) {
    CHECK(thrown<std::out_of_range>([&] { run_with(runtime, [](turn &) { throw std::out_of_range("thrown in a box"); }); }) == "thrown in a box");
    const auto status_of = [&](auto act) {
        try {
            run_with(runtime, act);
        } catch (const vicus::error &error) {
            return error.status();
        }
        return VICUS_OK;
    };
    // Wrong columns: in number, in buffers, by their schema, in texts.
    CHECK(status_of([](turn &now) { now.send(0, table()); }) == VICUS_ERROR_SCHEMA);
    CHECK(status_of([](turn &now) { now.send(0, table().add(std::vector<std::uint64_t>{1}).add(std::vector<std::uint64_t>{2})); }) == VICUS_ERROR_SCHEMA);
    CHECK(status_of([](turn &now) { now.send(0, table().add(std::vector<std::string>{"text"})); }) == VICUS_ERROR_SCHEMA);
    CHECK(status_of([](turn &now) {
              ArrowArray rows = table().add(std::vector<double>{1}).release();
              const schema wrong{{"n", column::f64}};
              vicus::capi::check(vicus_turn_send(now.get(), 0, &rows, wrong.get()));
          }) == VICUS_ERROR_SCHEMA);
    CHECK(status_of([](turn &now) { now.end(1); }) == VICUS_ERROR_ARGUMENT);
    CHECK(status_of([](turn &now) { now.take(0); }) == VICUS_ERROR_ARGUMENT);
    CHECK(status_of([](turn &now) { now.end(0);
              now.end(0); }) == VICUS_ERROR_STATE);
    CHECK(status_of([](turn &now) { now.book(1 << 20), now.end(0); }) == VICUS_OK);
    CHECK(status_of([](turn &) {}) == VICUS_ERROR_NETWORK); // it never ends
    CHECK(thrown<vicus::error>([&] { run_with(runtime, [](turn &) { throw vicus::error(42, "own"); }); }) == "own");

    const auto text_is_checked = [&] {
        const schema texts{{"t", column::text}};
        vicus::network net("texts");
        auto from = net.add("texts", {}, {texts}, [](turn &now) { now.send(0, table().add(std::vector<std::string>{"\xff"})); });
        net.end(from);
        net.build().run(runtime);
    };
    CHECK(thrown<vicus::error>(text_is_checked).find("UTF8") != std::string::npos);
    // More than the run may hold.
    vicus::network booking("booking");
    booking.end(booking.add("greedy", {}, {nothing}, [](turn &now) { now.book(1 << 20), now.end(0); }));
    auto greedy = booking.build();
    greedy.run(runtime);
    CHECK(thrown<vicus::error>([&] { greedy.run(runtime, 1000); }).find("greedy") != std::string::npos);

    // Networks that are not right.
    const auto message = [](auto f) { return thrown<vicus::error>(f); };
    CHECK(message([] { vicus::network("open").add("x", {}, {schema{{"d", "tin"}}}, [](turn &) {}); }).find("Interval") != std::string::npos);
    CHECK(message([] { vicus::network("open").add("x", {}, {schema{{"d", "?"}}}, [](turn &) {}); }).find("outputs") != std::string::npos);
    CHECK(message([] {
              vicus::network net("open");
              net.add("x", {}, {numbers}, [](turn &) {});
              net.build();
          }).find("no receiver") != std::string::npos);
    CHECK(message([] {
              vicus::network net("differ");
              auto a = net.add("a", {}, {numbers}, [](turn &) {});
              auto b = net.add("b", {schema{{"n", column::text}}}, {nothing}, [](turn &) {});
              net.connect(a, b).end(b).build();
          }).find("does not fit") != std::string::npos);
    CHECK(message([] { vicus::network("none").end({7}); }).find("no box 7") != std::string::npos);
    vicus_network *raw = nullptr;
    vicus_model *built = nullptr;
    std::uint32_t number = 0;
    vicus_operator what = VICUS_OPERATOR_INIT;
    CHECK_ERROR(vicus_network_new(nullptr, &raw), VICUS_ERROR_ARGUMENT, "`name` is null");
    CHECK(vicus_network_new("raw", &raw) == VICUS_OK);
    CHECK_ERROR(vicus_network_add(raw, "x", &what, nullptr, 0, nullptr, 0, &number), VICUS_ERROR_ARGUMENT, "`operator.act` is null");
    what.size = 3;
    CHECK_ERROR(vicus_network_add(raw, "x", &what, nullptr, 0, nullptr, 0, &number), VICUS_ERROR_ARGUMENT, "VICUS_OPERATOR_INIT");
    CHECK_ERROR(vicus_network_build(raw, nullptr), VICUS_ERROR_ARGUMENT, "`model` is null");
    CHECK_ERROR(vicus_runtime_submit(runtime.get(), built, 0, nullptr), VICUS_ERROR_ARGUMENT, "`model` is a null handle");
    CHECK_ERROR(vicus_turn_end(nullptr, 0), VICUS_ERROR_ARGUMENT, "`turn` is a null handle");
    vicus_network_free(raw), vicus_network_free(nullptr), vicus_model_free(nullptr);
}

// A box that waits for a thread outside of the network, and one that blocks; the smallest bounds.
static void waiting(const vicus::runtime &runtime) {
    std::atomic<std::uint64_t> sum{0};
    std::vector<std::thread> outside;
    vicus::network net("waiting");
    auto from = net.add("waits", {}, {numbers}, [&outside, step = 0](turn &now) mutable {
        if (step++ == 0) {
            auto paused = std::make_shared<vicus::paused>(now.pause());
            outside.emplace_back([paused]() mutable {
                std::this_thread::sleep_for(std::chrono::milliseconds(5));
                paused.reset();
            });
            return;
        }
        now.blocking([] { std::this_thread::sleep_for(std::chrono::milliseconds(1)); });
        now.send(0, table().add(std::vector<std::uint64_t>{1, 2, 3}));
        now.end(0);
    });
    auto pass = net.add("pass", {numbers}, {numbers}, pass_on);
    auto to = net.add("sum", {numbers}, {nothing}, sum_of(sum));
    net.connect(from, 0, pass, 0, 1, 1).connect(pass, 0, to, 0, 1, 1).end(to);
    net.build().run(runtime);
    for (auto &thread : outside) thread.join();
    CHECK(sum == 6 && outside.size() == 1);
    CHECK(thrown<vicus::error>([&] { run_with(runtime, [](turn &now) { now.blocking([] { throw vicus::error(5, "blocked"); }); }); }) == "blocked");
    CHECK(thrown<vicus::error>([] {
              vicus::network wrong("wrong");
              auto a = wrong.add("a", {}, {numbers}, [](turn &) {});
              auto b = wrong.add("b", {numbers}, {nothing}, [](turn &) {});
              wrong.connect(a, 0, b, 0, 0, 1);
          }).find("1 to 65536") != std::string::npos);
    vicus_resume(nullptr);
}

// State lives and dies with each run, also if the run is cancelled.
struct counted {
    static inline std::atomic<int> alive{0};
    counted() { ++alive; }
    counted(const counted &) { ++alive; }
    ~counted() { --alive; }
};

static void states(const vicus::runtime &runtime) {
    {
        std::atomic<bool> begun{false};
        vicus::network net("endless");
        auto from = net.add("endless", {}, {numbers}, [kept = counted(), &begun](turn &now) {
            begun = true;
            if (now.has_room(0)) now.send(0, table().add(std::vector<std::uint64_t>(10)));
            now.run_again();
        });
        auto to = net.add("drop", {numbers}, {nothing}, [kept = counted()](turn &now) {
            if (!now.take(0) && now.has_ended()) now.end_all();
        });
        net.connect(from, to).end(to);
        auto model = net.build();
        auto request = model.submit(runtime);
        while (!begun) std::this_thread::yield();
        CHECK(!request.is_done());
        request.cancel();
        CHECK(thrown<vicus::error>([&] { request.wait(); }).find("cancelled") != std::string::npos);
        // A box that has enough stops its sender.
        vicus::network few("few");
        auto all = few.add("all", {}, {numbers}, [kept = counted()](turn &now) {
            while (now.has_room(0)) now.send(0, table().add(std::vector<std::uint64_t>(10)));
            now.run_again();
        });
        auto first = few.add("first", {numbers}, {nothing}, [kept = counted(), left = 3](turn &now) mutable {
            if (now.take(0) && --left == 0) now.close(0), now.end_all();
        });
        few.connect(all, first).end(first);
        few.build().run(runtime);
    }
    for (int n = 0; n < 2000 && counted::alive != 0; ++n) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    CHECK(counted::alive == 0);
}

// Each number is divided by the sum of all, which is known when all have come: those lie in files meanwhile. 16 MB of them, in 1 MB of memory.
static void beyond_memory(const vicus::runtime &runtime) {
    const std::uint64_t last = 2'000'000, expected = last * (last - 1) / 2;
    for (bool is_declared : {false, true}) {
        std::atomic<std::uint64_t> taken{0}, known{0}, early{0};
        vicus::network net("parts of a whole");
        auto from = net.add("numbers", {}, {numbers}, source(last));
        auto sum = net.add("sum", {numbers}, {numbers}, [all = std::uint64_t(0)](turn &now) mutable {
            if (auto rows = now.take(0)) {
                for (std::uint64_t number : rows->numbers<std::uint64_t>(0)) all += number;
            } else if (now.has_ended()) {
                now.send(0, table().add(std::vector<std::uint64_t>{all}));
                now.end(0);
            }
        });
        auto both = net.add("divide", {numbers, numbers}, {nothing}, [&, has_sum = false](turn &now) mutable {
            if (!has_sum) {
                if (auto rows = now.take(0)) known = rows->numbers<std::uint64_t>(0)[0];
                if (!now.has_ended()) return;
                has_sum = true;
                return now.run_again();
            }
            if (auto rows = now.take(1)) {
                for (std::uint64_t number : rows->numbers<std::uint64_t>(0)) taken += number;
                if (known == 0) ++early;
            } else if (now.has_ended()) {
                now.end_all();
            }
        });
        net.connect(from, 0, sum, 0).connect(sum, 0, both, 0).connect(from, 0, both, 1).end(both);
        if (is_declared) net.takes_all(sum).takes_all(both, 0);
        auto model = net.build();
        vicus_request_options options = VICUS_REQUEST_OPTIONS_INIT;
        options.memory_bytes = 1 << 20;
        for (const char *folder : {static_cast<const char *>(nullptr), "."}) {
            options.temp_folder = folder;
            taken = known = 0;
            model.submit(runtime, options).wait();
            CHECK(taken == expected && known == expected && early == 0);
        }
        options.temp_folder = "no/such/folder";
        CHECK(thrown<vicus::error>([&] { model.submit(runtime, options).wait(); }).find("no/such/folder") != std::string::npos);
        options.size = 3;
        CHECK(thrown<vicus::error>([&] { model.submit(runtime, options); }).find("VICUS_REQUEST_OPTIONS_INIT") != std::string::npos);
    }
    vicus::network wrong("wrong");
    auto box = wrong.add("x", {}, {numbers}, [](turn &) {});
    auto end = wrong.add("end", {numbers}, {nothing}, [](turn &) {});
    wrong.connect(box, end).end(end).takes_all(end, 1);
    CHECK(thrown<vicus::error>([&] { wrong.build(); }).find("no input 1") != std::string::npos);
}

int main(int argc, char **argv) {
    CHECK(argc == 3);
    vicus::runtime runtime(vicus::options().strategy(argv[1]).set("threads", argv[2]).set("quiet", "yes"));
    runs(runtime);
    beyond_memory(runtime);
    zero_copy(runtime);
    all_types(runtime);
    errors(runtime);
    waiting(runtime);
    states(runtime);
    std::puts("ok");
}
