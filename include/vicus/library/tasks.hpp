/**
 * @file tasks.hpp
 * Errors, topology, tasks and runtimes of vicus.hpp, which includes this.
 */
#ifndef VICUS_LIBRARY_TASKS_HPP
#define VICUS_LIBRARY_TASKS_HPP

#include "../../vicus.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <iterator>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#if defined(__has_include)
#if __has_include(<span>) && __cplusplus >= 202002L
#include <span>
#endif
#endif

namespace vicus {

#if defined(__cpp_lib_span)
template <class T>
using span = std::span<T>;
#else
/** A pointer and a length, where there is no `std::span`. */
template <class T>
class span {
public:
    using element_type = T;
    using value_type = std::remove_cv_t<T>;
    constexpr span() noexcept = default;
    constexpr span(T *data, std::size_t size) noexcept : data_(data), size_(size) {}
    template <std::size_t N>
    constexpr span(T (&array)[N]) noexcept : data_(array), size_(N) {}
    /** Of a container that has `data()` and `size()`. */
    template <class C, class = std::enable_if_t<std::is_convertible_v<std::remove_pointer_t<decltype(std::declval<C &>().data())> (*)[], T (*)[]>>,
              class = decltype(std::declval<C &>().size())>
    constexpr span(C &&container) noexcept : data_(container.data()), size_(container.size()) {}
    constexpr T *data() const noexcept { return data_; }
    constexpr std::size_t size() const noexcept { return size_; }
    constexpr std::size_t size_bytes() const noexcept { return size_ * sizeof(T); }
    constexpr bool empty() const noexcept { return size_ == 0; }
    constexpr T *begin() const noexcept { return data_; }
    constexpr T *end() const noexcept { return data_ + size_; }
    constexpr T &operator[](std::size_t index) const noexcept { return data_[index]; }
    constexpr span subspan(std::size_t offset, std::size_t count) const noexcept { return span(data_ + offset, count); }
    constexpr span first(std::size_t count) const noexcept { return span(data_, count); }

private:
    T *data_ = nullptr;
    std::size_t size_ = 0;
};
#endif

/** What a call of vicus.h has returned that was not ::VICUS_OK. */
class error : public std::runtime_error {
public:
    error(std::int32_t status, const std::string &message, std::uint32_t line = 0, std::uint32_t column = 0)
        : std::runtime_error(message), status_(status), line_(line), column_(column) {}
    /** One of `VICUS_ERROR_`…, or a program's own positive number. */
    std::int32_t status() const noexcept { return status_; }
    /** Where in a query's text it went wrong, from 1; 0 if there is no such place. */
    std::uint32_t line() const noexcept { return line_; }
    std::uint32_t column() const noexcept { return column_; }

private:
    std::int32_t status_;
    std::uint32_t line_, column_;
};

namespace capi {

// Frees the exception of a failed callable. Its address also tells that a payload is one.
inline void drop_exception(void *exception) {
    delete static_cast<std::exception_ptr *>(exception);
}

[[noreturn]] inline void raise(std::int32_t status) {
    if (void *payload = vicus_error_payload(drop_exception)) {
        // A copy, because the error may be replaced while the exception is handled.
        std::exception_ptr thrown = *static_cast<std::exception_ptr *>(payload);
        std::rethrow_exception(thrown);
    }
    std::uint32_t line = 0, column = 0;
    vicus_error_place(&line, &column);
    throw error(status, vicus_error_message(), line, column);
}

inline void check(std::int32_t status) {
    if (status != VICUS_OK) raise(status);
}

// Hands the exception that is being handled to whoever waits for the task.
inline std::int32_t fail() noexcept {
    std::int32_t status = VICUS_ERROR_CALLBACK;
    try {
        auto payload = std::make_unique<std::exception_ptr>(std::current_exception());
        std::string message = "a task has thrown an exception that is no std::exception";
        try {
            throw;
        } catch (const error &known) {
            status = known.status();
            message = known.what();
        } catch (const std::exception &known) {
            message = known.what();
        } catch (...) {
        }
        return vicus_fail(status, message.c_str(), payload.release(), drop_exception);
    } catch (...) {
        return VICUS_ERROR_NO_MEMORY;
    }
}

// What every callback does: no exception passes frames that are not of C++.
template <class F>
std::int32_t guard(F &&f) noexcept {
    try {
        f();
        return VICUS_OK;
    } catch (...) {
        return fail();
    }
}

// A callable that outlives the call which takes it: in the pointer itself, if it fits there, else on the heap.
template <class F>
struct owned {
    static constexpr bool fits = sizeof(F) <= sizeof(void *) && alignof(F) <= alignof(void *) && std::is_trivially_copyable_v<F>;

