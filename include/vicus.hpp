/**
 * @file vicus.hpp
 * Vicus for programs in C++ (C++17, with exceptions): vicus.h with owners, lambdas, views and exceptions. Headers alone; link with `-lvicus`.
 *
 * @code{.cpp}
 * #include <vicus.hpp>
 * #include <iostream>
 * #include <vector>
 *
 * int main() {
 *     std::vector<long> squares(1000);
 *     vicus::for_each(0, squares.size(), [&](std::size_t n) { squares[n] = long(n * n); });
 *     auto [low, high] = vicus::join([&] { return squares[1]; }, [&] { return squares[31]; });
 *     std::cout << low + high << '\n';
 * }
 * @endcode
 *
 * **Errors** are exceptions: vicus::error with a status. An exception that a callable throws in a task reaches whoever waits for that task, as it
 * was thrown; of several, the first one does.
 *
 * **Callables** are called on any thread of the runtime. What is spawned is moved to the heap once, if it is larger than a pointer or more than
 * bytes; what is called before its caller goes on (`run`, `join`, `for_each`, the body of a `scope`) is not moved at all.
 *
 * **Owners** can be moved, not copied, and free what they own. The functions outside of vicus::runtime run in the runtime of the calling task,
 * and outside of tasks in one with the default settings.
 *
 * vicus.h says what each call does, costs and forbids; here stands what C++ adds.
 */
#ifndef VICUS_HPP
#define VICUS_HPP

#include "vicus.h"

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
#include <string_view>
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
        using R = capi::result_of<std::decay_t<F>>;
        auto out = std::make_shared<capi::result<R>>();
        auto body = [out, f = std::forward<F>(f)]() mutable { out->take(f); };
        using kept = capi::owned<decltype(body)>;
        vicus_request *begun = nullptr;
        capi::check(vicus_runtime_spawn(own_.get(), kept::call, kept::pack(std::move(body)), kept::drop, &begun));
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

// ---- memory ----

/** An array in placed memory, zeroed: by default equal parts on each node, as vicus_alloc() says. `T` is plain bytes. */
template <class T>
class array {
    static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>, "its elements are plain bytes, zero at first");

public:
    /** Elements that lie on one node. */
    struct part {
        std::size_t begin, end;
        /** -1 if it is unknown. */
        std::int32_t node;
    };

    explicit array(std::size_t size, const char *distribution = "blocked") : array(nullptr, size, distribution) {}
    array(const runtime &of, std::size_t size, const char *distribution = "blocked") : array(of.get(), size, distribution) {}

    T *data() noexcept { return static_cast<T *>(own_.get()); }
    const T *data() const noexcept { return static_cast<const T *>(own_.get()); }
    std::size_t size() const noexcept { return size_; }
    T &operator[](std::size_t index) noexcept { return data()[index]; }
    const T &operator[](std::size_t index) const noexcept { return data()[index]; }
    T *begin() noexcept { return data(); }
    T *end() noexcept { return data() + size_; }
    const T *begin() const noexcept { return data(); }
    const T *end() const noexcept { return data() + size_; }
    span<T> view() noexcept { return span<T>(data(), size_); }
    span<T> view(std::size_t begin, std::size_t end) noexcept { return span<T>(data() + begin, end - begin); }

    /** Which elements lie where: an element lies where its first byte does. */
    std::vector<part> parts() const {
        std::vector<part> found;
        for (std::size_t begin = 0; begin < size_;) {
            part next{begin, 0, -1};
            std::size_t end = 0;
            capi::check(vicus_memory_stretch(own_.get(), begin * sizeof(T), &next.node, &end));
            next.end = std::min(size_, (end + sizeof(T) - 1) / sizeof(T));
            begin = next.end;
            found.push_back(next);
        }
        return found;
    }
    std::int32_t node_of(std::size_t index) const noexcept { return vicus_node_of(data() + index); }
    /** Runs `f(begin, end)` for pieces of its indices, near their memory if a thread is there. */
    template <class F>
    void for_each_piece_near(const runtime &on, F &&f) {
        const vicus_piece_fn body = [](void *callable, std::size_t from, std::size_t to) noexcept -> std::int32_t {
            return capi::guard([&] { (*static_cast<std::remove_reference_t<F> *>(callable))(from, to); });
        };
        if (size_ > 0) capi::check(vicus_for_each_near(on.get(), own_.get(), sizeof(T), size_, body, capi::address(f)));
    }
    /** Runs `f(element)` for each element, near it. */
    template <class F>
    void for_each_near(const runtime &on, F &&f) {
        T *elements = data();
        for_each_piece_near(on, [&f, elements](std::size_t from, std::size_t to) {
            for (; from != to; ++from) f(elements[from]);
        });
    }
    /** Of a `replicated` array: the copy nearest to a place. */
    span<const T> copy(place at) const {
        const void *found = nullptr;
        capi::check(vicus_memory_copy(own_.get(), at, &found));
        return span<const T>(static_cast<const T *>(found), size_);
    }
    /** Of a `replicated` array: copies what was written to all copies. */
    void spread() { capi::check(vicus_memory_spread(own_.get())); }

