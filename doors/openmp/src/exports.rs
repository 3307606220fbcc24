//! How functions get their names: each with the versions under which programs ask for it.

/// Defines functions that programs call. Before each stand the versions of its name: a program of gcc asks for those of `GOMP_*` and
/// `OMP_*`, one of clang for `VERSION`. The first is the one that a new program is linked with.
///
/// The function itself is named `vicus_` and its name. The assembler makes the versioned names of it, which works in the object file that
/// defines it alone; so this crate is compiled in one piece.
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

pub(crate) use exports;
