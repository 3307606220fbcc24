// Locality domains as hwloc sees them: for machines whose system has no /sys, for topologies from XML, and for any kind of object.
//
// Needs hwloc 2.0 or newer: compile with `pkg-config --cflags --libs hwloc`. Nothing else of Vicus' headers includes this one.
#ifndef VICUS_LOCALITY_QUEUES_HWLOC_HPP
#define VICUS_LOCALITY_QUEUES_HWLOC_HPP

#include "domains.hpp"

#include <cstddef>
#include <utility>
#include <vector>

#include <hwloc.h>

namespace vicus {

// The objects of a type (`HWLOC_OBJ_NUMANODE`, `HWLOC_OBJ_L3CACHE`, `HWLOC_OBJ_PACKAGE`) that have CPUs, in hwloc's order; the topology
// must be loaded. CPUs of which several objects say that they are theirs belong to the first one, as those of a node with two kinds of
// memory do. `of_node` knows nothing of a node without CPUs. One domain if there is no such object.
inline domains hwloc_domains(hwloc_topology_t topology, hwloc_obj_type_t type = HWLOC_OBJ_NUMANODE) {
    std::vector<std::size_t> of_cpu;
    std::vector<std::size_t> of_node;
    std::size_t count = 0;
    for (hwloc_obj_t object = nullptr; (object = hwloc_get_next_obj_by_type(topology, type, object)) != nullptr;) {
        bool has_own = false;
        std::size_t domain = count;
        for (int cpu = hwloc_bitmap_first(object->cpuset); cpu >= 0; cpu = hwloc_bitmap_next(object->cpuset, cpu)) {
            const auto at = static_cast<std::size_t>(cpu);
            if (at < of_cpu.size() && of_cpu[at] != domains::none) {
                domain = of_cpu[at];
            } else {
                detail::set(of_cpu, at, count);
                has_own = true;
            }
        }
        if (type == HWLOC_OBJ_NUMANODE) {
            detail::set(of_node, object->os_index, has_own ? count : domain < count ? domain : domains::none);
        }
        count += has_own;
    }
    return domains(std::move(of_cpu), std::move(of_node));
}

// The same for this machine. One domain if hwloc can't look at it.
inline domains hwloc_domains(hwloc_obj_type_t type = HWLOC_OBJ_NUMANODE) {
    hwloc_topology_t topology = nullptr;
    if (hwloc_topology_init(&topology) != 0) {
        return domains(std::vector<std::size_t>());
    }
    domains found = hwloc_topology_load(topology) == 0 ? hwloc_domains(topology, type) : domains(std::vector<std::size_t>());
    hwloc_topology_destroy(topology);
    return found;
}

} // namespace vicus

#endif
