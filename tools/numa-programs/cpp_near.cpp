// Whether tasks of C++ run on the node of the parts of an array that they name: an array in equal parts on each node,
// used as a whole by tasks of a scope that touch their parts, and by tasks that follow each other.
#include "near.h"

#include <vicus.hpp>

namespace {

void run(const char *name, vicus::runtime &runtime, bool follows) {
    const std::size_t each = BYTES;
    vicus::array<char> all(runtime, VECTORS * each, "blocked");
    for (int at = 0; at < VECTORS; ++at) {
        vectors[at] = all.data() + at * each;
        std::memset(vectors[at], 1, each);
    }
    look_at_vectors();
    std::printf("%-8s near", name);
    for (int pass = 0; pass < PASSES; ++pass) {
        near_now = counted_now = 0;
        runtime.scope([&](vicus::scope_ref scope) {
            for (const int at : order) {
                const vicus::span<char> part(vectors[at], each);
                vicus::task said;
                follows ? said.updates(part) : said.touches(part);
                scope.spawn(said, [at] { use_vector(at); });
            }
        });
        count_pass(pass);
    }
    const int most = can_be_near(), nodes = nodes_with(&allowed);
    std::printf(" in turn, memory near %d of %d nodes, %d can be near at once\n", bests, nodes, most);
    if (bests < 2) {
        std::puts("not checked: all memory is near one node");
        return;
    }
    CHECK(counted_all * nodes * 2 >= VECTORS * (PASSES - LEARNING) * bests);
    CHECK(near_all * 4 * VECTORS >= counted_all * 3 * most);
}

} // namespace

int main() {
    allowed = own_cpus();
    vicus::runtime runtime;
    run("touches", runtime, false);
    run("updates", runtime, true);
    std::puts("ok");
}
