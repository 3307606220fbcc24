//! Figures of Muddukrishna et al. in two versions: after the paper's text, and after the programs and the runtime
//! published by its authors (MIR).

use vicus_kernels::{AnyKernel, Size, by_name};

/// The origin of a figure's kernels and strategies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    /// The paper's text, as far as it says.
    Text,
    /// The authors' repository if the two differ.
    Program,
}

/// The model's gap if vicinities make no difference to the authors' workers.
pub(super) const PAUSES: &str = "the run takes half a millisecond, in which a worker that has found nothing pauses for \
    up to 128 µs and is not woken, so hardly any task is \
                                 stolen";

impl After {
    /// A kernel of both versions. Its root of a float is emulated on a machine without floats, and map there is after
    /// the text.
    pub(super) fn kernel(self, name: &'static str, size: Size) -> AnyKernel {
        let kernel = by_name(name, size).expect("the kernel has such an input");
        let has_floats = name != "map" || size != Size::Manycore;
        if self == After::Program && has_floats { kernel.published() } else { kernel }
    }

    /// A strategy. In the authors' runtime, undealt tasks lie apart under footprint scheduling, nodes of equal cost
    /// have their turns, and workers pause for 1 to 128 µs and are never woken.
    pub(super) fn strategy(self, name: &str) -> String {
        const NEVER_WOKEN: &str = "wake=off,backoff_max_ns=128000";
        let beside = "undealt=beside";
        match (self, name.split_once(':')) {
            (After::Text, None) if name == "footprint" => format!("{name}:{beside},ties=first"),
            (After::Program, None) if name == "footprint" => format!("{name}:undealt=apart,{NEVER_WOKEN}"),
            (After::Text, Some(("vicinity", _))) => format!("{name},{beside}"),
            (After::Program, Some(("vicinity", _))) => format!("{name},{beside},{NEVER_WOKEN}"),
            _ => name.to_owned(),
        }
    }

    /// The first for the text, the second for the program.
    pub(super) fn choose<T>(self, text: T, program: T) -> T {
        match self {
            After::Text => text,
            After::Program => program,
        }
    }
}
