#include "options.hpp"

#include <cstdio>
#include <cstdlib>

namespace {

#if defined(JACOBI3D_TBB)
constexpr bool has_tbb = true;
#else
constexpr bool has_tbb = false;
#endif
#if defined(JACOBI3D_VICUS)
constexpr bool has_vicus = true;
#else
constexpr bool has_vicus = false;
#endif

constexpr const char *help_before_columns = R"(Usage: jacobi3d [OPTION...]

Six-point Jacobi sweeps over a grid of doubles, block by block, with each way to deal blocks to threads that Wittmann and Hager compare
("Optimizing ccNUMA locality for task-parallel execution under OpenMP and TBB on multicore-based systems", 2010). All ways run in turn in
each round, the first round is not counted, and each grid is compared bit for bit with that of one thread.

  --sites IxJxK      sites of a grid with its border, slowest dimension first (60x600x600; the paper has 2400x600x600)
  --block IxJ        sites of a block in the two slower dimensions; it spans the fastest (10x10, as in the paper)
  --sweeps N         sweeps in each run (4)
  --repeats N        runs of each column, whose median counts (5)
  --threads N        threads (one for each CPU that this process may use)
  --domains N        pretend that there are N locality domains: thread i of T belongs to domain i * N / T. By default the machine's
                     NUMA nodes, and a thread's domain is that of the CPU on which it runs
  --columns LIST     which columns, separated by commas (all); see below
  --init LIST        for tasks and queues under OpenMP, and for Vicus' own runtime, who touches the grids first: static (loop in equal parts), static1 (loop block by
                     block in turn), serial (one thread) or interleaved (pages dealt to nodes in turn, as by `numactl -i`); each is a
                     line of its own (static,static1). With serial and interleaved, there is also a loop-static over such grids: the
                     paper's two lower lines
  --no-pin           lets threads move; by default thread i stays on the i-th CPU that may be used, under OpenMP and TBB;
                     Vicus' own threads stay where their strategy has put them
  --streaming        writes past the caches with non-temporal stores, where the processor has SSE2
  --huge-pages       lets the system use huge pages, of which each holds many blocks; by default pages are small, as in the paper
  --no-verify        does not compare grids
  --help             this text

Columns:
)";

constexpr const char *help_after_columns = R"(
The table: `ms` is the median time of all sweeps of a run, with its quartiles; `MLUP/s` are millions of updated sites per second of the
median; `ratio` compares them with the first line; `own` says how many blocks ran in the domain in which they were touched first.
Threads of one runtime may still spin when the other's column begins, so there is a pause between OpenMP and TBB; with OMP_WAIT_POLICY=passive
they don't.
)";

[[noreturn]] void misuse(const std::string &what) {
    std::fprintf(stderr, "jacobi3d: %s; see jacobi3d --help\n", what.c_str());
    std::exit(2);
}

// A whole number from `least` to `most`.
std::size_t number(const std::string &option, const std::string &text, std::size_t least, std::size_t most) {
    const bool is_number = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos && text.size() <= 12;
    const std::size_t value = is_number ? std::strtoull(text.c_str(), nullptr, 10) : 0;
    if (!is_number || value < least || value > most) {
        misuse(option + " takes whole numbers from " + std::to_string(least) + " to " + std::to_string(most) + ", not `" + text + "`");
    }
    return value;
}

std::vector<std::string> split(const std::string &text, char separator) {
    std::vector<std::string> parts(1);
    for (char read : text) {
        if (read == separator) {
            parts.emplace_back();
        } else {
            parts.back().push_back(read);
        }
    }
    return parts;
}

void extents(const std::string &option, const std::string &text, std::size_t *to, std::size_t count, std::size_t least) {
    const std::vector<std::string> parts = split(text, 'x');
    if (parts.size() != count) {
        misuse(option + " takes " + std::to_string(count) + " numbers with x between them, not `" + text + "`");
    }
    for (std::size_t at = 0; at < count; ++at) {
        to[at] = number(option, parts[at], least, 100000);
    }
}

// The values of a list of names.
template <class Names, class Value> void named(const std::string &option, const std::string &text, const Names &names, std::vector<Value> &to) {
    to.clear();
    for (const std::string &part : split(text, ',')) {
        bool found = false;
        std::string all;
        for (const auto &name : names) {
            all += (all.empty() ? "" : ", ") + std::string(name.name);
            if (part == name.name) {
                to.push_back(name.value);
                found = true;
            }
        }
        if (!found) {
            misuse(option + " knows no `" + part + "`; there are: " + all);
        }
    }
}

void help() {
    std::fputs(help_before_columns, stdout);
    for (const way_name &column : ways) {
        std::printf("  %-18s %s\n", column.name, column.what);
    }
    std::fputs(help_after_columns, stdout);
}

} // namespace

void fail(const std::string &what) {
    std::fprintf(stderr, "jacobi3d: %s\n", what.c_str());
    std::exit(1);
}

options parse(int count, char **words) {
    options wanted;
    bool all_columns = true;
    for (int at = 1; at < count; ++at) {
        std::string option = words[at];
        if (option == "--help" || option == "-h") {
            help();
            std::exit(0);
        } else if (option == "--no-pin") {
            wanted.pin = false;
        } else if (option == "--streaming") {
            wanted.streaming = true;
        } else if (option == "--huge-pages") {
            wanted.huge_pages = true;
        } else if (option == "--no-verify") {
            wanted.verify = false;
        } else {
            bool takes_value = false;
            std::string value;
            const std::size_t equals = option.find('=');
            if (equals != std::string::npos) {
                value = option.substr(equals + 1);
                option.resize(equals);
            }
            for (const char *known : {"--sites", "--block", "--sweeps", "--repeats", "--threads", "--domains", "--columns", "--init"}) {
                takes_value = takes_value || option == known;
            }
            if (!takes_value) {
                misuse("there is no option `" + option + "`");
            }
            if (equals == std::string::npos) {
                if (at + 1 == count) {
                    misuse(option + " takes a value");
                }
                value = words[++at];
            }
            if (option == "--sites") {
                extents(option, value, wanted.sites, 3, 3);
            } else if (option == "--block") {
                extents(option, value, wanted.block, 2, 1);
            } else if (option == "--sweeps") {
                wanted.sweeps = static_cast<int>(number(option, value, 1, 100000));
            } else if (option == "--repeats") {
                wanted.repeats = static_cast<int>(number(option, value, 1, 100000));
            } else if (option == "--threads") {
                wanted.threads = static_cast<int>(number(option, value, 1, 4096));
            } else if (option == "--domains") {
                wanted.domains = number(option, value, 1, 4096);
            } else if (option == "--columns") {
                named(option, value, ways, wanted.columns);
                all_columns = false;
            } else {
                named(option, value, touches, wanted.first_touch);
            }
        }
    }
    for (const way_name &column : ways) {
        const bool is_there = column.threads == whose::openmp || (column.threads == whose::tbb && has_tbb) || (column.threads == whose::vicus && has_vicus);
        const char *const missing = column.threads == whose::tbb
                                        ? "oneTBB, which was not there when this program was compiled (Debian: libtbb-dev; then `make clean all`)"
                                        : "libvicus, which was not there when this program was compiled (`./dev install --prefix DIR`, then `make "
                                          "clean all VICUS=DIR/include`)";
        for (way named_column : wanted.columns) {
            if (named_column == column.value && !is_there) {
                misuse(std::string("the column `") + column.name + "` needs " + missing);
            }
        }
        if (all_columns && is_there) {
            wanted.columns.push_back(column.value);
        }
    }
    return wanted;
}
