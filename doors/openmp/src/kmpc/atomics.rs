//! Atomic updates that a compiler leaves to the library, mostly for lack of an instruction: by an exchange of the whole
//! value, so they are atomic beside a compiler's own updates. Complex numbers, and numbers across the borders of words,
//! are changed under one lock.

use super::Location;
use crate::exports::exports;
use crate::wait::Lock;
use std::sync::atomic::{
    AtomicI8, AtomicI16, AtomicI32, AtomicI64, AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering,
};

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

/// A number changed as a whole.
trait Number: Copy {
    /// Changes it. Returns the values before and after.
    ///
    /// # Safety
    /// `at` is a variable of this type, which need not be aligned. All other threads use it by these functions, or by
    /// atomic instructions.
    unsafe fn change(at: *mut Self, f: impl Fn(Self) -> Self) -> (Self, Self);
}

/// Changes the value under the lock.
///
/// # Safety
/// `at` is a variable of this type, which need not be aligned. All other threads use it under the lock.
pub(super) unsafe fn alone<T: Copy>(at: *mut T, f: impl Fn(T) -> T) -> (T, T) {
    // SAFETY: the caller's promise: a variable of this type, which all others change under this lock as well.
    ATOMIC.with(|| unsafe {
        let before = at.read_unaligned();
        let now = f(before);
        at.write_unaligned(now);
        (before, now)
    })
}

macro_rules! numbers {
    ($($number:ty, $atomic:ty, $to:expr, $from:expr;)*) => {$(
        impl Number for $number {
            unsafe fn change(at: *mut $number, f: impl Fn($number) -> $number) -> ($number, $number) {
                if !at.is_aligned() {
                    // SAFETY: the caller's promise.
                    return unsafe { alone(at, f) };
                }
                // SAFETY: the caller's promise: a variable of this type, changed atomically alone; it is aligned.
                let word = unsafe { <$atomic>::from_ptr(at.cast()) };
                let mut before = word.load(Ordering::Relaxed);
                loop {
                    let now = $to(f($from(before)));
                    match word.compare_exchange_weak(before, now, Ordering::SeqCst, Ordering::Relaxed) {
                        Ok(_) => return ($from(before), $from(now)),
                        Err(other) => before = other,
                    }
                }
            }
        }
    )*};
}

use std::convert::identity as same;

numbers! {
    i8, AtomicI8, same, same;
    u8, AtomicU8, same, same;
    i16, AtomicI16, same, same;
    u16, AtomicU16, same, same;
    i32, AtomicI32, same, same;
    u32, AtomicU32, same, same;
    i64, AtomicI64, same, same;
    u64, AtomicU64, same, same;
    f32, AtomicU32, f32::to_bits, f32::from_bits;
    f64, AtomicU64, f64::to_bits, f64::from_bits;
}

/// A complex number of C.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Complex<T>(T, T);

macro_rules! complex {
    ($($part:ty),*) => {$(
        impl Number for Complex<$part> {
            unsafe fn change(at: *mut Self, f: impl Fn(Self) -> Self) -> (Self, Self) {
                // SAFETY: the caller's promise.
                unsafe { alone(at, f) }
            }
        }

        impl Complex<$part> {
            fn add(self, other: Self) -> Self {
                Complex(self.0 + other.0, self.1 + other.1)
            }

            fn sub(self, other: Self) -> Self {
                Complex(self.0 - other.0, self.1 - other.1)
            }

            fn mul(self, other: Self) -> Self {
                Complex(self.0 * other.0 - self.1 * other.1, self.0 * other.1 + self.1 * other.0)
            }

            fn div(self, other: Self) -> Self {
                let size = other.0 * other.0 + other.1 * other.1;
                Complex((self.0 * other.0 + self.1 * other.1) / size, (self.1 * other.0 - self.0 * other.1) / size)
            }
        }
    )*};
}

complex!(f32, f64);

