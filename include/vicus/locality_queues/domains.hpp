// Which locality domain a thread, a node or an address belongs to.
//
// A domain is a NUMA node that has CPUs, or a group of CPUs that share a cache. A table from CPU to domain is made once, of what
// Linux shows below /sys; then the domain of a thread is that of the CPU on which it runs now, which takes some ten nanoseconds and
// needs no pinning. A thread that is not pinned may move on at once: then its next block is far, and nothing else goes wrong.
// Where nothing is known, as on other systems, there is one domain.
//
// All functions that need no file may be called by any number of threads at the same time.
#ifndef VICUS_LOCALITY_QUEUES_DOMAINS_HPP
#define VICUS_LOCALITY_QUEUES_DOMAINS_HPP

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#if defined(__linux__)
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace vicus {

// A machine's domains, numbered from 0.
class domains {
  public:
    // The NUMA nodes of this machine that have CPUs.
    domains() : domains(of_nodes()) {}

    // Where a table has no domain.
    static constexpr std::size_t none = SIZE_MAX;

    // A table of the caller's: the domain of each CPU, by the system's number of the CPU; and, if domains are nodes, the domain of each
    // node, by the system's number of the node; `none` where there is none. The greatest domain says how many there are.
    explicit domains(std::vector<std::size_t> domain_of_cpu, std::vector<std::size_t> domain_of_node = {})
        : of_cpu_(std::move(domain_of_cpu)), of_node_(std::move(domain_of_node)) {
        for (const auto *table : {&of_cpu_, &of_node_}) {
            for (std::size_t domain : *table) {
                count_ = domain != none && domain >= count_ ? domain + 1 : count_;
            }
        }
    }

    // The NUMA nodes that have CPUs, in the order of their numbers, as the files below `sysfs` have them. A node without CPUs belongs
    // to the domain that is nearest to it by the system's distances.
    static domains of_nodes(const std::string &sysfs = "/sys");

    // The groups of CPUs that share a cache of this level (3 is mostly the last), or, with 0, the last level that each CPU has.
    static domains of_caches(unsigned level = 0, const std::string &sysfs = "/sys");

    [[nodiscard]] std::size_t count() const noexcept { return count_; }

    // The domain of a CPU, by the system's number; 0 for one that was not there when the table was made.
    [[nodiscard]] std::size_t of_cpu(std::size_t cpu) const noexcept {
        return cpu < of_cpu_.size() && of_cpu_[cpu] != none ? of_cpu_[cpu] : 0;
    }

    // The domain in which the calling thread runs at this moment.
    [[nodiscard]] std::size_t current() const noexcept {
#if defined(__linux__)
        const int cpu = count_ > 1 ? sched_getcpu() : -1;
        return cpu < 0 ? 0 : of_cpu(static_cast<std::size_t>(cpu));
#else
        return 0;
#endif
    }

    // `current()`, so that domains can be given where a function is asked for.
    std::size_t operator()() const noexcept { return current(); }

    // The domain of a node, by the system's number. Nothing if the node was not there, or if domains are not nodes.
    [[nodiscard]] std::optional<std::size_t> of_node(std::size_t node) const noexcept {
        return node < of_node_.size() && of_node_[node] != none ? std::optional<std::size_t>(of_node_[node]) : std::nullopt;
    }

    // The domain in whose memory an address lies: a block's home, after its memory was first written. Asks the kernel, which takes about a
    // microsecond. Nothing if no memory has been given to the address yet, if the kernel does not say, or if domains are not nodes.
    [[nodiscard]] std::optional<std::size_t> of_address(const void *address) const noexcept {
#if defined(__linux__) && defined(SYS_move_pages)
        // With no nodes to move to, the call only tells where pages are.
        void *page = const_cast<void *>(address);
        int node = -1;
        const long rc = syscall(SYS_move_pages, 0, 1UL, &page, nullptr, &node, 0);
        return rc == 0 && node >= 0 ? of_node(static_cast<std::size_t>(node)) : std::nullopt;
#else
        static_cast<void>(address);
        return std::nullopt;
#endif
    }

  private:
    std::size_t count_ = 1;
    std::vector<std::size_t> of_cpu_;
    std::vector<std::size_t> of_node_;
};

namespace detail {

// The first line of a file; empty if it can't be read.
inline std::string first_line(const std::string &path) {
    std::string line;
    if (std::FILE *file = std::fopen(path.c_str(), "r")) {
        for (int read = std::fgetc(file); read != EOF && read != '\n'; read = std::fgetc(file)) {
            line.push_back(static_cast<char>(read));
        }
        std::fclose(file);
    }
    return line;
}

// The numbers of a line such as `0-3,8`, or of one such as `10 21`; what follows something else is left out.
inline std::vector<std::size_t> numbers(const std::string &line) {
    // More than any machine has; a greater number is not one.
    constexpr unsigned long most = 1UL << 20;
    std::vector<std::size_t> found;
    const char *at = line.c_str();
    while (*at >= '0' && *at <= '9') {
        char *end = nullptr;
        const unsigned long first = std::strtoul(at, &end, 10);
        unsigned long last = first;
        if (*end == '-') {
            last = std::strtoul(end + 1, &end, 10);
        }
        if (first > most || last > most) {
            break;
        }
        for (unsigned long number = first; number <= last; ++number) {
            found.push_back(number);
        }
        at = end + (*end == ',' || *end == ' ');
    }
    return found;
}

inline void set(std::vector<std::size_t> &table, std::size_t at, std::size_t domain) {
    if (at >= table.size()) {
        table.resize(at + 1, domains::none);
    }
    table[at] = domain;
}

} // namespace detail

inline domains domains::of_nodes(const std::string &sysfs) {
    const std::string folder = sysfs + "/devices/system/node/";
    const std::vector<std::size_t> nodes = detail::numbers(detail::first_line(folder + "online"));
    std::vector<std::size_t> of_cpu;
    std::vector<std::size_t> of_node;
    const auto of = [&](std::size_t node, const char *file) {
        return detail::numbers(detail::first_line(folder + "node" + std::to_string(node) + file));
    };
    std::size_t count = 0;
    for (std::size_t node : nodes) {
        const std::vector<std::size_t> cpus = of(node, "/cpulist");
        detail::set(of_node, node, cpus.empty() ? none : count);
        for (std::size_t cpu : cpus) {
            detail::set(of_cpu, cpu, count);
        }
        count += !cpus.empty();
    }
    // A line of distances has one for each node, in the order of their numbers.
    const std::vector<std::size_t> with_cpus = of_node;
    for (std::size_t node : nodes) {
        const std::vector<std::size_t> distances = of(node, "/distance");
        std::size_t least = SIZE_MAX;
        for (std::size_t at = 0; with_cpus[node] == none && at < nodes.size() && at < distances.size(); ++at) {
            if (with_cpus[nodes[at]] != none && distances[at] < least) {
                least = distances[at];
                of_node[node] = with_cpus[nodes[at]];
            }
        }
    }
    return domains(std::move(of_cpu), std::move(of_node));
}

inline domains domains::of_caches(unsigned level, const std::string &sysfs) {
    const std::string folder = sysfs + "/devices/system/cpu/";
    std::vector<std::size_t> of_cpu;
    std::size_t count = 0;
    bool known = false;
    for (std::size_t cpu : detail::numbers(detail::first_line(folder + "online"))) {
        if (cpu < of_cpu.size() && of_cpu[cpu] != none) {
            continue;
        }
        std::vector<std::size_t> sharing;
        std::size_t best = 0;
        for (std::size_t index = 0;; ++index) {
            const std::string cache = folder + "cpu" + std::to_string(cpu) + "/cache/index" + std::to_string(index);
            const std::vector<std::size_t> found = detail::numbers(detail::first_line(cache + "/level"));
            if (found.empty()) {
                break;
            }
            if (level == 0 ? found[0] > best : found[0] == level) {
                best = found[0];
                sharing = detail::numbers(detail::first_line(cache + "/shared_cpu_list"));
            }
        }
        known = known || !sharing.empty();
        // A CPU without such a cache is a group of its own, where others have one.
        sharing.push_back(cpu);
        for (std::size_t other : sharing) {
            detail::set(of_cpu, other, count);
        }
        ++count;
    }
    return domains(known ? std::move(of_cpu) : std::vector<std::size_t>());
}

} // namespace vicus

#endif
