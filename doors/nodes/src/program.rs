//! Kinds of boxes that are functions and frames of the program that begins a network. A node has to know them, as all
//! processes make the same boxes of a text, and most nodes run none of them.

use vicus_network::{BoxSpec, KindError, Kinds, ParameterType, Ports};

/// The kind of a box that is a function in Python.
pub const PYTHON: &str = "python";

/// The kind of a box that sends the rows of a frame.
pub const FRAME: &str = "frame";

/// Adds the kinds of programs in Python as such that run in no other process: `python` and `frame`. The program itself
/// adds its own in their place.
///
/// ```
/// use vicus_network::Kinds;
///
/// let mut kinds = Kinds::library();
/// vicus_nodes::add_program_kinds(&mut kinds);
/// assert!(kinds.get(vicus_nodes::PYTHON).is_some());
/// ```
pub fn add_program_kinds(kinds: &mut Kinds) {
    let absent = |name: &'static str, inputs, what: &'static str| {
        BoxSpec::new(name, "Runs in a program in Python.")
            .ports(Ports::Exactly(inputs), Ports::Exactly(1))
            .required("of", ParameterType::Text, "Its name there.")
            .builds(move |_| Err(KindError::new(what)))
            .local()
    };
    kinds.add(absent(PYTHON, 1, "a function in Python runs in Python: this node is none (`vicus.Node` is)"));
    kinds.add(absent(FRAME, 0, "a frame is in the program that began the network: leave out its `on node`"));
}
