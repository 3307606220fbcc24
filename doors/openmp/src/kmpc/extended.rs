//! Atomic updates of `long double` and its complex numbers. x86 computes them on a stack of registers, and Rust has no
//! type for them. Arguments of these types lie in memory behind the return address, and results on that stack; so a few
//! instructions stand around each function.

use super::atomics::alone;
use core::arch::{asm, naked_asm};

/// A `long double`: ten bytes, and six of padding.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(16))]
struct Extended([u8; 16]);

/// Two of them to one: `$steps` has `left` in st(0) and `right` in st(1), and leaves the result in st(0).
macro_rules! computes {
    ($name:ident, $($steps:literal),*) => {
        fn $name(self, right: Extended) -> Extended {
            let mut result = self;
            // SAFETY: the instructions read two values of this function and write a third, of ten bytes each. They
            // leave the stack of registers as empty as it was.
            unsafe {
                asm!(
                    "fld tbyte ptr [{right}]",
                    "fld tbyte ptr [{left}]",
                    $($steps,)*
                    "fstp tbyte ptr [{result}]",
                    "fstp st(0)",
                    left = in(reg) &raw const self,
                    right = in(reg) &raw const right,
                    result = in(reg) &raw mut result,
                    out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                    out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
                    options(nostack),
                );
            }
            result
        }
    };
}

impl Extended {
    computes!(add, "fadd st(0), st(1)");
    computes!(sub, "fsub st(0), st(1)");
    computes!(mul, "fmul st(0), st(1)");
    computes!(div, "fdiv st(0), st(1)");
    // Takes the other operand if it is less, or greater; not if one of them is NaN.
    computes!(min, "fcomi st(0), st(1)", "jbe 2f", "fstp st(0)", "fld st(0)", "2:");
    computes!(max, "fcomi st(0), st(1)", "jae 2f", "jp 2f", "fstp st(0)", "fld st(0)", "2:");
}

#[derive(Clone, Copy)]
#[repr(C)]
struct Complex(Extended, Extended);

impl Complex {
    fn add(self, other: Complex) -> Complex {
        Complex(self.0.add(other.0), self.1.add(other.1))
    }

    fn sub(self, other: Complex) -> Complex {
        Complex(self.0.sub(other.0), self.1.sub(other.1))
    }

    fn mul(self, other: Complex) -> Complex {
        Complex(self.0.mul(other.0).sub(self.1.mul(other.1)), self.0.mul(other.1).add(self.1.mul(other.0)))
    }

    fn div(self, other: Complex) -> Complex {
        let size = other.0.mul(other.0).add(other.1.mul(other.1));
        Complex(
            self.0.mul(other.0).add(self.1.mul(other.1)).div(size),
            self.1.mul(other.0).sub(self.0.mul(other.1)).div(size),
        )
    }
}

/// Changes a variable under the lock, and stores the value before or after to `out`, unless `out` is null.
///
/// # Safety
/// The rules of [`alone`]; a value can be read from `right`, and written to `out`.
unsafe fn change<T: Copy>(at: *mut T, right: *const T, is_new: i32, out: *mut T, f: impl Fn(T, T) -> T) {
    // SAFETY: the caller's promise.
    unsafe {
        let right = right.read_unaligned();
        let (before, now) = alone(at, |left| f(left, right));
        if !out.is_null() {
            *out = if is_new != 0 { now } else { before };
        }
    }
}

/// Functions of the variable's address, in `rdx`, and of a value, behind the return address: they call `$change`, and
/// load a result, if they have one, by `$load`.
macro_rules! updates {
    ($type:ty, $name:literal, $load:literal: $($operation:literal $capture:literal => $f:expr;)*) => {
        $(const _: () = {
            unsafe extern "C" fn change_by(at: *mut $type, right: *const $type, is_new: i32, out: *mut $type) {
                // SAFETY: rule "Interface": the functions below pass the address of the variable, of the value behind
                // the return address, and of a place on their stack or null.
                unsafe { change(at, right, is_new, out, $f) };
            }

            #[unsafe(naked)]
            #[unsafe(export_name = concat!("vicus___kmpc_atomic_", $name, "_", $operation))]
            unsafe extern "C" fn update() {
                naked_asm!(
                    "mov rdi, rdx",
                    "lea rsi, [rsp + 8]",
                    "xor edx, edx",
                    "xor ecx, ecx",
                    "jmp {change}",
                    change = sym change_by,
                )
            }

            #[unsafe(naked)]
            #[unsafe(export_name = concat!("vicus___kmpc_atomic_", $name, "_", $capture))]
            unsafe extern "C" fn capture() {
                naked_asm!(
                    "sub rsp, 40",
                    "mov rdi, rdx",
                    "lea rsi, [rsp + 48]",
                    "mov edx, ecx",
                    "mov rcx, rsp",
                    "call {change}",
                    $load,
                    "add rsp, 40",
                    "ret",
                    change = sym change_by,
                )
            }
        };
        core::arch::global_asm!(concat!(".symver vicus___kmpc_atomic_", $name, "_", $operation, ", __kmpc_atomic_",
            $name, "_", $operation, "@@VERSION"));
        core::arch::global_asm!(concat!(".symver vicus___kmpc_atomic_", $name, "_", $capture, ", __kmpc_atomic_",
            $name, "_", $capture, "@@VERSION"));)*
    };
}

