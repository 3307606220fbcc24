// domains, held against folders that are laid out as Linux lays out /sys, and against this machine.
#include "check.hpp"

#include <vicus/locality_queues/domains.hpp>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#if defined(__linux__)
#include <sched.h>
#endif

namespace {

namespace fs = std::filesystem;

// A folder of files that is gone in the end.
class sysfs {
  public:
    sysfs() : root_((fs::temp_directory_path() / ("vicus-domains-" + std::to_string(std::random_device()()))).string()) {}
    ~sysfs() { fs::remove_all(root_); }
    const std::string &root() const { return root_; }

    void write(const std::string &path, const std::string &line) {
        const fs::path file = fs::path(root_) / "devices/system" / path;
        fs::create_directories(file.parent_path());
        std::ofstream(file) << line << '\n';
    }

  private:
    std::string root_;
};

void nodes_are_domains_in_the_order_of_their_numbers() {
    sysfs files;
    files.write("node/online", "0,2-3");
    files.write("node/node0/cpulist", "0-1,8-9");
    files.write("node/node2/cpulist", "2-3,10-11");
    files.write("node/node3/cpulist", "4");
    const vicus::domains found = vicus::domains::of_nodes(files.root());
    CHECK(found.count() == 3);
    for (std::size_t cpu : {0, 1, 8, 9}) {
        CHECK(found.of_cpu(cpu) == 0);
    }
    for (std::size_t cpu : {2, 3, 10, 11}) {
        CHECK(found.of_cpu(cpu) == 1);
    }
    CHECK(found.of_cpu(4) == 2);
    CHECK(found.of_node(0) == 0 && found.of_node(2) == 1 && found.of_node(3) == 2);
    // A node and CPUs that the files don't name.
    CHECK(!found.of_node(1) && !found.of_node(64) && found.of_cpu(5) == 0 && found.of_cpu(4096) == 0);
}

void a_node_without_cpus_belongs_to_the_nearest_domain() {
    sysfs files;
    files.write("node/online", "0-3");
    files.write("node/node0/cpulist", "0-3");
    files.write("node/node1/cpulist", "4-7");
    files.write("node/node2/cpulist", "");
    files.write("node/node3/cpulist", "");
    files.write("node/node2/distance", "17 14 10 28");
    files.write("node/node3/distance", "14 17 28 10");
    const vicus::domains found = vicus::domains::of_nodes(files.root());
    CHECK(found.count() == 2);
    CHECK(found.of_node(2) == 1 && found.of_node(3) == 0);
}

void groups_that_share_a_cache_are_domains() {
    sysfs files;
    files.write("cpu/online", "0-7");
    for (int cpu = 0; cpu < 8; ++cpu) {
        const std::string cache = "cpu/cpu" + std::to_string(cpu) + "/cache/";
        files.write(cache + "index0/level", "1");
        files.write(cache + "index0/shared_cpu_list", std::to_string(cpu));
        files.write(cache + "index1/level", "2");
        files.write(cache + "index1/shared_cpu_list", std::to_string(cpu % 4) + "," + std::to_string(cpu % 4 + 4));
        files.write(cache + "index2/level", "3");
        files.write(cache + "index2/shared_cpu_list", cpu % 4 < 2 ? "0-1,4-5" : "2-3,6-7");
    }
    const vicus::domains last = vicus::domains::of_caches(0, files.root());
    CHECK(last.count() == 2 && last.of_cpu(5) == 0 && last.of_cpu(3) == 1 && last.of_cpu(6) == 1);
    const vicus::domains second = vicus::domains::of_caches(2, files.root());
    CHECK(second.count() == 4 && second.of_cpu(6) == 2 && second.of_cpu(7) == 3);
    CHECK(vicus::domains::of_caches(4, files.root()).count() == 1);
    CHECK(!last.of_node(0));
}

void where_nothing_is_known_there_is_one_domain() {
    for (const char *root : {"/nowhere", "/dev/null"}) {
        CHECK(vicus::domains::of_nodes(root).count() == 1 && vicus::domains::of_caches(0, root).count() == 1);
    }
    sysfs files;
    for (const char *line : {"", "x", "3-", "-1", "99999999999999999999", "0-4294967295", "5-2"}) {
        files.write("node/online", line);
        files.write("node/node0/cpulist", line);
        files.write("cpu/online", line);
        CHECK(vicus::domains::of_nodes(files.root()).count() == 1);
        CHECK(vicus::domains::of_caches(0, files.root()).count() == 1);
    }
}

void a_table_of_the_callers() {
    const vicus::domains found({2, 0, vicus::domains::none, 1}, {1, 2});
    CHECK(found.count() == 3 && found.of_cpu(0) == 2 && found.of_cpu(2) == 0 && found.of_cpu(3) == 1);
    CHECK(found.of_node(1) == 2 && !found.of_node(2));
}

void this_machine_agrees_with_itself() {
    const vicus::domains nodes;
    const vicus::domains caches = vicus::domains::of_caches();
    std::printf("  %zu nodes with CPUs, %zu groups that share a last cache\n", nodes.count(), caches.count());
    CHECK(nodes.count() >= 1 && caches.count() >= 1);
#if defined(__linux__)
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) {
        return;
    }
    // A domain for each CPU, so that a pinned thread must be told its own.
    std::vector<std::size_t> table(CPU_SETSIZE);
    for (std::size_t cpu = 0; cpu < table.size(); ++cpu) {
        table[cpu] = cpu;
    }
    const vicus::domains each(table);
    std::thread([&] {
        for (std::size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
            if (!CPU_ISSET(cpu, &allowed)) {
                continue;
            }
            cpu_set_t one;
            CPU_ZERO(&one);
            CPU_SET(cpu, &one);
            CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
            CHECK(each.current() == cpu && nodes.current() == nodes.of_cpu(cpu) && caches() == caches.of_cpu(cpu));
            // Memory that this thread touches first lies on its node, unless that is full.
            std::vector<char> touched(1 << 20, 1);
            const std::optional<std::size_t> home = nodes.of_address(&touched[1 << 19]);
            CHECK(!home || *home < nodes.count());
        }
    }).join();
    CHECK(!caches.of_address(&table));
    CHECK(!nodes.of_address(nullptr));
#endif
}

} // namespace

int main() {
    test("nodes are domains in the order of their numbers", nodes_are_domains_in_the_order_of_their_numbers);
    test("a node without CPUs belongs to the nearest domain", a_node_without_cpus_belongs_to_the_nearest_domain);
    test("groups that share a cache are domains", groups_that_share_a_cache_are_domains);
    test("where nothing is known there is one domain", where_nothing_is_known_there_is_one_domain);
    test("a table of the caller's", a_table_of_the_callers);
    test("this machine agrees with itself", this_machine_agrees_with_itself);
}
