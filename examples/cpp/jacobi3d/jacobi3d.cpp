// Wittmann and Hager's measurements of 2010 in one program: a Jacobi solver whose blocks get to the threads in each of their ways, with
// locality queues from <vicus/locality_queues.hpp> among them. `jacobi3d --help` explains the columns.
#include "grid.hpp"
#include "options.hpp"

#include <vicus/locality_queues.hpp>
#include <vicus/locality_queues/omp.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <omp.h>
#include <sched.h>
#include <unistd.h>

#if defined(JACOBI3D_TBB)
#include <vicus/locality_queues/tbb.hpp>

#include <tbb/blocked_range2d.h>
#include <tbb/global_control.h>
#include <tbb/task_scheduler_observer.h>
#endif

#if defined(JACOBI3D_VICUS)
#include <vicus.hpp>
#endif

namespace {

using blocks_type = std::vector<std::size_t>;
using queues_type = vicus::locality_queues<std::size_t>;

// The CPUs that this process may use.
class cpus {
  public:
    cpus() {
        if (sched_getaffinity(0, sizeof all_, &all_) != 0) {
            fail("the system does not say which CPUs this process may use (sched_getaffinity)");
        }
        for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
            if (CPU_ISSET(cpu, &all_)) {
                numbers_.push_back(cpu);
            }
        }
    }
    std::size_t count() const { return numbers_.size(); }

    // Keeps the calling thread on one of them. Not being allowed to only costs locality.
    void pin(std::size_t nth) const {
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(numbers_[nth % numbers_.size()], &one);
        static_cast<void>(sched_setaffinity(0, sizeof one, &one));
    }
    void unpin() const { static_cast<void>(sched_setaffinity(0, sizeof all_, &all_)); }

  private:
    cpu_set_t all_;
    std::vector<int> numbers_;
};

#if defined(JACOBI3D_VICUS)
// The domain of a thread of Vicus' own runtime, which stays where it is.
thread_local std::size_t domain_of_ours = 0;
#endif

// The domain of the calling thread.
struct place {
    const vicus::domains *machine;
    std::size_t pretended;
    whose threads;

    std::size_t count() const { return pretended > 0 ? pretended : machine->count(); }

    std::size_t operator()() const {
#if defined(JACOBI3D_VICUS)
        if (threads == whose::vicus) {
            return domain_of_ours;
        }
#endif
        if (pretended == 0) {
            return machine->current();
        }
#if defined(JACOBI3D_TBB)
        if (threads == whose::tbb) {
            return vicus::tbb::by_slot{pretended}();
        }
#endif
        return vicus::omp::by_thread_number{pretended}();
    }
};

// One run of one column: grids that were never touched, then first touch, then sweeps.
class run {
  public:
    run(const options &wanted, const shape &of, place where)
        : wanted_(wanted), shape_(of), where_(where), grids_{{of.sites(), wanted.huge_pages}, {of.sites(), wanted.huge_pages}},
          home_(of.blocks()), ran_in_(of.blocks()) {}

    // First touch of a block, which makes its domain the block's home.
    void touch(std::size_t block) {
        shape_.touch(grids_[0].data(), grids_[1].data(), block);
        home_[block] = where_();
    }
    std::size_t home(std::size_t block) const { return home_[block]; }

    // The same, with pages dealt to the nodes in turn: a block's home is the domain of its first page.
    void touch_interleaved(const blocks_type &blocks) {
        static bool warned = false;
        if ((!grids_[0].interleave() || !grids_[1].interleave()) && !std::exchange(warned, true)) {
            std::fputs("jacobi3d: the system does not interleave pages (mbind), so lines with `interleaved` are as those with `serial`\n", stderr);
        }
        for (std::size_t block : blocks) {
            touch(block);
            if (where_.pretended == 0) {
                home_[block] = where_.machine->of_address(grids_[0].data() + shape_.first_site(block)).value_or(home_[block]);
            }
        }
    }

    void sweep(std::size_t block) {
        shape_.sweep(grids_[swept_ % 2].data(), grids_[(swept_ + 1) % 2].data(), block);
        ran_in_[block] = where_();
    }

    // Times all sweeps, each of which is done by the function.
    template <class Function> void time(Function &&once) {
        for (; swept_ < wanted_.sweeps; ++swept_) {
            const auto began = std::chrono::steady_clock::now();
            once();
            seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
            for (std::size_t block = 0; block < home_.size(); ++block) {
                own_ += home_[block] == ran_in_[block];
            }
        }
    }