/// Functions that change a variable by a value: `__kmpc_atomic_`, the type's name, `_` and the operation's name. The
/// variants with a name ending in `_cpt` also return the value before or after.
macro_rules! updates {
    ($($type:ty, $name:literal:
        $($operation:literal $capture:literal => |$left:ident, $right:ident| $value:expr),* $(,)?;)*) => {
        $($(const _: () = {
            #[unsafe(export_name = concat!("vicus___kmpc_atomic_", $name, "_", $operation))]
            unsafe extern "C-unwind" fn update(_location: Location, _thread: i32, at: *mut $type, $right: $type) {
                // SAFETY: rule "Interface": a variable of this type, changed by atomic updates alone.
                unsafe { <$type as Number>::change(at, |$left| $value) };
            }

            #[unsafe(export_name = concat!("vicus___kmpc_atomic_", $name, "_", $capture))]
            unsafe extern "C-unwind" fn capture(
                _location: Location, _thread: i32, at: *mut $type, $right: $type, is_new: i32,
            ) -> $type {
                // SAFETY: rule "Interface": a variable of this type, changed by atomic updates alone.
                let (before, now) = unsafe { <$type as Number>::change(at, |$left| $value) };
                if is_new != 0 { now } else { before }
            }

        };
        core::arch::global_asm!(
                concat!(".symver vicus___kmpc_atomic_", $name, "_", $operation, ", __kmpc_atomic_", $name, "_",
                    $operation, "@@VERSION"),
                concat!(".symver vicus___kmpc_atomic_", $name, "_", $capture, ", __kmpc_atomic_", $name, "_", $capture,
                    "@@VERSION"),
        );)*)*
    };
}

/// Functions to read a variable, write it, or do both.
macro_rules! accesses {
    ($($type:ty, $name:literal;)*) => {
        $(const _: () = {
            #[unsafe(export_name = concat!("vicus___kmpc_atomic_", $name, "_rd"))]
            unsafe extern "C-unwind" fn read(_location: Location, _thread: i32, at: *mut $type) -> $type {
                // SAFETY: rule "Interface": a variable of this type, changed by atomic updates alone.
                unsafe { <$type as Number>::change(at, same).0 }
            }

            #[unsafe(export_name = concat!("vicus___kmpc_atomic_", $name, "_wr"))]
            unsafe extern "C-unwind" fn write(_location: Location, _thread: i32, at: *mut $type, value: $type) {
                // SAFETY: rule "Interface": a variable of this type, changed by atomic updates alone.
                unsafe { <$type as Number>::change(at, |_| value) };
            }

            #[unsafe(export_name = concat!("vicus___kmpc_atomic_", $name, "_swp"))]
            unsafe extern "C-unwind" fn swap(_location: Location, _thread: i32, at: *mut $type, value: $type) -> $type {
                // SAFETY: rule "Interface": a variable of this type, changed by atomic updates alone.
                unsafe { <$type as Number>::change(at, |_| value).0 }
            }

        };
        core::arch::global_asm!(
                concat!(".symver vicus___kmpc_atomic_", $name, "_rd, __kmpc_atomic_", $name, "_rd@@VERSION"),
                concat!(".symver vicus___kmpc_atomic_", $name, "_wr, __kmpc_atomic_", $name, "_wr@@VERSION"),
                concat!(".symver vicus___kmpc_atomic_", $name, "_swp, __kmpc_atomic_", $name, "_swp@@VERSION"),
        );)*
    };
}

accesses! {
    i8, "fixed1";
    i16, "fixed2";
    i32, "fixed4";
    i64, "fixed8";
    f32, "float4";
    f64, "float8";
    Complex<f64>, "cmplx8";
}

exports! {
    "VERSION":
    fn __kmpc_atomic_cmplx4_rd(_location: Location, _thread: i32, at: *mut Complex<f32>) -> Complex<f32> {
        // SAFETY: rule "Interface": a variable of this type, changed by atomic updates alone.
        unsafe { Complex::change(at, same).0 }
    }

    "VERSION":
    fn __kmpc_atomic_cmplx4_wr(_location: Location, _thread: i32, at: *mut Complex<f32>, value: Complex<f32>) {
        // SAFETY: rule "Interface": a variable of this type, changed by atomic updates alone.
        unsafe { Complex::change(at, |_| value) };
    }

    "VERSION":
    fn __kmpc_atomic_cmplx4_swp(
        _location: Location, _thread: i32, at: *mut Complex<f32>, value: Complex<f32>, to: *mut Complex<f32>,
    ) {
        // SAFETY: rule "Interface": a variable of this type, changed by atomic updates alone, and a place for its
        // value.
        unsafe { *to = Complex::change(at, |_| value).0 };
    }
}