    template <class G>
    static void *pack(G &&callable) {
        if constexpr (fits) {
            void *data = nullptr;
            F copy(std::forward<G>(callable));
            std::memcpy(static_cast<void *>(&data), static_cast<const void *>(&copy), sizeof(F));
            return data;
        } else {
            return new F(std::forward<G>(callable));
        }
    }

    static std::int32_t call(void *data) noexcept {
        if constexpr (fits) {
            alignas(F) unsigned char bytes[sizeof(F)];
            std::memcpy(bytes, static_cast<const void *>(&data), sizeof(F));
            return guard(*std::launder(reinterpret_cast<F *>(bytes)));
        } else {
            return guard(*static_cast<F *>(data));
        }
    }

    static void drop_heap(void *data) { delete static_cast<F *>(data); }
    static constexpr vicus_drop_fn drop = fits ? nullptr : &drop_heap;
};

// A callable that the calling frame keeps until the call is over.
template <class F>
std::int32_t call_borrowed(void *data) noexcept {
    return guard(*static_cast<F *>(data));
}

template <class F>
void *address(F &callable) noexcept {
    return const_cast<void *>(static_cast<const volatile void *>(std::addressof(callable)));
}

// Calls a callable of any result and keeps that.
template <class R>
struct result {
    std::optional<R> value;
    template <class F>
    void take(F &f) {
        value.emplace(f());
    }
    R get() { return std::move(*value); }
};
template <>
struct result<void> {
    template <class F>
    void take(F &f) {
        f();
    }
    void get() {}
};

template <class F>
using result_of = std::decay_t<std::invoke_result_t<F &>>;

template <class Print>
std::string text(Print &&print) {
    std::string out(print(nullptr, 0), '\0');
    if (!out.empty()) print(&out[0], out.size() + 1);
    return out;
}

template <class T, void (*Free)(T *)>
struct deleter {
    void operator()(T *handle) const noexcept { Free(handle); }
};
template <class T, void (*Free)(T *)>
using handle = std::unique_ptr<T, deleter<T, Free>>;

} // namespace capi

/** As vicus_init(); what starts something does it by itself. */
inline void init() {
    capi::check(vicus_init());
}

/** A node or a core group. */
using place = vicus_place;
inline constexpr place anywhere{VICUS_PLACE_ANYWHERE, 0};
constexpr place node(std::uint32_t index) {
    return place{VICUS_PLACE_NODE, index};
}
constexpr place group(std::uint32_t index) {
    return place{VICUS_PLACE_GROUP, index};
}

/** The shape of a machine. */
class topology {
public:
    /** The machine that this runs on. */
    topology() {
        init();
        vicus_topology *found = nullptr;
        capi::check(vicus_topology_discover(&found));
        own_.reset(found);
        used_ = found;
    }
    /** A described machine: see vicus_topology_describe(). */
    explicit topology(const std::string &description) {
        init();
        vicus_topology *found = nullptr;
        capi::check(vicus_topology_describe(description.c_str(), &found));
        own_.reset(found);
        used_ = found;
    }
    /** That of a runtime, which has to outlive it. */
    explicit topology(const vicus_topology *of_runtime) noexcept : used_(of_runtime) {}

    std::uint32_t pus() const noexcept { return vicus_topology_count(used_, VICUS_PU); }
    std::uint32_t cores() const noexcept { return vicus_topology_count(used_, VICUS_CORE); }
    std::uint32_t groups() const noexcept { return vicus_topology_count(used_, VICUS_GROUP); }
    std::uint32_t nodes() const noexcept { return vicus_topology_count(used_, VICUS_NODE); }
    std::uint32_t caches() const noexcept { return vicus_topology_count(used_, VICUS_CACHE); }
    std::uint32_t usable_pus() const noexcept { return vicus_topology_count(used_, VICUS_USABLE_PU); }
    std::uint32_t core_of(std::uint32_t pu) const { return of(pu).core; }
    std::uint32_t group_of(std::uint32_t pu) const { return of(pu).group; }
    std::uint32_t node_of(std::uint32_t pu) const { return of(pu).node; }
    std::uint32_t distance(place from, place to) const {
        std::uint32_t distance = 0;
        capi::check(vicus_topology_distance(used_, from, to, &distance));
        return distance;
    }
    /** Some lines for a person to read. */
    std::string to_string() const {
        return capi::text([this](char *buffer, std::size_t capacity) { return vicus_topology_print(used_, buffer, capacity); });
    }
    const vicus_topology *get() const noexcept { return used_; }

private:
    struct pu_places {
        std::uint32_t core, group, node;
    };
    pu_places of(std::uint32_t pu) const {
        pu_places found{};
        capi::check(vicus_topology_pu(used_, pu, &found.core, &found.group, &found.node));
        return found;
    }

