/**
 * @file arrow.hpp
 * Tables of vicus.hpp, which includes this: rows in Arrow's C data interface, read and made.
 */
#ifndef VICUS_LIBRARY_ARROW_HPP
#define VICUS_LIBRARY_ARROW_HPP

#include "tasks.hpp"

#include <initializer_list>
#include <string_view>

namespace vicus {

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
    /** The numbers of a column, whose type has to be `T`, or of dates (`std::int32_t`), timestamps and durations (`std::int64_t`); those of null
     * rows are anything. */
    template <class T>
    span<const T> numbers(std::size_t column) const {
        const std::string_view type = format(column);
        const bool is_time = format_of<T>() == "l" && (type.substr(0, 2) == "ts" || type.substr(0, 2) == "tD" || type == "ttu" || type == "ttn");
        const bool is_date = format_of<T>() == "i" && type == "tdD";
        if (type != format_of<T>() && !is_time && !is_date) throw error(VICUS_ERROR_SCHEMA, "column " + name(column) + " is of another type");
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


/** The types of columns, by Arrow's names. */
namespace column {
inline constexpr const char *boolean = "b", *i8 = "c", *u8 = "C", *i16 = "s", *u16 = "S", *i32 = "i", *u32 = "I", *i64 = "l", *u64 = "L", *f32 = "f",
                            *f64 = "g", *text = "u", *binary = "z", *date = "tdD", *timestamp_s = "tss:", *timestamp_ms = "tsm:",
                            *timestamp_us = "tsu:", *timestamp_ns = "tsn:", *duration_s = "tDs", *duration_ms = "tDm", *duration_us = "tDu",
                            *duration_ns = "tDn";
}

/** The columns of rows: names and types, `schema{{"n", column::u64}, {"name", column::text}}`. */
class schema {
public:
    struct field {
        std::string name;
        std::string format;
        bool nullable = false;
    };
    schema(std::initializer_list<field> fields = {}) : schema(std::vector<field>(fields)) {}
    explicit schema(std::vector<field> fields) : kept_(std::make_shared<kept>(std::move(fields))) {}
    /** As C has it; it belongs to this and its copies. */
    const ArrowSchema *get() const noexcept { return &kept_->top; }
    std::size_t columns() const noexcept { return kept_->fields.size(); }

private:
    struct kept {
        explicit kept(std::vector<field> all) : fields(std::move(all)), children(fields.size()) {
            for (std::size_t at = 0; at < fields.size(); ++at) {
                children[at].format = fields[at].format.c_str();
                children[at].name = fields[at].name.c_str();
                children[at].flags = fields[at].nullable ? ARROW_FLAG_NULLABLE : 0;
                children[at].release = ignore;
                pointers.push_back(&children[at]);
            }
            top.format = "+s";
            top.name = "";
            top.n_children = std::int64_t(children.size());
            top.children = pointers.data();
            top.release = ignore;
        }
        kept(const kept &) = delete;
        // It is lent, never given away.
        static void ignore(ArrowSchema *) {}
        std::vector<field> fields;
        std::vector<ArrowSchema> children;
        std::vector<ArrowSchema *> pointers;
        ArrowSchema top{};
    };
    std::shared_ptr<kept> kept_;
};

/** Rows to be sent: `table().add(std::vector<std::uint64_t>{1, 2, 3}).add(names)`. Numbers are moved, not copied. */
class table {
public:
    table() : kept_(std::make_unique<kept>()) {}
    /** A column of numbers. */
    template <class T>
    table &add(std::vector<T> values) {
        static_assert(std::is_arithmetic_v<T> && !std::is_same_v<T, bool>, "numbers, texts or truth values");
        const std::size_t rows = values.size();
        auto held = std::make_shared<std::vector<T>>(std::move(values));
        return add(rows, {nullptr, held->data()}, held);
    }
    /** A column of texts, which are copied. */
    table &add(const std::vector<std::string> &texts) {
        struct strings {
            std::vector<std::int32_t> ends{0};
            std::string bytes;
        };
        auto held = std::make_shared<strings>();
        for (const std::string &text : texts) {
            held->bytes += text;
            if (held->bytes.size() > INT32_MAX) throw error(VICUS_ERROR_ARGUMENT, "a column has more than 2 GiB of text");
            held->ends.push_back(std::int32_t(held->bytes.size()));
        }
        return add(texts.size(), {nullptr, held->ends.data(), held->bytes.data()}, held);
    }
    /** A column of truth values, which are copied. */
    table &add(const std::vector<bool> &values) {
        auto held = std::make_shared<std::vector<unsigned char>>((values.size() + 7) / 8);
        for (std::size_t at = 0; at < values.size(); ++at) {
            if (values[at]) (*held)[at / 8] = static_cast<unsigned char>((*held)[at / 8] | 1u << at % 8);
        }
        return add(values.size(), {nullptr, held->data()}, held);
    }
    /** The rows as C has them, for one owner; nothing is left here. */
    ArrowArray release() {
        ArrowArray top{};
        kept &own = *kept_;
        for (const auto &one : own.columns) own.pointers.push_back(one.get());
        top.length = std::int64_t(own.rows);
        top.n_buffers = 1;
        top.buffers = own.none;
        top.n_children = std::int64_t(own.pointers.size());
        top.children = own.pointers.data();
        top.private_data = kept_.release();
        top.release = [](ArrowArray *array) {
            auto *gone = static_cast<kept *>(array->private_data);
            for (std::int64_t at = 0; at < array->n_children; ++at) {
                // One that was moved out is released by its new owner.
                if (array->children[at]->release) array->children[at]->release(array->children[at]);
            }
            delete gone;
            array->release = nullptr;
        };
        return top;
    }

private:
    struct column {
        std::vector<const void *> buffers;
        std::shared_ptr<void> held;
    };
    struct kept {
        std::vector<std::unique_ptr<ArrowArray>> columns;
        std::vector<ArrowArray *> pointers;
        const void *none[1] = {nullptr};
        std::size_t rows = 0;
        ~kept() {
            for (auto &one : columns) {
                if (one->release) one->release(one.get());
            }
        }
    };
    table &add(std::size_t rows, std::vector<const void *> buffers, std::shared_ptr<void> held) {
        if (!kept_->columns.empty() && rows != kept_->rows) throw error(VICUS_ERROR_SCHEMA, "columns of a table have as many rows");
        auto *own = new column{std::move(buffers), std::move(held)};
        auto made = std::make_unique<ArrowArray>();
        *made = ArrowArray{};
        made->length = std::int64_t(rows);
        made->n_buffers = std::int64_t(own->buffers.size());
        made->buffers = own->buffers.data();
        made->private_data = own;
        made->release = [](ArrowArray *array) {
            delete static_cast<column *>(array->private_data);
            array->release = nullptr;
        };
        kept_->rows = rows;
        kept_->columns.push_back(std::move(made));
        return *this;
    }
    std::unique_ptr<kept> kept_;
};

} // namespace vicus

#endif
