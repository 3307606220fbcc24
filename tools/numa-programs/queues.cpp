// Whether blocks run in the domain of their pages by locality queues: under OpenMP (the argument `openmp`), or under
// oneTBB (`tbb`, if WITH_TBB is set).
#include "kernel.h"

#include <vicus/locality_queues.hpp>
#include <vicus/locality_queues/omp.hpp>

#if defined(WITH_TBB)
#include <tbb/task_scheduler_observer.h>
#include <vicus/locality_queues/tbb.hpp>
#endif

#include <atomic>
#include <cstring>
#include <numeric>
#include <vector>

namespace {

constexpr int blocks = 192;
constexpr std::size_t bytes = 16384;

struct memory {
    vicus::domains where;
    std::vector<char *> block = std::vector<char *>(blocks);
    std::vector<std::size_t> home = std::vector<std::size_t>(blocks);
    // The blocks of each domain in which this process may run.
    std::vector<int> in_domain = std::vector<int>(where.count());
};

// The share of blocks that ran in their domain, of those that ran in a domain which has blocks.
template <class ForEach> void run(const char *name, memory &of, ForEach for_each) {
    vicus::locality_queues<int> queues(of.where.count());
    std::atomic<int> own{0}, counted{0}, all{0};
    std::vector<int> numbers(blocks);
    std::iota(numbers.begin(), numbers.end(), 0);
    for_each(queues, numbers, [&](int block) { return of.home[block]; }, [&](int block) {
        const std::size_t here = of.where();
        for (std::size_t at = 0; at < bytes; ++at) {
            ++of.block[block][at];
        }
        work_ms(2);
        ++all;
        counted += of.in_domain[here] > 0 && of.in_domain[of.home[block]] > 0;
        own += here == of.home[block];
    });
    int with_blocks = 0;
    for (int count : of.in_domain) {
        with_blocks += count > 0;
    }
    std::printf("%-8s own %d of %d, blocks in %d of %zu domains\n", name, own.load(), counted.load(), with_blocks,
                of.where.count());
    CHECK(all == blocks);
    if (with_blocks < 2) {
        std::puts("not checked: all memory is near one domain");
        return;
    }
    CHECK(counted * static_cast<int>(of.where.count()) * 2 >= blocks * with_blocks);
    CHECK(own * 4 >= counted * 3);
}

#if defined(WITH_TBB)
// Each thread on a processor of its own.
struct pinned : tbb::task_scheduler_observer {
    cpu_set_t all;

    explicit pinned(const cpu_set_t &allowed) : all(allowed) { observe(true); }
    ~pinned() override { observe(false); }
    void on_scheduler_entry(bool) override {
        int left = tbb::this_task_arena::current_thread_index() % CPU_COUNT(&all);
        for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
            if (CPU_ISSET(cpu, &all) && left-- == 0) {
                cpu_set_t one;
                CPU_ZERO(&one);
                CPU_SET(cpu, &one);
                sched_setaffinity(0, sizeof one, &one);
            }
        }
    }
};
#endif

} // namespace

int main(int count, char **arguments) {
    CHECK(count == 2);
    memory of;
    const cpu_set_t before = own_cpus();
    const cpu_set_t allowed = all_cpus();
    int next = 0;
    for (int block = 0; block < blocks; ++block) {
        // First touch on each node in turn.
        cpu_set_t there;
        do {
            there = of_node(&allowed, next++ % NODES);
        } while (CPU_COUNT(&there) == 0);
        CHECK(sched_setaffinity(0, sizeof there, &there) == 0);
        of.block[block] = fresh_memory(bytes);
        std::memset(of.block[block], 1, bytes);
    }
    CHECK(sched_setaffinity(0, sizeof before, &before) == 0);
    std::vector<int> runs_in(of.where.count());
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
        if (CPU_ISSET(cpu, &allowed)) {
            runs_in[of.where.of_cpu(static_cast<std::size_t>(cpu))] = 1;
        }
    }
    for (int block = 0; block < blocks; ++block) {
        const auto home = of.where.of_address(of.block[block]);
        CHECK(home.has_value());
        of.home[block] = *home;
        of.in_domain[*home] += runs_in[*home];
    }
    const auto where = [&] { return of.where(); };
    if (std::strcmp(arguments[1], "openmp") == 0) {
        // The threads are started first: in an emulated machine that takes as long as many blocks.
#pragma omp parallel
        static_cast<void>(node_here());
        run("OpenMP", of, [&](auto &queues, auto &numbers, auto home, auto body) {
            vicus::omp::for_each(queues, numbers.begin(), numbers.end(), home, where, body);
        });
        std::puts("ok");
        return 0;
    }
#if defined(WITH_TBB)
    const pinned pin(allowed);
    run("oneTBB", of, [&](auto &queues, auto &numbers, auto home, auto body) {
        vicus::tbb::for_each(queues, numbers.begin(), numbers.end(), home, where, body);
    });
    std::puts("ok");
    return 0;
#endif
    CHECK(!"built for oneTBB");
}
