//! A network as its text describes it: boxes, vias, sub-networks and parameters.

use crate::error::Spot;
use crate::value::{ParameterType, ParameterValue, read_columns, write_columns};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use vicus_flow::Schema;

/// A network as data. It is read from a text by [`str::parse`] and printed as one; JSON with a version holds the same.
///
/// ```
/// use vicus_network::NetworkText;
///
/// let text: NetworkText = "box a = numbers(to: 3); box b = sink; a -> b;".parse()?;
/// let printed = text.to_string();
/// assert_eq!(printed, "box a = numbers(to: 3);\nbox b = sink;\na -> b;\n");
/// assert_eq!(printed.parse::<NetworkText>()?, text);
/// assert_eq!(NetworkText::from_json(&text.to_json())?, text);
/// # Ok::<(), vicus_network::NetworkError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NetworkText {
    /// Its parameters, set from outside.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<TextParameter>,
    /// The sub-networks that it can place as boxes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub networks: Vec<SubNetwork>,
    /// Its boxes and vias.
    #[serde(flatten)]
    pub body: Body,
    /// The text that it was read from, for errors; empty if it was not.
    #[serde(skip)]
    pub(crate) source: Source,
}

impl NetworkText {
    /// The files whose nodes run boxes (`on the nodes of "part.csv"`), each once.
    pub fn files_of_nodes(&self) -> Vec<&str> {
        let mut files: Vec<&str> = Vec::new();
        for one in self.networks.iter().map(|network| &network.body).chain([&self.body]).flat_map(|body| &body.boxes) {
            if let Some(OnNode::Of(file)) = &one.on {
                files.push(file);
            }
        }
        files.sort_unstable();
        files.dedup();
        files
    }

    /// The text with the nodes that have each of these files in their place.
    #[must_use]
    pub fn placed(&self, of: impl Fn(&str) -> Vec<usize>) -> NetworkText {
        let mut placed = self.clone();
        let bodies = placed.networks.iter_mut().map(|network| &mut network.body).chain([&mut placed.body]);
        for one in bodies.flat_map(|body| &mut body.boxes) {
            if let Some(OnNode::Of(file)) = &one.on {
                one.on = Some(OnNode::These(of(file)));
            }
        }
        placed
    }

    /// A network put together by a program. Its errors have no places; print and read it to get some.
    pub fn new(parameters: Vec<TextParameter>, networks: Vec<SubNetwork>, body: Body) -> NetworkText {
        NetworkText { parameters, networks, body, source: Source::default() }
    }
}

/// A text's source. All are equal, as spots are.
#[derive(Clone, Debug, Default)]
pub(crate) struct Source(pub(crate) String);

impl PartialEq for Source {
    fn eq(&self, _: &Source) -> bool {
        true
    }
}

/// A parameter of a network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TextParameter {
    /// Its name.
    pub name: String,
    /// The type of its values.
    #[serde(rename = "type")]
    pub kind: ParameterType,
    /// Its value if none is set; without one, it must be set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<ParameterValue>,
    /// Its place.
    #[serde(skip)]
    pub at: Spot,
}

/// A network that others place as a box.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SubNetwork {
    /// Its name: a kind of box.
    pub name: String,
    /// Its parameters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<TextParameter>,
    /// Its boxes and vias; `input` and `output` name its own ports.
    #[serde(flatten)]
    pub body: Body,
    /// Its place.
    #[serde(skip)]
    pub at: Spot,
}

/// Boxes, and the vias between them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Body {
    /// The boxes.
    #[serde(default)]
    pub boxes: Vec<BoxText>,
    /// The vias.
    #[serde(default)]
    pub vias: Vec<ViaText>,
}

/// A box, or a box in copies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BoxText {
    /// Its name.
    pub name: String,
    /// The name of its kind or sub-network.
    pub kind: String,
    /// Whether the kind belongs to one program, which adds it by a closure: other programs lack it.
    #[serde(default, rename = "local", skip_serializing_if = "std::ops::Not::not")]
    pub is_local: bool,
    /// The values of its parameters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<Argument>,
    /// The number of copies; one box if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copies: Option<ParameterValue>,
    /// The processes that run it, of a network over several; by default the one of the network around it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<OnNode>,
    /// The place of its name.
    #[serde(skip)]
    pub at: Spot,
    /// The place of its kind.
    #[serde(skip)]
    pub kind_at: Spot,
    /// The place of the number of copies.
    #[serde(skip)]
    pub copies_at: Spot,
    /// The place of its node.
    #[serde(skip)]
    pub on_at: Spot,
}

/// The processes that run a box: the nodes of a network over several machines.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnNode {
    /// A copy, or the given number of copies, on each node; in the process itself if it has no others.
    Each,
    /// The node of this number, from 1 on; 0 is the process that the network was begun in.
    One(ParameterValue),
    /// A copy, or the given number of copies, on each of these nodes.
    These(Vec<usize>),
    /// A copy, or the given number of copies, on each node that has this file. The process that begins the network asks
    /// them ([`NetworkText::placed`]); where none is asked, each may have it.
    Of(String),
}

/// The value of a box's parameter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Argument {
    /// The parameter.
    pub name: String,
    /// Its value.
    pub value: ParameterValue,
    /// The place of its name.
    #[serde(skip)]
    pub at: Spot,
    /// The place of its value.
    #[serde(skip)]
    pub value_at: Spot,
}

/// A via.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ViaText {
    /// The sender.
    pub from: PortText,
    /// The receiver.
    pub to: PortText,
    /// The columns that its envelopes must have, if it says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(serialize_with = "write_some", deserialize_with = "read_some")]
    pub columns: Option<Schema>,
    /// How many envelopes it keeps, if it drops the oldest in place of holding its sender up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep: Option<usize>,
    /// Whether each copy of the sender sends to each copy of the receiver: `a => b`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exchanges: bool,
}

fn write_some<S: Serializer>(schema: &Option<Schema>, to: S) -> Result<S::Ok, S::Error> {
    schema.as_ref().map_or_else(|| Err(serde::ser::Error::custom("it is left out")), |schema| write_columns(schema, to))
}

fn read_some<'d, D: Deserializer<'d>>(from: D) -> Result<Option<Schema>, D::Error> {
    read_columns(from).map(Some)
}

/// An output or input of a box.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PortText {
    /// The box, or `input` or `output` of the sub-network around.
    #[serde(rename = "box")]
    pub name: String,
    /// The number of the port, from 0. Without one, it is 0; of a kind with any number of ports it is the next one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<usize>,
    /// Its place.
    #[serde(skip)]
    pub at: Spot,
}