macro_rules! whole {
    ($($signed:ty, $name:literal, $unsigned:ty, $unsigned_name:literal;)*) => {
        updates! {$(
            $signed, $name:
                "add" "add_cpt" => |a, b| a.wrapping_add(b),
                "sub" "sub_cpt" => |a, b| a.wrapping_sub(b),
                "sub_rev" "sub_cpt_rev" => |a, b| b.wrapping_sub(a),
                "mul" "mul_cpt" => |a, b| a.wrapping_mul(b),
                "div" "div_cpt" => |a, b| a.wrapping_div(b),
                "div_rev" "div_cpt_rev" => |a, b| b.wrapping_div(a),
                "andb" "andb_cpt" => |a, b| a & b,
                "orb" "orb_cpt" => |a, b| a | b,
                "xor" "xor_cpt" => |a, b| a ^ b,
                "shl" "shl_cpt" => |a, b| a.wrapping_shl(b as u32),
                "shl_rev" "shl_cpt_rev" => |a, b| b.wrapping_shl(a as u32),
                "shr" "shr_cpt" => |a, b| a.wrapping_shr(b as u32),
                "shr_rev" "shr_cpt_rev" => |a, b| b.wrapping_shr(a as u32),
                "andl" "andl_cpt" => |a, b| <$signed>::from(a != 0 && b != 0),
                "orl" "orl_cpt" => |a, b| <$signed>::from(a != 0 || b != 0),
                "eqv" "eqv_cpt" => |a, b| a ^ !b,
                "neqv" "neqv_cpt" => |a, b| a ^ b,
                "min" "min_cpt" => |a, b| a.min(b),
                "max" "max_cpt" => |a, b| a.max(b);
            $unsigned, $unsigned_name:
                "div" "div_cpt" => |a, b| a / b,
                "div_rev" "div_cpt_rev" => |a, b| b / a,
                "shr" "shr_cpt" => |a, b| a.wrapping_shr(b as u32),
                "shr_rev" "shr_cpt_rev" => |a, b| b.wrapping_shr(a as u32);
        )*}
    };
}

whole! {
    i8, "fixed1", u8, "fixed1u";
    i16, "fixed2", u16, "fixed2u";
    i32, "fixed4", u32, "fixed4u";
    i64, "fixed8", u64, "fixed8u";
}

updates! {
    f32, "float4":
        "add" "add_cpt" => |a, b| a + b, "sub" "sub_cpt" => |a, b| a - b, "sub_rev" "sub_cpt_rev" => |a, b| b - a,
        "mul" "mul_cpt" => |a, b| a * b,
        "div" "div_cpt" => |a, b| a / b, "div_rev" "div_cpt_rev" => |a, b| b / a, "min" "min_cpt" => |a, b| a.min(b),
        "max" "max_cpt" => |a, b| a.max(b);
    f64, "float8":
        "add" "add_cpt" => |a, b| a + b, "sub" "sub_cpt" => |a, b| a - b, "sub_rev" "sub_cpt_rev" => |a, b| b - a,
        "mul" "mul_cpt" => |a, b| a * b,
        "div" "div_cpt" => |a, b| a / b, "div_rev" "div_cpt_rev" => |a, b| b / a, "min" "min_cpt" => |a, b| a.min(b),
        "max" "max_cpt" => |a, b| a.max(b);
    Complex<f64>, "cmplx8":
        "add" "add_cpt" => |a, b| a.add(b), "sub" "sub_cpt" => |a, b| a.sub(b),
        "sub_rev" "sub_cpt_rev" => |a, b| b.sub(a), "mul" "mul_cpt" => |a, b| a.mul(b),
        "div" "div_cpt" => |a, b| a.div(b), "div_rev" "div_cpt_rev" => |a, b| b.div(a);
}

/// For complex numbers of two floats, the captured value goes to the address of an argument.
macro_rules! short_complex {
    ($($operation:literal $capture:literal => |$left:ident, $right:ident| $value:expr;)*) => {
        $(const _: () = {
            #[unsafe(export_name = concat!("vicus___kmpc_atomic_cmplx4_", $operation))]
            unsafe extern "C-unwind" fn update(
                _location: Location, _thread: i32, at: *mut Complex<f32>, $right: Complex<f32>,
            ) {
                // SAFETY: rule "Interface": a variable of this type, changed by atomic updates alone.
                unsafe { Complex::<f32>::change(at, |$left| $value) };
            }

            #[unsafe(export_name = concat!("vicus___kmpc_atomic_cmplx4_", $capture))]
            unsafe extern "C-unwind" fn capture(
                _location: Location, _thread: i32, at: *mut Complex<f32>, $right: Complex<f32>, to: *mut Complex<f32>,
                is_new: i32,
            ) {
                // SAFETY: rule "Interface": a variable of this type, changed by atomic updates alone, and a place for
                // its value.
                unsafe {
                    let (before, now) = Complex::<f32>::change(at, |$left| $value);
                    *to = if is_new != 0 { now } else { before };
                }
            }

        };
        core::arch::global_asm!(
                concat!(".symver vicus___kmpc_atomic_cmplx4_", $operation, ", __kmpc_atomic_cmplx4_", $operation,
                    "@@VERSION"),
                concat!(".symver vicus___kmpc_atomic_cmplx4_", $capture, ", __kmpc_atomic_cmplx4_", $capture,
                    "@@VERSION"),
        );)*
    };
}

