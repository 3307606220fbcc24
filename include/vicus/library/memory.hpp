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

/** How a matrix lies: what vicus_matrix_options says. */
class tiling {
public:
    /** Row behind row, in tiles of so many rows and columns; 0 leaves that to the library. */
    static tiling by_rows(std::size_t rows = 0, std::size_t columns = 0) {
        return tiling(VICUS_BY_ROWS, rows, columns);
    }
    /** Tile behind tile. */
    static tiling by_tiles(std::size_t rows, std::size_t columns) { return tiling(VICUS_BY_TILES, rows, columns); }

    tiling &segment_pages(std::size_t pages) { return said_.segment_pages = pages, *this; }
    /** One of `VICUS_PATTERN_`. */
    tiling &pattern(std::uint32_t pattern) { return said_.pattern = pattern, *this; }
    tiling &random(std::uint64_t seed) { return said_.seed = seed, pattern(VICUS_PATTERN_RANDOM); }
    /** All at a node or a core group. */
    tiling &at(place where) { return said_.place = where, pattern(VICUS_PATTERN_PLACE); }
    const vicus_matrix_options &get() const noexcept { return said_; }

private:
    tiling(std::uint32_t order, std::size_t rows, std::size_t columns) {
        said_.order = order;
        said_.tile_rows = rows;
        said_.tile_columns = columns;
    }
    vicus_matrix_options said_ = VICUS_MATRIX_OPTIONS_INIT;
};

/** A piece of a loop over matrices. */
using tile = vicus_tile;

/** A matrix in placed memory, zeroed, in tiles. `T` is plain bytes. With one column it is an array in blocks. */
template <class T>
class matrix {
    static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>,
        "its elements are plain bytes, zero at first");

public:
    matrix(std::size_t rows, std::size_t columns, const tiling &said = tiling::by_rows())
        : matrix(nullptr, rows, columns, said) {}
    matrix(const runtime &of, std::size_t rows, std::size_t columns, const tiling &said = tiling::by_rows())
        : matrix(of.get(), rows, columns, said) {}

    std::size_t rows() const noexcept { return rows_; }
    std::size_t columns() const noexcept { return columns_; }
    /** An element. There is such a row and such a column. */
    T &operator()(std::size_t row, std::size_t column) noexcept { return data_[index(row, column)]; }
    const T &operator()(std::size_t row, std::size_t column) const noexcept { return data_[index(row, column)]; }
    /** The elements of a row that lie one behind the other from a column on: up to the end of the row, or, by tiles,
     *  of the tile. */
    span<T> row(std::size_t row, std::size_t column = 0) { return found(row, column); }
    span<const T> row(std::size_t row, std::size_t column = 0) const {
        const span<T> all = found(row, column);
        return span<const T>(all.data(), all.size());
    }
    std::size_t tile_rows() const noexcept { return tile_rows_; }
    std::size_t tile_columns() const noexcept { return tile_columns_; }
    /** The node that an element was asked to lie on. */
    std::int32_t node_of(std::size_t row, std::size_t column) const noexcept {
        return vicus_node_of(data_ + index(row, column));
    }
    vicus_matrix *get() const noexcept { return own_.get(); }

