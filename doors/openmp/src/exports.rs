//! The names of exported functions, each with its versions.

/// Defines functions for programs to call. Before each stand the versions of its name: a program of gcc asks for a
/// version of `GOMP_*` and `OMP_*`, one of clang for `VERSION`. A new program is linked with the first one.
///
/// The function itself is named `vicus_` and its name. The assembler makes the versioned names of it, and can do so in
/// the defining object file alone; so this crate is compiled in one piece.
macro_rules! exports {
    ($(
        $node:literal $(, $more:literal)*:
        $(#[$attribute:meta])*
        fn $name:ident ( $($argument:ident : $type:ty),* $(,)? ) $(-> $result:ty)? $body:block
    )*) => {$(
        $(#[$attribute])*
        #[allow(non_snake_case, reason = "its name is given")]
        #[allow(clippy::too_many_arguments, reason = "its signature is given")]
        #[unsafe(export_name = concat!("vicus_", stringify!($name)))]
        pub(crate) unsafe extern "C-unwind" fn $name($($argument: $type),*) $(-> $result)? $body
        core::arch::global_asm!(
            concat!(".symver vicus_", stringify!($name), ", ", stringify!($name), "@@", $node),
            $(concat!(".symver vicus_", stringify!($name), ", ", stringify!($name), "@", $more),)*
        );
    )*};
}

/// The variant for functions with a use for their caller's address. The address behind the call is in
/// [`crate::thread::Thread::caller`] when the function begins, if the calling thread is known by then: a few
/// instructions before it put it there.
#[cfg(target_arch = "x86_64")]
macro_rules! exports_from {
    ($(
        $node:literal $(, $more:literal)*:
        fn $name:ident ( $($argument:ident : $type:ty),* $(,)? ) $(-> $result:ty)? $body:block
    )*) => {$(
        #[allow(non_snake_case, reason = "its name is given")]
        #[allow(clippy::too_many_arguments, reason = "its signature is given")]
        pub(crate) unsafe extern "C-unwind" fn $name($($argument: $type),*) $(-> $result)? $body
        const _: () = {
            #[unsafe(naked)]
            #[unsafe(export_name = concat!("vicus_", stringify!($name)))]
            unsafe extern "C-unwind" fn noted() {
                core::arch::naked_asm!(
                    "mov rax, qword ptr [rip + vicus_omp_thread@GOTTPOFF]",
                    "mov rax, qword ptr fs:[rax]",
                    "test rax, rax",
                    "je 2f",
                    "mov r11, qword ptr [rsp]",
                    "mov qword ptr [rax + {caller}], r11",
                    "2:",
                    "jmp {function}",
                    caller = const std::mem::offset_of!(crate::thread::Thread, sharing.caller),
                    function = sym $name,
                )
            }
        };
        core::arch::global_asm!(
            concat!(".symver vicus_", stringify!($name), ", ", stringify!($name), "@@", $node),
            $(concat!(".symver vicus_", stringify!($name), ", ", stringify!($name), "@", $more),)*
        );
    )*};
}

/// The caller's address is not known here.
#[cfg(not(target_arch = "x86_64"))]
macro_rules! exports_from {
    ($($all:tt)*) => { exports! { $($all)* } };
}

pub(crate) use {exports, exports_from};