short_complex! {
    "add" "add_cpt" => |a, b| a.add(b);
    "sub" "sub_cpt" => |a, b| a.sub(b);
    "sub_rev" "sub_cpt_rev" => |a, b| b.sub(a);
    "mul" "mul_cpt" => |a, b| a.mul(b);
    "div" "div_cpt" => |a, b| a.div(b);
    "div_rev" "div_cpt_rev" => |a, b| b.div(a);
}

/// Functions to change a variable by a value of a wider type: the result is computed in the wider type.
macro_rules! mixed {
    ($($type:ty, $name:literal, $wide:ty, $wide_name:literal:
        $($operation:literal => |$left:ident, $right:ident| $value:expr),*;)*) => {
        $($(const _: () = {
            #[unsafe(export_name = concat!("vicus___kmpc_atomic_", $name, "_", $operation, "_", $wide_name))]
            unsafe extern "C-unwind" fn update(_location: Location, _thread: i32, at: *mut $type, $right: $wide) {
                // SAFETY: rule "Interface": a variable of this type, changed by atomic updates alone.
                unsafe { <$type as Number>::change(at, |$left| $value) };
            }
        };
        core::arch::global_asm!(
            concat!(
                ".symver vicus___kmpc_atomic_", $name, "_", $operation, "_", $wide_name,
                ", __kmpc_atomic_", $name, "_", $operation, "_", $wide_name, "@@VERSION"
            ),
        );)*)*
    };
}

impl Complex<f32> {
    fn wide(self) -> Complex<f64> {
        Complex(self.0.into(), self.1.into())
    }
}

impl Complex<f64> {
    fn narrow(self) -> Complex<f32> {
        Complex(self.0 as f32, self.1 as f32)
    }
}

mixed! {
    i8, "fixed1", f64, "float8": "mul" => |a, b| (f64::from(a) * b) as i8, "div" => |a, b| (f64::from(a) / b) as i8;
    i16, "fixed2", f64, "float8": "mul" => |a, b| (f64::from(a) * b) as i16, "div" => |a, b| (f64::from(a) / b) as i16;
    i32, "fixed4", f64, "float8": "mul" => |a, b| (f64::from(a) * b) as i32, "div" => |a, b| (f64::from(a) / b) as i32;
    i64, "fixed8", f64, "float8": "mul" => |a, b| (a as f64 * b) as i64, "div" => |a, b| (a as f64 / b) as i64;
    f32, "float4", f64, "float8":
        "add" => |a, b| (f64::from(a) + b) as f32, "sub" => |a, b| (f64::from(a) - b) as f32,
        "mul" => |a, b| (f64::from(a) * b) as f32, "div" => |a, b| (f64::from(a) / b) as f32;
    Complex<f32>, "cmplx4", Complex<f64>, "cmplx8":
        "add" => |a, b| a.wide().add(b).narrow(), "sub" => |a, b| a.wide().sub(b).narrow(),
        "mul" => |a, b| a.wide().mul(b).narrow(), "div" => |a, b| a.wide().div(b).narrow();
}

