//! The C++ queues of `peers/` that could be built on this machine.

use std::ffi::c_void;

/// A C++ queue for one type of element: the functions of `transfer.hpp`.
#[derive(Clone, Copy)]
pub(crate) struct Peer {
    pub(crate) new: unsafe extern "C" fn() -> *mut c_void,
    pub(crate) delete: unsafe extern "C" fn(*mut c_void),
    pub(crate) produce: unsafe extern "C" fn(*mut c_void, u64),
    pub(crate) consume: unsafe extern "C" fn(*mut c_void, u64) -> u64,
}

#[cfg(any(moodycamel, tbb))]
macro_rules! peer {
    ($queue:ident, $new:ident, $delete:ident, $produce:ident, $consume:ident) => {
        #[expect(unsafe_code, reason = "C++ functions")]
        pub(crate) const $queue: Peer = {
            unsafe extern "C" {
                fn $new() -> *mut c_void;
                fn $delete(queue: *mut c_void);
                fn $produce(queue: *mut c_void, count: u64);
                fn $consume(queue: *mut c_void, count: u64) -> u64;
            }
            Peer { new: $new, delete: $delete, produce: $produce, consume: $consume }
        };
    };
}

#[cfg(moodycamel)]
#[rustfmt::skip]
mod moodycamel {
    use super::*;
    peer!(WORD, moodycamel_word_new, moodycamel_word_delete, moodycamel_word_produce, moodycamel_word_consume);
    peer!(BLOCK, moodycamel_block_new, moodycamel_block_delete, moodycamel_block_produce, moodycamel_block_consume);
    peer!(TOKENS_WORD, moodycamel_tokens_word_new, moodycamel_tokens_word_delete, moodycamel_tokens_word_produce,
        moodycamel_tokens_word_consume);
    peer!(TOKENS_BLOCK, moodycamel_tokens_block_new, moodycamel_tokens_block_delete, moodycamel_tokens_block_produce,
        moodycamel_tokens_block_consume);
}

#[cfg(tbb)]
#[rustfmt::skip]
mod tbb {
    use super::*;
    peer!(WORD, tbb_word_new, tbb_word_delete, tbb_word_produce, tbb_word_consume);
    peer!(BLOCK, tbb_block_new, tbb_block_delete, tbb_block_produce, tbb_block_consume);
}

/// The element type on the C++ side.
pub(crate) trait CppElement {
    #[cfg(moodycamel)]
    const MOODYCAMEL: [Peer; 2];
    #[cfg(tbb)]
    const TBB: Peer;
}

impl<const WORDS: usize> CppElement for [u64; WORDS] {
    #[cfg(moodycamel)]
    const MOODYCAMEL: [Peer; 2] = match WORDS {
        1 => [moodycamel::WORD, moodycamel::TOKENS_WORD],
        128 => [moodycamel::BLOCK, moodycamel::TOKENS_BLOCK],
        _ => panic!("the C++ side knows words and blocks of 1,024 bytes"),
    };
    #[cfg(tbb)]
    const TBB: Peer = match WORDS {
        1 => tbb::WORD,
        128 => tbb::BLOCK,
        _ => panic!("the C++ side knows words and blocks of 1,024 bytes"),
    };
}

/// The C++ queues for elements of this many words, by name, or the package to install.
pub(crate) fn all<const WORDS: usize>() -> Vec<(&'static str, Result<Peer, &'static str>)> {
    #[cfg(moodycamel)]
    let moodycamel = <[u64; WORDS]>::MOODYCAMEL.map(Ok);
    #[cfg(not(moodycamel))]
    let moodycamel = [Err("concurrentqueue.h (Debian: libconcurrentqueue-dev) and a C++ compiler"); 2];
    #[cfg(tbb)]
    let tbb = Ok(<[u64; WORDS]>::TBB);
    #[cfg(not(tbb))]
    let tbb = Err("tbb/concurrent_queue.h (Debian: libtbb-dev) and a C++ compiler");
    vec![("moodycamel", moodycamel[0]), ("moodycamel, tokens", moodycamel[1]), ("oneTBB concurrent_queue", tbb)]
}
