//! Atomic updates for which clang has no instruction of its own: under one lock each.

use super::Location;
use crate::exports::exports;
use crate::wait::Lock;

static ATOMIC: Lock = Lock::new();

exports! {
    "VERSION":
    fn __kmpc_atomic_start() {
        ATOMIC.lock();
    }

    "VERSION":
    fn __kmpc_atomic_end() {
        ATOMIC.unlock();
    }
}

macro_rules! updates {
    ($($type:ty: $($name:ident = |$left:ident, $right:ident| $value:expr),*;)*) => {
        exports! {$($(
            "VERSION":
            fn $name(_location: Location, _thread: i32, $left: *mut $type, $right: $type) {
                ATOMIC.with(|| unsafe {
                    let at = $left;
                    let $left = at.read_unaligned();
                    at.write_unaligned($value);
                });
            }
        )*)*}
    };
}

updates! {
    i8: __kmpc_atomic_fixed1_add = |a, b| a.wrapping_add(b), __kmpc_atomic_fixed1_sub = |a, b| a.wrapping_sub(b),
        __kmpc_atomic_fixed1_mul = |a, b| a.wrapping_mul(b), __kmpc_atomic_fixed1_div = |a, b| a / b,
        __kmpc_atomic_fixed1_andb = |a, b| a & b, __kmpc_atomic_fixed1_orb = |a, b| a | b,
        __kmpc_atomic_fixed1_xor = |a, b| a ^ b, __kmpc_atomic_fixed1_min = |a, b| a.min(b),
        __kmpc_atomic_fixed1_max = |a, b| a.max(b);
    i16: __kmpc_atomic_fixed2_add = |a, b| a.wrapping_add(b), __kmpc_atomic_fixed2_sub = |a, b| a.wrapping_sub(b),
        __kmpc_atomic_fixed2_mul = |a, b| a.wrapping_mul(b), __kmpc_atomic_fixed2_div = |a, b| a / b,
        __kmpc_atomic_fixed2_andb = |a, b| a & b, __kmpc_atomic_fixed2_orb = |a, b| a | b,
        __kmpc_atomic_fixed2_xor = |a, b| a ^ b, __kmpc_atomic_fixed2_min = |a, b| a.min(b),
        __kmpc_atomic_fixed2_max = |a, b| a.max(b);
    i32: __kmpc_atomic_fixed4_add = |a, b| a.wrapping_add(b), __kmpc_atomic_fixed4_sub = |a, b| a.wrapping_sub(b),
        __kmpc_atomic_fixed4_mul = |a, b| a.wrapping_mul(b), __kmpc_atomic_fixed4_div = |a, b| a / b,
        __kmpc_atomic_fixed4_andb = |a, b| a & b, __kmpc_atomic_fixed4_orb = |a, b| a | b,
        __kmpc_atomic_fixed4_xor = |a, b| a ^ b, __kmpc_atomic_fixed4_min = |a, b| a.min(b),
        __kmpc_atomic_fixed4_max = |a, b| a.max(b);
    i64: __kmpc_atomic_fixed8_add = |a, b| a.wrapping_add(b), __kmpc_atomic_fixed8_sub = |a, b| a.wrapping_sub(b),
        __kmpc_atomic_fixed8_mul = |a, b| a.wrapping_mul(b), __kmpc_atomic_fixed8_div = |a, b| a / b,
        __kmpc_atomic_fixed8_andb = |a, b| a & b, __kmpc_atomic_fixed8_orb = |a, b| a | b,
        __kmpc_atomic_fixed8_xor = |a, b| a ^ b, __kmpc_atomic_fixed8_min = |a, b| a.min(b),
        __kmpc_atomic_fixed8_max = |a, b| a.max(b);
    f32: __kmpc_atomic_float4_add = |a, b| a + b, __kmpc_atomic_float4_sub = |a, b| a - b,
        __kmpc_atomic_float4_mul = |a, b| a * b, __kmpc_atomic_float4_div = |a, b| a / b,
        __kmpc_atomic_float4_min = |a, b| a.min(b), __kmpc_atomic_float4_max = |a, b| a.max(b);
    f64: __kmpc_atomic_float8_add = |a, b| a + b, __kmpc_atomic_float8_sub = |a, b| a - b,
        __kmpc_atomic_float8_mul = |a, b| a * b, __kmpc_atomic_float8_div = |a, b| a / b,
        __kmpc_atomic_float8_min = |a, b| a.min(b), __kmpc_atomic_float8_max = |a, b| a.max(b);
}