/// Functions to change a variable if it has a given value, by the number of its bytes.
macro_rules! exchanges {
    ($($type:ty, $atomic:ty, $if_was:ident $was:ident $if_was_and:ident $was_and:ident;)*) => {
        $(impl Exchanged for $type {
            unsafe fn exchange(at: *mut $type, expected: $type, value: $type) -> $type {
                if !at.is_aligned() {
                    // SAFETY: the caller's promise.
                    return unsafe { alone(at, |before| if before == expected { value } else { before }).0 };
                }
                // SAFETY: the caller's promise: a variable of this type, changed atomically alone; it is aligned.
                let word = unsafe { <$atomic>::from_ptr(at.cast()) };
                let (Ok(before) | Err(before)) =
                    word.compare_exchange(expected, value, Ordering::SeqCst, Ordering::SeqCst);
                before
            }
        })*

        exports! {$(
            "VERSION":
            /// Whether it had the value.
            fn $if_was(_location: Location, _thread: i32, at: *mut $type, expected: $type, value: $type) -> bool {
                // SAFETY: rule "Interface": a variable of this type, changed by atomic updates alone.
                unsafe { <$type>::exchange(at, expected, value) == expected }
            }

            "VERSION":
            /// Returns the value before.
            fn $was(_location: Location, _thread: i32, at: *mut $type, expected: $type, value: $type) -> $type {
                // SAFETY: rule "Interface": a variable of this type, changed by atomic updates alone.
                unsafe { <$type>::exchange(at, expected, value) }
            }

            "VERSION":
            /// Whether it had the value; otherwise its own goes to `to`.
            fn $if_was_and(
                _location: Location, _thread: i32, at: *mut $type, expected: $type, value: $type, to: *mut $type,
            ) -> bool {
                // SAFETY: rule "Interface": a variable of this type, changed by atomic updates alone.
                let before = unsafe { <$type>::exchange(at, expected, value) };
                if before != expected {
                    // SAFETY: rule "Interface": the place can be written.
                    unsafe { *to = before };
                }
                before == expected
            }

            "VERSION":
            /// Returns the value before; the value after goes to `to`.
            fn $was_and(
                _location: Location, _thread: i32, at: *mut $type, expected: $type, value: $type, to: *mut $type,
            ) -> $type {
                // SAFETY: rule "Interface": a variable of this type, changed by atomic updates alone.
                let before = unsafe { <$type>::exchange(at, expected, value) };
                // SAFETY: rule "Interface": the place can be written.
                unsafe { *to = if before == expected { value } else { before } };
                before
            }
        )*}
    };
}

trait Exchanged: Sized {
    /// Returns the value before.
    ///
    /// # Safety
    /// The rules of [`Number::change`].
    unsafe fn exchange(at: *mut Self, expected: Self, value: Self) -> Self;
}

exchanges! {
    i8, AtomicI8, __kmpc_atomic_bool_1_cas __kmpc_atomic_val_1_cas
        __kmpc_atomic_bool_1_cas_cpt __kmpc_atomic_val_1_cas_cpt;
    i16, AtomicI16, __kmpc_atomic_bool_2_cas __kmpc_atomic_val_2_cas
        __kmpc_atomic_bool_2_cas_cpt __kmpc_atomic_val_2_cas_cpt;
    i32, AtomicI32, __kmpc_atomic_bool_4_cas __kmpc_atomic_val_4_cas
        __kmpc_atomic_bool_4_cas_cpt __kmpc_atomic_val_4_cas_cpt;
    i64, AtomicI64, __kmpc_atomic_bool_8_cas __kmpc_atomic_val_8_cas
        __kmpc_atomic_bool_8_cas_cpt __kmpc_atomic_val_8_cas_cpt;
}

/// The program's function of a result, the variable's value and another one.
type Compute = unsafe extern "C-unwind" fn(*mut u8, *mut u8, *mut u8);

/// Functions to change a variable of a given size by a function of the program.
macro_rules! computed {
    ($($type:ty, $name:ident;)*) => {
        exports! {$(
            "VERSION":
            fn $name(_location: Location, _thread: i32, at: *mut $type, right: *mut u8, compute: Compute) {
                // SAFETY: rule "Interface": a variable of this size, changed by atomic updates alone. The program's
                // function reads two values of the type, and writes one.
                unsafe {
                    <$type>::change(at, |mut left| {
                        let mut result = left;
                        compute((&raw mut result).cast(), (&raw mut left).cast(), right);
                        result
                    });
                }
            }
        )*}
    };
}

computed! {
    i8, __kmpc_atomic_1;
    i16, __kmpc_atomic_2;
    i32, __kmpc_atomic_4;
    i64, __kmpc_atomic_8;
}

/// The variant for variables larger than a word: changed in place, under the lock.
macro_rules! computed_in_place {
    ($($name:ident)*) => {
        exports! {$(
            "VERSION":
            fn $name(_location: Location, _thread: i32, at: *mut u8, right: *mut u8, compute: Compute) {
                // SAFETY: rule "Interface": the program's function for this variable, which all others change under
                // this lock as well.
                ATOMIC.with(|| unsafe { compute(at, at, right) });
            }
        )*}
    };
}

computed_in_place! { __kmpc_atomic_10 __kmpc_atomic_16 __kmpc_atomic_20 __kmpc_atomic_32 }