private:
    matrix(vicus_runtime *of, std::size_t rows, std::size_t columns, const tiling &said)
        : rows_(rows), columns_(columns), is_by_tiles_(said.get().order == VICUS_BY_TILES) {
        static_assert(alignof(T) <= 4096, "elements lie from the beginning of a page on");
        init();
        vicus_matrix *made = nullptr;
        capi::check(vicus_matrix_new(of, rows, columns, sizeof(T), &said.get(), &made));
        own_.reset(made);
        data_ = static_cast<T *>(vicus_matrix_data(made));
        capi::check(vicus_matrix_tile(made, &tile_rows_, &tile_columns_));
    }
    std::size_t index(std::size_t row, std::size_t column) const noexcept {
        if (!is_by_tiles_) return row * columns_ + column;
        const std::size_t across = (columns_ + tile_columns_ - 1) / tile_columns_;
        const std::size_t number = row / tile_rows_ * across + column / tile_columns_;
        return (number * tile_rows_ + row % tile_rows_) * tile_columns_ + column % tile_columns_;
    }
    span<T> found(std::size_t row, std::size_t column) const {
        void *element = nullptr;
        std::size_t in_row = 0;
        capi::check(vicus_matrix_at(own_.get(), row, column, &element, &in_row));
        return span<T>(static_cast<T *>(element), in_row);
    }

    capi::handle<vicus_matrix, vicus_matrix_free> own_;
    T *data_ = nullptr;
    std::size_t rows_, columns_, tile_rows_ = 0, tile_columns_ = 0;
    bool is_by_tiles_;
};

/** How many rows and columns around each element a loop reads. */
struct reach {
    std::size_t rows = 0, columns = 0;
};

/** Runs `f(tile)` for each tile of the first matrix, near where most bytes of the tile's elements in all of them lie:
 *  see vicus_for_each_tile(). */
template <class F, class T, class... Others>
void for_each_tile(const runtime &on, reach around, F &&f, const matrix<T> &first, const matrix<Others> &...others) {
    const vicus_matrix *all[] = {first.get(), others.get()...};
    const vicus_tile_fn body = [](void *callable, const vicus_tile *piece) noexcept -> std::int32_t {
        return capi::guard([&] { (*static_cast<std::remove_reference_t<F> *>(callable))(*piece); });
    };
    capi::check(vicus_for_each_tile(on.get(), all, 1 + sizeof...(others), around.rows, around.columns, body,
        capi::address(f)));
}

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
    vicus_queue *get() const noexcept { return own_.get(); }

private:
    static void drop(void *element) { delete static_cast<T *>(element); }
    static std::optional<T> take(void *element) {
        std::unique_ptr<T> kept(static_cast<T *>(element));
        return std::optional<T>(std::move(*kept));
    }
    capi::handle<vicus_queue, vicus_queue_free> own_;
};

/** Keys and values as strings of bytes: plain bytes, or a `std::string`. Another type has a specialization of this. */
template <class T>
struct stored {
    static_assert(std::is_trivially_copyable_v<T>,
        "a key or a value is plain bytes, or a std::string, or has a vicus::stored of its own");
    static const void *data(const T &value) noexcept { return &value; }
    static std::size_t size(const T &) noexcept { return sizeof(T); }
    static T load(const void *bytes, std::size_t size) {
        if (size != sizeof(T)) throw std::length_error("a key or a value has another length than its type");
        alignas(T) unsigned char kept[sizeof(T)];
        std::memcpy(kept, bytes, sizeof(T));
        return *std::launder(reinterpret_cast<T *>(kept));
    }
};
template <>
struct stored<std::string> {
    static const void *data(const std::string &value) noexcept { return value.data(); }
    static std::size_t size(const std::string &value) noexcept { return value.size(); }
    static std::string load(const void *bytes, std::size_t size) {
        return std::string(static_cast<const char *>(bytes), size); }
};

/** What a job of MapReduce may take; see vicus_map_reduce. */
struct map_reduce_limits {
    /** 0 leaves it to the library, here and below. */
    std::uint32_t partitions = 0;
    std::size_t memory_bytes = 0;
    /** Where temporary files are made; nowhere if it is empty. */
    std::string folder = {};
};

/** MapReduce from one queue to another: `map(element, emit)` makes pairs of each element by `emit(key, value)`, and
 *  `reduce(key, values)` a result of each key; `values()` is the next value, and nothing behind the last one. Both
 *  queues have places, for the machine of the runtime. It ends when the input is closed and empty: see
 *  vicus_map_reduce_run(). Keys with the same bytes are the same. */
