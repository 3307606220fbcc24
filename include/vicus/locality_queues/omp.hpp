// Locality queues for OpenMP: tokens are explicit tasks.
//
//     vicus::domains where;
//     vicus::locality_queues<int> queues(where.count());
//     vicus::omp::for_each(queues, blocks.begin(), blocks.end(), home_of, where, work);
//
// Needs a compiler with OpenMP 4.0 or newer (-fopenmp), and any runtime. Compiled without OpenMP, all of it does the same on one thread.
// After `using namespace vicus`, `omp` means this namespace, too; write `vicus::omp` if there is another.
#ifndef VICUS_LOCALITY_QUEUES_OMP_HPP
#define VICUS_LOCALITY_QUEUES_OMP_HPP

#include "../locality_queues.hpp"

#include <cstddef>
#include <iterator>
#include <utility>

#if defined(_OPENMP)
#include <omp.h>
#endif

namespace vicus {
namespace omp {

// The domain of a thread by its number in the team, for threads that are bound in the order of their numbers (OMP_PROC_BIND=close), or
// to try domains out where the machine has one: thread i of N belongs to domain i * count / N.
struct by_thread_number {
    std::size_t count;

    std::size_t operator()() const noexcept {
#if defined(_OPENMP)
        return static_cast<std::size_t>(omp_get_thread_num()) * count / static_cast<std::size_t>(omp_get_num_threads());
#else
        return 0;
#endif
    }
};

#if defined(_OPENMP)
// OpenMP's lock as the lock of a `locality_queues`, which is what the paper has.
class queue_lock {
  public:
    queue_lock() noexcept { omp_init_lock(&held_); }
    ~queue_lock() { omp_destroy_lock(&held_); }
    queue_lock(const queue_lock &) = delete;
    queue_lock &operator=(const queue_lock &) = delete;

    void lock() noexcept { omp_set_lock(&held_); }
    bool try_lock() noexcept { return omp_test_lock(&held_) != 0; }
    void unlock() noexcept { omp_unset_lock(&held_); }

  private:
    omp_lock_t held_;
};
#endif

// Puts a block into a domain's queue and creates the task that is its token.
//
// Any thread of a parallel region may call it, others at the same time. The task takes a block of the domain that `where()` says on the
// thread that runs it, and calls `body` with it, which may be a block that another thread has put in. The caller's region waits as for
// any task (taskwait, the end of a taskgroup, a barrier); all blocks are done when all tokens are. The queues must be there until then;
// `where` and `body` are copied into the task. As from any OpenMP task, no exception may leave `where` or `body`: the program would end.
//
// What `push` throws is thrown here, and no task is created then.
template <class Queues, class Block, class Where, class Body>
void submit(Queues &queues, std::size_t domain, Block &&block, Where where, Body body) {
    queues.push(domain, std::forward<Block>(block));
    Queues *const from = &queues;
#if defined(_OPENMP)
#pragma omp task default(none) firstprivate(from, where, body)
#endif
    body(from->take(where()));
}

namespace detail {

template <class Batch> void create_token(Batch *batch) {
#if defined(_OPENMP)
#pragma omp task default(none) firstprivate(batch)
#endif
    batch->run_token();
}

template <class Batch, class Iterator> void submit_part(Batch *batch, Iterator first, Iterator last) {
    batch->submit(first, last, [batch] { create_token(batch); });
}

// The start of part `part` of `parts` equal ones.
template <class Iterator> Iterator part(Iterator first, Iterator last, int part, int parts) {
    const auto length = std::distance(first, last);
    return std::next(first, length / parts * part + length % parts * part / parts);
}

} // namespace detail

// Runs `body` for each block of a range, each once, as near as the queues can have it; returns when all are done.
//
// `home(block)` is the domain of a block, asked by the thread that puts it in. `where()` is the domain of the calling thread: a
// `vicus::domains`, `by_thread_number`, or the caller's own function; it is asked when a token begins. `body(block)` gets the block by
// value. All three are called by several threads at the same time.
//
// Called outside of a parallel region, it starts one. Within one, call it on one thread (as in `single` or in a task), and the team's
// other threads help while they wait at a barrier or in a task. The blocks are put in in the order of the range: by this thread, or with
// `submitters::all` in equal parts by all threads of the team (the iterators must be forward iterators then). Meanwhile no other thread
// uses the queues, and they are empty at the start; they are empty in the end.
//
// If `body`, `home`, `where` or a push throws, the first exception is thrown here after all running blocks have ended; blocks that have
// not begun are not run.
template <class Queues, class Iterator, class Home, class Where, class Body>
void for_each(Queues &queues, Iterator first, Iterator last, Home home, Where where, Body body, submitters who = submitters::one) {
    using batch_type = vicus::detail::batch<Queues, Home, Where, Body>;
    batch_type shared{queues, home, where, body};
    batch_type *const batch = &shared;
#if defined(_OPENMP)
    if (omp_in_parallel()) {
#pragma omp taskgroup
        {
            const int parts = who == submitters::all ? omp_get_num_threads() : 1;
            for (int part = 1; part < parts; ++part) {
#pragma omp task default(none) firstprivate(batch, first, last, part, parts)
                detail::submit_part(batch, detail::part(first, last, part, parts), detail::part(first, last, part + 1, parts));
            }
            detail::submit_part(batch, first, parts > 1 ? detail::part(first, last, 1, parts) : last);
        }
    } else {
#pragma omp parallel default(none) firstprivate(batch, first, last, who)
        {
            const int parts = omp_get_num_threads();
            if (who == submitters::all) {
                const int part = omp_get_thread_num();
                detail::submit_part(batch, detail::part(first, last, part, parts), detail::part(first, last, part + 1, parts));
            } else {
#pragma omp single
                detail::submit_part(batch, first, last);
            }
        }
    }
#else
    static_cast<void>(who);
    detail::submit_part(batch, first, last);
#endif
    // After an exception of `where`, blocks are left behind.
    queues.clear();
    shared.result.rethrow();
}

} // namespace omp
} // namespace vicus

#endif
