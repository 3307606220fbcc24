/**
 * @file memory.hpp
 * Placed memory, queues and pools of vicus.hpp, which includes this.
 */
#ifndef VICUS_LIBRARY_MEMORY_HPP
#define VICUS_LIBRARY_MEMORY_HPP

#include "tasks.hpp"

namespace vicus {

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

/** Objects of one type in memory near the threads that make them. */
template <class T>
class pool {
    struct returning {
        vicus_pool *pool = nullptr;
        void operator()(T *object) const {
            object->~T();
            static_cast<void>(vicus_pool_give_back(pool, object));
        }
    };

public:
    /** @param frees_home whether a freed object's memory goes to the node on which it lies, instead of that which frees it */
    explicit pool(const runtime &of, bool frees_home = false) { make(of.get(), frees_home); }
    pool() {
        init();
        make(nullptr, false);
    }

    /** An object of a pool. The pool, or that to which it was moved, outlives it. It is freed on any thread; by a handle, that costs less. */
    using item = std::unique_ptr<T, returning>;

    /** One thread's access to a pool, which outlives it. */
    class handle {
    public:
        handle(const pool &of, place at = anywhere) : pool_(of.own_.get()) {
            vicus_pool_handle *made = nullptr;
            capi::check(vicus_pool_handle_new(pool_, at, &made));
            own_.reset(made);
        }
        template <class... Arguments>
        item make(Arguments &&...arguments) {
            void *memory = nullptr;
            capi::check(vicus_pool_take(own_.get(), &memory));
            try {
                return item(::new (memory) T(std::forward<Arguments>(arguments)...), returning{pool_});
            } catch (...) {
                static_cast<void>(vicus_pool_give(own_.get(), memory));
                throw;
            }
        }
        /** Frees an object; that of another pool goes back to its own. */
        void free(item object) {
            if (object.get_deleter().pool != pool_) return;
            T *memory = object.release();
            if (!memory) return;
            memory->~T();
            capi::check(vicus_pool_give(own_.get(), memory));
        }
        std::int32_t node() const noexcept { return vicus_pool_node(own_.get()); }

    private:
        vicus_pool *pool_;
        capi::handle<vicus_pool_handle, vicus_pool_handle_free> own_;
    };

private:
    void make(vicus_runtime *of, bool frees_home) {
        vicus_pool *made = nullptr;
        capi::check(vicus_pool_new(of, sizeof(T), alignof(T), frees_home, &made));
        own_.reset(made);
    }
    capi::handle<vicus_pool, vicus_pool_free> own_;
};

/** The node of the calling thread; -1 before the first runtime has started. */
inline std::int32_t here() noexcept {
    return vicus_here();
}
/** The node that an address of placed memory was asked to lie on; -1 if it is not placed. */
inline std::int32_t node_of(const void *address) noexcept {
    return vicus_node_of(address);
}

} // namespace vicus

#endif