private:
    struct freeing {
        void operator()(void *memory) const noexcept { vicus_free(memory); }
    };
    array(vicus_runtime *of, std::size_t size, const char *distribution) : size_(size) {
        init();
        if (size > SIZE_MAX / sizeof(T)) throw std::bad_alloc();
        void *memory = nullptr;
        capi::check(vicus_alloc(of, size * sizeof(T), alignof(T), distribution, &memory));
        own_.reset(memory);
    }

    std::unique_ptr<void, freeing> own_;
    std::size_t size_;
};

/** A queue for any number of producers and consumers; with a topology, one whose consumers take what lies near them first, and may sleep. */
template <class T>
class queue {
public:
    /** In the order of pushes. */
    queue() {
        init();
        vicus_queue *made = nullptr;
        capi::check(vicus_queue_new(drop, &made));
        own_.reset(made);
    }
    /** With a part at each node. */
    explicit queue(const topology &machine) {
        vicus_queue *made = nullptr;
        capi::check(vicus_queue_new_near(machine.get(), drop, &made));
        own_.reset(made);
    }
    void push(T element, place at = anywhere) {
        auto kept = std::make_unique<T>(std::move(element));
        capi::check(vicus_queue_push(own_.get(), at, kept.get()));
        static_cast<void>(kept.release());
    }
    /** An element, if there is one now. */
    std::optional<T> try_pop(place at = anywhere) {
        void *element = nullptr;
        std::int32_t found = 0;
        const std::int32_t status = vicus_queue_try_pop(own_.get(), at, &element, &found);
        if (status == VICUS_ERROR_CLOSED) return std::nullopt;
        capi::check(status);
        return found ? take(element) : std::nullopt;
    }
    /** Of a queue with places: an element, for which the thread sleeps; nothing when the queue is closed and empty. */
    std::optional<T> pop(place at = anywhere) {
        void *element = nullptr;
        const std::int32_t status = vicus_queue_pop(own_.get(), at, &element);
        if (status == VICUS_ERROR_CLOSED) return std::nullopt;
        capi::check(status);
        return take(element);
    }
    void close() { capi::check(vicus_queue_close(own_.get())); }

private:
    static void drop(void *element) { delete static_cast<T *>(element); }
    static std::optional<T> take(void *element) {
        std::unique_ptr<T> kept(static_cast<T *>(element));
        return std::optional<T>(std::move(*kept));
    }
    capi::handle<vicus_queue, vicus_queue_free> own_;
};

/** The node of the calling thread; -1 before the first runtime has started. */
inline std::int32_t here() noexcept {
    return vicus_here();
}
/** The node that an address of placed memory was asked to lie on; -1 if it is not placed. */
inline std::int32_t node_of(const void *address) noexcept {
    return vicus_node_of(address);
}

// ---- Arrow and queries ----

/** Rows of a stream: an `ArrowArray` of columns, with its schema. It is released with its owner. */
class batch {
public:
    batch(ArrowArray array, std::shared_ptr<ArrowSchema> schema) noexcept : array_(array), schema_(std::move(schema)) {}
    batch(batch &&other) noexcept : array_(other.array_), schema_(std::move(other.schema_)) { other.array_.release = nullptr; }
    batch &operator=(batch &&other) noexcept {
        std::swap(array_, other.array_);
        std::swap(schema_, other.schema_);
        return *this;
    }
    batch(const batch &) = delete;
    batch &operator=(const batch &) = delete;
    ~batch() {
        if (array_.release) array_.release(&array_);
    }

    std::size_t rows() const noexcept { return std::size_t(array_.length); }
    std::size_t columns() const noexcept { return std::size_t(array_.n_children); }
    std::string name(std::size_t column) const { return schema_->children[column]->name; }
    /** Arrow's name of a column's type, such as `l` for 64-bit integers. */
    const char *format(std::size_t column) const noexcept { return schema_->children[column]->format; }
    bool is_null(std::size_t row, std::size_t column) const noexcept { return !is_valid(*array_.children[column], row); }

