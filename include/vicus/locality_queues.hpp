// Locality queues: blocks of work wait in one first-in-first-out queue per locality domain, and tokens take them.
//
// Wittmann and Hager, "Optimizing ccNUMA locality for task-parallel execution under OpenMP and TBB on multicore-based systems",
// 2010, §2.2. A block is put into the queue of the domain that its memory lies in, and one task is created for it, which does not
// name it: a token. A thread that runs a token takes the oldest block of the thread's own domain, else of the next domains,
// cyclically. So a runtime that deals its tasks to any thread becomes one that prefers near memory, and no thread is idle while
// there is a block anywhere. We differ: the domain of a thread is asked when its token runs, so threads need not be pinned (§4).
//
// This file needs C++17 and its standard library, no other library and no runtime; exceptions and RTTI may be off, and
// ThreadSanitizer understands all of it (no fences). Beside it:
//   locality_queues/domains.hpp   which domain a thread is in, asked of Linux; included here
//   locality_queues/hwloc.hpp     the same, asked of hwloc
//   locality_queues/omp.hpp       tokens that are OpenMP tasks
//   locality_queues/tbb.hpp       tokens that are tasks of oneTBB
//
//     vicus::domains where;                                   // one for each NUMA node of this machine
//     vicus::locality_queues<int> queues(where.count());
//     queues.push(home_of_7, 7);                              // first the block,
//     start_task([&] { work(queues.take(where.current())); }) // then a token for it, in any runtime
#ifndef VICUS_LOCALITY_QUEUES_HPP
#define VICUS_LOCALITY_QUEUES_HPP

// major * 10000 + minor * 100 + patch
#define VICUS_LOCALITY_QUEUES_VERSION 100

#include "locality_queues/domains.hpp"

#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <stdexcept>
#include <thread>
#include <type_traits>
#include <utility>

namespace vicus {

namespace detail {

// A caller's mistake: `std::out_of_range`, or the end of a program without exceptions.
[[noreturn]] inline void out_of_range(const char *what) {
#if defined(__cpp_exceptions)
    throw std::out_of_range(what);
#else
    std::fprintf(stderr, "%s\n", what);
    std::abort();
#endif
}

// Two lines, because processors fetch lines in pairs.
constexpr std::size_t apart_bytes = 128;

} // namespace detail

// One queue per locality domain. Domains are numbered from 0 to `domain_count() - 1`.
//
// `T` is a block, or what names one: an index, a pointer. It must be move-constructible. `Lock` has a default constructor, `lock()`
// and `unlock()` (`std::mutex`, `vicus::spin_lock`, `vicus::omp::queue_lock`); each domain has one, which is held for a move of a `T` and
// no longer. `Allocator` gives the queues their memory.
//
// Who may call: any number of threads may call `push`, `emplace`, `try_pop`, `try_pop_own`, `take`, `size_approx` and `clear` at the
// same time. Construction, moving and destruction need the object for themselves. What happened before a block was put in happened
// before it is taken.
//
// Order: within a domain, the block that was put in first is taken first. Between domains there is none.
//
// Cost: a lock and an unlock for each push; the same for each block that is taken, and one read for each domain that is passed over
// because it is empty.
template <class T, class Lock = std::mutex, class Allocator = std::allocator<T>>
class locality_queues {
    static_assert(std::is_move_constructible_v<T>, "a block is moved into a queue and out of it");

  public:
    using value_type = T;
    using lock_type = Lock;
    using allocator_type = Allocator;
    using size_type = std::size_t;

    // Empty queues. Throws `std::out_of_range` for no domains.
    explicit locality_queues(size_type domain_count, const Allocator &allocator = Allocator()) : lanes_(domain_count, allocator) {
        if (domain_count == 0) {
            detail::out_of_range("vicus::locality_queues: 0 domains; there must be one at least");
        }
    }

    locality_queues(const locality_queues &) = delete;
    locality_queues &operator=(const locality_queues &) = delete;
    locality_queues &operator=(locality_queues &&) = delete;

    // Takes the queues with all blocks. The other one has no domains then, and can only be destroyed.
    locality_queues(locality_queues &&other) noexcept = default;

    // Blocks that are still there are destroyed.
    ~locality_queues() = default;

    [[nodiscard]] size_type domain_count() const noexcept { return lanes_.count(); }

