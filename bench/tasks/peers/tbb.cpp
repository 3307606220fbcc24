// oneTBB's tasks: the same trees of tasks as src/trees.rs has for Vicus and rayon.
#include <atomic>
#include <cstdint>
#include <sched.h>
#include <tbb/global_control.h>
#include <tbb/parallel_invoke.h>
#include <tbb/task_arena.h>
#include <tbb/task_group.h>
#include <tbb/task_scheduler_observer.h>

namespace {

// Threads of an arena, pinned in turn to PUs.
struct Pinned : tbb::task_scheduler_observer {
    const std::size_t *cpus;
    std::size_t count;
    Pinned(tbb::task_arena &arena, const std::size_t *cpus, std::size_t count)
        : tbb::task_scheduler_observer(arena), cpus(cpus), count(count) {
        observe(true);
    }
    void on_scheduler_entry(bool) override {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(cpus[tbb::this_task_arena::current_thread_index() % count], &set);
        sched_setaffinity(0, sizeof set, &set);
    }
};

struct Runtime {
    tbb::global_control limit;
    tbb::task_arena arena;
    Pinned pinned;
    Runtime(int threads, const std::size_t *cpus, std::size_t count)
        : limit(tbb::global_control::max_allowed_parallelism, threads), arena(threads), pinned(arena, cpus, count) {}
};

std::uint64_t fib(unsigned n) {
    if (n < 2) {
        return n;
    }
    std::uint64_t a, b;
    tbb::parallel_invoke([&] { a = fib(n - 1); }, [&] { b = fib(n - 2); });
    return a + b;
}

struct Board {
    std::uint32_t size, row, columns, left, right;
};

void queens(Board board, std::atomic<std::uint64_t> &solutions) {
    if (board.row == board.size) {
        solutions.fetch_add(1, std::memory_order_relaxed);
        return;
    }
    tbb::task_group group;
    std::uint32_t free = ~(board.columns | board.left | board.right) & ((1u << board.size) - 1);
    while (free) {
        std::uint32_t bit = free & -free;
        free ^= bit;
        Board next{board.size, board.row + 1, board.columns | bit, (board.left | bit) << 1, (board.right | bit) >> 1};
        group.run([next, &solutions] { queens(next, solutions); });
    }
    group.wait();
}

// A node of the unbalanced tree; Rust's side knows how to expand it.
struct Node {
    std::uint8_t hash[20];
    std::uint32_t depth;
};
extern "C" std::uint32_t uts_children(const Node *);
extern "C" void uts_child(const Node *, std::uint32_t, Node *);

void tree(Node node, std::atomic<std::uint64_t> &nodes) {
    nodes.fetch_add(1, std::memory_order_relaxed);
    std::uint32_t children = uts_children(&node);
    if (children == 0) {
        return;
    }
    tbb::task_group group;
    for (std::uint32_t child = 0; child < children; ++child) {
        Node next;
        uts_child(&node, child, &next);
        group.run([next, &nodes] { tree(next, nodes); });
    }
    group.wait();
}

} // namespace

extern "C" Runtime *tbb_start(int threads, const std::size_t *cpus, std::size_t count) {
    return new Runtime(threads, cpus, count);
}
extern "C" void tbb_end(Runtime *runtime) { delete runtime; }

extern "C" std::uint64_t tbb_fib(Runtime *runtime, unsigned n) {
    return runtime->arena.execute([=] { return fib(n); });
}
extern "C" std::uint64_t tbb_queens(Runtime *runtime, unsigned n) {
    std::atomic<std::uint64_t> solutions{0};
    runtime->arena.execute([&] { queens(Board{n, 0, 0, 0, 0}, solutions); });
    return solutions;
}
extern "C" std::uint64_t tbb_tree(Runtime *runtime, const Node *root) {
    std::atomic<std::uint64_t> nodes{0};
    runtime->arena.execute([&] { tree(*root, nodes); });
    return nodes;
}
// So many steps of so many tasks; Rust's side knows what a task does.
extern "C" void metg_compute(std::uint64_t);
extern "C" void tbb_steps(Runtime *runtime, std::uint64_t steps, std::uint64_t points, std::uint64_t iterations) {
    runtime->arena.execute([=] {
        for (std::uint64_t step = 0; step < steps; ++step) {
            tbb::task_group group;
            for (std::uint64_t point = 0; point < points; ++point) {
                group.run([=] { metg_compute(iterations); });
            }
            group.wait();
        }
    });
}

// Batches of so many empty tasks by one submitter.
extern "C" void tbb_spawn(Runtime *runtime, std::uint64_t batches, std::uint64_t count) {
    runtime->arena.execute([=] {
        for (std::uint64_t batch = 0; batch < batches; ++batch) {
            tbb::task_group group;
            for (std::uint64_t task = 0; task < count; ++task) {
                group.run([] { asm volatile(""); });
            }
            group.wait();
        }
    });
}