    /** A term or a text; nothing where there is none. Good as long as the batch. */
    std::optional<std::string_view> text(std::size_t row, std::size_t column) const {
        const ArrowArray *found = array_.children[column];
        const ArrowSchema *type = schema_->children[column];
        if (!is_valid(*found, row)) return std::nullopt;
        std::size_t at = row + std::size_t(found->offset);
        if (type->dictionary) {
            if (std::string_view(type->format) != "i") throw error(VICUS_ERROR_SCHEMA, "a dictionary's indices are not of 32 bits");
            const std::int32_t index = static_cast<const std::int32_t *>(found->buffers[1])[at];
            type = type->dictionary;
            found = found->dictionary;
            at = std::size_t(index) + std::size_t(found->offset);
        }
        if (std::string_view(type->format) != "u") throw error(VICUS_ERROR_SCHEMA, "column " + name(column) + " has no texts");
        const auto *ends = static_cast<const std::int32_t *>(found->buffers[1]);
        const auto *bytes = static_cast<const char *>(found->buffers[2]);
        return std::string_view(bytes + ends[at], std::size_t(ends[at + 1] - ends[at]));
    }
    /** The numbers of a column, whose type has to be `T`; those of null rows are anything. */
    template <class T>
    span<const T> numbers(std::size_t column) const {
        if (std::string_view(format(column)) != format_of<T>()) throw error(VICUS_ERROR_SCHEMA, "column " + name(column) + " is of another type");
        const ArrowArray &found = *array_.children[column];
        return span<const T>(static_cast<const T *>(found.buffers[1]) + found.offset, std::size_t(found.length));
    }
    /** A truth value. */
    bool truth(std::size_t row, std::size_t column) const {
        if (std::string_view(format(column)) != "b") throw error(VICUS_ERROR_SCHEMA, "column " + name(column) + " has no truth values");
        const ArrowArray &found = *array_.children[column];
        return bit(found.buffers[1], row + std::size_t(found.offset));
    }
    const ArrowArray &get() const noexcept { return array_; }
    const ArrowSchema &schema() const noexcept { return *schema_; }
    /** Hands the array over: its new owner releases it. */
    ArrowArray release() noexcept {
        ArrowArray given = array_;
        array_.release = nullptr;
        return given;
    }

private:
    static bool bit(const void *bits, std::size_t at) noexcept { return static_cast<const unsigned char *>(bits)[at / 8] >> (at % 8) & 1; }
    static bool is_valid(const ArrowArray &array, std::size_t row) noexcept {
        return !array.buffers[0] || bit(array.buffers[0], row + std::size_t(array.offset));
    }
    template <class T>
    static constexpr std::string_view format_of() {
        if constexpr (std::is_floating_point_v<T>) {
            return sizeof(T) == 8 ? "g" : "f";
        } else if constexpr (std::is_signed_v<T>) {
            return sizeof(T) == 8 ? "l" : sizeof(T) == 4 ? "i" : sizeof(T) == 2 ? "s" : "c";
        } else {
            return sizeof(T) == 8 ? "L" : sizeof(T) == 4 ? "I" : sizeof(T) == 2 ? "S" : "C";
        }
    }

    ArrowArray array_;
    std::shared_ptr<ArrowSchema> schema_;
};

/** The batches of an answer. Its destructor ends the query. */
class stream {
public:
    explicit stream(ArrowArrayStream own) : own_(own) {}
    stream(stream &&other) noexcept : own_(other.own_), schema_(std::move(other.schema_)) { other.own_.release = nullptr; }
    stream(const stream &) = delete;
    stream &operator=(const stream &) = delete;
    ~stream() {
        if (own_.release) own_.release(&own_);
    }
    /** The next batch; nothing at the end. */
    std::optional<batch> next() {
        ArrowArray array{};
        if (own_.get_next(&own_, &array) != 0) capi::raise(vicus_error_status());
        if (!array.release) return std::nullopt;
        batch found(array, nullptr);
        found = batch(found.release(), schema());
        return std::optional<batch>(std::move(found));
    }
    /** The columns. */
    std::shared_ptr<ArrowSchema> schema() {
        if (!schema_) {
            auto found = std::shared_ptr<ArrowSchema>(new ArrowSchema{}, [](ArrowSchema *kept) {
                if (kept->release) kept->release(kept);
                delete kept;
            });
            if (own_.get_schema(&own_, found.get()) != 0) throw error(VICUS_ERROR_SCHEMA, own_.get_last_error(&own_));
            schema_ = std::move(found);
        }
        return schema_;
    }
    ArrowArrayStream *get() noexcept { return &own_; }

private:
    ArrowArrayStream own_;
    std::shared_ptr<ArrowSchema> schema_;
};