    // Puts a block into a domain's queue, as its youngest.
    //
    // Throws `std::out_of_range` if there is no such domain, and what the allocator or `T`'s constructor throws; then nothing has been
    // put in, and no token must be created.
    void push(size_type domain, const T &block) { emplace(domain, block); }
    void push(size_type domain, T &&block) { emplace(domain, std::move(block)); }

    // As `push`; the block is made where it lies.
    template <class... Arguments> void emplace(size_type domain, Arguments &&...arguments) {
        lane &to = checked(domain);
        std::lock_guard<Lock> guard(to.lock);
        to.blocks.emplace_back(std::forward<Arguments>(arguments)...);
        to.size.store(to.blocks.size(), std::memory_order_relaxed);
    }

    // The oldest block of this domain, else of the next domains, cyclically. Nothing if each queue was empty at the moment when it was
    // looked at: so a block is not missed whose push happened before this call, unless another thread takes it.
    //
    // `found_in` is set to the domain that the block was in. If `T`'s move constructor throws, the block stays where it was.
    [[nodiscard]] std::optional<T> try_pop(size_type domain, size_type *found_in = nullptr) {
        checked(domain);
        const size_type count = domain_count();
        size_type at = domain;
        do {
            if (std::optional<T> block = lanes_[at].try_pop()) {
                if (found_in != nullptr) {
                    *found_in = at;
                }
                return block;
            }
            at = at + 1 == count ? 0 : at + 1;
        } while (at != domain);
        return std::nullopt;
    }

    // The oldest block of this domain, of no other.
    [[nodiscard]] std::optional<T> try_pop_own(size_type domain) { return checked(domain).try_pop(); }

    // A token's block: the oldest of this domain, else of the next domains, cyclically, looking until there is one.
    //
    // The rule: at most one `take` for each block that was put in, and the push happens before the `take` (the task that is the token
    // is created after the push). Then each `take` finds a block, though seldom the one that its own token was created for: there are
    // always at least as many blocks in the queues as threads that look for one. A thread looks more than once around only when others
    // put blocks in behind it and took those before it. A `take` without a block waits until one is put in.
    [[nodiscard]] T take(size_type domain, size_type *found_in = nullptr) {
        for (;;) {
            if (std::optional<T> block = try_pop(domain, found_in)) {
                return std::move(*block);
            }
            std::this_thread::yield();
        }
    }

    // How many blocks wait in a domain, or in all. Others may put in and take meanwhile: then it is what was true a moment ago.
    [[nodiscard]] size_type size_approx(size_type domain) const {
        return checked(domain).size.load(std::memory_order_relaxed);
    }
    [[nodiscard]] size_type size_approx() const noexcept {
        size_type sum = 0;
        for (size_type at = 0; at < domain_count(); ++at) {
            sum += lanes_[at].size.load(std::memory_order_relaxed);
        }
        return sum;
    }

    // Destroys the blocks that wait, and says how many there were. For tokens that will never run, as those of a cancelled group.
    size_type clear() noexcept {
        size_type cleared = 0;
        for (size_type at = 0; at < domain_count(); ++at) {
            lane &from = lanes_[at];
            std::lock_guard<Lock> guard(from.lock);
            cleared += from.blocks.size();
            from.blocks.clear();
            from.size.store(0, std::memory_order_relaxed);
        }
        return cleared;
    }

  private:
    // One domain's queue.
    struct alignas(detail::apart_bytes) lane {
        Lock lock;
        // Invariant: `blocks.size()` whenever the lock is free. Read without the lock, so that empty queues are passed over.
        std::atomic<size_type> size{0};
        std::deque<T, Allocator> blocks;

        explicit lane(const Allocator &allocator) : blocks(allocator) {}

        std::optional<T> try_pop() {
            // Relaxed is enough: a push that happened before this call is seen because of that, and what is in the block by the lock.
            if (size.load(std::memory_order_relaxed) == 0) {
                return std::nullopt;
            }
            std::lock_guard<Lock> guard(lock);
            // Another thread may have been quicker since.
            if (blocks.empty()) {
                return std::nullopt;
            }
            std::optional<T> oldest(std::in_place, std::move(blocks.front()));
            blocks.pop_front();
            size.store(blocks.size(), std::memory_order_relaxed);
            return oldest;
        }
    };

    // An array of what can't be moved, with an allocator.
    class lane_array {
        using allocator = typename std::allocator_traits<Allocator>::template rebind_alloc<lane>;
        using traits = std::allocator_traits<allocator>;

