/**
 * @file queries.hpp
 * Data, queries and updates of vicus.hpp, which includes this.
 */
#ifndef VICUS_LIBRARY_QUERIES_HPP
#define VICUS_LIBRARY_QUERIES_HPP

#include "arrow.hpp"

namespace vicus {

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

/** Cancels the queries that were given it, from any thread. Copies cancel the same ones. */
class cancel {
public:
    cancel() {
        vicus_cancel *made = nullptr;
        capi::check(vicus_cancel_new(&made));
        own_ = std::shared_ptr<vicus_cancel>(made, vicus_cancel_free);
    }
    void all() const noexcept { vicus_cancel_all(own_.get()); }
    const vicus_cancel *get() const noexcept { return own_.get(); }

private:
    std::shared_ptr<vicus_cancel> own_;
};

/** What may be said of a query; a text and limits of 0 are none. */
struct query_options {
    bool sql = false;
    bool any_order = false;
    std::uint64_t timeout_ms = 0, memory_bytes = 0, most_rows = 0, first_rows = 0;
    std::string base;
    std::optional<cancel> by;

    vicus_query_options get() const noexcept {
        vicus_query_options said = VICUS_QUERY_OPTIONS_INIT;
        said.language = sql ? VICUS_LANGUAGE_SQL : VICUS_LANGUAGE_SPARQL;
        said.timeout_ms = timeout_ms;
        said.memory_bytes = memory_bytes;
        said.most_rows = most_rows;
        said.first_rows = first_rows;
        said.base = base.empty() ? nullptr : base.c_str();
        said.cancel = by ? by->get() : nullptr;
        said.flags = any_order ? VICUS_QUERY_ANY_ORDER : 0;
        return said;
    }
};

/** A query that is parsed and planned for the data as it was then. */
class prepared {
public:
    explicit prepared(vicus_prepared *own) noexcept : own_(own) {}
    /** Begins to answer it. */
    stream query() const {
        ArrowArrayStream begun{};
        capi::check(vicus_prepared_query(own_.get(), &begun));
        return stream(begun);
    }

private:
    capi::handle<vicus_prepared, vicus_prepared_free> own_;
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
    /** Adds files, all of them or none; to the default graph, or to a graph by its IRI. */
    void add(const std::vector<std::string> &paths, const char *graph = nullptr, const char *syntax = nullptr) {
        std::vector<const char *> names;
        for (const std::string &path : paths) names.push_back(path.c_str());
        capi::check(vicus_data_add(own_.get(), names.data(), names.size(), syntax, graph));
    }
    /** A table in a file, for queries in SQL. */
    void add_table(const std::string &name, const std::string &path) { capi::check(vicus_data_add_table(own_.get(), name.c_str(), path.c_str())); }
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
    /** A query that is to be asked several times. */
    prepared prepare(const std::string &text, const query_options &said = {}) const {
        vicus_prepared *made = nullptr;
        const vicus_query_options options = said.get();
        capi::check(vicus_prepare(own_.get(), text.c_str(), &options, &made));
        return prepared(made);
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
