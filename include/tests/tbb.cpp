// The adapter for oneTBB.
#include "check.hpp"

#include <vicus/locality_queues/tbb.hpp>

#include <atomic>
#include <cstddef>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

constexpr int block_count = 3000;

std::vector<int> numbered(int count) {
    std::vector<int> blocks(std::size_t(count), 0);
    std::iota(blocks.begin(), blocks.end(), 0);
    return blocks;
}

std::size_t home(int block) {
    return std::size_t(block) % 3;
}

// The ways to run tokens, each with the same arguments.
template <class Home, class Where, class Body>
void run(int way, vicus::locality_queues<int> &queues, const std::vector<int> &blocks, Home home, Where where, Body body) {
    switch (way) {
    case 0:
        return vicus::tbb::for_each(queues, blocks.begin(), blocks.end(), home, where, body);
    case 1:
        return vicus::tbb::parallel_for_each(queues, blocks.begin(), blocks.end(), home, where, body);
    case 2: {
        tbb::affinity_partitioner partitioner;
        return vicus::tbb::parallel_for_each(queues, blocks.begin(), blocks.end(), home, where, body, partitioner);
    }
    case 3: {
        vicus::tbb::arenas arenas(3, 2);
        return vicus::tbb::for_each(arenas, queues, blocks.begin(), blocks.end(), home, body);
    }
    default: {
        vicus::tbb::arenas arenas;
        return vicus::tbb::for_each(arenas, queues, blocks.begin(), blocks.end(), home, body);
    }
    }
}

void each_block_runs_once() {
    for (int way = 0; way < 5; ++way) {
        for (int count : {0, 1, 2, 7, block_count}) {
            std::vector<std::atomic<int>> runs(static_cast<std::size_t>(count));
            vicus::locality_queues<int> queues(3);
            run(way, queues, numbered(count), home, vicus::tbb::by_slot{3}, [&](int block) { ++runs[std::size_t(block)]; });
            for (const std::atomic<int> &ran : runs) {
                CHECK(ran == 1);
            }
            CHECK(queues.size_approx() == 0);
        }
    }
}

void an_exception_reaches_the_waiter() {
    for (int way = 0; way < 5; ++way) {
        std::vector<std::atomic<int>> runs(static_cast<std::size_t>(block_count));
        std::atomic<int> calls{0};
        vicus::locality_queues<int> queues(3);
        std::string caught;
        try {
            run(way, queues, numbered(block_count), home, vicus::tbb::by_slot{3}, [&](int block) {
                if (++calls > 100) {
                    throw std::runtime_error("block");
                }
                ++runs[std::size_t(block)];
            });
        } catch (const std::runtime_error &error) {
            caught = error.what();
        }
        CHECK(caught == "block" && queues.size_approx() == 0);
        long ran = 0;
        for (const std::atomic<int> &times : runs) {
            ran += times;
        }
        CHECK(ran == 100);
    }
}

void tokens_that_tbb_cancels_leave_no_blocks() {
    for (int way = 0; way < 3; ++way) {
        std::atomic<int> calls{0};
        vicus::locality_queues<int> queues(3);
        tbb::task_group around;
        around.run_and_wait([&] {
            run(way, queues, numbered(block_count), home, vicus::tbb::by_slot{3}, [&](int) {
                if (++calls == 100) {
                    around.cancel();
                }
            });
        });
        CHECK(queues.size_approx() == 0 && calls >= 100);
    }
}

} // namespace

int main() {
    test("each block runs once", each_block_runs_once);
    test("an exception reaches the waiter", an_exception_reaches_the_waiter);
    test("tokens that TBB cancels leave no blocks", tokens_that_tbb_cancels_leave_no_blocks);
}