/** What may be said of a query; a text and limits of 0 are none. */
struct query_options {
    bool sql = false;
    bool any_order = false;
    std::uint64_t timeout_ms = 0, memory_bytes = 0, most_rows = 0, first_rows = 0;
    std::string base;

    vicus_query_options get() const noexcept {
        vicus_query_options said = VICUS_QUERY_OPTIONS_INIT;
        said.language = sql ? VICUS_LANGUAGE_SQL : VICUS_LANGUAGE_SPARQL;
        said.timeout_ms = timeout_ms;
        said.memory_bytes = memory_bytes;
        said.most_rows = most_rows;
        said.first_rows = first_rows;
        said.base = base.empty() ? nullptr : base.c_str();
        said.flags = any_order ? VICUS_QUERY_ANY_ORDER : 0;
        return said;
    }
};

/** RDF in memory, or in a folder that lasts. */
class data {
public:
    /** Loads files; without any, there is no data yet. */
    static data load(const runtime &on, const std::vector<std::string> &paths, const char *syntax = nullptr) {
        std::vector<const char *> names;
        for (const std::string &path : paths) names.push_back(path.c_str());
        vicus_data *made = nullptr;
        capi::check(vicus_data_load(on.get(), names.data(), names.size(), syntax, &made));
        return data(made);
    }
    /** A text in a syntax, such as `ttl`. */
    static data parse(const runtime &on, std::string_view text, const char *syntax) {
        vicus_data *made = nullptr;
        capi::check(vicus_data_parse(on.get(), text.data(), text.size(), syntax, &made));
        return data(made);
    }
    /** A store in a folder, which is made if it is not there. */
    static data open(const runtime &on, const std::string &folder, std::uint32_t how = VICUS_OPEN_CREATE) {
        vicus_data *made = nullptr;
        capi::check(vicus_data_open(on.get(), folder.c_str(), how, &made));
        return data(made);
    }
    std::uint64_t quads() const {
        std::uint64_t count = 0;
        capi::check(vicus_data_count(own_.get(), &count));
        return count;
    }
    /** Begins to answer a query. */
    stream query(const std::string &text, const query_options &said = {}) const {
        ArrowArrayStream begun{};
        const vicus_query_options options = said.get();
        capi::check(vicus_query(own_.get(), text.c_str(), &options, &begun));
        return stream(begun);
    }
    /** All rows as terms in N-Triples syntax, or texts; an empty text where there is none. */
    std::vector<std::vector<std::string>> rows(const std::string &text, const query_options &said = {}) const {
        std::vector<std::vector<std::string>> found;
        stream answer = query(text, said);
        while (auto some = answer.next()) {
            for (std::size_t row = 0; row < some->rows(); ++row) {
                auto &out = found.emplace_back();
                for (std::size_t column = 0; column < some->columns(); ++column) out.emplace_back(some->text(row, column).value_or(""));
            }
        }
        return found;
    }
    std::uint64_t count(const std::string &text, const query_options &said = {}) const {
        std::uint64_t rows = 0;
        const vicus_query_options options = said.get();
        capi::check(vicus_query_count(own_.get(), text.c_str(), &options, &rows));
        return rows;
    }
    bool ask(const std::string &text, const query_options &said = {}) const { return count(text, said) > 0; }
    /** The answer in a format, such as `csv`. */
    std::string write(const std::string &text, const char *format, const query_options &said = {}) const {
        std::string out;
        const vicus_query_options options = said.get();
        const vicus_write_fn body = [](void *kept, const char *bytes, std::size_t count) noexcept -> std::int32_t {
            return capi::guard([&] { static_cast<std::string *>(kept)->append(bytes, count); });
        };
        capi::check(vicus_query_write(own_.get(), text.c_str(), &options, format, body, &out));
        return out;
    }
    std::string explain(const std::string &text, const query_options &said = {}) const {
        const vicus_query_options options = said.get();
        return capi::text([&](char *buffer, std::size_t capacity) {
            std::size_t length = 0;
            capi::check(vicus_query_explain(own_.get(), text.c_str(), &options, buffer, capacity, &length));
            return length;
        });
    }
    /** Changes the data, all of it or nothing. */
    void update(const std::string &text, const query_options &said = {}) {
        const vicus_query_options options = said.get();
        capi::check(vicus_update(own_.get(), text.c_str(), &options));
    }
    const vicus_data *get() const noexcept { return own_.get(); }

private:
    explicit data(vicus_data *own) noexcept : own_(own) {}
    capi::handle<vicus_data, vicus_data_free> own_;
};

} // namespace vicus

#endif