      public:
        lane_array(size_type count, const Allocator &of_blocks) : allocator_(of_blocks), room_(count) {
            if (count == 0) {
                return;
            }
            first_ = traits::allocate(allocator_, count);
            owner unless_made{*this};
            for (; count_ < count; ++count_) {
                ::new (static_cast<void *>(std::addressof(first_[count_]))) lane(of_blocks);
            }
            unless_made.made = true;
        }
        lane_array(lane_array &&other) noexcept
            : allocator_(other.allocator_), first_(std::exchange(other.first_, nullptr)), room_(std::exchange(other.room_, 0)),
              count_(std::exchange(other.count_, 0)) {}
        ~lane_array() { free(); }

        size_type count() const noexcept { return count_; }
        lane &operator[](size_type at) noexcept { return first_[at]; }
        const lane &operator[](size_type at) const noexcept { return first_[at]; }

      private:
        // Frees what there is if a constructor throws.
        struct owner {
            lane_array &lanes;
            bool made = false;
            ~owner() {
                if (!made) {
                    lanes.free();
                }
            }
        };

        void free() noexcept {
            while (count_ > 0) {
                first_[--count_].~lane();
            }
            if (room_ > 0) {
                traits::deallocate(allocator_, first_, room_);
                room_ = 0;
            }
        }

        allocator allocator_;
        typename traits::pointer first_{};
        size_type room_;
        size_type count_ = 0;
    };

    lane &checked(size_type domain) {
        if (domain >= domain_count()) {
            detail::out_of_range("vicus::locality_queues: there is no such domain; they are numbered from 0 to domain_count() - 1");
        }
        return lanes_[domain];
    }
    const lane &checked(size_type domain) const { return const_cast<locality_queues *>(this)->checked(domain); }

    lane_array lanes_;
};

// A lock that spins, and lets others run after a while: quicker than `std::mutex` where threads have a processor each.
class spin_lock {
  public:
    void lock() noexcept {
        for (unsigned misses = 1; taken_.exchange(true, std::memory_order_acquire); ++misses) {
            while (taken_.load(std::memory_order_relaxed)) {
                if (++misses % 64 == 0) {
                    std::this_thread::yield();
                }
            }
        }
    }
    bool try_lock() noexcept { return !taken_.exchange(true, std::memory_order_acquire); }
    void unlock() noexcept { taken_.store(false, std::memory_order_release); }

  private:
    std::atomic<bool> taken_{false};
};

// Which threads put blocks in.
enum class submitters {
    // The calling thread.
    one,
    // Each thread an equal part.
    all,
};

namespace detail {

// What becomes of many blocks: the first exception of any of them.
class outcome {
  public:
    // Calls the function, from any thread, and keeps what it throws if that is the first.
    template <class Function> void run(Function &&function) noexcept {
#if defined(__cpp_exceptions)
        try {
            function();
        } catch (...) {
            if (!failed_.exchange(true, std::memory_order_relaxed)) {
                first_ = std::current_exception();
            }
        }
#else
        function();
#endif
    }

    bool failed() const noexcept { return failed_.load(std::memory_order_relaxed); }

    // Throws the first exception again. All calls of `run` must have happened before.
    void rethrow() {
#if defined(__cpp_exceptions)
        if (first_) {
            std::rethrow_exception(std::exchange(first_, nullptr));
        }
#endif
    }

  private:
    std::atomic<bool> failed_{false};
#if defined(__cpp_exceptions)
    std::exception_ptr first_;
#endif
};

// What the tokens of one call share: the adapters' common half.
template <class Queues, class Home, class Where, class Body> struct batch {
    Queues &queues;
    Home &home;
    Where &where;
    Body &body;
    outcome result{};

    // Puts blocks in, and has a token created for each. Ends early after an exception.
    template <class Iterator, class Create> void submit(Iterator first, Iterator last, Create create) noexcept {
        result.run([&] {
            for (; first != last && !result.failed(); ++first) {
                queues.push(home(*first), *first);
                create();
            }
        });
    }

    // Takes a block, and runs it unless another one has failed.
    void run_token() noexcept {
        result.run([&] { run_token_in(where()); });
    }

    void run_token_in(std::size_t domain) {
        auto block = queues.take(domain);
        if (!result.failed()) {
            body(std::move(block));
        }
    }
};

} // namespace detail

} // namespace vicus

#endif