template <class Key, class Value>
class map_reduce_job {
public:
    /** Emits pairs. */
    class emitter {
    public:
        explicit emitter(vicus_emitter *to) noexcept : to_(to) {}
        void operator()(const Key &key, const Value &value) const {
            using k = stored<Key>;
            using v = stored<Value>;
            capi::check(vicus_emit(to_, k::data(key), k::size(key), v::data(value), v::size(value)));
        }

    private:
        vicus_emitter *to_;
    };
    /** Gives the values of a key. */
    class values {
    public:
        explicit values(vicus_values *from) noexcept : from_(from) {}
        std::optional<Value> operator()() const {
            const void *bytes = nullptr;
            std::size_t size = 0;
            std::int32_t found = 0;
            capi::check(vicus_values_next(from_, &bytes, &size, &found));
            if (!found) return std::nullopt;
            return stored<Value>::load(bytes, size);
        }

    private:
        vicus_values *from_;
    };

    explicit map_reduce_job(const runtime &on, map_reduce_limits limits = {}) : on_(on.get()),
        limits_(std::move(limits)) {}

    template <class In, class Map, class Reduce, class Out>
    void run(queue<In> &input, Map &&map, Reduce &&reduce, queue<Out> &output) const {
        run_with<In, Out>(input.get(), map, reduce, nullptr, output.get());
    }
    /** With `combine(value, value)`, which makes one value of two of the same key on their way. `Value` is plain
     *  bytes. */
    template <class In, class Map, class Combine, class Reduce, class Out>
    void run_combined(queue<In> &input, Map &&map, Combine &&combine, Reduce &&reduce, queue<Out> &output) const {
        static_assert(std::is_trivially_copyable_v<Value>, "values that are combined keep their length");
        run_with<In, Out>(input.get(), map, reduce, &combine, output.get());
    }

private:
    template <class In, class Out, class Map, class Reduce, class Combine>
    void run_with(vicus_queue *input, Map &map, Reduce &reduce, Combine *combine, vicus_queue *output) const {
        struct all {
            Map *map;
            Reduce *reduce;
            Combine *combine;
        } functions{&map, &reduce, combine};
        vicus_map_reduce job = VICUS_MAP_REDUCE_INIT;
        job.partitions = limits_.partitions;
        job.memory_bytes = limits_.memory_bytes;
        job.folder = limits_.folder.empty() ? nullptr : limits_.folder.c_str();
        job.data = &functions;
        job.map = [](void *data, void *element, vicus_emitter *to) noexcept -> std::int32_t {
            const std::unique_ptr<In> kept(static_cast<In *>(element));
            return capi::guard([&] { (*static_cast<all *>(data)->map)(std::move(*kept), emitter(to)); });
        };
        job.reduce = [](void *data, const void *key, std::size_t bytes, vicus_values *from,
            void **result) noexcept -> std::int32_t {
            return capi::guard([&] {
                *result = new Out((*static_cast<all *>(data)->reduce)(stored<Key>::load(key, bytes), values(from)));
            });
        };
        if constexpr (!std::is_same_v<Combine, std::nullptr_t>) {
            job.combine = [](void *data, void *value, std::size_t bytes, const void *next,
                std::size_t next_bytes) noexcept -> std::int32_t {
                return capi::guard([&] {
                    using v = stored<Value>;
                    const Value both = (*static_cast<all *>(data)->combine)(v::load(value, bytes), v::load(next,
                        next_bytes));
                    std::memcpy(value, v::data(both), bytes);
                });
            };
        }
        capi::check(vicus_map_reduce_run(on_, &job, input, output));
    }
    template <class In, class Out, class Map, class Reduce>
    void run_with(vicus_queue *input, Map &map, Reduce &reduce, std::nullptr_t, vicus_queue *output) const {
        run_with<In, Out>(input, map, reduce, static_cast<std::nullptr_t *>(nullptr), output);
    }

    vicus_runtime *on_;
    map_reduce_limits limits_;
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