    double seconds() const { return seconds_; }
    std::size_t own() const { return own_; }
    const untouched &result() const { return grids_[swept_ % 2]; }

  private:
    const options &wanted_;
    const shape &shape_;
    place where_;
    untouched grids_[2];
    std::vector<std::size_t> home_;
    std::vector<std::size_t> ran_in_;
    int swept_ = 0;
    double seconds_ = 0;
    std::size_t own_ = 0;
};

// The columns of the paper's §1.4 and §2: OpenMP.

void touch_first(run &one, touch how, const blocks_type &ijk) {
    const std::size_t count = ijk.size();
    switch (how) {
    case touch::serial:
        for (std::size_t block : ijk) {
            one.touch(block);
        }
        break;
    case touch::interleaved: one.touch_interleaved(ijk); break;
    case touch::in_parts:
#pragma omp parallel for schedule(static)
        for (std::size_t block = 0; block < count; ++block) {
            one.touch(block);
        }
        break;
    case touch::in_turn:
#pragma omp parallel for schedule(static, 1)
        for (std::size_t block = 0; block < count; ++block) {
            one.touch(block);
        }
        break;
    }
}

void submit_tasks(run *one, const std::size_t *first, const std::size_t *last) {
    for (; first != last; ++first) {
        const std::size_t block = *first;
#pragma omp task default(none) firstprivate(one, block)
        one->sweep(block);
    }
}

void sweep_by_tasks(run &one, const blocks_type &order, vicus::submitters who) {
#pragma omp parallel
    if (who == vicus::submitters::all) {
        const auto part = static_cast<std::size_t>(omp_get_thread_num()), parts = static_cast<std::size_t>(omp_get_num_threads());
        submit_tasks(&one, order.data() + order.size() * part / parts, order.data() + order.size() * (part + 1) / parts);
    } else {
#pragma omp single
        submit_tasks(&one, order.data(), order.data() + order.size());
    }
}

void sweep_by_queues(run &one, queues_type &queues, place where, const blocks_type &order, vicus::submitters who) {
    const auto home = [&](std::size_t block) { return one.home(block); };
    vicus::omp::for_each(queues, order.begin(), order.end(), home, where, [&](std::size_t block) { one.sweep(block); }, who);
}

void run_openmp(run &one, way column, touch how, place where, const shape &of, const cpus &may, const options &wanted) {
    if (wanted.pin) {
#pragma omp parallel
        may.pin(static_cast<std::size_t>(omp_get_thread_num()));
    }
    const blocks_type ijk = of.order(false), kji = of.order(true);
    const std::size_t count = ijk.size();
    touch_first(one, how, ijk);
    queues_type queues(where.count());
    using vicus::submitters;
    one.time([&] {
        switch (column) {
        case way::loop_static:
#pragma omp parallel for schedule(static)
            for (std::size_t block = 0; block < count; ++block) {
                one.sweep(block);
            }
            break;
        case way::loop_static_1:
#pragma omp parallel for schedule(static, 1)
            for (std::size_t block = 0; block < count; ++block) {
                one.sweep(block);
            }
            break;
        case way::tasks_ijk: return sweep_by_tasks(one, ijk, submitters::one);
        case way::tasks_kji: return sweep_by_tasks(one, kji, submitters::one);
        case way::tasks_ijk_all: return sweep_by_tasks(one, ijk, submitters::all);
        case way::tasks_kji_all: return sweep_by_tasks(one, kji, submitters::all);
        case way::queues_ijk: return sweep_by_queues(one, queues, where, ijk, submitters::one);
        case way::queues_kji: return sweep_by_queues(one, queues, where, kji, submitters::one);
        case way::queues_ijk_all: return sweep_by_queues(one, queues, where, ijk, submitters::all);
        case way::queues_kji_all: return sweep_by_queues(one, queues, where, kji, submitters::all);
        default: fail("a column is neither OpenMP's nor TBB's: a mistake in this program");
        }
    });
}

// The columns of the paper's §3: TBB.

#if defined(JACOBI3D_TBB)
// Keeps each thread of an arena on the CPU of its slot.
class pinned : public tbb::task_scheduler_observer {
  public:
    pinned(tbb::task_arena &arena, const cpus &may) : tbb::task_scheduler_observer(arena), may_(may) { observe(true); }
    ~pinned() override { observe(false); }
    void on_scheduler_entry(bool) override { may_.pin(static_cast<std::size_t>(tbb::this_task_arena::current_thread_index())); }

