// What jacobi3d is asked to do: its command line.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

// How a sweep's blocks get to the threads: a column of the paper's figures.
enum class way {
    loop_static,
    loop_static_1,
    tasks_ijk,
    tasks_kji,
    tasks_ijk_all,
    tasks_kji_all,
    queues_ijk,
    queues_kji,
    queues_ijk_all,
    queues_kji_all,
    tbb,
    tbb_affinity,
    tbb_queues,
    tbb_queues_tasks,
    tbb_queues_arenas,
    ours_loop,
    ours_ijk,
    ours_kji,
};

// Which threads touch the grids first, for columns that leave it open.
enum class touch {
    // Equal parts, in the order ijk: `schedule(static)`.
    in_parts,
    // Block by block in turn: `schedule(static, 1)`.
    in_turn,
    // The calling thread.
    serial,
    // The calling thread, after the system was told to deal pages to nodes in turn.
    interleaved,
};

// Whose threads do the work.
enum class whose { openmp, tbb, vicus };

struct way_name {
    way value;
    const char *name;
    const char *what;
    whose threads;
};

constexpr way_name ways[] = {
    {way::loop_static, "loop-static", "OpenMP loop, schedule(static); first touch by the same loop", whose::openmp},
    {way::loop_static_1, "loop-static1", "OpenMP loop, schedule(static, 1); first touch by the same loop", whose::openmp},
    {way::tasks_ijk, "tasks-ijk", "OpenMP tasks, one thread submits layer by layer", whose::openmp},
    {way::tasks_kji, "tasks-kji", "OpenMP tasks, one thread submits, the slow dimension goes fastest", whose::openmp},
    {way::tasks_ijk_all, "tasks-ijk-all", "as tasks-ijk, each thread submits an equal part", whose::openmp},
    {way::tasks_kji_all, "tasks-kji-all", "as tasks-kji, each thread submits an equal part", whose::openmp},
    {way::queues_ijk, "queues-ijk", "locality queues under OpenMP tasks, submitted as tasks-ijk", whose::openmp},
    {way::queues_kji, "queues-kji", "locality queues, submitted as tasks-kji", whose::openmp},
    {way::queues_ijk_all, "queues-ijk-all", "locality queues, submitted as tasks-ijk-all", whose::openmp},
    {way::queues_kji_all, "queues-kji-all", "locality queues, submitted as tasks-kji-all", whose::openmp},
    {way::tbb, "tbb", "tbb::parallel_for; first touch by the same", whose::tbb},
    {way::tbb_affinity, "tbb-affinity", "tbb::parallel_for with one affinity_partitioner for first touch and sweeps", whose::tbb},
    {way::tbb_queues, "tbb-queues", "each part of a tbb::parallel_for fills locality queues and takes as many blocks", whose::tbb},
    {way::tbb_queues_tasks, "tbb-queues-tasks", "locality queues, tokens in a tbb::task_group, submitted as tasks-kji", whose::tbb},
    {way::tbb_queues_arenas, "tbb-queues-arenas", "locality queues, tokens in one tbb::task_arena per node", whose::tbb},
    {way::ours_loop, "ours-loop", "a loop of Vicus' own runtime, with the strategy locality-queues", whose::vicus},
    {way::ours_ijk, "ours-ijk", "its tasks, each sent to its block's domain; one thread submits layer by layer", whose::vicus},
    {way::ours_kji, "ours-kji", "the same, submitted as tasks-kji", whose::vicus},
};

struct touch_name {
    touch value;
    const char *name;
};

constexpr touch_name touches[] = {
    {touch::in_parts, "static"},
    {touch::in_turn, "static1"},
    {touch::serial, "serial"},
    {touch::interleaved, "interleaved"},
};

struct options {
    // In the slow, the middle and the fast dimension, with the border.
    std::size_t sites[3] = {60, 600, 600};
    // In the slow and the middle dimension; blocks span the fast one.
    std::size_t block[2] = {10, 10};
    int sweeps = 4;
    int repeats = 5;
    // 0 is one for each CPU that may be used.
    int threads = 0;
    // 0 is the machine's nodes; else thread i of N belongs to domain i * domains / N.
    std::size_t domains = 0;
    std::vector<way> columns;
    std::vector<touch> first_touch = {touch::in_parts, touch::in_turn};
    bool pin = true;
    bool streaming = false;
    bool huge_pages = false;
    bool verify = true;
};

// Ends the program after --help, and with 2 after a message for what it does not understand.
options parse(int count, char **words);

// Ends the program with 1, after a message.
[[noreturn]] void fail(const std::string &what);
