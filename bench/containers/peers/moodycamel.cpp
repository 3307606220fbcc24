// moodycamel::ConcurrentQueue, without tokens and with a token for each thread, which its author says is faster.
#include PEER_HEADER
#include "transfer.hpp"

template <typename T> struct Plain {
    using Queue = moodycamel::ConcurrentQueue<T>;
    struct Put {
        Queue &queue;
        explicit Put(Queue &queue) : queue(queue) {}
        void operator()(const T &value) { queue.enqueue(value); }
    };
    struct Take {
        Queue &queue;
        explicit Take(Queue &queue) : queue(queue) {}
        bool operator()(T &value) { return queue.try_dequeue(value); }
    };
};

template <typename T> struct Tokens {
    using Queue = moodycamel::ConcurrentQueue<T>;
    struct Put {
        Queue &queue;
        moodycamel::ProducerToken token;
        explicit Put(Queue &queue) : queue(queue), token(queue) {}
        void operator()(const T &value) { queue.enqueue(token, value); }
    };
    struct Take {
        Queue &queue;
        moodycamel::ConsumerToken token;
        explicit Take(Queue &queue) : queue(queue), token(queue) {}
        bool operator()(T &value) { return queue.try_dequeue(token, value); }
    };
};

PEER(moodycamel_word, Plain, Word)
PEER(moodycamel_block, Plain, Block)
PEER(moodycamel_tokens_word, Tokens, Word)
PEER(moodycamel_tokens_block, Tokens, Block)
