// hwloc_domains, on machines that hwloc makes up and on this one.
#include "check.hpp"

#include <vicus/locality_queues/hwloc.hpp>

#include <cstddef>

namespace {

template <class Function> void on(const char *machine, Function &&function) {
    hwloc_topology_t topology = nullptr;
    CHECK(hwloc_topology_init(&topology) == 0);
    CHECK(hwloc_topology_set_synthetic(topology, machine) == 0);
    CHECK(hwloc_topology_load(topology) == 0);
    function(topology);
    hwloc_topology_destroy(topology);
}

void nodes_and_caches_are_domains() {
    on("package:2 [numa] l3:2 core:3 pu:2", [](hwloc_topology_t topology) {
        const vicus::domains nodes = vicus::hwloc_domains(topology);
        CHECK(nodes.count() == 2 && nodes.of_cpu(11) == 0 && nodes.of_cpu(12) == 1);
        CHECK(nodes.of_node(0) == 0 && nodes.of_node(1) == 1 && !nodes.of_node(2));
        const vicus::domains caches = vicus::hwloc_domains(topology, HWLOC_OBJ_L3CACHE);
        CHECK(caches.count() == 4 && caches.of_cpu(5) == 0 && caches.of_cpu(6) == 1 && caches.of_cpu(23) == 3);
        CHECK(!caches.of_node(0));
        CHECK(vicus::hwloc_domains(topology, HWLOC_OBJ_L4CACHE).count() == 1);
    });
}

void a_second_kind_of_memory_belongs_to_the_domain_of_its_cpus() {
    on("package:2 [numa] [numa(memory=1GB)] core:4 pu:1", [](hwloc_topology_t topology) {
        const vicus::domains nodes = vicus::hwloc_domains(topology);
        CHECK(nodes.count() == 2);
        for (std::size_t node = 0; node < 4; ++node) {
            CHECK(nodes.of_node(node).has_value());
        }
        CHECK(nodes.of_cpu(3) == 0 && nodes.of_cpu(4) == 1);
    });
}

void this_machine_is_as_linux_shows_it() {
    const vicus::domains found = vicus::hwloc_domains();
    CHECK(found.count() >= 1);
#if defined(__linux__)
    const vicus::domains linux_s;
    // Within a cgroup or with CPUs offline, hwloc may show fewer.
    CHECK(found.count() <= linux_s.count());
#endif
}

} // namespace

int main() {
    test("nodes and caches are domains", nodes_and_caches_are_domains);
    test("a second kind of memory belongs to the domain of its CPUs", a_second_kind_of_memory_belongs_to_the_domain_of_its_cpus);
    test("this machine is as Linux shows it", this_machine_is_as_linux_shows_it);
}