    capi::handle<vicus_topology, vicus_topology_free> own_;
    const vicus_topology *used_ = nullptr;
};

// ---- tasks ----

/** What may be said of a task: `task().reads(a).writes(b).at(node(1))`. It keeps addresses and lengths, not the data. */
class task {
public:
    task() = default;
    /** It reads these bytes: it runs after the earlier siblings that write them, near most of its data. */
    template <class T>
    task &reads(span<T> data) {
        return follows(data.data(), data.size() * sizeof(T), VICUS_READ);
    }
    /** It writes these bytes: it runs after the earlier siblings that read or write them. */
    template <class T>
    task &writes(span<T> data) {
        return follows(data.data(), data.size() * sizeof(T), VICUS_WRITE);
    }
    template <class T>
    task &updates(span<T> data) {
        return follows(data.data(), data.size() * sizeof(T), VICUS_READ_WRITE);
    }
    /** It changes these bytes at the same time as its neighbours that say the same. */
    template <class T>
    task &concurrent(span<T> data) {
        return follows(data.data(), data.size() * sizeof(T), VICUS_CONCURRENT);
    }
    /** It changes these bytes, in any order among its neighbours that say the same, but never two at once. */
    template <class T>
    task &commutative(span<T> data) {
        return follows(data.data(), data.size() * sizeof(T), VICUS_COMMUTATIVE);
    }
    /** The same of one object. */
    template <class T>
    task &reads(const T &object) {
        return follows(std::addressof(object), sizeof(T), VICUS_READ);
    }
    template <class T>
    task &writes(T &object) {
        return follows(std::addressof(object), sizeof(T), VICUS_WRITE);
    }
    template <class T>
    task &updates(T &object) {
        return follows(std::addressof(object), sizeof(T), VICUS_READ_WRITE);
    }
    template <class T>
    task &concurrent(T &object) {
        return follows(std::addressof(object), sizeof(T), VICUS_CONCURRENT);
    }
    template <class T>
    task &commutative(T &object) {
        return follows(std::addressof(object), sizeof(T), VICUS_COMMUTATIVE);
    }
    task &follows(const void *address, std::size_t bytes, std::uint32_t mode) { return follows(vicus_access{address, bytes, 1, 0, mode, 0}); }
    task &follows(const vicus_access &access) {
        follows_.push_back(access);
        return *this;
    }
    /** It runs near these bytes, which order nothing. */
    template <class T>
    task &touches(span<T> data) {
        return touches(vicus_access{data.data(), data.size() * sizeof(T), 1, 0, VICUS_READ, 0});
    }
    task &touches(const vicus_access &access) {
        touches_.push_back(access);
        return *this;
    }
    task &at(place where) {
        place_ = where;
        return *this;
    }
    task &priority(std::int32_t priority) {
        flags_ |= VICUS_TASK_PRIORITY;
        priority_ = priority;
        return *this;
    }
    task &immediate() {
        flags_ |= VICUS_TASK_IMMEDIATE;
        return *this;
    }
    task &deferred() {
        flags_ |= VICUS_TASK_DEFERRED;
        return *this;
    }
    /** As C takes it; good as long as this is not changed. */
    vicus_task_options get() const noexcept {
        vicus_task_options options = VICUS_TASK_OPTIONS_INIT;
        options.flags = flags_;
        options.follows = follows_.data();
        options.follows_count = follows_.size();
        options.touches = touches_.data();
        options.touches_count = touches_.size();
        options.place = place_;
        options.priority = priority_;
        return options;
    }

private:
    std::vector<vicus_access> follows_, touches_;
    place place_ = anywhere;
    std::int32_t priority_ = 0;
    std::uint32_t flags_ = 0;
};

/** A scope, in its body and in its tasks. A copy is the same scope. */
class scope_ref {
public:
    explicit scope_ref(const vicus_scope *scope) noexcept : scope_(scope) {}
    /** Spawns an immediate task. */
    template <class F>
    void spawn(F &&callable) const {
        using kept = capi::owned<std::decay_t<F>>;
        capi::check(vicus_scope_spawn(scope_, kept::call, kept::pack(std::forward<F>(callable)), kept::drop));
    }
    /** Spawns a task of which more is said. */
    template <class F>
    void spawn(const task &said, F &&callable) const {
        using kept = capi::owned<std::decay_t<F>>;
        const vicus_task_options options = said.get();
        capi::check(vicus_scope_spawn_with(scope_, kept::call, kept::pack(std::forward<F>(callable)), kept::drop, &options));
    }
    /** Drops its tasks that have not begun. */
    void cancel() const noexcept { vicus_scope_cancel(scope_); }

private:
    const vicus_scope *scope_;
};

namespace capi {

template <class F>
auto run_in(vicus_runtime *runtime, F &&f) {
    init();
    result<result_of<F>> out;
    auto body = [&] { out.take(f); };
    check(vicus_run(runtime, call_borrowed<decltype(body)>, address(body)));
    return out.get();
}

template <class A, class B>
auto join_in(vicus_runtime *runtime, A &&a, B &&b) {
    init();
    using first = result_of<A>;
    using second = result_of<B>;
    result<first> a_result;
    result<second> b_result;
    auto a_body = [&] { a_result.take(a); };
    auto b_body = [&] { b_result.take(b); };
    check(vicus_join(runtime, call_borrowed<decltype(a_body)>, address(a_body), call_borrowed<decltype(b_body)>, address(b_body)));
    if constexpr (!std::is_void_v<first> && !std::is_void_v<second>) {
        return std::pair<first, second>(a_result.get(), b_result.get());
    } else if constexpr (!std::is_void_v<first>) {
        return a_result.get();
    } else if constexpr (!std::is_void_v<second>) {
        return b_result.get();
    }
}

template <class F>
auto scope_in(vicus_runtime *runtime, F &&f) {
    init();
    using R = std::decay_t<std::invoke_result_t<F &, scope_ref>>;
    struct frame {
        std::remove_reference_t<F> *callable;
        result<R> out;
    } kept{std::addressof(f), {}};
    const vicus_scope_fn body = [](vicus_scope *scope, void *data) noexcept -> std::int32_t {
        auto &own = *static_cast<frame *>(data);
        auto call = [&] { return (*own.callable)(scope_ref(scope)); };
        return guard([&] { own.out.take(call); });
    };
    check(vicus_scope_run(runtime, body, &kept));
    return kept.out.get();
}

template <class F>
void pieces_in(vicus_runtime *runtime, std::size_t begin, std::size_t end, F &&f) {
    init();
    const vicus_piece_fn body = [](void *data, std::size_t from, std::size_t to) noexcept -> std::int32_t {
        auto &callable = *static_cast<std::remove_reference_t<F> *>(data);
        return guard([&] { callable(from, to); });
    };
    check(vicus_for_each(runtime, begin, end, body, address(f)));
}

template <class F>
void each_in(vicus_runtime *runtime, std::size_t begin, std::size_t end, F &&f) {
    pieces_in(runtime, begin, end, [&f](std::size_t from, std::size_t to) {
        for (; from != to; ++from) f(from);
    });
}

template <class Map, class Reduce>
auto map_reduce_in(vicus_runtime *runtime, std::size_t begin, std::size_t end, Map &&map, Reduce &&reduce) {
    using R = std::decay_t<std::invoke_result_t<Map &, std::size_t>>;
    std::mutex lock;
    std::vector<std::pair<std::size_t, R>> values;
    pieces_in(runtime, begin, end, [&](std::size_t from, std::size_t to) {
        std::size_t at = from;
        R value = map(at);
        while (++at != to) value = reduce(std::move(value), map(at));
        std::lock_guard<std::mutex> guarded(lock);
        values.emplace_back(from, std::move(value));
    });
    // In the order of the range, whichever thread was quicker.
    std::vector<std::pair<std::size_t, std::size_t>> order;
    for (std::size_t at = 0; at < values.size(); ++at) order.emplace_back(values[at].first, at);
    std::sort(order.begin(), order.end());
    std::optional<R> out;
    for (const auto &next : order) {
        R &value = values[next.second].second;
        if (out) {
            out.emplace(reduce(std::move(*out), std::move(value)));
        } else {
            out.emplace(std::move(value));
        }
    }
    return out;
}

template <class F>
void threads_in(vicus_runtime *runtime, F &&f) {
    init();
    const vicus_thread_fn body = [](void *data, std::uint32_t thread, std::uint32_t threads) noexcept -> std::int32_t {
        auto &callable = *static_cast<std::remove_reference_t<F> *>(data);
        return guard([&] { callable(thread, threads); });
    };
    check(vicus_on_each_thread(runtime, body, address(f)));
}

} // namespace capi

/** Runs two callables, of which another thread may run the second one, and returns their results: a pair, or the one that is not `void`. */
template <class A, class B>
auto join(A &&a, B &&b) {
    return capi::join_in(nullptr, std::forward<A>(a), std::forward<B>(b));
}
/** Runs `f(scope_ref)`, which may spawn tasks, and returns its result when all of them are over. */
template <class F>
auto scope(F &&f) {
    return capi::scope_in(nullptr, std::forward<F>(f));
}
/** Runs `f(n)` for each `begin <= n < end`, on all threads; the same number near the same thread in the next loop. */
template <class F>
void for_each(std::size_t begin, std::size_t end, F &&f) {
    capi::each_in(nullptr, begin, end, std::forward<F>(f));
}
/** Runs `f(element)` for each element of a vector, array or view. */
template <class C, class F, class = decltype(std::data(std::declval<C &>()))>
void for_each(C &&elements, F &&f) {
    auto *data = std::data(elements);
    capi::each_in(nullptr, 0, std::size(elements), [&f, data](std::size_t n) { f(data[n]); });
}
/** Runs `f(begin, end)` for pieces of a range: for bodies that are quicker with many numbers at a time. */
template <class F>
void for_each_piece(std::size_t begin, std::size_t end, F &&f) {
    capi::pieces_in(nullptr, begin, end, std::forward<F>(f));
}
/** `map(n)` of each number, reduced to one value by `reduce(value, value)` in the order of the range; nothing of an empty range. */
template <class Map, class Reduce>
auto map_reduce(std::size_t begin, std::size_t end, Map &&map, Reduce &&reduce) {
    return capi::map_reduce_in(nullptr, begin, end, std::forward<Map>(map), std::forward<Reduce>(reduce));
}

/** In a task: spawns a child of it, which may outlive it: see vicus_spawn(). */
template <class F>
void spawn(F &&callable) {
    using kept = capi::owned<std::decay_t<F>>;
    capi::check(vicus_spawn(kept::call, kept::pack(std::forward<F>(callable)), kept::drop, nullptr));
}
template <class F>
void spawn(const task &said, F &&callable) {
    using kept = capi::owned<std::decay_t<F>>;
    const vicus_task_options options = said.get();
    capi::check(vicus_spawn(kept::call, kept::pack(std::forward<F>(callable)), kept::drop, &options));
}
/** In a task: waits for its children. */
inline void wait() {
    capi::check(vicus_wait());
}
/** In a task: runs a callable in a group of its own, and waits for all children that it spawns, and for theirs. */
template <class F>
void task_group(F &&f) {
    capi::check(vicus_group_open());
    try {
        f();
    } catch (...) {
        vicus_group_close();
        throw;
    }
    capi::check(vicus_group_close());
}
/** In a task: drops what has not begun in the innermost group. */
inline void cancel_group() {
    capi::check(vicus_group_cancel());
}
/** Whether the rest of the running task's work is no longer needed. */
inline bool is_cancelled() noexcept {
    return vicus_is_cancelled() != 0;
}
/** Bytes that are booked with a request, until this is destroyed. */
using reservation = capi::handle<vicus_reservation, vicus_reservation_free>;
/** Books bytes with the running task's request, before they are allocated: see vicus_reserve(). */
inline reservation reserve(std::uint64_t bytes) {
    vicus_reservation *made = nullptr;
    capi::check(vicus_reserve(bytes, &made));
    return reservation(made);
}
/** Whether the calling thread runs a task or a box. */
inline bool is_in_task() noexcept {
    return vicus_is_in_task() != 0;
}

// ---- runtimes ----

/** Settings of a runtime: see vicus_options_set(). */
class options {
public:
    options() {
        init();
        vicus_options *made = nullptr;
        capi::check(vicus_options_new(&made));
        own_.reset(made);
    }
    options &set(const std::string &name, const std::string &value) {
        capi::check(vicus_options_set(own_.get(), name.c_str(), value.c_str()));
        return *this;
    }
    options &threads(std::size_t count) { return set("threads", std::to_string(count)); }
    options &strategy(const std::string &name) { return set("strategy", name); }
    const vicus_options *get() const noexcept { return own_.get(); }

private:
    capi::handle<vicus_options, vicus_options_free> own_;
};

/** Something that runs while its caller goes on. Without a result: see `future` for one. */
class request {
public:
    request() = default;
    explicit request(vicus_request *own) noexcept : own_(own) {}
    /** Waits until it is over. Throws what it has thrown. */
    void wait() const { capi::check(vicus_request_wait(own_.get())); }
    bool is_done() const noexcept { return vicus_request_is_done(own_.get()) != 0; }
    void cancel() const noexcept { vicus_request_cancel(own_.get()); }
    vicus_request *get() const noexcept { return own_.get(); }

private:
    capi::handle<vicus_request, vicus_request_free> own_;
};

/** A request with a result. */
template <class R>
class future : public request {
public:
    future(vicus_request *own, std::shared_ptr<capi::result<R>> out) noexcept : request(own), out_(std::move(out)) {}
    /** Waits, and takes the result; once. */
    R get() {
        wait();
        return out_->get();
    }

private:
    std::shared_ptr<capi::result<R>> out_;
};

/** Threads that work as a strategy says. */
class runtime {
public:
    runtime() : runtime(vicus::options()) {}
    explicit runtime(const vicus::options &settings) {
        vicus_runtime *started = nullptr;
        capi::check(vicus_runtime_start(settings.get(), &started));
        own_.reset(started);
    }
    std::uint32_t threads() const noexcept { return vicus_runtime_threads(own_.get()); }
    vicus::topology topology() const noexcept { return vicus::topology(vicus_runtime_topology(own_.get())); }
    /** One of `VICUS_ABOUT_`… */
    std::string about(std::uint32_t what) const {
        return capi::text([&](char *buffer, std::size_t capacity) { return vicus_runtime_print(own_.get(), what, buffer, capacity); });
    }
    std::string strategy() const { return about(VICUS_ABOUT_STRATEGY); }
    std::string plan() const { return about(VICUS_ABOUT_PLAN); }
    std::string warnings() const { return about(VICUS_ABOUT_WARNINGS); }

