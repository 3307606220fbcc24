// The adapter for OpenMP; built without OpenMP as well, where everything is done by one thread.
#include "check.hpp"

#include <vicus/locality_queues/omp.hpp>

#include <atomic>
#include <cstddef>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

constexpr int block_count = 3000;

struct input {
    std::vector<int> blocks;
    std::vector<std::atomic<int>> runs;

    explicit input(int count = block_count) : blocks(std::size_t(count)), runs(std::size_t(count)) {
        std::iota(blocks.begin(), blocks.end(), 0);
    }
    auto count_run() {
        return [this](int block) { ++runs[std::size_t(block)]; };
    }
    bool all_ran(int times) const {
        for (const std::atomic<int> &ran : runs) {
            if (ran != times) {
                return false;
            }
        }
        return true;
    }
};

std::size_t home(int block) {
    return std::size_t(block) % 3;
}

void each_block_runs_once() {
    for (vicus::submitters who : {vicus::submitters::one, vicus::submitters::all}) {
        for (int count : {0, 1, 2, 7, block_count}) {
            input in(count);
            vicus::locality_queues<int> queues(3);
            vicus::omp::for_each(queues, in.blocks.begin(), in.blocks.end(), home, vicus::omp::by_thread_number{3}, in.count_run(), who);
            CHECK(in.all_ran(1) && queues.size_approx() == 0);
        }
    }
}

void domains_of_the_machine_and_a_function_of_the_user() {
    input in;
    vicus::domains machine;
    vicus::locality_queues<int> queues(machine.count());
    const auto home_of = [&](int block) { return std::size_t(block) % machine.count(); };
    vicus::omp::for_each(queues, in.blocks.begin(), in.blocks.end(), home_of, machine, in.count_run());
    vicus::omp::for_each(queues, in.blocks.begin(), in.blocks.end(), home_of, [] { return 0; }, in.count_run());
    CHECK(in.all_ran(2));
}

void within_a_region_one_thread_calls_it() {
    for (vicus::submitters who : {vicus::submitters::one, vicus::submitters::all}) {
        input in;
        vicus::locality_queues<int> queues(3);
        bool done = false;
#if defined(_OPENMP)
#pragma omp parallel
#pragma omp single
#endif
        {
            vicus::omp::for_each(queues, in.blocks.begin(), in.blocks.end(), home, vicus::omp::by_thread_number{3}, in.count_run(), who);
            // All blocks are done when the call returns, not only at the region's end.
            done = in.all_ran(1);
        }
        CHECK(done);
    }
}

void tokens_of_all_threads_with_waits_of_the_user() {
    input in;
#if defined(_OPENMP)
    vicus::locality_queues<int, vicus::omp::queue_lock> queues(3);
#else
    vicus::locality_queues<int> queues(3);
#endif
    const auto run = in.count_run();
#if defined(_OPENMP)
#pragma omp parallel for
#endif
    for (int block = 0; block < block_count; ++block) {
        vicus::omp::submit(queues, home(block), block, vicus::omp::by_thread_number{3}, run);
    }
    CHECK(in.all_ran(1));
}

#if defined(__cpp_exceptions)
void an_exception_reaches_the_waiter() {
    for (vicus::submitters who : {vicus::submitters::one, vicus::submitters::all}) {
        for (const char *thrower : {"body", "home", "where"}) {
            input in;
            vicus::locality_queues<int> queues(3);
            std::atomic<int> calls{0};
            const auto may_throw = [&](const char *here) {
                if (std::string(here) == thrower && ++calls > 100) {
                    throw std::runtime_error(here);
                }
            };
            std::string caught;
            try {
                vicus::omp::for_each(
                    queues, in.blocks.begin(), in.blocks.end(),
                    [&](int block) {
                        may_throw("home");
                        return home(block);
                    },
                    [&] {
                        may_throw("where");
                        return std::size_t(1);
                    },
                    [&](int block) {
                        may_throw("body");
                        ++in.runs[std::size_t(block)];
                    },
                    who);
            } catch (const std::runtime_error &error) {
                caught = error.what();
            }
            CHECK(caught == thrower && queues.size_approx() == 0);
            long ran = 0;
            for (const std::atomic<int> &runs : in.runs) {
                CHECK(runs <= 1);
                ran += runs;
            }
            CHECK(std::string(thrower) == "body" ? ran == 100 : ran < block_count);
            // The queues can be used again.
            input again;
            vicus::omp::for_each(queues, again.blocks.begin(), again.blocks.end(), home, vicus::omp::by_thread_number{3}, again.count_run());
            CHECK(again.all_ran(1));
        }
    }
}
#endif

} // namespace

int main() {
    test("each block runs once", each_block_runs_once);
    test("domains of the machine, and a function of the user", domains_of_the_machine_and_a_function_of_the_user);
    test("within a region one thread calls it", within_a_region_one_thread_calls_it);
    test("tokens of all threads, with waits of the user", tokens_of_all_threads_with_waits_of_the_user);
#if defined(__cpp_exceptions)
    test("an exception reaches the waiter", an_exception_reaches_the_waiter);
#endif
}
