// What an installed header is for, in five lines; see include/tests/run.
#include <vicus/locality_queues.hpp>

int main() {
    vicus::domains where;
    vicus::locality_queues<int> queues(where.count());
    queues.push(where.current(), 42);
    return queues.take(where.current()) == 42 ? 0 : 1;
}
