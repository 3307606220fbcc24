// Matrices and MapReduce by vicus.hpp. Arguments are a strategy and a number of threads.
#include <vicus.hpp>

#include <atomic>
#include <map>
#include <stdexcept>
#include <string>

#include "check.h"

// A product of two matrices, tile by tile of the result.
static void products(const vicus::runtime &runtime, const vicus::tiling &said) {
    const std::size_t rows = 90, inner = 70, columns = 110;
    vicus::matrix<double> a(runtime, rows, inner), b(runtime, inner, columns), c(runtime, rows, columns, said);
    CHECK(a.rows() == rows && a.columns() == inner && c(rows - 1, columns - 1) == 0 && a.tile_columns() == inner);
    for (std::size_t row = 0; row < rows; ++row)
        for (std::size_t at = 0; at < inner; ++at) a(row, at) = double(row + at);
    for (std::size_t at = 0; at < inner; ++at)
        for (std::size_t column = 0; column < columns; ++column) b(at, column) = double(at) - double(column);
    std::atomic<std::size_t> tiles{0};
    vicus::for_each_tile(
        runtime, {},
        [&](const vicus::tile &tile) {
            CHECK(tile.reads_row_begin == tile.row_begin && tile.reads_column_end == tile.column_end);
            for (std::size_t row = tile.row_begin; row < tile.row_end; ++row) {
                auto out = c.row(row, tile.column_begin);
                CHECK(out.size() >= tile.column_end - tile.column_begin);
                for (std::size_t column = tile.column_begin; column < tile.column_end; ++column)
                    for (std::size_t at = 0; at < inner; ++at) out[column - tile.column_begin] += a(row,
                        at) * b(at, column);
            }
            ++tiles;
        },
        c);
    CHECK(tiles == (rows + c.tile_rows() - 1) / c.tile_rows() * ((columns + c.tile_columns() - 1) / c.tile_columns()));
    for (std::size_t row = 0; row < rows; ++row) {
        for (std::size_t column = 0; column < columns; ++column) {
            double sum = 0;
            for (std::size_t at = 0; at < inner; ++at) sum += double(row + at) * (double(at) - double(column));
            CHECK(c(row, column) == sum);
        }
    }
    CHECK(c.node_of(rows - 1, columns - 1) >= -1);
    const vicus::matrix<double> &shown = c;
    CHECK(shown.row(3, 2)[0] == shown(3, 2));
    try {
        c.row(rows);
        CHECK(false);
    } catch (const vicus::error &error) {
        CHECK(error.status() == VICUS_ERROR_ARGUMENT);
    }
    try {
        vicus::for_each_tile(runtime, {1, 1}, [](const vicus::tile &) { throw std::out_of_range("a tile"); }, c);
        CHECK(false);
    } catch (const std::out_of_range &error) {
        CHECK(std::string(error.what()) == "a tile");
    }
    vicus::matrix<double> moved = std::move(c);
    CHECK(moved.get() != nullptr && moved.rows() == rows);
}

// Two matrices of unlike elements: a stencil of one, into the other.
static void stencils(const vicus::runtime &runtime) {
    vicus::matrix<float> from(runtime, 500, 40, vicus::tiling::by_tiles(16, 16).random(3).segment_pages(1));
    vicus::matrix<long> to(runtime, 500, 40, vicus::tiling::by_rows(50).at(vicus::node(0)));
    for (std::size_t row = 0; row < 500; ++row)
        for (std::size_t column = 0; column < 40; ++column) from(row, column) = float(row);
    vicus::for_each_tile(
        runtime, {2, 0},
        [&](const vicus::tile &tile) {
            for (std::size_t row = tile.row_begin; row < tile.row_end; ++row) {
                for (std::size_t column = tile.column_begin; column < tile.column_end; ++column) {
                    const std::size_t first = std::max(tile.reads_row_begin, row < 2 ? 0 : row - 2);
                    for (std::size_t near = first; near < std::min(tile.reads_row_end, row + 3); ++near) to(row,
                        column) += long(from(near, column));
                }
            }
        },
        from, to);
    CHECK(to(0, 0) == 3 && to(1, 39) == 6 && to(250, 7) == 1250 && to(499, 39) == 499 + 498 + 497);
}

struct occurrence {
    std::string word;
    long count;
};

static void words(const vicus::runtime &runtime, bool combines) {
    vicus::queue<std::string> lines(runtime.topology());
    vicus::queue<occurrence> counts(runtime.topology());
    for (int n = 0; n < 2000; ++n) lines.push("the n" + std::to_string(n % 50) + " the");
    lines.close();
    vicus::map_reduce_job<std::string, long> job(runtime, {4, std::size_t(1) << 20, "/tmp"});
    const auto split = [](const std::string &line, const auto &emit) {
        for (std::size_t at = 0; at < line.size();) {
            const std::size_t end = std::min(line.find(' ', at), line.size());
            emit(line.substr(at, end - at), 1);
            at = end + 1;
        }
    };
    const auto count = [](const std::string &word, const auto &values) {
        occurrence found{word, 0};
        while (const auto value = values()) found.count += *value;
        return found;
    };
    if (combines) job.run_combined(lines, split, [](long a, long b) { return a + b; }, count, counts);
    else job.run(lines, split, count, counts);
    std::map<std::string, long> found;
    while (auto next = counts.try_pop()) CHECK(found.emplace(next->word, next->count).second);
    CHECK(found.size() == 51 && found["the"] == 4000 && found["n7"] == 40);
}

static void wrong(const vicus::runtime &runtime) {
    vicus::queue<int> numbers(runtime.topology()), sums(runtime.topology());
    numbers.push(1);
    numbers.close();
    vicus::map_reduce_job<int, int> job(runtime);
    try {
        job.run(
            numbers, [](int, const auto &) { throw std::range_error("one"); }, [](int, const auto &) { return 0; },
                sums);
        CHECK(false);
    } catch (const std::range_error &error) {
        CHECK(std::string(error.what()) == "one");
    }
}

int main(int argc, char **argv) {
    CHECK(argc == 3);
    vicus::runtime runtime(vicus::options().strategy(argv[1]).set("threads", argv[2]).set("quiet", "yes"));
    products(runtime, vicus::tiling::by_rows());
    products(runtime, vicus::tiling::by_rows(8, 30));
    products(runtime, vicus::tiling::by_tiles(16, 32).pattern(VICUS_PATTERN_STRIPES).segment_pages(1));
    stencils(runtime);
    words(runtime, false);
    words(runtime, true);
    wrong(runtime);
    std::puts("ok");
}
