// oneTBB's concurrent_queue.
#include PEER_HEADER
#include "transfer.hpp"

template <typename T> struct Tbb {
    using Queue = tbb::concurrent_queue<T>;
    struct Put {
        Queue &queue;
        explicit Put(Queue &queue) : queue(queue) {}
        void operator()(const T &value) { queue.push(value); }
    };
    struct Take {
        Queue &queue;
        explicit Take(Queue &queue) : queue(queue) {}
        bool operator()(T &value) { return queue.try_pop(value); }
    };
};

PEER(tbb_word, Tbb, Word)
PEER(tbb_block, Tbb, Block)