  private:
    const cpus &may_;
};

// Both loops of the paper: `touch_block` and `update_block`.
template <class Partitioner, class Function> void for_blocks(const shape &of, Partitioner &&partitioner, Function &&function) {
    const tbb::blocked_range2d<std::size_t> all(0, of.slow_blocks(), 1, 0, of.middle_blocks(), 1);
    const auto part_done = [&](const tbb::blocked_range2d<std::size_t> &part) {
        for (std::size_t i = part.rows().begin(); i != part.rows().end(); ++i) {
            for (std::size_t j = part.cols().begin(); j != part.cols().end(); ++j) {
                function(i * of.middle_blocks() + j);
            }
        }
    };
    tbb::parallel_for(all, part_done, partitioner);
}

// One arena per domain. Each touches its part of the blocks first.
void run_arenas(run &one, place where, const shape &of, int threads) {
    const std::size_t count = where.count();
    const int threads_each = std::max(1, threads / static_cast<int>(count));
    auto arenas = where.pretended > 0 ? std::make_unique<vicus::tbb::arenas>(count, threads_each) : std::make_unique<vicus::tbb::arenas>();
    const std::size_t parts = arenas->count(), blocks = of.blocks();
    for (std::size_t part = 0; part < parts; ++part) {
        (*arenas)[part].execute([&, part] {
            tbb::parallel_for(blocks * part / parts, blocks * (part + 1) / parts, [&](std::size_t block) { one.touch(block); });
        });
    }
    const auto arena_of = [=](std::size_t block) { return (parts * (block + 1) - 1) / blocks; };
    const blocks_type order = of.order(true);
    queues_type queues(parts);
    one.time([&] {
        vicus::tbb::for_each(*arenas, queues, order.begin(), order.end(), arena_of, [&](std::size_t block) { one.sweep(block); });
    });
}

void run_tbb(run &one, way column, place where, const shape &of, const cpus &may, const options &wanted) {
    // The main thread was pinned under OpenMP, and new threads would inherit that.
    may.unpin();
    const tbb::global_control at_most(tbb::global_control::max_allowed_parallelism, static_cast<std::size_t>(wanted.threads));
    if (column == way::tbb_queues_arenas) {
        return run_arenas(one, where, of, wanted.threads);
    }
    tbb::task_arena arena(wanted.threads);
    std::optional<pinned> pins;
    if (wanted.pin) {
        pins.emplace(arena, may);
    }
    arena.execute([&] {
        const auto touch_block = [&](std::size_t block) { one.touch(block); };
        const auto update_block = [&](std::size_t block) { one.sweep(block); };
        const auto home = [&](std::size_t block) { return one.home(block); };
        const blocks_type ijk = of.order(false), kji = of.order(true);
        queues_type queues(where.count());
        tbb::affinity_partitioner partitioner;
        if (column == way::tbb_affinity) {
            for_blocks(of, partitioner, touch_block);
        } else {
            for_blocks(of, tbb::auto_partitioner(), touch_block);
        }
        one.time([&] {
            switch (column) {
            case way::tbb: return for_blocks(of, tbb::auto_partitioner(), update_block);
            case way::tbb_affinity: return for_blocks(of, partitioner, update_block);
            case way::tbb_queues:
                return vicus::tbb::parallel_for_each(queues, ijk.begin(), ijk.end(), home, where, update_block);
            case way::tbb_queues_tasks: return vicus::tbb::for_each(queues, kji.begin(), kji.end(), home, where, update_block);
            default: fail("a column is neither OpenMP's nor TBB's: a mistake in this program");
            }
        });
    });
    pins.reset();
    may.unpin();
}
#endif

// The same under Vicus' own runtime, whose strategy `locality-queues` has a queue for each node.

#if defined(JACOBI3D_VICUS)
vicus::runtime start_ours(const options &wanted) {
    vicus::options settings;
    settings.strategy("locality-queues").threads(static_cast<std::size_t>(wanted.threads));
    if (wanted.domains > 0) {
        // A machine with as many nodes as are pretended, and enough cores on each.
        const std::size_t cores = (static_cast<std::size_t>(wanted.threads) + wanted.domains - 1) / wanted.domains;
        settings.set("topology", "node:" + std::to_string(wanted.domains) + " core:" + std::to_string(cores)).set("quiet", "yes");
    }
    return vicus::runtime(settings);
}

