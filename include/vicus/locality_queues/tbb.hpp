// Locality queues for oneTBB: tokens are tasks of a group, iterations of a loop, or tasks in one arena per node.
//
//     vicus::domains where;
//     vicus::locality_queues<int> queues(where.count());
//     vicus::tbb::for_each(queues, blocks.begin(), blocks.end(), home_of, where, work);
//
// Needs oneTBB 2021 or newer; link with -ltbb (CMake: TBB::tbb). After `using namespace vicus`, the name `tbb` means two namespaces;
// write `vicus::tbb` and `::tbb` then.
//
// Of each function here: `home(block)` is the domain of a block, asked by the thread that puts it in. `where()` is the domain of the
// calling thread: a `vicus::domains`, `by_slot`, or the caller's own function; it is asked when a token begins. `body(block)` gets the
// block by value. All three are called by several threads at the same time. Each block is run once, and all have been run when the
// function returns. While it runs, no other thread uses the queues; they are empty at the start and in the end.
//
// If `body`, `home`, `where` or a push throws, the first exception is thrown by the function after all running blocks have ended;
// blocks that have not begun are not run. If a group of TBB's that is around the call is cancelled, blocks may not be run either.
#ifndef VICUS_LOCALITY_QUEUES_TBB_HPP
#define VICUS_LOCALITY_QUEUES_TBB_HPP

#include "../locality_queues.hpp"

#include <cstddef>
#include <deque>
#include <iterator>
#include <vector>

#include <tbb/blocked_range.h>
#include <tbb/info.h>
#include <tbb/parallel_for.h>
#include <tbb/partitioner.h>
#include <tbb/task_arena.h>
#include <tbb/task_group.h>

namespace vicus {
namespace tbb {

// The domain of a thread by its slot in the arena, to try domains out where the machine has one, or for threads that an observer pins in
// the order of their slots: slot i of N belongs to domain i * count / N.
struct by_slot {
    std::size_t count;

    std::size_t operator()() const noexcept {
        const int slot = ::tbb::this_task_arena::current_thread_index();
        const auto slots = static_cast<std::size_t>(::tbb::this_task_arena::max_concurrency());
        // A thread that is in no arena yet has no slot.
        return slot < 0 ? 0 : static_cast<std::size_t>(slot) * count / slots % count;
    }
};

namespace detail {

// The end of a call: tokens that TBB has cancelled leave their blocks behind.
template <class Batch> void end(Batch &batch) {
    batch.queues.clear();
    batch.result.rethrow();
}

} // namespace detail

// The calling thread puts the blocks in, in the order of the range, and runs a token for each as a task of a `task_group`.
template <class Queues, class Iterator, class Home, class Where, class Body>
void for_each(Queues &queues, Iterator first, Iterator last, Home home, Where where, Body body) {
    vicus::detail::batch<Queues, Home, Where, Body> batch{queues, home, where, body};
    ::tbb::task_group group;
    batch.submit(first, last, [&] { group.run([&batch] { batch.run_token(); }); });
    group.wait();
    detail::end(batch);
}

// The way of the paper's §3.2: a `parallel_for` divides the range, and each part puts its blocks in and then takes as many. So all
// threads put blocks in, and the partitioner (a `tbb::affinity_partitioner`, for example) chooses which. Needs random access iterators.
template <class Queues, class Iterator, class Home, class Where, class Body, class Partitioner>
void parallel_for_each(Queues &queues, Iterator first, Iterator last, Home home, Where where, Body body, Partitioner &&partitioner) {
    vicus::detail::batch<Queues, Home, Where, Body> batch{queues, home, where, body};
    using distance = typename std::iterator_traits<Iterator>::difference_type;
    const auto run_part = [&](const ::tbb::blocked_range<distance> &part) {
        std::size_t tokens = 0;
        batch.submit(first + part.begin(), first + part.end(), [&] { ++tokens; });
        for (; tokens > 0; --tokens) {
            batch.run_token();
        }
    };
    ::tbb::parallel_for(::tbb::blocked_range<distance>(0, last - first), run_part, partitioner);
    detail::end(batch);
}

template <class Queues, class Iterator, class Home, class Where, class Body>
void parallel_for_each(Queues &queues, Iterator first, Iterator last, Home home, Where where, Body body) {
    parallel_for_each(queues, first, last, home, where, body, ::tbb::auto_partitioner());
}

// One arena for each domain. Domain d is arena d.
class arenas {
  public:
    // One for each NUMA node that TBB knows, whose threads TBB binds to it, in the order of `tbb::info::numa_nodes()`; a single one where
    // TBB has no library of hwloc's (tbbbind) to ask.
    arenas() {
        for (::tbb::numa_node_id node : ::tbb::info::numa_nodes()) {
            ::tbb::task_arena::constraints there;
            there.set_numa_id(node);
            arenas_.emplace_back(there);
        }
    }

    // So many arenas with so many threads each, bound to nothing: to try domains out where the machine has one.
    arenas(std::size_t count, int threads) {
        for (std::size_t domain = 0; domain < count; ++domain) {
            arenas_.emplace_back(threads);
        }
    }

    [[nodiscard]] std::size_t count() const noexcept { return arenas_.size(); }
    ::tbb::task_arena &operator[](std::size_t domain) { return arenas_[domain]; }

  private:
    // An arena can't be moved.
    std::deque<::tbb::task_arena> arenas_;
};

// The calling thread puts the blocks in; then each arena runs as many tokens as its domain has blocks. A token takes a block of its
// arena's domain first, so there is no `where`. TBB sends threads whose arena has nothing more to do to other arenas; where arenas are
// bound to nodes, such a thread works on the node that it is sent to. One thread at a time may use the arenas so.
//
// `queues` must have as many domains as there are arenas, or more; blocks of further domains are taken by the last arena.
template <class Queues, class Iterator, class Home, class Body>
void for_each(arenas &places, Queues &queues, Iterator first, Iterator last, Home home, Body body) {
    const auto nowhere = [] { return std::size_t(0); };
    vicus::detail::batch<Queues, Home, decltype(nowhere), Body> batch{queues, home, nowhere, body};
    batch.submit(first, last, [] {});
    std::vector<std::size_t> tokens(places.count());
    for (std::size_t domain = 0; domain < queues.domain_count(); ++domain) {
        tokens[domain < tokens.size() ? domain : tokens.size() - 1] += queues.size_approx(domain);
    }
    std::deque<::tbb::task_group> groups(places.count());
    for (std::size_t domain = 0; domain < places.count(); ++domain) {
        const auto run_token = [&batch, domain](std::size_t) { batch.result.run([&] { batch.run_token_in(domain); }); };
        const auto run_all = [run_token, count = tokens[domain]] {
            ::tbb::parallel_for(std::size_t(0), count, run_token, ::tbb::simple_partitioner());
        };
        places[domain].execute([&groups, &run_all, domain] { groups[domain].run(run_all); });
    }
    for (std::size_t domain = 0; domain < places.count(); ++domain) {
        places[domain].execute([&groups, domain] { groups[domain].wait(); });
    }
    detail::end(batch);
}

} // namespace tbb
} // namespace vicus

#endif