/// Functions to read a variable, and to exchange its value for another; they return the value before.
macro_rules! accesses {
    ($type:ty, $name:literal, $load:literal) => {
        const _: () = {
            unsafe extern "C" fn take(at: *mut $type, out: *mut $type) {
                // SAFETY: rule "Interface": the function below passes the address of the variable, and of a place on
                // its stack.
                unsafe { *out = alone(at, |left| left).0 };
            }

            unsafe extern "C" fn put(at: *mut $type, right: *const $type, out: *mut $type) {
                // SAFETY: rule "Interface": the functions below pass the address of the variable, of the value behind
                // the return address, and of a place on their stack or null.
                unsafe { change(at, right, 0, out, |_, right| right) };
            }

            #[unsafe(naked)]
            #[unsafe(export_name = concat!("vicus___kmpc_atomic_", $name, "_rd"))]
            unsafe extern "C" fn read() {
                naked_asm!(
                    "sub rsp, 40",
                    "mov rdi, rdx",
                    "mov rsi, rsp",
                    "call {take}",
                    $load,
                    "add rsp, 40",
                    "ret",
                    take = sym take,
                )
            }

            #[unsafe(naked)]
            #[unsafe(export_name = concat!("vicus___kmpc_atomic_", $name, "_wr"))]
            unsafe extern "C" fn write() {
        naked_asm!("mov rdi, rdx", "lea rsi, [rsp + 8]", "xor edx, edx", "jmp {put}", put = sym put)
            }

            #[unsafe(naked)]
            #[unsafe(export_name = concat!("vicus___kmpc_atomic_", $name, "_swp"))]
            unsafe extern "C" fn swap() {
                naked_asm!(
                    "sub rsp, 40",
                    "mov rdi, rdx",
                    "lea rsi, [rsp + 48]",
                    "mov rdx, rsp",
                    "call {put}",
                    $load,
                    "add rsp, 40",
                    "ret",
                    put = sym put,
                )
            }
        };
        core::arch::global_asm!(concat!(
            ".symver vicus___kmpc_atomic_",
            $name,
            "_rd, __kmpc_atomic_",
            $name,
            "_rd@@VERSION"
        ));
        core::arch::global_asm!(concat!(
            ".symver vicus___kmpc_atomic_",
            $name,
            "_wr, __kmpc_atomic_",
            $name,
            "_wr@@VERSION"
        ));
        core::arch::global_asm!(concat!(
            ".symver vicus___kmpc_atomic_",
            $name,
            "_swp, __kmpc_atomic_",
            $name,
            "_swp@@VERSION"
        ));
    };
}

accesses!(Extended, "float10", "fld tbyte ptr [rsp]");
accesses!(Complex, "cmplx10", "fld tbyte ptr [rsp + 16]\n fld tbyte ptr [rsp]");

updates! {
    Extended, "float10", "fld tbyte ptr [rsp]":
    "add" "add_cpt" => Extended::add;
    "sub" "sub_cpt" => Extended::sub;
    "sub_rev" "sub_cpt_rev" => |left, right| right.sub(left);
    "mul" "mul_cpt" => Extended::mul;
    "div" "div_cpt" => Extended::div;
    "div_rev" "div_cpt_rev" => |left, right| right.div(left);
    "min" "min_cpt" => Extended::min;
    "max" "max_cpt" => Extended::max;
}

updates! {
    Complex, "cmplx10", "fld tbyte ptr [rsp + 16]\n fld tbyte ptr [rsp]":
    "add" "add_cpt" => Complex::add;
    "sub" "sub_cpt" => Complex::sub;
    "sub_rev" "sub_cpt_rev" => |left, right| right.sub(left);
    "mul" "mul_cpt" => Complex::mul;
    "div" "div_cpt" => Complex::div;
    "div_rev" "div_cpt_rev" => |left, right| right.div(left);
}