void run_ours(const vicus::runtime &runtime, run &one, way column, touch how, place where, const shape &of) {
    runtime.on_each_thread([&](std::uint32_t thread, std::uint32_t threads) {
        domain_of_ours = where.pretended > 0 ? thread * where.pretended / threads : where.machine->current();
    });
    const blocks_type ijk = of.order(false), kji = of.order(true);
    switch (how) {
    case touch::serial:
        for (std::size_t block : ijk) {
            one.touch(block);
        }
        break;
    case touch::interleaved: one.touch_interleaved(ijk); break;
    case touch::in_parts: runtime.for_each(0, ijk.size(), [&](std::size_t block) { one.touch(block); }); break;
    case touch::in_turn:
        runtime.on_each_thread([&](std::uint32_t thread, std::uint32_t threads) {
            for (std::size_t block = thread; block < ijk.size(); block += threads) {
                one.touch(block);
            }
        });
        break;
    }
    one.time([&] {
        if (column == way::ours_loop) {
            return runtime.for_each(0, ijk.size(), [&](std::size_t block) { one.sweep(block); });
        }
        runtime.scope([&](vicus::scope_ref scope) {
            for (std::size_t block : column == way::ours_kji ? kji : ijk) {
                const auto home = vicus::node(static_cast<std::uint32_t>(one.home(block)));
                scope.spawn(vicus::task().at(home), [&one, block] { one.sweep(block); });
            }
        });
    });
}
#endif

// A column with its first touch, and what its runs have taken.
struct line {
    const way_name *column;
    touch first_touch;
    std::string init;
    std::vector<double> seconds{};
    std::size_t own = 0;
};

std::vector<line> lines(const options &wanted) {
    std::vector<line> all;
    for (way column : wanted.columns) {
        const auto *name = std::find_if(std::begin(ways), std::end(ways), [&](const way_name &at) { return at.value == column; });
        const bool is_loop = column == way::loop_static || column == way::loop_static_1;
        if (name->threads == whose::tbb) {
            all.push_back({name, touch::in_parts, column == way::tbb_queues_arenas ? "arenas" : "parallel_for"});
        } else if (is_loop) {
            const bool in_turn = column == way::loop_static_1;
            all.push_back({name, in_turn ? touch::in_turn : touch::in_parts, in_turn ? "static1" : "static"});
        }
        for (const touch_name &init : touches) {
            const auto &asked = wanted.first_touch;
            const bool is_asked = std::find(asked.begin(), asked.end(), init.value) != asked.end();
            const bool by_one = init.value == touch::serial || init.value == touch::interleaved;
            if (is_asked && name->threads != whose::tbb && (!is_loop || (column == way::loop_static && by_one))) {
                all.push_back({name, init.value, init.name});
            }
        }
    }
    return all;
}

