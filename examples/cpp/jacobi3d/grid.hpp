// The two grids, their blocks, and the sweep of one block.
#pragma once

#include "options.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include <sys/mman.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

// Memory that no thread has touched.
class untouched {
  public:
    untouched(std::size_t count, bool huge_pages) : bytes_(count * sizeof(double)) {
        void *at = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (at == MAP_FAILED) {
            fail("the system gives no " + std::to_string(bytes_ >> 20) + " MiB for a grid; choose fewer --sites");
        }
        at_ = static_cast<double *>(at);
#if defined(MADV_NOHUGEPAGE)
        if (!huge_pages) {
            // It fails only where there are no huge pages anyway.
            static_cast<void>(madvise(at, bytes_, MADV_NOHUGEPAGE));
        }
#else
        static_cast<void>(huge_pages);
#endif
    }
    ~untouched() { munmap(at_, bytes_); }
    untouched(const untouched &) = delete;
    untouched &operator=(const untouched &) = delete;

    // Has the system deal pages to the nodes of the calling thread in turn. False if it doesn't.
    bool interleave() {
#if defined(SYS_mbind) && defined(SYS_get_mempolicy)
        // As in <numaif.h>, which is libnuma's: MPOL_INTERLEAVE, and MPOL_F_MEMS_ALLOWED.
        unsigned long nodes[64] = {};
        return syscall(SYS_get_mempolicy, nullptr, nodes, sizeof nodes * 8, nullptr, 4) == 0 &&
               syscall(SYS_mbind, at_, bytes_, 3, nodes, sizeof nodes * 8, 0) == 0;
#else
        return false;
#endif
    }

    double *data() const { return at_; }
    bool equals(const untouched &other) const { return bytes_ == other.bytes_ && std::memcmp(at_, other.at_, bytes_) == 0; }

  private:
    std::size_t bytes_;
    double *at_ = nullptr;
};

struct range {
    std::size_t first, last;
    bool empty() const { return first >= last; }
};

// Computes a row: the sum of six neighbours times a sixth, in this order of additions; its two border sites stay as they were.
[[gnu::noinline]] inline void relax(double *__restrict to, const double *row, const double *before, const double *behind, const double *above,
                                    const double *below, std::size_t count) {
    to[0] = row[0];
    for (std::size_t k = 1; k + 1 < count; ++k) {
        to[k] = (before[k] + behind[k] + above[k] + below[k] + row[k - 1] + row[k + 1]) * (1.0 / 6.0);
    }
    to[count - 1] = row[count - 1];
}

// Copies with non-temporal stores, where the processor has them.
inline void stream(double *to, const double *from, std::size_t count) {
#if defined(__SSE2__)
    for (; count > 0 && reinterpret_cast<std::uintptr_t>(to) % 16 != 0; --count) {
        *to++ = *from++;
    }
    for (; count > 1; count -= 2, to += 2, from += 2) {
        _mm_stream_pd(to, _mm_loadu_pd(from));
    }
#endif
    std::copy(from, from + count, to);
}

// A grid's shape, cut into blocks that are numbered layer by layer, in the order ijk.
class shape {
  public:
    explicit shape(const options &wanted) : wanted_(wanted) {
        for (int at = 0; at < 2; ++at) {
            blocks_[at] = (wanted.sites[at] + wanted.block[at] - 1) / wanted.block[at];
        }
    }

    std::size_t sites() const { return wanted_.sites[0] * wanted_.sites[1] * wanted_.sites[2]; }
    std::size_t updated_sites() const { return (wanted_.sites[0] - 2) * (wanted_.sites[1] - 2) * (wanted_.sites[2] - 2); }
    std::size_t slow_blocks() const { return blocks_[0]; }
    std::size_t middle_blocks() const { return blocks_[1]; }
    std::size_t blocks() const { return blocks_[0] * blocks_[1]; }

    // The blocks in the order in which they are submitted.
    std::vector<std::size_t> order(bool kji) const {
        std::vector<std::size_t> numbers(blocks());
        for (std::size_t nth = 0; nth < numbers.size(); ++nth) {
            numbers[nth] = kji ? nth % blocks_[0] * blocks_[1] + nth / blocks_[0] : nth;
        }
        return numbers;
    }

    // Writes a block's initial values to both grids.
    void touch(double *one, double *other, std::size_t block) const {
        const auto [is, js] = part(block);
        for (std::size_t i = is.first; i < is.last; ++i) {
            for (std::size_t j = js.first; j < js.last; ++j) {
                for (std::size_t k = 0; k < wanted_.sites[2]; ++k) {
                    one[row(i, j) + k] = other[row(i, j) + k] = static_cast<double>((i * 31 + j * 17 + k * 5 + i * j) % 64);
                }
            }
        }
    }

    // The index of a block's first site.
    std::size_t first_site(std::size_t block) const {
        const auto [is, js] = part(block);
        return row(is.first, js.first);
    }

    // Computes a block of `to`. Blocks of a sweep may be computed at the same time.
    void sweep(const double *from, double *to, std::size_t block) const {
        auto [is, js] = part(block);
        is = {std::max<std::size_t>(is.first, 1), std::min(is.last, wanted_.sites[0] - 1)};
        js = {std::max<std::size_t>(js.first, 1), std::min(js.last, wanted_.sites[1] - 1)};
        const std::size_t count = wanted_.sites[2];
        std::vector<double> past(wanted_.streaming ? count : 0);
        for (std::size_t i = is.first; i < is.last; ++i) {
            for (std::size_t j = js.first; j < js.last; ++j) {
                double *const target = to + row(i, j);
                relax(wanted_.streaming ? past.data() : target, from + row(i, j), from + row(i - 1, j), from + row(i + 1, j),
                      from + row(i, j - 1), from + row(i, j + 1), count);
                if (wanted_.streaming) {
                    stream(target, past.data(), count);
                }
            }
        }
#if defined(__SSE2__)
        if (wanted_.streaming) {
            // Whoever waits for this block sees what was streamed.
            _mm_sfence();
        }
#endif
    }

  private:
    struct part_of_layers {
        range slow, middle;
    };

    part_of_layers part(std::size_t block) const {
        const std::size_t at[2] = {block / blocks_[1], block % blocks_[1]};
        const auto of = [&](int dimension) {
            const std::size_t first = at[dimension] * wanted_.block[dimension];
            return range{first, std::min(first + wanted_.block[dimension], wanted_.sites[dimension])};
        };
        return {of(0), of(1)};
    }

    std::size_t row(std::size_t i, std::size_t j) const { return (i * wanted_.sites[1] + j) * wanted_.sites[2]; }

    const options &wanted_;
    std::size_t blocks_[2];
};