    /** Runs a callable as a task and returns its result. */
    template <class F>
    auto run(F &&f) const {
        return capi::run_in(own_.get(), std::forward<F>(f));
    }
    /** Runs a callable as a request of its own, while the caller goes on. */
    template <class F>
    auto spawn(F &&f) const {
        return spawn_within(0, std::forward<F>(f));
    }
    /** The same with a bound on what its tasks may `reserve` together; 0 is none. */
    template <class F>
    auto spawn_within(std::uint64_t memory_bytes, F &&f) const {
        using R = capi::result_of<std::decay_t<F>>;
        auto out = std::make_shared<capi::result<R>>();
        auto body = [out, f = std::forward<F>(f)]() mutable { out->take(f); };
        using kept = capi::owned<decltype(body)>;
        vicus_request *begun = nullptr;
        capi::check(vicus_runtime_spawn_within(own_.get(), memory_bytes, kept::call, kept::pack(std::move(body)), kept::drop, &begun));
        return future<R>(begun, std::move(out));
    }
    template <class A, class B>
    auto join(A &&a, B &&b) const {
        return capi::join_in(own_.get(), std::forward<A>(a), std::forward<B>(b));
    }
    template <class F>
    auto scope(F &&f) const {
        return capi::scope_in(own_.get(), std::forward<F>(f));
    }
    template <class F>
    void for_each(std::size_t begin, std::size_t end, F &&f) const {
        capi::each_in(own_.get(), begin, end, std::forward<F>(f));
    }
    template <class F>
    void for_each_piece(std::size_t begin, std::size_t end, F &&f) const {
        capi::pieces_in(own_.get(), begin, end, std::forward<F>(f));
    }
    template <class Map, class Reduce>
    auto map_reduce(std::size_t begin, std::size_t end, Map &&map, Reduce &&reduce) const {
        return capi::map_reduce_in(own_.get(), begin, end, std::forward<Map>(map), std::forward<Reduce>(reduce));
    }
    /** Runs `f(thread, threads)` once on each thread. */
    template <class F>
    void on_each_thread(F &&f) const {
        capi::threads_in(own_.get(), std::forward<F>(f));
    }
    /** Ends it and writes what it recorded (`options().set("events", …)`). */
    void end_with_trace(const std::string &path) { capi::check(vicus_runtime_trace(own_.release(), path.c_str())); }
    vicus_runtime *get() const noexcept { return own_.get(); }

private:
    capi::handle<vicus_runtime, vicus_runtime_free> own_;
};

} // namespace vicus

#endif