double quantile(std::vector<double> sorted, double part) {
    std::sort(sorted.begin(), sorted.end());
    const double at = part * static_cast<double>(sorted.size() - 1);
    const auto below = static_cast<std::size_t>(at);
    const std::size_t above = std::min(below + 1, sorted.size() - 1);
    return sorted[below] + (at - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

void check_memory(const shape &of, const options &wanted) {
    const std::size_t needed = (wanted.verify ? 4 : 2) * of.sites() * sizeof(double) >> 20;
    std::ifstream file("/proc/meminfo");
    std::string word;
    for (std::size_t kib = 0; file >> word;) {
        if (word == "MemAvailable:" && file >> kib && kib >> 10 < needed) {
            fail("the grids need " + std::to_string(needed) + " MiB, and " + std::to_string(kib >> 10) + " MiB are free; choose fewer --sites" +
                 (wanted.verify ? ", or --no-verify, which needs half" : ""));
        }
    }
}

} // namespace

int main(int count, char **words) {
    options wanted = parse(count, words);
    const cpus may;
    if (wanted.threads == 0) {
        wanted.threads = static_cast<int>(may.count());
    }
#if defined(JACOBI3D_TBB)
    // TBB counts the CPUs at its first call, which must see all of them.
    static_cast<void>(tbb::info::default_concurrency());
#endif
    omp_set_dynamic(0);
    omp_set_num_threads(wanted.threads);
    const vicus::domains machine;
    const shape of(wanted);
    check_memory(of, wanted);
    std::vector<line> all = lines(wanted);

    std::printf("%zu x %zu x %zu sites, %zu blocks of %zu x %zu x %zu, %d sweeps, %d threads%s, ", wanted.sites[0], wanted.sites[1],
                wanted.sites[2], of.blocks(), wanted.block[0], wanted.block[1], wanted.sites[2], wanted.sweeps, wanted.threads,
                wanted.pin ? " pinned" : "");
    if (wanted.domains > 0) {
        std::printf("%zu pretended domains\n", wanted.domains);
    } else {
        std::printf("%zu NUMA nodes with CPUs%s\n", machine.count(), machine.count() > 1 ? "" : " (--domains 2 pretends that there are two)");
    }
    std::fflush(stdout);

    std::optional<run> expected;
    if (wanted.verify && !all.empty()) {
        expected.emplace(wanted, of, place{&machine, wanted.domains, whose::openmp});
        for (std::size_t block = 0; block < of.blocks(); ++block) {
            expected->touch(block);
        }
        expected->time([&] {
            for (std::size_t block = 0; block < of.blocks(); ++block) {
                expected->sweep(block);
            }
        });
    }
    whose before = whose::openmp;
#if defined(JACOBI3D_VICUS)
    std::optional<vicus::runtime> ours;
#endif
    // On a terminal, the line of the run that goes on.
    const bool is_seen = isatty(STDERR_FILENO) != 0;
    const std::size_t runs = static_cast<std::size_t>(wanted.repeats + 1) * all.size();
    std::size_t begun = 0;
    for (int round = 0; round <= wanted.repeats; ++round) {
        for (line &at : all) {
            if (++begun; is_seen) {
                std::fprintf(stderr, "\r\033[Krun %zu of %zu: %s, first touch %s", begun, runs, at.column->name, at.init.c_str());
            }
            const place where{&machine, wanted.domains, at.column->threads};
            run one(wanted, of, where);
            if (round + at.seconds.size() > 0 && before != at.column->threads) {
                std::this_thread::sleep_for(std::chrono::milliseconds(250));
            }
            before = at.column->threads;
#if defined(JACOBI3D_VICUS)
            if (before == whose::vicus) {
                // Its threads inherit the CPUs of the thread that starts them, which OpenMP may have pinned.
                may.unpin();
                if (!ours) {
                    ours.emplace(start_ours(wanted));
                }
                run_ours(*ours, one, at.column->value, at.first_touch, where, of);
            } else
#endif
#if defined(JACOBI3D_TBB)
            if (before == whose::tbb) {
                run_tbb(one, at.column->value, where, of, may, wanted);
            } else
#endif
                run_openmp(one, at.column->value, at.first_touch, where, of, may, wanted);
            if (expected && !one.result().equals(expected->result())) {
                if (is_seen) {
                    std::fputs("\n", stderr);
                }
                fail(std::string("the grid of ") + at.column->name + " with first touch " + at.init + " differs from that of one thread");
            }
            // The first round is a warm-up.
            if (round > 0) {
                at.seconds.push_back(one.seconds());
                at.own += one.own();
            }
        }
    }
    if (is_seen) {
        std::fputs("\r\033[K", stderr);
    }

    if (!all.empty()) {
        std::printf("%-18s %-12s %9s %17s %9s %6s %20s\n", "column", "first touch", "ms", "quartiles", "MLUP/s", "ratio", "own");
    }
    double reference = 0;
    for (const line &at : all) {
        const double median = quantile(at.seconds, 0.5);
        reference = reference == 0 ? median : reference;
        const std::size_t blocks = of.blocks() * static_cast<std::size_t>(wanted.sweeps * wanted.repeats);
        // In pretended arenas, a thread's slot says nothing of the arena.
        const bool unknown = at.column->value == way::tbb_queues_arenas && wanted.domains > 0;
        char own[32];
        std::snprintf(own, sizeof own, unknown ? "-" : "%zu (%.1f %%)", at.own, 100.0 * static_cast<double>(at.own) / static_cast<double>(blocks));
        std::printf("%-18s %-12s %9.2f %8.2f %8.2f %9.1f %6.3f %20s\n", at.column->name, at.init.c_str(), median * 1e3,
                    quantile(at.seconds, 0.25) * 1e3, quantile(at.seconds, 0.75) * 1e3,
                    static_cast<double>(of.updated_sites()) * wanted.sweeps / median / 1e6, reference / median, own);
    }
    if (expected) {
        std::printf("all grids equal that of one thread, bit for bit\n");
    }
}
